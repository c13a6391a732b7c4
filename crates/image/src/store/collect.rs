// SPDX-License-Identifier: Apache-2.0
//! Gives space back. First what no name leads to, then images: those that weren't used for long,
//! and while the disk is fuller than it may be, the one that was used longest ago.
//!
//! Never goes what is pinned, what the caller says is in use, and what an ingest is bringing. A
//! crash between two steps leaves what no name leads to, which the next collection finds.

use std::collections::{HashMap, HashSet};
use std::fs::DirEntry;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::ingest::parse_file_name;
use super::repair::{PARTIAL_FOR, each, remove};
use super::{ImageError, Named, Result, Store, locked};
use crate::config::ImageConfig;
use crate::digest::{Algorithm, Digest};
use crate::manifest::{Document, Manifest};

/// How deep indexes may lie in indexes.
const MAX_DEPTH: u32 = 4;

/// When something goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// An image that wasn't used for so long goes; `None`: age is no reason.
    pub max_age: Option<Duration>,
    /// Per cent of the disk in use from which images go …
    pub high: u8,
    /// … until no more than this is. At most `high`.
    pub low: u8,
    /// What no name leads to stays so long, for a pull that was cut. Not while the disk is fuller
    /// than `high`.
    pub grace: Duration,
}

impl Default for Policy {
    /// The kubelet's thresholds (`imageGCHighThresholdPercent` and `Low`), and a day of grace.
    fn default() -> Self {
        Self {
            max_age: None,
            high: 85,
            low: 80,
            grace: PARTIAL_FOR,
        }
    }
}

/// What is in use beside what names lead to, and what is not in use any more.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct InUse {
    /// Manifests, indexes and diff ids of what runs, and of what is pinned for good: all stay.
    pub digests: HashSet<Digest>,
    /// What may go at once where no name leads to it, however young: blobs and diff ids of images
    /// that were just forgotten.
    pub released: HashSet<Digest>,
}

/// What has gone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Collected {
    /// Names of images that were removed.
    pub names: Vec<Named>,
    /// Blobs, whole ones and parts.
    pub blobs: u64,
    /// Unpacked layers.
    pub layers: u64,
    /// Bytes of blobs, and of the tar streams of layers.
    pub bytes: u64,
}

/// Space of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disk {
    /// All of it.
    pub bytes: u64,
    /// What can still be had, by others than root.
    pub available: u64,
}

impl Disk {
    /// Per cent that can't be had any more.
    pub fn used(&self) -> u8 {
        let free = self.available.saturating_mul(100).checked_div(self.bytes);
        100 - u8::try_from(free.unwrap_or(100).min(100)).unwrap_or(100)
    }

    /// Bytes to free until no more than so many per cent are used.
    pub fn above(&self, per_cent: u8) -> u64 {
        let free = u64::from(100_u8.saturating_sub(per_cent));
        let wanted = (self.bytes / 100).saturating_mul(free);
        wanted.saturating_sub(self.available)
    }
}

/// What names lead to.
#[derive(Default)]
struct Marked {
    blobs: HashSet<Digest>,
    layers: HashSet<Digest>,
    /// Documents that were followed, and how deep at most. Apart from `blobs`: a hostile image may
    /// have another image's manifest among its layers, or deep in its indexes.
    followed: HashMap<Digest, u32>,
}

impl Store {
    /// Collects by `policy`.
    ///
    /// # Errors
    /// [`ImageError::Io`]: what was collected until then is gone; nothing is collected where it
    /// can't be found out what is in use.
    pub fn collect(&self, policy: &Policy, in_use: &InUse) -> Result<Collected> {
        let used = || self.disk().map(|disk| disk.used());
        self.collect_by(policy, in_use, SystemTime::now(), used)
    }

    /// The file system that the store is on.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn disk(&self) -> Result<Disk> {
        let root = &self.inner.root;
        let disk = rustix::fs::statvfs(root).map_err(|e| ImageError::io("stat", root, e))?;
        Ok(Disk {
            bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            available: disk.f_bavail.saturating_mul(disk.f_frsize),
        })
    }

    pub(super) fn collect_by(
        &self,
        policy: &Policy,
        in_use: &InUse,
        now: SystemTime,
        used: impl Fn() -> Result<u8>,
    ) -> Result<Collected> {
        let mut collected = Collected::default();
        let age = |at: SystemTime| now.duration_since(at).unwrap_or_default();
        let mut old = Vec::new();
        if let Some(max_age) = policy.max_age {
            let unused = self.unused(in_use)?.into_iter();
            old.extend(
                unused
                    .filter(|(at, _)| age(*at) > max_age)
                    .map(|(_, named)| named),
            );
        }
        self.step(old, in_use, now, policy.grace, &mut collected)?;
        if used()? <= policy.high {
            return Ok(collected);
        }
        self.step(Vec::new(), in_use, now, Duration::ZERO, &mut collected)?;
        let mut candidates = self.unused(in_use)?.into_iter().peekable();
        while used()? > policy.low {
            let Some((_, first)) = candidates.next() else {
                break;
            };
            // Other names of the same image hold the same bytes.
            let digest = first.descriptor.digest.clone();
            let mut gone = vec![first];
            while let Some((_, named)) =
                candidates.next_if(|(_, named)| named.descriptor.digest == digest)
            {
                gone.push(named);
            }
            self.step(gone, in_use, now, Duration::ZERO, &mut collected)?;
        }
        Ok(collected)
    }

    /// Takes names away, then what no name leads to. Who gives a name waits meanwhile, but not for
    /// the many files of layers.
    fn step(
        &self,
        gone: Vec<Named>,
        in_use: &InUse,
        now: SystemTime,
        grace: Duration,
        collected: &mut Collected,
    ) -> Result<()> {
        let roots = locked(&self.inner.roots);
        self.forget(gone, collected)?;
        let mut doomed = Vec::new();
        let outcome = self.collect_unreachable(in_use, now, grace, collected, &mut doomed);
        drop(roots);
        for folder in doomed {
            let removed = std::fs::remove_dir_all(&folder);
            removed.map_err(|error| ImageError::io("remove", &folder, error))?;
        }
        outcome
    }

    /// Names of images that may go, with when each was used: longest ago first.
    fn unused(&self, in_use: &InUse) -> Result<Vec<(SystemTime, Named)>> {
        let mut unused = Vec::new();
        for named in self.names() {
            let digest = &named.descriptor.digest;
            if self.is_in_use(digest, in_use)? {
                continue;
            }
            let at = match self.read_blob(digest) {
                Ok(file) => file.metadata().and_then(|metadata| metadata.modified()),
                // A name that leads nowhere can go first.
                Err(ImageError::NotFound { .. }) => Ok(SystemTime::UNIX_EPOCH),
                Err(error) => return Err(error),
            };
            let path = self.blob_path(digest);
            unused.push((
                at.map_err(|error| ImageError::io("stat", &path, error))?,
                named,
            ));
        }
        let key = |(at, named): &(SystemTime, Named)| (*at, named.descriptor.digest.clone());
        unused.sort_by_key(key);
        Ok(unused)
    }

    /// Whether an image, or a manifest of an index, is in use or pinned. Layers don't count:
    /// another image may have them, too.
    fn is_in_use(&self, image: &Digest, in_use: &InUse) -> Result<bool> {
        let mut reached = Marked::default();
        self.mark_from(image, MAX_DEPTH, &mut reached)?;
        let pins = locked(&self.inner.pins);
        let kept = |digest: &Digest| in_use.digests.contains(digest) || pins.holds(digest);
        Ok(kept(image) || reached.followed.keys().any(kept))
    }

    fn forget(&self, gone: Vec<Named>, collected: &mut Collected) -> Result<()> {
        if !gone.is_empty() {
            collected
                .names
                .extend(locked(&self.inner.names).remove_all(gone)?);
        }
        Ok(())
    }

    /// Removes what neither a name nor `in_use` leads to and what is older than `grace`.
    fn collect_unreachable(
        &self,
        in_use: &InUse,
        now: SystemTime,
        grace: Duration,
        collected: &mut Collected,
        doomed: &mut Vec<PathBuf>,
    ) -> Result<()> {
        let marked = self.mark(in_use)?;
        let root = &self.inner.root;
        let grown = |entry: &DirEntry| self.is_older(entry, now, grace);
        for algorithm in Algorithm::ALL {
            each(&root.join("blobs").join(algorithm.as_str()), |entry| {
                let hex = entry.file_name();
                let digest = hex
                    .to_str()
                    .and_then(|hex| Digest::new(algorithm, hex).ok());
                let digest = digest.filter(|digest| !marked.blobs.contains(digest));
                let may_go = |digest: &Digest| in_use.released.contains(digest) || grown(entry);
                let Some(digest) = digest.filter(may_go) else {
                    return Ok(());
                };
                let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
                let mut pins = locked(&self.inner.pins);
                if !pins.holds(&digest) {
                    pins.removed();
                    self.remove_blob(&digest)?;
                    collected.blobs += 1;
                    collected.bytes += bytes;
                }
                Ok(())
            })?;
        }
        let may_go =
            |diff_id: &Digest, entry: &DirEntry| in_use.released.contains(diff_id) || grown(entry);
        self.collect_layers(&marked, may_go, collected, doomed)?;
        each(&root.join("aside"), |entry| {
            if self.is_older(entry, now, grace) {
                collected.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
                remove(entry)?;
            }
            Ok(())
        })?;
        self.collect_ingests(now, grace, collected)
    }

    fn collect_layers(
        &self,
        marked: &Marked,
        may_go: impl Fn(&Digest, &DirEntry) -> bool,
        collected: &mut Collected,
        doomed: &mut Vec<PathBuf>,
    ) -> Result<()> {
        each(&self.inner.root.join("layers"), |entry| {
            let name = entry.file_name();
            let diff_id = name.to_str().and_then(Digest::from_file_name);
            let diff_id = diff_id.filter(|id| !marked.layers.contains(id));
            let Some(diff_id) = diff_id.filter(|id| may_go(id, entry)) else {
                return Ok(());
            };
            let meta = super::layers::Meta::read(&entry.path());
            // Out of sight at once; the files go when no one waits for it.
            let aside = self.work_path();
            let mut pins = locked(&self.inner.pins);
            if pins.holds(&diff_id) {
                return Ok(());
            }
            pins.removed();
            let path = entry.path();
            std::fs::rename(&path, &aside).map_err(|e| ImageError::io("rename", &path, e))?;
            doomed.push(aside);
            collected.layers += 1;
            collected.bytes += meta.map_or(0, |meta| meta.summary.bytes);
            Ok(())
        })
    }

    fn collect_ingests(
        &self,
        now: SystemTime,
        grace: Duration,
        collected: &mut Collected,
    ) -> Result<()> {
        each(&self.inner.root.join("ingest"), |entry| {
            let name = entry.file_name();
            let claims = locked(&self.inner.claims);
            let free = name
                .to_str()
                .and_then(parse_file_name)
                .is_some_and(|(digest, slot)| !claims.holds(&digest, slot));
            if free && self.is_older(entry, now, grace) {
                collected.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
                collected.blobs += 1;
                remove(entry)?;
            }
            Ok(())
        })
    }

    /// Whether it may go by its age. Where the names were lost at start, all begins to age there.
    fn is_older(&self, entry: &DirEntry, now: SystemTime, grace: Duration) -> bool {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let Ok(mut at) = modified else {
            return false;
        };
        if self.inner.repaired.names_lost {
            at = at.max(self.inner.opened);
        }
        grace.is_zero() || now.duration_since(at).unwrap_or_default() > grace
    }

    fn mark(&self, in_use: &InUse) -> Result<Marked> {
        let mut marked = Marked::default();
        marked.layers.extend(in_use.digests.iter().cloned());
        for digest in &in_use.digests {
            self.mark_from(digest, MAX_DEPTH, &mut marked)?;
        }
        for named in self.names() {
            self.mark_from(&named.descriptor.digest, MAX_DEPTH, &mut marked)?;
        }
        Ok(marked)
    }

    fn mark_from(&self, digest: &Digest, depth: u32, marked: &mut Marked) -> Result<()> {
        let followed = marked
            .followed
            .get(digest)
            .is_some_and(|before| *before >= depth);
        if depth == 0 || followed || !self.contains(digest) {
            return Ok(());
        }
        marked.followed.insert(digest.clone(), depth);
        marked.blobs.insert(digest.clone());
        let bytes = match self.read_document(digest) {
            Ok(bytes) => bytes,
            // No document, so it leads nowhere.
            Err(ImageError::TooMuch { .. } | ImageError::Corrupt { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        match Document::parse(&bytes, None) {
            Ok(Document::Index(index)) => {
                for entry in &index.manifests {
                    self.mark_from(&entry.digest, depth - 1, marked)?;
                }
            }
            Ok(Document::Manifest(manifest)) => self.mark_image(&manifest, marked)?,
            Err(_) => {}
        }
        Ok(())
    }

    fn mark_image(&self, manifest: &Manifest, marked: &mut Marked) -> Result<()> {
        marked
            .blobs
            .extend(manifest.blobs().map(|blob| blob.digest.clone()));
        match self.read_document(&manifest.config.digest) {
            Ok(bytes) => {
                let config = ImageConfig::read(&bytes);
                marked
                    .layers
                    .extend(config.into_iter().flat_map(|config| config.diff_ids));
                Ok(())
            }
            Err(error @ ImageError::Io { .. }) => Err(error),
            Err(_) => Ok(()),
        }
    }
}
