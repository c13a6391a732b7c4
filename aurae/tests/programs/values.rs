// SPDX-License-Identifier: Apache-2.0
//! Stories of a cluster's own values: one untouched program, several clusters.

use std::io::Write;
use std::process::Stdio;

use super::{Folder, node};

const PROGRAM: &str = r#"
const settings = values({ names: ["a"], labels: {} as Record<string, string> });
for (const name of settings.names) {
  await runtime.Run(new Cell({ name, labels: settings.labels }));
}
"#;

#[test]
fn values_are_laid_over_an_untouched_program() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("cells.ts", PROGRAM);
    let prod = folder.file(
        "prod.json",
        r#"{ "names": ["b", "c"], "labels": { "env": "prod" } }"#,
    );
    let yaml = folder.file("test.yaml", "names: [d]\n");
    let own = node.aurae(&["plan", &file]).ok();
    assert!(own.contains("+ create cell a"), "{own}");
    let other = node.aurae(&["plan", "--values", &yaml, &file]).ok();
    assert!(other.contains("+ create cell d"), "{other}");
    let out = folder.file("prod.plan", "");
    node.aurae(&["plan", "--values", &prod, "--out", &out, &file])
        .ok();
    let applied = node.aurae(&["apply", &out]).ok();
    assert!(applied.contains("set cells: 2 × create"), "{applied}");
    // A kept plan is of the values, too.
    folder.file("prod.json", r#"{ "names": ["b"] }"#);
    let changed = node.aurae(&["apply", &out]).fails(1);
    assert!(changed.contains("the program has changed"), "{changed}");
    folder.file("prod.json", r#"{ "nams": ["b"] }"#);
    let wrong = node.aurae(&["apply", "--values", &prod, &file]).fails(1);
    assert!(
        wrong.contains("prod.json:1:3: nams is no value of this program"),
        "{wrong}"
    );
    node.aurae(&["set", "rm", "--yes", "cells"]).ok();

    let mut piped = node.command(&["plan", "--values", "-", &file]);
    let piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut piped = piped.unwrap();
    piped
        .stdin
        .take()
        .unwrap()
        .write_all(b"names: [e]")
        .unwrap();
    let out = piped.wait_with_output().unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    assert!(out.contains("+ create cell e"), "{out}");
    let none = folder.file("none.ts", "print(1);");
    let useless = node.aurae(&["--values", &yaml, &none]).fails(2);
    assert!(useless.contains("calls values()"), "{useless}");
}
