// SPDX-License-Identifier: Apache-2.0
//! Stories of plans and applies that meet what they didn't expect: members that mustn't end with
//! what is around them, one object under two names, nodes that lie, that go away in the middle, and
//! applies that are killed.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Folder, Node, context, node, uid};

/// Two nodes, and a configuration of the first that knows both as `alice` and `bob`.
fn pair() -> Option<(Node, Node)> {
    let (one, other) = (node()?, node()?);
    let both = context("alice", &one) + &context("bob", &other);
    fs::write(one.path("both.toml"), both).unwrap();
    Some((one, other))
}

fn names(node: &Node) -> String {
    node.aurae(&["ps", "-o", "name"]).ok()
}

/// Makes a node of the configuration unreachable, or reachable again.
fn reachable(one: &Node, other: &Node, is: bool) {
    let socket = other.path("run/aurae.sock").display().to_string();
    let both = context("alice", one) + &context("bob", other);
    let text = match is {
        true => both,
        false => both.replace(&socket, "/no/socket"),
    };
    fs::write(one.path("both.toml"), text).unwrap();
}

#[test]
fn what_is_protected_keeps_the_cell_around_it() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let text = |hostname: &str| {
        format!(
            "await runtime.Run([new Cell({{ name: \"g\", hostname: \"{hostname}\" }}), new \
             Executable({{ name: \"g/db\", argv: [\"sleep\", \"1000\"], protect: true }})]);"
        )
    };
    let file = folder.file("g.ts", &text("one"));
    node.aurae(&["apply", &file]).ok();
    let before = (uid(&node, "g"), uid(&node, "g/db"));
    // The cell isn't protected, but what is in it would end with it.
    folder.file("g.ts", &text("two"));
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &file]).fails(1);
        assert!(
            refused.contains("PROTECTED") && refused.contains("g/db runs in it and is protected"),
            "{way}: {refused}"
        );
    }
    folder.file("g.ts", "print('nothing');");
    for way in ["plan", "apply"] {
        let kept = node.aurae(&[way, &file]).ok();
        assert!(
            kept.contains("holds g/db, which is protected") && !kept.contains("- stop"),
            "{way}: {kept}"
        );
    }
    let removed = node.aurae(&["set", "rm", "--yes", "g"]).ok();
    assert!(
        removed.contains("holds g/db, which is protected"),
        "{removed}"
    );
    assert_eq!((uid(&node, "g"), uid(&node, "g/db")), before);
    // The set is still there: it holds them.
    assert_eq!(node.aurae(&["set", "ls", "-o", "name"]).ok(), "g\n");
    node.aurae(&["rm", "-rf", "g"]).ok();
}

#[test]
fn an_executables_own_cell_is_no_stranger_in_the_cell_around_it() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let text = |hostname: &str| {
        format!(
            "await runtime.Run(new Cell({{ name: \"a\", hostname: \"{hostname}\" }}));
             const app = new Executable({{ name: \"a/b/app\", argv: [\"sleep\", \"1000\"] }});
             await runtime.RunExecutable(app, {{ ownCell: {{}} }});"
        )
    };
    let file = folder.file("own.ts", &text("one"));
    node.aurae(&["apply", &file]).ok();
    assert_eq!(names(&node), "a\na/b\na/b/app\n");
    let before = uid(&node, "a");
    folder.file("own.ts", &text("two"));
    let replaced = node.aurae(&["apply", &file]).ok();
    assert!(replaced.contains("± replace cell a"), "{replaced}");
    assert_ne!(uid(&node, "a"), before);
    assert_eq!(names(&node), "a\na/b\na/b/app\n");
    folder.file("own.ts", "print('nothing');");
    node.aurae(&["apply", &file]).ok();
    assert_eq!(names(&node), "");
}

const BESIDE: &str = r#"
await runtime.Run(new Cell({ name: "web" }));
await identity.CreateUser({ name: "mallory" });
await identity.Allow({ user: "mallory", action: "runtime" });
"#;

#[test]
fn a_target_makes_no_user_and_gives_no_grant() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("beside.ts", BESIDE);
    // The user would have to be there for the grant; a plan and an apply leave both out.
    let planned = node.aurae(&["plan", "--target", "web", &file]).ok();
    assert!(!planned.contains("+ create user"), "{planned}");
    let applied = node.aurae(&["apply", "--target", "web", &file]).ok();
    assert!(
        applied.contains("+ create cell web") && applied.contains("1 × create"),
        "{applied}"
    );
    let users = node.aurae(&["identity", "user", "ls"]).ok();
    assert!(!users.contains("mallory"), "{users}");
    let shown = node.aurae(&["set", "show", "beside"]).ok();
    assert!(!shown.contains("mallory"), "{shown}");
    node.aurae(&["apply", &file]).ok();
    let users = node.aurae(&["identity", "user", "ls"]).ok();
    assert!(users.contains("mallory"), "{users}");
    node.aurae(&["set", "rm", "--yes", "beside"]).ok();
}

const TWICE: &str = r#"
const { tenant } = await identity.WhoAmI({});
await runtime.Run(new Cell({ name: "x", hostname: "one" }));
await runtime.RunCell({ cell: { ref: { tenant, path: "x" }, spec: { hostname: "two" } } });
"#;

#[test]
fn one_object_by_two_names_is_declared_once() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("twice.ts", TWICE);
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &file]).fails(1);
        assert!(
            refused.contains("x is declared twice, and not alike"),
            "{way}: {refused}"
        );
    }
    // It would otherwise be recreated at each apply.
    let told = node.aurae(&["-e", "print((await runtime.Get('x')).cell.spec.hostname)"]);
    assert_eq!(told.ok(), "one\n");
    node.aurae(&["rm", "-rf", "x"]).ok();
}

const SPREAD: &str = r#"
for (const name of ["alice", "bob"]) {
  if (args.includes(name)) await node(name).runtime.Run(new Cell({ name: `on-${name}` }));
}
if (args.includes("hang")) {
  print("made");
  await sleep("1h");
}
"#;

#[test]
fn an_apply_that_is_killed_between_two_nodes_loses_track_of_neither() {
    let Some((one, other)) = pair() else { return };
    let folder = Folder::new();
    let file = folder.file("spread.ts", SPREAD);
    let args = ["apply", "--yes", &file, "alice", "bob", "hang"];
    let mut killed = one.command_as("both.toml", &args);
    let mut killed = killed
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while names(&other) != "on-bob\n" {
        assert!(
            Instant::now() < until,
            "bob's was never made: {}",
            names(&other)
        );
        assert!(killed.try_wait().unwrap().is_none(), "it ended by itself");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The program has given bob up since: what was made there is found all the same.
    let told = one.aurae_as("both.toml", &["apply", &file, "alice"]).ok();
    assert!(told.contains("- stop cell on-bob"), "{told}");
    assert_eq!(
        (names(&one).as_str(), names(&other).as_str()),
        ("on-alice\n", "")
    );
    one.aurae(&["rm", "-rf", "on-alice"]).ok();
}

const FORGED: &str = r#"
const set = await node("bob").sets.Get({ name: "spread" });
await node("bob").sets.Put({
  set: { name: set.name, program: set.program, members: set.members, nodes: ["bob", "alice"] },
  expectedRevision: set.revision,
});
"#;

#[test]
fn a_node_that_lies_about_a_set_has_no_say_on_others() {
    let Some((one, other)) = pair() else { return };
    let folder = Folder::new();
    let file = folder.file("spread.ts", SPREAD);
    let apply = |names: &[&str]| {
        let args: Vec<_> = ["apply", &file].iter().chain(names).copied().collect();
        one.aurae_as("both.toml", &args)
    };
    // The same program, applied to each cluster by itself.
    apply(&["alice"]).ok();
    apply(&["bob"]).ok();
    assert_eq!(
        (names(&one).as_str(), names(&other).as_str()),
        ("on-alice\n", "on-bob\n")
    );
    // Bob says that the set is on alice, too: what a node that was broken into could do.
    one.aurae_as("both.toml", &["-e", FORGED]).ok();
    for way in ["plan", "apply"] {
        let told = one.aurae_as("both.toml", &[way, &file, "bob"]).ok();
        assert!(!told.contains("on-alice"), "{way}: {told}");
    }
    assert_eq!(names(&one), "on-alice\n");
    // By one apply to both they become one set, and then what is gone from one is taken away.
    apply(&["alice", "bob"]).ok();
    let told = apply(&["bob"]).ok();
    assert!(told.contains("- stop cell on-alice"), "{told}");
    one.aurae(&["rm", "-rf", "on-alice"]).ok();
    other.aurae(&["rm", "-rf", "on-bob"]).ok();
}

#[test]
fn a_node_that_dies_in_the_middle_stops_nothing_and_the_next_apply_goes_on() {
    let Some((one, other)) = pair() else { return };
    let folder = Folder::new();
    let all = |names: &str| {
        format!(
            "for (const name of {names}) await node(\"alice\").runtime.Run(new Cell({{ name }}));
             await node(\"bob\").runtime.Run(new Cell({{ name: \"late\" }}));"
        )
    };
    let file = folder.file("middle.ts", &all("[\"a\", \"old\"]"));
    one.aurae_as("both.toml", &["apply", &file]).ok();
    other.aurae(&["rm", "-rf", "late"]).ok();
    folder.file("middle.ts", &all("[\"a\", \"new\"]"));
    reachable(&one, &other, false);
    let failed = one.aurae_as("both.toml", &["apply", &file]);
    assert_eq!(failed.status, Some(1), "{failed:?}");
    // What was made is told, the error is at its line, and nothing is pruned.
    assert!(failed.out.contains("+ create cell new"), "{failed:?}");
    assert!(failed.err.contains("middle.ts:2:"), "{failed:?}");
    assert_eq!(names(&one), "a\nnew\nold\n");
    reachable(&one, &other, true);
    let done = one.aurae_as("both.toml", &["apply", &file]).ok();
    assert!(
        done.contains("- stop cell old") && done.contains("+ create cell late"),
        "{done}"
    );
    assert_eq!(
        (names(&one).as_str(), names(&other).as_str()),
        ("a\nnew\n", "late\n")
    );
    let settled = one.aurae_as("both.toml", &["apply", &file]).ok();
    assert_eq!(settled, "nothing changed: 3 as declared\n");
    // A set that is removed while a node is away is still its program's.
    reachable(&one, &other, false);
    let removed = one.aurae_as(
        "both.toml",
        &["--node", "alice", "set", "rm", "--yes", "middle"],
    );
    assert!(removed.ok().contains("node bob: it is out of reach"));
    reachable(&one, &other, true);
    let again = one.aurae_as("both.toml", &["apply", &file]).ok();
    assert!(again.contains("2 × start, 1 unchanged"), "{again}");
    let removed = one.aurae_as(
        "both.toml",
        &["--node", "alice", "set", "rm", "--yes", "middle"],
    );
    assert!(removed.ok().contains("- stop cell late"));
    assert_eq!((names(&one).as_str(), names(&other).as_str()), ("", ""));
}

#[test]
fn what_stays_in_another_tenant_is_found_later() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let declared = "await runtime.RunCell({ cell: { ref: { tenant: \"blue\", path: \"b\" } } });";
    let file = folder.file("two.ts", declared);
    node.aurae(&["apply", &file]).ok();
    let blue = || node.aurae(&["--tenant", "blue", "ps", "-o", "name"]).ok();
    assert_eq!(blue(), "b\n");
    folder.file("two.ts", "print('nothing');");
    let kept = node.aurae(&["apply", "--prune", "false", &file]).ok();
    assert!(kept.contains("--prune=false"), "{kept}");
    assert_eq!(blue(), "b\n");
    let pruned = node.aurae(&["apply", &file]).ok();
    assert!(pruned.contains("- stop cell b"), "{pruned}");
    assert_eq!(blue(), "");
    assert_eq!(node.aurae(&["set", "ls", "-o", "name"]).ok(), "");
}

#[test]
fn a_plan_refuses_what_the_apply_would() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    // The cell that it would bring is there, and another's.
    let own = "await runtime.RunExecutable(new Executable({ name: \"c/app\", argv: [\"sleep\", \
               \"1000\"] }), { ownCell: {} });";
    let file = folder.file("own.ts", own);
    node.aurae(&["cell", "run", "c"]).ok();
    let planned = node.aurae(&["plan", &file]);
    let applied = node.aurae(&["apply", &file]);
    for refused in [planned.fails(1), applied.fails(1)] {
        assert!(
            refused.contains("c/app has `ownCell`, but the cell c already runs"),
            "{refused}"
        );
    }
    assert_eq!(names(&node), "c\n");
    node.aurae(&["rm", "-rf", "c"]).ok();
}
