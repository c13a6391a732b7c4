// SPDX-License-Identifier: Apache-2.0
//! The cgroups of a cell that is made, with its limits and its mark.

use std::time::Duration;

use kernel::cgroup::Cgroup;
use model::cell::Draft;
use model::error::Error;
use model::name::Uid;
use rustix::io::Errno;

use super::kernel_failed;
use crate::Shared;
use crate::cell::{init, leaf, limits};
use crate::index::Key;
use crate::tenant;

/// How long it may take to let go of what a dead cell left in the place of a new one.
const LEFT: Duration = Duration::from_secs(1);

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
        parent = parent.child(label.as_str()).map_err(failed)?;
        limits::enable(&parent, &effective.resources)?;
    }
    limits::check_protection(&parent, &effective.resources)?;
    let group = new_group(&parent, key.path.name()).map_err(failed)?;
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
            Err(error)
        }
    }
}

/// Makes the group of a name that is ours alone: what has it is a dead cell's.
fn new_group(parent: &Cgroup, name: &str) -> Result<Cgroup, kernel::Error> {
    match parent.create(name) {
        Err(error) if error.is(Errno::EXIST.raw_os_error()) => {
            leaf::kill(&parent.child(name)?);
            parent.remove(name, LEFT)?;
            parent.create(name)
        }
        other => other,
    }
}
