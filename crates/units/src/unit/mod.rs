// SPDX-License-Identifier: Apache-2.0
//! One unit, put together: its file, then its drop-ins, each assignment applied to what came
//! before. What is wrong is a finding; the rest is there.

mod settings;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::calendar::Zones;
use crate::files::Files;
use crate::finding::{Finding, Findings, Position, Severity};
use crate::load::catalog::{Catalog, Located};
use crate::load::dropins::{self, Link};
use crate::name::{UnitName, UnitType, unescape_path};
use crate::specifier::{Context, Host};
use crate::syntax::{self, Assignment};
use crate::table;
use crate::value::{Outcome, Task, parse};
pub use settings::{Install, Origin, Setting, Settings};

/// A unit as its files have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// Its name.
    pub id: UnitName,
    /// All its names, its own too.
    pub names: BTreeSet<UnitName>,
    /// Its main file.
    pub fragment: Option<String>,
    /// Its drop-ins, in the order in which they were applied.
    pub dropins: Vec<String>,
    /// Where it is masked; then it has no settings.
    pub masked: Option<String>,
    /// What it says.
    pub settings: Settings,
    /// The links in its `.wants` folders.
    pub wants: Vec<Link>,
    /// The links in its `.requires` folders.
    pub requires: Vec<Link>,
    /// The links in its `.upholds` folders.
    pub upholds: Vec<Link>,
    /// What is to be said of its files.
    pub findings: Findings,
}

impl Unit {
    /// The type.
    pub fn kind(&self) -> UnitType {
        self.id.kind()
    }

    /// Its description; that of a slice without one says where it is among slices, as systemd has
    /// it: `Slice /a/b` of `a-b.slice`.
    pub fn description(&self) -> Cow<'_, str> {
        match self.settings.text("Description") {
            Some(words) => Cow::Borrowed(words),
            None if self.kind() == UnitType::Slice => slice(&self.id),
            None => Cow::Borrowed(""),
        }
    }

    /// The `[Install]` section.
    pub fn install(&self) -> Install {
        Install::of(&self.settings)
    }
}

fn slice(name: &UnitName) -> Cow<'static, str> {
    match name.stem() {
        "-" => Cow::Borrowed("Root Slice"),
        "system" => Cow::Borrowed("System Slice"),
        stem => {
            unescape_path(stem).map_or(Cow::Borrowed(""), |path| format!("Slice {path}").into())
        }
    }
}

/// Loads units of one machine.
#[derive(Clone, Copy)]
pub struct Loader<'a> {
    /// Its files.
    pub files: &'a dyn Files,
    /// Its units' names.
    pub catalog: &'a Catalog,
    /// What specifiers stand for.
    pub host: &'a dyn Host,
    /// Its zones.
    pub zones: &'a dyn Zones,
}

impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Loader")
    }
}

impl Loader<'_> {
    /// Loads the unit that a name means. `None`: there is none. Devices, slices and scopes need no
    /// file; a template is loaded as it is, to be looked at.
    pub fn load(&self, name: &UnitName) -> Option<Unit> {
        Some(self.read(self.outline(name)?))
    }

    /// What makes up the unit that a name means, and is in no file: its names, its files and the
    /// links beside it. It has no settings yet.
    pub fn outline(&self, name: &UnitName) -> Option<Unit> {
        let located = match self.catalog.locate(name) {
            Some(located) => located,
            None if name.kind().needs_no_file() => Located {
                id: name.clone(),
                names: BTreeSet::from([name.clone()]),
                fragment: None,
                masked: None,
            },
            None => return None,
        };
        let names = &located.names;
        let links = |suffix| dropins::links(self.files, self.catalog, names, suffix);
        let dropins = match &located.masked {
            Some(_) => Vec::new(),
            None => dropins::find(self.files, self.catalog, names),
        };
        Some(Unit {
            wants: links("wants"),
            requires: links("requires"),
            upholds: links("upholds"),
            dropins,
            id: located.id,
            names: located.names,
            fragment: located.fragment,
            masked: located.masked,
            settings: Settings::default(),
            findings: Findings::default(),
        })
    }

    /// The unit of an outline: its files are read.
    pub fn read(&self, mut unit: Unit) -> Unit {
        let paths: Vec<String> = unit.fragment.iter().chain(&unit.dropins).cloned().collect();
        for path in paths {
            match self.files.read(&path) {
                Ok(Some(bytes)) => apply(&mut unit, &path, &bytes, self.host, self.zones),
                Ok(None) => say(&mut unit, &path, Severity::Error, "is gone".to_owned()),
                Err(problem) => say(&mut unit, &path, Severity::Error, problem.0),
            }
        }
        unit
    }
}

/// Puts a unit together from texts alone: the main file first, then drop-ins.
pub fn from_texts(
    name: &UnitName,
    texts: &[(&str, &[u8])],
    host: &dyn Host,
    zones: &dyn Zones,
) -> Unit {
    let mut unit = Unit {
        id: name.clone(),
        names: BTreeSet::from([name.clone()]),
        fragment: texts.first().map(|(path, _)| (*path).to_owned()),
        dropins: texts
            .iter()
            .skip(1)
            .map(|(path, _)| (*path).to_owned())
            .collect(),
        masked: None,
        settings: Settings::default(),
        wants: Vec::new(),
        requires: Vec::new(),
        upholds: Vec::new(),
        findings: Findings::default(),
    };
    for (path, bytes) in texts {
        apply(&mut unit, path, bytes, host, zones);
    }
    unit
}

fn say(unit: &mut Unit, path: &str, severity: Severity, message: String) {
    unit.findings.push(Finding {
        severity,
        path: path.to_owned(),
        at: Position::default(),
        subject: String::new(),
        message,
    });
}

fn apply(unit: &mut Unit, path: &str, bytes: &[u8], host: &dyn Host, zones: &dyn Zones) {
    let document = syntax::parse(path, bytes, &mut unit.findings);
    for (section, at) in &document.sections {
        if !table::has_section(unit.kind(), section) && !section.starts_with("X-") {
            let kind = unit.kind();
            unit.findings.push(Finding {
                severity: Severity::Warning,
                path: path.to_owned(),
                at: *at,
                subject: section.clone(),
                message: format!("a {kind} unit has no such section; it is ignored"),
            });
        }
    }
    for assignment in &document.assignments {
        if table::has_section(unit.kind(), &assignment.section) {
            assign(unit, path, assignment, host, zones);
        }
    }
}

/// Applies one assignment.
fn assign(unit: &mut Unit, path: &str, line: &Assignment, host: &dyn Host, zones: &dyn Zones) {
    if line.key.starts_with("X-") {
        return;
    }
    let mut report = |severity, at, message| {
        let (path, subject) = (path.to_owned(), line.subject());
        unit.findings.push(Finding {
            severity,
            path,
            at,
            subject,
            message,
        });
    };
    let Some((_, row)) = table::find(&line.section, &line.key) else {
        let hint = match nearest(&line.section, &line.key) {
            Some(name) => format!("; did you mean `{name}`?"),
            None => String::new(),
        };
        let message = format!("systemd 252 has no such directive; it is ignored{hint}");
        return report(Severity::Warning, line.at, message);
    };
    let fragment = unit.fragment.clone();
    let context = Context {
        name: &unit.id,
        fragment: fragment.as_deref(),
        host,
    };
    let old = unit.settings.get(row.field);
    let task = Task {
        name: row.name,
        kind: row.kind,
        context,
        zones,
        old,
    };
    let parsed = parse(task, &line.value);
    for (offset, message) in parsed.notes {
        report(Severity::Warning, line.position(offset), message);
    }
    let origin = Origin {
        path: path.to_owned(),
        at: line.at,
        directive: row.name,
    };
    match parsed.outcome {
        Outcome::Set(value) => unit.settings.set(row.field, value, origin),
        Outcome::Reset => unit.settings.reset(row.field),
        Outcome::Ignore(offset, message) => {
            let message = format!("{message}; the line is ignored");
            report(Severity::Warning, line.position(offset), message);
        }
        Outcome::Fail(offset, message) => {
            report(
                Severity::Error,
                line.position(offset),
                format!("{message}; the unit is not used"),
            );
        }
    }
}

/// The directive that was probably meant: the same but for case, or in another section.
fn nearest(section: &str, name: &str) -> Option<String> {
    let same = |(_, row): &(table::Group, &table::Directive)| row.name.eq_ignore_ascii_case(name);
    let mut found: Vec<_> = table::all().filter(same).collect();
    found.sort_by_key(|(group, _)| !group.sections().contains(&section));
    let (group, row) = found.first()?;
    if group.sections().contains(&section) {
        return Some(row.name.to_owned());
    }
    Some(format!("{} of [{}]", row.name, group.sections().first()?))
}
