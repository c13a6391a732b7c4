// SPDX-License-Identifier: Apache-2.0
//! `aurae rm`: removes the records and logs of objects that have ended.

use std::time::Duration;

use api::runtime::v0::{ErrorReason, RemoveRequest};

use super::for_each;
use crate::failure::Failure;
use crate::output::{OutputArgs, Progress, print_line, print_message, reference};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae rm web/job
  aurae rm -r web            the ended cell and everything in it
  aurae rm -rf web           stop it first";

/// With `--force` everything is stopped first, with its grace of at most an hour.
const LONGEST: Duration = Duration::from_secs(3600 + 60);

/// `aurae rm`, and `aurae cell rm`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RmArgs {
    /// With everything in it
    #[arg(short, long)]
    recursive: bool,
    /// Stop first what still runs
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Executables or cells
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Removes all of them.
pub(crate) async fn run(session: &Session, args: &RmArgs) -> Result<u8, Failure> {
    let progress = Progress::start(format!("removing {}", args.names.join(", ")));
    let (removed, status) =
        for_each(session, &args.names, |name| remove(session, name, args)).await;
    drop(progress);
    for (path, answer) in &removed {
        match args.output.output.is_machine() {
            true => print_message(args.output.output, answer)?,
            false => print_line(path)?,
        }
    }
    Ok(status)
}

async fn remove(
    session: &Session,
    name: &str,
    args: &RmArgs,
) -> Result<(String, api::runtime::v0::RemoveResponse), Failure> {
    let reference = reference(&session.find_or_suggest(name, "rm").await?);
    let path = reference.path.clone();
    let request = RemoveRequest {
        r#ref: Some(reference),
        recursive: args.recursive,
        force: args.force,
    };
    let request = match args.force {
        true => session.node.within(request, LONGEST),
        false => session.node.unary(request),
    };
    let answer = session.node.runtime().remove(request).await;
    let answer = answer.map_err(|status| refused(status, &path, args))?;
    Ok((path, answer.into_inner()))
}

/// The node's hint names fields. Here they become flags, but never flags that were given.
fn refused(status: tonic::Status, path: &str, args: &RmArgs) -> Failure {
    let client::Error::Refused(refusal) = client::Error::from(status) else {
        return Failure::new(format!("{path} could not be removed"));
    };
    let hint = match (refusal.reason, args.recursive, args.force) {
        (ErrorReason::NotEmpty, false, false) => {
            format!("`aurae rm -r {path}` removes it with what is in it")
        }
        (ErrorReason::NotEmpty, false, true) => {
            format!("`aurae rm -rf {path}` removes it with what is in it")
        }
        (ErrorReason::NotEmpty | ErrorReason::WrongState, true, false) => {
            format!("`aurae rm -rf {path}` stops it first")
        }
        (ErrorReason::WrongState, false, false) => format!("`aurae rm -f {path}` stops it first"),
        _ => return client::Error::Refused(refusal).into(),
    };
    Failure::new(refusal.to_string()).with_hint(hint)
}
