// SPDX-License-Identifier: Apache-2.0
//! What a tenant's name of an image says beside its manifest: when it came, by which index, whether
//! it is pinned. Kept as annotations of the name's entry in the store's `index.json`, so that there
//! is one truth about names and a lost database loses none.

use std::collections::{BTreeMap, BTreeSet};

use model::name::Tenant;
use model::time::Timestamp;

use super::holdings::{Kept, blobs};
use crate::config::ImageConfig;
use crate::digest::Digest;
use crate::error::{ImageError, Result};
use crate::manifest::{Descriptor, Document, Manifest};
use crate::platform::Platform;
use crate::store::{Named, Store};

/// Annotations of a name's entry; all ours.
const PULLED: &str = "io.aurae.pulled";
const USED: &str = "io.aurae.used";
const PINNED: &str = "io.aurae.pinned";
const INDEX: &str = "io.aurae.index";

/// One name of one tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// In full: `docker.io/library/nginx:1.25`.
    pub reference: String,
    /// The manifest.
    pub manifest: Descriptor,
    /// The index that named the manifest.
    pub index: Option<Digest>,
    /// The last pull or import.
    pub pulled: Timestamp,
    /// The last pull, import or start of a cell.
    pub used: Timestamp,
    /// Kept from pruning.
    pub pinned: bool,
}

impl Record {
    /// Reads an entry of the store. `None` for one that no tenant of this node has made: of a
    /// layout that another tool has written.
    pub(super) fn of(named: Named) -> Option<Self> {
        let mut manifest = named.descriptor;
        let notes = std::mem::take(&mut manifest.annotations);
        let time = |key: &str| {
            let nanoseconds = notes.get(key).and_then(|text| text.parse().ok());
            nanoseconds.map(Timestamp)
        };
        let pulled = time(PULLED)?;
        Some(Self {
            tenant: named.owner.parse().ok()?,
            reference: named.name,
            manifest,
            index: notes.get(INDEX).and_then(|text| text.parse().ok()),
            pulled,
            used: time(USED).unwrap_or(pulled),
            pinned: notes.contains_key(PINNED),
        })
    }

    /// Writes it to the store.
    ///
    /// # Errors
    /// Those of [`Store::tag`].
    pub(super) fn write(&self, store: &Store) -> Result<()> {
        let mut notes = BTreeMap::from([
            (PULLED.to_owned(), self.pulled.0.to_string()),
            (USED.to_owned(), self.used.0.to_string()),
        ]);
        if self.pinned {
            notes.insert(PINNED.to_owned(), "true".to_owned());
        }
        if let Some(index) = &self.index {
            notes.insert(INDEX.to_owned(), index.to_string());
        }
        store.tag_noted(self.tenant.as_str(), &self.reference, &self.manifest, notes)
    }
}

/// A manifest with its configuration, read from the store.
#[derive(Clone, Debug)]
pub struct Content {
    /// The manifest.
    pub manifest: Manifest,
    /// Its configuration.
    pub config: ImageConfig,
    /// Bytes of the manifest itself.
    pub manifest_bytes: u64,
}

impl Content {
    /// Reads both.
    ///
    /// # Errors
    /// [`ImageError::NotFound`] or [`ImageError::Corrupt`] for what the disk has lost;
    /// [`ImageError::Document`] where it is no image.
    pub fn read(store: &Store, manifest: &Descriptor) -> Result<Self> {
        Self::of(store, &manifest.digest, Some(&manifest.media_type))
    }

    /// Reads both, where nothing but the manifest's digest is known.
    ///
    /// # Errors
    /// Those of [`Content::read`].
    pub fn by_digest(store: &Store, manifest: &Digest) -> Result<Self> {
        Self::of(store, manifest, None)
    }

    /// The digest of a manifest's configuration.
    ///
    /// # Errors
    /// Those of [`Content::read`], but for what the configuration says.
    pub(super) fn config_of(store: &Store, manifest: &Digest) -> Result<Digest> {
        match Document::parse(&store.read_document(manifest)?, None)? {
            Document::Manifest(parsed) => Ok(parsed.config.digest),
            Document::Index(_) => Err(ImageError::document("the manifest", "it is an index")),
        }
    }

    fn of(store: &Store, manifest: &Digest, media_type: Option<&str>) -> Result<Self> {
        let bytes = store.read_document(manifest)?;
        let Document::Manifest(parsed) = Document::parse(&bytes, media_type)? else {
            let name = format!("manifest {manifest}");
            return Err(ImageError::document(name, "it is an index"));
        };
        parsed.check_image()?;
        let config = store.read_document(&parsed.config.digest)?;
        Ok(Self {
            config: ImageConfig::parse(&config, &parsed)?,
            manifest: parsed,
            manifest_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        })
    }

    /// Every blob with its size: the configuration and the layers, each once.
    pub fn blobs(&self) -> BTreeMap<&Digest, u64> {
        let blobs = self.manifest.blobs();
        blobs.map(|blob| (&blob.digest, blob.size)).collect()
    }

    /// Each layer's blob and diff id, lowest first, each layer once.
    pub fn layers(&self) -> Vec<(Digest, Digest)> {
        let mut seen = BTreeSet::new();
        let pairs = self.manifest.layers.iter().zip(&self.config.diff_ids);
        pairs
            .filter(|(_, diff_id)| seen.insert((*diff_id).clone()))
            .map(|(blob, diff_id)| (blob.digest.clone(), diff_id.clone()))
            .collect()
    }

    /// Whether every blob and every unpacked layer is there.
    pub(super) fn is_whole(&self, store: &Store) -> bool {
        self.manifest
            .blobs()
            .all(|blob| store.contains(&blob.digest))
            && self
                .layers()
                .iter()
                .all(|(_, diff_id)| store.layer(diff_id).is_some())
    }

    /// What the disk has of it, with sizes.
    pub(super) fn kept(&self, store: &Store, manifest: &Descriptor) -> Vec<(Kept, u64)> {
        let mut kept = blobs(manifest, &self.manifest);
        for (_, diff_id) in self.layers() {
            if let Some(layer) = store.layer(&diff_id) {
                kept.push((Kept::Layer(diff_id), layer.summary.counted()));
            }
        }
        kept
    }

    /// Bytes of manifest, configuration and layers.
    pub fn bytes(&self) -> u64 {
        let sum = |whole: u64, size: &u64| whole.saturating_add(*size);
        self.blobs().values().fold(self.manifest_bytes, sum)
    }

    /// What it runs on.
    pub fn platform(&self) -> Platform {
        self.config.platform()
    }
}
