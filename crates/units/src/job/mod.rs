// SPDX-License-Identifier: Apache-2.0
//! Jobs: what is to be done to a unit, all that has to be done along with it ([`transaction`]), and
//! in which order it is done ([`engine`]). Decisions alone: the unit manager does them and says
//! how they ended. The rules are those of systemctl(1), systemd.unit(5) and systemd.special(7).

pub mod engine;
pub mod follow;
pub mod longest;
mod order;
mod terms;
#[cfg(test)]
mod tests;
pub mod transaction;

use std::fmt;

use crate::depend::Graph;
use crate::name::UnitName;

/// What is to be done to a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum JobType {
    /// It is to be active.
    Start,
    /// It must be active, and isn't started.
    VerifyActive,
    /// It is not to be active.
    Stop,
    /// It reads its configuration again.
    Reload,
    /// It is stopped where it is active, and started.
    Restart,
}

impl fmt::Display for JobType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::VerifyActive => "verify-active",
            Self::Stop => "stop",
            Self::Reload => "reload",
            Self::Restart => "restart",
        })
    }
}

/// How far a unit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// It isn't active.
    Inactive,
    /// It isn't active, and its last end was none of a clean kind.
    Failed,
    /// It is being started.
    Activating,
    /// It is.
    Active,
    /// It reads its configuration again.
    Reloading,
    /// It is being stopped.
    Deactivating,
}

impl Activity {
    /// Whether there is something to stop.
    pub const fn is_up(self) -> bool {
        !matches!(self, Self::Inactive | Self::Failed)
    }

    /// Whether it is active.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Active | Self::Reloading)
    }
}

/// Whether a unit can be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// It can.
    Loaded,
    /// There is no file of its name.
    NotFound,
    /// It is masked.
    Masked,
    /// Its files can't be used.
    Bad,
}

/// What is known of all units at this moment.
pub trait World {
    /// Their dependencies.
    fn graph(&self) -> &Graph;
    /// How far one is.
    fn activity(&self, unit: &UnitName) -> Activity;
    /// Whether it can be started.
    fn load(&self, unit: &UnitName) -> Load;
    /// The units that are up.
    fn up(&self) -> Vec<UnitName>;
    /// Whether an isolation leaves it alone (`IgnoreOnIsolate=`, and what was started by others).
    fn ignores_isolation(&self, unit: &UnitName) -> bool;
    /// Whether it may be isolated (`AllowIsolate=`).
    fn may_isolate(&self, unit: &UnitName) -> bool;
    /// Whether it is stopped when no unit needs it (`StopWhenUnneeded=`).
    fn stops_when_unneeded(&self, unit: &UnitName) -> bool;
}

/// One job for two on the same unit; `None` where they exclude each other. A start and a reload
/// together are a reload of what is active and a start of what isn't.
pub fn merge(one: JobType, other: JobType, activity: Activity) -> Option<JobType> {
    use JobType::{Reload, Restart, Start, Stop, VerifyActive};
    let (low, high) = if one <= other {
        (one, other)
    } else {
        (other, one)
    };
    Some(match (low, high) {
        (same, again) if same == again => same,
        (_, Stop) | (Stop, _) => return None,
        (_, Restart) => Restart,
        (Start, Reload) if activity.is_active() => Reload,
        (Start, _) => Start,
        (VerifyActive, Reload) => Reload,
        (kept, _) => kept,
    })
}

/// Whether a job has nothing to do, given how far the unit is.
pub const fn is_redundant(job: JobType, activity: Activity) -> bool {
    match job {
        JobType::Start | JobType::VerifyActive => activity.is_active(),
        JobType::Stop => matches!(activity, Activity::Inactive | Activity::Failed),
        JobType::Reload => matches!(activity, Activity::Reloading),
        // What is being started may know a unit that it requires as it was before that's restart.
        JobType::Restart => false,
    }
}
