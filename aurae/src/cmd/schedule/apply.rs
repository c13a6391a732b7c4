// SPDX-License-Identifier: Apache-2.0
//! `aurae schedule apply`, `delete` and `undo`: manifests of Kubernetes and crontabs as schedules.
//! What a file means is the model's; here it is read, compared and sent.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use api::convert::schedule::crontab::{self, Place};
use api::convert::schedule::{Manifests, Read, read_manifests, to_name, to_put, to_spec};
use api::schedule::v0::{
    Config, ConfigKind, DeclareRequest, GetConfigRequest, GetRequest, ListConfigsRequest,
    RemoveConfigRequest, RemoveRequest, ScheduleStatus, UndoRequest,
};
use serde::Deserialize;

use super::schedules;
use crate::failure::{FINDINGS, Failure};
use crate::output::{Format, OutputArgs, Table, note, print, print_line, print_message};
use crate::session::{Session, is_not_found};

/// Files of manifests in a folder.
const MANIFESTS: [&str; 3] = ["yaml", "yml", "json"];

/// Of what may be asked twice.
const AGAIN: &str = "again";

/// `aurae schedule apply`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule apply -f deployment.yaml
  aurae schedule apply --dry-run -f manifests/
  aurae schedule apply --crontab -f /var/spool/cron/crontabs/ann

Pod, Deployment, DaemonSet, Job, CronJob, ConfigMap and Secret can be applied. A field that can't be
taken is an error; nothing is changed then.")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    files: Files,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The files are crontabs of a user
    #[arg(long)]
    crontab: bool,
    /// The time zone of a crontab. Default: UTC
    #[arg(long, value_name = "ZONE", requires = "crontab")]
    zone: Option<String>,
}

/// `aurae schedule delete`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae schedule delete -f deployment.yaml")]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    files: Files,
}

/// `aurae schedule undo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  aurae schedule undo web
  aurae schedule undo --to-revision 3 web")]
pub(super) struct UndoArgs {
    /// The revision, as `describe` shows them. Default: the one before
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 0,
        hide_default_value = true
    )]
    to_revision: u64,
    /// The schedule
    #[arg(value_name = "SCHEDULE")]
    name: String,
}

/// `aurae schedule configs`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae schedule configs")]
pub(super) struct ConfigsArgs {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Debug, clap::Args)]
struct Files {
    /// A file, YAML or JSON, or a folder of them; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE|FOLDER", required = true)]
    filename: Vec<PathBuf>,
}

impl Files {
    /// Each file, those of folders in the order of their names.
    fn all(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut all = Vec::new();
        for given in &self.filename {
            if !given.is_dir() {
                all.push(given.clone());
                continue;
            }
            let failed = |e| Failure::new(format!("{}: {e}", given.display()));
            let mut inside = Vec::new();
            for entry in std::fs::read_dir(given).map_err(failed)? {
                inside.push(entry.map_err(failed)?.path());
            }
            let of_kind = |path: &PathBuf| {
                let end = path.extension().and_then(|it| it.to_str());
                end.is_some_and(|it| MANIFESTS.contains(&it)) && path.is_file()
            };
            inside.retain(of_kind);
            inside.sort();
            all.extend(inside);
        }
        Ok(all)
    }

    fn read(&self) -> Result<Manifests, Failure> {
        let mut documents = Vec::new();
        for file in self.all()? {
            let text = text(&file)?;
            for document in serde_yaml_ng::Deserializer::from_str(&text) {
                let document = serde_json::Value::deserialize(document);
                let failed = |e| Failure::new(format!("{}: {e}", file.display()));
                documents.push(document.map_err(failed)?);
            }
        }
        read_manifests(documents).map_err(|problems| refused(&problems))
    }
}

fn text(file: &Path) -> Result<String, Failure> {
    let failed = |e: std::io::Error| Failure::new(format!("{}: {e}", file.display()));
    if file.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).map_err(failed)
}

fn refused(problems: &[impl std::fmt::Display]) -> Failure {
    for problem in problems {
        note(&problem.to_string());
    }
    let message = match problems.len() {
        1 => "a field can't be taken".to_owned(),
        count => format!("{count} fields can't be taken"),
    };
    Failure::new(message)
        .with_status(FINDINGS)
        .with_hint("change them or leave them out; nothing was changed")
}

/// A namespace is what Aurae calls a tenant; `default` is the session's own.
fn tenant(session: &Session, namespace: &str) -> String {
    match namespace {
        "" | "default" => session.tenant(),
        other => other.to_owned(),
    }
}

/// What names a namespace beside a tenant that was asked for is refused, as by kubectl.
fn of_one_tenant(session: &Session, all: Manifests) -> Result<Manifests, Failure> {
    if let Ok(tenant) = session.tenant().parse() {
        all.only_in(&tenant)
            .map_err(|problems| refused(&problems))?;
    }
    Ok(all)
}

/// Applies files.
pub(super) async fn apply(session: &Session, args: &ApplyArgs) -> Result<u8, Failure> {
    let all = match args.crontab {
        true => crontabs(&args.files, args.zone.as_deref().unwrap_or_default())?,
        false => of_one_tenant(session, args.files.read()?)?,
    };
    // What is in the way of one is told before another is changed.
    let mut known = Vec::new();
    for read in &all.schedules {
        let there = there(session, read).await?;
        if let Some(there) = &there {
            same_kind(read, there)?;
        }
        known.push(there);
    }
    let dry = if args.dry_run { " (dry run)" } else { "" };
    for read in &all.configs {
        let request = to_put(tenant(session, &read.namespace), read);
        let before = generation(session, &request).await?;
        let after = match args.dry_run {
            true => None,
            false => {
                let put = async |node: &client::Node| {
                    schedules(node)
                        .put_config(node.unary(request.clone()))
                        .await
                };
                Some(session.ask(put).await?.generation)
            }
        };
        let word = match (before, after) {
            (None, _) => "created",
            (Some(before), Some(after)) if before == after => "unchanged",
            (Some(_), _) => "configured",
        };
        let kind = read.config.kind.word().to_lowercase();
        print_line(&format!("{kind}/{} {word}{dry}", read.config.name))?;
    }
    for (read, there) in all.schedules.iter().zip(known) {
        let spec = to_spec(read.name.as_str(), &read.spec);
        let word = match &there {
            None => "created",
            Some(there) if there.spec.as_ref() == Some(&spec) => "unchanged",
            Some(_) => "configured",
        };
        if !args.dry_run {
            let request = DeclareRequest {
                tenant: tenant(session, &read.namespace),
                name: read.name.to_string(),
                spec: Some(spec),
            };
            let declare = async |node: &client::Node| {
                schedules(node).declare(node.unary(request.clone())).await
            };
            session.ask(declare).await?;
        }
        let kind = read.spec.kind.to_lowercase();
        print_line(&format!("{kind}/{} {word}{dry}", read.name))?;
    }
    Ok(0)
}

/// Users' crontabs; each command in a cell of its own.
fn crontabs(files: &Files, zone: &str) -> Result<Manifests, Failure> {
    let mut all = Manifests::default();
    for file in files.all()? {
        let text = text(&file)?;
        let stem = file.file_stem().and_then(|it| it.to_str());
        let stem = stem.filter(|it| *it != "-").unwrap_or("crontab");
        let lines = crontab::read(&text, false, zone).map_err(|problems| {
            let shown = file.display();
            let problems: Vec<_> = problems.iter().map(|it| format!("{shown}: {it}")).collect();
            refused(&problems)
        })?;
        for line in lines {
            if line.env.contains_key("MAILTO") {
                note("nothing is mailed: `aurae schedule logs` shows what a command has printed");
            }
            let failed = |e: &dyn std::fmt::Display| {
                Failure::new(format!("{}: line {}: {e}", file.display(), line.number))
            };
            all.schedules.push(Read {
                name: line.name(stem).map_err(|e| failed(&e))?,
                namespace: String::new(),
                spec: line.spec(&Place::Cell).map_err(|e| failed(&e))?,
            });
        }
    }
    Ok(all)
}

async fn there(session: &Session, read: &Read) -> Result<Option<ScheduleStatus>, Failure> {
    let request = GetRequest {
        tenant: tenant(session, &read.namespace),
        name: read.name.to_string(),
    };
    let get = async |node: &client::Node| schedules(node).get(node.unary(request.clone())).await;
    found(session.ask_with(AGAIN, get).await)
}

/// How often a config was put.
async fn generation(
    session: &Session,
    put: &api::schedule::v0::PutConfigRequest,
) -> Result<Option<u64>, Failure> {
    let request = GetConfigRequest {
        tenant: put.tenant.clone(),
        kind: put.kind,
        name: put.name.clone(),
        ..Default::default()
    };
    let get = async |node: &client::Node| {
        schedules(node)
            .get_config(node.unary(request.clone()))
            .await
    };
    Ok(found(session.ask_with(AGAIN, get).await)?.map(|it| it.generation))
}

fn found<T>(answer: Result<T, client::Error>) -> Result<Option<T>, Failure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(problem) if is_not_found(&problem) => Ok(None),
        Err(problem) => Err(problem.into()),
    }
}

/// A name is of one schedule, whatever it was made from.
fn same_kind(read: &Read, there: &ScheduleStatus) -> Result<(), Failure> {
    let kind = there.spec.as_ref().map(|it| it.kind.as_str());
    let kind = kind.unwrap_or_default();
    if kind == read.spec.kind {
        return Ok(());
    }
    let what = match kind {
        "" => "something else than a manifest".to_owned(),
        kind => format!("a {kind}"),
    };
    let message = format!(
        "there is a schedule {} already, made from {what}",
        read.name
    );
    let hint = format!(
        "remove it first, or give the {} another name",
        read.spec.kind
    );
    Err(Failure::new(message).with_hint(hint))
}

/// Removes what files name.
pub(super) async fn delete(session: &Session, args: &DeleteArgs) -> Result<u8, Failure> {
    let all = of_one_tenant(session, args.files.read()?)?;
    for read in &all.schedules {
        let request = RemoveRequest {
            tenant: tenant(session, &read.namespace),
            name: read.name.to_string(),
        };
        let remove = async |node: &client::Node| {
            let request = node.within(request.clone(), super::change::LONGEST);
            schedules(node).remove(request).await
        };
        let word = match found(session.ask_with(AGAIN, remove).await)? {
            Some(_) => "deleted",
            None => "was not there",
        };
        let kind = read.spec.kind.to_lowercase();
        print_line(&format!("{kind}/{} {word}", read.name))?;
    }
    for read in &all.configs {
        let (kind, name) = to_name(&read.config);
        let request = RemoveConfigRequest {
            tenant: tenant(session, &read.namespace),
            kind: kind.into(),
            name,
        };
        let remove = async |node: &client::Node| {
            schedules(node)
                .remove_config(node.unary(request.clone()))
                .await
        };
        let word = match found(session.ask_with(AGAIN, remove).await)? {
            Some(_) => "deleted",
            None => "was not there",
        };
        let kind = read.config.kind.word().to_lowercase();
        print_line(&format!("{kind}/{} {word}", read.config.name))?;
    }
    Ok(0)
}

/// Makes an older revision the wish again.
pub(super) async fn undo(session: &Session, args: &UndoArgs) -> Result<u8, Failure> {
    let request = UndoRequest {
        tenant: session.tenant(),
        name: args.name.clone(),
        revision: args.to_revision,
    };
    // Twice would be back again.
    let mut service = schedules(&session.node);
    let answer = service.undo(session.node.unary(request)).await;
    let status = answer.map_err(client::Error::from)?.into_inner();
    print_line(&format!(
        "{} is at revision {}",
        status.name, status.revision
    ))?;
    Ok(0)
}

fn kind(config: &Config) -> &'static str {
    match config.kind() {
        ConfigKind::Secret => "secret",
        _ => "configmap",
    }
}

/// Lists configs.
pub(super) async fn configs(session: &Session, args: &ConfigsArgs) -> Result<u8, Failure> {
    let request = ListConfigsRequest {
        tenant: session.tenant(),
    };
    let list = async |node: &client::Node| {
        schedules(node)
            .list_configs(node.unary(request.clone()))
            .await
    };
    let answer = session.ask(list).await?;
    if args.output.output.is_machine() {
        print_message(args.output.output, &answer)?;
        return Ok(0);
    }
    if answer.configs.is_empty() {
        note("there are no configs");
        return Ok(0);
    }
    if args.output.output == Format::Name {
        let mut all = answer.configs.iter();
        all.try_for_each(|it| print_line(&format!("{}/{}", kind(it), it.name)))?;
        return Ok(0);
    }
    let mut table = Table::new(&["KIND", "NAME", "KEYS", "GENERATION", "OWNER"]);
    for it in &answer.configs {
        table.push(vec![
            kind(it).into(),
            it.name.as_str().into(),
            it.keys.join(" ").into(),
            it.generation.to_string().into(),
            it.owner.as_str().into(),
        ]);
    }
    print(&table.render(session.style))?;
    Ok(0)
}
