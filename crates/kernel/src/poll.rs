// SPDX-License-Identifier: Apache-2.0
//! Waiting on a few descriptors, with a bound. For many, see [`crate::epoll`].

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::{Error, Result};

/// The event to wait for; an error or the end of the other side counts as ready too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Something to read.
    Readable,
    /// Room to write.
    Writable,
    /// Something exceptional (`POLLPRI`): a changed `cgroup.events` or mount table.
    Priority,
}

/// A moment after which waiting ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// A deadline that never passes.
    pub const NEVER: Deadline = Deadline(None);

    /// This long from now; a time beyond what can be counted is never.
    pub fn after(duration: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(duration))
    }

    /// The time that remains, zero when it has passed; `None`: for ever.
    pub fn remaining(self) -> Option<Duration> {
        self.0
            .map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// [`Deadline::remaining`] as system calls take it.
    pub fn timeout(self) -> Option<Timespec> {
        self.remaining().map(timespec)
    }

    /// Whether it has passed.
    pub fn passed(self) -> bool {
        self.remaining() == Some(Duration::ZERO)
    }
}

/// A time as system calls take it; seconds beyond what they count are the most that they do.
pub fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Waits until the descriptor is ready (`true`) or the deadline has passed (`false`); goes on after
/// signals.
///
/// # Errors
/// `ENOMEM`: the kernel has no memory for the call.
pub fn wait(fd: impl AsFd, interest: Interest, deadline: Deadline) -> Result<bool> {
    wait_any([fd.as_fd()], interest, deadline)
}

/// [`wait`] for several descriptors: until one of them is ready.
///
/// # Errors
/// `EINVAL`: more descriptors than `RLIMIT_NOFILE`. `ENOMEM`: the kernel has no memory for the
/// call.
pub fn wait_any<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    interest: Interest,
    deadline: Deadline,
) -> Result<bool> {
    let flags = match interest {
        Interest::Readable => PollFlags::IN,
        Interest::Writable => PollFlags::OUT,
        Interest::Priority => PollFlags::PRI,
    };
    loop {
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, flags));
        match rustix::event::poll(&mut fds, deadline.timeout().as_ref()) {
            Ok(0) if deadline.passed() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(Error::new("poll", errno)),
        }
    }
}
