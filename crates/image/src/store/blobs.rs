// SPDX-License-Identifier: Apache-2.0
//! Whole blobs. How they come in is `ingest`'s matter.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;

use super::{ImageError, Pin, Result, Store, files};
use crate::digest::Digest;
use crate::manifest::{Descriptor, MAX_DOCUMENT, check_length};

impl Store {
    /// Where a blob is, or would be.
    pub(super) fn blob_path(&self, digest: &Digest) -> PathBuf {
        let folder = self
            .inner
            .root
            .join("blobs")
            .join(digest.algorithm().as_str());
        folder.join(digest.hex())
    }

    /// Whether the whole blob is there. Says nothing of who may see it.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.blob_path(digest).is_file()
    }

    /// How many bytes the blob has.
    ///
    /// # Errors
    /// [`ImageError::NotFound`], [`ImageError::Io`].
    pub fn blob_size(&self, digest: &Digest) -> Result<u64> {
        let file = self.read_blob(digest)?;
        let path = self.blob_path(digest);
        let metadata = file
            .metadata()
            .map_err(|error| ImageError::io("stat", &path, error))?;
        Ok(metadata.len())
    }

    /// Opens a blob. It was verified when it came; what a failing disk has made of it since is for
    /// the reader to find, as the unpacker does by the layer's diff id.
    ///
    /// # Errors
    /// [`ImageError::NotFound`], [`ImageError::Io`].
    pub fn read_blob(&self, digest: &Digest) -> Result<File> {
        let path = self.blob_path(digest);
        File::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => ImageError::NotFound {
                what: format!("blob {digest}"),
            },
            _ => ImageError::io("open", &path, error),
        })
    }

    /// Reads a manifest, index or configuration whole, and verifies it once more.
    ///
    /// # Errors
    /// [`ImageError::NotFound`]; [`ImageError::TooMuch`] past [`MAX_DOCUMENT`];
    /// [`ImageError::Corrupt`] where the disk has changed it; [`ImageError::Io`].
    pub fn read_document(&self, digest: &Digest) -> Result<Vec<u8>> {
        let path = self.blob_path(digest);
        let mut bytes = Vec::new();
        let mut file = self.read_blob(digest)?.take(MAX_DOCUMENT + 1);
        file.read_to_end(&mut bytes)
            .map_err(|error| ImageError::io("read", &path, error))?;
        check_length(&format!("document {digest}"), bytes.len() as u64)?;
        let mut hasher = crate::digest::Hasher::new(digest.algorithm());
        hasher.update(&bytes);
        if hasher.finish() != *digest {
            let problem = "its bytes have changed on disk: pull the image again";
            let problem = problem.to_owned();
            return Err(ImageError::Corrupt { path, problem });
        }
        Ok(bytes)
    }

    /// Stores a document that is in memory already. One that is there stays, unless the disk has
    /// changed it.
    ///
    /// # Errors
    /// [`ImageError::WrongDigest`], and those of [`Store::ingest`].
    pub fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<Pin> {
        let pin = self.pin(digest);
        if self.contains(digest) {
            if self.is_sound(digest)? {
                return Ok(pin);
            }
            self.set_aside(digest)?;
        }
        let mut ingest = self.ingest(digest, bytes.len() as u64)?;
        ingest.restart()?;
        ingest.write(bytes)?;
        ingest.finish()
    }

    /// Stores a document that was made here, by its SHA-256.
    ///
    /// # Errors
    /// Those of [`Store::put`].
    pub fn put_new(&self, media_type: &str, bytes: &[u8]) -> Result<(Descriptor, Pin)> {
        let digest = Digest::of(bytes);
        let pin = self.put(&digest, bytes)?;
        Ok((Descriptor::new(media_type, digest, bytes.len() as u64), pin))
    }

    /// Notes that a blob was used now: collection by age counts from there.
    ///
    /// # Errors
    /// [`ImageError::NotFound`], [`ImageError::Io`].
    pub fn touch(&self, digest: &Digest) -> Result<()> {
        let path = self.blob_path(digest);
        let file = self.read_blob(digest)?;
        file.set_modified(std::time::SystemTime::now())
            .map_err(|error| ImageError::io("touch", &path, error))
    }

    /// Removes a blob.
    pub(super) fn remove_blob(&self, digest: &Digest) -> Result<()> {
        files::remove_file(&self.blob_path(digest))
    }
}
