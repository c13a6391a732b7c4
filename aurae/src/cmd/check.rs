// SPDX-License-Identifier: Apache-2.0
//! `aurae check`: every finding in programs, without a node and without running them.

mod full;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use language::check::{Environment, check_program};
use language::declare::aurae_d_ts;
use language::finding::{Finding, Severity};
use language::frame::{Json, texts};
use language::prelude;
use language::program::{Entry, Program};
use language::root::Root;

use super::plan::Form;
use super::script::entry::{below, unreadable};
use crate::failure::{FINDINGS, Failure};
use crate::global::Global;
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

/// Prints the findings of all programs; 1 where there is an error.
pub(crate) fn run(global: &Global, args: &CheckArgs) -> Result<u8, Failure> {
    let types = aurae_d_ts().map_err(|problem| Failure::new(problem.to_string()))?;
    let environment = Arc::new(Environment::new(types));
    let mut found = Vec::new();
    for (root, entries) in by_root(args)? {
        found.extend(of_programs(&root, entries, args, &environment)?);
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

/// The programs below each root: what they share is read and told once.
fn by_root(args: &CheckArgs) -> Result<Vec<(Root, Vec<Entry>)>, Failure> {
    let mut roots: Vec<(Root, Vec<Entry>)> = Vec::new();
    let mut index = HashMap::new();
    for file in &args.files {
        let (root, entry) = below(file, args.root.as_deref())?;
        let at = *index.entry(root.path().to_owned()).or_insert(roots.len());
        let entry = Entry::File(entry);
        match roots.get_mut(at) {
            Some((_, entries)) => entries.push(entry),
            None => roots.push((root, vec![entry])),
        }
    }
    Ok(roots)
}

fn of_programs(
    root: &Root,
    entries: Vec<Entry>,
    args: &CheckArgs,
    environment: &Arc<Environment>,
) -> Result<Vec<Finding>, Failure> {
    let names = prelude::globals().map_err(|problem| Failure::new(problem.to_string()))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let program = Program::load_all(root, entries, &names).map_err(unreadable)?;
    let mut found = program.findings().to_vec();
    // A module with an error of syntax is skipped; names that others import from it have the type
    // `any`.
    found.extend(check_program(environment, &program));
    if args.full && program.is_sound() {
        let more = full::findings(&program, root.path(), &found)?;
        found.extend(more);
    }
    Ok(found)
}

fn json(findings: &[Finding]) -> Result<String, Failure> {
    let list: Vec<Json> = findings.iter().map(Json::from).collect();
    serde_json::to_string_pretty(&list)
        .map_err(|problem| Failure::new(format!("can't print the findings: {problem}")))
}
