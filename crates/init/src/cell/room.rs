// SPDX-License-Identifier: Apache-2.0
//! One cell that a cell-init serves: its own, or a light one, which shares all of its namespaces.
//! Each has a conversation of its own with the daemon, on a socket of its own, and is spoken of on
//! that alone. What a request does is in [`super::requests`].

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use kernel::Result;
use kernel::poll::Deadline;
use kernel::seqpacket::{self, Mode, ReceiveError};

use super::workload::{State, Workload, Workloads};
use super::{Cell, KEEP, PACKETS_AT_ONCE, PAUSE};
use crate::link::Link;
use crate::poll::{Interest, Poll};
use crate::protocol::{CellEvent, MAX_PACKET, Namespaces, Uid, VERSION};
use crate::record::KeptRecord;

/// The kinds of tokens of a room; those of exec-status pipes are [`STATUS`] and their descriptor.
const LISTENER: u32 = 1;
const LINK: u32 = 2;
/// Of the socket on which node-init tells of orphans; it is no room's.
const ORPHANS: u32 = 3;
const STATUS: u32 = 16;
/// Of the pidfds of main processes that weren't executed here, with their descriptor.
const MAIN: u32 = 1 << 31;

/// See the module.
pub(super) struct Room {
    /// 0 of the init's own cell; in the tokens of its sources.
    number: u32,
    pub(super) uid: Uid,
    pub(super) record: KeptRecord,
    listener: OwnedFd,
    /// The listener is left alone until then.
    listen_again: Option<Deadline>,
    /// Whether the listener is among what is waited for.
    listens: bool,
    pub(super) link: Option<Link>,
    /// The daemon on the link has sent `Hello`, with our version.
    pub(super) said_hello: bool,
    interest: Interest,
    pub(super) workloads: Workloads,
    /// There may be workloads or ends that the daemon doesn't know.
    pub(super) news: bool,
    /// A light cell whose daemon has ended it.
    pub(super) is_over: bool,
}

/// What a token is of.
pub(super) enum Source {
    Signals,
    Orphans,
    Listener(u32),
    Link(u32),
    Status(u32),
    Main(u32),
}

impl Source {
    pub(super) fn of(token: u64) -> Source {
        let [kind, number] = [token & u64::from(u32::MAX), token >> 32];
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        match u32::try_from(kind) {
            Ok(0) => Source::Signals,
            Ok(ORPHANS) => Source::Orphans,
            Ok(LISTENER) => Source::Listener(number),
            Ok(LINK) => Source::Link(number),
            Ok(kind) if kind & MAIN != 0 => Source::Main(number),
            _ => Source::Status(number),
        }
    }
}

/// The token of node-init's socket.
pub(super) fn orphans_token() -> u64 {
    ORPHANS.into()
}

impl Room {
    /// A room of that number that listens from now on.
    pub(super) fn open(
        number: u32,
        (uid, record): (Uid, KeptRecord),
        listener: OwnedFd,
        poll: &Poll,
    ) -> Result<Room> {
        let room = Room {
            number,
            uid,
            record,
            listener,
            listen_again: None,
            listens: true,
            link: None,
            said_hello: false,
            interest: Interest::READ,
            workloads: Workloads::default(),
            news: false,
            is_over: false,
        };
        poll.add(&room.listener, room.token(LISTENER), Interest::READ)?;
        Ok(room)
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Whether it is the init's own cell's.
    pub(super) fn is_own(&self) -> bool {
        self.number == 0
    }

    fn token(&self, kind: u32) -> u64 {
        u64::from(self.number) << 32 | u64::from(kind)
    }

    /// The token of an exec-status pipe.
    pub(super) fn status_token(&self, status: &OwnedFd) -> u64 {
        self.token(STATUS.saturating_add(status.as_raw_fd().unsigned_abs()))
    }

    fn main_token(&self, pidfd: &OwnedFd) -> u64 {
        self.token(MAIN | pidfd.as_raw_fd().unsigned_abs())
    }

    /// The place of the workload whose watched pidfd has that token.
    pub(super) fn watched_at(&self, token: u64) -> Option<usize> {
        let is_it =
            |workload: &Workload| workload.is_watched && self.main_token(&workload.pidfd) == token;
        self.workloads.0.iter().position(is_it)
    }

    /// Has the loop tell of the end of a workload's process, whichever process its parent is.
    pub(super) fn watch(&mut self, at: usize, poll: &Poll) -> Result<()> {
        let Some(workload) = self.workloads.0.get(at) else {
            return Ok(());
        };
        poll.add(
            &workload.pidfd,
            self.main_token(&workload.pidfd),
            Interest::READ,
        )?;
        if let Some(workload) = self.workloads.0.get_mut(at) {
            workload.is_watched = true;
        }
        Ok(())
    }

    /// How long until something is to be done that no descriptor tells of.
    pub(super) fn timeout(&self) -> Option<Duration> {
        let stuck = self.link.as_ref().is_some_and(Link::is_stuck);
        let listens = self.link.is_none() && self.listen_again.is_none();
        let again = (stuck || self.listens != listens).then_some(PAUSE);
        let listen = self.listen_again.and_then(Deadline::remaining);
        [again, listen].into_iter().flatten().min()
    }

    /// The place of the workload whose exec-status pipe has that token.
    pub(super) fn starting_at(&self, token: u64) -> Option<usize> {
        let is_it = |state: &State| match state {
            State::Starting { status, .. } => self.status_token(status) == token,
            _ => false,
        };
        let mut all = self.workloads.0.iter();
        all.position(|workload| is_it(&workload.state))
    }

    pub(super) fn post(&mut self, poll: &Poll, event: &CellEvent, fds: &[BorrowedFd<'_>]) {
        let link = self.link.as_mut();
        if link.is_some_and(|link| link.post(event, fds).is_err()) {
            self.lose_link(poll);
        }
    }

    /// The daemon is gone: the next one gets what this one didn't.
    pub(super) fn lose_link(&mut self, poll: &Poll) {
        if let Some(link) = self.link.take() {
            let _ = poll.remove(&link);
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

    /// Takes a new daemon's connection.
    fn connect(&mut self, socket: OwnedFd, poll: &Poll) {
        // A packet with a record of the largest size must fit.
        let _ = seqpacket::reserve_send_buffer(&socket, MAX_PACKET);
        if poll.add(&socket, self.token(LINK), Interest::READ).is_err() {
            return self.listen_later();
        }
        self.interest = Interest::READ;
        self.said_hello = false;
        self.link = Some(Link::new(socket));
    }

    /// Leaves connections in the backlog for a while.
    fn listen_later(&mut self) {
        self.listen_again = Some(Deadline::after(PAUSE));
    }

    /// Listens while there is no daemon. A change that fails is tried again: without a listener in
    /// the loop no later daemon could connect.
    fn tend_listener(&mut self, poll: &Poll) {
        if self.listen_again.is_some_and(Deadline::passed) {
            self.listen_again = None;
        }
        let read = self.link.is_none() && self.listen_again.is_none();
        let interest = Interest { read, write: false };
        let token = self.token(LISTENER);
        if read != self.listens && poll.change(&self.listener, token, interest).is_ok() {
            self.listens = read;
        }
    }

    /// Sends waiting packets, then workloads and ends that the daemon doesn't know, as far as the
    /// socket takes them; and listens where there is none to send to.
    pub(super) fn tend(&mut self, poll: &Poll) {
        if self.flush(poll).is_err() {
            self.lose_link(poll);
        }
        self.tend_listener(poll);
    }

    fn flush(&mut self, poll: &Poll) -> Result<()> {
        let token = self.token(LINK);
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
            poll.change(&*link, token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Answers a daemon's `Hello` with the cell's uid and record; its workloads follow from
    /// [`Room::tend`].
    pub(super) fn answer_hello(&mut self, version: u16, poll: &Poll) {
        if version != VERSION {
            let reason = format!("this cell's init speaks version {VERSION}, not {version}");
            let refused = CellEvent::Refused {
                version: VERSION,
                reason,
            };
            self.post(poll, &refused, &[]);
            if let Some(link) = &mut self.link {
                let _ = link.flush();
            }
            return self.lose_link(poll);
        }
        self.said_hello = true;
        self.news = true;
        for workload in &mut self.workloads.0 {
            workload.told = false;
            workload.end_told = false;
        }
        let welcome = CellEvent::Welcome {
            version: VERSION,
            uid: self.uid,
            record: self.record.say(),
            workloads: u32::try_from(self.workloads.0.len()).unwrap_or(u32::MAX),
        };
        if let Some(link) = &mut self.link
            && link
                .post(&welcome, self.record.descriptor().as_slice())
                .is_err()
        {
            self.lose_link(poll);
        }
    }

    /// Nothing of it is to be waited for any more.
    pub(super) fn close(mut self, poll: &Poll) {
        self.lose_link(poll);
        let _ = poll.remove(&self.listener);
    }
}

impl Cell {
    /// Takes a new daemon's connection, once the old one is read to its end.
    pub(super) fn accept(&mut self, room: &mut Room) {
        if room.link.is_some() {
            return;
        }
        match seqpacket::accept(&room.listener, Mode::Nonblocking) {
            Ok(socket) if self.is_node(&socket) => room.connect(socket, &self.poll),
            Ok(_) => {}
            Err(error) if error.is_would_block() => {}
            Err(_) => room.listen_later(),
        }
    }

    /// Whether the peer is the node's root, and not from within this cell.
    fn is_node(&self, socket: impl AsFd) -> bool {
        let own_pids = self.own.has(Namespaces::PID);
        seqpacket::peer_credentials(socket)
            .is_ok_and(|peer| peer.uid == self.node_uid && (!own_pids || peer.pid == 0))
    }

    pub(super) fn read_link(&mut self, room: &mut Room) {
        let Some(mut buffer) = self.buffer.take() else {
            return;
        };
        for _ in 0..PACKETS_AT_ONCE {
            let Some(link) = room.link.as_ref().filter(|link| link.has_room()) else {
                break;
            };
            match link.receive(&mut buffer) {
                Ok(Some(packet)) => {
                    let length = packet.length;
                    self.request(room, buffer.get(..length).unwrap_or_default(), packet.fds);
                    if length > KEEP {
                        buffer.discard();
                    }
                }
                Ok(None) => room.lose_link(&self.poll),
                Err(error) if error.is_would_block() => break,
                Err(ReceiveError::Os(_)) => room.lose_link(&self.poll),
                Err(error) => self.refuse_cut(room, &buffer, &error),
            }
        }
        self.buffer = Some(buffer);
    }
}

/// Sends workloads and ends that the daemon doesn't know; `true` when all are sent.
fn tell_news(link: &mut Link, workloads: &mut Workloads) -> Result<bool> {
    for workload in &mut workloads.0 {
        if !link.is_flushed() {
            return Ok(false);
        }
        let uid = workload.uid;
        let news = match workload.state {
            State::Ended(exit) => Some(CellEvent::Exited { uid, exit }),
            State::Headless(exit) => Some(CellEvent::Forked { uid, exit }),
            _ => None,
        };
        if !workload.told {
            let report = CellEvent::Workload(workload.report());
            link.post(&report, &workload.report_fds())?;
            workload.told = true;
            workload.end_told = news.is_some();
        } else if let Some(news) = news.filter(|_| !workload.end_told) {
            link.post(&news, &[])?;
            workload.end_told = true;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_which_room_and_which_source() {
        let number = |token| match Source::of(token) {
            Source::Signals => ("signals", 0),
            Source::Orphans => ("orphans", 0),
            Source::Listener(number) => ("listener", number),
            Source::Link(number) => ("link", number),
            Source::Status(number) => ("status", number),
            Source::Main(number) => ("main", number),
        };
        let token = |room: u64, kind: u32| room << 32 | u64::from(kind);
        assert_eq!(number(0), ("signals", 0));
        assert_eq!(number(orphans_token()), ("orphans", 0));
        assert_eq!(number(token(0, LISTENER)), ("listener", 0));
        assert_eq!(number(token(7, LINK)), ("link", 7));
        assert_eq!(number(token(7, STATUS)), ("status", 7));
        assert_eq!(number(token(7, MAIN | 9)), ("main", 7));
        assert_eq!(
            number(token(u32::MAX.into(), STATUS + 5)),
            ("status", u32::MAX)
        );
    }
}
