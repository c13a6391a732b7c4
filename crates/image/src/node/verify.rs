// SPDX-License-Identifier: Apache-2.0
//! Reads images again, byte by byte, and says what is damaged. It changes nothing: a pull mends.

use std::io::Read as _;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::Tenant;

use super::records::{Content, Record};
use super::{Images, Inner};
use crate::digest::{Digest, Verifier};
use crate::error::{ImageError, Result};
use crate::manifest::Descriptor;

/// One image after its bytes were read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// In full.
    pub reference: String,
    /// Of the manifest.
    pub digest: Digest,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// What is damaged or missing; empty: it is whole.
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
        let place = Arc::new(self.inner.transfers.take(tenant, 1)?);
        let records = match reference {
            Some(reference) => vec![self.inner.find(tenant, reference)?],
            None => self.inner.records_of(tenant),
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
        let content = match Content::read(&self.store, &record.manifest) {
            Ok(content) => content,
            Err(error) => {
                verified.problems.push(error.to_string());
                return verified;
            }
        };
        verified.read_bytes = content.manifest_bytes;
        for blob in content.manifest.blobs() {
            match self.read_again(blob) {
                Ok(bytes) => verified.read_bytes = verified.read_bytes.saturating_add(bytes),
                Err(error) => verified.problems.push(error.to_string()),
            }
        }
        let missing = content
            .layers()
            .into_iter()
            .filter(|(_, id)| self.store.layer(id).is_none());
        let missing = missing.map(|(_, id)| format!("layer {id} isn't unpacked"));
        verified.problems.extend(missing);
        verified
    }

    fn read_again(&self, blob: &Descriptor) -> Result<u64> {
        let mut file = self.store.read_blob(&blob.digest)?;
        let mut verifier = Verifier::new(&blob.digest, blob.size);
        let mut buffer = vec![0; 128 << 10];
        loop {
            let read = file.read(&mut buffer).map_err(|source| ImageError::Io {
                doing: "read",
                path: self.store.root().to_owned(),
                source,
            })?;
            match buffer.get(..read).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => verifier.update(bytes)?,
                None => break,
            }
        }
        let bytes = verifier.taken();
        verifier.finish()?;
        Ok(bytes)
    }
}
