// SPDX-License-Identifier: Apache-2.0
//! Completion where TypeScript's service is not there.

use super::*;

/// What is offered at `|` without TypeScript's service.
fn offered(editor: &mut Editor, marked: &str) -> Vec<String> {
    editor.change("main.ts", &marked.replacen('|', "", 1));
    let list = editor.ask_at("textDocument/completion", "main.ts", marked, json!({}));
    let items = list.as_array().cloned().unwrap_or_default();
    let labels = items
        .iter()
        .map(|it| it["label"].as_str().unwrap_or_default().to_owned());
    labels.collect()
}

#[test]
fn completion_knows_what_the_file_itself_declares() {
    const OWN: &str = "interface Site { port: number; mode: Mode }\n\
        class Pool { size = 1; grow(): void {} static make(): Pool { return new Pool(); } }\n\
        type Pair = { left: number; right: string };\n\
        enum Level { Low, High }\n\
        declare const site: Site; declare const pair: Pair;\n";
    let mut editor = Editor::new(&[("main.ts", OWN)]);
    // After it: the cursor is at the first `|`.
    const MODE: &str = "type Mode = \"on\" | \"off\";\n";
    let mut missed = Vec::new();
    for (marked, wanted) in [
        ("print(site.|);", "port"),
        ("print(pair.|);", "right"),
        ("print(new Pool().|);", "grow"),
        ("print(Pool.|);", "make"),
        ("print(Level.|);", "High"),
        ("if (site.mode === \"|\") {}", "off"),
        ("if (site.mode === \"|", "off"),
        ("switch (site.mode) { case \"|\": break; }", "off"),
        ("const { | } = site;", "mode"),
        ("let other: |;", "Pair"),
        ("function f(a: |) {}", "Site"),
        ("const spec: runtime.|", "CellSpec"),
        ("if (\nprint(site.|);", "port"),
        (
            "print(site.|);\nif (\nconst after = 1;\nprint(after);",
            "port",
        ),
    ] {
        let offered = offered(&mut editor, &format!("{OWN}{marked}\n{MODE}"));
        if !offered.iter().any(|it| it == wanted) {
            missed.push((marked, offered.len()));
        }
    }
    assert_eq!(missed, []);
}
