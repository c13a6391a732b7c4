// SPDX-License-Identifier: Apache-2.0
//! How orphans of the administrators' cells end: processes that go on although their cell-init has
//! died, and of which node-init is the parent since then. Another init of the cell adopts them; it
//! can't wait for them, so it is told here, on a socket that the daemon gives to both (ADR 77).
//!
//! What ended before there is such a socket is remembered: the last ones of the last minute. A
//! socket without room loses what would go there: its reader sees that the process is gone, and
//! says that its end isn't known. Nothing waits.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use kernel::seqpacket;
use kernel::time;
use kernel::wait::Exit;
use rustix::io::Errno;

use super::Node;
use crate::cell::workload::exit_record;
use crate::codec::Packet;
use crate::protocol::{ExitHow, ExitRecord, MAX_ORPHANS, MAX_PACKET, Orphan, Uid};

/// How long an end is remembered, in nanoseconds: longer than the daemon takes for another init.
/// Not for ever, because the number may be another process's some day.
const REMEMBERED_NS: u64 = 60_000_000_000;
/// How many cell-inits are told: more cells than one share the node's namespaces rarely.
const TOLD: usize = 64;

/// The end of what is remembered.
const ALL: Orphan = Orphan {
    pid: 0,
    exit: ExitRecord {
        how: ExitHow::Unknown,
        started_ns: 0,
        finished_ns: 0,
        user_ns: 0,
        system_ns: 0,
        max_rss_bytes: 0,
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        oom_kills: None,
    },
};

/// See the module.
#[derive(Default)]
pub(super) struct Orphans {
    /// With the time of `CLOCK_BOOTTIME`.
    recent: VecDeque<(u64, Orphan)>,
    /// The sockets, by the cell whose init has the other end.
    told: Vec<(Uid, OwnedFd)>,
}

impl Orphans {
    /// One has ended at that time.
    fn record(&mut self, now_ns: u64, orphan: Orphan) {
        self.told.retain(|(_, socket)| say(socket, &orphan));
        while self.recent.len() >= MAX_ORPHANS || self.is_first_old(now_ns) {
            self.recent.pop_front();
        }
        if self.recent.try_reserve(1).is_ok() {
            self.recent.push_back((now_ns, orphan));
        }
    }

    fn is_first_old(&self, now_ns: u64) -> bool {
        let first = self.recent.front();
        first.is_some_and(|(at, _)| at.saturating_add(REMEMBERED_NS) < now_ns)
    }

    /// Tells the init of a cell from now on, first what is remembered; `false`: too many are told.
    fn tell(&mut self, now_ns: u64, uid: Uid, socket: OwnedFd) -> bool {
        self.forget(uid);
        if self.told.len() >= TOLD || self.told.try_reserve(1).is_err() {
            return false;
        }
        while self.is_first_old(now_ns) {
            self.recent.pop_front();
        }
        for (_, orphan) in &self.recent {
            let _ = say(&socket, orphan);
        }
        // Who isn't told that this was all would wait for more.
        if send(&socket, &ALL).is_ok() {
            self.told.push((uid, socket));
        }
        true
    }

    /// The init of that cell has ended.
    pub(super) fn forget(&mut self, uid: Uid) {
        self.told.retain(|(told, _)| *told != uid);
    }
}

/// `false`: no process has the other end any more.
fn say(socket: &OwnedFd, orphan: &Orphan) -> bool {
    let gone = [Errno::PIPE, Errno::CONNRESET, Errno::NOTCONN];
    match send(socket, orphan) {
        Err(error) => !gone.contains(&Errno::from_raw_os_error(error.errno())),
        Ok(()) => true,
    }
}

fn send(socket: &OwnedFd, orphan: &Orphan) -> kernel::Result<()> {
    let mut packet = Vec::new();
    let encoded = orphan.encode(&mut packet);
    encoded.map_err(|_| kernel::Error::new("encode", Errno::NOMEM))?;
    seqpacket::send(socket, &packet, &[])
}

impl Node {
    /// A process has ended that was neither started here nor is a cell-init. It is a zombie still,
    /// so its group can be seen.
    pub(super) fn orphan_ended(&mut self, exit: &Exit) {
        if self.groups.is_administrators(exit.pid) {
            let orphan = Orphan {
                pid: exit.pid,
                exit: exit_record(exit, 0),
            };
            self.orphans.record(time::boottime_ns(), orphan);
        }
    }

    /// The daemon has another init for a cell, which adopts what runs in it.
    pub(super) fn tell_orphans(&mut self, uid: Uid, fds: Vec<OwnedFd>) {
        let Ok([socket]) = <[OwnedFd; 1]>::try_from(fds) else {
            return self.complain("one socket was to come for the ends of orphans");
        };
        // As many as are remembered, and more.
        let _ = seqpacket::reserve_send_buffer(&socket, 2 * MAX_PACKET);
        if rustix::io::ioctl_fionbio(&socket, true).is_err() {
            return self.complain("the ends of orphans can't be told on that socket");
        }
        if !self.orphans.tell(time::boottime_ns(), uid, socket) {
            self.console
                .say("too many cells want to know how orphans end");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::seqpacket::Mode;
    use kernel::wait::{ExitStatus, Usage};

    fn orphan(pid: i32) -> Orphan {
        let exit = Exit {
            pid,
            uid: 0,
            status: ExitStatus::Code(3),
            usage: Usage::default(),
        };
        Orphan {
            pid,
            exit: exit_record(&exit, 0),
        }
    }

    fn heard(socket: &OwnedFd) -> Vec<i32> {
        let mut buffer = [0; 256];
        let mut pids = Vec::new();
        while let Ok(Some(packet)) = seqpacket::receive(socket, &mut buffer) {
            pids.push(Orphan::decode(&buffer[..packet.length]).unwrap().pid);
        }
        pids
    }

    #[test]
    fn a_new_init_hears_what_ended_shortly_before_and_all_that_ends_later() {
        let mut orphans = Orphans::default();
        orphans.record(0, orphan(1));
        let minute = REMEMBERED_NS;
        orphans.record(minute, orphan(2));
        let (ours, theirs) = seqpacket::pair(Mode::Nonblocking).unwrap();
        assert!(orphans.tell(minute + 1, Uid([1; 16]), ours));
        orphans.record(minute + 2, orphan(3));
        assert_eq!(heard(&theirs), [2, 0, 3]);
        drop(theirs);
        orphans.record(minute + 3, orphan(4));
        assert!(orphans.told.is_empty());
    }

    #[test]
    fn a_flood_of_ends_and_a_deaf_init_take_no_more_than_their_room() {
        let mut orphans = Orphans::default();
        let (ours, theirs) = seqpacket::pair(Mode::Nonblocking).unwrap();
        assert!(orphans.tell(0, Uid([1; 16]), ours));
        for pid in 1..5000 {
            orphans.record(0, orphan(pid));
        }
        assert_eq!(orphans.recent.len(), MAX_ORPHANS);
        assert_eq!(orphans.told.len(), 1);
        assert!(heard(&theirs).len() < 4999, "the socket's room is bounded");
        for cell in 2..=65 {
            let (ours, theirs) = seqpacket::pair(Mode::Nonblocking).unwrap();
            let has_room = orphans.tell(0, Uid([cell; 16]), ours);
            assert_eq!(has_room, usize::from(cell) <= TOLD);
            std::mem::forget(theirs);
        }
    }
}
