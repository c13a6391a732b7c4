// SPDX-License-Identifier: Apache-2.0
//! What transfers have begun and not named: a file for each owner and manifest, so that what a cut
//! one has left on the disk is still known as its owner's after a restart. Written without waiting
//! for the disk: a loss of power may lose it, and the bytes are then no one's until they are
//! collected.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::ingest::parse_file_name;
use super::repair::{each, remove};
use super::{ImageError, Result, Store};
use crate::digest::Digest;

/// What a transfer brings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pending {
    /// The tenant that the transfer is for.
    pub owner: String,
    /// The image.
    pub manifest: Digest,
    /// The manifest and what it points to.
    pub blobs: BTreeSet<Digest>,
}

impl Pending {
    fn file_name(&self) -> String {
        let text = format!("{} {}", self.owner, self.manifest);
        Digest::of(text.as_bytes()).hex().to_owned()
    }
}

impl Store {
    fn pending_path(&self, name: &str) -> std::path::PathBuf {
        self.inner.root.join("pending").join(name)
    }

    /// Notes a transfer that begins. Another one of the same owner and manifest is the same.
    ///
    /// # Errors
    /// [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn begin_pending(&self, pending: &Pending) -> Result<()> {
        let path = self.pending_path(&pending.file_name());
        let wrong = |error| ImageError::io("write", &path, error);
        let text = serde_json::to_vec(pending).map_err(|error| wrong(error.into()))?;
        let new = self.work_path();
        std::fs::write(&new, text).map_err(wrong)?;
        std::fs::rename(&new, &path).map_err(wrong)
    }

    /// Forgets a transfer whose image has a name.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn end_pending(&self, pending: &Pending) -> Result<()> {
        super::files::remove_file(&self.pending_path(&pending.file_name()))
    }

    /// Forgets what an owner's transfers have begun.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn forget_pending(&self, owner: &str) -> Result<()> {
        each(&self.inner.root.join("pending"), |entry| {
            let text = std::fs::read(entry.path()).unwrap_or_default();
            let pending = serde_json::from_slice::<Pending>(&text).ok();
            match pending {
                Some(pending) if pending.owner != owner => Ok(()),
                _ => remove(entry),
            }
        })
    }

    /// What was begun and not named. What can't be read is removed.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn pending(&self) -> Result<Vec<Pending>> {
        let mut all = Vec::new();
        each(&self.inner.root.join("pending"), |entry| {
            let text = std::fs::read(entry.path()).unwrap_or_default();
            match serde_json::from_slice(&text) {
                Ok(pending) => all.push(pending),
                Err(_) => remove(entry)?,
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Bytes that the disk has of a blob: all of it, or the parts that cut transfers have brought.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn bytes_of(&self, digest: &Digest) -> Result<u64> {
        match self.blob_size(digest) {
            Err(ImageError::NotFound { .. }) => {}
            size => return size,
        }
        let mut bytes = 0;
        each(&self.inner.root.join("ingest"), |entry| {
            let name = entry.file_name();
            let of = name.to_str().and_then(parse_file_name);
            if of.is_some_and(|(of, _)| of == *digest) {
                bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            }
            Ok(())
        })?;
        Ok(bytes)
    }
}
