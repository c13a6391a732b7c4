// SPDX-License-Identifier: Apache-2.0
//! What is ours where TypeScript's service isn't there: highlights, folding, selections, symbols of
//! all modules, definitions of types, implementations, formatting of a range.

use super::*;

const SITE: &str = "\
export interface Site {
  port: number;
}
/*
 * Two lines.
 */
export class Web implements Site {
  port = 80;
}
";

const MAIN: &str = "\
import { Web } from \"./site.ts\";
import type { Site } from \"./site.ts\";
const site: Site = new Web();
class Slow extends Web {
  port = 81;
}
print(site.port,   new Slow().port);
function f( ) {
  return site;
}
f();
";

fn opened() -> Editor {
    Editor::new(&[("site.ts", SITE), ("main.ts", MAIN)])
}

/// The lines of the ranges in an answer, from 0.
fn lines(answer: &Value, range: &str) -> Vec<u64> {
    let list = answer.as_array().unwrap().iter();
    let start = format!("{range}/start/line");
    list.map(|it| it.pointer(&start).unwrap().as_u64().unwrap())
        .collect()
}

#[test]
fn a_name_is_highlighted_where_it_stands_in_its_module() {
    let mut editor = opened();
    let mut at = |text: &str, marked: &str| {
        let marked = MAIN.replacen(text, marked, 1);
        let found = editor.ask_at(
            "textDocument/documentHighlight",
            "main.ts",
            &marked,
            json!({}),
        );
        lines(&found, "/range")
    };
    assert_eq!(at("const site", "const s|ite"), [2, 6, 8]);
    assert_eq!(at("site.port", "site.po|rt"), [6]);
    assert_eq!(at("print(", "pri|nt("), [6]);
    assert_eq!(at("Slow()", "Sl|ow()"), [3, 6]);
}

#[test]
fn bodies_comments_and_imports_are_folded() {
    let mut editor = opened();
    let mut folds = |name: &str| {
        let of = json!({ "textDocument": { "uri": editor.uri(name) } });
        let found = editor.ask("textDocument/foldingRange", of);
        let folds = found.as_array().unwrap().iter().map(|it| {
            let kind = it["kind"].as_str().unwrap_or_default().to_owned();
            let (start, end) = (it["startLine"].as_u64(), it["endLine"].as_u64());
            (start.unwrap(), end.unwrap(), kind)
        });
        let mut folds: Vec<_> = folds.collect();
        folds.sort();
        folds
    };
    let plain = String::new;
    assert_eq!(
        folds("main.ts"),
        [
            (0, 1, "imports".to_owned()),
            (3, 4, plain()),
            (7, 8, plain())
        ]
    );
    assert_eq!(
        folds("site.ts"),
        [
            (0, 1, plain()),
            (3, 5, "comment".to_owned()),
            (6, 7, plain())
        ]
    );
}

#[test]
fn a_selection_grows_from_a_name_to_the_module() {
    let mut editor = opened();
    let params = json!({
        "textDocument": { "uri": editor.uri("main.ts") },
        "positions": [{ "line": 6, "character": 12 }, { "line": 99, "character": 0 }],
    });
    let found = editor.ask("textDocument/selectionRange", params);
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    let mut widths = Vec::new();
    let mut step = &found[0];
    while !step.is_null() {
        let (start, end) = (&step["range"]["start"], &step["range"]["end"]);
        assert!(widths.len() < 20, "{found}");
        widths.push((
            start["line"].clone(),
            start["character"].clone(),
            end["line"].clone(),
        ));
        step = &step["parent"];
    }
    assert_eq!(widths[0], (json!(6), json!(11), json!(6)), "the name first");
    assert_eq!(widths.last().unwrap().0, json!(0), "the module last");
    assert!(widths.len() >= 5, "{widths:?}");
}

#[test]
fn types_implementations_and_symbols_are_found_in_all_modules() {
    let mut editor = opened();
    let marked = MAIN.replacen("print(site", "print(si|te", 1);
    let place = editor.ask_at("textDocument/typeDefinition", "main.ts", &marked, json!({}));
    assert_eq!(place["uri"], editor.uri("site.ts"), "{place}");
    assert_eq!(place["range"]["start"]["line"], 0);
    let marked = MAIN.replacen("const site: Site", "const site: Si|te", 1);
    let found = editor.ask_at("textDocument/implementation", "main.ts", &marked, json!({}));
    let mut at = lines(&found, "/range");
    at.sort_unstable();
    assert_eq!(at, [3, 6], "{found}");
    let marked = MAIN.replacen("site.port", "site.po|rt", 1);
    let found = editor.ask_at("textDocument/implementation", "main.ts", &marked, json!({}));
    let mut at = lines(&found, "/range");
    at.sort_unstable();
    assert_eq!(at, [4, 7], "{found}");
    let found = editor.ask("workspace/symbol", json!({ "query": "si" }));
    let names: Vec<&str> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{found}");
    assert!(
        names.contains(&"Site") && names.contains(&"site"),
        "{names:?}"
    );
}

#[test]
fn a_range_is_formatted_alone() {
    let mut editor = opened();
    let uri = editor.uri("main.ts");
    let mut edits = |first: u64, last: u64| {
        let range = json!({ "start": { "line": first, "character": 0 }, "end": { "line": last, "character": 0 } });
        let params = json!({
            "textDocument": { "uri": uri },
            "range": range,
            "options": { "tabSize": 2, "insertSpaces": true },
        });
        editor.ask("textDocument/rangeFormatting", params)
    };
    let found = edits(6, 7);
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found[0]["newText"], "print(site.port, new Slow().port);\n");
    assert_eq!(lines(&edits(0, 6), "/range"), Vec::<u64>::new());
    assert_eq!(lines(&edits(0, 11), "/range"), [6, 7]);
}

#[test]
fn a_half_typed_text_still_has_its_shape() {
    let mut editor = opened();
    editor.change("main.ts", &MAIN.replacen("f();", "f(;", 1));
    let of = json!({ "textDocument": { "uri": editor.uri("main.ts") } });
    let folds = editor.ask("textDocument/foldingRange", of);
    assert_eq!(folds.as_array().unwrap().len(), 3, "{folds}");
    let at = json!({
        "textDocument": { "uri": editor.uri("main.ts") },
        "position": { "line": 2, "character": 7 },
    });
    let found = editor.ask("textDocument/documentHighlight", at);
    assert_eq!(lines(&found, "/range"), [2, 6, 8]);
}
