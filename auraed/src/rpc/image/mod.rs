// SPDX-License-Identifier: Apache-2.0
//! The `Images` service on the wire. `image` does the work. Transfers end when their caller goes.

mod convert;
mod transfer;

pub(super) use convert::credentials;

use std::sync::Arc;
use std::time::Duration;

use api::action::image as action;
use api::convert::object::scope;
use api::convert::scalar::maybe_parse;
use api::image::v0 as wire;
use api::image::v0::images_server::Images as Service;
use api::status::to_status;
use identity::Identity;
use image::node::Images;
use model::name::Tenant;
use tonic::{Request, Response, Status, Streaming};

use super::caller::Caller;
use super::stream::{Answers, first, until_expelled};

/// The service `Images`.
pub(super) struct ImageService {
    pub(super) identity: Arc<Identity>,
    pub(super) images: Images,
    /// How long the first message of an import may take.
    pub(super) timeout: Duration,
}

type Answer<T> = Result<Response<T>, Status>;

impl ImageService {
    fn enter<T>(&self, request: &Request<T>, action: &'static str) -> Result<Caller, Status> {
        Caller::of(&self.identity, request, action)
    }
}

/// The tenant that a request is about: the caller's own where it names none.
fn tenant(caller: &Caller, named: &str) -> Result<Tenant, Status> {
    let named = maybe_parse("tenant", named).map_err(to_status)?;
    Ok(named.unwrap_or_else(|| caller.tenant().clone()))
}

#[tonic::async_trait]
impl Service for ImageService {
    type PullStream = Answers<wire::PullResponse>;

    async fn pull(&self, request: Request<wire::PullRequest>) -> Answer<Self::PullStream> {
        let caller = self.enter(&request, action::PULL)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let pull = convert::pull(tenant, message).map_err(to_status)?;
        let permit = caller.permit_at(&pull.tenant, None).await?;
        let transfer = self.images.pull(permit, pull).map_err(to_status)?;
        let answers = transfer::answers(transfer, convert::pulling, convert::pulled);
        Ok(Response::new(until_expelled(answers, caller.expelled())))
    }

    type PushStream = Answers<wire::PushResponse>;

    async fn push(&self, request: Request<wire::PushRequest>) -> Answer<Self::PushStream> {
        let caller = self.enter(&request, action::PUSH)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let push = convert::push(tenant, message).map_err(to_status)?;
        let permit = caller.permit_at(&push.tenant, None).await?;
        let transfer = self.images.push(permit, push).map_err(to_status)?;
        let answers = transfer::answers(transfer, convert::pushing, convert::pushed);
        Ok(Response::new(until_expelled(answers, caller.expelled())))
    }

    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<wire::ListResponse> {
        let caller = self.enter(&request, action::LIST)?;
        let scope = scope(caller.tenant(), &request.get_ref().tenant).map_err(to_status)?;
        let permit = caller.permit_scope(&scope, None).await?;
        let images = self.images.list(permit, scope).await.map_err(to_status)?;
        Ok(Response::new(wire::ListResponse {
            images: images.iter().map(convert::to_summary).collect(),
        }))
    }

    async fn get(&self, request: Request<wire::GetRequest>) -> Answer<wire::Image> {
        let caller = self.enter(&request, action::GET)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let image = self.images.get(permit, &tenant, &message.reference).await;
        let image = image.map_err(to_status)?;
        Ok(Response::new(convert::to_image(&image)))
    }

    async fn remove(&self, request: Request<wire::RemoveRequest>) -> Answer<wire::RemoveResponse> {
        let caller = self.enter(&request, action::REMOVE)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let removed = self.images.remove(permit, &tenant, &message.reference);
        let freed_bytes = removed.await.map_err(to_status)?;
        Ok(Response::new(wire::RemoveResponse { freed_bytes }))
    }

    async fn pin(&self, request: Request<wire::PinRequest>) -> Answer<wire::Image> {
        let caller = self.enter(&request, action::PIN)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let pinned = self
            .images
            .pin(permit, &tenant, &message.reference, message.pinned);
        let image = pinned.await.map_err(to_status)?;
        Ok(Response::new(convert::to_summary(&image)))
    }

    async fn prune(&self, request: Request<wire::PruneRequest>) -> Answer<wire::PruneResponse> {
        let caller = self.enter(&request, action::PRUNE)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let unused_for = convert::unused_for(message.unused_for).map_err(to_status)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let pruned = self.images.prune(permit, &tenant, unused_for).await;
        let pruned = pruned.map_err(to_status)?;
        Ok(Response::new(wire::PruneResponse {
            removed: pruned.removed,
            freed_bytes: pruned.freed_bytes,
        }))
    }

    async fn import(
        &self,
        request: Request<Streaming<wire::ImportRequest>>,
    ) -> Answer<wire::ImportResponse> {
        let caller = self.enter(&request, action::IMPORT)?;
        let mut messages = request.into_inner();
        let first = first(&mut messages, self.timeout, "begin", transfer::begin);
        let begin = caller.unless_expelled(first).await?;
        let tenant = tenant(&caller, &begin.tenant)?;
        let name = convert::optional_reference(&begin.reference).map_err(to_status)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let archive = transfer::Archive::of(messages);
        let imported = self.images.import(permit, tenant, name, archive);
        let images = caller.unless_expelled(imported).await?;
        Ok(Response::new(wire::ImportResponse {
            images: images.iter().map(convert::to_summary).collect(),
        }))
    }

    type ExportStream = Answers<wire::ExportResponse>;

    async fn export(&self, request: Request<wire::ExportRequest>) -> Answer<Self::ExportStream> {
        let caller = self.enter(&request, action::EXPORT)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let pieces = self.images.export(permit, &tenant, &message.reference);
        let pieces = transfer::pieces(pieces.map_err(to_status)?);
        Ok(Response::new(until_expelled(pieces, caller.expelled())))
    }

    async fn verify(&self, request: Request<wire::VerifyRequest>) -> Answer<wire::VerifyResponse> {
        let caller = self.enter(&request, action::VERIFY)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, &message.tenant)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let one = Some(message.reference).filter(|text| !text.is_empty());
        let verified = self.images.verify(permit, &tenant, one.as_deref());
        let images = caller.unless_expelled(verified).await?;
        Ok(Response::new(wire::VerifyResponse {
            images: images.into_iter().map(convert::to_verified).collect(),
        }))
    }
}
