// SPDX-License-Identifier: Apache-2.0
//! A push of an image that a tenant has, to where its name says or elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::Tenant;

use super::pull::{DEADLINE, shown};
use super::transfer::Transfer;
use super::{Images, Inner};
use crate::digest::Digest;
use crate::reference::Reference;
use crate::registry::{Credentials, PushRequest};

/// What is to be pushed.
#[derive(Clone, Debug)]
pub struct Push {
    /// Whose image.
    pub tenant: Tenant,
    /// Which, as [`Images::get`] takes it.
    pub reference: String,
    /// Where to; `None`: where its name says.
    pub to: Option<Reference>,
    /// Shown to the registry; `None`: the node's own for administrators, and none for others.
    pub credentials: Option<Credentials>,
}

impl Inner {
    /// Repositories that the tenant's images came from: a registry may have a blob there already.
    fn repositories(&self, tenant: &Tenant) -> Vec<String> {
        let records = self.records_of(tenant);
        let parsed = records
            .iter()
            .filter_map(|it| it.reference.parse::<Reference>().ok());
        let all: BTreeSet<String> = parsed.map(|it| it.repository().to_owned()).collect();
        all.into_iter().collect()
    }
}

impl Images {
    /// Begins a push. Its end is the digest that the registry has the image under.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`; `NOT_FOUND`; `LIMIT_EXCEEDED` where the tenant has as many transfers as
    /// it may. Everything else is the transfer's.
    pub fn push(&self, permit: Permit, push: Push) -> Result<Transfer<Digest>, Error> {
        permit.demand_tenant(&push.tenant)?;
        let inner = Arc::clone(self.inner()?);
        let record = inner.find(&push.tenant, &push.reference)?;
        let to = match push.to {
            Some(to) => to,
            None => record.reference.parse().map_err(|error| {
                Error::invalid("to", error).hint("the image has no registry's name: say where to")
            })?,
        };
        let place = inner.transfers.take(&push.tenant, 1)?;
        let request = PushRequest {
            reference: to,
            target: record.manifest.digest.clone(),
            credentials: shown(&permit, push.credentials),
            owner: push.tenant.to_string(),
            mount_from: inner.repositories(&push.tenant),
            deadline: DEADLINE,
        };
        Ok(Transfer::start(async move |progress| {
            let _place = place;
            let client = inner.client()?;
            let pushed = client.push(&inner.store, &request, progress).await;
            pushed.map(|_| request.target.clone()).map_err(Error::from)
        }))
    }
}
