// SPDX-License-Identifier: Apache-2.0
//! `aurae image`: OCI images on a node. Images come from registries (`pull`) and from archives
//! (`import`), and go the same ways. The node does the work; this folder asks for it and shows how
//! far it is.

mod archive;
mod change;
mod credentials;
mod list;
mod transfer;

use api::image::v0::images_client::ImagesClient;
use clap::Subcommand;
use client::Node;
use tonic::transport::Channel;

use crate::failure::Failure;
use crate::session::Session;

pub(crate) use credentials::RegistryFlags;
pub(crate) use transfer::pulled;

/// The largest answer: a list of every image that a tenant may have.
const MAX_ANSWER: usize = 16 << 20;

const EXAMPLES: &str = "\
Examples:
  aurae image pull nginx:1.25
  aurae image ls
  aurae image inspect nginx:1.25
  aurae image export nginx:1.25 > nginx.tar
  aurae image import nginx.tar
  aurae image prune --unused-for 7d

A name is written as for docker: nginx, nginx:1.25, registry.example:5000/team/app, name@sha256:…";

/// `aurae image`.
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ImageCommand {
    /// Get an image from its registry
    Pull(transfer::PullArgs),
    /// Give an image to a registry
    Push(transfer::PushArgs),
    /// List images
    #[command(visible_alias = "list")]
    Ls(list::LsArgs),
    /// Show an image's digests, layers and configuration
    #[command(visible_alias = "show")]
    Inspect(list::InspectArgs),
    /// Forget images; their bytes go when nothing needs them
    Rm(change::RmArgs),
    /// Keep images from pruning
    Pin(change::PinArgs),
    /// Let images be pruned again
    Unpin(change::PinArgs),
    /// Forget the images that no cell runs and that are not pinned
    Prune(change::PruneArgs),
    /// Take images from an archive: an OCI layout, or what `docker save` writes
    #[command(visible_alias = "load")]
    Import(archive::ImportArgs),
    /// Write an image as an archive
    #[command(visible_alias = "save")]
    Export(archive::ExportArgs),
    /// Read every byte of images again, and put aside what is damaged
    Verify(list::VerifyArgs),
}

/// Runs one of the commands of `aurae image`; the exit status.
pub(crate) async fn run(session: &Session, args: &ImageArgs) -> Result<u8, Failure> {
    match &args.command {
        ImageCommand::Pull(args) => transfer::pull(session, args).await,
        ImageCommand::Push(args) => transfer::push(session, args).await,
        ImageCommand::Ls(args) => list::ls(session, args).await,
        ImageCommand::Inspect(args) => list::inspect(session, args).await,
        ImageCommand::Rm(args) => change::rm(session, args).await,
        ImageCommand::Pin(args) => change::pin(session, args, true).await,
        ImageCommand::Unpin(args) => change::pin(session, args, false).await,
        ImageCommand::Prune(args) => change::prune(session, args).await,
        ImageCommand::Import(args) => archive::import(session, args).await,
        ImageCommand::Export(args) => archive::export(session, args).await,
        ImageCommand::Verify(args) => list::verify(session, args).await,
    }
}

/// The client of the service.
pub(crate) fn images(node: &Node) -> ImagesClient<Channel> {
    ImagesClient::new(node.channel()).max_decoding_message_size(MAX_ANSWER)
}
