// SPDX-License-Identifier: Apache-2.0
//! How many cells, executables and ids each tenant has, living and being made. The index counts
//! here, and asks here whether a tenant may have more; the rule is `model::quota`'s.

use std::sync::Arc;

use model::error::Error;
use model::name::Tenant;
use model::object::Kind;
use model::quota::{Limits, Quota, Storage};

/// Who may have how much, as of the moment of the call.
pub(crate) type LimitsNow = Arc<dyn Fn() -> Arc<Limits> + Send + Sync>;

/// See the module.
pub(super) struct Counts {
    limits: LimitsNow,
    counts: tenants::Counts,
}

/// The quota that an object counts in.
pub(super) fn quota_of(kind: Kind) -> Quota {
    match kind {
        Kind::Cell => Quota::Cells,
        Kind::Executable => Quota::Executables,
    }
}

impl Counts {
    pub(super) fn new(limits: LimitsNow) -> Self {
        Self {
            limits,
            counts: tenants::Counts::default(),
        }
    }

    /// How much a tenant has.
    pub(super) fn used(&self, tenant: &Tenant, quota: Quota) -> u64 {
        self.counts.used(tenant, quota).tenant
    }

    /// Whether a tenant may have so much more.
    pub(super) fn admit(&self, tenant: &Tenant, quota: Quota, wanted: u64) -> Result<(), Error> {
        let used = self.counts.used(tenant, quota);
        (self.limits)().admit(tenant, quota, wanted, used)
    }

    /// A tenant has so much more, whatever its quota.
    pub(super) fn add(&mut self, tenant: &Tenant, quota: Quota, amount: u64) {
        self.counts.add(tenant, quota, amount);
    }

    /// A tenant's workloads have so much more to write to, whatever the quotas.
    pub(super) fn add_storage(&mut self, tenant: &Tenant, more: Storage) {
        for (quota, bytes) in more.by_quota() {
            self.add(tenant, quota, bytes);
        }
    }

    /// They have so much less.
    pub(super) fn subtract_storage(&mut self, tenant: &Tenant, less: Storage) {
        for (quota, bytes) in less.by_quota() {
            self.subtract(tenant, quota, bytes);
        }
    }

    /// A tenant has so much less.
    pub(super) fn subtract(&mut self, tenant: &Tenant, quota: Quota, amount: u64) {
        self.counts.subtract(tenant, quota, amount);
    }
}

impl super::Index {
    /// What a tenant has of what the index counts.
    pub(crate) fn used(&self, tenant: &Tenant) -> Vec<(Quota, u64)> {
        let inner = self.lock();
        let counted = [
            Quota::Cells,
            Quota::Executables,
            Quota::Ids,
            Quota::Tmpfs,
            Quota::Disk,
        ];
        let mut used: Vec<_> = counted
            .into_iter()
            .map(|quota| (quota, inner.counts.used(tenant, quota)))
            .collect();
        used.push((Quota::RequestIds, inner.requests.used(tenant)));
        used
    }

    /// Tenants that have an object, living or finished.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        let inner = self.lock();
        let mut found: Vec<Tenant> = inner.objects.keys().map(|key| key.tenant.clone()).collect();
        found.dedup();
        found
    }
}
