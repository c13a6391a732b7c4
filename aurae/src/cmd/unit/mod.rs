// SPDX-License-Identifier: Apache-2.0
//! `aurae unit`: systemd's unit files, run by the node. The words and exit statuses are
//! systemctl's.

mod change;
mod show;

use api::schedule::v0::units_client::UnitsClient;
use clap::Subcommand;
use client::Node;
use tonic::transport::Channel;

use crate::failure::Failure;
use crate::session::Session;

/// The largest answer: a list of all units.
const MAX_ANSWER: usize = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  aurae unit ls
  aurae unit start nginx
  aurae unit status nginx
  aurae unit logs -f nginx
  aurae unit enable --now nginx
  aurae unit list-timers

Files on the node say what is enabled and masked. For administrators, on a node whose configuration
has units.enabled.

Exit status: that of systemctl: 0; 1 failed; of `status` and `is-active` 3 not active; 4 or 5 no
such unit.";

/// `aurae unit`.
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct UnitArgs {
    #[command(subcommand)]
    command: UnitCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum UnitCommand {
    /// List units
    #[command(visible_aliases = ["list", "list-units"])]
    Ls(show::LsArgs),
    /// Show how units are
    Status(show::NamesArgs),
    /// Show the files of units
    Cat(show::NamesArgs),
    /// Show everything that is known of a unit
    Show(show::NameArgs),
    /// Show when timers elapse
    ListTimers(show::TimersArgs),
    /// Show what a unit depends on
    ListDependencies(show::NameArgs),
    /// Show what a unit's last activation has printed
    Logs(Box<show::UnitLogsArgs>),
    /// Say whether units are active; 3 where one isn't
    IsActive(show::NamesArgs),
    /// Say whether units are enabled; 1 where one isn't
    IsEnabled(show::NamesArgs),
    /// Start units, and what they need
    Start(change::JobArgs),
    /// Stop units, and what needs them
    Stop(change::JobArgs),
    /// Stop and start units
    Restart(change::JobArgs),
    /// Restart units that are active
    TryRestart(change::JobArgs),
    /// Have units read their configuration again
    Reload(change::JobArgs),
    /// The same, or a restart where a unit can't
    ReloadOrRestart(change::JobArgs),
    /// Send a signal to what units run
    Kill(change::KillArgs),
    /// Forget failures and counts of starts
    ResetFailed(change::SomeArgs),
    /// Make the links that [Install] asks for
    Enable(change::FilesArgs),
    /// Remove the links to units
    Disable(change::FilesArgs),
    /// Keep units from being started by anything
    Mask(change::FilesArgs),
    /// End that
    Unmask(change::FilesArgs),
    /// Read all unit files again
    DaemonReload(change::NoArgs),
}

/// Runs one of the commands of `aurae unit`; the exit status.
pub(crate) async fn run(session: &Session, args: &UnitArgs) -> Result<u8, Failure> {
    use UnitCommand as It;
    use change::{Files, Job};
    match &args.command {
        It::Ls(args) => show::ls(session, args).await,
        It::Status(args) => show::status(session, args).await,
        It::Cat(args) => show::cat(session, args).await,
        It::Show(args) => show::show(session, args).await,
        It::ListTimers(args) => show::timers(session, args).await,
        It::ListDependencies(args) => show::dependencies(session, args).await,
        It::Logs(args) => show::logs(session, args).await,
        It::IsActive(args) => show::is_active(session, args).await,
        It::IsEnabled(args) => show::is_enabled(session, args).await,
        It::Start(args) => change::jobs(session, args, Job::Start).await,
        It::Stop(args) => change::jobs(session, args, Job::Stop).await,
        It::Restart(args) => change::jobs(session, args, Job::Restart).await,
        It::TryRestart(args) => change::jobs(session, args, Job::TryRestart).await,
        It::Reload(args) => change::jobs(session, args, Job::Reload).await,
        It::ReloadOrRestart(args) => change::jobs(session, args, Job::ReloadOrRestart).await,
        It::Kill(args) => change::kill(session, args).await,
        It::ResetFailed(args) => change::reset_failed(session, args).await,
        It::Enable(args) => change::files(session, args, Files::Enable).await,
        It::Disable(args) => change::files(session, args, Files::Disable).await,
        It::Mask(args) => change::files(session, args, Files::Mask).await,
        It::Unmask(args) => change::files(session, args, Files::Unmask).await,
        It::DaemonReload(args) => change::daemon_reload(session, args).await,
    }
}

fn units(node: &Node) -> UnitsClient<Channel> {
    UnitsClient::new(node.channel()).max_decoding_message_size(MAX_ANSWER)
}
