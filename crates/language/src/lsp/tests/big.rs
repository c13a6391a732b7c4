// SPDX-License-Identifier: Apache-2.0
//! A workspace of a thousand modules.

use super::*;

/// A tree of modules, each importing two others, and the first of them.
fn thousand() -> Vec<(String, String)> {
    const FILES: usize = 1000;
    let below = |index: usize| {
        [2 * index + 1, 2 * index + 2]
            .into_iter()
            .filter(|it| *it < FILES)
    };
    let module = |index: usize| {
        let imports = below(index);
        let imports = imports.map(|it| format!("import {{ make{it} }} from \"./m{it}.ts\";\n"));
        let line = "  print(new Cell({ name, labels: { app: name } }).labels);\n".repeat(20);
        let uses = below(index).map(|it| format!("print(make{it}(\"a\").argv.length);\n"));
        format!(
            "{}export function make{index}(name: string) {{\n{line}  return new Executable({{ \
             name, argv: [\"x\"] }});\n}}\n{}",
            imports.collect::<String>(),
            uses.collect::<String>()
        )
    };
    let modules = (0..FILES).map(|index| (format!("m{index}.ts"), module(index)));
    modules.collect()
}

#[test]
fn questions_do_not_wait_for_the_findings_of_a_big_workspace() {
    let files = thousand();
    let mut editor = Editor::in_folder(&files, json!({ "window": { "workDoneProgress": true } }));
    let text = format!("{}\nprint(make1(\"a\").argv);\nruntime.Lst;\n", files[0].1);
    editor.open("m0.ts", &text);
    // The findings are being made from here on.
    let begun = |message: &Message| match message {
        Message::Notification(it) => it.params["value"]["kind"] == "begin",
        _ => false,
    };
    while !begun(&editor.read()) {}
    let line = files[0].1.lines().count() + 1;
    let position = json!({ "line": line, "character": 17 });
    let document = json!({ "uri": editor.uri("m0.ts") });
    let params = json!({ "textDocument": document, "position": position });
    let items = editor.ask("textDocument/completion", params);
    let labels = items.as_array().unwrap().iter();
    let labels: Vec<&str> = labels.map(|it| it["label"].as_str().unwrap()).collect();
    assert!(labels.contains(&"argv"), "{labels:?}");
    let told: Vec<&str> = editor.told.iter().map(|it| it.method.as_str()).collect();
    assert!(told.is_empty(), "the answer came after {told:?}");
    assert_eq!(editor.findings("m0.ts"), ["unknown-field"]);
    let end = |told: &Notification| told.params["value"]["kind"] == "end";
    while !editor.told.iter().any(end) {
        match editor.read() {
            Message::Notification(told) => editor.told.push(told),
            other => panic!("{other:?}"),
        }
    }
}
