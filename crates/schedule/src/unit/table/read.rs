// SPDX-License-Identifier: Apache-2.0
//! Reads units for the table. One reader is for one pass over many: what the machine says of itself
//! is asked once, and a unit whose files, links and facts are as they were is taken as it is.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use units::calendar::zones::FileZones;
use units::depend::Own;
use units::files::{Entry, Files, Stamp, Unreadable};
use units::install::{Enabled, Installs, Machine as Installer, State as FileState};
use units::job::Load;
use units::load::{Catalog, Located};
use units::name::{UnitName, UnitType};
use units::service::{Defaults, Service};
use units::specifier::{Fact, Host};
use units::unit::{Install, Loader, Unit};

use super::{Folders, Loaded, Table};
use crate::unit::disk::Disk;
use crate::unit::facts::Machine;
use crate::unit::honour;
use crate::unit::mount;
use crate::unit::steps::Commands;

/// From what a unit was made, besides its names and links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Inputs {
    /// Its files, and those of zones, as they were.
    files: Vec<(String, Option<Stamp>)>,
    /// What it asked of the machine.
    facts: BTreeMap<Fact, Option<String>>,
    /// Other units that it names, and whether they were there.
    others: BTreeMap<UnitName, bool>,
}

impl Inputs {
    /// Whether the files are as they were.
    pub(super) fn hold(&self) -> bool {
        self.files
            .iter()
            .all(|(path, was)| match (was, Disk.stamp(path)) {
                (Some(was), Some(now)) => was.holds(&now),
                _ => false,
            })
    }
}

/// See the module.
pub(super) struct Reader<'a> {
    catalog: &'a Catalog,
    folders: &'a Folders,
    old: Option<&'a Table>,
    facts: Asked,
    zones: Zoned,
    enabled: OnceCell<Enabled>,
}

/// What the machine says of itself.
#[derive(Default)]
struct Asked {
    known: RefCell<BTreeMap<Fact, Option<String>>>,
    /// Since this was taken last.
    asked: RefCell<BTreeMap<Fact, Option<String>>>,
}

impl Host for Asked {
    fn fact(&self, fact: Fact) -> Option<String> {
        let mut known = self.known.borrow_mut();
        let value = known.entry(fact).or_insert_with(|| Machine.fact(fact));
        self.asked.borrow_mut().insert(fact, value.clone());
        value.clone()
    }
}

/// When a zone's file was changed, and what it has; `None`: it isn't there.
type Zone = (Option<Stamp>, Option<Vec<u8>>);

/// The files of zones.
#[derive(Default)]
struct Zoned {
    known: RefCell<BTreeMap<String, Zone>>,
    /// Since this was taken last.
    read: RefCell<BTreeMap<String, Option<Stamp>>>,
}

impl Files for Zoned {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Unreadable> {
        let mut known = self.known.borrow_mut();
        if !known.contains_key(path) {
            let stamp = Disk.stamp(path);
            known.insert(path.to_owned(), (stamp, Disk.read(path)?));
        }
        let Some((stamp, bytes)) = known.get(path) else {
            return Ok(None);
        };
        self.read.borrow_mut().insert(path.to_owned(), *stamp);
        Ok(bytes.clone())
    }

    fn list(&self, folder: &str) -> Vec<Entry> {
        Disk.list(folder)
    }
}

/// The `[Install]` of units: of those that are loaded it is known.
struct Read<'a, 'b>(&'b Reader<'a>, Option<&'b Unit>);

impl Installs for Read<'_, '_> {
    fn install(&self, located: &Located) -> Option<Install> {
        let Read(reader, given) = self;
        let known = given.filter(|it| it.id == located.id).map(Unit::install);
        let loaded = || Some(reader.reused(&reader.outline(&located.id)?)?.unit.install());
        let read = || {
            reader
                .with(|loader| loader.load(&located.id))
                .map(|it| it.install())
        };
        known.or_else(loaded).or_else(read)
    }
}

impl<'a> Reader<'a> {
    /// Of `old` is taken what hasn't changed.
    pub(super) fn new(
        catalog: &'a Catalog,
        folders: &'a Folders,
        old: Option<&'a Table>,
    ) -> Reader<'a> {
        Reader {
            catalog,
            folders,
            old,
            facts: Asked::default(),
            zones: Zoned::default(),
            enabled: OnceCell::new(),
        }
    }

    fn with<T>(&self, act: impl FnOnce(Loader<'_>) -> T) -> T {
        act(Loader {
            files: &Disk,
            catalog: self.catalog,
            host: &self.facts,
            zones: &FileZones(&self.zones),
        })
    }

    fn outline(&self, name: &UnitName) -> Option<Unit> {
        self.with(|loader| loader.outline(name))
    }

    fn exists(&self, name: &UnitName) -> bool {
        name.kind().needs_no_file() || self.catalog.has(name)
    }

    /// The unit of a name; `None`: there is none.
    pub(super) fn load(&self, name: &UnitName) -> Option<Arc<Loaded>> {
        let outline = self.outline(name)?;
        let Some(old) = self.reused(&outline) else {
            return Some(Arc::new(self.made(outline)));
        };
        let file_state = self.file_state(&old.unit);
        if old.file_state == file_state && old.load == Load::Loaded {
            return Some(old.clone());
        }
        Some(Arc::new(Loaded {
            file_state,
            load: Load::Loaded,
            ..Loaded::clone(old)
        }))
    }

    /// What the old table has of this unit, where it would be the same now.
    fn reused(&self, outline: &Unit) -> Option<&'a Arc<Loaded>> {
        let old = self.old?.units.get(&outline.id)?;
        let unit = &old.unit;
        let same = unit.names == outline.names
            && unit.fragment == outline.fragment
            && unit.dropins == outline.dropins
            && unit.masked == outline.masked
            && unit.wants == outline.wants
            && unit.requires == outline.requires
            && unit.upholds == outline.upholds;
        let Inputs { facts, others, .. } = &*old.inputs;
        let same = same
            && old.inputs.hold()
            && facts
                .iter()
                .all(|(fact, was)| self.facts.fact(*fact) == *was)
            && others.iter().all(|(name, was)| self.exists(name) == *was);
        same.then_some(old)
    }

    /// Reads the files of a unit, and judges it.
    fn made(&self, outline: Unit) -> Loaded {
        self.facts.asked.take();
        self.zones.read.take();
        let paths = outline.fragment.iter().chain(&outline.dropins);
        // Before they are read: what changes meanwhile is read again by the next pass.
        let files: Vec<_> = paths.map(|it| (it.clone(), Disk.stamp(it))).collect();
        let unit = self.with(|loader| loader.read(outline));
        let zones = self.zones.read.take();
        let facts = self.facts.asked.take();
        let others = RefCell::new(BTreeMap::new());
        let exists = |name: &UnitName| {
            let mut others = others.borrow_mut();
            *others
                .entry(name.clone())
                .or_insert_with(|| self.exists(name))
        };
        let findings = honour::report(&unit, &exists);
        let is_used = unit.masked.is_none();
        let service = match unit.kind() {
            UnitType::Service if is_used => Some(Service::of(&unit, Defaults::default()).0),
            kind if is_used && mount::is_one(kind) => Some(mount::service(&unit)),
            _ => None,
        };
        Loaded {
            bad: honour::refusal(&findings),
            file_state: self.file_state(&unit),
            commands: Arc::new(Commands::of(&unit)),
            service: service.map(Arc::new),
            findings,
            own: Arc::new(Own::of(&unit)),
            inputs: Arc::new(Inputs {
                files: files.into_iter().chain(zones).collect(),
                facts,
                others: others.into_inner(),
            }),
            unit: Arc::new(unit),
            load: Load::Loaded,
        }
    }

    fn file_state(&self, unit: &Unit) -> &'static str {
        let enabled = || self.installed(false, |machine| machine.enabled());
        let enabled = self.enabled.get_or_init(enabled);
        let read = Read(self, Some(unit));
        let state = self.machine(&read, false).state_among(&unit.id, enabled);
        state.map_or("", FileState::as_str)
    }

    fn machine<'b>(&'b self, installs: &'b Read<'a, 'b>, runtime: bool) -> Installer<'b> {
        Installer {
            files: &Disk,
            catalog: self.catalog,
            installs,
            host: &self.facts,
            runtime,
            folders: (&self.folders.persistent, &self.folders.runtime),
        }
    }

    /// The machine as enabling sees it.
    pub(super) fn installed<T>(&self, runtime: bool, act: impl FnOnce(&Installer<'_>) -> T) -> T {
        act(&self.machine(&Read(self, None), runtime))
    }
}
