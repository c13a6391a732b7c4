// SPDX-License-Identifier: Apache-2.0
//! `aurae tenant`: the quotas of tenants, and how much of them is used.

use api::convert::tenant::to_quotas;
use api::quota::Quota;
use api::tenant::v0::{
    GetRequest, ListRequest, QuotaStatus, RemoveRequest, SetRequest, TenantStatus,
};
use clap::Subcommand;
use language::schema::nearest;

use crate::failure::Failure;
use crate::output::{
    Cell, Color, Format, OutputArgs, Table, note, print, print_line, print_message,
};
use crate::quantity::format_instant;
use crate::session::Session;

const SET_EXAMPLES: &str = "\
Examples:
  aurae tenant set blue memory_max=20% pids=2000
  aurae tenant set blue cpu_max=1.5 cells=64
  aurae tenant set blue memory_max=default        back to the default

An amount is a share of the node (10%), a number in the quota's unit (512M, 64), max for no bound,
or default. `aurae tenant show` lists the quotas.";

/// `aurae tenant`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  aurae tenant ls\n  aurae tenant show blue\n  \
                  aurae tenant set blue memory_max=20% pids=2000\n  aurae tenant rm blue"
)]
pub(crate) struct TenantArgs {
    #[command(subcommand)]
    command: TenantCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum TenantCommand {
    /// List tenants with what they use of memory, processes and cells
    #[command(after_help = "Examples:\n  aurae tenant ls\n  aurae tenant ls -o json")]
    Ls(OutputArgs),
    /// Show a tenant's quotas: use beside limit
    #[command(after_help = "Examples:\n  aurae tenant show\n  aurae tenant show blue -o yaml")]
    Show(ShowArgs),
    /// Set quotas; creates the tenant where it isn't there
    #[command(after_help = SET_EXAMPLES)]
    Set(SetArgs),
    /// Forget a tenant, its records, output and sets; refused while it has users or what runs
    #[command(after_help = "Examples:\n  aurae tenant rm blue")]
    Rm(RmArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The tenant [default: your own]
    #[arg(value_name = "TENANT")]
    name: Option<String>,
}

#[derive(Clone, Debug, clap::Args)]
struct SetArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The tenant's name
    #[arg(value_name = "TENANT")]
    name: String,
    /// Quotas and their amounts
    #[arg(required = true, value_name = "QUOTA=AMOUNT", value_parser = parse_setting)]
    settings: Vec<(Quota, String)>,
}

#[derive(Clone, Debug, clap::Args)]
struct RmArgs {
    /// The names of the tenants
    #[arg(required = true, value_name = "TENANT")]
    names: Vec<String>,
}

fn parse_setting(text: &str) -> Result<(Quota, String), String> {
    let Some((name, amount)) = text.split_once('=') else {
        return Err("write QUOTA=AMOUNT, as in pids=2000".to_owned());
    };
    let Some(quota) = Quota::from_name(name) else {
        return Err(unknown(name));
    };
    if amount != "default" {
        quota.parse(amount).map_err(|error| {
            let hint = error.hint.clone().unwrap_or_default();
            format!("{name} is {amount:?}: {hint}")
        })?;
    }
    Ok((quota, amount.to_owned()))
}

/// A part of a name, as in `memory`, means the first quota that begins with it.
fn unknown(name: &str) -> String {
    let known = || Quota::ALL.iter().map(|quota| quota.as_str());
    let part = known().find(|quota| !name.is_empty() && quota.starts_with(name));
    match part.or_else(|| nearest(name, known())) {
        Some(meant) => format!("there is no quota {name}; did you mean {meant}?"),
        None => {
            let known: Vec<_> = known().collect();
            format!("there is no quota {name}; there are {}", known.join(", "))
        }
    }
}

/// Lists, shows and removes tenants, and changes their quotas.
pub(crate) async fn run(session: &Session, args: &TenantArgs) -> Result<u8, Failure> {
    let mut client = session.node.tenant();
    match &args.command {
        TenantCommand::Ls(output) => {
            let all = async |node: &client::Node| {
                let request = node.unary(ListRequest {});
                node.tenant().list(request).await
            };
            let answer = session.ask(all).await?;
            match output.output {
                format if format.is_machine() => print_message(format, &answer)?,
                Format::Name => answer
                    .tenants
                    .iter()
                    .try_for_each(|t| print_line(&t.name))?,
                _ if answer.tenants.is_empty() => note("there are no tenants"),
                _ => print(&list(&answer.tenants).render(session.style))?,
            }
        }
        TenantCommand::Show(args) => {
            let name = args.name.clone().unwrap_or_else(|| session.tenant());
            let get = async |node: &client::Node| {
                let request = node.unary(GetRequest {
                    name: name.clone(),
                    ..GetRequest::default()
                });
                node.tenant().get(request).await
            };
            let status = session.ask(get).await?;
            show(session, args.output.output, &status)?;
        }
        TenantCommand::Set(args) => {
            let request = session.node.unary(SetRequest {
                name: args.name.clone(),
                quotas: Some(to_quotas(args.settings.iter().cloned())),
            });
            let status = client.set(request).await?.into_inner();
            show(session, args.output.output, &status)?;
        }
        TenantCommand::Rm(args) => {
            for name in &args.names {
                let request = session.node.unary(RemoveRequest { name: name.clone() });
                client.remove(request).await?;
                print_line(name)?;
            }
        }
    }
    Ok(0)
}

fn show(session: &Session, format: Format, status: &TenantStatus) -> Result<(), Failure> {
    match format {
        format if format.is_machine() => print_message(format, status),
        Format::Name => print_line(&status.name),
        _ => {
            print_line(&format!("Tenant:   {}", status.name))?;
            let created = status.created.as_ref();
            print_line(&format!("Created:  {}", format_instant(created)))?;
            print(&quotas(&status.usage).render(session.style))
        }
    }
}

fn quotas(quotas: &[QuotaStatus]) -> Table {
    let mut table = Table::new(&["QUOTA", "USED", "LIMIT", "SETTING"]).right(&["USED", "LIMIT"]);
    for status in quotas {
        let setting = match status.set {
            true => status.setting.clone(),
            false => format!("{} (default)", status.setting),
        };
        table.push(vec![
            status.quota.as_str().into(),
            used(status),
            amount(status, status.limit.unwrap_or(u64::MAX)).into(),
            setting.into(),
        ]);
    }
    table
}

/// Red where the quota is used up.
fn used(status: &QuotaStatus) -> Cell {
    let Some(used) = status.used else {
        return "-".into();
    };
    let full = status.limit.is_some_and(|limit| used >= limit);
    Cell::colored(amount(status, used), full.then_some(Color::Red))
}

/// In the quota's unit, also of a quota that only a newer node knows.
fn amount(status: &QuotaStatus, value: u64) -> String {
    Quota::from_name(&status.quota).map_or_else(|| value.to_string(), |quota| quota.show(value))
}

fn list(tenants: &[TenantStatus]) -> Table {
    const SHOWN: [(&str, Quota); 5] = [
        ("MEMORY", Quota::MemoryMax),
        ("PIDS", Quota::Pids),
        ("CELLS", Quota::Cells),
        ("EXECUTABLES", Quota::Executables),
        ("CONNECTIONS", Quota::Connections),
    ];
    let mut headings = vec!["NAME"];
    headings.extend(SHOWN.map(|(heading, _)| heading));
    let mut table = Table::new(&headings).right(&SHOWN.map(|(heading, _)| heading));
    for tenant in tenants {
        let mut row: Vec<Cell> = vec![tenant.name.as_str().into()];
        row.extend(SHOWN.map(|(_, quota)| {
            let found = tenant.usage.iter().find(|s| s.quota == quota.as_str());
            found.map_or("-".into(), of_limit)
        }));
        table.push(row);
    }
    table
}

/// `12/64`, as far as either is known.
pub(super) fn of_limit(status: &QuotaStatus) -> Cell {
    let used = status
        .used
        .map_or("-".to_owned(), |used| amount(status, used));
    let limit = amount(status, status.limit.unwrap_or(u64::MAX));
    let full = status
        .used
        .zip(status.limit)
        .is_some_and(|(used, limit)| used >= limit);
    Cell::colored(format!("{used}/{limit}"), full.then_some(Color::Red))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_a_quota_and_an_amount() {
        let (quota, amount) = parse_setting("pids=10%").unwrap();
        assert_eq!((quota, amount.as_str()), (Quota::Pids, "10%"));
        assert!(parse_setting("pids=default").is_ok());
        for (text, expected) in [
            ("pids", "QUOTA=AMOUNT"),
            ("memory=10%", "no quota memory; did you mean memory_max?"),
            ("pid=1", "there is no quota pid; did you mean pids?"),
            ("cels=1", "there is no quota cels; did you mean cells?"),
            ("wine=1", "there is no quota wine; there are memory_max"),
            ("pids=many", "a share of the node (10%)"),
            (
                "memory_max=150%",
                "memory_max is \"150%\": a share of the node is from 0.1% to 100%",
            ),
            ("io_reads=10%", "there is no share of a disk"),
        ] {
            let problem = parse_setting(text).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
