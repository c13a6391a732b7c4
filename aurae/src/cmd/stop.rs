// SPDX-License-Identifier: Apache-2.0
//! `aurae stop`: the stop signal, the grace, then SIGKILL to the whole tree.

use std::time::Duration;

use api::runtime::v0::{Object, StopRequest};

use super::{for_each, print_changed};
use crate::failure::Failure;
use crate::output::{OutputArgs, Progress, reference};
use crate::quantity::parse_duration;
use crate::session::Session;
use crate::spec::wire_duration;

const EXAMPLES: &str = "\
Examples:
  aurae stop web/nginx
  aurae stop -t 1m web            everything in the cell, and the cell
  aurae stop -t 0 web/nginx       at once, without asking";

/// How long a stop without a grace may take: the longest grace of a node, an hour, and a minute
/// more.
const LONGEST: Duration = Duration::from_secs(3600 + 60);

/// `aurae stop`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StopArgs {
    /// How long it has to end by itself, instead of its own grace
    #[arg(short = 't', long, visible_alias = "time")]
    #[arg(value_name = "DURATION", value_parser = parse_duration)]
    grace: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
    /// Executables or cells
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Stops all of them at once, and waits.
pub(crate) async fn run(session: &Session, args: &StopArgs) -> Result<u8, Failure> {
    let progress = Progress::start(format!("stopping {}", args.names.join(", ")));
    let (stopped, status) =
        for_each(session, &args.names, |name| stop(session, name, args.grace)).await;
    drop(progress);
    print_changed(args.output.output, stopped)?;
    Ok(status)
}

async fn stop(session: &Session, name: &str, grace: Option<Duration>) -> Result<Object, Failure> {
    let found = session.find_or_suggest(name, "stop").await?;
    let request = StopRequest {
        r#ref: Some(reference(&found)),
        grace: grace.map(wire_duration),
    };
    // The answer comes when it has ended: the deadline of unary calls would be too short.
    let request = session.node.within(request, LONGEST);
    Ok(session.node.runtime().stop(request).await?.into_inner())
}
