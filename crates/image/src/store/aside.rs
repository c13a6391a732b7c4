// SPDX-License-Identifier: Apache-2.0
//! What the disk has changed is put out of the way, so that it can be brought again: a damaged blob
//! into `aside/`, where it stays for a day for who wants to look at it; a damaged layer is replaced
//! by one that was unpacked anew.

use std::path::PathBuf;

use super::{ImageError, Layer, Making, Result, Store, compare, files, locked};
use crate::digest::Digest;
use crate::unpack::Summary;

impl Store {
    /// Takes a damaged blob away. Who has it open keeps its bytes; all others find it missing.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn set_aside(&self, digest: &Digest) -> Result<()> {
        let aside = self.inner.root.join("aside").join(digest.file_name());
        tracing::warn!(%digest, aside = %aside.display(), "a blob was changed on the disk");
        let mut pins = locked(&self.inner.pins);
        pins.removed();
        files::rename(&self.blob_path(digest), &aside)?;
        drop(pins);
        // It begins to age here, not when the blob was pulled.
        let touched = std::fs::File::open(&aside)
            .and_then(|file| file.set_modified(std::time::SystemTime::now()));
        touched.map_err(|error| ImageError::io("touch", &aside, error))
    }
}

impl Making {
    /// The first path at which the layer that is in its place differs from this one. `None`: it
    /// doesn't, or there is none.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn difference(&self) -> Result<Option<PathBuf>> {
        let (store, diff_id) = (self.store(), self.diff_id());
        match store.layer(diff_id) {
            Some(layer) => compare::difference(&layer.root, &self.root()),
            None => Ok(None),
        }
    }

    /// Puts this one in the place of the layer that is there, unless that is in use: then it stays,
    /// and the answer is `None`. What is known of its blobs has to be found out anew.
    ///
    /// # Errors
    /// Those of [`Making::commit`].
    pub fn replace(self, summary: Summary) -> Result<Option<Layer>> {
        let store = self.store().clone();
        let path = store.layer_path(self.diff_id());
        let aside = store.work_path();
        {
            let mut pins = locked(&store.inner.pins);
            // Our own pin is one.
            if pins.count(self.diff_id()) > 1 {
                return Ok(None);
            }
            pins.removed();
            std::fs::rename(&path, &aside)
                .map_err(|error| ImageError::io("rename", &path, error))?;
        }
        let layer = self.commit(summary)?;
        std::fs::remove_dir_all(&aside).map_err(|error| ImageError::io("remove", &aside, error))?;
        Ok(Some(layer))
    }
}
