// SPDX-License-Identifier: Apache-2.0
//! Which room of the crate may know which: what plan and apply share lies below both, and neither
//! knows the other nor the host that chooses between them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// A room, and those that it must not name.
const APART: &[(&str, &[&str])] = &[
    ("apply", &["host", "plan", "evaluator"]),
    ("plan", &["host", "apply", "evaluator"]),
    (
        "reconcile",
        &["host", "apply", "plan", "evaluator", "session"],
    ),
    (
        "nodes",
        &["host", "apply", "plan", "reconcile", "evaluator", "session"],
    ),
    ("session", &["host", "apply", "plan", "reconcile", "nodes"]),
    (
        "evaluator",
        &["host", "apply", "plan", "reconcile", "nodes", "session"],
    ),
    (
        "wire",
        &["host", "apply", "plan", "reconcile", "nodes", "session"],
    ),
];

/// The files of a room: `apply.rs`, or all below `plan/`, but tests.
fn files(at: &Path, found: &mut Vec<PathBuf>) {
    if at.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            files(&entry.unwrap().path(), found);
        }
    } else if at.extension().is_some_and(|it| it == "rs") && !at.ends_with("tests.rs") {
        found.push(at.to_owned());
    }
}

#[test]
fn no_room_names_one_that_stands_on_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (room, others) in APART {
        let mut own = Vec::new();
        files(&source.join(room), &mut own);
        let alone = source.join(format!("{room}.rs"));
        if alone.is_file() {
            files(&alone, &mut own);
        }
        assert!(!own.is_empty(), "no room {room}");
        for file in own {
            let text = fs::read_to_string(&file).unwrap();
            let named = others
                .iter()
                .filter(|it| text.contains(&format!("crate::{it}::")));
            wrong.extend(named.map(|other| format!("{} names {other}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
