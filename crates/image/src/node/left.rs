// SPDX-License-Identifier: Apache-2.0
//! The quota of a transfer until its image has a name. What is left of it when the transfer ends
//! without one, in whatever way, is on the disk for the next attempt and counts on, until it is
//! pruned, also after a restart: or cut transfers would fill the disk, each counted from nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::Error;
use model::name::Tenant;

use super::Inner;
use super::holdings::{Hold, Holdings, Kept, blobs};
use crate::manifest::{Descriptor, Manifest};
use crate::store::{Pending, Store};

/// See the module.
pub(super) struct Left {
    inner: Arc<Inner>,
    pub(super) tenant: Tenant,
    hold: Shared,
}

/// Where the hold comes in, from within a transfer.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    hold: Option<Hold>,
    pending: Option<Pending>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes care of a hold from here on, of an image that has a name.
    pub(super) fn put(&self, hold: Hold) {
        self.lock().hold = Some(hold);
    }

    /// Counts what a manifest points to for a tenant, and notes on the disk that it is coming.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`; the store can't be written.
    pub(super) fn admit(
        &self,
        inner: &Inner,
        tenant: &Tenant,
        descriptor: &Descriptor,
        manifest: &Manifest,
    ) -> Result<(), Error> {
        let all = std::iter::once(descriptor).chain(manifest.blobs());
        let pending = Pending {
            owner: tenant.to_string(),
            manifest: descriptor.digest.clone(),
            blobs: all.map(|blob| blob.digest.clone()).collect::<BTreeSet<_>>(),
        };
        let hold = inner.holdings.take(tenant, blobs(descriptor, manifest))?;
        inner.store.begin_pending(&pending)?;
        let mut held = self.lock();
        held.hold = Some(hold);
        held.pending = Some(pending);
        Ok(())
    }
}

impl Left {
    /// Of a transfer that holds nothing yet.
    pub(super) fn new(inner: &Arc<Inner>, tenant: &Tenant) -> Self {
        Self {
            inner: Arc::clone(inner),
            tenant: tenant.clone(),
            hold: Shared::default(),
        }
    }

    /// The place where the hold is put.
    pub(super) fn share(&self) -> Shared {
        self.hold.clone()
    }

    /// As [`Shared::admit`].
    ///
    /// # Errors
    /// Those of [`Shared::admit`].
    pub(super) fn admit(&self, image: &Descriptor, manifest: &Manifest) -> Result<(), Error> {
        self.hold.admit(&self.inner, &self.tenant, image, manifest)
    }

    /// Counts more.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`; what was held stays.
    pub(super) fn grow(&self, kept: Kept, bytes: u64) -> Result<(), Error> {
        let mut held = self.hold.lock();
        let hold = held.hold.as_mut();
        hold.map_or(Ok(()), |hold| hold.grow([(kept, bytes)]))
    }

    /// The hold, for the image that gets its name now, and what is to be forgotten of the disk's
    /// note once it has it.
    ///
    /// # Errors
    /// `INTERNAL`: nothing was ever admitted.
    pub(super) fn take(&self) -> Result<(Hold, Named), Error> {
        let mut held = self.hold.lock();
        let (hold, pending) = (held.hold.take(), held.pending.take());
        let named = Named {
            inner: Arc::clone(&self.inner),
            pending,
        };
        let hold = hold.ok_or_else(|| Error::internal("the transfer was not admitted"))?;
        Ok((hold, named))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let hold = self.hold.lock().hold.take();
        if let Some(hold) = hold {
            self.inner.leave(&self.tenant, hold);
        }
    }
}

/// Forgets the note of a transfer when it is dropped: its image has a name, or the error that kept
/// it from one is told, and its blobs are pinned no more.
pub(super) struct Named {
    inner: Arc<Inner>,
    pending: Option<Pending>,
}

impl Drop for Named {
    fn drop(&mut self) {
        let Some(pending) = &self.pending else {
            return;
        };
        if let Err(error) = self.inner.store.end_pending(pending) {
            tracing::warn!(%error, "what has a name is noted as if it had none");
        }
    }
}

/// What an earlier daemon's transfers have left on the disk.
pub(super) fn leftovers(store: &Store, holdings: &Holdings) -> Vec<(Tenant, Hold)> {
    let pending = store.pending().unwrap_or_else(|error| {
        tracing::warn!(%error, "what cut transfers have left is not counted");
        Vec::new()
    });
    let left = pending.into_iter().filter_map(|pending| {
        let tenant: Tenant = pending.owner.parse().ok()?;
        let blobs = pending.blobs.into_iter().filter_map(|digest| {
            let bytes = store.bytes_of(&digest).ok().filter(|bytes| *bytes > 0)?;
            Some((Kept::Blob(digest), bytes))
        });
        let hold = holdings.count(&tenant, blobs.collect::<Vec<_>>());
        Some((tenant, hold))
    });
    left.collect()
}
