// SPDX-License-Identifier: Apache-2.0
//! `aurae pod debug`: one more container in a running pod, attached to.

use std::time::Duration;

use api::pod::v0::{Container, DebugRequest};

use super::pods;
use crate::cmd;
use crate::cmd::names::invent_name;
use crate::failure::Failure;
use crate::output::{Progress, print_line};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae pod debug web --image busybox -it sh
  aurae pod debug web --image busybox --target app -it sh
  aurae pod debug web --image busybox -- ls -l /srv

It shares the pod's network, and with --target the processes of that container. It is started once
and stays in the pod's status; at most 8 of a pod. The options come before the program.";

/// How long making it may take: its image is pulled first.
const MAKING: Duration = Duration::from_secs(3600);

/// `aurae pod debug`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct DebugArgs {
    /// Its image; without one it has programs of the node
    #[arg(long, value_name = "IMAGE", default_value = "")]
    image: String,
    /// See the processes of this container
    #[arg(long, value_name = "CONTAINER", default_value = "")]
    target: String,
    /// Its name; made up, unless given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Hand standard input over
    #[arg(short, long)]
    interactive: bool,
    /// With a terminal
    #[arg(short, long)]
    tty: bool,
    /// Don't attach
    #[arg(short, long)]
    detach: bool,
    /// The pod
    #[arg(value_name = "POD")]
    pod: String,
    /// The program and its arguments, instead of the image's
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

/// Adds it and attaches; the program's own status.
pub(super) async fn run(session: &Session, args: &DebugArgs) -> Result<u8, Failure> {
    let name = args.name.clone().unwrap_or_else(|| invent_name("debug"));
    let container = Container {
        name: name.clone(),
        image: args.image.clone(),
        entrypoint: args.command.clone(),
        stdin: args.interactive,
        terminal: args.tty,
        ..Default::default()
    };
    let request = DebugRequest {
        r#ref: Some(session.reference(&args.pod)),
        container: Some(container),
        target: args.target.clone(),
        ..Default::default()
    };
    let progress = Progress::start(format!("adding {name} to {}", args.pod));
    let request = session.node.within(request, MAKING);
    let answer = pods(&session.node).debug(request).await;
    drop(progress);
    answer.map_err(client::Error::from)?;
    let place = match args.target.as_str() {
        "" => format!("{}/{name}", args.pod),
        target => format!("{}/{target}/{name}", args.pod),
    };
    if args.detach {
        print_line(&place)?;
        return Ok(0);
    }
    let attach = cmd::attach::AttachArgs::to(format!("{place}/main"))?;
    cmd::attach::run(session, &attach).await
}
