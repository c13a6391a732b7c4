// SPDX-License-Identifier: Apache-2.0
//! What is known of units goes to the store, and comes back from there: a new daemon goes on with
//! what runs. The truth of that is the runtime's.

use std::time::Duration;

use model::error::Error;
use serde::{Deserialize, Serialize};
use units::name::{UnitName, UnitType};

use super::{Happened, Manager};
use crate::unit::live::{Live, Machine};
use crate::unit::runs::{self, Run};
use crate::unit::steps::service::{self, Event, Sub};
use crate::unit::steps::{Phase, Role, Step, timer};

/// How long a write may take before what was decided is done without it.
const WRITE: Duration = Duration::from_secs(5);
/// The row that says of which boot the others are.
const BOOT: &str = "@boot";

#[derive(Serialize, Deserialize)]
struct Boot {
    id: String,
    /// What was to be started with the node has been: until then it is asked for again.
    #[serde(default)]
    done: bool,
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    let broken = |e| Error::internal(format!("a unit can't be kept: {e}"));
    serde_json::to_vec(value).map_err(broken)
}

impl Manager {
    /// Writes what has changed. What can't be written now is written later.
    pub(super) async fn keep(&mut self) {
        let done = self.booting && self.engine.jobs().next().is_none() && self.wanted.is_empty();
        if self.dirty.is_empty() && !done {
            return;
        }
        let row = |unit: &UnitName| {
            let live = self.known.live.get(unit)?;
            Some((unit.to_string(), Some(json(live).ok()?)))
        };
        let mut rows: Vec<_> = self.dirty.iter().filter_map(row).collect();
        if done && let Ok(mark) = self.boot_mark(true) {
            rows.push(mark);
        }
        let written = tokio::time::timeout(WRITE, self.store.keep_units(rows)).await;
        let failed = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Error::from(error)),
            Err(_) => Some(Manager::internal("the store does not answer")),
        };
        match failed {
            None => {
                self.dirty.clear();
                self.booting &= !done;
            }
            Some(error) if !self.behind => {
                tracing::error!(%error, "units go on from memory");
                self.behind = true;
                return;
            }
            Some(_) => return,
        }
        self.behind = false;
    }

    /// Goes on with what an earlier daemon has left. Whether this is the first one of this boot.
    pub(super) async fn adopt(&mut self) -> Result<bool, Error> {
        let rows = self.store.units().await?;
        let boot = rows.iter().find(|(name, _)| name == BOOT);
        let boot: Option<Boot> = boot.and_then(|(_, row)| serde_json::from_slice(row).ok());
        let done = boot.as_ref().is_some_and(|it| it.done);
        let same = boot.is_some_and(|it| it.id == self.boot_id);
        let mut all: Vec<(UnitName, Live)> = Vec::new();
        for (name, row) in rows.iter().filter(|(name, _)| name != BOOT) {
            match (UnitName::parse(name), serde_json::from_slice::<Live>(row)) {
                (Ok(name), Ok(live)) => all.push((name, live)),
                (_, Err(error)) => tracing::error!(name, %error, "a unit's row can't be read"),
                (Err(error), _) => tracing::error!(name, error, "a unit's row can't be read"),
            }
        }
        if !same {
            let row = self.boot_mark(false)?;
            if let Err(error) = self.store.keep_units(vec![row]).await {
                tracing::error!(%error, "that units begin with this boot is not kept");
            }
            all = all
                .into_iter()
                .map(|(name, live)| (name, afresh(live)))
                .collect();
        }
        self.load(all.iter().map(|(name, _)| name.clone()).collect())
            .await;
        for (name, live) in all {
            self.known.live.insert(name, live);
        }
        self.look_at_machine();
        let found = self.take_in();
        let units: Vec<UnitName> = self.known.live.keys().cloned().collect();
        for unit in units.iter().filter(|it| same || found.contains(it)) {
            self.go_on(unit);
        }
        Ok(!same || !done)
    }

    fn boot_mark(&self, done: bool) -> Result<(String, Option<Vec<u8>>), Error> {
        let id = self.boot_id.clone();
        Ok((BOOT.to_owned(), Some(json(&Boot { id, done })?)))
    }

    /// What runs for units by the runtime's word, where the rows don't say so: a full disk has kept
    /// them from being written. No number of an activation is used twice, and a service that runs
    /// is its unit's. The units that were found to be up.
    fn take_in(&mut self) -> Vec<UnitName> {
        let known = self.known.live.keys().cloned();
        let names: Vec<UnitName> = known.chain(self.known.table.files()).collect();
        let mut found = Vec::new();
        let usual = |it: &UnitName| it.kind() == UnitType::Service && !it.is_template();
        for unit in names.into_iter().filter(usual) {
            let unit = self.id(&unit);
            let seen = self.runs.seen_of(&unit);
            let Some(last) = seen.iter().map(|(number, _)| *number).max() else {
                continue;
            };
            let live = self.known.live_mut(&unit);
            if last <= live.activation {
                continue;
            }
            live.activation = last;
            self.dirty.insert(unit.clone());
            let step = Step {
                phase: Phase::Start,
                index: 0,
                round: 0,
            };
            let run = Run {
                unit: unit.clone(),
                activation: last,
                step,
            };
            let living = self.runs.seen(&run).filter(|it| !it.state().is_final());
            let live = self.known.live_mut(&unit);
            live.machine = Machine::Service(match living {
                Some(_) => service::State {
                    sub: Sub::Running,
                    main: Some(service::Process { step, begun: true }),
                    was_up: true,
                    ..service::State::default()
                },
                None => service::State::default(),
            });
            tracing::warn!(%unit, activation = last, "a unit's row is older than what it runs");
            found.push(unit);
        }
        found
    }

    /// What a service was about, compared with what there is.
    fn go_on(&mut self, unit: &UnitName) {
        if unit.kind() != UnitType::Service {
            return self.plan_timer(unit);
        }
        let Some(live) = self.known.live.get(unit) else {
            return;
        };
        let Machine::Service(state) = live.machine.clone() else {
            return;
        };
        for (process, role) in [(state.control, Role::Control), (state.main, Role::Main)] {
            let Some(process) = process else {
                continue;
            };
            let run = Run {
                unit: unit.clone(),
                activation: live_activation(self, unit),
                step: process.step,
            };
            self.go_on_with(run, role, process);
        }
        match state.sub {
            Sub::StopSigterm | Sub::FinalSigterm => self.kill(unit, false),
            Sub::StopSigkill | Sub::FinalSigkill => {
                self.kill_now(unit);
                self.kill(unit, false);
            }
            _ => {}
        }
    }

    fn go_on_with(&mut self, run: Run, role: Role, process: service::Process) {
        match self.runs.seen(&run) {
            Some(object) if !object.state().is_final() => {
                self.happened(Happened::Began(run, role, object));
            }
            Some(object) => {
                if !process.begun {
                    self.event(&run.unit, Event::Began(run.step));
                }
                self.event(&run.unit, Event::Ended(run.step, runs::end(&object)));
            }
            // It was decided, and not done.
            None if !process.begun => self.run_command(&run.unit, run.step, role),
            None => {
                let end = crate::unit::steps::End::Unknown;
                self.event(&run.unit, Event::Ended(run.step, end));
            }
        }
    }
}

fn live_activation(manager: &Manager, unit: &UnitName) -> u64 {
    manager.known.live.get(unit).map_or(0, |it| it.activation)
}

/// What is left of a unit's state in another boot: the numbers of its runs, and when a timer
/// elapsed last.
fn afresh(live: Live) -> Live {
    let machine = match live.machine {
        Machine::Timer(state) => Machine::Timer(timer::State {
            last: state.last,
            ..timer::State::default()
        }),
        Machine::Service(_) => Machine::Service(service::State::default()),
        Machine::Plain(_) => Machine::Plain(false),
    };
    Live {
        machine,
        starts: Vec::new(),
        begun: None,
        active: None,
        inactive: None,
        condition: None,
        words: String::new(),
        failed: None,
        main_pid: None,
        ..live
    }
}
