// SPDX-License-Identifier: Apache-2.0
//! A pool in the daemon's memory that tenants share: calls, bytes of requests, readers of logs.
//! What is taken is given back when [`Taken`] is dropped, on whatever way that happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::Error;
use model::name::Tenant;
use model::quota::Quota;

use super::{Counts, Meter, Tenants};

/// See the module. Clones share the pool.
#[derive(Clone, Debug)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    quota: Quota,
    tenants: Tenants,
    taken: Mutex<Counts>,
}

/// A part of a pool; goes back when dropped.
#[derive(Debug)]
pub struct Taken {
    pool: Pool,
    tenant: Tenant,
    amount: u64,
}

impl Pool {
    /// The pool of a quota, nothing of it taken. `Tenant.Get` shows its use from now on.
    pub fn new(tenants: &Tenants, quota: Quota) -> Self {
        let pool = Self {
            inner: Arc::new(Inner {
                quota,
                tenants: tenants.clone(),
                taken: Mutex::default(),
            }),
        };
        tenants.register(Arc::new(pool.clone()));
        pool
    }

    /// Who may have how much of it.
    pub fn tenants(&self) -> &Tenants {
        &self.inner.tenants
    }

    /// Takes a part.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` as of [`model::quota::Limits::admit`].
    pub fn take(&self, tenant: &Tenant, amount: u64) -> Result<Taken, Error> {
        self.admit(tenant, amount)?;
        Ok(Taken {
            pool: self.clone(),
            tenant: tenant.clone(),
            amount,
        })
    }

    /// The same for what is there already: a tenant that has nothing else of the pool gets it,
    /// however much that is, so that nothing is too large for every moment.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` as of [`Pool::take`].
    pub fn take_or_alone(&self, tenant: &Tenant, amount: u64) -> Result<Taken, Error> {
        let used = self.lock().used(tenant, self.inner.quota).tenant;
        match self.take(tenant, amount) {
            Err(_) if used == 0 => Ok(self.count(tenant, amount)),
            taken => taken,
        }
    }

    /// Counts what a tenant has already, also beyond its quota: what the disk kept over a restart.
    pub fn count(&self, tenant: &Tenant, amount: u64) -> Taken {
        self.lock().add(tenant, self.inner.quota, amount);
        Taken {
            pool: self.clone(),
            tenant: tenant.clone(),
            amount,
        }
    }

    /// The most that a tenant may take now.
    pub fn room(&self, tenant: &Tenant) -> u64 {
        let limits = self.inner.tenants.limits();
        let used = self.lock().used(tenant, self.inner.quota);
        limits.room(tenant, self.inner.quota, used)
    }

    fn admit(&self, tenant: &Tenant, amount: u64) -> Result<(), Error> {
        let limits = self.inner.tenants.limits();
        let mut taken = self.lock();
        let used = taken.used(tenant, self.inner.quota);
        limits.admit(tenant, self.inner.quota, amount, used)?;
        taken.add(tenant, self.inner.quota, amount);
        Ok(())
    }

    fn give_back(&self, tenant: &Tenant, amount: u64) {
        self.lock().subtract(tenant, self.inner.quota, amount);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.inner
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Takes more of the same pool; it goes back with the rest.
    ///
    /// # Errors
    /// As of [`Pool::take`]; what was taken before stays.
    pub fn grow(&mut self, amount: u64) -> Result<(), Error> {
        self.pool.admit(&self.tenant, amount)?;
        self.amount += amount;
        Ok(())
    }

    /// What its tenant has of the pool now, this part included.
    pub fn of_tenant(&self) -> u64 {
        self.pool
            .lock()
            .used(&self.tenant, self.pool.inner.quota)
            .tenant
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.pool.give_back(&self.tenant, self.amount);
    }
}

impl Meter for Pool {
    fn used(&self, tenant: &Tenant) -> Vec<(Quota, u64)> {
        let used = self.lock().used(tenant, self.inner.quota);
        vec![(self.inner.quota, used.tenant)]
    }

    fn tenants(&self) -> Vec<Tenant> {
        // A pool's users are connected, so they are known by their user already.
        Vec::new()
    }
}
