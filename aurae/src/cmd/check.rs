// SPDX-License-Identifier: Apache-2.0
//! `aurae check`: every finding in programs, without a node and without running them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use language::check::{Claim, Environment, claims};
use language::declare::aurae_d_ts;
use language::finding::{Finding, Severity};
use language::frame::{Json, texts};
use language::prelude;
use language::program::{Entry, Program};
use language::root::Root;
use language::tsc::{self, NotFound, OLDEST};

use super::plan::Form;
use super::script::data;
use super::script::entry::{below, unreadable};
use crate::failure::{FINDINGS, Failure};
use crate::global::Global;
use crate::output::{Style, note, print_line};

const EXAMPLES: &str = "\
Examples:
  aurae check apps/*.ts
  aurae check -o json deploy.ts           a list, for programs
  aurae check --full deploy.ts            fails where TypeScript's own compiler isn't there
  aurae check --no-tsc deploy.ts          no process is started

TypeScript 7 decides what is general to TypeScript, where it is on the machine: the `tsc` that AURAE_TSC
names, else of the nearest node_modules above the program, else on PATH. `npm install typescript@7`
gives one.

Exit status: 0 nothing is wrong; 3 there are findings.";

/// `aurae check`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// The folder that the programs can't leave
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Fail where TypeScript's own compiler, 7 or newer, can't be asked
    #[arg(long, conflicts_with = "no_tsc")]
    full: bool,
    /// Don't ask TypeScript's own compiler
    #[arg(long)]
    no_tsc: bool,
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
        found.extend(of_programs(&root, &entries, args, &environment)?);
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

/// The programs below each root: modules that they share are read and reported once.
fn by_root(args: &CheckArgs) -> Result<Vec<(Root, Vec<Entry>)>, Failure> {
    let mut roots: Vec<(Root, Vec<Entry>)> = Vec::new();
    let mut index = HashMap::new();
    for file in &args.files {
        let (root, entry) = below(file, args.root.as_deref())?;
        if data::form(&entry).is_some() {
            let file = file.display();
            return Err(Failure::usage(format!("{file} is data, not a program"))
                .with_hint(format!("`aurae plan {file}` says what is wrong with it")));
        }
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
    entries: &[Entry],
    args: &CheckArgs,
    environment: &Arc<Environment>,
) -> Result<Vec<Finding>, Failure> {
    let program =
        Program::load_all(root, entries.to_vec(), &prelude::globals()).map_err(unreadable)?;
    let mut found = program.findings().to_vec();
    // A module with an error of syntax is skipped; names that others import from it have the type
    // `any`.
    found.extend(of_types(&program, root, entries, args, environment)?);
    Ok(found)
}

/// What is wrong with the types: TypeScript's own compiler decides where it is there.
fn of_types(
    program: &Program,
    root: &Root,
    entries: &[Entry],
    args: &CheckArgs,
    environment: &Arc<Environment>,
) -> Result<Vec<Finding>, Failure> {
    let claims = claims(environment, program);
    let ours = |claims: Vec<Claim>| claims.into_iter().map(|claim| claim.finding).collect();
    // Of what doesn't parse, the parser says what is wrong.
    if args.no_tsc || !program.is_sound() {
        return Ok(ours(claims));
    }
    let compiler = match tsc::find(&nearest(root, entries)) {
        Ok(compiler) => compiler,
        Err(missing) if args.full => return Err(full(missing.to_string())),
        Err(NotFound::Nowhere) => return Ok(ours(claims)),
        Err(other) => {
            note(&format!("TypeScript was not asked: {other}"));
            return Ok(ours(claims));
        }
    };
    match compiler.findings(program, root.path(), &claims) {
        Ok(found) => Ok(found),
        Err(problem) => {
            let problem = format!("{}: {problem}", compiler.program().display());
            if args.full {
                return Err(full(problem));
            }
            note(&format!("TypeScript was not asked: {problem}"));
            Ok(ours(claims))
        }
    }
}

/// Where the compiler is looked for: the folder of the first program.
fn nearest(root: &Root, entries: &[Entry]) -> PathBuf {
    let first = entries.iter().find_map(|entry| match entry {
        Entry::File(path) => Some(root.path().join(path)),
        Entry::Text { .. } => None,
    });
    let folder = first.and_then(|first| Some(first.parent()?.to_owned()));
    folder.unwrap_or_else(|| root.path().to_owned())
}

fn full(problem: String) -> Failure {
    Failure::new(format!("--full: {problem}")).with_hint(format!(
        "`npm install typescript@{OLDEST}` gives one; without --full none is needed"
    ))
}

fn json(findings: &[Finding]) -> Result<String, Failure> {
    let list: Vec<Json> = findings.iter().map(Json::from).collect();
    serde_json::to_string_pretty(&list)
        .map_err(|problem| Failure::new(format!("can't print the findings: {problem}")))
}
