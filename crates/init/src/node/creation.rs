// SPDX-License-Identifier: Apache-2.0
//! The connection to the spawner, and the creation of cells, from a request to a running cell-init.
//!
//! A process that creates a cell may be killed or stopped at any time: the root of an enclosing
//! cell can signal a nested cell's init and its helpers. So each has a bound, and is killed when it
//! passes it: the helpers of a nested cell have 5 s (the spawner's `helpers`), the spawner
//! [`SPAWNER_BOUND`] for its next message, a cell-init [`READY_BOUND`] to be ready. The answer to a
//! new daemon's `Hello` waits for all of them, but no longer than 10 s.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use kernel::pidfd;
use kernel::pipe;
use kernel::poll::Deadline;
use kernel::seqpacket::Packet as Received;
use kernel::signal::Signal;
use kernel::time;
use rustix::io::Errno;

use super::cells::{Cell, Stage};
use super::child::{self, BackOff, Child, Recipe};
use super::{Node, PACKETS_AT_ONCE, SPAWNER, STATUS};
use crate::codec::Packet;
use crate::poll::Interest;
use crate::protocol::{CellLaunch, Failure, NodeEvent, NodeRequest, Step, Uid};
use crate::spawner::{HIDDEN, NAME, ROOM, wire::SpawnerEvent};

/// How long the spawner may say nothing while something is asked of it: twice what one nested cell
/// may take.
const SPAWNER_BOUND: Duration = Duration::from_secs(10);
/// How long a cell-init may take to furnish its cell.
const READY_BOUND: Duration = Duration::from_secs(10);

/// The spawner, as node-init sees it.
pub(super) struct Spawner {
    pub(super) child: Option<Child>,
    back_off: BackOff,
    start_at: Deadline,
    /// The deadline of its next packet, where it owes one.
    due: Option<Deadline>,
    /// When to look for cell-inits that have passed their bound; not later than that of any.
    creations_due: Option<Deadline>,
    /// Whether isolated cells can be created, as the spawner reported; `None` before the first
    /// report.
    pub(super) isolation: Option<Result<(), Failure>>,
    serial: u64,
    /// Its template shows mounts of the past: another is to be made.
    stale: bool,
}

impl Default for Spawner {
    fn default() -> Spawner {
        let start_at = Deadline::after(std::time::Duration::ZERO);
        Spawner {
            child: None,
            back_off: BackOff::NEW,
            start_at,
            due: None,
            creations_due: None,
            isolation: None,
            serial: 0,
            stale: false,
        }
    }
}

impl Spawner {
    pub(super) fn start_at(&self) -> Option<Deadline> {
        self.child.is_none().then_some(self.start_at)
    }

    /// The next moments at which the spawner or a creation passes its bound.
    pub(super) fn bounds(&self) -> [Option<Deadline>; 2] {
        [self.due, self.creations_due]
    }
}

fn failed(step: Step, errno: Errno, detail: impl Into<String>) -> Failure {
    Failure::new(step, errno.raw_os_error(), detail)
}

impl Node {
    pub(super) fn start_spawner_if_due(&mut self) {
        if self.spawner.child.is_some() || !self.spawner.start_at.passed() {
            return;
        }
        let hide: [_; HIDDEN] = [&self.options.state_dir, &self.options.run_dir];
        let mut argv = vec![NAME.into(), ROOM.into()];
        let paths = hide.into_iter().chain(&self.options.root);
        argv.extend(paths.map(|path| path.clone().into_os_string()));
        let recipe = Recipe {
            program: &self.options.program,
            unwritable: true,
            argv,
            cgroup: None,
            in_our_group: false,
            dies_with_us: false,
            oom_score_adj: None,
            descriptors: self.descriptors,
        };
        self.spawner.start_at = Deadline::after(self.spawner.back_off.step());
        let started = child::start(&recipe).and_then(|child| {
            self.poll.add(&child.link, SPAWNER, Interest::READ)?;
            Ok(child)
        });
        match started {
            Ok(child) => {
                self.spawner.child = Some(child);
                // Its first word, of isolation.
                self.spawner.due = Some(Deadline::after(SPAWNER_BOUND));
            }
            Err(error) => self
                .console
                .say(&format!("the spawner can't be started: {error}")),
        }
    }

    /// What the node has mounted is another than the template shows. Where it can be, it is made
    /// anew before the next request is read.
    pub(super) fn renew_root(&mut self) {
        self.spawner.stale = true;
        self.renew_spawner_if_idle();
        self.start_spawner_if_due();
    }

    /// Lets another spawner make the template anew, with what is mounted now. The one that is there
    /// ends by itself, when it has nothing to do: no creation is lost by it.
    pub(super) fn renew_spawner_if_idle(&mut self) {
        let idle = self.spawner.isolation.is_some() && !self.cells.any_in_the_making();
        if !self.spawner.stale || !idle {
            return;
        }
        self.spawner.stale = false;
        let Some(mut child) = self.spawner.child.take() else {
            return;
        };
        let _ = self.poll.remove(&child.link);
        child.link.hang_up();
        self.spawner.due = None;
        self.spawner.start_at = Deadline::after(Duration::ZERO);
    }

    /// The spawner is gone, or has sent a malformed packet: the creations that wait for it fail,
    /// and another spawner is started.
    pub(super) fn lose_spawner(&mut self) {
        let Some(child) = self.spawner.child.take() else {
            return;
        };
        let _ = self.poll.remove(&child.link);
        let _ = pidfd::send_signal(&child.pidfd, Signal::KILL);
        self.spawner.due = None;
        self.console
            .say("the spawner has ended; another is started");
        let reason = failed(
            Step::Clone,
            Errno::CHILD,
            "the spawner has ended; try again",
        );
        self.spawner
            .isolation
            .get_or_insert_with(|| Err(reason.clone()));
        while let Some(at) = self
            .cells
            .position(|cell| matches!(cell.stage, Stage::Asked))
        {
            self.fail_cell(at, reason.clone());
        }
    }

    /// Hands a daemon's request on to the spawner.
    pub(super) fn create_cell(&mut self, request: u64, launch: CellLaunch, fds: Vec<OwnedFd>) {
        if let Err(failure) = self.try_create(request, launch, &fds) {
            self.post(&NodeEvent::CellFailed { request, failure }, &[]);
        }
    }

    fn try_create(
        &mut self,
        request: u64,
        launch: CellLaunch,
        fds: &[OwnedFd],
    ) -> Result<(), Failure> {
        if self.shutdown.is_some() {
            return Err(failed(
                Step::Limit,
                Errno::SHUTDOWN,
                "the node is shutting down",
            ));
        }
        if self.cells.by_uid(launch.uid).is_some() {
            return Err(failed(Step::Protocol, Errno::EXIST, "this uid is in use"));
        }
        if !self.cells.reserve() {
            return Err(failed(
                Step::Limit,
                Errno::NOMEM,
                "too many cells on this node",
            ));
        }
        let Some(child) = self
            .spawner
            .child
            .as_mut()
            .filter(|child| child.link.has_room())
        else {
            return Err(failed(
                Step::Clone,
                Errno::AGAIN,
                "the spawner isn't ready; try again",
            ));
        };
        let (uid, serial) = (launch.uid, self.spawner.serial);
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let asked = child.link.post(
            &NodeRequest::CreateCell {
                request: serial,
                launch,
            },
            &fds,
        );
        asked.map_err(|error| Failure::of(Step::Clone, &error))?;
        self.spawner.serial += 1;
        let due = || Deadline::after(SPAWNER_BOUND);
        self.spawner.due.get_or_insert_with(due);
        let (request, started_ns) = (Some(request), time::realtime_ns());
        self.cells.0.push(Cell {
            uid,
            request,
            serial,
            started_ns,
            stage: Stage::Asked,
        });
        Ok(())
    }

    pub(super) fn read_spawner(&mut self) {
        let _ = self.read_spawner_packets();
    }

    /// Reads all that the spawner has sent: a cell-init must be known before it is reaped.
    pub(super) fn read_spawner_to_the_end(&mut self) {
        // The spawner sends one packet for each request, so this ends.
        while self.read_spawner_packets() {}
    }

    /// Reads a batch; `true` if there may be more.
    fn read_spawner_packets(&mut self) -> bool {
        let Some(mut buffer) = self.buffer.take() else {
            return false;
        };
        let mut more = true;
        for _ in 0..PACKETS_AT_ONCE {
            let Some(child) = &self.spawner.child else {
                more = false;
                break;
            };
            match child.link.receive(&mut buffer) {
                Ok(Some(packet)) => {
                    let length = packet.length;
                    self.spawner_says(buffer.get(..length).unwrap_or_default(), packet);
                }
                Err(error) if error.is_would_block() => {
                    more = false;
                    break;
                }
                Ok(None) | Err(_) => self.lose_spawner(),
            }
        }
        self.buffer = Some(buffer);
        more
    }

    /// Gives up the spawner, or the creations, that have passed their bound. Packets that came in
    /// time are read first: node-init itself may have been delayed.
    pub(super) fn give_up_the_late(&mut self) {
        if self.spawner.due.is_some_and(Deadline::passed) {
            self.read_spawner_to_the_end();
            if self.spawner.due.is_some_and(Deadline::passed) {
                self.console.say("the spawner doesn't answer; it is killed");
                self.lose_spawner();
            }
        }
        if self.spawner.creations_due.is_some_and(Deadline::passed) {
            let late =
                |cell: &Cell| matches!(&cell.stage, Stage::Cloned { due, .. } if due.passed());
            self.give_creations_up(late);
            self.spawner.creations_due = self.cells.creation_due();
        }
        if self.daemon.welcome_due().is_some_and(Deadline::passed) {
            self.daemon.wait_no_longer();
            if self.cells.any_in_the_making() {
                self.make_no_more();
            }
        }
    }

    /// Gives up cells that an earlier daemon asked for, because a new daemon has waited long
    /// enough.
    fn make_no_more(&mut self) {
        self.console
            .say("cells that an earlier daemon asked for are given up");
        self.read_spawner_to_the_end();
        if self.cells.any_asked() {
            self.lose_spawner();
        }
        self.give_creations_up(|cell| matches!(cell.stage, Stage::Cloned { .. }));
    }

    fn give_creations_up(&mut self, which: impl Fn(&Cell) -> bool) {
        while let Some(at) = self.cells.position(&which) {
            self.conclude_creation(at);
            self.give_creation_up(at);
        }
    }

    /// Kills a cell-init that isn't ready yet.
    fn give_creation_up(&mut self, at: usize) {
        let Some(cell) = self.cells.0.get_mut(at) else {
            return;
        };
        let Stage::Cloned {
            pid, pidfd, status, ..
        } = &cell.stage
        else {
            return;
        };
        let _ = self.poll.remove(status);
        let _ = pidfd::send_signal(pidfd, Signal::KILL);
        let detail = "the cell's init was not ready in time: is it held up, or short of memory?";
        cell.stage = Stage::Failing {
            pid: *pid,
            failure: failed(Step::Clone, Errno::TIMEDOUT, detail),
        };
    }

    fn spawner_says(&mut self, bytes: &[u8], packet: Received) {
        self.understand_spawner(bytes, packet);
        let owes = self.spawner.child.is_some() && self.cells.any_asked();
        self.spawner.due = owes.then(|| Deadline::after(SPAWNER_BOUND));
    }

    fn understand_spawner(&mut self, bytes: &[u8], packet: Received) {
        match SpawnerEvent::decode(bytes) {
            Ok(SpawnerEvent::Isolation { outcome }) => {
                if let Err(failure) = &outcome {
                    self.console
                        .say(&format!("no isolated cells here: {failure}"));
                } else {
                    self.spawner.back_off = BackOff::NEW;
                }
                self.spawner.isolation = Some(outcome);
            }
            Ok(SpawnerEvent::Failed { request, failure }) => {
                if let Some(at) = self.cells.by_serial(request) {
                    self.fail_cell(at, failure);
                }
            }
            Ok(SpawnerEvent::Cloned { request, pid }) => {
                self.cell_is_cloned(request, pid, packet.fds)
            }
            Err(error) => {
                self.console
                    .say(&format!("the spawner sent a malformed packet: {error}"));
                self.lose_spawner();
            }
        }
    }

    fn cell_is_cloned(&mut self, serial: u64, pid: i32, fds: Vec<OwnedFd>) {
        let Some(at) = self.cells.by_serial(serial) else {
            return;
        };
        let Ok([pidfd, status]) = <[OwnedFd; 2]>::try_from(fds) else {
            // Out of descriptors: the cell-init sees its status pipe closed, and ends.
            return self.fail_cell(
                at,
                failed(Step::Limit, Errno::MFILE, "node-init's descriptors"),
            );
        };
        if !pidfd::exists(&pidfd).unwrap_or(true) {
            // Killed before the spawner reported it, and reaped as an orphan: no other end will
            // come.
            return self.fail_cell(at, killed_while_created());
        }
        let token = status_token(&status);
        let watched = pipe::set_nonblocking(&status, true)
            .and_then(|()| self.poll.add(&status, token, Interest::READ));
        let due = Deadline::after(READY_BOUND);
        self.spawner.creations_due.get_or_insert(due);
        let Some(cell) = self.cells.0.get_mut(at) else {
            return;
        };
        cell.stage = match watched {
            Ok(()) => Stage::Cloned {
                pid,
                pidfd,
                status,
                due,
            },
            Err(error) => {
                let _ = pidfd::send_signal(&pidfd, Signal::KILL);
                Stage::Failing {
                    pid,
                    failure: Failure::of(Step::Limit, &error),
                }
            }
        };
    }

    pub(super) fn read_status(&mut self, token: u64) {
        let is_it = |cell: &Cell| match &cell.stage {
            Stage::Cloned { status, .. } => status_token(status) == token,
            _ => false,
        };
        if let Some(at) = self.cells.position(is_it) {
            self.conclude_creation(at);
        }
    }

    /// A cell's status pipe says how it went.
    pub(super) fn conclude_creation(&mut self, at: usize) {
        let Some(cell) = self.cells.0.get_mut(at) else {
            return;
        };
        let Stage::Cloned {
            pid, pidfd, status, ..
        } = &cell.stage
        else {
            return;
        };
        let (pid, mut packet) = (*pid, [0; 1200]);
        let outcome = match rustix::io::read(status, &mut packet) {
            Ok(1) if packet.first() == Some(&0) => Ok(()),
            Ok(0) => Err(killed_while_created()),
            Ok(length) => Err(Failure::decode(packet.get(..length).unwrap_or_default())
                .unwrap_or_else(|error| failed(Step::Protocol, Errno::BADMSG, error.to_string()))),
            // There is nothing yet, or it can't be read now.
            Err(_) => return,
        };
        let _ = self.poll.remove(status);
        let running = Stage::Running { pid };
        match outcome {
            Ok(()) => {
                let stage = std::mem::replace(&mut cell.stage, running);
                let request = cell.request.take();
                if let (Some(request), Stage::Cloned { pidfd, .. }) = (request, stage) {
                    self.post(&NodeEvent::CellCreated { request, pid }, &[pidfd.as_fd()]);
                }
            }
            Err(failure) => {
                let _ = pidfd::send_signal(pidfd, Signal::KILL);
                cell.stage = Stage::Failing { pid, failure };
            }
        }
    }

    /// Nothing of the cell is left: tells the daemon that asked for it, and forgets the cell.
    pub(super) fn fail_cell(&mut self, at: usize, failure: Failure) {
        let request = self.cells.0.get(at).and_then(|cell| cell.request);
        self.cells.remove(at);
        if let Some(request) = request {
            self.post(&NodeEvent::CellFailed { request, failure }, &[]);
        }
    }

    /// The end of a cell's init is stored.
    pub(super) fn acknowledge_cell(&mut self, uid: Uid) {
        let ended = |cell: &Cell| matches!(cell.stage, Stage::Ended { .. });
        if let Some(at) = self.cells.position(|cell| cell.uid == uid && ended(cell)) {
            self.cells.remove(at);
        }
    }
}

fn killed_while_created() -> Failure {
    let detail = "the cell's init was killed at its start";
    failed(Step::Clone, Errno::CHILD, detail)
}

fn status_token(status: &OwnedFd) -> u64 {
    STATUS + u64::from(status.as_raw_fd().unsigned_abs())
}
