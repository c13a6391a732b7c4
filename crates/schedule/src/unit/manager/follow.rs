// SPDX-License-Identifier: Apache-2.0
//! Jobs that no user asks for (`StopWhenUnneeded=`, `Upholds=`), and those that take too long
//! (`JobTimeoutSec=`, `JobRunningTimeoutSec=`). Who needs what is decided by `units::job::follow`.

use std::collections::BTreeMap;

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
    /// When jobs of a unit followed: `CLOCK_BOOTTIME`.
    times: BTreeMap<UnitName, Vec<u64>>,
    /// By the number of a job: since when it is there, and since when it is at work.
    jobs: BTreeMap<u64, (u64, Option<u64>)>,
}

impl Manager {
    /// Asks for what follows from how units are now.
    pub(super) fn look_for_followers(&mut self) {
        if !std::mem::take(&mut self.followed.moved) {
            return;
        }
        let has_job = |it: &UnitName| self.engine.job(it).is_some();
        let up = self.known.up();
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
                tracing::warn!(%unit, job = %kind, why, "it followed too often; it is left as it is");
                let words = format!("{why}: that came {BURST} times within {INTERVAL}");
                self.known.live_mut(&unit).words = words;
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

    /// Takes down since when jobs are there, and at work.
    pub(super) fn watch_jobs(&mut self) {
        let now = self.now().boot;
        let mut jobs = BTreeMap::new();
        for (_, job) in self.engine.jobs() {
            let (since, mut begun) = self
                .followed
                .jobs
                .get(&job.id)
                .copied()
                .unwrap_or((now, None));
            if job.progress == Progress::Running && begun.is_none() {
                begun = Some(now);
            }
            jobs.insert(job.id, (since, begun));
        }
        self.followed.jobs = jobs;
    }

    /// When a unit's job takes too long: `CLOCK_BOOTTIME`.
    fn job_deadline(&self, unit: &UnitName, id: u64) -> Option<u64> {
        let settings = &self.known.table.find(unit)?.unit.settings;
        let (since, begun) = *self.followed.jobs.get(&id)?;
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

    /// When the next job takes too long.
    pub(super) fn next_job_deadline(&self) -> Option<u64> {
        let jobs = self.engine.jobs();
        jobs.filter_map(|(unit, job)| self.job_deadline(unit, job.id))
            .min()
    }

    /// Gives up jobs that have taken too long. Their units stay as they are.
    pub(super) fn expire_jobs(&mut self) {
        let now = self.now().boot;
        let jobs = self.engine.jobs();
        let late = jobs.filter(|(unit, job)| {
            let at = self.job_deadline(unit, job.id);
            at.is_some_and(|at| at <= now)
        });
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
