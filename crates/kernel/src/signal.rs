// SPDX-License-Identifier: Apache-2.0
//! Signals: numbers and names, masks, dispositions, `signalfd`.
//!
//! It installs no handlers but [`exit_on`]'s: an init takes its signals from a descriptor, and a
//! daemon has its runtime's.

use std::fmt;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::str::FromStr;

use crate::error::check;
use crate::{Error, Result};

/// The first real-time signal that glibc leaves to programs (`SIGRTMIN`).
const RT_MIN: u8 = 34;
/// The last signal (`SIGRTMAX`).
const RT_MAX: u8 = 64;

/// Names of the standard signals. The first name of a number is the one printed.
const NAMES: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("IOT", libc::SIGIOT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGPOLL),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// A signal's number: 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Signal(u8);

impl Signal {
    /// `SIGHUP`: the terminal has gone, or configuration is to be read again.
    pub const HUP: Signal = Signal(1);
    /// `SIGINT`: Ctrl-C.
    pub const INT: Signal = Signal(2);
    /// `SIGQUIT`: Ctrl-\; ends with a core.
    pub const QUIT: Signal = Signal(3);
    /// `SIGKILL`: ends the process; it can't be caught.
    pub const KILL: Signal = Signal(9);
    /// `SIGUSR1`: the program's own meaning.
    pub const USR1: Signal = Signal(10);
    /// `SIGUSR2`: the program's own meaning.
    pub const USR2: Signal = Signal(12);
    /// `SIGPIPE`: a write to a pipe without readers.
    pub const PIPE: Signal = Signal(13);
    /// `SIGTERM`: the usual request to end.
    pub const TERM: Signal = Signal(15);
    /// `SIGCHLD`: a child has ended or stopped.
    pub const CHLD: Signal = Signal(17);
    /// `SIGCONT`: a stopped process goes on.
    pub const CONT: Signal = Signal(18);
    /// `SIGSTOP`: stops the process; it can't be caught.
    pub const STOP: Signal = Signal(19);
    /// `SIGWINCH`: the terminal's size has changed.
    pub const WINCH: Signal = Signal(28);
    /// `SIGPWR`: power fails; to a container's init: power off.
    pub const PWR: Signal = Signal(30);

    /// The signal of this number, if there is one.
    pub fn from_number(number: i32) -> Option<Signal> {
        u8::try_from(number)
            .ok()
            .filter(|n| (1..=RT_MAX).contains(n))
            .map(Signal)
    }

    /// `SIGRTMIN+offset` (0 to 30), as programs see it.
    pub fn real_time(offset: u8) -> Option<Signal> {
        RT_MIN
            .checked_add(offset)
            .filter(|n| *n <= RT_MAX)
            .map(Signal)
    }

    /// The number, 1 to 64.
    pub const fn number(self) -> i32 {
        self.0 as i32
    }

    /// The name without `SIG`, where it is a standard signal.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .iter()
            .find(|(_, n)| *n == self.number())
            .map(|(name, _)| *name)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "SIG{name}"),
            None if self.0 == RT_MIN => f.write_str("SIGRTMIN"),
            None if self.0 > RT_MIN => write!(f, "SIGRTMIN+{}", self.0 - RT_MIN),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A string that names no signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no such signal: {0:?} (expected a name as SIGTERM, TERM or RTMIN+3, or a number from 1 to 64)"
)]
pub struct UnknownSignal(pub String);

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, UnknownSignal> {
        let unknown = || UnknownSignal(text.to_owned());
        if let Ok(number) = text.parse::<u8>() {
            return Signal::from_number(number.into()).ok_or_else(unknown);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        if let Some((_, number)) = NAMES.iter().find(|(n, _)| *n == name) {
            return Signal::from_number(*number).ok_or_else(unknown);
        }
        real_time_by_name(name).ok_or_else(unknown)
    }
}

/// `RTMIN`, `RTMIN+n`, `RTMAX`, `RTMAX-n`.
fn real_time_by_name(name: &str) -> Option<Signal> {
    let offset = |rest: &str, sign: char| -> Option<u8> {
        match rest.strip_prefix(sign) {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
            None if rest.is_empty() => Some(0),
            _ => None,
        }
    };
    if let Some(rest) = name.strip_prefix("RTMIN") {
        return Signal::real_time(offset(rest, '+')?);
    }
    let below = offset(name.strip_prefix("RTMAX")?, '-')?;
    RT_MAX
        .checked_sub(below)
        .filter(|n| *n >= RT_MIN)
        .map(Signal)
}

/// A set of signals, as a mask of the kernel (bit n-1 is signal n).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SignalSet(u64);

impl SignalSet {
    /// The set without a signal.
    pub const EMPTY: SignalSet = SignalSet(0);
    /// Every signal; the kernel leaves out `SIGKILL` and `SIGSTOP`.
    pub const ALL: SignalSet = SignalSet(u64::MAX);

    /// The set of these.
    pub fn of(signals: &[Signal]) -> SignalSet {
        SignalSet(signals.iter().fold(0, |set, s| set | 1 << (s.0 - 1)))
    }

    /// Whether it has this one.
    pub const fn has(self, signal: Signal) -> bool {
        self.0 & (1 << (signal.0 - 1)) != 0
    }
}

/// Replaces the calling thread's mask of blocked signals and returns the old one.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn set_mask(set: SignalSet) -> Result<SignalSet> {
    let mut old = 0u64;
    // SAFETY: both sets are 64-bit kernel masks that live during the call, of the size given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const set.0,
            &raw mut old,
            size_of::<u64>(),
        )
    };
    check("rt_sigprocmask", result).map(|_| SignalSet(old))
}

/// The kernel's `struct sigaction`, with no handler and no restorer.
#[repr(C)]
struct KernelSigaction([u64; 4]);

/// Gives every signal its default disposition: a program that is executed expects that.
///
/// The Rust runtime ignores `SIGPIPE`, and an ignored signal stays ignored across exec.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn reset_dispositions() -> Result<()> {
    for number in 1..=i32::from(RT_MAX) {
        if number == libc::SIGKILL || number == libc::SIGSTOP {
            continue;
        }
        set_action(number, 0)?;
    }
    Ok(())
}

/// Ignores a signal, in this process and in what it executes.
///
/// # Errors
/// `EINVAL`: `SIGKILL` or `SIGSTOP`.
pub fn ignore(signal: Signal) -> Result<()> {
    set_action(signal.number(), 1)
}

/// Has these signals end the process, with 128 and the signal's number as its exit code. By
/// default most do anyway, but not for PID 1 of a namespace, which gets what it handles alone. An
/// exec takes it back.
///
/// # Errors
/// `EINVAL`: a signal that can't be handled.
pub fn exit_on(signals: &[Signal]) -> Result<()> {
    extern "C" fn end(number: libc::c_int) {
        // SAFETY: async-signal-safe, and doesn't return.
        unsafe { libc::_exit(128 + number) }
    }
    for signal in signals {
        let handler = end as extern "C" fn(libc::c_int);
        // SAFETY: the handler is a function of the type that signal(2) wants, and does nothing but
        // end the process.
        let before = unsafe { libc::signal(signal.number(), handler as libc::sighandler_t) };
        if before == libc::SIG_ERR {
            return Err(Error::last("signal"));
        }
    }
    Ok(())
}

/// `handler`: 0 is the default, 1 ignores. Raw, because glibc refuses the two real-time signals it
/// keeps.
fn set_action(number: i32, handler: u64) -> Result<()> {
    let action = KernelSigaction([handler, 0, 0, 0]);
    let old = std::ptr::null_mut::<KernelSigaction>();
    // SAFETY: the structure is as large as the kernel's largest layout (x86_64 has the restorer),
    // holds no code address, and lives during the call; the old one is not asked for.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            number,
            &raw const action,
            old,
            size_of::<u64>(),
        )
    };
    check("rt_sigaction", result).map(|_| ())
}

/// A descriptor that hands out the (blocked) signals of a set.
#[derive(Debug)]
pub struct SignalFd(std::fs::File);

/// One signal, as a [`SignalFd`] hands it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignalInfo {
    /// The signal that came.
    pub signal: Signal,
    /// The sender's pid in the reader's pid namespace; 0 for the kernel or a process of an outer
    /// namespace.
    pub pid: u32,
    /// The sender's real user id.
    pub uid: u32,
    /// It was sent by `kill` or `pidfd_send_signal` (`SI_USER`), so the kernel filled in the
    /// sender. With any other code the sender may have forged it (`rt_sigqueueinfo`).
    pub by_kill: bool,
}

impl SignalFd {
    /// Opens one, non-blocking and close-on-exec. Block the set's signals with [`set_mask`] too.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left.
    pub fn new(set: SignalSet) -> Result<SignalFd> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the mask is a 64-bit kernel mask that lives during the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_signalfd4,
                -1,
                &raw const set.0,
                size_of::<u64>(),
                flags,
            )
        };
        let fd = check("signalfd4", result)?;
        let fd = i32::try_from(fd).map_err(|_| Error::invalid("signalfd4", "descriptor"))?;
        // SAFETY: the kernel has just given us this descriptor; nothing else owns it.
        Ok(SignalFd(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
    }

    /// The next signal; `None` when there is none now.
    ///
    /// # Errors
    /// What `read` answers but `EAGAIN`. The kernel has no other for a signalfd.
    pub fn next(&self) -> Result<Option<SignalInfo>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        // SAFETY: any byte pattern is valid for the bytes of the (fully initialised) structure.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(
                info.as_mut_ptr().cast::<u8>(),
                size_of::<libc::signalfd_siginfo>(),
            )
        };
        match (&self.0).read(bytes) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(Error::from_io("read", &e).about("signalfd")),
        }
        // SAFETY: it was zeroed and then written by the kernel; it is plain data.
        let info = unsafe { info.assume_init() };
        let number = i32::try_from(info.ssi_signo).unwrap_or(0);
        let signal = Signal::from_number(number)
            .ok_or_else(|| Error::invalid("read", "signalfd gave no signal"))?;
        Ok(Some(SignalInfo {
            signal,
            pid: info.ssi_pid,
            uid: info.ssi_uid,
            by_kill: info.ssi_code == libc::SI_USER,
        }))
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read_in_every_usual_spelling() {
        for text in ["TERM", "SIGTERM", "sigterm", "term", "15"] {
            assert_eq!(text.parse::<Signal>().unwrap(), Signal::TERM, "{text}");
        }
        assert_eq!("RTMIN+3".parse::<Signal>().unwrap().number(), 37);
        assert_eq!("SIGRTMAX-1".parse::<Signal>().unwrap().number(), 63);
        assert_eq!(
            "SIGRTMIN".parse::<Signal>().unwrap().to_string(),
            "SIGRTMIN"
        );
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in [
            "",
            "0",
            "65",
            "-1",
            "SIG",
            "SIGSIGTERM",
            "RTMIN+31",
            "RTMAX-31",
            "RTMIN++1",
        ] {
            assert!(text.parse::<Signal>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_signal_is_read_back_from_its_own_text(number in 1..=64i32) {
            let signal = Signal::from_number(number).unwrap();
            prop_assert_eq!(signal.to_string().parse::<Signal>().unwrap(), signal);
        }

        #[test]
        fn a_set_has_what_it_was_made_of(numbers in proptest::collection::vec(1..=64i32, 0..8)) {
            let signals: Vec<_> = numbers.iter().filter_map(|n| Signal::from_number(*n)).collect();
            let set = SignalSet::of(&signals);
            for number in 1..=64 {
                let signal = Signal::from_number(number).unwrap();
                prop_assert_eq!(set.has(signal), signals.contains(&signal));
            }
        }
    }
}
