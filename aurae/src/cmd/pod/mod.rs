// SPDX-License-Identifier: Apache-2.0
//! `aurae pod`: containers that belong together. What a container does is done by the commands for
//! cells and executables: the container `app` of the pod `web` is the cell `web/app`.

mod change;
mod debug;
mod forward;
mod inside;
mod run;
mod show;
mod watch;

pub(crate) use run::read as read_pods;

use api::pod::v0::pods_client::PodsClient;
use clap::Subcommand;
use client::Node;
use tonic::transport::Channel;

use crate::failure::Failure;
use crate::session::Session;

/// The largest answer: a list of every pod of a tenant, with the files in their specs.
const MAX_ANSWER: usize = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  aurae pod run -f pod.yaml
  aurae pod ls
  aurae pod describe web
  aurae pod logs -f web -c app
  aurae pod exec -it web -c app sh
  aurae pod port-forward web 8080:80
  aurae pod debug web --image busybox -it sh
  aurae pod update -f pod.yaml
  aurae pod rm -f web

A file is a manifest of Kubernetes: a Pod, and the ConfigMaps and Secrets that it names. What a pod
of Aurae can't have is refused by name.";

/// `aurae pod`.
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct PodArgs {
    #[command(subcommand)]
    command: PodCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum PodCommand {
    /// Run the pods of a file
    Run(run::RunArgs),
    /// List pods
    #[command(visible_alias = "list")]
    Ls(show::LsArgs),
    /// Show a pod and its containers
    #[command(visible_aliases = ["inspect", "show"])]
    Describe(show::DescribeArgs),
    /// End the containers of pods; the pods stay, with logs and exits
    Stop(change::StopArgs),
    /// Remove pods, with their logs and volumes
    Rm(change::RmArgs),
    /// Show what containers have printed
    Logs(Box<inside::PodLogsArgs>),
    /// Run another program in a container
    Exec(Box<inside::PodExecArgs>),
    /// Copy files out of a container, or into it
    Cp(inside::PodCpArgs),
    /// Change running pods to what a file says now: resources, files, labels
    Update(run::UpdateArgs),
    /// Show pods, and then every change of one
    Watch(watch::WatchArgs),
    /// Add a container to a running pod, to look at it
    Debug(debug::DebugArgs),
    /// Listen here, and connect to a pod's ports
    PortForward(forward::ForwardArgs),
}

/// Runs one of the commands of `aurae pod`; the exit status.
pub(crate) async fn run(session: &Session, args: &PodArgs) -> Result<u8, Failure> {
    match &args.command {
        PodCommand::Run(args) => run::run(session, args).await,
        PodCommand::Ls(args) => show::ls(session, args).await,
        PodCommand::Describe(args) => show::describe(session, args).await,
        PodCommand::Stop(args) => change::stop(session, args).await,
        PodCommand::Rm(args) => change::rm(session, args).await,
        PodCommand::Logs(args) => inside::logs(session, args).await,
        PodCommand::Exec(args) => inside::exec(session, args).await,
        PodCommand::Cp(args) => inside::cp(session, args).await,
        PodCommand::Update(args) => run::update(session, args).await,
        PodCommand::Watch(args) => watch::run(session, args).await,
        PodCommand::Debug(args) => debug::run(session, args).await,
        PodCommand::PortForward(args) => forward::run(session, args).await,
    }
}

fn pods(node: &Node) -> PodsClient<Channel> {
    PodsClient::new(node.channel()).max_decoding_message_size(MAX_ANSWER)
}
