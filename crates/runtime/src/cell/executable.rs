// SPDX-License-Identifier: Apache-2.0
//! What a cell's owner knows of one executable.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use init::protocol::{ExitHow, ExitRecord};
use kernel::cgroup::Cgroup;
use kernel::signal::Signal;
use model::error::Error;
use model::executable::Effective;
use model::exit::{Exit, How, Rusage};
use model::launch::KillMode;
use model::lifecycle::executable::Teardown;
use model::lifecycle::{Event, State};
use model::name::Uid;
use model::status::{Condition, ExecutableStatus, Object};
use model::time::Timestamp;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::handover::Spare;
use super::main_process::Main;
use super::owner::Event as Happened;
use super::state::Cell;
use super::{Reply, leaf};
use crate::record::ExecutableRecord;

/// An executable whose program was executed and whose end is not dealt with yet.
pub(crate) struct Executable {
    pub(crate) record: ExecutableRecord,
    pub(crate) effective: Effective,
    pub(crate) status: ExecutableStatus,
    pub(crate) leaf: Arc<Cgroup>,
    /// The write end of its standard input, or its terminal.
    pub(crate) input: Option<Arc<OwnedFd>>,
    /// Who started it and is told when its output is being stored.
    pub(crate) starter: Option<Reply<Arc<Object>>>,
    /// How the main process ended.
    pub(crate) exit: Option<Exit>,
    /// How it ended, as an earlier daemon was told; not dealt with yet.
    pub(crate) adopted_exit: Option<Exit>,
    /// Its record has come back from the cell-init: of the node it says nothing that counts.
    pub(crate) was_told: bool,
    /// How its main process ended, while it isn't known whether another has taken its place.
    pub(super) left: Option<Exit>,
    /// How far its end has come.
    pub(crate) teardown: Teardown,
    /// How the first process ended, where that wasn't the main one.
    pub(crate) first: Option<Exit>,
    /// What is known of its main process.
    pub(crate) main: Main,
    /// The main process is looked for until this is dropped.
    pub(super) seeking: Option<oneshot::Sender<()>>,
    /// What another init of its cell is given of it.
    pub(super) spare: Spare,
    /// Its output is being stored, or can't be.
    pub(crate) is_logged: bool,
    /// A task watches its leaf; from that moment on it is killed.
    pub(crate) kill_at: Option<watch::Sender<Option<Instant>>>,
    /// A task waits for the end of a stop's grace that kills nothing by itself.
    pub(super) grace: Option<watch::Sender<Instant>>,
    /// The last word of a stop is being said: see `Owner::grace_over`.
    pub(super) is_last_said: bool,
    /// Its cell ends: nothing outlives that, whatever its kill mode.
    pub(super) goes_with_cell: bool,
    /// Who waits for its end.
    pub(crate) waiting: Vec<Reply<Arc<Object>>>,
}

impl Executable {
    /// One that runs; `effective` is its record's.
    pub(crate) fn new(
        record: ExecutableRecord,
        effective: Effective,
        leaf: Arc<Cgroup>,
    ) -> Box<Self> {
        let main = Main::at_start(&effective);
        let status = ExecutableStatus {
            meta: record.meta.clone(),
            spec: record.spec.clone(),
            effective: effective.to_draft(),
            state: State::Starting,
            conditions: Vec::new(),
            pid: None,
            started: None,
            exit: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            final_usage: None,
        };
        Box::new(Self {
            record,
            effective,
            status,
            leaf,
            input: None,
            starter: None,
            exit: None,
            adopted_exit: None,
            was_told: false,
            left: None,
            teardown: Teardown::BEGIN,
            first: None,
            main,
            seeking: None,
            spare: Spare::default(),
            is_logged: false,
            kill_at: None,
            grace: None,
            is_last_said: false,
            goes_with_cell: false,
            waiting: Vec::new(),
        })
    }

    pub(crate) fn uid(&self) -> Uid {
        self.record.meta.uid
    }

    /// The name of its leaf.
    pub(crate) fn leaf_name(&self) -> String {
        self.record.leaf()
    }

    /// Whether what outlives its main process goes on.
    pub(crate) fn leaves_others(&self) -> bool {
        self.effective.ending.kill_mode.leaves() && !self.goes_with_cell
    }

    /// Whether what there is of it at the end of a grace is killed.
    pub(super) fn kills(&self) -> bool {
        let ending = &self.effective.ending;
        let kills = ending.send_sigkill != Some(false) && ending.kill_mode != KillMode::None;
        kills || self.goes_with_cell
    }

    /// The pure step: the state after an event. What can't happen leaves it as it is.
    pub(crate) fn step(&mut self, event: Event) -> Result<(), Error> {
        self.status.state = self.status.state.after(event).map_err(|illegal| {
            Error::from(illegal).about("executable", self.record.meta.path.to_string())
        })?;
        Ok(())
    }

    /// Tells how it is.
    pub(super) fn publish(&self, cell: &Cell) {
        let object = Object::Executable(self.status.clone());
        cell.shared.index.publish(object);
    }

    /// Stops at that moment at the latest, where its processes are to be killed at all.
    pub(super) fn kill_by(&mut self, at: Instant, cell: &Cell) {
        let at = Some(at).filter(|_| self.kills());
        self.watch_leaf(at, cell);
    }

    /// Watches the leaf until it is empty, killing from that moment on, if there is one.
    pub(super) fn watch_leaf(&mut self, at: Option<Instant>, cell: &Cell) {
        if let Some(sender) = &self.kill_at {
            return sender.send_modify(|due| *due = due.iter().copied().chain(at).min());
        }
        let (sender, due) = watch::channel(at);
        self.kill_at = Some(sender);
        let (uid, group) = (self.uid(), self.leaf.clone());
        let signal = i32::from(self.effective.final_signal.number());
        let last = Signal::from_number(signal).unwrap_or(Signal::KILL);
        cell.beside(async move {
            leaf::emptied(group, last, due).await;
            Happened::LeafEmpty(uid)
        });
    }

    /// Tells who has started it, once its output is being stored and its start is over. Where it
    /// has ended before, who has started it waits for its end.
    pub(super) fn tell_starter(&mut self, cell: &Cell) {
        let over = self.main.is_settled() || self.exit.is_some();
        if !self.is_logged || !over {
            return;
        }
        // Only now, so that a client that is told and attaches finds a log.
        if let Some(starter) = self.starter.take() {
            match self.main.is_settled() {
                true => drop(starter.send(cell.object(self.uid()))),
                false => self.waiting.push(starter),
            }
        }
    }
}

/// The model's form of an exit.
pub(crate) fn exit_of(record: &ExitRecord) -> Exit {
    const SIGKILL: u8 = 9;
    let (how, core_dumped) = match record.how {
        ExitHow::Code(code) => (How::Code(code), false),
        ExitHow::Signal { signal, core } => (How::Signal(signal), core),
        ExitHow::Unknown => (How::Unknown, false),
    };
    let rusage = Rusage {
        user_time: Duration::from_nanos(record.user_ns),
        system_time: Duration::from_nanos(record.system_ns),
        max_rss_bytes: record.max_rss_bytes,
        minor_faults: record.minor_faults,
        major_faults: record.major_faults,
        voluntary_switches: record.voluntary_switches,
        involuntary_switches: record.involuntary_switches,
    };
    Exit {
        how,
        oom_killed: how == How::Signal(SIGKILL) && record.oom_kills.is_some_and(|n| n > 0),
        oom_kills: record.oom_kills,
        core_dumped,
        started: Some(Timestamp(record.started_ns)),
        finished: Some(Timestamp(record.finished_ns)),
        rusage: (how != How::Unknown).then_some(rusage),
    }
}

/// A condition that holds since now.
pub(crate) fn condition(kind: &str, reason: &str, message: String) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: true,
        reason: reason.to_owned(),
        message,
        since: crate::now(),
    }
}
