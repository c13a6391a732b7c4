// SPDX-License-Identifier: Apache-2.0
//! Unpacked layers, by their diff ids: made in `work/`, renamed when whole. A layer is derived
//! data: it is not forced to disk when it is made, but notes in which boot that was. One that an
//! earlier boot has made and [`Store::settle`] has not seen since may have lost bytes with the
//! power: the next start removes it, and it is unpacked again from its blob.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::{ImageError, Pin, Result, Store, files, locked};
use crate::digest::Digest;
use crate::unpack::Summary;

/// The file beside a layer's root.
const META: &str = "meta.json";

/// What is kept of a layer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    /// The kernel's id of the boot in which it was made; `None` once it is on disk.
    pub(super) boot: Option<String>,
    pub(super) summary: Summary,
    /// Blobs that were seen to unpack to this layer, the newest last.
    #[serde(default)]
    pub(super) blobs: Vec<Digest>,
}

/// The most blobs that are remembered of a layer: the others are unpacked once more.
const MAX_BLOBS: usize = 64;

impl Meta {
    pub(super) fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read(folder.join(META)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(META);
        let text = serde_json::to_vec(self).map_err(|error| ImageError::Corrupt {
            path: path.clone(),
            problem: format!("it can't be written: {error}"),
        })?;
        let new = folder.join("meta.new");
        std::fs::write(&new, text).map_err(|error| ImageError::io("write", &new, error))?;
        std::fs::rename(&new, &path).map_err(|error| ImageError::io("rename", &new, error))
    }
}

/// What a folder of this name is now.
fn inode(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::symlink_metadata(path).ok().map(|it| it.ino())
}

/// The kernel's id of this boot.
pub(super) fn boot() -> Result<String> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| ImageError::io("read", path, error))?;
    Ok(text.trim().to_owned())
}

/// An unpacked layer. It isn't collected while this lives.
#[derive(Debug)]
pub struct Layer {
    /// The digest of its tar stream.
    pub diff_id: Digest,
    /// The folder to mount: root's, not to be changed.
    pub root: PathBuf,
    /// What unpacking it has told.
    pub summary: Summary,
    _pin: Pin,
}

/// A layer in the making. Dropped before [`Making::commit`], its folder is removed.
#[derive(Debug)]
pub struct Making {
    store: Store,
    diff_id: Digest,
    folder: PathBuf,
    pin: Option<Pin>,
}

impl Store {
    pub(super) fn layer_path(&self, diff_id: &Digest) -> PathBuf {
        self.inner.root.join("layers").join(diff_id.file_name())
    }

    /// The unpacked layer, if it is there.
    pub fn layer(&self, diff_id: &Digest) -> Option<Layer> {
        let pin = self.pin(diff_id);
        let folder = self.layer_path(diff_id);
        let meta = Meta::read(&folder)?;
        Some(Layer {
            diff_id: diff_id.clone(),
            root: folder.join("root"),
            summary: meta.summary,
            _pin: pin,
        })
    }

    /// The unpacked layer, if it is there and this blob was seen to unpack to it. An image may say
    /// of any blob that it is any layer: who knows a diff id has no right to the layer by that.
    pub fn layer_of(&self, diff_id: &Digest, blob: &Digest) -> Option<Layer> {
        let layer = self.layer(diff_id)?;
        let meta = Meta::read(&self.layer_path(diff_id))?;
        meta.blobs.contains(blob).then_some(layer)
    }

    /// Notes that a blob was seen to unpack to a layer.
    ///
    /// # Errors
    /// [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn note_blob(&self, layer: &Layer, blob: &Digest) -> Result<()> {
        let folder = self.layer_path(&layer.diff_id);
        let _one_at_a_time = locked(&self.inner.noting);
        let Some(mut meta) = Meta::read(&folder).filter(|meta| !meta.blobs.contains(blob)) else {
            return Ok(());
        };
        let excess = (meta.blobs.len() + 1).saturating_sub(MAX_BLOBS);
        meta.blobs.drain(..excess);
        meta.blobs.push(blob.clone());
        meta.write(&folder)
    }

    /// Begins a layer in a folder of its own. Several may make the same one; the first is kept.
    ///
    /// # Errors
    /// [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn make_layer(&self, diff_id: &Digest) -> Result<Making> {
        let making = Making {
            store: self.clone(),
            diff_id: diff_id.clone(),
            folder: self.work_path(),
            pin: Some(self.pin(diff_id)),
        };
        files::create_private(&making.folder)?;
        let root = making.root();
        let mut builder = DirBuilder::new();
        builder
            .mode(0o755)
            .create(&root)
            .map_err(|e| ImageError::io("create", &root, e))?;
        // Whatever the daemon's mask is.
        let mode = rustix::fs::Mode::from_raw_mode(0o755);
        rustix::fs::chmod(&root, mode).map_err(|e| ImageError::io("set the mode of", &root, e))?;
        Ok(making)
    }

    /// A name in `work/` that nothing has.
    pub(super) fn work_path(&self) -> PathBuf {
        let number = self.inner.works.fetch_add(1, Ordering::Relaxed);
        self.inner.root.join("work").join(number.to_string())
    }

    /// Puts all layers on disk, so that they survive a loss of power. Waits for the whole file
    /// system; to be called now and then, by no request.
    ///
    /// # Errors
    /// [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn settle(&self) -> Result<()> {
        let folder = self.inner.root.join("layers");
        let mut unsettled = Vec::new();
        super::repair::each(&folder, |entry| {
            if Meta::read(&entry.path()).is_some_and(|meta| meta.boot.is_some()) {
                unsettled.push((entry.path(), inode(&entry.path())));
            }
            Ok(())
        })?;
        if unsettled.is_empty() {
            return Ok(());
        }
        let wrong = |error: std::io::Error| ImageError::io("sync", &folder, error);
        let opened = std::fs::File::open(&folder).map_err(wrong)?;
        rustix::fs::syncfs(&opened).map_err(|errno| wrong(errno.into()))?;
        let _one_at_a_time = locked(&self.inner.noting);
        for (path, folder) in unsettled {
            // One that was collected meanwhile is gone, or another one that was not on its way to
            // the disk yet.
            let same = folder.is_some() && inode(&path) == folder;
            if let Some(meta) = Meta::read(&path).filter(|_| same) {
                let _ = Meta { boot: None, ..meta }.write(&path);
            }
        }
        Ok(())
    }
}

impl Making {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn diff_id(&self) -> &Digest {
        &self.diff_id
    }

    /// The folder to fill.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Shows the layer to all.
    ///
    /// # Errors
    /// [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn commit(mut self, summary: Summary) -> Result<Layer> {
        let meta = Meta {
            boot: Some(boot()?),
            summary,
            blobs: Vec::new(),
        };
        meta.write(&self.folder)?;
        let path = self.store.layer_path(&self.diff_id);
        let renamed = std::fs::rename(&self.folder, &path);
        let pin = self.pin.take();
        match renamed {
            Ok(()) => Ok(Layer {
                diff_id: self.diff_id.clone(),
                root: path.join("root"),
                summary: meta.summary,
                _pin: pin.unwrap_or_else(|| self.store.pin(&self.diff_id)),
            }),
            // Another one was first; ours goes.
            Err(error) => match self.store.layer(&self.diff_id) {
                Some(layer) => Ok(layer),
                None => Err(ImageError::io("rename", &self.folder, error)),
            },
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.folder) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let folder = self.folder.display();
                tracing::warn!(%error, %folder, "what was unpacked stays until the next start");
            }
        }
    }
}
