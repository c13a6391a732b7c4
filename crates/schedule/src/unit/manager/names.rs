// SPDX-License-Identifier: Apache-2.0
//! Names on the system bus, as far as services of `Type=dbus` wait for them. What follows is
//! decided in [`crate::unit::steps`].

use units::name::UnitName;
use units::service::{Service, Type};

use super::{Happened, Manager};
use crate::unit::bus::Told;
use crate::unit::steps::service::Event;

/// The name that a service has to have.
fn name_of(service: &Service) -> Option<&str> {
    let needs = service.kind == Type::Dbus;
    service.bus_name.as_deref().filter(|_| needs)
}

impl Manager {
    /// Asks for a service's name: it is told at once, and whenever it changes.
    pub(super) fn ask_for_name(&mut self, unit: &UnitName) {
        let (_, rules) = self.known.table.rules(unit);
        let Some(name) = name_of(&rules).map(str::to_owned) else {
            return;
        };
        let bus = self.bus.clone();
        self.jobs.spawn(async move {
            bus.watch(name).await;
            Happened::Nothing
        });
    }

    /// A name has an owner now, or none any more.
    pub(super) fn named(&mut self, told: &Told) {
        let live = self
            .known
            .live
            .iter()
            .filter(|(_, it)| it.activity().is_up());
        let named = live.filter(|(unit, _)| {
            let (_, rules) = self.known.table.rules(unit);
            name_of(&rules) == Some(told.name.as_str())
        });
        let units: Vec<UnitName> = named.map(|(unit, _)| unit.clone()).collect();
        for unit in units {
            self.event(&unit, Event::Named(told.owned));
        }
    }
}
