// SPDX-License-Identifier: Apache-2.0
//! What a user wishes of a schedule. A [`Draft`] is data; a [`Spec`] is a draft that was checked.

use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cron::{self, Pattern};
use crate::cell::CellSpec;
use crate::error::{Error, Result, Within};
use crate::executable::ExecutableSpec;
use crate::label::Labels;
use crate::name::Label;
use crate::pod::PodSpec;
use crate::time::Timestamp;

/// The longest name: a run has a number after it.
pub const MAX_NAME: usize = 42;
/// The most programs of one cell.
pub const MAX_PROGRAMS: usize = 32;
/// The most other schedules that one waits for.
pub const MAX_NEEDS: usize = 16;
/// The most ends that are kept of one schedule.
pub const MAX_HISTORY: u32 = 100;
/// Ends that are kept where the spec says nothing.
pub const DEFAULT_HISTORY: u32 = 10;
/// The shortest wait before another start.
pub const LEAST_BACKOFF: Duration = Duration::from_millis(100);
/// The most bytes that a spec takes in its row: each schedule is in the daemon's memory.
pub const MAX_WEIGHT: usize = 128 << 10;
/// The longest time of any kind in a spec.
pub const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// What runs. Names are those within one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// One executable in a cell of its own, which may be a container.
    Executable {
        /// The executable and its name in the cell.
        program: Box<Program>,
        /// The cell that is made for it.
        cell: Box<CellSpec>,
    },
    /// A cell with executables, which begin in this order.
    Cell {
        /// Labels of the cell.
        labels: Labels,
        /// The cell.
        spec: Box<CellSpec>,
        /// At least one.
        programs: Vec<Program>,
    },
    /// A pod.
    Pod {
        /// Labels of the pod's cell.
        labels: Labels,
        /// The pod.
        spec: Box<PodSpec>,
    },
}

/// One executable of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Program {
    /// In the cell.
    pub name: Label,
    /// Labels of the executable.
    pub labels: Labels,
    /// What is executed, and how.
    pub spec: ExecutableSpec,
}

/// When it runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At once, and again as the restart policy says.
    #[default]
    Now,
    /// Whenever the pattern matches.
    Cron {
        /// Five or six fields.
        pattern: String,
        /// Its time zone; empty: UTC.
        zone: String,
    },
    /// Once.
    At(Timestamp),
    /// Each time a run of another schedule of the tenant has ended.
    After {
        /// The other one.
        schedule: Label,
        /// Only where it succeeded.
        success: bool,
    },
    /// Once, when the node has room.
    Lax(Lax),
}

/// When a node counts as idle enough.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Lax {
    /// Only in this part of the day.
    pub window: Option<Window>,
    /// The most pressure of CPU, memory and I/O: per cent of the last 10 s in which something
    /// waited. `None`: 20, 5 and 10.
    pub cpu: Option<u8>,
    /// See `cpu`.
    pub memory: Option<u8>,
    /// See `cpu`.
    pub io: Option<u8>,
    /// For how long it must have been so. `None`: 30 s.
    pub quiet_for: Option<Duration>,
}

/// A part of each day, which may go past midnight.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Minute of the day at which it begins, 0 to 1,439.
    pub from: u16,
    /// Minute of the day at which it is over; another one than `from`.
    pub to: u16,
    /// Its time zone; empty: UTC.
    pub zone: String,
}

/// What becomes of a run that ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Nothing.
    #[default]
    No,
    /// One that failed is run again.
    OnFailure,
    /// It is run again.
    Always,
}

/// What becomes of a time that comes while a run goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is skipped.
    #[default]
    Forbid,
    /// Both run.
    Allow,
    /// The run that goes on is stopped first.
    Replace,
}

/// What becomes of times that passed while the node or its daemon was down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Nothing.
    Skip,
    /// One run makes up for all of them.
    RunOnce,
}

/// How long a start waits after runs that ended soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Backoff {
    /// The first wait, which doubles. `None`: 1 s.
    pub first: Option<Duration>,
    /// The longest wait. `None`: 5 min.
    pub most: Option<Duration>,
    /// A run of that length begins anew. `None`: 10 min.
    pub stable: Option<Duration>,
}

/// More starts than that, and no more follow by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartLimit {
    /// 1 to 100.
    pub starts: u32,
    /// Within this time.
    pub within: Duration,
}

/// Another schedule that must be so before a run begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Need {
    /// Of the same tenant.
    pub schedule: Label,
    /// What it must be.
    pub state: Needed,
}

/// What another schedule must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needed {
    /// A run of it goes on; of a pod: it is ready.
    Running,
    /// Its last run succeeded.
    Succeeded,
}

/// The spec as a client sent it; no field is checked yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Draft {
    /// What runs.
    pub work: Work,
    /// When.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub when: When,
    /// The only node on which it may run; empty: this one.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub node: String,
    /// What becomes of a run that ends.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub restart: Restart,
    /// How long another start waits.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub backoff: Backoff,
    /// How many starts there may be.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub start_limit: Option<StartLimit>,
    /// What becomes of a time that comes while a run goes on.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub overlap: Overlap,
    /// What becomes of times that nobody saw. `None`: of `At`, it is made up for; others are
    /// skipped.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub missed: Option<Missed>,
    /// How many ends are kept. `None`: [`DEFAULT_HISTORY`].
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub history: Option<u32>,
    /// What must be before a run begins.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub needs: Vec<Need>,
}

/// A checked draft.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Draft", into = "Draft")]
pub struct Spec(Draft);

impl Deref for Spec {
    type Target = Draft;

    fn deref(&self) -> &Draft {
        &self.0
    }
}

impl From<Spec> for Draft {
    fn from(spec: Spec) -> Self {
        spec.0
    }
}

impl TryFrom<Draft> for Spec {
    type Error = Error;

    fn try_from(draft: Draft) -> Result<Self> {
        check_work(&draft.work).within("work")?;
        check_when(&draft)?;
        check_times(&draft)?;
        if draft.history.is_some_and(|n| n > MAX_HISTORY) {
            return Err(Error::invalid(
                "history",
                format!("must be at most {MAX_HISTORY}"),
            ));
        }
        if draft.needs.len() > MAX_NEEDS {
            return Err(Error::invalid(
                "needs",
                format!("has more than {MAX_NEEDS} entries"),
            ));
        }
        check_weight(&draft)?;
        Ok(Self(draft))
    }
}

impl Spec {
    /// The other schedule whose ends this one follows.
    pub fn follows(&self) -> Option<&Label> {
        match &self.when {
            When::After { schedule, .. } => Some(schedule),
            _ => None,
        }
    }

    /// How many ends are kept.
    pub fn history(&self) -> u32 {
        self.history.unwrap_or(DEFAULT_HISTORY)
    }

    /// What becomes of times that nobody saw.
    pub fn missed(&self) -> Missed {
        match (&self.when, self.missed) {
            (_, Some(missed)) => missed,
            (When::At(_), None) => Missed::RunOnce,
            _ => Missed::Skip,
        }
    }

    /// Whether it is over for good once a run has ended that isn't run again.
    pub fn is_once(&self) -> bool {
        matches!(self.when, When::Now | When::At(_) | When::Lax(_))
    }
}

impl Backoff {
    /// The wait after so many starts in a row that ended soon.
    pub fn wait(&self, in_a_row: u32) -> Duration {
        let doubled = self.first().saturating_mul(1 << in_a_row.min(24));
        doubled.min(self.most())
    }

    fn first(&self) -> Duration {
        self.first.unwrap_or(Duration::from_secs(1))
    }

    /// The longest wait.
    pub fn most(&self) -> Duration {
        let most = self.most.unwrap_or(Duration::from_secs(300));
        most.max(self.first())
    }

    /// How long a run must last that begins anew.
    pub fn stable(&self) -> Duration {
        self.stable.unwrap_or(Duration::from_secs(600))
    }
}

fn check_weight(draft: &Draft) -> Result<()> {
    let json = serde_json::to_vec(draft);
    let json = json.map_err(|e| Error::internal(format!("a spec can't be kept: {e}")))?;
    if json.len() <= MAX_WEIGHT {
        return Ok(());
    }
    let (size, most) = (json.len(), MAX_WEIGHT >> 10);
    let problem = format!("takes {size} bytes; a schedule may take {most} KiB");
    let error = Error::invalid("", problem);
    Err(error.hint("put large files and environments into an image or a folder"))
}

fn check_work(work: &Work) -> Result<()> {
    let programs = match work {
        Work::Executable { program, .. } => std::slice::from_ref(&**program),
        Work::Cell { programs, .. } => programs.as_slice(),
        Work::Pod { .. } => return Ok(()),
    };
    if programs.is_empty() || programs.len() > MAX_PROGRAMS {
        let problem = format!("must have 1 to {MAX_PROGRAMS} entries");
        return Err(Error::invalid("cell.executables", problem));
    }
    for (i, program) in programs.iter().enumerate() {
        let field = |name: &str| match work {
            Work::Executable { .. } => format!("executable.executable.{name}"),
            _ => format!("cell.executables[{i}].executable.{name}"),
        };
        if programs.iter().take(i).any(|it| it.name == program.name) {
            return Err(Error::invalid(field("ref.path"), "is there twice"));
        }
        if program.spec.auto_remove {
            let problem = "is not for runs of a schedule: they are removed as their history is";
            return Err(Error::invalid(field("spec.auto_remove"), problem));
        }
    }
    Ok(())
}

fn check_when(draft: &Draft) -> Result<()> {
    match &draft.when {
        When::Cron { pattern, zone } => {
            let checked = Pattern::new(pattern, zone).within("cron")?;
            if checked.after(Timestamp(0)).is_none() {
                return Err(Error::invalid("cron.pattern", "matches no time at all"));
            }
        }
        When::Lax(lax) => check_lax(lax).within("lax")?,
        When::Now | When::At(_) | When::After { .. } => {}
    }
    let repeats = matches!(draft.when, When::Cron { .. } | When::After { .. });
    if repeats && draft.restart == Restart::Always {
        let error = Error::invalid("restart", "ALWAYS is not for what runs again and again");
        return Err(error.hint("write ON_FAILURE, or run it NOW"));
    }
    Ok(())
}

fn check_lax(lax: &Lax) -> Result<()> {
    for (name, most) in [("cpu", lax.cpu), ("memory", lax.memory), ("io", lax.io)] {
        if most.is_some_and(|most| most > 100) {
            return Err(Error::invalid(name, "must be at most 100 per cent"));
        }
    }
    if let Some(window) = &lax.window {
        cron::zone(&window.zone).within("window")?;
        if window.from >= 1440 || window.to >= 1440 || window.from == window.to {
            let problem = "must be two different minutes of the day, 00:00 to 23:59";
            return Err(Error::invalid("window", problem));
        }
    }
    Ok(())
}

fn check_times(draft: &Draft) -> Result<()> {
    let Backoff {
        first,
        most,
        stable,
    } = draft.backoff;
    let quiet = match &draft.when {
        When::Lax(lax) => lax.quiet_for,
        _ => None,
    };
    let within = draft.start_limit.map(|limit| limit.within);
    let times = [
        ("backoff.first", first),
        ("backoff.most", most),
        ("backoff.stable", stable),
        ("start_limit.within", within),
        ("lax.quiet_for", quiet),
    ];
    for (field, time) in times {
        if time.is_some_and(|time| time > LONGEST) {
            return Err(Error::invalid(field, "must be at most 30 days"));
        }
    }
    for (field, time) in [("backoff.first", first), ("backoff.most", most)] {
        if time.is_some_and(|time| time < LEAST_BACKOFF) {
            return Err(Error::invalid(field, "must be at least 100 ms"));
        }
    }
    if let Some(limit) = draft.start_limit
        && (!(1..=100).contains(&limit.starts) || limit.within.is_zero())
    {
        let problem = "must be 1 to 100 starts within more than no time";
        return Err(Error::invalid("start_limit", problem));
    }
    Ok(())
}
