// SPDX-License-Identifier: Apache-2.0
//! `aurae pod ls` and `describe`: what there is, and how it is.

use api::pod::v0::container_status::State;
use api::pod::v0::{ContainerStatus, GetRequest, ListRequest, ListResponse, Phase, PodStatus, Qos};

use super::pods;
use crate::failure::Failure;
use crate::output::{
    Format, OutputArgs, Table, exit_words, note, print, print_line, print_message,
};
use crate::quantity::{format_duration, format_instant, since};
use crate::session::Session;

/// `aurae pod ls`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod ls\n  aurae pod ls -A -o json")]
pub(super) struct LsArgs {
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    all_tenants: bool,
    /// Only names
    #[arg(short, long)]
    quiet: bool,
    /// Go on with every change
    #[arg(short, long, conflicts_with = "quiet")]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// `aurae pod describe`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod describe web\n  aurae pod describe web -o yaml")]
pub(super) struct DescribeArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The pod
    #[arg(value_name = "POD")]
    name: String,
}

/// Lists pods.
pub(super) async fn ls(session: &Session, args: &LsArgs) -> Result<u8, Failure> {
    if args.watch {
        return super::watch::all(session, args.all_tenants, "", args.output).await;
    }
    let tenant = match args.all_tenants {
        true => "*".to_owned(),
        false => session.tenant(),
    };
    let mut request = ListRequest {
        tenant,
        ..ListRequest::default()
    };
    let mut answer = ListResponse::default();
    loop {
        let list = async |node: &client::Node| pods(node).list(node.unary(request.clone())).await;
        let page = session.ask(list).await?;
        answer.pods.extend(page.pods);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let names = || {
        answer
            .pods
            .iter()
            .try_for_each(|pod| print_line(&name(pod)))
    };
    match args.output.output {
        format if format.is_machine() => print_message(format, &answer)?,
        Format::Name => names()?,
        _ if args.quiet => names()?,
        _ if answer.pods.is_empty() => note("there are no pods"),
        format => {
            let wide = format == Format::Wide;
            print(&table(&answer.pods, args.all_tenants, wide).render(session.style))?;
        }
    }
    Ok(0)
}

pub(super) fn table(pods: &[PodStatus], tenants: bool, wide: bool) -> Table {
    let mut headings = vec!["POD", "READY", "STATUS", "RESTARTS", "AGE"];
    if wide {
        headings.extend(["ADDRESSES", "PORTS"]);
    }
    if tenants {
        headings.insert(0, "TENANT");
    }
    let mut table = Table::new(&headings).right(&["READY", "RESTARTS"]);
    for pod in pods {
        let ready = pod.containers.iter().filter(|it| it.ready).count();
        let restarts: u32 = all(pod).map(|it| it.restarts).sum();
        let created = pod.meta.as_ref().and_then(|meta| meta.created.as_ref());
        let age = created.map(|time| format_duration(since(time)));
        let mut row = vec![
            name(pod).into(),
            format!("{ready}/{}", pod.containers.len()).into(),
            status(pod).into(),
            restarts.to_string().into(),
            age.unwrap_or_else(|| "-".to_owned()).into(),
        ];
        if wide {
            row.push(addresses(pod).into());
            row.push(ports(pod).into());
        }
        if tenants {
            row.insert(0, reference(pod).tenant.into());
        }
        table.push(row);
    }
    table
}

/// Of the pod; the node's where it has the node's network.
fn addresses(pod: &PodStatus) -> String {
    let is_hosts = pod.spec.as_ref().is_some_and(|spec| spec.host_network);
    let own = pod.network.clone().unwrap_or_default();
    match is_hosts && !pod.host_addresses.is_empty() {
        true => pod.host_addresses.join(","),
        false => crate::cmd::cell::addresses(&own),
    }
}

/// Ports of the node that lead to it.
fn ports(pod: &PodStatus) -> String {
    crate::cmd::cell::ports(&pod.network.clone().unwrap_or_default())
}

fn all(pod: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let spec = pod.init_containers.iter().chain(&pod.containers);
    spec.chain(&pod.debug_containers)
}

fn reference(pod: &PodStatus) -> api::runtime::v0::ObjectRef {
    let meta = pod.meta.as_ref();
    meta.and_then(|meta| meta.r#ref.clone()).unwrap_or_default()
}

/// A pod's path.
pub(super) fn name(pod: &PodStatus) -> String {
    reference(pod).path
}

fn status(pod: &PodStatus) -> &'static str {
    match pod.phase() {
        Phase::Succeeded => "succeeded",
        Phase::Failed => "failed",
        _ if pod.stopping => "stopping",
        Phase::Pending => "pending",
        Phase::Running => "running",
        Phase::Unspecified => "-",
    }
}

/// Shows one pod.
pub(super) async fn describe(session: &Session, args: &DescribeArgs) -> Result<u8, Failure> {
    let request = GetRequest {
        r#ref: Some(session.reference(&args.name)),
    };
    let get = async |node: &client::Node| pods(node).get(node.unary(request.clone())).await;
    let pod = session.ask(get).await?;
    let format = args.output.output;
    if format.is_machine() {
        print_message(format, &pod)?;
        return Ok(0);
    }
    print(&facts(&pod).render(session.style))?;
    let mut containers =
        Table::new(&["CONTAINER", "STATE", "READY", "RESTARTS", "LAST END", "WHY"])
            .right(&["RESTARTS"]);
    for container in all(&pod) {
        let exit = container.last_exit.as_ref().map(exit_words);
        containers.push(vec![
            container.name.as_str().into(),
            state(container).into(),
            container.ready.to_string().into(),
            container.restarts.to_string().into(),
            exit.unwrap_or_else(|| "-".to_owned()).into(),
            container.message.as_str().into(),
        ]);
    }
    print("\n")?;
    print(&containers.render(session.style))?;
    if all(&pod).any(|it| !it.termination_message.is_empty()) {
        print("\n")?;
        print(&last_words(&pod).render(session.style))?;
    }
    if !pod.events.is_empty() {
        print("\n")?;
        print(&events(&pod).render(session.style))?;
    }
    Ok(0)
}

/// What containers have left when they ended, a row for each line.
fn last_words(pod: &PodStatus) -> Table {
    let mut table = Table::new(&["CONTAINER", "LAST WORD"]);
    for container in all(pod) {
        for line in container.termination_message.lines() {
            table.push(vec![container.name.as_str().into(), line.into()]);
        }
    }
    table
}

fn events(pod: &PodStatus) -> Table {
    let mut table = Table::new(&["AGO", "CONTAINER", "EVENT", "TIMES"]).right(&["TIMES"]);
    for event in &pod.events {
        let ago = event.time.as_ref().map(|time| format_duration(since(time)));
        table.push(vec![
            ago.unwrap_or_else(|| "-".to_owned()).into(),
            event.container.as_str().into(),
            event.message.as_str().into(),
            event.count.to_string().into(),
        ]);
    }
    table
}

fn state(container: &ContainerStatus) -> &'static str {
    match container.state() {
        State::Unspecified => "-",
        State::Waiting => "waiting",
        State::Running => "running",
        State::BackingOff => "backing off",
        State::Ended => "ended",
    }
}

fn facts(pod: &PodStatus) -> Table {
    let mut table = Table::new(&["FIELD", "VALUE"]);
    let mut say = |name: &str, text: String| {
        if !text.is_empty() {
            table.push(vec![name.into(), text.into()]);
        }
    };
    let named = reference(pod);
    say("pod", named.path);
    say("tenant", named.tenant);
    say("uid", named.uid);
    say("status", status(pod).to_owned());
    say("ready", pod.ready.to_string());
    let qos = match pod.qos() {
        Qos::Unspecified => "",
        Qos::Guaranteed => "guaranteed",
        Qos::Burstable => "burstable",
        Qos::BestEffort => "best effort",
    };
    say("class of service", qos.to_owned());
    say("sandbox", pod.sandbox_class.clone());
    say("addresses", addresses(pod));
    say("ports", ports(pod));
    say("node's addresses", pod.host_addresses.join(","));
    let meta = pod.meta.clone().unwrap_or_default();
    say("created", format_instant(meta.created.as_ref()));
    for (key, value) in meta.labels {
        say("label", format!("{key}={value}"));
    }
    table
}
