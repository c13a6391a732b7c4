// SPDX-License-Identifier: Apache-2.0
//! Completion of values: a shell asks this binary for the words that may stand at the cursor. The
//! names of objects and users come from the node, those of contexts from the configuration. Where
//! the node does not answer soon, no names are offered.

use std::ffi::OsString;
use std::time::Duration;

use api::identity::v0::ListUsersRequest;
use api::runtime::v0::{Kind, ListRequest};
use clap::{Arg, Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use client::Config;

use crate::args::Args;
use crate::global::Global;
use crate::output::{ColorChoice, path};
use crate::session::Session;

/// The variable by which a shell asks.
pub(crate) const VARIABLE: &str = "AURAE_COMPLETE";
/// How long a shell is kept waiting for a node.
const WITHIN: Duration = Duration::from_secs(1);
/// The most names that are shown.
const NAMES: u32 = 1000;

/// Answers a shell that asks, and ends then; otherwise does nothing.
pub(crate) fn answer() {
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .bin("aurae")
        .complete();
}

/// The command line, with what completes its values.
fn command() -> Command {
    with_values(Args::command())
}

/// By the names of values in the help: they say what a value is.
fn with_values(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command
        .mut_args(|arg| with_candidates(&name, arg))
        .mut_subcommands(with_values)
}

fn with_candidates(command: &str, arg: Arg) -> Arg {
    let Some(value) = arg.get_value_names().and_then(|names| names.first()) else {
        return arg;
    };
    let candidates = match (value.as_str(), command) {
        ("CELL", "exec") => ArgValueCandidates::new(objects),
        ("CELL", _) => ArgValueCandidates::new(cells),
        ("FROM" | "TO", "cp") => ArgValueCandidates::new(places),
        ("NAME", "freeze" | "thaw" | "update") => ArgValueCandidates::new(cells),
        ("NAME", "attach" | "kill" | "logs" | "wait" | "stop" | "rm" | "inspect" | "top") => {
            ArgValueCandidates::new(objects)
        }
        ("CONTEXT" | "CONTEXT|ADDRESS", _) => ArgValueCandidates::new(contexts),
        ("KEY=VALUE|KEY-", "set-context") => ArgValueCandidates::new(labels),
        ("SCHEDULE", _) => ArgValueCandidates::new(schedules),
        ("USER", _) => ArgValueCandidates::new(users),
        _ => return arg,
    };
    arg.add(candidates)
}

fn cells() -> Vec<CompletionCandidate> {
    names(vec![Kind::Cell.into()])
}

fn objects() -> Vec<CompletionCandidate> {
    names(Vec::new())
}

/// The files of a cell, from their root on: files of this machine are the shell's to complete.
fn places() -> Vec<CompletionCandidate> {
    let cells = cells().into_iter();
    cells
        .map(|cell| {
            let mut place = cell.get_value().to_owned();
            place.push(":/");
            CompletionCandidate::new(place)
        })
        .collect()
}

fn names(kinds: Vec<i32>) -> Vec<CompletionCandidate> {
    asked(async |session: &Session| {
        let request = ListRequest {
            tenant: session.tenant(),
            kinds,
            page_size: NAMES,
            ..Default::default()
        };
        let request = session.node.within(request, WITHIN);
        let page = session
            .node
            .runtime()
            .list(request)
            .await
            .ok()?
            .into_inner();
        Some(page.objects.iter().map(path).collect())
    })
}

fn schedules() -> Vec<CompletionCandidate> {
    asked(async |session: &Session| crate::cmd::schedule::names(session, WITHIN).await)
}

fn users() -> Vec<CompletionCandidate> {
    asked(async |session: &Session| {
        let request = ListUsersRequest {
            tenant: session.tenant(),
        };
        let request = session.node.within(request, WITHIN);
        let list = session.node.identity().list_users(request).await.ok()?;
        let users = list.into_inner().users.into_iter();
        Some(users.map(|user| user.name).collect())
    })
}

fn contexts() -> Vec<CompletionCandidate> {
    let config = Config::load(&Config::default_path()).unwrap_or_default();
    config
        .contexts
        .keys()
        .map(CompletionCandidate::new)
        .collect()
}

/// The labels of the other contexts: what a new one probably gets.
fn labels() -> Vec<CompletionCandidate> {
    let config = Config::load(&Config::default_path()).unwrap_or_default();
    let labels = config.labels().into_iter();
    labels.map(CompletionCandidate::new).collect()
}

/// The names that a node answers in time; none, where it doesn't.
fn asked(question: impl AsyncFnOnce(&Session) -> Option<Vec<String>>) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let names = async {
        let session = Session::open(&typed()).await.ok()?;
        question(&session).await
    };
    // The clock is the runtime's.
    let names = runtime.block_on(async { tokio::time::timeout(WITHIN, names).await });
    let names = names.ok().flatten().unwrap_or_default();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The options of every command, as far as they are typed: a node named there is the one to ask.
fn typed() -> Global {
    let words: Vec<OsString> = std::env::args_os().collect();
    let value = |flag: &str| {
        let found = words.iter().enumerate().find_map(|(at, word)| {
            match word.to_str()?.strip_prefix(flag)? {
                "" => words.get(at + 1)?.to_str(),
                joined => joined.strip_prefix('='),
            }
        });
        found.map(str::to_owned)
    };
    Global {
        node: value("--node").or_else(|| std::env::var("AURAE_NODE").ok()),
        tenant: value("--tenant"),
        timeout: Some(WITHIN),
        color: ColorChoice::default(),
    }
}
