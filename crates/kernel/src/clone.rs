// SPDX-License-Identifier: Apache-2.0
//! `clone3` without exec: a process as a copy of this one.
//!
//! # Why it is sound, and only single-threaded
//!
//! The child gets a copy of the memory (never `CLONE_VM`), so no Rust value is shared. A copy of
//! *one* thread of many breaks locks: a lock that another thread held stays locked for ever in the
//! child, for instance the allocator's. So [`clone`] asks the kernel whether the caller is the only
//! thread, and refuses with `EBUSY` otherwise; a single thread holds none of those locks while it
//! is here.
//!
//! glibc doesn't know of the clone. The thread id that it caches stays the parent's. That shows
//! only in `pthread_*` calls and in how `abort` raises its signal (it still ends the process).
//! glibc's `atfork` handlers don't run; a static binary of ours registers none.
//!
//! A clone copies every descriptor too; close-on-exec does nothing without exec. The child closes
//! what it must not have: [`crate::process::close_all_but`].

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::error::check;
use crate::namespace::Namespaces;
use crate::signal::Signal;
use crate::{Error, Result};

/// The properties of the child. [`Default`]: a plain fork with a pidfd.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Namespaces that the child gets new.
    pub namespaces: Namespaces,
    /// The child becomes its creator's sibling (`CLONE_PARENT`); its exit signal is then the
    /// creator's own. Refused (`EINVAL`) for the init of a pid namespace.
    pub sibling: bool,
    /// The cgroup that the child starts in: a directory of a cgroup2 without controllers enabled
    /// below it.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// The signal that its parent gets when it ends; `None` for no signal.
    pub exit_signal: Option<Signal>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            namespaces: Namespaces::NONE,
            sibling: false,
            cgroup: None,
            exit_signal: Some(Signal::CHLD),
        }
    }
}

/// Which of the two processes the caller of [`clone`] is after it returns.
#[derive(Debug)]
pub enum Cloned {
    /// The new process, which has a copy of the memory.
    Child,
    /// The process that called: with the child's pid in its pid namespace, and its pidfd
    /// (close-on-exec).
    Parent(i32, OwnedFd),
}

/// The kernel's `struct clone_args`, up to `cgroup` (Linux 5.7).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Makes a copy of this process; returns in both.
///
/// # Errors
/// `EBUSY`: the process has more than one thread, or the cgroup has controllers enabled. `ENOSYS`:
/// a seccomp filter hides `clone3`. `EPERM`: the caller has no right to new namespaces. `EUSERS`,
/// `ENOSPC`: past `user.max_*_namespaces`. `EAGAIN`: past `pids.max` or `RLIMIT_NPROC`. `ENODEV`:
/// the cgroup was removed.
pub fn clone(options: Options<'_>) -> Result<Cloned> {
    if !is_single_threaded()? {
        return Err(Error::new("clone3", Errno::BUSY).about("the process has other threads"));
    }
    let mut pidfd: libc::c_int = -1;
    let mut flags = flag(libc::CLONE_PIDFD) | options.namespaces.bits();
    let mut args = CloneArgs {
        pidfd: (&raw mut pidfd) as u64,
        ..CloneArgs::default()
    };
    if options.sibling {
        flags |= flag(libc::CLONE_PARENT);
    } else if let Some(signal) = options.exit_signal {
        args.exit_signal = signal.number().unsigned_abs().into();
    }
    if let Some(cgroup) = options.cgroup {
        flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup.as_raw_fd().unsigned_abs().into();
    }
    args.flags = flags;
    // SAFETY: the arguments have the kernel's layout and size and live during the call. Neither
    // CLONE_VM nor a stack is asked for, so the child goes on with a copy of this stack; the
    // module's header says why the rest of the copy is usable.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<CloneArgs>()) };
    let pid = check("clone3", result)?;
    if pid == 0 {
        return Ok(Cloned::Child);
    }
    let pid = i32::try_from(pid).map_err(|_| Error::invalid("clone3", "pid"))?;
    // SAFETY: the kernel has just put a new descriptor there; nothing else owns it.
    Ok(Cloned::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// Not in libc as a 64-bit flag.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

const fn flag(flag: libc::c_int) -> u64 {
    flag as u32 as u64
}

/// Whether this thread is the only one of its process.
///
/// `unshare(CLONE_THREAD)` changes nothing and fails with `EINVAL` exactly if there are others.
/// Unlike `/proc`, it is there in an empty root. A container's filter may refuse every `unshare`
/// (`EPERM`), so `/proc` is the second question.
///
/// # Errors
/// `ENOENT`: `unshare` is refused and there is no `/proc`, so the kernel can't be asked.
pub fn is_single_threaded() -> Result<bool> {
    // SAFETY: for the only thread this is a no-op, for one of many an error.
    let result = unsafe { libc::unshare(libc::CLONE_THREAD) };
    match check("unshare(CLONE_THREAD)", result.into()) {
        Ok(_) => Ok(true),
        Err(e) if e.is(libc::EINVAL) => Ok(false),
        Err(_) => {
            let tasks = std::fs::read_dir("/proc/self/task");
            let tasks = tasks.map_err(|e| Error::from_io("read /proc/self/task", &e))?;
            Ok(tasks.take(2).count() == 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_refused() {
        // The test harness itself has more than one thread.
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        assert_eq!(clone(Options::default()).unwrap_err().errno(), libc::EBUSY);
        drop(stop);
        assert!(other.join().unwrap().is_err());
    }
}
