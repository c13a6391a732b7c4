// SPDX-License-Identifier: Apache-2.0
//! Every name of a unit that the folders have, and what is behind it: a file, nothing (masked), or
//! another name (an alias).

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Files, Kind, base, resolve};
use crate::finding::{Finding, Findings, Position, Severity};
use crate::name::UnitName;

/// What a name means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A file.
    File(String),
    /// Nothing, on purpose: a link to `/dev/null`, or an empty file, at this path.
    Masked(String),
    /// Another unit: the link at `path` says so.
    Alias {
        /// The link.
        path: String,
        /// The unit.
        target: UnitName,
    },
}

/// How many aliases may lead to each other.
const MOST_ALIASES: usize = 10;
/// At most so many names are read.
const MOST_NAMES: usize = 100_000;

/// The names of all folders, read once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Catalog {
    /// The folders, first one first.
    pub folders: Vec<String>,
    names: BTreeMap<UnitName, Source>,
    /// What is wrong with links.
    pub findings: Findings,
}

/// A unit that a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Located {
    /// Its own name, which may be another one than was asked for.
    pub id: UnitName,
    /// All its names, its own too.
    pub names: BTreeSet<UnitName>,
    /// Its main file; `None` where only drop-ins or the type make it up.
    pub fragment: Option<String>,
    /// Where it is masked.
    pub masked: Option<String>,
}

impl Catalog {
    /// Reads the folders, of which the first one wins.
    pub fn read(files: &dyn Files, folders: &[&str]) -> Catalog {
        let mut catalog = Catalog {
            folders: folders.iter().map(|it| (*it).to_owned()).collect(),
            ..Catalog::default()
        };
        for folder in folders {
            let mut entries = files.list(folder);
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            for entry in entries {
                let Ok(name) = UnitName::parse(&entry.name) else {
                    continue;
                };
                if catalog.names.contains_key(&name) {
                    continue;
                }
                let path = format!("{folder}/{name}");
                if catalog.names.len() >= MOST_NAMES {
                    let message =
                        format!("is unit {MOST_NAMES} + 1; it and what follows is not read");
                    catalog.warn(path, message);
                    return catalog;
                }
                if let Some(source) = catalog.source(files, &name, path, entry.kind) {
                    catalog.names.insert(name, source);
                }
            }
        }
        catalog
    }

    fn source(
        &mut self,
        files: &dyn Files,
        name: &UnitName,
        path: String,
        kind: Kind,
    ) -> Option<Source> {
        match kind {
            Kind::Folder => None,
            Kind::File => Some(file(files, path)),
            Kind::Link(target) => {
                let leads_to = resolve(&path, &target);
                if leads_to == "/dev/null" {
                    return Some(Source::Masked(path));
                }
                let last = base(&leads_to);
                if last == name.as_str() {
                    return Some(file(files, path));
                }
                match UnitName::parse(last).and_then(|target| alias_of(name, target)) {
                    Ok(target) => Some(Source::Alias { path, target }),
                    Err(problem) => {
                        self.warn(path, format!("{problem}; the link is ignored"));
                        None
                    }
                }
            }
        }
    }

    fn warn(&mut self, path: String, message: String) {
        self.findings.push(Finding {
            severity: Severity::Warning,
            path,
            at: Position::default(),
            subject: String::new(),
            message,
        });
    }

    /// What a name means by itself, its template and its aliases aside.
    pub fn source_of(&self, name: &UnitName) -> Option<&Source> {
        self.names.get(name)
    }

    /// Every name, in order.
    pub fn names(&self) -> impl Iterator<Item = (&UnitName, &Source)> {
        self.names.iter()
    }

    /// The unit that a name means. `None`: no file has that name, nor one of its template's.
    pub fn locate(&self, name: &UnitName) -> Option<Located> {
        let mut id = name.clone();
        for _ in 0..MOST_ALIASES {
            let by_template = || self.names.get(&id.template()?);
            let source = self.names.get(&id).or_else(by_template)?;
            let (fragment, masked) = match source {
                Source::File(path) => (Some(path.clone()), None),
                Source::Masked(path) => (None, Some(path.clone())),
                Source::Alias { target, .. } => {
                    let instance = id.instance().unwrap_or("");
                    id = match target.is_template() {
                        true => target.instantiated(instance)?,
                        false => target.clone(),
                    };
                    continue;
                }
            };
            let names = self.aliases(&id);
            return Some(Located {
                names,
                id,
                fragment,
                masked,
            });
        }
        None
    }

    /// The names that lead to a unit, and its own.
    fn aliases(&self, id: &UnitName) -> BTreeSet<UnitName> {
        let mut names = BTreeSet::from([id.clone()]);
        // Once more for each alias of an alias.
        for _ in 0..MOST_ALIASES {
            let before = names.len();
            for (name, source) in &self.names {
                let Source::Alias { target, .. } = source else {
                    continue;
                };
                if names.contains(target) {
                    names.insert(name.clone());
                }
                if target.is_template() && name.is_template() {
                    let instance = id.instance().unwrap_or("");
                    let same = target.instantiated(instance);
                    if same.is_some_and(|it| names.contains(&it)) {
                        names.extend(name.instantiated(instance));
                    }
                }
            }
            if names.len() == before {
                break;
            }
        }
        names
    }
}

/// An empty file masks, too.
fn file(files: &dyn Files, path: String) -> Source {
    match files.read(&path) {
        Ok(Some(bytes)) if bytes.is_empty() => Source::Masked(path),
        // A file that is gone or can't be read is told when it is loaded.
        _ => Source::File(path),
    }
}

/// Whether a unit may have `name` as another name (systemd.unit(5), `Alias=`): of the same type,
/// plain for plain, template or instance for template or instance.
///
/// # Errors
/// Why it can't, as a sentence.
pub fn alias_of(name: &UnitName, target: UnitName) -> Result<UnitName, String> {
    if name.kind() != target.kind() {
        return Err(format!(
            "{name} can't be another name of {target}, which has another type"
        ));
    }
    match (name.instance(), target.instance()) {
        (None, None) => Ok(target),
        (Some(""), Some("")) => Ok(target),
        (Some(one), Some(other)) if !one.is_empty() && (other.is_empty() || one == other) => {
            Ok(target)
        }
        _ => Err(format!(
            "{name} can't be another name of {target}: a template's is a template, an instance's \
             has the same instance"
        )),
    }
}
