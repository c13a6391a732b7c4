// SPDX-License-Identifier: Apache-2.0
//! Which finished records are too many, too large or too old.

use std::collections::{BTreeMap, HashMap};

use model::name::{Tenant, Uid};
use model::time::Timestamp;

use super::{Index, list};

impl Index {
    /// Whether a tenant has so many finished records that it is worth ageing some out.
    pub(crate) fn is_crowded(&self, tenant: &Tenant) -> bool {
        let inner = self.lock();
        let most = inner.bounds.finished_per_tenant;
        let many = inner.finished.get(tenant);
        many.is_some_and(|n| *n > most + most / 16)
    }

    /// What ended before this moment is too old to be kept; `CLOCK_REALTIME`, nanoseconds.
    pub(crate) fn oldest_kept(&self, now: Timestamp) -> i64 {
        let age = u64::try_from(self.lock().bounds.finished_age.as_nanos()).unwrap_or(u64::MAX);
        i64::try_from(now.0.saturating_sub(age)).unwrap_or(i64::MAX)
    }

    /// The finished records that are one too many of their tenant's, or too old at that moment;
    /// each tenant's oldest first.
    pub(crate) fn aged(&self, now: Timestamp) -> Vec<Uid> {
        let inner = self.lock();
        let age = u64::try_from(inner.bounds.finished_age.as_nanos()).unwrap_or(u64::MAX);
        let before = Timestamp(now.0.saturating_sub(age));
        let mut ended: BTreeMap<&Tenant, Vec<(Timestamp, Uid)>> = BTreeMap::new();
        for object in inner.objects.values().filter(|o| o.state().is_final()) {
            let of_tenant = ended.entry(&object.meta().tenant).or_default();
            of_tenant.push((list::finished(object), object.meta().uid));
        }
        let gone = ended.into_values().flat_map(|mut of_tenant| {
            of_tenant.sort_unstable();
            let excess = of_tenant
                .len()
                .saturating_sub(inner.bounds.finished_per_tenant);
            let old = of_tenant.iter().take_while(|(at, _)| *at < before).count();
            of_tenant.into_iter().take(excess.max(old))
        });
        gone.map(|(_, uid)| uid).collect()
    }
}

pub(super) fn one_less(counts: &mut HashMap<Tenant, usize>, tenant: &Tenant) {
    if let Some(count) = counts.get_mut(tenant) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(tenant);
        }
    }
}
