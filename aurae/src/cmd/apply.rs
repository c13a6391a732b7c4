// SPDX-License-Identifier: Apache-2.0
//! `aurae apply`: brings about what a program declares, and stops what it doesn't any more.

use std::sync::Arc;

use script::apply::Apply;
use script::host::Mode;

use super::plan::{DeclaringArgs, Form, line, print_json, refused, sums};
use super::script::execute::execute;
use crate::failure::{FINDINGS, Failure};
use crate::global::Global;
use crate::output::{Style, note, print};

const EXAMPLES: &str = "\
Examples:
  aurae apply apps/web.ts
  aurae apply --set shop apps/web.ts      the set whose objects they are

It does what `aurae plan` shows, without asking again, and tells each change when it is done. What it
makes is labelled `aurae.io/set=NAME`; what has that label and isn't declared any more is stopped.
Applied twice, the second changes nothing.";

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

/// Runs the program and does what it declares. Each change is told when it is done, so that who
/// interrupts knows how far it came; what was begun and what failed is told in the end.
pub(crate) async fn run(global: &Global, args: &ApplyArgs) -> Result<u8, Failure> {
    let style = Style::of(&std::io::stdout(), global.color);
    let set = args.declaring.set()?;
    let apply = Arc::new(match args.output {
        Form::Json => Apply::new(set),
        // Who has stopped reading has not stopped the apply.
        Form::Text => Apply::heard_by(set, move |change| _ = print(&line(change, style))),
    });
    let job = args.declaring.job(Mode::Apply(Arc::clone(&apply)));
    let done = execute(global, job).await?;
    // Of what wasn't begun there is nothing to report.
    if done.status == FINDINGS {
        return Ok(FINDINGS);
    }
    let finished = match done.status {
        0 => apply.finish(&done.nodes).await.map(drop).map_err(refused),
        _ => Ok(()),
    };
    let report = apply.report();
    match args.output {
        Form::Json => print_json(&report)?,
        Form::Text => {
            let open = report.changes.iter().filter(|change| change.is_open());
            let open: String = open.map(|change| line(change, style)).collect();
            let sums = sums(&report, "× ", "nothing changed");
            print(&format!("{open}{sums}"))?;
        }
    }
    if done.status != 0 {
        note(
            "the apply came to this and no further: what is done stays, what follows in the \
             program wasn't begun, and nothing was stopped for not being declared. Apply again \
             once the cause is mended: it goes on from here",
        );
    }
    finished.map(|()| done.status)
}
