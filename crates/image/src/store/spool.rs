// SPDX-License-Identifier: Apache-2.0
//! A blob whose digest isn't known before all of it was read, or that isn't to be seen before
//! others are there: what archives hold. Written in `work/`; a crash leaves nothing.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use super::{ImageError, Pin, Result, Store};
use crate::digest::{Algorithm, Digest, Hasher};

/// A blob on its way in. Dropped before [`Spool::seal`], it is removed.
#[derive(Debug)]
pub(crate) struct Spool {
    unseen: Unseen,
    file: File,
    hasher: Hasher,
    size: u64,
}

impl Store {
    /// Begins one that is to be hashed by `algorithm`.
    pub(crate) fn spool(&self, algorithm: Algorithm) -> Result<Spool> {
        let path = self.work_path();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options
            .open(&path)
            .map_err(|error| ImageError::io("create", &path, error))?;
        let store = self.clone();
        Ok(Spool {
            unseen: Unseen { store, path },
            file,
            hasher: Hasher::new(algorithm),
            size: 0,
        })
    }
}

impl Spool {
    /// Takes the next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| ImageError::io("write", &self.unseen.path, error))?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Puts all of it on disk, unseen.
    pub(crate) fn seal(self) -> Result<Sealed> {
        let synced = self.file.sync_data();
        synced.map_err(|error| ImageError::io("sync", &self.unseen.path, error))?;
        Ok(Sealed {
            unseen: self.unseen,
            digest: self.hasher.finish(),
            size: self.size,
        })
    }
}

/// A whole blob that isn't in its place yet. Dropped before [`Sealed::commit`], it is removed.
#[derive(Debug)]
pub(crate) struct Sealed {
    unseen: Unseen,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

impl Sealed {
    /// Makes it a blob of the store.
    pub(crate) fn commit(self) -> Result<Pin> {
        let store = &self.unseen.store;
        let pin = store.pin(&self.digest);
        let path = &self.unseen.path;
        std::fs::rename(path, store.blob_path(&self.digest))
            .map_err(|error| ImageError::io("rename", path, error))?;
        Ok(pin)
    }
}

/// A file of `work/`.
#[derive(Debug)]
struct Unseen {
    store: Store,
    path: PathBuf,
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // Gone already where it is a blob now; else the next start finds it.
        let _ = std::fs::remove_file(&self.path);
    }
}
