// SPDX-License-Identifier: Apache-2.0
//! Process descriptors: a process that cannot turn into another.
//!
//! A pidfd polls readable when its process has ended. Waiting for the status is [`crate::wait`]'s.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::PidfdFlags;

use crate::error::check;
use crate::signal::Signal;
use crate::{Context, Error, Result};

/// A descriptor of the process `pid`. Race-free only for a child that was not reaped yet.
///
/// # Errors
/// `ESRCH`: there is no such process. `EINVAL`: `pid` is 0, or a thread's that doesn't lead its
/// process. `EMFILE`, `ENFILE`: the process or the machine has no descriptor left.
pub fn open(pid: i32) -> Result<OwnedFd> {
    let pid =
        rustix::process::Pid::from_raw(pid).ok_or_else(|| Error::invalid("pidfd_open", "pid 0"))?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).call("pidfd_open")
}

/// Sends a signal to the descriptor's process.
///
/// # Errors
/// `ESRCH`: the process has been reaped. `EPERM`: the caller may not signal it.
pub fn send_signal(pidfd: impl AsFd, signal: Signal) -> Result<()> {
    send(pidfd, signal.number())
}

/// Whether the process still exists (also as a zombie).
///
/// # Errors
/// `EBADF`: the descriptor is no pidfd. `EINVAL`: the process is not in the caller's pid namespace
/// or below.
pub fn exists(pidfd: impl AsFd) -> Result<bool> {
    match send(pidfd, 0) {
        Ok(()) => Ok(true),
        Err(e) if e.is(libc::ESRCH) => Ok(false),
        Err(e) if e.is(libc::EPERM) => Ok(true),
        Err(e) => Err(e),
    }
}

fn send(pidfd: impl AsFd, number: i32) -> Result<()> {
    let info = std::ptr::null::<libc::siginfo_t>();
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: plain integers and a null siginfo, which the kernel then fills itself.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, info, 0) };
    check("pidfd_send_signal", result).map(|_| ())
}

/// Whether the process has ended (it may be unreaped yet). Does not wait.
///
/// # Errors
/// `ENOMEM`: the kernel has no memory for `poll`.
pub fn has_ended(pidfd: impl AsFd) -> Result<bool> {
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let ready = rustix::event::poll(&mut fds, Some(&Timespec::default())).call("poll")?;
    Ok(ready > 0)
}

/// The pid of the descriptor's process in the reader's pid namespace, from `/proc/self/fdinfo`.
///
/// # Errors
/// `ESRCH`: the process was reaped. `ENOENT`: it is in no namespace that the reader's `/proc`
/// shows, or there is no `/proc`. `EINVAL`: the descriptor is no pidfd.
pub fn pid_of(pidfd: impl AsFd) -> Result<i32> {
    let fd = pidfd.as_fd().as_raw_fd();
    let path = format!("/proc/self/fdinfo/{fd}");
    let info = crate::fsutil::read_pseudo(Path::new(&path))?;
    match parse_pid(&info) {
        Some(pid) if pid > 0 => Ok(pid),
        Some(0) => Err(Error::new("fdinfo", Errno::NOENT).about("not in this pid namespace")),
        Some(_) => Err(Error::new("fdinfo", Errno::SRCH).about("the process was reaped")),
        None => Err(Error::invalid("fdinfo", "not a pidfd")),
    }
}

/// The kernel's facts of a descriptor's process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// The process id in the caller's pid namespace.
    pub pid: i32,
    /// The id of its group in the unified hierarchy, [`crate::cgroup::Cgroup::id`].
    pub cgroup: u64,
}

/// Asks the kernel; `None` where it has no answer: before Linux 6.13, for what is no pidfd, and for
/// a process that was reaped or is in no namespace of the caller's. [`pid_of`] has an error for
/// each of these.
pub fn info(pidfd: impl AsFd) -> Option<Info> {
    /// `struct pidfd_info` of Linux 6.13: `mask`, `cgroupid`, `pid`, then what isn't looked at.
    #[repr(C)]
    struct Answer {
        mask: u64,
        cgroup: u64,
        pid: u32,
        others: [u32; 11],
    }
    const PID: u64 = 1;
    const CGROUP: u64 = 4;
    // _IOWR(0xff, 11, struct pidfd_info), with the first size that the structure had: 64 bytes.
    const GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;
    let mut answer = Answer {
        mask: PID | CGROUP,
        cgroup: 0,
        pid: 0,
        others: [0; 11],
    };
    let fd = pidfd.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most the 64 bytes that the number of the call says, which
    // `answer` has; another kind of file refuses the number.
    let result = unsafe { libc::ioctl(fd, GET_INFO, &raw mut answer) };
    let known = result == 0 && answer.mask & (PID | CGROUP) == PID | CGROUP;
    let pid = i32::try_from(answer.pid).ok().filter(|pid| *pid > 0);
    pid.filter(|_| known).map(|pid| Info {
        pid,
        cgroup: answer.cgroup,
    })
}

/// The `Pid:` line: positive, 0 (not in the namespace) or -1 (reaped).
fn parse_pid(info: &str) -> Option<i32> {
    info.lines()
        .find_map(|line| line.strip_prefix("Pid:"))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{self, ExitStatus, Reap, Target};

    #[test]
    #[expect(clippy::zombie_processes, reason = "waited for by the code under test")]
    fn a_child_can_be_signalled_seen_ended_and_reaped() {
        let child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let pidfd = open(pid).unwrap();
        assert_eq!(pid_of(&pidfd).unwrap(), pid);
        if let Some(info) = info(&pidfd) {
            let group = crate::cgroup::Cgroup::own().unwrap();
            assert_eq!((info.pid, info.cgroup), (pid, group.id().unwrap()));
        }
        assert_eq!(info(std::io::stdin()), None);
        assert!(!has_ended(&pidfd).unwrap());
        assert!(
            wait::try_wait(Target::PidFd(pidfd.as_fd()), Reap::Yes)
                .unwrap()
                .is_none()
        );
        send_signal(&pidfd, Signal::TERM).unwrap();
        let seen = wait::wait(Target::PidFd(pidfd.as_fd()), Reap::No).unwrap();
        assert_eq!(
            seen.status,
            ExitStatus::Signal {
                signal: 15,
                core: false
            }
        );
        assert!(has_ended(&pidfd).unwrap());
        assert!(exists(&pidfd).unwrap(), "a zombie is still there");
        let reaped = wait::wait(Target::PidFd(pidfd.as_fd()), Reap::Yes).unwrap();
        assert_eq!((reaped.pid, reaped.status), (pid, seen.status));
        assert!(!exists(&pidfd).unwrap());
        assert_eq!(pid_of(&pidfd).unwrap_err().errno(), libc::ESRCH);
    }

    #[test]
    fn fdinfo_is_read_whatever_surrounds_the_line() {
        assert_eq!(
            parse_pid("pos:\t0\nflags:\t02\nPid:\t42\nNSpid:\t42\t1\n"),
            Some(42)
        );
        assert_eq!(parse_pid("Pid:\t-1\n"), Some(-1));
        assert_eq!(parse_pid("pos:\t0\n"), None);
    }
}
