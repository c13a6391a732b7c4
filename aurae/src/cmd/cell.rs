// SPDX-License-Identifier: Apache-2.0
//! `aurae cell`: cells themselves.

use api::runtime::v0::{
    self as runtime, CellStatus, FreezeCellRequest, Kind, ListRequest, Namespace, NetworkStatus,
    Object, PublishedPort, RunCellRequest, ThawCellRequest, UpdateCellRequest, WaitFor, object,
    published_port,
};
use clap::Subcommand;

use super::fetch;
use super::image::RegistryFlags;
use super::ps::list;
use super::{for_each, print_changed, rm};
use crate::failure::Failure;
use crate::output::{
    Cell, Format, OutputArgs, Table, meta, note, path, print, print_line, print_message, reference,
    state_cell,
};
use crate::quantity::{format_duration, show_bytes, since};
use crate::session::Session;
use crate::spec::{CellFlags, ContainerFlags, LabelFlags, ResourceFlags};

/// `aurae cell`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  aurae cell run web --memory 64M --cpus 0.5\n  aurae cell ls\n  \
                  aurae cell update web --memory 128M\n  aurae cell rm -rf web"
)]
pub(crate) struct CellArgs {
    #[command(subcommand)]
    command: CellCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum CellCommand {
    /// Create a cell: a cgroup and namespaces of its own, deny by default
    Run(Box<RunArgs>),
    /// List cells with their limits
    Ls(LsArgs),
    /// Change a running cell: limits, mounts, labels
    Update(Box<UpdateArgs>),
    /// Stop every process in cells in its tracks
    Freeze(NamesArgs),
    /// Let frozen cells go on
    Thaw(NamesArgs),
    /// Remove cells
    Rm(rm::RmArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  aurae cell run web --memory 64M --cpus 0.5 --pids-limit 100
  aurae cell run web --read /srv/www --write /srv/upload,owner=1000
  aurae cell run web/db --tmpfs /mnt,size=256M              a cell in the cell web
  aurae cell run tools --net host                           the node's network
  aurae cell run api --net bridge -p 8443:443               a network of its own, with a port
  aurae cell run box --image debian:12 --read-only          a container: its root is the image's";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
struct RunArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    labels: LabelFlags,
    /// The id of this request: a retry with the same id starts nothing twice
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// The cell's path: web, or web/db for a cell in web
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    cell: CellFlags,
    /// Make it a container: its root is this image's
    #[arg(long, value_name = "IMAGE", help_heading = "The container")]
    image: Option<String>,
    #[command(flatten)]
    container: ContainerFlags,
    #[command(flatten)]
    registry: RegistryFlags,
    #[command(flatten)]
    resources: ResourceFlags,
}

const LS_EXAMPLES: &str = "\
Examples:
  aurae cell ls
  aurae cell ls -a -o json";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = LS_EXAMPLES)]
struct LsArgs {
    /// Also show cells that have ended
    #[arg(short, long)]
    all: bool,
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    all_tenants: bool,
    /// Only cells with such labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

const UPDATE_EXAMPLES: &str = "\
Examples:
  aurae cell update web --memory 128M
  aurae cell update web --memory max                 take the limit away
  aurae cell update web --read /srv/www --read /srv/img   replace all mounts
  aurae cell update web --expected-generation 3 --cpus 1";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = UPDATE_EXAMPLES)]
struct UpdateArgs {
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    labels: LabelFlags,
    /// Only if the cell has this generation
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    expected_generation: u64,
    /// Take all mounts away
    #[arg(long, conflicts_with_all = ["read", "write"])]
    no_mounts: bool,
    /// The cell's path: web, or web/db for a cell in web
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    cell: CellFlags,
    #[command(flatten)]
    resources: ResourceFlags,
}

const FREEZE_EXAMPLES: &str = "\
Examples:
  aurae cell freeze web
  aurae cell thaw web";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = FREEZE_EXAMPLES)]
struct NamesArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The paths of the cells: web, or web/db for a cell in web
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

/// Creates, lists, changes, freezes, thaws or removes cells; the exit status.
pub(crate) async fn run(session: &Session, args: &CellArgs) -> Result<u8, Failure> {
    match &args.command {
        CellCommand::Run(args) => make(session, args).await,
        CellCommand::Ls(args) => ls(session, args).await,
        CellCommand::Update(args) => update(session, args).await,
        CellCommand::Freeze(args) => {
            let (frozen, status) =
                for_each(session, &args.names, |name| freeze(session, name)).await;
            print_changed(args.output.output, frozen)?;
            Ok(status)
        }
        CellCommand::Thaw(args) => {
            let (thawed, status) = for_each(session, &args.names, |name| thaw(session, name)).await;
            print_changed(args.output.output, thawed)?;
            Ok(status)
        }
        CellCommand::Rm(args) => rm::run(session, args).await,
    }
}

fn as_object(status: CellStatus) -> Object {
    Object {
        object: Some(object::Object::Cell(status)),
    }
}

async fn make(session: &Session, args: &RunArgs) -> Result<u8, Failure> {
    let mut spec = args.cell.build(&args.resources);
    match (&args.image, args.container.first_given()) {
        (None, Some(flag)) => {
            let problem = format!("{flag} has a meaning only with --image");
            return Err(Failure::usage(problem).with_hint("name the image, or leave it out"));
        }
        (None, None) => {}
        (Some(image), _) => {
            let mut container = args.container.build(image);
            fetch::image(session, &mut container, &args.registry).await?;
            spec.container = Some(container);
        }
    }
    let request = RunCellRequest {
        cell: Some(runtime::Cell {
            r#ref: Some(session.reference(&args.name)),
            labels: args.labels.build(),
            spec: Some(spec),
        }),
        request_id: args.request_id.clone().unwrap_or_default(),
        wait_for: WaitFor::Started.into(),
        ..Default::default()
    };
    let make = async |node: &client::Node| {
        let request = node.unary(request.clone());
        node.runtime().run_cell(request).await
    };
    let made = session.ask_with(&request.request_id, make).await?;
    print_changed(args.output.output, vec![as_object(made)])?;
    Ok(0)
}

async fn update(session: &Session, args: &UpdateArgs) -> Result<u8, Failure> {
    let mask = args.mask()?;
    let request = UpdateCellRequest {
        r#ref: Some(session.reference(&args.name)),
        spec: Some(args.cell.build(&args.resources)),
        labels: args.labels.build(),
        update_mask: Some(prost_types::FieldMask { paths: mask }),
        expected_generation: args.expected_generation,
    };
    let answer = session
        .node
        .runtime()
        .update_cell(session.node.unary(request))
        .await?;
    print_changed(args.output.output, vec![as_object(answer.into_inner())])?;
    Ok(0)
}

impl UpdateArgs {
    /// The fields that were given, which are to change.
    fn mask(&self) -> Result<Vec<String>, Failure> {
        let fixed = [
            (!self.cell.share.is_empty(), "--share"),
            (!self.cell.join.is_empty(), "--join"),
            (!self.cell.tmpfs.is_empty(), "--tmpfs"),
            (self.cell.hostname.is_some(), "--hostname"),
            (self.cell.id_range.is_some(), "--id-range"),
        ];
        let given = fixed.iter().find(|(given, _)| *given);
        let given = given.map(|(_, flag)| *flag);
        if let Some(flag) = given.or_else(|| self.cell.network.first_given()) {
            let problem = format!("{flag} can't be changed while a cell runs");
            return Err(Failure::usage(problem).with_hint("remove the cell and create it again"));
        }
        let mut mask = self.resources.mask();
        if self.no_mounts || !self.cell.read.is_empty() || !self.cell.write.is_empty() {
            mask.push("spec.mounts".to_owned());
        }
        if !self.labels.label.is_empty() {
            mask.push("labels".to_owned());
        }
        if mask.is_empty() {
            return Err(
                Failure::usage(format!("nothing to change in {}", self.name))
                    .with_hint("give a limit, a mount or a label; see `aurae cell update --help`"),
            );
        }
        Ok(mask)
    }
}

async fn freeze(session: &Session, name: &str) -> Result<Object, Failure> {
    let request = FreezeCellRequest {
        r#ref: Some(session.reference(name)),
    };
    let answer = session
        .node
        .runtime()
        .freeze_cell(session.node.unary(request))
        .await?;
    Ok(as_object(answer.into_inner()))
}

async fn thaw(session: &Session, name: &str) -> Result<Object, Failure> {
    let request = ThawCellRequest {
        r#ref: Some(session.reference(name)),
    };
    let answer = session
        .node
        .runtime()
        .thaw_cell(session.node.unary(request))
        .await?;
    Ok(as_object(answer.into_inner()))
}

async fn ls(session: &Session, args: &LsArgs) -> Result<u8, Failure> {
    let request = ListRequest {
        tenant: match args.all_tenants {
            true => "*".to_owned(),
            false => session.tenant(),
        },
        selector: args.selector.clone().unwrap_or_default(),
        kinds: vec![Kind::Cell.into()],
        running_only: !args.all,
        ..Default::default()
    };
    let cells = list(session, request).await?;
    match args.output.output {
        Format::Json | Format::Yaml => print_message(args.output.output, &cells)?,
        Format::Name => cells
            .objects
            .iter()
            .try_for_each(|object| print_line(&path(object)))?,
        Format::Table | Format::Wide if cells.objects.is_empty() => note("there are no cells"),
        format => print(&table(&cells.objects, args, format).render(session.style))?,
    }
    Ok(0)
}

fn table(cells: &[Object], args: &LsArgs, format: Format) -> Table {
    let mut headings = vec![
        "NAME", "STATE", "RUNNING", "AGE", "MEMORY", "CPUS", "PIDS", "SHARES",
    ];
    if args.all_tenants {
        headings.insert(0, "TENANT");
    }
    if format == Format::Wide {
        headings.extend(["ADDRESSES", "PORTS", "UID", "CGROUP"]);
    }
    let mut table = Table::new(&headings).right(&["RUNNING", "MEMORY", "CPUS", "PIDS"]);
    for cell in cells {
        if let Some(object::Object::Cell(status)) = &cell.object {
            table.push(row(cell, status, args, format));
        }
    }
    table
}

fn row(cell: &Object, status: &CellStatus, args: &LsArgs, format: Format) -> Vec<Cell> {
    let reference = reference(cell);
    let created = meta(cell).and_then(|meta| meta.created.as_ref());
    let spec = status
        .effective
        .clone()
        .or(status.spec.clone())
        .unwrap_or_default();
    let resources = spec.resources.clone().unwrap_or_default();
    let memory = resources.memory.and_then(|memory| memory.max);
    let dash = || "-".to_owned();
    let mut row: Vec<Cell> = Vec::new();
    if args.all_tenants {
        row.push(reference.tenant.into());
    }
    row.extend([
        reference.path.into(),
        state_cell(cell),
        status.running_children.to_string().into(),
        created
            .map_or_else(dash, |time| format_duration(since(time)))
            .into(),
        memory.map_or_else(dash, show_bytes).into(),
        resources
            .cpu
            .as_ref()
            .and_then(cpus)
            .unwrap_or_else(dash)
            .into(),
        resources
            .pids_max
            .map_or_else(dash, |pids| pids.to_string())
            .into(),
        shares(&spec.share).into(),
    ]);
    if format == Format::Wide {
        let network = status.network.clone().unwrap_or_default();
        row.extend([
            addresses(&network).into(),
            ports(&network).into(),
            reference.uid.into(),
            status.cgroup.clone().into(),
        ]);
    }
    row
}

/// The quota in CPUs.
fn cpus(cpu: &runtime::Cpu) -> Option<String> {
    let seconds = |span: &prost_types::Duration| span.seconds as f64 + f64::from(span.nanos) / 1e9;
    let quota = seconds(cpu.quota.as_ref()?);
    let period = cpu.period.as_ref().map_or(0.1, seconds);
    Some(format!("{:.2}", quota / period))
}

fn shares(namespaces: &[i32]) -> String {
    let names: Vec<&str> = namespaces
        .iter()
        .filter_map(|number| Namespace::try_from(*number).ok())
        .map(|namespace| namespace.as_str_name().trim_start_matches("NAMESPACE_"))
        .collect();
    match names.is_empty() {
        true => "-".to_owned(),
        false => names.join(",").to_ascii_lowercase(),
    }
}

/// Of all interfaces, IPv6 first.
pub(crate) fn addresses(network: &NetworkStatus) -> String {
    let all = network.interfaces.iter();
    let all: Vec<_> = all.flat_map(|it| it.addresses.iter().cloned()).collect();
    or_dash(all.join(","))
}

/// The node's ports that lead to the cell, in docker's words.
pub(crate) fn ports(network: &NetworkStatus) -> String {
    let one = |port: &PublishedPort| {
        let protocol = match port.protocol() {
            published_port::Protocol::Udp => "udp",
            published_port::Protocol::Sctp => "sctp",
            _ => "tcp",
        };
        let address = match port.address.as_str() {
            "" => String::new(),
            six if six.contains(':') => format!("[{six}]:"),
            four => format!("{four}:"),
        };
        format!("{address}{}->{}/{protocol}", port.host_port, port.port)
    };
    or_dash(network.ports.iter().map(one).collect::<Vec<_>>().join(","))
}

fn or_dash(text: String) -> String {
    match text.is_empty() {
        true => "-".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_shown_as_cpus() {
        let cpu = runtime::Cpu {
            quota: Some(prost_types::Duration {
                seconds: 0,
                nanos: 50_000_000,
            }),
            ..Default::default()
        };
        assert_eq!(cpus(&cpu).as_deref(), Some("0.50"));
    }

    #[test]
    fn shared_namespaces_by_name() {
        assert_eq!(shares(&[4, 3]), "net,pid");
        assert_eq!(shares(&[]), "-");
    }
}
