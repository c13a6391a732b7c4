// SPDX-License-Identifier: Apache-2.0
//! The quota of a transfer until its image has a name. What is left of it when the transfer ends
//! without one, in whatever way, is on the disk for the next attempt and counts on, until it is
//! pruned: or cut transfers would fill the disk, each counted from nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::Error;
use model::name::Tenant;

use super::Inner;
use super::holdings::{Hold, Kept};

/// See the module.
pub(super) struct Left {
    inner: Arc<Inner>,
    pub(super) tenant: Tenant,
    hold: Shared,
}

/// Where the hold comes in, from within a transfer.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Option<Hold>>>);

impl Shared {
    /// Takes care of a hold from here on.
    pub(super) fn put(&self, hold: Hold) {
        *self.lock() = Some(hold);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Counts more.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`; what was held stays.
    pub(super) fn grow(&self, kept: Kept, bytes: u64) -> Result<(), Error> {
        self.hold
            .lock()
            .as_mut()
            .map_or(Ok(()), |hold| hold.grow([(kept, bytes)]))
    }

    /// The hold, for the image that has a name now.
    ///
    /// # Errors
    /// `INTERNAL`: nothing was ever admitted.
    pub(super) fn take(&self) -> Result<Hold, Error> {
        let hold = self.hold.lock().take();
        hold.ok_or_else(|| Error::internal("the transfer was not admitted"))
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let hold = self.hold.lock().take();
        if let Some(hold) = hold {
            self.inner.leave(&self.tenant, hold);
        }
    }
}
