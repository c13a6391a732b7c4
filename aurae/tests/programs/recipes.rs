// SPDX-License-Identifier: Apache-2.0
//! The recipes for a pipeline that the documentation gives, run as they stand there.

use std::path::Path;
use std::process::{Command, Output};

use super::super::bed::{Node, node};
use super::{Folder, WEB};

/// The first block of a language behind a line of the page.
fn block(page: &str, after: &str, language: &str) -> String {
    let (_, rest) = page.split_once(after).unwrap();
    let (_, rest) = rest.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// What the steps of a workflow run, one after the other.
fn steps(workflow: &str) -> Vec<String> {
    let lines = workflow
        .lines()
        .map(|line| line.trim_start_matches([' ', '-']));
    let runs = lines.filter_map(|line| line.strip_prefix("run: "));
    runs.map(str::to_owned).collect()
}

/// A script as a pipeline runs it: in the checkout's folder, with `aurae` on PATH, ending at what
/// fails.
fn shell(node: &Node, folder: &Folder, script: &str) -> Output {
    let aurae = Path::new(env!("CARGO_BIN_EXE_aurae"));
    let path = format!("{}:/usr/bin:/bin", aurae.parent().unwrap().display());
    let mut shell = Command::new("sh");
    shell
        .args(["-e", "-c", script])
        .current_dir(folder.0.path());
    shell.env_clear().env("PATH", path);
    shell.env("AURAE_CONFIG", node.path("config.toml"));
    shell.output().unwrap()
}

fn page() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/language");
    std::fs::read_to_string(docs.join("sets.md")).unwrap()
}

/// The repository, checked out anew.
fn checkout(page: &str) -> Folder {
    let folder = Folder::new();
    folder.file("aurae.json", &block(page, "## In a pipeline", "json"));
    folder.file("deploy/web.ts", WEB);
    folder
}

#[test]
fn the_recipe_in_plain_shell_applies_once_and_then_has_nothing_to_do() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    folder.file("deploy/web.ts", WEB);
    let script = block(&page(), "The same in plain shell", "sh");
    let first = shell(&node, &folder, &script);
    let told = format!("{first:?}");
    assert_eq!(first.status.code(), Some(0), "{told}");
    assert_eq!(node.aurae(&["ps", "-q"]).ok().lines().count(), 3, "{told}");
    let second = shell(&node, &folder, &script);
    assert_eq!(second.status.code(), Some(0), "{second:?}");
    assert!(
        String::from_utf8_lossy(&second.stdout).ends_with("nothing to do\n"),
        "{second:?}"
    );
    // What is wrong ends the pipeline with the status that says so, and changes nothing.
    folder.file("deploy/web.ts", &WEB.replace("hostname", "hostnam"));
    let wrong = shell(&node, &folder, &script);
    assert_eq!(wrong.status.code(), Some(3), "{wrong:?}");
    assert_eq!(node.aurae(&["ps", "-q"]).ok().lines().count(), 3);
}

#[test]
fn the_workflows_steps_check_plan_apply_and_see_drift() {
    let Some(node) = node() else { return };
    let page = page();
    let folder = checkout(&page);
    let deploy = steps(&block(&page, "## In a pipeline", "yaml"));
    let drift = steps(&block(&page, "Drift, every night", "yaml"));
    assert_eq!((deploy.len(), drift.len()), (3, 1), "{deploy:?} {drift:?}");
    for step in &deploy {
        let ran = shell(&node, &folder, step);
        assert_eq!(ran.status.code(), Some(0), "{step}: {ran:?}");
    }
    assert_eq!(node.aurae(&["ps", "-q"]).ok().lines().count(), 3);
    // The night's checkout is another one, and the same program.
    let night = checkout(&page);
    let none = shell(&node, &night, &drift[0]);
    assert_eq!(none.status.code(), Some(0), "{none:?}");
    node.aurae(&["rm", "-f", "web/side"]).ok();
    let some = shell(&node, &night, &drift[0]);
    assert_eq!(some.status.code(), Some(2), "{some:?}");
    assert!(
        String::from_utf8_lossy(&some.stdout).contains("web/side"),
        "{some:?}"
    );
}
