// SPDX-License-Identifier: Apache-2.0
//! Reads images again, byte by byte, says what is damaged, and puts it out of the way: a pull would
//! take a damaged blob for a present one, for whichever tenant. What is put aside, a pull brings
//! again; an unpacked layer is made anew at once from its blob, unless a cell has it mounted.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::Tenant;

use super::layers::LIMIT;
use super::records::{Content, Record};
use super::{Images, Inner};
use crate::digest::Digest;
use crate::error::ImageError;
use crate::unpack::{Options, Source, Unpacking};

/// One image after its bytes were read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// In full.
    pub reference: String,
    /// Of the manifest.
    pub digest: Digest,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// What was damaged or is missing, and what was done about it; empty: it is whole.
    pub problems: Vec<String>,
}

impl Images {
    /// Verifies one image, or all of the tenant.
    ///
    /// # Errors
    /// `NOT_FOUND`; `LIMIT_EXCEEDED` where the tenant has as many transfers as it may.
    pub async fn verify(
        &self,
        permit: Permit,
        tenant: &Tenant,
        reference: Option<&str>,
    ) -> std::result::Result<Vec<Verified>, Error> {
        permit.demand_tenant(tenant)?;
        let inner = self.inner()?;
        let place = Arc::new(inner.transfers.take(tenant, 1)?);
        let records = match reference {
            Some(reference) => vec![inner.find(tenant, reference)?],
            None => inner.records_of(tenant),
        };
        let mut verified = Vec::new();
        for record in records {
            // Dropped with its caller between two images.
            let place = Arc::clone(&place);
            let one = self.blocking(move |inner| {
                let _place = place;
                Ok(inner.verify(&record))
            });
            verified.push(one.await?);
        }
        Ok(verified)
    }
}

impl Inner {
    pub(super) fn records_of(&self, tenant: &Tenant) -> Vec<Record> {
        let held = self.lock();
        let records = held.values().map(|held| &held.record);
        records
            .filter(|record| record.tenant == *tenant)
            .cloned()
            .collect()
    }

    fn verify(&self, record: &Record) -> Verified {
        let mut verified = Verified {
            reference: record.reference.clone(),
            digest: record.manifest.digest.clone(),
            read_bytes: 0,
            problems: Vec::new(),
        };
        let manifest = &record.manifest.digest;
        // The manifest first: what it names is known by it alone.
        let mut sound = BTreeSet::new();
        self.verify_blob(manifest, &mut verified, &mut sound);
        let content = match Content::read(&self.store, &record.manifest) {
            Ok(content) => content,
            Err(error) if sound.contains(manifest) => {
                self.verify_config(manifest, &error, &mut verified, &mut sound);
                return verified;
            }
            Err(_) => return verified,
        };
        for blob in content.blobs().into_keys() {
            self.verify_blob(blob, &mut verified, &mut sound);
        }
        for (blob, diff_id) in content.layers() {
            // No layer is held here: a damaged one is to be replaced.
            let there = self.store.layer(&diff_id).is_some();
            let checked = match there {
                false => Err(format!(
                    "layer {diff_id} isn't unpacked: pull the image again"
                )),
                true if sound.contains(&blob) => self.verify_layer(record, &blob, &diff_id),
                // Without its blob there is nothing to compare it with.
                true => Ok(()),
            };
            verified.problems.extend(checked.err());
        }
        verified
    }

    /// A configuration that can't be read may be damaged, too.
    fn verify_config(
        &self,
        manifest: &Digest,
        error: &ImageError,
        verified: &mut Verified,
        sound: &mut BTreeSet<Digest>,
    ) {
        match Content::config_of(&self.store, manifest) {
            Ok(config) => self.verify_blob(&config, verified, sound),
            Err(_) => verified.problems.push(error.to_string()),
        }
    }

    /// Reads a blob again. One that has other bytes is put aside, whichever images have it.
    fn verify_blob(&self, digest: &Digest, verified: &mut Verified, sound: &mut BTreeSet<Digest>) {
        let read = self.store.blob_size(digest).and_then(|bytes| {
            verified.read_bytes = verified.read_bytes.saturating_add(bytes);
            self.store.is_sound(digest)
        });
        let problem = match read {
            Ok(true) => {
                sound.insert(digest.clone());
                return;
            }
            Ok(false) => match self.store.set_aside(digest) {
                Ok(()) => format!(
                    "{digest} was changed on the disk, and is put aside: pull the image again"
                ),
                Err(error) => format!("{digest} was changed on the disk, and stays there: {error}"),
            },
            Err(ImageError::NotFound { .. }) => {
                format!("{digest} is missing: pull the image again")
            }
            Err(error) => format!("{digest} can't be read: {error}"),
        };
        verified.problems.push(problem);
    }

    /// Unpacks a sound blob once more and compares.
    fn verify_layer(
        &self,
        record: &Record,
        blob: &Digest,
        diff_id: &Digest,
    ) -> std::result::Result<(), String> {
        let compared = || {
            let command = self.unpacker.start(&record.tenant)?;
            let source = Source::Blob(self.store.read_blob(blob)?);
            let options = Options::new(diff_id);
            let unpacking = Unpacking::start(&self.store, command, &options, source)?;
            let (making, summary) = unpacking.made(LIMIT, &mut |_| ())?;
            let difference = making.difference()?;
            let Some(path) = difference else {
                return Ok::<_, Error>(None);
            };
            let replaced = making.replace(summary)?;
            if let Some(layer) = &replaced {
                self.store.note_blob(layer, blob)?;
            }
            Ok(Some((path, replaced.is_some())))
        };
        let path = match compared() {
            Ok(None) => return Ok(()),
            Err(error) => return Err(format!("layer {diff_id} can't be compared: {error}")),
            Ok(Some((path, true))) => format!("{}: it is unpacked anew", path.display()),
            Ok(Some((path, false))) => format!(
                "{}, and a cell runs it: remove the cell and verify the image again",
                path.display()
            ),
        };
        Err(format!("layer {diff_id} was changed on the disk at {path}"))
    }
}
