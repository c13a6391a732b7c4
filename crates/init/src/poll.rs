// SPDX-License-Identifier: Apache-2.0
//! `epoll`, level-triggered, with plain numbers as tokens. Every loop of this crate waits on it.
//!
//! It allocates nothing after it was made. A source that is added twice or removed twice is an
//! error of the caller that shows as the kernel's `EEXIST` or `ENOENT`.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use kernel::poll::timespec;
use kernel::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// How many events one wait brings at most.
const BATCH: usize = 64;

/// An epoll instance and the events of its last wait.
pub(crate) struct Poll {
    fd: OwnedFd,
    events: Vec<epoll::Event>,
}

/// The events of a source that wake the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Interest {
    pub(crate) const READ: Interest = Interest {
        read: true,
        write: false,
    };

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, self.read);
        flags.set(EventFlags::OUT, self.write);
        flags
    }
}

impl Poll {
    pub(crate) fn new() -> Result<Poll> {
        let fd = epoll::create(CreateFlags::CLOEXEC).call("epoll_create1")?;
        let mut events = Vec::new();
        let full = events.try_reserve_exact(BATCH);
        full.map_err(|_| kernel::Error::new("epoll", Errno::NOMEM))?;
        Ok(Poll { fd, events })
    }

    pub(crate) fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        let data = EventData::new_u64(token);
        epoll::add(&self.fd, source, data, interest.flags()).call("epoll_ctl(ADD)")
    }

    pub(crate) fn change(&self, source: impl AsFd, token: u64, interest: Interest) -> Result<()> {
        let data = EventData::new_u64(token);
        epoll::modify(&self.fd, source, data, interest.flags()).call("epoll_ctl(MOD)")
    }

    pub(crate) fn remove(&self, source: impl AsFd) -> Result<()> {
        epoll::delete(&self.fd, source).call("epoll_ctl(DEL)")
    }

    /// Waits for events or for the time to pass (none: for ever); an interrupted wait brings no
    /// event.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.events.clear();
        let timeout = timeout.map(timespec);
        match epoll::wait(&self.fd, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(kernel::Error::new("epoll_wait", errno)),
        }
    }

    /// The tokens of the last wait, by number: `None` past the last.
    pub(crate) fn token(&self, number: usize) -> Option<u64> {
        self.events.get(number).map(|event| event.data.u64())
    }
}
