// SPDX-License-Identifier: Apache-2.0
//! `aurae kill`: a signal to an executable.

use api::runtime::v0::{Object, SignalRequest};

use super::{for_each, print_changed};
use crate::failure::Failure;
use crate::output::{OutputArgs, reference};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae kill web/nginx                 SIGKILL
  aurae kill -HUP web/nginx            read your configuration again
  aurae kill -s USR1 --all web/nginx   its children, too";

/// `aurae kill`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KillArgs {
    /// Which signal, by name or number
    #[arg(short, long, value_name = "SIGNAL", default_value = "KILL")]
    signal: String,
    /// Every process of the executable, not the main one alone
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Executables, as CELL/NAME or by the name of a run
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Signals all of them.
pub(crate) async fn run(session: &Session, args: &KillArgs) -> Result<u8, Failure> {
    let (signalled, status) =
        for_each(session, &args.names, |name| kill(session, name, args)).await;
    print_changed(args.output.output, signalled)?;
    Ok(status)
}

async fn kill(session: &Session, name: &str, args: &KillArgs) -> Result<Object, Failure> {
    let found = session.find_executable(name, "kill").await?;
    let request = SignalRequest {
        r#ref: Some(reference(&found)),
        signal: args.signal.clone(),
        all_processes: args.all,
    };
    let answer = session
        .node
        .runtime()
        .signal(session.node.unary(request))
        .await?;
    Ok(answer.into_inner())
}
