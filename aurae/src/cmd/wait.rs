// SPDX-License-Identifier: Apache-2.0
//! `aurae wait`: waits until objects have ended. It prints each executable's status, as docker
//! does.

use api::runtime::v0::{Object, WaitRequest, exit, object};
use tonic::Request;

use super::for_each;
use crate::failure::Failure;
use crate::output::{OutputArgs, Progress, print_line, print_message, reference};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae wait web/job              prints its exit status, 128+N for signal N
  aurae wait -o json web/job";

/// `aurae wait`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// Executables or cells
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Waits for all of them.
pub(crate) async fn run(session: &Session, args: &WaitArgs) -> Result<u8, Failure> {
    let progress = Progress::start(format!("waiting for {}", args.names.join(", ")));
    let (ended, status) = for_each(session, &args.names, |name| wait(session, name)).await;
    drop(progress);
    for object in &ended {
        match args.output.output.is_machine() {
            true => print_message(args.output.output, object)?,
            false => print_line(&status_words(object))?,
        }
    }
    Ok(status)
}

async fn wait(session: &Session, name: &str) -> Result<Object, Failure> {
    let found = match session.find_executable(name, "wait").await {
        Ok(executable) => executable,
        Err(_) => session.find_or_suggest(name, "wait").await?,
    };
    let request = WaitRequest {
        r#ref: Some(reference(&found)),
    };
    let mut node = session.node.clone();
    loop {
        // No deadline: it takes as long as it takes; keepalives notice a node that is gone. The uid
        // makes asking again harmless.
        let problem = match node.runtime().wait(Request::new(request.clone())).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => client::Error::from(status),
        };
        if !problem.is_transient() {
            return Err(problem.into());
        }
        node = session.reconnect(problem).await?;
    }
}

fn status_words(ended: &Object) -> String {
    match &ended.object {
        Some(object::Object::Executable(status)) => {
            match status.exit.as_ref().and_then(|exit| exit.how) {
                Some(exit::How::Code(code)) => code.to_string(),
                Some(exit::How::Signal(signal)) => (128 + signal).to_string(),
                Some(exit::How::Unknown(_)) | None => "unknown".to_owned(),
            }
        }
        _ => "ended".to_owned(),
    }
}
