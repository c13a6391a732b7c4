// SPDX-License-Identifier: Apache-2.0
//! What comes next for a schedule: of the wish, of what is known, of what is seen around it, and of
//! the time. Reads no clock and does nothing itself.

use std::time::Duration;

use super::cron::{self, Pattern};
use super::spec::{Lax, Missed, Need, Needed, Overlap, Spec, When};
use super::state::{Due, Entry, Outcome, Run, Shape, State, Stopping, Trigger};
use super::why::Why;
use crate::name::{Label, Uid};
use crate::time::Timestamp;

/// A time that was seen later than this was missed: nobody looked.
pub const LATE: Duration = Duration::from_secs(10);
/// A clock that was set back by more than that was set; by less, it was put right.
const SET_BACK: Duration = Duration::from_secs(60);
/// The most runs of one schedule at a time.
pub const MAX_RUNS: usize = 16;
/// Times that are taken in one step; more are the next one's.
const TIMES: usize = 16;

/// Another schedule, as far as one asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Other {
    /// Which.
    pub uid: Uid,
    /// Its last run that ended, and whether it succeeded.
    pub last: Option<(u64, bool)>,
    /// A run goes on; of a pod: it is ready.
    pub running: bool,
}

/// What is seen around a schedule.
pub trait Sight {
    /// Another schedule of the tenant.
    fn other(&self, name: &Label) -> Option<Other>;
    /// What is too busy for that, in words; `None`: there is room.
    fn busy(&self, lax: &Lax) -> Option<String>;
}

/// Something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Begin this run.
    Start(u64),
    /// End this run.
    Stop(u64),
}

/// What comes next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// In this order.
    pub effects: Vec<Effect>,
    /// For the history.
    pub entries: Vec<Entry>,
    /// Look again then; `None`: something must happen first.
    pub wake: Option<Timestamp>,
    /// Why there is no run, or what is going on.
    pub why: Why,
}

impl Step {
    fn of(why: Why, wake: Option<Timestamp>) -> Self {
        Self {
            effects: Vec::new(),
            entries: Vec::new(),
            wake,
            why,
        }
    }
}

/// Goes one step on. `state` is changed as if the effects were done.
pub fn advance(spec: &Spec, state: &mut State, sight: &impl Sight, now: Timestamp) -> Step {
    let mut entries = Vec::new();
    let next = times(spec, state, sight, now, &mut entries);
    let mut step = begin(spec, state, sight, now, &mut entries);
    step.entries = entries;
    // A run that goes on must not make a time late.
    step.wake = match (step.wake, next.filter(|_| state.paused.is_none())) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    for run in &state.runs {
        if run.stopping == Some(Stopping::Replaced) {
            step.effects.push(Effect::Stop(run.number));
        }
    }
    step
}

/// Takes in what has become due. Answers when to look at the clock again.
fn times(
    spec: &Spec,
    state: &mut State,
    sight: &impl Sight,
    now: Timestamp,
    entries: &mut Vec<Entry>,
) -> Option<Timestamp> {
    // The clock was set back: what comes by it again, comes again. Where it was put right by a
    // little, a time that has just come must not come twice.
    if state.since.since(now) > SET_BACK {
        state.since = now;
    }
    match &spec.when {
        When::Now | When::Lax(_) => None,
        When::Cron { pattern, zone } => {
            if state.paused.is_some() {
                state.since = now;
                return None;
            }
            let pattern = Pattern::new(pattern, zone).ok()?;
            for _ in 0..TIMES {
                let next = pattern.after(state.since)?;
                if next > now {
                    return Some(next);
                }
                came(spec, state, next, now, entries);
            }
            Some(now)
        }
        When::At(at) => {
            let going = state.due.is_some() || !state.runs.is_empty();
            if state.done || state.paused.is_some() || going {
                return None;
            }
            if *at > now {
                return Some(*at);
            }
            came(spec, state, *at, now, entries);
            state.done = state.due.is_none();
            None
        }
        When::After { schedule, success } => {
            let other = sight.other(schedule)?;
            let last = other.last.map_or(0, |(number, _)| number);
            let known = state.after.replace((other.uid, last));
            let fresh = known.is_some_and(|(uid, seen)| uid != other.uid || last > seen);
            let counts = other.last.is_some_and(|(_, it)| it || !success);
            if fresh && counts && state.paused.is_none() {
                // It waits as long as a restart would: two that follow each other must not spin.
                state.want(now, Trigger::After, 0);
            }
            None
        }
    }
}

/// A time that has come, just now or while nobody looked.
fn came(spec: &Spec, state: &mut State, time: Timestamp, now: Timestamp, entries: &mut Vec<Entry>) {
    if now.since(time) <= LATE {
        state.since = time;
        wanted(state, time, Trigger::Time);
        return;
    }
    // One for all that have passed.
    state.since = now;
    match spec.missed() {
        Missed::RunOnce => wanted(state, time, Trigger::Missed),
        Missed::Skip => {
            let words = "nobody was there when its time came".to_owned();
            let due = Due {
                at: time,
                by: Trigger::Missed,
                attempt: 0,
            };
            entries.push(skipped(due, words, now));
        }
    }
}

/// A new wish takes the place of one that was not begun, and waits for nothing that that one did.
fn wanted(state: &mut State, at: Timestamp, by: Trigger) {
    state.in_a_row = 0;
    state.held_until = None;
    state.want(at, by, 0);
}

fn skipped(due: Due, words: String, now: Timestamp) -> Entry {
    Entry {
        at: now,
        number: 0,
        by: due.by,
        due: due.at,
        began: None,
        outcome: Outcome::Skipped,
        words,
    }
}

/// Begins what is due, or says why not.
fn begin(
    spec: &Spec,
    state: &mut State,
    sight: &impl Sight,
    now: Timestamp,
    entries: &mut Vec<Entry>,
) -> Step {
    let Some(due) = state.due else {
        return Step::of(idle(spec, state), None);
    };
    if let Some(pause) = &state.paused
        && due.by != Trigger::Hand
    {
        return Step::of(Why::Paused(pause.clone()), None);
    }
    if let Some(run) = state.runs.first() {
        let number = run.number;
        let leaving = state.runs.iter().all(|run| run.stopping.is_some());
        match spec.overlap {
            Overlap::Allow if state.runs.len() < MAX_RUNS => {}
            _ if leaving => return Step::of(Why::Overlap(number), None),
            Overlap::Replace => {
                for run in &mut state.runs {
                    run.stopping.get_or_insert(Stopping::Replaced);
                }
                return Step::of(Why::Overlap(number), None);
            }
            Overlap::Forbid | Overlap::Allow => {
                state.due = None;
                entries.push(skipped(due, format!("run {number} still went on"), now));
                return Step::of(idle(spec, state), None);
            }
        }
    }
    if let Some((why, wake)) = gate(spec, state, sight, now) {
        return Step::of(why, wake);
    }
    start(spec, state, due, now)
}

fn start(spec: &Spec, state: &mut State, due: Due, now: Timestamp) -> Step {
    if let Some(limit) = spec.start_limit {
        state.starts.retain(|it| now.since(*it) < limit.within);
        let most = usize::try_from(limit.starts).unwrap_or(usize::MAX);
        if state.starts.len() >= most {
            state.limited = true;
            return Step::of(Why::StartLimit, None);
        }
        state.starts.push(now);
    }
    state.numbers = state.numbers.saturating_add(1);
    state.due = None;
    state.held_until = None;
    state.runs.push(Run {
        number: state.numbers,
        shape: Shape::of(&spec.work),
        due,
        began: None,
        stopping: None,
    });
    let mut step = Step::of(Why::Starting, None);
    step.effects.push(Effect::Start(state.numbers));
    step
}

/// What is in the way of a start, and when to look again.
fn gate(
    spec: &Spec,
    state: &State,
    sight: &impl Sight,
    now: Timestamp,
) -> Option<(Why, Option<Timestamp>)> {
    if state.limited {
        return Some((Why::StartLimit, None));
    }
    // A longer wait than the longest is of a clock that was set back.
    let holds = |until: &Timestamp| *until > now && until.since(now) <= spec.backoff.most();
    if let Some(until) = state.held_until.filter(holds) {
        let why = match &state.refusal {
            Some(refusal) => Why::Refused(refusal.clone(), Some(until)),
            None => Why::BackOff(until),
        };
        return Some((why, Some(until)));
    }
    let unmet = |need: &Need| Some((need.schedule.clone(), missing(need, sight)?));
    if let Some((name, words)) = spec.needs.iter().find_map(unmet) {
        return Some((Why::Dependency(name, words), None));
    }
    let When::Lax(lax) = &spec.when else {
        return None;
    };
    let soon = |seconds: u64| Some(Timestamp(now.0.saturating_add(seconds * 1_000_000_000)));
    if !within(lax, now) {
        return Some((Why::Window, soon(30)));
    }
    sight.busy(lax).map(|words| (Why::Pressure(words), soon(5)))
}

fn missing(need: &Need, sight: &impl Sight) -> Option<String> {
    let Some(other) = sight.other(&need.schedule) else {
        return Some("isn't there".to_owned());
    };
    match (need.state, other.last) {
        (Needed::Running, _) if other.running => None,
        (Needed::Running, _) => Some("doesn't run".to_owned()),
        (Needed::Succeeded, Some((_, true))) => None,
        (Needed::Succeeded, Some((_, false))) => Some("has failed".to_owned()),
        (Needed::Succeeded, None) => Some("has not ended yet".to_owned()),
    }
}

fn within(lax: &Lax, now: Timestamp) -> bool {
    let Some(window) = &lax.window else {
        return true;
    };
    let zone = cron::zone(&window.zone).ok();
    let minute = zone.and_then(|zone| cron::minute_of_day(now, &zone));
    let Some(minute) = minute else {
        return false;
    };
    match window.from < window.to {
        true => (window.from..window.to).contains(&minute),
        false => minute >= window.from || minute < window.to,
    }
}

/// Nothing is due: what goes on, or what it waits for.
fn idle(spec: &Spec, state: &State) -> Why {
    if state.runs.iter().any(|run| run.began.is_some()) {
        return Why::Running;
    }
    if !state.runs.is_empty() {
        return Why::Starting;
    }
    if let Some(pause) = &state.paused {
        return Why::Paused(pause.clone());
    }
    let done = || {
        let last = state.last.as_ref();
        let words = last.map_or("its time had passed", |last| last.words.as_str());
        Why::Done(last.is_some_and(|last| last.success), words.to_owned())
    };
    match &spec.when {
        When::Cron { pattern, zone } => {
            let pattern = Pattern::new(pattern, zone).ok();
            let next = pattern.and_then(|pattern| pattern.after(state.since));
            next.map_or_else(done, Why::Waiting)
        }
        When::At(at) if !state.done => Why::Waiting(*at),
        When::After { schedule, .. } => Why::After(schedule.clone()),
        When::Now | When::Lax(_) | When::At(_) => done(),
    }
}
