// SPDX-License-Identifier: Apache-2.0
//! Descriptors that came with a packet: allegations until looked at.
//!
//! A cell-init may hand over anything. A regular file or a FUSE file where a pipe is expected would
//! block the thread that moves logs; another process's pidfd would have us show, or signal,
//! another cell's process.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::io::Errno;

use super::LinkError;

/// Major number of /dev/ptmx (`TTYAUX_MAJOR`), whose minor is 2.
const PTMX: (u32, u32) = (5, 2);

/// A pipe or FIFO, or an error.
pub(crate) fn pipe(fd: Option<OwnedFd>, what: &'static str) -> Result<OwnedFd, LinkError> {
    check(fd, what, |meta| meta.file_type().is_fifo())
}

/// The master of a pseudo-terminal, or an error.
pub(crate) fn terminal(fd: Option<OwnedFd>) -> Result<OwnedFd, LinkError> {
    check(fd, "a terminal's master", |meta| {
        let device = (
            rustix::fs::major(meta.rdev()),
            rustix::fs::minor(meta.rdev()),
        );
        meta.file_type().is_char_device() && device == PTMX
    })
}

/// A process as its pidfd tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Process {
    /// In the daemon's pid namespace; 0 when it has been reaped.
    pub(crate) pid: i32,
    /// The id of its cgroup, where the kernel says it.
    pub(crate) cgroup: Option<u64>,
}

/// A pidfd, or an error.
pub(crate) fn pidfd(fd: Option<OwnedFd>) -> Result<(OwnedFd, Process), LinkError> {
    let fd = fd.ok_or_else(|| missing("a pidfd"))?;
    if let Some(kernel::pidfd::Info { pid, cgroup }) = kernel::pidfd::info(&fd) {
        let cgroup = Some(cgroup);
        return Ok((fd, Process { pid, cgroup }));
    }
    let pid = match kernel::pidfd::pid_of(&fd) {
        Ok(pid) => pid,
        Err(error) if error.is(Errno::SRCH.raw_os_error()) => 0,
        Err(error) => return Err(LinkError::Malformed(format!("not a pidfd: {error}"))),
    };
    Ok((fd, Process { pid, cgroup: None }))
}

fn check(
    fd: Option<OwnedFd>,
    what: &'static str,
    right: impl Fn(&std::fs::Metadata) -> bool,
) -> Result<OwnedFd, LinkError> {
    let file = File::from(fd.ok_or_else(|| missing(what))?);
    let meta = file.metadata()?;
    if right(&meta) {
        Ok(OwnedFd::from(file))
    } else {
        Err(LinkError::Malformed(format!("a descriptor is not {what}")))
    }
}

fn missing(what: &'static str) -> LinkError {
    LinkError::Malformed(format!("{what} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_passed_for_a_pipe_is_refused() {
        let file = tempfile::tempfile().unwrap();
        assert!(pipe(Some(file.into()), "a pipe").is_err());
        assert!(pipe(None, "a pipe").is_err());
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(pipe(Some(reader.into()), "a pipe").is_ok());
    }

    #[test]
    fn only_the_masters_device_is_a_terminal() {
        let master = File::options()
            .read(true)
            .write(true)
            .open("/dev/ptmx")
            .unwrap();
        assert!(terminal(Some(master.into())).is_ok());
        let null = File::open("/dev/null").unwrap();
        assert!(terminal(Some(null.into())).is_err());
    }
}
