// SPDX-License-Identifier: Apache-2.0
//! Slices (systemd.slice(5)): in which of them a unit's cell is, and what may be used in one. A
//! unit's cell is in its slices where its file names one (`Slice=`), or one of them has a limit;
//! else it is directly in the cell of all units, and an idle slice has no group at all. Groups of
//! scopes are [`super::scopes`]'.

use std::path::PathBuf;

use identity::Effect;
use model::error::Error;
use model::name::Tenant;
use runtime::Slice;
use units::depend::slice_of;
use units::job::JobType;
use units::name::{UnitName, UnitType, slice_parent};
use units::unit::Unit;

use super::Manager;
use crate::unit::program::resources;
use crate::unit::runs::{CELL, Runs, parsed};
use crate::unit::transient::Folder;

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

/// Whether a unit's file puts it into a slice. That may get a limit while the unit runs, and a cell
/// doesn't move.
fn names_its_slice(unit: &Unit) -> bool {
    let named = unit.settings.units("Slice").first();
    named.is_some_and(|it| it.as_str() != "system.slice")
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
        match names_its_slice(unit) || slices.iter().any(|it| !it.resources.is_empty()) {
            true => slices,
            false => Vec::new(),
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
        let (runs, scopes) = (self.runs.clone(), self.scopes.groups.clone());
        self.jobs.spawn_blocking(move || {
            for (chain, slice) in &all {
                // Where there are none, making one has said why.
                if let Ok(scopes) = &scopes {
                    scopes.limit_slice(&names(chain), &slice.resources);
                }
            }
            if let Err(error) = limit(&runs, &all) {
                tracing::warn!(%error, "slices have their limits as before");
            }
            super::Happened::Nothing
        });
    }

    /// A slice is stopped. The file of a transient one goes with that, as in systemd: nothing is
    /// to be asked of it, unlike of a service, and it would count before a file that comes. One
    /// that is to be started again keeps it.
    pub(super) fn slice_stops(&self, unit: &UnitName) {
        let job = self.engine.job(unit);
        let is_over = job.is_none_or(|it| it.kind == JobType::Stop);
        let file = self.known.table.find(unit).map(|it| &it.unit.fragment);
        let folder = Folder::beside(&self.folders);
        if is_over
            && file
                .and_then(|it| it.as_deref())
                .is_some_and(|it| folder.has(it))
        {
            // Here and now: who makes one of that name next finds none of this one.
            folder.remove(unit);
        }
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
    use units::calendar::zones::UtcOnly;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    use super::*;

    #[test]
    fn slices_are_in_each_other_as_their_names_say() {
        let of = |name: &str| names(&chain(UnitName::parse(name).ok()));
        assert_eq!(of("a-b.slice"), ["a.slice", "a-b.slice"]);
        assert_eq!(of("web.slice"), ["web.slice"]);
        assert_eq!(of("-.slice"), Vec::<String>::new());
        assert_eq!(names(&chain(None)), Vec::<String>::new());
    }

    #[test]
    fn a_unit_is_in_a_slice_that_its_file_names_whether_or_not_that_has_a_limit() {
        let named = |text: &str| {
            let name = UnitName::parse("a@b.service").unwrap();
            let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
            names_its_slice(&unit)
        };
        assert!(named("[Service]\nSlice=web.slice\n"));
        // That of every service, and that of an instance, which is made of its template's name.
        assert!(!named("[Service]\nSlice=system.slice\n"));
        assert!(!named("[Service]\nExecStart=/x\n"));
    }
}
