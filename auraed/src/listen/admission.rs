// SPDX-License-Identifier: Apache-2.0
//! How many connections there may be: such that have proved nothing yet, and such that were let in.
//! Used by the listener alone.
//!
//! Who has proved nothing is never refused, but may be *displaced*: when there are too many, the
//! oldest of whichever source has the most of them goes. So a flood of silent or slow connections
//! displaces itself, and whoever completes the handshake promptly gets through, also from the same
//! source.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections whose handshake isn't done; a descriptor and up to 40 KB each.
const UNPROVEN: usize = 512;
/// Places that only the administrators' tenant may take: whoever fills the rest doesn't lock them
/// out.
const RESERVED: usize = 16;
const ADMINISTRATORS: &str = "system";

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
    places: Places,
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

/// Why there is no place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Full {
    /// For anybody.
    Node,
    /// For this tenant.
    Tenant,
}

impl Admission {
    pub(super) fn new(places: Places) -> Self {
        Self {
            unproven: Arc::default(),
            places,
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
        self.places.enter(tenant)
    }
}

/// The connections that were let in, and how many there may be; clones share them. Bounds may
/// change at any time: who is in stays.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Mutex<LetIn>>);

#[derive(Debug, Default)]
struct LetIn {
    most: usize,
    most_of_tenant: usize,
    all: usize,
    of_tenant: HashMap<String, usize>,
}

/// A connection that was let in; leaves when dropped.
#[derive(Debug)]
pub(super) struct Place {
    among: Places,
    tenant: String,
}

impl Places {
    /// At most so many connections let in, and so many of each tenant.
    pub(crate) fn new(most: usize, most_of_tenant: usize) -> Self {
        let places = Self(Arc::default());
        places.set(most, most_of_tenant);
        places
    }

    /// Changes the bounds.
    pub(crate) fn set(&self, most: usize, most_of_tenant: usize) {
        let mut let_in = self.lock();
        let_in.most = most;
        let_in.most_of_tenant = most_of_tenant;
    }

    fn enter(&self, tenant: &str) -> Result<Place, Full> {
        let mut let_in = self.lock();
        let_in.admits(tenant)?;
        let_in.all += 1;
        *let_in.of_tenant.entry(tenant.to_owned()).or_default() += 1;
        Ok(Place {
            among: self.clone(),
            tenant: tenant.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, LetIn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LetIn {
    fn admits(&self, tenant: &str) -> Result<(), Full> {
        let of = |tenant| self.of_tenant.get(tenant).copied().unwrap_or_default();
        if of(tenant) >= self.most_of_tenant {
            return Err(Full::Tenant);
        }
        let reserved = RESERVED.min(self.most / 4);
        let full = if tenant == ADMINISTRATORS {
            self.all >= self.most
        } else {
            // Administrators in their reserve take no place from others.
            self.all - of(ADMINISTRATORS).min(reserved) >= self.most - reserved
        };
        if full { Err(Full::Node) } else { Ok(()) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut let_in = self.among.lock();
        let_in.all -= 1;
        if let Some(count) = let_in.of_tenant.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                let_in.of_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenant_has_its_bound_and_the_administrators_a_reserve() {
        let admission = Admission::new(Places::new(64, 20));
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

    #[test]
    fn lowered_bounds_send_nobody_away_and_let_nobody_in() {
        let places = Places::new(64, 20);
        let mut held: Vec<Place> = (0..20).map(|_| places.enter("a").unwrap()).collect();
        places.set(40, 4);
        assert_eq!(places.enter("a").unwrap_err(), Full::Tenant);
        held.truncate(4);
        assert_eq!(places.enter("a").unwrap_err(), Full::Tenant);
        held.truncate(3);
        places.enter("a").unwrap();
        places.set(4, 4);
        assert_eq!(
            places.enter("b").unwrap_err(),
            Full::Node,
            "one is reserved"
        );
        places.enter("system").unwrap();
    }

    #[tokio::test]
    async fn a_flood_displaces_itself_and_nobody_else() {
        let admission = Admission::new(Places::new(64, 20));
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
