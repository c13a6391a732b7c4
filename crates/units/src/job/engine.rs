// SPDX-License-Identifier: Apache-2.0
//! The jobs that are there: which one may begin, and what follows when one has ended. A state
//! machine; the unit manager asks it and does what it says.
//!
//! ```text
//! install -> waiting -> begin -> running -> ended -> (gone)
//!               ^                   |
//!               +---- restart: stopped, now a start
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::order::awaited;
use super::transaction::{Mode, Refusal, Transaction};
use super::{Activity, JobType, World, is_redundant, merge};
use crate::depend::Dependency;
use crate::name::UnitName;

/// How a job has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// As it was to be.
    Done,
    /// There was nothing to do, or a condition didn't hold.
    Skipped,
    /// Another job took its place, or it was called off.
    Cancelled,
    /// Its time ran out.
    TimedOut,
    /// It failed.
    Failed,
    /// A job that it needs failed.
    Dependency,
}

impl Ending {
    const fn is_failure(self) -> bool {
        !matches!(self, Self::Done | Self::Skipped)
    }
}

/// Whether a job is at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It isn't.
    Waiting,
    /// It is.
    Running,
}

/// A job that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its number, never used twice.
    pub id: u64,
    /// What is to be done.
    pub kind: JobType,
    /// Whether it is at work.
    pub progress: Progress,
    /// Whether no later job replaces it.
    pub stays: bool,
}

/// What is to be done to a unit now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Start it.
    Start,
    /// Stop it.
    Stop,
    /// Have it read its configuration again.
    Reload,
    /// Nothing: the job has ended at once.
    Nothing,
}

/// A job that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// On which unit.
    pub unit: UnitName,
    /// Its number.
    pub id: u64,
    /// What it was.
    pub kind: JobType,
    /// How the job ended.
    pub ending: Ending,
}

/// All jobs; a unit has one at most.
///
/// A job that may not begin is watched over by one of those that it waits for, and is looked at
/// again when that has ended or become another: among hundreds of jobs few are looked at in a turn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Engine {
    jobs: BTreeMap<UnitName, Job>,
    last: u64,
    /// Units whose jobs wait for no other one (`--job-mode=ignore-dependencies`).
    unordered: BTreeSet<UnitName>,
    /// Waiting jobs that are to be looked at.
    open: BTreeSet<UnitName>,
    /// Those that may begin, and wait for the caller to have room.
    aside: BTreeSet<UnitName>,
    /// By a unit the waiting ones that its job holds up.
    held: BTreeMap<UnitName, BTreeSet<UnitName>>,
    /// Units whose jobs are others than when this was taken last.
    changed: BTreeSet<UnitName>,
}

impl Engine {
    /// Takes a job of an earlier engine over, as it was written down. A unit that has one keeps it.
    pub fn restore(&mut self, unit: UnitName, kind: JobType, progress: Progress, stays: bool) {
        self.last += 1;
        let job = Job {
            id: self.last,
            kind,
            progress,
            stays,
        };
        if !self.jobs.contains_key(&unit) {
            self.put(&unit, job);
        }
    }

    fn put(&mut self, unit: &UnitName, job: Job) {
        self.jobs.insert(unit.clone(), job);
        self.moved(unit);
    }

    /// The job of a unit is another: it is looked at, and so is what it has held up.
    fn moved(&mut self, unit: &UnitName) {
        self.changed.insert(unit.clone());
        self.open.insert(unit.clone());
        self.open.extend(self.held.remove(unit).unwrap_or_default());
    }

    /// The order of units is another than it was: all jobs are looked at.
    pub fn reordered(&mut self) {
        self.held.clear();
        self.aside.clear();
        self.open = self.jobs.keys().cloned().collect();
    }

    /// A job that may begin waits, and isn't looked at, until [`Engine::take_up`].
    pub fn set_aside(&mut self, unit: &UnitName) {
        if self.open.remove(unit) {
            self.aside.insert(unit.clone());
        }
    }

    /// So many of those that were set aside, and wait still, are looked at again. Whether there was
    /// any.
    pub fn take_up(&mut self, most: usize) -> bool {
        let mut taken = 0;
        while taken < most {
            let Some(unit) = self.aside.pop_first() else {
                break;
            };
            // One that was called off meanwhile takes no place of another.
            let job = self.jobs.get(&unit);
            if job.is_some_and(|it| it.progress == Progress::Waiting) {
                self.open.insert(unit);
                taken += 1;
            }
        }
        taken > 0
    }

    /// The units whose jobs have come, gone or become others since this was asked last.
    pub fn take_changed(&mut self) -> BTreeSet<UnitName> {
        std::mem::take(&mut self.changed)
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The job of a unit.
    pub fn job(&self, unit: &UnitName) -> Option<Job> {
        self.jobs.get(unit).copied()
    }

    /// Which units' jobs the waiting job of a unit waits for now.
    pub fn waits_for(&self, unit: &UnitName, world: &dyn World) -> Vec<UnitName> {
        let own = self.jobs.get(unit);
        let waits = |it: &&Job| it.progress == Progress::Waiting && !self.unordered.contains(unit);
        let Some(own) = own.filter(waits) else {
            return Vec::new();
        };
        let kind = |unit: &UnitName| self.jobs.get(unit).map(|it| it.kind);
        awaited(world.graph(), unit, own.kind, &kind)
            .cloned()
            .collect()
    }

    /// All jobs, by unit.
    pub fn jobs(&self) -> impl Iterator<Item = (&UnitName, &Job)> {
        self.jobs.iter()
    }

    /// Takes the jobs of a transaction. Those that give way have ended.
    ///
    /// # Errors
    /// A job that is there may not be undone; nothing has changed then.
    pub fn install(
        &mut self,
        transaction: &Transaction,
        world: &dyn World,
    ) -> Result<Vec<Ended>, Refusal> {
        for planned in &transaction.jobs {
            let Some(old) = self.jobs.get(&planned.unit) else {
                continue;
            };
            let fits = merge(old.kind, planned.kind, world.activity(&planned.unit)).is_some();
            if !fits && (old.stays || transaction.mode == Mode::Fail) {
                return Err(Refusal::Destructive(planned.unit.clone(), old.kind));
            }
        }
        let mut ended = Vec::new();
        if matches!(transaction.mode, Mode::Isolate | Mode::Flush) {
            let named = |unit: &UnitName| transaction.jobs.iter().any(|it| it.unit == *unit);
            let others: Vec<UnitName> = self
                .jobs
                .iter()
                .filter(|(unit, job)| !job.stays && !named(unit))
                .map(|(unit, _)| unit.clone())
                .collect();
            for unit in others {
                ended.extend(self.remove(&unit, Ending::Cancelled));
            }
        }
        let stays = transaction.mode == Mode::ReplaceIrreversibly;
        if transaction.mode == Mode::IgnoreDependencies {
            // One that was there, and waits, need not wait any more either.
            let units = transaction.jobs.iter().map(|it| it.unit.clone());
            self.unordered.extend(units);
        }
        for planned in &transaction.jobs {
            let activity = world.activity(&planned.unit);
            let merged = self
                .jobs
                .get(&planned.unit)
                .and_then(|old| Some((*old, merge(old.kind, planned.kind, activity)?)));
            if let Some((mut old, kind)) = merged {
                // What is at work goes on where it does what is wanted.
                if kind != old.kind {
                    (old.kind, old.progress) = (kind, Progress::Waiting);
                }
                old.stays |= stays;
                self.put(&planned.unit, old);
                continue;
            }
            ended.extend(self.cancelled_for(&planned.unit, transaction.mode));
            self.last += 1;
            let job = Job {
                id: self.last,
                kind: planned.kind,
                progress: Progress::Waiting,
                stays,
            };
            self.put(&planned.unit, job);
        }
        Ok(ended)
    }

    /// The job of a unit gives way to another.
    fn cancelled_for(&mut self, unit: &UnitName, mode: Mode) -> Option<Ended> {
        let ended = self.remove(unit, Ending::Cancelled);
        if mode == Mode::IgnoreDependencies {
            self.unordered.insert(unit.clone());
        }
        ended
    }

    fn remove(&mut self, unit: &UnitName, ending: Ending) -> Option<Ended> {
        self.unordered.remove(unit);
        let job = self.jobs.remove(unit)?;
        self.moved(unit);
        Some(Ended {
            unit: unit.clone(),
            id: job.id,
            kind: job.kind,
            ending,
        })
    }

    /// The units whose jobs may begin: they wait for no other job, and a start not for its own unit
    /// to be down.
    pub fn ready(&mut self, world: &dyn World) -> Vec<UnitName> {
        let graph = world.graph();
        let jobs = &self.jobs;
        let kind = |unit: &UnitName| jobs.get(unit).map(|it| it.kind);
        let (mut ready, mut open) = (Vec::new(), BTreeSet::new());
        for unit in std::mem::take(&mut self.open) {
            let Some(own) = jobs
                .get(&unit)
                .filter(|it| it.progress == Progress::Waiting)
            else {
                continue;
            };
            let is_ordered = !self.unordered.contains(&unit);
            let other = awaited(graph, &unit, own.kind, &kind).next();
            if let Some(other) = other.filter(|_| is_ordered) {
                self.held.entry(other.clone()).or_default().insert(unit);
                continue;
            }
            let goes_down = world.activity(&unit) == Activity::Deactivating;
            if own.kind != JobType::Start || !goes_down {
                ready.push(unit.clone());
            }
            // Looked at until it has begun.
            open.insert(unit);
        }
        self.open = open;
        ready
    }

    /// Begins the job of a unit. Where there is nothing to do it has ended, and what follows has
    /// happened.
    pub fn begin(&mut self, unit: &UnitName, world: &dyn World) -> (Action, Vec<Ended>) {
        let Some(mut job) = self.jobs.get(unit).copied() else {
            return (Action::Nothing, Vec::new());
        };
        let activity = world.activity(unit);
        let action = match job.kind {
            JobType::VerifyActive => {
                let ending = if activity.is_active() {
                    Ending::Skipped
                } else {
                    Ending::Failed
                };
                return (Action::Nothing, self.end(unit, ending, world));
            }
            JobType::Restart if !activity.is_up() => {
                job.kind = JobType::Start;
                Action::Start
            }
            JobType::Reload if !activity.is_active() => {
                return (Action::Nothing, self.end(unit, Ending::Failed, world));
            }
            kind if kind != JobType::Restart && is_redundant(kind, activity) => {
                return (Action::Nothing, self.end(unit, Ending::Skipped, world));
            }
            JobType::Start => Action::Start,
            JobType::Stop | JobType::Restart => Action::Stop,
            JobType::Reload => Action::Reload,
        };
        job.progress = Progress::Running;
        self.put(unit, job);
        (action, Vec::new())
    }

    /// A job that was begun and can't be done now waits again.
    pub fn put_back(&mut self, unit: &UnitName) {
        if let Some(mut job) = self.jobs.get(unit).copied() {
            job.progress = Progress::Waiting;
            self.put(unit, job);
        }
    }

    /// The job of a unit has ended. Jobs that need it fail with it; a restart whose stop is done
    /// becomes a start.
    pub fn end(&mut self, unit: &UnitName, ending: Ending, world: &dyn World) -> Vec<Ended> {
        if let Some(mut job) = self.jobs.get(unit).copied()
            && job.kind == JobType::Restart
            && job.progress == Progress::Running
            && !ending.is_failure()
        {
            (job.kind, job.progress) = (JobType::Start, Progress::Waiting);
            self.put(unit, job);
            return Vec::new();
        }
        let mut all = Vec::new();
        let mut todo = vec![(unit.clone(), ending)];
        while let Some((unit, ending)) = todo.pop() {
            let Some(ended) = self.remove(&unit, ending) else {
                continue;
            };
            if ending.is_failure() {
                let dependents = self.need(&ended, world);
                todo.extend(dependents.into_iter().map(|it| (it, Ending::Dependency)));
            }
            all.push(ended);
        }
        all
    }

    /// Calls a job off. What needs it fails.
    pub fn cancel(&mut self, unit: &UnitName, world: &dyn World) -> Vec<Ended> {
        self.end(unit, Ending::Cancelled, world)
    }

    /// The units with jobs that can't be done since this one failed: of a start those that require
    /// the unit, of a stop those that conflict with it.
    fn need(&self, ended: &Ended, world: &dyn World) -> Vec<UnitName> {
        let graph = world.graph();
        let kinds: &[Dependency] = match ended.kind {
            JobType::Start | JobType::VerifyActive | JobType::Restart => &[
                Dependency::Requires,
                Dependency::Requisite,
                Dependency::BindsTo,
            ],
            JobType::Stop => &[Dependency::Conflicts],
            JobType::Reload => &[],
        };
        let others = kinds
            .iter()
            .flat_map(|kind| graph.of_others(&ended.unit, *kind));
        let starts = |unit: &UnitName| {
            let kind = self.jobs.get(unit).map(|it| it.kind);
            matches!(kind, Some(JobType::Start | JobType::VerifyActive))
        };
        others.filter(starts).collect()
    }
}
