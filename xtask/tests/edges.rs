// SPDX-License-Identifier: Apache-2.0
//! The edges between crates are those that ARCHITECTURE.md allows: no more, and no crate without a
//! row.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Edges = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The rows of the table headed `| crate | may depend on |`; words in brackets are remarks.
fn allowed() -> Edges {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = text
        .lines()
        .skip_while(|line| *line != "| crate | may depend on |")
        .skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, edges] = cells[..] else {
            panic!("a row of two cells: {row}")
        };
        let edges = edges
            .split(',')
            .map(|edge| edge.split('(').next().unwrap().trim());
        let edges = edges
            .filter(|edge| !matches!(*edge, "" | "-"))
            .map(str::to_owned);
        (name.to_owned(), edges.collect())
    })
    .collect()
}

fn manifests() -> Vec<PathBuf> {
    let root = root();
    let workspace: toml::Table = fs::read_to_string(root.join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let mut found = Vec::new();
    for member in members.iter().map(|member| member.as_str().unwrap()) {
        match member.strip_suffix("/*") {
            Some(folder) => found.extend(
                fs::read_dir(root.join(folder))
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            ),
            None => found.push(root.join(member)),
        }
    }
    found
        .into_iter()
        .map(|folder| folder.join("Cargo.toml"))
        .collect()
}

fn actual() -> Edges {
    let tables: Vec<toml::Table> = manifests()
        .iter()
        .map(|path| fs::read_to_string(path).unwrap().parse().unwrap())
        .collect();
    let name = |table: &toml::Table| table["package"]["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = tables.iter().map(name).collect();
    let edges_of = |table: &toml::Table| {
        let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
        let named = kinds.iter().filter_map(|kind| table.get(*kind)?.as_table());
        named
            .flat_map(toml::Table::keys)
            .filter(|key| ours.contains(*key))
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    tables
        .iter()
        .map(|table| (name(table), edges_of(table)))
        .collect()
}

#[test]
fn every_edge_between_crates_is_allowed() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    for (name, edges) in actual() {
        let Some(may) = allowed.get(&name) else {
            wrong.push(format!("{name} has no row in ARCHITECTURE.md"));
            continue;
        };
        // A crate's tests may ask for its own features.
        let surplus = edges.difference(may).filter(|edge| **edge != name);
        wrong.extend(surplus.map(|edge| format!("{name} must not depend on {edge}")));
    }
    assert!(
        wrong.is_empty(),
        "{}\nAn edge more needs an ADR.",
        wrong.join("\n")
    );
}

#[test]
fn every_row_is_a_crate() {
    let actual = actual();
    let gone: Vec<String> = allowed()
        .into_keys()
        .filter(|row| !actual.contains_key(row))
        .collect();
    assert!(
        gone.is_empty(),
        "rows of ARCHITECTURE.md without a crate: {gone:?}"
    );
}
