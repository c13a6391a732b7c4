// SPDX-License-Identifier: Apache-2.0
//! Refusals have a bounded rate per tenant and method. A refused call costs the daemon a request, a
//! decision and a line of the audit, and its client may ask again at once. So a tenant whose calls
//! were refused more often than [`RATE`] waits before its next call *of that method* begins: calls
//! wait one behind the other, nothing is decided for them meanwhile, and a client can't have more
//! waiting than it may have calls open. Its other methods, and all other tenants, don't wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::name::Tenant;

/// Refusals of a tenant's method in a second.
const RATE: u32 = 50;
/// Refusals that may come at once, after a while without any.
const BURST: u32 = 100;
/// The longest that a call waits.
const LONGEST: Duration = Duration::from_secs(10);
/// Tenants and methods between two looks for those that owe nothing any more.
const SWEEP: usize = 1024;

/// What tenants owe for their refusals; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    owed: Arc<Mutex<HashMap<Key, Instant>>>,
}

type Key = (Tenant, &'static str);

impl Refusals {
    /// How long a call of `method` that comes now is to wait before it begins. `None`: it begins at
    /// once. A call that waits has paid for its own refusal.
    pub fn wait(&self, tenant: &Tenant, method: &'static str, now: Instant) -> Option<Duration> {
        let mut owed = self.lock();
        let until = owed.get_mut(&(tenant.clone(), method))?;
        let wait = until.checked_duration_since(now + every() * BURST)?;
        if wait.is_zero() {
            return None;
        }
        if wait < LONGEST {
            *until += every();
        }
        Some(wait.min(LONGEST))
    }

    /// A call that didn't wait was refused.
    pub fn refused(&self, tenant: &Tenant, method: &'static str, now: Instant) {
        let mut owed = self.lock();
        if owed.len() >= SWEEP {
            owed.retain(|_, until| *until > now);
        }
        let until = owed.entry((tenant.clone(), method)).or_insert(now);
        *until = (*until).max(now) + every();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn every() -> Duration {
    Duration::from_secs(1) / RATE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    /// Calls that are refused and asked for again at once, by so many clients of one tenant, for
    /// so long; answers how many were refused.
    fn flood(refusals: &Refusals, begin: Instant, clients: usize, seconds: u64) -> u32 {
        let eve = tenant("eve");
        let mut clients = vec![begin; clients];
        let end = begin + Duration::from_secs(seconds);
        let mut refused = 0;
        while let Some(at) = clients.iter_mut().min().filter(|at| **at < end) {
            match refusals.wait(&eve, "observe.Logs", *at) {
                Some(wait) => *at += wait,
                None => refusals.refused(&eve, "observe.Logs", *at),
            }
            refused += 1;
            // The call and the way back.
            *at += Duration::from_millis(1);
        }
        refused
    }

    #[test]
    fn a_flood_is_refused_at_a_bounded_rate_and_no_other_call_waits() {
        let (refusals, begin) = (Refusals::default(), Instant::now());
        let refused = flood(&refusals, begin, 300, 10);
        // What came first, the rate, and one more of each client that waits at the end.
        assert!(refused <= BURST + RATE * 10 + 300, "{refused}");
        assert!(refused >= RATE * 9, "{refused}");
        let now = begin + Duration::from_secs(10);
        let [eve, bob] = ["eve", "bob"].map(tenant);
        assert!(refusals.wait(&eve, "observe.Logs", now).is_some());
        assert_eq!(refusals.wait(&eve, "runtime.RunExecutable", now), None);
        assert_eq!(refusals.wait(&bob, "observe.Logs", now), None);
    }

    #[test]
    fn a_few_refusals_cost_nothing_and_a_flood_is_forgiven() {
        let (refusals, begin) = (Refusals::default(), Instant::now());
        let ann = tenant("ann");
        for _ in 0..BURST {
            assert_eq!(refusals.wait(&ann, "runtime.RunCell", begin), None);
            refusals.refused(&ann, "runtime.RunCell", begin);
        }
        flood(&refusals, begin, 2000, 10);
        let later = begin + Duration::from_secs(10) + LONGEST * 2;
        assert_eq!(refusals.wait(&tenant("eve"), "observe.Logs", later), None);
    }
}
