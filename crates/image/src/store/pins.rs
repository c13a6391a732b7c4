// SPDX-License-Identifier: Apache-2.0
//! What collection must leave alone for now: blobs and layers that a pull, an import or a
//! container's start works with. In memory alone: after a restart their age keeps them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{Store, locked};
use crate::digest::Digest;

/// How often each digest is pinned.
#[derive(Debug, Default)]
pub(super) struct Pins {
    counts: HashMap<Digest, usize>,
    /// How many blobs and layers were taken away. The thread that takes one away has this locked.
    removals: u64,
}

impl Pins {
    /// Whether collection must leave it.
    pub(super) fn holds(&self, digest: &Digest) -> bool {
        self.counts.contains_key(digest)
    }

    /// How often it is pinned.
    pub(super) fn count(&self, digest: &Digest) -> usize {
        self.counts.get(digest).copied().unwrap_or_default()
    }

    /// Notes that a blob or a layer is being taken away.
    pub(super) fn removed(&mut self) {
        self.removals += 1;
    }

    fn add(&mut self, digest: &Digest) {
        match self.counts.get_mut(digest) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(digest.clone(), 1)),
        }
    }

    fn subtract(&mut self, digest: &Digest) {
        if let Some(count) = self.counts.get_mut(digest) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(digest);
            }
        }
    }
}

/// Keeps a blob, or an unpacked layer by its diff id, from being collected while it lives.
#[derive(Debug)]
pub struct Pin {
    digest: Digest,
    pins: Arc<Mutex<Pins>>,
}

impl Pin {
    /// What is pinned.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        locked(&self.pins).subtract(&self.digest);
    }
}

/// Many pins as one: those of all that an image consists of.
#[derive(Debug)]
pub struct PinSet {
    digests: Vec<Digest>,
    pins: Arc<Mutex<Pins>>,
    removals: u64,
}

impl PinSet {
    /// How many blobs and layers the store had taken away before these were pinned. What was there
    /// at the same count is there now.
    pub fn removals(&self) -> u64 {
        self.removals
    }
}

impl Drop for PinSet {
    fn drop(&mut self) {
        let mut pins = locked(&self.pins);
        self.digests.iter().for_each(|digest| pins.subtract(digest));
    }
}

impl Store {
    /// Pins a digest, whether there is something of it or not. Pin first, then ask
    /// [`Store::contains`]: the other order may lose it in between.
    pub fn pin(&self, digest: &Digest) -> Pin {
        locked(&self.inner.pins).add(digest);
        Pin {
            digest: digest.clone(),
            pins: Arc::clone(&self.inner.pins),
        }
    }

    /// Pins all of these at once.
    pub fn pin_all(&self, digests: Vec<Digest>) -> PinSet {
        let mut pins = locked(&self.inner.pins);
        digests.iter().for_each(|digest| pins.add(digest));
        PinSet {
            digests,
            pins: Arc::clone(&self.inner.pins),
            removals: pins.removals,
        }
    }
}
