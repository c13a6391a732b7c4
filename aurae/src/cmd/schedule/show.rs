// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule ls`, `describe`, `why` and `history`.

use std::time::{Duration, SystemTime};

use api::schedule::v0::history_entry::Outcome;
use api::schedule::v0::reason::Cause;
use api::schedule::v0::units_client::UnitsClient;
use api::schedule::v0::when::When as Said;
use api::schedule::v0::{
    GetRequest, GetUnitRequest, HistoryEntry, HistoryRequest, ListRequest, ListResponse, Reason,
    ScheduleStatus, Trigger, WhyRequest,
};

use super::schedules;
use crate::failure::Failure;
use crate::output::{Format, OutputArgs, Table, note, print, print_line, print_message};
use crate::quantity::{format_duration, format_instant, since};
use crate::session::Session;

/// `aurae schedule ls`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae schedule ls\n  aurae schedule ls -A -o json")]
pub(super) struct LsArgs {
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    all_tenants: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// One schedule.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  aurae schedule describe web\n  aurae schedule why -o json web"
)]
pub(super) struct NameArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    name: String,
}

/// Lists schedules.
pub(super) async fn ls(session: &Session, args: &LsArgs) -> Result<u8, Failure> {
    let mut request = ListRequest {
        tenant: match args.all_tenants {
            true => "*".to_owned(),
            false => session.tenant(),
        },
        ..Default::default()
    };
    let mut answer = ListResponse::default();
    loop {
        let list =
            async |node: &client::Node| schedules(node).list(node.unary(request.clone())).await;
        let page = session.ask(list).await?;
        answer.schedules.extend(page.schedules);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let format = args.output.output;
    match format {
        Format::Json | Format::Yaml => print_message(format, &answer)?,
        Format::Name => answer
            .schedules
            .iter()
            .try_for_each(|it| print_line(&it.name))?,
        Format::Table | Format::Wide if answer.schedules.is_empty() => {
            note("there are no schedules");
        }
        Format::Table | Format::Wide => {
            let table = table(&answer.schedules, args.all_tenants);
            print(&table.render(session.style))?;
        }
    }
    Ok(0)
}

fn table(schedules: &[ScheduleStatus], tenants: bool) -> Table {
    let mut headings = vec![
        "NAME", "KIND", "READY", "WHEN", "STATE", "RUN", "LAST END", "OWNER", "WHY",
    ];
    if tenants {
        headings.insert(0, "TENANT");
    }
    let mut table = Table::new(&headings)
        .right(&["RUN"])
        .first_to_go(&["OWNER", "LAST END", "KIND"]);
    for it in schedules {
        let why = it.why.clone().unwrap_or_default();
        let last = it.last.as_ref().map(|last| {
            let ago = last.ended.as_ref().map(|time| format_duration(since(time)));
            format!("{} {} ago", outcome(last), ago.unwrap_or_default())
        });
        let mut row = vec![
            it.name.as_str().into(),
            kind(it).into(),
            format!("{}/{}", it.ready, it.wanted).into(),
            when(it).into(),
            state(why.cause()).into(),
            it.number.to_string().into(),
            last.unwrap_or_else(|| "-".to_owned()).into(),
            it.owner.as_str().into(),
            words(&why).into(),
        ];
        if tenants {
            row.insert(0, it.tenant.as_str().into());
        }
        table.push(row);
    }
    table
}

/// What it was made from.
fn kind(status: &ScheduleStatus) -> &str {
    let kind = status.spec.as_ref().map(|spec| spec.kind.as_str());
    kind.filter(|kind| !kind.is_empty()).unwrap_or("-")
}

/// When it runs, in a few words.
fn when(status: &ScheduleStatus) -> String {
    let spec = status.spec.as_ref();
    let when = spec.and_then(|spec| spec.when.as_ref()?.when.as_ref());
    match when {
        None | Some(Said::Now(_)) => "now".to_owned(),
        Some(Said::Cron(cron)) if cron.zone.is_empty() => cron.pattern.clone(),
        Some(Said::Cron(cron)) => format!("{} {}", cron.pattern, cron.zone),
        Some(Said::At(time)) => format!("at {}", format_instant(Some(time))),
        Some(Said::After(after)) => format!("after {}", after.schedule),
        Some(Said::Lax(_)) => "lax".to_owned(),
        Some(Said::Boot(_)) => "at boot".to_owned(),
    }
}

fn state(cause: Cause) -> &'static str {
    match cause {
        Cause::Unspecified => "-",
        Cause::Starting => "starting",
        Cause::Running => "running",
        Cause::Waiting | Cause::After | Cause::Dependency => "waiting",
        Cause::BackOff => "backing off",
        Cause::StartLimit => "limited",
        Cause::Paused => "paused",
        Cause::Permission | Cause::Quota | Cause::Image | Cause::Node => "refused",
        Cause::Pressure | Cause::Window | Cause::Overlap => "waiting",
        Cause::Succeeded => "succeeded",
        Cause::Failed => "failed",
        Cause::Rolling => "rolling",
        Cause::Hangs => "hangs",
        Cause::Leaving => "leaving",
        Cause::Elsewhere => "elsewhere",
        Cause::Broken => "broken",
        // Of units alone.
        Cause::Masked | Cause::NotFound | Cause::Condition | Cause::Unwanted => "inactive",
    }
}

fn outcome(entry: &HistoryEntry) -> &'static str {
    match entry.outcome() {
        Outcome::Unspecified => "-",
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Stopped => "stopped",
        Outcome::Skipped => "skipped",
        Outcome::Refused => "refused",
        Outcome::Lost => "lost",
    }
}

/// A reason, with when it is over.
fn words(why: &Reason) -> String {
    let Some(until) = &why.until else {
        return why.message.clone();
    };
    let left = SystemTime::try_from(*until).ok();
    let left = left.and_then(|time| time.duration_since(SystemTime::now()).ok());
    let left = left.map_or_else(|| "now".to_owned(), |it| format!("in {}", rounded(it)));
    format!("{} ({left})", why.message)
}

/// A second that has begun counts.
fn rounded(span: Duration) -> String {
    let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
    format_duration(Duration::from_secs(seconds))
}

async fn get(session: &Session, name: &str) -> Result<ScheduleStatus, Failure> {
    let request = GetRequest {
        tenant: session.tenant(),
        name: name.to_owned(),
    };
    let get = async |node: &client::Node| schedules(node).get(node.unary(request.clone())).await;
    session.ask(get).await
}

/// Shows one.
pub(super) async fn describe(session: &Session, args: &NameArgs) -> Result<u8, Failure> {
    let it = get(session, &args.name).await?;
    let format = args.output.output;
    if format.is_machine() {
        print_message(format, &it)?;
        return Ok(0);
    }
    print(&facts(&it).render(session.style))?;
    let mut runs =
        Table::new(&["RUN", "PATH", "READY", "REVISION", "BECAUSE", "BEGAN"]).right(&["RUN"]);
    for run in &it.runs {
        runs.push(vec![
            run.number.to_string().into(),
            run.path.as_str().into(),
            if run.ready { "yes" } else { "no" }.into(),
            run.revision.to_string().into(),
            because(run.trigger()).into(),
            format_instant(run.began.as_ref()).into(),
        ]);
    }
    if !runs.is_empty() {
        print("\n")?;
        print(&runs.render(session.style))?;
    }
    Ok(0)
}

fn because(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Unspecified => "-",
        Trigger::Declared => "it was declared",
        Trigger::Time => "its time came",
        Trigger::Missed => "its time was missed",
        Trigger::After => "another one ended",
        Trigger::Restart => "the last run ended",
        Trigger::Hand => "a user asked",
    }
}

fn facts(it: &ScheduleStatus) -> Table {
    let mut table = Table::new(&["FIELD", "VALUE"]);
    let mut say = |name: &str, text: String| {
        if !text.is_empty() {
            table.push(vec![name.into(), text.into()]);
        }
    };
    let why = it.why.clone().unwrap_or_default();
    say("schedule", it.name.clone());
    say("tenant", it.tenant.clone());
    say("uid", it.uid.clone());
    say("owner", it.owner.clone());
    say("when", when(it));
    say("state", state(why.cause()).to_owned());
    say("why", words(&why));
    if let Some(last) = &it.last {
        say("last", format!("{}: {}", outcome(last), last.message));
    }
    say("ready", format!("{} of {}", it.ready, it.wanted));
    let revisions: Vec<_> = it
        .revisions
        .iter()
        .map(|it| it.number.to_string())
        .collect();
    if revisions.len() > 1 {
        let all = revisions.join(", ");
        say("revision", format!("{} of {all}", it.revision));
    }
    say("generation", it.generation.to_string());
    say("created", format_instant(it.created.as_ref()));
    say("changed", format_instant(it.changed.as_ref()));
    if it.unwritten {
        say(
            "unwritten",
            "the disk takes nothing: it goes on from memory".to_owned(),
        );
    }
    table
}

async fn why_of_schedule(session: &Session, name: &str) -> Result<Reason, Failure> {
    let request = WhyRequest {
        tenant: session.tenant(),
        name: name.to_owned(),
    };
    let why = async |node: &client::Node| schedules(node).why(node.unary(request.clone())).await;
    session.ask(why).await
}

async fn why_of_unit(session: &Session, name: &str) -> Result<Reason, Failure> {
    let request = GetUnitRequest {
        name: name.to_owned(),
    };
    let get = async |node: &client::Node| {
        let mut units = UnitsClient::new(node.channel());
        units.get_unit(node.unary(request.clone())).await
    };
    Ok(session.ask(get).await?.why.unwrap_or_default())
}

/// Says why it doesn't run.
pub(super) async fn why(session: &Session, args: &NameArgs) -> Result<u8, Failure> {
    // No schedule's name has a dot; every unit's has one.
    let why = match args.name.contains('.') {
        true => why_of_unit(session, &args.name).await?,
        false => why_of_schedule(session, &args.name).await?,
    };
    match args.output.output.is_machine() {
        true => print_message(args.output.output, &why)?,
        false => print_line(&words(&why))?,
    }
    Ok(0)
}

/// Shows how its last runs ended.
pub(super) async fn history(session: &Session, args: &NameArgs) -> Result<u8, Failure> {
    let request = HistoryRequest {
        tenant: session.tenant(),
        name: args.name.clone(),
    };
    let history =
        async |node: &client::Node| schedules(node).history(node.unary(request.clone())).await;
    let answer = session.ask(history).await?;
    let format = args.output.output;
    if format.is_machine() {
        print_message(format, &answer)?;
        return Ok(0);
    }
    if answer.entries.is_empty() {
        note("no run has ended yet");
        return Ok(0);
    }
    let headings = ["RUN", "BECAUSE", "BEGAN", "ENDED", "OUTCOME", "WORDS"];
    let mut table = Table::new(&headings)
        .right(&["RUN"])
        .first_to_go(&["BEGAN"]);
    for entry in &answer.entries {
        let number = match entry.number {
            0 => "-".to_owned(),
            number => number.to_string(),
        };
        table.push(vec![
            number.into(),
            because(entry.trigger()).into(),
            format_instant(entry.began.as_ref()).into(),
            format_instant(entry.ended.as_ref()).into(),
            outcome(entry).into(),
            entry.message.as_str().into(),
        ]);
    }
    print(&table.render(session.style))?;
    Ok(0)
}
