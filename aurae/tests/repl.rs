// SPDX-License-Identifier: Apache-2.0
//! The prompt on a real terminal: a pseudo-terminal that this test types into. It needs no node.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// For a busy machine; nothing waits this long where all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A prompt that takes keys: what switches the paste brackets on, once for each. The `> ` itself is
/// in the frames of errors, too.
const PROMPT: &str = "\u{1b}[?2004h";

/// Somebody at a terminal.
struct Typist {
    terminal: File,
    shown: Receiver<Vec<u8>>,
    /// What was shown since the last thing that was waited for.
    rest: String,
    child: Child,
}

impl Typist {
    /// Sits down before `aurae`, with a home of their own.
    fn new(home: &Path) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let side = || -> Stdio {
            let file = File::options()
                .read(true)
                .write(true)
                .open(name.to_str().unwrap());
            OwnedFd::from(file.unwrap()).into()
        };
        // The terminal must be the session's own for Ctrl-C to be a signal.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_aurae")])
            .current_dir(home)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .envs([("HOME", home), ("XDG_STATE_HOME", &home.join("state"))])
            .envs([("TERM", "xterm"), ("NO_COLOR", "1")])
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .unwrap();
        let terminal = File::from(terminal);
        let mut reader = terminal.try_clone().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // A terminal without its other side is an error, which ends this.
            while let Ok(read) = reader.read(&mut chunk) {
                if read == 0 || send.send(chunk[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            terminal,
            shown,
            rest: String::new(),
            child,
        }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until something is shown.
    fn sees(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.rest.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.rest += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("waited for {text:?} and saw {:?}", self.rest),
            }
        }
        let at = self.rest.find(text).unwrap() + text.len();
        self.rest.drain(..at);
    }

    /// Types a line and waits for what it gives, and for the next prompt.
    fn asks(&mut self, line: &str, answer: &str) {
        self.types(&format!("{line}\r"));
        self.sees(&format!("\n{answer}"));
        self.sees(PROMPT);
    }
}

#[test]
fn somebody_works_at_the_prompt() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = Typist::new(home.path());
    typist.sees("Aurae.");
    typist.sees(PROMPT);
    typist.asks("1 + 1", "2\r\n");
    typist.asks("_ * 21n.constructor(1) ", "");
    typist.asks("await sleep(1), 'awaited'", "\"awaited\"\r\n");
    // An open bracket asks for more.
    typist.types("const web: { name: string } = {\r");
    typist.types("name: 'web' }\r");
    typist.sees(PROMPT);
    typist.asks("web", "{ name: \"web\" }\r\n");
    // Tab knows the value's fields.
    typist.types("web.na\t");
    typist.sees("web.name");
    typist.asks("", "\"web\"\r\n");
    typist.asks("function f() {\r  return nothing.x\r}", "");
    typist.asks("f()", "");
    typist.asks(".hlep", "");
    let saved = home.path().join("saved.ts");
    typist.asks(&format!(".save {}", saved.display()), "wrote");
    let saved = std::fs::read_to_string(saved).unwrap();
    assert!(saved.contains("name: 'web'"), "{saved}");
    typist.types("\x04");
    let status = typist.child.wait().unwrap();
    assert!(status.success(), "{status}");
    let history = std::fs::read_to_string(home.path().join("state/aurae/history")).unwrap();
    assert!(history.contains("1 + 1"), "{history}");
}

#[test]
fn types_are_told_and_complete_what_no_value_has() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = Typist::new(home.path());
    typist.sees(PROMPT);
    typist.asks("const web = new Cell({ name: 'web' })", "");
    typist.asks(".type web.name", "string\r\n");
    typist.asks(".type web", "Cell {\r\n");
    typist.asks(".type { port: 80 }", "{\r\n  port: number;\r\n}\r\n");
    typist.types(".type runtime.Lst\r");
    typist.sees("did you mean `List`?");
    typist.sees(PROMPT);
    // No call was made, so no value has these fields.
    typist.types("(await runtime.List({})).nextP\t");
    typist.sees("nextPageToken");
    typist.types("\x03");
    typist.sees(PROMPT);
    typist.types("new Cell({ name: 'db', reso\t");
    typist.sees("resources: ");
    typist.types("\x03");
    typist.sees(PROMPT);
    typist.types("\x04");
    assert!(typist.child.wait().unwrap().success());
}

#[test]
fn ctrl_c_stops_the_evaluation_and_not_the_session() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = Typist::new(home.path());
    typist.sees(PROMPT);
    typist.asks("const kept = 41", "");
    for endless in [
        "for (;;) {}",
        "await sleep('1h')",
        "[1].map(() => { for (;;) {} })",
    ] {
        typist.types(&format!("print('begun'); {endless}\r"));
        typist.sees("\nbegun");
        typist.types("\x03");
        typist.sees("interrupted");
        typist.sees(PROMPT);
        typist.asks("kept + 1", "42\r\n");
    }
    // At the prompt it drops the line.
    typist.types("unfinished\x03");
    typist.sees("(Ctrl-D or .exit ends)");
    typist.sees(PROMPT);
    typist.types(".exit\r");
    assert!(typist.child.wait().unwrap().success());
}

#[test]
fn an_error_shows_its_place_in_the_line() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("lib.ts"),
        "export function fails() {\n  null!.x;\n}\n",
    )
    .unwrap();
    let mut typist = Typist::new(home.path());
    typist.sees(PROMPT);
    typist.types("undefinedName + 1\r");
    typist.sees("ReferenceError");
    typist.sees("<repl:1>:1:1");
    typist.sees(PROMPT);
    typist.types("import { fails } from './lib.ts'; fails()\r");
    typist.sees("TypeError");
    typist.sees("lib.ts:2:");
    typist.sees(PROMPT);
    typist.types("const = 3\r");
    typist.sees("error");
    typist.sees(PROMPT);
    typist.types("\x04");
    assert!(typist.child.wait().unwrap().success());
}
