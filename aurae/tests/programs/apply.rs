// SPDX-License-Identifier: Apache-2.0
//! Stories of applies that don't come to their end.

use std::process::Stdio;

use super::Folder;
use crate::bed::{node, read_line};

const HALF: &str = r#"
await runtime.Run(new Cell({ name: "half" }));
await runtime.Run(new Executable({ name: "half/a", argv: ["sleep", "1000"] }));
if (args[0] === "wait") {
  print("half way");
  await sleep("1h");
}
await runtime.Run(new Executable({ name: "half/b", argv: [args[1] ?? "sleep", "1000"] }));
"#;

#[test]
fn an_apply_that_is_killed_is_gone_on_with() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("half.ts", HALF);
    let mut killed = node.command(&["apply", &file, "wait"]);
    let mut killed = killed.stdout(Stdio::piped()).spawn().unwrap();
    let out = killed.stdout.as_mut().unwrap();
    assert!(read_line(out).starts_with("+ create cell half"));
    let rest = std::iter::from_fn(|| Some(read_line(out)));
    let rest: Vec<_> = rest.take_while(|line| line != "half way").collect();
    assert!(
        rest.iter()
            .any(|line| line.starts_with("+ create executable half/a")),
        "{rest:?}"
    );
    killed.kill().unwrap();
    killed.wait().unwrap();
    let planned = node.aurae(&["plan", &file]).ok();
    assert!(
        planned.contains("set half: 1 to create, 2 unchanged"),
        "{planned}"
    );
    let applied = node.aurae(&["apply", &file]).ok();
    assert!(
        applied.contains("set half: 1 × create, 2 unchanged"),
        "{applied}"
    );
    let again = node.aurae(&["apply", &file]).ok();
    assert_eq!(again, "nothing changed: 3 as declared\n");
    node.aurae(&["rm", "-rf", "half"]).ok();
}

#[test]
fn a_failed_apply_says_how_far_it_came() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("half.ts", HALF);
    let failed = node.aurae(&["apply", &file, "-", "/no/such/program"]);
    assert_eq!(failed.status, Some(1), "{failed:?}");
    for part in [
        "+ create executable half/a",
        "! create executable half/b",
        "    failed: ",
        "set half: 2 × create, 1 failed, 0 unchanged",
    ] {
        assert!(failed.out.contains(part), "no {part:?} in {}", failed.out);
    }
    for part in ["half.ts:8:", "/no/such/program", "goes on from here"] {
        assert!(failed.err.contains(part), "no {part:?} in {}", failed.err);
    }
    let json = node.aurae(&["apply", "-o", "json", &file, "-", "/no/such/program"]);
    assert!(json.out.contains("\"error\": "), "{json:?}");
    let applied = node.aurae(&["apply", &file]).ok();
    assert!(applied.contains("2 unchanged"), "{applied}");
    // One that would be recreated and can't be isn't there any more, and the message says so.
    let replaced = node.aurae(&["apply", &file, "-", "/no/such/program"]);
    assert_eq!(replaced.status, Some(1), "{replaced:?}");
    assert!(
        replaced
            .out
            .contains("half/b was stopped to be recreated, and doesn't run now"),
        "{replaced:?}"
    );
    node.aurae(&["rm", "-rf", "half"]).ok();
}
