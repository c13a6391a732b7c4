// SPDX-License-Identifier: Apache-2.0
//! Jobs: so many runs must succeed, so many may fail, so many go on at a time. One that is due
//! begins as a run would, and begins runs until it is over. The rules are those of Kubernetes' Job.

use std::collections::BTreeSet;

use super::{Effect, Sight, Step, add, earlier, gate, idle, paused, skipped};
use crate::schedule::many::Job;
use crate::schedule::spec::{Overlap, Spec, When};
use crate::schedule::state::{
    Due, End, Entry, JobEnd, JobState, Outcome, Run, State, Stopping, Trigger,
};
use crate::schedule::why::Why;
use crate::time::Timestamp;

/// Jobs of one schedule that go on at a time.
const MAX_JOBS: usize = 16;
/// Starts that are on their way at a time; others follow them.
const STARTING: usize = 8;

/// What comes next of a schedule's jobs.
pub(super) fn step(
    spec: &Spec,
    job: &Job,
    state: &mut State,
    sight: &impl Sight,
    now: Timestamp,
    entries: &mut Vec<Entry>,
) -> Step {
    let pause = paused(spec, state, now);
    // What is to run once is stopped by its spec; of a cron, what goes on goes on.
    if spec.suspended && spec.when == When::Now {
        stop_runs(state, |_| true);
    }
    let mut wake = ends(spec, job, state, now, entries);
    let blocked = admit(spec, state, sight, now, entries);
    let mut step = Step::of(Why::Running, None);
    let held = pause.clone().filter(|_| spec.when == When::Now);
    let missing = match held {
        Some(_) => Vec::new(),
        None => missing(job, state),
    };
    let gated = match missing.is_empty() {
        true => None,
        false => gate(spec, state, sight, now),
    };
    if gated.is_none() {
        begin(spec, state, missing, now, &mut step);
    }
    if state.jobs.is_empty()
        && state.done
        && let Some(after) = job.remove_after
    {
        let ended = state.last.as_ref().map_or(now, |last| last.at);
        let goes = ended.0.saturating_add(nanos(after));
        match goes <= now.0 {
            true => step.effects.push(Effect::Leave),
            false => wake = earlier(wake, Some(Timestamp(goes))),
        }
    }
    let (why, again) = match (gated.or(blocked), pause) {
        (Some((why, again)), _) => (why, again),
        (None, Some(pause)) if state.runs.is_empty() && !state.done => (Why::Paused(pause), None),
        _ if !state.runs.is_empty() || state.jobs.is_empty() => (idle(spec, state), None),
        _ => (Why::Starting, None),
    };
    step.why = why;
    step.wake = earlier(step.wake, earlier(wake, again));
    step
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn stop_runs(state: &mut State, which: impl Fn(&Run) -> bool) {
    for run in state.runs.iter_mut().filter(|run| which(run)) {
        run.stopping.get_or_insert(Stopping::Surplus);
    }
}

/// A job that is due begins, or is skipped, or waits.
fn admit(
    spec: &Spec,
    state: &mut State,
    sight: &impl Sight,
    now: Timestamp,
    entries: &mut Vec<Entry>,
) -> Option<(Why, Option<Timestamp>)> {
    let due = state.due?;
    if let Some(pause) = paused(spec, state, now)
        && due.by != Trigger::Hand
    {
        return Some((Why::Paused(pause), None));
    }
    // Runs of a spec that isn't any more are on their way out.
    if let Some(run) = state.runs.iter().find(|run| run.job.is_none()) {
        return Some((Why::Overlap(run.number), None));
    }
    let busy = !state.jobs.is_empty() || !state.runs.is_empty();
    match spec.overlap {
        _ if !busy => {}
        Overlap::Allow if state.jobs.len() < MAX_JOBS => {}
        _ if state.jobs.is_empty() => {
            let run = state.runs.first().map_or(0, |run| run.number);
            return Some((Why::Overlap(run), None));
        }
        Overlap::Replace => {
            for job in &mut state.jobs {
                job.ends.get_or_insert(JobEnd::Replaced);
            }
            stop_runs(state, |_| true);
            let run = state.runs.first().map_or(0, |run| run.number);
            return Some((Why::Overlap(run), Some(now).filter(|_| run == 0)));
        }
        Overlap::Forbid | Overlap::Allow => {
            state.due = None;
            let number = state.jobs.first().map_or(0, |job| job.number);
            entries.push(skipped(due, format!("job {number} still went on"), now));
            return None;
        }
    }
    if let Some(blocked) = gate(spec, state, sight, now) {
        return Some(blocked);
    }
    state.due = None;
    state.job_numbers = state.job_numbers.saturating_add(1);
    state.jobs.push(JobState {
        number: state.job_numbers,
        due,
        began: now,
        succeeded: 0,
        failed: 0,
        done: BTreeSet::new(),
        losses: 0,
        lost_at: Timestamp::default(),
        ends: None,
    });
    None
}

/// Jobs that are over are told of. Answers when one has lasted too long.
fn ends(
    spec: &Spec,
    job: &Job,
    state: &mut State,
    now: Timestamp,
    entries: &mut Vec<Entry>,
) -> Option<Timestamp> {
    let mut wake = None;
    for i in (0..state.jobs.len()).rev() {
        let Some(at) = state.jobs.get_mut(i) else {
            continue;
        };
        if let Some(limit) = job.deadline {
            let end = at.began.0.saturating_add(nanos(limit));
            match end <= now.0 {
                true => {
                    let words = format!("lasted longer than its {} s", limit.as_secs());
                    at.ends.get_or_insert(JobEnd::Failed(words));
                }
                false => wake = earlier(wake, Some(Timestamp(end))),
            }
        }
        if at.failed > job.failures() {
            let words = format!("{} runs failed, at most {} may", at.failed, job.failures());
            at.ends.get_or_insert(JobEnd::Failed(words));
        }
        let (number, whole) = (at.number, is_whole(job, at));
        let goes_on = state.runs.iter().any(|run| run.job == Some(number));
        if (at.ends.is_some() || whole && job.completions.is_some()) && goes_on {
            stop_runs(state, |run| run.job == Some(number));
        } else if (at.ends.is_some() || whole) && !goes_on {
            let over = state.jobs.remove(i);
            entries.push(over_with(spec, job, state, &over, now));
        }
    }
    wake
}

/// Whether enough has succeeded.
fn is_whole(job: &Job, at: &JobState) -> bool {
    at.succeeded >= job.completions.unwrap_or(1)
}

fn over_with(spec: &Spec, job: &Job, state: &mut State, over: &JobState, now: Timestamp) -> Entry {
    let (outcome, words) = match &over.ends {
        None => {
            let wanted = job.completions.unwrap_or(1);
            let words = format!("{} of {wanted} succeeded", over.succeeded);
            (Outcome::Succeeded, words)
        }
        Some(JobEnd::Failed(words)) => (Outcome::Failed, words.clone()),
        Some(JobEnd::Replaced) => (Outcome::Stopped, "another one took its place".to_owned()),
    };
    let success = outcome == Outcome::Succeeded;
    state.last = Some(End {
        number: state.numbers,
        at: now,
        success,
        words: words.clone(),
    });
    state.count(success);
    state.held_until = None;
    state.in_a_row = 0;
    if spec.is_once() && state.due.is_none() && state.jobs.is_empty() {
        state.done = true;
    }
    Entry {
        at: now,
        number: 0,
        by: over.due.by,
        due: over.due.at,
        began: Some(over.began),
        outcome,
        words: format!("job {}: {words}", over.number),
    }
}

/// A run that is missing: of which job, why, with which index.
type Missing = (u64, Due, Option<u32>);

fn missing(job: &Job, state: &State) -> Vec<Missing> {
    let starting = state.runs.iter().filter(|run| run.began.is_none()).count();
    let mut all = Vec::new();
    for at in state.jobs.iter().filter(|at| at.ends.is_none()) {
        let own = state.runs.iter().filter(|run| run.job == Some(at.number));
        let taken: BTreeSet<u32> = own.clone().filter_map(|run| run.index).collect();
        let going = u32::try_from(own.count()).unwrap_or(u32::MAX);
        let wanted = match job.completions {
            Some(all) => all.saturating_sub(at.succeeded).min(job.parallelism()),
            None if at.succeeded > 0 => 0,
            None => job.parallelism(),
        };
        let mut indexes = (0..).filter(|it| !taken.contains(it) && !at.done.contains(it));
        for _ in going..wanted {
            let index = job.indexed.then(|| indexes.next()).flatten();
            all.push((at.number, at.due, index));
        }
    }
    all.truncate(STARTING.saturating_sub(starting));
    all
}

fn begin(spec: &Spec, state: &mut State, missing: Vec<Missing>, now: Timestamp, step: &mut Step) {
    for (job, due, index) in missing {
        if !add(spec, state, due, now) {
            step.wake = Some(now);
            return;
        }
        if let Some(run) = state.runs.last_mut() {
            (run.job, run.index) = (Some(job), index);
            step.effects.push(Effect::Start(run.number));
        }
    }
}
