// SPDX-License-Identifier: Apache-2.0
//! The end of a cell, as a pure state machine: events go in, effects come out. `runtime` carries
//! the effects out and reports their results as events. The executables in the cell have machines
//! of their own ([`super::executable`]).
//!
//! ```text
//!          Stop                 all in it ended            Stored
//!  LIVES ───────► EMPTYING ─────────────────────► STORING ────────► LEAVING
//!    │               │                             ▲    │ the init      │ InitEnded
//!    │ Lost,         │ Lost, InitEnded             │    │ has ended     ▼
//!    │ InitEnded     ▼                             │    └──────────► REMOVING
//!    └───────────► LOST ───────────────────────────┘                    │ Removed
//!                    all in it ended, and its init                      ▼
//!                                                   OVER ◄──── ACKNOWLEDGING
//!                                                      Acknowledged
//! ```
//!
//! The end is stored before the cell-init, which keeps the cell's record, gets the request to end:
//! the next daemon finds one or the other. The cell's name is freed last, and callers that wait get
//! their answer then.

use std::time::Duration;

use super::Event as Life;

/// The objects of a cell that have not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Executables and nested cells.
    Both,
    /// Executables alone.
    Executables,
    /// Nested cells alone.
    Nested,
    /// No object: all have ended.
    Nothing,
}

impl Left {
    fn without_executables(self) -> Self {
        match self {
            Left::Both | Left::Nested => Left::Nested,
            Left::Executables | Left::Nothing => Left::Nothing,
        }
    }

    fn without_nested(self) -> Self {
        match self {
            Left::Both | Left::Executables => Left::Executables,
            Left::Nested | Left::Nothing => Left::Nothing,
        }
    }

    fn has_nested(self) -> bool {
        matches!(self, Left::Both | Left::Nested)
    }
}

/// Whether the cell-init's process has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Init {
    /// It runs, as far as is known.
    Alive,
    /// It has ended.
    Gone,
}

/// The state of a cell's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Teardown {
    /// The cell isn't ending.
    Lives,
    /// It was asked to end; its objects are ending.
    Emptying(Left),
    /// Its init was lost; its objects are killed.
    Lost(Left, Init),
    /// Its end is being stored, with the event that caused it.
    Storing(Life, Init),
    /// Its init has got the request to end.
    Leaving(Life),
    /// Its group is being removed.
    Removing(Life),
    /// The end of its init is being acknowledged.
    Acknowledging(Life),
    /// Nothing of it is left.
    Over,
}

/// An event in the end of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It is asked to end.
    Stop {
        /// The grace of its objects; `None`: each spec's own.
        grace: Option<Duration>,
    },
    /// The connection to its init is lost.
    Lost,
    /// Its init has ended.
    InitEnded,
    /// No executable runs or starts in it.
    ExecutablesEnded,
    /// No cell is in it.
    NestedEnded,
    /// Its end is stored, or can't be.
    Stored,
    /// Its group is gone, or can't be removed.
    Removed,
    /// The end of its init is acknowledged.
    Acknowledged,
}

/// An effect to carry out, in the order given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Let nothing new begin in it; a new cell of its name waits for its end.
    Close,
    /// Publish that it is stopping.
    Announce,
    /// Ask its executables to end.
    StopExecutables {
        /// As in [`Event::Stop`].
        grace: Option<Duration>,
    },
    /// Ask the cells in it to end.
    StopNested {
        /// As in [`Event::Stop`].
        grace: Option<Duration>,
    },
    /// Kill its init and every process in its group; how they end isn't known.
    Kill,
    /// Store its end, with the event that caused it.
    Store(Life),
    /// Request its init to end.
    TellInit,
    /// Remove its group.
    RemoveGroup,
    /// Acknowledge the end of the init to node-init, which then forgets it.
    Acknowledge,
    /// Free its ids and its name and publish its end, with the event that caused it, in one step.
    Depart(Life),
}

impl Teardown {
    /// Whether it is ending: nothing new begins in it.
    #[must_use]
    pub fn has_begun(self) -> bool {
        self != Teardown::Lives
    }

    /// Whether its init has to end: then a closed connection is no loss.
    #[must_use]
    pub fn expects_silence(self) -> bool {
        match self {
            Teardown::Lives | Teardown::Emptying(..) => false,
            Teardown::Lost(..)
            | Teardown::Storing(..)
            | Teardown::Leaving(..)
            | Teardown::Removing(..)
            | Teardown::Acknowledging(..)
            | Teardown::Over => true,
        }
    }

    /// The state after an event, and the effects to carry out.
    #[must_use]
    pub fn after(self, event: Event) -> (Self, Vec<Effect>) {
        use Teardown::{Acknowledging, Emptying, Leaving, Lives, Lost, Over, Removing, Storing};
        match (self, event) {
            (Lives, Event::Stop { grace }) => {
                let left = Left::Both;
                let mut effects = vec![Effect::Close, Effect::Announce];
                effects.extend(stop(left, grace));
                (Emptying(left), effects)
            }
            (Emptying(left), Event::Stop { grace }) => (self, stop(left, grace)),
            (Lives, Event::Lost) => closed(lost(Left::Both, Init::Alive)),
            (Lives, Event::InitEnded) => closed(lost(Left::Both, Init::Gone)),
            (Emptying(left), Event::Lost) => lost(left, Init::Alive),
            (Emptying(left), Event::InitEnded) => lost(left, Init::Gone),
            (Emptying(left), Event::ExecutablesEnded) => empty(left.without_executables()),
            (Emptying(left), Event::NestedEnded) => empty(left.without_nested()),
            (Lost(left, _), Event::InitEnded) => killed(left, Init::Gone),
            (Lost(left, init), Event::ExecutablesEnded) => killed(left.without_executables(), init),
            (Lost(left, init), Event::NestedEnded) => killed(left.without_nested(), init),
            (Storing(end, _), Event::InitEnded) => {
                let init = Init::Gone;
                (Storing(end, init), Vec::new())
            }
            (Storing(end, init), Event::Stored) => match init {
                Init::Alive => (Leaving(end), vec![Effect::TellInit]),
                Init::Gone => (Removing(end), vec![Effect::RemoveGroup]),
            },
            (Leaving(end), Event::InitEnded) => (Removing(end), vec![Effect::RemoveGroup]),
            (Removing(end), Event::Removed) => (Acknowledging(end), vec![Effect::Acknowledge]),
            (Acknowledging(end), Event::Acknowledged) => (Over, vec![Effect::Depart(end)]),
            (Lives | Emptying(..) | Lost(..) | Storing(..) | Leaving(..), _)
            | (Removing(..) | Acknowledging(..) | Over, _) => (self, Vec::new()),
        }
    }
}

/// The first step of its end.
fn closed((next, mut effects): (Teardown, Vec<Effect>)) -> (Teardown, Vec<Effect>) {
    effects.insert(0, Effect::Close);
    (next, effects)
}

fn stop(left: Left, grace: Option<Duration>) -> Vec<Effect> {
    let mut effects = vec![Effect::StopExecutables { grace }];
    if left.has_nested() {
        effects.push(Effect::StopNested { grace });
    }
    effects
}

fn lost(left: Left, init: Init) -> (Teardown, Vec<Effect>) {
    let mut effects = Vec::new();
    if left.has_nested() {
        let grace = Some(Duration::ZERO);
        effects.push(Effect::StopNested { grace });
    }
    effects.push(Effect::Kill);
    (Teardown::Lost(left, init), effects)
}

fn empty(left: Left) -> (Teardown, Vec<Effect>) {
    match left {
        Left::Nothing => store(Life::Ended, Init::Alive),
        Left::Both | Left::Executables | Left::Nested => (Teardown::Emptying(left), Vec::new()),
    }
}

fn killed(left: Left, init: Init) -> (Teardown, Vec<Effect>) {
    match (left, init) {
        (Left::Nothing, Init::Gone) => store(Life::Lost, init),
        (Left::Both | Left::Executables | Left::Nested | Left::Nothing, _) => {
            (Teardown::Lost(left, init), Vec::new())
        }
    }
}

fn store(end: Life, init: Init) -> (Teardown, Vec<Effect>) {
    (Teardown::Storing(end, init), vec![Effect::Store(end)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STOP: Event = Event::Stop { grace: None };

    /// Around the machine: what it asked for happens, in any order.
    #[derive(Default)]
    struct World {
        to_come: Vec<Event>,
        done: Vec<(Effect, usize)>,
        told: Vec<Event>,
    }

    impl World {
        fn tell(&mut self, teardown: Teardown, event: Event) -> Teardown {
            self.told.push(event);
            let (next, effects) = teardown.after(event);
            for effect in effects {
                self.to_come.extend(match effect {
                    Effect::StopExecutables { .. } => vec![Event::ExecutablesEnded],
                    Effect::StopNested { .. } => vec![Event::NestedEnded],
                    Effect::Kill => vec![Event::InitEnded, Event::ExecutablesEnded],
                    Effect::Store(_) => vec![Event::Stored],
                    Effect::TellInit => vec![Event::InitEnded],
                    Effect::RemoveGroup => vec![Event::Removed],
                    Effect::Acknowledge => vec![Event::Acknowledged],
                    Effect::Close | Effect::Announce | Effect::Depart(_) => Vec::new(),
                });
                self.done.push((effect, self.told.len()));
            }
            next
        }

        /// After how many events something was done.
        fn at(&self, is_it: fn(&Effect) -> bool) -> Option<usize> {
            self.done.iter().position(|(effect, _)| is_it(effect))
        }

        fn was_told(&self, event: Event, before: usize) -> bool {
            self.told.iter().take(before).any(|told| *told == event)
        }

        fn check(&self) -> Result<(), TestCaseError> {
            for (effect, _) in &self.done {
                let same = self.done.iter().filter(|(done, _)| done == effect).count();
                let again = matches!(
                    effect,
                    Effect::StopExecutables { .. } | Effect::StopNested { .. }
                );
                prop_assert!(again || same == 1, "{effect:?} twice: {:?}", self.done);
            }
            let place = |is_it: fn(&Effect) -> bool| {
                let missing = || TestCaseError::fail(format!("missing in {:?}", self.done));
                self.at(is_it).ok_or_else(missing)
            };
            let stored = place(|e| matches!(e, Effect::Store(_)))?;
            let removed = place(|e| *e == Effect::RemoveGroup)?;
            let acknowledged = place(|e| *e == Effect::Acknowledge)?;
            let departed = place(|e| matches!(e, Effect::Depart(_)))?;
            prop_assert!(stored < acknowledged, "acknowledged before it is stored");
            prop_assert!(removed < departed && acknowledged < departed);
            prop_assert_eq!(departed + 1, self.done.len(), "nothing follows");
            let (_, when) = self.done[removed];
            prop_assert!(self.was_told(Event::InitEnded, when), "its init lived");
            let (_, when) = self.done[stored];
            prop_assert!(self.was_told(Event::ExecutablesEnded, when));
            prop_assert!(self.was_told(Event::NestedEnded, when));
            Ok(())
        }
    }

    fn begins() -> impl Strategy<Value = Event> {
        prop_oneof![Just(STOP), Just(Event::Lost), Just(Event::InitEnded)]
    }

    proptest! {
        #[test]
        fn a_cell_ends_once_whatever_the_order_of_what_happens(
            begins in proptest::collection::vec(begins(), 1..6),
            picks in proptest::collection::vec(any::<prop::sample::Index>(), 64),
        ) {
            let mut teardown = Teardown::Lives;
            let mut world = World { to_come: begins, ..World::default() };
            for pick in picks {
                if world.to_come.is_empty() {
                    break;
                }
                let event = world.to_come.remove(pick.index(world.to_come.len()));
                teardown = world.tell(teardown, event);
            }
            prop_assert!(world.to_come.is_empty(), "still to come: {:?}", world.to_come);
            prop_assert!(matches!(teardown, Teardown::Over), "{teardown:?}");
            world.check()?;
        }
    }

    #[test]
    fn an_init_that_ends_when_it_was_told_to_is_no_loss() {
        let mut world = World::default();
        let mut teardown = Teardown::Lives;
        for event in [STOP, Event::NestedEnded, Event::ExecutablesEnded] {
            assert!(!teardown.expects_silence());
            teardown = world.tell(teardown, event);
        }
        assert!(teardown.expects_silence());
        for event in [Event::Stored, Event::InitEnded, Event::Removed] {
            teardown = world.tell(teardown, event);
        }
        let (over, effects) = teardown.after(Event::Acknowledged);
        assert_eq!(over, Teardown::Over);
        assert_eq!(effects, [Effect::Depart(Life::Ended)]);
    }

    #[test]
    fn a_lost_cell_fails_and_is_stored_once_nothing_of_it_lives() {
        let (lost, effects) = Teardown::Lives.after(Event::Lost);
        assert!(effects.contains(&Effect::Kill));
        let (lost, _) = lost.after(Event::ExecutablesEnded);
        let (lost, effects) = lost.after(Event::NestedEnded);
        assert_eq!(effects, [], "its init lives");
        let (_, effects) = lost.after(Event::InitEnded);
        assert_eq!(effects, [Effect::Store(Life::Lost)]);
    }
}
