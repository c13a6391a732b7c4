// SPDX-License-Identifier: Apache-2.0
//! Signals of a cell-init: children that ended, and the node's order to stop.

use std::os::fd::AsFd;

use kernel::pidfd;
use kernel::signal::Signal;
use kernel::wait::{self, Exit, Reap, Target};
use rustix::io::Errno;

use super::Cell;
use super::room::Room;
use super::workload::{State, Workload, exit_record};
use crate::protocol::{CellEvent, ExitHow, ExitRecord, Failure, Namespaces, Orphan};
use crate::reap::each_end;

impl Cell {
    /// Takes the pending signals. One `SIGCHLD` may stand for many ends, so all children are
    /// checked.
    pub(super) fn read_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.next() {
            // A workload can send PID 1 of its namespace a signal that a descriptor waits for, and
            // can forge the sender with `rt_sigqueueinfo`, but not the code that says it came by
            // `kill`.
            let from_outside = match self.own.has(Namespaces::PID) {
                true => info.pid == 0,
                false => info.uid == self.node_uid,
            };
            if from_outside && info.by_kill {
                match info.signal {
                    Signal::TERM => self.begin_stop(true),
                    // There are cells inside of this one, whose processes would end with this one's
                    // PID 1.
                    Signal::USR1 => self.begin_stop(false),
                    _ => {}
                }
            }
        }
        self.reap();
    }

    /// Records each end before the kernel forgets it.
    pub(super) fn reap(&mut self) {
        self.reap_again = each_end(|exit| self.record_end(exit));
    }

    /// `false` where it can't be known yet how its start went.
    fn record_end(&mut self, exit: &Exit) -> bool {
        let is_its = |room: &Room| room.workloads.at_process(exit.pid).is_some();
        let mut rooms = self.rooms.iter().flatten();
        let Some(number) = rooms.find(|room| is_its(room)).map(|room| room.number()) else {
            // An orphan of some workload.
            self.orphans.remember(Orphan {
                pid: exit.pid,
                exit: exit_record(exit, 0),
            });
            return true;
        };
        let mut known = true;
        self.within(number, |cell, room| known = cell.record_end_in(room, exit));
        known
    }

    fn record_end_in(&mut self, room: &mut Room, exit: &Exit) -> bool {
        let Some(at) = room.workloads.at_process(exit.pid) else {
            return true;
        };
        // It may have reported a failed start, or have started, since the pipe was last looked at.
        self.conclude_start(room, at);
        let Some(workload) = room.workloads.0.get_mut(at) else {
            return true;
        };
        let record = match &workload.state {
            State::Starting { .. } => return false,
            State::Failing {
                request: Some(request),
                failure,
            } => {
                let event = CellEvent::Failed {
                    request: *request,
                    failure: failure.clone(),
                };
                room.workloads.0.swap_remove(at);
                room.post(&self.poll, &event, &[]);
                return true;
            }
            State::Failing { failure, .. } => unheard(failure, exit, workload.started_ns),
            State::Running | State::Headless(_) | State::Ended(_) => workload.exit_record(exit),
        };
        self.unwatch(workload);
        workload.conclude(record);
        room.news = true;
        true
    }

    /// The main process of a workload has ended that wasn't executed here. One that isn't a child
    /// of this init is reaped elsewhere: how it ended is not known, unless node-init says it.
    pub(super) fn main_ended(&mut self, room: &mut Room, token: u64) {
        let Some(at) = room.watched_at(token) else {
            return;
        };
        let Some(workload) = room.workloads.0.get(at) else {
            return;
        };
        let own = wait::try_wait(Target::PidFd(workload.pidfd.as_fd()), Reap::No);
        let is_child = !own.is_err_and(|error| error.is(Errno::CHILD.raw_os_error()));
        if is_child || !pidfd::has_ended(&workload.pidfd).unwrap_or(false) {
            return;
        }
        self.conclude_foreign(room, at);
    }

    pub(super) fn unwatch(&self, workload: &mut Workload) {
        if workload.is_watched {
            workload.is_watched = false;
            let _ = self.poll.remove(&workload.pidfd);
        }
    }
}

/// The end of a failed exec whose daemon is gone, with the exit code that a shell gives.
fn unheard(failure: &Failure, exit: &Exit, started_ns: u64) -> ExitRecord {
    let missing = failure.errno == Errno::NOENT.raw_os_error();
    let code = if missing { 127 } else { 126 };
    ExitRecord {
        how: ExitHow::Code(code),
        ..exit_record(exit, started_ns)
    }
}
