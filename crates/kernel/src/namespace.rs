// SPDX-License-Identifier: Apache-2.0
//! Namespaces: as a set, joining them, leaving the old ones, and their identity.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::check;
use crate::{Context, Result};

/// A set of kinds of namespaces, as `clone` flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Namespaces(u64);

impl Namespaces {
    /// No namespace.
    pub const NONE: Namespaces = Namespaces(0);
    /// User and group ids, capabilities.
    pub const USER: Namespaces = Namespaces(libc::CLONE_NEWUSER as u64);
    /// The table of mounts.
    pub const MOUNT: Namespaces = Namespaces(libc::CLONE_NEWNS as u64);
    /// Process ids.
    pub const PID: Namespaces = Namespaces(libc::CLONE_NEWPID as u64);
    /// Network devices, addresses, routes, abstract Unix sockets.
    pub const NET: Namespaces = Namespaces(libc::CLONE_NEWNET as u64);
    /// System V IPC and POSIX message queues.
    pub const IPC: Namespaces = Namespaces(libc::CLONE_NEWIPC as u64);
    /// Host and domain name.
    pub const UTS: Namespaces = Namespaces(libc::CLONE_NEWUTS as u64);
    /// The root of the cgroup tree.
    pub const CGROUP: Namespaces = Namespaces(libc::CLONE_NEWCGROUP as u64);
    /// The monotonic clocks. A process gets into a new one by being a child of who called
    /// [`unshare`]; not one of [`Namespaces::ALL`].
    pub const TIME: Namespaces = Namespaces(libc::CLONE_NEWTIME as u64);
    /// All seven.
    pub const ALL: Namespaces = Self::USER
        .and(Self::MOUNT)
        .and(Self::PID)
        .and(Self::NET)
        .and(Self::IPC)
        .and(Self::UTS)
        .and(Self::CGROUP);

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: Namespaces) -> Namespaces {
        Namespaces(self.0 | other.0)
    }

    /// This set less `other`.
    #[must_use]
    pub const fn without(self, other: Namespaces) -> Namespaces {
        Namespaces(self.0 & !other.0)
    }

    /// Whether all of these are in it.
    pub const fn has(self, other: Namespaces) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// The flags fit a C int: the highest is `CLONE_NEWNET`, bit 30.
    pub(crate) const fn int(self) -> libc::c_int {
        self.0 as libc::c_int
    }
}

impl std::ops::BitOr for Namespaces {
    type Output = Namespaces;

    fn bitor(self, other: Namespaces) -> Namespaces {
        self.and(other)
    }
}

/// Moves the calling thread into namespaces: those in `which` of the process of a pidfd, or, with a
/// descriptor of one namespace (`/proc/PID/ns/KIND`), that one.
///
/// Joining a pid namespace takes effect for later children. Joining a user namespace gives all
/// capabilities in it and leaves the ids alone.
///
/// # Errors
/// `EINVAL`: a user or mount namespace, and the caller has other threads; or the descriptor is of
/// another kind. `EPERM`: without `CAP_SYS_ADMIN` in the namespace's user namespace. `ESRCH`: the
/// process of the pidfd has ended.
pub fn join(fd: impl AsFd, which: Namespaces) -> Result<()> {
    // SAFETY: a descriptor and a flag; namespaces hold none of this process's memory.
    let result = unsafe { libc::setns(fd.as_fd().as_raw_fd(), which.int()) };
    check("setns", result.into()).map(|_| ())
}

/// Puts the calling thread into new namespaces; a new pid namespace is for its later children.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_ADMIN`. `EINVAL`: a user namespace, and the caller has other threads.
/// `ENOSPC`: past `user.max_*_namespaces`.
pub fn unshare(which: Namespaces) -> Result<()> {
    // SAFETY: only namespace flags, never CLONE_FILES or CLONE_FS: no descriptor table changes
    // hands.
    let result = unsafe { libc::unshare(which.int()) };
    check("unshare", result.into()).map(|_| ())
}

/// A descriptor of a namespace, by its path (`/proc/self/ns/net`).
///
/// # Errors
/// `ENOENT`: the process has ended, or the kernel has no such kind. `EACCES`: the caller may not
/// look into the process.
pub fn open(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).call_on("open", path)
}

/// Device and inode of the descriptor: two descriptors are of one namespace where both are equal.
///
/// # Errors
/// What `fstat` answers. The kernel has no error for an open descriptor of a namespace.
pub fn identity(namespace: impl AsFd) -> Result<(u64, u64)> {
    let stat = rustix::fs::fstat(namespace).call("fstat")?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sets() {
        let both = Namespaces::NET | Namespaces::PID;
        assert!(both.has(Namespaces::NET) && !both.has(Namespaces::USER));
        assert!(!both.has(Namespaces::NET | Namespaces::USER));
        assert_eq!(both.without(Namespaces::NET), Namespaces::PID);
        assert!(Namespaces::ALL.has(both) && !Namespaces::ALL.is_empty());
    }
}
