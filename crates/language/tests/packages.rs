// SPDX-License-Identifier: Apache-2.0
//! The checker over the sources of ten well-known npm packages that are written in TypeScript,
//! installed by npm below `target/` once: whatever it claims of their types, TypeScript's own
//! compiler says of the same line of the same text, with the same declarations.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on says why"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use language::check::{Environment, Seen, claims};
use language::program::{Entry, Program};
use language::root::Root;

/// The folders with sources, below `node_modules`.
const SOURCES: [&str; 10] = [
    "@noble/hashes/src",
    "@tanstack/query-core/src",
    "ajv/lib",
    "immer/src",
    "mobx/src",
    "prosemirror-model/src",
    "redux/src",
    "reselect/src",
    "rxjs/src",
    "zod/src",
];

/// One more, which takes minutes: only with `AURAE_TESTS_ALL_PACKAGES`.
const LARGE: &str = "effect/src";

/// The modules in a folder, tests apart: those need what isn't installed.
fn modules(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "__tests__" {
            modules(&path, found);
        } else if name.ends_with(".ts") && !name.ends_with(".d.ts") {
            found.push(path);
        }
    }
}

/// A text with its relative imports as our programs write them: with `.ts`.
fn with_endings(text: &str, at: &Path) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(from) = rest.find([' ', '(']) {
        let (before, after) = rest.split_at(from + 1);
        out.push_str(before);
        rest = after;
        let Some(quote) = after.chars().next().filter(|it| matches!(it, '"' | '\'')) else {
            continue;
        };
        let Some(end) = after[1..].find(quote) else {
            continue;
        };
        let specifier = &after[1..=end];
        let leads = ["from ", "import ", "import("];
        if !specifier.starts_with('.') || !leads.iter().any(|it| out.ends_with(it)) {
            continue;
        }
        let bare = specifier.trim_end_matches(".js");
        let folder = at.parent().unwrap();
        let places = [
            specifier.to_owned(),
            format!("{bare}.ts"),
            format!("{}/index.ts", bare.trim_end_matches('/')),
        ];
        let place = places.iter().find(|it| folder.join(it).is_file());
        let place = place.map_or(specifier, String::as_str);
        let dot = if place.starts_with("./") || place.starts_with("../") {
            ""
        } else {
            "./"
        };
        out.push_str(&format!("{quote}{dot}{place}{quote}"));
        rest = &after[end + 2..];
    }
    out + rest
}

/// Copies a package's sources into a project of its own; the modules, relative to it.
fn lay_out(sources: &Path, project: &Path) -> Vec<String> {
    let mut found = Vec::new();
    modules(sources, &mut found);
    let copied = found.iter().map(|path| {
        let name = path.strip_prefix(sources).unwrap();
        let text = with_endings(&fs::read_to_string(path).unwrap(), path);
        let target = project.join(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, text).unwrap();
        name.to_str().unwrap().to_owned()
    });
    copied.collect()
}

#[derive(Default)]
struct Tally {
    modules: usize,
    /// Of these nothing is said of types: the language refuses a form in them.
    refused: BTreeMap<String, usize>,
    held: usize,
    wrong: Vec<String>,
}

/// Holds what is claimed of a project's modules against the compiler.
fn hold(tsc: &Path, project: &Path, names: &[String], tally: &mut Tally) {
    let environment = Arc::new(Environment::new(language::declare::aurae_d_ts().unwrap()));
    let mut errors: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for error in common::errors(tsc, project) {
        errors.entry(error.file).or_default().insert(error.line);
    }
    let root = Root::open(project).unwrap();
    let entries = names.iter().cloned().map(Entry::File).collect();
    let program = Program::load_all(&root, entries, &environment.globals()).unwrap();
    for finding in program.findings() {
        let own = matches!(
            &*finding.code,
            "unresolved-import" | "import-cycle" | "shadowed-global"
        );
        if !own {
            *tally.refused.entry(finding.code.to_string()).or_default() += 1;
        }
    }
    tally.modules += program.modules().len();
    let none = BTreeSet::new();
    for claim in claims(&environment, &program) {
        let source = &claim.finding.source;
        let line = source.position(claim.anchor.start).line;
        let lines = errors.get(source.name()).unwrap_or(&none);
        let holds = match claim.seen {
            Seen::Tsc => lines.contains(&line),
            Seen::Hidden => !lines.is_empty(),
            Seen::Own => false,
        };
        tally.held += usize::from(holds);
        if !holds {
            let (code, said) = (&claim.finding.code, &claim.finding.message);
            let text = source.line(line).unwrap_or_default();
            let name = source.name();
            tally
                .wrong
                .push(format!("{name}:{line} {code}: {said}\n      {text}"));
        }
    }
}

#[test]
fn the_checker_is_silent_over_well_known_packages() {
    let Some(tsc) = common::tsc() else { return };
    let Some(home) = common::installed("packages") else {
        return;
    };
    let mut wrong = Vec::new();
    let large = std::env::var_os("AURAE_TESTS_ALL_PACKAGES").map(|_| LARGE);
    for sources in SOURCES.into_iter().chain(large) {
        let mut tally = Tally::default();
        let name = sources.rsplit_once('/').unwrap().0.replace('/', "-");
        let project = common::project(&format!("package-{name}"));
        let names = lay_out(&home.join("node_modules").join(sources), &project);
        assert!(names.len() > 5, "{sources} has its sources");
        hold(&tsc, &project, &names, &mut tally);
        let Tally {
            modules,
            refused,
            held,
            ..
        } = &tally;
        println!("{name}: {modules} modules, {held} claims held, forms refused: {refused:?}");
        wrong.extend(tally.wrong.into_iter().map(|it| format!("{name}/{it}")));
    }
    assert!(
        wrong.is_empty(),
        "{} claims don't hold:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
