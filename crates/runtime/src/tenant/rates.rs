// SPDX-License-Identifier: Apache-2.0
//! What a tenant uses in a second of what flows: CPUs and disks. The kernel counts totals, by
//! group; a rate is the difference of two looks. Nothing looks by itself: who asks does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kernel::cgroup::{Cgroup, IoStat};
use model::name::Tenant;
use model::quota::Quota;

use super::io;

/// The time that a rate is the mean of, at least.
const SPAN: Duration = Duration::from_secs(1);

/// The rates of tenants, as of the last look at each.
#[derive(Default)]
pub(crate) struct Rates(Mutex<HashMap<Tenant, Look>>);

struct Look {
    at: Instant,
    totals: Totals,
    /// Nothing after the first look.
    rates: Vec<(Quota, u64)>,
}

/// What the kernel has counted of a group. `None`: it has no word on that.
struct Totals {
    /// Microseconds of all processes.
    cpu_us: Option<u64>,
    disks: Option<Vec<IoStat>>,
}

impl Totals {
    fn of(group: &Cgroup) -> Self {
        Self {
            // There without the controller, too.
            cpu_us: group.cpu_stat().ok().map(|cpu| cpu.usage_us),
            disks: group.io_stat().ok().flatten(),
        }
    }

    fn since(&self, before: &Self, span: Duration) -> Vec<(Quota, u64)> {
        let cpu = before.cpu_us.zip(self.cpu_us);
        let cpu = cpu.map(|(had, now)| (Quota::CpuMax, milli_cpus(had, now, span)));
        let disks = before.disks.as_ref().zip(self.disks.as_ref());
        let disks = disks.map(|(had, now)| io::rates(had, now, span));
        cpu.into_iter().chain(disks.into_iter().flatten()).collect()
    }
}

impl Rates {
    /// Looks at a tenant's group, where the last look is long enough ago, and says the rates.
    /// Nothing where they are not known.
    pub(super) fn look(&self, tenant: &Tenant, group: &Cgroup) -> Vec<(Quota, u64)> {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = looks.get(tenant);
        let last = last.map(|last| (last, last.at.elapsed()));
        if let Some((last, _)) = last.filter(|(_, span)| *span < SPAN) {
            return last.rates.clone();
        }
        let totals = Totals::of(group);
        let rates = last.map(|(last, span)| totals.since(&last.totals, span));
        let rates = rates.unwrap_or_default();
        let look = Look {
            at: Instant::now(),
            totals,
            rates: rates.clone(),
        };
        looks.insert(tenant.clone(), look);
        rates
    }

    pub(super) fn forget(&self, tenant: &Tenant) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looks.remove(tenant);
    }
}

/// Thousandths of a CPU: a microsecond in a millisecond is one.
fn milli_cpus(before_us: u64, now_us: u64, span: Duration) -> u64 {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1);
    // A group that was made anew counts from 0.
    now_us.saturating_sub(before_us) / millis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(cpu_us: Option<u64>, read_bytes: Option<u64>) -> Totals {
        let disk = |read_bytes| IoStat {
            device: (254, 0),
            read_bytes,
            ..IoStat::default()
        };
        Totals {
            cpu_us,
            disks: read_bytes.map(|bytes| vec![disk(bytes)]),
        }
    }

    #[test]
    fn a_tenants_cpu_is_told_in_thousandths_beside_its_disks() {
        let span = Duration::from_secs(2);
        let before = totals(Some(1_000_000), Some(0));
        let now = totals(Some(4_000_000), Some(8192));
        assert_eq!(
            now.since(&before, span),
            [
                (Quota::CpuMax, 1500),
                (Quota::IoReadBytes, 4096),
                (Quota::IoWriteBytes, 0),
                (Quota::IoReads, 0),
                (Quota::IoWrites, 0),
            ]
        );
        // Made anew, it counts from 0; a kernel without `io` tells of CPUs alone.
        let anew = totals(Some(10), None);
        assert_eq!(anew.since(&now, span), [(Quota::CpuMax, 0)]);
        assert_eq!(totals(None, None).since(&now, span), []);
    }
}
