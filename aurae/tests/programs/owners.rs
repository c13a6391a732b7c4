// SPDX-License-Identifier: Apache-2.0
//! Stories of what isn't a program's own: a set of another program, an object that is protected or
//! no target. A call that declares nothing leaves them alone, too.

use super::{Folder, node};

const CELL: &str = "await runtime.Run(new Cell({ name: args[0] }));\n";

#[test]
fn programs_of_one_name_in_two_places_are_two_until_their_project_has_a_name() {
    let Some(node) = node() else { return };
    let (here, there) = (Folder::new(), Folder::new());
    let one = here.file("main.ts", CELL);
    let other = there.file("main.ts", CELL);
    node.aurae(&["apply", &one, "a"]).ok();
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &other, "b"]).fails(1);
        for named in ["CONFLICT", &one, &other, "aurae.json"] {
            assert!(refused.contains(named), "no {named} in {refused}");
        }
    }
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "a\n");
    // The same project in another place is the same program.
    for folder in [&here, &there] {
        folder.file("aurae.json", r#"{ "name": "shop" }"#);
    }
    node.aurae(&["apply", "--adopt", &one, "a"]).ok();
    let moved = node.aurae(&["apply", &other, "b"]).ok();
    assert!(moved.contains("- stop cell a"), "{moved}");
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "b\n");
    node.aurae(&["rm", "-rf", "b"]).ok();
}

#[test]
fn a_call_ends_nothing_that_is_protected_or_no_target() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let program = |call: &str| {
        format!(
            "await runtime.Run([new Cell({{ name: \"c\" }}), new Executable({{ name: \"c/db\", \
             argv: [\"sleep\", \"1000\"], protect: true }}), new Cell({{ name: \"d\" }})]);\n{call}"
        )
    };
    let file = folder.file("calls.ts", &program(""));
    node.aurae(&["apply", &file]).ok();
    let all = node.aurae(&["ps", "-o", "name"]).ok();
    for call in [
        "Stop(\"c/db\")",
        "Stop(\"c\")",
        "Remove(\"c\", { force: true })",
    ] {
        folder.file("calls.ts", &program(&format!("await runtime.{call};")));
        for way in ["plan", "apply"] {
            let refused = node.aurae(&[way, &file]).fails(1);
            assert!(
                refused.contains("PROTECTED") && refused.contains("c/db"),
                "{way} {call}: {refused}"
            );
        }
        assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), all, "{call}");
    }
    // What isn't a target isn't ended either, and what is one is.
    folder.file("calls.ts", &program("await runtime.Stop(\"d\");"));
    for way in ["plan", "apply"] {
        let told = node.aurae(&[way, "--target", "c", &file]).ok();
        assert!(!told.contains("- stop"), "{way}: {told}");
    }
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), all);
    let told = node.aurae(&["apply", "--target", "d", &file]).ok();
    assert!(told.contains("runtime.Stop"), "{told}");
    node.aurae(&["rm", "-rf", "c", "d"]).ok();
}

#[test]
fn a_planned_call_shows_what_it_says() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "call.ts",
        "await runtime.Run([new Cell({ name: \"s\" }), new Executable({ name: \"s/reads\", argv: \
         [\"sleep\", \"1000\"] })]);\nawait runtime.Signal(\"s/reads\", { signal: \"HUP\", allProcesses: true });",
    );
    for way in ["plan", "apply"] {
        let told = node.aurae(&[way, &file]).ok();
        for said in [
            "> call runtime.Signal s/reads",
            "signal: \"HUP\"",
            "allProcesses: true",
        ] {
            assert!(told.contains(said), "{way}: {told}");
        }
    }
    node.aurae(&["rm", "-rf", "s"]).ok();
}
