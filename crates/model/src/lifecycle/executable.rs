// SPDX-License-Identifier: Apache-2.0
//! The end of an executable, as a pure state machine: events go in, effects come out. `runtime`
//! carries the effects out and reports their results as events.
//!
//! ```text
//!            Emptied                MainEnded
//!   RUNS ───────────────► VACATED ─────────────┐
//!    │                                         ▼
//!    ├─ MainEnded, alone ────────────► log open? ─ no ─► UNLOGGED
//!    │                                  ▲      │ yes        │ LogOpened
//!    └─ MainEnded, Lost ─► LEFTOVERS ───┘      ▼            ▼
//!                                Emptied   DRAINING ◄───────┘
//!                                              │ Drained
//!                          not kept            ▼
//!                 OVER ◄──────────────────── STORING ── NotStored ─► UNSTORED
//!                   ▲                          │                       │  ▲
//!                   └──────────────────────────┴─ Stored, LetGo ─────┘  └ NotStored
//! ```
//!
//! An event that can't follow (a second end, a second report of an empty group) changes nothing.
//! Until [`Effect::Acknowledge`] the cell-init keeps the end, so that the next daemon finds it.

use super::Event as Life;

/// Whether the log takes the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Log {
    /// It is being opened.
    Opening,
    /// It takes the output, or can't: the end needn't wait for it.
    Open,
}

/// The cause of the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Its main process ended.
    Ended,
    /// Its cell's init was lost: how the main process ended can't be known.
    Lost,
}

/// How long the record is retained once it has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retain {
    /// Its record, in the store.
    Record,
    /// Its record, until every attached client has got its end.
    UntilDetached,
    /// No record.
    Nothing,
}

/// The state of an executable's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Teardown {
    /// Its main process runs, as far as is known.
    Runs(Log),
    /// No process is in its group; the end of the main process was not reported yet.
    Vacated(Log),
    /// The main process has ended; its group is not known to be empty.
    Leftovers(Log, Cause),
    /// All has ended; the log is still being opened.
    Unlogged(Cause),
    /// The rest of the output is being stored.
    Draining(Cause),
    /// The end is being stored.
    Storing(Retain),
    /// The end is published, but the store doesn't take it: it is tried again.
    Unstored(Retain),
    /// Nothing is left to do.
    Over,
}

/// An event in the end of an executable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The log takes the output, or can't.
    LogOpened,
    /// The main process ended.
    MainEnded {
        /// No other process is in its group.
        alone: bool,
    },
    /// The cell's init was lost.
    Lost,
    /// No process is in its group.
    Emptied,
    /// The output is stored to its end.
    Drained(Retain),
    /// The end is stored.
    Stored,
    /// The store doesn't take the end now.
    NotStored,
    /// Its cell ends, which waits for no store: an end that wasn't taken is not tried again.
    LetGo,
}

/// An effect to carry out, in the order given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send the stop signal to the processes that the main process left, and kill them after the
    /// grace.
    StopRest,
    /// Kill the processes of the group, and wait until it is empty.
    Kill,
    /// Have the output stored to its end.
    Drain,
    /// Give the status its final state, which that event decides.
    Conclude(Life),
    /// Store the end.
    Store,
    /// Store the end, in a while.
    StoreLater,
    /// Acknowledge the end to the cell-init, which then forgets it.
    Acknowledge,
    /// Remove the group, unless a new run of the name has it: a new run may have it once the end is
    /// published.
    RemoveGroup,
    /// Publish the final state: the name is free, and watchers see it.
    Publish,
    /// Answer the callers that wait for the end.
    Answer,
    /// Forget the parts that are not kept.
    Forget(Retain),
}

impl Teardown {
    /// The first state, of an executable that was just started or adopted.
    pub const BEGIN: Self = Teardown::Runs(Log::Opening);

    /// The state after an event, and the effects to carry out.
    #[must_use]
    pub fn after(self, event: Event) -> (Self, Vec<Effect>) {
        use Teardown::{Draining, Leftovers, Runs, Storing, Unlogged, Unstored, Vacated};
        match (self, event) {
            (Runs(log), Event::MainEnded { alone: false }) => {
                let cause = Cause::Ended;
                (Leftovers(log, cause), vec![Effect::StopRest])
            }
            (Runs(log), Event::MainEnded { alone: true })
            | (Vacated(log), Event::MainEnded { .. }) => drain(log, Cause::Ended),
            (Runs(log), Event::Emptied) => (Vacated(log), Vec::new()),
            (Runs(log), Event::Lost) => {
                let cause = Cause::Lost;
                (Leftovers(log, cause), vec![Effect::Kill])
            }
            (Vacated(log), Event::Lost) => drain(log, Cause::Lost),
            (Leftovers(..), Event::Lost) => (self, vec![Effect::Kill]),
            (Leftovers(log, cause), Event::Emptied) => drain(log, cause),
            (_, Event::LogOpened) => self.logged(),
            (Draining(cause), Event::Drained(retain)) => conclude(cause, retain),
            (Storing(retain), Event::Stored) => (Teardown::Over, end(retain)),
            (Storing(retain), Event::NotStored) => {
                // Watchers need not wait for a broken store.
                let effects = vec![Effect::Publish, Effect::Answer, Effect::StoreLater];
                (Unstored(retain), effects)
            }
            (Unstored(..), Event::NotStored) => (self, vec![Effect::StoreLater]),
            (Unstored(..), Event::LetGo) => {
                // What was published is all that there is of it.
                let effects = vec![Effect::Acknowledge, Effect::RemoveGroup];
                (Teardown::Over, effects)
            }
            (Unstored(retain), Event::Stored) => {
                let effects = vec![
                    Effect::Acknowledge,
                    Effect::RemoveGroup,
                    Effect::Forget(retain),
                ];
                (Teardown::Over, effects)
            }
            (Runs(..) | Vacated(..) | Leftovers(..) | Unlogged(..) | Draining(..), _)
            | (Storing(..) | Unstored(..) | Teardown::Over, _) => (self, Vec::new()),
        }
    }

    fn logged(self) -> (Self, Vec<Effect>) {
        use Teardown::{Leftovers, Runs, Unlogged, Vacated};
        let log = Log::Open;
        match self {
            Runs(..) => (Runs(log), Vec::new()),
            Vacated(..) => (Vacated(log), Vec::new()),
            Leftovers(_, cause) => (Leftovers(log, cause), Vec::new()),
            Unlogged(cause) => drain(log, cause),
            Teardown::Draining(..)
            | Teardown::Storing(..)
            | Teardown::Unstored(..)
            | Teardown::Over => (self, Vec::new()),
        }
    }
}

/// All has ended; the output is complete where the log has it all.
fn drain(log: Log, cause: Cause) -> (Teardown, Vec<Effect>) {
    match log {
        Log::Open => (Teardown::Draining(cause), vec![Effect::Drain]),
        Log::Opening => (Teardown::Unlogged(cause), Vec::new()),
    }
}

fn conclude(cause: Cause, retain: Retain) -> (Teardown, Vec<Effect>) {
    let life = match cause {
        Cause::Ended => Life::Ended,
        Cause::Lost => Life::Lost,
    };
    let mut effects = vec![Effect::Conclude(life)];
    if retain == Retain::Nothing {
        effects.extend(end(retain));
        return (Teardown::Over, effects);
    }
    effects.push(Effect::Store);
    (Teardown::Storing(retain), effects)
}

/// The group is removed before the end is published.
fn end(retain: Retain) -> Vec<Effect> {
    vec![
        Effect::Acknowledge,
        Effect::RemoveGroup,
        Effect::Publish,
        Effect::Answer,
        Effect::Forget(retain),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::LogOpened),
            any::<bool>().prop_map(|alone| Event::MainEnded { alone }),
            Just(Event::Lost),
            Just(Event::Emptied),
        ]
    }

    fn retains() -> impl Strategy<Value = Retain> {
        prop_oneof![
            Just(Retain::Record),
            Just(Retain::UntilDetached),
            Just(Retain::Nothing)
        ]
    }

    /// Around the machine: what it asked for happens, in any order.
    struct World {
        teardown: Teardown,
        retain: Retain,
        failures: u8,
        to_come: Vec<Event>,
        done: Vec<Effect>,
    }

    impl World {
        fn tell(&mut self, event: Event) {
            let (teardown, effects) = self.teardown.after(event);
            self.teardown = teardown;
            for effect in &effects {
                match effect {
                    Effect::StopRest | Effect::Kill => self.to_come.push(Event::Emptied),
                    Effect::Drain => self.to_come.push(Event::Drained(self.retain)),
                    Effect::Store | Effect::StoreLater => {
                        let fails = self.failures > 0;
                        self.failures = self.failures.saturating_sub(1);
                        self.to_come.push(match fails {
                            true => Event::NotStored,
                            false => Event::Stored,
                        });
                    }
                    _ => {}
                }
            }
            self.done.extend(effects);
        }

        fn at(&self, effect: Effect) -> Option<usize> {
            self.done.iter().position(|done| *done == effect)
        }

        /// The ends of every order are these.
        fn check(&self) -> Result<(), TestCaseError> {
            prop_assert_eq!(self.teardown, Teardown::Over);
            for effect in &self.done {
                let count = self.done.iter().filter(|done| *done == effect).count();
                let again = matches!(effect, Effect::Kill | Effect::StoreLater);
                prop_assert!(again || count == 1, "{effect:?} twice: {:?}", self.done);
            }
            let place = |effect| {
                self.at(effect)
                    .ok_or_else(|| TestCaseError::fail(format!("no {effect:?} in {:?}", self.done)))
            };
            let acknowledged = place(Effect::Acknowledge)?;
            match self.retain {
                Retain::Nothing => prop_assert_eq!(self.at(Effect::Store), None),
                _ => prop_assert!(place(Effect::Store)? < acknowledged),
            }
            if let Some(again) = self.done.iter().rposition(|e| *e == Effect::StoreLater) {
                prop_assert!(again < acknowledged, "acknowledged before it was stored");
            }
            let published = place(Effect::Publish)?;
            let removed = place(Effect::RemoveGroup)?;
            let unstored = self.at(Effect::StoreLater).is_some();
            prop_assert!(unstored || removed < published, "the name wasn't free");
            prop_assert!(acknowledged < removed, "the next daemon needs it");
            prop_assert!(published < place(Effect::Answer)?);
            let concluded = self.at(Effect::Conclude(Life::Ended));
            let concluded = concluded.or(self.at(Effect::Conclude(Life::Lost)));
            prop_assert!(concluded.is_some_and(|at| at < published));
            prop_assert_eq!(self.done.last(), Some(&Effect::Forget(self.retain)));
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn an_executable_ends_once_whatever_the_order_of_what_happens(
            retain in retains(),
            failures in 0_u8..3,
            noise in proptest::collection::vec(events(), 0..8),
            picks in proptest::collection::vec(any::<prop::sample::Index>(), 64),
            lost in any::<bool>(),
            alone in any::<bool>(),
        ) {
            let end = if lost { Event::Lost } else { Event::MainEnded { alone } };
            let mut to_come = noise;
            to_come.extend([Event::LogOpened, end]);
            let mut world = World {
                teardown: Teardown::BEGIN, retain, failures, to_come, done: Vec::new(),
            };
            for pick in picks {
                if world.to_come.is_empty() {
                    break;
                }
                let event = world.to_come.remove(pick.index(world.to_come.len()));
                world.tell(event);
            }
            prop_assert!(world.to_come.is_empty(), "still to come: {:?}", world.to_come);
            world.check()?;
        }
    }

    #[test]
    fn the_end_waits_for_the_group_the_exit_and_the_log() {
        let all = [
            Event::Emptied,
            Event::MainEnded { alone: false },
            Event::LogOpened,
        ];
        for first in 0..3 {
            for second in (0..3).filter(|second| *second != first) {
                let last = 3 - first - second;
                let mut teardown = Teardown::BEGIN;
                for index in [first, second] {
                    let (next, effects) = teardown.after(all[index]);
                    assert!(!effects.contains(&Effect::Drain), "{teardown:?}");
                    teardown = next;
                }
                let (next, effects) = teardown.after(all[last]);
                let cause = Cause::Ended;
                assert_eq!(next, Teardown::Draining(cause), "{first} {second}");
                assert_eq!(effects, [Effect::Drain]);
            }
        }
    }

    #[test]
    fn a_store_that_takes_nothing_holds_up_the_acknowledgement_alone() {
        let storing = Teardown::Storing(Retain::Record);
        let (unstored, effects) = storing.after(Event::NotStored);
        assert!(effects.contains(&Effect::Answer) && !effects.contains(&Effect::Acknowledge));
        let (again, effects) = unstored.after(Event::NotStored);
        assert_eq!((again, effects), (unstored, vec![Effect::StoreLater]));
        let (over, effects) = again.after(Event::Stored);
        assert_eq!(over, Teardown::Over);
        assert_eq!(effects[0], Effect::Acknowledge);
    }

    #[test]
    fn a_cell_that_ends_waits_for_no_store() {
        let storing = Teardown::Storing(Retain::Record);
        // What is being stored is told within the store's own time.
        assert_eq!(storing.after(Event::LetGo), (storing, Vec::new()));
        let (unstored, _) = storing.after(Event::NotStored);
        let (over, effects) = unstored.after(Event::LetGo);
        assert_eq!(over, Teardown::Over);
        assert_eq!(effects, [Effect::Acknowledge, Effect::RemoveGroup]);
        assert_eq!(over.after(Event::Stored), (over, Vec::new()));
    }
}
