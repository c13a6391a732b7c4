// SPDX-License-Identifier: Apache-2.0
//! Keeps SPECIFICATION.md true: every test that it names exists.

#![allow(
    clippy::unwrap_used,
    reason = "a file that can't be read fails the test, with its error"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Every Rust source of ours, joined.
fn sources() -> String {
    let mut folders = vec![root()];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "specification.rs" {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

/// The words between pairs of `mark` in the last column of each row.
fn named(mark: char) -> BTreeSet<String> {
    let specification = fs::read_to_string(root().join("SPECIFICATION.md")).unwrap();
    let rows = specification.lines().filter(|line| line.starts_with('|'));
    rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next())
        .flat_map(|cell| {
            cell.split(mark)
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_test_that_is_named_exists() {
    let sources = sources();
    let functions = named('`')
        .into_iter()
        .filter(|name| !name.starts_with("./x "));
    let missing: Vec<String> = functions
        .filter(|name| !sources.contains(&format!("fn {name}(")))
        .chain(
            named('"')
                .into_iter()
                .filter(|n| !sources.contains(&format!("name: \"{n}\""))),
        )
        .collect();
    assert!(
        missing.is_empty(),
        "SPECIFICATION.md names tests that aren't there: {missing:#?}"
    );
    assert!(named('`').len() > 50, "the table was not read");
}
