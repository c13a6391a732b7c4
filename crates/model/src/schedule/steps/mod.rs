// SPDX-License-Identifier: Apache-2.0
//! What comes next for a schedule: of the wish, of what is known, of what is seen around it, and of
//! the time. Reads no clock and does nothing itself.

use std::time::Duration;

mod job;
mod rolling;
mod times;

use super::cron::{self, Pattern};
use super::given::{self, Config};
use super::spec::{Lax, Need, NeedOf, Needed, Overlap, Spec, When, Work};
use super::state::{Due, Entry, Outcome, Pause, Run, Shape, State, Stopping, Trigger};
use super::why::Why;
use crate::name::{Label, Uid};
use crate::time::Timestamp;

/// A time that was seen later than this was missed: the daemon didn't look.
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
    /// The schedule's uid.
    pub uid: Uid,
    /// How many of its runs have ended.
    pub ended: u64,
    /// How many of those succeeded.
    pub succeeded: u64,
    /// Whether the last one did; `None`: none has ended yet.
    pub last: Option<bool>,
    /// A run goes on; of a pod: it is ready.
    pub running: bool,
}

/// A unit of the machine, as far as a schedule that needs it looks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnitSeen {
    /// It is active.
    pub active: bool,
    /// It has done what it was started for, or failed; `None`: neither yet.
    pub succeeded: Option<bool>,
    /// What it is, in words: `is inactive`.
    pub is: String,
}

/// What is seen around a schedule.
pub trait Sight {
    /// Another schedule of the tenant.
    fn other(&self, name: &Label) -> Option<Other>;
    /// A unit of the machine; `None`: it isn't known yet.
    fn unit(&self, name: &str) -> Option<UnitSeen>;
    /// What is too busy for that, in words; `None`: there is room.
    fn busy(&self, lax: &Lax) -> Option<String>;
    /// Whether a run that has begun is as others may need it: of a pod, ready.
    fn ready(&self, run: &Run) -> bool;
    /// The last change of a config; `None`: it isn't there.
    fn config(&self, config: &Config) -> Option<u64>;
    /// The work of that revision, where it is the last one that was rolled out whole.
    fn stable(&self, revision: u64) -> Option<&Work>;
    /// Why what is so labelled, or made from that, may not run on this node, in words; and when to
    /// ask again, where that can change.
    fn elsewhere(&self, spec: &Spec) -> Option<(String, Option<Duration>)>;
    /// Another text for each boot of the node.
    fn boot(&self) -> &str;
}

/// Something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Begin this run.
    Start(u64),
    /// End this run.
    Stop(u64),
    /// Give this run the configs as they are now.
    Refresh(u64),
    /// Remove the schedule.
    Leave,
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
    look(state, sight, now);
    let next = times::times(spec, state, sight, now, &mut entries);
    let mut step = match (&spec.replicas, &spec.job) {
        (Some(replicas), _) => rolling::step(spec, replicas, state, sight, now),
        (None, Some(job)) => job::step(spec, job, state, sight, now, &mut entries),
        (None, None) => begin(spec, state, sight, now, &mut entries),
    };
    step.entries = entries;
    // A run that goes on must not make a time late.
    let next = next.filter(|_| state.paused.is_none() && !spec.suspended);
    step.wake = earlier(step.wake, next);
    // Another end of what is followed is next.
    if state.owed > 0 && state.due.is_none() {
        step.wake = Some(now);
    }
    for run in &state.runs {
        if matches!(run.stopping, Some(Stopping::Replaced | Stopping::Surplus)) {
            step.effects.push(Effect::Stop(run.number));
        }
    }
    refresh(spec, state, sight, &mut step);
    step
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Takes in which runs are ready.
fn look(state: &mut State, sight: &impl Sight, now: Timestamp) {
    for run in &mut state.runs {
        match run.began.is_some() && sight.ready(run) {
            true => drop(run.ready.get_or_insert(now)),
            false => run.ready = None,
        }
    }
}

/// The last change of what the work is given; `Err`: what is missing.
fn configs(work: &Work, sight: &impl Sight) -> Result<u64, Config> {
    let mut last = 0u64;
    for it in given::mentioned(work) {
        match sight.config(&it.config) {
            // Other than before whatever has changed, come or gone.
            Some(change) => last = last.wrapping_mul(31).wrapping_add(change) | 1,
            None if it.optional => {}
            None => return Err(it.config.clone()),
        }
    }
    Ok(last)
}

/// What was given to runs is brought up to date. Those of an older template have what they had.
fn refresh(spec: &Spec, state: &mut State, sight: &impl Sight, step: &mut Step) {
    let Ok(now) = configs(&spec.work, sight) else {
        return;
    };
    for run in &mut state.runs {
        let current = run.revision == state.revision && run.stopping.is_none();
        if current && run.began.is_some() && run.configs != now {
            run.configs = now;
            step.effects.push(Effect::Refresh(run.number));
        }
    }
}

/// Nothing may begin by itself.
fn paused(spec: &Spec, state: &State, now: Timestamp) -> Option<Pause> {
    let by_spec = || Pause {
        by: "its spec says that it is suspended".to_owned(),
        at: now,
    };
    let own = state.paused.clone();
    own.or_else(|| spec.suspended.then(by_spec))
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
    if let Some(pause) = paused(spec, state, now)
        && due.by != Trigger::Hand
    {
        return Step::of(Why::Paused(pause), None);
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

/// Adds a run, where the start limit allows one more.
fn start(spec: &Spec, state: &mut State, due: Due, now: Timestamp) -> Step {
    if !add(spec, state, due, now) {
        return Step::of(Why::StartLimit, None);
    }
    state.due = None;
    state.held_until = None;
    let mut step = Step::of(Why::Starting, None);
    step.effects.push(Effect::Start(state.numbers));
    step
}

/// See [`start`]; `false`: it does not.
fn add(spec: &Spec, state: &mut State, due: Due, now: Timestamp) -> bool {
    if let Some(limit) = spec.start_limit {
        state.starts.retain(|it| now.since(*it) < limit.within);
        let most = usize::try_from(limit.starts).unwrap_or(usize::MAX);
        if state.starts.len() >= most {
            state.limited = true;
            return false;
        }
        state.starts.push(now);
    }
    push(state, Shape::of(&spec.work), state.revision, due);
    true
}

fn push(state: &mut State, shape: Shape, revision: u64, due: Due) {
    state.numbers = state.numbers.saturating_add(1);
    let mut run = Run::new(state.numbers, shape, due);
    run.revision = revision;
    state.runs.push(run);
}

/// What is in the way of another replica by the last template that was rolled out whole: nothing
/// that the new one needs, or waits for.
fn gate_of_old(
    spec: &Spec,
    state: &State,
    sight: &impl Sight,
    now: Timestamp,
) -> Option<(Why, Option<Timestamp>)> {
    let holds = |until: &Timestamp| *until > now && until.since(now) <= spec.backoff.most();
    if let Some(until) = state.old_hold.until.filter(holds) {
        return Some((Why::BackOff(until), Some(until)));
    }
    let work = state.stable.and_then(|stable| sight.stable(stable))?;
    let config = configs(work, sight).err()?;
    let words = format!("is a {} that isn't there", config.kind.word());
    Some((Why::Dependency(config.name, words), None))
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
    if let Some((words, again)) = sight.elsewhere(spec) {
        let again = again.and_then(|it| u64::try_from(it.as_nanos()).ok());
        let again = again.map(|again| Timestamp(now.0.saturating_add(again)));
        return Some((Why::Elsewhere(words), again));
    }
    if let Err(config) = configs(&spec.work, sight) {
        let words = format!("is a {} that isn't there", config.kind.word());
        return Some((Why::Dependency(config.name, words), None));
    }
    if let Some(why) = spec.needs.iter().find_map(|need| unmet(need, sight)) {
        return Some((why, None));
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

fn unmet(need: &Need, sight: &impl Sight) -> Option<Why> {
    match &need.of {
        NeedOf::Schedule(name) => {
            let words = missing(need.state, sight.other(name))?;
            Some(Why::Dependency(name.clone(), words))
        }
        NeedOf::Unit(name) => {
            let words = missing_unit(need.state, sight.unit(name))?;
            Some(Why::Unit(name.clone(), words))
        }
    }
}

fn missing_unit(needed: Needed, unit: Option<UnitSeen>) -> Option<String> {
    let Some(unit) = unit else {
        return Some("isn't known yet".to_owned());
    };
    match (needed, unit.succeeded) {
        (Needed::Running, _) if unit.active => None,
        (Needed::Succeeded, Some(true)) => None,
        (Needed::Succeeded, Some(false)) => Some("has failed".to_owned()),
        (Needed::Running | Needed::Succeeded, _) => Some(unit.is),
    }
}

fn missing(needed: Needed, other: Option<Other>) -> Option<String> {
    let Some(other) = other else {
        return Some("isn't there".to_owned());
    };
    match (needed, other.last) {
        (Needed::Running, _) if other.running => None,
        (Needed::Running, _) => Some("doesn't run".to_owned()),
        (Needed::Succeeded, Some(true)) => None,
        (Needed::Succeeded, Some(false)) => Some("has failed".to_owned()),
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
        When::Boot if state.last.is_none() => {
            Why::Elsewhere("it runs after the node's next boot".to_owned())
        }
        When::Now | When::Lax(_) | When::At(_) | When::Boot => done(),
    }
}
