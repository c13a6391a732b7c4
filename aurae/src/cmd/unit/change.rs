// SPDX-License-Identifier: Apache-2.0
//! `aurae unit start`, `stop`, `enable` and what else changes units.

use std::time::Duration;

use api::schedule::v0::{
    KillUnitRequest, ReloadUnitFilesRequest, ResetFailedUnitsRequest, UnitFilesRequest, UnitJob,
    UnitJobMode, UnitJobRequest, UnitKillWhom,
};

use super::units;
use crate::cmd::for_each;
use crate::failure::{FAILED, Failure};
use crate::output::{Progress, note, print_line};
use crate::session::{Session, is_not_found};

/// How long a job may take: a service may take as long as it wants to start.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// systemctl's exit status where there is no such unit.
const NO_UNIT: u8 = 5;

/// What is done to units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Job {
    Start,
    Stop,
    Restart,
    TryRestart,
    Reload,
    ReloadOrRestart,
}

/// What is done to their files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Files {
    Enable,
    Disable,
    Mask,
    Unmask,
}

/// How a job goes together with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Mode {
    Replace,
    Fail,
    Isolate,
    IgnoreDependencies,
    IgnoreRequirements,
    ReplaceIrreversibly,
    Flush,
}

/// Units, and how jobs on them are done.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit restart nginx\n  aurae unit stop --no-block ssh")]
pub(super) struct JobArgs {
    /// Don't wait for the end of the job
    #[arg(long)]
    no_block: bool,
    /// What becomes of jobs that are there
    #[arg(long, value_enum, value_name = "MODE", default_value = "replace")]
    job_mode: Mode,
    /// Units
    #[arg(required = true, value_name = "UNIT")]
    names: Vec<String>,
}

/// Does it to all of them at once.
pub(super) async fn jobs(session: &Session, args: &JobArgs, job: Job) -> Result<u8, Failure> {
    run_jobs(session, &args.names, job, args.job_mode, args.no_block).await
}

async fn run_jobs(
    session: &Session,
    names: &[String],
    job: Job,
    mode: Mode,
    no_wait: bool,
) -> Result<u8, Failure> {
    let progress = Progress::start(format!("waiting for {}", names.join(", ")));
    let change = async |name: &str| {
        let request = UnitJobRequest {
            name: name.to_owned(),
            mode: match mode {
                Mode::Replace => UnitJobMode::Replace,
                Mode::Fail => UnitJobMode::Fail,
                Mode::Isolate => UnitJobMode::Isolate,
                Mode::IgnoreDependencies => UnitJobMode::IgnoreDependencies,
                Mode::IgnoreRequirements => UnitJobMode::IgnoreRequirements,
                Mode::ReplaceIrreversibly => UnitJobMode::ReplaceIrreversibly,
                Mode::Flush => UnitJobMode::Flush,
            }
            .into(),
            no_wait,
            conditional: matches!(job, Job::TryRestart | Job::ReloadOrRestart),
        };
        let request = session.node.within(request, LONGEST);
        let mut client = units(&session.node);
        let answer = match job {
            Job::Start => client.start_unit(request).await,
            Job::Stop => client.stop_unit(request).await,
            Job::Restart | Job::TryRestart => client.restart_unit(request).await,
            Job::Reload | Job::ReloadOrRestart => client.reload_unit(request).await,
        };
        let answer = answer.map_err(client::Error::from);
        answer.map(tonic::Response::into_inner).map_err(|error| {
            let missing = is_not_found(&error);
            let failure = Failure::from(error);
            match missing {
                true => failure.with_status(NO_UNIT),
                false => failure,
            }
        })
    };
    let (done, mut status) = for_each(session, names, change).await;
    drop(progress);
    for job in &done {
        if let Some(failure) = failed(job) {
            failure.report(session.err_style);
            status = FAILED;
        }
    }
    Ok(status)
}

/// What is to be said of a job that did not end well.
fn failed(job: &UnitJob) -> Option<Failure> {
    let unit = job.unit.clone().unwrap_or_default();
    for note_of in &job.notes {
        note(note_of);
    }
    let why = match job.result.as_str() {
        "done" | "" => return None,
        "skipped" if unit.condition.is_empty() => return None,
        "skipped" => {
            note(&format!(
                "{} was skipped: {} does not hold",
                unit.name, unit.condition
            ));
            return None;
        }
        "dependency" => "a unit that it needs failed".to_owned(),
        "failed" if !unit.message.is_empty() => unit.message.clone(),
        "failed" => unit.result.clone(),
        other => other.to_owned(),
    };
    let failure = Failure::new(format!("the job for {} failed: {why}", unit.name));
    Some(failure.with_hint(format!("`aurae unit status {}` says more", unit.name)))
}

/// `aurae unit kill`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit kill -s HUP nginx")]
pub(super) struct KillArgs {
    /// The signal, by name or number
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM")]
    signal: String,
    /// Only to the main process and to commands beside it
    #[arg(long, conflicts_with = "whom")]
    main_only: bool,
    /// To which processes
    #[arg(long, value_name = "WHOM", default_value = "all")]
    whom: Whom,
    /// Units
    #[arg(required = true, value_name = "UNIT")]
    names: Vec<String>,
}

/// Whose processes get a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Whom {
    All,
    Main,
    Control,
}

/// Sends a signal.
pub(super) async fn kill(session: &Session, args: &KillArgs) -> Result<u8, Failure> {
    let send = async |name: &str| {
        let request = KillUnitRequest {
            name: name.to_owned(),
            signal: args.signal.clone(),
            main_only: args.main_only,
            whom: match args.whom {
                _ if args.main_only => UnitKillWhom::Unspecified,
                Whom::All => UnitKillWhom::All,
                Whom::Main => UnitKillWhom::Main,
                Whom::Control => UnitKillWhom::Control,
            }
            .into(),
        };
        let sent = units(&session.node)
            .kill_unit(session.node.unary(request))
            .await;
        Ok(sent.map(drop).map_err(client::Error::from)?)
    };
    let (_, status) = for_each(session, &args.names, send).await;
    Ok(status)
}

/// Some units, or all.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit reset-failed\n  aurae unit reset-failed nginx")]
pub(super) struct SomeArgs {
    /// Units. None: all
    #[arg(value_name = "UNIT")]
    names: Vec<String>,
}

/// Forgets failures.
pub(super) async fn reset_failed(session: &Session, args: &SomeArgs) -> Result<u8, Failure> {
    let request = ResetFailedUnitsRequest {
        names: args.names.clone(),
    };
    let request = session.node.unary(request);
    let reset = units(&session.node).reset_failed_units(request).await;
    reset.map_err(client::Error::from)?;
    Ok(0)
}

/// Units whose links change.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit enable --now nginx\n  aurae unit mask ssh.service")]
pub(super) struct FilesArgs {
    /// Until the next reboot
    #[arg(long)]
    runtime: bool,
    /// Start (enable), or stop (disable, mask) them, too
    #[arg(long)]
    now: bool,
    /// Units
    #[arg(required = true, value_name = "UNIT")]
    names: Vec<String>,
}

/// Makes and removes links.
pub(super) async fn files(session: &Session, args: &FilesArgs, verb: Files) -> Result<u8, Failure> {
    let request = UnitFilesRequest {
        names: args.names.clone(),
        runtime: args.runtime,
    };
    let request = session.node.unary(request);
    let mut client = units(&session.node);
    let answer = match verb {
        Files::Enable => client.enable_units(request).await,
        Files::Disable => client.disable_units(request).await,
        Files::Mask => client.mask_units(request).await,
        Files::Unmask => client.unmask_units(request).await,
    };
    let changes = answer.map_err(client::Error::from)?.into_inner().changes;
    for change in &changes {
        match change.target.as_str() {
            "" => print_line(&format!("removed {}", change.path))?,
            target => print_line(&format!("{} -> {target}", change.path))?,
        }
    }
    if changes.is_empty() {
        note("there was nothing to change");
    }
    let job = match verb {
        Files::Enable => Job::Start,
        Files::Disable | Files::Mask => Job::Stop,
        Files::Unmask => return Ok(0),
    };
    match args.now {
        true => run_jobs(session, &args.names, job, Mode::Replace, false).await,
        false => Ok(0),
    }
}

/// Nothing.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit daemon-reload")]
pub(super) struct NoArgs {}

/// Reads all unit files again.
pub(super) async fn daemon_reload(session: &Session, _: &NoArgs) -> Result<u8, Failure> {
    let request = session.node.unary(ReloadUnitFilesRequest {});
    let read = units(&session.node).reload_unit_files(request).await;
    read.map_err(client::Error::from)?;
    Ok(0)
}
