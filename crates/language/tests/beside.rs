// SPDX-License-Identifier: Apache-2.0
//! The editors' server with TypeScript's own service beside it, of the version in `tests/tsc`: what
//! is ordinary TypeScript is its answer, findings of both are one list, and it may die at any time.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that can't go on says why"
)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use language::check::Environment;
use language::lsp::{Setup, serve};
use serde_json::{Value, json};

/// An editor, and the folder it works in. The unit tests of `lsp` have another one: it opens and
/// changes documents, says what it is capable of, and reads the server's own types, which aren't
/// public. This one keeps findings as they come and knows packages; framing is all they share.
struct Editor {
    folder: tempfile::TempDir,
    output: UnixStream,
    input: BufReader<UnixStream>,
    server: Option<JoinHandle<std::io::Result<bool>>>,
    asked: i64,
    able: Value,
    /// Documents with what was found in them, as it came.
    found: Vec<(String, Vec<Value>)>,
}

impl Editor {
    fn new(modules: &Path, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("aurae.json"), "{}").unwrap();
        symlink(modules, folder.path().join("node_modules")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let environment = Arc::new(Environment::new(language::declare::aurae_d_ts().unwrap()));
        let setup = Setup {
            environment,
            cache: Some(folder.path().join(".cache")),
            typescript: true,
        };
        let input = BufReader::new(theirs.try_clone().unwrap());
        let server = std::thread::spawn(move || serve(setup, input, theirs));
        let mut editor = Self {
            folder,
            output: ours.try_clone().unwrap(),
            input: BufReader::new(ours),
            server: Some(server),
            asked: 0,
            able: Value::Null,
            found: Vec::new(),
        };
        let root = editor.uri("");
        editor.able = editor.ask("initialize", json!({ "rootUri": root, "capabilities": {} }));
        editor.tell("initialized", json!({}));
        for (name, text) in files {
            let document = json!({ "uri": editor.uri(name), "languageId": "typescript", "version": 1, "text": text });
            editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
        }
        editor
    }

    fn uri(&self, name: &str) -> String {
        let root = fs::canonicalize(self.folder.path()).unwrap();
        format!("file://{}/{name}", root.display())
    }

    fn send(&mut self, message: Value) {
        let body = message.to_string();
        write!(self.output, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn read(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.input.read_line(&mut line).unwrap() > 0, "it is gone");
            match line.trim().split_once(": ") {
                Some((_, number)) => length = number.parse().unwrap(),
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.input.read_exact(&mut body).unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        if message["method"] == "textDocument/publishDiagnostics" {
            let params = &message["params"];
            let uri = params["uri"].as_str().unwrap().to_owned();
            let list = params["diagnostics"].as_array().unwrap().clone();
            self.found.push((uri, list));
        }
        message
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.read();
            if message["id"] == id && message["method"].is_null() {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Codes and severities in a document, once they are as wanted.
    fn finds(&mut self, name: &str, wanted: &[(&str, u64)]) {
        let uri = self.uri(name);
        let mut last = Vec::new();
        for _ in 0..200 {
            self.found.drain(..).for_each(|(of, list)| {
                if of == uri {
                    last = list;
                }
            });
            let codes: Vec<_> = last
                .iter()
                .map(|it| {
                    (
                        it["code"].as_str().unwrap_or_default(),
                        it["severity"].as_u64().unwrap(),
                    )
                })
                .collect();
            if codes == wanted {
                return;
            }
            self.read();
        }
        panic!("{last:?}");
    }

    fn at(&self, name: &str, line: u32, character: u32) -> Value {
        json!({
            "textDocument": { "uri": self.uri(name) },
            "position": { "line": line, "character": character },
        })
    }

    fn labels(&mut self, name: &str, line: u32, character: u32) -> Vec<String> {
        let at = self.at(name, line, character);
        let list = self.ask("textDocument/completion", at);
        let items = match &list {
            Value::Array(items) => items.clone(),
            list => list["items"].as_array().cloned().unwrap_or_default(),
        };
        let labels = items
            .iter()
            .map(|it| it["label"].as_str().unwrap().to_owned());
        labels.collect()
    }

    fn shut_down(mut self) {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        assert!(self.server.take().unwrap().join().unwrap().unwrap());
    }
}

/// The pids of our children that run that file.
fn children(program: &str) -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")));
    let pids: String = of.map(|it| it.unwrap_or_default()).collect();
    let pids = pids
        .split_whitespace()
        .map(|pid| pid.parse::<i32>().unwrap());
    let runs = |pid: &i32| {
        let path = fs::read_link(format!("/proc/{pid}/exe"));
        path.is_ok_and(|path| path.ends_with(program))
    };
    pids.filter(runs).collect()
}

const MAIN: &str = r#"import { total } from "./sum.ts";
const sizes = new Map([["a", 1]]);
const first = [...sizes].map(([name, size]) => ({ name, size }))[0];
print(total([1]), first?.name, sizes.get("a") * "2");
const web = new Cell({ name: "web", memroy: 1 });
"#;

const SUM: &str = "/** Adds them. */\nexport function total(all: number[]): number {\n  \
                   return all.reduce((a, b) => a + b, 0);\n}\n";

const MORE: &str = "export const extra = 1;\n";

/// One test: each editor has a process beside it, and the processes of others are in the way.
#[test]
fn typescripts_service_answers_beside_ours() {
    let Some(tsc) = common::tsc() else { return };
    let modules = tsc.parent().unwrap().parent().unwrap().to_owned();
    let files = [("main.ts", MAIN), ("sum.ts", SUM), ("more.ts", MORE)];
    let mut editor = Editor::new(&modules, &files);
    assert_eq!(editor.able["capabilities"]["inlayHintProvider"], true);
    // What the schema makes certain is an error, in our words; what it finds is a warning.
    editor.finds(
        "main.ts",
        &[
            ("unknown-field", 1),
            ("TS2532", 2),
            ("TS2363", 2),
            ("TS6133", 4),
        ],
    );
    ordinary_typescript(&mut editor);
    edits(&mut editor);
    more_edits(&mut editor);
    survives(&mut editor);
    editor.shut_down();
    assert_eq!(
        children("lib/tsc"),
        Vec::<i32>::new(),
        "it went with the editor"
    );
}

fn ordinary_typescript(editor: &mut Editor) {
    let sizes = editor.at("main.ts", 1, 8);
    let hover = editor.ask("textDocument/hover", sizes.clone()).to_string();
    assert!(hover.contains("Map<string, number>"), "{hover}");
    let imported = editor.at("main.ts", 3, 8);
    let hover = editor
        .ask("textDocument/hover", imported.clone())
        .to_string();
    assert!(hover.contains("Adds them."), "{hover}");
    let place = editor.ask("textDocument/definition", imported);
    assert_eq!(place[0]["uri"], editor.uri("sum.ts"), "{place}");
    let api = editor.at("main.ts", 4, 18);
    let place = editor.ask("textDocument/definition", api).to_string();
    assert!(
        place.contains(".cache/") && place.contains("/aurae.d.ts"),
        "{place}"
    );
    let names = editor.labels("main.ts", 3, 27);
    assert_eq!(names, ["name", "size"]);
    let symbols = editor.ask("workspace/symbol", json!({ "query": "total" }));
    assert_eq!(
        symbols[0]["location"]["uri"],
        editor.uri("sum.ts"),
        "{symbols}"
    );
    let of = json!({ "textDocument": { "uri": editor.uri("main.ts") } });
    let folds = editor.ask("textDocument/foldingRange", of);
    assert!(folds.is_array() || folds.is_null(), "{folds}");
    let marks = editor.ask("textDocument/documentHighlight", sizes);
    assert_eq!(marks.as_array().unwrap().len(), 3, "{marks}");
    let at_sizes = json!({
        "textDocument": { "uri": editor.uri("main.ts") },
        "positions": [{ "line": 1, "character": 8 }],
    });
    let grown = editor.ask("textDocument/selectionRange", at_sizes);
    assert_eq!(grown[0]["range"]["start"]["line"], 1, "{grown}");
    assert!(grown[0]["parent"]["range"].is_object(), "{grown}");
    let of_class = editor.at("main.ts", 4, 8);
    let place = editor
        .ask("textDocument/typeDefinition", of_class)
        .to_string();
    assert!(place.contains("/aurae.d.ts"), "{place}");
    let all =
        json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 5, "character": 0 } });
    let of = json!({ "textDocument": { "uri": editor.uri("main.ts") }, "range": all });
    let hints = editor.ask("textDocument/inlayHint", of);
    assert!(hints.as_array().unwrap().len() > 2, "{hints}");
    let total = editor.at("sum.ts", 1, 18);
    let called = editor.ask("textDocument/prepareCallHierarchy", total);
    let calls = editor.ask("callHierarchy/incomingCalls", json!({ "item": called[0] }));
    assert_eq!(calls[0]["from"]["uri"], editor.uri("main.ts"), "{calls}");
}

fn edits(editor: &mut Editor) {
    let renamed = json!([{ "oldUri": editor.uri("sum.ts"), "newUri": editor.uri("add.ts") }]);
    let edit = editor.ask("workspace/willRenameFiles", json!({ "files": renamed }));
    let change = &edit["changes"][editor.uri("main.ts")][0]["newText"];
    assert_eq!(change, "./add.ts", "{edit}");
    // A name that another module exports is imported.
    let text = "print(total([2]));\nexport {};\n";
    let document = json!({ "uri": editor.uri("main.ts"), "version": 2 });
    let changes = json!([{ "text": text }]);
    let params = json!({ "textDocument": document, "contentChanges": changes });
    editor.tell("textDocument/didChange", params);
    editor.finds("main.ts", &[("unknown-name", 1)]);
    let name =
        json!({ "start": { "line": 0, "character": 6 }, "end": { "line": 0, "character": 11 } });
    let of = json!({
        "textDocument": { "uri": editor.uri("main.ts") },
        "range": name,
        "context": { "diagnostics": [] },
    });
    let actions = editor.ask("textDocument/codeAction", of).to_string();
    assert!(
        actions.contains("import { total } from \\\"./sum.ts\\\""),
        "{actions}"
    );
    assert!(
        !actions.contains("Import `total`"),
        "ours isn't offered, too: {actions}"
    );
}

/// What is ordinary TypeScript: implementations and organized imports are its answer, a range's
/// formatting and a rename are ours.
fn more_edits(editor: &mut Editor) {
    let text = "import { total } from \"./sum.ts\";\nimport { extra } from \"./more.ts\";\n\
                interface Shape { area(): number }\n\
                class Box implements Shape { area(): number { return extra; } }\n\
                print(new Box().area(),  1);\n";
    let document = json!({ "uri": editor.uri("main.ts"), "version": 3 });
    let params = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
    editor.tell("textDocument/didChange", params);
    let shape = editor.at("main.ts", 2, 11);
    let found = editor.ask("textDocument/implementation", shape);
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    let range =
        json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 5, "character": 0 } });
    let of = json!({
        "textDocument": { "uri": editor.uri("main.ts") },
        "range": range,
        "context": { "diagnostics": [], "only": ["source.organizeImports"] },
    });
    let actions = editor.ask("textDocument/codeAction", of);
    let organize = actions
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["kind"] == "source.organizeImports")
        .unwrap_or_else(|| panic!("{actions}"));
    let edits = organize["edit"].to_string();
    assert!(
        edits.contains("extra") && !edits.contains("total"),
        "{organize}"
    );
    let options = json!({ "tabSize": 2, "insertSpaces": true });
    let of = json!({
        "textDocument": { "uri": editor.uri("main.ts") },
        "range": { "start": { "line": 4, "character": 0 }, "end": { "line": 5, "character": 0 } },
        "options": options,
    });
    let edits = editor.ask("textDocument/rangeFormatting", of);
    assert_eq!(edits.as_array().unwrap().len(), 1, "{edits}");
    assert_eq!(edits[0]["newText"], "print(new Box().area(), 1);\n");
    let mut of = editor.at("main.ts", 3, 6);
    of["newName"] = json!("Crate");
    let edit = editor.ask("textDocument/rename", of);
    let changed = edit["changes"][editor.uri("main.ts")].as_array().unwrap();
    assert_eq!(changed.len(), 2, "{edit}");
}

/// Killed at any time, its answers become ours and it comes back.
fn survives(editor: &mut Editor) {
    let pids = children("lib/tsc");
    assert_eq!(pids.len(), 1, "{pids:?}");
    for pid in pids {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    let cell = "const web = new Cell({ name: \"web\" });\nprint(web.);\n";
    let document = json!({ "uri": editor.uri("main.ts"), "version": 4 });
    let changes = json!([{ "text": cell }]);
    let params = json!({ "textDocument": document, "contentChanges": changes });
    editor.tell("textDocument/didChange", params);
    assert!(editor.labels("main.ts", 1, 10).contains(&"name".to_owned()));
    // Its words again: it has been started anew.
    editor.finds("main.ts", &[("syntax", 1), ("TS1003", 2)]);
}
