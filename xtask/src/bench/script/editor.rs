// SPDX-License-Identifier: Apache-2.0
//! An editor, as far as `aurae lsp` can tell: opens files and asks for completions.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::workspace::{self, Workspace};

/// What is typed at the end of a file, before completions are asked for.
const TYPED: &str = "runtime.";

/// The running server.
pub(super) struct Editor {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Editor {
    pub(super) fn start(aurae: &Path, workspace: &Workspace) -> Result<Self> {
        let mut server = Command::new(aurae)
            .arg("lsp")
            .current_dir(workspace.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = server.stdin.take().context("its stdin")?;
        let output = BufReader::new(server.stdout.take().context("its stdout")?);
        let mut editor = Self {
            server,
            input,
            output,
            next: 1,
        };
        let root = uri(workspace.folder());
        let folders = json!([{ "uri": root, "name": "bench" }]);
        let hello = json!({
            "processId": null,
            "rootUri": root,
            "workspaceFolders": folders,
            "capabilities": {},
        });
        editor.ask("initialize", &hello).context("aurae lsp")?;
        editor.tell("initialized", &json!({}))?;
        Ok(editor)
    }

    /// Opens one of the files with something typed at its end; milliseconds until the completions
    /// are there. The file is closed again.
    pub(super) fn complete(&mut self, workspace: &Workspace, number: usize) -> Result<f64> {
        let uri = uri(&workspace.file(number));
        let text = workspace::text(number % workspace::FILES);
        let open = |text: &str| {
            json!({ "textDocument": {
                "uri": uri, "languageId": "typescript", "version": 1, "text": text,
            }})
        };
        self.tell("textDocument/didOpen", &open(&text))?;
        let typed = format!("{text}{TYPED}");
        let change = json!({
            "textDocument": { "uri": uri, "version": 2 },
            "contentChanges": [{ "text": typed }],
        });
        let position = json!({
            "textDocument": { "uri": uri },
            "position": { "line": workspace::LINES, "character": TYPED.len() },
        });
        let started = Instant::now();
        self.tell("textDocument/didChange", &change)?;
        let answer = self.ask("textDocument/completion", &position)?;
        let time = started.elapsed();
        let items = answer.get("items").unwrap_or(&answer).as_array();
        let some = items.is_some_and(|items| !items.is_empty());
        ensure!(some, "no completion after `{TYPED}`: {answer}");
        let close = json!({ "textDocument": { "uri": uri } });
        self.tell("textDocument/didClose", &close)?;
        Ok(time.as_secs_f64() * 1e3)
    }

    /// Its proportional share of memory, in MiB.
    pub(super) fn memory(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.server.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kibibytes = line.context("no Pss")?.trim().trim_end_matches(" kB");
        Ok(kibibytes.parse::<f64>()? / 1024.0)
    }

    fn tell(&mut self, method: &str, params: &Value) -> Result<()> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut message = self.receive().with_context(|| method.to_owned())?;
            // What the server tells or asks by itself is not what is waited for.
            if message.get("id").and_then(Value::as_u64) == Some(id) {
                ensure!(message.get("error").is_none(), "{method}: {message}");
                return Ok(message
                    .get_mut("result")
                    .map(Value::take)
                    .unwrap_or_default());
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let text = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len())?;
        Ok(self.input.flush()?)
    }

    fn receive(&mut self) -> Result<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line)?;
            ensure!(read > 0, "the language server has ended");
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            if let Some(number) = line.strip_prefix("Content-Length:") {
                length = number.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}
