// SPDX-License-Identifier: Apache-2.0
//! `aurae image rm`, `pin`, `unpin` and `prune`: what the node keeps.

use std::time::Duration;

use api::image::v0::{PinRequest, PruneRequest, RemoveRequest};

use super::images;
use crate::cmd::for_each;
use crate::failure::Failure;
use crate::output::{OutputArgs, note, print_line, print_message};
use crate::quantity::{parse_duration, show_bytes};
use crate::session::Session;

/// `aurae image rm`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae image rm nginx:1.25\n\n\
                        Refused while a cell runs the image: `aurae ps` says which.")]
pub(super) struct RmArgs {
    /// Names of images
    #[arg(required = true, value_name = "IMAGE")]
    references: Vec<String>,
}

/// `aurae image pin` and `unpin`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae image pin nginx:1.25\n  aurae image unpin nginx:1.25")]
pub(super) struct PinArgs {
    /// Names of images
    #[arg(required = true, value_name = "IMAGE")]
    references: Vec<String>,
}

/// `aurae image prune`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae image prune\n  aurae image prune --unused-for 7d")]
pub(super) struct PruneArgs {
    /// Only what was not pulled, imported or run for so long: 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    unused_for: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Forgets images.
pub(super) async fn rm(session: &Session, args: &RmArgs) -> Result<u8, Failure> {
    let remove = async |reference: &str| {
        let request = RemoveRequest {
            tenant: session.tenant(),
            reference: reference.to_owned(),
        };
        let request = session.node.unary(request);
        let answer = images(&session.node).remove(request).await;
        let freed = answer
            .map_err(client::Error::from)?
            .into_inner()
            .freed_bytes;
        print_line(reference)?;
        if freed > 0 {
            note(&format!("{} of the disk are free again", show_bytes(freed)));
        }
        Ok(())
    };
    let (_, status) = for_each(session, &args.references, remove).await;
    Ok(status)
}

/// Pins images, or lets them go.
pub(super) async fn pin(session: &Session, args: &PinArgs, pinned: bool) -> Result<u8, Failure> {
    let pin = async |reference: &str| {
        let request = PinRequest {
            tenant: session.tenant(),
            reference: reference.to_owned(),
            pinned,
        };
        let ask = async |node: &client::Node| images(node).pin(node.unary(request.clone())).await;
        let image = session.ask(ask).await?;
        print_line(&image.reference)
    };
    let (_, status) = for_each(session, &args.references, pin).await;
    Ok(status)
}

/// Forgets what is not needed.
pub(super) async fn prune(session: &Session, args: &PruneArgs) -> Result<u8, Failure> {
    let unused_for = args.unused_for.map(prost_types::Duration::try_from);
    let request = PruneRequest {
        tenant: session.tenant(),
        unused_for: unused_for.transpose().ok().flatten(),
    };
    let answer = images(&session.node)
        .prune(session.node.unary(request))
        .await;
    let answer = answer.map_err(client::Error::from)?.into_inner();
    if args.output.output.is_machine() {
        print_message(args.output.output, &answer)?;
        return Ok(0);
    }
    answer
        .removed
        .iter()
        .try_for_each(|name| print_line(name))?;
    note(&format!(
        "{} of the disk are free again",
        show_bytes(answer.freed_bytes)
    ));
    Ok(0)
}
