// SPDX-License-Identifier: Apache-2.0
//! Tells services that the kernel has ended one of their processes for want of memory
//! (`OOMPolicy=`). What follows is decided in [`crate::unit::steps`].

use units::name::UnitName;
use units::service::OomPolicy;

use super::{Happened, Manager};
use crate::unit::steps::service::Event;

impl Manager {
    /// Watches a service that has a process now, unless it is watched already.
    pub(super) fn watch_memory(&mut self, unit: &UnitName) {
        let (_, rules) = self.known.table.rules(unit);
        let activation = self.activation(unit);
        let watched = self.memory.get(unit).map(|(of, _)| *of);
        if rules.oom_policy == OomPolicy::Continue || watched == Some(activation) {
            return;
        }
        self.leave_memory(unit);
        // What an earlier activation has left behind is in the same group, and counted.
        let seen = self.runs.oom_kills(unit);
        let (runs, name) = (self.runs.clone(), unit.clone());
        let job = self.jobs.spawn(async move {
            runs.out_of_memory(&name, seen).await;
            Happened::OutOfMemory(name, activation)
        });
        self.memory.insert(unit.clone(), (activation, job));
    }

    pub(super) fn leave_memory(&mut self, unit: &UnitName) {
        if let Some((_, job)) = self.memory.remove(unit) {
            job.abort();
        }
    }

    pub(super) fn out_of_memory(&mut self, unit: &UnitName, activation: u64) {
        if self.activation(unit) != activation {
            return;
        }
        tracing::warn!(%unit, "the kernel has ended a process of it for want of memory");
        self.event(unit, Event::OutOfMemory);
    }
}
