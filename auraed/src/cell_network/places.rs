// SPDX-License-Identifier: Apache-2.0
//! Who may run plugins at once: in turns by tenant, no tenant in all places, and some for the
//! node's own. A plugin that hangs has its place until its time is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use model::name::Tenant;
use tenants::Turns;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// For all tenants but `system` together.
const SHARED: usize = 6;
/// For one of them.
const EACH: usize = 3;
/// For the tenant `system`.
const RESERVE: usize = 2;

/// See the module.
pub(super) struct Places {
    shared: Turns,
    reserve: Turns,
    each: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            shared: Turns::new(SHARED),
            reserve: Turns::new(RESERVE),
            each: Mutex::default(),
        }
    }
}

/// Free when it is dropped.
pub(super) struct Place {
    _shared: tenants::Place,
    _own: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) async fn take(&self, tenant: &Tenant) -> Place {
        if *tenant == Tenant::system() {
            return Place {
                _shared: self.reserve.take(tenant).await,
                _own: None,
            };
        }
        // The semaphore is never closed.
        let own = self.of(tenant).acquire_owned().await.ok();
        Place {
            _shared: self.shared.take(tenant).await,
            _own: own,
        }
    }

    fn of(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = each.get(tenant).and_then(Weak::upgrade) {
            return own;
        }
        each.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(EACH));
        each.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn no_tenant_has_all_places_and_the_node_has_its_own() {
        let places = Places::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| name.parse::<Tenant>().unwrap());
        let now = |tenant: &Tenant| places.take(tenant).now_or_never();
        let held: Vec<_> = (0..EACH).map(|_| now(&a).unwrap()).collect();
        assert!(now(&a).is_none());
        let others: Vec<_> = (0..EACH).map(|_| now(&b).unwrap()).collect();
        assert!(now(&c).is_none());
        assert!(now(&Tenant::system()).is_some());
        drop(held);
        assert!(now(&c).is_some() && now(&a).is_some());
        drop(others);
    }
}
