// SPDX-License-Identifier: Apache-2.0
//! What a user wishes of a schedule. A [`Draft`] is data; a [`Spec`] is a draft that was checked.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check;
use super::given::Given;
use super::many::{Job, Replicas};
use crate::cell::CellSpec;
use crate::error::{Error, Result};
use crate::executable::ExecutableSpec;
use crate::label::Labels;
use crate::name::Label;
use crate::pod::PodSpec;
use crate::pod::probe::Probe;
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
        /// What it is given from elsewhere when a run begins.
        #[serde(default, skip_serializing_if = "crate::is_default")]
        given: Vec<Given>,
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
    /// One time only.
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
    /// Once after each boot of the node, of those to come.
    Boot,
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
    /// A run that has ended isn't begun again.
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
    /// A missed time is left out.
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

/// What must be so before a run begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Need {
    /// Whose state counts.
    #[serde(flatten)]
    pub of: NeedOf,
    /// What it must be.
    pub state: Needed,
}

/// What is needed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NeedOf {
    /// Another schedule of the same tenant.
    Schedule(Label),
    /// A unit of the machine, by its whole name.
    Unit(String),
}

/// What another schedule, or a unit, must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needed {
    /// A run of it goes on; of a pod: it is ready; a unit is active.
    Running,
    /// Its last run succeeded; a unit has done what it was started for.
    Succeeded,
}

/// The spec as a client sent it; no field is checked yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Draft {
    /// What runs.
    pub work: Work,
    /// The times at which it runs.
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
    /// What becomes of times that the daemon missed. `None`: of `At`, it is made up for; others
    /// are skipped.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub missed: Option<Missed>,
    /// How many ends are kept. `None`: [`DEFAULT_HISTORY`].
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub history: Option<u32>,
    /// What must be before a run begins.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub needs: Vec<Need>,
    /// What a run is asked while it goes on. One that fails is stopped, and has failed; until it
    /// has answered well it isn't ready. Of programs and cells: containers of pods have probes.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub health: Option<Probe>,
    /// So many runs go on, and are replaced a few at a time.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub replicas: Option<Replicas>,
    /// So many runs must succeed.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub job: Option<Job>,
    /// Nothing begins by itself. A job's runs end.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub suspended: bool,
    /// A time that the daemon missed for longer is skipped, also where others are made up for.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub start_within: Option<Duration>,
    /// Of runs that succeeded: how many are kept, with their records and logs. `None`: as
    /// `history` says.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub keep_succeeded: Option<u32>,
    /// Of runs that failed.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub keep_failed: Option<u32>,
    /// It runs on a node with such labels alone.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub node_labels: BTreeMap<String, String>,
    /// What it was made from, as `Deployment`; empty: nothing that has a name.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub kind: String,
}

impl Draft {
    /// What runs, when, and otherwise the defaults.
    pub fn new(work: Work, when: When) -> Self {
        Self {
            work,
            when,
            node: String::new(),
            restart: Restart::No,
            backoff: Backoff::default(),
            start_limit: None,
            overlap: Overlap::Forbid,
            missed: None,
            history: None,
            needs: Vec::new(),
            health: None,
            replicas: None,
            job: None,
            suspended: false,
            start_within: None,
            keep_succeeded: None,
            keep_failed: None,
            node_labels: BTreeMap::new(),
            kind: String::new(),
        }
    }
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

impl AsRef<Spec> for Spec {
    fn as_ref(&self) -> &Spec {
        self
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
        check::check(&draft)?;
        Ok(Self(draft))
    }
}

impl Spec {
    /// How many ends are kept.
    pub fn history(&self) -> u32 {
        self.history.unwrap_or(DEFAULT_HISTORY)
    }

    /// What becomes of times that the daemon missed.
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

    /// Whether what jobs have done by this spec is done by that one, too: only how they go on is
    /// another.
    pub fn goes_on_as(&self, other: &Self) -> bool {
        let counts = |spec: &Self| spec.job.map(|job| (job.completions, job.indexed));
        self.job.is_some()
            && counts(self) == counts(other)
            && self.work == other.work
            && self.when == other.when
    }

    /// Whether the times of it come by themselves.
    pub fn is_cron(&self) -> bool {
        matches!(self.when, When::Cron { .. })
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
