// SPDX-License-Identifier: Apache-2.0
//! The task that keeps all units: takes in what has happened, has [`super::steps`] and
//! `units::job` decide, keeps that, does it, waits; and again. It alone changes units; others send
//! it [`Order`]s.
//!
//! What was decided is on its way to the disk before it is done. Where the disk takes nothing, it
//! is done all the same, and written once that works.

mod actions;
mod acts;
mod automounts;
mod bind;
mod clock;
mod connections;
mod devices;
mod ends;
mod files;
mod follow;
mod given;
mod gone;
mod hear;
mod hold;
mod jobs;
mod keep;
mod machine;
mod memory;
mod names;
mod orders;
mod paths;
mod room;
mod sandbox;
mod scopes;
mod show;
mod shutdown;
mod signals;
mod slices;
mod sockets;
mod stores;
mod triggers;
mod users;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kernel::time::{boottime_ns, realtime_ns};
use model::error::Error;
use model::status::Object;
use store::Store;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use units::condition::Verdict;
use units::job::Activity;
use units::job::engine::{Ending, Engine};
use units::name::UnitName;

use super::bus::{self, Bus};
use super::device::Device;
use super::dynamic::Pool;
use super::generate::Generators;
use super::given::Given;
use super::kept::DescriptorStore;
use super::live::{Known, Live};
use super::news::{Feed, News};
use super::notify;
use super::runs::{Places, Run, Runs};
use super::scope;
use super::steps::timer::Now;
use super::steps::{End, Role, service};
use super::table::{Changed, Folders, Table};

pub(crate) use jobs::word;
pub(crate) use orders::Order;

/// Orders that wait. Who has one more waits.
const QUEUE: usize = 64;
/// How long the task sleeps at most where it waits for a time of the real clock: that may be set.
const LONGEST: Duration = Duration::from_secs(15);
/// Between two tries to write, or to look whether the node still goes down.
const AGAIN: Duration = Duration::from_secs(2);

/// What a manager begins with.
pub(crate) struct Beginning {
    pub(crate) folders: Folders,
    /// What is run before files are read.
    pub(crate) generators: Option<Generators>,
    /// What is started with the node, where it is.
    pub(crate) first: Option<UnitName>,
    pub(crate) boot_id: String,
    pub(crate) run: PathBuf,
    /// The folder of the units' sockets.
    pub(crate) sockets: PathBuf,
    pub(crate) store: Store,
    pub(crate) runs: Runs,
    /// The daemon's init is the machine's.
    pub(crate) is_machine: bool,
    /// The socket of the system bus.
    pub(crate) bus: PathBuf,
}

/// Something that has come of an act.
enum Happened {
    /// A unit's conditions and assertions were looked at.
    Checked(UnitName, Verdict, Verdict),
    /// A command was executed.
    Began(Run, Role, Arc<Object>),
    /// One could not be: its status, words.
    NotBegun(Run, u8, String),
    /// The runtime refused it.
    Refused(Run, String),
    /// A command has ended.
    Ended(Run, End),
    /// What an activation has was signalled.
    Signalled(UnitName, ends::Sent, ends::Reached),
    /// No process of a unit lives, since that activation.
    Gone(UnitName, u64),
    /// A process of a unit's activation was ended for want of memory.
    OutOfMemory(UnitName, u64),
    /// The machine's mounts are others.
    Mounts,
    /// Its clock or its zone is another.
    Clock(clock::Change),
    /// udev has said something of devices.
    Devices,
    /// udev's database was read.
    AllDevices(Vec<(String, Device)>),
    /// The machine is on a network; or words.
    Online(UnitName, Option<String>),
    /// A device is there; or words.
    Device(UnitName, Option<String>),
    /// A scope's group was made, or could not be; an empty text: nothing lives in it.
    Scope(UnitName, Result<String, String>),
    /// Of automounts.
    Automount(automounts::Told),
    /// Of sockets, paths and stores.
    Trigger(triggers::Happened),
    /// Of units that are gone.
    PutAway(gone::Told),
    /// Nothing that the manager waits for.
    Nothing,
}

/// Who waits for the end of a job.
type Waiting = BTreeMap<u64, Vec<oneshot::Sender<Ending>>>;

/// See the module.
pub(crate) struct Manager {
    folders: Arc<Folders>,
    first: Option<UnitName>,
    boot_id: String,
    /// Where what activations share is kept.
    run: PathBuf,
    store: Store,
    runs: Runs,
    known: Known,
    engine: Engine,
    /// Effects that were decided and aren't done.
    effects: Vec<acts::Decided>,
    /// Units that have changed and aren't written.
    dirty: BTreeSet<UnitName>,
    /// Whose conditions are being looked at.
    checking: BTreeSet<UnitName>,
    /// What is to be killed once it was begun: of which activation, and whether for its watchdog.
    killing: BTreeMap<UnitName, (u64, bool)>,
    /// Signals of callers that wait until a command of the unit was executed.
    signals: BTreeMap<UnitName, Vec<signals::Asked>>,
    /// The daemon's init is the machine's.
    is_machine: bool,
    users: Pool,
    bus: Bus,
    /// What the bus says of names.
    names: mpsc::Receiver<bus::Told>,
    followed: follow::Followed,
    /// Who listens is told here.
    feed: Feed,
    scopes: scopes::Known,
    /// Whose memory is watched: of which activation, and by which job.
    memory: BTreeMap<UnitName, (u64, tokio::task::AbortHandle)>,
    /// Of sockets, paths and stores.
    triggers: triggers::Triggers,
    /// Units to start or stop, because of others.
    wanted: Vec<jobs::Wanted>,
    waiting: Waiting,
    jobs: JoinSet<Happened>,
    inbox: mpsc::Receiver<Order>,
    /// Whether others than idle services have jobs.
    busy: watch::Sender<bool>,
    /// Of starts that are on their way.
    places: Places,
    /// Where the sockets of units are.
    folder: PathBuf,
    /// Those of units that have one.
    sockets: BTreeMap<UnitName, notify::Socket>,
    /// What services say, and where that is taken from.
    heard: mpsc::Receiver<notify::Heard>,
    hears: mpsc::Sender<notify::Heard>,
    /// What was said while a process of its unit was being executed, whose number isn't known yet.
    early: BTreeMap<UnitName, Vec<notify::Heard>>,
    /// Units whose jobs have changed and aren't written.
    dirty_jobs: BTreeSet<UnitName>,
    /// The last write failed.
    behind: bool,
    /// What is started with the node is on its way.
    booting: bool,
    /// What udev says of devices.
    devices: devices::Watched,
    /// Automounts that are there.
    points: automounts::Points,
    /// Says when mounts change.
    mounts: Option<machine::Table>,
    /// Says when the clock is set, and when the zone is another.
    clock: clock::Watch,
    /// What is run before files are read.
    generators: Option<Generators>,
    /// How far the end of all units is, where the node goes down.
    last: shutdown::Last,
    /// How far what units have left that are gone is put away.
    gone: gone::Gone,
    /// What callers have given the manager itself, and whether that isn't written.
    given: Given,
    dirty_given: bool,
}

impl Manager {
    /// A manager and what reaches it.
    pub(crate) fn new(beginning: Beginning) -> (Manager, mpsc::Sender<Order>) {
        let (orders, inbox) = mpsc::channel(QUEUE);
        let (hears, heard) = mpsc::channel(QUEUE);
        let folders = Arc::new(beginning.folders);
        let descriptors = DescriptorStore::new(beginning.runs.runtime.node_init().clone());
        let (bus, names) = Bus::new(beginning.bus);
        let is_machine = beginning.is_machine;
        let scopes = scopes::Known::new(beginning.runs.runtime.scopes(is_machine));
        let manager = Manager {
            known: Known {
                table: Table::read(folders.clone()),
                live: BTreeMap::new(),
            },
            folders,
            first: beginning.first,
            boot_id: beginning.boot_id,
            run: beginning.run,
            store: beginning.store,
            runs: beginning.runs,
            engine: Engine::default(),
            effects: Vec::new(),
            dirty: BTreeSet::new(),
            checking: BTreeSet::new(),
            killing: BTreeMap::new(),
            signals: BTreeMap::new(),
            is_machine,
            users: Pool::new(descriptors.clone()),
            bus,
            names,
            followed: follow::Followed::default(),
            feed: Feed::new(),
            scopes,
            memory: BTreeMap::new(),
            triggers: triggers::Triggers::new(descriptors),
            wanted: Vec::new(),
            waiting: BTreeMap::new(),
            jobs: JoinSet::new(),
            inbox,
            busy: watch::Sender::new(false),
            places: Places::new(),
            folder: beginning.sockets,
            sockets: BTreeMap::new(),
            heard,
            hears,
            early: BTreeMap::new(),
            dirty_jobs: BTreeSet::new(),
            behind: false,
            booting: false,
            devices: devices::Watched::default(),
            points: automounts::Points::new(),
            mounts: None,
            clock: clock::Watch::default(),
            generators: beginning.generators,
            last: shutdown::Last::default(),
            gone: gone::Gone::default(),
            given: Given::default(),
            dirty_given: false,
        };
        (manager, orders)
    }

    /// Runs as long as a handle may send orders.
    pub(crate) async fn run(mut self) {
        self.runs.runtime.logs_are_known().await;
        self.mounts = machine::table();
        self.watch_mounts();
        self.clock = clock::Watch::new();
        self.watch_clock();
        self.watch_zone();
        if self.is_machine {
            self.watch_devices().await;
        }
        self.generate(false).await;
        self.known.table = Table::read(self.folders.clone());
        let fresh = match self.adopt().await {
            Ok(fresh) => fresh,
            Err(error) => {
                // What runs may be what would be started: nothing is.
                tracing::error!(%error, "what is known of units can't be read; none is started");
                false
            }
        };
        self.put_gone_away();
        if let Some(first) = self.first.clone().filter(|_| fresh) {
            self.load(vec![first.clone()]).await;
            match self.enqueue(&first, units::job::JobType::Start, Default::default()) {
                Ok(accepted) => {
                    self.booting = true;
                    tracing::info!(unit = %first, notes = ?accepted.notes, "starting");
                }
                Err(error) => tracing::error!(unit = %first, %error, "the first unit can't start"),
            }
        }
        loop {
            if self.runs.runtime.goes_down() && !self.is_ending() {
                // What ends now ends with the node: it is no unit's doing.
                tokio::select! {
                    order = self.inbox.recv() => match order {
                        Some(order) => self.ordered(order).await,
                        None => return,
                    },
                    () = tokio::time::sleep(AGAIN) => {}
                }
                continue;
            }
            self.settle().await;
            self.look_whether_ended();
            self.forget_scopes();
            self.publish();
            self.keep().await;
            self.perform().await;
            self.perform_triggers().await;
            let pause = self.pause();
            tokio::select! {
                order = self.inbox.recv() => match order {
                    Some(order) => self.ordered(order).await,
                    None => return,
                },
                Some(done) = self.jobs.join_next() => self.job_done(done),
                Some(heard) = self.heard.recv() => self.hear(heard),
                Some(told) = self.names.recv() => self.named(&told),
                () = self.places.given_up() => {}
                () = tokio::time::sleep(pause.unwrap_or(LONGEST)), if pause.is_some() => {}
            }
            // What has happened meanwhile is taken in at once.
            while let Some(done) = self.jobs.try_join_next() {
                self.job_done(done);
            }
            self.tick();
        }
    }

    /// Who listens is told what is another.
    pub(crate) fn news(&self) -> broadcast::Sender<News> {
        self.feed.sender()
    }

    fn publish(&mut self) {
        let jobs = self.engine.jobs().map(|(unit, job)| (job.id, unit));
        let units = self.known.table.all().map(|(unit, _)| unit);
        self.feed.publish(jobs, units);
    }

    /// A job that was given up says nothing; the others are taken in all the same.
    fn job_done(&mut self, done: Result<Happened, tokio::task::JoinError>) {
        match done {
            Ok(happened) => self.happened(happened),
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!(%error, "a job of the unit manager"),
        }
    }

    fn now(&self) -> Now {
        Now {
            real: realtime_ns(),
            boot: boottime_ns(),
        }
    }

    /// How long nothing happens by itself.
    fn pause(&self) -> Option<Duration> {
        let now = self.now();
        let live = || self.known.live.values();
        let boot = live().filter_map(|it| it.wake());
        let boot = boot.chain(self.next_job_deadline()).min();
        let real = live().filter_map(|it| it.wake_real()).min();
        let boot = boot.map(|at| Duration::from_nanos(at.saturating_sub(now.boot)));
        let real = real.map(|at| Duration::from_nanos(at.saturating_sub(now.real)).min(LONGEST));
        let behind = self.behind.then_some(AGAIN);
        [boot, real, behind].into_iter().flatten().min()
    }

    /// Lets what waits for a time go on.
    fn tick(&mut self) {
        let now = self.now();
        let due = |live: &Live| {
            live.wake().is_some_and(|at| at <= now.boot)
                || live.wake_real().is_some_and(|at| at <= now.real)
        };
        let due: Vec<UnitName> = self
            .known
            .live
            .iter()
            .filter(|(_, live)| due(live))
            .map(|(unit, _)| unit.clone())
            .collect();
        for unit in due {
            match unit.kind() {
                units::name::UnitType::Timer => self.elapse(&unit),
                units::name::UnitType::Scope => self.scope_event(&unit, scope::Event::Time),
                _ => {
                    self.excuse(&unit, now.boot);
                    self.event(&unit, service::Event::Time);
                }
            }
            self.drop_times(&unit, now);
        }
        self.expire_jobs();
    }

    /// A time that has passed and that the state machine hasn't taken in, of a unit without a
    /// file, comes no more.
    fn drop_times(&mut self, unit: &UnitName, now: Now) {
        let is_loaded = self.known.table.find(unit).is_some();
        if let Some(live) = self.known.live.get_mut(unit).filter(|_| !is_loaded) {
            live.drop_passed(now);
        }
    }

    /// Loads units and what they lead to, beside the task's thread.
    async fn load(&mut self, names: Vec<UnitName>) {
        let all_known = names.iter().all(|it| self.known.table.find(it).is_some());
        if !all_known {
            self.read_files(move |table| table.load(&names)).await;
        }
    }

    /// The same of one that a caller asks for, by its files as they are now where nothing that is
    /// up, has failed or has a job holds on to what was read earlier. Units that others name and
    /// that had no file have one then, where one has come.
    async fn load_for_caller(&mut self, unit: &UnitName) {
        let wanted = vec![unit.clone()];
        let read = self.known.table.as_read(unit);
        let looked = tokio::task::spawn_blocking(move || read.changed()).await;
        let (changed, needed) = match looked.unwrap_or(Changed::Nothing) {
            Changed::Nothing => return self.load(wanted).await,
            changed => (changed, self.needed()),
        };
        // Its file is another one, and what was read of it is held on to: no folder is listed, or a
        // unit that was changed and runs would have that done each time that it is looked at.
        if changed == Changed::Unit && self.known.table.leads_to(needed.clone(), unit) {
            return;
        }
        self.read_files(move |table| table.load_anew(&wanted, needed))
            .await;
        // Some are loaded no more.
        self.feed.moved = true;
    }

    /// Units that what was read of them is held for.
    fn needed(&self) -> Vec<UnitName> {
        let lives = |(_, live): &(&UnitName, &Live)| live.activity() != Activity::Inactive;
        let living = self.known.live.iter().filter(lives);
        let living = living.map(|(unit, _)| unit.clone());
        let jobs = self.engine.jobs().map(|(unit, _)| unit.clone());
        let begun = self.effects.iter().map(|it| it.unit.clone());
        living.chain(jobs).chain(begun).collect()
    }

    async fn read_files(
        &mut self,
        read: impl FnOnce(&mut Table) -> Vec<UnitName> + Send + 'static,
    ) {
        // It is lent, not copied: no other task looks at it meanwhile.
        let empty = Table::empty(self.folders.clone());
        let mut table = std::mem::replace(&mut self.known.table, empty);
        let loaded = tokio::task::spawn_blocking(move || {
            let new = read(&mut table);
            (table, new)
        });
        match loaded.await {
            Ok((table, new)) => {
                self.feed.moved |= !new.is_empty();
                self.known.table = table;
                self.look_at_each(&new);
                // One that is over and was loaded once more is forgotten once more.
                for unit in new
                    .iter()
                    .filter(|it| it.kind() == units::name::UnitType::Scope)
                {
                    self.known.live_mut(unit);
                }
            }
            Err(error) => {
                tracing::error!(%error, "loading units has failed; all are read again");
                self.known.table = Table::read(self.folders.clone());
                let live = self.known.live.keys().cloned().collect::<Vec<_>>();
                self.known.table.load(&live);
            }
        }
        self.engine.reordered();
    }

    /// Runs what writes unit files, once a boot or `again`.
    pub(super) async fn generate(&self, again: bool) {
        if let Some(generators) = &self.generators {
            generators.run(again).await;
        }
    }

    fn internal(words: &str) -> Error {
        Error::internal(words.to_owned())
    }
}
