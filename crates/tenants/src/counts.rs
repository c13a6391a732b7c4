// SPDX-License-Identifier: Apache-2.0
//! How much of which quotas each tenant has. Plain numbers: the owner of a pool keeps them under
//! its own lock, and asks [`model::quota::Limits::admit`] with what [`Counts::used`] answers.

use std::collections::HashMap;

use model::name::Tenant;
use model::quota::{ADMINISTRATORS, Quota, Used};

/// See the module.
#[derive(Debug, Default)]
pub struct Counts {
    /// By tenant and quota; what is 0 isn't there.
    of: HashMap<(Tenant, Quota), u64>,
    all: HashMap<Quota, u64>,
    administrators: HashMap<Quota, u64>,
}

impl Counts {
    /// How much a tenant, all tenants together, and the administrators have.
    pub fn used(&self, tenant: &Tenant, quota: Quota) -> Used {
        let of_all = |sums: &HashMap<Quota, u64>| sums.get(&quota).copied().unwrap_or_default();
        let of_tenant = self.of.get(&(tenant.clone(), quota));
        Used {
            tenant: of_tenant.copied().unwrap_or_default(),
            all: of_all(&self.all),
            administrators: of_all(&self.administrators),
        }
    }

    /// A tenant has so much more, whatever its quota.
    pub fn add(&mut self, tenant: &Tenant, quota: Quota, amount: u64) {
        *self.of.entry((tenant.clone(), quota)).or_default() += amount;
        *self.all.entry(quota).or_default() += amount;
        if tenant.as_str() == ADMINISTRATORS {
            *self.administrators.entry(quota).or_default() += amount;
        }
    }

    /// A tenant has so much less.
    pub fn subtract(&mut self, tenant: &Tenant, quota: Quota, amount: u64) {
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
