// SPDX-License-Identifier: Apache-2.0
//! `aurae attach`: the streams of a running executable, or the output of one that has ended.

use api::runtime::v0::object;

use super::launch::{exit_status, say_that_it_runs_on};
use crate::attach::{self, DetachKeys, Options, Outcome, parse_keys};
use crate::failure::{AURAE_FAILED, Failure};
use crate::output::reference;
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae attach web/shell
  aurae attach --only-new --no-signals web/nginx";

/// `aurae attach`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AttachArgs {
    /// Do not hand standard input over, even where the executable takes it
    #[arg(long)]
    no_stdin: bool,
    /// Keep signals to yourself: Ctrl-C ends the attachment
    #[arg(long)]
    no_signals: bool,
    /// Leave out what was printed before
    #[arg(long)]
    only_new: bool,
    /// The keys that leave a terminal session
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q", value_parser = parse_keys)]
    detach_keys: DetachKeys,
    /// The executable, as CELL/NAME or by the name of a run
    #[arg(value_name = "NAME")]
    name: String,
}

impl AttachArgs {
    /// To what another command has started.
    pub(crate) fn to(name: String) -> Result<Self, Failure> {
        Ok(Self {
            no_stdin: false,
            no_signals: false,
            only_new: false,
            detach_keys: parse_keys("ctrl-p,ctrl-q").map_err(Failure::usage)?,
            name,
        })
    }
}

/// Attaches; the workload's own status when it ends.
pub(crate) async fn run(session: &Session, args: &AttachArgs) -> Result<u8, Failure> {
    let found = session.find_executable(&args.name, "attach").await;
    let found = found.map_err(|failure| failure.with_status(AURAE_FAILED))?;
    let reference = reference(&found);
    let spec = match found.object {
        Some(object::Object::Executable(status)) if status.exit.is_none() => status.spec,
        _ => None,
    };
    let spec = spec.unwrap_or_default();
    let terminal = spec.terminal.is_some();
    let stdin = spec.stdin && !args.no_stdin;
    let options = Options {
        stdin,
        terminal,
        // With both, Ctrl-C is a key that goes to the program.
        forward_signals: !(args.no_signals || terminal && stdin),
        keys: args.detach_keys.clone(),
        only_new: args.only_new,
    };
    let path = reference.path.clone();
    let outcome = attach::attach(session, reference, options).await;
    match outcome.map_err(|failure| failure.with_status(AURAE_FAILED))? {
        Outcome::Exited(exit) => Ok(exit_status(&path, &exit)),
        Outcome::Left(status) => {
            say_that_it_runs_on(&path);
            Ok(status)
        }
    }
}
