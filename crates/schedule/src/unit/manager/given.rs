// SPDX-License-Identifier: Apache-2.0
//! What is kept for callers beside units' states: the manager's environment, whether watchdogs
//! count, marks of units. What these are is [`crate::unit::given`]'s and [`crate::unit::marker`]'s.

use model::error::Error;
use model::unit::UnitManager;
use units::name::UnitName;

use super::{Manager, Order};
use crate::unit::live::Machine;
use crate::unit::marker;
use crate::unit::steps::service::{Event, Said};

impl Manager {
    /// See [`Order`].
    pub(super) async fn ordered_to_keep(&mut self, order: Order) {
        match order {
            Order::Given(reply) => {
                let _ = reply.send(Ok(self.given_now()));
            }
            Order::Give(change, watchdogs, reply) => {
                let changed = self.given.change(change);
                if changed.is_ok() {
                    self.given.watchdogs = watchdogs.unwrap_or(self.given.watchdogs);
                    self.dirty_given = true;
                    // Who has the answer finds it after a kill -9, too.
                    self.keep().await;
                }
                let _ = reply.send(changed.map(|()| self.given_now()));
            }
            Order::Mark(unit, change, reply) => {
                self.load_for_caller(&unit).await;
                let marked = self.mark(&unit, change);
                self.keep().await;
                let _ = reply.send(marked);
            }
            // The others are answered before.
            _ => {}
        }
    }

    fn given_now(&self) -> UnitManager {
        UnitManager {
            environment: self.given.shown(),
            service_watchdogs: self.given.watchdogs,
        }
    }

    /// What an earlier daemon of this boot was given.
    pub(super) fn take_given(&mut self, row: &[u8]) {
        match serde_json::from_slice(row) {
            Ok(given) => self.given = given,
            Err(error) => tracing::error!(%error, "the manager's environment can't be read"),
        }
    }

    fn mark(&mut self, unit: &UnitName, change: marker::Change) -> Result<(), Error> {
        let id = self.id(unit);
        if self.known.table.find(&id).is_none() {
            return Err(Error::not_found("unit", unit.to_string()));
        }
        change.apply(&mut self.known.live_mut(&id).markers);
        self.dirty.insert(id.clone());
        self.feed.changed(&id);
        Ok(())
    }

    /// Whether what a service says has a meaning now.
    pub(super) fn counts(&self, said: Said) -> bool {
        self.given.watchdogs || said != Said::Trigger
    }

    /// A service hasn't said in time that it lives, and needn't, as watchdogs don't count: its time
    /// begins anew.
    pub(super) fn excuse(&mut self, unit: &UnitName, now: u64) {
        let live = self.known.live.get(unit).map(|it| &it.machine);
        let Some(Machine::Service(state)) = live else {
            return;
        };
        let is_late = state.watchdog.is_some_and(|at| at <= now);
        if is_late && !self.given.watchdogs {
            tracing::warn!(%unit, "it doesn't say that it lives; watchdogs don't count");
            self.event(unit, Event::Said(Said::Alive));
        }
    }
}
