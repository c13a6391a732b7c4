// SPDX-License-Identifier: Apache-2.0
//! The group of a tenant's cell-inits: where it is, what it may have, whether one more has room.
//!
//! It lies outside of the tenant's group and outside of the group of all tenants, so that the OOM
//! killer chooses no init for memory that a tenant, or all of them, took (ADR 17):
//!
//! ```text
//!   BASE/_inits/TENANT           the inits
//!   BASE/tenants/TENANT/CELL/…   what runs in the cells
//! ```
//! What it may have is a bound of its own, and the daemon refuses what would pass it: the kernel's
//! `memory.max` behind it is twice as much. A node-init of before has no `BASE/_inits` and looks
//! for inits in `BASE/tenants/TENANT/_inits` alone: there they are made as long as it runs, and
//! there they are found, whichever daemon made them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use init::protocol::{CLONERS, MAX_CELLS};
use kernel::cgroup::{Bound, Cgroup, Limits as GroupLimits};
use model::error::{Error, Reason};
use model::name::Tenant;
use model::quota::{ADMINISTRATORS, Amount, Capacity, Limits, Quota};

use crate::Shared;
use crate::cell::limits;

/// The group of the inits, in whatever group it is. No label begins with `_`.
const INITS: &str = "_inits";
/// The most that an init of a new cell takes, and what is made with it, in bytes.
pub(crate) const CELL: u64 = 1 << 20;
/// A record that is larger is looked at, in bytes.
const SMALL_RECORD: usize = 4096;
/// The least that a tenant's inits may have, in bytes.
const LEAST: u64 = 32 << 20;
/// The part of the tenant's `memory_max` that its inits may have beside it.
const PART: u64 = 8;
/// The part of the node's memory that all inits may have, at most.
const PART_OF_NODE: u64 = 4;
/// What they may have for each cell that the node may have, in bytes: several times what an init
/// takes.
const OF_EACH_CELL: u64 = 512 << 10;
/// Of the inits beside the group of all tenants, which has 100. Who keeps inits busy takes little
/// from other tenants' programs.
const WEIGHT: u64 = 50;

/// `BASE/_inits`, of the tenants' group.
fn outside(root: &Path) -> Option<PathBuf> {
    Some(root.parent()?.join(INITS))
}

/// The tenant whose inits are in the group of this path.
pub(crate) fn tenant_of<'a>(root: &Path, group: &'a Path) -> Option<&'a str> {
    let around = group.parent()?;
    let name = match group.file_name()? {
        _ if Some(around) == outside(root).as_deref() => group.file_name()?,
        name if name == INITS && around.parent() == Some(root) => around.file_name()?,
        _ => return None,
    };
    name.to_str()
}

/// What the kernel calls the groups of a tenant's inits; `root`: what it calls the tenants' group.
pub(crate) fn names(root: &str, tenant: &Tenant) -> Vec<String> {
    let base = root.rsplit_once('/').map_or("", |(base, _)| base);
    vec![
        format!("{base}/{INITS}/{tenant}"),
        format!("{root}/{tenant}/{INITS}"),
    ]
}

/// The groups of inits of all tenants, wherever they are.
pub(crate) fn all(root: &Cgroup) -> Vec<Cgroup> {
    let outside = outside(root.path()).and_then(|path| Cgroup::open(&path).ok());
    let outside = outside.map(|all| all.groups()).unwrap_or_default();
    let tenants = root.groups().into_iter();
    let beside_cells = tenants.filter_map(|(_, tenant)| tenant.child(INITS).ok());
    let outside = outside.into_iter().map(|(_, group)| group);
    outside.chain(beside_cells).collect()
}

/// The group of a tenant's inits; made with what its cells need where it isn't there. `cells`: the
/// tenant's group.
pub(crate) fn group(
    shared: &Shared,
    tenant: &Tenant,
    cells: &Cgroup,
) -> Result<Cgroup, kernel::Error> {
    let Some(all) = shared.inits.as_ref() else {
        return beside_cells(cells);
    };
    match all.child(tenant.as_str()) {
        Err(error) if error.is_not_found() => {}
        other => return other,
    }
    let group = all.ensure(tenant.as_str())?;
    bound_processes(all, &group)?;
    let wanted = super::of(&shared.tenants.limits(), tenant, &shared.controllers)?;
    tell(shared, tenant, &wanted)?;
    Ok(group)
}

/// As a node-init of before has them.
fn beside_cells(cells: &Cgroup) -> Result<Cgroup, kernel::Error> {
    match cells.child(INITS) {
        Err(error) if error.is_not_found() => {}
        other => return other,
    }
    // Before the group: where that is there, this was done.
    cells.let_group_clone(CLONERS)?;
    let group = cells.ensure(INITS)?;
    bound_processes(cells, &group)?;
    Ok(group)
}

fn bound_processes(around: &Cgroup, group: &Cgroup) -> Result<(), kernel::Error> {
    // An init for each cell, and a helper for each that is being made.
    match around.enabled()?.iter().any(|enabled| enabled == "pids") {
        true => group.write("pids.max", &(2 * MAX_CELLS).to_string()),
        false => Ok(()),
    }
}

/// The group of all inits, ready for those of tenants; `None` where node-init is one of before.
pub(crate) fn open(root: &Cgroup) -> Result<Option<Cgroup>, kernel::Error> {
    let Some(path) = outside(root.path()) else {
        return Ok(None);
    };
    let all = match Cgroup::open(&path) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let ready = limits::enable_usual(&all, &[]).and_then(|()| {
        let has_cpu = all.enabled()?.iter().any(|controller| controller == "cpu");
        all.set_limits(&GroupLimits {
            cpu_weight: has_cpu.then_some(WEIGHT),
            ..GroupLimits::default()
        })
    });
    if let Err(error) = ready {
        tracing::warn!(%error, "not every limit of cell-inits is in force");
    }
    Ok(Some(all))
}

/// Writes what the kernel is to hold a tenant's inits to; `cells`: the limits of the tenant's
/// group.
pub(super) fn tell(
    shared: &Shared,
    tenant: &Tenant,
    cells: &GroupLimits,
) -> Result<(), kernel::Error> {
    let Some(all) = shared.inits.as_ref() else {
        return Ok(());
    };
    let group = match all.child(tenant.as_str()) {
        Err(error) if error.is_not_found() => return Ok(()),
        other => other?,
    };
    let bound = bound(&shared.tenants.limits(), tenant);
    group.set_limits(&GroupLimits {
        memory_max: cells.memory_max.map(|_| match bound {
            u64::MAX => Bound::Max,
            bytes => Bound::At(bytes.saturating_mul(2)),
        }),
        cpu_max: cells.cpu_max,
        cpu_weight: cells.cpu_weight,
        ..GroupLimits::default()
    })
}

/// The bytes that a tenant's inits may have.
fn bound(limits: &Limits, tenant: &Tenant) -> u64 {
    match limits.amount(tenant, Quota::MemoryMax) {
        Amount::Unlimited => u64::MAX,
        _ => (limits.limit(tenant, Quota::MemoryMax) / PART).max(LEAST),
    }
}

/// Refuses what would make a tenant's inits, or all, larger than they may be. `more`: bytes.
///
/// # Errors
/// `LIMIT_EXCEEDED` about the quota `memory_max`.
pub(crate) fn admit(
    shared: &Shared,
    tenant: &Tenant,
    group: &Cgroup,
    more: u64,
) -> Result<(), Error> {
    let Some(all) = shared.inits.as_ref() else {
        return Ok(());
    };
    let current = |group: &Cgroup| group.memory_current().ok().flatten().unwrap_or(0);
    let limits = shared.tenants.limits();
    has_room(&limits, tenant, more, current(group), current(all))
}

/// The same for the record of an executable, which its init keeps. Small ones are within the slack
/// of the bound: nothing is read for them.
///
/// # Errors
/// As [`admit`].
pub(crate) fn admit_record(shared: &Shared, tenant: &Tenant, length: usize) -> Result<(), Error> {
    let group = shared.inits.as_ref().filter(|_| length > SMALL_RECORD);
    match group.map(|all| all.child(tenant.as_str())) {
        Some(Ok(group)) => admit(
            shared,
            tenant,
            &group,
            length.try_into().unwrap_or(u64::MAX),
        ),
        // The cell is one of before.
        Some(Err(_)) | None => Ok(()),
    }
}

/// The memory of all inits: no more than so many cells need.
fn pool(node: &Capacity) -> Capacity {
    let cells = node.of(Quota::Cells).saturating_mul(OF_EACH_CELL);
    let part = node.of(Quota::MemoryMax) / PART_OF_NODE;
    Capacity {
        whole: [(Quota::MemoryMax, part.min(cells).max(LEAST))].into(),
        reserve: node.reserve,
    }
}

/// The memory that all cells of ordinary tenants may have together, in bytes: what is left beside
/// the reserve and their inits. `u64::MAX`: no bound.
pub fn memory_of_cells(node: &Capacity) -> u64 {
    match node.for_tenants(Quota::MemoryMax) {
        u64::MAX => u64::MAX,
        // Never nothing, however small the node is.
        all => (all.saturating_sub(pool(node).for_tenants(Quota::MemoryMax))).max(all / 2),
    }
}

fn has_room(
    limits: &Limits,
    tenant: &Tenant,
    more: u64,
    used: u64,
    used_by_all: u64,
) -> Result<(), Error> {
    let inits = pool(&limits.capacity);
    let most = match tenant.as_str() == ADMINISTRATORS {
        true => inits.of(Quota::MemoryMax),
        false => inits.for_tenants(Quota::MemoryMax),
    };
    let refused = [
        (format!("the tenant {tenant}"), used, bound(limits, tenant)),
        ("all tenants".to_owned(), used_by_all, most),
    ];
    let refused = refused
        .into_iter()
        .find(|(_, used, bound)| used.saturating_add(more) > *bound);
    let Some((whose, used, bound)) = refused else {
        return Ok(());
    };
    let show = |bytes| Quota::MemoryMax.show(bytes);
    let message = format!(
        "the cell-inits of {whose} use {} of the {} that they may have beside memory_max; {} more \
         is too much",
        show(used),
        show(bound),
        show(more)
    );
    Err(Error::new(Reason::LimitExceeded, message)
        .about("quota", Quota::MemoryMax.as_str())
        .hint("remove cells that are not needed, or ask an administrator to raise memory_max"))
}

/// Removes the groups of a tenant's inits, in which nothing may live. `cells`: the tenant's group.
pub(super) fn remove(root: &Cgroup, tenant: &Tenant, cells: &Cgroup) -> Result<(), kernel::Error> {
    cells.remove(INITS, Duration::ZERO)?;
    match outside(root.path()).map(|path| Cgroup::open(&path)) {
        Some(Ok(all)) => all.remove(tenant.as_str(), Duration::ZERO),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn inits_are_known_by_their_group_in_both_places() {
        let root = Path::new("/sys/fs/cgroup/aurae/tenants");
        let of = |path: &'static str| tenant_of(root, Path::new(path));
        assert_eq!(of("/sys/fs/cgroup/aurae/_inits/blue"), Some("blue"));
        assert_eq!(of("/sys/fs/cgroup/aurae/tenants/blue/_inits"), Some("blue"));
        for another in [
            "/sys/fs/cgroup/aurae/_inits",
            "/sys/fs/cgroup/aurae/tenants/_inits",
            "/sys/fs/cgroup/aurae/tenants/blue/web/_inits",
            "/sys/fs/cgroup/aurae/tenants/blue/web",
            "/sys/fs/cgroup/_inits/blue",
        ] {
            assert_eq!(of(another), None, "{another}");
        }
        let names = names("/aurae/tenants", &"blue".parse().unwrap());
        assert_eq!(names, ["/aurae/_inits/blue", "/aurae/tenants/blue/_inits"]);
    }

    #[test]
    fn what_would_make_inits_too_large_is_refused_before_the_kernel_does() {
        let gib: u64 = 1 << 30;
        let capacity = Capacity {
            whole: BTreeMap::from([(Quota::MemoryMax, gib)]),
            reserve: 100,
        };
        let limits = Limits {
            capacity,
            set: BTreeMap::new(),
        };
        let (red, root): (Tenant, Tenant) = ("red".parse().unwrap(), "system".parse().unwrap());
        // Half of the node is the default; its inits may have an eighth of that.
        let own = gib / 16;
        let room = |tenant, used, all| has_room(&limits, tenant, CELL, used, all);
        assert!(room(&red, own - CELL, own).is_ok());
        let error = room(&red, own, own).unwrap_err();
        assert_eq!(error.reason, Reason::LimitExceeded);
        assert!(error.message.contains("64.0Mi of the 64.0Mi"), "{error}");
        // All together: a quarter of the node, of which a part is the administrators'.
        let all = gib / 4;
        assert!(room(&red, 0, all - CELL).is_err());
        assert!(room(&root, own, all - CELL).is_ok());
        assert!(room(&root, 0, all).is_err());
    }

    #[test]
    fn cells_inits_and_the_reserve_are_no_more_than_the_node() {
        let mib: u64 = 1 << 20;
        for (memory, cells) in [
            (128 * mib, 4096),
            (512 * mib, 4096),
            (2048 * mib, 256),
            (24_000 * mib, 4096),
            (1 << 40, 7680),
        ] {
            for reserve in [0, 100, 500] {
                let node = Capacity {
                    whole: [(Quota::MemoryMax, memory), (Quota::Cells, cells)].into(),
                    reserve,
                };
                let (of_cells, inits) = (memory_of_cells(&node), pool(&node));
                let together = of_cells + inits.for_tenants(Quota::MemoryMax);
                assert!(
                    together <= node.for_tenants(Quota::MemoryMax),
                    "{memory} {reserve}"
                );
                assert!(of_cells + inits.of(Quota::MemoryMax) <= memory);
                // A quarter at most, and no more than the cells need.
                assert!(inits.of(Quota::MemoryMax) <= (memory / 4).max(LEAST));
                assert!(inits.of(Quota::MemoryMax) <= (cells * OF_EACH_CELL).max(LEAST));
            }
        }
        let unknown = Capacity {
            whole: BTreeMap::new(),
            reserve: 100,
        };
        assert_eq!(memory_of_cells(&unknown), u64::MAX);
    }
}
