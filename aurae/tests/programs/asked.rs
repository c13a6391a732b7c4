// SPDX-License-Identifier: Apache-2.0
//! Stories of an apply on a terminal: it shows its plan and asks, tells what is being done, and
//! asks nothing where it was told to go ahead or where there is no terminal.

use std::fs;
use std::process::Command;

use super::{Folder, node};
use crate::typist::Typist;

const CELL: &str = "await runtime.Run(new Cell({ name: args[0] }));\n";

#[test]
fn an_apply_on_a_terminal_shows_its_plan_and_asks() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("asked.ts", CELL);
    let names = || node.aurae(&["ps", "-o", "name"]).ok();

    let mut no = Typist::start(&node.command(&["apply", &file, "a"]));
    no.sees("+ create cell a");
    no.sees("set asked: 1 to create");
    no.sees("apply this? [y/N] ");
    no.types("n\r");
    no.sees("nothing was changed");
    assert_eq!(no.leaves(), Some(1));
    assert_eq!(names(), "");
    // An empty answer is no answer.
    let mut none = Typist::start(&node.command(&["apply", &file, "a"]));
    none.sees("apply this? [y/N] ");
    none.types("\r");
    assert_eq!(none.leaves(), Some(1));
    assert_eq!(names(), "");

    let mut yes = Typist::start(&node.command(&["apply", &file, "a"]));
    yes.sees("apply this? [y/N] ");
    yes.types("y\r");
    yes.sees("set asked: 1 × create");
    assert_eq!(yes.leaves(), Some(0));
    assert_eq!(names(), "a\n");
    // Where nothing changes nothing is asked.
    let mut same = Typist::start(&node.command(&["apply", &file, "a"]));
    same.sees("nothing changed: 1 as declared");
    assert_eq!(same.leaves(), Some(0));

    let mut told = Typist::start(&node.command(&["apply", "--yes", &file, "b"]));
    told.sees("- stop cell a");
    told.sees("set asked: 1 × create, 1 × stop");
    assert_eq!(told.leaves(), Some(0));
    assert_eq!(names(), "b\n");

    let mut removed = Typist::start(&node.command(&["set", "rm", "asked"]));
    removed.sees("remove the set? [y/N] ");
    removed.types("yes\r");
    removed.sees("- stop cell b");
    assert_eq!(removed.leaves(), Some(0));
    assert_eq!(names(), "");
}

#[test]
fn a_yes_is_to_the_plan_that_was_shown() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("moved.ts", CELL);
    // Another apply of the same set comes before the answer.
    let mut late = Typist::start(&node.command(&["apply", &file, "a"]));
    late.sees("apply this? [y/N] ");
    node.aurae(&["apply", "--yes", &file, "b"]).ok();
    late.types("y\r");
    late.sees("the node has changed since the plan");
    assert_eq!(late.leaves(), Some(1));
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "b\n");
    // So with a set that is to go.
    let mut late = Typist::start(&node.command(&["set", "rm", "moved"]));
    late.sees("remove the set? [y/N] ");
    node.aurae(&["apply", "--yes", "--prune=false", &file, "c"])
        .ok();
    late.types("y\r");
    late.sees("the set has changed since it was shown");
    assert_eq!(late.leaves(), Some(1));
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "b\nc\n");
    node.aurae(&["set", "rm", "--yes", "moved"]).ok();

    // So with the program.
    let mut edited = Typist::start(&node.command(&["apply", &file, "a"]));
    edited.sees("apply this? [y/N] ");
    fs::write(&file, CELL.replace("args[0]", "`${args[0]}-other`")).unwrap();
    edited.types("y\r");
    edited.sees("the program has changed since the plan was made");
    assert_eq!(edited.leaves(), Some(1));
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}

#[test]
fn who_keeps_what_is_printed_is_asked_as_well() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("kept.ts", CELL);
    let log = folder.file("kept.log", "");
    let mut no = Typist::start(&into(&log, &node.command(&["apply", &file, "a"])));
    no.sees("apply this? [y/N] ");
    no.types("n\r");
    no.sees("nothing was changed");
    no.leaves();
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
    let kept = fs::read_to_string(&log).unwrap();
    assert!(
        kept.contains("+ create cell a") && !kept.contains("[y/N]"),
        "{kept}"
    );
    // Who keeps JSON sees the plan where he is asked, and keeps what was done alone.
    let json = node.command(&["apply", "-o", "json", &file, "a"]);
    let mut yes = Typist::start(&into(&log, &json));
    yes.sees("+ create cell a");
    yes.sees("apply this? [y/N] ");
    yes.types("y\r");
    assert_eq!(yes.leaves(), Some(0));
    let log = fs::read_to_string(&log).unwrap();
    let report: serde_json::Value = serde_json::from_str(&log).unwrap();
    assert_eq!(report["changes"][0]["action"], "create", "{log}");
    node.aurae(&["set", "rm", "--yes", "kept"]).ok();
}

/// The command, with what it prints on standard output in that file.
fn into(log: &str, command: &Command) -> Command {
    let mut kept = Command::new("sh");
    kept.args(["-c", "\"$@\" > \"$0\""]).arg(log);
    kept.arg(command.get_program()).args(command.get_args());
    let set = command.get_envs();
    kept.envs(set.filter_map(|(name, value)| Some((name, value?))));
    kept
}

const SLOW: &str = r#"
await runtime.Run(new Cell({ name: "p" }));
print("between");
await runtime.Run(
  new Executable({ name: "p/slow", argv: ["sleep", "3"] }), { waitFor: "exited" },
);
"#;

#[test]
fn a_long_apply_says_what_it_is_doing() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("slow.ts", SLOW);
    let mut watched = Typist::start(&node.command(&["apply", &file]));
    watched.sees("apply this? [y/N] ");
    watched.types("y\r");
    watched.sees("+ create cell p");
    watched.sees("create executable p/slow: 1 of 2 done (");
    watched.sees("set slow: 2 × create");
    assert_eq!(watched.leaves(), Some(0));
    node.aurae(&["set", "rm", "--yes", "slow"]).ok();
    // No terminal, no line that is drawn over; and none beside what programs read.
    for form in ["text", "json"] {
        let done = node.aurae(&["apply", "-o", form, &file]);
        assert_eq!(done.status, Some(0), "{done:?}");
        assert!(!done.err.contains("done ("), "{done:?}");
        assert!(!done.out.contains('\x1b'), "{done:?}");
        node.aurae(&["set", "rm", "--yes", "slow"]).ok();
    }
}
