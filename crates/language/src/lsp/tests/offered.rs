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
fn completion_knows_the_library() {
    let mut editor = Editor::new(&[("main.ts", "")]);
    for (marked, wanted) in [
        ("new Map<string, number>().|", "get"),
        ("new Map([[\"a\", 1]]).|", "forEach"),
        (
            "const m: Map<string, string> = new Map();\nm.get(\"a\")?.|",
            "trim",
        ),
        ("for (const [, v] of new Map<string, string>()) v.|", "trim"),
        ("new Set([1]).|", "isSubsetOf"),
        ("new Date().|", "toISOString"),
        ("Date.|", "now"),
        ("Promise.resolve(1).|", "then"),
        ("new Promise<number>(() => {}).|", "finally"),
        ("Promise.|", "allSettled"),
        ("[1].|", "map"),
        ("\"a\".|", "padStart"),
        ("const s = \"a\";\ns.split(\",\").|", "join"),
    ] {
        let offered = offered(&mut editor, marked);
        let found = offered.iter().any(|it| it == wanted);
        assert!(found, "{marked}: {offered:?}");
    }
}

#[test]
fn completion_knows_what_the_conditions_leave_of_a_union() {
    // Before it: the cursor is at the first `|`.
    const UNION: &str = "interface Disk { kind: \"disk\"; size: number }\n\
        interface Net { kind: \"net\"; address: string }\n\
        class Dog { bark(): void {} }\nclass Cat { purr(): void {} }\n\
        declare const part: Disk | Net;\ndeclare const pet: Dog | Cat;\n\
        declare const id: string | number | undefined;\n";
    let mut editor = Editor::new(&[("main.ts", "")]);
    for (marked, wanted, gone) in [
        ("if (part.kind === \"disk\") part.|", "size", "address"),
        (
            "if (part.kind !== \"disk\") {\n  part.|\n}\n",
            "address",
            "size",
        ),
        (
            "if (part.kind === \"disk\") {} else { part.| }",
            "address",
            "size",
        ),
        (
            "print(part.kind === \"net\" ? part.| : 0);",
            "address",
            "size",
        ),
        (
            "switch (part.kind) { case \"net\": part.| }",
            "address",
            "size",
        ),
        ("if (\"size\" in part) part.|", "size", "address"),
        ("if (pet instanceof Dog) pet.|", "bark", "purr"),
        ("if (!(pet instanceof Dog)) pet.|", "purr", "bark"),
        ("if (typeof id === \"string\") id.|", "trim", "toFixed"),
        (
            "if (typeof id === \"number\" && id.|) {}",
            "toFixed",
            "trim",
        ),
        (
            "if (part.kind === \"disk\") print(1);\npart.|",
            "kind",
            "bark",
        ),
    ] {
        let offered = offered(&mut editor, &format!("{marked}\n{UNION}"));
        assert!(
            offered.iter().any(|it| it == wanted),
            "{marked}: {offered:?}"
        );
        assert!(
            !offered.iter().any(|it| it == gone),
            "{marked}: {offered:?}"
        );
    }
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
