// SPDX-License-Identifier: Apache-2.0
//! How long a workspace of a thousand files takes: to check, and to complete in. The promised
//! times are the release build's; a build without optimization is given more.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on says why"
)]

mod common;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use language::check::{Environment, check_program};
use language::program::{Entry, Program};
use language::root::Root;
use serde_json::{Value, json};

const FILES: usize = 1000;
const LINES: usize = 100;

/// A module that imports two others and uses the API on every other line.
fn module(index: usize) -> String {
    let mut text = String::new();
    for other in [2 * index + 1, 2 * index + 2]
        .into_iter()
        .filter(|it| *it < FILES)
    {
        writeln!(text, "import {{ make{other} }} from \"./m{other}.ts\";").unwrap();
    }
    writeln!(text, "export function make{index}(name: string) {{").unwrap();
    let mut line = text.lines().count() + 1;
    while line + 6 < LINES {
        write!(
            text,
            "  const cell{line} = new Cell({{\n    name: `${{name}}{line}`,\n    \
             labels: {{ app: name }},\n    resources: {{ memory: {{ max: {line}000000n }} }},\n  }});\n  \
             print(cell{line}.name, cell{line}.resources?.memory?.max);\n"
        )
        .unwrap();
        line += 6;
    }
    writeln!(
        text,
        "  return new Executable({{ name, argv: [\"x\"] }});\n}}"
    )
    .unwrap();
    for other in [2 * index + 1, 2 * index + 2]
        .into_iter()
        .filter(|it| *it < FILES)
    {
        writeln!(text, "print(make{other}(\"a\").argv.length);").unwrap();
    }
    text
}

/// A folder with the thousand files, and how many lines they have.
fn workspace() -> (tempfile::TempDir, usize) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("aurae.json"), "{}").unwrap();
    let mut lines = 0;
    for index in 0..FILES {
        let text = module(index);
        lines += text.lines().count();
        std::fs::write(folder.path().join(format!("m{index}.ts")), text).unwrap();
    }
    (folder, lines)
}

/// One message of the protocol.
fn send(to: &mut UnixStream, message: &Value) {
    let body = message.to_string();
    write!(to, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
}

/// The answer to the question of that number.
fn answer(from: &mut BufReader<UnixStream>, id: usize) -> Value {
    wait(from, |message| message["id"] == id)["result"].clone()
}

/// The next message that is the one.
fn wait(from: &mut BufReader<UnixStream>, is: impl Fn(&Value) -> bool) -> Value {
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            match line.trim().split_once(": ") {
                Some((_, value)) => length = value.parse().unwrap_or(length),
                None => break,
            }
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        if is(&message) {
            return message;
        }
    }
}

/// How much memory this process has, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

/// A server on a thread of its own, and an editor that has initialized it.
struct Served {
    editor: UnixStream,
    answers: BufReader<UnixStream>,
    server: std::thread::JoinHandle<std::io::Result<bool>>,
}

impl Served {
    fn start() -> Self {
        Self::start_with(false, &json!({ "capabilities": {} }))
    }

    /// With TypeScript's service beside it, where it is there; initialized with that request.
    fn start_with(typescript: bool, hello: &Value) -> Self {
        let environment = Arc::new(Environment::new(language::declare::aurae_d_ts().unwrap()));
        let (editor, theirs) = UnixStream::pair().unwrap();
        let answers = BufReader::new(editor.try_clone().unwrap());
        let input = BufReader::new(theirs.try_clone().unwrap());
        let setup = language::lsp::Setup {
            environment,
            cache: None,
            typescript,
        };
        let server = std::thread::spawn(move || language::lsp::serve(setup, input, theirs));
        let mut served = Self {
            editor,
            answers,
            server,
        };
        served.ask(0, "initialize", hello);
        served
    }

    fn tell(&mut self, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        send(&mut self.editor, &message);
    }

    fn ask(&mut self, id: usize, method: &str, params: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        send(&mut self.editor, &message);
        answer(&mut self.answers, id)
    }

    /// Completes `written` in the last line; how long that took, the change of the line included.
    fn completes(&mut self, uri: &str, line: usize, id: usize, written: &str) -> Duration {
        let range = json!({
            "start": { "line": line, "character": 0 },
            "end": { "line": line, "character": 99 },
        });
        let change = json!({
            "textDocument": { "uri": uri, "version": id + 1 },
            "contentChanges": [{ "range": range, "text": written }],
        });
        let place = json!({
            "textDocument": { "uri": uri },
            "position": { "line": line, "character": written.len() },
        });
        let asked = Instant::now();
        self.tell("textDocument/didChange", &change);
        let items = self.ask(id, "textDocument/completion", &place);
        let took = asked.elapsed();
        let any = items.as_array().is_some_and(|items| !items.is_empty());
        assert!(any, "{written}: {items}");
        took
    }
}

#[test]
fn completion_is_quick_in_a_thousand_files() {
    const TIMES: usize = 300;
    let (folder, _) = workspace();
    let began = resident();
    let mut served = Served::start();
    let root = std::fs::canonicalize(folder.path()).unwrap();
    let uri = format!("file://{}/m0.ts", root.display());
    let text = module(0);
    let line = text.lines().count();
    let opened = Instant::now();
    let document = json!({ "uri": uri, "languageId": "typescript", "version": 1, "text": text });
    served.tell("textDocument/didOpen", &json!({ "textDocument": document }));
    let first = served.completes(&uri, line, 1, "make1(\"a\").a");
    // From here on the workspace is known and its findings are told.
    let findings = |message: &Value| message["method"] == "textDocument/publishDiagnostics";
    wait(&mut served.answers, findings);
    let told = opened.elapsed();
    let words = ["runtime.L", "make1(\"a\").a"].into_iter().cycle();
    let times = words.zip(2..TIMES + 2);
    let mut times: Vec<Duration> = times
        .map(|(written, id)| served.completes(&uri, line, id, written))
        .collect();
    times.sort();
    let (median, p99) = (times[TIMES / 2], times[TIMES * 99 / 100]);
    let memory = resident().saturating_sub(began) / 1024;
    println!(
        "completion in {FILES} files: first {first:?}, findings {told:?}, median {median:?}, p99 \
         {p99:?}; {memory} MiB more"
    );
    served.tell("exit", &Value::Null);
    served.server.join().unwrap().unwrap();
    let allowed = match cfg!(debug_assertions) {
        true => Duration::from_secs(10),
        false => Duration::from_millis(20),
    };
    assert!(p99 <= allowed, "{p99:?}");
}

#[test]
fn a_thousand_files_are_checked_in_half_a_second() {
    let (folder, lines) = workspace();
    let began = Instant::now();
    let types = language::declare::aurae_d_ts().unwrap();
    let environment = Arc::new(Environment::new(types));
    let known = began.elapsed();
    let root = Root::open(folder.path()).unwrap();
    let entry = Entry::File("m0.ts".to_owned());
    let program = Program::load(&root, entry, &environment.globals()).unwrap();
    let loaded = began.elapsed();
    let findings = check_program(&environment, &program);
    let checked = began.elapsed();
    assert!(program.is_sound());
    assert_eq!(program.modules().len(), FILES);
    assert!(findings.is_empty(), "{:?}", findings.first());
    println!(
        "{FILES} files, {lines} lines: types {known:?}, read and resolved {:?}, checked {:?}, \
         together {checked:?}",
        loaded - known,
        checked - loaded
    );
    let allowed = match cfg!(debug_assertions) {
        true => Duration::from_secs(60),
        false => Duration::from_millis(500),
    };
    assert!(checked <= allowed, "{checked:?}");
}

/// Types a program of 300 lines key by key into an empty module and asks for completion at each dot
/// and every fourth key; how long each answer took, sorted. A build without optimization types 60.
fn typed(typescript: bool, folder: &std::path::Path) -> Vec<Duration> {
    let lines = if cfg!(debug_assertions) { 60 } else { 300 };
    let root = std::fs::canonicalize(folder).unwrap();
    let hello = json!({ "rootUri": format!("file://{}", root.display()), "capabilities": {} });
    let mut served = Served::start_with(typescript, &hello);
    served.tell("initialized", &json!({}));
    let uri = format!("file://{}/typed.ts", root.display());
    let document = json!({ "uri": uri, "languageId": "typescript", "version": 1, "text": "" });
    served.tell("textDocument/didOpen", &json!({ "textDocument": document }));
    let mut times = Vec::new();
    let mut version = 1;
    let text: Vec<String> = (0..)
        .flat_map(|index| {
            [
                format!("const cell{index} = new Cell({{"),
                format!("  name: \"web{index}\","),
                "  resources: { memory: { max: 64000000n } },".to_owned(),
                "});".to_owned(),
                format!("const all{index} = [1, 2].map((n) => n + {index});"),
                format!("print(cell{index}.name, all{index}.length);"),
            ]
        })
        .take(lines)
        .collect();
    for (line, written) in text.iter().enumerate() {
        for (at, key) in written.chars().chain(['\n']).enumerate() {
            version += 1;
            let place = json!({ "line": line, "character": at });
            let range = json!({ "start": place, "end": place });
            let change = json!({
                "textDocument": { "uri": uri, "version": version },
                "contentChanges": [{ "range": range, "text": key.to_string() }],
            });
            let asked = Instant::now();
            served.tell("textDocument/didChange", &change);
            if key == '.' || (version % 4 == 0 && key != '\n') {
                let position = json!({ "line": line, "character": at + 1 });
                let of = json!({ "textDocument": { "uri": uri }, "position": position });
                served.ask(version, "textDocument/completion", &of);
                times.push(asked.elapsed());
            }
        }
    }
    served.tell("exit", &Value::Null);
    served.server.join().unwrap().unwrap();
    times.sort();
    times
}

#[test]
fn typing_is_completed_quickly() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("aurae.json"), "{}").unwrap();
    let times = typed(false, folder.path());
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!(
        "while typing: {} completions, median {median:?}, p99 {p99:?}",
        times.len()
    );
    if let Some(tsc) = common::tsc() {
        let modules = tsc.parent().unwrap().parent().unwrap();
        std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).unwrap();
        let times = typed(true, folder.path());
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("with TypeScript's service: median {median:?}, p99 {p99:?}");
    }
    let allowed = match cfg!(debug_assertions) {
        true => Duration::from_secs(10),
        false => Duration::from_millis(20),
    };
    assert!(p99 <= allowed, "{p99:?}");
}
