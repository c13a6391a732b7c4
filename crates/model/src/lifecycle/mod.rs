// SPDX-License-Identifier: Apache-2.0
//! The states of cells and executables, as a pure state machine: which event may follow which
//! state. Effects are elsewhere: `runtime` asks here before it acts, and again with what happened.
//!
//! Both kinds have the same states; they differ in what makes them freeze and end.
//!
//! ```text
//!                      Started             Freeze
//!   (asked for)──► STARTING ───► RUNNING ◄────────► FROZEN
//!                   │    │        │   │     Thaw     │  │
//!             Stop  │    │        │   └──────┐       │  │ Stop
//!        ┌──────────┘    │  Stop  │   Ended  │ Ended │  │
//!        ▼               │        ▼          ▼       │  │
//!    STOPPING ◄──────────┼────────┘       EXITED ◄───┘  │
//!      │  ▲  │           │                 ▲            │
//!      │  │  └───────────┼─────────────────┘ Ended      │
//!      │  └──────────────┼──────────────────────────────┘
//!      │ Lost            │ Lost (from every state that is not final)
//!      └────────────►  FAILED
//! ```
//!
//! EXITED and FAILED are final: no event leads out of them. STOPPING stays STOPPING when the start
//! that was under way succeeds, when a second stop is asked for, and when the enclosing cell
//! freezes or thaws.
//!
//! [`executable`] and [`cell`] are the machines of the ends: in which order what is stored,
//! acknowledged, removed and told.

pub mod cell;
pub mod executable;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason};

/// The state of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Asked for; not running yet.
    Starting,
    /// Its process lives and isn't frozen.
    Running,
    /// Its processes are stopped by the freezer.
    Frozen,
    /// A stop was asked for; its grace is running.
    Stopping,
    /// Ended, and the end is recorded.
    Exited,
    /// Ended by the node's failure rather than its own.
    Failed,
}

/// An event in the life of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The program was executed; the cell's init runs.
    Started,
    /// The cell (or the cell around the executable) was frozen.
    Freeze,
    /// The cell (or the cell around the executable) was thawed.
    Thaw,
    /// A caller asked it to end.
    Stop,
    /// The main process ended; everything in the cell is gone.
    Ended,
    /// The node lost it: it could not be started, or its init died.
    Lost,
}

impl State {
    /// Every state, in the order of the wire.
    pub const ALL: [State; 6] = [
        State::Starting,
        State::Running,
        State::Frozen,
        State::Stopping,
        State::Exited,
        State::Failed,
    ];

    /// Nothing can happen to it any more.
    pub fn is_final(self) -> bool {
        matches!(self, State::Exited | State::Failed)
    }

    /// The name that is shown: `running`, …
    pub fn as_str(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Frozen => "frozen",
            State::Stopping => "stopping",
            State::Exited => "exited",
            State::Failed => "failed",
        }
    }

    /// The state after `event`.
    ///
    /// # Errors
    /// [`Illegal`]: the object is final; it is starting, so it can't freeze, thaw or end; or it is
    /// running, so it can't start.
    pub fn after(self, event: Event) -> Result<State, Illegal> {
        use Event::{Ended, Freeze, Lost, Started, Stop, Thaw};
        use State::{Exited, Failed, Frozen, Running, Starting, Stopping};
        match (self, event) {
            (Starting, Started) => Ok(Running),
            (Running | Frozen, Freeze) => Ok(Frozen),
            (Running | Frozen, Thaw) => Ok(Running),
            (Stopping, Started | Freeze | Thaw) => Ok(Stopping),
            (Starting | Running | Frozen | Stopping, Stop) => Ok(Stopping),
            (Running | Frozen | Stopping, Ended) => Ok(Exited),
            (Starting | Running | Frozen | Stopping, Lost) => Ok(Failed),
            (Starting, Freeze | Thaw | Ended)
            | (Running | Frozen, Started)
            | (Exited | Failed, _) => Err(Illegal { state: self, event }),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An event that can't happen to an object in that state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is {state} and can't be {}", wanted(*event))]
pub struct Illegal {
    /// The state of the object.
    pub state: State,
    /// The event that can't happen in that state.
    pub event: Event,
}

impl From<Illegal> for Error {
    fn from(illegal: Illegal) -> Error {
        Error::new(Reason::WrongState, illegal.to_string())
    }
}

fn wanted(event: Event) -> &'static str {
    match event {
        Event::Started => "started",
        Event::Freeze => "frozen",
        Event::Thaw => "thawed",
        Event::Stop => "stopped",
        Event::Ended => "ended",
        Event::Lost => "lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVENTS: [Event; 6] = [
        Event::Started,
        Event::Freeze,
        Event::Thaw,
        Event::Stop,
        Event::Ended,
        Event::Lost,
    ];

    fn events() -> impl Strategy<Value = Vec<Event>> {
        proptest::collection::vec(proptest::sample::select(&EVENTS[..]), 0..40)
    }

    proptest! {
        #[test]
        fn nothing_leads_out_of_a_final_state(events in events()) {
            let mut state = State::Starting;
            for event in events {
                match state.after(event) {
                    Ok(next) => {
                        prop_assert!(!state.is_final());
                        state = next;
                    }
                    Err(illegal) => prop_assert_eq!(illegal.state, state),
                }
            }
        }

        #[test]
        fn who_was_asked_to_stop_never_runs_again(before in events(), after in events()) {
            let go = |state: State, events: &[Event]| {
                events.iter().fold(state, |s, e| s.after(*e).unwrap_or(s))
            };
            let state = go(State::Starting, &before);
            if let Ok(stopping) = state.after(Event::Stop) {
                let end = go(stopping, &after);
                prop_assert!(end == State::Stopping || end.is_final());
            }
        }
    }

    #[test]
    fn a_final_state_can_be_reached_from_everywhere_and_every_state_from_the_start() {
        for state in State::ALL {
            let ends = EVENTS.iter().filter_map(|e| state.after(*e).ok());
            assert_eq!(state.is_final(), ends.count() == 0);
            assert!(state.is_final() || state.after(Event::Lost) == Ok(State::Failed));
        }
        let mut reached = vec![State::Starting];
        for i in 0.. {
            let Some(state) = reached.get(i).copied() else {
                break;
            };
            for next in EVENTS.iter().filter_map(|e| state.after(*e).ok()) {
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
        }
        assert_eq!(reached.len(), State::ALL.len());
    }

    #[test]
    fn an_end_without_a_start_is_a_loss() {
        assert!(State::Starting.after(Event::Ended).is_err());
        assert_eq!(State::Starting.after(Event::Lost), Ok(State::Failed));
    }
}
