// SPDX-License-Identifier: Apache-2.0
//! Bounds the connections whose handshake isn't done. Authenticated connections count in their
//! tenant's quota (`tenants::Pool` of `connections`). Used by the listener alone.
//!
//! A new connection is never refused, but may be *displaced*: when there are too many, the oldest
//! connection of the source that has the most is closed. So a flood of silent or slow connections
//! displaces itself, and a client that completes the handshake promptly is served, also from the
//! same source.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenants::Payer;
use tokio::sync::Notify;

/// Connections whose handshake isn't done; a descriptor and up to 40 KB each.
const UNPROVEN: usize = 512;

/// The origin of a connection, before its client is authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    /// A local user, whose uid the kernel says.
    User(u32),
    /// The IP address of a TCP client.
    Address(IpAddr),
    /// The kernel says neither.
    Unknown,
}

impl Source {
    /// Whose time its handshakes take.
    pub(super) fn payer(self) -> Payer {
        match self {
            Self::User(uid) => Payer::User(uid),
            Self::Address(address) => Payer::Address(address),
            Self::Unknown => Payer::Unknown,
        }
    }
}

/// The bound of a listener; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Admission {
    unproven: Arc<Mutex<Unproven>>,
}

/// The connections of each source, oldest first.
#[derive(Debug, Default)]
struct Unproven {
    by_source: HashMap<Source, VecDeque<(u64, Arc<Notify>)>>,
    count: usize,
    next: u64,
}

/// A connection whose handshake isn't done; it stops counting when dropped.
#[derive(Debug)]
pub(super) struct Pending {
    source: Source,
    number: u64,
    displaced: Arc<Notify>,
    among: Arc<Mutex<Unproven>>,
}

impl Pending {
    /// Waits until it is displaced by newer connections.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Pending {
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

impl Admission {
    /// Counts a connection that has just been accepted; past the bound another one is displaced.
    pub(super) fn pending(&self, source: Source) -> Pending {
        let mut unproven = lock(&self.unproven);
        if unproven.count >= UNPROVEN {
            unproven.displace_one();
        }
        let (number, displaced) = (unproven.next, Arc::new(Notify::new()));
        unproven.next += 1;
        unproven.count += 1;
        let queue = unproven.by_source.entry(source).or_default();
        queue.push_back((number, displaced.clone()));
        Pending {
            source,
            number,
            displaced,
            among: self.unproven.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_displaces_only_itself() {
        let admission = Admission::default();
        let quiet = admission.pending(Source::User(0));
        let flood: Vec<Pending> = (0..2 * UNPROVEN)
            .map(|_| admission.pending(Source::User(1000)))
            .collect();
        let displaced = |pending: &Pending| {
            let known = lock(&admission.unproven);
            let queue = known.by_source.get(&pending.source).unwrap();
            !queue.iter().any(|(n, _)| *n == pending.number)
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
