// SPDX-License-Identifier: Apache-2.0
//! Slices (systemd.slice(5)): in which of them a unit's cell is, and what may be used in one. A
//! unit's cell is in its slices where one of them has a limit; where none has, it is directly in
//! the cell of all units, and an idle slice has no group at all. Groups of scopes are
//! [`super::scopes`]'.

use std::path::PathBuf;

use identity::Effect;
use model::error::Error;
use model::name::Tenant;
use runtime::Slice;
use units::depend::slice_of;
use units::name::{UnitName, UnitType, slice_parent};
use units::unit::Unit;

use super::Manager;
use crate::unit::program::resources;
use crate::unit::runs::{CELL, Runs, parsed};

/// A slice and those around it, the topmost first: `user.slice`, `user-1000.slice`.
pub(super) fn chain(innermost: Option<UnitName>) -> Vec<UnitName> {
    let slices = std::iter::successors(innermost, slice_parent);
    let mut all: Vec<_> = slices.filter(|it| it.as_str() != "-.slice").collect();
    all.reverse();
    all
}

pub(super) fn names(slices: &[UnitName]) -> Vec<String> {
    slices.iter().map(ToString::to_string).collect()
}

/// Gives those slices that have a group their limits. Mostly none has: then no permit is taken,
/// which would be a line of the audit.
fn limit(runs: &Runs, all: &[(Vec<UnitName>, Slice)]) -> Result<(), Error> {
    let (system, around) = (Tenant::system(), parsed(CELL)?);
    let there = all.iter().map(|(chain, slice)| (names(chain), slice));
    let mut there = there
        .filter(|(chain, _)| {
            let folder = runs.runtime.folder_of_slice(&system, &around, chain);
            folder.exists()
        })
        .peekable();
    if there.peek().is_none() {
        return Ok(());
    }
    let effects = vec![Effect::on("runtime.UpdateCell", &around)];
    let permit = runs.identity.node_permit(effects).map_err(Error::from)?;
    for (chain, slice) in there {
        let runtime = &runs.runtime;
        let limited = runtime.limit_slice(&permit, &system, &around, &chain, &slice.resources);
        if let Err(error) = limited {
            tracing::warn!(slice = slice.name, %error, "a slice isn't limited");
        }
    }
    Ok(())
}

impl Manager {
    /// A slice, with what its files allow all in it.
    pub(super) fn slice(&self, name: &UnitName) -> Slice {
        let loaded = self.known.table.find(name);
        let resources = loaded.map(|it| resources(&it.unit.settings));
        Slice {
            name: name.to_string(),
            resources: resources.unwrap_or_default(),
        }
    }

    /// The slices that the cell of a unit is to be in.
    pub(super) fn slices_of(&self, unit: &Unit) -> Vec<Slice> {
        let slices = chain(slice_of(unit));
        let slices: Vec<Slice> = slices.iter().map(|it| self.slice(it)).collect();
        match slices.iter().all(|it| it.resources.is_empty()) {
            true => Vec::new(),
            false => slices,
        }
    }

    /// Files were read anew: slices that units are in have the limits that they say now.
    pub(super) fn limit_slices(&mut self) {
        let loaded = self.known.table.all().map(|(name, _)| name);
        let slices = loaded.filter(|it| it.kind() == UnitType::Slice && it.as_str() != "-.slice");
        let mut all: Vec<_> = slices
            .map(|it| (chain(Some(it.clone())), self.slice(it)))
            .collect();
        // What is around others is limited first.
        all.sort_by_key(|(chain, _)| chain.len());
        let runs = self.runs.clone();
        self.jobs.spawn_blocking(move || {
            if let Err(error) = limit(&runs, &all) {
                tracing::warn!(%error, "slices have their limits as before");
            }
            super::Happened::Nothing
        });
    }

    /// The folder of a slice that units are in.
    pub(super) fn group_of_units_slice(&self, unit: &UnitName) -> Option<PathBuf> {
        let slices = names(&chain(Some(unit.clone())));
        let system = Tenant::system();
        let folder = self
            .runs
            .runtime
            .folder_of_slice(&system, &parsed(CELL).ok()?, &slices);
        folder.exists().then_some(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_in_each_other_as_their_names_say() {
        let of = |name: &str| names(&chain(UnitName::parse(name).ok()));
        assert_eq!(of("a-b.slice"), ["a.slice", "a-b.slice"]);
        assert_eq!(of("web.slice"), ["web.slice"]);
        assert_eq!(of("-.slice"), Vec::<String>::new());
        assert_eq!(names(&chain(None)), Vec::<String>::new());
    }
}
