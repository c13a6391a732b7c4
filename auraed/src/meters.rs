// SPDX-License-Identifier: Apache-2.0
//! Usage of pools whose owners don't know `tenants`: the audit's bytes, which identity counts.
//! `serve` registers it; `Tenant.Get` asks.

use std::sync::{Arc, Weak};

use identity::Identity;
use model::name::Tenant;
use model::quota::Quota;
use tenants::{Meter, Tenants};

struct AuditBytes(Weak<Identity>);

/// Registers the meter by which `Tenant.Get` shows the bytes of each tenant's audit.
pub(crate) fn register(tenants: &Tenants, identity: &Arc<Identity>) {
    tenants.register(Arc::new(AuditBytes(Arc::downgrade(identity))));
}

impl Meter for AuditBytes {
    fn used(&self, tenant: &Tenant) -> Vec<(Quota, u64)> {
        let identity = self.0.upgrade();
        let bytes = identity.map(|identity| identity.audit().bytes(tenant));
        bytes
            .map(|bytes| (Quota::AuditBytes, bytes))
            .into_iter()
            .collect()
    }

    fn tenants(&self) -> Vec<Tenant> {
        // The audit of a removed tenant stays, but doesn't count as a tenant.
        Vec::new()
    }
}
