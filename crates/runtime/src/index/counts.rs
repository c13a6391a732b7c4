// SPDX-License-Identifier: Apache-2.0
//! How many cells, executables and ids each tenant has, living and being made, and how long their
//! specs are. The index counts here, and asks here whether a tenant may have more; the rule is
//! `model::quota`'s.

use std::collections::HashMap;
use std::sync::Arc;

use model::error::Error;
use model::name::{Tenant, Uid};
use model::object::Kind;
use model::quota::{Limits, Quota, Storage};

/// Who may have how much, as of the moment of the call.
pub(crate) type LimitsNow = Arc<dyn Fn() -> Arc<Limits> + Send + Sync>;

/// See the module.
pub(super) struct Counts {
    limits: LimitsNow,
    counts: tenants::Counts,
    /// What is counted of the spec of each object that has not ended, in bytes.
    specs: HashMap<Uid, u64>,
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
            specs: HashMap::new(),
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

    /// Whether a tenant may have another object, with a spec of that length.
    pub(super) fn admit_object(&self, tenant: &Tenant, kind: Kind, spec: u64) -> Result<(), Error> {
        self.admit(tenant, quota_of(kind), 1)?;
        match spec {
            0 => Ok(()),
            _ => {
                let admitted = self.admit(tenant, Quota::SpecBytes, spec);
                admitted.map_err(|e| e.field(format!("{}.spec", kind.as_str())))
            }
        }
    }

    /// An object is there, or about to be made, whatever the quotas.
    pub(super) fn begin(&mut self, tenant: &Tenant, kind: Kind, uid: Uid, spec: u64) {
        self.add(tenant, quota_of(kind), 1);
        self.set_spec(tenant, uid, spec);
    }

    /// How long the spec of an object is that is counted already.
    pub(super) fn set_spec(&mut self, tenant: &Tenant, uid: Uid, spec: u64) {
        let before = self.specs.insert(uid, spec).unwrap_or_default();
        self.add(tenant, Quota::SpecBytes, spec);
        self.subtract(tenant, Quota::SpecBytes, before);
    }

    /// It has ended, or was not made.
    pub(super) fn end(&mut self, tenant: &Tenant, kind: Kind, uid: Uid) {
        self.subtract(tenant, quota_of(kind), 1);
        let spec = self.specs.remove(&uid).unwrap_or_default();
        self.subtract(tenant, Quota::SpecBytes, spec);
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
            Quota::SpecBytes,
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
