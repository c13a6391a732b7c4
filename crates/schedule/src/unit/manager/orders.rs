// SPDX-License-Identifier: Apache-2.0
//! What can be asked of the manager, and what it answers.

use std::time::Duration;

use model::error::{Error, Reason};
use model::signal::Signal;
use model::unit::{FileChange, FileVerb, JobMode, UnitDetail, UnitManager, UnitStatus, Verb, Whom};
use tokio::sync::oneshot;
use units::job::{Activity, JobType, World};
use units::name::UnitName;

use super::Manager;
use super::jobs::Accepted;
use super::signals::Asked;
use crate::unit::given;
use crate::unit::live::Machine;
use crate::unit::marker;
use crate::unit::news::News;
use crate::unit::path;
use crate::unit::sandbox::late::Bind;
use crate::unit::scope;
use crate::unit::socket::state as socket;
use crate::unit::steps::service;
use crate::unit::view::{Job, View};

pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// See the module.
pub(crate) enum Order {
    /// A job on a unit.
    Job(UnitName, Verb, JobMode, Reply<Accepted>),
    /// The units that are loaded; with `true` all that have a file.
    List(bool, Reply<Vec<UnitStatus>>),
    /// One unit, which is loaded.
    Get(UnitName, Reply<UnitDetail>),
    /// A signal to what a service runs.
    Kill(UnitName, Signal, Whom, Reply<()>),
    /// Hold the processes of a unit, or let them go on.
    Hold(UnitName, bool, Reply<()>),
    /// Remove folders of these kinds of a unit that is down.
    Clean(UnitName, Vec<String>, Reply<()>),
    /// Show a place of the node to a unit that runs.
    Bind(UnitName, Bind, Reply<()>),
    /// Forget failures, of these units or of all.
    ResetFailed(Vec<UnitName>, Reply<()>),
    /// Links of units; `true`: until the next reboot.
    Files(FileVerb, Vec<UnitName>, bool, Reply<Vec<FileChange>>),
    /// Read all files again.
    Reload(Reply<()>),
    /// How a unit is, for the bus; `true`: it is loaded first.
    View(UnitName, bool, Reply<View>),
    /// What callers have given the manager itself.
    Given(Reply<UnitManager>),
    /// Change the variables that all commands get, or whether watchdogs count.
    Give(given::Change, Option<bool>, Reply<UnitManager>),
    /// Mark a unit, or take marks away.
    Mark(UnitName, marker::Change, Reply<()>),
    /// The jobs that there are.
    Jobs(Reply<Vec<Job>>),
    /// Call a job off.
    Cancel(u64, Reply<()>),
    /// A scope, whose file was just written, is to begin with these processes.
    Scope(UnitName, Vec<i32>, JobMode, Reply<Accepted>),
    /// Move more processes into a scope.
    Attach(UnitName, Vec<i32>, Reply<()>),
    /// No controller looks after a scope any more.
    Abandon(UnitName, Reply<()>),
    /// The unit whose process this is.
    OfProcess(i32, Reply<Option<UnitName>>),
    /// End all units in their order: the node goes down.
    EndAll(oneshot::Sender<()>),
    /// How long that would take at most.
    LongestEnd(Reply<Duration>),
    /// Which of them have not ended.
    StillEnding(Reply<Vec<UnitName>>),
}

impl Manager {
    /// Answers the caller that waits; a caller that has gone away has asked all the same.
    pub(super) async fn ordered(&mut self, order: Order) {
        match order {
            Order::Job(unit, verb, mode, reply) => {
                self.load_for_caller(&unit).await;
                self.forget_trigger(&unit);
                let _ = reply.send(self.asked(&unit, verb, mode));
            }
            Order::List(files, reply) => {
                let _ = reply.send(Ok(self.list(files).await));
            }
            Order::Get(unit, reply) => {
                self.load_for_caller(&unit).await;
                let detail = self.detail(&unit).await;
                let _ = reply.send(detail);
            }
            Order::Kill(unit, signal, whom, reply) => {
                let asked = Asked {
                    signal,
                    whom,
                    reply,
                };
                self.signal(&unit, asked);
            }
            Order::Hold(unit, frozen, reply) => self.hold(&unit, frozen, reply),
            Order::Clean(unit, what, reply) => {
                self.load_for_caller(&unit).await;
                self.clean(&unit, what, reply);
            }
            Order::Bind(unit, bind, reply) => self.bind(&unit, bind, reply),
            Order::ResetFailed(units, reply) => {
                let _ = reply.send(self.reset(units));
            }
            Order::Files(verb, units, runtime, reply) => {
                let changed = self.change_files(verb, units, runtime).await;
                let _ = reply.send(changed);
            }
            Order::Reload(reply) => {
                self.feed.tell(News::Reloading(true));
                self.generate(true).await;
                self.reread().await;
                self.feed.tell(News::Reloading(false));
                let _ = reply.send(Ok(()));
            }
            Order::Given(_) | Order::Give(..) | Order::Mark(..) => {
                self.ordered_to_keep(order).await
            }
            Order::View(..)
            | Order::Jobs(_)
            | Order::Cancel(..)
            | Order::Scope(..)
            | Order::Attach(..)
            | Order::Abandon(..)
            | Order::OfProcess(..) => self.ordered_by_bus(order).await,
            Order::EndAll(reply) => self.end_all(reply).await,
            Order::LongestEnd(reply) => {
                let longest = self.longest_end().await;
                let _ = reply.send(Ok(longest));
            }
            Order::StillEnding(reply) => {
                let _ = reply.send(Ok(self.still_ending()));
            }
        }
    }

    pub(super) fn asked(
        &mut self,
        unit: &UnitName,
        verb: Verb,
        mode: JobMode,
    ) -> Result<Accepted, Error> {
        let wrong = |words: String| {
            let error = Error::new(Reason::WrongState, words);
            Err(error.about("unit", unit.to_string()))
        };
        let unit = &self.id(unit);
        let loaded = self.known.table.find(unit);
        let flag = |field| loaded.and_then(|it| it.unit.settings.flag(field)) == Some(true);
        let (starts, stops) = match verb {
            Verb::Start => (true, false),
            Verb::Stop => (false, true),
            Verb::Restart | Verb::TryRestart => (true, true),
            Verb::Reload | Verb::ReloadOrRestart => (false, false),
        };
        if starts && flag("RefuseManualStart") {
            return wrong(format!(
                "{unit} has RefuseManualStart=yes: other units start it"
            ));
        }
        if stops && flag("RefuseManualStop") {
            return wrong(format!(
                "{unit} has RefuseManualStop=yes: other units stop it"
            ));
        }
        let activity = self.known.activity(unit);
        let has_reload =
            loaded.is_some_and(|it| !it.unit.settings.commands("ExecReload").is_empty());
        let kind = match verb {
            Verb::Start => JobType::Start,
            Verb::Stop => JobType::Stop,
            Verb::Restart => JobType::Restart,
            Verb::TryRestart if !activity.is_up() => {
                return Ok(Accepted {
                    id: None,
                    notes: Vec::new(),
                    ended: None,
                });
            }
            Verb::TryRestart => JobType::Restart,
            Verb::ReloadOrRestart if !has_reload || !activity.is_active() => JobType::Restart,
            Verb::Reload if !has_reload => {
                return wrong(format!(
                    "{unit} has no ExecReload=, by which it would reload"
                ));
            }
            Verb::Reload | Verb::ReloadOrRestart => JobType::Reload,
        };
        if kind == JobType::Stop && loaded.is_none() {
            return Err(Error::not_found("unit", unit.to_string()));
        }
        self.enqueue(unit, kind, mode)
    }

    /// Forgets failures and counts of starts (systemctl(1), `reset-failed`).
    fn reset(&mut self, units: Vec<UnitName>) -> Result<(), Error> {
        let ids: Vec<UnitName> = match units.is_empty() {
            true => self.known.live.keys().cloned().collect(),
            false => units.iter().map(|it| self.id(it)).collect(),
        };
        for unit in ids {
            let before = self.known.activity(&unit);
            let Some(live) = self.known.live.get_mut(&unit) else {
                continue;
            };
            live.starts.clear();
            live.failed = None;
            if let Machine::Service(state) = &mut live.machine
                && state.sub == service::Sub::Failed
            {
                *state = service::State::default();
            }
            match &mut live.machine {
                Machine::Socket(state) if state.sub == socket::Sub::Failed => {
                    state.sub = socket::Sub::Dead;
                    state.result = Default::default();
                }
                Machine::Path(state) if state.sub == path::Sub::Failed => {
                    *state = path::State::default();
                }
                Machine::Scope(state) if state.sub == scope::Sub::Failed => {
                    *state = scope::State::default();
                }
                _ => {}
            }
            if before == Activity::Failed {
                live.words.clear();
            }
            self.dirty.insert(unit);
        }
        Ok(())
    }

    /// A user starts it: nothing has triggered it.
    fn forget_trigger(&mut self, unit: &UnitName) {
        let id = self.id(unit);
        if !self.known.activity(&id).is_up()
            && let Some(live) = self.known.live.get_mut(&id)
        {
            live.trigger.clear();
        }
    }

    /// Reads all files again. What is loaded and has a state stays loaded.
    pub(super) async fn reread(&mut self) {
        let names: Vec<UnitName> = self
            .known
            .table
            .all()
            .map(|(name, _)| name.clone())
            .collect();
        let live: Vec<UnitName> = self
            .known
            .live
            .iter()
            .filter(|(name, it)| it.activity() != Activity::Inactive || names.contains(name))
            .map(|(name, _)| name.clone())
            .collect();
        let up = |it: &&UnitName| self.known.activity(it).is_up();
        let ups: Vec<UnitName> = live.iter().filter(up).cloned().collect();
        let longest = self.longest();
        let old = self.known.table.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut table = crate::unit::table::Table::read_again(&old, &live);
            table.keep_last(&old, &ups);
            table
        });
        if let Ok(table) = read.await {
            self.feed.moved = true;
            self.known.table = table;
            self.engine.reordered();
            self.watch_all_jobs();
            self.look_at_machine();
            self.limit_slices();
            self.limit_units();
            self.renew_longest(&longest);
            let timers: Vec<UnitName> = self
                .known
                .live
                .keys()
                .filter(|it| it.kind() == units::name::UnitType::Timer)
                .cloned()
                .collect();
            for timer in timers {
                if let Machine::Timer(state) = &mut self.known.live_mut(&timer).machine {
                    (state.calendar, state.next_real, state.next_boot) = (None, None, None);
                }
                self.plan_timer(&timer);
            }
            self.put_gone_away();
        }
    }
}
