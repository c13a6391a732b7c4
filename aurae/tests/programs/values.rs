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
    // A saved plan is of the values, too.
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

const TYPED: &str = r#"
interface Settings { names: string[]; tier: "small" | "large"; note?: string }
const settings: Settings = values({ names: ["a"], tier: "small" });
const labels = { tier: settings.tier };
await runtime.Run(settings.names.map((name) => new Cell({ name, labels })));
"#;

#[test]
fn values_are_held_against_the_types_that_the_program_declares() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("typed.ts", TYPED);
    let more = folder.file(
        "more.yaml",
        "tier: large\nnote: more than the defaults have\n",
    );
    let planned = node.aurae(&["plan", "--values", &more, &file]).ok();
    assert!(planned.contains("+ create cell a"), "{planned}");
    let wrong = folder.file("wrong.yaml", "names: [b]\ntier: lage\n");
    for words in [
        &["plan", "--values", &wrong, &file][..],
        &["apply", "--yes", "--values", &wrong, &file],
        &["--values", &wrong, &file],
    ] {
        let told = node.aurae(words).fails(1);
        let expected = r#"tier is "small" or "large", got "lage"; did you mean "large"?"#;
        assert!(
            told.contains("wrong.yaml:2:1: ") && told.contains(expected),
            "{told}"
        );
    }
    // Nothing was begun.
    let cells = node.aurae(&["set", "ls"]).ok();
    assert!(!cells.contains("typed"), "{cells}");
    let none = node.aurae(&["--values", &wrong]).fails(2);
    assert!(none.contains("for a program"), "{none}");
    // A type argument alone asks for values, too.
    let own = folder.file("own.ts", "print(values<{ a: 1 | 2 }>({ a: 1 }).a);");
    let two = folder.file("two.json", "{ \"a\": 2 }");
    assert_eq!(node.aurae(&["--values", &two, &own]).ok(), "2\n");
}
