// SPDX-License-Identifier: Apache-2.0
//! The units that are loaded: those that somebody asked for, and what they lead to. Files are read
//! when a unit is loaded, and again by a reload of all; nothing here is remembered over daemons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use units::calendar::zones::FileZones;
use units::depend::{Edge, Graph, explicit, implicit};
use units::finding::Finding;
use units::install::{Installs, Machine as Installer, State as FileState};
use units::load::{Catalog, Located};
use units::name::{UnitName, UnitType};
use units::service::{Defaults, Service};
use units::unit::{Install, Loader, Unit};

use super::disk::{Disk, OWN};
use super::facts::Machine;
use super::honour;
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
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    folders: Arc<Folders>,
    catalog: Arc<Catalog>,
    units: BTreeMap<UnitName, Loaded>,
    /// Other names of them.
    names: BTreeMap<UnitName, UnitName>,
    /// Asked for, and not there.
    missing: BTreeSet<UnitName>,
    graph: Graph,
}

fn catalog(folders: &Folders) -> Catalog {
    let mut paths: Vec<&str> = folders.paths.iter().map(String::as_str).collect();
    paths.push(OWN);
    Catalog::read(&Disk, &paths)
}

struct Read<'a>(Loader<'a>);

impl Installs for Read<'_> {
    fn install(&self, located: &Located) -> Option<Install> {
        self.0.load(&located.id).map(|unit| unit.install())
    }
}

impl Table {
    /// Reads the names of all folders; loads none.
    pub(crate) fn read(folders: Arc<Folders>) -> Table {
        Table {
            catalog: Arc::new(catalog(&folders)),
            folders,
            units: BTreeMap::new(),
            names: BTreeMap::new(),
            missing: BTreeSet::new(),
            graph: Graph::default(),
        }
    }

    fn loader(&self) -> Loader<'_> {
        Loader {
            files: &Disk,
            catalog: &self.catalog,
            host: &Machine,
            zones: &FileZones(&Disk),
        }
    }

    /// Loads units and what they lead to.
    pub(crate) fn load(&mut self, wanted: &[UnitName]) {
        if wanted.iter().any(|it| self.find(it).is_none()) {
            // Its file may have come since the folders were read.
            self.catalog = Arc::new(catalog(&self.folders));
            self.missing.clear();
        }
        let mut todo: Vec<UnitName> = wanted.to_vec();
        let before = self.units.len();
        while let Some(name) = todo.pop() {
            if self.find(&name).is_some() || self.missing.contains(&name) {
                continue;
            }
            let unit = match self.units.len() < MOST && !name.is_template() {
                true => self.loader().load(&name),
                false => None,
            };
            let Some(unit) = unit else {
                self.missing.insert(name);
                continue;
            };
            let edges = explicit(&unit).into_iter().chain(implicit(&unit, &[]));
            todo.extend(edges.flat_map(|Edge { from, to, .. }| [from, to]));
            for name in &unit.names {
                self.names.insert(name.clone(), unit.id.clone());
            }
            let loaded = self.judged(unit);
            self.units.insert(loaded.unit.id.clone(), loaded);
        }
        if self.units.len() != before {
            self.graph = Graph::of(self.units.values().map(|it| &*it.unit));
        }
    }

    fn judged(&self, unit: Unit) -> Loaded {
        let exists =
            |name: &UnitName| name.kind().needs_no_file() || self.catalog.locate(name).is_some();
        let findings = honour::report(&unit, &exists);
        let is_service = unit.kind() == UnitType::Service && unit.masked.is_none();
        let service = is_service.then(|| {
            let mut service = Service::of(&unit, Defaults::default()).0;
            // Neither is honoured yet: nobody hears that it lives, and what is slow is killed.
            service.watchdog = None;
            service.kill.sends_final = true;
            Arc::new(service)
        });
        Loaded {
            bad: honour::refusal(&findings),
            file_state: self.file_state(&unit.id).map_or("", FileState::as_str),
            commands: Arc::new(Commands::of(&unit)),
            service,
            findings,
            unit: Arc::new(unit),
        }
    }

    /// The unit of a name, where it is loaded.
    pub(crate) fn find(&self, name: &UnitName) -> Option<&Loaded> {
        let id = self.names.get(name).unwrap_or(name);
        self.units.get(id)
    }

    /// All, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&UnitName, &Loaded)> {
        self.units.iter()
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Every name that the folders have.
    pub(crate) fn files(&self) -> Vec<UnitName> {
        self.catalog.names().map(|(name, _)| name.clone()).collect()
    }

    /// How a unit's file stands; `None` where there is none.
    pub(crate) fn file_state(&self, name: &UnitName) -> Option<FileState> {
        self.installed(false, |machine| machine.state(name))
    }

    /// The machine as enabling sees it.
    pub(crate) fn installed<T>(&self, runtime: bool, act: impl FnOnce(&Installer<'_>) -> T) -> T {
        let loader = self.loader();
        act(&Installer {
            files: &Disk,
            catalog: &self.catalog,
            installs: &Read(loader),
            host: &Machine,
            runtime,
            folders: (&self.folders.persistent, &self.folders.runtime),
        })
    }
}
