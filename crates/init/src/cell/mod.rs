// SPDX-License-Identifier: Apache-2.0
//! The cell-init: the parent and record keeper of the executables of one cell.
//!
//! A clone of the spawner without exec: it has the code of this binary, a few pages of memory of
//! its own, and only the descriptors that it needs. One loop waits for the daemon's connection (one
//! at a time), the pipes that say whether an exec succeeded, and signals. It never blocks, and its
//! table of workloads has a bound. It goes on without a daemon: exits and output then wait.
//!
//! It knows no limits, no logs and no policy: it does what the daemon says, in its own cell only.
//! [`setup`] makes the cell around it; [`launch`] executes the programs.
//!
//! Allocation: tables, queues and decoded requests grow with `try_reserve` and answer `ENOMEM`.
//! What can still abort where `malloc` itself fails (in a cgroup over its limit it doesn't: there
//! the OOM killer decides) is the standard library's: the descriptors of a packet (at most 64), the
//! copy of a record that a new daemon gets (at most 64 KiB), and the text of a failure (at most 1
//! KiB).

mod clones;
mod follow;
mod image;
mod launch;
pub(crate) mod mounts;
mod reap;
mod requests;
pub(crate) mod setup;
mod stop;
mod users;
pub(crate) mod workload;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use kernel::memory::Scratch;
use kernel::poll::Deadline;
use kernel::seqpacket::{self, Mode, ReceiveError};
use kernel::signal::SignalFd;
use kernel::{Result, process};

use crate::link::Link;
use crate::poll::{Interest, Poll};
use crate::protocol::{CellEvent, MAX_PACKET, Namespaces, Root, Uid, VERSION};
use stop::Stop;
use workload::{State, Workloads};

/// How many packets are read before the other sources have their turn.
const PACKETS_AT_ONCE: usize = 16;
/// Packets up to this size leave their pages in the buffer.
const KEEP: usize = 8 * 1024;
/// How long to leave alone what failed for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

const SIGNALS: u64 = 0;
const LISTENER: u64 = 1;
const LINK: u64 = 2;
/// The token of an exec-status pipe is this and its descriptor.
const STATUS: u64 = 16;

/// The state of a cell-init.
pub(crate) struct Cell {
    uid: Uid,
    record: Vec<u8>,
    /// The namespaces that the cell doesn't share.
    own: Namespaces,
    /// What the root of the cell's files is; its layers are forgotten.
    root: Root,
    /// The root of the cell's user namespace is the node's.
    node_user: bool,
    /// The next child would be of another pid namespace than the cell's; see `Cell::clone_among`.
    away: bool,
    /// The node's root as seen from the cell's user namespace.
    node_uid: u32,
    poll: Poll,
    signals: SignalFd,
    listener: OwnedFd,
    /// Its own OOM score, to be written; see `Cell::clone_with_score`.
    score: Option<OwnedFd>,
    /// The root of the cell's own devpts; none where it shares its mounts.
    devpts: Option<OwnedFd>,
    /// The listener is left alone until then.
    listen_again: Option<Deadline>,
    /// Whether the listener is among what is waited for.
    listens: bool,
    /// Children may have ended without a signal: look again.
    reap_again: bool,
    link: Option<Link>,
    /// The daemon on the link has sent `Hello`, with our version.
    said_hello: bool,
    interest: Interest,
    workloads: Workloads,
    /// There may be workloads or ends that the daemon doesn't know.
    news: bool,
    buffer: Option<Scratch>,
    stop: Option<Stop>,
}

impl Cell {
    /// Serves until the cell is asked to end.
    pub(crate) fn run(mut self) -> ! {
        loop {
            let timeout = self.timeout();
            if self.poll.wait(timeout).is_err() {
                // Can't happen with a valid descriptor; the signals are looked at all the same.
                self.read_signals();
            }
            if self.reap_again {
                self.reap();
            }
            let mut number = 0;
            while let Some(token) = self.poll.token(number) {
                self.handle(token);
                number += 1;
            }
            self.advance_stop();
            self.flush();
            self.tend_listener();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let stuck = self
            .link
            .as_ref()
            .is_some_and(Link::is_stuck)
            .then_some(PAUSE);
        let listens = self.link.is_none() && self.listen_again.is_none();
        let again = (self.reap_again || self.listens != listens).then_some(PAUSE);
        let listen = self.listen_again.and_then(Deadline::remaining);
        let stop = self
            .stop
            .as_ref()
            .and_then(|stop| stop.timeout(&self.workloads));
        [stuck, again, listen, stop].into_iter().flatten().min()
    }

    fn handle(&mut self, token: u64) {
        match token {
            SIGNALS => self.read_signals(),
            LISTENER => self.accept(),
            LINK => self.read_link(),
            _ => self.read_status(token),
        }
    }

    /// Takes a new daemon's connection, once the old one is read to its end.
    fn accept(&mut self) {
        if self.link.is_some() {
            return;
        }
        let socket = match seqpacket::accept(&self.listener, Mode::Nonblocking) {
            Ok(socket) => socket,
            Err(error) if error.is_would_block() => return,
            Err(_) => return self.listen_later(),
        };
        if !self.is_node(&socket) {
            return;
        }
        // A packet with a record of the largest size must fit.
        let _ = seqpacket::reserve_send_buffer(&socket, MAX_PACKET);
        if self.poll.add(&socket, LINK, Interest::READ).is_err() {
            return self.listen_later();
        }
        self.interest = Interest::READ;
        self.said_hello = false;
        self.link = Some(Link::new(socket));
    }

    /// Whether the peer is the node's root, and not from within this cell.
    fn is_node(&self, socket: impl AsFd) -> bool {
        let own_pids = self.own.has(Namespaces::PID);
        seqpacket::peer_credentials(socket)
            .is_ok_and(|peer| peer.uid == self.node_uid && (!own_pids || peer.pid == 0))
    }

    /// Leaves connections in the backlog for a while.
    fn listen_later(&mut self) {
        self.listen_again = Some(Deadline::after(PAUSE));
    }

    /// Listens while there is no daemon. A change that fails is tried again: without a listener in
    /// the loop no later daemon could connect.
    fn tend_listener(&mut self) {
        if self.listen_again.is_some_and(Deadline::passed) {
            self.listen_again = None;
        }
        let read = self.link.is_none() && self.listen_again.is_none();
        let interest = Interest { read, write: false };
        if read != self.listens && self.poll.change(&self.listener, LISTENER, interest).is_ok() {
            self.listens = read;
        }
    }

    fn read_link(&mut self) {
        let Some(mut buffer) = self.buffer.take() else {
            return;
        };
        for _ in 0..PACKETS_AT_ONCE {
            let Some(link) = self.link.as_ref().filter(|link| link.has_room()) else {
                break;
            };
            match link.receive(&mut buffer) {
                Ok(Some(packet)) => {
                    let length = packet.length;
                    self.request(buffer.get(..length).unwrap_or_default(), packet.fds);
                    if length > KEEP {
                        buffer.discard();
                    }
                }
                Ok(None) => self.lose_link(),
                Err(error) if error.is_would_block() => break,
                Err(ReceiveError::Os(_)) => self.lose_link(),
                Err(error) => self.refuse_cut(&buffer, &error),
            }
        }
        self.buffer = Some(buffer);
    }

    /// The daemon is gone: the next one gets what this one didn't.
    fn lose_link(&mut self) {
        if let Some(link) = self.link.take() {
            let _ = self.poll.remove(&link);
        }
        self.said_hello = false;
        for workload in &mut self.workloads.0 {
            if let State::Starting { request, .. } | State::Failing { request, .. } =
                &mut workload.state
            {
                *request = None;
            }
        }
    }

    /// Answers a daemon's `Hello` with the cell's uid and record; its workloads follow from
    /// [`Cell::flush`].
    fn answer_hello(&mut self, version: u16) {
        if version != VERSION {
            let reason = format!("this cell's init speaks version {VERSION}, not {version}");
            self.post(
                &CellEvent::Refused {
                    version: VERSION,
                    reason,
                },
                &[],
            );
            if let Some(link) = &mut self.link {
                let _ = link.flush();
            }
            return self.lose_link();
        }
        if self.own.has(Namespaces::MOUNT) {
            mounts::detach_stage();
        }
        self.said_hello = true;
        self.news = true;
        for workload in &mut self.workloads.0 {
            workload.told = false;
            workload.end_told = false;
        }
        let workloads = u32::try_from(self.workloads.0.len()).unwrap_or(u32::MAX);
        let (uid, record) = (self.uid, self.record.clone());
        self.post(
            &CellEvent::Welcome {
                version: VERSION,
                uid,
                record,
                workloads,
            },
            &[],
        );
    }

    fn post(&mut self, event: &CellEvent, fds: &[std::os::fd::BorrowedFd<'_>]) {
        let result = self
            .link
            .as_mut()
            .map_or(Ok(()), |link| link.post(event, fds));
        if result.is_err() {
            self.lose_link();
        }
    }

    /// Sends waiting packets, then workloads and ends that the daemon doesn't know, as far as the
    /// socket takes them.
    fn flush(&mut self) {
        if self.try_flush().is_err() {
            self.lose_link();
        }
    }

    fn try_flush(&mut self) -> Result<()> {
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        if !link.is_flushed() {
            link.flush()?;
        }
        if self.said_hello && self.news {
            self.news = !tell_news(link, &mut self.workloads)?;
        }
        let interest = link.interest();
        if interest != self.interest {
            self.poll.change(&*link, LINK, interest)?;
            self.interest = interest;
        }
        Ok(())
    }

    fn read_status(&mut self, token: u64) {
        let is_it = |state: &State| match state {
            State::Starting { status, .. } => status_token(status) == token,
            _ => false,
        };
        let found = self
            .workloads
            .0
            .iter()
            .position(|workload| is_it(&workload.state));
        if let Some(at) = found {
            self.conclude_start(at);
        }
    }
}

/// The token of an exec-status pipe.
fn status_token(status: &OwnedFd) -> u64 {
    STATUS + u64::from(status.as_raw_fd().unsigned_abs())
}

/// Sends workloads and ends that the daemon doesn't know; `true` when all are sent.
fn tell_news(link: &mut Link, workloads: &mut Workloads) -> Result<bool> {
    for workload in &mut workloads.0 {
        if !link.is_flushed() {
            return Ok(false);
        }
        let ended = match workload.state {
            State::Ended(exit) => Some(exit),
            _ => None,
        };
        if !workload.told {
            link.post(
                &CellEvent::Workload(workload.report()),
                &workload.report_fds(),
            )?;
            workload.told = true;
            workload.end_told = ended.is_some();
        } else if let Some(exit) = ended.filter(|_| !workload.end_told) {
            link.post(
                &CellEvent::Exited {
                    uid: workload.uid,
                    exit,
                },
                &[],
            )?;
            workload.end_told = true;
        }
    }
    Ok(true)
}

/// Ends the cell-init. Where it is PID 1, all processes of its pid namespace end with it.
fn end() -> ! {
    process::exit(0)
}
