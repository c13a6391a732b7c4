// SPDX-License-Identifier: Apache-2.0
//! The `aurae` binary: the node's command line. It parses the command line, connects, calls the API
//! and prints. All decisions are the node's.

mod args;
mod attach;
mod cmd;
mod complete;
mod dispatch;
mod failure;
mod global;
mod habits;
mod hints;
mod output;
mod quantity;
mod session;
mod spec;
mod systemd;
mod threads;

use std::process::ExitCode;

use crate::args::{Args, Command};
use crate::failure::Failure;
use crate::output::Style;

fn main() -> ExitCode {
    // Executed by a link of that name.
    let first = std::env::args_os().next().unwrap_or_default();
    if let Some(name) = systemd::called_as(&first) {
        let status = systemd::main(name, std::env::args_os().collect());
        std::process::exit(status.into());
    }
    // A role, not a command: it has no standard streams, and milliseconds to begin.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|role| role == "eval")
    {
        return script::evaluator::main();
    }
    // A shell asks what may stand at the cursor; then nothing else is done.
    complete::answer();
    let words = habits::rewrite(std::env::args_os().collect());
    cmd::script::read_ahead(&words);
    let args = match Args::of(&words) {
        Ok(args) => args,
        Err(problem) => hints::exit(problem, &words),
    };
    let style = Style::of(&std::io::stderr(), args.global.color);
    let status = match run(args) {
        Ok(status) => status,
        Err(failure) => {
            failure.report(style);
            failure.status
        }
    };
    // Not by returning: a thread may sit in a read of standard input for ever.
    std::process::exit(status.into())
}

fn run(args: Args) -> Result<u8, Failure> {
    let runtime = match args.command {
        None
        | Some(Command::Program(_) | Command::Plan(_) | Command::Apply(_) | Command::Set(_)) => {
            threads::one()
        }
        Some(_) => threads::two(),
    };
    let runtime = runtime.map_err(|problem| Failure::new(format!("can't start: {problem}")))?;
    let done = runtime.block_on(dispatch::dispatch(args));
    runtime.shutdown_background();
    done
}
