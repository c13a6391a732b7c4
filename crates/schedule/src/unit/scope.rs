// SPDX-License-Identifier: Apache-2.0
//! The states of a scope (systemd.scope(5)): processes that another program has started, in a group
//! of their own. Pure: (state, event, time) to (state, effect), in systemd's words. The groups are
//! `runtime::scopes`'; `manager::scopes` does what is decided here.

use serde::{Deserialize, Serialize};
use units::job::Activity;

use super::steps::Outcome;
use super::steps::service::Start;

/// `SubState=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sub {
    #[default]
    Dead,
    /// Its group is being made.
    StartChown,
    Running,
    /// Who has made it doesn't look after it any more.
    Abandoned,
    StopSigterm,
    StopSigkill,
    Failed,
}

impl Sub {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::StartChown => "start-chown",
            Self::Running => "running",
            Self::Abandoned => "abandoned",
            Self::StopSigterm => "stop-sigterm",
            Self::StopSigkill => "stop-sigkill",
            Self::Failed => "failed",
        }
    }

    /// What becomes of a start.
    pub(crate) const fn start(self) -> Start {
        match self {
            Self::Dead | Self::Failed => Start::Now,
            Self::StartChown | Self::Running | Self::Abandoned => Start::Already,
            Self::StopSigterm | Self::StopSigkill => Start::Later,
        }
    }

    pub(crate) const fn activity(self) -> Activity {
        match self {
            Self::Dead => Activity::Inactive,
            Self::StartChown => Activity::Activating,
            Self::Running | Self::Abandoned => Activity::Active,
            Self::StopSigterm | Self::StopSigkill => Activity::Deactivating,
            Self::Failed => Activity::Failed,
        }
    }
}

/// How far a scope is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) sub: Sub,
    /// The folder of its group; empty: none was made.
    #[serde(default)]
    pub(crate) group: String,
    /// When it is too late for something: `CLOCK_BOOTTIME`.
    #[serde(default)]
    pub(crate) deadline: Option<u64>,
    #[serde(default)]
    pub(crate) result: Outcome,
}

/// What its files say, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// `TimeoutStopSec=`; `None`: for ever.
    pub(crate) stop: Option<u64>,
    /// `RuntimeMaxSec=`; `None`: for ever.
    pub(crate) longest: Option<u64>,
    /// `SendSIGKILL=`.
    pub(crate) kills: bool,
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It is begun.
    Start,
    /// Its processes are in this group.
    Made(String),
    /// They are not.
    NotMade,
    /// Nothing lives in its group.
    Empty,
    Stop,
    Abandon,
    /// Time has passed.
    Time,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Make the group and move the processes.
    Make,
    /// Wait until the group is empty.
    Watch,
    /// Ask its processes to end.
    Ask,
    /// End them.
    Kill,
    /// Remove the group.
    Remove,
}

/// The next state, and what follows.
pub(crate) fn advance(state: &mut State, rules: Rules, event: Event, now: u64) -> Option<Effect> {
    let after = |span: Option<u64>| span.map(|span| now.saturating_add(span));
    let stops = |state: &mut State, result: Outcome| {
        (state.sub, state.deadline, state.result) = (Sub::StopSigterm, after(rules.stop), result);
        Some(Effect::Ask)
    };
    let ends = |state: &mut State, result: Outcome| {
        state.deadline = None;
        state.result = result;
        state.sub = match result {
            Outcome::Success => Sub::Dead,
            _ => Sub::Failed,
        };
        Some(Effect::Remove)
    };
    match (event, state.sub) {
        (Event::Start, Sub::Dead | Sub::Failed) => {
            *state = State {
                sub: Sub::StartChown,
                ..State::default()
            };
            Some(Effect::Make)
        }
        (Event::Made(group), Sub::StartChown) => {
            (state.sub, state.group) = (Sub::Running, group);
            state.deadline = after(rules.longest);
            Some(Effect::Watch)
        }
        (Event::NotMade, Sub::StartChown) => {
            (state.sub, state.result) = (Sub::Failed, Outcome::Resources);
            None
        }
        (Event::Empty, Sub::Running | Sub::Abandoned | Sub::StopSigterm | Sub::StopSigkill) => {
            let result = state.result;
            ends(state, result)
        }
        (Event::Stop, Sub::Running | Sub::Abandoned) => {
            let result = state.result;
            stops(state, result)
        }
        (Event::Abandon, Sub::Running) => {
            state.sub = Sub::Abandoned;
            None
        }
        (Event::Time, Sub::Running | Sub::Abandoned) => stops(state, Outcome::Timeout),
        (Event::Time, Sub::StopSigterm) if rules.kills => {
            (state.sub, state.deadline) = (Sub::StopSigkill, after(rules.stop));
            state.result = Outcome::Timeout;
            Some(Effect::Kill)
        }
        (Event::Time, Sub::StopSigterm | Sub::StopSigkill) => {
            // What can't be ended is left where it is.
            (state.sub, state.deadline) = (Sub::Failed, None);
            state.result = Outcome::Timeout;
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        stop: Some(90),
        longest: None,
        kills: true,
    };

    fn through(events: &[(Event, u64)], rules: Rules) -> (State, Vec<Option<Effect>>) {
        let mut state = State::default();
        let effects = events
            .iter()
            .map(|(event, now)| advance(&mut state, rules, event.clone(), *now))
            .collect();
        (state, effects)
    }

    fn made() -> Event {
        Event::Made("/g".to_owned())
    }

    /// systemd.scope(5): a scope is up as long as a process lives in it.
    #[test]
    fn a_scope_ends_with_its_last_process() {
        let (state, effects) = through(&[(Event::Start, 0), (made(), 1), (Event::Empty, 2)], RULES);
        let wanted = [Effect::Make, Effect::Watch, Effect::Remove].map(Some);
        assert_eq!((state.sub, effects), (Sub::Dead, wanted.to_vec()));
    }

    #[test]
    fn a_stop_asks_and_then_kills() {
        let stopped = [(Event::Start, 0), (made(), 1), (Event::Stop, 10)];
        let (state, effects) = through(&stopped, RULES);
        assert_eq!((state.sub, state.deadline), (Sub::StopSigterm, Some(100)));
        assert_eq!(effects.last(), Some(&Some(Effect::Ask)));
        let mut late = stopped.to_vec();
        late.push((Event::Time, 100));
        let (state, effects) = through(&late, RULES);
        assert_eq!(
            (state.sub, effects[3]),
            (Sub::StopSigkill, Some(Effect::Kill))
        );
        late.push((Event::Empty, 101));
        let (state, _) = through(&late, RULES);
        assert_eq!((state.sub, state.result), (Sub::Failed, Outcome::Timeout));
        // SendSIGKILL=no (systemd.kill(5)).
        late.pop();
        let (state, effects) = through(
            &late,
            Rules {
                kills: false,
                ..RULES
            },
        );
        assert_eq!((state.sub, effects[3]), (Sub::Failed, None));
    }

    /// RuntimeMaxSec= (systemd.scope(5)).
    #[test]
    fn a_scope_runs_no_longer_than_it_may() {
        let rules = Rules {
            longest: Some(5),
            ..RULES
        };
        let (state, effects) = through(&[(Event::Start, 0), (made(), 1), (Event::Time, 6)], rules);
        assert_eq!(
            (state.sub, state.result),
            (Sub::StopSigterm, Outcome::Timeout)
        );
        assert_eq!(effects[2], Some(Effect::Ask));
    }

    #[test]
    fn one_whose_processes_have_gone_is_not_begun() {
        let (state, _) = through(&[(Event::Start, 0), (Event::NotMade, 1)], RULES);
        assert_eq!((state.sub, state.result), (Sub::Failed, Outcome::Resources));
    }

    #[test]
    fn an_abandoned_one_goes_on() {
        let (state, effects) = through(
            &[(Event::Start, 0), (made(), 1), (Event::Abandon, 2)],
            RULES,
        );
        assert_eq!((state.sub, effects[2]), (Sub::Abandoned, None));
        assert!(state.sub.activity().is_active());
    }
}
