// SPDX-License-Identifier: Apache-2.0
//! A socket unit: (state, event) to (state, effects), as systemd.socket(5) has it.
//!
//! ```text
//! dead ─► start-pre ─► start-chown ─► start-post ─► listening ◄──► running
//!  ▲ failed   │ a failure   │             │             │ stop       │
//!  │   ▲      │             └──────┬──────┘             │            │
//!  │   │      ▼                    ▼                    ▼            │
//!  └───┴─ final-sigterm ◄─ stop-post ◄─ stop-pre-sigterm ◄─ stop-pre ◄
//! ```
//! `start-chown` is the time in which descriptors are made. In `…-sigterm` a command is ended that
//! is no part of what goes on.

use serde::{Deserialize, Serialize};
use units::job::Activity;

use crate::unit::steps::service::Start;
use crate::unit::steps::{Outcome, Phase};

/// How far it is: `SubState=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sub {
    #[default]
    Dead,
    StartPre,
    StartChown,
    StartPost,
    Listening,
    Running,
    StopPre,
    StopPreSigterm,
    StopPost,
    FinalSigterm,
    Failed,
}

impl Sub {
    /// As `systemctl` prints it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::StartPre => "start-pre",
            Self::StartChown => "start-chown",
            Self::StartPost => "start-post",
            Self::Listening => "listening",
            Self::Running => "running",
            Self::StopPre => "stop-pre",
            Self::StopPreSigterm => "stop-pre-sigterm",
            Self::StopPost => "stop-post",
            Self::FinalSigterm => "final-sigterm",
            Self::Failed => "failed",
        }
    }

    /// What becomes of a start.
    pub(crate) const fn start(self) -> Start {
        match self.activity() {
            Activity::Inactive | Activity::Failed => Start::Now,
            Activity::Deactivating => Start::Later,
            _ => Start::Already,
        }
    }

    pub(crate) const fn activity(self) -> Activity {
        match self {
            Self::Dead => Activity::Inactive,
            Self::Failed => Activity::Failed,
            Self::StartPre | Self::StartChown | Self::StartPost => Activity::Activating,
            Self::Listening | Self::Running => Activity::Active,
            Self::StopPre | Self::StopPreSigterm | Self::StopPost | Self::FinalSigterm => {
                Activity::Deactivating
            }
        }
    }
}

/// All that is remembered of a socket unit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) sub: Sub,
    pub(crate) result: Outcome,
    /// When it was triggered within the limit's time: `CLOCK_BOOTTIME`.
    pub(crate) triggers: Vec<u64>,
    /// Connections that were accepted: the number of the next one's instance.
    pub(crate) accepted: u64,
}

/// What happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// It is to be started: its conditions hold.
    Start,
    /// It is to be stopped.
    Stop,
    /// A list of commands has come to its end.
    Done(Phase, Outcome),
    /// What it listens on is there, and kept.
    Opened,
    /// Something can't be had, or came too often.
    Failed(Outcome),
    /// A client connects, or writes.
    Incoming,
    /// Its service is up without its doing.
    Serves,
    /// Its service is down.
    Silent,
    /// What was to be ended has gone.
    Gone,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Run the commands of a list; answered by [`Event::Done`].
    Run(Phase),
    /// Make the descriptors; answered by [`Event::Opened`] or [`Event::Failed`].
    Open,
    /// Wait for a client to come.
    Watch,
    /// Wait no more for clients.
    Leave,
    /// Take in and throw away what waits, then watch.
    Flush,
    /// Start the service.
    Trigger,
    /// Close the descriptors.
    Close,
    /// End what commands run; answered by [`Event::Gone`].
    Cancel,
}

/// What decides for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    /// Whether a list has commands.
    pub(crate) has: &'a dyn Has,
    /// `FlushPending=`.
    pub(crate) flush: bool,
    /// `Accept=`.
    pub(crate) accept: bool,
}

/// Which lists of commands there are.
pub(crate) trait Has: std::fmt::Debug {
    fn has(&self, phase: Phase) -> bool;
}

/// Takes an event in.
pub(crate) fn advance(rules: Rules<'_>, state: &mut State, event: Event) -> Vec<Effect> {
    let mut turn = Turn {
        rules,
        state,
        effects: Vec::new(),
    };
    turn.take(event);
    turn.effects
}

struct Turn<'a> {
    rules: Rules<'a>,
    state: &'a mut State,
    effects: Vec<Effect>,
}

impl Turn<'_> {
    fn take(&mut self, event: Event) {
        match (self.state.sub, event) {
            (Sub::Dead | Sub::Failed, Event::Start) => {
                self.state.result = Outcome::Success;
                self.state.triggers.clear();
                self.run_or(Sub::StartPre, Phase::StartPre);
            }
            (_, Event::Stop) => self.stop(),
            (_, Event::Done(phase, outcome)) => self.done(phase, outcome),
            (Sub::StartChown, Event::Opened) => self.run_or(Sub::StartPost, Phase::StartPost),
            (
                Sub::StartChown | Sub::StartPost | Sub::Listening | Sub::Running,
                Event::Failed(it),
            ) => {
                self.put(it);
                self.leave();
            }
            (Sub::Listening, Event::Incoming) if self.rules.accept => {}
            (Sub::Listening, Event::Incoming) => {
                self.state.sub = Sub::Running;
                self.effects.push(Effect::Trigger);
            }
            (Sub::Listening, Event::Serves) if !self.rules.accept => {
                self.state.sub = Sub::Running;
                self.effects.push(Effect::Leave);
            }
            (Sub::Running, Event::Silent) => {
                self.state.sub = Sub::Listening;
                self.effects.push(match self.rules.flush {
                    true => Effect::Flush,
                    false => Effect::Watch,
                });
            }
            (Sub::StopPreSigterm, Event::Gone) => self.close(),
            (Sub::FinalSigterm, Event::Gone) => self.down(),
            _ => {}
        }
    }

    /// Begins a list of commands, or what follows where it is empty.
    fn run_or(&mut self, sub: Sub, phase: Phase) {
        self.state.sub = sub;
        match self.rules.has.has(phase) {
            true => self.effects.push(Effect::Run(phase)),
            false => self.done(phase, Outcome::Success),
        }
    }

    fn done(&mut self, phase: Phase, outcome: Outcome) {
        let failed = outcome != Outcome::Success;
        match (self.state.sub, phase) {
            // systemd: what its first commands have failed in has no second ones.
            (Sub::StartPre, Phase::StartPre) if failed => {
                self.put(outcome);
                self.down();
            }
            (Sub::StartPre, Phase::StartPre) => {
                self.state.sub = Sub::StartChown;
                self.effects.push(Effect::Open);
            }
            (Sub::StartPost, Phase::StartPost) if failed => {
                self.put(outcome);
                self.leave();
            }
            (Sub::StartPost, Phase::StartPost) => {
                self.state.sub = Sub::Listening;
                self.effects.push(Effect::Watch);
            }
            (Sub::StopPre, Phase::Stop) => {
                self.put(outcome);
                self.close();
            }
            (Sub::StopPost, Phase::StopPost) => {
                self.put(outcome);
                self.down();
            }
            _ => {}
        }
    }

    fn stop(&mut self) {
        match self.state.sub {
            Sub::Listening | Sub::Running => self.leave(),
            Sub::StartPre => {
                self.state.sub = Sub::FinalSigterm;
                self.effects.push(Effect::Cancel);
            }
            Sub::StartChown | Sub::StartPost => {
                self.state.sub = Sub::StopPreSigterm;
                self.effects.push(Effect::Cancel);
            }
            _ => {}
        }
    }

    /// It listens no more.
    fn leave(&mut self) {
        self.effects.push(Effect::Leave);
        self.run_or(Sub::StopPre, Phase::Stop);
    }

    fn close(&mut self) {
        self.effects.push(Effect::Close);
        self.run_or(Sub::StopPost, Phase::StopPost);
    }

    fn down(&mut self) {
        self.effects.push(Effect::Close);
        self.state.sub = match self.state.result.is_failure() {
            true => Sub::Failed,
            false => Sub::Dead,
        };
    }

    /// The first failure is the one that counts.
    fn put(&mut self, outcome: Outcome) {
        if self.state.result == Outcome::Success {
            self.state.result = outcome;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct All(bool);

    impl Has for All {
        fn has(&self, _: Phase) -> bool {
            self.0
        }
    }

    /// Plays events, and says which states and effects came of them.
    fn play(has: bool, flush: bool, accept: bool, events: &[Event]) -> Vec<(Sub, Vec<Effect>)> {
        let has = All(has);
        let rules = Rules {
            has: &has,
            flush,
            accept,
        };
        let mut state = State::default();
        let step = |event: &Event| {
            let effects = advance(rules, &mut state, *event);
            (state.sub, effects)
        };
        events.iter().map(step).collect()
    }

    #[test]
    fn a_socket_listens_runs_and_listens_again() {
        let played = play(
            false,
            false,
            false,
            &[
                Event::Start,
                Event::Opened,
                Event::Incoming,
                // A second look at the same connection is nothing new.
                Event::Incoming,
                Event::Silent,
                Event::Serves,
                Event::Stop,
            ],
        );
        assert_eq!(
            played,
            [
                (Sub::StartChown, vec![Effect::Open]),
                (Sub::Listening, vec![Effect::Watch]),
                (Sub::Running, vec![Effect::Trigger]),
                (Sub::Running, vec![]),
                (Sub::Listening, vec![Effect::Watch]),
                (Sub::Running, vec![Effect::Leave]),
                (Sub::Dead, vec![Effect::Leave, Effect::Close, Effect::Close]),
            ]
        );
    }

    #[test]
    fn commands_are_run_before_and_after_and_their_failure_ends_it() {
        let ok = Outcome::Success;
        let bad = Outcome::ExitCode;
        let played = play(
            true,
            true,
            false,
            &[
                Event::Start,
                Event::Done(Phase::StartPre, ok),
                Event::Opened,
                Event::Done(Phase::StartPost, bad),
                Event::Done(Phase::Stop, ok),
                Event::Done(Phase::StopPost, ok),
                Event::Start,
                Event::Stop,
                Event::Gone,
            ],
        );
        assert_eq!(
            played,
            [
                (Sub::StartPre, vec![Effect::Run(Phase::StartPre)]),
                (Sub::StartChown, vec![Effect::Open]),
                (Sub::StartPost, vec![Effect::Run(Phase::StartPost)]),
                (Sub::StopPre, vec![Effect::Leave, Effect::Run(Phase::Stop)]),
                (
                    Sub::StopPost,
                    vec![Effect::Close, Effect::Run(Phase::StopPost)]
                ),
                (Sub::Failed, vec![Effect::Close]),
                (Sub::StartPre, vec![Effect::Run(Phase::StartPre)]),
                (Sub::FinalSigterm, vec![Effect::Cancel]),
                (Sub::Dead, vec![Effect::Close]),
            ]
        );
    }

    #[test]
    fn what_can_not_be_opened_or_comes_too_often_fails_it() {
        let limit = Event::Failed(Outcome::TriggerLimitHit);
        for events in [
            vec![Event::Start, Event::Failed(Outcome::Failure)],
            vec![Event::Start, Event::Opened, limit],
            vec![Event::Start, Event::Opened, Event::Incoming, limit],
        ] {
            let played = play(false, false, false, &events);
            let (sub, effects) = played.last().unwrap();
            assert_eq!(*sub, Sub::Failed, "{events:?}");
            assert!(effects.contains(&Effect::Close) && effects.contains(&Effect::Leave));
        }
    }

    #[test]
    fn pending_input_is_flushed_and_an_accepting_socket_keeps_listening() {
        let begun = [Event::Start, Event::Opened, Event::Incoming, Event::Silent];
        let played = play(false, true, false, &begun);
        assert_eq!(played.last().unwrap().1, [Effect::Flush]);
        let played = play(false, false, true, &begun);
        assert_eq!(played.last().unwrap(), &(Sub::Listening, vec![]));
    }
}
