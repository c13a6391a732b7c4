// SPDX-License-Identifier: Apache-2.0
//! How a blob comes into the store: bytes in order, from where an earlier attempt ended, verified
//! at the end, visible only then.
//!
//! Several may bring the same blob at once, each into a file of its own: who is slow, or lies,
//! delays no other. The first that is whole is the blob; for the others it is the same bytes.
//! A partial blob belongs to its *scope* (an owner and a source): another's pull never goes on from
//! it, or a registry that serves the tail alone would complete what it doesn't have.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{ImageError, Pin, Result, Store, locked};
use crate::digest::{Digest, Verifier};
use crate::manifest::MAX_BLOB;

/// The most ingests of one blob at once in one scope.
pub const MAX_INGESTS_PER_DIGEST: u32 = 16;

/// Which file of a digest: whose it is, as a hash of the scope (none of what this node makes or
/// reads by itself), and a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    scope: Option<u64>,
    number: u32,
}

/// Short, for a file's name. Two scopes with one hash would share a partial blob, whose bytes are
/// verified all the same; 64 bits make that no plan.
fn scope_hash(scope: &str) -> u64 {
    let digest = Digest::of(scope.as_bytes());
    let head = digest.hex().get(..16).unwrap_or_default();
    u64::from_str_radix(head, 16).unwrap_or_default()
}

/// Which files of `ingest/` are being written now: a bit for each number of a digest and scope.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<(Digest, Option<u64>), u32>);

impl Claims {
    /// Takes a number that is free: one for which `rank` is highest.
    fn take(
        &mut self,
        digest: &Digest,
        scope: Option<u64>,
        rank: impl Fn(Slot) -> u64,
    ) -> Option<Slot> {
        let taken = self.0.entry((digest.clone(), scope)).or_default();
        let free = (0..MAX_INGESTS_PER_DIGEST)
            .rev()
            .filter(|number| *taken & (1 << number) == 0);
        let slot = free
            .map(|number| Slot { scope, number })
            .max_by_key(|slot| rank(*slot))?;
        *taken |= 1 << slot.number;
        Some(slot)
    }

    fn release(&mut self, digest: &Digest, slot: Slot) {
        let key = (digest.clone(), slot.scope);
        if let Some(taken) = self.0.get_mut(&key) {
            *taken &= !(1 << slot.number);
            if *taken == 0 {
                self.0.remove(&key);
            }
        }
    }

    /// Whether this file of `ingest/` is being written.
    pub(super) fn holds(&self, digest: &Digest, slot: Slot) -> bool {
        let taken = self.0.get(&(digest.clone(), slot.scope));
        taken.is_some_and(|taken| taken & (1 << slot.number) != 0)
    }
}

/// The name of a partial blob.
fn file_name(digest: &Digest, slot: Slot) -> String {
    let scope = slot
        .scope
        .map_or(String::new(), |scope| format!("{scope:016x}."));
    format!("{}.{scope}{}", digest.file_name(), slot.number)
}

/// Reads what [`file_name`] wrote.
pub(super) fn parse_file_name(name: &str) -> Option<(Digest, Slot)> {
    let (digest, slot) = name.split_once('.')?;
    let (scope, number) = match slot.split_once('.') {
        Some((scope, number)) => (Some(u64::from_str_radix(scope, 16).ok()?), number),
        None => (None, slot),
    };
    let number = number
        .parse()
        .ok()
        .filter(|number| *number < MAX_INGESTS_PER_DIGEST)?;
    Some((Digest::from_file_name(digest)?, Slot { scope, number }))
}

/// A blob on its way in. Dropped before [`Ingest::finish`], what has come stays for the next
/// [`Store::ingest`] of this digest, unless the disk was full.
#[derive(Debug)]
pub struct Ingest {
    file: File,
    path: PathBuf,
    slot: Slot,
    digest: Digest,
    size: u64,
    verifier: Verifier,
    broken: bool,
    /// Whether the file has no use for a later attempt.
    discard: bool,
    store: Store,
    pin: Option<Pin>,
}

impl Store {
    /// Begins to take a blob of `size` bytes that this node makes or reads by itself, or goes on
    /// where an earlier attempt ended ([`Ingest::offset`]).
    ///
    /// # Errors
    /// Those of [`Store::ingest_for`].
    pub fn ingest(&self, digest: &Digest, size: u64) -> Result<Ingest> {
        self.begin(None, digest, size)
    }

    /// Begins to take a blob of `size` bytes, or goes on where an earlier attempt of the same
    /// `scope` ended ([`Ingest::offset`]). The bytes that are there are read and hashed first.
    ///
    /// # Errors
    /// [`ImageError::TooMuch`] past [`MAX_BLOB`]; [`ImageError::Busy`] past
    /// [`MAX_INGESTS_PER_DIGEST`]; [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn ingest_for(&self, scope: &str, digest: &Digest, size: u64) -> Result<Ingest> {
        self.begin(Some(scope_hash(scope)), digest, size)
    }

    fn begin(&self, scope: Option<u64>, digest: &Digest, size: u64) -> Result<Ingest> {
        if size > MAX_BLOB {
            return Err(ImageError::TooMuch {
                what: format!("blob {digest} of {size} bytes"),
                limit: format!("{MAX_BLOB} bytes"),
            });
        }
        let folder = self.inner.root.join("ingest");
        let there = |slot| {
            let metadata = std::fs::symlink_metadata(folder.join(file_name(digest, slot)));
            metadata.map_or(0, |metadata| metadata.len())
        };
        let slot = locked(&self.inner.claims).take(digest, scope, there);
        let slot = slot.ok_or_else(|| ImageError::Busy {
            what: format!("blob {digest}"),
            by: format!("{MAX_INGESTS_PER_DIGEST} pulls bring it already; try again later"),
        })?;
        let path = folder.join(file_name(digest, slot));
        let opened = open(&path);
        if opened.is_err() {
            locked(&self.inner.claims).release(digest, slot);
        }
        let mut ingest = Ingest {
            file: opened?,
            path,
            slot,
            digest: digest.clone(),
            size,
            verifier: Verifier::new(digest, size),
            broken: false,
            discard: false,
            store: self.clone(),
            pin: Some(self.pin(digest)),
        };
        ingest.resume()?;
        Ok(ingest)
    }
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options
        .open(path)
        .map_err(|error| ImageError::io("open", path, error))
}

impl Ingest {
    /// Hashes what an earlier attempt has left. What can't be a part of this blob goes.
    fn resume(&mut self) -> Result<()> {
        let mut buffer = vec![0; 128 << 10];
        loop {
            let read = self.file.read(&mut buffer);
            let read = read.map_err(|error| ImageError::io("read", &self.path, error))?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                return Ok(());
            };
            if self.verifier.update(bytes).is_err() {
                return self.restart();
            }
        }
    }

    /// How many bytes are there: where the next [`Ingest::write`] goes on.
    pub fn offset(&self) -> u64 {
        self.verifier.taken()
    }

    /// Which blob.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The file that the bytes come into, to be read from its start. What is there is no more
    /// verified than the ingest is.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn reader(&self) -> Result<File> {
        File::open(&self.path).map_err(|error| ImageError::io("open", &self.path, error))
    }

    /// How many bytes the blob has when it is whole.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Takes the next bytes. After an error only [`Ingest::restart`] helps, or a new ingest.
    ///
    /// # Errors
    /// [`ImageError::WrongSize`] for more than was promised; [`ImageError::DiskFull`], after which
    /// the space is given back when this is dropped; [`ImageError::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.broken {
            return Err(ImageError::Busy {
                what: format!("blob {}", self.digest),
                by: "an earlier write failed; begin it again".to_owned(),
            });
        }
        let written = self.verifier.update(bytes).and_then(|()| {
            let written = self.file.write_all(bytes);
            written.map_err(|error| ImageError::io("write", &self.path, error))
        });
        self.broken = written.is_err();
        self.discard = matches!(
            written,
            Err(ImageError::DiskFull { .. } | ImageError::WrongSize { .. })
        );
        written
    }

    /// Forgets what has come: for a peer that can't go on from an offset, or after
    /// [`ImageError::WrongDigest`] of bytes that another attempt brought.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn restart(&mut self) -> Result<()> {
        self.file
            .set_len(0)
            .map_err(|error| ImageError::io("truncate", &self.path, error))?;
        self.verifier = Verifier::new(&self.digest, self.size);
        self.broken = false;
        self.discard = false;
        Ok(())
    }

    /// Verifies the blob, puts it on disk and shows it to all. The pin keeps it until a name does.
    ///
    /// # Errors
    /// [`ImageError::WrongSize`] where bytes are missing: they can still be brought by a new
    /// ingest. [`ImageError::WrongDigest`]: what came is removed; where a part was of an earlier
    /// attempt, a new one from the start is worth trying. [`ImageError::Io`].
    pub fn finish(mut self) -> Result<Pin> {
        if self.broken {
            self.write(&[])?;
        }
        let verified = self.verifier.clone().finish();
        self.discard = matches!(verified, Err(ImageError::WrongDigest { .. }));
        verified?;
        let synced = self.file.sync_data();
        synced.map_err(|error| ImageError::io("sync", &self.path, error))?;
        let blob = self.store.blob_path(&self.digest);
        // The thread that names an image puts the folder on disk, once for all of its blobs.
        std::fs::rename(&self.path, &blob)
            .map_err(|error| ImageError::io("rename", &self.path, error))?;
        Ok(self
            .pin
            .take()
            .unwrap_or_else(|| self.store.pin(&self.digest)))
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        if self.discard || self.verifier.taken() == 0 {
            // What stays is found by the next start, or by collection.
            let _ = std::fs::remove_file(&self.path);
        }
        locked(&self.store.inner.claims).release(&self.digest, self.slot);
    }
}
