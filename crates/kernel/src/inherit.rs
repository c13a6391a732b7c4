// SPDX-License-Identifier: Apache-2.0
//! Descriptors that a process was started with, whose numbers are arguments, as `--init-fd N`.
//! `auraed`'s main takes them over before it does anything else.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::error::{Error, Result};

/// Numbers that were taken already.
static TAKEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Takes over an inherited descriptor; it is closed on exec from now on. Each number can be taken
/// once.
///
/// # Errors
/// `EBADF`: no such descriptor, one of 0 to 2, or taken already.
pub fn take(number: RawFd) -> Result<OwnedFd> {
    let refuse = || Error::new("inherit", rustix::io::Errno::BADF);
    let mut taken = TAKEN.lock().map_err(|_| refuse())?;
    let is_open = std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
    if number <= 2 || !is_open || taken.contains(&number) {
        return Err(refuse());
    }
    taken.push(number);
    // SAFETY: it is open, and nothing in this process owns it: it was there before main, and is
    // handed out once.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|e| Error::new("fcntl", e))?;
    debug_assert_eq!(fd.as_raw_fd(), number);
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_number_is_taken_and_only_once() {
        assert!(take(1).is_err());
        assert!(take(9999).is_err());
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let number = std::os::fd::IntoRawFd::into_raw_fd(ours);
        let fd = take(number).unwrap();
        assert!(take(number).is_err());
        drop(fd);
    }
}
