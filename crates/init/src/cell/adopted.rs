// SPDX-License-Identifier: Apache-2.0
//! Workloads of an init of this cell that has died before this one came. They run on as children of
//! node-init, which reaps them and says on a socket how they ended (ADR 77). So it does of what
//! they leave behind and the daemon calls a main process later.
//!
//! ```text
//!  pidfd: ended ─► its parent is node-init, which has not reaped it ─► its word is waited for
//!              └─► it is reaped: what node-init said before that ─► that is its end
//!                                                  └─ nothing ──► how it ended isn't known
//! ```
//! Node-init says it before it reaps, so what isn't said of a process that is gone won't be, once
//! it has begun to speak. A parent of another kind says nothing.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use kernel::cgroup::Cgroup;
use kernel::fsutil::read_pseudo;
use kernel::seqpacket::{self, ReceiveError};
use kernel::{Context, pidfd, process};
use rustix::io::Errno;

use super::Cell;
use super::orphans::Orphans;
use super::requests::{Outcome, failed, memory_events, only};
use super::room::{Room, orphans_token};
use super::workload::{State, Workload, unknown_end};
use crate::codec::Packet;
use crate::failure::InStep;
use crate::poll::Interest;
use crate::protocol::{
    ExitRecord, Failure, MAX_ORPHANS, MAX_WORKLOADS, Namespaces, Orphan, Pids, Stdio, Step,
    WorkloadState,
};
use crate::record::KeptRecord;

/// The longest packet that node-init sends here, in bytes.
const WORD: usize = 256;

/// What node-init says of processes that it is the parent of.
pub(super) struct Heard {
    /// None where it says nothing: of an init that adopts nothing, and once node-init is gone.
    socket: Option<OwnedFd>,
    /// It has said what it remembered: from then on nothing is reaped unsaid.
    has_begun: bool,
    ends: Orphans,
    /// Of main processes: what others leave behind doesn't push them out.
    mains: Orphans,
    /// A main process has ended whose end it is about to say.
    pub(super) is_awaited: bool,
}

impl Default for Heard {
    fn default() -> Heard {
        Heard {
            socket: None,
            has_begun: false,
            ends: Orphans::at_most(MAX_ORPHANS),
            mains: Orphans::at_most(MAX_WORKLOADS),
            is_awaited: false,
        }
    }
}

impl Heard {
    fn take(&mut self, pid: i32) -> Option<ExitRecord> {
        self.mains.take(pid).or_else(|| self.ends.take(pid))
    }

    /// A process of that number lives: what was heard is of earlier ones.
    fn forget(&mut self, pid: i32) {
        self.mains.forget(pid);
        self.ends.forget(pid);
    }
}

/// How a workload is to be ended, as the daemon says.
pub(super) struct Ending {
    pub(super) forks: bool,
    pub(super) stop_signal: u8,
    pub(super) grace_ms: u32,
}

/// What is known of the end of a process that has ended.
enum Verdict {
    Known(ExitRecord),
    Unknown,
    /// Node-init is about to say it.
    Awaited,
}

impl Cell {
    /// Hears node-init from now on.
    pub(super) fn hear_of_orphans(&mut self, room: &Room, fds: Vec<OwnedFd>) -> Outcome {
        let socket = only(fds)?;
        if !room.is_own() {
            let detail = "orphans are told of to the cell whose init this is";
            return Err(failed(Step::Protocol, Errno::INVAL, detail));
        }
        if self.own.has(Namespaces::ALL.0 & !Namespaces::CGROUP) {
            let detail = "the cell has namespaces of its own, which end with its init";
            return Err(failed(Step::Protocol, Errno::INVAL, detail));
        }
        self.stop_hearing();
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|errno| failed(Step::Protocol, errno, "ioctl(FIONBIO)"))?;
        self.poll
            .add(&socket, orphans_token(), Interest::READ)
            .step(Step::Limit)?;
        self.heard.socket = Some(socket);
        self.heard.has_begun = false;
        Ok(())
    }

    fn stop_hearing(&mut self) {
        if let Some(socket) = self.heard.socket.take() {
            let _ = self.poll.remove(&socket);
        }
    }

    /// Node-init has said something.
    pub(super) fn read_orphans(&mut self) {
        let mut buffer = [0; WORD];
        // Bounded: a process that makes orphans without end keeps no other source waiting.
        for _ in 0..MAX_ORPHANS {
            let Some(socket) = &self.heard.socket else {
                return;
            };
            match seqpacket::receive(socket, &mut buffer) {
                Ok(Some(packet)) => {
                    let bytes = buffer.get(..packet.length).unwrap_or_default();
                    if let Ok(orphan) = Orphan::decode(bytes) {
                        self.heard(orphan);
                    }
                }
                Ok(None) => return self.stop_hearing(),
                Err(ReceiveError::Os(error)) if error.is(Errno::CONNRESET.raw_os_error()) => {
                    return self.stop_hearing();
                }
                // There is no more; or it can't be read now, and will be.
                Err(ReceiveError::Os(_)) => return,
                // None of node-init's, and gone.
                Err(_) => {}
            }
        }
    }

    fn heard(&mut self, orphan: Orphan) {
        if orphan.pid == 0 {
            self.heard.has_begun = true;
            return;
        }
        let mut rooms = self.rooms.iter().flatten();
        match rooms.any(|room| room.workloads.at_process(orphan.pid).is_some()) {
            true => self.heard.mains.remember(orphan),
            false => self.heard.ends.remember(orphan),
        }
    }

    /// What is known of a process that has ended, and is no child of this init. `is_there`: as a
    /// zombie.
    fn verdict(&mut self, pid: i32, is_there: bool) -> Verdict {
        // Looked at before: what node-init has reaped by then it has spoken of.
        let is_its = is_there && parent_of(pid) == Some(process::parent_id());
        self.read_orphans();
        let is_to_come = is_its || !self.heard.has_begun;
        match self.heard.take(pid) {
            Some(end) => Verdict::Known(end),
            None if is_to_come && self.heard.socket.is_some() => Verdict::Awaited,
            None => Verdict::Unknown,
        }
    }

    /// A main process that another process is the parent of has ended: it has an end from now on,
    /// or will have soon.
    pub(super) fn conclude_foreign(&mut self, room: &mut Room, at: usize) {
        let Some(workload) = room.workloads.0.get(at) else {
            return;
        };
        let (pid, is_there) = (workload.pid, pidfd::exists(&workload.pidfd));
        let verdict = self.verdict(pid, is_there.unwrap_or(false));
        let Some(workload) = room.workloads.0.get_mut(at) else {
            return;
        };
        self.unwatch(workload);
        let end = match verdict {
            Verdict::Known(end) => workload.end(end),
            Verdict::Unknown => unknown_end(workload.started_ns),
            Verdict::Awaited => {
                workload.is_awaited = true;
                self.heard.is_awaited = true;
                return;
            }
        };
        workload.is_awaited = false;
        workload.conclude(end);
        room.news = true;
    }

    /// Looks again at what waits for node-init's word.
    pub(super) fn conclude_awaited(&mut self) {
        if !std::mem::take(&mut self.heard.is_awaited) {
            return;
        }
        let awaits = |room: &&Room| room.workloads.0.iter().any(|it| it.is_awaited);
        for place in 0..self.rooms.len() {
            let room = self.rooms.get(place).and_then(Option::as_deref);
            if let Some(number) = room.filter(awaits).map(Room::number) {
                self.within(number, Self::conclude_awaited_in);
            }
        }
    }

    fn conclude_awaited_in(&mut self, room: &mut Room) {
        for at in 0..room.workloads.0.len() {
            if room.workloads.0.get(at).is_some_and(|it| it.is_awaited) {
                self.conclude_foreign(room, at);
            }
        }
    }

    /// Keeps a workload that another init of this cell has kept.
    pub(super) fn adopt(
        &mut self,
        room: &mut Room,
        state: WorkloadState,
        ending: &Ending,
        fds: Vec<OwnedFd>,
    ) -> Outcome {
        self.admit(room, state.uid)?;
        if self.heard.socket.is_none() {
            let detail = "an init that hears of no orphans can't adopt any";
            return Err(failed(Step::Protocol, Errno::PROTO, detail));
        }
        if state.has_process && state.exit.is_some() {
            let detail = "what is to be adopted either runs or has ended";
            return Err(failed(Step::Protocol, Errno::BADMSG, detail));
        }
        if state.has_process && self.is_of_another(room, state.uid, state.pid) {
            let detail = format!("process {} is another executable's", state.pid);
            return Err(failed(Step::Protocol, Errno::EXIST, &detail));
        }
        let (uid, runs) = (state.uid, state.has_process);
        let workload = adopted(state, ending, fds)?;
        // Of one that has ended its end may have been heard already, also while it is a zombie.
        if runs && !pidfd::has_ended(&workload.pidfd).unwrap_or(true) {
            self.heard.forget(workload.pid);
        }
        room.workloads.0.push(workload);
        // Its end is told where there is one; that it runs the daemon knows.
        room.news = true;
        let last = room.workloads.0.len().saturating_sub(1);
        let watched = match runs {
            true => room.watch(last, &self.poll).step(Step::Limit),
            false => Ok(()),
        };
        if watched.is_err() {
            room.workloads.remove(uid);
        }
        watched
    }
}

/// The workload of a state, with the descriptors that are its.
fn adopted(
    state: WorkloadState,
    ending: &Ending,
    mut fds: Vec<OwnedFd>,
) -> Result<Workload, Failure> {
    let record = KeptRecord::take(state.record, &mut fds)?;
    let output = match state.stdio {
        Stdio::Pipes => 2,
        Stdio::Terminal { .. } => 1,
    };
    let expected = 1 + usize::from(state.has_process) + output + usize::from(state.has_stdin);
    if fds.len() != expected {
        let detail = format!("{} descriptors came, {expected} are expected", fds.len());
        return Err(failed(Step::Protocol, Errno::BADF, &detail));
    }
    let missing = || failed(Step::Protocol, Errno::BADF, "a descriptor is missing");
    let mut fds = fds.into_iter();
    let leaf = fds.next().ok_or_else(missing)?;
    let memory_events = memory_events(leaf.as_fd());
    let pidfd = match state.has_process {
        true => fds.next().ok_or_else(missing)?,
        // What is no pidfd can't be signalled by mistake.
        false => leaf.try_clone().call("dup").step(Step::Limit)?,
    };
    let output: Vec<OwnedFd> = fds.by_ref().take(output).collect();
    let known = match (state.exit, state.first) {
        (Some(exit), _) => State::Ended(exit),
        (None, Some(first)) if !state.has_process => State::Headless(first),
        (None, None) if !state.has_process => State::Ended(unknown_end(state.started_ns)),
        _ => State::Running,
    };
    Ok(Workload {
        uid: state.uid,
        pid: state.pid,
        pidfd,
        // The daemon that hands it over knows as much.
        end_told: state.exit.is_some() || matches!(known, State::Headless(_)),
        state: known,
        pids: Pids::Cell,
        stdio: state.stdio,
        output,
        stdin: fds.next(),
        memory_events,
        leaf: ending.forks.then(|| Cgroup::from_fd(leaf, "")),
        record,
        started_ns: state.started_ns,
        forks: ending.forks,
        first: state.first,
        stop_signal: ending.stop_signal,
        grace_ms: ending.grace_ms,
        told: true,
        is_watched: false,
        is_awaited: false,
        kill_at: None,
    })
}

/// The parent of a process, also of one that has ended and is to be reaped.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = read_pseudo(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
    // The name in parentheses may have any character.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_parent_that_the_kernel_says() {
        assert_eq!(parent_of(process::id()), Some(process::parent_id()));
        assert_eq!(parent_of(0), None);
    }
}
