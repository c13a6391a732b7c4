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
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left. `ENOMEM`: the kernel
    /// has no memory.
    pub fn new() -> Result<EventFd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        rustix::event::eventfd(0, flags)
            .call("eventfd2")
            .map(EventFd)
    }

    /// Adds one, which wakes the process that waits for the counter. A counter at its end (2⁶⁴ - 2)
    /// is readable anyway.
    ///
    /// # Errors
    /// What `write` answers but `EAGAIN` and `EINTR`. The kernel has no other for an eventfd.
    pub fn signal(&self) -> Result<()> {
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.0, &1u64.to_ne_bytes())) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(Error::new("write", errno).about("eventfd")),
        }
    }

    /// Sets the counter to zero and returns what it was: how many signals came since the last time.
    ///
    /// # Errors
    /// What `read` answers but `EAGAIN` and `EINTR`. The kernel has no other for an eventfd.
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
///
/// # Errors
/// `EINVAL`: `name` is longer than 249 bytes or has a NUL in it. `EMFILE`, `ENFILE`: the process or
/// the machine has no descriptor left.
pub fn memory_file(name: &str) -> Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    rustix::fs::memfd_create(name, flags)
        .call("memfd_create")
        .map(File::from)
}

/// Makes a [`memory_file`] unchangeable for all processes, for ever: to be handed to others.
///
/// # Errors
/// `EBUSY`: it is mapped writable somewhere. `EPERM`: it is sealed already. `EINVAL`: the file is
/// not from [`memory_file`].
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
