// SPDX-License-Identifier: Apache-2.0
//! A pull on behalf of a call that has other effects, too: the run of a cell whose image is to be
//! there first. The call's permit covers the pull as one of its effects.

use std::sync::Arc;

use identity::permit::Permit;
use identity::{Effect, Reach};
use model::error::Error;
use model::name::Tenant;

use super::pull::shown;
use super::transfer::Transfer;
use super::{Image, Images, Pull};

/// The method whose permission a pull takes.
const PULL: &str = "image.Pull";

impl Images {
    /// The effect of a pull.
    pub fn effect_of_pull() -> Effect {
        Effect {
            action: PULL,
            path: None,
            reach: Reach::Object,
        }
    }

    /// Whether the tenant has an image of this name or digest. For the handler, before a call is
    /// authorized: nothing of it may be answered.
    pub fn has(&self, tenant: &Tenant, text: &str) -> bool {
        self.inner.find(tenant, text).is_ok()
    }

    /// Begins a pull that is one of the effects of a call.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`; `LIMIT_EXCEEDED` where the tenant has as many transfers as it may.
    /// Everything else is the transfer's.
    pub fn fetch(&self, permit: &Permit, pull: Pull) -> Result<Transfer<Image>, Error> {
        permit.demand(&pull.tenant, &Self::effect_of_pull())?;
        let pull = Pull {
            credentials: shown(permit, pull.credentials.clone()),
            ..pull
        };
        let place = Arc::new(self.inner.transfers.take(&pull.tenant, 1)?);
        let images = self.clone();
        Ok(Transfer::start(async move |progress| {
            images.pulled(pull, &place, progress).await
        }))
    }
}
