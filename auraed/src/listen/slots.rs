// SPDX-License-Identifier: Apache-2.0
//! How many connections there may be: of the node, of one tenant, of one local user who has not proved who he is.
//! A slot is held by a connection and given back when it is dropped. Used by the listener alone.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots of the node that only its uid 0 may take, so that strangers can't lock root out.
const RESERVED_FOR_ROOT: usize = 16;

/// All the slots of a listener.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    strangers: Arc<Semaphore>,
    root: Arc<Semaphore>,
    /// Handshakes that run, by the peer's user id.
    pub(super) handshakes: Counted<Option<u32>>,
    /// Connections that were let in, by tenant.
    pub(super) tenants: Counted<String>,
}

/// A place among the node's connections.
#[derive(Debug)]
pub(super) struct Slot(#[allow(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Slots {
    /// At most so many connections, of which each tenant, and each local user during handshakes, may have so many.
    pub(super) fn new(connections: usize, per_tenant: usize) -> Self {
        let reserved = RESERVED_FOR_ROOT.min(connections / 4);
        Self {
            strangers: Arc::new(Semaphore::new(connections.saturating_sub(reserved))),
            root: Arc::new(Semaphore::new(reserved)),
            handshakes: Counted::new(per_tenant),
            tenants: Counted::new(per_tenant),
        }
    }

    /// A place for a connection of that user, if there is one.
    pub(super) fn take(&self, uid: Option<u32>) -> Option<Slot> {
        let try_take = |of: &Arc<Semaphore>| of.clone().try_acquire_owned().ok().map(Slot);
        try_take(&self.strangers).or_else(|| (uid == Some(0)).then(|| try_take(&self.root))?)
    }
}

/// Counts per key, at most so many each.
#[derive(Clone, Debug)]
pub(super) struct Counted<K: Eq + Hash>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    most: usize,
    counts: Mutex<HashMap<K, usize>>,
}

/// One of a key's count, given back on drop.
#[derive(Debug)]
pub(super) struct Count<K: Eq + Hash + Clone> {
    of: Counted<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> Counted<K> {
    fn new(most: usize) -> Self {
        Self(Arc::new(Inner {
            most,
            counts: Mutex::new(HashMap::new()),
        }))
    }

    /// One more for this key, unless it has as many as it may.
    pub(super) fn take(&self, key: K) -> Option<Count<K>> {
        let mut counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_insert(0);
        if *count >= self.0.most {
            return None;
        }
        *count += 1;
        Some(Count {
            of: self.clone(),
            key,
        })
    }
}

impl<K: Eq + Hash + Clone> Drop for Count<K> {
    fn drop(&mut self) {
        let mut counts = self
            .of
            .0
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_take_the_places_of_root() {
        let slots = Slots::new(64, 8);
        let taken: Vec<_> = std::iter::from_fn(|| slots.take(Some(1000))).collect();
        assert_eq!(taken.len(), 48);
        let roots: Vec<_> = std::iter::from_fn(|| slots.take(Some(0))).collect();
        assert_eq!(roots.len(), 16);
        drop(taken);
        assert!(slots.take(None).is_some());
    }

    #[test]
    fn each_key_has_its_own_count_and_gets_it_back() {
        let counted = Counted::new(2);
        let first = counted.take("a").unwrap();
        let _second = counted.take("a").unwrap();
        assert!(counted.take("a").is_none());
        assert!(counted.take("b").is_some());
        drop(first);
        assert!(counted.take("a").is_some());
        assert!(
            counted.0.counts.lock().unwrap().len() == 1,
            "a count of none is forgotten"
        );
    }
}
