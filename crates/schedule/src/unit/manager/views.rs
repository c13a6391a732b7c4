// SPDX-License-Identifier: Apache-2.0
//! What the bus asks of the manager, beside what the API asks.

use kernel::cgroup::find;
use model::error::{Error, Reason};
use model::name::Tenant;
use model::unit::{JobMode, Verb};
use units::depend::SHOWN;
use units::job::engine::{Ending, Progress};
use units::name::{UnitName, UnitType};

use super::jobs::Accepted;
use super::{Manager, Order};
use crate::unit::live::{Live, Machine};
use crate::unit::runs::{self, UNIT, cell_of};
use crate::unit::scope;
use crate::unit::steps::End;
use crate::unit::view::{Job, View};

/// The code of waitid(2), and the status or the signal.
fn ended(end: End) -> (i32, i32) {
    const EXITED: i32 = 1;
    const KILLED: i32 = 2;
    const DUMPED: i32 = 3;
    match end {
        End::Exited(status) | End::NotBegun(status) => (EXITED, i32::from(status)),
        End::Signalled(signal) => (KILLED, i32::from(signal)),
        End::Dumped(signal) => (DUMPED, i32::from(signal)),
        End::OutOfMemory => (KILLED, 9),
        End::Unknown => (EXITED, 255),
    }
}

impl Manager {
    /// See [`Order`].
    pub(super) async fn ordered_by_bus(&mut self, order: Order) {
        match order {
            Order::View(unit, load, reply) => {
                if load {
                    self.load_for_caller(&unit).await;
                }
                let _ = reply.send(self.view(&unit));
            }
            Order::Jobs(reply) => {
                let _ = reply.send(Ok(self.jobs_now()));
            }
            Order::Cancel(id, reply) => {
                let _ = reply.send(self.cancel(id));
            }
            Order::Scope(unit, processes, mode, reply) => {
                let _ = reply.send(self.begin_scope(unit, processes, mode).await);
            }
            Order::Attach(unit, processes, reply) => self.attach(&unit, processes, reply),
            Order::Abandon(unit, reply) => {
                let _ = reply.send(self.abandon(&unit));
            }
            Order::OfProcess(pid, reply) => {
                let _ = reply.send(Ok(self.unit_of_process(pid)));
            }
            // The others are answered before.
            _ => {}
        }
    }

    fn view(&self, name: &UnitName) -> Result<View, Error> {
        let id = self.id(name);
        let Some(loaded) = self.known.table.find(&id) else {
            return Err(Error::not_found("unit", name.to_string()));
        };
        let new = Live::new(id.kind());
        let live = self.known.live.get(&id).unwrap_or(&new);
        let own = SHOWN.map(|(kind, ..)| (kind, false, self.known.on(&id, kind)));
        let others = SHOWN.map(|(kind, ..)| (kind, true, self.known.of_others(&id, kind)));
        let dependencies = own.into_iter().chain(others);
        let control = self.live_runs(&id).1;
        let control = control.and_then(|run| self.runs.seen(&run));
        let ended = match &live.machine {
            Machine::Service(state) => state.ended.map(ended),
            _ => None,
        };
        let fragment = loaded.unit.fragment.as_deref().unwrap_or_default();
        Ok(View {
            status: self.status(&id),
            unit: loaded.unit.clone(),
            service: loaded.service.clone(),
            dependencies: dependencies.filter(|(.., to)| !to.is_empty()).collect(),
            begun: live.begun,
            active: live.active.map(|(_, boot)| boot),
            inactive: live.inactive.map(|(_, boot)| boot),
            left: live.left.map(|(_, boot)| boot),
            changed: live.changed,
            control_pid: control.and_then(|object| runs::pid(&object)),
            ended,
            said: live.said.clone().unwrap_or_default(),
            invocation: live.invocation.clone(),
            trigger: live.trigger.clone(),
            group: self.group_of(&id),
            is_held: self.is_held(&id),
            folders: crate::unit::program::kinds_of_folders(&loaded.unit),
            is_transient: fragment.contains("/transient/"),
            id,
        })
    }

    /// The folder of the group that a unit's processes are in.
    pub(super) fn group_of(&self, unit: &UnitName) -> Option<std::path::PathBuf> {
        match unit.kind() {
            UnitType::Scope => self.group_of_scope(unit),
            UnitType::Slice => {
                let of_scopes = self.group_of_slice(unit).filter(|it| it.exists());
                of_scopes.or_else(|| self.group_of_units_slice(unit))
            }
            _ => {
                self.runs.living(unit)?;
                let path = cell_of(unit).ok()?;
                Some(self.runs.runtime.folder_of(&Tenant::system(), &path))
            }
        }
    }

    fn jobs_now(&self) -> Vec<Job> {
        let of = |(unit, job): (&UnitName, &units::job::engine::Job)| Job {
            id: job.id,
            unit: unit.clone(),
            kind: job.kind.to_string(),
            runs: job.progress == Progress::Running,
        };
        self.engine.jobs().map(of).collect()
    }

    fn cancel(&mut self, id: u64) -> Result<(), Error> {
        let unit = self.engine.jobs().find(|(_, job)| job.id == id);
        let Some((unit, stays)) = unit.map(|(unit, job)| (unit.clone(), job.stays)) else {
            return Err(Error::not_found("job", id.to_string()));
        };
        if stays && self.is_ending() {
            let words = format!("job {id} ends the machine and can't be called off");
            return Err(Error::new(Reason::WrongState, words));
        }
        self.end_job(&unit, Ending::Cancelled);
        Ok(())
    }

    /// A scope's file was just written: what was read of an earlier one is forgotten.
    async fn begin_scope(
        &mut self,
        unit: UnitName,
        processes: Vec<i32>,
        mode: JobMode,
    ) -> Result<Accepted, Error> {
        self.scope_begins_with(unit.clone(), processes)?;
        self.known.table.forget(&unit);
        self.load(vec![unit.clone()]).await;
        let accepted = self.asked(&unit, Verb::Start, mode);
        if accepted.is_err() {
            self.scope_does_not_begin(&unit);
        }
        accepted
    }

    fn abandon(&mut self, unit: &UnitName) -> Result<(), Error> {
        if self.group_of_scope(unit).is_none() {
            let words = format!("{unit} is not a scope that runs");
            return Err(Error::new(Reason::WrongState, words).about("unit", unit.to_string()));
        }
        self.scope_event(unit, scope::Event::Abandon);
        Ok(())
    }

    pub(super) fn unit_of_process(&self, pid: i32) -> Option<UnitName> {
        let folder = find::path_of_process(pid).ok()?;
        if let Some(scope) = self.scope_of_group(&folder) {
            return Some(scope);
        }
        let group = find::group_of_process(pid).ok()?;
        let object = self.runs.runtime.object_of_group(group.as_ref())?;
        let meta = object.meta();
        let system = meta.tenant == Tenant::system();
        let in_cell = meta.path.labels().first().map(|it| it.as_str()) == Some(runs::CELL);
        let label = meta.labels.get(UNIT).filter(|_| system && in_cell)?;
        let mut live = self.known.live.keys();
        live.find(|unit| crate::unit::name::label(unit).is_ok_and(|it| it.as_str() == label))
            .cloned()
    }
}
