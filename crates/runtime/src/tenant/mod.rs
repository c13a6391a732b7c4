// SPDX-License-Identifier: Apache-2.0
//! A tenant's cgroup: all its cells are below it, and the kernel holds the tenant to those quotas
//! that are the kernel's (memory, CPU, processes, I/O). Made with the tenant's first cell, told
//! anew whenever quotas change, kept when the last cell is gone.
//!
//! Which numbers hold is `tenants`' word. What only the daemon can count is in `index::counts`.

pub(crate) mod inits;
pub(crate) mod io;
pub(crate) mod place;
mod rates;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kernel::cgroup::{Bound, Cgroup, CpuMax, Limits as GroupLimits};
use model::error::{Error, Reason};
use model::name::Tenant;
use model::quota::{ADMINISTRATORS, Limits, Quota};
use rustix::io::Errno;
use tenants::{Meter, Tenants};

use super::cell::limits as group_limits;
use super::{Runtime, Shared};

/// How long the kernel may take to end it.
const WORK_ENDS: Duration = Duration::from_secs(10);

/// The group of what the daemon does for a tenant; no cell can have such a name.
const WORK: &str = "_work";

/// Of `cpu.max`.
const PERIOD_US: u64 = 100_000;

/// Tenants whose group has been told its limits, and which limits these were.
#[derive(Default)]
pub(crate) struct Told {
    limits: Mutex<HashMap<Tenant, GroupLimits>>,
    rates: rates::Rates,
}

impl Told {
    fn limits(&self) -> MutexGuard<'_, HashMap<Tenant, GroupLimits>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, tenant: &Tenant) {
        self.limits().remove(tenant);
        self.rates.forget(tenant);
    }
}

/// The group of a tenant, with the limits of this moment.
pub(crate) fn group(shared: &Shared, tenant: &Tenant) -> Result<Cgroup, kernel::Error> {
    let group = shared.around(tenant.as_str()).ensure(tenant.as_str())?;
    tell(shared, tenant, &group);
    Ok(group)
}

/// Writes what has changed. A limit that the kernel refuses is on record and tried again with the
/// tenant's next cell; the others hold.
fn tell(shared: &Shared, tenant: &Tenant, group: &Cgroup) {
    let wanted = of(&shared.tenants.limits(), tenant, &shared.controllers);
    let mut told = shared.told.limits();
    if wanted
        .as_ref()
        .is_ok_and(|wanted| told.get(tenant) == Some(wanted))
    {
        return;
    }
    let written = wanted.and_then(|wanted| {
        write(group, &wanted)?;
        inits::tell(shared, tenant, &wanted)?;
        Ok(wanted)
    });
    match written {
        Ok(wanted) => {
            let is_protected = !matches!(wanted.memory_min, None | Some(Bound::At(0)));
            told.insert(tenant.clone(), wanted);
            if is_protected {
                protect(shared);
            }
            // A later look needs one to compare with.
            shared.told.rates.look(tenant, group);
        }
        Err(error) => tracing::error!(%tenant, %error, "a quota of the tenant is not in force"),
    }
}

/// Writes the limits, and lifts those of disks that `wanted` has no bound for.
fn write(group: &Cgroup, wanted: &GroupLimits) -> Result<(), kernel::Error> {
    let mut limits = wanted.clone();
    match io::lifted(group, &wanted.io_max) {
        Ok(lifted) => limits.io_max.extend(lifted),
        // Without the controller, or a kernel that has it, nothing was ever bounded.
        Err(error) if error.is_not_found() || error.is(Errno::OPNOTSUPP.raw_os_error()) => {}
        Err(error) => return Err(error),
    }
    group.set_limits(&limits)
}

/// Hands what is protected of the tenants' memory on to the groups around them, which are the
/// node's: without that it would protect nothing.
fn protect(shared: &Shared) {
    let around = shared.root.path().parent().unwrap_or(shared.root.path());
    let protected = shared
        .root
        .protect_children()
        .and_then(|_| Cgroup::open(around)?.protect_children());
    if let Err(error) = protected {
        tracing::error!(%error, "memory_min of the tenants is not in force");
    }
}

/// What the kernel is told of a tenant, as far as the node has the controllers.
fn of(
    limits: &Limits,
    tenant: &Tenant,
    controllers: &[String],
) -> Result<GroupLimits, kernel::Error> {
    let has = |name: &str| controllers.iter().any(|c| c == name);
    let bound = |quota| match limits.amount(tenant, quota).of(limits.capacity.of(quota)) {
        u64::MAX => Bound::Max,
        value => Bound::At(value),
    };
    // No group around the administrators' own has a bound, and a program of theirs may run away,
    // too: that leaves the node its reserve.
    let is_administrators = tenant.as_str() == ADMINISTRATORS;
    let own = |quota| match (bound(quota), limits.capacity.for_tenants(quota)) {
        (bound, u64::MAX) => bound,
        (Bound::At(value), most) if is_administrators => Bound::At(value.min(most)),
        (Bound::Max, most) if is_administrators => Bound::At(most),
        (bound, _) => bound,
    };
    let weight = |quota| limits.amount(tenant, quota).of(u64::MAX);
    let is_set = |quota| {
        limits
            .set
            .get(tenant)
            .is_some_and(|q| q.0.contains_key(&quota))
    };
    let mut wanted = GroupLimits::default();
    if has("memory") {
        wanted.memory_max = Some(own(Quota::MemoryMax));
        wanted.memory_high = Some(bound(Quota::MemoryHigh));
        wanted.memory_min = Some(bound(Quota::MemoryMin));
    }
    if has("cpu") {
        wanted.cpu_weight = Some(weight(Quota::CpuWeight));
        wanted.cpu_max = Some(CpuMax {
            quota_us: match bound(Quota::CpuMax) {
                Bound::Max => Bound::Max,
                // Thousandths of a CPU, of a period of 100 ms; the kernel takes no less than 1 ms.
                Bound::At(milli) => Bound::At((milli * (PERIOD_US / 1000)).max(1000)),
            },
            period_us: PERIOD_US,
        });
    }
    if has("pids") {
        wanted.pids_max = Some(own(Quota::Pids));
    }
    // Only some schedulers of disks have weights: not touched unless asked for.
    if has("io") && is_set(Quota::IoWeight) {
        wanted.io_weight = Some(weight(Quota::IoWeight));
    }
    if has("io") {
        wanted.io_max = io::max(limits, tenant)?;
    }
    Ok(wanted)
}

/// Tells every tenant's group of each change of the quotas, for as long as there is a runtime.
pub(crate) async fn follow(shared: Weak<Shared>, tenants: Tenants) {
    let mut changes = tenants.changes();
    loop {
        let Some(strong) = shared.upgrade() else {
            return;
        };
        strong.hold_finished_bytes();
        let told = tokio::task::spawn_blocking(move || tell_all(&strong)).await;
        if let Err(error) = told {
            tracing::error!(%error, "quotas could not be told to the kernel");
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn tell_all(shared: &Shared) {
    for (name, group) in shared.tenant_groups() {
        if let Ok(tenant) = name.parse() {
            tell(shared, &tenant, &group);
        }
    }
    // Also what one has lost.
    if shared.controllers.iter().any(|c| c == "memory") {
        protect(shared);
    }
}

impl Runtime {
    /// The folder of the group in which the daemon's own processes work for a tenant (unpacking an
    /// image): within the tenant's quotas, beside its cells. Blocks.
    ///
    /// # Errors
    /// `INTERNAL`: the kernel refuses the group.
    pub fn work_group(&self, tenant: &Tenant) -> Result<PathBuf, Error> {
        let made = group(&self.shared, tenant).and_then(|group| group.ensure(WORK));
        let made = made.map_err(|error| {
            Error::internal(format!(
                "the tenant's group for work can't be made: {error}"
            ))
        })?;
        Ok(made.path().to_owned())
    }

    /// Ends all that an earlier daemon has begun in [`Runtime::work_group`]s. Blocks.
    pub fn end_work(&self) {
        for (name, tenant) in self.shared.tenant_groups() {
            let Ok(work) = tenant.child(WORK) else {
                continue;
            };
            if let Err(error) = work.kill_and_wait(WORK_ENDS) {
                tracing::error!(tenant = name, %error, "an earlier daemon's work goes on");
            }
        }
    }

    /// Removes the group of a tenant that was removed. One that still holds a cell stays: the next
    /// cell that begins there is told the default quotas.
    pub async fn tenant_is_gone(&self, tenant: Tenant) {
        let shared = self.shared.clone();
        let removing = tokio::task::spawn_blocking(move || {
            // The group of a living cell that is idle has no process in it; that of the inits has.
            let around = shared.around(tenant.as_str());
            let group = around.child(tenant.as_str());
            let inits = group.and_then(|group| inits::remove(&shared.root, &tenant, &group));
            if inits.is_ok() {
                let _still_in_use = around.remove(tenant.as_str(), Duration::ZERO);
            }
            shared.told.forget(&tenant);
        });
        if let Err(error) = removing.await {
            tracing::error!(%error, "the group of a removed tenant stays");
        }
    }
}

/// The runtime's word on what tenants use.
pub(crate) struct Usage(pub(crate) Weak<Shared>);

impl Meter for Usage {
    fn used(&self, tenant: &Tenant) -> Vec<(Quota, u64)> {
        let Some(shared) = self.0.upgrade() else {
            return Vec::new();
        };
        let mut used = shared.index.used(tenant);
        used.push((Quota::FinishedBytes, shared.archive.bytes(tenant)));
        let around = shared.around(tenant.as_str());
        if let Ok(group) = around.child(tenant.as_str()) {
            used.extend(of_group(&group));
            used.extend(shared.told.rates.look(tenant, &group));
        }
        used
    }

    fn tenants(&self) -> Vec<Tenant> {
        self.0
            .upgrade()
            .map(|shared| shared.index.tenants())
            .unwrap_or_default()
    }
}

/// What the kernel counts. What can't be read isn't there.
fn of_group(group: &Cgroup) -> Vec<(Quota, u64)> {
    let memory = group.memory_usage().ok().flatten().map(|m| m.current);
    let pids = group.pids_usage().ok().flatten().map(|p| p.current);
    let of = |quota, value: Option<u64>| value.map(|value| (quota, value));
    // One number beside two limits: where the kernel slows down, and where it kills.
    let known = [
        of(Quota::MemoryMax, memory),
        of(Quota::MemoryHigh, memory),
        of(Quota::Pids, pids),
    ];
    known.into_iter().flatten().collect()
}

impl Runtime {
    /// Refuses a quota that this node's kernel could not carry out.
    ///
    /// # Errors
    /// `CONTROLLER_UNAVAILABLE` where the cgroup controller isn't there; `UNSUPPORTED` where the
    /// controller has no such limit.
    pub fn check_quota(&self, quota: Quota) -> Result<(), Error> {
        let root = self.shared.root.path();
        check(quota, &self.shared.controllers, |file| {
            root.join(file).exists()
        })
    }
}

fn check(
    quota: Quota,
    controllers: &[String],
    has_file: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let (needed, file) = match quota {
        Quota::MemoryMax | Quota::MemoryHigh | Quota::MemoryMin => ("memory", None),
        Quota::CpuMax | Quota::CpuWeight => ("cpu", None),
        Quota::Pids => ("pids", None),
        Quota::IoWeight => ("io", Some(("io.weight", "CONFIG_BLK_CGROUP_IOCOST"))),
        quota if io::is_of_max(quota) => ("io", Some(("io.max", "CONFIG_BLK_DEV_THROTTLING"))),
        _ => return Ok(()),
    };
    if !controllers.iter().any(|c| c == needed) {
        return Err(group_limits::unavailable(needed).field(quota.as_str()));
    }
    match file.filter(|(file, _)| !has_file(file)) {
        None => Ok(()),
        Some((file, option)) => {
            let message = format!("the node's kernel has no {file}");
            Err(Error::new(Reason::Unsupported, message)
                .field(quota.as_str())
                .hint(format!("boot a kernel with {option}")))
        }
    }
}

impl Shared {
    pub(crate) fn follow_quotas(self: &Arc<Self>) {
        self.tenants.register(Arc::new(Usage(Arc::downgrade(self))));
        tokio::spawn(follow(Arc::downgrade(self), self.tenants.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::quota::{Amount, Capacity, Quotas};

    use super::*;

    /// Of each quota of the kernel: what it is set to, and what the tenant's group is told then.
    #[test]
    fn each_quota_of_the_kernel_is_a_limit_of_the_tenants_group() {
        let tenant: Tenant = "acme".parse().unwrap();
        let controllers = ["memory", "cpu", "pids", "io"].map(str::to_owned);
        let told = |set: &[(Quota, &str)]| {
            let amounts = set.iter().map(|(q, text)| (*q, q.parse(text).unwrap()));
            let quotas = Quotas(amounts.collect());
            let limits = Limits {
                capacity: Capacity {
                    whole: BTreeMap::from([
                        (Quota::MemoryMax, 1 << 30),
                        (Quota::MemoryHigh, 1 << 30),
                        (Quota::MemoryMin, 1 << 30),
                        (Quota::CpuMax, 2000),
                        (Quota::Pids, 10_000),
                    ]),
                    reserve: 100,
                },
                set: [(tenant.clone(), quotas)].into(),
            };
            of(&limits, &tenant, &controllers).unwrap()
        };
        // Without a word of an administrator: half of the memory, four in ten processes.
        let by_default = told(&[]);
        assert_eq!(by_default.memory_max, Some(Bound::At(512 << 20)));
        assert_eq!(by_default.memory_high, Some(Bound::Max));
        assert_eq!(by_default.memory_min, Some(Bound::At(0)));
        assert_eq!(by_default.pids_max, Some(Bound::At(4000)));
        assert_eq!(by_default.cpu_weight, Some(100));
        assert_eq!(by_default.cpu_max.map(|max| max.quota_us), Some(Bound::Max));
        assert_eq!(by_default.io_weight, None);

        let set = told(&[
            (Quota::MemoryMax, "256M"),
            (Quota::MemoryHigh, "12.5%"),
            (Quota::MemoryMin, "64M"),
            (Quota::CpuMax, "1.5"),
            (Quota::CpuWeight, "20"),
            (Quota::Pids, "100"),
            (Quota::IoWeight, "50"),
        ]);
        assert_eq!(set.memory_max, Some(Bound::At(256 << 20)));
        assert_eq!(set.memory_high, Some(Bound::At(128 << 20)));
        assert_eq!(set.memory_min, Some(Bound::At(64 << 20)));
        let cpu = set.cpu_max.map(|max| (max.quota_us, max.period_us));
        assert_eq!(cpu, Some((Bound::At(150_000), 100_000)));
        assert_eq!(set.cpu_weight, Some(20));
        assert_eq!(set.pids_max, Some(Bound::At(100)));
        assert_eq!(set.io_weight, Some(50));

        // The least of a CPU that the kernel takes.
        let least = told(&[(Quota::CpuMax, "0.001")]).cpu_max;
        assert_eq!(least.map(|max| max.quota_us), Some(Bound::At(1000)));
    }

    #[test]
    fn a_program_of_administrators_that_runs_away_leaves_the_node_its_reserve() {
        let system = Tenant::system();
        let told = |set: &[(Quota, Amount)], tenant: &Tenant| {
            let limits = Limits {
                capacity: Capacity {
                    whole: [(Quota::MemoryMax, 1000 << 20), (Quota::Pids, 10_000)].into(),
                    reserve: 100,
                },
                set: [(tenant.clone(), Quotas(set.iter().copied().collect()))].into(),
            };
            let controllers = ["memory", "pids"].map(str::to_owned);
            let of = of(&limits, tenant, &controllers).unwrap();
            (of.memory_max.unwrap(), of.pids_max.unwrap())
        };
        let reserve = (Bound::At(900 << 20), Bound::At(9000));
        assert_eq!(told(&[], &system), reserve);
        let much = [
            (Quota::MemoryMax, Amount::Unlimited),
            (Quota::Pids, Amount::Absolute(9_999)),
        ];
        assert_eq!(told(&much, &system), reserve);
        let little = [(Quota::Pids, Amount::Absolute(50))];
        let (memory, processes) = told(&little, &system);
        assert_eq!((memory, processes), (reserve.0, Bound::At(50)));
        // The group around all others has the bound.
        let red = "red".parse().unwrap();
        assert_eq!(told(&much, &red), (Bound::Max, Bound::At(9_999)));
    }

    #[test]
    fn a_quota_that_the_kernel_lacks_is_refused_by_what_is_missing() {
        let controllers = ["io".to_owned(), "memory".to_owned()];
        let old = |quota| check(quota, &controllers, |_| false);
        assert!(old(Quota::MemoryMax).is_ok() && old(Quota::Cells).is_ok());
        assert_eq!(
            old(Quota::Pids).unwrap_err().reason,
            Reason::ControllerUnavailable
        );
        for quota in [Quota::IoReadBytes, Quota::IoWrites] {
            let error = old(quota).unwrap_err();
            assert_eq!(error.reason, Reason::Unsupported);
            assert_eq!(error.message, "the node's kernel has no io.max");
            assert_eq!(error.field.as_deref(), Some(quota.as_str()));
            assert!(check(quota, &controllers, |file| file == "io.max").is_ok());
            assert!(check(quota, &[], |_| true).is_err());
        }
        let weight = old(Quota::IoWeight).unwrap_err();
        assert_eq!(weight.message, "the node's kernel has no io.weight");
    }
}
