// SPDX-License-Identifier: Apache-2.0
//! Waiting for children, with what they used.
//!
//! The raw `waitid`, because glibc's does not hand out the `rusage` that the kernel fills.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::check;
use crate::{Error, Result};

/// The child to wait for.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Any child of the process.
    Any,
    /// The one with this pid.
    Pid(i32),
    /// The one of this descriptor.
    PidFd(BorrowedFd<'a>),
}

/// Whether the child is gone afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reap {
    /// Yes: its pid may be given to another process.
    Yes,
    /// No (`WNOWAIT`): it stays a zombie until it is reaped.
    No,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(u8),
    /// A signal of this number ended it, `core`: and a core was dumped.
    Signal {
        /// The signal's number, 1 to 64.
        signal: u8,
        /// Whether a core was dumped.
        core: bool,
    },
}

/// Resources that a process and its waited-for descendants used. Durations in nanoseconds (the
/// kernel counts µs).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// The largest resident set, in bytes.
    pub max_rss_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Times it gave up the CPU.
    pub voluntary_switches: u64,
    /// Times it was taken off the CPU.
    pub involuntary_switches: u64,
}

/// A child that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Its pid in the caller's namespace.
    pub pid: i32,
    /// Its real user id.
    pub uid: u32,
    /// Exit code or signal.
    pub status: ExitStatus,
    /// Resources that it and its waited-for descendants used.
    pub usage: Usage,
}

/// The child, if it has ended.
///
/// # Errors
/// `ECHILD`: there is no such child, or it was reaped. `EINVAL`: the kernel reports an end that it
/// doesn't document.
pub fn try_wait(target: Target<'_>, reap: Reap) -> Result<Option<Exit>> {
    wait_raw(target, reap, libc::WNOHANG)
}

/// Waits until the child has ended; goes on after signals.
///
/// # Errors
/// `ECHILD`: there is no such child, or it was reaped. `EINVAL`: the kernel reports an end that it
/// doesn't document.
pub fn wait(target: Target<'_>, reap: Reap) -> Result<Exit> {
    loop {
        match wait_raw(target, reap, 0) {
            Ok(Some(exit)) => return Ok(exit),
            Ok(None) => {}
            Err(e) if e.is(libc::EINTR) => {}
            Err(e) => return Err(e),
        }
    }
}

fn wait_raw(target: Target<'_>, reap: Reap, flags: i32) -> Result<Option<Exit>> {
    let (kind, id) = match target {
        Target::Any => (libc::P_ALL, 0),
        Target::Pid(pid) => (libc::P_PID, pid),
        Target::PidFd(fd) => (libc::P_PIDFD, fd.as_raw_fd()),
    };
    let keep = if reap == Reap::No { libc::WNOWAIT } else { 0 };
    // __WALL: a child cloned with another exit signal than SIGCHLD is a child like any other.
    let flags = flags | libc::WEXITED | libc::__WALL | keep;
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both structures have the kernel's layout and live during the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            kind,
            id,
            info.as_mut_ptr(),
            flags,
            usage.as_mut_ptr(),
        )
    };
    check("waitid", result)?;
    // SAFETY: zeroed, then filled by the kernel; plain data.
    let (info, usage) = unsafe { (info.assume_init(), usage.assume_init()) };
    // SAFETY: waitid fills the SIGCHLD variant of the union; with nothing to report it stays zero.
    let (pid, uid, status) = unsafe { (info.si_pid(), info.si_uid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    let status = decode(info.si_code, status)?;
    Ok(Some(Exit {
        pid,
        uid,
        status,
        usage: Usage::from_kernel(&usage),
    }))
}

fn decode(code: i32, status: i32) -> Result<ExitStatus> {
    let number = u8::try_from(status & 0xff).unwrap_or(0);
    match code {
        libc::CLD_EXITED => Ok(ExitStatus::Code(number)),
        libc::CLD_KILLED => Ok(ExitStatus::Signal {
            signal: number & 0x7f,
            core: false,
        }),
        libc::CLD_DUMPED => Ok(ExitStatus::Signal {
            signal: number & 0x7f,
            core: true,
        }),
        _ => Err(Error::invalid("waitid", "a status that is no end")),
    }
}

impl Usage {
    fn from_kernel(usage: &libc::rusage) -> Usage {
        let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
        let nanos = |t: libc::timeval| {
            let micros = u64::try_from(t.tv_usec).unwrap_or(0);
            count(t.tv_sec)
                .saturating_mul(1_000_000_000)
                .saturating_add(micros * 1000)
        };
        Usage {
            user_ns: nanos(usage.ru_utime),
            system_ns: nanos(usage.ru_stime),
            max_rss_bytes: count(usage.ru_maxrss).saturating_mul(1024),
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "waited for by the code under test")]
    fn a_child_comes_back_with_its_code_and_what_it_used() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 7";
        let child = std::process::Command::new("sh")
            .args(["-c", script])
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let exit = wait(Target::Pid(pid), Reap::Yes).unwrap();
        assert_eq!((exit.pid, exit.status), (pid, ExitStatus::Code(7)));
        assert!(
            exit.usage.user_ns + exit.usage.system_ns > 0,
            "{:?}",
            exit.usage
        );
        assert!(exit.usage.max_rss_bytes > 100_000, "{:?}", exit.usage);
        let gone = try_wait(Target::Pid(pid), Reap::Yes).unwrap_err();
        assert_eq!(gone.errno(), libc::ECHILD);
    }
}
