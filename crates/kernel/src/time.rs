// SPDX-License-Identifier: Apache-2.0
//! Clocks and timers, in nanoseconds. `store::now_ns` is the other place that tells the time: that
//! of rows, for crates without `kernel`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};

use crate::{Context, Error, Result};

const SECOND_NS: u64 = 1_000_000_000;
/// A time that no clock will show.
const NEVER_NS: u64 = i64::MAX.unsigned_abs();

fn now(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(SECOND_NS).saturating_add(nanos)
}

/// Nanoseconds since 1970, as the machine's clock is set: it can jump.
pub fn realtime_ns() -> u64 {
    now(ClockId::Realtime)
}

/// Nanoseconds since an unspecified start, the same for all processes of one boot; stands still
/// while the machine is suspended.
pub fn monotonic_ns() -> u64 {
    now(ClockId::Monotonic)
}

/// Nanoseconds since the machine's start, suspension included. The same for all processes of one
/// boot.
pub fn boottime_ns() -> u64 {
    now(ClockId::Boottime)
}

/// Sets the machine's clock, to nanoseconds since 1970.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_TIME`. `EINVAL`: a time at which the machine would have started before
/// 1970.
pub fn set_realtime_ns(nanoseconds: u64) -> Result<()> {
    rustix::time::clock_settime(ClockId::Realtime, spec(nanoseconds)).call("clock_settime")
}

/// The minutes that `/etc/localtime` is ahead of UTC at a moment (seconds since 1970).
///
/// # Errors
/// `EOVERFLOW`: a year that can't be counted.
pub fn minutes_ahead_of_utc(seconds: i64) -> Result<i32> {
    // SAFETY: all fields of it are numbers but one, a pointer to a name, for which zero is no name.
    let mut broken_down: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values that live for the call; the result is checked. The C
    // library reads /etc/localtime, and the environment, under a lock of its own.
    let told = unsafe { libc::localtime_r(&raw const seconds, &raw mut broken_down) };
    if told.is_null() {
        return Err(Error::new("localtime_r", Errno::OVERFLOW));
    }
    Ok(i32::try_from(broken_down.tm_gmtoff / 60).unwrap_or(0))
}

/// Tells the kernel its time zone, in minutes ahead of UTC. The first such call of a boot also
/// takes the clock, which the kernel has read from the machine's, as that zone's and makes it
/// UTC's; with 0 it stays as it is for good (settimeofday(2)).
///
/// # Errors
/// `EPERM`: without `CAP_SYS_TIME`. `EINVAL`: more than 15 hours.
pub fn set_kernel_zone(minutes_ahead: i32) -> Result<()> {
    // What the system call takes: minutes west of Greenwich, and a field that means nothing.
    let zone: [libc::c_int; 2] = [minutes_ahead.saturating_neg(), 0];
    // SAFETY: the first pointer may be null, the second is to two numbers as the kernel's `struct
    // timezone` has them, which it reads during the call. (glibc's function refuses it.)
    let result = unsafe {
        libc::syscall(
            libc::SYS_settimeofday,
            std::ptr::null::<libc::timeval>(),
            zone.as_ptr(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Error::last("settimeofday")),
    }
}

fn spec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanoseconds / SECOND_NS).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanoseconds % SECOND_NS).unwrap_or(0),
    }
}

/// The clock that a timer follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// That of [`monotonic_ns`]: stands still while the machine is suspended.
    Monotonic,
    /// That of [`boottime_ns`]: counts suspension too.
    Boottime,
    /// That of [`realtime_ns`]: jumps when the clock is set.
    Realtime,
}

/// A timer that is a descriptor: readable when it has expired. Non-blocking.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// A timer that isn't set.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left.
    pub fn new(clock: Clock) -> Result<Timer> {
        let clock = match clock {
            Clock::Monotonic => TimerfdClockId::Monotonic,
            Clock::Boottime => TimerfdClockId::Boottime,
            Clock::Realtime => TimerfdClockId::Realtime,
        };
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        rustix::time::timerfd_create(clock, flags)
            .call("timerfd_create")
            .map(Timer)
    }

    /// Expires once, after `delay` (at once where it is zero); forgets what it was set to.
    ///
    /// # Errors
    /// None of the kernel itself; a seccomp filter may refuse the call.
    pub fn set(&self, delay: Duration) -> Result<()> {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.settime(TimerfdTimerFlags::empty(), delay, 0)
    }

    /// Expires once, when the clock shows this; at once where it has.
    ///
    /// # Errors
    /// None of the kernel itself; a seccomp filter may refuse the call.
    pub fn set_at(&self, at_ns: u64) -> Result<()> {
        self.settime(TimerfdTimerFlags::ABSTIME, at_ns.max(1), 0)
    }

    /// Becomes readable whenever the machine's clock is set; [`Timer::clock_was_set`] tells, and
    /// the next time counts again. For [`Clock::Realtime`].
    ///
    /// # Errors
    /// None of the kernel itself; a seccomp filter may refuse the call.
    pub fn watch_clock(&self) -> Result<()> {
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        self.settime(flags, NEVER_NS, 0)
    }

    /// Whether the clock was set since [`Timer::watch_clock`] or the last answer.
    pub fn clock_was_set(&self) -> bool {
        let mut bytes = [0; 8];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut bytes));
        read == Err(Errno::CANCELED)
    }

    /// Expires every `interval`.
    ///
    /// # Errors
    /// None of the kernel itself; a seccomp filter may refuse the call.
    pub fn set_every(&self, interval: Duration) -> Result<()> {
        let interval = u64::try_from(interval.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        self.settime(TimerfdTimerFlags::empty(), interval, interval)
    }

    /// Expires no more.
    ///
    /// # Errors
    /// None of the kernel itself; a seccomp filter may refuse the call.
    pub fn clear(&self) -> Result<()> {
        self.settime(TimerfdTimerFlags::empty(), 0, 0)
    }

    fn settime(&self, flags: TimerfdTimerFlags, value: u64, interval: u64) -> Result<()> {
        let new = Itimerspec {
            it_interval: spec(interval),
            it_value: spec(value),
        };
        rustix::time::timerfd_settime(&self.0, flags, &new)
            .call("timerfd_settime")
            .map(|_| ())
    }

    /// How often it has expired since the last read; 0 where it hasn't.
    ///
    /// # Errors
    /// What `read` answers but `EAGAIN` and `EINTR`. The kernel has no other for a timer that is
    /// set here.
    pub fn read(&self) -> Result<u64> {
        read_counter(self.0.as_fd())
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The 64-bit counter of a non-blocking timer or event descriptor; 0 where there is nothing to
/// read.
pub(crate) fn read_counter(fd: BorrowedFd<'_>) -> Result<u64> {
    let mut bytes = [0; 8];
    match rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut bytes)) {
        Ok(_) => Ok(u64::from_ne_bytes(bytes)),
        Err(Errno::AGAIN) => Ok(0),
        Err(errno) => Err(Error::new("read", errno).about("counter")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{self, Deadline, Interest};

    fn wait(timer: &Timer) -> bool {
        poll::wait(
            timer,
            Interest::Readable,
            Deadline::after(Duration::from_secs(5)),
        )
        .unwrap()
    }

    #[test]
    fn a_timer_expires_once_and_says_how_often() {
        let timer = Timer::new(Clock::Boottime).unwrap();
        assert_eq!(timer.read().unwrap(), 0);
        timer.set(Duration::from_millis(1)).unwrap();
        assert!(wait(&timer));
        assert_eq!(timer.read().unwrap(), 1);
        assert_eq!(timer.read().unwrap(), 0);
        timer.set_at(1).unwrap();
        assert!(wait(&timer), "the past is at once");
        timer.set(Duration::ZERO).unwrap();
        assert!(wait(&timer), "zero is at once, not never");
    }

    #[test]
    fn a_cleared_timer_does_not_expire() {
        let timer = Timer::new(Clock::Monotonic).unwrap();
        timer.set(Duration::from_millis(5)).unwrap();
        timer.clear().unwrap();
        let until = Deadline::after(Duration::from_millis(20));
        assert!(!poll::wait(&timer, Interest::Readable, until).unwrap());
    }

    #[test]
    fn clocks_go_forward() {
        let (a, b) = (boottime_ns(), monotonic_ns());
        assert!(boottime_ns() >= a && monotonic_ns() >= b);
        assert!(realtime_ns() > 1_600_000_000 * SECOND_NS);
    }
}
