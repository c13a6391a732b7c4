// SPDX-License-Identifier: Apache-2.0
//! Why a schedule has no run now, or what it waits for: the typed answer of `Schedule.Why`.

use std::fmt;

use super::state::{Pause, Refusal};
use crate::name::Label;
use crate::time::Timestamp;

/// The first thing that is in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// Nothing: a run is being started.
    Starting,
    /// Nothing: a run goes on.
    Running,
    /// Its time has not come.
    Waiting(Timestamp),
    /// A run of this schedule has not ended since.
    After(Label),
    /// Another schedule isn't as needed; why, in words.
    Dependency(Label, String),
    /// A unit of the machine isn't as needed; why, in words.
    Unit(String, String),
    /// The last runs ended soon: not before.
    BackOff(Timestamp),
    /// There were more starts than the limit allows.
    StartLimit,
    /// A user paused it.
    Paused(Pause),
    /// Its start was refused, and is tried again then.
    Refused(Refusal, Option<Timestamp>),
    /// The node is too busy; what, in words.
    Pressure(String),
    /// It isn't the time of day.
    Window,
    /// An earlier run must end first.
    Overlap(u64),
    /// Replicas are replaced, or added; how far it has come, in words.
    Rolling(String),
    /// That hangs; since how far, in words.
    Hangs(String),
    /// It is being removed: what hinders that, in words.
    Leaving(String),
    /// It isn't for this node; why, in words.
    Elsewhere(String),
    /// The node's own fault; in words.
    Broken(String),
    /// It has done what it was for; how it ended, in words.
    Done(bool, String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Starting => f.write_str("a run is being started"),
            Why::Running => f.write_str("it runs"),
            Why::Waiting(_) => f.write_str("its time has not come"),
            Why::After(name) => write!(f, "it waits for the end of a run of {name}"),
            Why::Dependency(name, words) => write!(f, "it needs {name}, which {words}"),
            Why::Unit(name, words) => write!(f, "it needs the unit {name}, which {words}"),
            Why::BackOff(_) => f.write_str("its last runs ended soon: the next start waits"),
            Why::StartLimit => f.write_str(
                "it was started as often as its start limit allows; `aurae schedule resume` \
                 starts it again",
            ),
            Why::Paused(pause) => f.write_str(&pause.by),
            Why::Refused(refusal, _) => f.write_str(&refusal.words),
            Why::Pressure(words) => f.write_str(words),
            Why::Window => f.write_str("it runs at another time of the day only"),
            Why::Overlap(number) => write!(f, "it waits for the end of run {number}"),
            Why::Rolling(words)
            | Why::Hangs(words)
            | Why::Leaving(words)
            | Why::Elsewhere(words)
            | Why::Broken(words)
            | Why::Done(_, words) => f.write_str(words),
        }
    }
}
