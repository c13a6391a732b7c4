// SPDX-License-Identifier: Apache-2.0
//! Signals by name and number, as Linux has them on x86_64 and aarch64. A table; no signal is sent
//! here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The first real-time signal that glibc leaves to programs.
const RTMIN: u8 = 34;
/// The last real-time signal.
const RTMAX: u8 = 64;

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Those that tell a program something.
const TELL: [&str; 7] = ["HUP", "USR1", "USR2", "CHLD", "CONT", "URG", "WINCH"];

/// A signal, 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Signal(u8);

impl Signal {
    /// `SIGHUP`: the terminal has gone, or configuration is to be read again.
    pub const HUP: Signal = Signal(1);
    /// `SIGKILL`: ends the process; it can't be caught.
    pub const KILL: Signal = Signal(9);
    /// `SIGTERM`: the usual request to end.
    pub const TERM: Signal = Signal(15);
    /// `SIGCONT`: what was stopped goes on.
    pub const CONT: Signal = Signal(18);

    /// Whether it ends or halts programs, so that who may stop none may not send it: all but those
    /// by which daemons are told to read, rotate or go on, and those that do nothing by themselves.
    /// A program that does nothing about SIGHUP, SIGUSR1 or SIGUSR2 ends by them all the same.
    pub fn is_stop(self) -> bool {
        let name = NAMES.get(usize::from(self.0).saturating_sub(1));
        !name.is_some_and(|name| TELL.contains(name))
    }

    /// The kernel's number, 1 to 64.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The signal of that number; `None` unless 1 to 64.
    pub fn from_number(number: u8) -> Option<Signal> {
        (1..=RTMAX).contains(&number).then_some(Signal(number))
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = usize::from(self.0).saturating_sub(1);
        match (NAMES.get(index), self.0) {
            (Some(name), _) => write!(f, "SIG{name}"),
            (None, RTMIN) => f.write_str("SIGRTMIN"),
            (None, n) if n > RTMIN => write!(f, "SIGRTMIN+{}", n - RTMIN),
            // 32 and 33 belong to glibc and have no name.
            (None, n) => write!(f, "{n}"),
        }
    }
}

impl FromStr for Signal {
    type Err = Error;

    /// `SIGTERM`, `TERM`, `term`, `15`, `SIGRTMIN+3`, `RTMAX-1`.
    fn from_str(text: &str) -> Result<Self> {
        let shown: String = text.chars().take(40).collect();
        let unknown = || {
            Error::invalid("", format!("{shown:?} is not a signal"))
                .hint("give a name such as SIGTERM or TERM, or a number from 1 to 64")
        };
        if let Ok(number) = text.parse::<u8>() {
            return Signal::from_number(number).ok_or_else(unknown);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        by_name(name)
            .and_then(Signal::from_number)
            .ok_or_else(unknown)
    }
}

fn by_name(name: &str) -> Option<u8> {
    let name = match name {
        "IOT" => "ABRT",
        "CLD" => "CHLD",
        "POLL" => "IO",
        "RTMIN" => return Some(RTMIN),
        "RTMAX" => return Some(RTMAX),
        other => other,
    };
    let realtime = |n: u8| (RTMIN..=RTMAX).contains(&n).then_some(n);
    if let Some(up) = name.strip_prefix("RTMIN+") {
        return RTMIN.checked_add(up.parse().ok()?).and_then(realtime);
    }
    if let Some(down) = name.strip_prefix("RTMAX-") {
        return RTMAX.checked_sub(down.parse().ok()?).and_then(realtime);
    }
    let index = NAMES.iter().position(|n| *n == name)?;
    u8::try_from(index + 1).ok()
}

impl From<Signal> for String {
    fn from(signal: Signal) -> String {
        signal.to_string()
    }
}

impl TryFrom<String> for Signal {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_or_halts_a_program_is_a_stop() {
        let of = |name: &str| name.parse::<Signal>().unwrap().is_stop();
        for name in [
            "TERM", "INT", "QUIT", "ABRT", "KILL", "STOP", "TSTP", "ALRM", "RTMIN+3", "32",
        ] {
            assert!(of(name), "{name}");
        }
        for name in ["HUP", "USR1", "USR2", "CONT", "CHLD", "URG", "WINCH"] {
            assert!(!of(name), "{name}");
        }
    }

    #[test]
    fn known_names_have_their_numbers() {
        for (text, number) in [
            ("SIGHUP", 1),
            ("int", 2),
            ("SIGKILL", 9),
            ("15", 15),
            ("SIGCHLD", 17),
            ("SIGWINCH", 28),
            ("SIGPOLL", 29),
            ("SIGPWR", 30),
            ("SYS", 31),
            ("SIGRTMIN", 34),
            ("RTMIN+3", 37),
            ("SIGRTMAX-1", 63),
            ("SIGRTMAX", 64),
        ] {
            assert_eq!(text.parse::<Signal>().unwrap().number(), number, "{text}");
        }
        for bad in [
            "",
            "0",
            "65",
            "-1",
            "SIG",
            "SIGRTMIN+31",
            "RTMAX-31",
            "TERM ",
            "256",
            "RTMIN+",
        ] {
            assert!(bad.parse::<Signal>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_signal_comes_back_by_its_name() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).unwrap();
            assert_eq!(signal.to_string().parse::<Signal>().unwrap(), signal);
        }
    }
}
