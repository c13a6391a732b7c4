// SPDX-License-Identifier: Apache-2.0
//! A signal that a caller sends to what a unit runs (systemctl(1), `kill`). While the
//! command that it is for is being executed, the signal waits: the unit's state shows the command
//! already, so the caller must not be told that there is none. What the manager itself ends is
//! in [`super::ends`].
//!
//! As many signals wait as callers do, whose number the API bounds.

use model::error::{Error, Reason};
use model::signal::Signal;
use model::unit::Whom;
use units::name::{UnitName, UnitType};

use super::ends::each;
use super::orders::Reply;
use super::{Happened, Manager};
use crate::unit::live::Machine;
use crate::unit::runs::Run;

/// A signal, and the caller that waits for its answer.
pub(super) struct Asked {
    pub(super) signal: Signal,
    pub(super) whom: Whom,
    pub(super) reply: Reply<()>,
}

impl Manager {
    /// Signals now, or once what it is for was executed.
    pub(super) fn signal(&mut self, unit: &UnitName, asked: Asked) {
        let unit = self.id(unit);
        if unit.kind() == UnitType::Scope {
            let sent = self.signal_scope(&unit, asked.signal);
            let _ = asked.reply.send(sent);
        } else if self.is_being_begun(&unit, asked.whom) {
            self.signals.entry(unit).or_default().push(asked);
        } else {
            self.signal_service(unit, asked);
        }
    }

    /// A command of the unit was begun, or not: signals that waited for that are sent.
    pub(super) fn signal_late(&mut self, unit: &UnitName) {
        for asked in self.signals.remove(unit).unwrap_or_default() {
            self.signal(unit, asked);
        }
    }

    /// Whether a process that the signal is for is being executed.
    fn is_being_begun(&self, unit: &UnitName, whom: Whom) -> bool {
        let machine = self.known.live.get(unit).map(|it| &it.machine);
        let Some(Machine::Service(state)) = machine else {
            return false;
        };
        let processes = match whom {
            Whom::All | Whom::MainAndControl => [state.main, state.control],
            Whom::Main => [state.main, None],
            Whom::Control => [None, state.control],
        };
        processes.into_iter().flatten().any(|it| !it.begun)
    }

    fn signal_service(&mut self, unit: UnitName, asked: Asked) {
        let Asked {
            signal,
            whom,
            reply,
        } = asked;
        let runs = match self.runs_for(&unit, whom) {
            Ok(runs) => runs,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        let acts = self.runs.clone();
        self.jobs.spawn(async move {
            let sent = match whom {
                Whom::All => acts.signal_unit(&unit, signal).await,
                _ => each(&acts, &runs, signal).await,
            };
            let _ = reply.send(sent);
            Happened::Nothing
        });
    }

    /// The commands that a signal reaches; with [`Whom::All`] also what they have started.
    fn runs_for(&self, unit: &UnitName, whom: Whom) -> Result<Vec<Run>, Error> {
        let (main, control) = self.live_runs(unit);
        let runs: Vec<Run> = match whom {
            Whom::All | Whom::MainAndControl => main.into_iter().chain(control).collect(),
            Whom::Main => main.into_iter().collect(),
            Whom::Control => control.into_iter().collect(),
        };
        let is_left = whom == Whom::All && !self.runs.processes(unit).is_empty();
        if !runs.is_empty() || is_left {
            return Ok(runs);
        }
        let words = match whom {
            Whom::Main => format!("{unit} has no main process"),
            Whom::Control => format!("{unit} has no control process"),
            Whom::All | Whom::MainAndControl => {
                format!("{unit} runs nothing that could be signalled")
            }
        };
        Err(Error::new(Reason::WrongState, words).about("unit", unit.to_string()))
    }
}
