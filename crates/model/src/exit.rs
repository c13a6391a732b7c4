// SPDX-License-Identifier: Apache-2.0
//! How a process ended and what it used, as the kernel said: no value is guessed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// Whether a process exited by itself, was ended by a signal, or the end isn't known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The status given to exit(3).
    Code(u8),
    /// The number of the signal that killed it.
    Signal(u8),
    /// Not known: the parent process, to which the kernel reports the end, was lost.
    Unknown,
}

/// The end of an executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// Code, signal or unknown.
    pub how: How,
    /// The main process was killed by the kernel's OOM killer.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub oom_killed: bool,
    /// OOM kills among all its processes; `None` where the node can't know.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub oom_kills: Option<u64>,
    /// It left a core.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub core_dumped: bool,
    /// When it began, where known.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub started: Option<Timestamp>,
    /// When it ended, where known.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub finished: Option<Timestamp>,
    /// Resources that it used; `None` where its parent was lost.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub rusage: Option<Rusage>,
}

/// HUP, INT, KILL, TERM: how one asks a program to end.
const ASKED_TO_END: [u8; 4] = [1, 2, 9, 15];

impl Exit {
    /// Whether it ended as a program that works doesn't. One that was asked to end by a signal has
    /// not failed; a killer that was out of memory does not ask.
    pub fn is_failure(&self) -> bool {
        match self.how {
            How::Code(code) => code != 0,
            How::Signal(signal) => self.oom_killed || !ASKED_TO_END.contains(&signal),
            How::Unknown => true,
        }
    }

    /// The end was not observed.
    pub fn unknown() -> Self {
        Self {
            how: How::Unknown,
            oom_killed: false,
            oom_kills: None,
            core_dumped: false,
            started: None,
            finished: None,
            rusage: None,
        }
    }
}

/// The figures of getrusage(2), of a process and the descendants that it waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rusage {
    /// CPU time in user mode.
    pub user_time: Duration,
    /// CPU time in the kernel.
    pub system_time: Duration,
    /// The largest resident set, in bytes.
    pub max_rss_bytes: u64,
    /// Page faults served without reading.
    pub minor_faults: u64,
    /// Page faults that had to read.
    pub major_faults: u64,
    /// Times it gave up the CPU to wait.
    pub voluntary_switches: u64,
    /// Times it was preempted.
    pub involuntary_switches: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_asks_to_end_is_no_failure() {
        let ended = |how, oom_killed| Exit {
            how,
            oom_killed,
            ..Exit::unknown()
        };
        for (how, oom_killed, failed) in [
            (How::Code(0), false, false),
            (How::Code(1), false, true),
            (How::Signal(15), false, false),
            (How::Signal(9), false, false),
            (How::Signal(9), true, true),
            (How::Signal(11), false, true),
            (How::Unknown, false, true),
        ] {
            assert_eq!(ended(how, oom_killed).is_failure(), failed, "{how:?}");
        }
    }
}
