// SPDX-License-Identifier: Apache-2.0
//! The image of a cell that is to be run: brought before the cell is made, where its spec wants
//! that. It is one of the call's effects, decided with the others; the runtime pulls nothing.

use identity::permit::Permit;
use image::Reference;
use image::node::{Images, Pull};
use image::registry::PullPolicy;
use model::cell::CellSpec;
use model::container::{Container, Pull as Wanted};
use model::error::Error;
use model::name::Tenant;

use super::keys::Keys;

/// An image that is to be pulled first.
pub(crate) struct Fetch {
    reference: Reference,
    policy: PullPolicy,
}

impl Fetch {
    /// What a cell with this spec wants pulled. `field`: where its spec is in the request.
    ///
    /// # Errors
    /// `INVALID_FIELD` for what is neither there nor a reference.
    pub(super) fn of(
        images: &Images,
        tenant: &Tenant,
        spec: Option<&CellSpec>,
        field: &str,
    ) -> Result<Option<Self>, Error> {
        match spec.and_then(|spec| spec.container.as_ref()) {
            Some(root) => Self::of_root(images, tenant, root, &format!("{field}.container.image")),
            None => Ok(None),
        }
    }

    /// What a container with this root wants pulled. `field`: where its image is in the request.
    ///
    /// # Errors
    /// As [`Fetch::of`].
    pub(crate) fn of_root(
        images: &Images,
        tenant: &Tenant,
        root: &Container,
        field: &str,
    ) -> Result<Option<Self>, Error> {
        if !root.has_image() {
            return Ok(None);
        }
        let Container { image, pull, .. } = root;
        let policy = match pull {
            Wanted::Never => return Ok(None),
            Wanted::IfNotPresent if images.has(tenant, image) => return Ok(None),
            Wanted::IfNotPresent => PullPolicy::IfNotPresent,
            Wanted::Always => PullPolicy::Always,
        };
        let reference = image.parse::<Reference>().map_err(|error| {
            Error::invalid(field, error.problem())
                .hint("write NAME[:TAG], or the digest of an image that is there")
        })?;
        Ok(Some(Self { reference, policy }))
    }

    /// Pulls it, with the request's credentials. Who wants to see progress pulls it before.
    ///
    /// # Errors
    /// Those of a pull.
    pub(crate) async fn carry_out(
        self,
        images: &Images,
        permit: &Permit,
        tenant: &Tenant,
        keys: &Keys,
    ) -> Result<(), Error> {
        let credentials = keys.for_image(&self.reference);
        let pull = Pull {
            tenant: tenant.clone(),
            reference: self.reference,
            policy: self.policy,
            platform: None,
            credentials,
        };
        images.fetch(permit, pull)?.end().await.map(drop)
    }
}
