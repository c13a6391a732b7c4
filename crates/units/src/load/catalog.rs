// SPDX-License-Identifier: Apache-2.0
//! Every name of a unit that the folders have, and what is behind it: a file, nothing (masked), or
//! another name (an alias); and the folders beside units (`NAME.d`, `NAME.wants`). Each folder is
//! listed once; what is asked afterwards is looked up, however many units there are.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Files, Kind, Stamp, base, resolve};
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
    /// The names that are links to a unit.
    aliases: BTreeMap<UnitName, Vec<UnitName>>,
    /// Folders beside units, `ssh.service.d`: in which of `folders` there is one.
    beside: BTreeMap<String, Vec<usize>>,
    /// The folders as they were when they were listed.
    stamps: Vec<Option<Stamp>>,
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
        for (index, folder) in folders.iter().enumerate() {
            // Before it is listed: what comes meanwhile makes it another.
            catalog.stamps.push(files.stamp(folder));
            let mut entries = files.list(folder);
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            for entry in entries {
                if entry.kind != Kind::File && is_beside(&entry.name) {
                    catalog.beside.entry(entry.name).or_default().push(index);
                    continue;
                }
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
                    if let Source::Alias { target, .. } = &source {
                        let aliases = catalog.aliases.entry(target.clone()).or_default();
                        aliases.push(name.clone());
                    }
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
                // Of a file elsewhere the link's name counts, and no other (systemctl(1), `link`).
                let is_linked = !self.is_in_a_folder(&leads_to);
                if is_linked || last == name.as_str() {
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

    /// Whether a path is one of a unit that the folders have.
    fn is_in_a_folder(&self, path: &str) -> bool {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.folders.iter().any(|it| it == folder)
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

    /// Whether the folders are as they were when they were listed: nothing has come or gone.
    pub fn is_current(&self, files: &dyn Files) -> bool {
        let mut stamps = self.folders.iter().zip(&self.stamps);
        stamps.all(|(folder, was)| match (was, files.stamp(folder)) {
            (Some(was), Some(is)) => was.holds(&is),
            (None, None) => true,
            _ => false,
        })
    }

    /// The folders of that name beside units, with their places in the load path.
    pub fn beside(&self, name: &str) -> impl Iterator<Item = (usize, String)> {
        let found = self.beside.get(name).into_iter().flatten();
        found.filter_map(move |index| {
            let folder = self.folders.get(*index)?;
            Some((*index, format!("{folder}/{name}")))
        })
    }

    /// What is behind a name, and the name of its own that this has.
    fn resolved(&self, name: &UnitName) -> Option<(UnitName, &Source)> {
        let mut id = name.clone();
        for _ in 0..MOST_ALIASES {
            let by_template = || self.names.get(&id.template()?);
            let source = self.names.get(&id).or_else(by_template)?;
            let Source::Alias { target, .. } = source else {
                return Some((id, source));
            };
            let instance = id.instance().unwrap_or("");
            id = match target.is_template() {
                true => target.instantiated(instance)?,
                false => target.clone(),
            };
        }
        None
    }

    /// Whether a name means a unit.
    pub fn has(&self, name: &UnitName) -> bool {
        self.resolved(name).is_some()
    }

    /// The unit that a name means. `None`: no file has that name, nor one of its template's.
    pub fn locate(&self, name: &UnitName) -> Option<Located> {
        let (id, source) = self.resolved(name)?;
        let (fragment, masked) = match source {
            Source::Masked(path) => (None, Some(path.clone())),
            Source::File(path) => (Some(path.clone()), None),
            Source::Alias { .. } => return None,
        };
        let names = self.names_of(&id);
        Some(Located {
            names,
            id,
            fragment,
            masked,
        })
    }

    /// The names that lead to a unit, and its own.
    fn names_of(&self, id: &UnitName) -> BTreeSet<UnitName> {
        let mut names = BTreeSet::from([id.clone()]);
        let mut todo = vec![id.clone()];
        while let Some(target) = todo.pop() {
            let direct = self.aliases.get(&target).into_iter().flatten().cloned();
            let template = target.template();
            let of_template = template.and_then(|it| self.aliases.get(&it));
            let instance = target.instance().unwrap_or("");
            let made = of_template.into_iter().flatten();
            // A link to a template: from a template for every instance, from an instance for one.
            let made = made.filter_map(|alias| match alias.is_template() {
                true => alias.instantiated(instance),
                false => Some(alias.clone()).filter(|it| it.instance() == Some(instance)),
            });
            // A link of an instance's own counts before that of its template.
            let leads_here = |it: &UnitName| self.resolved(it).is_some_and(|(to, _)| to == *id);
            for name in direct.chain(made).filter(leads_here) {
                if names.insert(name.clone()) {
                    todo.push(name);
                }
            }
        }
        names
    }
}

/// Whether a folder of that name may be one beside a unit.
fn is_beside(name: &str) -> bool {
    [".d", ".wants", ".requires", ".upholds"]
        .iter()
        .any(|it| name.ends_with(it))
}

/// An empty file masks, too. One that is gone or can't be read is told when it is loaded.
fn file(files: &dyn Files, path: String) -> Source {
    match files.is_empty(&path) {
        true => Source::Masked(path),
        false => Source::File(path),
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
