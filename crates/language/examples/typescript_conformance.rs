// SPDX-License-Identifier: Apache-2.0
//! Holds the checker, without TypeScript beside it, against TypeScript's own tests, those of
//! conformance and those of its compiler: whether a case of one file is accepted or refused, by us
//! and in TypeScript's baselines. Most cases aren't strict and we always are: where TypeScript 7 is
//! there (`AURAE_TSC`), each finding of ours is held against its own strict errors on that line.
//! Reads the tests' folder, a checkout of TypeScript's `tests`, and writes nothing there. Called by
//! people.
//!
//!   cargo run -p language --example typescript_conformance -- TYPESCRIPT/tests [NAME]
//!
//! With a part of a name: only those cases, each finding of ours written out.
#![allow(
    clippy::print_stdout,
    reason = "a measuring tool's output is what it prints"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use language::check::{Claim, Environment, claims};
use language::finding::{Finding, Severity};
use language::program::{Entry, NoFiles, Overlay, Program};
use language::tsc;

/// The folders of cases.
const PARTS: [&str; 2] = ["conformance", "compiler"];

/// What TypeScript says of a case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Baseline {
    Clean,
    Errors,
}

/// A case of one file.
struct Case {
    name: String,
    text: String,
    baseline: Baseline,
}

/// What we say of a case.
enum Verdict {
    Accepted,
    /// A form that the language refuses, whatever its types: the first finding.
    Form(Finding),
    Types(Vec<Claim>),
}

#[derive(Default)]
struct Tally {
    accepted: usize,
    forms: BTreeMap<String, usize>,
    types: Vec<(String, Vec<Claim>)>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let wanted = arguments.next();
    let environment = Arc::new(Environment::new(language::declare::aurae_d_ts()?));
    for part in PARTS {
        println!("{part}");
        count(&environment, &folder, part, wanted.as_deref())?;
    }
    Ok(())
}

/// Counts one part of the cases; of a part of their names, if it is wanted.
fn count(
    environment: &Arc<Environment>,
    folder: &Path,
    part: &str,
    wanted: Option<&str>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (cases, left_out) = cases(folder, part, wanted.unwrap_or_default())?;
    let mut tallies: BTreeMap<Baseline, Tally> = BTreeMap::new();
    for case in &cases {
        let verdict = verdict(environment, case)?;
        let tally = tallies.entry(case.baseline).or_default();
        match verdict {
            Verdict::Accepted => tally.accepted += 1,
            Verdict::Form(form) => {
                if wanted.is_some() && case.baseline == Baseline::Clean {
                    let line = form.source.position(form.span.start).line;
                    println!("  {}:{line} {}: {}", case.name, form.code, form.message);
                }
                *tally.forms.entry(form.code.into_owned()).or_default() += 1;
            }
            Verdict::Types(claims) => tally.types.push((case.name.clone(), claims)),
        }
    }
    println!("{} cases of one file; {left_out} left out", cases.len());
    for (baseline, of) in [
        (Baseline::Clean, "without errors"),
        (Baseline::Errors, "with errors"),
    ] {
        let Some(tally) = tallies.get(&baseline) else {
            continue;
        };
        print(of, tally);
        hold(&cases, &tally.types)?;
        if wanted.is_some() {
            tally.types.iter().flat_map(|(_, it)| it).for_each(show);
        }
    }
    Ok(())
}

fn print(of: &str, tally: &Tally) {
    let forms: usize = tally.forms.values().sum();
    let refused = tally.types.len();
    let all = tally.accepted + forms + refused;
    let accepted = tally.accepted;
    println!("{all} {of}: {accepted} accepted, {refused} refused by types, {forms} by form");
    println!("  forms: {:?}", tally.forms);
    println!("  types: {:?}", by_code(tally.types.iter()));
}

/// How many cases have a finding of each code.
fn by_code<'t>(cases: impl Iterator<Item = &'t (String, Vec<Claim>)>) -> BTreeMap<String, usize> {
    let mut codes = BTreeMap::new();
    for (_, claims) in cases {
        let of_case: BTreeSet<_> = claims.iter().map(|it| it.finding.code.clone()).collect();
        for code in of_case {
            *codes.entry(code.into_owned()).or_default() += 1;
        }
    }
    codes
}

fn show(claim: &Claim) {
    let source = &claim.finding.source;
    let line = source.position(claim.anchor.start).line;
    let (name, code) = (source.name(), &claim.finding.code);
    println!("  {name}:{line} {code}: {}", claim.finding.message);
    println!("      {}", source.line(line).unwrap_or_default());
}

/// Which findings of ours TypeScript has as well when it is strict, and the others.
fn hold(
    cases: &[Case],
    refused: &[(String, Vec<Claim>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let compiler = match tsc::find(Path::new(".")) {
        Ok(compiler) => compiler,
        Err(why) => {
            println!("  not held against strict TypeScript: {why}");
            return Ok(());
        }
    };
    let names: BTreeSet<&str> = refused.iter().map(|(name, _)| name.as_str()).collect();
    let cases = cases.iter().filter(|case| names.contains(&*case.name));
    let folder = tempfile::tempdir()?;
    let mut texts = HashMap::new();
    for case in cases {
        std::fs::write(folder.path().join(&case.name), &case.text)?;
        texts.insert(case.name.clone(), case.text.clone());
    }
    let entries = refused.iter().map(|(name, _)| Entry::File(name.clone()));
    let files = Overlay {
        files: &NoFiles,
        texts: &texts,
    };
    let program = Program::load_all(&files, entries.collect(), &[])?;
    // What the schema makes certain stands whatever the compiler says: here its word counts.
    let doubted = refused.iter().flat_map(|(_, it)| it.clone()).map(|mut it| {
        it.finding.severity = Severity::Warning;
        it
    });
    let doubted: Vec<Claim> = doubted.collect();
    let found = compiler.findings(&program, folder.path(), &doubted)?;
    let stand: BTreeSet<_> = found.iter().map(place).collect();
    let falls = |claim: &&Claim| !stand.contains(&place(&claim.finding));
    let wrong: Vec<(String, Vec<Claim>)> = refused
        .iter()
        .map(|(name, it)| (name.clone(), it.iter().filter(falls).cloned().collect()))
        .filter(|(_, it): &(String, Vec<Claim>)| !it.is_empty())
        .collect();
    println!(
        "  {} of them have a finding that TypeScript {} hasn't, strict: {:?}",
        wrong.len(),
        compiler.version(),
        by_code(wrong.iter())
    );
    wrong.iter().flat_map(|(_, it)| it).for_each(show);
    Ok(())
}

fn place(finding: &Finding) -> (&str, u32, &str) {
    (finding.source.name(), finding.span.start, &finding.code)
}

fn verdict(environment: &Arc<Environment>, case: &Case) -> io::Result<Verdict> {
    let entry = Entry::Text {
        name: case.name.clone(),
        text: case.text.clone(),
    };
    let program = Program::load(&NoFiles, entry, &[]).map_err(io::Error::other)?;
    let form = program
        .findings()
        .iter()
        .find(|it| it.severity == Severity::Error);
    if let Some(form) = form {
        return Ok(Verdict::Form(form.clone()));
    }
    let claims = claims(environment, &program);
    Ok(match claims.is_empty() {
        true => Verdict::Accepted,
        false => Verdict::Types(claims),
    })
}

/// The cases whose name has a part, and how many files are none of ours: several files in one, JSX,
/// declarations, JavaScript, without the library, and those whose baselines differ by options.
fn cases(folder: &Path, part: &str, wanted: &str) -> io::Result<(Vec<Case>, usize)> {
    let baselines = baselines(&folder.join("baselines/reference"))?;
    let mut left = vec![folder.join("cases").join(part)];
    let (mut cases, mut left_out) = (Vec::new(), 0);
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.contains(wanted) {
                continue;
            }
            // Some are in UTF-16, or in no encoding at all: a module is UTF-8.
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let stem = name.trim_end_matches(".ts");
            let baseline = match baselines.get(stem) {
                None => Some(Baseline::Clean),
                Some(true) => Some(Baseline::Errors),
                Some(false) => None,
            };
            match baseline {
                Some(baseline) if is_ours(&name, &text) => cases.push(Case {
                    name: name.to_string(),
                    // Each is a module of its own, as all of ours are.
                    text: format!("{}\nexport {{}};\n", text.trim_start_matches('\u{feff}')),
                    baseline,
                }),
                _ => left_out += 1,
            }
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases.dedup_by(|a, b| a.name == b.name);
    Ok((cases, left_out))
}

fn is_ours(name: &str, text: &str) -> bool {
    let options = [
        "@filename",
        "@nolib",
        "@jsx",
        "@allowjs",
        "@libfiles",
        "@lib:",
    ];
    let lines = text.lines().filter(|line| line.starts_with("//"));
    let mut lines = lines.map(|line| line.replace(' ', "").to_lowercase());
    name.ends_with(".ts")
        && !name.ends_with(".d.ts")
        && !text.is_empty()
        && !lines.any(|line| options.iter().any(|option| line.contains(option)))
}

/// By case with a baseline of errors: whether it has errors with whatever options it is tried.
fn baselines(folder: &Path) -> io::Result<BTreeMap<String, bool>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".errors.txt") else {
            continue;
        };
        match stem.split_once('(') {
            Some((stem, _)) => found.insert(stem.to_owned(), false),
            None => found.insert(stem.to_owned(), true),
        };
    }
    Ok(found)
}
