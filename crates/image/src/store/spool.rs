// SPDX-License-Identifier: Apache-2.0
//! A blob whose digest isn't known before all of it was read: what docker archives hold. Written in
//! `work/`; a crash leaves nothing.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use super::{ImageError, Pin, Result, Store, files};
use crate::digest::{Algorithm, Digest, Hasher};

/// A blob on its way in. Dropped before [`Spool::finish`], it is removed.
#[derive(Debug)]
pub(crate) struct Spool {
    store: Store,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    size: u64,
}

impl Store {
    /// Begins one.
    pub(crate) fn spool(&self) -> Result<Spool> {
        let path = self.work_path();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options
            .open(&path)
            .map_err(|error| ImageError::io("create", &path, error))?;
        Ok(Spool {
            store: self.clone(),
            path,
            file,
            hasher: Hasher::new(Algorithm::Sha256),
            size: 0,
        })
    }
}

impl Spool {
    /// Takes the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| ImageError::io("write", &self.path, error))?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Makes it a blob: its digest, its size, and a pin.
    pub(crate) fn finish(self) -> Result<(Digest, u64, Pin)> {
        let digest = self.hasher.clone().finish();
        let pin = self.store.pin(&digest);
        let synced = self.file.sync_data();
        synced.map_err(|error| ImageError::io("sync", &self.path, error))?;
        files::rename(&self.path, &self.store.blob_path(&digest))?;
        Ok((digest, self.size, pin))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // Gone already where it is a blob now; else the next start finds it.
        let _ = std::fs::remove_file(&self.path);
    }
}
