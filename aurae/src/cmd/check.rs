// SPDX-License-Identifier: Apache-2.0
//! `aurae check`: every finding in programs, without a node and without running them.

mod full;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use language::check::{Environment, check_program};
use language::declare::aurae_d_ts;
use language::finding::{Finding, Severity};
use language::frame::{Json, texts};
use language::prelude;
use language::program::{Entry, Program};

use super::plan::Form;
use super::script::entry::{below, unreadable};
use crate::args::Global;
use crate::failure::{FINDINGS, Failure};
use crate::output::{Style, note, print_line};

const EXAMPLES: &str = "\
Examples:
  aurae check apps/*.ts
  aurae check -o json deploy.ts           a list, for programs
  aurae check --full deploy.ts            TypeScript's own compiler is asked, too

Exit status: 0 nothing is wrong; 3 there are findings.";

/// `aurae check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// The folder that the programs can't leave
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Ask TypeScript's own compiler, too: `tsc` 7 or newer on PATH
    #[arg(long)]
    full: bool,
    /// How to print the findings
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Form,
    /// Programs; what they import is checked with them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Prints all findings.
pub(crate) fn run(global: &Global, args: &CheckArgs) -> Result<u8, Failure> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let types = aurae_d_ts().map_err(|problem| Failure::new(problem.to_string()))?;
    let environment = Arc::new(Environment::new(types));
    for file in &args.files {
        for finding in of_program(file, args, &environment)? {
            // A module that two programs import is told once.
            let place = (
                finding.source.name().to_owned(),
                finding.span.start,
                finding.message.clone(),
            );
            if seen.insert(place) {
                found.push(finding);
            }
        }
    }
    match args.output {
        Form::Json => print_line(&json(&found)?)?,
        Form::Text => {
            let style = Style::of(&std::io::stderr(), global.color);
            if !found.is_empty() {
                note(texts(&found, style.is_coloured()).trim_end());
            }
        }
    }
    let wrong = found.iter().any(|one| one.severity == Severity::Error);
    Ok(if wrong { FINDINGS } else { 0 })
}

fn of_program(
    file: &Path,
    args: &CheckArgs,
    environment: &Arc<Environment>,
) -> Result<Vec<Finding>, Failure> {
    let (root, entry) = below(file, args.root.as_deref())?;
    let names = prelude::globals().map_err(|problem| Failure::new(problem.to_string()))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let program = Program::load(&root, Entry::File(entry), &names).map_err(unreadable)?;
    let mut found = program.findings().to_vec();
    // The types of a module that isn't one are nobody's.
    if program.is_sound() {
        found.extend(check_program(environment, &program));
        if args.full {
            let more = full::findings(&program, root.path(), &found)?;
            found.extend(more);
        }
    }
    Ok(found)
}

fn json(findings: &[Finding]) -> Result<String, Failure> {
    let list: Vec<Json> = findings.iter().map(Json::from).collect();
    serde_json::to_string_pretty(&list)
        .map_err(|problem| Failure::new(format!("can't print the findings: {problem}")))
}
