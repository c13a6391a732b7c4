// SPDX-License-Identifier: Apache-2.0
//! A user namespace as nothing but a map of ids, for idmapped mounts.
//!
//! A namespace is created with a process in it. Here that process does nothing, and is killed as
//! soon as its namespace has a descriptor. Unlike [`crate::clone`], this may be called by a process
//! with threads: the child makes three system calls and touches no lock and no memory.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use crate::error::check;
use crate::idmap::{self, IdMap};
use crate::signal::Signal;
use crate::wait::{Reap, Target, wait};
use crate::{Context, Error, Result, pidfd};

/// Makes a user namespace with these maps.
///
/// # Errors
/// `EPERM`: without `CAP_SETUID` and `CAP_SETGID`, for more than the caller's own id. `EINVAL`: a
/// map that [`idmap::write`] refuses. `ENOSPC`: past `user.max_user_namespaces`. `EAGAIN`: past
/// `pids.max` or `RLIMIT_NPROC`.
pub fn with_maps(uids: &[IdMap], gids: &[IdMap]) -> Result<OwnedFd> {
    with_child(|pid| map_and_open(idmap::open_process(pid)?, uids, gids))
}

/// [`with_maps`] where the caller's proc is not at `/proc`.
///
/// # Errors
/// Those of [`with_maps`]; `ENOENT` where that proc isn't of the caller's pid namespace.
pub fn with_maps_at(proc: impl AsFd, uids: &[IdMap], gids: &[IdMap]) -> Result<OwnedFd> {
    with_child(|pid| map_and_open(idmap::open_process_at(proc, pid)?, uids, gids))
}

fn with_child(act: impl FnOnce(i32) -> Result<OwnedFd>) -> Result<OwnedFd> {
    let (pid, pidfd) = idle_child()?;
    let namespace = act(pid);
    // A child that can't be killed would be one that we have already reaped.
    pidfd::send_signal(&pidfd, Signal::KILL)?;
    wait(Target::PidFd(pidfd.as_fd()), Reap::Yes)?;
    namespace
}

fn map_and_open(proc: OwnedFd, uids: &[IdMap], gids: &[IdMap]) -> Result<OwnedFd> {
    idmap::write(&proc, uids, gids)?;
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::openat(&proc, c"ns/user", flags, rustix::fs::Mode::empty()).call("open ns/user")
}

/// A child in a new user namespace, asleep until it is killed or its maker's thread ends.
fn idle_child() -> Result<(i32, OwnedFd)> {
    // clone_args of Linux 5.3: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
    // tls.
    let mut pidfd: libc::c_int = -1;
    // CLONE_FILES: a copy of the descriptors would keep pipes open that we close. No exit signal:
    // the rest of this process must not see a `SIGCHLD` of it.
    let flags = libc::CLONE_NEWUSER | libc::CLONE_PIDFD | libc::CLONE_FILES;
    let flags = u64::from(flags.unsigned_abs());
    let args: [u64; 8] = [flags, (&raw mut pidfd) as u64, 0, 0, 0, 0, 0, 0];
    let parent = crate::process::id();
    // SAFETY: arguments of the kernel's layout; the child runs on a copy of this stack, and only
    // `idle`.
    let result = unsafe { libc::syscall(libc::SYS_clone3, args.as_ptr(), size_of_val(&args)) };
    if result == 0 {
        idle(parent);
    }
    let pid = check("clone3(CLONE_NEWUSER)", result)?;
    let pid = i32::try_from(pid).map_err(|_| Error::invalid("clone3", "pid"))?;
    // SAFETY: the kernel has just put a new descriptor there; nothing else owns it.
    Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

fn idle(parent: i32) -> ! {
    // SAFETY: async-signal-safe calls with integers; the process never leaves this function.
    unsafe {
        libc::prctl(
            libc::PR_SET_PDEATHSIG,
            libc::SIGKILL as libc::c_ulong,
            0,
            0,
            0,
        );
        if libc::getppid() == parent {
            loop {
                libc::pause();
            }
        }
        libc::_exit(0)
    }
}
