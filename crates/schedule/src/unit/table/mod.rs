// SPDX-License-Identifier: Apache-2.0
//! The units that are loaded: those that a user asked for, and what they lead to. Files are read
//! when a unit is loaded, and again by a reload of all; nothing here is remembered over daemons.

mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use units::calendar::zones::UtcOnly;
use units::depend::{Dependency, Edge, Graph, Own};
use units::finding::Finding;
use units::install::{Machine as Installer, State as FileState};
use units::job::Load;
use units::load::Catalog;
use units::name::UnitName;
use units::service::{Defaults, Service};
use units::specifier::NoHost;
use units::unit::{Unit, from_texts};

use self::read::{Inputs, Reader};
use super::disk::{Disk, OWN};
use super::steps::Commands;

/// More units than that aren't loaded.
const MOST: usize = 10_000;

/// Where units are, and where links are made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folders {
    /// The load path, the first one wins.
    pub paths: Vec<String>,
    /// Where enabling links, and masks.
    pub persistent: String,
    /// The same until the next reboot.
    pub runtime: String,
}

/// A unit that is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) unit: Arc<Unit>,
    /// Of a service.
    pub(crate) service: Option<Arc<Service>>,
    pub(crate) commands: Arc<Commands>,
    pub(crate) findings: Vec<Finding>,
    /// Why it can't be started.
    pub(crate) bad: Option<String>,
    /// How it stands, in the words of `systemctl is-enabled`.
    pub(crate) file_state: &'static str,
    /// What its files are by now, where this is what was read earlier.
    load: Load,
    /// Its dependencies.
    own: Arc<Own>,
    /// From what it was made.
    inputs: Arc<Inputs>,
}

/// See [`Table::as_read`].
pub(crate) struct AsRead {
    catalog: Arc<Catalog>,
    inputs: Option<Arc<Inputs>>,
}

/// What may be another than when it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Changed {
    Nothing,
    /// The files of the unit.
    Unit,
    /// What is in the folders, for this unit or another.
    Folders,
}

impl AsRead {
    /// Compares it with the files. Blocks.
    pub(crate) fn changed(&self) -> Changed {
        match &self.inputs {
            _ if !self.catalog.is_current(&Disk) => Changed::Folders,
            Some(inputs) if !inputs.hold() => Changed::Unit,
            _ => Changed::Nothing,
        }
    }
}

impl Loaded {
    /// Whether it can be started.
    pub(crate) fn load(&self) -> Load {
        match () {
            () if self.load != Load::Loaded => self.load,
            () if self.unit.masked.is_some() => Load::Masked,
            () if self.bad.is_some() => Load::Bad,
            () => Load::Loaded,
        }
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    folders: Arc<Folders>,
    catalog: Arc<Catalog>,
    units: BTreeMap<UnitName, Arc<Loaded>>,
    /// Other names of them.
    names: BTreeMap<UnitName, UnitName>,
    /// Asked for, and not there.
    missing: BTreeSet<UnitName>,
    graph: Graph,
    /// Units that say something of others that may follow from any change: `StopWhenUnneeded=`,
    /// `Upholds=`.
    watchful: BTreeSet<UnitName>,
}

fn catalog(folders: &Folders) -> Catalog {
    let mut paths: Vec<&str> = folders.paths.iter().map(String::as_str).collect();
    paths.push(OWN);
    Catalog::read(&Disk, &paths)
}

impl Table {
    /// Reads the names of all folders; loads none.
    pub(crate) fn read(folders: Arc<Folders>) -> Table {
        Table {
            catalog: Arc::new(catalog(&folders)),
            ..Table::empty(folders)
        }
    }

    /// Without any unit, or the name of one.
    pub(crate) fn empty(folders: Arc<Folders>) -> Table {
        Table {
            catalog: Arc::default(),
            folders,
            units: BTreeMap::new(),
            names: BTreeMap::new(),
            missing: BTreeSet::new(),
            graph: Graph::default(),
            watchful: BTreeSet::new(),
        }
    }

    /// Loads units and what they lead to; those that are new.
    pub(crate) fn load(&mut self, wanted: &[UnitName]) -> Vec<UnitName> {
        if wanted.iter().all(|it| self.find(it).is_some()) {
            return Vec::new();
        }
        // A file may have come since the folders were read.
        if !self.catalog.is_current(&Disk) {
            self.catalog = Arc::new(catalog(&self.folders));
            self.missing.clear();
        }
        self.load_as(wanted, None)
    }

    /// What was read of a unit, to be compared with the files.
    pub(crate) fn as_read(&self, unit: &UnitName) -> AsRead {
        let id = self.names.get(unit).unwrap_or(unit);
        AsRead {
            catalog: self.catalog.clone(),
            inputs: self.units.get(id).map(|it| it.inputs.clone()),
        }
    }

    /// Loads units by their files as they are now. Units that neither these need nor those in
    /// `needed` are forgotten, as systemd unloads what is inactive and in no loaded unit's files:
    /// who asks for one of them later gets it by its files as they are then.
    pub(crate) fn load_anew(
        &mut self,
        wanted: &[UnitName],
        needed: Vec<UnitName>,
    ) -> Vec<UnitName> {
        let old = self.clone();
        let kept = self.reached(needed);
        let loaded: Vec<UnitName> = self.units.keys().cloned().collect();
        for idle in loaded.iter().filter(|it| !kept.contains(it)) {
            self.forget(idle);
        }
        self.catalog = Arc::new(catalog(&self.folders));
        let missing = std::mem::take(&mut self.missing);
        let wanted: Vec<UnitName> = missing.into_iter().chain(wanted.iter().cloned()).collect();
        self.load_as(&wanted, Some(&old))
    }

    /// Whether a unit is one of these, or one that their files lead to.
    pub(crate) fn leads_to(&self, from: Vec<UnitName>, unit: &UnitName) -> bool {
        let found = self.reached(from);
        self.find(unit)
            .is_some_and(|it| found.contains(&it.unit.id))
    }

    /// These units, and all that their files name.
    fn reached(&self, from: Vec<UnitName>) -> BTreeSet<UnitName> {
        let (mut found, mut todo) = (BTreeSet::new(), from);
        while let Some(name) = todo.pop() {
            let Some(loaded) = self.find(&name) else {
                continue;
            };
            if found.insert(loaded.unit.id.clone()) {
                let edges = loaded.own.edges.iter();
                todo.extend(edges.flat_map(|Edge { from, to, .. }| [from.clone(), to.clone()]));
                todo.extend(loaded.own.mounts.iter().cloned());
            }
        }
        found
    }

    /// Reads the folders anew and loads units; of those that an earlier table has what hasn't
    /// changed since is taken from there.
    pub(crate) fn read_again(old: &Table, wanted: &[UnitName]) -> Table {
        let mut table = Table::read(old.folders.clone());
        table.load_as(wanted, Some(old));
        table
    }

    fn load_as(&mut self, wanted: &[UnitName], old: Option<&Table>) -> Vec<UnitName> {
        let (catalog, folders) = (self.catalog.clone(), self.folders.clone());
        let reader = Reader::new(&catalog, &folders, old);
        let mut todo: Vec<UnitName> = wanted.to_vec();
        let mut new: Vec<Arc<Loaded>> = Vec::new();
        while let Some(name) = todo.pop() {
            if self.find(&name).is_some() || self.missing.contains(&name) {
                continue;
            }
            let loaded = match self.units.len() < MOST && !name.is_template() {
                true => reader.load(&name),
                false => None,
            };
            let Some(loaded) = loaded else {
                self.missing.insert(name);
                continue;
            };
            let edges = loaded.own.edges.iter();
            todo.extend(edges.flat_map(|Edge { from, to, .. }| [from.clone(), to.clone()]));
            let mounts = loaded.own.mounts.iter();
            todo.extend(mounts.filter(|it| catalog.has(it)).cloned());
            for name in &loaded.unit.names {
                self.names.insert(name.clone(), loaded.unit.id.clone());
            }
            self.insert(loaded.clone());
            new.push(loaded);
        }
        let owns: Vec<Arc<Own>> = new.iter().map(|it| it.own.clone()).collect();
        self.graph.extend(&owns);
        new.iter().map(|it| it.unit.id.clone()).collect()
    }

    fn insert(&mut self, loaded: Arc<Loaded>) {
        let unit = &loaded.unit;
        let upholds = |it: &Edge| it.kind == Dependency::Upholds && it.from == unit.id;
        let stops = unit.settings.flag("StopWhenUnneeded") == Some(true);
        match stops || loaded.own.edges.iter().any(upholds) {
            true => self.watchful.insert(unit.id.clone()),
            false => self.watchful.remove(&unit.id),
        };
        self.units.insert(unit.id.clone(), loaded);
    }

    /// The units whose words may follow from any change of others.
    pub(crate) fn watchful(&self) -> &BTreeSet<UnitName> {
        &self.watchful
    }

    /// Goes on with what was read earlier of units that are up (`ups`): one whose file has gone, is
    /// masked or can't be used any more keeps what it is stopped by, and its load state changes.
    pub(crate) fn keep_last(&mut self, old: &Table, ups: &[UnitName]) {
        for name in ups {
            let Some(last) = old.find(name) else {
                continue;
            };
            let new = self.find(name);
            let is_whole = |it: &Loaded| last.service.is_none() || it.service.is_some();
            if new.is_some_and(is_whole) {
                continue;
            }
            let mut loaded = last.clone();
            let was = loaded.load;
            loaded.load = match new {
                Some(new) => new.load(),
                None if was == Load::Loaded => Load::NotFound,
                None => was,
            };
            if let Some(new) = new {
                (loaded.bad, loaded.file_state) = (new.bad.clone(), new.file_state);
                let id = new.unit.id.clone();
                self.units.remove(&id);
                self.graph.remove(&id);
            } else {
                loaded.file_state = "";
            }
            for name in &loaded.unit.names {
                self.names.insert(name.clone(), loaded.unit.id.clone());
                self.missing.remove(name);
            }
            self.graph.extend(std::slice::from_ref(&loaded.own));
            self.insert(Arc::new(loaded));
        }
    }

    /// What decides for a service. One whose file has gone while no daemon looked, or is masked,
    /// has no commands and systemd's defaults: it can be stopped.
    pub(crate) fn rules(&self, name: &UnitName) -> (Arc<Commands>, Arc<Service>) {
        let loaded = self.find(name);
        if let Some((loaded, service)) = loaded.and_then(|it| Some((it, it.service.clone()?))) {
            return (loaded.commands.clone(), service);
        }
        let unit = from_texts(name, &[], &NoHost, &UtcOnly);
        let service = Service::of(&unit, Defaults::default()).0;
        (Arc::default(), Arc::new(service))
    }

    /// The unit of a name, where it is loaded.
    pub(crate) fn find(&self, name: &UnitName) -> Option<&Loaded> {
        let id = self.names.get(name).unwrap_or(name);
        self.units.get(id).map(|it| &**it)
    }

    /// Whether a unit is loaded, or would be by its files. Instances aren't, for the sake of their
    /// template alone: there can be any number of those.
    pub(crate) fn has(&self, name: &UnitName) -> bool {
        let has_file = || name.instance().is_none() && self.catalog.has(name);
        self.find(name).is_some() || has_file()
    }

    /// A unit that will be loaded again where a caller or a unit asks for it.
    pub(crate) fn forget(&mut self, name: &UnitName) {
        if let Some(loaded) = self.units.remove(name) {
            self.graph.remove(name);
            self.watchful.remove(name);
            for name in &loaded.unit.names {
                self.names.remove(name);
            }
        }
    }

    /// All, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&UnitName, &Loaded)> {
        self.units.iter().map(|(name, loaded)| (name, &**loaded))
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Every name that the folders have.
    pub(crate) fn files(&self) -> Vec<UnitName> {
        self.catalog.names().map(|(name, _)| name.clone()).collect()
    }

    /// How units' files stand; `None` where there is none.
    pub(crate) fn file_states(&self, names: &[UnitName]) -> Vec<Option<FileState>> {
        self.installed(false, |machine| {
            let enabled = machine.enabled();
            let state = |name| machine.state_among(name, &enabled);
            names.iter().map(state).collect()
        })
    }

    /// The machine as enabling sees it.
    pub(crate) fn installed<T>(&self, runtime: bool, act: impl FnOnce(&Installer<'_>) -> T) -> T {
        let reader = Reader::new(&self.catalog, &self.folders, Some(self));
        reader.installed(runtime, act)
    }
}
