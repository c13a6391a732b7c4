// SPDX-License-Identifier: Apache-2.0
//! How an event changes what is known of a schedule. Pure.

use std::time::Duration;

use super::many::Replicas;
use super::spec::{Restart, Spec, When};
use super::state::{
    Due, End, Entry, Event, Hold, JobState, Outcome, Pause, Progress, Refusal, RefusalKind,
    Revision, Run, Shape, State, Stopping, Trigger,
};
use crate::time::Timestamp;

/// Runs of a job that go within that time go with the node together.
const TOGETHER: Duration = Duration::from_secs(10);
/// How often in a row the node may take runs of a job with it.
const LOSSES: u32 = 5;

impl State {
    /// Of a schedule that is declared now.
    pub fn new(spec: &Spec, now: Timestamp) -> Self {
        let mut state = Self {
            since: now,
            ..Self::default()
        };
        state.template(spec, now);
        if spec.replicas.is_some() {
            state.begin_progress(now);
        }
        state.begin(spec, now);
        state
    }

    /// What runs by itself is wanted.
    fn begin(&mut self, spec: &Spec, now: Timestamp) {
        self.done = false;
        let by_itself = matches!(spec.when, When::Now | When::Lax(_)) && spec.replicas.is_none();
        let idle = self.runs.is_empty() && self.jobs.is_empty() && self.due.is_none();
        if by_itself && idle {
            self.want(now, Trigger::Declared, 0);
        }
    }

    /// What runs are made by is another one from now on.
    fn template(&mut self, spec: &Spec, now: Timestamp) {
        self.revision = self.revision.saturating_add(1);
        let number = self.revision;
        self.revisions.push(Revision {
            number,
            at: now,
            shape: Shape::of(&spec.work),
        });
    }

    /// All replicas are to be replaced.
    fn roll(&mut self, spec: &Spec, replicas: &Replicas, now: Timestamp) {
        // Those that are gone back to. Of a rollout that isn't through, as many as before.
        if self.stable == Some(self.revision) {
            let stay = self.runs.iter().filter(|run| {
                let own = Some(run.revision) == self.stable;
                own && run.stopping.is_none()
            });
            self.old_wanted = u32::try_from(stay.count()).unwrap_or(u32::MAX);
        }
        self.old_wanted = self.old_wanted.min(replicas.count);
        self.template(spec, now);
        let most = usize::try_from(replicas.revisions()).unwrap_or(usize::MAX);
        let (current, stable) = (self.revision, self.stable);
        while self.revisions.len() > most.saturating_add(1) {
            // What replicas are begun by, and what they go back to, is kept, however old.
            let mut each = self.revisions.iter().map(|it| it.number);
            let goes = each.position(|number| number != current && Some(number) != stable);
            let Some(at) = goes else {
                break;
            };
            self.revisions.remove(at);
        }
    }

    pub(super) fn want(&mut self, at: Timestamp, by: Trigger, attempt: u32) {
        self.due = Some(Due { at, by, attempt });
    }

    /// What was held back is so no more.
    fn release(&mut self) {
        self.limited = false;
        self.starts.clear();
        self.held_until = None;
        self.in_a_row = 0;
        self.old_hold = Hold::default();
        self.refusal = None;
    }

    /// A replica of an older template: what becomes of it says nothing of the new one.
    fn is_old(&self, spec: &Spec, run: &Run) -> bool {
        spec.replicas.is_some() && run.revision != self.revision
    }

    /// Takes an event in. Returns a line of the history, where it makes one.
    pub fn happened(&mut self, spec: &Spec, event: Event, now: Timestamp) -> Option<Entry> {
        match event {
            Event::Began(number) => {
                let old = self
                    .runs
                    .iter()
                    .any(|run| run.number == number && self.is_old(spec, run));
                if !old {
                    self.refusal = None;
                }
                if let Some(run) = self.run(number) {
                    run.began.get_or_insert(now);
                }
                None
            }
            Event::NotBegun(number) => {
                let run = self.take(number)?;
                self.wanted_again(spec, &run);
                None
            }
            Event::Refused(number, kind, words) => self.refused(spec, number, kind, words, now),
            Event::Ended(number, success, words) => {
                let run = self.take(number)?;
                Some(self.ended(spec, &run, success, words, now))
            }
            Event::Lost(number) => {
                let run = self.take(number)?;
                Some(self.lost(spec, &run, now))
            }
            Event::NotRefreshed(number) => {
                self.run(number)?.configs = 0;
                None
            }
            asked => {
                self.asked(spec, asked, now);
                None
            }
        }
    }

    /// What users want of it, or what has come of that.
    fn asked(&mut self, spec: &Spec, event: Event, now: Timestamp) {
        match event {
            Event::Paused(by) => drop(self.paused.get_or_insert(Pause { by, at: now })),
            Event::Resumed => self.resumed(spec, now),
            Event::Triggered => self.triggered(spec, now),
            Event::Declared(work) => self.declared(spec, work, now),
            // What it has done stays done.
            Event::Adjusted => self.release(),
            Event::Removed(leaving) => self.leaving = Some(leaving),
            Event::NotRemoved(words) => {
                if let Some(leaving) = &mut self.leaving {
                    leaving.failed = Some(words);
                }
            }
            Event::StopAsked(number, by) => {
                let Some(run) = self.run(number) else {
                    return;
                };
                run.stopping = Some(Stopping::Hand);
                // The wish ends with the run; where there are to be more, only this one does.
                if spec.is_once() {
                    self.paused.get_or_insert(Pause { by, at: now });
                }
            }
            Event::StopFailed(number, by) => self.stop_failed(number, &by),
            // Those of runs are taken in by `happened`.
            Event::Began(_)
            | Event::NotBegun(_)
            | Event::Refused(..)
            | Event::Ended(..)
            | Event::Lost(_)
            | Event::NotRefreshed(_) => {}
        }
    }

    fn resumed(&mut self, spec: &Spec, now: Timestamp) {
        self.release();
        if self.leaving.take().is_some() {
            self.runs.iter_mut().for_each(|run| run.stopping = None);
        }
        if self.paused.take().is_some() {
            self.since = now;
        }
        // What has done its work stays done.
        let over = self.done && self.last.as_ref().is_some_and(|last| last.success);
        if !over {
            self.begin(spec, now);
        }
    }

    fn triggered(&mut self, spec: &Spec, now: Timestamp) {
        self.release();
        match &spec.replicas {
            // All of them anew, a few at a time.
            Some(replicas) => {
                self.paused = None;
                self.roll(spec, replicas, now);
                self.begin_progress(now);
            }
            None => self.want(now, Trigger::Hand, 0),
        }
    }

    fn declared(&mut self, spec: &Spec, work: bool, now: Timestamp) {
        self.release();
        self.since = now;
        self.due = None;
        self.owed = 0;
        self.followed = None;
        self.done = false;
        if self.leaving.take().is_some() {
            // The removal alone had them stopped.
            self.runs.iter_mut().for_each(|run| run.stopping = None);
        }
        if let Some(replicas) = &spec.replicas {
            self.jobs.clear();
            if work {
                self.roll(spec, replicas, now);
            }
            self.begin_progress(now);
            return;
        }
        self.progress = None;
        self.old_wanted = 0;
        self.stable = None;
        if work {
            self.template(spec, now);
            self.revisions = self
                .revisions
                .split_off(self.revisions.len().saturating_sub(1));
        }
        for run in &mut self.runs {
            // What is to run now runs as the new spec says.
            if spec.when == When::Now {
                run.stopping.get_or_insert(Stopping::Replaced);
            }
        }
        if spec.when == When::Now {
            self.jobs.clear();
        }
        if matches!(spec.when, When::Now | When::Lax(_)) {
            self.want(now, Trigger::Declared, 0);
        }
    }

    fn begin_progress(&mut self, now: Timestamp) {
        self.progress = Some(Progress {
            at: now,
            available: 0,
            old: u32::MAX,
            hangs: false,
        });
    }

    fn job(&mut self, run: &Run) -> Option<&mut JobState> {
        let number = run.job?;
        self.jobs.iter_mut().find(|job| job.number == number)
    }

    /// A start that came to nothing. Replicas and jobs count what they have.
    fn wanted_again(&mut self, spec: &Spec, run: &Run) {
        let counted = spec.replicas.is_some() || run.job.is_some();
        if run.stopping.is_none() && !counted {
            self.due.get_or_insert(run.due);
        }
    }

    fn stop_failed(&mut self, number: u64, by: &str) {
        if let Some(run) = self.run(number)
            && run.stopping == Some(Stopping::Hand)
        {
            run.stopping = None;
            self.paused.take_if(|pause| pause.by == by);
        }
    }

    pub(super) fn run(&mut self, number: u64) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.number == number)
    }

    fn take(&mut self, number: u64) -> Option<Run> {
        let at = self.runs.iter().position(|run| run.number == number)?;
        Some(self.runs.remove(at))
    }

    fn refused(
        &mut self,
        spec: &Spec,
        number: u64,
        kind: RefusalKind,
        words: String,
        now: Timestamp,
    ) -> Option<Entry> {
        let run = self.take(number)?;
        if kind == RefusalKind::Spec {
            return Some(self.ended(spec, &run, false, words, now));
        }
        if self.is_old(spec, &run) {
            self.hold_old(spec, now);
            return Some(entry(&run, Outcome::Refused, words, now));
        }
        let known = self.refusal.as_ref();
        let same = known.is_some_and(|it| it.kind == kind && it.words == words);
        self.hold(spec, now);
        // The start limit counts what has begun.
        self.starts.pop();
        self.wanted_again(spec, &run);
        if same {
            return None;
        }
        let entry = entry(&run, Outcome::Refused, words.clone(), now);
        self.refusal = Some(Refusal {
            kind,
            words,
            at: now,
        });
        Some(entry)
    }

    /// The next start waits.
    fn hold(&mut self, spec: &Spec, now: Timestamp) {
        let wait = spec.backoff.wait(self.in_a_row);
        self.in_a_row = self.in_a_row.saturating_add(1);
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.held_until = Some(Timestamp(now.0.saturating_add(wait)));
    }

    /// The next start of a replica of an older template waits.
    fn hold_old(&mut self, spec: &Spec, now: Timestamp) {
        let wait = spec.backoff.wait(self.old_hold.in_a_row);
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.old_hold = Hold {
            until: Some(Timestamp(now.0.saturating_add(wait))),
            in_a_row: self.old_hold.in_a_row.saturating_add(1),
        };
    }

    fn ended(
        &mut self,
        spec: &Spec,
        run: &Run,
        success: bool,
        words: String,
        now: Timestamp,
    ) -> Entry {
        // A job's end is told by the job.
        if run.job.is_none() {
            self.ends_with(run, success, &words, now);
            self.count(success && run.stopping.is_none());
        }
        let ran = run.began.map(|began| now.since(began)).unwrap_or_default();
        let old = self.is_old(spec, run);
        if ran >= spec.backoff.stable() {
            match old {
                true => self.old_hold.in_a_row = 0,
                false => self.in_a_row = 0,
            }
        }
        let again = match spec.restart {
            Restart::No => false,
            Restart::OnFailure => !success,
            Restart::Always => true,
        };
        let stopped = run.stopping.is_some();
        if run.job.is_some() {
            // One that was asked to end is no failure; what it has done all the same is done.
            if success || !stopped {
                self.ended_of_job(spec, run, success, now);
            }
        } else if stopped {
            // The next one is wanted already, or none is.
        } else if old {
            self.hold_old(spec, now);
        } else if spec.replicas.is_some() {
            // Another one is begun because one is missing.
            self.hold(spec, now);
        } else if again && self.due.is_none() {
            self.hold(spec, now);
            self.again(run, now);
        } else if spec.is_once() && self.due.is_none() && !ahead(spec, run) {
            self.done = true;
        }
        let outcome = match (stopped && !(success && run.job.is_some()), success) {
            (true, _) => Outcome::Stopped,
            (false, true) => Outcome::Succeeded,
            (false, false) => Outcome::Failed,
        };
        entry(run, outcome, words, now)
    }

    fn ends_with(&mut self, run: &Run, success: bool, words: &str, now: Timestamp) {
        self.last = Some(End {
            number: run.number,
            at: now,
            success,
            words: words.to_owned(),
        });
    }

    /// One more has ended, for those who follow.
    pub(super) fn count(&mut self, success: bool) {
        self.ended = self.ended.saturating_add(1);
        self.succeeded = self.succeeded.saturating_add(u64::from(success));
    }

    fn ended_of_job(&mut self, spec: &Spec, run: &Run, success: bool, now: Timestamp) {
        if let Some(job) = self.job(run) {
            match success {
                true => {
                    job.succeeded = job.succeeded.saturating_add(1);
                    job.done.extend(run.index);
                    job.losses = 0;
                }
                false => job.failed = job.failed.saturating_add(1),
            }
        }
        if !success {
            self.hold(spec, now);
        }
    }

    fn lost(&mut self, spec: &Spec, run: &Run, now: Timestamp) -> Entry {
        let words = "it went with the node".to_owned();
        if run.job.is_none() {
            self.ends_with(run, false, &words, now);
        }
        // Nothing of it is the workload's fault: at once.
        self.in_a_row = 0;
        self.held_until = None;
        self.old_hold = Hold::default();
        let counted = run.job.is_some() || spec.replicas.is_some();
        if !counted {
            self.count(false);
        }
        if let Some(job) = self.job(run) {
            lost_of_job(job, now);
        }
        if run.stopping.is_some() || counted {
            // No other one is wanted for it, or it is missed.
        } else if spec.restart == Restart::No {
            self.done = spec.is_once() && self.due.is_none() && !ahead(spec, run);
        } else if self.due.is_none() {
            self.again(run, now);
        }
        entry(run, Outcome::Lost, words, now)
    }

    /// Another run in the place of one. A clock that was set back brings no time back with it.
    fn again(&mut self, run: &Run, now: Timestamp) {
        let attempt = run.due.attempt.saturating_add(1);
        self.want(now.max(run.due.at), Trigger::Restart, attempt);
    }
}

/// Runs that went together are one loss. Where the node goes down again and again with nothing
/// done, that may be the work's doing: it counts as a failure.
fn lost_of_job(job: &mut JobState, now: Timestamp) {
    if job.losses > 0 && now.since(job.lost_at) < TOGETHER {
        return;
    }
    (job.losses, job.lost_at) = (job.losses.saturating_add(1), now);
    if job.losses > LOSSES {
        job.failed = job.failed.saturating_add(1);
    }
}

/// A run that a caller asked for, and those that follow it, take nothing away from the time that is
/// yet to come.
fn ahead(spec: &Spec, run: &Run) -> bool {
    matches!(spec.when, When::At(at) if run.due.at < at)
}

fn entry(run: &Run, outcome: Outcome, words: String, now: Timestamp) -> Entry {
    Entry {
        at: now,
        number: run.number,
        by: run.due.by,
        due: run.due.at,
        began: run.began,
        outcome,
        words,
    }
}
