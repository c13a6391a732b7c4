// SPDX-License-Identifier: Apache-2.0
//! The end of all units when the node goes down: `shutdown.target` is started, with which every
//! unit conflicts, and `umount.target`, with which mounts do (systemd.special(7)). Jobs do the rest
//! in the reverse of the order of the start, each unit with its own time-out; what a unit runs to
//! stop is still begun. How long all of it may take is the caller's; how long it takes at most
//! follows from the units' own time-outs.

use std::time::Duration;

use tokio::sync::oneshot;
use units::job::longest::longest;
use units::job::transaction::{Mode, Planned, plan};
use units::job::{JobType, World};
use units::name::UnitName;

use super::Manager;
use crate::unit::live::Machine;
use crate::unit::socket::rules::Rules as SocketRules;
use crate::unit::steps::service::{Sub, nanos};

/// What a unit has that sets no end to its time (`TimeoutStopSec=infinity`): a node goes down
/// within a time that can be said.
const WITHOUT_END: Duration = Duration::from_secs(60 * 60);

/// What all units, and what mounts conflict with.
const TARGETS: [&str; 2] = ["shutdown.target", "umount.target"];

/// Nothing later replaces what ends them.
const MODE: Mode = Mode::ReplaceIrreversibly;

/// How far the end of all units is.
#[derive(Default)]
pub(super) enum Last {
    /// No caller has asked for it.
    #[default]
    Not,
    /// It goes on; who waits for it.
    Going(Vec<oneshot::Sender<()>>),
    /// It is over, and nothing is begun any more.
    Over,
}

impl Manager {
    /// Begins the end of all units. What else has a job gives way, and nothing begins them anew.
    pub(super) async fn end_all(&mut self, reply: oneshot::Sender<()>) {
        match &mut self.last {
            Last::Going(waiting) => return waiting.push(reply),
            Last::Over => {
                let _ = reply.send(());
                return;
            }
            Last::Not => self.last = Last::Going(vec![reply]),
        }
        self.booting = false;
        for target in self.last_targets().await {
            let planned = plan(&self.known, &target, JobType::Start, MODE);
            let ended = planned.and_then(|it| self.engine.install(&it, &self.known));
            match ended {
                Ok(ended) => self.tell(ended),
                Err(refusal) => {
                    tracing::error!(unit = %target, %refusal, "units do not end in their order");
                }
            }
        }
        let stops = self.engine.jobs().filter(|(_, job)| job.stays).count();
        tracing::info!(jobs = stops, "the units end, in the reverse of their order");
    }

    /// The targets whose start ends all units, loaded.
    async fn last_targets(&mut self) -> Vec<UnitName> {
        let targets = TARGETS.iter().filter_map(|it| UnitName::parse(it).ok());
        let targets: Vec<UnitName> = targets.collect();
        self.load(targets.clone()).await;
        targets
    }

    /// How long the end of all units takes at most, if it began now: the longest row of stops, each
    /// with its unit's time-outs.
    pub(super) async fn longest_end(&mut self) -> Duration {
        let mut jobs: Vec<Planned> = Vec::new();
        for target in self.last_targets().await {
            // A target that can't be started ends none.
            let planned = plan(&self.known, &target, JobType::Start, MODE);
            jobs.extend(planned.into_iter().flat_map(|it| it.jobs));
        }
        let of = |job: &Planned| match job.kind {
            JobType::Stop => self.longest_stop(&job.unit),
            _ => Duration::ZERO,
        };
        longest(self.known.graph(), jobs, of)
    }

    /// How long a stop of a unit takes at most. What isn't gone by `SIGKILL` at once isn't waited
    /// for here.
    fn longest_stop(&self, unit: &UnitName) -> Duration {
        let Some(live) = self.known.live.get(unit).filter(|it| it.activity().is_up()) else {
            return Duration::ZERO;
        };
        let (each, times) = match &live.machine {
            Machine::Service(state) => {
                let (commands, rules) = self.known.table.rules(unit);
                (nanos(rules.stop_timeout), commands.of_a_stop(state.sub))
            }
            Machine::Socket(_) => self.of_a_socket(unit),
            Machine::Scope(_) => (self.rules_of_scope(unit).stop, 1),
            Machine::Timer(_) | Machine::Path(_) | Machine::Plain(_) => (Some(0), 0),
        };
        let each = each.map_or(WITHOUT_END, Duration::from_nanos);
        each.saturating_mul(times)
    }

    /// `TimeoutSec=` of a socket unit, for each command that its stop runs.
    fn of_a_socket(&self, unit: &UnitName) -> (Option<u64>, u32) {
        let Some(loaded) = self.known.table.find(unit) else {
            return (Some(0), 0);
        };
        let each = nanos(SocketRules::of(&loaded.unit).timeout);
        (each, loaded.commands.of_a_stop(Sub::Exited))
    }

    /// Whether units still end while the node goes down.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.last, Last::Going(_))
    }

    /// Tells who waits once no job of the end is left.
    pub(super) fn look_whether_ended(&mut self) {
        if self.engine.jobs().any(|(_, job)| job.stays) {
            return;
        }
        if let Last::Going(waiting) = &mut self.last {
            for reply in std::mem::take(waiting) {
                // Who went away has asked all the same.
                let _ = reply.send(());
            }
            self.last = Last::Over;
            tracing::info!("the units have ended");
        }
    }

    /// Those that have not ended, where a caller has given up waiting for them.
    pub(super) fn still_ending(&self) -> Vec<UnitName> {
        let jobs = self.engine.jobs().filter(|(_, job)| job.stays);
        let stops = jobs.filter(|(_, job)| job.kind == JobType::Stop);
        stops.map(|(unit, _)| unit.clone()).collect()
    }
}
