// SPDX-License-Identifier: Apache-2.0
//! `aurae config`: contexts, as kubectl has them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Subcommand;
use client::config::{ContextEntry, NodeEntry, UserEntry};
use client::{Address, Config};

use crate::failure::Failure;
use crate::global::Global;
use crate::output::{Style, Table, note, print, print_line};
use crate::spec::parse_pair;

const EXAMPLES: &str = "\
Examples:
  aurae config set-context home --address unix:///run/aurae/aurae.sock --ca ca.pem \\
      --certificate me.pem --key me.key --current
  aurae config get-contexts
  aurae --node home ps                                    for one command alone";

/// `aurae config`.
#[derive(Clone, Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ConfigCommand {
    /// List the contexts
    #[command(after_help = "Examples:\n  aurae config get-contexts")]
    GetContexts,
    /// Print the name of the current context
    #[command(after_help = "Examples:\n  aurae config current-context")]
    CurrentContext,
    /// Use another context from now on
    #[command(after_help = "Examples:\n  aurae config use-context home")]
    UseContext(NameArg),
    /// Create or change a context
    SetContext(Box<SetArgs>),
    /// Remove a context, and its node and user where no other context has them
    #[command(after_help = "Examples:\n  aurae config delete-context home")]
    DeleteContext(NameArg),
    /// Print the configuration, and where it is
    #[command(
        after_help = "Examples:\n  aurae config view\n  AURAE_CONFIG=lab.toml aurae config view"
    )]
    View,
}

#[derive(Clone, Debug, clap::Args)]
struct NameArg {
    /// The context's name
    #[arg(value_name = "CONTEXT")]
    name: String,
}

const SET_EXAMPLES: &str = "\
Examples:
  aurae config set-context home --address https://[2001:db8::1]:9401 --ca ca.pem \\
      --certificate me.pem --key me.key --id spiffe://home.example/node/home
  aurae config set-context home --context-tenant blue
  aurae config set-context home --label role=web --label zone-

Paths are kept absolute. Comments in the file are not kept.";

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = SET_EXAMPLES)]
struct SetArgs {
    /// The context's name
    #[arg(value_name = "CONTEXT")]
    name: String,
    /// Where its node listens: unix:///PATH or https://HOST:PORT
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Address>,
    /// The CA that the node's certificate comes from (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The SPIFFE ID that the node must have
    #[arg(long, value_name = "SPIFFE-ID")]
    id: Option<String>,
    /// The trust domain that the node must belong to
    #[arg(long, value_name = "DOMAIN")]
    trust_domain: Option<String>,
    /// Your certificate (PEM)
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Your private key (PEM)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The tenant whose objects are meant, instead of your own
    #[arg(long, value_name = "TENANT")]
    context_tenant: Option<String>,
    /// A label, by which a program's nodes("KEY=VALUE") finds it; KEY- takes one away
    #[arg(short, long, value_name = "KEY=VALUE|KEY-", value_parser = parse_label)]
    label: Vec<(String, Option<String>)>,
    /// Use it from now on
    #[arg(long)]
    current: bool,
}

/// A label to set, or the key of one to take away, as in kubectl.
fn parse_label(text: &str) -> Result<(String, Option<String>), String> {
    match text.strip_suffix('-') {
        Some(key) if !key.is_empty() && !key.contains('=') => Ok((key.to_owned(), None)),
        _ => parse_pair(text).map(|(key, value)| (key, Some(value))),
    }
}

/// Shows or changes the contexts in the configuration file.
pub(crate) fn run(global: &Global, args: &ConfigArgs) -> Result<u8, Failure> {
    let mut config = Config::load(&Config::default_path())?;
    match &args.command {
        ConfigCommand::GetContexts => get_contexts(global, &config)?,
        ConfigCommand::CurrentContext => match &config.current_context {
            Some(name) => print_line(name)?,
            None => return Err(none_is_current()),
        },
        ConfigCommand::UseContext(args) => {
            // Says what there is when it isn't there.
            config.target(Some(&args.name))?;
            config.current_context = Some(args.name.clone());
            config.save()?;
        }
        ConfigCommand::SetContext(args) => {
            set(&mut config, args)?;
            config.save()?;
        }
        ConfigCommand::DeleteContext(args) => {
            delete(&mut config, &args.name)?;
            config.save()?;
        }
        ConfigCommand::View => view(&config)?,
    }
    Ok(0)
}

fn none_is_current() -> Failure {
    Failure::new("no context is set: the local node is used, as its administrator")
        .with_hint("`aurae config use-context NAME` sets one")
}

fn get_contexts(global: &Global, config: &Config) -> Result<(), Failure> {
    if config.contexts.is_empty() {
        note(&format!(
            "no context is configured in {}; the local node is used",
            config.file().display()
        ));
        return Ok(());
    }
    let mut table = Table::new(&["CURRENT", "NAME", "ADDRESS", "USER", "TENANT", "LABELS"]);
    for (name, context) in &config.contexts {
        let current = config.current_context.as_ref() == Some(name);
        let address = config
            .nodes
            .get(&context.node)
            .map(|node| node.address.to_string());
        table.push(vec![
            if current { "*" } else { "" }.into(),
            name.into(),
            address.unwrap_or_default().into(),
            context.user.as_str().into(),
            context.tenant.as_deref().unwrap_or("-").into(),
            labels(context).into(),
        ]);
    }
    print(&table.render(Style::of(&std::io::stdout(), global.color)))
}

/// As a selector would have them; `-` where there are none.
fn labels(context: &ContextEntry) -> String {
    let labels = context.labels.iter();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if labels.is_empty() {
        return "-".to_owned();
    }
    labels.join(",")
}

fn view(config: &Config) -> Result<(), Failure> {
    note(&format!("# {}", config.file().display()));
    print(&config.to_toml()?)
}

/// A context's node and user have its own name, unless it was written by hand to share them.
fn set(config: &mut Config, args: &SetArgs) -> Result<(), Failure> {
    let context = config
        .contexts
        .entry(args.name.clone())
        .or_insert_with(|| ContextEntry {
            node: args.name.clone(),
            user: args.name.clone(),
            tenant: None,
            labels: BTreeMap::new(),
        });
    for (key, value) in &args.label {
        match value {
            Some(value) => context.labels.insert(key.clone(), value.clone()),
            None => context.labels.remove(key),
        };
    }
    if let Some(tenant) = &args.context_tenant {
        context.tenant = Some(tenant.clone()).filter(|tenant| !tenant.is_empty());
    }
    let (node, user) = (context.node.clone(), context.user.clone());
    set_node(config, node, args)?;
    set_user(config, user, args)?;
    if args.current || config.current_context.is_none() {
        config.current_context = Some(args.name.clone());
    }
    Ok(())
}

fn set_node(config: &mut Config, name: String, args: &SetArgs) -> Result<(), Failure> {
    let old = config.nodes.get(&name);
    let address = args
        .address
        .clone()
        .or(old.map(|node| node.address.clone()));
    let entry = NodeEntry {
        address: address.ok_or_else(|| missing("--address"))?,
        ca: chosen(&args.ca, old.map(|node| &node.ca), "--ca")?,
        id: args.id.clone().or(old.and_then(|node| node.id.clone())),
        trust_domain: args
            .trust_domain
            .clone()
            .or(old.and_then(|node| node.trust_domain.clone())),
    };
    config.nodes.insert(name, entry);
    Ok(())
}

fn set_user(config: &mut Config, name: String, args: &SetArgs) -> Result<(), Failure> {
    let old = config.users.get(&name);
    let entry = UserEntry {
        certificate: chosen(
            &args.certificate,
            old.map(|user| &user.certificate),
            "--certificate",
        )?,
        key: chosen(&args.key, old.map(|user| &user.key), "--key")?,
    };
    config.users.insert(name, entry);
    Ok(())
}

/// The file that was given, absolute, or the one that was there.
fn chosen(given: &Option<PathBuf>, old: Option<&PathBuf>, flag: &str) -> Result<PathBuf, Failure> {
    match (given, old) {
        (Some(file), _) => std::fs::metadata(file)
            .and_then(|_| std::path::absolute(file))
            .map_err(|problem| {
                Failure::new(format!("can't read {flag} {}: {problem}", file.display()))
                    .with_hint("the file must be there; nothing was changed")
            }),
        (None, Some(old)) => Ok(old.clone()),
        (None, None) => Err(missing(flag)),
    }
}

fn missing(flag: &str) -> Failure {
    Failure::usage(format!("{flag} is needed for a new context"))
        .with_hint("see `aurae config set-context --help`")
}

fn delete(config: &mut Config, name: &str) -> Result<(), Failure> {
    config.target(Some(name))?;
    let Some(gone) = config.contexts.remove(name) else {
        return Ok(());
    };
    if !config
        .contexts
        .values()
        .any(|context| context.node == gone.node)
    {
        config.nodes.remove(&gone.node);
    }
    if !config
        .contexts
        .values()
        .any(|context| context.user == gone.user)
    {
        config.users.remove(&gone.user);
    }
    if config.current_context.as_deref() == Some(name) {
        config.current_context = None;
    }
    Ok(())
}
