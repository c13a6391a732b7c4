// SPDX-License-Identifier: Apache-2.0
//! Jobs that no user asks for (`StopWhenUnneeded=`, `Upholds=`), and those that take too long
//! (`JobTimeoutSec=`, `JobRunningTimeoutSec=`). Who needs what is decided by `units::job::follow`.

use std::collections::{BTreeMap, BTreeSet};

use model::unit::JobMode;
use units::job::engine::{Ending, Progress};
use units::job::follow::{fallen, is_unneeded};
use units::job::{JobType, World};
use units::name::UnitName;
use units::time::Span;

use super::Manager;
use super::jobs::Wanted;
use crate::unit::steps::limit;
use crate::unit::steps::service::nanos;

/// A unit is started or stopped so often by what is upheld or needed, and within which time, as in
/// systemd: two units may undo each other's work for ever.
const BURST: u32 = 16;
const INTERVAL: Span = Span::from_secs(10);

/// What is remembered of jobs that follow, and of how long jobs take.
#[derive(Default)]
pub(super) struct Followed {
    /// A unit or a job is another than when it was looked last.
    pub(super) moved: bool,
    /// When is looked again at what followed too often: `CLOCK_BOOTTIME`.
    again: Option<u64>,
    /// When jobs of a unit followed: `CLOCK_BOOTTIME`.
    times: BTreeMap<UnitName, Vec<u64>>,
    /// The jobs that are there, by unit.
    jobs: BTreeMap<UnitName, Times>,
}

/// Since when a job is there, and how long it may be: `CLOCK_BOOTTIME`.
struct Times {
    id: u64,
    since: u64,
    /// Since when it is at work.
    begun: Option<u64>,
    /// When it has taken too long.
    deadline: Option<u64>,
}

impl Manager {
    /// Asks for what follows from how units are now.
    pub(super) fn look_for_followers(&mut self) {
        if !std::mem::take(&mut self.followed.moved) {
            return;
        }
        let has_job = |it: &UnitName| self.engine.job(it).is_some();
        // Few units look at others.
        let watchful = self.known.table.watchful().iter();
        let up = watchful.filter(|it| self.known.activity(it).is_up());
        let up: Vec<UnitName> = up.cloned().collect();
        let mut wanted: Vec<(UnitName, JobType, String)> = Vec::new();
        for unit in &up {
            if is_unneeded(&self.known, unit, &has_job) {
                let why = format!("no unit needs {unit} (StopWhenUnneeded=)");
                wanted.push((unit.clone(), JobType::Stop, why));
            }
            for other in fallen(&self.known, unit, &has_job) {
                wanted.push((other, JobType::Start, format!("{unit} upholds it")));
            }
        }
        let now = self.now().boot;
        for (unit, kind, why) in wanted {
            let times = self.followed.times.entry(unit.clone()).or_default();
            if !limit::take(times, now, INTERVAL, BURST) {
                tracing::warn!(%unit, job = %kind, why, "it followed too often; it is left for a while");
                let words = format!("{why}: that came {BURST} times within {INTERVAL}");
                self.known.live_mut(&unit).words = words;
                self.followed.again = nanos(INTERVAL).map(|it| now.saturating_add(it));
                continue;
            }
            self.wanted.push(Wanted {
                unit,
                kind,
                mode: JobMode::Fail,
                why,
            });
        }
    }

    /// Takes down since when the jobs of these units are there, and at work.
    pub(super) fn watch_jobs(&mut self, units: &BTreeSet<UnitName>) {
        let now = self.now().boot;
        for unit in units {
            let Some(job) = self.engine.job(unit) else {
                self.followed.jobs.remove(unit);
                continue;
            };
            let known = self.followed.jobs.get(unit).filter(|it| it.id == job.id);
            let (since, begun) = known.map_or((now, None), |it| (it.since, it.begun));
            let runs = job.progress == Progress::Running;
            let begun = begun.or(runs.then_some(now));
            let times = Times {
                id: job.id,
                since,
                begun,
                deadline: self.job_deadline(unit, since, begun),
            };
            self.followed.jobs.insert(unit.clone(), times);
        }
    }

    /// What files say of jobs' times may be something else.
    pub(super) fn watch_all_jobs(&mut self) {
        let units = self.engine.jobs().map(|(unit, _)| unit.clone()).collect();
        self.watch_jobs(&units);
    }

    /// When a unit's job takes too long: `CLOCK_BOOTTIME`.
    fn job_deadline(&self, unit: &UnitName, since: u64, begun: Option<u64>) -> Option<u64> {
        let settings = &self.known.table.find(unit)?.unit.settings;
        let span = |field: &str| {
            // systemd.unit(5): 0 is no end, as it is by default.
            let span = settings.span(field).filter(|it| *it != Span::ZERO);
            span.and_then(nanos)
        };
        let whole = span("JobTimeoutSec").map(|it| since.saturating_add(it));
        let at_work = begun.zip(span("JobRunningTimeoutSec"));
        let at_work = at_work.map(|(begun, it)| begun.saturating_add(it));
        [whole, at_work].into_iter().flatten().min()
    }

    /// When the next job takes too long, or what followed too often is looked at again.
    pub(super) fn next_job_deadline(&self) -> Option<u64> {
        let jobs = self.followed.jobs.values();
        let jobs = jobs.filter_map(|it| it.deadline);
        jobs.chain(self.followed.again).min()
    }

    /// Gives up jobs that have taken too long. Their units stay as they are.
    pub(super) fn expire_jobs(&mut self) {
        let now = self.now().boot;
        if self.followed.again.take_if(|at| *at <= now).is_some() {
            self.followed.moved = true;
        }
        let jobs = self.followed.jobs.iter();
        let late = jobs.filter(|(_, it)| it.deadline.is_some_and(|at| at <= now));
        let late: Vec<UnitName> = late.map(|(unit, _)| unit.clone()).collect();
        for unit in late {
            let Some(job) = self.engine.job(&unit) else {
                continue;
            };
            tracing::warn!(%unit, job = %job.kind, "a job took too long");
            self.known.live_mut(&unit).words = format!("its {} job took too long", job.kind);
            self.dirty.insert(unit.clone());
            self.end_job(&unit, Ending::TimedOut);
            self.act(&unit, "JobTimeoutAction");
        }
    }
}
