// SPDX-License-Identifier: Apache-2.0
//! What a transaction is made of and what is said of one that isn't. [`super::transaction`] plans.

use std::fmt;

use super::JobType;
use crate::name::UnitName;

/// How a job is added (systemctl(1), `--job-mode=`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Refused where it would undo a job that is there.
    Fail,
    /// Jobs that are there give way.
    Replace,
    /// As `Replace`, and nothing later replaces it.
    ReplaceIrreversibly,
    /// What isn't pulled in is stopped.
    Isolate,
    /// All other jobs are cancelled.
    Flush,
    /// The unit alone, in no order.
    IgnoreDependencies,
    /// The unit alone, in its order.
    IgnoreRequirements,
}

/// A job of a transaction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Planned {
    /// On which unit.
    pub unit: UnitName,
    /// What is done to the unit.
    pub kind: JobType,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.unit, self.kind)
    }
}

/// Something that gave way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// A wanted unit is left out, and why.
    LeftOut(UnitName, String),
    /// The jobs of a cycle, each waiting for the next, and which one was deleted.
    CycleBroken(Vec<Planned>, Planned),
    /// A job was deleted because it contradicts another one on the same unit.
    Contradiction(Planned),
}

/// Why there is no transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A unit has no file.
    NotFound(UnitName),
    /// It is masked.
    Masked(UnitName),
    /// Its files can't be used.
    Bad(UnitName),
    /// It doesn't allow isolation.
    NotIsolated(UnitName),
    /// Jobs wait for each other, and all of them are needed.
    Cycle(Vec<Planned>),
    /// Two jobs on one unit exclude each other, and both are needed.
    Contradiction(UnitName, JobType, JobType),
    /// It would undo a job that may not be undone.
    Destructive(UnitName, JobType),
    /// It has more jobs than are planned at once.
    TooLarge,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(unit) => write!(f, "{unit} does not exist: no folder has its file"),
            Self::Masked(unit) => write!(f, "{unit} is masked: unmask it first"),
            Self::Bad(unit) => write!(f, "{unit} can't be used: verify it to see why"),
            Self::NotIsolated(unit) => write!(f, "{unit} has no AllowIsolate=yes"),
            Self::Cycle(jobs) => {
                let names: Vec<String> = jobs.iter().map(ToString::to_string).collect();
                write!(f, "these jobs wait for each other: {}", names.join(", "))
            }
            Self::Contradiction(unit, one, other) => {
                write!(f, "{unit} would have to {one} and to {other}")
            }
            Self::Destructive(unit, kind) => write!(f, "{unit} has a {kind} job that stays"),
            Self::TooLarge => write!(f, "it has more than {MOST_JOBS} jobs"),
        }
    }
}

/// What is to be done, and what gave way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// One job for each unit, in the order of their names; the one that was asked for is among
    /// them.
    pub jobs: Vec<Planned>,
    /// What was asked for.
    pub anchor: Planned,
    /// How it meets jobs that are there already.
    pub mode: Mode,
    /// What gave way.
    pub notes: Vec<Note>,
}

/// So many jobs are planned at once.
pub const MOST_JOBS: usize = 100_000;
