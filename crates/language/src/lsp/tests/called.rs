// SPDX-License-Identifier: Apache-2.0
//! What is ours where TypeScript's service isn't there and is about what is written already: who
//! calls what, and hints between the words.

use super::*;

const SITE: &str = "\
export class Web {
  constructor() { prepare(); }
  open(port: number) { return listen(port); }
}
export function prepare() {}
export default function main() { prepare(); }
export function listen(port: number) { return port; }
";

const MAIN: &str = "\
import begin, { prepare as ready, Web } from \"./site.ts\";
const start = async () => {
  ready();
  await runtime.List({});
};
function all() {
  [1, 2].map(() => start());
  new Web().open(80);
}
begin();
all();
await runtime.List({});
";

/// The names in a list of calls, each with the lines of its calls.
fn told(calls: &Value, end: &str) -> Vec<(String, Vec<u64>)> {
    let calls = calls.as_array().unwrap().iter().map(|call| {
        let places = call["fromRanges"].as_array().unwrap().iter();
        let lines = places.map(|it| it["start"]["line"].as_u64().unwrap());
        let name = call[end]["name"].as_str().unwrap().to_owned();
        (name, lines.collect())
    });
    calls.collect()
}

fn item(editor: &mut Editor, name: &str, marked: &str) -> Value {
    let method = "textDocument/prepareCallHierarchy";
    let found = editor.ask_at(method, name, marked, json!({}));
    found[0].clone()
}

fn named(list: &[(&str, &[u64])]) -> Vec<(String, Vec<u64>)> {
    let list = list.iter();
    list.map(|(name, lines)| ((*name).to_owned(), lines.to_vec()))
        .collect()
}

#[test]
fn callers_and_what_is_called_are_found_in_all_modules() {
    let mut editor = Editor::in_folder(&[("site.ts", SITE), ("main.ts", MAIN)], json!({}));
    // Who calls it needn't be open.
    editor.open("site.ts", SITE);
    let incoming = |editor: &mut Editor, item: &Value| {
        let found = editor.ask("callHierarchy/incomingCalls", json!({ "item": item }));
        told(&found, "from")
    };
    let outgoing = |editor: &mut Editor, item: &Value| {
        let found = editor.ask("callHierarchy/outgoingCalls", json!({ "item": item }));
        told(&found, "to")
    };
    let marked = SITE.replacen("function prepare", "function pre|pare", 1);
    let prepare = item(&mut editor, "site.ts", &marked);
    assert_eq!(prepare["name"], "prepare");
    assert_eq!(prepare["selectionRange"]["start"]["line"], 4);
    let expected: &[(&str, &[u64])] = &[("Web", &[1]), ("main", &[5]), ("start", &[2])];
    assert_eq!(incoming(&mut editor, &prepare), named(expected));
    let marked = SITE.replacen("  open(", "  op|en(", 1);
    let open = item(&mut editor, "site.ts", &marked);
    assert_eq!(incoming(&mut editor, &open), named(&[("all", &[7])]));
    assert_eq!(outgoing(&mut editor, &open), named(&[("listen", &[2])]));
    let marked = SITE.replacen("class Web", "class W|eb", 1);
    let web = item(&mut editor, "site.ts", &marked);
    assert_eq!(incoming(&mut editor, &web), named(&[("all", &[7])]));
    assert_eq!(outgoing(&mut editor, &web), named(&[("prepare", &[1])]));
    let marked = SITE.replacen("function main", "function ma|in", 1);
    let main = item(&mut editor, "site.ts", &marked);
    let callers = incoming(&mut editor, &main);
    assert_eq!(callers, named(&[("main.ts", &[9])]));
    editor.open("main.ts", MAIN);
    let marked = MAIN.replacen("all();\nawait", "al|l();\nawait", 1);
    let all = item(&mut editor, "main.ts", &marked);
    let expected: &[(&str, &[u64])] = &[
        ("map", &[6]),
        ("start", &[6]),
        ("Web", &[7]),
        ("open", &[7]),
    ];
    assert_eq!(outgoing(&mut editor, &all), named(expected));
}

#[test]
fn thousands_of_calls_are_told_each_with_its_caller() {
    const MANY: usize = 1_500;
    let mut text = "export function low(n: number): number { return n; }\n".to_owned();
    for index in 0..MANY {
        text.push_str(&format!(
            "function f{index}() {{ return low(1) + low(2); }}\n"
        ));
    }
    text.push_str("function top() {\n");
    for index in 0..MANY {
        text.push_str(&format!("  f{index}();\n"));
    }
    text.push_str("}\ntop();\n");
    let mut editor = Editor::new(&[("main.ts", &text)]);
    let marked = text.replacen("function low", "function lo|w", 1);
    let low = item(&mut editor, "main.ts", &marked);
    let found = editor.ask("callHierarchy/incomingCalls", json!({ "item": low }));
    let callers = told(&found, "from");
    assert_eq!(callers.len(), MANY);
    assert!(callers.iter().all(|(_, lines)| lines.len() == 2));
    let marked = text.replacen("function top", "function to|p", 1);
    let top = item(&mut editor, "main.ts", &marked);
    let found = editor.ask("callHierarchy/outgoingCalls", json!({ "item": top }));
    assert_eq!(told(&found, "to").len(), MANY);
}

#[test]
fn callers_of_the_api_are_found_and_what_a_module_calls() {
    let mut editor = Editor::new(&[("site.ts", SITE), ("main.ts", MAIN)]);
    let marked = MAIN.replacen("runtime.List", "runtime.Li|st", 1);
    let list = item(&mut editor, "main.ts", &marked);
    assert!(
        list["uri"].as_str().unwrap().ends_with("aurae.d.ts"),
        "{list}"
    );
    let found = editor.ask("callHierarchy/incomingCalls", json!({ "item": list }));
    let expected: &[(&str, &[u64])] = &[("main.ts", &[11]), ("start", &[3])];
    assert_eq!(told(&found, "from"), named(expected));
    let module = found[0]["from"].clone();
    let found = editor.ask("callHierarchy/outgoingCalls", json!({ "item": module }));
    let expected: &[(&str, &[u64])] = &[("main", &[9]), ("all", &[10]), ("List", &[11])];
    assert_eq!(told(&found, "to"), named(expected));
    // What is no call's is none, and a text that doesn't parse has the places it had.
    let marked = MAIN.replacen("const start", "const st|art", 1);
    let broken = format!("(\n{marked}");
    let start = item(&mut editor, "main.ts", &broken);
    assert_eq!(start["selectionRange"]["start"]["line"], 2, "{start}");
    let found = editor.ask("callHierarchy/incomingCalls", json!({ "item": start }));
    assert_eq!(told(&found, "from"), named(&[("all", &[7])]));
    let none = item(&mut editor, "main.ts", "const por|t = 80;\nprint(port);\n");
    assert_eq!(none, Value::Null);
}

#[test]
fn names_of_parameters_and_types_of_constants_are_shown_between_the_words() {
    let text = "\
function listen(port: number, host: string, ...more: number[]) {
  return `${host}${port}${more.length}`;
}
const host = \"::\";
listen(80, host, 1, 2);
listen(+80, \"::1\");
const list = await runtime.List({});
const cell: runtime.Cell | undefined = undefined;
const pending = runtime.List({});
const own = listen(1, host);
print(list, cell, pending, own);
";
    let mut editor = Editor::new(&[("main.ts", text)]);
    let mut hints = |first: u64, last: u64| {
        let range = json!({ "start": { "line": first, "character": 0 }, "end": { "line": last, "character": 0 } });
        let document = json!({ "uri": editor.uri("main.ts") });
        let params = json!({ "textDocument": document, "range": range });
        let hints = editor.ask("textDocument/inlayHint", params);
        let hints = hints.as_array().unwrap().iter().map(|it| {
            let at = &it["position"];
            let at = (
                at["line"].as_u64().unwrap(),
                at["character"].as_u64().unwrap(),
            );
            (at, it["label"].as_str().unwrap().to_owned())
        });
        hints.collect::<Vec<_>>()
    };
    let shown = hints(0, 99);
    let parameters: Vec<_> = shown.iter().filter(|(_, it)| it.ends_with(':')).collect();
    let named = |line, column, name: &str| ((line, column), name.to_owned());
    assert_eq!(
        parameters,
        [
            &named(4, 7, "port:"),
            &named(5, 7, "port:"),
            &named(5, 12, "host:"),
            &named(9, 19, "port:")
        ]
    );
    let types: Vec<_> = shown.iter().filter(|(_, it)| it.starts_with(':')).collect();
    let [list, pending] = types.as_slice() else {
        panic!("{types:?}");
    };
    assert_eq!(list.0, (6, 10));
    assert!(
        list.1.contains("ListResponse") && !list.1.contains("Promise"),
        "{types:?}"
    );
    assert_eq!(pending.0, (8, 13));
    assert!(pending.1.contains("Promise"), "{types:?}");
    assert_eq!(hints(5, 6).len(), 2);
}
