// SPDX-License-Identifier: Apache-2.0
//! What a pod's task knows of one container.

use std::time::Duration;

use model::exit::Exit;
use model::name::Uid;
use model::pod::spec::{Container, Restart};
use model::pod::status::{ContainerState, ContainerStatus};
use model::pod::steps::{self, Count, Run, Seen};
use model::time::Timestamp;
use tokio::task::AbortHandle;

use super::ended;
use crate::kept::Ended;
use crate::sandbox::Program;

/// One container.
pub(super) struct Held {
    pub(super) seen: Seen,
    /// Of the run that goes on.
    pub(super) uid: Option<Uid>,
    pub(super) since: Option<Timestamp>,
    /// Of the last run that has ended.
    pub(super) exit: Option<Exit>,
    /// The last word of that run.
    pub(super) word: String,
    /// A run that has ended without a daemon: its last word wasn't looked for yet.
    pub(super) unheard: Option<Uid>,
    /// Why it waits, isn't ready, or was stopped.
    pub(super) message: String,
    /// How long this run has to end, where a probe that has failed says so.
    pub(super) grace: Option<Duration>,
    /// Why it was stopped last.
    pub(super) stopped_for: String,
    pub(super) watch: Option<Watching>,
}

/// The prober of a run, which goes with this.
pub(super) struct Watching(pub(super) AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Held {
    /// As an earlier daemon has left it; absent where there was none. `told`: the last word that
    /// was kept of a run.
    pub(super) fn found(
        program: Option<Program>,
        kept: Option<&Ended>,
        told: impl Fn(u32) -> Option<String>,
    ) -> Self {
        let mut held = Self {
            seen: Seen::Absent,
            uid: None,
            since: None,
            exit: None,
            word: String::new(),
            unheard: None,
            message: String::new(),
            grace: None,
            stopped_for: String::new(),
            watch: None,
        };
        if let Some(kept) = kept {
            held.seen = Seen::Ended(kept.end());
            held.exit = kept.exit;
            held.word = told(kept.restarts).unwrap_or_default();
        }
        let newer = |program: &Program| {
            kept.is_none_or(|kept| program.count.restarts > kept.restarts || program.exit.is_none())
        };
        if let Some(program) = program.filter(newer) {
            held.take(&program);
            held.unheard = program.exit.map(|_| program.uid);
        }
        held
    }

    /// A run, as it is.
    pub(super) fn take(&mut self, program: &Program) {
        self.since = Some(program.since);
        self.grace = None;
        self.seen = match program.exit {
            Some(exit) => {
                self.exit = Some(exit);
                Seen::Ended(ended(program.count, Some(exit), self.since).end())
            }
            None if program.stopping => Seen::Stopping(program.count),
            None => Seen::Running(Run {
                count: program.count,
                started: program.started,
                ready: false,
                unhealthy: false,
            }),
        };
        self.uid = program.exit.is_none().then_some(program.uid);
    }

    pub(super) fn count(&self) -> Count {
        match self.seen {
            Seen::Absent => Count::default(),
            Seen::Starting(count) | Seen::Stopping(count) => count,
            Seen::Running(run) => run.count,
            Seen::Ended(end) | Seen::Refused(end) => end.count,
        }
    }

    /// Its status, with the pod's restart policy; `None`: nothing is started any more.
    pub(super) fn status(
        &self,
        container: &Container,
        restart: Option<Restart>,
    ) -> ContainerStatus {
        let next_start =
            restart.and_then(|restart| steps::next_start(container, restart, &self.seen));
        let state = match self.seen {
            Seen::Absent | Seen::Starting(_) => ContainerState::Waiting,
            Seen::Running(_) | Seen::Stopping(_) => ContainerState::Running,
            Seen::Ended(_) | Seen::Refused(_) if next_start.is_some() => ContainerState::BackingOff,
            Seen::Refused(_) => ContainerState::Waiting,
            Seen::Ended(_) => ContainerState::Ended,
        };
        let run = match self.seen {
            Seen::Running(run) => Some(run),
            _ => None,
        };
        ContainerStatus {
            name: container.name.clone(),
            state,
            restarts: self.count().restarts,
            started: run.is_some_and(|run| run.started),
            ready: run.is_some_and(|run| run.started && run.ready),
            last_exit: self.exit,
            next_start,
            message: self.message.clone(),
            termination_message: self.word.clone(),
        }
    }
}
