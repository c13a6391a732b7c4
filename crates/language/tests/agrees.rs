// SPDX-License-Identifier: Apache-2.0
//! Holds the checker against real TypeScript: right programs are silent, and in thousands of
//! programs with one thing wrong each finding that claims an error of types is an error of
//! `tsc --strict` on the same line. What the compiler sees and the checker doesn't is counted and
//! printed by its code; `docs/language/check.md` says what it is.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on says why"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use language::check::{Environment, Seen, claims};
use language::program::{Entry, Program};
use language::root::Root;

/// One thing made wrong in a text.
struct Mutant {
    text: String,
    line: usize,
    what: &'static str,
}

/// All single changes of the kinds that people make by mistake.
fn mutants(text: &str) -> Vec<Mutant> {
    let mut found = Vec::new();
    for (line, start) in lines(text) {
        let body = &text[start..].lines().next().unwrap_or_default();
        let trimmed = body.trim_start();
        if trimmed.starts_with("//") || trimmed.starts_with("import ") || trimmed.starts_with('*') {
            continue;
        }
        for (from, to, what, put) in changes(body) {
            let mut changed = text[..start].to_owned();
            changed.push_str(&body[..from]);
            changed.push_str(&put);
            changed.push_str(&body[to..]);
            changed.push_str(&text[start + body.len()..]);
            found.push(Mutant {
                text: changed,
                line,
                what,
            });
        }
    }
    found
}

fn lines(text: &str) -> Vec<(usize, usize)> {
    let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0)
        .chain(breaks)
        .enumerate()
        .map(|(index, at)| (index + 1, at))
        .collect()
}

type Change = (usize, usize, &'static str, String);

fn changes(line: &str) -> Vec<Change> {
    let mut all = Vec::new();
    for (at, _) in line.match_indices("await ") {
        all.push((at, at + 6, "without await", String::new()));
    }
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let letter = bytes[at];
        if letter == b'"' {
            let Some(length) = line[at + 1..].find('"') else {
                break;
            };
            let end = at + length + 2;
            if bytes.get(end) != Some(&b':') {
                all.push((at, end, "number for string", "12345".into()));
                all.push((end - 1, end - 1, "other string", "zz".into()));
            }
            at = end;
        } else if letter == b'`' || letter == b'/' {
            break;
        } else if letter.is_ascii_alphabetic() || letter == b'_' {
            let rest = line[at..].find(|it: char| !it.is_alphanumeric() && it != '_');
            let end = rest.map_or(line.len(), |length| at + length);
            word(line, at, end, &mut all);
            at = end;
        } else if letter.is_ascii_digit() {
            let rest = line[at..].find(|it: char| !it.is_alphanumeric());
            let end = rest.map_or(line.len(), |length| at + length);
            all.push((at, end, "string for number", "\"x\"".into()));
            at = end;
        } else {
            at += 1;
        }
    }
    all
}

fn word(line: &str, at: usize, end: usize, all: &mut Vec<Change>) {
    let word = &line[at..end];
    let swapped = |word: &str| {
        let mut letters: Vec<char> = word.chars().collect();
        let last = letters.len() - 1;
        letters.swap(last, last - 1);
        let other: String = letters.into_iter().collect();
        if other == word {
            format!("{word}x")
        } else {
            other
        }
    };
    let after = line[end..].chars().next();
    let before = line[..at].chars().last();
    let key = after == Some(':') && matches!(before, Some(' ' | '{'));
    if word.len() > 2 && before == Some('.') {
        all.push((at, end, "misspelt member", swapped(word)));
    } else if word.len() > 2 && key {
        all.push((at, end, "misspelt key", swapped(word)));
        let value = &line[end..];
        if let Some(stop) = value.find([',', '}', '(', '[', '{'])
            && matches!(value.as_bytes()[stop], b',' | b'}')
        {
            let stop = if value.as_bytes()[stop] == b',' {
                stop + 1
            } else {
                stop
            };
            all.push((at, end + stop, "missing field", String::new()));
        }
    } else if word.len() > 3 && after == Some('.') && before != Some('.') {
        all.push((at, end, "misspelt name", swapped(word)));
    }
}

/// What the checker claims of one file: the line `tsc` must name, whether another error may hide
/// it from `tsc`, and what was said.
type Claim = (u32, Seen, String);

fn claimed(environment: &Arc<Environment>, root: &Root, path: &str) -> Option<Vec<Claim>> {
    let globals = environment.globals();
    let program = Program::load(root, Entry::File(path.to_owned()), &globals).unwrap();
    if !program.is_sound() {
        return None;
    }
    let found = claims(environment, &program).into_iter();
    let own = found.filter(|claim| claim.finding.source.name() == path);
    Some(
        own.map(|claim| {
            let source = &claim.finding.source;
            let line = source.position(claim.anchor.start).line;
            let said = format!("{}: {}", claim.finding.code, claim.finding.message);
            (line, claim.seen, said)
        })
        .collect(),
    )
}

fn here(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn programs(folder: &Path, below: &Path, found: &mut Vec<String>) {
    let Ok(list) = fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<_> = list.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            programs(&path, below, found);
        } else if path.to_string_lossy().ends_with(".ts") && !path.ends_with("aurae.d.ts") {
            found.push(
                path.strip_prefix(below)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
}

/// The corpus below `target/`, and its programs.
fn corpus(name: &str) -> (std::path::PathBuf, Vec<String>) {
    let project = common::project(name);
    common::copy(
        &here("tests/tsc/accepted"),
        &project.join("accepted"),
        ".ts",
    );
    common::copy(&here("tests/agrees"), &project.join("agrees"), ".ts");
    let examples = here("../../examples");
    if examples.exists() {
        common::copy(&examples, &project.join("examples"), ".ts");
    }
    let mut found = Vec::new();
    programs(&project, &project, &mut found);
    (project, found)
}

#[test]
fn right_programs_are_silent() {
    let environment = Arc::new(Environment::new(language::declare::aurae_d_ts().unwrap()));
    let (project, programs) = corpus("silent");
    let root = Root::open(&project).unwrap();
    for path in programs {
        let claimed = claimed(&environment, &root, &path);
        assert_eq!(claimed, Some(Vec::new()), "{path}");
    }
}

/// Of how many mutants of a program one is tried; all with `AURAE_TESTS_ALL_MUTANTS`.
const ONE_OF: usize = 3;

type Tried = (String, Mutant, Vec<Claim>);

/// Writes mutants beside their programs; those that parse, with what is claimed of them.
fn try_mutants(environment: &Arc<Environment>, project: &Path, programs: &[String]) -> Vec<Tried> {
    let root = Root::open(project).unwrap();
    let step = match std::env::var_os("AURAE_TESTS_ALL_MUTANTS") {
        Some(_) => 1,
        None => ONE_OF,
    };
    let mut tried = Vec::new();
    for path in programs {
        let text = fs::read_to_string(project.join(path)).unwrap();
        for (index, mutant) in mutants(&text).into_iter().step_by(step).enumerate() {
            let name = format!("{}-mutant-{index}.ts", path.trim_end_matches(".ts"));
            fs::write(project.join(&name), &mutant.text).unwrap();
            match claimed(environment, &root, &name) {
                Some(claims) => tried.push((name, mutant, claims)),
                None => fs::remove_file(project.join(&name)).unwrap(),
            }
        }
    }
    tried
}

/// What the claims come to beside the compiler's errors.
#[derive(Default)]
struct Tally {
    held: usize,
    own: usize,
    wrong: Vec<String>,
    /// Lines with errors of the compiler about which nothing is claimed, by code.
    missed: BTreeMap<String, usize>,
    /// Mutants with errors of which nothing at all is claimed.
    unseen: usize,
}

impl Tally {
    fn add(&mut self, (name, mutant, claims): &Tried, errors: &BTreeMap<u32, String>) {
        let mut ours = BTreeSet::new();
        for (line, kind, said) in claims {
            let holds = match kind {
                Seen::Tsc => errors.contains_key(line),
                Seen::Hidden => !errors.is_empty(),
                Seen::Own => {
                    self.own += 1;
                    continue;
                }
            };
            ours.insert(*line);
            self.held += usize::from(holds);
            if !holds {
                let Mutant { line: at, what, .. } = mutant;
                let beside = format!("({what} on line {at}; tsc: {errors:?})");
                self.wrong.push(format!("{name}:{line} {said} {beside}"));
            }
        }
        for (line, code) in errors.iter().filter(|(line, _)| !ours.contains(line)) {
            *self.missed.entry(code.clone()).or_default() += 1;
            if std::env::var_os("AURAE_TESTS_SHOW_MISSED").is_some() {
                let text = mutant.text.lines().nth(*line as usize - 1);
                let text = text.unwrap_or_default();
                println!("{name}:{line} {code} {}: {text}", mutant.what);
            }
        }
        self.unseen += usize::from(!errors.is_empty() && claims.is_empty());
    }
}

#[test]
fn each_claim_is_the_compilers_too() {
    let Some(tsc) = common::tsc() else { return };
    let environment = Arc::new(Environment::new(language::declare::aurae_d_ts().unwrap()));
    let (project, programs) = corpus("agrees");
    let tried = try_mutants(&environment, &project, &programs);
    let mut seen: BTreeMap<String, BTreeMap<u32, String>> = BTreeMap::new();
    for error in common::errors(&tsc, &project) {
        let file = seen.entry(error.file).or_default();
        file.insert(error.line, error.code);
    }
    for path in &programs {
        assert_eq!(seen.get(path), None, "{path} is right");
    }
    let mut tally = Tally::default();
    for one in &tried {
        tally.add(one, seen.get(&one.0).unwrap_or(&BTreeMap::new()));
    }
    let Tally {
        held,
        own,
        wrong,
        missed,
        unseen,
    } = tally;
    let errors: usize = seen.values().map(BTreeMap::len).sum();
    println!(
        "{} mutants; {held} claims held, {own} findings of our own",
        tried.len()
    );
    println!("of tsc's {errors} lines with errors we miss, by code: {missed:?}");
    println!("mutants wrong to tsc and right to us: {unseen}");
    assert!(tried.len() > 100 && held > 50, "the corpus is there");
    assert!(
        wrong.is_empty(),
        "{} claims don't hold:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
