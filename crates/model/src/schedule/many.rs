// SPDX-License-Identifier: Apache-2.0
//! What a schedule runs several of: replicas that go on and are replaced a few at a time, and jobs
//! of several runs that end. What is meant is Kubernetes' Deployment and Job, of which the fields
//! have their defaults here. What comes next of them is decided in `steps`.

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::spec::{Draft, LONGEST, Overlap, Restart, When};
use crate::error::{Error, Result};

/// The most replicas of one schedule, and the most runs of one job at a time. A kubelet has 110
/// pods in all where its configuration doesn't say otherwise.
pub const MAX_AT_A_TIME: u32 = 256;
/// The most runs that a job may need.
pub const MAX_COMPLETIONS: u32 = 10_000;
/// Templates that are kept for `Undo` where the spec says nothing.
pub const DEFAULT_REVISIONS: u32 = 10;
/// The most templates that are kept.
pub const MAX_REVISIONS: u32 = 32;
/// Failed runs that a job forgives where the spec says nothing.
pub const DEFAULT_FAILURES: u32 = 6;

/// A number of replicas, or a part of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// So many.
    Number(u32),
    /// Per cent.
    Percent(u32),
}

/// A quarter: Kubernetes' default of both.
const QUARTER: Amount = Amount::Percent(25);

impl Amount {
    /// Of so many, rounded up.
    fn up(self, count: u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => count.saturating_mul(percent).div_ceil(100),
        }
    }

    /// Of so many, rounded down.
    fn down(self, count: u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => count.saturating_mul(percent) / 100,
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("is {text:?}: write a number or, as 25%, a part");
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse().ok().filter(|it| *it <= 100);
                percent.map(Self::Percent).ok_or_else(wrong)
            }
            None => text.parse().map(Self::Number).map_err(|_| wrong()),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Runs that go on: so many, each replaced when it ends, all replaced when the work changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Replicas {
    /// How many; 0 to [`MAX_AT_A_TIME`].
    pub count: u32,
    /// All old ones end before a new one begins.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub recreate: bool,
    /// How many may be missing while they are replaced. `None`: 25 %, rounded down.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub max_unavailable: Option<Amount>,
    /// How many there may be beyond `count` meanwhile. `None`: 25 %, rounded up.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub max_surge: Option<Amount>,
    /// How long one must be ready until it counts. `None`: not at all.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub min_ready: Option<Duration>,
    /// Without progress for that long it is said to hang. `None`: 10 min.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub progress: Option<Duration>,
    /// Old templates that are kept. `None`: [`DEFAULT_REVISIONS`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub revisions: Option<u32>,
    /// A change of the work is not rolled out yet.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hold: bool,
}

impl Replicas {
    /// How many may be missing, and how many there may be beyond the count; never both none.
    pub fn bounds(&self) -> (u32, u32) {
        let missing = self.max_unavailable.unwrap_or(QUARTER).down(self.count);
        let surge = self.max_surge.unwrap_or(QUARTER).up(self.count);
        match (missing, surge) {
            (0, 0) => (1, 0),
            both => both,
        }
    }

    /// How long a rollout may hang.
    pub fn progress(&self) -> Duration {
        self.progress.unwrap_or(Duration::from_secs(600))
    }

    /// How many old templates are kept.
    pub fn revisions(&self) -> u32 {
        self.revisions.unwrap_or(DEFAULT_REVISIONS)
    }
}

/// Runs that end: so many must succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// How many must succeed. `None`: one, and then no other one begins.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub completions: Option<u32>,
    /// How many go on at a time. `None`: 1.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub parallelism: Option<u32>,
    /// How many may fail. `None`: [`DEFAULT_FAILURES`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub failures: Option<u32>,
    /// How long all of it may take.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub deadline: Option<Duration>,
    /// Each run has an index of its own, from 0 on.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub indexed: bool,
    /// The schedule goes so long after its end.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub remove_after: Option<Duration>,
}

impl Job {
    /// How many go on at a time.
    pub fn parallelism(&self) -> u32 {
        self.parallelism.unwrap_or(1)
    }

    /// How many may fail.
    pub fn failures(&self) -> u32 {
        self.failures.unwrap_or(DEFAULT_FAILURES)
    }
}

/// Checks what several runs are asked for.
///
/// # Errors
/// `INVALID_FIELD`, below the spec.
pub(super) fn check(draft: &Draft) -> Result<()> {
    if let Some(replicas) = &draft.replicas {
        check_replicas(draft, replicas)?;
    }
    if let Some(job) = &draft.job {
        check_job(draft, job)?;
    }
    Ok(())
}

fn at_most(field: &str, number: Option<u32>, most: u32) -> Result<()> {
    match number {
        Some(number) if number > most => {
            let problem = format!("is {number}, but may be at most {most} on one node");
            Err(Error::invalid(field, problem))
        }
        _ => Ok(()),
    }
}

fn not_long(field: &str, time: Option<Duration>) -> Result<()> {
    match time {
        Some(time) if time > LONGEST => Err(Error::invalid(field, "must be at most 30 days")),
        _ => Ok(()),
    }
}

fn check_replicas(draft: &Draft, replicas: &Replicas) -> Result<()> {
    at_most("replicas.count", Some(replicas.count), MAX_AT_A_TIME)?;
    at_most("replicas.revisions", replicas.revisions, MAX_REVISIONS)?;
    not_long("replicas.min_ready", replicas.min_ready)?;
    not_long("replicas.progress", replicas.progress)?;
    let numbers = [
        ("replicas.max_unavailable", replicas.max_unavailable),
        ("replicas.max_surge", replicas.max_surge),
    ];
    for (field, amount) in numbers {
        if let Some(Amount::Number(number)) = amount {
            at_most(field, Some(number), MAX_AT_A_TIME)?;
        }
    }
    let none = [replicas.max_unavailable, replicas.max_surge]
        .map(|it| matches!(it, Some(Amount::Number(0) | Amount::Percent(0))));
    if none == [true, true] {
        let problem = "must not be 0 where max_surge is, too: nothing could ever be replaced";
        return Err(Error::invalid("replicas.max_unavailable", problem));
    }
    if draft.when != When::Now {
        let problem = "are for what runs NOW and goes on";
        return Err(Error::invalid("replicas", problem));
    }
    if draft.job.is_some() {
        return Err(Error::invalid("replicas", "are not for a job, which ends"));
    }
    if draft.restart == Restart::OnFailure {
        let problem = "must be ALWAYS, or left out: replicas that end are replaced";
        return Err(Error::invalid("restart", problem));
    }
    Ok(())
}

fn check_job(draft: &Draft, job: &Job) -> Result<()> {
    at_most("job.completions", job.completions, MAX_COMPLETIONS)?;
    at_most("job.parallelism", job.parallelism, MAX_AT_A_TIME)?;
    at_most("job.failures", job.failures, MAX_COMPLETIONS)?;
    not_long("job.deadline", job.deadline)?;
    not_long("job.remove_after", job.remove_after)?;
    if job.indexed && job.completions.is_none() {
        let problem = "is required where each run has an index";
        return Err(Error::invalid("job.completions", problem));
    }
    if draft.restart != Restart::No {
        let problem = "must be NO, or left out: `job.failures` says how often it is tried again";
        return Err(Error::invalid("restart", problem));
    }
    if job.remove_after.is_some() && !matches!(draft.when, When::Now | When::At(_) | When::Lax(_)) {
        let problem = "is for what runs once";
        return Err(Error::invalid("job.remove_after", problem));
    }
    let several = job.completions.is_some_and(|it| it > 1) || job.parallelism() > 1;
    if draft.overlap == Overlap::Allow && several {
        let problem = "can't be ALLOW for a job of several runs: write FORBID or REPLACE";
        return Err(Error::invalid("overlap", problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_rounded_so_that_something_can_be_replaced() {
        let bounds = |count, missing: &str, surge: &str| {
            let amount = |text: &str| (!text.is_empty()).then(|| text.parse().unwrap());
            let replicas = Replicas {
                count,
                max_unavailable: amount(missing),
                max_surge: amount(surge),
                ..Replicas::default()
            };
            replicas.bounds()
        };
        assert_eq!(bounds(10, "", ""), (2, 3));
        assert_eq!(bounds(1, "", ""), (0, 1));
        assert_eq!(bounds(3, "1", "0"), (1, 0));
        assert_eq!(bounds(3, "10%", "0%"), (1, 0), "nothing could be replaced");
        for wrong in ["", "101%", "-1", "x%", "1.5"] {
            assert!(wrong.parse::<Amount>().is_err(), "{wrong}");
        }
    }
}
