// SPDX-License-Identifier: Apache-2.0
//! The examples and the pages' pieces of code: each is a program.

use std::fs;
use std::path::Path;

use super::{Folder, node};

#[test]
fn the_repositorys_examples_are_checked_and_in_the_one_style() {
    let Some(node) = node() else { return };
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let files = programs(&examples);
    assert!(files.len() >= 12, "{files:?}");
    let mut check = vec!["check"];
    check.extend(files.iter().map(String::as_str));
    node.aurae(&check).ok();
    check.splice(0..1, ["fmt", "--check"]);
    node.aurae(&check).ok();
}

fn programs(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(programs(&path));
        } else if path.extension().is_some_and(|ending| ending == "ts") {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

/// A piece of code of a page: its file, its text, whether it is to be run.
type Snippet = (String, String, bool);

fn snippets(page: &str) -> Vec<Snippet> {
    let mut found: Vec<Snippet> = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some("ts")) => open = Some((false, String::new())),
            (None, Some("ts run")) => open = Some((true, String::new())),
            (Some((run, text)), Some("")) => {
                let named = text
                    .lines()
                    .next()
                    .and_then(|it| it.strip_prefix("// file: "));
                let name = named.map_or(format!("snippet-{}.ts", found.len()), str::to_owned);
                found.push((name, text.clone(), *run));
                open = None;
            }
            (Some((_, text)), _) => text.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    found
}

#[test]
fn the_docs_snippets_are_programs() {
    let Some(node) = node() else { return };
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/language");
    let mut count = 0;
    for page in ["tour.md", "modules.md"] {
        let folder = Folder::new();
        let all = snippets(&fs::read_to_string(docs.join(page)).unwrap());
        let files: Vec<_> = all
            .iter()
            .map(|(name, text, run)| (folder.file(name, text), *run))
            .collect();
        for (file, run) in files {
            node.aurae(&["check", &file]).ok();
            count += 1;
            // Limits need a node with controllers; there is one in the stories.
            if run && !fs::read_to_string(&file).unwrap().contains("Run(") {
                node.aurae(&[&file]).ok();
            }
        }
    }
    assert!(count >= 9, "{count} snippets");
}
