// SPDX-License-Identifier: Apache-2.0
//! What enabling, disabling, masking and presetting would do: a list of links to make and to remove
//! (systemctl(1), "Unit file commands"; systemd.unit(5), "[Install] section options"). Nothing is
//! done here, and nothing but files says what is enabled.

use std::collections::{BTreeMap, BTreeSet};

use crate::files::{Files, Kind, base, resolve};
use crate::finding::shown;
use crate::load::catalog::{Catalog, Located, Source, alias_of};
use crate::load::preset::{Preset, Presets};
use crate::name::{UnitName, UnitType};
use crate::specifier::{Context, Host, expand};
use crate::unit::Install;

/// One change of the file system.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// A symbolic link is to be at `path`; one that is there is replaced.
    Link {
        /// The link's own path.
        path: String,
        /// What it says.
        target: String,
    },
    /// The link at `path` is to go.
    Unlink {
        /// The link's own path.
        path: String,
    },
}

/// Reads the `[Install]` section of a unit's file and drop-ins.
pub trait Installs {
    /// The section; `None` where the unit can't be read.
    fn install(&self, located: &Located) -> Option<Install>;
}

/// What links say is enabled, looked up once for many units.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Enabled {
    persistent: BTreeSet<String>,
    runtime: BTreeSet<String>,
}

/// A machine, as these commands see it.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// Its files.
    pub files: &'a dyn Files,
    /// Its units.
    pub catalog: &'a Catalog,
    /// What is in their `[Install]`.
    pub installs: &'a dyn Installs,
    /// What specifiers stand for.
    pub host: &'a dyn Host,
    /// Whether the links are to be gone after a reboot (`--runtime`).
    pub runtime: bool,
    /// Where links are made that stay, and those that are gone after a reboot:
    /// [`crate::load::PERSISTENT`] and [`crate::load::RUNTIME`] on a usual machine.
    pub folders: (&'a str, &'a str),
}

impl std::fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

/// How a unit stands, in the words of `systemctl is-enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A link starts it, kept over reboots.
    Enabled,
    /// A link starts it until the next reboot.
    EnabledRuntime,
    /// Its file is outside of the folders, and linked.
    Linked,
    /// As [`State::Linked`], until the next reboot.
    LinkedRuntime,
    /// It is another unit's other name.
    Alias,
    /// It can't be started.
    Masked,
    /// Neither, until the next reboot.
    MaskedRuntime,
    /// It has no `[Install]`.
    Static,
    /// It isn't enabled, but another unit's `Also=` may do so: its `[Install]` has nothing else.
    Indirect,
    /// It could be enabled.
    Disabled,
    /// A generator has made it.
    Generated,
    /// It was made by a call.
    Transient,
}

impl State {
    /// As `systemctl` prints it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::EnabledRuntime => "enabled-runtime",
            Self::Linked => "linked",
            Self::LinkedRuntime => "linked-runtime",
            Self::Alias => "alias",
            Self::Masked => "masked",
            Self::MaskedRuntime => "masked-runtime",
            Self::Static => "static",
            Self::Indirect => "indirect",
            Self::Disabled => "disabled",
            Self::Generated => "generated",
            Self::Transient => "transient",
        }
    }
}

/// The units of `Also=` of `Also=` and so on are bounded.
const MOST_ALSO: usize = 1000;

impl<'a> Machine<'a> {
    fn folder(&self) -> &'a str {
        let (persistent, runtime) = self.folders;
        if self.runtime { runtime } else { persistent }
    }

    /// The units, and those of their `Also=`, with their `[Install]`.
    fn with_also(&self, units: &[UnitName]) -> Result<Vec<(Located, Install)>, String> {
        let mut todo: Vec<UnitName> = units.iter().rev().cloned().collect();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        while let Some(name) = todo.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            if seen.len() > MOST_ALSO {
                return Err(format!(
                    "`Also=` of {name} leads to more than {MOST_ALSO} units"
                ));
            }
            let Some(mut located) = self.catalog.locate(&name) else {
                return Err(format!(
                    "{name} does not exist: no folder has a file of this name"
                ));
            };
            if let Some(path) = &located.masked {
                return Err(format!("{name} is masked by {path}: unmask it first"));
            }
            let Some(install) = self.installs.install(&located) else {
                return Err(format!("{name} can't be read"));
            };
            if located.id.is_template()
                && let Some(default) = &install.default_instance
            {
                let instance = self.expanded(default, &located)?;
                let named = located.id.instantiated(&instance);
                located.id = named.ok_or_else(|| {
                    format!(
                        "DefaultInstance={} of {name} gives no valid name",
                        shown(&instance)
                    )
                })?;
            }
            for also in install.also.iter().rev() {
                let also = UnitName::parse(&self.expanded(also, &located)?)?;
                // Within a template the same instance is meant.
                let same = match (also.is_template(), located.id.instance()) {
                    (true, Some(instance)) => also.instantiated(instance),
                    _ => None,
                };
                todo.push(same.unwrap_or(also));
            }
            found.push((located, install));
        }
        Ok(found)
    }

    fn expanded(&self, text: &str, located: &Located) -> Result<String, String> {
        let fragment = located.fragment.as_deref();
        let context = Context {
            name: &located.id,
            fragment,
            host: self.host,
        };
        expand(text, context)
    }

    /// The links that enable units.
    ///
    /// # Errors
    /// One doesn't exist, is masked, can't be read, or names what is no unit in its `[Install]`.
    pub fn enable(&self, units: &[UnitName]) -> Result<Vec<Operation>, String> {
        let mut wanted = BTreeMap::new();
        for (located, install) in self.with_also(units)? {
            let Some(fragment) = located.fragment.clone() else {
                continue;
            };
            for (path, target) in self.links(&located, &install, &fragment)? {
                wanted.insert(path, target);
            }
        }
        let mut missing = Vec::new();
        for (path, target) in wanted {
            if !self.is_linked(&path, &target)? {
                missing.push(Operation::Link { path, target });
            }
        }
        Ok(missing)
    }

    /// Whether the link is there. One of the same unit that lies elsewhere may be replaced; what
    /// leads to another one, a mask among them, may not, as with systemctl without `--force`.
    fn is_linked(&self, path: &str, target: &str) -> Result<bool, String> {
        let there = match self.files.kind(path) {
            Some(Kind::Link(to)) => resolve(path, &to),
            Some(_) => return Err(format!("{path} is there already, and is no link")),
            None => return Ok(false),
        };
        if there == resolve(path, target) {
            return Ok(true);
        }
        match base(&there) == base(target) {
            true => Ok(false),
            false => Err(format!("{path} is there already, and leads to {there}")),
        }
    }

    /// Every link that one unit's `[Install]` asks for.
    fn links(
        &self,
        located: &Located,
        install: &Install,
        fragment: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let folder = self.folder();
        let mut links = Vec::new();
        if !self.is_in_folders(fragment) {
            links.push((format!("{folder}/{}", base(fragment)), fragment.to_owned()));
        }
        let bare_template = located.id.is_template();
        for alias in &install.alias {
            let alias = UnitName::parse(&self.expanded(alias, located)?)?;
            alias_of(&alias, located.id.clone())?;
            links.push((format!("{folder}/{alias}"), fragment.to_owned()));
        }
        for (kind, names) in [
            ("wants", &install.wanted_by),
            ("requires", &install.required_by),
            ("upholds", &install.upheld_by),
        ] {
            for name in names {
                let name = UnitName::parse(&self.expanded(name, located)?)?;
                if bare_template && !name.is_template() {
                    return Err(format!(
                        "{} is a template without DefaultInstance=: enable an instance of it",
                        located.id
                    ));
                }
                let path = format!("{folder}/{name}.{kind}/{}", located.id);
                links.push((path, fragment.to_owned()));
            }
        }
        Ok(links)
    }

    fn is_in_folders(&self, path: &str) -> bool {
        let within = |folder: &String| {
            path.strip_prefix(folder.as_str()).is_some_and(|rest| {
                rest.strip_prefix('/')
                    .is_some_and(|name| !name.contains('/'))
            })
        };
        self.catalog.folders.iter().any(within)
    }

    /// The links that go when units are disabled: all of them, whichever program made them, in the
    /// folder of the administrator (with `runtime`, in that until the next reboot).
    ///
    /// # Errors
    /// As [`Machine::enable`]; a unit that doesn't exist loses the links to its name.
    pub fn disable(&self, units: &[UnitName]) -> Result<Vec<Operation>, String> {
        let mut names: BTreeSet<UnitName> = units.iter().cloned().collect();
        for unit in units {
            let known = self
                .catalog
                .locate(unit)
                .is_some_and(|it| it.masked.is_none());
            if known {
                let all = self.with_also(std::slice::from_ref(unit))?;
                names.extend(all.into_iter().map(|(located, _)| located.id));
            }
        }
        let links = self.links_in(self.folder());
        let gone = links.into_iter().filter(|(path, target)| {
            let named = |text: &str| {
                UnitName::parse(base(text)).is_ok_and(|it| {
                    let template = it.template();
                    names.contains(&it) || template.is_some_and(|it| names.contains(&it))
                })
            };
            let target = resolve(path, target);
            target != "/dev/null" && (named(path) || named(&target))
        });
        Ok(gone.map(|(path, _)| Operation::Unlink { path }).collect())
    }

    /// The links of a folder and of the `.wants`, `.requires` and `.upholds` in it.
    fn links_in(&self, folder: &str) -> Vec<(String, String)> {
        let mut links = Vec::new();
        for entry in self.files.list(folder) {
            let path = format!("{folder}/{}", entry.name);
            match entry.kind {
                Kind::Link(target) => links.push((path, target)),
                Kind::Folder if holds_links(&path) => {
                    for inner in self.files.list(&path) {
                        if let Kind::Link(target) = inner.kind {
                            links.push((format!("{path}/{}", inner.name), target));
                        }
                    }
                }
                _ => {}
            }
        }
        links.sort();
        links
    }

    /// The links that mask units.
    ///
    /// # Errors
    /// A file of that name is in the folder where the link would be.
    pub fn mask(&self, units: &[UnitName]) -> Result<Vec<Operation>, String> {
        let mut operations = Vec::new();
        for unit in units {
            let path = format!("{}/{unit}", self.folder());
            match self.files.kind(&path) {
                None => {}
                Some(Kind::Link(to)) if resolve(&path, &to) == "/dev/null" => continue,
                Some(_) => {
                    return Err(format!(
                        "{path} is there already: move it away to mask {unit}"
                    ));
                }
            }
            operations.push(Operation::Link {
                path,
                target: "/dev/null".to_owned(),
            });
        }
        Ok(operations)
    }

    /// The links that go when units are unmasked.
    pub fn unmask(&self, units: &[UnitName]) -> Vec<Operation> {
        let paths = units.iter().map(|unit| format!("{}/{unit}", self.folder()));
        let masks = paths.filter(|path| {
            let kind = self.files.kind(path);
            matches!(kind, Some(Kind::Link(to)) if resolve(path, &to) == "/dev/null")
        });
        masks.map(|path| Operation::Unlink { path }).collect()
    }

    /// What presetting units would do: each is enabled or disabled as the presets say.
    ///
    /// # Errors
    /// As [`Machine::enable`].
    pub fn preset(&self, units: &[UnitName], presets: &Presets) -> Result<Vec<Operation>, String> {
        let mut operations = Vec::new();
        for unit in units {
            match presets.of(unit) {
                Preset::Disable => operations.extend(self.disable(std::slice::from_ref(unit))?),
                Preset::Enable(instances) if instances.is_empty() => {
                    operations.extend(self.enable(std::slice::from_ref(unit))?);
                }
                Preset::Enable(instances) => {
                    let named = instances.iter().filter_map(|it| unit.instantiated(it));
                    operations.extend(self.enable(&named.collect::<Vec<_>>())?);
                }
            }
        }
        Ok(operations)
    }

    /// The same, where only enabling (`enables`) or only disabling (`disables`) is wanted, too.
    ///
    /// # Errors
    /// As [`Machine::enable`].
    pub fn preset_partly(
        &self,
        units: &[UnitName],
        presets: &Presets,
        (enables, disables): (bool, bool),
    ) -> Result<Vec<Operation>, String> {
        let wanted = |unit: &&UnitName| match presets.of(unit) {
            Preset::Enable(_) => enables,
            Preset::Disable => disables,
        };
        let wanted: Vec<UnitName> = units.iter().filter(wanted).cloned().collect();
        self.preset(&wanted, presets)
    }

    /// Presets every unit that a folder has, but what is masked or another one's name. A unit that
    /// can't be enabled, such as a template without an instance, is left out: systemctl(1),
    /// `preset-all`.
    pub fn preset_all(&self, presets: &Presets, which: (bool, bool)) -> Vec<Operation> {
        let names: Vec<UnitName> = self.catalog.names().map(|(name, _)| name.clone()).collect();
        let own = names.into_iter().filter(|name| {
            let located = self.catalog.locate(name);
            located.is_some_and(|it| it.masked.is_none() && it.id == *name)
        });
        let done = own.map(|it| self.preset_partly(std::slice::from_ref(&it), presets, which));
        let mut all: Vec<Operation> = done.flatten().flatten().collect();
        all.sort();
        all.dedup();
        all
    }

    /// The link by which a target is the one that the machine boots to.
    ///
    /// # Errors
    /// It is no target, doesn't exist, or is masked.
    pub fn set_default(&self, unit: &UnitName) -> Result<Vec<Operation>, String> {
        if unit.kind() != UnitType::Target {
            return Err(format!("{unit} is no target"));
        }
        let Some(located) = self.catalog.locate(unit) else {
            return Err(format!(
                "{unit} does not exist: no folder has a file of this name"
            ));
        };
        if let Some(path) = &located.masked {
            return Err(format!("{unit} is masked by {path}: unmask it first"));
        }
        let target = located
            .fragment
            .ok_or_else(|| format!("{unit} has no file"))?;
        let path = format!("{}/default.target", self.folders.0);
        match self.files.kind(&path) {
            Some(Kind::Link(to)) if resolve(&path, &to) == target => Ok(Vec::new()),
            Some(Kind::Link(_)) | None => Ok(vec![Operation::Link { path, target }]),
            Some(_) => Err(format!("{path} is there already, and is no link")),
        }
    }

    /// How a unit stands; `None` where it doesn't exist.
    pub fn state(&self, unit: &UnitName) -> Option<State> {
        self.state_among(unit, &self.enabled())
    }

    /// What is enabled in both folders.
    pub fn enabled(&self) -> Enabled {
        Enabled {
            persistent: self.linked_in(self.folders.0),
            runtime: self.linked_in(self.folders.1),
        }
    }

    /// How a unit stands, where it is known what is enabled.
    pub fn state_among(&self, unit: &UnitName, enabled: &Enabled) -> Option<State> {
        let located = self.catalog.locate(unit)?;
        if let Some(path) = &located.masked {
            let runtime = path.starts_with("/run/") || path.starts_with(self.folders.1);
            return Some(if runtime {
                State::MaskedRuntime
            } else {
                State::Masked
            });
        }
        if let Some(Source::Alias { .. }) = self.catalog.source_of(unit) {
            return Some(State::Alias);
        }
        let fragment = located.fragment.clone()?;
        if fragment.starts_with("/run/systemd/generator") {
            return Some(State::Generated);
        }
        if fragment.starts_with("/run/systemd/transient/") {
            return Some(State::Transient);
        }
        for (linked, state) in [
            (&enabled.persistent, State::Enabled),
            (&enabled.runtime, State::EnabledRuntime),
        ] {
            if linked.contains(located.id.as_str()) {
                return Some(state);
            }
        }
        if let Some(Kind::Link(_)) = self.files.kind(&fragment) {
            let runtime = fragment.starts_with("/run/");
            return Some(if runtime {
                State::LinkedRuntime
            } else {
                State::Linked
            });
        }
        let install = self.installs.install(&located)?;
        Some(match (install.is_empty(), install.only_also()) {
            (true, _) => State::Static,
            (_, true) => State::Indirect,
            _ => State::Disabled,
        })
    }

    /// The units that links of a folder enable: by another name in it, or in what is beside units.
    fn linked_in(&self, folder: &str) -> BTreeSet<String> {
        let named = |(path, target): (String, String)| {
            let rest = path.strip_prefix(folder);
            let in_folder = rest.is_some_and(|it| it.matches('/').count() == 1);
            if !in_folder {
                return Some(base(&path).to_owned());
            }
            let target = resolve(&path, &target);
            (base(&path) != base(&target)).then(|| base(&target).to_owned())
        };
        self.links_in(folder)
            .into_iter()
            .filter_map(named)
            .collect()
    }
}

/// The unit that a command means by a word: `ssh` is `ssh.service`, a path of the device tree and
/// of a mount point is their unit (systemctl(1), "Parameter syntax").
///
/// # Errors
/// It is no name, nor can it be made one.
pub fn mangle(word: &str) -> Result<UnitName, String> {
    if let Ok(name) = UnitName::parse(word) {
        return Ok(name);
    }
    if word.starts_with('/') {
        let kind = if word.starts_with("/dev/") || word.starts_with("/sys/") {
            UnitType::Device
        } else {
            UnitType::Mount
        };
        let name = crate::name::of_path(&crate::files::normal(word), kind);
        return name.ok_or_else(|| format!("{} is no path of a unit", shown(word)));
    }
    UnitName::parse(&format!("{word}.service"))
}

/// Whether a folder is one in which links are dependencies.
fn holds_links(path: &str) -> bool {
    [".wants", ".requires", ".upholds"]
        .iter()
        .any(|it| path.ends_with(it))
}

#[cfg(test)]
mod tests;
