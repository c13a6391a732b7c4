// SPDX-License-Identifier: Apache-2.0
//! What is done to a unit beside jobs (systemctl(1)): its processes are held and go on (`freeze`,
//! `thaw`), its folders are removed (`clean`), and what its files allow it now holds for what runs.

use identity::Permit;
use model::error::{Error, Reason};
use model::lifecycle::State;
use model::resources::Resources;
use model::status::Object;
use units::job::World;
use units::name::{UnitName, UnitType};

use super::orders::Reply;
use super::{Happened, Manager, Order};
use crate::unit::handle::Units;
use crate::unit::live::{Live, Machine};
use crate::unit::program;
use crate::unit::scope;
use crate::unit::steps::service::{Sub, nanos};

impl Manager {
    /// Whether the processes of a unit are held.
    pub(super) fn is_held(&self, unit: &UnitName) -> bool {
        let cell = self.runs.living(unit);
        cell.is_some_and(|it| it.state() == State::Frozen)
    }

    pub(super) fn hold(&mut self, unit: &UnitName, frozen: bool, reply: Reply<()>) {
        let unit = self.id(unit);
        let runs = self.runs.clone();
        self.jobs.spawn(async move {
            // Who has gone away has asked all the same.
            let _ = reply.send(runs.hold(&unit, frozen).await);
            Happened::Nothing
        });
    }

    /// What is held would not hear what a job asks of it.
    pub(super) fn thaw_for_job(&mut self, unit: &UnitName) {
        if !self.is_held(unit) {
            return;
        }
        let (runs, unit) = (self.runs.clone(), unit.clone());
        self.jobs.spawn(async move {
            if let Err(error) = runs.hold(&unit, false).await {
                tracing::warn!(%unit, %error, "a unit with a job is held still");
            }
            Happened::Nothing
        });
    }

    pub(super) fn clean(&mut self, unit: &UnitName, what: Vec<String>, reply: Reply<()>) {
        let unit = self.id(unit);
        let busy = self.known.activity(&unit).is_up() || self.engine.job(&unit).is_some();
        let loaded = self.known.table.find(&unit).map(|it| it.unit.clone());
        let Some(files) = loaded else {
            let _ = reply.send(Err(Error::not_found("unit", unit.to_string())));
            return;
        };
        if busy {
            let words = format!("{unit} is up, or has a job: stop it first");
            let error = Error::new(Reason::WrongState, words).about("unit", unit.to_string());
            let _ = reply.send(Err(error));
            return;
        }
        self.jobs.spawn_blocking(move || {
            let cleaned = program::clean(&files, &what);
            let cleaned = cleaned.map_err(|words| Error::new(Reason::WrongState, words));
            let _ = reply.send(cleaned);
            Happened::Nothing
        });
    }

    /// How long what runs now may run (`RuntimeMaxSec=`), by its files as they are known.
    pub(super) fn longest(&self) -> Vec<(UnitName, Option<u64>)> {
        let of = |(unit, live): (&UnitName, &Live)| match &live.machine {
            Machine::Service(state) if state.sub == Sub::Running => {
                let longest = nanos(self.known.table.rules(unit).1.runtime_max);
                Some((unit.clone(), longest))
            }
            Machine::Scope(state) if state.sub == scope::Sub::Running => {
                Some((unit.clone(), self.rules_of_scope(unit).longest))
            }
            _ => None,
        };
        self.known.live.iter().filter_map(of).collect()
    }

    /// Files were read anew: where they say another time than before, that counts, from when the
    /// unit was up. What a service has asked for besides (`EXTEND_TIMEOUT_USEC=`) stays otherwise.
    pub(super) fn renew_longest(&mut self, before: &[(UnitName, Option<u64>)]) {
        for (unit, longest) in self.longest() {
            let known = before.iter().find(|(it, _)| *it == unit);
            if known.is_some_and(|(_, before)| *before == longest) {
                continue;
            }
            let live = self.known.live_mut(&unit);
            let since = live.active.map(|(_, boot)| boot);
            let ends = longest.zip(since);
            let ends = ends.map(|(longest, since)| since.saturating_add(longest));
            match &mut live.machine {
                Machine::Service(state) => state.deadline = ends,
                Machine::Scope(state) => state.deadline = ends,
                _ => continue,
            }
            self.dirty.insert(unit);
        }
    }

    /// Files were read anew: what runs is limited as they say now.
    pub(super) fn limit_units(&mut self) {
        let live = self.known.live.iter();
        let up = live.filter(|(unit, live)| {
            live.activity().is_up() && !matches!(unit.kind(), UnitType::Slice | UnitType::Scope)
        });
        let changed: Vec<(UnitName, Resources)> = up
            .filter_map(|(unit, _)| {
                let wanted = program::resources(&self.known.table.find(unit)?.unit.settings);
                match &*self.runs.living(unit)? {
                    Object::Cell(cell) if cell.spec.resources != wanted => {
                        Some((unit.clone(), wanted))
                    }
                    _ => None,
                }
            })
            .collect();
        for (unit, wanted) in changed {
            let runs = self.runs.clone();
            self.jobs.spawn(async move {
                if let Err(error) = runs.limit(&unit, &wanted).await {
                    tracing::warn!(%unit, %error, "a unit that runs has its limits as before");
                }
                Happened::Nothing
            });
        }
    }
}

impl Units {
    /// Holds the processes of a unit, or lets them go on.
    ///
    /// # Errors
    /// `WRONG_STATE`: it has none. `UNSUPPORTED`: the node runs no units.
    pub async fn hold(&self, permit: &Permit, unit: UnitName, frozen: bool) -> Result<(), Error> {
        self.ask(permit, |reply| Order::Hold(unit, frozen, reply))
            .await
    }

    /// Removes folders of a unit that is down, of these kinds (`state`, `cache`, `logs`,
    /// `configuration`, `runtime`, `all`); none: those of the cache and below /run.
    ///
    /// # Errors
    /// `WRONG_STATE`: it is up or has a job, a kind isn't known, or a folder stays. `NOT_FOUND`,
    /// `UNSUPPORTED`.
    pub async fn clean(
        &self,
        permit: &Permit,
        unit: UnitName,
        what: Vec<String>,
    ) -> Result<(), Error> {
        self.ask(permit, |reply| Order::Clean(unit, what, reply))
            .await
    }
}
