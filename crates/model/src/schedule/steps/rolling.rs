// SPDX-License-Identifier: Apache-2.0
//! Replicas: as many as are wanted, each replaced when it ends; and all replaced, a few at a time,
//! when the work is another one. The arithmetic is that of Kubernetes' Deployment: never fewer
//! ready than `count - max_unavailable` by our doing, never more than `count + max_surge`.
//!
//! An old replica that ends while the new ones aren't ready yet is replaced by one of the last
//! template that was rolled out whole: a new template that doesn't work takes nothing away.

use super::{Effect, Sight, Step, add, earlier, gate, gate_of_old, paused, push};
use crate::schedule::many::Replicas;
use crate::schedule::spec::Spec;
use crate::schedule::state::{Due, Progress, Run, State, Stopping, Trigger};
use crate::schedule::why::Why;
use crate::time::Timestamp;

/// Starts that are on their way at a time; others follow them.
const STARTING: u32 = 8;

/// How many there are of what.
struct Count {
    new: u32,
    old: u32,
    /// New ones that are ready for long enough.
    new_ready: u32,
    old_ready: u32,
    /// Of the last template that was rolled out whole, where that is an older one.
    stable: u32,
    /// Being stopped, of older templates.
    leaving: u32,
    starting: u32,
}

fn number(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

fn counts(replicas: &Replicas, run: &Run, now: Timestamp) -> bool {
    let least = replicas.min_ready.unwrap_or_default();
    run.ready.is_some_and(|since| now.since(since) >= least)
}

impl Count {
    fn of(replicas: &Replicas, state: &State, now: Timestamp) -> Self {
        let among = |wanted: &dyn Fn(&Run) -> bool| {
            number(state.runs.iter().filter(|run| wanted(run)).count())
        };
        let new = |run: &Run| run.revision == state.revision;
        let stays = |run: &Run| run.stopping.is_none();
        let ready = |run: &Run| counts(replicas, run, now);
        Self {
            new: among(&|it| stays(it) && new(it)),
            old: among(&|it| stays(it) && !new(it)),
            new_ready: among(&|it| stays(it) && new(it) && ready(it)),
            old_ready: among(&|it| stays(it) && !new(it) && ready(it)),
            stable: among(&|it| stays(it) && !new(it) && Some(it.revision) == state.stable),
            leaving: among(&|it| !stays(it) && !new(it)),
            starting: among(&|it| it.began.is_none()),
        }
    }
}

/// What comes next of replicas.
pub(super) fn step(
    spec: &Spec,
    replicas: &Replicas,
    state: &mut State,
    sight: &impl Sight,
    now: Timestamp,
) -> Step {
    let pause = paused(spec, state, now);
    let held = replicas.hold;
    surplus(replicas, state, now);
    if pause.is_none() && !held {
        replace(replicas, state, now);
    }
    let (new, old) = match (&pause, held) {
        (Some(_), _) => (0, 0),
        (None, true) => match (missing_of_held(replicas, state, now), state.stable) {
            (many, Some(stable)) if stable == state.revision => (many, 0),
            (many, _) => (0, many),
        },
        (None, false) => missing(replicas, state, now),
    };
    // Of what holds the new template back, the old one knows nothing.
    let gated = match new {
        0 => None,
        _ => gate(spec, state, sight, now),
    };
    let old_gated = match old {
        0 => None,
        _ => gate_of_old(spec, state, sight, now),
    };
    let mut step = Step::of(Why::Running, old_gated.as_ref().and_then(|(_, wake)| *wake));
    if old_gated.is_none() {
        begin_old(state, old, now, &mut step);
    }
    if gated.is_none() {
        begin(spec, state, new, now, &mut step);
    }
    let blocked = gated.or(old_gated);
    let wake = progress(replicas, state, now);
    let whole = is_whole(replicas, state, now);
    step.wake = earlier(step.wake, earlier(wake, ready_soon(replicas, state, now)));
    step.why = match (blocked, pause) {
        (Some((why, wake)), _) => {
            step.wake = earlier(step.wake, wake);
            why
        }
        (None, Some(pause)) if !whole => Why::Paused(pause),
        _ => said(replicas, state, whole, now),
    };
    step
}

/// More than are wanted: those that are not ready go first, then the newest.
fn surplus(replicas: &Replicas, state: &mut State, now: Timestamp) {
    let count = Count::of(replicas, state, now);
    let current = state.revision;
    let over = count.new.saturating_sub(replicas.count);
    stop(state, over, Stopping::Surplus, |run| {
        (run.revision == current).then(|| (counts(replicas, run, now), u64::MAX - run.number))
    });
    state.old_wanted = state.old_wanted.min(replicas.count);
    if replicas.count == 0 {
        stop(state, count.old, Stopping::Surplus, |run| {
            (run.revision != current).then_some((false, run.number))
        });
    }
}

/// Stops so many of the runs that have a place in an order, the first first.
fn stop<K: Ord>(state: &mut State, many: u32, why: Stopping, order: impl Fn(&Run) -> Option<K>) {
    let many = usize::try_from(many).unwrap_or(usize::MAX);
    let stays = state.runs.iter().filter(|run| run.stopping.is_none());
    let mut all: Vec<_> = stays
        .filter_map(|run| Some((order(run)?, run.number)))
        .collect();
    all.sort();
    for (_, number) in all.into_iter().take(many) {
        if let Some(run) = state.run(number) {
            run.stopping = Some(why);
        }
    }
}

/// Stops old ones, as many as new ones make up for.
fn replace(replicas: &Replicas, state: &mut State, now: Timestamp) {
    let count = Count::of(replicas, state, now);
    if count.old == 0 {
        if count.leaving == 0 && count.new_ready >= replicas.count {
            state.old_wanted = 0;
        }
        return;
    }
    let current = state.revision;
    let old = |run: &Run| run.revision != current;
    if replicas.recreate {
        state.old_wanted = 0;
        return stop(state, count.old, Stopping::Replaced, |run| {
            old(run).then_some(run.number)
        });
    }
    let (may_miss, _) = replicas.bounds();
    let least = replicas.count.saturating_sub(may_miss);
    let new_unready = count.new - count.new_ready;
    let spare = (count.new + count.old)
        .saturating_sub(least)
        .saturating_sub(new_unready);
    // Those that aren't ready are no loss.
    let unready = spare.min(count.old - count.old_ready);
    let ready = (count.new_ready + count.old_ready)
        .saturating_sub(least)
        .min(count.old_ready)
        .min(spare - unready);
    stop(state, unready, Stopping::Replaced, |run| {
        (old(run) && !counts(replicas, run, now)).then_some(run.number)
    });
    stop(state, ready, Stopping::Replaced, |run| {
        (old(run) && counts(replicas, run, now)).then_some(run.number)
    });
    let stay = Count::of(replicas, state, now).stable;
    let stopped = count.stable.saturating_sub(stay);
    state.old_wanted = state.old_wanted.saturating_sub(stopped);
}

/// How many new ones, and ones of the last whole template, are to begin.
fn missing(replicas: &Replicas, state: &State, now: Timestamp) -> (u32, u32) {
    let count = Count::of(replicas, state, now);
    let room = STARTING.saturating_sub(count.starting);
    if replicas.recreate {
        let new = match count.old + count.leaving {
            0 => replicas.count.saturating_sub(count.new),
            _ => 0,
        };
        return (new.min(room), 0);
    }
    let old = match state.stable {
        Some(stable) if is_known(state, stable) && stable != state.revision => {
            state.old_wanted.saturating_sub(count.stable)
        }
        _ => 0,
    };
    let (_, surge) = replicas.bounds();
    let most = replicas.count.saturating_add(surge);
    let room_for_new = most.saturating_sub(count.new + count.old + old);
    let new = replicas.count.saturating_sub(count.new).min(room_for_new);
    let old = old.min(room);
    (new.min(room - old), old)
}

/// A rollout that is held: what there was is kept going.
fn missing_of_held(replicas: &Replicas, state: &mut State, now: Timestamp) -> u32 {
    let count = Count::of(replicas, state, now);
    let room = STARTING.saturating_sub(count.starting);
    match state.stable {
        None => 0,
        Some(stable) if stable == state.revision => {
            replicas.count.saturating_sub(count.new).min(room)
        }
        Some(stable) if !is_known(state, stable) => 0,
        Some(_) => {
            state.old_wanted = replicas.count.saturating_sub(count.new);
            state.old_wanted.saturating_sub(count.old).min(room)
        }
    }
}

/// Whether something can be begun by that template.
fn is_known(state: &State, revision: u64) -> bool {
    state.revisions.iter().any(|it| it.number == revision)
}

/// Others in the place of old ones that have ended. The start limit is of the new template.
fn begin_old(state: &mut State, many: u32, now: Timestamp, step: &mut Step) {
    let stable = state.stable.unwrap_or(state.revision);
    let shape = state.revisions.iter().find(|it| it.number == stable);
    let Some(shape) = shape.map(|it| it.shape.clone()) else {
        return;
    };
    for _ in 0..many {
        let due = Due {
            at: now,
            by: Trigger::Restart,
            attempt: 0,
        };
        push(state, shape.clone(), stable, due);
        step.effects.push(Effect::Start(state.numbers));
    }
}

fn begin(spec: &Spec, state: &mut State, many: u32, now: Timestamp, step: &mut Step) {
    for _ in 0..many {
        let due = state.due.take().unwrap_or(Due {
            at: now,
            by: Trigger::Declared,
            attempt: 0,
        });
        if !add(spec, state, due, now) {
            step.wake = Some(now);
            return;
        }
        step.effects.push(Effect::Start(state.numbers));
    }
}

fn is_whole(replicas: &Replicas, state: &State, now: Timestamp) -> bool {
    let count = Count::of(replicas, state, now);
    count.old + count.leaving == 0 && count.new == replicas.count && count.new_ready == count.new
}

/// Takes in how far it has come. Answers when it hangs.
fn progress(replicas: &Replicas, state: &mut State, now: Timestamp) -> Option<Timestamp> {
    if is_whole(replicas, state, now) {
        state.stable = Some(state.revision);
        state.old_wanted = 0;
        state.progress = None;
        state.in_a_row = 0;
        return None;
    }
    let count = Count::of(replicas, state, now);
    let old = count.old + count.leaving;
    // One that was whole and lost a replica is no rollout that could hang.
    let progress = state.progress.as_mut()?;
    if count.new_ready > progress.available || old < progress.old {
        *progress = Progress {
            at: now,
            available: count.new_ready,
            old,
            hangs: false,
        };
    }
    let end = progress.at.0.saturating_add(nanos(replicas.progress()));
    progress.hangs |= end <= now.0;
    (!progress.hangs).then_some(Timestamp(end))
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// When another one will have been ready for long enough.
fn ready_soon(replicas: &Replicas, state: &State, now: Timestamp) -> Option<Timestamp> {
    let least = nanos(replicas.min_ready?);
    let since = state.runs.iter().filter_map(|run| run.ready);
    let times = since.map(|since| Timestamp(since.0.saturating_add(least)));
    times.filter(|time| *time > now).min()
}

fn said(replicas: &Replicas, state: &State, whole: bool, now: Timestamp) -> Why {
    let count = Count::of(replicas, state, now);
    if whole {
        return Why::Running;
    }
    let (new, ready, wanted) = (count.new, count.new_ready, replicas.count);
    let mut words = format!("{ready} of {wanted} are ready");
    let old = count.old + count.leaving;
    if old > 0 {
        words = format!("{new} of {wanted} are new, {ready} of them ready; {old} old ones go on");
    }
    if replicas.hold && state.stable != Some(state.revision) {
        words = format!("its rollout is held: {words}");
    }
    match state.progress.is_some_and(|it| it.hangs) {
        true => Why::Hangs(format!("it makes no progress: {words}")),
        false => Why::Rolling(words),
    }
}
