// SPDX-License-Identifier: Apache-2.0
//! What the node does about a disk that fills up, as the kubelet does: from a high threshold on it
//! frees what no image needs, then forgets the images that were used longest ago, until the disk is
//! below a low one. Never what a cell runs, what is pinned, or what a transfer brings.
//!
//! An image is forgotten for all tenants at once: its bytes go with its last name. One that was
//! pulled or used just now stays, or a cell would come too late for what was pulled for it. It
//! differs from pruning (`keep`), which goes by age.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::error::Error;
use model::time::Timestamp;

use super::holdings::Hold;
use super::records::{Content, Record};
use super::{Images, Inner, now};
use crate::digest::Digest;
use crate::error::Result;
use crate::store::Disk;

/// Per cent of the file system's use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// From here on images are collected …
    pub high: u8,
    /// … until no more than this is in use. At most `high`.
    pub low: u8,
}

impl Default for Thresholds {
    /// The kubelet's: `imageGCHighThresholdPercent` and `imageGCLowThresholdPercent`.
    fn default() -> Self {
        Self { high: 85, low: 80 }
    }
}

/// How long an image is left alone after its last use: the kubelet's `imageMinimumGCAge`.
const LEFT_ALONE: Duration = Duration::from_secs(120);

/// What collections by thresholds have done since the daemon started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Relief {
    /// The number of collections.
    pub times: u64,
    /// Names of images that were forgotten.
    pub images: u64,
    /// Bytes that were freed.
    pub bytes: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pressure {
    thresholds: Thresholds,
    /// Locked while one collects: a second one would take as much again.
    done: Mutex<Relief>,
}

impl Pressure {
    pub(super) fn new(thresholds: Thresholds) -> Self {
        Self {
            thresholds,
            done: Mutex::default(),
        }
    }
}

impl Images {
    /// Collects where the disk is fuller than the high threshold. Cheap where it isn't.
    ///
    /// # Errors
    /// The store can't be read or written.
    pub async fn relieve(&self) -> std::result::Result<Relief, Error> {
        self.blocking(Inner::relieve).await
    }
}

/// One image, with all its names.
struct Candidate {
    used: Timestamp,
    names: Vec<Record>,
}

impl Inner {
    fn relieve(&self) -> Result<Relief> {
        let Thresholds { high, low } = self.pressure.thresholds;
        if self.store.disk()?.used() < high {
            return Ok(Relief::default());
        }
        let mut done = self
            .pressure
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Another one may have done it meanwhile.
        let before = self.store.disk()?;
        if before.used() < high {
            return Ok(Relief::default());
        }
        let (removed, bytes) = self.free_to(low)?;
        let after = self.store.disk()?;
        let now = Relief {
            times: 1,
            images: removed.len() as u64,
            bytes,
        };
        done.times += 1;
        done.images += now.images;
        done.bytes += now.bytes;
        let (was, is) = (before.used(), after.used());
        let total = *done;
        tracing::info!(was, is, images = ?removed, bytes, ?total, "the disk is full: images go");
        if is > low {
            tracing::warn!(
                used = is,
                low,
                "the disk stays fuller than images.low_threshold: what is left is pinned, used just now, run by \
                 cells, or no image"
            );
        }
        Ok(now)
    }

    fn free_to(&self, low: u8) -> Result<(Vec<String>, u64)> {
        let left = self.all_leftovers();
        let gone: HashSet<Digest> = left.iter().flat_map(Hold::digests).cloned().collect();
        let mut bytes = self.collect_at_once(gone)?.bytes;
        drop(left);
        let mut removed = Vec::new();
        let mut candidates = self.candidates().into_iter();
        loop {
            let disk = self.store.disk()?;
            if disk.used() <= low {
                break;
            }
            let some = self.enough(&mut candidates, &disk, low);
            if some.is_empty() {
                break;
            }
            let mut gone = HashSet::new();
            for record in some {
                let may_go = |record: &Record| !record.pinned && self.cells_of_any(record) == 0;
                if self.forget(&record, may_go, &mut gone)? {
                    removed.push(record.reference);
                }
            }
            bytes = bytes.saturating_add(self.collect_at_once(gone)?.bytes);
        }
        Ok((removed, bytes))
    }

    /// The names of as many images as may be enough: each collection looks at every image.
    fn enough(
        &self,
        candidates: &mut impl Iterator<Item = Candidate>,
        disk: &Disk,
        low: u8,
    ) -> Vec<Record> {
        let mut missing = disk.above(low);
        let mut names = Vec::new();
        while missing > 0
            && let Some(candidate) = candidates.next()
        {
            if let Some(record) = candidate.names.first() {
                missing = missing.saturating_sub(self.bytes_of(record).max(1));
            }
            names.extend(candidate.names);
        }
        names
    }

    fn bytes_of(&self, record: &Record) -> u64 {
        let content = Content::read(&self.store, &record.manifest);
        let kept = content.map(|content| content.kept(&self.store, &record.manifest));
        let kept = kept.unwrap_or_default();
        kept.iter()
            .fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Images that may go, with all their names: used longest ago first.
    fn candidates(&self) -> Vec<Candidate> {
        let mut images: BTreeMap<Digest, (bool, Candidate)> = BTreeMap::new();
        for held in self.lock().values() {
            let record = &held.record;
            let new = || {
                let candidate = Candidate {
                    used: record.used,
                    names: Vec::new(),
                };
                (true, candidate)
            };
            let digest = record.manifest.digest.clone();
            let (may_go, candidate) = images.entry(digest).or_insert_with(new);
            *may_go &= !record.pinned;
            candidate.used = candidate.used.max(record.used);
            candidate.names.push(record.clone());
        }
        let now = now();
        let unused = images
            .into_iter()
            .filter(|(manifest, (may_go, candidate))| {
                let is_old = now.since(candidate.used) >= LEFT_ALONE;
                *may_go && is_old && self.roots.cells_of_all(manifest) == 0
            });
        let mut unused: Vec<Candidate> = unused.map(|(_, (_, candidate))| candidate).collect();
        unused.sort_by_key(|candidate| candidate.used);
        unused
    }

    fn cells_of_any(&self, record: &Record) -> u32 {
        self.roots.cells_of_all(&record.manifest.digest)
    }
}
