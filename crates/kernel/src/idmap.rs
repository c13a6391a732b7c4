// SPDX-License-Identifier: Apache-2.0
//! Maps of user and group ids: written into a process's new user namespace.
//!
//! A process may write them that has `CAP_SETUID`/`CAP_SETGID` in the namespace's *parent* user
//! namespace; once, through files that belong to the creator of the namespace. For a nested
//! namespace the writer must have joined the parent's user namespace and kept its kernel uid 0: the
//! files are root's while the child isn't dumpable. A process of the node, outside of the parent,
//! gets `EPERM`.

use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{Context, Error, Result};

/// The most extents of one map (Linux 4.15).
pub const MAX_EXTENTS: usize = 340;

/// One extent: `count` ids from `inside` are those from `outside` in the writer's namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdMap {
    /// First id in the new namespace.
    pub inside: u32,
    /// First id in the writer's namespace.
    pub outside: u32,
    /// How many; at least 1.
    pub count: u32,
}

impl IdMap {
    /// Where an id of the new namespace is outside, if this extent has it.
    pub fn to_outside(&self, inside: u32) -> Option<u32> {
        let offset = inside
            .checked_sub(self.inside)
            .filter(|o| *o < self.count)?;
        self.outside.checked_add(offset)
    }
}

/// The process's folder in `/proc`, for [`write`] and namespaces: held open, it can't become
/// another's.
///
/// # Errors
/// `ENOENT`: there is no such process, or `/proc` is not mounted.
pub fn open_process(pid: i32) -> Result<OwnedFd> {
    let path = PathBuf::from(format!("/proc/{pid}"));
    rustix::fs::open(&path, FOLDER, Mode::empty()).call_on("open", &path)
}

/// [`open_process`] in a proc that is not at `/proc`.
///
/// # Errors
/// `ENOENT`: that proc shows no such process.
pub fn open_process_at(proc: impl AsFd, pid: i32) -> Result<OwnedFd> {
    let name = pid.to_string();
    rustix::fs::openat(proc, name.as_str(), FOLDER, Mode::empty())
        .call_on("open", &PathBuf::from(name))
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Writes both maps of the process whose folder this is.
///
/// # Errors
/// `EPERM`: the caller isn't one that may write them (see the module's header), or they are written
/// already. `EINVAL`: a map has no extent or more than [`MAX_EXTENTS`], an extent is empty, two
/// overlap, or one reaches ids that have no mapping outside. `ESRCH`, `ENOENT`: the process has
/// ended.
pub fn write(process: impl AsFd, uids: &[IdMap], gids: &[IdMap]) -> Result<()> {
    write_file(process.as_fd(), "uid_map", text(uids)?.as_bytes())?;
    write_file(process.as_fd(), "gid_map", text(gids)?.as_bytes())
}

/// Forbids `setgroups` in the process's user namespace: what an unprivileged writer must do before
/// it writes `gid_map`.
///
/// # Errors
/// `EPERM`: `gid_map` is written already, or the caller doesn't own the namespace. `ESRCH`,
/// `ENOENT`: the process has ended.
pub fn deny_setgroups(process: impl AsFd) -> Result<()> {
    write_file(process.as_fd(), "setgroups", b"deny")
}

fn write_file(process: rustix::fd::BorrowedFd<'_>, name: &'static str, bytes: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(process, name, flags, Mode::empty())
        .map_err(|errno| Error::new("open", errno).about(name))?;
    // One write: the kernel takes a map whole or not at all.
    let written = rustix::io::retry_on_intr(|| rustix::io::write(&file, bytes));
    match written {
        Ok(_) => Ok(()),
        Err(errno) => Err(Error::new("write", errno).about(name)),
    }
}

/// The longest line: three numbers of 32 bits.
const LINE: usize = 33;

fn text(map: &[IdMap]) -> Result<String> {
    if map.is_empty() || map.len() > MAX_EXTENTS {
        return Err(Error::invalid("id map", "a map has 1 to 340 extents"));
    }
    let mut out = String::with_capacity(map.len() * LINE);
    for IdMap {
        inside,
        outside,
        count,
    } in map
    {
        let last = |first: &u32| first.checked_add(*count).is_some();
        if *count == 0 || !last(inside) || !last(outside) {
            return Err(Error::invalid(
                "id map",
                "an empty extent, or one beyond the largest id",
            ));
        }
        if writeln!(out, "{inside} {outside} {count}").is_err() {
            return Err(Error::new("id map", Errno::NOMEM));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IdMap = IdMap {
        inside: 0,
        outside: 100_000,
        count: 65_536,
    };

    #[test]
    fn maps_are_written_as_the_kernel_reads_them() {
        let two = IdMap {
            inside: 70_000,
            outside: 5,
            count: 1,
        };
        assert_eq!(text(&[ONE, two]).unwrap(), "0 100000 65536\n70000 5 1\n");
    }

    #[test]
    fn what_is_no_map_is_refused_before_the_kernel_sees_it() {
        let beyond = IdMap {
            inside: 1,
            outside: 0,
            count: u32::MAX,
        };
        for map in [
            &[][..],
            &[IdMap { count: 0, ..ONE }],
            &[beyond],
            &[ONE; MAX_EXTENTS + 1],
        ] {
            assert_eq!(text(map).unwrap_err().errno(), libc::EINVAL);
        }
    }

    #[test]
    fn ids_are_found_outside() {
        assert_eq!(ONE.to_outside(0), Some(100_000));
        assert_eq!(ONE.to_outside(65_535), Some(165_535));
        assert_eq!(ONE.to_outside(65_536), None);
    }
}
