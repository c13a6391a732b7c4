// SPDX-License-Identifier: Apache-2.0
//! The cells that units run in: the cell `system`, which is all units', and a light one in it for
//! each unit, with its limits. Made when a command begins, ended when a unit is down and nothing
//! lives in it. Called by [`super::runs`] and the manager.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use identity::Effect;
use model::cell::{self, Namespace};
use model::error::{Error, Reason};
use model::label::Labels;
use model::name::{ObjectPath, Tenant};
use model::request::{RunCell, Stop, UpdateCell, WaitFor};
use model::resources::Resources;
use model::status::Object;
use model::update::Mask;
use runtime::Slice;
use units::name::UnitName;

use super::name;
use super::runs::{CELL, Runs, UNIT, cell_of, parsed, target, there};
use crate::effects::{REMOVE, RUN_CELL, STOP};

/// The label's value of the cell of all units.
pub(super) const MANAGER: &str = "units";
/// How long a cell that ends is waited for before it is looked at again.
const AGAIN: Duration = Duration::from_secs(2);
/// How often a cell that ends while it is asked for is made anew.
const TRIES: usize = 5;

impl Runs {
    /// The cell of all units, made where it isn't there.
    pub(super) async fn cell(&self) -> Result<(), Error> {
        let path = parsed(CELL)?;
        let is_there = || {
            let seen = self.runtime.seen(&Tenant::system(), &path)?;
            (!seen.state().is_final()).then_some(seen)
        };
        let _one_at_a_time = self.making.lock().await;
        if let Some(seen) = is_there() {
            return match seen.meta().labels.get(crate::OWNER) == Some(MANAGER) {
                true => Ok(()),
                false => Err(Error::new(
                    Reason::AlreadyExists,
                    format!("the cell {CELL} of the tenant system isn't the unit manager's"),
                )
                .hint("stop it: units run in it")),
            };
        }
        let shared = cell::Draft {
            share: Namespace::ALL.into_iter().collect(),
            ..Default::default()
        };
        let label = BTreeMap::from([(crate::OWNER.to_owned(), MANAGER.to_owned())]);
        let request = RunCell {
            tenant: Tenant::system(),
            path: path.clone(),
            labels: Labels::new(label)?,
            spec: shared.try_into()?,
            request_id: None,
            wait_for: WaitFor::Started,
            annex: None,
            for_a_member: false,
        };
        let effects = vec![Effect::on(RUN_CELL, &path), Effect::on(REMOVE, &path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        self.runtime.run_cell(permit, request).await.map(drop)
    }

    /// The cell of a unit with these limits, in these slices, made where it isn't there. One that
    /// an earlier activation has left processes in is the next one's, too, as with systemd, and
    /// stays in the slices that it was made in.
    pub(super) async fn unit_cell(
        &self,
        unit: &UnitName,
        resources: &Resources,
        slices: Vec<Slice>,
    ) -> Result<(), Error> {
        let path = cell_of(unit)?;
        let label = name::label(unit)?.to_string();
        let mut last = Error::internal(format!("the cell {path} ends again and again"));
        for _ in 0..TRIES {
            let seen = self.runtime.seen(&Tenant::system(), &path);
            let seen = seen.filter(|it| !it.state().is_final());
            if let Some(seen) = seen {
                if seen.meta().labels.get(UNIT) != Some(label.as_str()) {
                    let words = format!("{path} of the tenant system isn't the unit's");
                    return Err(Error::new(Reason::AlreadyExists, words)
                        .hint("stop it: the unit's commands run in a cell of that name"));
                }
                match self.limited(&seen, resources).await {
                    Ok(true) => return Ok(()),
                    // It is ending: then there is none.
                    Ok(false) => drop(self.runtime.end_of(&seen).await),
                    Err(error) if error.reason == Reason::WrongState => {
                        let _ = tokio::time::timeout(AGAIN, self.runtime.end_of(&seen)).await;
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            match self.make_cell(&path, unit, resources, slices.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) if error.reason == Reason::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    async fn make_cell(
        &self,
        path: &ObjectPath,
        unit: &UnitName,
        resources: &Resources,
        slices: Vec<Slice>,
    ) -> Result<(), Error> {
        let spec = cell::Draft {
            light: true,
            resources: resources.clone(),
            ..Default::default()
        };
        let mut labels = BTreeMap::from([
            (crate::OWNER.to_owned(), MANAGER.to_owned()),
            (UNIT.to_owned(), name::label(unit)?.to_string()),
        ]);
        labels.extend(name::spelled(unit));
        let request = RunCell {
            tenant: Tenant::system(),
            path: path.clone(),
            labels: Labels::new(labels)?,
            spec: spec.try_into()?,
            request_id: None,
            wait_for: WaitFor::Started,
            annex: None,
            for_a_member: false,
        };
        let effects = vec![Effect::on(RUN_CELL, path), Effect::on(REMOVE, path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        self.runtime
            .run_cell_in(permit, request, slices)
            .await
            .map(drop)
    }

    /// Gives a cell that is there these limits; `false`: it ends.
    async fn limited(&self, seen: &Arc<Object>, resources: &Resources) -> Result<bool, Error> {
        let Object::Cell(cell) = &**seen else {
            return Err(Error::internal(format!("{} is no cell", seen.meta().path)));
        };
        if cell.state != model::lifecycle::State::Running {
            return Ok(false);
        }
        if cell.spec.resources == *resources {
            return Ok(true);
        }
        let mut draft: cell::Draft = cell.spec.clone().into();
        draft.resources = resources.clone();
        let meta = &cell.meta;
        let effects = vec![Effect::on("runtime.UpdateCell", &meta.path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let request = UpdateCell {
            target: target(seen),
            spec: draft.try_into()?,
            labels: Labels::default(),
            mask: Mask::new(["spec.resources"])?,
            expected_generation: None,
        };
        self.runtime
            .update_cell(permit, request)
            .await
            .map(|_| true)
    }

    /// Gives the cell of a unit that runs these limits.
    pub(super) async fn limit(&self, unit: &UnitName, resources: &Resources) -> Result<(), Error> {
        match self.living(unit) {
            Some(cell) => there(self.limited(&cell, resources).await.map(drop)),
            None => Ok(()),
        }
    }

    /// Holds what is in the cell of a unit, or lets it go on.
    ///
    /// # Errors
    /// `WRONG_STATE`: it has no cell.
    pub(super) async fn hold(&self, unit: &UnitName, frozen: bool) -> Result<(), Error> {
        let Some(cell) = self.living(unit) else {
            let words = format!("{unit} has no processes");
            return Err(Error::new(Reason::WrongState, words).about("unit", unit.to_string()));
        };
        let action = match frozen {
            true => "runtime.FreezeCell",
            false => "runtime.ThawCell",
        };
        let effects = vec![Effect::below(action, &cell.meta().path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let target = target(&cell);
        let held = match frozen {
            true => self.runtime.freeze_cell(permit, &target).await,
            false => self.runtime.thaw_cell(permit, &target).await,
        };
        held.map(drop)
    }

    /// Ends the cell of a unit with what is in it, where nothing lives in it. What lives there
    /// stays, as `KillMode=` wants it.
    pub(crate) async fn let_go(&self, unit: &UnitName, activation: u64) -> Result<(), Error> {
        let path = cell_of(unit)?;
        let latest = self.latest(unit);
        // The next activation has it from here on, or waits until it has ended.
        let latest = latest.lock().await;
        if *latest > activation {
            return Ok(());
        }
        if self.runtime.is_populated(&Tenant::system(), &path) {
            return Ok(());
        }
        self.end_cell(unit).await
    }

    async fn end_cell(&self, unit: &UnitName) -> Result<(), Error> {
        let path = cell_of(unit)?;
        let Some(object) = self.living(unit) else {
            return Ok(());
        };
        let effects = vec![Effect::below(STOP, &path)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let request = Stop {
            target: target(&object),
            grace: Some(Duration::ZERO),
        };
        there(self.runtime.stop(permit, request).await.map(drop))
    }

    /// The cell of a unit, where it is there and its.
    pub(super) fn living(&self, unit: &UnitName) -> Option<Arc<Object>> {
        let (path, label) = (cell_of(unit).ok()?, name::label(unit).ok()?);
        let seen = self.runtime.seen(&Tenant::system(), &path)?;
        let own = seen.meta().labels.get(UNIT) == Some(label.as_str());
        (own && !seen.state().is_final()).then_some(seen)
    }
}
