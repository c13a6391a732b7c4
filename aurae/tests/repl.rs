// SPDX-License-Identifier: Apache-2.0
//! The prompt on a real terminal: a pseudo-terminal that this test types into. It needs no node.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod typist;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use typist::Typist;

/// A prompt that takes keys: what switches the paste brackets on, once for each. The `> ` itself is
/// in the frames of errors, too.
const PROMPT: &str = "\u{1b}[?2004h";

/// Sits down before the prompt, with a home of their own.
fn at_the_prompt(home: &Path) -> Typist {
    let mut aurae = Command::new(env!("CARGO_BIN_EXE_aurae"));
    aurae.current_dir(home);
    aurae.envs([("HOME", home), ("XDG_STATE_HOME", &home.join("state"))]);
    Typist::start(&aurae)
}

/// Types a line and waits for what it gives, and for the next prompt.
fn asks(typist: &mut Typist, line: &str, answer: &str) {
    typist.types(&format!("{line}\r"));
    typist.sees(&format!("\n{answer}"));
    typist.sees(PROMPT);
}

#[test]
fn a_user_works_at_the_prompt() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = at_the_prompt(home.path());
    typist.sees("Aurae.");
    typist.sees(PROMPT);
    asks(&mut typist, "1 + 1", "2\r\n");
    asks(&mut typist, "_ * 21n.constructor(1) ", "");
    asks(&mut typist, "await sleep(1), 'awaited'", "\"awaited\"\r\n");
    // An open bracket asks for more.
    typist.types("const web: { name: string } = {\r");
    typist.types("name: 'web' }\r");
    typist.sees(PROMPT);
    asks(&mut typist, "web", "{ name: \"web\" }\r\n");
    // Tab knows the value's fields.
    typist.types("web.na\t");
    typist.sees("web.name");
    asks(&mut typist, "", "\"web\"\r\n");
    asks(&mut typist, "function f() {\r  return nothing.x\r}", "");
    asks(&mut typist, "f()", "");
    asks(&mut typist, ".hlep", "");
    asks(&mut typist, "help", ".load FILE");
    let saved = home.path().join("saved.ts");
    asks(&mut typist, &format!(".save {}", saved.display()), "wrote");
    let saved = std::fs::read_to_string(saved).unwrap();
    assert!(saved.contains("name: 'web'"), "{saved}");
    typist.types("\x04");
    assert_eq!(typist.leaves(), Some(0));
    let history = std::fs::read_to_string(home.path().join("state/aurae/history")).unwrap();
    assert!(history.contains("1 + 1"), "{history}");
}

#[test]
fn types_are_told_and_complete_what_no_value_has() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = at_the_prompt(home.path());
    typist.sees(PROMPT);
    asks(&mut typist, "const web = new Cell({ name: 'web' })", "");
    asks(&mut typist, ".type web.name", "string\r\n");
    asks(&mut typist, ".type web", "Cell {\r\n");
    asks(
        &mut typist,
        ".type { port: 80 }",
        "{\r\n  port: number;\r\n}\r\n",
    );
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
    assert_eq!(typist.leaves(), Some(0));
}

#[test]
fn what_types_say_against_a_line_is_a_warning_and_the_line_runs() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = at_the_prompt(home.path());
    typist.sees(PROMPT);
    // The types are there once one has been told.
    asks(&mut typist, ".type 1", "1\r\n");
    typist.types("const count: number = 'many'; count.length\r");
    typist.sees("warning: ");
    typist.sees("[wrong-type]");
    typist.sees("<repl:1>:1:");
    typist.sees("\n4\r\n");
    typist.sees(PROMPT);
    typist.types("const web = { name: 'web' }; web.nme\r");
    typist.sees("<repl:2>:1:");
    typist.sees("did you mean `name`?");
    typist.sees(PROMPT);
    // What is right is silent.
    asks(&mut typist, "const right = [1, 2].map((it) => it + 1)", "");
    asks(&mut typist, "right", "[ 2, 3 ]\r\n");
    typist.types("\x04");
    assert_eq!(typist.leaves(), Some(0));
}

#[test]
fn ctrl_c_stops_the_evaluation_and_not_the_session() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = at_the_prompt(home.path());
    typist.sees(PROMPT);
    asks(&mut typist, "const kept = 41", "");
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
        asks(&mut typist, "kept + 1", "42\r\n");
    }
    // At the prompt it drops the line.
    typist.types("unfinished\x03");
    typist.sees("(Ctrl-D or .exit ends)");
    typist.sees(PROMPT);
    typist.types(".exit\r");
    assert_eq!(typist.leaves(), Some(0));
}

#[test]
fn an_error_shows_its_place_in_the_line() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("lib.ts"),
        "export function fails() {\n  null!.x;\n}\n",
    )
    .unwrap();
    let mut typist = at_the_prompt(home.path());
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
    assert_eq!(typist.leaves(), Some(0));
}

#[test]
fn what_is_typed_ahead_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = at_the_prompt(home.path());
    typist.types("'before ' + 'the prompt'\r");
    typist.sees("\"before the prompt\"");
    typist.sees(PROMPT);
    typist.types("await sleep(300); 'sl' + 'ept'\r'a' + 'head'\r6 * 7\r");
    typist.sees("\"slept\"");
    typist.sees("\"ahead\"");
    typist.sees("42\r\n");
    // Also what came in one piece with the line before.
    typist.sees(PROMPT);
    typist.types("1 + 1\r'to' + 'gether'\r");
    typist.sees("2\r\n");
    typist.sees("\"together\"");
    typist.sees(PROMPT);
    typist.types("\x04");
    assert_eq!(typist.leaves(), Some(0));
    let history = std::fs::metadata(home.path().join("state/aurae/history")).unwrap();
    assert_eq!(history.permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_printed_meanwhile_leaves_the_line_that_is_typed() {
    let home = tempfile::tempdir().unwrap();
    let mut typist = at_the_prompt(home.path());
    typist.sees(PROMPT);
    asks(
        &mut typist,
        "setTimeout(() => print('la' + 'ter'), 500)",
        "1\r\n",
    );
    typist.types("6 *");
    typist.sees("later\r\n");
    typist.sees("> 6 *");
    typist.types(" 7\r");
    typist.sees("42\r\n");
    typist.sees(PROMPT);
    // More than a person reads, and nothing waits for anything.
    asks(
        &mut typist,
        "for (let i = 0; i < 500; i++) setTimeout(() => print('line', i), 1); undefined",
        "",
    );
    typist.sees("line 499");
    typist.types("'still ' + 'here'\r");
    typist.sees("\"still here\"");
    typist.sees(PROMPT);
    typist.types("\x04");
    assert_eq!(typist.leaves(), Some(0));
}

#[test]
fn a_loaded_file_is_named_by_its_errors() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("bad.ts"),
        "const x = 1;\n\nnothing.there;\n",
    )
    .unwrap();
    std::fs::write(home.path().join("worse.ts"), "const = 1;\n").unwrap();
    std::fs::write(
        home.path().join("good.ts"),
        "const loaded = 20;\nloaded + 1\n",
    )
    .unwrap();
    let mut typist = at_the_prompt(home.path());
    typist.sees(PROMPT);
    typist.types(".load bad.ts\r");
    typist.sees("bad.ts:3:1");
    typist.sees(PROMPT);
    typist.types(".load worse.ts\r");
    typist.sees("worse.ts:1:7");
    typist.sees(PROMPT);
    asks(&mut typist, ".load missing.ts", "");
    typist.types(".load good.ts\r");
    typist.sees("21\r\n");
    typist.sees(PROMPT);
    asks(&mut typist, "loaded", "20\r\n");
    typist.types("\x04");
    assert_eq!(typist.leaves(), Some(0));
}
