// SPDX-License-Identifier: Apache-2.0
//! What is known of a schedule. All of it is kept: what a daemon has decided, the next one goes on
//! with. How an [`Event`] changes it is in `events`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use super::refusal::RefusalKind;
pub use super::shape::Shape;
use crate::exit::How;
use crate::name::{Label, Tenant, Uid};
use crate::time::Timestamp;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct State {
    /// Nothing begins by itself.
    pub paused: Option<Pause>,
    /// Times up to this one are accounted for.
    pub since: Timestamp,
    /// A run that is wanted and has not begun.
    pub due: Option<Due>,
    /// The number of the last run; 0: none yet.
    pub numbers: u64,
    /// Runs that begin or go on.
    pub runs: Vec<Run>,
    /// Starts in a row that ended soon.
    pub in_a_row: u32,
    /// No start before.
    pub held_until: Option<Timestamp>,
    /// Of replicas of the last template that was rolled out whole, while another one is: their own
    /// back-off.
    pub old_hold: Hold,
    /// The last run that ended.
    pub last: Option<End>,
    /// Starts, as far as the start limit asks.
    pub starts: Vec<Timestamp>,
    /// There were more than the start limit allows.
    pub limited: bool,
    /// Nothing comes any more.
    pub done: bool,
    /// Of the schedule that it comes after: what is accounted for.
    pub followed: Option<Followed>,
    /// Ends of that one that were seen and not yet dealt with.
    pub owed: u32,
    /// How many runs have ended; of jobs, how many jobs.
    pub ended: u64,
    /// How many of those succeeded.
    pub succeeded: u64,
    /// The number of the template that new runs are made by.
    pub revision: u64,
    /// The templates that are kept, oldest first, the current one among them.
    pub revisions: Vec<Revision>,
    /// The last template of which all replicas were ready.
    pub stable: Option<u64>,
    /// How many replicas of older templates are wanted yet.
    pub old_wanted: u32,
    /// How far the replacement of replicas has come; `None`: none goes on.
    pub progress: Option<Progress>,
    /// Jobs that go on.
    pub jobs: Vec<JobState>,
    /// The number of the last job.
    pub job_numbers: u64,
    /// The boot of the node whose start is accounted for.
    pub boot: Option<String>,
    /// It is being removed: its runs end, and then it goes.
    pub leaving: Option<Leaving>,
    /// Why the last start was refused.
    pub refusal: Option<Refusal>,
}

/// A back-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Hold {
    /// No start before.
    pub until: Option<Timestamp>,
    /// Starts in a row that came to nothing, or ended soon.
    pub in_a_row: u32,
}

/// Who has paused it, and when.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pause {
    /// In words.
    pub by: String,
    /// The node's clock.
    pub at: Timestamp,
}

/// A run that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Due {
    /// Since when.
    pub at: Timestamp,
    /// What has asked for it.
    pub by: Trigger,
    /// How often it was begun already.
    pub attempt: u32,
}

/// What makes a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// It was declared.
    Declared,
    /// Its time came.
    Time,
    /// Its time had passed while the daemon didn't look.
    Missed,
    /// Another schedule's run ended.
    After,
    /// Its last run ended, or went with the node.
    Restart,
    /// A caller asked.
    Hand,
}

/// A run that begins or goes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The path is the schedule's name, `-` and this.
    pub number: u64,
    /// What it is made of, whatever the spec says by now.
    pub shape: Shape,
    /// Why there is one.
    pub due: Due,
    /// When it had begun; `None`: it is being started.
    pub began: Option<Timestamp>,
    /// Asked to end; why.
    pub stopping: Option<Stopping>,
    /// The template that it was made by.
    #[serde(default)]
    pub revision: u64,
    /// The job that it is of.
    #[serde(default)]
    pub job: Option<u64>,
    /// Its index in that job.
    #[serde(default)]
    pub index: Option<u32>,
    /// Since when it is as others may need it: it goes on, and a pod is ready.
    #[serde(default)]
    pub ready: Option<Timestamp>,
    /// The last change of the configs that it was given.
    #[serde(default)]
    pub configs: u64,
}

impl Run {
    /// One that is about to begin.
    pub fn new(number: u64, shape: Shape, due: Due) -> Self {
        Self {
            number,
            shape,
            due,
            began: None,
            stopping: None,
            revision: 0,
            job: None,
            index: None,
            ready: None,
            configs: 0,
        }
    }
}

/// A template that is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Revision {
    /// Counts the changes of the work, and restarts of all.
    pub number: u64,
    /// When it became the wish.
    pub at: Timestamp,
    /// What its runs are made of.
    pub shape: Shape,
}

/// What is accounted for of a schedule that is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Followed {
    /// Which one.
    pub uid: Uid,
    /// Its runs that had ended.
    pub ended: u64,
    /// Its runs that had succeeded.
    pub succeeded: u64,
}

/// How far a replacement has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// When it came further.
    pub at: Timestamp,
    /// New ones that count.
    pub available: u32,
    /// Old ones that are there.
    pub old: u32,
    /// It has hung for too long.
    pub hangs: bool,
}

/// A job that goes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobState {
    /// Grows by one with each job of the schedule.
    pub number: u64,
    /// Why there is one.
    pub due: Due,
    /// When it began.
    pub began: Timestamp,
    /// Runs that succeeded.
    #[serde(default)]
    pub succeeded: u32,
    /// Runs that failed.
    #[serde(default)]
    pub failed: u32,
    /// Indexes that are done.
    #[serde(default)]
    pub done: BTreeSet<u32>,
    /// How often runs of it went with the node since one has succeeded.
    #[serde(default)]
    pub losses: u32,
    /// When that was last.
    #[serde(default)]
    pub lost_at: Timestamp,
    /// It ends, and why.
    #[serde(default)]
    pub ends: Option<JobEnd>,
}

/// Why a job ends before its runs have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// It has failed; why, in words.
    Failed(String),
    /// Another one takes its place.
    Replaced,
}

/// Who has removed it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leaving {
    /// The user's tenant.
    pub tenant: Tenant,
    /// The user.
    pub user: Label,
    /// The time at which its removal was asked for.
    pub at: Timestamp,
    /// What the last try has failed with.
    #[serde(default)]
    pub failed: Option<String>,
}

/// Why a run was asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopping {
    /// For the next one.
    Replaced,
    /// By a user.
    Hand,
    /// There are more than are wanted.
    Surplus,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// The run's number.
    pub number: u64,
    /// The time at which it ended.
    pub at: Timestamp,
    /// As it should.
    pub success: bool,
    /// For people.
    pub words: String,
}

/// Why a start was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// Of which kind.
    pub kind: RefusalKind,
    /// For people.
    pub words: String,
    /// When it was first so.
    pub at: Timestamp,
}

/// Something that has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// By whom, in words.
    Paused(String),
    /// What was paused or limited goes on.
    Resumed,
    /// A user wants a run.
    Triggered,
    /// A run has begun.
    Began(u64),
    /// A start was refused.
    Refused(u64, RefusalKind, String),
    /// A daemon was killed before a start had an effect.
    NotBegun(u64),
    /// A run has ended: whether it succeeded, and words.
    Ended(u64, bool, String),
    /// A run went with the node.
    Lost(u64),
    /// A run was asked to end by a user: who, in words.
    StopAsked(u64, String),
    /// What [`Event::StopAsked`] told of, in the same words, came to nothing.
    StopFailed(u64, String),
    /// The spec is another one; whether what it runs is, too.
    Declared(bool),
    /// The spec is another one, by which the work of a job goes on: see [`Spec::goes_on_as`].
    ///
    /// [`Spec::goes_on_as`]: super::spec::Spec::goes_on_as
    Adjusted,
    /// A user has removed it.
    Removed(Leaving),
    /// Its removal has failed; with what.
    NotRemoved(String),
    /// What a run was given could not be brought up to date.
    NotRefreshed(u64),
}

/// A line of the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub at: Timestamp,
    /// The run; 0: there was none.
    pub number: u64,
    /// Why there was to be one.
    pub by: Trigger,
    /// Since when it was wanted.
    pub due: Timestamp,
    /// When it began.
    pub began: Option<Timestamp>,
    /// What came of it.
    pub outcome: Outcome,
    /// For people.
    pub words: String,
}

/// What came of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ended as it should.
    Succeeded,
    /// It failed.
    Failed,
    /// It was stopped.
    Stopped,
    /// It was never begun: another one went on, or the daemon wasn't there.
    Skipped,
    /// Its start was refused.
    Refused,
    /// It went with the node.
    Lost,
}

/// The end of a program, for people.
pub fn said(how: How) -> String {
    match how {
        How::Code(code) => format!("exited with {code}"),
        How::Signal(number) => format!("killed by signal {number}"),
        How::Unknown => "ended; how is not known".to_owned(),
    }
}
