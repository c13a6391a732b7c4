// SPDX-License-Identifier: Apache-2.0
//! `aurae apply`: brings about what a program declares, and stops what it doesn't any more.

use std::sync::Arc;

use script::apply::Apply;
use script::host::Mode;

use super::plan::{DeclaringArgs, Form, print_json, refused, text};
use super::script::execute::execute;
use crate::args::Global;
use crate::failure::Failure;
use crate::output::{Style, note, print};

const EXAMPLES: &str = "\
Examples:
  aurae apply apps/web.ts
  aurae apply --set shop apps/web.ts      the set whose objects they are

What it makes is labelled `aurae.io/set=NAME`; what has that label and isn't declared any more is
stopped. Applied twice, the second changes nothing.";

/// `aurae apply`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    declaring: DeclaringArgs,
    /// How to print what was done
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Form,
}

/// Runs the program and does what it declares; what was done is told also where it failed.
pub(crate) async fn run(global: &Global, args: &ApplyArgs) -> Result<u8, Failure> {
    let apply = Arc::new(Apply::new(args.declaring.set()?));
    let job = args.declaring.job(Mode::Apply(Arc::clone(&apply)));
    let done = execute(global, job).await?;
    let finished = match done.status {
        0 => apply.finish(&done.nodes).await.map(drop).map_err(refused),
        _ => Ok(()),
    };
    let report = apply.report();
    match args.output {
        Form::Json => print_json(&report)?,
        Form::Text => {
            let style = Style::of(&std::io::stdout(), global.color);
            print(&text(&report, style, "× ", "nothing changed"))?;
        }
    }
    if done.status != 0 {
        note("the program failed: what it doesn't declare any more was left running");
    }
    finished.map(|()| done.status)
}
