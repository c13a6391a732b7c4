// SPDX-License-Identifier: Apache-2.0
//! `aurae image pull` and `push`, with their progress: a line on a terminal that is written again,
//! elsewhere a line now and then.

use std::time::Instant;

use api::image::v0::{
    LayerState, Progress, PullPolicy, PullRequest, PushRequest, pull_response, push_response,
};
use tonic::Request;

use super::credentials::CredentialArgs;
use super::images;
use crate::failure::Failure;
use crate::output::{OutputArgs, Told, print_line, print_message};
use crate::quantity::show_bytes;
use crate::session::Session;
use crate::spec::Pull;

const PULL_EXAMPLES: &str = "\
Examples:
  aurae image pull nginx
  aurae image pull registry.example:5000/team/app:v2
  aurae image pull --policy always --platform linux/arm64 debian:12
  aurae image pull -u ann registry.example/team/app < password

Prints the digest. An interrupted pull goes on where it was when it is repeated.";

/// `aurae image pull`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = PULL_EXAMPLES)]
pub(super) struct PullArgs {
    /// When to ask the registry [default: always for the tag latest, otherwise if-not-present]
    #[arg(long, value_enum, value_name = "POLICY")]
    policy: Option<Pull>,
    /// Another platform than the node's: OS/ARCHITECTURE[/VARIANT]
    #[arg(long, value_name = "PLATFORM")]
    platform: Option<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// The image's name
    #[arg(value_name = "IMAGE")]
    reference: String,
}

/// The contract's value.
fn to_wire(policy: Pull) -> PullPolicy {
    match policy {
        Pull::Always => PullPolicy::Always,
        Pull::IfNotPresent => PullPolicy::IfNotPresent,
        Pull::Never => PullPolicy::Never,
    }
}

/// `aurae image push`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  aurae image push registry.example:5000/team/app:v2\n  \
                        aurae image push app:v2 registry.example:5000/team/app:v2"
)]
pub(super) struct PushArgs {
    #[command(flatten)]
    credentials: CredentialArgs,
    /// An image of `aurae image ls`
    #[arg(value_name = "IMAGE")]
    reference: String,
    /// Where to [default: where the image's name says]
    #[arg(value_name = "TO")]
    to: Option<String>,
}

/// Pulls, and prints the digest.
pub(super) async fn pull(session: &Session, args: &PullArgs) -> Result<u8, Failure> {
    let request = PullRequest {
        tenant: session.tenant(),
        reference: args.reference.clone(),
        policy: args.policy.map_or(0, |policy| to_wire(policy).into()),
        platform: args.platform.clone().unwrap_or_default(),
        credentials: args.credentials.read()?,
    };
    let image = pulled(session, request).await?;
    if args.output.output.is_machine() {
        print_message(args.output.output, &image)?;
    } else {
        print_line(&format!("{}@{}", image.reference, image.digest))?;
    }
    Ok(0)
}

/// Pulls as asked, telling how far it is.
pub(crate) async fn pulled(
    session: &Session,
    request: PullRequest,
) -> Result<api::image::v0::Image, Failure> {
    let told = Told::start(format!("pulling {}", request.reference));
    let started = Instant::now();
    let mut answers = images(&session.node)
        .pull(Request::new(request))
        .await
        .map_err(client::Error::from)?
        .into_inner();
    while let Some(answer) = answers.message().await.map_err(client::Error::from)? {
        match answer.of {
            Some(pull_response::Of::Progress(progress)) => told.say(words(&progress, started)),
            Some(pull_response::Of::Image(image)) => return Ok(image),
            None => {}
        }
    }
    Err(Failure::new("the node ended the pull without an image"))
}

/// Pushes, and prints the digest that the registry has.
pub(super) async fn push(session: &Session, args: &PushArgs) -> Result<u8, Failure> {
    let to = args.to.clone().unwrap_or_default();
    let target = if to.is_empty() { &args.reference } else { &to };
    let told = Told::start(format!("pushing {target}"));
    let request = PushRequest {
        tenant: session.tenant(),
        reference: args.reference.clone(),
        to: to.clone(),
        credentials: args.credentials.read()?,
    };
    let started = Instant::now();
    let mut answers = images(&session.node)
        .push(Request::new(request))
        .await
        .map_err(client::Error::from)?
        .into_inner();
    while let Some(answer) = answers.message().await.map_err(client::Error::from)? {
        match answer.of {
            Some(push_response::Of::Progress(progress)) => told.say(words(&progress, started)),
            Some(push_response::Of::Digest(digest)) => {
                drop(told);
                print_line(&digest)?;
                return Ok(0);
            }
            None => {}
        }
    }
    Err(Failure::new("the node ended the push without a digest"))
}

/// `3 of 7 layers, 12Mi of 64Mi, 4Mi/s`.
fn words(progress: &Progress, started: Instant) -> String {
    let ready = |state| matches!(state, LayerState::Done | LayerState::Present);
    let layers = &progress.layers;
    let done = layers.iter().filter(|layer| ready(layer.state())).count();
    let bytes: u64 = layers.iter().map(|layer| layer.done_bytes).sum();
    let whole: u64 = layers.iter().map(|layer| layer.size_bytes).sum();
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let speed = bytes.saturating_mul(1000).checked_div(millis).unwrap_or(0);
    let unpacking = layers.iter().any(|l| l.state() == LayerState::Unpacking);
    format!(
        "{done} of {} layers, {} of {}, {}/s{}",
        layers.len(),
        show_bytes(bytes),
        show_bytes(whole),
        show_bytes(speed),
        if unpacking { ", unpacking" } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use api::image::v0::LayerProgress;

    use super::*;

    #[test]
    fn progress_counts_layers_and_bytes() {
        let layer = |state: LayerState, done_bytes| LayerProgress {
            state: state.into(),
            done_bytes,
            size_bytes: 4 << 20,
            ..LayerProgress::default()
        };
        let layers = vec![
            layer(LayerState::Present, 4 << 20),
            layer(LayerState::Transferring, 1 << 20),
            layer(LayerState::Unpacking, 4 << 20),
        ];
        let text = words(&Progress { layers }, Instant::now());
        assert!(
            text.starts_with("1 of 3 layers, 9.00Mi of 12.0Mi, "),
            "{text}"
        );
        assert!(text.ends_with(", unpacking"), "{text}");
    }
}
