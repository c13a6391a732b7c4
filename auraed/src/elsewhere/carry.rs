// SPDX-License-Identifier: Apache-2.0
//! Brings the images of a pod to the daemon that is to run it: as archives, from this node's store
//! to that one's, where it hasn't got the very image. So that daemon needs neither a registry nor
//! credentials, and what a tenant may pull is decided here alone.

use api::image::v0 as wire;
use futures_util::stream;
use identity::{Effect, Identity, Reach};
use image::node::{Images, Pieces};
use model::error::{Error, Reason};
use model::name::Tenant;
use tonic::Code;
use wire::import_request::Of;

use super::link::{self, Link};

const GET: &str = "image.Get";
const EXPORT: &str = "image.Export";

/// What a transfer takes of this node.
pub(super) struct Carrier {
    pub(super) images: Images,
    pub(super) identity: std::sync::Arc<Identity>,
}

impl Carrier {
    /// Brings one image of a tenant. One that this node hasn't got isn't brought: its container
    /// says so there, as it would here.
    ///
    /// # Errors
    /// Those of an import there.
    pub(super) async fn carry(
        &self,
        link: &Link,
        tenant: &Tenant,
        reference: &str,
    ) -> Result<(), Error> {
        let ours = self.permit(tenant, GET)?;
        let ours = match self.images.get(ours, tenant, reference).await {
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            found => found?,
        };
        let digest = ours.record.manifest.digest.to_string();
        if self.digest_there(link, tenant, reference).await? == Some(digest) {
            return Ok(());
        }
        let permit = self.permit(tenant, EXPORT)?;
        let pieces = self.images.export(permit, tenant, reference)?;
        let node = link.of(tenant).await?;
        let begin = wire::ImportBegin {
            tenant: tenant.to_string(),
            reference: String::new(),
        };
        let imported = link::images(&node).import(messages(begin, pieces)).await;
        imported.map_err(|status| link.refusal(&status))?;
        tracing::info!(%tenant, reference, class = link.class(), "an image was brought");
        Ok(())
    }

    async fn digest_there(
        &self,
        link: &Link,
        tenant: &Tenant,
        reference: &str,
    ) -> Result<Option<String>, Error> {
        let node = link.of(tenant).await?;
        let asked = link::soon(wire::GetRequest {
            tenant: tenant.to_string(),
            reference: reference.to_owned(),
        });
        match link::images(&node).get(asked).await {
            Ok(image) => Ok(Some(image.into_inner().digest)),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(link.refusal(&status)),
        }
    }

    fn permit(&self, tenant: &Tenant, action: &'static str) -> Result<identity::Permit, Error> {
        let effect = Effect {
            action,
            path: None,
            reach: Reach::Object,
        };
        let permit = self.identity.node_permit_in(tenant.clone(), vec![effect]);
        permit.map_err(Error::from)
    }
}

/// An archive as it is read; where that fails, the import ends without its end, and is refused.
fn messages(
    begin: wire::ImportBegin,
    pieces: Pieces,
) -> impl futures_util::Stream<Item = wire::ImportRequest> {
    let begin = Some(wire::ImportRequest {
        of: Some(Of::Begin(begin)),
    });
    stream::unfold((begin, pieces), async |(begin, mut pieces)| {
        if begin.is_some() {
            return begin.map(|message| (message, (None, pieces)));
        }
        match pieces.next().await? {
            Ok(data) => {
                let message = wire::ImportRequest {
                    of: Some(Of::Data(data)),
                };
                Some((message, (None, pieces)))
            }
            Err(error) => {
                tracing::warn!(%error, "an image can't be read to be brought elsewhere");
                None
            }
        }
    })
}
