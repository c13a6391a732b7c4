// SPDX-License-Identifier: Apache-2.0
//! `aurae unit ls`, `status` and what else looks at units.

use api::schedule::v0::{
    GetUnitRequest, ListUnitsRequest, ListUnitsResponse, UnitDetail, UnitStatus,
};

use super::units;
use crate::cmd::logs::{self, LogsArgs};
use crate::failure::{FAILED, Failure};
use crate::output::{Format, OutputArgs, Table, note, print, print_line, print_message};
use crate::quantity::{format_duration, format_instant, since};
use crate::session::Session;

/// systemctl's exit status where a unit isn't active.
const NOT_ACTIVE: u8 = 3;
/// systemctl's exit status where there is no such unit.
const NO_UNIT: u8 = 4;

/// `aurae unit ls`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit ls --failed\n  aurae unit ls --all --type timer")]
pub(super) struct LsArgs {
    /// Also those that aren't active
    #[arg(short, long)]
    all: bool,
    /// Only failed ones
    #[arg(long)]
    failed: bool,
    /// Only of that type
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Also those that have a file and weren't loaded
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Units.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit status nginx\n  aurae unit is-active ssh")]
pub(super) struct NamesArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// Units
    #[arg(required = true, value_name = "UNIT")]
    names: Vec<String>,
}

/// A unit.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit show -o json nginx")]
pub(super) struct NameArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The unit
    #[arg(value_name = "UNIT")]
    name: String,
}

/// `aurae unit list-timers`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit list-timers")]
pub(super) struct TimersArgs {
    #[command(flatten)]
    output: OutputArgs,
}

async fn list(session: &Session, files: bool) -> Result<ListUnitsResponse, Failure> {
    let request = ListUnitsRequest { files };
    let list = async |node: &client::Node| units(node).list_units(node.unary(request)).await;
    session.ask(list).await
}

async fn get(session: &Session, name: &str) -> Result<UnitDetail, Failure> {
    let request = GetUnitRequest {
        name: name.to_owned(),
    };
    let get = async |node: &client::Node| units(node).get_unit(node.unary(request.clone())).await;
    session.ask(get).await
}

/// Lists units.
pub(super) async fn ls(session: &Session, args: &LsArgs) -> Result<u8, Failure> {
    let mut answer = list(session, args.files).await?;
    let ending = args.kind.as_ref().map(|kind| format!(".{kind}"));
    answer.units.retain(|it| {
        let of_kind = ending
            .as_ref()
            .is_none_or(|ending| it.name.ends_with(ending.as_str()));
        let failed = !args.failed || it.active == "failed";
        let shown = args.all || args.files || it.active != "inactive" || it.job_id != 0;
        of_kind && failed && shown
    });
    shown(session, args.output.output, &answer, |units| {
        let mut table = Table::new(&["UNIT", "LOAD", "ACTIVE", "SUB", "FILE", "DESCRIPTION"])
            .first_to_go(&["DESCRIPTION", "FILE"]);
        for it in units {
            table.push(vec![
                it.name.as_str().into(),
                it.load.as_str().into(),
                it.active.as_str().into(),
                it.sub.as_str().into(),
                it.file_state.as_str().into(),
                it.description.as_str().into(),
            ]);
        }
        table
    })
}

fn shown(
    session: &Session,
    format: Format,
    answer: &ListUnitsResponse,
    table: impl FnOnce(&[UnitStatus]) -> Table,
) -> Result<u8, Failure> {
    match format {
        Format::Json | Format::Yaml => print_message(format, answer)?,
        Format::Name => answer
            .units
            .iter()
            .try_for_each(|it| print_line(&it.name))?,
        Format::Table | Format::Wide if answer.units.is_empty() => note("there are no units"),
        Format::Table | Format::Wide => print(&table(&answer.units).render(session.style))?,
    }
    Ok(0)
}

/// Lists timers and when they elapse.
pub(super) async fn timers(session: &Session, args: &TimersArgs) -> Result<u8, Failure> {
    let mut answer = list(session, false).await?;
    let waits = |it: &UnitStatus| it.name.ends_with(".timer") && it.active == "active";
    answer.units.retain(waits);
    shown(session, args.output.output, &answer, |units| {
        let mut table = Table::new(&["NEXT", "LAST", "UNIT", "ACTIVATES"]);
        for it in units {
            table.push(vec![
                format_instant(it.next.as_ref()).into(),
                format_instant(it.last.as_ref()).into(),
                it.name.as_str().into(),
                it.triggers.as_str().into(),
            ]);
        }
        table
    })
}

/// Shows how units are.
pub(super) async fn status(session: &Session, args: &NamesArgs) -> Result<u8, Failure> {
    let mut worst = 0;
    for name in &args.names {
        let detail = match get(session, name).await {
            Ok(detail) => detail,
            Err(failure) => return Err(failure.with_status(NO_UNIT)),
        };
        let status = detail.status.unwrap_or_default();
        if !matches!(status.active.as_str(), "active" | "reloading") {
            worst = NOT_ACTIVE;
        }
        match args.output.output {
            format @ (Format::Json | Format::Yaml) => print_message(format, &status)?,
            Format::Name => print_line(&status.name)?,
            Format::Table | Format::Wide => print(&words(&status))?,
        }
    }
    Ok(worst)
}

/// As systemctl shows a unit.
fn words(status: &UnitStatus) -> String {
    let mut lines = vec![match status.description.as_str() {
        "" => status.name.clone(),
        words => format!("{} - {words}", status.name),
    }];
    let mut line = |name: &str, words: String| lines.push(format!("{name:>11}: {words}"));
    let file = [status.fragment.as_str(), status.file_state.as_str()];
    let file = file.iter().filter(|it| !it.is_empty());
    let file: Vec<&str> = file.copied().collect();
    line("Loaded", format!("{} ({})", status.load, file.join("; ")));
    for dropin in &status.dropins {
        line("Drop-In", dropin.clone());
    }
    let at = match status.active.as_str() {
        "active" | "reloading" => status.active_since.as_ref(),
        _ => status.inactive_since.as_ref(),
    };
    let ago = at.map(|at| {
        format!(
            " since {}; {} ago",
            format_instant(Some(at)),
            format_duration(since(at))
        )
    });
    let result = match status.result.as_str() {
        "success" | "" => String::new(),
        result => format!(" (Result: {result})"),
    };
    let active = format!("{} ({})", status.active, status.sub);
    line(
        "Active",
        format!("{active}{result}{}", ago.unwrap_or_default()),
    );
    if let Some(pid) = status.main_pid {
        line("Main PID", pid.to_string());
    }
    if !status.exit_code.is_empty() {
        line(
            "Ended",
            format!("{}, status={}", status.exit_code, status.exit_status),
        );
    }
    for (name, words) in [
        ("Condition", &status.condition),
        ("Message", &status.message),
        ("Triggers", &status.triggers),
        ("Log", &status.path),
    ] {
        if !words.is_empty() {
            line(name, words.clone());
        }
    }
    if let Some(next) = &status.next {
        line("Next", format_instant(Some(next)));
    }
    lines.extend(status.findings.iter().map(|it| format!("  {it}")));
    lines.join("\n") + "\n"
}

/// Shows the files of units.
pub(super) async fn cat(session: &Session, args: &NamesArgs) -> Result<u8, Failure> {
    for name in &args.names {
        for file in get(session, name).await?.files {
            print_line(&format!("# {}", file.path))?;
            print(&file.text)?;
            print_line("")?;
        }
    }
    Ok(0)
}

/// Shows everything that is known of a unit.
pub(super) async fn show(session: &Session, args: &NameArgs) -> Result<u8, Failure> {
    let detail = get(session, &args.name).await?;
    let format = args.output.output;
    if format.is_machine() {
        print_message(format, &detail)?;
        return Ok(0);
    }
    let status = detail.status.unwrap_or_default();
    let pid = status.main_pid.unwrap_or(0).to_string();
    let known = [
        ("Id", status.name),
        ("Names", status.aliases.join(" ")),
        ("LoadState", status.load),
        ("ActiveState", status.active),
        ("SubState", status.sub),
        ("Result", status.result),
        ("UnitFileState", status.file_state),
        ("FragmentPath", status.fragment),
        ("DropInPaths", status.dropins.join(" ")),
        ("MainPID", pid),
        ("NRestarts", status.restarts.to_string()),
    ];
    for (name, value) in known {
        print_line(&format!("{name}={value}"))?;
    }
    for dependency in detail.dependencies {
        print_line(&format!(
            "{}={}",
            dependency.kind,
            dependency.units.join(" ")
        ))?;
    }
    Ok(0)
}

/// Shows what a unit depends on.
pub(super) async fn dependencies(session: &Session, args: &NameArgs) -> Result<u8, Failure> {
    let detail = get(session, &args.name).await?;
    let format = args.output.output;
    if format.is_machine() {
        print_message(format, &detail)?;
        return Ok(0);
    }
    print_line(&detail.status.unwrap_or_default().name)?;
    let pulls = ["Requires", "Requisite", "Wants", "BindsTo"];
    let mut all: Vec<String> = detail
        .dependencies
        .into_iter()
        .filter(|it| pulls.contains(&it.kind.as_str()))
        .flat_map(|it| it.units)
        .collect();
    all.sort();
    all.dedup();
    all.iter()
        .try_for_each(|it| print_line(&format!("  {it}")))?;
    Ok(0)
}

/// `aurae unit logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae unit logs -f nginx")]
pub(super) struct UnitLogsArgs {
    #[command(flatten)]
    logs: LogsArgs,
}

/// Shows what units have printed.
pub(super) async fn logs(session: &Session, args: &UnitLogsArgs) -> Result<u8, Failure> {
    let mut of_runs = args.logs.clone();
    of_runs.names.clear();
    for name in &args.logs.names {
        let status = get(session, name).await?.status.unwrap_or_default();
        if status.path.is_empty() {
            let failure = Failure::new(format!("{} has not run yet", status.name));
            let hint = format!("`aurae unit status {name}` says how it is");
            return Err(failure.with_hint(hint));
        }
        of_runs.names.push(status.path);
    }
    logs::run(session, &of_runs).await
}

/// Says whether units are active.
pub(super) async fn is_active(session: &Session, args: &NamesArgs) -> Result<u8, Failure> {
    let mut worst = 0;
    for name in &args.names {
        let active = match get(session, name).await {
            Ok(detail) => detail.status.unwrap_or_default().active,
            Err(failure) if args.names.len() == 1 => return Err(failure.with_status(NO_UNIT)),
            Err(_) => "inactive".to_owned(),
        };
        if !matches!(active.as_str(), "active" | "reloading") {
            worst = NOT_ACTIVE;
        }
        print_line(&active)?;
    }
    Ok(worst)
}

/// Says whether units are enabled.
pub(super) async fn is_enabled(session: &Session, args: &NamesArgs) -> Result<u8, Failure> {
    let mut worst = 0;
    for name in &args.names {
        let state = get(session, name)
            .await?
            .status
            .unwrap_or_default()
            .file_state;
        let enabled = [
            "enabled",
            "enabled-runtime",
            "static",
            "alias",
            "indirect",
            "generated",
            "transient",
        ];
        if !enabled.contains(&state.as_str()) {
            worst = FAILED;
        }
        print_line(&state)?;
    }
    Ok(worst)
}
