// SPDX-License-Identifier: Apache-2.0
//! The commands: a file each, with their flags, their help and what they do.

pub(crate) mod apply;
pub(crate) mod attach;
pub(crate) mod cell;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod cp;
pub(crate) mod declaring;
pub(crate) mod exec;
pub(crate) mod fmt;
pub(crate) mod identity;
pub(crate) mod inspect;
pub(crate) mod kill;
pub(crate) mod logs;
pub(crate) mod lsp;
pub(crate) mod man;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod ps;
pub(crate) mod repl;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod saved;
pub(crate) mod script;
pub(crate) mod set;
mod started;
pub(crate) mod stop;
pub(crate) mod tenant;
pub(crate) mod top;
pub(crate) mod types;
pub(crate) mod version;
pub(crate) mod wait;

use std::future::Future;

use api::runtime::v0::{ListResponse, Object};

use crate::failure::{FAILED, Failure};
use crate::output::{Format, path, print_line, print_message};
use crate::session::Session;

/// Does what was asked for; the exit status.
pub(crate) async fn dispatch(args: Args) -> Result<u8, Failure> {
    let global = &args.global;
    let Some(command) = args.command else {
        return script::without_command(global, &args.program, args.code).await;
    };
    // These need no node, or ask for one by themselves.
    match &command {
        Command::Program(words) => {
            return script::run(global, &args.program, args.code, words).await;
        }
        Command::Config(args) => return config::run(global, args),
        Command::Completion(args) => return completion::run(args),
        Command::Man(args) => return man::run(args),
        Command::Version(args) => return version::run(global, args).await,
        Command::Identity(args) if args.is_offline() => return identity::run_offline(args),
        Command::Check(args) => return check::run(global, args),
        Command::Plan(args) => return plan::run(global, args).await,
        Command::Apply(args) => return apply::run(global, args).await,
        Command::Set(args) => return set::run(global, args).await,
        Command::Fmt(args) => return fmt::run(global, args),
        Command::Types(args) => return types::run(args),
        Command::Lsp(_) => return lsp::run(),
        _ => {}
    }
    let attached = matches!(
        command,
        Command::Run(_) | Command::Exec(_) | Command::Attach(_)
    );
    let session = Session::open(global)
        .await
        .map_err(|failure| match attached {
            true => failure.with_status(crate::failure::AURAE_FAILED),
            false => failure,
        })?;
    on_node(&session, command).await
}

async fn on_node(session: &Session, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => run::run(session, &args).await,
        Command::Exec(args) => exec::run(session, &args).await,
        Command::Attach(args) => attach::run(session, &args).await,
        Command::Ps(args) => ps::run(session, &args).await,
        Command::Logs(args) => logs::run(session, &args).await,
        Command::Stop(args) => stop::run(session, &args).await,
        Command::Kill(args) => kill::run(session, &args).await,
        Command::Wait(args) => wait::run(session, &args).await,
        Command::Rm(args) => rm::run(session, &args).await,
        Command::Inspect(args) => inspect::run(session, &args).await,
        Command::Top(args) => top::run(session, &args).await,
        Command::Cell(args) => cell::run(session, &args).await,
        Command::Identity(args) => identity::run(session, &args).await,
        Command::Node(args) => node::run(session, &args).await,
        Command::Tenant(args) => tenant::run(session, &args).await,
        // `dispatch` has done the others.
        _ => Ok(0),
    }
}

/// Does the same with each name, all at once; every failure is told, and one is enough for status
/// 1.
async fn for_each<'a, F, T>(
    session: &Session,
    names: &'a [String],
    action: impl Fn(&'a str) -> F,
) -> (Vec<T>, u8)
where
    F: Future<Output = Result<T, Failure>>,
{
    let results = futures_util::future::join_all(names.iter().map(|name| action(name))).await;
    let mut done = Vec::new();
    let mut status = 0;
    for result in results {
        match result {
            Ok(value) => done.push(value),
            Err(failure) => {
                failure.report(session.err_style);
                status = FAILED;
            }
        }
    }
    (done, status)
}

/// Prints objects that were changed: their names for people, themselves for programs.
fn print_changed(format: Format, objects: Vec<Object>) -> Result<(), Failure> {
    match (format.is_machine(), objects.as_slice()) {
        (true, [object]) => print_message(format, object),
        (true, _) => {
            let list = ListResponse {
                objects,
                ..Default::default()
            };
            print_message(format, &list)
        }
        (false, objects) => objects
            .iter()
            .try_for_each(|object| print_line(&path(object))),
    }
}
