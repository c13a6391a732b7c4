// SPDX-License-Identifier: Apache-2.0
//! One service of a Compose file: a container of the pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::depends::Waited;
use super::fields::{Fields, Notes, plain, scalar};
use super::ports::ports;
use super::text::{bytes, label, millis_of_cpu, unique, words};
use super::variables::Variables;
use super::volumes::Volumes;
use super::{probe, rights};
use crate::import::NotImported;
use crate::import::write::{Expression, quoted};

type Result<T> = std::result::Result<T, NotImported>;

/// What a service asks of its pod.
#[derive(Debug, Default)]
pub(super) struct OfPod {
    /// `always`, `on_failure`, `never`.
    pub(super) restart: &'static str,
    pub(super) grace: Option<String>,
    pub(super) hostname: Option<String>,
    /// Names and addresses of others.
    pub(super) hosts: Vec<(String, String)>,
    /// Names of its own on the project's networks.
    pub(super) aliases: Vec<String>,
    pub(super) profiles: Vec<String>,
    /// Ports of the node.
    pub(super) ports: Vec<Expression>,
}

/// What is shared by all services.
pub(super) struct Around<'a, 'b> {
    pub(super) project: &'b str,
    pub(super) variables: &'b mut Variables,
    pub(super) volumes: &'b mut Volumes<'a>,
    /// Names of containers.
    pub(super) taken: &'b mut BTreeSet<String>,
}

/// A container's fields, in the order in which they are written.
#[derive(Default)]
pub(super) struct Made(Vec<(String, Expression)>);

impl Made {
    pub(super) fn put(&mut self, name: &str, value: Expression) {
        self.0.push((name.to_owned(), value));
    }

    pub(super) fn some(&mut self, name: &str, value: Option<Expression>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    pub(super) fn list(&mut self, name: &str, items: Vec<Expression>) {
        if !items.is_empty() {
            self.put(name, Expression::List(items));
        }
    }

    pub(super) fn flag(&mut self, name: &str, flag: bool) {
        if flag {
            self.put(name, Expression::Flag(true));
        }
    }
}

/// The container of a service, and what it asks of the pod.
pub(super) fn container(
    name: &str,
    mut service: Fields,
    waited: Option<Waited>,
    around: &mut Around<'_, '_>,
    notes: &mut Notes,
) -> Result<(Expression, OfPod)> {
    let mut made = Made::default();
    let called = unique(around.taken, &label(name), "-");
    if called != name {
        notes.add(format!("{name}: the container is called {called}"));
    }
    made.put("name", Expression::Text(called));
    image(name, &mut service, &mut made, around, notes)?;
    command(&mut service, &mut made, around.variables)?;
    let env = environment(&mut service, around.variables, notes)?;
    made.some("env", env);
    made.some("cwd", service.text("working_dir", around.variables)?);
    user(&mut service, &mut made, around.variables, notes)?;
    let mounts = around
        .volumes
        .mounts(&mut service, around.variables, notes)?;
    made.list("mounts", mounts);
    made.some("resources", resources(&mut service, notes)?);
    probes(&mut service, &mut made, waited, notes)?;
    if waited.is_some_and(|waited| !waited.ended) {
        made.put("sidecar", Expression::Flag(true));
    }
    rights::rights(&mut service, &mut made, notes)?;
    made.some("stopSignal", service.text("stop_signal", around.variables)?);
    let mut of_pod = of_pod(&mut service, around.variables, notes)?;
    of_pod.ports = ports(&mut service, around.project, notes)?;
    silent(&mut service);
    service.end("", notes);
    Ok((Expression::Object(made.0), of_pod))
}

fn image(
    name: &str,
    service: &mut Fields,
    made: &mut Made,
    around: &mut Around<'_, '_>,
    notes: &mut Notes,
) -> Result<()> {
    match service.text("image", around.variables)? {
        Some(image) => made.put("image", image),
        None => {
            let image = format!("{}-{name}", around.project);
            notes.add(format!(
                "image: none is named; {image} is what Compose calls what it builds"
            ));
            made.put("image", Expression::Text(image));
        }
    }
    let pull = service.plain("pull_policy", notes)?;
    match pull.as_deref() {
        None => {}
        Some("always") => made.put("pull", Expression::Text("always".to_owned())),
        Some("never") => made.put("pull", Expression::Text("never".to_owned())),
        Some("missing" | "if_not_present") => {
            made.put("pull", Expression::Text("if_not_present".to_owned()));
        }
        Some(other) => notes.add(format!("pull_policy {other}: a node has no such policy")),
    }
    Ok(())
}

fn command(service: &mut Fields, made: &mut Made, variables: &mut Variables) -> Result<()> {
    for (field, ours) in [("entrypoint", "entrypoint"), ("command", "args")] {
        let path = service.path(field);
        let words = match service.take(field) {
            None => continue,
            Some(Value::Array(items)) => {
                let items = items.into_iter();
                items
                    .map(|item| scalar(item, &path))
                    .collect::<Result<_>>()?
            }
            Some(line) => words(&scalar(line, &path)?),
        };
        let words = words.iter().map(|word| match ours {
            "args" => variables.expanded(word),
            _ => variables.text(word),
        });
        made.list(ours, words.collect());
    }
    Ok(())
}

/// A list of variables; where files have some, what reads them.
fn environment(
    service: &mut Fields,
    variables: &mut Variables,
    notes: &mut Notes,
) -> Result<Option<Expression>> {
    let mut own = Vec::new();
    for (name, value) in service.pairs("environment")? {
        let value = match value {
            Some(value) => variables.expanded(&value),
            // Taken from the shell of who calls Compose.
            None => Expression::Code(variables.of(&name, None)),
        };
        own.push((name, value));
    }
    let path = service.path("env_file");
    let files = match service.take("env_file") {
        None => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(one) => vec![one],
    };
    let mut texts = Vec::new();
    for file in files {
        let file = match file {
            Value::Object(_) => {
                let mut long = Fields::of(file, &path)?;
                let file = long.plain("path", notes)?.unwrap_or_default();
                if long.plain("required", notes)?.as_deref() == Some("false") {
                    notes.add(format!(
                        "env_file {file}: must be there, or leave it out here"
                    ));
                }
                long.end("env_file.", notes);
                file
            }
            short => plain(&scalar(short, &path)?, "env_file", notes),
        };
        if file.starts_with(['/', '~']) {
            notes.add(format!(
                "env_file {file}: a program reads no file outside of its folder"
            ));
        } else {
            texts.push(Expression::Code(format!(
                "await file.readText({})",
                quoted(&file)
            )));
        }
    }
    if !texts.is_empty() {
        let (files, own) = (Expression::List(texts), Expression::Object(own));
        let call = format!("variables({}, {})", files.written(), own.written());
        return Ok(Some(Expression::Code(call)));
    }
    let own = own.into_iter().map(|(name, value)| {
        let name = ("name".to_owned(), Expression::Text(name));
        Expression::Object(vec![name, ("value".to_owned(), value)])
    });
    let own: Vec<_> = own.collect();
    Ok((!own.is_empty()).then_some(Expression::List(own)))
}

fn user(
    service: &mut Fields,
    made: &mut Made,
    variables: &mut Variables,
    notes: &mut Notes,
) -> Result<()> {
    if let Some(raw) = service.raw("user")? {
        // Behind a variable's own colon there is no group.
        let split = raw.split_once(':').filter(|_| !raw.contains('$'));
        match split {
            Some((user, group)) => {
                made.put("user", Expression::Text(user.to_owned()));
                made.put("group", Expression::Text(group.to_owned()));
            }
            None => made.put("user", variables.text(&raw)),
        }
    }
    let groups = service.list("group_add")?;
    if !groups.is_empty() {
        notes.add("group_add: a pod has `groups` for all of its containers");
    }
    Ok(())
}

fn resources(service: &mut Fields, notes: &mut Notes) -> Result<Option<Expression>> {
    let mut deploy = service.object("deploy")?;
    let mut both = deploy.object("resources")?;
    let mut made = Made::default();
    for (field, ours, cpus, memory) in [
        ("reservations", "Request", "", "mem_reservation"),
        ("limits", "Limit", "cpus", "mem_limit"),
    ] {
        let mut of = both.object(field)?;
        let mut either = |new: &str, old: &str| -> Result<Option<String>> {
            let new = of.plain(new, notes)?;
            let old = if old.is_empty() {
                None
            } else {
                service.plain(old, notes)?
            };
            Ok(new.or(old))
        };
        let (cpus, memory) = (either("cpus", cpus)?, either("memory", memory)?);
        of.end(&format!("deploy.resources.{field}."), notes);
        if let Some(cpus) = cpus {
            match millis_of_cpu(&cpus) {
                Some(millis) => {
                    made.put(&format!("cpu{ours}Millis"), Expression::Number(millis));
                }
                None => notes.add(format!("cpus {cpus}: is no number of CPUs")),
            }
        }
        if let Some(memory) = memory {
            match bytes(&memory) {
                Some(bytes) => made.put(&format!("memory{ours}Bytes"), Expression::Number(bytes)),
                None => notes.add(format!("memory {memory}: is no number of bytes")),
            }
        }
    }
    both.end("deploy.resources.", notes);
    let replicas = deploy.plain("replicas", notes)?;
    if let Some(count) = replicas.filter(|count| count != "1") {
        notes.add(format!(
            "deploy.replicas {count}: there is one of each service in a pod"
        ));
    }
    deploy.known(&["restart_policy"]);
    deploy.end("deploy.", notes);
    Ok((!made.0.is_empty()).then_some(Expression::Object(made.0)))
}

/// What a healthcheck is for: readiness, and the start where another service waits for it. A
/// container that runs to its end has none.
fn probes(
    service: &mut Fields,
    made: &mut Made,
    waited: Option<Waited>,
    notes: &mut Notes,
) -> Result<()> {
    let healthy = waited.is_some_and(|waited| waited.healthy);
    match probe::of(service.object("healthcheck")?, notes)? {
        Some(_) if waited.is_some_and(|waited| waited.ended) => {
            notes.add("healthcheck: what runs to its end before others begin is asked nothing");
        }
        Some(probe) => {
            if healthy {
                made.put("startup", probe.clone());
            }
            made.put("readiness", probe);
        }
        None if healthy => {
            notes.add("depends_on: service_healthy asks for a healthcheck, and there is none here");
        }
        None => {}
    }
    Ok(())
}

fn of_pod(service: &mut Fields, variables: &mut Variables, notes: &mut Notes) -> Result<OfPod> {
    let restart = service.plain("restart", notes)?.unwrap_or_default();
    let (restart, count) = match restart.split_once(':') {
        Some((restart, count)) => (restart.to_owned(), Some(count.to_owned())),
        None => (restart, None),
    };
    if let Some(count) = count {
        notes.add(format!(
            "restart: {count} times: a pod goes on, each time after a longer pause"
        ));
    }
    let mut hosts = Vec::new();
    let given = match service.take("extra_hosts") {
        Some(Value::Array(items)) => {
            let path = service.path("extra_hosts");
            let items = items.into_iter().map(|item| scalar(item, &path));
            let split = |text: String| {
                let parts = text.split_once('=').or_else(|| text.split_once(':'));
                parts.map(|(name, ip)| (name.to_owned(), ip.to_owned()))
            };
            items
                .map(|text| Ok(split(text?)))
                .collect::<Result<Vec<_>>>()?
        }
        Some(of) => {
            let of = Fields::of(of, "extra_hosts")?.entries();
            of.map(|(name, ip)| Some((name, ip.as_str()?.to_owned())))
                .collect()
        }
        None => Vec::new(),
    };
    for (name, ip) in given.into_iter().flatten() {
        match ip.parse::<std::net::IpAddr>() {
            Ok(_) => hosts.push((name, ip)),
            Err(_) => notes.add(format!("extra_hosts {name}: {ip} is no address")),
        }
    }
    let profiles = service.list("profiles")?;
    let hostname = service.plain("hostname", notes)?;
    let grace = service.plain("stop_grace_period", notes)?;
    Ok(OfPod {
        restart: match restart.as_str() {
            "always" | "unless-stopped" => "always",
            "on-failure" => "on_failure",
            _ => "never",
        },
        grace,
        hostname,
        hosts,
        aliases: aliases(service, variables, notes)?,
        profiles,
        ports: Vec::new(),
    })
}

/// Names that a service has on its networks.
fn aliases(
    service: &mut Fields,
    variables: &mut Variables,
    notes: &mut Notes,
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    // A list names networks alone: there is one.
    if let Some(Value::Object(networks)) = service.take("networks") {
        for (network, said) in networks {
            let mut said = Fields::of(said, &network)?;
            names.extend(said.list("aliases")?);
            said.end(&format!("networks.{network}."), notes);
        }
    }
    // `db:database`: another name for a service.
    for link in service.list("links")? {
        names.extend(link.split_once(':').map(|(_, alias)| alias.to_owned()));
    }
    if let Some(variable) = names.iter().find(|name| name.contains('$')) {
        variables.of(variable.trim_matches(['$', '{', '}']), None);
    }
    Ok(names)
}

/// What changes nothing: a pod does so, or it is for Compose alone.
fn silent(service: &mut Fields) {
    service.known(&["expose", "init", "attach", "annotations", "external_links"]);
    // Those of a service are notes for other programs.
    service.known(&["labels", "label_file"]);
}
