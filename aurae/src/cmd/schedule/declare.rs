// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule now`, `cron`, `at`, `after`, `lax` and `pin`.

use std::time::{Duration, SystemTime};

use api::schedule::v0::when::When as Said;
use api::schedule::v0::{
    After, Backoff, Cron, DeclareRequest, Lax, Missed, Need, Now, Overlap, RestartPolicy,
    ScheduleSpec, StartLimit, When, Window, need,
};
use client::Config;
use prost_types::Timestamp;

use super::health::HealthFlags;
use super::schedules;
use super::work::WorkFlags;
use crate::cmd::names::invent_name;
use crate::failure::Failure;
use crate::output::{OutputArgs, print_line, print_message};
use crate::quantity::{parse_duration, parse_instant};
use crate::session::Session;
use crate::spec::wire_duration;

/// What every schedule may have.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WishFlags {
    /// The schedule's name; that of the file's pod, or a made-up one, unless given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// What becomes of a run that ends
    #[arg(long, value_enum, value_name = "POLICY", default_value = "no")]
    restart: Restart,
    /// How long the first other start waits; it doubles. Default 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    backoff: Option<Duration>,
    /// The longest wait before another start. Default 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    backoff_most: Option<Duration>,
    /// A run of that length begins anew. Default 10m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    stable: Option<Duration>,
    /// No more starts than that within a time, as 5/10m
    #[arg(long, value_name = "STARTS/DURATION", value_parser = parse_limit)]
    start_limit: Option<(u32, Duration)>,
    /// What becomes of a time that comes while a run goes on
    #[arg(long, value_enum, value_name = "POLICY", default_value = "forbid")]
    overlap: Overlapping,
    /// What becomes of times that passed while the node was down
    #[arg(long, value_enum, value_name = "POLICY")]
    missed: Option<Missing>,
    /// How many ends are kept, with their logs. Default 10
    #[arg(long, value_name = "NUMBER")]
    history: Option<u32>,
    /// Another schedule, or a unit (`srv.mount`), that must run first, or with `:succeeded`, must
    /// have succeeded
    #[arg(long = "needs", value_name = "SCHEDULE|UNIT")]
    needs: Vec<String>,
    #[command(flatten)]
    health: HealthFlags,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Restart {
    /// A run that has ended stays so
    No,
    /// One that failed is run again
    OnFailure,
    /// It is run again
    Always,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Overlapping {
    /// It is skipped
    Forbid,
    /// Both run
    Allow,
    /// The run that goes on is stopped first
    Replace,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Missing {
    /// They are left out
    Skip,
    /// One run makes up for all of them
    RunOnce,
}

fn parse_limit(text: &str) -> Result<(u32, Duration), String> {
    let wrong = || "write STARTS/DURATION, as 5/10m".to_owned();
    let (starts, within) = text.split_once('/').ok_or_else(wrong)?;
    Ok((
        starts.parse().map_err(|_| wrong())?,
        parse_duration(within)?,
    ))
}

/// `aurae schedule now`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule now --name web --restart always nginx:1.27
  aurae schedule now --name job --restart on-failure -- /usr/local/bin/job --all
  aurae schedule now -f pod.yaml")]
pub(super) struct NowArgs {
    #[command(flatten)]
    wish: WishFlags,
    #[command(flatten)]
    work: WorkFlags,
}

/// `aurae schedule cron`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule cron '30 4 * * mon-fri' --name backup -- /usr/local/bin/backup
  aurae schedule cron '*/10 * * * * *' --name often -- /bin/date
  aurae schedule cron '0 9 * * *' --zone Europe/Berlin --missed run-once --name mail -- /bin/mail")]
pub(super) struct CronArgs {
    /// Minute, hour, day of month, month, day of week; with a sixth field, seconds come first
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// The time zone. Default: UTC
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    #[command(flatten)]
    wish: WishFlags,
    #[command(flatten)]
    work: WorkFlags,
}

/// `aurae schedule at`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule at +10m --name soon -- /bin/echo later
  aurae schedule at 2027-01-01T00:00:00Z --name year -- /bin/echo new")]
pub(super) struct AtArgs {
    /// +10m (from now), 2027-01-31T12:00:00Z, 2027-01-31 or @SECONDS
    #[arg(value_name = "TIME", value_parser = parse_future)]
    time: Timestamp,
    #[command(flatten)]
    wish: WishFlags,
    #[command(flatten)]
    work: WorkFlags,
}

fn parse_future(text: &str) -> Result<Timestamp, String> {
    match text.strip_prefix('+') {
        Some(span) => {
            let time = SystemTime::now().checked_add(parse_duration(span)?);
            let time = time.ok_or("is too far away")?;
            Ok(Timestamp::from(time))
        }
        None => parse_instant(text),
    }
}

/// `aurae schedule after`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule after backup --success --name upload -- /usr/local/bin/upload")]
pub(super) struct AfterArgs {
    /// The other schedule
    #[arg(value_name = "SCHEDULE")]
    schedule: String,
    /// Only where its run succeeded
    #[arg(long)]
    success: bool,
    #[command(flatten)]
    wish: WishFlags,
    #[command(flatten)]
    work: WorkFlags,
}

/// `aurae schedule lax`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule lax --name index -- /usr/local/bin/index
  aurae schedule lax --window 22:00-06:00 --zone Europe/Berlin --name index -- /bin/index")]
pub(super) struct LaxArgs {
    /// Only in this part of each day, as 22:00-06:00
    #[arg(long, value_name = "FROM-TO")]
    window: Option<String>,
    /// The time zone of the window. Default: UTC
    #[arg(long, value_name = "ZONE", requires = "window")]
    zone: Option<String>,
    /// The most pressure of CPU, in per cent of the last 10 s. Default 20
    #[arg(long, value_name = "PERCENT")]
    max_cpu: Option<u32>,
    /// The most pressure of memory. Default 5
    #[arg(long, value_name = "PERCENT")]
    max_memory: Option<u32>,
    /// The most pressure of I/O. Default 10
    #[arg(long, value_name = "PERCENT")]
    max_io: Option<u32>,
    /// How long it must have been so. Default 30s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    quiet_for: Option<Duration>,
    #[command(flatten)]
    wish: WishFlags,
    #[command(flatten)]
    work: WorkFlags,
}

/// `aurae schedule pin`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule pin node-2 --name web --restart always nginx:1.27
  aurae --node lab schedule pin node-2 --name web nginx:1.27

The work is handed to that node: by the context of that name, or the one whose node is called so.
With --node, or where there is no such context, the node that is asked refuses what is another's.")]
pub(super) struct PinArgs {
    /// The node's name, as `aurae node` shows it, or that of its context
    #[arg(value_name = "NODE")]
    node_name: String,
    #[command(flatten)]
    wish: WishFlags,
    #[command(flatten)]
    work: WorkFlags,
}

/// The context that leads to the node that work is pinned to.
pub(super) fn context_of(args: &PinArgs) -> Result<Option<String>, Failure> {
    let config = Config::load(&Config::default_path())?;
    let context = config.context_of_node(&args.node_name);
    Ok(context.map(str::to_owned))
}

pub(super) async fn now(session: &Session, args: &NowArgs) -> Result<u8, Failure> {
    declare(session, &args.wish, &args.work, Said::Now(Now {}), "").await
}

pub(super) async fn pin(session: &Session, args: &PinArgs) -> Result<u8, Failure> {
    let now = Said::Now(Now {});
    // The configuration may call a node otherwise than it calls itself.
    let context = context_of(args)?;
    let node = match context.is_some() && context == session.target.context {
        true => own_name(session).await?,
        false => args.node_name.clone(),
    };
    declare(session, &args.wish, &args.work, now, &node).await
}

/// What the node calls itself.
async fn own_name(session: &Session) -> Result<String, Failure> {
    let ask = async |node: &client::Node| {
        let request = node.unary(api::node::v0::GetRequest {});
        node.node().get(request).await
    };
    Ok(session.ask(ask).await?.name)
}

pub(super) async fn cron(session: &Session, args: &CronArgs) -> Result<u8, Failure> {
    let cron = Cron {
        pattern: args.pattern.clone(),
        zone: args.zone.clone().unwrap_or_default(),
    };
    declare(session, &args.wish, &args.work, Said::Cron(cron), "").await
}

pub(super) async fn at(session: &Session, args: &AtArgs) -> Result<u8, Failure> {
    declare(session, &args.wish, &args.work, Said::At(args.time), "").await
}

pub(super) async fn after(session: &Session, args: &AfterArgs) -> Result<u8, Failure> {
    let after = After {
        schedule: args.schedule.clone(),
        success: args.success,
    };
    declare(session, &args.wish, &args.work, Said::After(after), "").await
}

pub(super) async fn lax(session: &Session, args: &LaxArgs) -> Result<u8, Failure> {
    let window = args.window.as_ref().map(|window| {
        let (from, to) = window.split_once('-').ok_or_else(|| {
            Failure::usage(format!("--window {window}: write FROM-TO, as 22:00-06:00"))
        })?;
        Ok::<_, Failure>(Window {
            from: from.to_owned(),
            to: to.to_owned(),
            zone: args.zone.clone().unwrap_or_default(),
        })
    });
    let lax = Lax {
        window: window.transpose()?,
        cpu: args.max_cpu,
        memory: args.max_memory,
        io: args.max_io,
        quiet_for: args.quiet_for.map(wire_duration),
    };
    declare(session, &args.wish, &args.work, Said::Lax(lax), "").await
}

async fn declare(
    session: &Session,
    wish: &WishFlags,
    work: &WorkFlags,
    when: Said,
    node: &str,
) -> Result<u8, Failure> {
    let name = match &wish.name {
        Some(name) => name.clone(),
        None => work.own_name()?.unwrap_or_else(|| invent_name("schedule")),
    };
    let request = DeclareRequest {
        tenant: session.tenant(),
        spec: Some(ScheduleSpec {
            work: Some(work.build(&name)?),
            when: Some(When { when: Some(when) }),
            node: node.to_owned(),
            health: wish.health.build().map_err(Failure::usage)?,
            ..wish.build()
        }),
        name,
    };
    // The same once more changes nothing.
    let declare = async |node: &client::Node| {
        let request = node.unary(request.clone());
        schedules(node).declare(request).await
    };
    let status = session.ask(declare).await?;
    match wish.output.output.is_machine() {
        true => print_message(wish.output.output, &status)?,
        false => print_line(&status.name)?,
    }
    Ok(0)
}

impl WishFlags {
    fn build(&self) -> ScheduleSpec {
        let backoff = Backoff {
            first: self.backoff.map(wire_duration),
            most: self.backoff_most.map(wire_duration),
            stable: self.stable.map(wire_duration),
        };
        ScheduleSpec {
            restart: match self.restart {
                Restart::No => RestartPolicy::No,
                Restart::OnFailure => RestartPolicy::OnFailure,
                Restart::Always => RestartPolicy::Always,
            }
            .into(),
            backoff: (backoff != Backoff::default()).then_some(backoff),
            start_limit: self.start_limit.map(|(starts, within)| StartLimit {
                starts,
                within: Some(wire_duration(within)),
            }),
            overlap: match self.overlap {
                Overlapping::Forbid => Overlap::Forbid,
                Overlapping::Allow => Overlap::Allow,
                Overlapping::Replace => Overlap::Replace,
            }
            .into(),
            missed: match self.missed {
                None => Missed::Unspecified,
                Some(Missing::Skip) => Missed::Skip,
                Some(Missing::RunOnce) => Missed::RunOnce,
            }
            .into(),
            history: self.history,
            needs: self.needs.iter().map(|text| needed(text)).collect(),
            ..Default::default()
        }
    }
}

fn needed(text: &str) -> Need {
    let (name, state) = match text.strip_suffix(":succeeded") {
        Some(name) => (name, need::State::Succeeded),
        None => (text, need::State::Running),
    };
    // No schedule's name has a dot; every unit's has one.
    let of = match name.contains('.') {
        true => need::Of::Unit(name.to_owned()),
        false => need::Of::Schedule(name.to_owned()),
    };
    Need {
        of: Some(of),
        state: state.into(),
    }
}
