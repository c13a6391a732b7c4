// SPDX-License-Identifier: Apache-2.0
//! How many connections there may be: such that have proved nothing yet, and such that were let in.
//! Used by the listener alone.
//!
//! Who has proved nothing is never refused, but may be *displaced*: when there are too many, the
//! oldest of whichever source has the most of them goes. So a flood of silent or slow connections
//! displaces itself, and whoever completes the handshake promptly gets through, also from the same
//! source.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Connections whose handshake isn't done; a descriptor and up to 40 KB each.
const UNPROVEN: usize = 512;
/// Places that only the administrators' tenant may take: whoever fills the rest doesn't lock them
/// out.
const RESERVED: usize = 16;

/// Who knocks, before anything is proved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    /// A local user, as the kernel says.
    User(u32),
    /// An address.
    Address(IpAddr),
    /// The kernel doesn't say.
    Unknown,
}

/// All bounds of a listener; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    unproven: Arc<Mutex<Unproven>>,
    places: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    of_tenant: Counted<String>,
}

/// By source, oldest first.
#[derive(Debug, Default)]
struct Unproven {
    by_source: HashMap<Source, VecDeque<(u64, Arc<Notify>)>>,
    count: usize,
    next: u64,
}

/// A connection that has proved nothing yet; ends when dropped.
#[derive(Debug)]
pub(super) struct Stranger {
    source: Source,
    number: u64,
    displaced: Arc<Notify>,
    among: Arc<Mutex<Unproven>>,
}

impl Stranger {
    /// Waits until others take its place.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        lock(&self.among).remove(self.source, self.number);
    }
}

impl Unproven {
    fn remove(&mut self, source: Source, number: u64) {
        let Some(queue) = self.by_source.get_mut(&source) else {
            return;
        };
        let before = queue.len();
        queue.retain(|(n, _)| *n != number);
        self.count -= before - queue.len();
        if queue.is_empty() {
            self.by_source.remove(&source);
        }
    }

    fn displace_one(&mut self) {
        let largest = self.by_source.iter().max_by_key(|(_, queue)| queue.len());
        let Some(source) = largest.map(|(source, _)| *source) else {
            return;
        };
        let oldest = self
            .by_source
            .get(&source)
            .and_then(|queue| queue.front())
            .cloned();
        if let Some((number, displaced)) = oldest {
            self.remove(source, number);
            displaced.notify_one();
        }
    }
}

fn lock(unproven: &Mutex<Unproven>) -> MutexGuard<'_, Unproven> {
    unproven.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that was let in.
#[derive(Debug)]
pub(super) struct Place {
    _all: OwnedSemaphorePermit,
    _of: Count<String>,
}

/// Why there is no place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Full {
    /// For anybody.
    Node,
    /// For this tenant.
    Tenant,
}

impl Admission {
    /// At most so many connections let in, and so many of each tenant.
    pub(super) fn new(connections: usize, per_tenant: usize) -> Self {
        let reserved = RESERVED.min(connections / 4);
        Self {
            unproven: Arc::default(),
            places: Arc::new(Semaphore::new(connections - reserved)),
            reserved: Arc::new(Semaphore::new(reserved)),
            of_tenant: Counted::new(per_tenant),
        }
    }

    /// A connection that has just been accepted; perhaps another one has to go for it.
    pub(super) fn stranger(&self, source: Source) -> Stranger {
        let mut unproven = lock(&self.unproven);
        if unproven.count >= UNPROVEN {
            unproven.displace_one();
        }
        let (number, displaced) = (unproven.next, Arc::new(Notify::new()));
        unproven.next += 1;
        unproven.count += 1;
        let queue = unproven.by_source.entry(source).or_default();
        queue.push_back((number, displaced.clone()));
        Stranger {
            source,
            number,
            displaced,
            among: self.unproven.clone(),
        }
    }

    /// A place for a connection of that tenant.
    pub(super) fn enter(&self, tenant: &str) -> Result<Place, Full> {
        let of = self.of_tenant.take(tenant.to_owned()).ok_or(Full::Tenant)?;
        let place = |of: &Arc<Semaphore>| of.clone().try_acquire_owned();
        let all = place(&self.places).or_else(|full| {
            if tenant == "system" {
                place(&self.reserved)
            } else {
                Err(full)
            }
        });
        match all {
            Ok(all) => Ok(Place { _all: all, _of: of }),
            Err(_) => Err(Full::Node),
        }
    }
}

/// Counts per key, at most so many each.
#[derive(Clone, Debug)]
struct Counted<K: Eq + Hash>(Arc<Inner<K>>);

#[derive(Debug)]
struct Inner<K> {
    most: usize,
    counts: Mutex<HashMap<K, usize>>,
}

/// One of a key's count, given back on drop.
#[derive(Debug)]
struct Count<K: Eq + Hash + Clone> {
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
    fn take(&self, key: K) -> Option<Count<K>> {
        let mut counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_insert(0);
        if *count >= self.0.most {
            return None;
        }
        *count += 1;
        let of = self.clone();
        Some(Count { of, key })
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
    fn each_tenant_has_its_bound_and_the_administrators_a_reserve() {
        let admission = Admission::new(64, 20);
        let all_of = |tenant: &str| -> Vec<Place> {
            std::iter::from_fn(|| admission.enter(tenant).ok()).collect()
        };
        let (a, b, c) = (all_of("a"), all_of("b"), all_of("c"));
        assert_eq!((a.len(), b.len(), c.len()), (20, 20, 8));
        assert_eq!(admission.enter("a").unwrap_err(), Full::Tenant);
        assert_eq!(admission.enter("d").unwrap_err(), Full::Node);
        assert_eq!(all_of("system").len(), 16);
        drop(a);
        assert_eq!(all_of("d").len(), 20);
    }

    #[tokio::test]
    async fn a_flood_displaces_itself_and_nobody_else() {
        let admission = Admission::new(64, 20);
        let quiet = admission.stranger(Source::User(0));
        let flood: Vec<Stranger> = (0..2 * UNPROVEN)
            .map(|_| admission.stranger(Source::User(1000)))
            .collect();
        let displaced = |stranger: &Stranger| {
            let known = lock(&admission.unproven);
            let queue = known.by_source.get(&stranger.source).unwrap();
            !queue.iter().any(|(n, _)| *n == stranger.number)
        };
        assert!(!displaced(&quiet));
        assert_eq!(flood.iter().filter(|s| displaced(s)).count(), UNPROVEN + 1);
        assert!(displaced(&flood[0]) && !displaced(flood.last().unwrap()));
        flood[0].displaced().await;
        drop((flood, quiet));
        assert_eq!(lock(&admission.unproven).count, 0);
        assert!(lock(&admission.unproven).by_source.is_empty());
    }
}
