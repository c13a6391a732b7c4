// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule`: what is to run, when, and what becomes of it when it ends. What a run does is
//! done by the commands for cells and pods: run 3 of `web` is the cell `web-3`.

mod apply;
mod change;
mod declare;
mod health;
mod logs;
mod security;
mod show;
mod verify;
mod work;

use api::schedule::v0::schedules_client::SchedulesClient;
use clap::Subcommand;
use client::Node;
use tonic::transport::Channel;

use crate::failure::Failure;
use crate::global::Global;
use crate::session::Session;

/// The largest answer: a list of every schedule of a tenant, with its spec.
const MAX_ANSWER: usize = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  aurae schedule now --name web --restart always nginx:1.27
  aurae schedule cron '30 4 * * mon-fri' --name backup -- /usr/local/bin/backup
  aurae schedule at +10m --name once -- /bin/echo later
  aurae schedule after backup --success --name upload -- /usr/local/bin/upload
  aurae schedule lax --window 22:00-06:00 --name index -- /usr/local/bin/index
  aurae schedule pin node-2 --name web nginx:1.27
  aurae schedule apply -f deployment.yaml
  aurae schedule ls
  aurae schedule why web
  aurae schedule rm web
  aurae schedule verify nginx             what a unit file says; no node is asked
  aurae schedule security nginx
  aurae schedule import nginx.service     the same as a program, as `aurae import`

A schedule runs on behalf of the user who declares it: what that user may not do any more, it does
not do any more. It outlives a reboot.";

/// `aurae schedule`.
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    command: ScheduleCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ScheduleCommand {
    /// Run it now, and after a reboot again as its restart policy says
    Now(Box<declare::NowArgs>),
    /// Run it whenever a cron pattern matches
    Cron(Box<declare::CronArgs>),
    /// Run it once, at a time
    At(Box<declare::AtArgs>),
    /// Run it each time a run of another schedule has ended
    After(Box<declare::AfterArgs>),
    /// Run it once, when the node has room
    Lax(Box<declare::LaxArgs>),
    /// Run it now, on that node and no other
    Pin(Box<declare::PinArgs>),
    /// Apply manifests of Kubernetes, or a user's crontab
    Apply(apply::ApplyArgs),
    /// Remove what manifests name
    Delete(apply::DeleteArgs),
    /// Go back to an older revision of replicas
    Undo(apply::UndoArgs),
    /// List configs: what pods are given
    Configs(apply::ConfigsArgs),
    /// List schedules
    #[command(visible_alias = "list")]
    Ls(show::LsArgs),
    /// Show a schedule and its runs
    #[command(visible_aliases = ["inspect", "show"])]
    Describe(show::NameArgs),
    /// Say why a schedule, or a unit (`ssh.service`), doesn't run now
    Why(show::NameArgs),
    /// Show how its last runs ended
    History(show::NameArgs),
    /// Show what a run has printed: the last one, unless another is named
    Logs(Box<logs::ScheduleLogsArgs>),
    /// Run it now, whatever its time
    Trigger(change::NamesArgs),
    /// Let nothing begin by itself; what runs goes on
    Pause(change::NamesArgs),
    /// End a pause, a back-off or a passed start limit
    Resume(change::NamesArgs),
    /// Stop its runs and forget it; their logs stay
    Rm(change::NamesArgs),
    /// Say what unit files would do, what is wrong in them, and what isn't honoured
    Verify(verify::VerifyArgs),
    /// Score how much services leave open, as systemd-analyze does
    Security(security::SecurityArgs),
    /// Print units, crontabs and manifests as a program, as `aurae import` does
    Import(super::import::ImportArgs),
}

impl ScheduleArgs {
    /// Whether no node is asked.
    pub(crate) fn is_offline(&self) -> bool {
        let command = &self.command;
        matches!(
            command,
            ScheduleCommand::Verify(_) | ScheduleCommand::Security(_) | ScheduleCommand::Import(_)
        )
    }

    /// The context of the node that work is pinned to, where one leads there: it is handed to that
    /// node. Otherwise the current one is asked, which refuses by name what is another's.
    pub(crate) fn elsewhere(&self) -> Result<Option<String>, Failure> {
        let ScheduleCommand::Pin(args) = &self.command else {
            return Ok(None);
        };
        declare::context_of(args)
    }
}

/// Does what asks no node.
pub(crate) fn run_offline(global: &Global, args: &ScheduleArgs) -> Result<u8, Failure> {
    match &args.command {
        ScheduleCommand::Verify(args) => verify::verify(global, args),
        ScheduleCommand::Security(args) => security::security(global, args),
        ScheduleCommand::Import(args) => super::import::run(args),
        _ => Ok(0),
    }
}

/// Prints what is no message of the contract.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|problem| Failure::new(format!("can't print it: {problem}")))?;
    crate::output::print_line(&text)
}

/// Runs one of the commands of `aurae schedule`; the exit status.
pub(crate) async fn run(session: &Session, args: &ScheduleArgs) -> Result<u8, Failure> {
    use ScheduleCommand as It;
    match &args.command {
        It::Now(args) => declare::now(session, args).await,
        It::Cron(args) => declare::cron(session, args).await,
        It::At(args) => declare::at(session, args).await,
        It::After(args) => declare::after(session, args).await,
        It::Lax(args) => declare::lax(session, args).await,
        It::Pin(args) => declare::pin(session, args).await,
        It::Apply(args) => apply::apply(session, args).await,
        It::Delete(args) => apply::delete(session, args).await,
        It::Undo(args) => apply::undo(session, args).await,
        It::Configs(args) => apply::configs(session, args).await,
        It::Ls(args) => show::ls(session, args).await,
        It::Describe(args) => show::describe(session, args).await,
        It::Why(args) => show::why(session, args).await,
        It::History(args) => show::history(session, args).await,
        It::Logs(args) => logs::run(session, args).await,
        It::Trigger(args) => change::trigger(session, args).await,
        It::Pause(args) => change::pause(session, args).await,
        It::Resume(args) => change::resume(session, args).await,
        It::Rm(args) => change::rm(session, args).await,
        // `run_offline` has done these.
        It::Verify(_) | It::Security(_) | It::Import(_) => Ok(0),
    }
}

fn schedules(node: &Node) -> SchedulesClient<Channel> {
    SchedulesClient::new(node.channel()).max_decoding_message_size(MAX_ANSWER)
}

/// The names of a tenant's schedules, for completion.
pub(crate) async fn names(session: &Session, within: std::time::Duration) -> Option<Vec<String>> {
    let request = api::schedule::v0::ListRequest {
        tenant: session.tenant(),
        ..Default::default()
    };
    let request = session.node.within(request, within);
    let list = schedules(&session.node).list(request).await.ok()?;
    let list = list.into_inner().schedules.into_iter();
    Some(list.map(|schedule| schedule.name).collect())
}
