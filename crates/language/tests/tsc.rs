// SPDX-License-Identifier: Apache-2.0
//! Holds the declarations against real TypeScript, as strict as it gets: right programs pass, each
//! wrong line is refused, the friendly layer itself is well typed.

#![allow(clippy::unwrap_used, reason = "a test that can't go on says why")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn right_programs_pass() {
    let Some(tsc) = common::tsc() else { return };
    let project = common::project("accepted");
    common::copy(&here("tests/tsc/accepted"), &project, ".ts");
    assert_eq!(common::errors(&tsc, &project), []);
}

#[test]
fn the_examples_pass() {
    let Some(tsc) = common::tsc() else { return };
    let project = common::project("examples");
    let examples = here("../../examples");
    if examples.exists() {
        common::copy(&examples, &project.join("examples"), ".ts");
    }
    assert_eq!(common::errors(&tsc, &project), []);
}

/// A line with `// wrong` has an error, and no other line has one.
#[test]
fn wrong_lines_are_refused_and_no_others() {
    let Some(tsc) = common::tsc() else { return };
    let project = common::project("refused");
    let programs = here("tests/tsc/refused");
    common::copy(&programs, &project, ".ts");
    let mut wrong = BTreeSet::new();
    for entry in fs::read_dir(&programs).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let marked = text
            .lines()
            .zip(1u32..)
            .filter(|(line, _)| line.contains("// wrong"));
        wrong.extend(marked.map(|(_, number)| (name.clone(), number)));
    }
    let found = common::errors(&tsc, &project);
    let lines: BTreeSet<_> = found
        .into_iter()
        .map(|error| (error.file, error.line))
        .collect();
    assert!(!wrong.is_empty());
    assert_eq!(lines, wrong);
}

/// The layer is checked by the types that it is a part of.
#[test]
fn the_friendly_layer_is_well_typed() {
    let Some(tsc) = common::tsc() else { return };
    let project = common::project("prelude");
    common::copy(&here("prelude"), &project, ".ts");
    // Its text is in `aurae.d.ts` already.
    fs::remove_file(project.join("host.d.ts")).unwrap();
    assert_eq!(common::errors(&tsc, &project), []);
}
