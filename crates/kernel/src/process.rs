// SPDX-License-Identifier: Apache-2.0
//! The calling process: session, credentials, `prctl`, open descriptors.
//!
//! Credentials are changed by the raw calls, which concern the calling *thread* alone (glibc's
//! wrappers would signal all threads): they are for single-threaded processes and children about to
//! be executed.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use crate::error::check;
use crate::signal::Signal;
use crate::{Context, Error, Result};

/// This process's id in its own pid namespace.
pub fn id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The parent's process id; 0 when it is in no namespace seen from here.
pub fn parent_id() -> i32 {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

/// Ends the process at once: no destructors, no exit handlers. What a cloned child must use.
pub fn exit(code: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Starts a new session without a terminal, and leads it.
///
/// # Errors
/// `EPERM`: the process leads a process group already.
pub fn new_session() -> Result<()> {
    rustix::process::setsid().call("setsid").map(|_| ())
}

/// Starts a new, anonymous session keyring, so that the node's keys can't be reached.
///
/// # Errors
/// `ENOSYS`: a kernel without keyrings. `EPERM`, `EACCES`: a container's filter refuses the call.
/// Whether one of these matters is the caller's decision. `EDQUOT`: the user's quota of keys is
/// full.
pub fn new_session_keyring() -> Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: an operation and a null name.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, none) };
    check("keyctl(JOIN_SESSION_KEYRING)", result).map(|_| ())
}

/// Puts a link to the keyring of this process's user into its session keyring.
///
/// # Errors
/// `EDQUOT`: the user's quota of keys is full. `EACCES`: the session keyring can't be written.
pub fn link_user_keyring() -> Result<()> {
    const KEYCTL_LINK: libc::c_int = 8;
    const SESSION_KEYRING: libc::c_long = -3;
    const USER_KEYRING: libc::c_long = -4;
    // SAFETY: integers.
    let result =
        unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_LINK, USER_KEYRING, SESSION_KEYRING) };
    check("keyctl(LINK)", result).map(|_| ())
}

/// How late timers of the calling thread, and of what it executes, may be, in nanoseconds.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn set_timer_slack(nanoseconds: u64) -> Result<()> {
    prctl(
        "prctl(PR_SET_TIMERSLACK)",
        libc::PR_SET_TIMERSLACK,
        nanoseconds,
    )
}

fn prctl(call: &'static str, option: libc::c_int, value: libc::c_ulong) -> Result<()> {
    // SAFETY: used below only with options whose arguments are integers.
    let result = unsafe { libc::prctl(option, value, 0 as libc::c_ulong, 0, 0) };
    check(call, result.into()).map(|_| ())
}

/// Whether other processes of the same user may trace this process and read its memory, and whether
/// its own user or root owns its `/proc`. Exec sets it again.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn set_dumpable(dumpable: bool) -> Result<()> {
    prctl(
        "prctl(PR_SET_DUMPABLE)",
        libc::PR_SET_DUMPABLE,
        dumpable.into(),
    )
}

/// Whether orphans among the descendants become this process's children.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn set_child_subreaper(on: bool) -> Result<()> {
    prctl(
        "prctl(PR_SET_CHILD_SUBREAPER)",
        libc::PR_SET_CHILD_SUBREAPER,
        on.into(),
    )
}

/// The signal sent to this process when its parent *thread* ends; lost on exec of a set-id program
/// and on changes of credentials. Check [`parent_id`] afterwards: it may have ended before.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn set_parent_death_signal(signal: Option<Signal>) -> Result<()> {
    let number = signal.map_or(0, |s| s.number().unsigned_abs());
    prctl(
        "prctl(PR_SET_PDEATHSIG)",
        libc::PR_SET_PDEATHSIG,
        number.into(),
    )
}

/// Exec will never again grant what the caller doesn't have. Can't be undone.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn set_no_new_privileges() -> Result<()> {
    prctl("prctl(PR_SET_NO_NEW_PRIVS)", libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Names the calling thread (15 bytes; the rest is cut).
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn set_name(name: &CStr) -> Result<()> {
    rustix::thread::set_name(name).call("prctl(PR_SET_NAME)")
}

/// Whether permitted capabilities survive a change from uid 0 to another (`PR_SET_KEEPCAPS`); exec
/// clears it.
///
/// # Errors
/// `EPERM`: `SECBIT_KEEP_CAPS_LOCKED` is set.
pub fn set_keep_capabilities(keep: bool) -> Result<()> {
    prctl("prctl(PR_SET_KEEPCAPS)", libc::PR_SET_KEEPCAPS, keep.into())
}

/// Replaces the supplementary groups.
///
/// # Errors
/// `EPERM`: without `CAP_SETGID`, or in a user namespace with `setgroups` denied. `EINVAL`: more
/// than 65,536, or an id without a mapping.
pub fn set_groups(groups: &[u32]) -> Result<()> {
    // SAFETY: the pointer and the length are of one slice of 32-bit ids.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    check("setgroups", result).map(|_| ())
}

/// Sets real, effective and saved group id.
///
/// # Errors
/// `EINVAL`: an id without a mapping. `EPERM`: without `CAP_SETGID`, an id that is none of the
/// three now.
pub fn set_gid(gid: u32) -> Result<()> {
    // SAFETY: integers.
    let result = unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) };
    check("setresgid", result).map(|_| ())
}

/// Sets real, effective and saved user id.
///
/// # Errors
/// `EINVAL`: an id without a mapping. `EPERM`: without `CAP_SETUID`, an id that is none of the
/// three now.
pub fn set_uid(uid: u32) -> Result<()> {
    // SAFETY: integers.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
    check("setresuid", result).map(|_| ())
}

/// [`set_uid`] for a process that stays as capable as it is: going from root to another user takes
/// the capabilities away otherwise. It can go back, and into namespaces, as the new user.
///
/// # Errors
/// Those of [`set_uid`] and [`set_keep_capabilities`]. Where the capabilities can't be set again,
/// the user id is changed and they are lost: the process should end.
pub fn set_uid_and_stay_capable(uid: u32) -> Result<()> {
    let before = crate::caps::get()?;
    set_keep_capabilities(true)?;
    let changed = set_uid(uid).and_then(|()| crate::caps::set(&before));
    set_keep_capabilities(false)?;
    changed
}

/// Sets the ids that count where files are opened and made, and nowhere else.
///
/// # Errors
/// `EINVAL`: an id without a mapping, or without `CAP_SETUID` and `CAP_SETGID`.
pub fn set_file_ids(uid: u32, gid: u32) -> Result<()> {
    // An id that can't be changes nothing: both calls answer what held before, and say nothing of
    // failures.
    const ASK: u32 = u32::MAX;
    // SAFETY: integers.
    let now = unsafe {
        libc::syscall(libc::SYS_setfsuid, uid);
        libc::syscall(libc::SYS_setfsgid, gid);
        let uid = libc::syscall(libc::SYS_setfsuid, ASK);
        (uid, libc::syscall(libc::SYS_setfsgid, ASK))
    };
    match now == (uid.into(), gid.into()) {
        true => Ok(()),
        false => Err(Error::invalid("setfsuid", "an id without a mapping")),
    }
}

/// The caller's effective user id, in its user namespace.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The caller's effective group id, in its user namespace.
pub fn effective_gid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Sets the file mode creation mask (the lower nine bits count) and returns the old one.
pub fn set_umask(mask: u32) -> u32 {
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(mask & 0o777)).bits()
}

/// Closes every descriptor but these.
///
/// The owners of the closed ones, if there are any in this process, must not be used or dropped any
/// more: it is for a cloned child, which forgets what it copied and ends with [`exit`] or an exec.
///
/// # Errors
/// `ENOSYS`: before Linux 5.9.
pub fn close_all_but(keep: &[BorrowedFd<'_>]) -> Result<()> {
    close_ranges(0, keep.iter().map(AsRawFd::as_raw_fd))
}

/// [`close_all_but`] for descriptors from this number on.
///
/// # Errors
/// `EINVAL`: `lowest` is negative. `ENOSYS`: before Linux 5.9.
pub fn close_from_but(lowest: RawFd, keep: &[BorrowedFd<'_>]) -> Result<()> {
    let lowest = u32::try_from(lowest).map_err(|_| Error::invalid("close_range", "negative"))?;
    close_ranges(lowest, keep.iter().map(AsRawFd::as_raw_fd))
}

/// Closes a cloned child's copy of a descriptor whose owner is the parent's; as in
/// [`close_all_but`], the copy of that owner must not be used or dropped any more.
///
/// # Errors
/// `ENOSYS`: before Linux 5.9.
pub fn close_copy(fd: BorrowedFd<'_>) -> Result<()> {
    let number = fd.as_raw_fd().unsigned_abs();
    close_range(number, number, 0)
}

/// Whether a descriptor of this number is open.
pub fn is_open(number: RawFd) -> bool {
    // SAFETY: an integer and a command that reads flags.
    let result = unsafe { libc::fcntl(number, libc::F_GETFD) };
    result >= 0
}

/// Marks every descriptor from this number on close-on-exec.
///
/// # Errors
/// `EINVAL`: `lowest` is negative, or before Linux 5.11.
pub fn cloexec_from(lowest: RawFd) -> Result<()> {
    let lowest = u32::try_from(lowest).map_err(|_| Error::invalid("close_range", "negative"))?;
    close_range(lowest, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Marks every descriptor close-on-exec but these, which lose the mark.
///
/// # Errors
/// `EINVAL`: before Linux 5.11.
pub fn cloexec_all_but(keep: &[BorrowedFd<'_>]) -> Result<()> {
    close_range(0, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)?;
    for fd in keep {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).call("fcntl(F_SETFD)")?;
    }
    Ok(())
}

fn close_ranges(lowest: u32, keep: impl Iterator<Item = RawFd>) -> Result<()> {
    let mut keep: Vec<u32> = keep.filter_map(|fd| u32::try_from(fd).ok()).collect();
    keep.retain(|fd| *fd >= lowest);
    keep.sort_unstable();
    keep.dedup();
    let mut next = lowest;
    for fd in keep {
        if fd > next {
            close_range(next, fd - 1, 0)?;
        }
        next = fd + 1;
    }
    close_range(next, u32::MAX, 0)
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> Result<()> {
    // SAFETY: integers. That no code uses the closed descriptors any more is the callers'
    // documented duty; breaking it makes errors (EBADF), not undefined behaviour of memory.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    check("close_range", result).map(|_| ())
}

/// Makes `from` the descriptor `number` (without close-on-exec), closing what `number` was: for
/// standard streams just before exec. Where they are the same, only the mark is removed.
///
/// # Errors
/// `EBADF`: `number` is negative or not below `RLIMIT_NOFILE`.
pub fn place_fd(from: BorrowedFd<'_>, number: RawFd) -> Result<()> {
    if from.as_raw_fd() == number {
        return rustix::io::fcntl_setfd(from, rustix::io::FdFlags::empty()).call("fcntl(F_SETFD)");
    }
    // SAFETY: descriptors as integers; as for close_range, a closed one is an error for its owner.
    let result = unsafe { libc::dup2(from.as_raw_fd(), number) };
    check("dup2", result.into()).map(|_| ())
}

/// A close-on-exec copy of `fd` whose number is at least `lowest`. To move descriptors out of the
/// way of 0, 1 and 2 before [`place_fd`].
///
/// # Errors
/// `EINVAL`: `lowest` is negative or not below `RLIMIT_NOFILE`. `EMFILE`: no number is left.
pub fn duplicate_above(fd: BorrowedFd<'_>, lowest: RawFd) -> Result<std::os::fd::OwnedFd> {
    if lowest < 0 {
        return Err(Error::invalid(
            "fcntl(F_DUPFD_CLOEXEC)",
            "negative descriptor",
        ));
    }
    rustix::io::fcntl_dupfd_cloexec(fd, lowest).call("fcntl(F_DUPFD_CLOEXEC)")
}
