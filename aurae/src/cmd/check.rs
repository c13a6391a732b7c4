// SPDX-License-Identifier: Apache-2.0
//! `aurae check`: every finding in programs, without a node and without running them; in files of
//! values and of data, which are evaluated (`script::offline`), the first in each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
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
use super::script::entry::{below, unreadable};
use super::script::{data, offline, values};
use crate::failure::{FINDINGS, Failure};
use crate::global::{Global, ProgramArgs};
use crate::output::{Style, note, print_line};

const EXAMPLES: &str = "\
Examples:
  aurae check apps/*.ts
  aurae check -o json deploy.ts           a list, for programs
  aurae check --full deploy.ts            fails where TypeScript's own compiler isn't there
  aurae check --no-tsc deploy.ts          TypeScript isn't asked
  aurae check --values prod.json web.ts   the values of a cluster, too
  aurae check web.json                    workloads as data

Values are held against what the program gives to values() and declares for it: with --values it is
evaluated, without arguments, until it calls a node.

TypeScript 7 decides what is general to TypeScript, where it is on the machine: the `tsc` that
AURAE_TSC names, else of the nearest node_modules above the program, else on PATH.
`npm install typescript@7` gives one.

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
    /// Also check these values of a cluster, JSON or YAML, for each program; `-` is standard input
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
    /// How to print the findings
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    output: Form,
    /// Programs, and what they import with them; or workloads as JSON or YAML
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Prints the findings of all files; the status of findings where there is an error.
pub(crate) async fn run(global: &Global, args: &CheckArgs) -> Result<u8, Failure> {
    let found = findings(global, args).await?;
    match args.output {
        Form::Json => print_line(&json(&found)?)?,
        Form::Text => {
            let style = Style::of(&std::io::stderr(), global.color);
            if !found.is_empty() {
                note(texts(&found, style.is_coloured()).trim_end());
            }
        }
    }
    Ok(if is_wrong(&found) { FINDINGS } else { 0 })
}

async fn findings(global: &Global, args: &CheckArgs) -> Result<Vec<Finding>, Failure> {
    let named = Named::of(args)?;
    // Standard input can be read but once, whatever number of programs there is.
    let values = args.values.as_deref().map(values::of_file).transpose()?;
    let options = ProgramArgs {
        root: args.root.clone(),
        values: args.values.clone(),
        max_memory: None,
    };
    let mut found = Vec::new();
    if !named.programs.is_empty() {
        let types = aurae_d_ts().map_err(|problem| Failure::new(problem.to_string()))?;
        let environment = Arc::new(Environment::new(types));
        for (root, entries) in &named.by_root {
            found.extend(of_programs(root, entries, args, &environment)?);
        }
    }
    // As by a plan, which looks at no values of a program that is wrong.
    if let Some(values) = values.filter(|_| !is_wrong(&found)) {
        for file in &named.programs {
            found.extend(offline::of_values(global, &options, file, &values).await?);
        }
    }
    for file in &named.data {
        found.extend(offline::of_data(global, &options, file).await?);
    }
    Ok(found)
}

fn is_wrong(found: &[Finding]) -> bool {
    found.iter().any(|one| one.severity == Severity::Error)
}

/// What the command line names.
#[derive(Default)]
struct Named<'a> {
    programs: Vec<&'a Path>,
    /// The programs below each root: modules that they share are read and reported once.
    by_root: Vec<(Root, Vec<Entry>)>,
    data: Vec<&'a Path>,
}

impl<'a> Named<'a> {
    fn of(args: &'a CheckArgs) -> Result<Self, Failure> {
        let mut named = Self::default();
        let mut index = HashMap::new();
        for file in &args.files {
            let (root, entry) = below(file, args.root.as_deref())?;
            if data::form(&entry).is_some() {
                named.add_data(file, args)?;
                continue;
            }
            named.programs.push(file);
            let at = *index
                .entry(root.path().to_owned())
                .or_insert(named.by_root.len());
            let entry = Entry::File(entry);
            match named.by_root.get_mut(at) {
                Some((_, entries)) => entries.push(entry),
                None => named.by_root.push((root, vec![entry])),
            }
        }
        Ok(named)
    }

    /// Data takes no values, which a plan says in these words.
    fn add_data(&mut self, file: &'a Path, args: &CheckArgs) -> Result<(), Failure> {
        if args.values.is_some() {
            return Err(values::useless().with_hint(format!("{} is data", file.display())));
        }
        self.data.push(file);
        Ok(())
    }
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
