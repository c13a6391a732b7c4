// SPDX-License-Identifier: Apache-2.0
//! The server driven through its protocol, over a pair of sockets as an editor would.

use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use lsp_server::{Message, Notification, Request, RequestId};
use serde_json::{Value, json};

use super::wire::{self, Frame};
use super::{AHEAD, Desk, Incoming, Loop, Setup, place, serve};
use crate::check::Environment;

mod around;
mod big;
mod called;
mod members;
mod offered;
mod written;

/// An editor, and the folder it works in.
struct Editor {
    folder: tempfile::TempDir,
    output: UnixStream,
    input: BufReader<UnixStream>,
    server: Option<JoinHandle<std::io::Result<bool>>>,
    asked: i32,
    /// What came while an answer was waited for.
    told: Vec<Notification>,
}

impl Editor {
    fn new(files: &[(&str, &str)]) -> Self {
        let mut editor = Self::in_folder(files, json!({}));
        for (name, text) in files {
            editor.open(name, text);
        }
        editor
    }

    /// In a folder with files none of which is open.
    fn in_folder(files: &[(impl AsRef<str>, impl AsRef<str>)], capabilities: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("aurae.json"), "{}").unwrap();
        for (name, text) in files {
            let path = folder.path().join(name.as_ref());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.as_ref()).unwrap();
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let environment = Arc::new(Environment::new(crate::declare::aurae_d_ts().unwrap()));
        let input = BufReader::new(theirs.try_clone().unwrap());
        let setup = Setup {
            environment,
            cache: Some(folder.path().join(".cache")),
            typescript: false,
        };
        let server = std::thread::spawn(move || serve(setup, input, theirs));
        let mut editor = Self {
            folder,
            output: ours.try_clone().unwrap(),
            input: BufReader::new(ours),
            server: Some(server),
            asked: 0,
            told: Vec::new(),
        };
        let hello = editor.ask("initialize", json!({ "capabilities": capabilities }));
        assert_eq!(hello["serverInfo"]["name"], "aurae");
        editor.tell("initialized", json!({}));
        editor
    }

    fn uri(&self, name: &str) -> String {
        let root = fs::canonicalize(self.folder.path()).unwrap();
        place::uri(&root.join(name)).unwrap().as_str().to_owned()
    }

    fn open(&mut self, name: &str, text: &str) {
        let uri = self.uri(name);
        let document =
            json!({ "uri": uri, "languageId": "typescript", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, name: &str, text: &str) {
        let document = json!({ "uri": self.uri(name), "version": 2 });
        let changes = json!([{ "text": text }]);
        let params = json!({ "textDocument": document, "contentChanges": changes });
        self.tell("textDocument/didChange", params);
    }

    fn tell(&mut self, method: &str, params: Value) {
        let told = Notification::new(method.to_owned(), params);
        wire::write(&mut self.output, Message::Notification(told)).unwrap();
    }

    fn read(&mut self) -> Message {
        match wire::read(&mut self.input).unwrap() {
            Some(Frame::Message(message)) => message,
            Some(Frame::Bad(why)) => panic!("{why}"),
            None => panic!("the server is gone"),
        }
    }

    fn send(&mut self, method: &str, params: Value) -> RequestId {
        self.asked += 1;
        let id = RequestId::from(self.asked);
        let request = Request::new(id.clone(), method.to_owned(), params);
        wire::write(&mut self.output, Message::Request(request)).unwrap();
        id
    }

    fn answer(&mut self, wanted: &RequestId) -> Result<Value, String> {
        loop {
            match self.read() {
                Message::Response(response) if response.id == *wanted => {
                    return match response.response_result {
                        Err(error) => Err(error.message),
                        Ok(result) => Ok(result),
                    };
                }
                Message::Notification(told) => self.told.push(told),
                other => panic!("{other:?}"),
            }
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(&id).unwrap()
    }

    /// Asks about the place of `|` in the text, which becomes the document's without it.
    fn ask_at(&mut self, method: &str, name: &str, marked: &str, more: Value) -> Value {
        let before = marked.split('|').next().unwrap();
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap().encode_utf16().count();
        self.change(name, &marked.replacen('|', "", 1));
        let mut params = json!({
            "textDocument": { "uri": self.uri(name) },
            "position": { "line": line, "character": column },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        self.ask(method, params)
    }

    fn completed(&mut self, marked: &str) -> Vec<String> {
        let items = self.ask_at("textDocument/completion", "main.ts", marked, json!({}));
        let items = items.as_array().unwrap().iter();
        items
            .map(|it| it["label"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The codes of the next findings that are told of a document, without hints.
    fn findings(&mut self, name: &str) -> Vec<String> {
        let told = self.diagnostics(name).into_iter();
        let findings = told.filter(|it| it["severity"] != 4);
        findings
            .map(|it| it["code"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What is told next of a document.
    fn diagnostics(&mut self, name: &str) -> Vec<Value> {
        let uri = self.uri(name);
        loop {
            let told = match self.told.is_empty() {
                false => self.told.remove(0),
                true => match self.read() {
                    Message::Notification(told) => told,
                    other => panic!("{other:?}"),
                },
            };
            if told.method == "textDocument/publishDiagnostics" && told.params["uri"] == uri {
                return told.params["diagnostics"].as_array().unwrap().clone();
            }
        }
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.ask("shutdown", Value::Null);
        self.tell("exit", Value::Null);
        let ended = self.server.take().unwrap().join().unwrap();
        assert!(ended.unwrap(), "shut down in order");
    }
}

#[test]
fn findings_are_told_and_taken_back_as_one_types() {
    let mut editor = Editor::new(&[("main.ts", "await runtime.Lst({});\n")]);
    assert_eq!(editor.findings("main.ts"), ["unknown-method"]);
    editor.change("main.ts", "await runtime.List({});\n");
    assert_eq!(editor.findings("main.ts"), Vec::<String>::new());
    editor.change("main.ts", "await runtime.List({\n");
    assert_eq!(editor.findings("main.ts"), ["syntax"]);
}

#[test]
fn half_typed_text_is_completed() {
    let mut editor = Editor::new(&[("main.ts", "")]);
    let methods = editor.completed("await runtime.|");
    assert!(methods.contains(&"RunCell".to_owned()), "{methods:?}");
    assert!(methods.contains(&"List".to_owned()));
    let fields = editor.completed("const web = new Cell({ name: \"web\", re|\n\nprint(1);\n");
    assert!(fields.contains(&"resources".to_owned()), "{fields:?}");
    assert!(
        !fields.contains(&"name".to_owned()),
        "given already: {fields:?}"
    );
    let nested = editor.completed("const web = new Cell({ name: \"web\", resources: { |\n");
    assert!(nested.contains(&"memory".to_owned()), "{nested:?}");
    let values = editor.completed("new Cell({ name: \"web\", share: [\"|\"] });");
    assert!(values.contains(&"net".to_owned()), "{values:?}");
    let globals = editor.completed("const local = 1;\nru|");
    assert!(globals.contains(&"runtime".to_owned()) && globals.contains(&"local".to_owned()));
    let answer = editor.completed("const c = await runtime.RunCell({});\nprint(c.|);");
    assert!(!answer.is_empty(), "members of the answer");
}

#[test]
fn what_the_same_file_declares_is_completed_after_a_dot() {
    let mut editor = Editor::new(&[("main.ts", "")]);
    let declared = "interface Site { port: number }\ntype Pair = { left: string };\n\
                    class Door { open(): void {} }\nenum Color { Red, Blue }\n\
                    declare const site: Site; declare const pair: Pair;\n";
    for (typed, member) in [
        ("print(site.|", "port"),
        ("site.|", "port"),
        ("pair.|", "left"),
        ("new Door().|", "open"),
        (
            "const door = new Door();\nif (true) {\n  door.|\n}\n",
            "open",
        ),
        ("Color.|", "Blue"),
        ("const { | } = site;", "port"),
    ] {
        let found = editor.completed(&format!("{declared}{typed}"));
        assert!(found.contains(&member.to_owned()), "{typed}: {found:?}");
    }
    let state = "const { cell } = await runtime.Get(\"web\");\n";
    for typed in [
        "if (cell?.state === \"|\") print(1);",
        "switch (cell?.state) { case \"|\": }",
    ] {
        let found = editor.completed(&format!("{state}{typed}"));
        assert!(found.contains(&"running".to_owned()), "{typed}: {found:?}");
    }
}

#[test]
fn imports_are_completed_with_modules_and_names() {
    let mut editor = Editor::new(&[
        (
            "apps/web.ts",
            "/** The site. */\nexport const web = new Cell({ name: \"web\" });\n",
        ),
        ("main.ts", ""),
    ]);
    let paths = editor.completed("import { } from \"|\";");
    assert_eq!(paths, ["./apps/web.ts"]);
    let names = editor.completed("import { w| } from \"./apps/web.ts\";");
    assert_eq!(names, ["web"]);
    let members = editor.completed("import { web } from \"./apps/web.ts\";\nweb.|");
    assert!(members.contains(&"labels".to_owned()), "{members:?}");
}

#[test]
fn hover_tells_limits_and_signatures_their_parameters() {
    let mut editor = Editor::new(&[("main.ts", "")]);
    let marked = "new Executable({ name: \"a\", argv: [], ni|ce: 3 });";
    let hover = editor.ask_at("textDocument/hover", "main.ts", marked, json!({}));
    let text = hover["contents"]["value"].as_str().unwrap();
    assert!(
        text.contains("nice?: number") && text.contains("-20 to 19"),
        "{text}"
    );
    let marked = "await runtime.RunCell({}, |";
    let help = editor.ask_at("textDocument/signatureHelp", "main.ts", marked, json!({}));
    assert_eq!(help["activeParameter"], 1, "{help}");
    assert!(
        help["signatures"][0]["label"]
            .as_str()
            .unwrap()
            .contains("RunCell(")
    );
}

#[test]
fn names_are_found_and_changed_across_files() {
    let main = "import { web } from \"./web.ts\";\nprint(web.name, { web });\n";
    let mut editor = Editor::new(&[
        (
            "web.ts",
            "export const web = new Cell({ name: \"web\" });\n",
        ),
        ("main.ts", main),
    ]);
    let marked = main.replacen("print(web", "print(we|b", 1);
    let at = editor.ask_at("textDocument/definition", "main.ts", &marked, json!({}));
    assert_eq!(at["uri"], editor.uri("web.ts"));
    assert_eq!(at["range"]["start"], json!({ "line": 0, "character": 13 }));
    let more = json!({ "context": { "includeDeclaration": true } });
    let uses = editor.ask_at("textDocument/references", "main.ts", &marked, more);
    assert_eq!(uses.as_array().unwrap().len(), 4, "{uses}");
    let more = json!({ "newName": "site" });
    let edit = editor.ask_at("textDocument/rename", "main.ts", &marked, more);
    let edits = edit["changes"][editor.uri("main.ts")].as_array().unwrap();
    let texts: Vec<&str> = edits
        .iter()
        .map(|it| it["newText"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["site", "site", "web: site"]);
    assert_eq!(
        edit["changes"][editor.uri("web.ts")]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn nothing_is_renamed_while_a_module_that_may_use_it_does_not_parse() {
    let site = "export const web = 1;\nprint(web);\n";
    let main = "import { web } from \"./site.ts\";\nprint(web);\n";
    let mut editor = Editor::new(&[
        ("site.ts", site),
        ("main.ts", main),
        ("other.ts", "let x = 1;"),
    ]);
    let rename = |editor: &mut Editor, name: &str, line: u32, column: u32| {
        let uri = editor.uri(name);
        let position = json!({ "line": line, "character": column });
        let id = editor.send(
            "textDocument/rename",
            json!({ "textDocument": { "uri": uri }, "position": position, "newName": "shop" }),
        );
        editor.answer(&id)
    };
    editor.change("site.ts", "(\nexport const web = 1;\nprint(web);\n");
    let refused = rename(&mut editor, "site.ts", 1, 14).unwrap_err();
    assert!(refused.contains("syntax of site.ts"), "{refused}");
    editor.change("site.ts", site);
    editor.change(
        "main.ts",
        "import { web } from \"./site.ts\";\nprint(web;\n",
    );
    let refused = rename(&mut editor, "site.ts", 0, 14).unwrap_err();
    assert!(refused.contains("syntax of main.ts"), "{refused}");
    editor.change("main.ts", main);
    // What can't have the name in it is no hindrance.
    editor.change("other.ts", "let x = (;");
    let edit = rename(&mut editor, "site.ts", 0, 14).unwrap();
    assert_eq!(edit["changes"].as_object().unwrap().len(), 2, "{edit}");
}

#[test]
fn places_are_told_as_they_are_now_while_a_text_does_not_parse() {
    let mut editor = Editor::new(&[("main.ts", "const web = 1;\nprint(web);\nprint(web);\n")]);
    let broken = "(\nconst web = 1;\nprint(we|b);\nprint(web);\n";
    let found = editor.ask_at("textDocument/definition", "main.ts", broken, json!({}));
    assert_eq!(
        found["range"]["start"],
        json!({ "line": 1, "character": 6 })
    );
    let told = editor.ask_at("textDocument/hover", "main.ts", broken, json!({}));
    assert_eq!(told["range"]["start"], json!({ "line": 2, "character": 6 }));
    let context = json!({ "context": { "includeDeclaration": true } });
    let uses = editor.ask_at("textDocument/references", "main.ts", broken, context);
    let lines: Vec<_> = uses
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["range"]["start"]["line"])
        .collect();
    assert_eq!(lines, [1, 2, 3]);
}

#[test]
fn no_more_messages_wait_than_may() {
    let (sender, receiver) = std::sync::mpsc::sync_channel(2 * AHEAD);
    let desk = Desk::open(sender.clone()).unwrap();
    let environment = Arc::new(Environment::new(crate::declare::aurae_d_ts().unwrap()));
    let setup = Setup {
        environment,
        cache: None,
        typescript: false,
    };
    let mut output = Vec::new();
    let mut it = Loop::new(setup, desk, sender.clone(), &mut output);
    for number in 0..2 * AHEAD {
        let id = RequestId::from(i32::try_from(number).unwrap());
        let request = Request::new(id, "shutdown".to_owned(), Value::Null);
        let frame = Frame::Message(Message::Request(request));
        sender.send(Incoming::Frame(frame)).unwrap();
    }
    it.next(&receiver).unwrap();
    assert!(it.waiting.len() < AHEAD);
}

#[test]
fn findings_of_a_closed_document_are_taken_back() {
    let mut editor = Editor::new(&[("main.ts", "const n: number = \"a\";")]);
    assert_eq!(editor.findings("main.ts"), ["wrong-type"]);
    let document = json!({ "uri": editor.uri("main.ts") });
    editor.tell("textDocument/didClose", json!({ "textDocument": document }));
    assert_eq!(editor.findings("main.ts"), Vec::<String>::new());
}

#[test]
fn repairs_format_symbols_and_colours() {
    let text = "await  runtime.Lst({})\nfunction f() {}\nclass A { m() {} }\n";
    let mut editor = Editor::new(&[("main.ts", text)]);
    let document = json!({ "uri": editor.uri("main.ts") });
    let range =
        json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 1, "character": 0 } });
    let params =
        json!({ "textDocument": document, "range": range, "context": { "diagnostics": [] } });
    let actions = editor.ask("textDocument/codeAction", params);
    assert_eq!(actions[0]["title"], "Change to `List`", "{actions}");
    let params =
        json!({ "textDocument": document, "options": { "tabSize": 2, "insertSpaces": true } });
    let edits = editor.ask("textDocument/formatting", params);
    assert!(
        edits[0]["newText"]
            .as_str()
            .unwrap()
            .starts_with("await runtime.Lst({});\n")
    );
    let of = json!({ "textDocument": document });
    let symbols = editor.ask("textDocument/documentSymbol", of.clone());
    let names: Vec<&str> = symbols
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["f", "A"]);
    let tokens = editor.ask("textDocument/semanticTokens/full", of);
    assert!(!tokens["data"].as_array().unwrap().is_empty());
}

#[test]
fn nothing_that_an_editor_sends_ends_the_server() {
    let mut editor = Editor::new(&[("main.ts", "")]);
    editor
        .output
        .write_all(b"Content-Length: 5\r\n\r\n{nope")
        .unwrap();
    match wire::read(&mut editor.input).unwrap() {
        // An answer to no request isn't a message of the library's.
        Some(Frame::Bad(_) | Frame::Message(_)) => {}
        None => panic!("the server is gone"),
    }
    let id = editor.send("textDocument/hover", json!({ "wrong": true }));
    assert!(editor.answer(&id).is_err());
    let id = editor.send("no/such", json!({}));
    assert!(editor.answer(&id).unwrap_err().contains("no/such"));
    let deep = format!("{}{}", "(".repeat(100_000), ")".repeat(100_000));
    editor.change("main.ts", &deep);
    let of = json!({ "textDocument": { "uri": editor.uri("main.ts") } });
    editor.ask("textDocument/documentSymbol", of);
    let nested = format!("print({}1{});", "[".repeat(200), "]".repeat(200));
    editor.change("main.ts", &nested);
    assert_eq!(
        editor.completed("let a = {{{(((`${|"),
        Vec::<String>::new().as_slice().to_vec()
    );
    editor.tell("$/cancelRequest", json!({ "id": 99 }));
    editor.tell("textDocument/didChange", json!({ "oops": 1 }));
}
