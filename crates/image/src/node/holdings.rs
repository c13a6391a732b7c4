// SPDX-License-Identifier: Apache-2.0
//! Bytes of the disk that each tenant's images hold, as the quota `image_bytes` counts them. A blob
//! or an unpacked layer counts once for each tenant that needs it, however many of its images do,
//! and for each of two tenants although there is one copy: what one tenant removes must not push
//! another one past its quota.
//!
//! What is to be received is counted before the first byte comes ([`Holdings::take`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::Error;
use model::name::Tenant;
use tenants::{Pool, Taken};

use crate::digest::Digest;
use crate::manifest::{Descriptor, Manifest};

/// See the module. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Holdings {
    bytes: Pool,
    tenants: Arc<Mutex<BTreeMap<Tenant, Shares>>>,
}

type Shares = BTreeMap<Kept, Share>;

/// What is on the disk. An uncompressed layer has one digest in both forms.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kept {
    /// As received.
    Blob(Digest),
    /// Unpacked, by its diff id.
    Layer(Digest),
}

/// One blob of one tenant.
#[derive(Debug)]
struct Share {
    holds: usize,
    _taken: Taken,
}

/// What one image, or one transfer, holds. Goes back when dropped.
#[derive(Debug)]
pub(super) struct Hold {
    holdings: Holdings,
    tenant: Tenant,
    kept: Vec<Kept>,
}

/// A manifest and what it points to, with the sizes that it says.
pub(super) fn blobs(descriptor: &Descriptor, manifest: &Manifest) -> Vec<(Kept, u64)> {
    let all = std::iter::once(descriptor).chain(manifest.blobs());
    all.map(|blob| (Kept::Blob(blob.digest.clone()), blob.size))
        .collect()
}

impl Holdings {
    /// None yet. `bytes`: the pool of the quota.
    pub(super) fn new(bytes: Pool) -> Self {
        Self {
            bytes,
            tenants: Arc::default(),
        }
    }

    /// Counts blobs for a tenant.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` where those that the tenant hasn't got yet don't fit; nothing is counted
    /// then.
    pub(super) fn take(
        &self,
        tenant: &Tenant,
        blobs: impl IntoIterator<Item = (Kept, u64)>,
    ) -> Result<Hold, Error> {
        let mut hold = self.none(tenant);
        // The hold gives back what it has where a later one is refused.
        for (kept, bytes) in blobs {
            hold.add(kept, |pool, tenant| pool.take(tenant, bytes))?;
        }
        Ok(hold)
    }

    /// Counts what the disk has already, also beyond the quota: of a quota that was lowered.
    pub(super) fn count(
        &self,
        tenant: &Tenant,
        blobs: impl IntoIterator<Item = (Kept, u64)>,
    ) -> Hold {
        let mut hold = self.none(tenant);
        for (kept, bytes) in blobs {
            // It never refuses.
            let _counted = hold.add(kept, |pool, tenant| Ok(pool.count(tenant, bytes)));
        }
        hold
    }

    /// The most that a tenant may receive now, in bytes.
    pub(super) fn room(&self, tenant: &Tenant) -> u64 {
        self.bytes.room(tenant)
    }

    /// Why a tenant can't receive more than its room; `None`: there is no bound.
    pub(super) fn full(&self, tenant: &Tenant) -> Option<Error> {
        let more = self.room(tenant).saturating_add(1);
        self.bytes.take(tenant, more).err()
    }

    fn none(&self, tenant: &Tenant) -> Hold {
        Hold {
            holdings: self.clone(),
            tenant: tenant.clone(),
            kept: Vec::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Tenant, Shares>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// Adds blobs to what is held.
    ///
    /// # Errors
    /// As of [`Holdings::take`]; what was held before stays.
    pub(super) fn grow(
        &mut self,
        blobs: impl IntoIterator<Item = (Kept, u64)>,
    ) -> Result<(), Error> {
        let more = self.holdings.take(&self.tenant, blobs)?;
        self.absorb(more);
        Ok(())
    }

    /// What is held, by digest alone.
    pub(super) fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.kept
            .iter()
            .map(|(Kept::Blob(digest) | Kept::Layer(digest))| digest)
    }

    /// Takes over what the other one holds and this one doesn't.
    pub(super) fn merge(&mut self, mut other: Hold) {
        let (known, new) = other
            .kept
            .drain(..)
            .partition(|kept| self.kept.contains(kept));
        other.kept = known;
        self.kept.extend::<Vec<Kept>>(new);
    }

    fn absorb(&mut self, mut more: Hold) {
        self.kept.append(&mut more.kept);
    }

    fn add(
        &mut self,
        kept: Kept,
        take: impl FnOnce(&Pool, &Tenant) -> Result<Taken, Error>,
    ) -> Result<(), Error> {
        let mut tenants = self.holdings.lock();
        let shares = tenants.entry(self.tenant.clone()).or_default();
        match shares.get_mut(&kept) {
            Some(share) => share.holds += 1,
            None => {
                let taken = take(&self.holdings.bytes, &self.tenant)?;
                let share = Share {
                    holds: 1,
                    _taken: taken,
                };
                shares.insert(kept.clone(), share);
            }
        }
        drop(tenants);
        self.kept.push(kept);
        Ok(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut tenants = self.holdings.lock();
        let Some(shares) = tenants.get_mut(&self.tenant) else {
            return;
        };
        for kept in self.kept.drain(..) {
            let Some(share) = shares.get_mut(&kept) else {
                continue;
            };
            share.holds = share.holds.saturating_sub(1);
            if share.holds == 0 {
                shares.remove(&kept);
            }
        }
        if shares.is_empty() {
            tenants.remove(&self.tenant);
        }
    }
}
