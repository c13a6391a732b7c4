// SPDX-License-Identifier: Apache-2.0
//! What collection must leave alone for now: blobs and layers that a pull, an import or a
//! container's start works with. In memory alone: after a restart their age keeps them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{Store, locked};
use crate::digest::Digest;

/// How often each digest is pinned.
#[derive(Debug, Default)]
pub(super) struct Pins(HashMap<Digest, usize>);

impl Pins {
    /// Whether collection must leave it.
    pub(super) fn holds(&self, digest: &Digest) -> bool {
        self.0.contains_key(digest)
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
        let mut pins = locked(&self.pins);
        if let Some(count) = pins.0.get_mut(&self.digest) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                pins.0.remove(&self.digest);
            }
        }
    }
}

impl Store {
    /// Pins a digest, whether there is something of it or not. Pin first, then ask
    /// [`Store::contains`]: the other order may lose it in between.
    pub fn pin(&self, digest: &Digest) -> Pin {
        *locked(&self.inner.pins)
            .0
            .entry(digest.clone())
            .or_default() += 1;
        Pin {
            digest: digest.clone(),
            pins: Arc::clone(&self.inner.pins),
        }
    }
}
