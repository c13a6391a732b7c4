// SPDX-License-Identifier: Apache-2.0
//! `aurae pod stop` and `rm`.

use std::time::Duration;

use api::pod::v0::{RemoveRequest, StopRequest};

use super::pods;
use crate::cmd::for_each;
use crate::failure::Failure;
use crate::output::{Progress, print_line};
use crate::quantity::parse_duration;
use crate::session::Session;
use crate::spec::wire_duration;

/// How long a stop may take: the longest grace of a pod, an hour, and a minute more.
const LONGEST: Duration = Duration::from_secs(3600 + 60);

/// `aurae pod stop`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod stop web\n  aurae pod stop -t 0 web")]
pub(super) struct StopArgs {
    /// How long the containers have to end by themselves, instead of the pod's own grace
    #[arg(short = 't', long, visible_alias = "time")]
    #[arg(value_name = "DURATION", value_parser = parse_duration)]
    grace: Option<Duration>,
    /// Pods
    #[arg(required = true, value_name = "POD")]
    names: Vec<String>,
}

/// `aurae pod rm`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod rm web\n  aurae pod rm -f web db")]
pub(super) struct RmArgs {
    /// Stop what still runs, first
    #[arg(short, long)]
    force: bool,
    /// Pods
    #[arg(required = true, value_name = "POD")]
    names: Vec<String>,
}

/// Stops all of them at once, and waits.
pub(super) async fn stop(session: &Session, args: &StopArgs) -> Result<u8, Failure> {
    let progress = Progress::start(format!("stopping {}", args.names.join(", ")));
    let stop = async |name: &str| {
        let request = StopRequest {
            r#ref: Some(session.reference(name)),
            grace: args.grace.map(wire_duration),
        };
        let request = session.node.within(request, LONGEST);
        let answer = pods(&session.node).stop(request).await;
        answer.map_err(client::Error::from)?;
        Ok(name.to_owned())
    };
    let (stopped, status) = for_each(session, &args.names, stop).await;
    drop(progress);
    stopped.iter().try_for_each(|name| print_line(name))?;
    Ok(status)
}

/// Removes all of them at once.
pub(super) async fn rm(session: &Session, args: &RmArgs) -> Result<u8, Failure> {
    let progress = Progress::start(format!("removing {}", args.names.join(", ")));
    let remove = async |name: &str| {
        let request = RemoveRequest {
            r#ref: Some(session.reference(name)),
            force: args.force,
        };
        let request = session.node.within(request, LONGEST);
        let answer = pods(&session.node).remove(request).await;
        answer.map_err(client::Error::from)?;
        Ok(name.to_owned())
    };
    let (removed, status) = for_each(session, &args.names, remove).await;
    drop(progress);
    removed.iter().try_for_each(|name| print_line(name))?;
    Ok(status)
}
