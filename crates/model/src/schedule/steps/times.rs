// SPDX-License-Identifier: Apache-2.0
//! Takes in the times that have come, the ends of other schedules, and boots of the node.

use super::{LATE, Other, SET_BACK, Sight, TIMES, skipped};
use crate::schedule::cron::Pattern;
use crate::schedule::spec::{Missed, Spec, When};
use crate::schedule::state::{Due, Entry, Followed, State, Trigger};
use crate::time::Timestamp;

/// The most ends of another schedule that wait for a run. Each is one, or is skipped with a line.
const OWED: u32 = 64;

/// Takes in what has become due. Answers when to look at the clock again.
pub(super) fn times(
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
        When::Boot => {
            let known = state.boot.replace(sight.boot().to_owned());
            let another = known.is_some_and(|known| known != sight.boot());
            if another && state.paused.is_none() && !spec.suspended {
                wanted(state, now, Trigger::Time);
            }
            None
        }
        When::Cron { pattern, zone } => {
            if state.paused.is_some() || spec.suspended {
                state.since = now;
                return None;
            }
            let pattern = Pattern::new(pattern, zone).ok()?;
            for _ in 0..TIMES {
                let next = pattern.after(state.since)?;
                if next > now {
                    return Some(next);
                }
                if now.since(next) > LATE {
                    let last = last(&pattern, state.since, now).unwrap_or(next);
                    missed(spec, state, last, now, entries);
                } else {
                    came(spec, state, next, now, entries);
                }
            }
            Some(now)
        }
        When::At(at) => {
            let going = state.due.is_some() || !state.runs.is_empty() || !state.jobs.is_empty();
            if state.done || state.paused.is_some() || spec.suspended || going {
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
            follow(spec, state, &other, *success, now);
            None
        }
    }
}

/// Each end of the other one is dealt with by itself, however quickly they came.
fn follow(spec: &Spec, state: &mut State, other: &Other, success: bool, now: Timestamp) {
    let seen = Followed {
        uid: other.uid,
        ended: other.ended,
        succeeded: other.succeeded,
    };
    let known = state.followed.replace(seen);
    if state.paused.is_some() || spec.suspended {
        state.owed = 0;
        return;
    }
    let count = |it: &Followed| match success {
        true => it.succeeded,
        false => it.ended,
    };
    let fresh = known.map_or(0, |known| match known.uid == seen.uid {
        true => count(&seen).saturating_sub(count(&known)),
        // It was made anew: all of it is.
        false => count(&seen),
    });
    let fresh = u32::try_from(fresh).unwrap_or(u32::MAX);
    state.owed = state.owed.saturating_add(fresh).min(OWED);
    if state.owed > 0 && state.due.is_none() {
        state.owed -= 1;
        // It waits as long as a restart would: two that follow each other must not spin.
        state.want(now, Trigger::After, 0);
    }
}

/// A time that has come, just now or while the daemon didn't look.
fn came(spec: &Spec, state: &mut State, time: Timestamp, now: Timestamp, entries: &mut Vec<Entry>) {
    if now.since(time) <= LATE {
        state.since = time;
        wanted(state, time, Trigger::Time);
        return;
    }
    missed(spec, state, time, now, entries);
}

/// The last time of a pattern up to now, where there is one after `since`. Times are of whole
/// seconds.
fn last(pattern: &Pattern, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let comes = |at: u64| pattern.after(Timestamp(at)).filter(|time| *time <= now);
    let (mut some, mut none) = (since.0, now.0);
    comes(some)?;
    while none.saturating_sub(some) > 1_000_000_000 {
        let middle = some + (none - some) / 2;
        match comes(middle) {
            Some(_) => some = middle,
            None => none = middle,
        }
    }
    comes(some)
}

/// Times have passed while the daemon didn't look, `time` the last of them: one run, or none, for
/// all.
fn missed(
    spec: &Spec,
    state: &mut State,
    time: Timestamp,
    now: Timestamp,
    entries: &mut Vec<Entry>,
) {
    state.since = now;
    let late = spec
        .start_within
        .is_some_and(|within| now.since(time) > within);
    match spec.missed() {
        Missed::RunOnce if !late => wanted(state, time, Trigger::Missed),
        Missed::Skip | Missed::RunOnce => {
            let words = "no daemon ran when its time came".to_owned();
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
