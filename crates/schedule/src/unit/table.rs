// SPDX-License-Identifier: Apache-2.0
//! The units that are loaded: those that a user asked for, and what they lead to. Files are read
//! when a unit is loaded, and again by a reload of all; nothing here is remembered over daemons.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use units::calendar::zones::{FileZones, UtcOnly};
use units::depend::{Edge, Graph, explicit, implicit, mounts_on_the_way};
use units::finding::Finding;
use units::install::{Installs, Machine as Installer, State as FileState};
use units::job::Load;
use units::load::{Catalog, Located};
use units::name::{UnitName, UnitType};
use units::service::{Defaults, Service};
use units::specifier::NoHost;
use units::unit::{Install, Loader, Unit, from_texts};

use super::disk::{Disk, OWN};
use super::facts::Machine;
use super::honour;
use super::mount;
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
        // An instance of a template that is known is no news: one comes with each connection.
        let is_news = |it: &UnitName| {
            let known = it.is_instance() && self.catalog.locate(it).is_some();
            self.find(it).is_none() && !known
        };
        if wanted.iter().any(is_news) {
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
            let mounts = mounts_on_the_way(&unit).into_iter();
            todo.extend(mounts.filter(|it| self.catalog.locate(it).is_some()));
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
        let is_mount = mount::is_one(unit.kind()) && unit.masked.is_none();
        let service = match (is_service, is_mount) {
            (true, _) => Some(Arc::new(Service::of(&unit, Defaults::default()).0)),
            (_, true) => Some(Arc::new(mount::service(&unit))),
            _ => None,
        };
        Loaded {
            bad: honour::refusal(&findings),
            file_state: self.file_state(&unit.id).map_or("", FileState::as_str),
            commands: Arc::new(Commands::of(&unit)),
            service,
            findings,
            unit: Arc::new(unit),
            load: Load::Loaded,
        }
    }

    /// Goes on with what was read earlier of units that are up (`ups`): one whose file has gone, is
    /// masked or can't be used any more keeps what it is stopped by, and its load state changes.
    pub(crate) fn keep_last(&mut self, old: &Table, ups: &[UnitName]) {
        let mut kept = false;
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
            } else {
                loaded.file_state = "";
            }
            for name in &loaded.unit.names {
                self.names.insert(name.clone(), loaded.unit.id.clone());
                self.missing.remove(name);
            }
            self.units.insert(loaded.unit.id.clone(), loaded);
            kept = true;
        }
        if kept {
            self.graph = Graph::of(self.units.values().map(|it| &*it.unit));
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
        self.units.get(id)
    }

    /// A unit that will be loaded again where somebody asks for it.
    pub(crate) fn forget(&mut self, name: &UnitName) {
        if let Some(loaded) = self.units.remove(name) {
            for name in &loaded.unit.names {
                self.names.remove(name);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// systemd.unit(5), RequiresMountsFor=.
    #[test]
    fn mounts_on_the_way_to_a_path_are_loaded_with_their_user() {
        let folder = std::env::temp_dir().join(format!("aurae-mounts-{}", std::process::id()));
        let folder = folder.to_str().unwrap().to_owned();
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(format!("{folder}/{name}"), text).unwrap();
        };
        write(
            "a.service",
            "[Unit]\nRequiresMountsFor=/srv/a/b\n[Service]\nExecStart=/bin/a\n",
        );
        write("srv-a.mount", "[Mount]\nWhat=/dev/x\nWhere=/srv/a\n");
        let mut table = Table::read(Arc::new(Folders {
            paths: vec![folder.clone()],
            persistent: folder.clone(),
            runtime: folder.clone(),
        }));
        let (service, mount) = ("a.service", "srv-a.mount");
        let [service, mount] = [service, mount].map(|it| UnitName::parse(it).unwrap());
        table.load(std::slice::from_ref(&service));
        assert!(table.find(&mount).is_some());
        let kinds = [
            units::depend::Dependency::Requires,
            units::depend::Dependency::After,
        ];
        for kind in kinds {
            assert!(table.graph().has(kind, &service, &mount), "{kind:?}");
        }
        let above = UnitName::parse("srv.mount").unwrap();
        assert!(table.find(&above).is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// A service that is up stays as it was read, whatever becomes of its file.
    #[test]
    fn what_is_up_keeps_what_it_is_stopped_by() {
        let folder = std::env::temp_dir().join(format!("aurae-table-{}", std::process::id()));
        let folder = folder.to_str().unwrap().to_owned();
        std::fs::create_dir_all(&folder).unwrap();
        let file = format!("{folder}/a.service");
        let text = "[Service]\nExecStart=/bin/a\nExecStop=/bin/b\nTimeoutStopSec=7\n";
        let name = UnitName::parse("a.service").unwrap();
        let folders = Arc::new(Folders {
            paths: vec![folder.clone()],
            persistent: folder.clone(),
            runtime: folder.clone(),
        });
        let read = || {
            let mut table = Table::read(folders.clone());
            table.load(std::slice::from_ref(&name));
            table
        };
        std::fs::write(&file, text).unwrap();
        let old = read();
        type Step = fn(&str);
        let steps: [(Step, Load); 2] = [
            (|file| std::fs::remove_file(file).unwrap(), Load::NotFound),
            (
                |file| std::os::unix::fs::symlink("/dev/null", file).unwrap(),
                Load::Masked,
            ),
        ];
        for (change, load) in steps {
            change(&file);
            let mut new = read();
            new.keep_last(&old, std::slice::from_ref(&name));
            let kept = new.find(&name).unwrap();
            assert_eq!(kept.load(), load);
            let (commands, service) = new.rules(&name);
            assert_eq!(service.stop_timeout.micros(), Some(7_000_000));
            let step = super::super::steps::Step {
                phase: super::super::steps::Phase::Stop,
                index: 0,
                round: 0,
            };
            assert!(commands.has(step));
            // Without an earlier reading it has the defaults, and can be stopped by them.
            assert_eq!(
                read().rules(&name).1.stop_timeout.micros(),
                Some(90_000_000)
            );
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
