// SPDX-License-Identifier: Apache-2.0
//! `aurae ps`: cells and executables as a tree, once or as they change.

use std::time::Duration;

use api::node::v0::{ListUnownedRequest, ListUnownedResponse};
use api::runtime::v0::{
    CellStatus, ExecutableSpec, ExecutableStatus, ListRequest, ListResponse, Object, WatchEvent,
    WatchRequest, object, watch_event,
};
use client::Node;
use tonic::{Request, Status, Streaming};

use crate::failure::Failure;
use crate::output::{
    Cell, Format, OutputArgs, Table, command_line, meta, note, path, print, print_line,
    print_message, reference, state_cell, to_value, tree,
};
use crate::quantity::{format_duration, format_instant, since};
use crate::session::Session;
use crate::spec::wire_duration;

const EXAMPLES: &str = "\
Examples:
  aurae ps                        what runs, and what failed in the last minutes
  aurae ps -a                     what has ended, too
  aurae ps -a web                 only the cell web and what is in it
  aurae ps -A -o wide             of every tenant
  aurae ps -l app=web,tier!=db    by label
  aurae ps -o json | jq -r '.objects[].executable.pid'
  aurae ps --watch                and every change
  aurae ps --unowned              processes that belong to no object (administrators)";

/// The widest command in the plain table.
const COMMAND_WIDTH: usize = 40;
/// What failed so long ago is shown beside what runs.
const FAILED_WITHIN: Duration = Duration::from_secs(5 * 60);
/// The label of what runs for a schedule.
const OWNER: &str = "schedule.aurae/owner";
const NO_OWNER: &str = "-";
/// The most objects of one page.
const PAGE: u32 = 1000;

/// `aurae ps`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PsArgs {
    /// Also show objects that have ended
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    pub(crate) all_tenants: bool,
    /// Only objects with such labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Go on with every change
    #[arg(long)]
    pub(crate) watch: bool,
    /// Processes of the machine that are no unit's, no cell's and no login's (administrators)
    #[arg(long, conflicts_with_all = ["all", "all_tenants", "selector", "watch", "cell"])]
    pub(crate) unowned: bool,
    /// Names alone: the same as -o name
    #[arg(short, long, conflicts_with = "output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Only this cell and what is in it
    #[arg(value_name = "CELL")]
    pub(crate) cell: Option<String>,
}

/// Prints the tree, and with `--watch` every change.
pub(crate) async fn run(session: &Session, args: &PsArgs) -> Result<u8, Failure> {
    if args.watch {
        return watch(session, args).await;
    }
    if args.unowned {
        return unowned(session, args).await;
    }
    let list = list(session, request(session, args)).await?;
    let list = with_cell_itself(session, args, list).await?;
    let format = format(args);
    match format {
        Format::Json | Format::Yaml => print_message(format, &list)?,
        Format::Name => list
            .objects
            .iter()
            .try_for_each(|object| print_line(&path(object)))?,
        Format::Table | Format::Wide => print_table(session, args, &list.objects)?,
    }
    Ok(0)
}

fn format(args: &PsArgs) -> Format {
    match args.quiet {
        true => Format::Name,
        false => args.output.output,
    }
}

/// What belongs to no object.
async fn unowned(session: &Session, args: &PsArgs) -> Result<u8, Failure> {
    let list = async |node: &Node| {
        let request = node.unary(ListUnownedRequest {});
        node.node().list_unowned(request).await
    };
    let answer = session.ask(list).await?;
    let format = format(args);
    match format {
        Format::Json | Format::Yaml => print_message(format, &answer)?,
        Format::Name => answer
            .processes
            .iter()
            .try_for_each(|it| print_line(&it.pid.to_string()))?,
        Format::Table | Format::Wide => print_unowned(session, format, &answer)?,
    }
    Ok(0)
}

fn print_unowned(
    session: &Session,
    format: Format,
    answer: &ListUnownedResponse,
) -> Result<(), Failure> {
    if answer.processes.is_empty() {
        note("every process belongs to an object");
        return Ok(());
    }
    let mut table = Table::new(&["PID", "CGROUP", "COMMAND"]).right(&["PID"]);
    for it in &answer.processes {
        let command = match format {
            Format::Wide => it.command.clone(),
            _ => shorten(&it.command),
        };
        table.push(vec![
            it.pid.to_string().into(),
            it.cgroup.as_str().into(),
            command.into(),
        ]);
    }
    print(&table.render(session.style))?;
    if answer.truncated {
        note("there are more");
    }
    Ok(())
}

fn tenant(session: &Session, args: &PsArgs) -> String {
    match args.all_tenants {
        true => "*".to_owned(),
        false => session.tenant(),
    }
}

fn request(session: &Session, args: &PsArgs) -> ListRequest {
    ListRequest {
        tenant: tenant(session, args),
        selector: args.selector.clone().unwrap_or_default(),
        below: args.cell.clone().unwrap_or_default(),
        running_only: !args.all,
        // For people: a program reads what runs, or everything.
        failed_within: is_for_people(args).then(|| wire_duration(FAILED_WITHIN)),
        page_size: PAGE,
        ..Default::default()
    }
}

fn is_for_people(args: &PsArgs) -> bool {
    !args.quiet && matches!(args.output.output, Format::Table | Format::Wide)
}

/// All pages as one.
pub(crate) async fn list(
    session: &Session,
    mut request: ListRequest,
) -> Result<ListResponse, Failure> {
    let mut all = ListResponse::default();
    loop {
        let page = async |node: &Node| {
            let request = node.unary(request.clone());
            node.runtime().list(request).await
        };
        let page = session.ask(page).await?;
        all.objects.extend(page.objects);
        all.resume_token = page.resume_token;
        if page.next_page_token.is_empty() {
            return Ok(all);
        }
        request.page_token = page.next_page_token;
    }
}

/// `below` leaves the cell itself out; people want to see it.
async fn with_cell_itself(
    session: &Session,
    args: &PsArgs,
    mut list: ListResponse,
) -> Result<ListResponse, Failure> {
    let Some(name) = &args.cell else {
        return Ok(list);
    };
    if args.selector.is_none() && !list.objects.iter().any(|object| path(object) == *name) {
        match session.get(session.reference(name)).await {
            Ok(cell) => list.objects.insert(0, cell),
            // A cell that has gone may have left executables.
            Err(problem) if list.objects.is_empty() => return Err(problem.into()),
            Err(_) => {}
        }
    }
    Ok(list)
}

fn print_table(session: &Session, args: &PsArgs, objects: &[Object]) -> Result<(), Failure> {
    // Most nodes have no schedules, and their users no use for the column.
    let owners = objects.iter().any(|object| owner(object) != NO_OWNER);
    let mut table = Table::new(&headings(args, owners))
        .right(&["PID"])
        .first_to_go(&["OWNER", "KIND", "PID", "AGE"]);
    for branch in tree(objects) {
        table.push(row(args, owners, &branch.name, branch.object));
    }
    if table.is_empty() {
        note(match args.all {
            true => "nothing is there",
            false => "nothing runs; `aurae ps -a` shows what has ended",
        });
        return Ok(());
    }
    print(&table.render(session.style))
}

fn headings(args: &PsArgs, owners: bool) -> Vec<&'static str> {
    let mut headings = Vec::new();
    if args.all_tenants {
        headings.push("TENANT");
    }
    headings.extend(["NAME", "KIND", "STATE", "PID", "AGE"]);
    if owners {
        headings.push("OWNER");
    }
    if args.output.output == Format::Wide {
        headings.extend(["CREATED", "UID", "LABELS"]);
    }
    headings.push("COMMAND");
    headings
}

/// What is executed: of a container's main process the image says a part.
fn shown(status: &ExecutableStatus) -> Option<&ExecutableSpec> {
    let effective = status.effective.as_ref();
    let effective = effective.filter(|spec| !spec.argv.is_empty());
    effective.or(status.spec.as_ref())
}

/// What the root of a container is made of.
fn image(cell: &CellStatus) -> String {
    let container = cell.spec.as_ref().and_then(|spec| spec.container.as_ref());
    container.map_or_else(String::new, |container| container.image.clone())
}

fn row(args: &PsArgs, owners: bool, name: &str, object: &Object) -> Vec<Cell> {
    let reference = reference(object);
    let (kind, pid, command) = match &object.object {
        Some(object::Object::Executable(status)) => {
            ("executable", status.pid, command_line(shown(status)))
        }
        Some(object::Object::Cell(status)) => ("cell", status.pid, image(status)),
        None => ("?", 0, String::new()),
    };
    let created = meta(object).and_then(|meta| meta.created.as_ref());
    let pid = if pid == 0 {
        "-".to_owned()
    } else {
        pid.to_string()
    };
    let age = created.map_or_else(|| "-".to_owned(), |time| format_duration(since(time)));
    let mut row: Vec<Cell> = Vec::new();
    if args.all_tenants {
        row.push(reference.tenant.into());
    }
    row.extend([
        name.into(),
        kind.into(),
        state_cell(object),
        pid.into(),
        age.into(),
    ]);
    if owners {
        row.push(owner(object).into());
    }
    if args.output.output == Format::Wide {
        row.extend([
            format_instant(created).into(),
            reference.uid.into(),
            labels(object).into(),
        ]);
        row.push(command.into());
    } else {
        row.push(shorten(&command).into());
    }
    row
}

/// The schedule whose run it is.
fn owner(object: &Object) -> String {
    let labels = meta(object).map(|meta| &meta.labels);
    let name = labels.and_then(|labels| labels.get(OWNER));
    name.map_or_else(|| NO_OWNER.to_owned(), |name| format!("schedule/{name}"))
}

fn labels(object: &Object) -> String {
    let pairs: Vec<String> = meta(object)
        .iter()
        .flat_map(|meta| &meta.labels)
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    match pairs.is_empty() {
        true => "-".to_owned(),
        false => pairs.join(","),
    }
}

fn shorten(command: &str) -> String {
    if command.chars().count() <= COMMAND_WIDTH {
        return command.to_owned();
    }
    let start: String = command.chars().take(COMMAND_WIDTH - 1).collect();
    format!("{start}…")
}

/// A line for each change. For programs each event as one line of JSON. When the node's daemon was
/// away, it goes on with what has changed meanwhile, or with a new snapshot.
async fn watch(session: &Session, args: &PsArgs) -> Result<u8, Failure> {
    let mut request = WatchRequest {
        tenant: tenant(session, args),
        selector: args.selector.clone().unwrap_or_default(),
        below: args.cell.clone().unwrap_or_default(),
        ..Default::default()
    };
    let mut node = session.node.clone();
    let mut snapshot = Some(Vec::new());
    loop {
        let lost = match node.runtime().watch(Request::new(request.clone())).await {
            Ok(events) => {
                let mut events = events.into_inner();
                show_events(session, args, &mut events, &mut request, &mut snapshot).await?
            }
            Err(status) => Some(status),
        };
        match lost {
            Some(status) => node = session.reconnect(status.into()).await?,
            None => return Ok(0),
        }
    }
}

/// Shows events until there are no more, or the connection is lost.
async fn show_events(
    session: &Session,
    args: &PsArgs,
    events: &mut Streaming<WatchEvent>,
    request: &mut WatchRequest,
    snapshot: &mut Option<Vec<Object>>,
) -> Result<Option<Status>, Failure> {
    loop {
        let event = match events.message().await {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(None),
            Err(status) => return Ok(Some(status)),
        };
        request.resume_token.clone_from(&event.resume_token);
        if args.output.output.is_machine() {
            print_line(&to_value(&event)?.to_string())?;
        } else {
            show_event(session, args, event, snapshot)?;
        }
    }
}

/// The snapshot is printed as a tree, what comes afterwards as lines.
fn show_event(
    session: &Session,
    args: &PsArgs,
    event: WatchEvent,
    snapshot: &mut Option<Vec<Object>>,
) -> Result<(), Failure> {
    match (event.r#type(), event.object) {
        (watch_event::Type::Reset, _) => *snapshot = Some(Vec::new()),
        (watch_event::Type::SnapshotEnd, _) => {
            let objects = snapshot.take().unwrap_or_default();
            let shown: Vec<Object> = objects
                .into_iter()
                .filter(|o| args.all || !has_ended(o))
                .collect();
            print_table(session, args, &shown)?;
        }
        (kind, Some(object)) => match snapshot {
            Some(objects) => objects.push(object),
            None => print_change(session, args, kind, &object)?,
        },
        _ => {}
    }
    Ok(())
}

fn print_change(
    session: &Session,
    args: &PsArgs,
    kind: watch_event::Type,
    object: &Object,
) -> Result<(), Failure> {
    let owned = owner(object) != NO_OWNER;
    let mut line = row(args, owned, &path(object), object);
    if kind == watch_event::Type::Removed
        && let Some(state) = line.get_mut(if args.all_tenants { 3 } else { 2 })
    {
        *state = "removed".into();
    }
    let mut table = Table::new(&headings(args, owned))
        .right(&["PID"])
        .first_to_go(&["OWNER", "KIND", "PID", "AGE"]);
    table.push(line);
    let text = table.render(session.style);
    // Without the headings, which stand above already.
    print(text.split_inclusive('\n').nth(1).unwrap_or_default())
}

fn has_ended(object: &Object) -> bool {
    use api::runtime::v0::State;
    let state = match &object.object {
        Some(object::Object::Executable(status)) => status.state(),
        Some(object::Object::Cell(status)) => status.state(),
        None => State::Unspecified,
    };
    matches!(state, State::Exited | State::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_cut_by_characters() {
        assert_eq!(shorten("short"), "short");
        let cut = shorten(&"ä".repeat(100));
        assert_eq!(cut.chars().count(), COMMAND_WIDTH);
        assert!(cut.ends_with('…'));
    }
}
