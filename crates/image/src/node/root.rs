// SPDX-License-Identifier: Apache-2.0
//! What a cell is made of: an image's configuration and the folders of its layers, and a hold on
//! them for as long as the cell is there. The runtime asks for it when it creates a cell, and again
//! for each cell that it adopts; mounting is its own matter.
//!
//! ```no_run
//! # use image::node::{ImageHold, Images};
//! # use model::{error::Error, name::Tenant};
//! # async fn create(images: &Images, tenant: &Tenant) -> Result<ImageHold, Error> {
//! let root = images.resolve(tenant, "nginx:1.25", None).await?;
//! let command = [root.run().entrypoint.clone(), root.run().cmd.clone()].concat();
//! let lower: Vec<_> = root.layers.iter().map(|it| images.layers_dir().join(it)).collect();
//! let record = root.manifest.to_string(); // What the cell's record keeps.
//! # drop((command, lower, record));
//! Ok(root.hold) // The cell's own, until it is removed.
//! # }
//! # async fn adopt(images: &Images, tenant: &Tenant, record: &str) -> Result<ImageHold, Error> {
//! // After a restart, before the API is served and anything is pruned:
//! let digest = record.parse().map_err(Error::from)?;
//! let root = images.resolve_digest(tenant, &digest).await?;
//! Ok(root.hold)
//! # }
//! ```
//!
//! To resolve an image that is present takes no look at the disk: what was read of it before is
//! kept (`cache`), and holds as long as the store has taken nothing away since.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use model::error::{Error, Reason};
use model::name::Tenant;

use super::cache::Entry;
use super::holdings::{Hold, Kept, blobs};
use super::layers::Layers;
use super::left::Left;
use super::pull::check_platform;
use super::records::{Content, Record};
use super::{Images, Inner, now};
use crate::config::Run;
use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::Descriptor;
use crate::platform::Platform;
use crate::store::{Layer, PinSet, Store};

/// How old the note of a use may be, in seconds: it is written once an hour at most, as access
/// times are on most file systems.
const COARSE_SECONDS: u64 = 60 * 60;

/// An image as the root of one cell.
#[derive(Debug)]
pub struct Rooted {
    /// What the cell's record keeps: it means the same image for ever.
    pub manifest: Digest,
    /// Manifest and configuration.
    pub content: Arc<Content>,
    /// Folders below [`Images::layers_dir`] (`sha256-HEX/root`), uppermost first, each once. What
    /// an opaque root hides isn't among them. Empty for an image without layers.
    pub layers: Arc<[String]>,
    /// Keeps image and layers on the disk, and counts the cell.
    pub hold: ImageHold,
}

impl Rooted {
    /// What the image says of its containers: entrypoint, arguments, environment, user and so on.
    pub fn run(&self) -> &Run {
        &self.content.config.run
    }
}

/// One cell's hold on its image: while it lives the image is neither collected nor pruned nor
/// removed, and counts for its tenant, also where its name means another image by now.
pub struct ImageHold {
    root: Arc<Root>,
}

impl ImageHold {
    /// The image's manifest.
    pub fn manifest(&self) -> &Digest {
        &self.root.entry.manifest
    }
}

impl fmt::Debug for ImageHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageHold({})", self.manifest())
    }
}

/// An image that cells of one tenant have as their root. Shared by their holds.
struct Root {
    entry: Arc<Entry>,
    _pins: PinSet,
    _counted: Hold,
}

/// The images that cells run.
#[derive(Default)]
pub(super) struct Roots(Mutex<BTreeMap<(Tenant, Digest), Weak<Root>>>);

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} roots", self.lock().len())
    }
}

impl Roots {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Tenant, Digest), Weak<Root>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, tenant: &Tenant, manifest: &Digest) -> Option<Arc<Root>> {
        let key = (tenant.clone(), manifest.clone());
        self.lock().get(&key).and_then(Weak::upgrade)
    }

    /// Shares a root. Another cell's may have come first: then it is that one.
    fn share(&self, tenant: &Tenant, root: Root) -> Arc<Root> {
        let root = Arc::new(root);
        let key = (tenant.clone(), root.entry.manifest.clone());
        let mut roots = self.lock();
        roots.retain(|_, root| root.strong_count() > 0);
        match roots.get(&key).and_then(Weak::upgrade) {
            Some(first) => first,
            None => {
                roots.insert(key, Arc::downgrade(&root));
                root
            }
        }
    }

    /// How many cells of all tenants have this image.
    pub(super) fn cells_of_all(&self, manifest: &Digest) -> u32 {
        let roots = self.lock();
        let same = roots.iter().filter(|((_, of), _)| of == manifest);
        let holds: usize = same.map(|(_, root)| root.strong_count()).sum();
        u32::try_from(holds).unwrap_or(u32::MAX)
    }

    /// How many cells of a tenant have this image.
    pub(super) fn cells(&self, tenant: &Tenant, manifest: &Digest) -> u32 {
        let key = (tenant.clone(), manifest.clone());
        let holds = self.lock().get(&key).map_or(0, Weak::strong_count);
        u32::try_from(holds).unwrap_or(u32::MAX)
    }
}

impl Images {
    /// The image that a tenant calls so, by name or digest, as the root of a cell. Who may make
    /// cells of the tenant's images has been asked before. Unpacks what isn't unpacked any more,
    /// and notes the use.
    ///
    /// # Errors
    /// `NOT_FOUND`: the tenant hasn't got it, or the disk has lost a part of it. `UNSUPPORTED`: it
    /// is for another platform than `platform`, or than this node where that is `None`. `DEGRADED`:
    /// a document of it is damaged. Where layers are to be unpacked, what the unpacker refuses, and
    /// `LIMIT_EXCEEDED`.
    pub async fn resolve(
        &self,
        tenant: &Tenant,
        text: &str,
        platform: Option<&Platform>,
    ) -> Result<Rooted, Error> {
        let record = self.inner()?.find(tenant, text)?;
        let manifest = &record.manifest;
        let root = self.root(tenant, &manifest.digest).await;
        let root = root.map_err(|error| lost(&record.reference, error))?;
        let ours = Platform::ours();
        let content = &root.entry.content;
        check_platform(content, platform.unwrap_or(&ours), &record.reference)?;
        self.inner()?.note_use(record);
        Ok(rooted(root))
    }

    /// The image of this manifest, for a cell that a daemon before this one has made with it. The
    /// image may have no name any more.
    ///
    /// # Errors
    /// As [`Images::resolve`]. A cell that runs does so all the same; it has no hold then.
    pub async fn resolve_digest(
        &self,
        tenant: &Tenant,
        manifest: &Digest,
    ) -> Result<Rooted, Error> {
        let root = self.root(tenant, manifest).await;
        let root = root.map_err(|error| lost(&manifest.to_string(), error))?;
        Ok(rooted(root))
    }

    /// The cheapest way to it: another cell's, what is remembered, the disk.
    async fn root(&self, tenant: &Tenant, manifest: &Digest) -> Result<Arc<Root>, Error> {
        if let Some(root) = self.inner()?.roots.get(tenant, manifest) {
            return Ok(root);
        }
        if let Some(root) = self.inner()?.remembered(tenant, manifest) {
            return Ok(root);
        }
        let (of, digest) = (tenant.clone(), manifest.clone());
        let read = self.blocking(move |inner| {
            let content = Arc::new(Content::by_digest(&inner.store, &digest)?);
            Ok((inner.found(&of, &digest, &content)?, content))
        });
        match read.await? {
            (Some(root), _) => Ok(root),
            (None, content) => self.unpacked_again(tenant, manifest, content).await,
        }
    }

    /// Unpacks the layers that are missing. They count for the tenant's image from then on.
    async fn unpacked_again(
        &self,
        tenant: &Tenant,
        manifest: &Digest,
        content: Arc<Content>,
    ) -> Result<Arc<Root>, Error> {
        let place = Arc::new(self.inner()?.transfers.take(tenant, 1)?);
        let descriptor = descriptor(manifest, &content);
        let left = Left::new(self.inner()?, tenant);
        let kept = blobs(&descriptor, &content.manifest);
        left.share().put(self.inner()?.holdings.take(tenant, kept)?);
        let work = Layers::new(self.inner()?, tenant, &place, Arc::new(|_, _| ()));
        let layers = work.all(&content, &left).await?;
        let (of, digest) = (tenant.clone(), manifest.clone());
        self.blocking(move |inner| {
            // Until the root has pins of its own.
            let _layers = layers;
            inner.count_anew(&of, &digest, &content);
            let gone = || Error::internal(format!("a layer of {digest} went while it was used"));
            Ok(inner.found(&of, &digest, &content)?.ok_or_else(gone))
        })
        .await?
    }
}

impl Inner {
    /// Notes that an image was used now: its age for pruning begins anew. Nothing waits for the
    /// disk; a note that can't be written is missing after a restart, no more.
    fn note_use(self: &Arc<Self>, record: Record) {
        let time = now();
        if time.since(record.used).as_secs() < COARSE_SECONDS {
            return;
        }
        let key = (record.tenant.clone(), record.reference.clone());
        if let Some(held) = self.lock().get_mut(&key) {
            // At once, so that this is written once.
            held.record.used = time;
        }
        let inner = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = inner.change(&record, |record| record.used = time) {
                let image = &record.reference;
                tracing::warn!(%error, image, "the use of an image is not noted on the disk");
            }
        });
    }

    /// What was read before, where nothing has been taken away since.
    fn remembered(&self, tenant: &Tenant, manifest: &Digest) -> Option<Arc<Root>> {
        let entry = self.cache.get(manifest)?;
        let mut needed = digests(&entry.manifest, &entry.content);
        needed.extend(entry.parents.clone());
        let pins = self.store.pin_all(needed);
        (pins.removals() == entry.removals).then(|| self.shared(tenant, entry, pins))
    }

    /// The root, where the disk has every layer.
    fn found(
        &self,
        tenant: &Tenant,
        manifest: &Digest,
        content: &Arc<Content>,
    ) -> Result<Option<Arc<Root>>, ImageError> {
        let needed = digests(manifest, content);
        let pins = self.store.pin_all(needed.clone());
        let Some((mut entry, made)) = stacked(&self.store, manifest, content)? else {
            return Ok(None);
        };
        // Until these pins are there, the others and what was made keep all of it.
        let all = needed.into_iter().chain(entry.parents.clone());
        let all = self.store.pin_all(all.collect());
        drop((pins, made));
        entry.removals = all.removals();
        let entry = Arc::new(entry);
        self.cache.put(Arc::clone(&entry));
        Ok(Some(self.shared(tenant, entry, all)))
    }

    fn shared(&self, tenant: &Tenant, entry: Arc<Entry>, pins: PinSet) -> Arc<Root> {
        let descriptor = descriptor(&entry.manifest, &entry.content);
        let mut kept = blobs(&descriptor, &entry.content.manifest);
        kept.extend(entry.kept.iter().cloned());
        let root = Root {
            _counted: self.holdings.count(tenant, kept),
            _pins: pins,
            entry,
        };
        self.roots.share(tenant, root)
    }

    /// Counts what the disk has of an image now for each of the tenant's names of it.
    fn count_anew(&self, tenant: &Tenant, manifest: &Digest, content: &Content) {
        let kept = content.kept(&self.store, &descriptor(manifest, content));
        let mut held = self.lock();
        let names = held
            .iter_mut()
            .filter(|((of, _), held)| of == tenant && held.record.manifest.digest == *manifest);
        for (_, held) in names {
            held._hold = self.holdings.count(tenant, kept.iter().cloned());
        }
    }
}

fn rooted(root: Arc<Root>) -> Rooted {
    let entry = &root.entry;
    Rooted {
        manifest: entry.manifest.clone(),
        content: Arc::clone(&entry.content),
        layers: Arc::clone(&entry.layers),
        hold: ImageHold { root },
    }
}

/// A descriptor where only the manifest's digest is known. Its media type is left empty.
fn descriptor(manifest: &Digest, content: &Content) -> Descriptor {
    Descriptor::new("", manifest.clone(), content.manifest_bytes)
}

/// All that must stay: the documents, the blobs, the unpacked layers.
fn digests(manifest: &Digest, content: &Content) -> Vec<Digest> {
    let blobs = content.manifest.blobs().map(|blob| &blob.digest);
    let all = std::iter::once(manifest).chain(blobs);
    all.chain(&content.config.diff_ids).cloned().collect()
}

/// The folders to mount, and what the layers count as. `None`: one is missing.
///
/// A layer that an image has twice is mounted once, where it is uppermost: its files are the same
/// below, and overlayfs refuses to see one folder twice.
///
/// The layer of implied folders is above them. It is pinned for as long as it is in the answer.
fn stacked(
    store: &Store,
    manifest: &Digest,
    content: &Arc<Content>,
) -> Result<Option<(Entry, Option<Layer>)>, ImageError> {
    let (mut seen, mut shown, mut kept) = (BTreeSet::new(), Vec::new(), Vec::new());
    let mut hidden = false;
    for diff_id in content.config.diff_ids.iter().rev() {
        if !seen.insert(diff_id) {
            continue;
        }
        let Some(layer) = store.layer(diff_id) else {
            return Ok(None);
        };
        kept.push((Kept::Layer(diff_id.clone()), layer.summary.counted()));
        let below = hidden;
        hidden |= layer.summary.opaque_root;
        if !below {
            shown.push(layer);
        }
    }
    let made = store.parents(&shown)?;
    if let Some(layer) = &made {
        kept.push((Kept::Layer(layer.diff_id.clone()), layer.summary.counted()));
    }
    let folder = |layer: &Layer| format!("{}/root", layer.diff_id.file_name());
    let entry = Entry {
        manifest: manifest.clone(),
        content: Arc::clone(content),
        layers: made.iter().chain(&shown).map(folder).collect(),
        parents: made.as_ref().map(|layer| layer.diff_id.clone()),
        kept,
        removals: 0,
    };
    Ok(Some((entry, made)))
}

/// Says of an error of the store which image it is about, and what helps.
fn lost(image: &str, error: Error) -> Error {
    match error.reason {
        Reason::NotFound | Reason::Degraded => error.about("image", image).hint(format!(
            "get it again: aurae image pull --policy always {image}"
        )),
        _ => error,
    }
}
