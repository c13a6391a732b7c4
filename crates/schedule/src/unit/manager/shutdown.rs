// SPDX-License-Identifier: Apache-2.0
//! The end of all units when the node goes down: `shutdown.target` is started, with which every
//! unit conflicts, and `umount.target`, with which mounts do (systemd.special(7)). Jobs do the rest
//! in the reverse of the order of the start, each unit with its own time-out; what a unit runs to
//! stop is still begun. How long all of it may take is the caller's.

use tokio::sync::oneshot;
use units::job::JobType;
use units::job::transaction::{Mode, plan};
use units::name::UnitName;

use super::Manager;

/// What all units, and what mounts conflict with.
const TARGETS: [&str; 2] = ["shutdown.target", "umount.target"];

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
        let targets: Vec<UnitName> = TARGETS
            .iter()
            .filter_map(|it| UnitName::parse(it).ok())
            .collect();
        self.load(targets.clone()).await;
        for target in targets {
            let planned = plan(
                &self.known,
                &target,
                JobType::Start,
                Mode::ReplaceIrreversibly,
            );
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
