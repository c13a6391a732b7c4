// SPDX-License-Identifier: Apache-2.0
//! When a timer elapses next (systemd.timer(5)). Two clocks: the real one for calendars, and
//! `CLOCK_BOOTTIME` for spans since an event.

use serde::{Deserialize, Serialize};
use units::calendar::Zones;
use units::time::Span;
use units::unit::Unit;
use units::value::Clock;

/// A moment on both clocks, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Now {
    /// `CLOCK_REALTIME`.
    pub(crate) real: u64,
    /// `CLOCK_BOOTTIME`.
    pub(crate) boot: u64,
}

/// All that is remembered of a timer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    /// When it elapsed last: real time.
    pub(crate) last: Option<u64>,
    /// The same in this boot.
    pub(crate) last_boot: Option<u64>,
    /// It waits.
    pub(crate) active: bool,
    /// Since when: real time, and in this boot.
    pub(crate) since: u64,
    pub(crate) since_boot: u64,
    /// When it elapses next: real time, without and with its random delay …
    pub(crate) calendar: Option<u64>,
    pub(crate) next_real: Option<u64>,
    /// … or in this boot.
    pub(crate) next_boot: Option<u64>,
    /// It elapsed, and what it starts goes on.
    pub(crate) running: bool,
}

/// What a timer waits by.
#[derive(Clone, Debug)]
pub(crate) struct Rules<'a> {
    clocks: &'a [Clock],
    pub(crate) persistent: bool,
    delay: Span,
    fixed: bool,
    name: &'a str,
}

/// When the unit that it starts was last begun, and when it went down: `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Other {
    pub(crate) active: Option<u64>,
    pub(crate) inactive: Option<u64>,
    /// It is up, or about to be.
    pub(crate) up: bool,
}

impl<'a> Rules<'a> {
    pub(crate) fn of(unit: &'a Unit) -> Rules<'a> {
        let settings = &unit.settings;
        Rules {
            clocks: settings.clocks("Clocks"),
            persistent: settings.flag("Persistent").unwrap_or(false),
            delay: settings.span("RandomizedDelaySec").unwrap_or(Span::ZERO),
            fixed: settings.flag("FixedRandomDelay").unwrap_or(false),
            name: unit.id.as_str(),
        }
    }
}

/// Where the clock was set back, what was is not ahead: a timer would wait for that time.
pub(crate) fn not_ahead(state: &mut State, now: Now) {
    state.last = state.last.map(|at| at.min(now.real));
    state.since = state.since.min(now.real);
}

/// Decides anew when it elapses next. `random` is any number: a delay is made of it.
pub(crate) fn plan(
    rules: &Rules<'_>,
    state: &mut State,
    other: Other,
    zones: &dyn Zones,
    random: u64,
) {
    let calendar = calendar(rules, state, zones);
    // A delay is thrown once for each time.
    if calendar != state.calendar || state.next_real.is_none() {
        state.calendar = calendar;
        state.next_real = calendar.map(|at| at.saturating_add(delay(rules, random)));
    }
    let spans = rules
        .clocks
        .iter()
        .filter_map(|clock| after(clock, state, other));
    // A moment that has been is none again.
    let fresh = |at: &u64| state.last_boot.is_none_or(|last| *at > last);
    state.next_boot = spans
        .filter(fresh)
        .min()
        .map(|at| at.saturating_add(delay_of_span(rules, random)));
}

/// The first time of all calendars behind the last one.
fn calendar(rules: &Rules<'_>, state: &State, zones: &dyn Zones) -> Option<u64> {
    // systemd.timer(5), Persistent=: as if it had elapsed last when it did so last in any boot.
    let base = match (state.last, rules.persistent) {
        (Some(last), true) => last,
        (Some(last), false) => last.max(state.since),
        (None, _) => state.since,
    };
    let all = rules.clocks.iter().filter_map(|clock| match clock {
        Clock::Calendar(calendar) => {
            let next = calendar.next(i64::try_from(base / 1000).ok()?, zones)?;
            u64::try_from(next).ok()?.checked_mul(1000)
        }
        Clock::After(..) => None,
    });
    all.min()
}

/// When a span since an event ends.
fn after(clock: &Clock, state: &State, other: Other) -> Option<u64> {
    let Clock::After(event, span) = clock else {
        return None;
    };
    let base = match *event {
        "OnActiveSec" => state.since_boot,
        // The node's own start is not told from the machine's.
        "OnBootSec" | "OnStartupSec" => 0,
        "OnUnitActiveSec" => other.active.max(state.last_boot)?,
        "OnUnitInactiveSec" => other.inactive.filter(|_| !other.up)?,
        _ => return None,
    };
    Some(base.saturating_add(super::service::nanos(*span)?))
}

/// `RandomizedDelaySec=`, with `FixedRandomDelay=` always the same for a name. For `AccuracySec=`
/// nothing is added: to be on time is within it.
fn delay(rules: &Rules<'_>, random: u64) -> u64 {
    let most = super::service::nanos(rules.delay.max(Span::ZERO)).unwrap_or(0);
    let thrown = match rules.fixed {
        true => rules.name.bytes().fold(7_u64, |sum, byte| {
            sum.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(u64::from(byte))
        }),
        false => random,
    };
    match most {
        0 => 0,
        most => thrown % most,
    }
}

fn delay_of_span(rules: &Rules<'_>, random: u64) -> u64 {
    // Thrown once for the time that is waited for.
    match rules.delay == Span::ZERO {
        true => 0,
        false => delay(rules, random),
    }
}

/// Whether it elapses now, which is remembered.
pub(crate) fn elapse(state: &mut State, now: Now) -> bool {
    let real = state.next_real.is_some_and(|at| at <= now.real);
    let boot = state.next_boot.is_some_and(|at| at <= now.boot);
    if !state.active || !(real || boot) {
        return false;
    }
    elapsed(state, now);
    true
}

/// It elapses now, whatever it waits for.
pub(crate) fn elapsed(state: &mut State, now: Now) {
    state.last = Some(now.real);
    state.last_boot = Some(now.boot);
    (state.calendar, state.next_real, state.next_boot) = (None, None, None);
}
