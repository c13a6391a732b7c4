// SPDX-License-Identifier: Apache-2.0
//! The node's reserve in the kernel: the group `tenants`, below which every ordinary tenant's
//! cgroup is, may have all but the reserve and what cell-inits may have, and the groups of
//! node-init and of the daemon beside it are served first. So the node still answers, and
//! administrators can act, when tenants take everything that they may.
//!
//! ```text
//!   aurae/
//!                       memory.min: of all in it, together
//!     _init, _daemon    memory.min, a high cpu.weight
//!     system/CELL/…     the administrators', for whom the reserve is, too (`runtime`)
//!     tenants/          memory.max and pids.max: the node's less the reserve
//!       TENANT/CELL/…   the tenant's quotas (`runtime`)
//! ```
//!
//! Where a controller is missing, the node writes to its log once what it can't reserve, and serves
//! all the same.

use std::path::PathBuf;

use anyhow::Context;
use kernel::cgroup::{Bound, Cgroup, Limits as GroupLimits, find};
use model::quota::{Capacity, Quota};

/// The group of all tenants.
const TENANTS: &str = "tenants";
/// Node-init with the spawner, and the daemon.
const OWN: [&str; 2] = ["_init", "_daemon"];
/// Beside the tenants' group, which has 100.
const OWN_WEIGHT: u64 = 1000;
/// The memory that each of the node's own groups keeps when memory is short, in bytes: the daemon's
/// resident set is 11 MiB idle and bounded by its pools.
const OWN_MEMORY: u64 = 64 << 20;

/// The node's own group: init has put the daemon into the leaf `_daemon` of it.
///
/// # Errors
/// cgroup2 isn't mounted, the daemon is in the root of the hierarchy, or the group can't be opened.
pub(crate) fn base() -> anyhow::Result<Cgroup> {
    let own = find::own_path().context("cannot find the daemon's cgroup")?;
    let base = own
        .parent()
        .context("the daemon is not in a leaf of a cgroup that is ours")?;
    Cgroup::open(base).context("cannot open the node's cgroup")
}

/// The group of that name for programs of the administrator's, with nothing in it; none where the
/// node has no group of its own. Blocks.
pub(crate) fn programs(name: &str) -> kernel::Result<Option<Cgroup>> {
    match base() {
        Ok(base) => programs::group(&base, name).map(Some),
        Err(error) => {
            tracing::warn!(%error, group = name, "programs of the node run without bounds");
            Ok(None)
        }
    }
}

/// Creates the group of all tenants below `base` and writes the reserve. Returns the group's
/// folder.
///
/// # Errors
/// The group can't be created, for instance because the daemon may not write there.
pub(crate) fn settle(base: &Cgroup, capacity: &Capacity) -> anyhow::Result<PathBuf> {
    let tenants = base
        .ensure(TENANTS)
        .context("cannot make the cgroup of all tenants")?;
    hold(base, capacity);
    Ok(tenants.path().to_owned())
}

/// Writes the reserve again, e.g. after a reload.
pub(crate) fn hold(base: &Cgroup, capacity: &Capacity) {
    let enabled = base.enabled().unwrap_or_default();
    let has = |controller: &str| enabled.iter().any(|name| name == controller);
    let bound = |most| match most {
        u64::MAX => Bound::Max,
        value => Bound::At(value),
    };
    let of_tenants = GroupLimits {
        memory_max: has("memory").then(|| bound(runtime::memory_of_cells(capacity))),
        pids_max: has("pids").then(|| bound(capacity.for_tenants(Quota::Pids))),
        ..GroupLimits::default()
    };
    let of_ours = GroupLimits {
        memory_min: has("memory").then_some(Bound::At(OWN_MEMORY)),
        cpu_weight: has("cpu").then_some(OWN_WEIGHT),
        ..GroupLimits::default()
    };
    set(base, TENANTS, &of_tenants);
    for group in OWN {
        set(base, group, &of_ours);
    }
    if let Err(why) = protection(base) {
        tracing::warn!(%why, "the node's memory is not kept for it");
    }
    let missing: Vec<_> = ["memory", "pids", "cpu"]
        .into_iter()
        .filter(|c| !has(c))
        .collect();
    if !missing.is_empty() {
        tracing::warn!(
            ?missing,
            "without these cgroup controllers the node keeps no reserve of them"
        );
    }
}

/// Whether the kernel accounts for the memory of the groups below.
pub(crate) fn has_memory(base: &Cgroup) -> bool {
    let enabled = base.enabled();
    enabled.is_ok_and(|all| all.iter().any(|it| it == "memory"))
}

/// Hands the groups' `memory.min` on to the node's group: the kernel keeps nothing of it for a
/// group unless every group around that has as much. Says whether it holds.
///
/// # Errors
/// In words: the controller isn't there, the kernel refuses, or a group above the node's, which is
/// another manager's to write, has less.
pub(crate) fn protection(base: &Cgroup) -> Result<(), String> {
    if !has_memory(base) {
        return Err("the cgroup v2 controller memory is not available to the node".to_owned());
    }
    let mount = find::mount_point().map_err(|e| e.to_string())?;
    let wanted = base.protect_children().map_err(|e| e.to_string())?;
    match base.unprotected_by(wanted, &mount) {
        Ok(None) => Ok(()),
        Ok(Some((around, has))) => Err(format!(
            "memory.min of {} is {has} bytes, and the node's is {wanted}: give the group \
             above as much (MemoryMin= of its slice)",
            around.display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

fn set(base: &Cgroup, name: &str, limits: &GroupLimits) {
    let written = base.child(name).and_then(|group| group.set_limits(limits));
    if let Err(error) = written {
        tracing::warn!(group = name, %error, "the node's reserve is not in force");
    }
}
