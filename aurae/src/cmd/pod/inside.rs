// SPDX-License-Identifier: Apache-2.0
//! `aurae pod logs`, `exec` and `cp`: the commands for executables and cells, with a container's
//! name put in.

use api::pod::v0::GetRequest;

use super::pods;
use crate::cmd;
use crate::failure::Failure;
use crate::session::Session;

/// `aurae pod logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod logs web\n  aurae pod logs -f web -c app")]
pub(super) struct PodLogsArgs {
    /// Of this container [default: of all]
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    #[command(flatten)]
    logs: cmd::logs::LogsArgs,
}

/// `aurae pod exec`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod exec -it -c app web sh\n  \
                        aurae pod exec web cat /etc/hosts\n\n\
                        The options come before the pod; what follows it is the program's.")]
pub(super) struct PodExecArgs {
    /// In this container [default: the pod's first]
    #[arg(short = 'c', long, value_name = "CONTAINER")]
    container: Option<String>,
    #[command(flatten)]
    exec: cmd::exec::ExecArgs,
}

/// `aurae pod cp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod cp page.html web:/srv/\n  \
                        aurae pod cp -c app web:/var/log .")]
pub(super) struct PodCpArgs {
    /// Of this container [default: the pod's first]
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    #[command(flatten)]
    cp: cmd::cp::CpArgs,
}

/// Shows what containers have printed.
pub(super) async fn logs(session: &Session, args: &PodLogsArgs) -> Result<u8, Failure> {
    let mut logs = args.logs.clone();
    if let Some(container) = &args.container {
        for name in &mut logs.names {
            *name = format!("{name}/{container}/main");
        }
    }
    cmd::logs::run(session, &logs).await
}

/// Runs another program in a container.
pub(super) async fn exec(session: &Session, args: &PodExecArgs) -> Result<u8, Failure> {
    let mut exec = args.exec.clone();
    exec.cell = container(session, &exec.cell, args.container.as_ref()).await?;
    cmd::exec::run(session, &exec).await
}

/// Copies files.
pub(super) async fn cp(session: &Session, args: &PodCpArgs) -> Result<u8, Failure> {
    let mut cp = args.cp.clone();
    for place in [&mut cp.from, &mut cp.to] {
        if let Some((pod, path)) = cmd::cp::in_cell(place) {
            let cell = container(session, pod, args.container.as_ref()).await?;
            *place = format!("{cell}:{path}");
        }
    }
    cmd::cp::run(session, &cp).await
}

/// The cell of a container: the one that is named, or the pod's first.
async fn container(
    session: &Session,
    pod: &str,
    named: Option<&String>,
) -> Result<String, Failure> {
    if let Some(named) = named {
        return Ok(format!("{pod}/{named}"));
    }
    let request = GetRequest {
        r#ref: Some(session.reference(pod)),
    };
    let get = async |node: &client::Node| pods(node).get(node.unary(request.clone())).await;
    let found = session.ask(get).await?;
    match found.containers.first() {
        Some(first) => Ok(format!("{pod}/{}", first.name)),
        None => Err(Failure::new(format!("the pod {pod} has no container"))),
    }
}
