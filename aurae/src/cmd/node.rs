// SPDX-License-Identifier: Apache-2.0
//! `aurae node`: the node itself.

use std::time::Duration;

use api::node::v0::{
    ConfigValue, GetConfigRequest, GetRequest, NodeStatus, ReloadRequest, ShutdownRequest,
    ShutdownResponse, shutdown_request::Mode,
};
use clap::Subcommand;

use crate::failure::Failure;
use crate::output::{Cell, Color, Format, OutputArgs, Table, print, print_line, print_message};
use crate::quantity::{format_duration, format_instant, parse_duration, show_bytes, since};
use crate::session::Session;
use crate::spec::wire_duration;

/// `aurae node`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  aurae node info\n  aurae --node home node config\n  \
                  aurae node shutdown --bound 1m"
)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum NodeCommand {
    /// Show its version, what it offers, its limits
    #[command(
        after_help = "Examples:\n  aurae node info\n  aurae node info -o json | jq .features"
    )]
    Info(OutputArgs),
    /// Show its effective configuration, and where each value is from
    #[command(after_help = "Examples:\n  aurae node config\n  aurae node config -o json")]
    Config(OutputArgs),
    /// Let it read its configuration again
    #[command(after_help = "Examples:\n  aurae node reload")]
    Reload(OutputArgs),
    /// Stop every workload, then power off (as PID 1) or end the daemon
    #[command(
        after_help = "Examples:\n  aurae node shutdown\n  aurae node shutdown --halt --bound 1m"
    )]
    Shutdown(ShutdownArgs),
    /// Stop every workload, then reboot
    #[command(after_help = "Examples:\n  aurae node reboot\n  aurae node reboot --bound 30s")]
    Reboot(BoundArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct ShutdownArgs {
    /// Halt instead of powering off
    #[arg(long)]
    halt: bool,
    #[command(flatten)]
    bound: BoundArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct BoundArgs {
    /// How long the workloads have together
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    bound: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Shows the node or its configuration, has it reread, or shuts the node down.
pub(crate) async fn run(session: &Session, args: &NodeArgs) -> Result<u8, Failure> {
    match &args.command {
        NodeCommand::Info(args) => info(session, args.output).await?,
        NodeCommand::Config(args) => config(session, args.output).await?,
        NodeCommand::Reload(args) => reload(session, args.output).await?,
        NodeCommand::Shutdown(args) => {
            let mode = if args.halt {
                Mode::Halt
            } else {
                Mode::PowerOff
            };
            shutdown(session, mode, &args.bound).await?;
        }
        NodeCommand::Reboot(args) => shutdown(session, Mode::Reboot, args).await?,
    }
    Ok(0)
}

async fn info(session: &Session, format: Format) -> Result<(), Failure> {
    let get = async |node: &client::Node| node.node().get(node.unary(GetRequest {})).await;
    let status = session.ask(get).await?;
    match format {
        Format::Json | Format::Yaml => print_message(format, &status),
        Format::Name => print_line(&status.name),
        Format::Table | Format::Wide => {
            print(&facts(&status).render(session.style))?;
            print_line("")?;
            print(&features(&status).render(session.style))
        }
    }
}

fn facts(status: &NodeStatus) -> Table {
    let mut table = Table::new(&["NODE", ""]);
    let mut fact = |name: &str, value: String| table.push(vec![name.into(), value.into()]);
    let ago = |time: &Option<prost_types::Timestamp>| match time {
        Some(time) => format!(
            "{} ({} ago)",
            format_instant(Some(time)),
            format_duration(since(time))
        ),
        None => "-".to_owned(),
    };
    fact("name", status.name.clone());
    fact("trust domain", status.trust_domain.clone());
    fact("version", status.version.clone());
    fact("role", status.role.clone());
    fact("kernel", status.kernel.clone());
    fact("booted", ago(&status.booted));
    fact(
        "daemon started",
        format!("{}, start {}", ago(&status.started), status.daemon_starts),
    );
    fact("cpus", status.cpus.to_string());
    let (all, free) = (status.memory_bytes, status.memory_available_bytes);
    fact(
        "memory",
        format!("{}, {} available", show_bytes(all), show_bytes(free)),
    );
    fact(
        "controllers",
        match status.controllers.is_empty() {
            true => "none".to_owned(),
            false => status.controllers.join(" "),
        },
    );
    if let Some(limits) = &status.limits {
        let text = format!(
            "{} cells, {} executables, {} connections ({} per tenant)",
            limits.cells, limits.executables, limits.connections, limits.connections_per_tenant
        );
        fact("limits", text);
    }
    for problem in &status.degraded {
        table.push(vec![
            "degraded".into(),
            Cell::colored(problem, Some(Color::Red)),
        ]);
    }
    table
}

fn features(status: &NodeStatus) -> Table {
    let mut table = Table::new(&["FEATURE", "THERE", "WHY NOT"]);
    for feature in &status.features {
        let (word, color) = match feature.available {
            true => ("yes", Color::Green),
            false => ("no", Color::Yellow),
        };
        let reason = if feature.reason.is_empty() {
            "-"
        } else {
            &feature.reason
        };
        table.push(vec![
            feature.name.as_str().into(),
            Cell::colored(word, Some(color)),
            reason.into(),
        ]);
    }
    table
}

async fn config(session: &Session, format: Format) -> Result<(), Failure> {
    let get = async |node: &client::Node| {
        let request = node.unary(GetConfigRequest {});
        node.node().get_config(request).await
    };
    let answer = session.ask(get).await?;
    match format {
        Format::Json | Format::Yaml => print_message(format, &answer),
        Format::Name => answer
            .values
            .iter()
            .try_for_each(|value| print_line(&value.key)),
        Format::Table | Format::Wide => print(&config_table(&answer.values).render(session.style)),
    }
}

fn config_table(values: &[ConfigValue]) -> Table {
    let mut table = Table::new(&["KEY", "VALUE", "FROM", "RELOADABLE"]);
    for value in values {
        let reloadable = if value.reloadable { "yes" } else { "no" };
        table.push(vec![
            value.key.as_str().into(),
            value.value.as_str().into(),
            value.origin.as_str().into(),
            reloadable.into(),
        ]);
    }
    table
}

async fn reload(session: &Session, format: Format) -> Result<(), Failure> {
    let request = session.node.unary(ReloadRequest {});
    let answer = session.node.node().reload(request).await?.into_inner();
    if format.is_machine() {
        return print_message(format, &answer);
    }
    if answer.changed.is_empty() && answer.needs_restart.is_empty() {
        return print_line("nothing has changed");
    }
    for key in &answer.changed {
        print_line(&format!("{key}: in use"))?;
    }
    for key in &answer.needs_restart {
        print_line(&format!(
            "{key}: changed, but in use only after a restart of the daemon"
        ))?;
    }
    Ok(())
}

async fn shutdown(session: &Session, mode: Mode, args: &BoundArgs) -> Result<(), Failure> {
    let request = session.node.unary(ShutdownRequest {
        mode: mode.into(),
        bound: args.bound.map(wire_duration),
    });
    let answer: ShutdownResponse = session.node.node().shutdown(request).await?.into_inner();
    if args.output.output.is_machine() {
        return print_message(args.output.output, &answer);
    }
    let bound = answer
        .bound
        .and_then(|bound| Duration::try_from(bound).ok())
        .unwrap_or_default();
    print_line(&format!(
        "the node goes down within {}",
        format_duration(bound)
    ))
}
