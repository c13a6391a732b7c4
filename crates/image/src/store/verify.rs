// SPDX-License-Identifier: Apache-2.0
//! Whether an image is there, and as its digests say: what the disk may have changed, what a lost
//! file takes away. Reads every byte.

use std::io::Read as _;

use super::{ImageError, Result, Store};
use crate::digest::{Digest, Hasher};
use crate::manifest::{Descriptor, Document, Manifest};

/// How deep indexes may lie in indexes.
const MAX_DEPTH: u32 = 4;

/// What is wrong with a blob of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Damage {
    /// It isn't there.
    Missing(Digest),
    /// Its bytes have another digest.
    Changed(Digest),
}

impl Store {
    /// Hashes everything that the store has of an image. Manifests of other platforms that were
    /// never pulled are no damage; an index of which none is there is one.
    ///
    /// # Errors
    /// [`ImageError::Io`].
    pub fn verify(&self, image: &Descriptor) -> Result<Vec<Damage>> {
        let mut damage = Vec::new();
        let mut check = |store: &Store, descriptor: &Descriptor| {
            let digest = &descriptor.digest;
            let there = store.contains(digest);
            if there && !store.is_sound(digest)? {
                damage.push(Damage::Changed(digest.clone()));
                return Ok(false);
            }
            Ok(there)
        };
        let followed = self.follow(image, &mut check);
        match followed {
            Ok(true) => {}
            Ok(false) if damage.is_empty() => damage.push(Damage::Missing(image.digest.clone())),
            Ok(false) => {}
            Err(ImageError::NotFound { .. } | ImageError::Document { .. }) => {
                let missing = self.missing(image)?;
                damage.extend(missing.into_iter().map(Damage::Missing));
            }
            Err(error) => return Err(error),
        }
        damage.dedup();
        Ok(damage)
    }

    /// Whether a blob still has the bytes that its digest names.
    ///
    /// # Errors
    /// [`ImageError::NotFound`], [`ImageError::Io`].
    pub(crate) fn is_sound(&self, digest: &Digest) -> Result<bool> {
        let path = self.blob_path(digest);
        let mut file = self.read_blob(digest)?;
        let mut hasher = Hasher::new(digest.algorithm());
        let mut buffer = vec![0; 128 << 10];
        loop {
            let read = file.read(&mut buffer);
            let read = read.map_err(|error| ImageError::io("read", &path, error))?;
            match buffer.get(..read).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => hasher.update(bytes),
                None => return Ok(hasher.finish() == *digest),
            }
        }
    }

    /// What a manifest needs and the store hasn't got, or, for an index, what the manifests that
    /// are there need.
    ///
    /// # Errors
    /// [`ImageError::Document`] for what can't be read, [`ImageError::Io`].
    pub fn missing(&self, image: &Descriptor) -> Result<Vec<Digest>> {
        let mut missing = Vec::new();
        let mut check = |store: &Store, descriptor: &Descriptor| {
            if !store.contains(&descriptor.digest) {
                missing.push(descriptor.digest.clone());
            }
            Ok(true)
        };
        match self.follow(image, &mut check) {
            Ok(_) | Err(ImageError::NotFound { .. }) => Ok(missing),
            Err(error) => Err(error),
        }
    }

    /// Asks `bring` for all that an image leads to, documents before what they name; `bring` says
    /// whether it is there. An index is there when one of its manifests is.
    ///
    /// # Errors
    /// Those of `bring`; [`ImageError::Document`] for a manifest that isn't whole.
    pub(crate) fn follow(
        &self,
        image: &Descriptor,
        bring: &mut dyn FnMut(&Store, &Descriptor) -> Result<bool>,
    ) -> Result<bool> {
        self.follow_to(image, MAX_DEPTH, bring)
    }

    fn follow_to(
        &self,
        image: &Descriptor,
        depth: u32,
        bring: &mut dyn FnMut(&Store, &Descriptor) -> Result<bool>,
    ) -> Result<bool> {
        if !bring(self, image)? {
            return Ok(false);
        }
        let name = format!("index {}", image.digest);
        if depth == 0 {
            return Err(ImageError::document(
                name,
                "its indexes are more than 4 deep",
            ));
        }
        let bytes = self.read_document(&image.digest)?;
        if bytes.len() as u64 != image.size {
            return Err(ImageError::WrongSize {
                digest: image.digest.clone(),
                expected: image.size,
                found: bytes.len() as u64,
            });
        }
        let index = match Document::parse(&bytes, Some(&image.media_type))? {
            Document::Manifest(manifest) => return self.follow_image(image, &manifest, bring),
            Document::Index(index) => index,
        };
        let mut any = index.manifests.is_empty();
        for entry in &index.manifests {
            // What is attached to images (`unknown/unknown`) may be anything.
            any |= self.follow_to(entry, depth - 1, bring)?;
        }
        match any {
            true => Ok(true),
            false => Err(ImageError::document(name, "none of its manifests is there")),
        }
    }

    fn follow_image(
        &self,
        image: &Descriptor,
        manifest: &Manifest,
        bring: &mut dyn FnMut(&Store, &Descriptor) -> Result<bool>,
    ) -> Result<bool> {
        for blob in manifest.blobs() {
            // A foreign layer may be had from elsewhere.
            if !bring(self, blob)? && blob.urls.is_empty() {
                let name = format!("manifest {}", image.digest);
                return Err(ImageError::document(
                    name,
                    format!("{} is missing", blob.digest),
                ));
            }
        }
        Ok(true)
    }
}
