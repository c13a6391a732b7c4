// SPDX-License-Identifier: Apache-2.0
//! Small descriptors: a flag to wake a loop with (`eventfd`), a file in memory (`memfd`).

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::EventfdFlags;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::{Context, Error, Result};

/// A counter that is readable while it isn't zero. Non-blocking; may be used from any thread.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// One that is zero.
    pub fn new() -> Result<EventFd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        rustix::event::eventfd(0, flags)
            .call("eventfd2")
            .map(EventFd)
    }

    /// Adds one: wakes who waits. A counter at its end (2⁶⁴ - 2) is awake anyway.
    pub fn signal(&self) -> Result<()> {
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes())) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(Error::new("write", errno).about("eventfd")),
        }
    }

    /// Takes all: how many signals came since the last time.
    pub fn take(&self) -> Result<u64> {
        crate::time::read_counter(self.0.as_fd())
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A file without a path, in memory, close-on-exec. `name` shows in `/proc/PID/fd` alone.
pub fn memory_file(name: &str) -> Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    rustix::fs::memfd_create(name, flags)
        .call("memfd_create")
        .map(File::from)
}

/// Makes a [`memory_file`] unchangeable for all, for ever: to be handed to others.
pub fn seal(file: &File) -> Result<()> {
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(file, all).call("fcntl(F_ADD_SEALS)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn signals_are_counted_until_taken() {
        let event = EventFd::new().unwrap();
        assert_eq!(event.take().unwrap(), 0);
        event.signal().unwrap();
        event.signal().unwrap();
        assert_eq!(event.take().unwrap(), 2);
        assert_eq!(event.take().unwrap(), 0);
    }

    #[test]
    fn a_sealed_file_cannot_be_written() {
        let mut file = memory_file("test").unwrap();
        file.write_all(b"x").unwrap();
        seal(&file).unwrap();
        assert_eq!(
            file.write(b"y").unwrap_err().raw_os_error(),
            Some(libc::EPERM)
        );
    }
}
