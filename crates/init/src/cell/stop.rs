// SPDX-License-Identifier: Apache-2.0
//! Stopping a cell on the node's order, with or without a daemon: each workload gets its own stop
//! signal and its own grace, all at once; then `SIGKILL`; then the cell-init ends.

use std::time::Duration;

use kernel::poll::Deadline;
use kernel::signal::Signal;

use super::room::Room;
use super::workload::Workload;
use super::{Cell, PAUSE, end};

/// How long the last exits wait for a connected daemon to acknowledge them.
const ACKNOWLEDGE: Duration = Duration::from_secs(2);

/// A stop under way.
///
/// Node-init sends `SIGTERM` to the init of a cell without cells inside. One with cells inside gets
/// `SIGUSR1`, to stop its workloads in parallel with theirs, and `SIGTERM` when they have ended.
pub(super) struct Stop {
    /// To end when nothing runs here any more.
    end: bool,
    /// Set once nothing runs: when to end even if a daemon still hasn't acknowledged.
    end_at: Option<Deadline>,
}

impl Stop {
    /// How long until something is to be done.
    pub(super) fn timeout(&self, rooms: &[Option<Box<Room>>]) -> Option<Duration> {
        let all = rooms.iter().flatten();
        let all = all.flat_map(|room| &room.workloads.0);
        let running: Vec<_> = all.filter(|workload| workload.runs()).collect();
        // That a group is empty may show a moment after the last end in it.
        let mut headless = running.iter().filter(|workload| !workload.is_alive());
        let look = headless.next().map(|_| PAUSE);
        let kills = running.iter().filter_map(|workload| workload.kill_at);
        let due = kills.chain(self.end_at).filter_map(Deadline::remaining);
        due.chain(look).min()
    }
}

impl Cell {
    pub(super) fn begin_stop(&mut self, end: bool) {
        if let Some(stop) = &mut self.stop {
            stop.end |= end;
            return;
        }
        self.stop = Some(Stop { end, end_at: None });
        for workload in self.running() {
            let grace = Duration::from_millis(workload.grace_ms.into());
            workload.kill_at = Some(Deadline::after(grace));
            let signal = Signal::from_number(workload.stop_signal.into()).unwrap_or(Signal::TERM);
            workload.signal(signal);
        }
    }

    pub(super) fn advance_stop(&mut self) {
        if self.stop.is_none() {
            return;
        }
        for workload in self.running() {
            if workload.kill_at.is_some_and(Deadline::passed) {
                workload.kill_at = None;
                workload.signal(Signal::KILL);
            }
        }
        if self.any_runs() {
            return;
        }
        let mut rooms = self.rooms.iter().flatten();
        let heard = rooms.all(|room| room.workloads.0.is_empty() || room.link.is_none());
        let Some(stop) = self.stop.as_mut().filter(|stop| stop.end) else {
            return;
        };
        let end_at = *stop
            .end_at
            .get_or_insert_with(|| Deadline::after(ACKNOWLEDGE));
        if heard || end_at.passed() {
            // Whatever the main processes left behind dies with PID 1 of the pid namespace; in a
            // shared one node-init kills it by its cgroup.
            end()
        }
    }

    /// The workloads of all its cells of which something runs.
    fn running(&mut self) -> impl Iterator<Item = &mut Workload> {
        let rooms = self.rooms.iter_mut().flatten();
        let all = rooms.flat_map(|room| &mut room.workloads.0);
        all.filter(|workload| workload.runs())
    }
}
