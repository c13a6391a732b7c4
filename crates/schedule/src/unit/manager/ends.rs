// SPDX-License-Identifier: Apache-2.0
//! How processes of units are ended: which ones a signal reaches by `KillMode=`, when nothing lives
//! any more, and what is given back once a unit is down (systemd.kill(5)). What a signal leads to
//! is decided in [`crate::unit::steps`].

use model::signal::Signal;
use units::job::JobType;
use units::name::UnitName;
use units::service::KillMode;

use super::{Happened, Manager};
use crate::unit::credentials;
use crate::unit::live::Machine;
use crate::unit::program;
use crate::unit::runs::{self, Run, Runs};
use crate::unit::steps::Step;
use crate::unit::steps::service::{Event, Sub};

/// So many activations of a unit keep their records and logs at least, of earlier boots, too. What
/// older ones have printed goes to the log of its past.
const KEPT: u64 = 32;

/// What was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reached {
    /// At least one process was reached.
    any: bool,
    /// All of the unit's processes were meant.
    all: bool,
}

/// What a signal was sent for: its answer is of no use to what the unit has come to meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    activation: u64,
    sub: Sub,
}

/// Signals what the mode says; `last`: it is the final signal.
async fn reach(
    runs: &Runs,
    unit: &UnitName,
    processes: &[Run],
    (mode, last): (KillMode, bool),
    signals: &[Signal],
) -> Reached {
    let all = mode == KillMode::ControlGroup || (mode == KillMode::Mixed && last);
    if mode == KillMode::None {
        return Reached { any: false, all };
    }
    let inside = if all {
        runs.processes(unit)
    } else {
        Vec::new()
    };
    let apart = match all {
        true => apart(runs, processes, &inside),
        false => processes.to_vec(),
    };
    for signal in signals {
        let group = match all {
            true => runs.signal_unit(unit, *signal).await,
            false => Ok(()),
        };
        if let Err(error) = group.and(each(runs, &apart, *signal).await) {
            tracing::warn!(%unit, %signal, %error, "not every process was signalled");
        }
    }
    Reached {
        any: !inside.is_empty() || processes.iter().any(|run| has_process(runs, run)),
        all,
    }
}

/// Whether a command has a process that a signal reaches: one that has forked, and whose main
/// process isn't known (`GuessMainPID=no`), goes on without any. Of one that is over the end is
/// about to be told.
fn has_process(runs: &Runs, run: &Run) -> bool {
    let seen = runs.seen(run);
    seen.is_none_or(|it| it.state().is_final() || runs::pid(&it).is_some())
}

/// Commands whose process is in no group of the unit any more: a login at a terminal moves the main
/// process of its getty into the session's scope. It stays the unit's all the same.
fn apart(runs: &Runs, processes: &[Run], inside: &[i32]) -> Vec<Run> {
    let is_inside = |run: &&Run| {
        let pid = runs.seen(run).as_deref().and_then(runs::pid);
        let pid = pid.and_then(|it| i32::try_from(it).ok());
        pid.is_none_or(|pid| inside.contains(&pid))
    };
    let apart = processes.iter().filter(|run| !is_inside(run));
    apart.cloned().collect()
}

/// Signals the processes of commands, and nothing that they have started.
pub(super) async fn each(
    runs: &Runs,
    processes: &[Run],
    signal: Signal,
) -> Result<(), model::error::Error> {
    let mut outcome = Ok(());
    for run in processes {
        let sent = runs.signal(run, signal, false).await;
        outcome = outcome.and(sent);
    }
    outcome
}

impl Manager {
    /// Asks what a service has to end. What is just being executed is asked once it was.
    pub(super) fn kill(&mut self, unit: &UnitName, watchdog: bool) {
        let processes = self.processes(unit);
        let begins = |(run, begun): &(Run, bool)| !begun && self.runs.seen(run).is_none();
        if processes.iter().any(begins) {
            let killing = (self.activation(unit), watchdog);
            self.killing.insert(unit.clone(), killing);
            return;
        }
        let (_, service) = self.known.table.rules(unit);
        let kill = service.kill;
        let restarts = self.engine.job(unit).map(|it| it.kind) == Some(JobType::Restart);
        let first = match (watchdog, restarts) {
            (true, _) => kill.watchdog_signal,
            (false, true) => kill.restart_signal,
            (false, false) => kill.signal,
        };
        let hangup = kill.sends_hup.then_some(Signal::HUP);
        // Who is stopped by job control gets to know of it.
        let signals = [Some(first), hangup, Some(Signal::CONT)];
        let signals = signals.into_iter().flatten().collect();
        self.send(unit, processes, (kill.mode, false), signals);
    }

    /// Sends the final signal.
    pub(super) fn kill_now(&mut self, unit: &UnitName) {
        let (_, service) = self.known.table.rules(unit);
        let kill = service.kill;
        let processes = self.processes(unit);
        self.send(unit, processes, (kill.mode, true), vec![kill.final_signal]);
    }

    fn send(
        &mut self,
        unit: &UnitName,
        processes: Vec<(Run, bool)>,
        how: (KillMode, bool),
        signals: Vec<Signal>,
    ) {
        let Some(sent) = self.sent(unit) else {
            return;
        };
        let (runs, unit) = (self.runs.clone(), unit.clone());
        let processes: Vec<Run> = processes.into_iter().map(|(run, _)| run).collect();
        self.jobs.spawn(async move {
            let latest = runs.latest(&unit);
            // The next activation's processes are in the same cell: it begins behind the signals,
            // or they come too late.
            let latest = latest.lock().await;
            if *latest > sent.activation {
                return Happened::Nothing;
            }
            let reached = reach(&runs, &unit, &processes, how, &signals).await;
            Happened::Signalled(unit, sent, reached)
        });
    }

    /// What a signal that is sent now is for.
    fn sent(&self, unit: &UnitName) -> Option<Sent> {
        let live = self.known.live.get(unit)?;
        let Machine::Service(state) = &live.machine else {
            return None;
        };
        Some(Sent {
            activation: live.activation,
            sub: state.sub,
        })
    }

    pub(super) fn signalled(&mut self, unit: &UnitName, sent: Sent, reached: Reached) {
        if self.sent(unit) != Some(sent) {
            return;
        }
        if reached.any && reached.all {
            self.watch(unit, sent.activation);
        }
        self.event(unit, Event::Signalled(reached.any));
    }

    /// Tells when no process of a unit lives any more.
    pub(super) fn watch(&mut self, unit: &UnitName, activation: u64) {
        let (runs, unit) = (self.runs.clone(), unit.clone());
        self.jobs.spawn(async move {
            runs.emptied(&unit).await;
            Happened::Gone(unit, activation)
        });
    }

    /// What was to be killed was begun meanwhile, or not.
    pub(super) fn kill_late(&mut self, unit: &UnitName) {
        let Some((activation, watchdog)) = self.killing.get(unit).copied() else {
            return;
        };
        let is_over = self.activation(unit) != activation;
        let pending = self.processes(unit).iter().any(|(_, begun)| !begun);
        if is_over || !pending {
            self.killing.remove(unit);
        }
        if !is_over && !pending {
            self.kill(unit, watchdog);
        }
    }

    /// Ends one command at once, which is no part of what goes on any more.
    pub(super) fn end_one(&mut self, unit: &UnitName, activation: u64, step: Step) {
        let run = Run {
            unit: unit.clone(),
            activation,
            step,
        };
        let runs = self.runs.clone();
        self.jobs.spawn(async move {
            runs.kill_surely(&run).await;
            Happened::Nothing
        });
    }

    /// Asks a service to read its configuration again, by `ReloadSignal=`'s default.
    pub(super) fn ask_reload(&mut self, unit: &UnitName) {
        let Some(run) = self.main_run(unit) else {
            return;
        };
        let runs = self.runs.clone();
        self.jobs.spawn(async move {
            if let Err(error) = runs.signal(&run, Signal::HUP, false).await {
                tracing::warn!(unit = %run.unit, %error, "it was not asked to reload");
            }
            Happened::Nothing
        });
    }

    /// The main process of a service.
    pub(super) fn main_run(&self, unit: &UnitName) -> Option<Run> {
        let live = self.known.live.get(unit)?;
        let Machine::Service(state) = &live.machine else {
            return None;
        };
        Some(Run {
            unit: unit.clone(),
            activation: live.activation,
            step: state.main?.step,
        })
    }

    /// The main process's number. Which one has taken another's place by its PID file the runtime
    /// sees first.
    pub(super) fn main_pid(&self, unit: &UnitName) -> Option<u32> {
        let noted = self.known.live.get(unit)?.main_pid?;
        let (_, service) = self.known.table.rules(unit);
        if service.pid_file.is_none() {
            return Some(noted);
        }
        let object = self.main_run(unit).and_then(|run| self.runs.seen(&run));
        object.as_deref().and_then(runs::pid).or(Some(noted))
    }

    /// A service is down: its folders below /run go, its cell where nothing lives in it, and old
    /// records.
    pub(super) async fn down(&mut self, unit: &UnitName, activation: u64) {
        self.close_notify(unit);
        self.early.remove(unit);
        self.leave_memory(unit);
        let live = self.known.live_mut(unit);
        live.main_pid = None;
        let restarts = matches!(&live.machine, Machine::Service(it) if it.sub == Sub::AutoRestart);
        // A restart by hand has become a start by now.
        let job = self.engine.job(unit).map(|it| it.kind);
        let again = restarts || matches!(job, Some(JobType::Start | JobType::Restart));
        let last = activation.saturating_sub(KEPT);
        if let Some(loaded) = self.known.table.find(unit) {
            let (files, service) = (loaded.unit.clone(), loaded.service.clone());
            let keeps = program::keeps_folders(&files.settings, again);
            // Before another start makes them anew.
            let cleared = tokio::task::spawn_blocking(move || {
                if let Some(service) = service {
                    program::clear_pid_file(&service);
                }
                if !keeps {
                    program::clear(&files);
                }
                if credentials::wants(&files.settings) {
                    credentials::clear(&files.id);
                }
                if program::has_terminal(&files.settings) {
                    program::reset_terminal(&files.settings);
                }
            });
            let _ = cleared.await;
        }
        self.end_shared(unit).await;
        let left = self.left_ipc(unit);
        let (runs, users, unit) = (self.runs.clone(), self.users.clone(), unit.clone());
        self.jobs.spawn(async move {
            // What goes on as that user, or is to be started again, keeps it.
            if !again && runs.processes(&unit).is_empty() {
                if let Some(left) = left {
                    let _ = tokio::task::spawn_blocking(|| left.remove()).await;
                }
                users.release(&unit, activation).await;
            }
            if let Err(error) = runs.let_go(&unit, activation).await {
                tracing::warn!(%unit, %error, "the cell of a unit stays");
            }
            if let Err(error) = runs.forget_old(&unit, last).await {
                tracing::warn!(%unit, %error, "old records of a unit stay");
            }
            Happened::Nothing
        });
    }
}
