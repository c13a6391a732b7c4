// SPDX-License-Identifier: Apache-2.0
//! The conversation with the spawner, and cells on their way from a request to a running init.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

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
use crate::spawner::{NAME, wire::SpawnerEvent};

/// The spawner, as node-init sees it.
pub(super) struct Spawner {
    pub(super) child: Option<Child>,
    back_off: BackOff,
    start_at: Deadline,
    /// What it said of isolation; nothing before the first has spoken.
    pub(super) isolation: Option<Result<(), Failure>>,
    serial: u64,
}

impl Default for Spawner {
    fn default() -> Spawner {
        let start_at = Deadline::after(std::time::Duration::ZERO);
        Spawner {
            child: None,
            back_off: BackOff::NEW,
            start_at,
            isolation: None,
            serial: 0,
        }
    }
}

impl Spawner {
    pub(super) fn start_at(&self) -> Option<Deadline> {
        self.child.is_none().then_some(self.start_at)
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
        let hide = [&self.options.state_dir, &self.options.run_dir];
        let mut argv = vec![NAME.into()];
        argv.extend(hide.map(|path| path.clone().into_os_string()));
        let recipe = Recipe {
            program: &self.options.program,
            argv,
            cgroup: None,
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
            Ok(child) => self.spawner.child = Some(child),
            Err(error) => self
                .console
                .say(&format!("the spawner can't be started: {error}")),
        }
    }

    /// The spawner is gone, or no longer makes sense: whoever waits for it is told, and another is
    /// started.
    pub(super) fn lose_spawner(&mut self) {
        let Some(child) = self.spawner.child.take() else {
            return;
        };
        let _ = self.poll.remove(&child.link);
        let _ = pidfd::send_signal(&child.pidfd, Signal::KILL);
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
        let Some(mut buffer) = self.buffer.take() else {
            return;
        };
        for _ in 0..PACKETS_AT_ONCE {
            let Some(child) = &self.spawner.child else {
                break;
            };
            match child.link.receive(&mut buffer) {
                Ok(Some(packet)) => {
                    let length = packet.length;
                    self.spawner_says(buffer.get(..length).unwrap_or_default(), packet);
                }
                Err(error) if error.is_would_block() => break,
                Ok(None) | Err(_) => self.lose_spawner(),
            }
        }
        self.buffer = Some(buffer);
    }

    fn spawner_says(&mut self, bytes: &[u8], packet: Received) {
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
            Ok(SpawnerEvent::Born { request, pid }) => self.cell_is_born(request, pid, packet.fds),
            Err(error) => {
                self.console
                    .say(&format!("the spawner makes no sense: {error}"));
                self.lose_spawner();
            }
        }
    }

    fn cell_is_born(&mut self, serial: u64, pid: i32, fds: Vec<OwnedFd>) {
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
        let token = status_token(&status);
        let watched = pipe::set_nonblocking(&status, true)
            .and_then(|()| self.poll.add(&status, token, Interest::READ));
        let Some(cell) = self.cells.0.get_mut(at) else {
            return;
        };
        cell.stage = match watched {
            Ok(()) => Stage::Born { pid, pidfd, status },
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
            Stage::Born { status, .. } => status_token(status) == token,
            _ => false,
        };
        if let Some(at) = self.cells.position(is_it) {
            self.conclude_birth(at);
        }
    }

    /// A cell's status pipe says how it went.
    pub(super) fn conclude_birth(&mut self, at: usize) {
        let Some(cell) = self.cells.0.get_mut(at) else {
            return;
        };
        let Stage::Born { pid, pidfd, status } = &cell.stage else {
            return;
        };
        let (pid, mut packet) = (*pid, [0; 1200]);
        let outcome = match rustix::io::read(status, &mut packet) {
            Ok(1) if packet.first() == Some(&0) => Ok(()),
            Ok(0) => Err(failed(
                Step::Clone,
                Errno::CHILD,
                "the cell's init was killed at its start",
            )),
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
                if let (Some(request), Stage::Born { pidfd, .. }) = (request, stage) {
                    self.post(&NodeEvent::CellCreated { request, pid }, &[pidfd.as_fd()]);
                }
            }
            Err(failure) => {
                let _ = pidfd::send_signal(pidfd, Signal::KILL);
                cell.stage = Stage::Failing { pid, failure };
            }
        }
    }

    /// Nothing of the cell is left: its daemon is told, and it is forgotten.
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

fn status_token(status: &OwnedFd) -> u64 {
    STATUS + u64::from(status.as_raw_fd().unsigned_abs())
}
