// SPDX-License-Identifier: Apache-2.0
//! Runs the command that was typed. Some commands need no node; the others get a session with one.

use clap::CommandFactory;

use crate::args::{Args, Command};
use crate::cmd;
use crate::complete;
use crate::failure::{AURAE_FAILED, Failure};
use crate::global::Global;
use crate::hints;
use crate::session::Session;

/// Runs the command; returns the exit status.
pub(crate) async fn dispatch(args: Args) -> Result<u8, Failure> {
    let global = &args.global;
    let Some(command) = args.command else {
        let help = || Args::command().render_help().to_string();
        return cmd::script::without_command(global, &args.program, args.code, help).await;
    };
    // These need no node, or ask for one by themselves.
    match &command {
        Command::Program(words) => {
            if args.code.is_none() {
                hints::refuse_unknown_command(words)?;
            }
            return cmd::script::run(global, &args.program, args.code, words).await;
        }
        Command::Config(args) => return cmd::config::run(global, args),
        Command::Completion(args) => return cmd::completion::run(args, complete::VARIABLE),
        Command::Man(args) => return cmd::man::run(args, Args::command()),
        Command::Version(args) => return cmd::version::run(global, args).await,
        Command::Identity(args) if args.is_offline() => return cmd::identity::run_offline(args),
        Command::Schedule(args) if args.is_offline() => {
            return cmd::schedule::run_offline(global, args);
        }
        Command::Check(args) => return cmd::check::run(global, args).await,
        Command::Plan(args) => return cmd::plan::run(global, args).await,
        Command::Apply(args) => return cmd::apply::run(global, args).await,
        Command::Set(args) => return cmd::set::run(global, args).await,
        Command::Import(args) => return cmd::import::run(args),
        Command::Fmt(args) => return cmd::fmt::run(global, args),
        Command::Types(args) => return cmd::types::run(args),
        Command::Lsp(args) => return cmd::lsp::run(args),
        _ => {}
    }
    let attached = matches!(
        command,
        Command::Run(_) | Command::Exec(_) | Command::Attach(_)
    );
    let elsewhere = match &command {
        Command::Schedule(args) if global.node.is_none() => args.elsewhere()?,
        _ => None,
    };
    let pinned = elsewhere.map(|context| Global {
        node: Some(context),
        ..global.clone()
    });
    let session = Session::open(pinned.as_ref().unwrap_or(global))
        .await
        .map_err(|failure| match attached {
            true => failure.with_status(AURAE_FAILED),
            false => failure,
        })?;
    on_node(&session, command).await
}

async fn on_node(session: &Session, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => cmd::run::run(session, &args).await,
        Command::Exec(args) => cmd::exec::run(session, &args).await,
        Command::Cp(args) => cmd::cp::run(session, &args).await,
        Command::Attach(args) => cmd::attach::run(session, &args).await,
        Command::Ps(args) => cmd::ps::run(session, &args).await,
        Command::Logs(args) => cmd::logs::run(session, &args).await,
        Command::Stop(args) => cmd::stop::run(session, &args).await,
        Command::Kill(args) => cmd::kill::run(session, &args).await,
        Command::Wait(args) => cmd::wait::run(session, &args).await,
        Command::Rm(args) => cmd::rm::run(session, &args).await,
        Command::Inspect(args) => cmd::inspect::run(session, &args).await,
        Command::Top(args) => cmd::top::run(session, &args).await,
        Command::Cell(args) => cmd::cell::run(session, &args).await,
        Command::Pod(args) => cmd::pod::run(session, &args).await,
        Command::Schedule(args) => cmd::schedule::run(session, &args).await,
        Command::Unit(args) => cmd::unit::run(session, &args).await,
        Command::Image(args) => cmd::image::run(session, &args).await,
        Command::Identity(args) => cmd::identity::run(session, &args).await,
        Command::Node(args) => cmd::node::run(session, &args).await,
        Command::Tenant(args) => cmd::tenant::run(session, &args).await,
        // `dispatch` has done the others.
        _ => Ok(0),
    }
}
