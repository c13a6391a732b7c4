// SPDX-License-Identifier: Apache-2.0
//! `aurae set`: lists the sets of programs on a node, and removes a set with its objects. Removing
//! one is an apply of an empty declaration: the same plan, the same order, the same refusals.

use std::io::IsTerminal;
use std::sync::Arc;

use api::sets::v0::sets_client::SetsClient;
use api::sets::v0::{GetRequest, ListRequest, Member, Set};
use clap::Subcommand;
use client::Config;
use script::apply::Apply;
use script::nodes::Nodes;
use script::plan::Plan;
use script::reconcile::set::Claim;

use super::apply::{agreed, hear, steps_of};
use super::plan::{refused, sums, text};
use crate::failure::{FAILED, Failure};
use crate::global::Global;
use crate::output::{
    Cell, Format, OutputArgs, Style, Table, note, print, print_line, print_message,
};
use crate::quantity::{format_duration, since};
use crate::session::Session;

/// `aurae set`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  aurae set ls\n  aurae set show shop\n  aurae set rm shop"
)]
pub(crate) struct SetArgs {
    #[command(subcommand)]
    command: SetCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum SetCommand {
    /// List sets
    #[command(after_help = "Examples:\n  aurae set ls\n  aurae set ls -A -o json")]
    Ls(LsArgs),
    /// Show what a set holds
    #[command(after_help = "Examples:\n  aurae set show shop")]
    Show(ShowArgs),
    /// Stop, withdraw and remove everything that a set holds, on each of its nodes
    #[command(after_help = "Examples:\n  aurae set rm shop\n  aurae set rm --yes shop")]
    Rm(RmArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct LsArgs {
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    all_tenants: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The set's name, as `aurae set ls` shows it
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Clone, Debug, clap::Args)]
struct RmArgs {
    /// Remove without asking
    #[arg(short, long)]
    yes: bool,
    /// The set's name, as `aurae set ls` shows it
    #[arg(value_name = "NAME")]
    name: String,
}

/// Lists, shows or removes sets.
pub(crate) async fn run(global: &Global, args: &SetArgs) -> Result<u8, Failure> {
    match &args.command {
        SetCommand::Ls(args) => ls(&Session::open(global).await?, args).await.map(|()| 0),
        SetCommand::Show(args) => show(&Session::open(global).await?, args).await.map(|()| 0),
        SetCommand::Rm(args) => rm(global, args).await,
    }
}

async fn ls(session: &Session, args: &LsArgs) -> Result<(), Failure> {
    let tenant = match args.all_tenants {
        true => "*".to_owned(),
        false => session.tenant(),
    };
    let request = ListRequest { tenant };
    let list = async |node: &client::Node| {
        let request = node.unary(request.clone());
        SetsClient::new(node.channel()).list(request).await
    };
    let answer = session.ask(list).await?;
    match args.output.output {
        Format::Json | Format::Yaml => print_message(args.output.output, &answer),
        Format::Name => answer.sets.iter().try_for_each(|set| print_line(&set.name)),
        Format::Table | Format::Wide if answer.sets.is_empty() => {
            note("there are no sets");
            Ok(())
        }
        Format::Table | Format::Wide => print(&table(&answer.sets).render(session.style)),
    }
}

fn table(sets: &[Set]) -> Table {
    let headings = ["TENANT", "NAME", "OBJECTS", "CHANGED", "PROGRAM", "NODES"];
    let mut table = Table::new(&headings).right(&["OBJECTS"]);
    for set in sets {
        let changed = set.changed.as_ref();
        let changed = changed.map(|time| format_duration(since(time)));
        let nodes = match set.nodes.is_empty() {
            true => "-".to_owned(),
            false => set.nodes.join(", "),
        };
        table.push(vec![
            set.tenant.as_str().into(),
            set.name.as_str().into(),
            set.members.len().to_string().into(),
            changed.unwrap_or_else(|| "-".to_owned()).into(),
            set.program.as_str().into(),
            nodes.into(),
        ]);
    }
    table
}

/// A set of the caller's tenant, or of `--tenant`.
async fn get(session: &Session, name: &str) -> Result<Set, Failure> {
    let request = GetRequest {
        tenant: session.tenant(),
        name: name.to_owned(),
    };
    let get = async |node: &client::Node| {
        let request = node.unary(request.clone());
        SetsClient::new(node.channel()).get(request).await
    };
    session.ask(get).await
}

async fn show(session: &Session, args: &ShowArgs) -> Result<(), Failure> {
    let set = get(session, &args.name).await?;
    let format = args.output.output;
    if format.is_machine() {
        return print_message(format, &set);
    }
    let mut table = Table::new(&["KIND", "NAME", "DECLARED BY"]);
    for member in &set.members {
        let cells: [Cell; 3] = [
            member.kind.as_str().into(),
            name(member).into(),
            member.method.as_str().into(),
        ];
        table.push(cells.into());
    }
    print(&format!("{} of {}\n", set.name, set.program))?;
    print(&table.render(session.style))
}

/// A member's key without the tenant, which is the set's in most cases.
fn name(member: &Member) -> String {
    let parts = member.key.iter().filter(|(field, text)| {
        *field != "tenant" && *field != "target_tenant" && !text.is_empty()
    });
    let parts: Vec<_> = parts.map(|(_, text)| text.as_str()).collect();
    parts.join(" ")
}

async fn rm(global: &Global, args: &RmArgs) -> Result<u8, Failure> {
    let nodes = Arc::new(Nodes::new(
        Config::load(&Config::default_path())?,
        global.node.clone(),
        global.tenant.clone(),
    ));
    // A slip of the name would pass for a set with nothing in it.
    get(&Session::open(global).await?, &args.name).await?;
    let claim = Claim {
        adopt: true,
        ..Claim::new(args.name.clone(), String::new())
    };
    let planned = Plan::new(claim.clone()).finish(&nodes).await;
    let planned = planned.map_err(refused)?;
    let style = Style::of(&std::io::stdout(), global.color);
    print(&text(&planned, style))?;
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            return Err(
                Failure::usage("removing a set asks first, and this is no terminal")
                    .with_hint("say --yes"),
            );
        }
        if !agreed("remove the set?")? {
            note("nothing was changed");
            return Ok(FAILED);
        }
        // The answer is to what was shown.
        let now = Plan::new(claim.clone()).finish(&nodes).await;
        if now.map_err(refused)? != planned {
            return Err(Failure::new("the set has changed since it was shown")
                .with_hint("nothing was changed; look again, and say yes to that"));
        }
    }
    let steps = steps_of(&planned);
    let apply = Apply::heard_by(claim, move |change| hear(&steps, change, style));
    let done = apply.finish(&nodes).await;
    print(&sums(&apply.report(), "× ", "nothing was left"))?;
    done.map(|_| 0).map_err(refused)
}
