// SPDX-License-Identifier: Apache-2.0
//! What is ours where TypeScript's service isn't there and is about writing: imports that are
//! offered, mended, put in order and follow a file's new name, and what is never read.

use super::*;

const LIBRARY: &str = "\
export interface Site { port: number }
export const siteOf = (port: number): Site => ({ port });
export function sitesOf(ports: number[]) { return ports.map(siteOf); }
export default siteOf;
";

/// The item of a name, and the text with its edits made.
fn imported(editor: &mut Editor, marked: &str, label: &str) -> Option<String> {
    let items = editor.ask_at("textDocument/completion", "main.ts", marked, json!({}));
    let items = items.as_array().unwrap().iter();
    let mut named = items.filter(|it| it["label"] == label);
    let edits = named.next()?.get("additionalTextEdits")?.clone();
    assert!(named.next().is_none(), "{label} is offered twice");
    Some(edited(&marked.replacen('|', "", 1), &edits))
}

/// A text after edits that don't overlap.
fn edited(text: &str, edits: &Value) -> String {
    let source = crate::source::Source::new("main.ts", text);
    let edits: Vec<lsp_types::TextEdit> = serde_json::from_value(edits.clone()).unwrap();
    let mut edits: Vec<_> = edits
        .into_iter()
        .map(|it| {
            let at = |position| place::offset(&source, position) as usize;
            (at(it.range.start)..at(it.range.end), it.new_text)
        })
        .collect();
    edits.sort_by_key(|(at, _)| std::cmp::Reverse(at.start));
    let mut text = text.to_owned();
    for (at, new) in edits {
        text.replace_range(at, &new);
    }
    text
}

#[test]
fn what_other_modules_export_is_completed_with_its_import() {
    let files = [("lib/site.ts", LIBRARY), ("main.ts", "")];
    let mut editor = Editor::in_folder(&files, json!({}));
    editor.open("main.ts", "");
    let mut imported = |marked: &str, label: &str| imported(&mut editor, marked, label);
    let line = "import { sitesOf } from \"./lib/site.ts\";\n";
    assert_eq!(
        imported("print(sit|", "sitesOf"),
        Some(format!("{line}print(sit"))
    );
    assert_eq!(
        imported(
            "#!/usr/bin/env aurae\n// Ours.\n\nprint(sit|);\n",
            "sitesOf"
        ),
        Some(format!(
            "#!/usr/bin/env aurae\n// Ours.\n\n{line}print(sit);\n"
        ))
    );
    assert_eq!(
        imported("import \"./b.ts\";\nconst s: Si| = 1;\n", "Site").as_deref(),
        Some(
            "import \"./b.ts\";\nimport type { Site } from \"./lib/site.ts\";\nconst s: Si = 1;\n"
        )
    );
    let begun = "import { siteOf } from \"./lib/site.ts\";\n";
    assert_eq!(
        imported(&format!("{begun}print(siteOf(1), sites|"), "sitesOf").as_deref(),
        Some("import { siteOf, sitesOf } from \"./lib/site.ts\";\nprint(siteOf(1), sites")
    );
    assert_eq!(
        imported(&format!("{begun}const s: Si| = siteOf(1);\n"), "Site").as_deref(),
        Some("import { siteOf, type Site } from \"./lib/site.ts\";\nconst s: Si = siteOf(1);\n")
    );
    // What is here already, what is no value, and what comes after a dot needs no import.
    assert_eq!(
        imported(&format!("{begun}print(siteO|);\n"), "siteOf"),
        None
    );
    assert_eq!(imported("print(Sit|);\n", "Site"), None);
    assert_eq!(imported("print(runtime.sit|);\n", "siteOf"), None);
}

#[test]
fn a_modules_default_is_imported_by_its_own_name_or_its_files() {
    let files = [
        (
            "lib/serve.ts",
            "export default function serving() {}\nexport const port = 1;\n",
        ),
        ("lib/load-balancer.ts", "export default { size: 1 };\n"),
        ("lib/2.ts", "export default 2;\n"),
        ("lib/class.ts", "export default 3;\n"),
        (
            "lib/shape.ts",
            "export default interface Shape { size: number }\n",
        ),
        ("lib/site.ts", LIBRARY),
        ("main.ts", ""),
    ];
    let mut editor = Editor::in_folder(&files, json!({}));
    editor.open("main.ts", "");
    assert_eq!(
        imported(&mut editor, "servi|", "serving").as_deref(),
        Some("import serving from \"./lib/serve.ts\";\nservi")
    );
    assert_eq!(
        imported(&mut editor, "print(loadB|);\n", "loadBalancer").as_deref(),
        Some("import loadBalancer from \"./lib/load-balancer.ts\";\nprint(loadB);\n")
    );
    assert_eq!(
        imported(&mut editor, "const s: Sha| = 1;\n", "Shape").as_deref(),
        Some("import type Shape from \"./lib/shape.ts\";\nconst s: Sha = 1;\n")
    );
    // Before the names that are taken already.
    let begun = "import { port } from \"./lib/serve.ts\";\n";
    assert_eq!(
        imported(
            &mut editor,
            &format!("{begun}print(port, servi|"),
            "serving"
        )
        .as_deref(),
        Some("import serving, { port } from \"./lib/serve.ts\";\nprint(port, servi")
    );
    // What has no name, and what is exported by its name, isn't offered as a default.
    let offered = editor.completed("print(cla|);\n");
    assert!(!offered.contains(&"class".to_owned()), "{offered:?}");
    let named = imported(&mut editor, "siteO|", "siteOf");
    assert!(named.is_some_and(|it| it.starts_with("import { siteOf }")));
    // A name that means nothing is mended with it, too.
    editor.change("main.ts", "serving();\n");
    let found = actions(&mut editor, (0, 1), Some("quickfix"));
    let titles: Vec<&str> = found
        .iter()
        .map(|it| it["title"].as_str().unwrap())
        .collect();
    assert!(
        titles.contains(&"Import `serving` from \"./lib/serve.ts\""),
        "{titles:?}"
    );
}

#[test]
fn a_module_whose_imports_lead_here_is_not_offered() {
    let files = [
        (
            "top.ts",
            "import { low } from \"./main.ts\";\nexport const upper = low;\n",
        ),
        ("main.ts", "export const low = 1;\n"),
    ];
    let mut editor = Editor::in_folder(&files, json!({}));
    editor.open("main.ts", "export const low = 1;\n");
    let offered = editor.completed("export const low = 1;\nprint(up|);\n");
    assert!(!offered.contains(&"upper".to_owned()), "{offered:?}");
}

/// The actions of a document in a range of lines.
fn actions(editor: &mut Editor, lines: (u64, u64), only: Option<&str>) -> Vec<Value> {
    let position = |line| json!({ "line": line, "character": 0 });
    let range = json!({ "start": position(lines.0), "end": position(lines.1) });
    let mut context = json!({ "diagnostics": [] });
    if let Some(only) = only {
        context["only"] = json!([only]);
    }
    let document = json!({ "uri": editor.uri("main.ts") });
    let params = json!({ "textDocument": document, "range": range, "context": context });
    let actions = editor.ask("textDocument/codeAction", params);
    actions.as_array().unwrap().clone()
}

#[test]
fn a_name_that_means_nothing_is_imported() {
    let text = "const site: Site = siteOf(80);\nprint(site, unheardOf);\n";
    let mut editor = Editor::in_folder(&[("lib/site.ts", LIBRARY), ("main.ts", text)], json!({}));
    editor.open("main.ts", text);
    let uri = editor.uri("main.ts");
    let found = actions(&mut editor, (0, 1), Some("quickfix"));
    let titles: Vec<&str> = found
        .iter()
        .map(|it| it["title"].as_str().unwrap())
        .filter(|it| it.starts_with("Import"))
        .collect();
    assert_eq!(
        titles,
        [
            "Import `Site` from \"./lib/site.ts\"",
            "Import `siteOf` from \"./lib/site.ts\""
        ]
    );
    let mended = found
        .iter()
        .find(|it| it["title"].as_str().unwrap().contains("`siteOf`"))
        .unwrap();
    assert_eq!(mended["diagnostics"][0]["code"], "unknown-name");
    assert_eq!(
        edited(text, &mended["edit"]["changes"][uri.as_str()]),
        format!("import {{ siteOf }} from \"./lib/site.ts\";\n{text}")
    );
    let beyond = actions(&mut editor, (1, 2), Some("quickfix"));
    let title = |it: &Value| it["title"].as_str().unwrap().starts_with("Import");
    assert!(!beyond.iter().any(title), "{beyond:?}");
}

#[test]
fn imports_are_put_in_order_without_what_is_not_read() {
    let text = "\
import { web, type Site, api } from \"./web.ts\";
import { unread } from \"./acts.ts\";
import type { Gone } from \"./gone.ts\";
import { Db, db as base } from \"../db.ts\";
import { api as site } from \"./web.ts\";

// For what it does.
import \"./first.ts\";
import all from \"./z.ts\";
import * as a from \"./a.ts\";
const one: Site = web;
print(one, api, site, Db, base, all, a);
";
    let ordered = "\
import { Db, db as base } from \"../db.ts\";
import \"./acts.ts\";
import { api, api as site, type Site, web } from \"./web.ts\";

// For what it does.
import \"./first.ts\";
import * as a from \"./a.ts\";
import all from \"./z.ts\";
";
    let mut editor = Editor::new(&[("main.ts", text)]);
    let uri = editor.uri("main.ts");
    let found = actions(&mut editor, (0, 1), Some("source.organizeImports"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["kind"], "source.organizeImports");
    let new = edited(text, &found[0]["edit"]["changes"][uri.as_str()]);
    let rest = &text[text.find("const one").unwrap()..];
    assert_eq!(new, format!("{ordered}{rest}"));
    // In order there is nothing to do, and nothing in a text that doesn't parse.
    editor.change("main.ts", &new);
    assert!(actions(&mut editor, (0, 1), Some("source")).is_empty());
    editor.change("main.ts", &format!("{text}print(("));
    assert!(actions(&mut editor, (0, 1), Some("source")).is_empty());
    editor.change("main.ts", text);
    let quick = actions(&mut editor, (0, 1), Some("quickfix"));
    let is_source = |it: &Value| it["kind"] != "quickfix";
    assert!(!quick.iter().any(is_source), "{quick:?}");
}

const READ: &str = "\
import { web, type Site } from \"./web.ts\";
import type { A } from \"./web.ts\";
import * as gone from \"./web.ts\";
export const seen = 1;
let written = 1;
written = 2;
const { left, ...rest } = { left: 1, right: 2 };
for (const one of [1]) print(rest);
function unread(parameter: number) {}
interface Shape {}
const _let = 1;
class Used {}
export function f(): A { const inner = new Used(); return web; }
declare const ambient: number;
export const last = (first: number, second: number, ...more: number[]) => second;
export function given({ size, ...others }: { size: number }, { low, high }: A, _why: string) {
  return [others, high];
}
export abstract class Kept {
  constructor(private readonly own: number, plain: string) {}
  abstract take(what: string): void;
  over(it: string): void;
  over(it: string, extra?: number): void {}
}
export type Taking = (taken: number) => void;
";

#[test]
fn what_is_never_read_is_faded() {
    let text = READ;
    let mut editor = Editor::new(&[
        (
            "web.ts",
            "export const web = 1;\nexport interface Site {}\nexport type A = number;\n",
        ),
        ("main.ts", text),
    ]);
    let faded = |editor: &mut Editor| {
        let told = editor.diagnostics("main.ts");
        let hints = told.into_iter().filter(|it| it["severity"] == 4);
        hints
            .map(|it| {
                assert_eq!(it["tags"], json!([1]), "{it}");
                assert_eq!(it["code"], "unused");
                let line = it["range"]["start"]["line"].as_u64().unwrap();
                (line, it["message"].as_str().unwrap().to_owned())
            })
            .collect::<Vec<_>>()
    };
    let never = |line: u64, name: &str| (line, format!("`{name}` is never read"));
    assert_eq!(
        faded(&mut editor),
        [
            never(0, "Site"),
            never(2, "gone"),
            never(4, "written"),
            never(8, "unread"),
            never(8, "parameter"),
            never(9, "Shape"),
            never(12, "inner"),
            never(14, "first"),
            never(14, "more"),
            never(15, "low"),
            never(19, "plain"),
            never(22, "it"),
            never(22, "extra"),
        ]
    );
    editor.change(
        "main.ts",
        "import { web, type Site } from \"./web.ts\";\nprint(1);\n",
    );
    let all = "nothing that is imported here is read".to_owned();
    assert_eq!(faded(&mut editor), [(0, all)]);
    editor.change(
        "main.ts",
        "import { web, type Site } from \"./web.ts\";\nprint(1;\n",
    );
    assert_eq!(faded(&mut editor), []);
}

#[test]
fn imports_follow_a_modules_new_path() {
    let files = [
        (
            "lib/site.ts",
            "import { low } from '../low.ts';\nexport const site = low;\n",
        ),
        ("low.ts", "export const low = 1;\n"),
        (
            "main.ts",
            "import { site } from \"./lib/site.ts\";\nexport * from \"./lib/site.ts\";\nprint(site);\n",
        ),
        ("apart.ts", "print(1);\n"),
    ];
    let mut editor = Editor::in_folder(&files, json!({}));
    editor.open("apart.ts", files[3].1);
    let mut follow = |from: &str, to: &str| {
        let moved = json!([{ "oldUri": editor.uri(from), "newUri": editor.uri(to) }]);
        let edit = editor.ask("workspace/willRenameFiles", json!({ "files": moved }));
        let changed = |(name, text): &(&'static str, &str)| {
            let edits = edit["changes"].get(editor.uri(name))?;
            Some((*name, edited(text, edits)))
        };
        files.iter().filter_map(changed).collect::<Vec<_>>()
    };
    let text = |text: &str| text.to_owned();
    assert_eq!(
        follow("lib/site.ts", "apps/web/page.ts"),
        [
            (
                "lib/site.ts",
                text("import { low } from '../../low.ts';\nexport const site = low;\n")
            ),
            (
                "main.ts",
                text(
                    "import { site } from \"./apps/web/page.ts\";\nexport * from \"./apps/web/page.ts\";\nprint(site);\n"
                )
            ),
        ]
    );
    assert_eq!(
        follow("low.ts", "lib/low.ts"),
        [(
            "lib/site.ts",
            text("import { low } from './low.ts';\nexport const site = low;\n")
        )]
    );
    assert_eq!(follow("apart.ts", "other.ts"), []);
    assert_eq!(follow("low.ts", "../low.ts"), []);
}
