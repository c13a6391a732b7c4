// SPDX-License-Identifier: Apache-2.0
//! One read end: how much is in it, how to move that into a file, how to throw it away. Pipes are
//! spliced: their bytes are either still in the pipe or in the file, also when the daemon is killed
//! between two instructions. Terminals can't be (splice wants a pipe on one side): they are read
//! and written.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use model::observe::Stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, splice};

use super::segment::errno;
use crate::folder::LogKey;
use crate::format::MAX_BATCH;

/// What a terminal is read by, and what is thrown away at a time.
pub(super) const BUFFER: usize = 64 << 10;

/// A read end of a workload.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) key: LogKey,
    /// The token of its tenant.
    pub(super) room: u64,
    pub(super) stream: Stream,
    pub(super) fd: OwnedFd,
    /// It is in the set of what `epoll` watches.
    pub(super) watched: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The capacity is asked for when something was moved: most runs print nothing.
    Pipe {
        capacity: Option<usize>,
        grown: usize,
    },
    Terminal,
}

/// Moving failed. `consumed` bytes were read all the same.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) errno: Errno,
    pub(super) consumed: u64,
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Self { errno, consumed: 0 }
    }
}

impl Source {
    pub(super) fn new(key: LogKey, room: u64, stream: Stream, fd: OwnedFd) -> Result<Self, Errno> {
        let kind = match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
            FileType::Fifo => Kind::Pipe {
                capacity: None,
                grown: 0,
            },
            _ => Kind::Terminal,
        };
        Ok(Self {
            key,
            room,
            stream,
            fd,
            watched: false,
            kind,
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.kind, Kind::Terminal)
    }

    /// Bytes that can be read without waiting, at most a record's worth.
    pub(super) fn available(&self) -> Result<u64, Errno> {
        let most = match self.kind {
            Kind::Pipe { .. } => u64::from(MAX_BATCH),
            Kind::Terminal => u64::try_from(BUFFER).unwrap_or(u64::MAX),
        };
        if self.is_terminal() {
            // What was written last may be on its way through a work queue of the kernel's: a poll
            // waits for that, FIONREAD doesn't, and the end of a log must not miss it.
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&Timespec::default()))?;
        }
        match rustix::io::ioctl_fionread(&self.fd) {
            // A terminal that hung up.
            Err(Errno::IO) => Ok(0),
            other => Ok(other?.min(most)),
        }
    }

    /// Moves at most `length` bytes (which are there) to `position`. 0: there were none after all.
    pub(super) fn move_to(
        &self,
        file: &File,
        position: u64,
        length: u64,
        buffer: &mut [u8],
    ) -> Result<u64, Failed> {
        if self.is_terminal() {
            return self.copy_to(file, position, length, buffer);
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut at = position;
        let flags = SpliceFlags::NONBLOCK;
        match splice(&self.fd, None, file, Some(&mut at), length, flags) {
            Ok(moved) => Ok(u64::try_from(moved).unwrap_or(0)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }

    fn copy_to(
        &self,
        file: &File,
        position: u64,
        length: u64,
        buffer: &mut [u8],
    ) -> Result<u64, Failed> {
        let read = self.read(length, buffer)?;
        let consumed = u64::try_from(read).unwrap_or(0);
        let bytes = buffer.get(..read).unwrap_or_default();
        file.write_all_at(bytes, position).map_err(|e| Failed {
            errno: errno(e),
            consumed,
        })?;
        Ok(consumed)
    }

    /// Throws away at most `length` bytes that are there; how many it were.
    pub(super) fn discard(&self, length: u64, buffer: &mut [u8]) -> u64 {
        let mut left = length;
        while left > 0 {
            match self.read(left, buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => left = left.saturating_sub(u64::try_from(read).unwrap_or(0)),
            }
        }
        length - left
    }

    fn read(&self, length: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let most = usize::try_from(length).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let buffer = buffer.get_mut(..most).unwrap_or_default();
        match rustix::io::read(&self.fd, buffer) {
            Err(Errno::AGAIN | Errno::INTR | Errno::IO) => Ok(0),
            other => other,
        }
    }

    /// Whether a batch of that size filled so much of the pipe that its writer may be waiting.
    pub(super) fn is_crowded_by(&mut self, moved: u64) -> bool {
        match &mut self.kind {
            Kind::Pipe { capacity, .. } => {
                // Every pipe answers; one that didn't would be left as it is.
                let asked = || fcntl_getpipe_size(&self.fd).unwrap_or(usize::MAX);
                let capacity = *capacity.get_or_insert_with(asked);
                moved.saturating_mul(2) >= u64::try_from(capacity).unwrap_or(u64::MAX)
            }
            Kind::Terminal => moved >= 2048,
        }
    }

    /// Makes the pipe four times as large, up to `most` bytes and by at most `budget`; what it
    /// took.
    pub(super) fn grow(&mut self, most: usize, budget: usize) -> usize {
        let Kind::Pipe {
            capacity: Some(capacity),
            grown,
        } = &mut self.kind
        else {
            return 0;
        };
        let wanted = capacity.saturating_mul(4).min(most);
        let more = wanted.saturating_sub(*capacity);
        if more == 0 || more > budget {
            return 0;
        }
        // Refused where the user's pipes hold too many pages already: then it stays as it is.
        let Ok(size) = fcntl_setpipe_size(&self.fd, wanted) else {
            return 0;
        };
        let took = size.saturating_sub(*capacity);
        *capacity = size;
        *grown = grown.saturating_add(took);
        took
    }

    /// What [`Self::grow`] took altogether.
    pub(super) fn grown(&self) -> usize {
        match self.kind {
            Kind::Pipe { grown, .. } => grown,
            Kind::Terminal => 0,
        }
    }
}
