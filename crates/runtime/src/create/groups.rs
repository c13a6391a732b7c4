// SPDX-License-Identifier: Apache-2.0
//! The cgroups of a cell that is made, with its limits and its mark.

use std::time::Duration;

use kernel::cgroup::Cgroup;
use model::cell::Draft;
use model::error::Error;
use model::name::Uid;

use super::kernel_failed;
use crate::Shared;
use crate::cell::{init, leaf, limits};
use crate::index::Key;
use crate::slices::{self, Slice};
use crate::tenant;

/// How long it may take to let go of what a dead cell left in the place of a new one.
const LEFT: Duration = Duration::from_secs(1);

/// How often slices are made that others remove meanwhile.
const TRIES: usize = 8;

/// The groups of a cell.
pub(super) struct Groups {
    /// Of its tenant's inits.
    pub(super) inits: Cgroup,
    /// The one around it.
    pub(super) parent: Cgroup,
    pub(super) group: Cgroup,
}

/// Makes the cell's group with its limits, and its tenant's where that isn't there. `init_share` is
/// what an init takes for the cell, in bytes, and must have room for. `restrict` does
/// what else is to be done to the cell's, before anything is in it.
pub(super) fn groups(
    shared: &Shared,
    key: &Key,
    uid: Uid,
    effective: &Draft,
    init_share: u64,
    slices: &[Slice],
    restrict: impl FnOnce(&Cgroup) -> Result<(), Error>,
) -> Result<Groups, Error> {
    let failed = |e: kernel::Error| kernel_failed("the cell's cgroup could not be made", &e);
    let wanted = limits::of(&effective.resources)?;
    let all = shared.around(key.tenant.as_str());
    limits::enable(all, &effective.resources)?;
    let around_cells = tenant::group(shared, &key.tenant).map_err(failed)?;
    limits::enable_usual(&around_cells, &[]).map_err(failed)?;
    limits::enable(&around_cells, &effective.resources)?;
    let inits = tenant::inits::group(shared, &key.tenant, &around_cells).map_err(failed)?;
    tenant::inits::admit(shared, &key.tenant, &inits, init_share)?;
    let around = key
        .path
        .labels()
        .split_last()
        .map_or(&[][..], |(_, around)| around);
    let mut parent = around_cells;
    for label in around {
        parent = slices::child(&parent, label.as_str()).map_err(failed)?;
        limits::enable(&parent, &effective.resources)?;
    }
    let (parent, group) = placed(&parent, key.path.name(), slices, effective)?;
    let made = limits::set(&group, &wanted)
        .and_then(|()| limits::enable_usual(&group, &[]).map_err(failed))
        .and_then(|()| init::mark(&group, uid).map_err(failed))
        .and_then(|()| restrict(&group));
    match made {
        Ok(()) => Ok(Groups {
            inits,
            parent,
            group,
        }),
        Err(error) => {
            leaf::remove(&parent, key.path.name());
            slices::tidy(parent.path());
            Err(error)
        }
    }
}

/// The cell's group, and the one that it is in: the innermost of its slices, made where they aren't
/// there, or that of the cell around it.
fn placed(
    around: &Cgroup,
    name: &str,
    slices: &[Slice],
    effective: &Draft,
) -> Result<(Cgroup, Cgroup), Error> {
    let failed = |e: kernel::Error| kernel_failed("the cell's cgroup could not be made", &e);
    let place = || {
        let around = around.try_clone().map_err(failed)?;
        clear(&around, name).map_err(failed)?;
        let parent = slices::enter(around, slices, &effective.resources)?;
        limits::check_protection(&parent, &effective.resources)?;
        let group = parent.create(name).map_err(failed)?;
        Ok((parent, group))
    };
    let mut placed = place();
    for _ in 1..TRIES {
        match &placed {
            Err(error) if !slices.is_empty() && slices::went(error) => placed = place(),
            _ => break,
        }
    }
    placed
}

/// The name is ours alone: what has it, in whichever slice, is a dead cell's.
fn clear(around: &Cgroup, name: &str) -> Result<(), kernel::Error> {
    let dead = match slices::child(around, name) {
        Err(error) if error.is_not_found() => return Ok(()),
        other => other?,
    };
    leaf::kill(&dead);
    match dead.path().parent() {
        Some(parent) => Cgroup::open(parent)?.remove(name, LEFT),
        None => Ok(()),
    }
}
