// SPDX-License-Identifier: Apache-2.0
//! What the schedules of one tenant share: places to start in, one declaration at a time, and the
//! news that one of them has changed. No tenant's is another one's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::name::Tenant;
use tokio::sync::{Semaphore, watch};

/// Starts of one tenant at the same time; more wait. The runtime has a bound of its own.
const STARTS: usize = 8;

/// Questions of health checks that a tenant may have open. More wait.
const QUESTIONS: usize = 32;

/// Of one tenant.
pub(crate) struct Yard {
    pub(crate) starts: Semaphore,
    /// Held while a schedule comes or goes.
    pub(crate) declaring: tokio::sync::Mutex<()>,
    /// Health checks that are asked at the same time.
    pub(crate) questions: Semaphore,
    /// Counts published statuses: who depends on another one looks then.
    pub(crate) news: watch::Sender<u64>,
}

impl Yard {
    fn new() -> Self {
        Self {
            starts: Semaphore::new(STARTS),
            declaring: tokio::sync::Mutex::default(),
            questions: Semaphore::new(QUESTIONS),
            news: watch::Sender::new(0),
        }
    }

    /// Something has changed that others of the tenant may depend on.
    pub(crate) fn tell(&self) {
        self.news
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Of all tenants that have had a schedule.
#[derive(Default)]
pub(crate) struct Yards(Mutex<BTreeMap<Tenant, Arc<Yard>>>);

impl Yards {
    pub(crate) fn of(&self, tenant: &Tenant) -> Arc<Yard> {
        let mut yards = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Yard::new());
        yards.entry(tenant.clone()).or_insert_with(new).clone()
    }
}
