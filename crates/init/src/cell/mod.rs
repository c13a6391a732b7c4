// SPDX-License-Identifier: Apache-2.0
//! The cell-init: the parent of the executables of one cell; it keeps their records.
//!
//! A clone of the spawner without exec: it has the code of this binary, a few pages of memory of
//! its own, and only the descriptors that it needs. One loop waits for the daemon's connections
//! (one at a time for each cell that it serves: its own, and light cells in it), the pipes that say
//! whether an exec succeeded, and signals. It never blocks, and its tables have bounds. It goes on
//! without a daemon: exits and output then wait.
//!
//! It knows no limits, no logs and no policy: it does what the daemon says, in its own cell only.
//! [`setup`] makes the cell around it; [`launch`] executes the programs.
//!
//! Allocation: tables, queues and decoded requests grow with `try_reserve` and answer `ENOMEM`.
//! What can still abort where `malloc` itself fails (in a cgroup over its limit it doesn't: there
//! the OOM killer decides) is the standard library's: the descriptors of a packet (at most 64), the
//! copy of a record that a new daemon gets (at most 64 KiB), and the text of a failure (at most 1
//! KiB).

mod adopted;
mod before;
mod clones;
mod follow;
mod image;
mod launch;
mod light;
mod listener;
pub(crate) mod mounts;
mod open;
mod orphans;
mod passed;
mod reap;
mod requests;
mod room;
mod sandbox;
pub(crate) mod setup;
mod stop;
mod users;
pub(crate) mod workload;

use std::os::fd::OwnedFd;
use std::time::Duration;

use kernel::memory::Scratch;
use kernel::process;
use kernel::signal::SignalFd;

use crate::poll::Poll;
use crate::protocol::{Namespaces, Root};
use adopted::Heard;
use orphans::Orphans;
use room::{Room, Source};
use stop::Stop;

/// How many packets are read before the other sources have their turn.
const PACKETS_AT_ONCE: usize = 16;
/// Packets up to this size leave their pages in the buffer.
const KEEP: usize = 8 * 1024;
/// How long to leave alone what failed for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// How many ends of children that are no workload's are remembered.
const ORPHANS: usize = 64;

/// The token of the signals; the others are of rooms.
const SIGNALS: u64 = 0;

/// The state of a cell-init.
pub(crate) struct Cell {
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
    /// Its own OOM score, to be written; see `Cell::clone_with_score`.
    score: Option<OwnedFd>,
    /// The root of the cell's own devpts; none where it shares its mounts.
    devpts: Option<OwnedFd>,
    /// Children may have ended without a signal: look again.
    reap_again: bool,
    /// The cells that it serves, its own first. One that is being served is taken out meanwhile.
    rooms: Vec<Option<Box<Room>>>,
    /// How many rooms there were.
    last_room: u32,
    orphans: Orphans,
    heard: Heard,
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
            self.conclude_awaited();
            self.advance_stop();
            for room in self.rooms.iter_mut().flatten() {
                room.tend(&self.poll);
            }
            self.close_rooms();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let rooms = self.rooms.iter().flatten();
        let rooms = rooms.filter_map(|room| room.timeout());
        let again = (self.reap_again || self.heard.is_awaited).then_some(PAUSE);
        let stop = self
            .stop
            .as_ref()
            .and_then(|stop| stop.timeout(&self.rooms));
        rooms.chain(again).chain(stop).min()
    }

    fn handle(&mut self, token: u64) {
        match Source::of(token) {
            Source::Signals => self.read_signals(),
            Source::Orphans => self.read_orphans(),
            Source::Listener(room) => self.within(room, Self::accept),
            Source::Link(room) => self.within(room, Self::read_link),
            Source::Status(room) => self.within(room, |cell, room| {
                if let Some(at) = room.starting_at(token) {
                    cell.conclude_start(room, at);
                }
            }),
            Source::Main(room) => {
                // Where it is a child of this init, that tells how it ended.
                self.reap();
                self.within(room, |cell, room| cell.main_ended(room, token));
            }
        }
    }

    /// Serves the room of that number, where it is there still.
    fn within(&mut self, number: u32, serve: impl FnOnce(&mut Self, &mut Room)) {
        let is_it =
            |room: &Option<Box<Room>>| room.as_ref().is_some_and(|it| it.number() == number);
        let Some(at) = self.rooms.iter().position(is_it) else {
            return;
        };
        let taken = self.rooms.get_mut(at).and_then(Option::take);
        let Some(mut room) = taken else { return };
        serve(self, &mut room);
        // Rooms are only added meanwhile: the place is the same.
        if let Some(place) = self.rooms.get_mut(at) {
            *place = Some(room);
        }
    }

    /// Forgets the light cells that have ended.
    fn close_rooms(&mut self) {
        let over = |room: &Option<Box<Room>>| room.as_ref().is_none_or(|room| room.is_over);
        while let Some(at) = self.rooms.iter().position(over) {
            if let Some(room) = self.rooms.remove(at) {
                room.close(&self.poll);
            }
        }
    }

    /// Whether something runs in one of its cells.
    fn any_runs(&self) -> bool {
        let mut rooms = self.rooms.iter().flatten();
        rooms.any(|room| room.workloads.any_runs())
    }
}

/// Ends the cell-init. Where it is PID 1, all processes of its pid namespace end with it.
fn end() -> ! {
    process::exit(0)
}
