// SPDX-License-Identifier: Apache-2.0
//! Waiting on many descriptors: the loop of a single-threaded init. Level-triggered.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::poll::Deadline;
use crate::{Context, Error, Result};

/// How many events one wait returns at most; the rest comes with the next.
const BATCH: usize = 64;

/// The events that wake a wait, as a set. Hang-up and error always wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interests {
    /// Something to read, or the other side's end.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
    /// Something exceptional (`EPOLLPRI`): a changed `cgroup.events`.
    pub priority: bool,
}

impl Interests {
    /// Wake when there is something to read.
    pub const READABLE: Interests = Interests {
        readable: true,
        writable: false,
        priority: false,
    };
    /// Wake when there is room to write.
    pub const WRITABLE: Interests = Interests {
        readable: false,
        writable: true,
        priority: false,
    };
    /// Wake on `EPOLLPRI`.
    pub const PRIORITY: Interests = Interests {
        readable: false,
        writable: false,
        priority: true,
    };
    /// Wake only for hang-up and error.
    pub const NONE: Interests = Interests {
        readable: false,
        writable: false,
        priority: false,
    };

    fn flags(self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
            self.readable,
        );
        flags.set(epoll::EventFlags::OUT, self.writable);
        flags.set(epoll::EventFlags::PRI, self.priority);
        flags
    }
}

/// The events of one ready descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The token that the descriptor was added with.
    pub token: u64,
    /// Something to read, or the end.
    pub readable: bool,
    /// Room to write.
    pub writable: bool,
    /// Something exceptional (`EPOLLPRI`).
    pub priority: bool,
    /// The other side is gone, or an error is pending. There may still be something to read.
    pub closed: bool,
}

/// A set of descriptors to wait on.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty set.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left.
    pub fn new() -> Result<Epoll> {
        epoll::create(epoll::CreateFlags::CLOEXEC)
            .call("epoll_create1")
            .map(Epoll)
    }

    /// Adds a descriptor. One that was copied elsewhere (by a clone) stays in the set when it is
    /// closed here: remove it.
    ///
    /// # Errors
    /// `EEXIST`: the set has it already. `EPERM`: a plain file or folder, which is always ready.
    /// `ENOSPC`: past `fs.epoll.max_user_watches`.
    pub fn add(&self, fd: impl AsFd, token: u64, interests: Interests) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.0, fd, data, interests.flags()).call("epoll_ctl(ADD)")
    }

    /// Changes a descriptor's token and interests.
    ///
    /// # Errors
    /// `ENOENT`: the set hasn't got this descriptor.
    pub fn modify(&self, fd: impl AsFd, token: u64, interests: Interests) -> Result<()> {
        let data = epoll::EventData::new_u64(token);
        epoll::modify(&self.0, fd, data, interests.flags()).call("epoll_ctl(MOD)")
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// `ENOENT`: the set hasn't got this descriptor.
    pub fn remove(&self, fd: impl AsFd) -> Result<()> {
        epoll::delete(&self.0, fd).call("epoll_ctl(DEL)")
    }

    /// Waits until something is ready; empty past the deadline. Goes on after signals.
    ///
    /// # Errors
    /// What `epoll_wait` answers but `EINTR`. The kernel has no other for an open set.
    pub fn wait(&self, deadline: Deadline) -> Result<Vec<Event>> {
        let mut buffer = [MaybeUninit::uninit(); BATCH];
        loop {
            let left = deadline.remaining().map(|d| Timespec {
                // epoll_wait counts milliseconds in an int; what is longer is waited for again.
                tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX).min(86_400),
                tv_nsec: d.subsec_nanos().into(),
            });
            match epoll::wait(&self.0, &mut buffer, left.as_ref()) {
                Ok((events, _)) if !events.is_empty() => {
                    return Ok(events.iter().map(Event::from_kernel).collect());
                }
                Ok(_) if deadline.passed() => return Ok(Vec::new()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::new("epoll_wait", errno)),
            }
        }
    }
}

impl Event {
    fn from_kernel(event: &epoll::Event) -> Event {
        use epoll::EventFlags as F;
        let (flags, data) = (event.flags, event.data);
        Event {
            token: data.u64(),
            readable: flags.intersects(F::IN | F::RDHUP | F::HUP),
            writable: flags.contains(F::OUT),
            priority: flags.contains(F::PRI),
            closed: flags.intersects(F::HUP | F::ERR),
        }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn what_is_ready_comes_with_its_token_until_it_is_read() {
        let epoll = Epoll::new().unwrap();
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        epoll.add(&reader, 7, Interests::READABLE).unwrap();
        assert!(
            epoll
                .wait(Deadline::after(Duration::from_millis(1)))
                .unwrap()
                .is_empty()
        );
        writer.write_all(b"x").unwrap();
        for _ in 0..2 {
            let events = epoll.wait(Deadline::after(SOON)).unwrap();
            assert_eq!(
                (events.len(), events[0].token, events[0].readable),
                (1, 7, true)
            );
        }
        reader.read_exact(&mut [0]).unwrap();
        drop(writer);
        let events = epoll.wait(Deadline::NEVER).unwrap();
        assert!(events[0].closed, "{events:?}");
        epoll.remove(&reader).unwrap();
        assert!(
            epoll
                .wait(Deadline::after(Duration::ZERO))
                .unwrap()
                .is_empty()
        );
    }
}
