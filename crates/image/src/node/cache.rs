// SPDX-License-Identifier: Apache-2.0
//! What was read of images, by manifest: so that a cell starts without a look at the disk. Bounded
//! by number and by bytes of documents; what was not asked for longest goes first. It says nothing
//! of who may see an image.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::holdings::Kept;
use super::records::Content;
use crate::digest::Digest;

/// The most images that are remembered.
const MAX_IMAGES: usize = 128;
/// The most bytes of manifests and configurations that are remembered, as they are on the disk.
const MAX_BYTES: u64 = 8 << 20;

/// An image whose layers were all there.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) manifest: Digest,
    pub(super) content: Arc<Content>,
    /// As of [`super::Rooted`].
    pub(super) layers: Arc<[String]>,
    /// The layer that was made for this image, of folders that its layers imply.
    pub(super) parents: Option<Digest>,
    /// The unpacked layers, with what each counts as.
    pub(super) kept: Vec<(Kept, u64)>,
    /// How many blobs and layers the store had taken away when these were there.
    pub(super) removals: u64,
}

impl Entry {
    fn bytes(&self) -> u64 {
        let config = self.content.manifest.config.size;
        self.content.manifest_bytes.saturating_add(config)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// With when each was asked for last.
    entries: BTreeMap<Digest, (u64, Arc<Entry>)>,
    bytes: u64,
    asked: u64,
}

impl Cache {
    pub(super) fn get(&self, manifest: &Digest) -> Option<Arc<Entry>> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.asked += 1;
        let asked = cache.asked;
        let (last, entry) = cache.entries.get_mut(manifest)?;
        *last = asked;
        Some(Arc::clone(entry))
    }

    pub(super) fn put(&self, entry: Arc<Entry>) {
        if entry.bytes() > MAX_BYTES {
            return;
        }
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.remove(&entry.manifest);
        cache.bytes += entry.bytes();
        cache.asked += 1;
        let asked = cache.asked;
        cache.entries.insert(entry.manifest.clone(), (asked, entry));
        while cache.bytes > MAX_BYTES || cache.entries.len() > MAX_IMAGES {
            let all = cache.entries.iter();
            let Some(oldest) = all.min_by_key(|(_, (last, _))| *last) else {
                return;
            };
            let oldest = oldest.0.clone();
            cache.remove(&oldest);
        }
    }
}

impl Entries {
    fn remove(&mut self, manifest: &Digest) {
        if let Some((_, entry)) = self.entries.remove(manifest) {
            self.bytes = self.bytes.saturating_sub(entry.bytes());
        }
    }
}
