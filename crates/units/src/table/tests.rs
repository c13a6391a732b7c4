// SPDX-License-Identifier: Apache-2.0
//! The table is whole: against what systemd itself lists, and against the page made from it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::*;

/// What systemd 252 has and its own list doesn't show, and what later ones have.
const OURS_ALONE: [&str; 3] = ["IgnoreOnSnapshot", "ImportCredential", "UpheldBy"];

#[test]
fn no_directive_is_there_twice() {
    let mut seen = BTreeSet::new();
    for (group, row) in all() {
        for section in group.sections() {
            assert!(
                seen.insert((*section, row.name)),
                "[{section}] {}",
                row.name
            );
        }
    }
    assert!(seen.len() > 1000);
}

#[test]
fn the_table_has_what_systemd_lists() {
    let program = ["/lib/systemd/systemd", "/usr/lib/systemd/systemd"];
    let Some(program) = program.iter().find(|it| Path::new(it).exists()) else {
        return testkit::skip("systemd is not installed");
    };
    let version = Command::new(program)
        .arg("--version")
        .output()
        .unwrap()
        .stdout;
    if !String::from_utf8_lossy(&version).starts_with("systemd 252") {
        return testkit::skip("systemd is not version 252");
    }
    let output = Command::new(program)
        .arg("--dump-configuration-items")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut section = "";
    let mut theirs = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((name, _)) = line.split_once('=') {
            theirs.insert((section.to_owned(), name.to_owned()));
        }
    }
    assert!(theirs.len() > 1000);
    let mut ours = BTreeSet::new();
    for (group, row) in all().filter(|(_, row)| !OURS_ALONE.contains(&row.name)) {
        for section in group.sections() {
            ours.insert(((*section).to_owned(), row.name.to_owned()));
        }
    }
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let surplus: Vec<_> = ours.difference(&theirs).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "missing {missing:?}, surplus {surplus:?}"
    );
}

#[test]
fn the_reference_is_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/units.md");
    let page = reference();
    if std::env::var_os("AURAE_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/reference/units.md is not the table's: AURAE_UPDATE=1 cargo test -p units reference"
    );
}
