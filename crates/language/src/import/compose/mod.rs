// SPDX-License-Identifier: Apache-2.0
//! A Compose file as a program: its services are the containers of one pod. They find each other by
//! their services' names, as they do there; one that others wait for is an init container, which
//! goes on running unless its end is waited for.

mod depends;
mod fields;
mod ports;
mod probe;
mod reasons;
mod rights;
mod service;
pub(super) mod text;
mod variables;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::write::{Expression, comment};
use super::{NotImported, Origin};
use crate::reserved::is_reserved;
use depends::Order;
use fields::{Fields, Notes};
use service::{Around, OfPod};
use variables::{SETTINGS, Variables};
use volumes::Volumes;

/// What reads env files, where there are some.
const VARIABLES: &str = r##"
/** Variables of env files, and those beside them, which win. */
function variables(files: string[], own: Record<string, string>): pod.EnvVar[] {
  const all: Record<string, string> = {};
  for (const line of files.join("\n").split("\n")) {
    const at = line.indexOf("=");
    if (at < 1 || line.trim().startsWith("#")) continue;
    const value = line.slice(at + 1).trim().replace(/^(["'])(.*)\1$/, "$2");
    // A node would replace `$(NAME)`.
    all[line.slice(0, at).trim()] = value.split("$(").join("$$(");
  }
  return Object.entries({ ...all, ...own }).map(([name, value]) => ({ name, value }));
}
"##;

/// A service, on its way into the program.
struct Service {
    name: String,
    constant: String,
    container: Expression,
    of_pod: OfPod,
    notes: Notes,
    is_init: bool,
}

/// A name for a constant that nothing else has.
pub(super) fn name_for(name: &str, taken: &mut BTreeSet<String>) -> String {
    // What the program itself uses, and what reads badly as a name though it can be one.
    const USED: [&str; 8] = [
        "undefined",
        "globalThis",
        SETTINGS,
        "variables",
        "abstract",
        "async",
        "of",
        "type",
    ];
    let wanted = text::camel(name);
    let is_used = USED.iter().any(|word| *word == wanted);
    let is_global = crate::prelude::globals().iter().any(|word| *word == wanted);
    let wanted = if is_reserved(&wanted) || is_used || is_global {
        format!("{wanted}Service")
    } else {
        wanted
    };
    text::unique(taken, &wanted, "")
}

/// The program, not formatted.
pub(super) fn program(document: Value, origin: &Origin) -> Result<String, NotImported> {
    let mut top = Fields::of(document, "")?;
    let mut notes = Notes::default();
    let folder = origin
        .folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let named = top.plain("name", &mut notes)?;
    let project = text::label(&named.or(folder).unwrap_or_else(|| "app".to_owned()));
    top.known(&["version"]);
    let networks: Vec<_> = top
        .object("networks")?
        .entries()
        .map(|(name, _)| name)
        .collect();
    if networks.len() > 1 {
        let networks = networks.join(" and ");
        notes.add(format!(
            "networks: {networks} separate nothing: a pod has one network"
        ));
    }
    let mut volumes = Volumes::of(&mut top, &origin.folder, &mut notes)?;
    let mut variables = Variables::default();
    let services = top.object("services")?;
    top.end("", &mut notes);
    let mut around = Around {
        project: &project,
        variables: &mut variables,
        volumes: &mut volumes,
        taken: &mut BTreeSet::new(),
    };
    let services = in_order(services, &mut around, &mut notes)?;
    let volumes = volumes.made();
    Ok(written(
        origin, &project, &services, volumes, &variables, notes,
    ))
}

/// The most containers of a pod.
const CONTAINERS: usize = 32;
/// The most services that are read.
const SERVICES: usize = 1000;

/// The services, each behind those that it waits for.
fn in_order(
    services: Fields,
    around: &mut Around<'_, '_>,
    notes: &mut Notes,
) -> Result<Vec<Service>, NotImported> {
    let mut order = Order::default();
    let mut found = BTreeMap::new();
    let mut names = Vec::new();
    for (name, value) in services.entries() {
        let mut service = Fields::of(value, &format!("services.{name}"))?;
        let mut own = Notes::default();
        order.take(&name, &mut service, &mut own)?;
        found.insert(name.clone(), (service, own));
        names.push(name);
    }
    if names.len() > SERVICES {
        return Err(fields::malformed("services", "has more than 1,000 of them"));
    }
    if names.len() > CONTAINERS {
        let count = names.len();
        notes.add(format!(
            "services: {count} of them, and a pod has {CONTAINERS} containers"
        ));
    }
    let mut taken = BTreeSet::from(["app".to_owned()]);
    let mut made = Vec::new();
    let sorted = order.sorted(&names, notes);
    let all_waited = sorted.iter().all(|name| order.waited(name).is_some());
    let last = sorted.last().filter(|_| all_waited).cloned();
    for name in sorted {
        let Some((service, mut own)) = found.remove(&name) else {
            continue;
        };
        // In a circle all are waited for, and a pod has a container that is none of the first.
        let waited = order.waited(&name).filter(|_| Some(&name) != last.as_ref());
        let (container, of_pod) = service::container(&name, service, waited, around, &mut own)?;
        made.push(Service {
            constant: name_for(&name, &mut taken),
            container,
            of_pod,
            notes: own,
            is_init: waited.is_some(),
            name,
        });
    }
    Ok(made)
}

fn written(
    origin: &Origin,
    project: &str,
    services: &[Service],
    volumes: Vec<Expression>,
    variables: &Variables,
    mut notes: Notes,
) -> String {
    let pod = pod(project, services, volumes, &mut notes);
    for name in variables.open() {
        notes.add(format!(
            "{name}: has no value here: give it by `aurae apply --values FILE`"
        ));
    }
    let mut text = String::new();
    comment(
        &mut text,
        &format!("Imported from {} by `aurae import`.", origin.name),
    );
    if !notes.0.is_empty() {
        text.push_str("//\n");
        comment(&mut text, "What is otherwise than there:");
    }
    for note in &notes.0 {
        comment(&mut text, &format!("- {note}"));
    }
    text.push('\n');
    text.push_str(&variables.statement().unwrap_or_default());
    let mut consts = String::new();
    for service in services {
        consts.push('\n');
        for note in &service.notes.0 {
            comment(&mut consts, note);
        }
        let container = service.container.written();
        consts.push_str(&format!(
            "const {}: pod.Container = {container};\n",
            service.constant
        ));
    }
    if consts.contains("variables([") {
        text.push_str(VARIABLES);
    }
    text.push_str(&consts);
    text.push_str(&format!(
        "\nconst app = new Pod({});\n\nawait runtime.Run(app);\n",
        pod.written()
    ));
    text
}

fn pod(
    project: &str,
    services: &[Service],
    volumes: Vec<Expression>,
    notes: &mut Notes,
) -> Expression {
    let mut fields = vec![("name".to_owned(), Expression::Text(project.to_owned()))];
    let mut put = |name: &str, value: Expression| fields.push((name.to_owned(), value));
    let of = |init: bool| {
        let services = services
            .iter()
            .filter(move |service| service.is_init == init);
        let names = services.map(|service| Expression::Code(named(service)));
        names.collect::<Vec<_>>()
    };
    let inits = of(true);
    if !inits.is_empty() {
        put("initContainers", Expression::List(inits));
    }
    put("containers", Expression::List(of(false)));
    if !volumes.is_empty() {
        put("volumes", Expression::List(volumes));
    }
    put(
        "restartPolicy",
        Expression::Text(restart(services, notes).to_owned()),
    );
    let times = services
        .iter()
        .filter_map(|service| service.of_pod.grace.as_deref());
    let times = times.filter_map(|text| Some((text::time(text)?, text)));
    if let Some((_, longest)) = times.max() {
        put("stopGrace", Expression::Text(longest.to_owned()));
    }
    let hostnames: BTreeSet<_> = services
        .iter()
        .filter_map(|service| service.of_pod.hostname.as_deref())
        .collect();
    match hostnames.into_iter().collect::<Vec<_>>().as_slice() {
        [] => {}
        [one] => put("hostname", Expression::Text((*one).to_owned())),
        several => {
            let several = several.join(", ");
            notes.add(format!(
                "hostname: {several}: a pod has one; each is a name in /etc/hosts"
            ));
        }
    }
    let ports = ports(services);
    if !ports.is_empty() {
        let network = vec![("ports".to_owned(), Expression::List(ports))];
        put("network", Expression::Object(network));
    }
    let hosts = hosts(services);
    if !hosts.is_empty() {
        put("hostAliases", Expression::List(hosts));
    }
    Expression::Object(fields)
}

/// A service in the pod's list; one of a profile is there where the profile is among the arguments.
fn named(service: &Service) -> String {
    let name = &service.constant;
    match asked_for(service) {
        None => name.clone(),
        Some(asked) => format!("...({asked} ? [{name}] : [])"),
    }
}

/// Whether a profile of the service is among the arguments. `None`: it has none, and is always
/// there.
fn asked_for(service: &Service) -> Option<String> {
    let profiles = service.of_pod.profiles.iter();
    let asked = profiles.map(|it| format!("args.includes({})", super::write::quoted(it)));
    let asked = asked.collect::<Vec<_>>().join(" || ");
    (!asked.is_empty()).then_some(asked)
}

/// Ports of the node, of the services that are there.
fn ports(services: &[Service]) -> Vec<Expression> {
    let of_service = |service: &Service| {
        let ports = service.of_pod.ports.clone();
        match asked_for(service) {
            Some(asked) if !ports.is_empty() => {
                let ports = Expression::List(ports).written();
                vec![Expression::Code(format!("...({asked} ? {ports} : [])"))]
            }
            _ => ports,
        }
    };
    services.iter().flat_map(of_service).collect()
}

/// The policy of all containers: of a sidecar it says nothing, since those are always restarted.
fn restart(services: &[Service], notes: &mut Notes) -> &'static str {
    let asked = services.iter().filter(|service| !service.is_init);
    let asked: Vec<_> = asked
        .map(|service| (service.of_pod.restart, &service.name))
        .collect();
    let of = |policy: &str| asked.iter().any(|(restart, _)| *restart == policy);
    let policies = ["always", "on_failure", "never"];
    let chosen = policies
        .into_iter()
        .find(|policy| of(policy))
        .unwrap_or("never");
    let others = asked.iter().filter(|(restart, _)| *restart != chosen);
    for (restart, name) in others {
        notes.add(format!(
            "services.{name}.restart: a pod has one policy for all: not {restart}"
        ));
    }
    chosen
}

/// Names by which the services find each other, all in one network, and those of others.
fn hosts(services: &[Service]) -> Vec<Expression> {
    let alias = |ip: &str, names: Vec<String>| {
        let names = Expression::texts(names);
        Expression::Object(vec![
            ("ip".to_owned(), Expression::Text(ip.to_owned())),
            ("names".to_owned(), names),
        ])
    };
    let mut own: Vec<String> = Vec::new();
    if services.len() > 1 {
        own.extend(services.iter().map(|service| service.name.clone()));
    }
    for service in services {
        own.extend(service.of_pod.aliases.iter().cloned());
        own.extend(
            service
                .of_pod
                .hostname
                .iter()
                .filter(|_| services.len() > 1)
                .cloned(),
        );
    }
    let mut seen = BTreeSet::new();
    own.retain(|name| seen.insert(name.clone()));
    let mut others: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, ip) in services.iter().flat_map(|service| &service.of_pod.hosts) {
        let names = others.entry(ip).or_default();
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let own = (!own.is_empty()).then(|| alias("127.0.0.1", own));
    own.into_iter()
        .chain(others.into_iter().map(|(ip, names)| alias(ip, names)))
        .collect()
}
