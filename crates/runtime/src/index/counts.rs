// SPDX-License-Identifier: Apache-2.0
//! How many cells, executables and ids each tenant has, living and being made. The index counts
//! here, and asks here whether a tenant may have more; the rule is `model::quota`'s.

use std::collections::HashMap;
use std::sync::Arc;

use model::error::Error;
use model::name::Tenant;
use model::object::Kind;
use model::quota::{ADMINISTRATORS, Limits, Quota, Used};

/// Who may have how much, as of the moment of the call.
pub(crate) type LimitsNow = Arc<dyn Fn() -> Arc<Limits> + Send + Sync>;

/// See the module.
pub(super) struct Counts {
    limits: LimitsNow,
    /// By tenant and quota; what is 0 isn't there.
    of: HashMap<(Tenant, Quota), u64>,
    all: HashMap<Quota, u64>,
    administrators: HashMap<Quota, u64>,
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
            of: HashMap::new(),
            all: HashMap::new(),
            administrators: HashMap::new(),
        }
    }

    /// How much a tenant has.
    pub(super) fn used(&self, tenant: &Tenant, quota: Quota) -> u64 {
        let found = self.of.get(&(tenant.clone(), quota));
        found.copied().unwrap_or_default()
    }

    /// Whether a tenant may have so much more.
    pub(super) fn admit(&self, tenant: &Tenant, quota: Quota, wanted: u64) -> Result<(), Error> {
        let used = Used {
            tenant: self.used(tenant, quota),
            all: self.all.get(&quota).copied().unwrap_or_default(),
            administrators: self.administrators.get(&quota).copied().unwrap_or_default(),
        };
        (self.limits)().admit(tenant, quota, wanted, used)
    }

    /// A tenant has so much more; nobody is asked.
    pub(super) fn add(&mut self, tenant: &Tenant, quota: Quota, amount: u64) {
        *self.of.entry((tenant.clone(), quota)).or_default() += amount;
        *self.all.entry(quota).or_default() += amount;
        if tenant.as_str() == ADMINISTRATORS {
            *self.administrators.entry(quota).or_default() += amount;
        }
    }

    /// A tenant has so much less.
    pub(super) fn subtract(&mut self, tenant: &Tenant, quota: Quota, amount: u64) {
        let administrators = tenant.as_str() == ADMINISTRATORS;
        let key = (tenant.clone(), quota);
        if let Some(count) = self.of.get_mut(&key) {
            *count = count.saturating_sub(amount);
            if *count == 0 {
                self.of.remove(&key);
            }
        }
        let sums = [
            Some(&mut self.all),
            administrators.then_some(&mut self.administrators),
        ];
        for sum in sums.into_iter().flatten() {
            if let Some(count) = sum.get_mut(&quota) {
                *count = count.saturating_sub(amount);
            }
        }
    }
}

impl super::Index {
    /// What a tenant has of what the index counts.
    pub(crate) fn used(&self, tenant: &Tenant) -> Vec<(Quota, u64)> {
        let inner = self.lock();
        let counted = [Quota::Cells, Quota::Executables, Quota::Ids, Quota::Tmpfs];
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
