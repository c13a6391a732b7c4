// SPDX-License-Identifier: Apache-2.0
//! The image of a cell that is about to be run: pulled here first where the node hasn't got it, so
//! that its progress is seen. The node would pull it, too, and say nothing until it is there.

use api::image::v0::{GetRequest, PullPolicy, PullRequest};
use api::runtime::v0::{Container, ErrorReason, container};

use super::image;
use super::image::RegistryFlags;
use crate::failure::Failure;
use crate::session::Session;

/// Pulls the image of a container as its policy says, with what its registry is to be told.
pub(crate) async fn image(
    session: &Session,
    container: &mut Container,
    registry: &RegistryFlags,
) -> Result<(), Failure> {
    let policy = match container.pull() {
        container::Pull::Never if is_there(session, &container.image).await? => return Ok(()),
        container::Pull::Never => {
            let image = &container.image;
            let absent = format!("the node has no image {image}, and --pull is never");
            return Err(Failure::new(absent));
        }
        container::Pull::Always => PullPolicy::Always,
        _ if is_there(session, &container.image).await? => return Ok(()),
        _ => PullPolicy::IfNotPresent,
    };
    let request = PullRequest {
        tenant: session.tenant(),
        reference: container.image.clone(),
        policy: policy.into(),
        credentials: registry.read()?,
        ..Default::default()
    };
    image::pulled(session, request).await?;
    // Once is enough.
    container.set_pull(container::Pull::IfNotPresent);
    Ok(())
}

async fn is_there(session: &Session, reference: &str) -> Result<bool, Failure> {
    let request = GetRequest {
        tenant: session.tenant(),
        reference: reference.to_owned(),
    };
    let request = session.node.unary(request);
    let found = image::images(&session.node).get(request).await;
    let Err(status) = found else {
        return Ok(true);
    };
    let error = client::Error::from(status);
    match error.refusal().map(|refusal| refusal.reason) {
        // Who may run but not look finds out by running.
        Some(ErrorReason::NotFound) => Ok(false),
        Some(ErrorReason::PermissionDenied) => Ok(true),
        _ => Err(error.into()),
    }
}
