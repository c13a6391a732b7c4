// SPDX-License-Identifier: Apache-2.0
//! What starts other units beside timers: what sockets, paths and stores have at work that is not
//! remembered over daemons, and what comes of it. The units themselves are in [`super::sockets`],
//! [`super::paths`] and [`super::stores`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use units::depend::Dependency;
use units::job::{Activity, World};
use units::name::{UnitName, UnitType};

use super::Manager;
use super::sockets::is_the_daemons;
use crate::unit::fdstore::{Checked, Stores};
use crate::unit::kept::{DescriptorStore, Left};
use crate::unit::live::Machine;
use crate::unit::path::watch::{Seen, Since};
use crate::unit::runs::Run;
use crate::unit::socket::Listening;
use crate::unit::socket::peer::Connection;
use crate::unit::socket::state;
use crate::unit::steps::service::Sub;
use crate::unit::steps::{Outcome, Phase};

/// So many instances of connections that failed stay to be looked at; older ones are forgotten.
const FAILED: usize = 64;

/// Something that a job has come to.
pub(super) enum Happened {
    /// A list of commands of a socket unit has come to its end: how, and words.
    Commands(UnitName, u64, Phase, Outcome, String),
    /// What it listens on is there, and kept; or words.
    Opened(UnitName, u64, Result<Vec<Listening>, String>),
    /// A client comes.
    Incoming(UnitName, u64),
    /// A connection was accepted.
    Accepted(UnitName, u64, OwnedFd),
    /// A connection waits, and can't be taken for want of descriptors or memory: words.
    Full(UnitName, u64, String),
    /// It is tried once more.
    Again(UnitName, u64),
    /// Nothing can be waited for.
    Deaf(UnitName, u64, String),
    /// What waited was thrown away.
    Flushed(UnitName, u64),
    /// What a socket unit's command ran has gone.
    Gone(UnitName, u64),
    /// A connection is kept, under that number.
    Kept(UnitName, Option<u64>),
    /// A path unit is to start its unit.
    Path(UnitName, u64, Result<Seen, String>),
    /// A descriptor was looked at: it is to be stored.
    Checked(
        UnitName,
        u64,
        (Option<String>, bool),
        Result<Checked, String>,
    ),
    /// A stored descriptor is kept.
    Stored(UnitName, u64, Result<u64, String>),
    /// The socket on which a service says something of itself is kept, under that number.
    Listens(UnitName, u64, u64),
    /// The other ends of stored ones have gone.
    Ends(Vec<u64>),
}

/// See the module.
pub(super) struct Triggers {
    pub(super) descriptors: DescriptorStore,
    /// What socket units listen on.
    pub(super) open: BTreeMap<UnitName, Vec<Listening>>,
    /// Resolves when what a socket unit listened on has gone, with its files.
    pub(super) closing: BTreeMap<UnitName, oneshot::Receiver<()>>,
    /// Who waits at a socket or a path, and which turn it is: what comes of an older one is late.
    pub(super) waits: BTreeMap<UnitName, (u64, AbortHandle)>,
    /// Sockets with a connection that can't be taken, and how often that was tried.
    pub(super) full: BTreeMap<UnitName, u32>,
    /// Commands of socket units that run.
    pub(super) commands: BTreeMap<UnitName, (u64, AbortHandle, Option<Run>)>,
    /// Connections, by the service of each.
    pub(super) connections: BTreeMap<UnitName, Connection>,
    /// Effects of sockets that were decided and aren't done.
    pub(super) effects: Vec<(UnitName, state::Effect)>,
    /// Path units that begin to wait.
    pub(super) looks: Vec<(UnitName, Since)>,
    /// Instances that are over.
    pub(super) over: BTreeSet<UnitName>,
    failed: VecDeque<UnitName>,
    pub(super) stores: Stores,
    /// Which service's descriptors are looked at, and what waits behind.
    pub(super) checking: BTreeMap<UnitName, VecDeque<(Option<String>, bool, OwnedFd)>>,
    /// An end is waited for.
    pub(super) waits_for_ends: bool,
    /// What an earlier daemon has left, until it is taken over.
    pub(super) left: Left,
    turn: u64,
}

impl Triggers {
    pub(super) fn new(descriptors: DescriptorStore) -> Triggers {
        Triggers {
            descriptors,
            open: BTreeMap::new(),
            closing: BTreeMap::new(),
            waits: BTreeMap::new(),
            full: BTreeMap::new(),
            commands: BTreeMap::new(),
            connections: BTreeMap::new(),
            effects: Vec::new(),
            looks: Vec::new(),
            over: BTreeSet::new(),
            failed: VecDeque::new(),
            stores: Stores::default(),
            checking: BTreeMap::new(),
            waits_for_ends: false,
            left: Left::new(),
            turn: 0,
        }
    }

    /// A number that none has had.
    pub(super) fn next(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// The manager waits no more for what a unit listens on, or looks at.
    pub(super) fn leave(&mut self, unit: &UnitName) {
        if let Some((_, job)) = self.waits.remove(unit) {
            job.abort();
        }
    }

    /// Whether a turn is the one that goes on, which is over then.
    pub(super) fn is_turn(&mut self, unit: &UnitName, turn: u64) -> bool {
        let is_it = self.waits.get(unit).is_some_and(|(it, _)| *it == turn);
        if is_it {
            self.waits.remove(unit);
        }
        is_it
    }
}

impl Manager {
    pub(super) fn triggered(&mut self, happened: Happened) {
        match happened {
            Happened::Commands(unit, turn, phase, outcome, words) => {
                self.commands_done(&unit, turn, phase, outcome, words);
            }
            Happened::Opened(unit, turn, opened) => self.opened(&unit, turn, opened),
            Happened::Incoming(unit, turn) => {
                if self.triggers.is_turn(&unit, turn) {
                    self.socket_event(&unit, state::Event::Incoming);
                }
            }
            Happened::Accepted(unit, turn, fd) => {
                if self.triggers.is_turn(&unit, turn) {
                    self.socket_has_room(&unit);
                    self.accepted(&unit, fd);
                }
            }
            Happened::Full(unit, turn, words) => {
                if self.triggers.is_turn(&unit, turn) {
                    self.socket_is_full(&unit, &words);
                }
            }
            Happened::Again(unit, turn) => {
                if self.triggers.is_turn(&unit, turn) {
                    self.watch_socket(&unit);
                }
            }
            Happened::Deaf(unit, turn, words) => {
                if self.triggers.is_turn(&unit, turn) {
                    self.socket_fails(&unit, Outcome::Failure, words);
                }
            }
            Happened::Flushed(unit, turn) => {
                if self.triggers.is_turn(&unit, turn) {
                    self.watch_socket(&unit);
                }
            }
            Happened::Gone(unit, turn) => self.commands_gone(&unit, turn),
            Happened::Kept(unit, number) => self.connection_kept(&unit, number),
            Happened::Path(unit, turn, seen) => {
                if self.triggers.is_turn(&unit, turn) {
                    self.path_seen(&unit, seen);
                }
            }
            Happened::Checked(unit, most, what, checked) => {
                self.store_checked(&unit, most, what, checked);
            }
            Happened::Stored(unit, id, kept) => self.store_kept(&unit, id, kept),
            Happened::Listens(unit, turn, number) => self.socket_kept(&unit, turn, number),
            Happened::Ends(ids) => self.stores_ended(ids),
        }
    }

    /// Does what was decided for sockets and paths, after the rows were written.
    pub(super) async fn perform_triggers(&mut self) {
        for (unit, effect) in std::mem::take(&mut self.triggers.effects) {
            self.socket_effect(&unit, effect);
        }
        for (unit, since) in std::mem::take(&mut self.triggers.looks) {
            self.look_at_path(&unit, since);
        }
        self.wait_for_ends();
        self.forget_instances();
        let triggers = &self.triggers;
        let more = !triggers.effects.is_empty() || !triggers.looks.is_empty();
        if more || !self.wanted.is_empty() {
            // What follows begins with the next turn.
            self.jobs.spawn(async { super::Happened::Nothing });
        }
    }

    /// A unit is another than it was, or has no job any more: what starts it is told.
    pub(super) fn tell_triggers(&mut self, unit: &UnitName) {
        if self.engine.job(unit).is_some() {
            return;
        }
        let activity = self.known.activity(unit);
        let live = self.known.live.get(unit);
        let restarts = matches!(live.map(|it| &it.machine),
            Some(Machine::Service(it)) if it.sub == Sub::AutoRestart);
        let limit = live.is_some_and(|it| it.failed == Some(Outcome::StartLimitHit));
        let down = restarts || matches!(activity, Activity::Inactive | Activity::Failed);
        let up = activity.is_active();
        for other in self.triggering(unit) {
            match (other.kind(), down, up) {
                (UnitType::Socket, true, _) if limit => {
                    let words = format!("{unit} was started too often");
                    self.socket_fails(&other, Outcome::StartLimitHit, words);
                }
                (UnitType::Socket, true, _) => self.socket_event(&other, state::Event::Silent),
                (UnitType::Socket, _, true) => self.socket_event(&other, state::Event::Serves),
                (UnitType::Path, down, up) => self.path_told(&other, unit, (down, up, limit)),
                _ => {}
            }
        }
        if down {
            self.service_is_down(unit, activity);
        }
    }

    /// The sockets and paths that start a unit. One that the daemon listens at starts none.
    fn triggering(&self, unit: &UnitName) -> Vec<UnitName> {
        let mut all = self.known.of_others(unit, Dependency::Triggers);
        all.retain(|it| !self.socket_files(it).is_some_and(|it| is_the_daemons(&it)));
        all
    }

    /// What is left of a service that is down goes, where nothing is to come.
    fn service_is_down(&mut self, unit: &UnitName, activity: Activity) {
        let comes_back = activity.is_up();
        if !comes_back {
            self.empty_store(unit);
            self.end_connection(unit, activity);
        }
    }

    /// A job of a unit was refused: nothing starts it.
    pub(super) fn not_triggered(&mut self, unit: &UnitName, error: &model::error::Error) {
        for other in self.triggering(unit) {
            // It has started the unit, and waits for nothing else.
            let machine = self.known.live.get(&other).map(|it| &it.machine);
            match machine {
                Some(Machine::Socket(it)) if it.sub == state::Sub::Running => {
                    self.socket_fails(&other, Outcome::Failure, error.to_string());
                }
                Some(Machine::Path(it)) if it.sub == crate::unit::path::Sub::Running => {
                    self.path_fails(&other, Outcome::Failure, error.to_string());
                }
                _ => {}
            }
        }
        self.end_connection(unit, Activity::Inactive);
    }

    /// Forgets instances of connections that are over: a thousand of them would fill the table.
    fn forget_instances(&mut self) {
        for unit in std::mem::take(&mut self.triggers.over) {
            let failed = self.known.activity(&unit) == Activity::Failed;
            if failed {
                self.triggers.failed.push_back(unit);
            } else {
                self.forget_instance(&unit);
            }
        }
        while self.triggers.failed.len() > FAILED {
            if let Some(unit) = self.triggers.failed.pop_front() {
                self.forget_instance(&unit);
            }
        }
    }

    fn forget_instance(&mut self, unit: &UnitName) {
        let busy = self.engine.job(unit).is_some()
            || self.known.activity(unit).is_up()
            || self.effects.iter().any(|it| it.unit == *unit);
        if busy {
            // It was started again meanwhile; its next end counts.
            return;
        }
        self.known.table.forget(unit);
        self.feed.moved = true;
        self.known.live.remove(unit);
        // A row without a state is removed.
        self.dirty.insert(unit.clone());
        self.one_is_gone();
    }

    /// Takes back what an earlier daemon has left with node-init, and the connections among it.
    pub(super) async fn take_what_is_left(&mut self) {
        match self.triggers.descriptors.left().await {
            Ok(left) => self.triggers.left = left,
            Err(error) => tracing::error!(%error, "what is kept for units is not known"),
        }
        self.adopt_connections();
    }

    /// Takes over what is left, before services go on: a start that was decided and not done gets
    /// its sockets, its stored descriptors and its user.
    pub(super) async fn take_over_left(&mut self) {
        for unit in self.sockets_and_paths() {
            match unit.kind() {
                UnitType::Socket => self.adopt_socket(&unit),
                _ => self.adopt_path(&unit),
            }
        }
        self.adopt_stores();
        self.adopt_users().await;
    }

    /// Drops what no unit has taken over.
    pub(super) async fn drop_left(&mut self) {
        for kept in std::mem::take(&mut self.triggers.left)
            .into_values()
            .flatten()
        {
            tracing::info!(
                owner = kept.owner,
                "a descriptor of an earlier daemon is dropped"
            );
            self.triggers.descriptors.forget(kept.number).await;
        }
    }

    fn sockets_and_paths(&self) -> Vec<UnitName> {
        let wanted = |it: &&UnitName| matches!(it.kind(), UnitType::Socket | UnitType::Path);
        self.known.live.keys().filter(wanted).cloned().collect()
    }
}
