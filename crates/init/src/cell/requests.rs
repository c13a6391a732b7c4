// SPDX-License-Identifier: Apache-2.0
//! The daemon's requests to a cell-init, one function each.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kernel::cgroup::Cgroup;
use kernel::clone::{self, Cloned};
use kernel::sealed::Sealed;
use kernel::seqpacket::ReceiveError;
use kernel::signal::Signal;
use kernel::tty;
use kernel::{pidfd, process};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::adopted::Ending;
use super::launch::{self, Child};
use super::room::Room;
use super::workload::{State, Workload};
use super::{Cell, mounts, passed};
use crate::codec::{Packet, StartHead, request_number, start_head};
use crate::failure::InStep;
use crate::poll::Interest;
use crate::protocol::{
    CellEvent, CellRequest, Failure, MAX_SEALED, MountTarget, Namespaces, Record, Stdio, Step, Uid,
    VERSION,
};
use crate::record::KeptRecord;

/// The result of a request that is answered by `Done` or `Failed`.
pub(super) type Outcome = Result<(), Failure>;

pub(super) fn failed(step: Step, errno: Errno, detail: &str) -> Failure {
    Failure::new(step, errno.raw_os_error(), detail)
}

impl Cell {
    /// Carries out one packet of a room's daemon.
    pub(super) fn request(&mut self, room: &mut Room, packet: &[u8], fds: Vec<OwnedFd>) {
        if let Ok(Some(head)) = start_head(packet) {
            let request = head.request;
            if let Err(failure) = self.start(room, packet, head, fds) {
                room.post(&self.poll, &CellEvent::Failed { request, failure }, &[]);
            }
            return;
        }
        match CellRequest::decode(packet) {
            Ok(CellRequest::Hello { version }) => self.hello(room, version),
            Ok(CellRequest::Ack { uid }) => acknowledge(room, uid),
            Ok(CellRequest::Sealed { request }) => {
                if let Err(failure) = self.sealed(room, request, fds) {
                    room.post(&self.poll, &CellEvent::Failed { request, failure }, &[]);
                }
            }
            Ok(request) => self.answered(room, request, fds),
            Err(error) => {
                let failure = failed(Step::Protocol, Errno::BADMSG, &error.to_string());
                self.refuse(room, packet, failure);
            }
        }
    }

    fn hello(&mut self, room: &mut Room, version: u16) {
        if version == VERSION && room.is_own() && self.own.has(Namespaces::MOUNT) {
            mounts::detach_stage();
        }
        room.answer_hello(version, &self.poll);
    }

    /// A packet that did not fit, or whose descriptors did not.
    pub(super) fn refuse_cut(&mut self, room: &mut Room, packet: &[u8], error: &ReceiveError) {
        let failure = failed(Step::Limit, Errno::MFILE, &error.to_string());
        self.refuse(room, packet, failure);
    }

    /// Answers a request that could not be read, if its number can be.
    fn refuse(&mut self, room: &mut Room, packet: &[u8], failure: Failure) {
        if let Some((_, request)) = request_number(packet).filter(|_| room.said_hello) {
            room.post(&self.poll, &CellEvent::Failed { request, failure }, &[]);
        }
    }

    fn answered(&mut self, room: &mut Room, asked: CellRequest, mut fds: Vec<OwnedFd>) {
        let (request, outcome) = match asked {
            CellRequest::PutCellRecord { request, record } => {
                let kept = KeptRecord::take(record, &mut fds);
                (request, kept.map(|kept| room.record = kept))
            }
            CellRequest::PutRecord {
                request,
                uid,
                record,
            } => (request, put(room, uid, record, &mut fds)),
            CellRequest::Signal {
                request,
                uid,
                signal,
            } => (request, send(room, uid, signal)),
            CellRequest::CloseStdin { request, uid } => (
                request,
                found(room, uid).map(|workload| workload.stdin = None),
            ),
            CellRequest::Stage { request } => (request, self.stage(room, fds)),
            CellRequest::Mount { request, from, to } => (request, self.mount(room, from, &to)),
            CellRequest::Unmount { request, target } => {
                (request, mounts::detach(&self.root, &target))
            }
            CellRequest::Light {
                request,
                uid,
                record,
            } => (request, self.serve_light(room, uid, record, fds)),
            CellRequest::Unlight { request, uid } => (request, self.unlight(uid)),
            CellRequest::Main { request, uid, pid } => {
                (request, self.put_main(room, uid, pid, fds))
            }
            CellRequest::Orphans { request } => (request, self.hear_of_orphans(room, fds)),
            CellRequest::Adopt {
                request,
                state,
                forks,
                stop_signal,
                grace_ms,
            } => {
                let ending = Ending {
                    forks,
                    stop_signal,
                    grace_ms,
                };
                (request, self.adopt(room, state, &ending, fds))
            }
            CellRequest::Exit { request } => (request, self.exit(room, request)),
            // Handled by the caller.
            CellRequest::Hello { .. }
            | CellRequest::Ack { .. }
            | CellRequest::Sealed { .. }
            | CellRequest::Start { .. } => return,
        };
        let answer = match outcome {
            Ok(()) => CellEvent::Done { request },
            Err(failure) => CellEvent::Failed { request, failure },
        };
        room.post(&self.poll, &answer, &[]);
    }

    fn own_mounts(&self, room: &Room) -> Outcome {
        match self.own.has(Namespaces::MOUNT) && room.is_own() {
            true => Ok(()),
            false => {
                let reason =
                    "the cell shares its mount namespace: a mount would show outside of it";
                Err(failed(Step::Attach, Errno::INVAL, reason))
            }
        }
    }

    fn stage(&mut self, room: &Room, fds: Vec<OwnedFd>) -> Outcome {
        self.own_mounts(room)?;
        mounts::attach_stage(&only(fds)?)
    }

    fn mount(&mut self, room: &Room, from: u32, to: &MountTarget) -> Outcome {
        self.own_mounts(room)?;
        mounts::attach(&self.root, from, to)
    }

    /// Whether a process is one of another workload than this one's already.
    pub(super) fn is_of_another(&self, asking: &Room, uid: Uid, pid: i32) -> bool {
        let mut rooms = self.rooms.iter().flatten().map(|room| &**room);
        let elsewhere = rooms.any(|room| room.workloads.at_process(pid).is_some());
        let here = asking.workloads.at_process(pid);
        let here = here.and_then(|at| asking.workloads.0.get(at));
        elsewhere || here.is_some_and(|workload| workload.uid != uid)
    }

    /// Which process is a workload's main one from now on.
    fn put_main(&mut self, room: &mut Room, uid: Uid, pid: i32, fds: Vec<OwnedFd>) -> Outcome {
        let pidfd = only(fds)?;
        if self.is_of_another(room, uid, pid) {
            let detail = format!("process {pid} is another executable's");
            return Err(failed(Step::Protocol, Errno::EXIST, &detail));
        }
        let workload = found(room, uid)?;
        if !workload.takes_main() {
            let detail = "the executable has ended, or has not started";
            return Err(failed(Step::Protocol, Errno::SRCH, detail));
        }
        // It may have ended before the daemon called it a main process. What has is reaped, or
        // will be: until then it can be signalled.
        let is_there = pidfd::exists(&pidfd).step(Step::Protocol)?;
        self.unwatch(workload);
        workload.pid = pid;
        workload.pidfd = pidfd;
        workload.state = State::Running;
        workload.is_awaited = false;
        workload.forks = false;
        if !is_there && let Some(exit) = self.orphans.take(pid) {
            let record = workload.end(exit);
            workload.conclude(record);
            room.news = true;
            return Ok(());
        }
        let mut all = room.workloads.0.iter();
        match all.position(|workload| workload.uid == uid) {
            Some(at) if is_there => room.watch(at, &self.poll).step(Step::Limit),
            Some(at) => {
                self.conclude_foreign(room, at);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A start in a sealed memfd.
    fn sealed(&mut self, room: &mut Room, request: u64, mut fds: Vec<OwnedFd>) -> Outcome {
        if fds.is_empty() {
            return Err(failed(Step::Protocol, Errno::BADF, "no sealed memfd came"));
        }
        let packet = Sealed::open(fds.remove(0), MAX_SEALED).step(Step::Protocol)?;
        match start_head(&packet) {
            Ok(Some(head)) if head.request == request => self.start(room, &packet, head, fds),
            Ok(_) => {
                let detail = "a sealed request is a start of the same number";
                Err(failed(Step::Protocol, Errno::BADMSG, detail))
            }
            Err(error) => Err(failed(Step::Protocol, Errno::BADMSG, &error.to_string())),
        }
    }

    /// Whether another workload can be started, of this uid.
    pub(super) fn admit(&mut self, room: &mut Room, uid: Uid) -> Outcome {
        if !room.said_hello {
            return Err(failed(Step::Protocol, Errno::PROTO, "no Hello yet"));
        }
        if self.stop.is_some() {
            return Err(stopping());
        }
        if room.workloads.find(uid).is_some() {
            return Err(failed(
                Step::Protocol,
                Errno::EXIST,
                "this uid is in use here",
            ));
        }
        if !room.workloads.reserve() {
            return Err(failed(
                Step::Limit,
                Errno::NOMEM,
                "too many workloads in this cell",
            ));
        }
        Ok(())
    }

    fn start(
        &mut self,
        room: &mut Room,
        packet: &[u8],
        mut head: StartHead,
        mut fds: Vec<OwnedFd>,
    ) -> Outcome {
        self.admit(room, head.uid)?;
        let record = std::mem::replace(&mut head.record, Record::Beside);
        let record = KeptRecord::take(record, &mut fds)?;
        if !room.workloads.has_room_for(&record) {
            let detail = "the records of this cell's executables are too long together";
            return Err(failed(Step::Limit, Errno::NOMEM, detail));
        }
        let inner = self.inner(room, head.pids)?;
        let mut parts = Parts::take(&head, fds)?;
        if let Stdio::Terminal { rows, columns } = head.stdio {
            let (master, slave) = self.open_terminal(tty::Size { columns, rows })?;
            parts.child.push(slave);
            parts.keep.push(master);
        }
        let (status, child_status) = status_pipe()?;
        // Out of the way of what the program gets.
        let child_status = process::duplicate_above(child_status.as_fd(), passed::ABOVE);
        let child_status = child_status.step(Step::Limit)?;
        let token = room.status_token(&status);
        self.poll
            .add(&status, token, Interest::READ)
            .step(Step::Clone)?;
        let options = clone::Options {
            cgroup: Some(parts.leaf.as_fd()),
            namespaces: inner.to_be_new(),
            ..Default::default()
        };
        match self.clone_among(&inner, head.oom_score_adj, options) {
            Ok(Cloned::Child) => launch::run(&Child {
                packet,
                streams: parts.streams(),
                passed: &parts.passed,
                listener: parts.listener.as_ref().map(AsFd::as_fd),
                status: child_status,
                own: self.own,
                inner,
                root: &self.root,
                node_user: self.node_user,
            }),
            Ok(Cloned::Parent(pid, pidfd)) => {
                let mut workload = Workload::new(head, (pid, pidfd), status, record);
                if workload.forks {
                    let leaf = parts.leaf.try_clone().ok();
                    workload.leaf = leaf.map(|leaf| Cgroup::from_fd(leaf, ""));
                }
                workload.memory_events = memory_events(parts.leaf.as_fd());
                workload.output = parts.keep;
                workload.stdin = parts.stdin;
                room.workloads.0.push(workload);
                Ok(())
            }
            Err(failure) => {
                let _ = self.poll.remove(&status);
                Err(failure)
            }
        }
    }

    /// A new terminal of this size, as (master, slave).
    ///
    /// In a cell with mounts of its own nothing that its root does to them makes this block. One
    /// that shares them trusts whom it shares them with.
    fn open_terminal(&self, size: tty::Size) -> Result<(OwnedFd, OwnedFd), Failure> {
        let pair = match &self.devpts {
            Some(devpts) => tty::open_pair_at(devpts),
            None => tty::open_pair(),
        };
        let pair = pair.step(Step::Stdio)?;
        tty::set_size(&pair.0, size).step(Step::Stdio)?;
        Ok(pair)
    }

    /// The pipe of a workload that was starting says how it went: closed by the exec, or a failure.
    pub(super) fn conclude_start(&mut self, room: &mut Room, at: usize) {
        let Some(workload) = room.workloads.0.get_mut(at) else {
            return;
        };
        let State::Starting { request, status } = &workload.state else {
            return;
        };
        let mut packet = [0; 1200];
        let failure = match rustix::io::read(status, &mut packet) {
            Ok(0) => None,
            Ok(length) => Some(Failure::decode(packet.get(..length).unwrap_or_default())),
            // There is nothing yet, or it can't be read now: it still runs, or still doesn't.
            Err(_) => return,
        };
        let request = *request;
        // The child of a later start may hold a copy of the pipe for a moment: closing isn't
        // enough.
        let _ = self.poll.remove(status);
        match failure {
            None => {
                workload.state = State::Running;
                let Some(request) = request else { return };
                let started = CellEvent::Started {
                    request,
                    pid: workload.pid,
                    started_ns: workload.started_ns,
                };
                let mut fds = vec![workload.pidfd.as_fd()];
                if let Stdio::Terminal { .. } = workload.stdio {
                    fds.extend(workload.output.iter().map(AsFd::as_fd));
                }
                let link = room.link.as_mut();
                if link.is_some_and(|link| link.post(&started, &fds).is_err()) {
                    room.lose_link(&self.poll);
                }
            }
            Some(failure) => {
                let unreadable = |_| failed(Step::Exec, Errno::IO, "an unreadable status");
                let failure = failure.unwrap_or_else(unreadable);
                workload.state = State::Failing { request, failure };
            }
        }
    }
}

/// The one descriptor of a request.
pub(super) fn only(fds: Vec<OwnedFd>) -> Result<OwnedFd, Failure> {
    match <[OwnedFd; 1]>::try_from(fds) {
        Ok([only]) => Ok(only),
        Err(_) => Err(failed(
            Step::Protocol,
            Errno::BADF,
            "one descriptor is expected",
        )),
    }
}

pub(super) fn stopping() -> Failure {
    failed(Step::Limit, Errno::SHUTDOWN, "the cell is being stopped")
}

fn found(room: &mut Room, uid: Uid) -> Result<&mut Workload, Failure> {
    let workload = room.workloads.find(uid);
    workload.ok_or_else(|| failed(Step::Protocol, Errno::SRCH, "no such workload in this cell"))
}

fn put(room: &mut Room, uid: Uid, record: Record, fds: &mut Vec<OwnedFd>) -> Outcome {
    let kept = KeptRecord::take(record, fds)?;
    found(room, uid).map(|workload| workload.record = kept)
}

fn send(room: &mut Room, uid: Uid, number: u8) -> Outcome {
    let signal = Signal::from_number(number.into())
        .ok_or_else(|| failed(Step::Protocol, Errno::INVAL, &format!("no signal {number}")))?;
    let workload = found(room, uid)?;
    if !workload.is_alive() {
        return Err(failed(
            Step::Protocol,
            Errno::SRCH,
            "the main process has ended",
        ));
    }
    pidfd::send_signal(&workload.pidfd, signal).step(Step::Protocol)
}

/// Acknowledges an end. A running workload stays, even when the daemon believes that it has ended;
/// one without a main process has no end of its own.
fn acknowledge(room: &mut Room, uid: Uid) {
    let ended = |workload: &&mut Workload| !workload.is_alive();
    if room.workloads.find(uid).filter(ended).is_some() {
        room.workloads.remove(uid);
    }
}

/// The descriptors of a start, each in its role.
struct Parts {
    leaf: OwnedFd,
    /// The child's streams: three descriptors, or one terminal.
    child: Vec<OwnedFd>,
    keep: Vec<OwnedFd>,
    stdin: Option<OwnedFd>,
    passed: Vec<OwnedFd>,
    /// Where the listener of its filter goes, out of the way of what the program gets.
    listener: Option<OwnedFd>,
}

impl Parts {
    fn take(head: &StartHead, fds: Vec<OwnedFd>) -> Result<Parts, Failure> {
        let (child, keep) = match head.stdio {
            Stdio::Pipes => (3, 2),
            // The cell-init adds both ends of it.
            Stdio::Terminal { .. } => (0, 0),
        };
        let passed = usize::from(head.passed);
        let flags = [head.keep_stdin, head.listens].map(usize::from);
        let expected = 1 + child + keep + passed + flags.iter().sum::<usize>();
        if fds.len() != expected {
            let detail = format!("{} descriptors came, {expected} are expected", fds.len());
            return Err(failed(Step::Protocol, Errno::BADF, &detail));
        }
        let mut fds = fds.into_iter();
        let leaf = fds
            .next()
            .ok_or_else(|| failed(Step::Protocol, Errno::BADF, "no leaf"))?;
        let child = fds.by_ref().take(child).collect();
        let keep = fds.by_ref().take(keep).collect();
        let stdin = if head.keep_stdin { fds.next() } else { None };
        let passed = fds.by_ref().take(passed).collect();
        let aside = |fd: OwnedFd| process::duplicate_above(fd.as_fd(), passed::ABOVE);
        let listener = fds.next().map(aside).transpose().step(Step::Limit)?;
        Ok(Parts {
            leaf,
            child,
            keep,
            stdin,
            passed,
            listener,
        })
    }

    fn streams(&self) -> [BorrowedFd<'_>; 3] {
        // `take` made sure of three or one; the leaf is never reached.
        let one = |at: usize| {
            self.child
                .get(at)
                .or(self.child.first())
                .unwrap_or(&self.leaf)
        };
        [one(0).as_fd(), one(1).as_fd(), one(2).as_fd()]
    }
}

/// Read end (not blocking) and write end.
fn status_pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    let pipe = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
    pipe.map_err(|errno| failed(Step::Limit, errno, "pipe"))
}

pub(super) fn memory_events(leaf: BorrowedFd<'_>) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(leaf, "memory.events", flags, Mode::empty()).ok()
}
