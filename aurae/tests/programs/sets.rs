// SPDX-License-Identifier: Apache-2.0
//! Stories of sets: what belongs to a program, what doesn't, and what an apply leaves alone.

use std::fs;

use super::{Folder, Node, context, node, uid};

const CELL: &str = "await runtime.Run(new Cell({ name: args[0] }));\n";

#[test]
fn two_programs_of_one_name_are_two_sets() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let one = folder.file("teamA/main.ts", CELL);
    let other = folder.file("teamB/main.ts", CELL);
    let told = node.aurae(&["apply", &one, "a"]).ok();
    assert!(told.contains("set teamA.main: 1 × create"), "{told}");
    node.aurae(&["apply", &other, "b"]).ok();
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "a\nb\n");
    let listed = node.aurae(&["set", "ls", "-o", "name"]).ok();
    assert_eq!(listed, "teamA.main\nteamB.main\n");
    // One set is one program's.
    let refused = node
        .aurae(&["apply", "--set", "teamA.main", &other, "b"])
        .fails(1);
    assert!(
        refused.contains("is declared by the program") && refused.contains("teamA/main.ts"),
        "{refused}"
    );
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "a\nb\n");

    let shown = node.aurae(&["set", "show", "teamA.main"]).ok();
    assert!(shown.contains("cell  a     runtime.RunCell"), "{shown}");
    let asked = node.aurae(&["set", "rm", "teamA.main"]).fails(2);
    assert!(asked.contains("--yes"), "{asked}");
    let gone = node.aurae(&["set", "rm", "--yes", "teamA.main"]).ok();
    assert!(gone.contains("- stop cell a"), "{gone}");
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "b\n");
    assert_eq!(
        node.aurae(&["set", "ls", "-o", "name"]).ok(),
        "teamB.main\n"
    );
    node.aurae(&["rm", "-rf", "b"]).ok();
}

const APP: &str = r#"
await runtime.Run([
  new Cell({ name: "web" }),
  new Executable({ name: "web/app", argv: ["sleep", "1000"], labels: { v: args[0] ?? "1" } }),
]);
"#;

#[test]
fn what_was_started_by_hand_is_left_alone_or_taken_over_without_a_restart() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("app.ts", APP);
    node.aurae(&["cell", "run", "web"]).ok();
    node.aurae(&[
        "run", "--cell", "web", "--name", "app", "--label", "v=1", "-d", "--", "sleep", "1000",
    ])
    .ok();
    let before = (uid(&node, "web"), uid(&node, "web/app"));
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &file]).fails(1);
        assert!(
            refused.contains("CONFLICT") && refused.contains("--adopt"),
            "{way}: {refused}"
        );
    }
    let taken = node.aurae(&["apply", "--adopt", &file]).ok();
    assert!(taken.contains("~ update executable web/app"), "{taken}");
    assert_eq!((uid(&node, "web"), uid(&node, "web/app")), before);
    assert_eq!(
        node.aurae(&["apply", &file]).ok(),
        "nothing changed: 2 as declared\n"
    );
    // Another label is another label, and no other run.
    let labelled = node.aurae(&["apply", &file, "2"]).ok();
    assert!(labelled.contains("labels.v: \"1\" -> \"2\""), "{labelled}");
    assert_eq!((uid(&node, "web"), uid(&node, "web/app")), before);
    node.aurae(&["rm", "-rf", "web"]).ok();
}

const ACCESS: &str = r#"
await identity.CreateUser({ name: "ann" });
await identity.Allow({ user: "ann", action: "runtime", path: "web" });
if (args.length > 0) await identity.Deny({ user: "ann", action: "runtime.Stop" });
"#;

#[test]
fn a_grant_that_is_gone_from_the_program_is_withdrawn() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("access.ts", ACCESS);
    let planned = node.aurae(&["plan", &file, "more"]).ok();
    for part in [
        "+ create user ann",
        "+ create grant ann runtime web",
        "effect: \"allow\"",
        "effect: \"deny\"",
        "action: \"runtime.Stop\"",
        "path: \"web\"",
    ] {
        assert!(planned.contains(part), "no {part} in:\n{planned}");
    }
    node.aurae(&["apply", &file, "more"]).ok();
    assert_eq!(
        node.aurae(&["apply", &file, "more"]).ok(),
        "nothing changed: 3 as declared\n"
    );
    let grants = |node: &Node| node.aurae(&["identity", "user", "ls"]).ok();
    assert!(grants(&node).contains("runtime.Stop"), "{}", grants(&node));
    // What was given by hand is another's, be it the same: until it is taken over.
    let same = folder.file(
        "same.ts",
        "await identity.Allow({ user: \"ann\", action: \"node\" });",
    );
    node.aurae(&["identity", "allow", "ann", "node"]).ok();
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &same]).fails(1);
        assert!(
            refused.contains("CONFLICT") && refused.contains("--adopt"),
            "{refused}"
        );
    }
    let taken = node.aurae(&["apply", "--adopt", &same]).ok();
    assert!(taken.contains("^ take over grant ann node"), "{taken}");
    assert_eq!(
        node.aurae(&["apply", &same]).ok(),
        "nothing changed: 1 as declared\n"
    );
    let gone = node.aurae(&["set", "rm", "--yes", "same"]).ok();
    assert!(gone.contains("- remove grant ann node"), "{gone}");
    // What was given by hand stays.
    node.aurae(&["identity", "allow", "ann", "observe"]).ok();
    let less = node.aurae(&["apply", &file]).ok();
    assert!(less.contains("- remove grant ann runtime.Stop"), "{less}");
    assert!(!grants(&node).contains("runtime.Stop"), "{}", grants(&node));
    assert!(grants(&node).contains("observe"), "{}", grants(&node));
    let removed = node.aurae(&["set", "rm", "--yes", "access"]).ok();
    assert!(removed.contains("no method takes a user away"), "{removed}");
    assert!(!grants(&node).contains("runtime"), "{}", grants(&node));
    assert!(grants(&node).contains("observe"), "{}", grants(&node));
}

/// The user comes first, and with it the tenant; no quota of it is set then.
const TENANT: &str = r#"
await identity.CreateUser({ tenant: "blue", name: "bea" });
const quotas = args.length > 0 ? { cells: args[0], tmpfs: "0.5Gi" } : { cells: "64" };
const blue = await tenant.Set({ name: "blue", quotas });
console.log(`cells: ${blue.quotas?.cells}`);
"#;

#[test]
fn quotas_of_a_tenant_are_declared_and_those_that_are_not_are_left_alone() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("tenants.ts", TENANT);
    let planned = node.aurae(&["plan", &file]).ok();
    for part in [
        "+ create user bea",
        "+ create tenant blue",
        "quotas.cells: \"64\"",
    ] {
        assert!(planned.contains(part), "no {part} in:\n{planned}");
    }
    let applied = node.aurae(&["apply", &file]).ok();
    assert!(applied.contains("cells: 64"), "{applied}");
    assert!(applied.contains("+ create tenant blue"), "{applied}");
    let again = node.aurae(&["apply", &file]).ok();
    assert!(again.contains("nothing changed: 2 as declared"), "{again}");
    // What an administrator sets beside it is no difference, nor is the same in other words.
    node.aurae(&["tenant", "set", "blue", "executables=20%", "tmpfs=512Mi"])
        .ok();
    let more = node.aurae(&["plan", &file, "64"]).ok();
    assert!(!more.contains("update"), "{more}");
    let changed = node.aurae(&["apply", &file, "32"]).ok();
    assert!(changed.contains("~ update tenant blue"), "{changed}");
    assert!(
        changed.contains("quotas.cells: \"64\" -> \"32\""),
        "{changed}"
    );
    assert!(!changed.contains("tmpfs"), "{changed}");
    let shown = node.aurae(&["tenant", "show", "blue", "-o", "json"]).ok();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let expected = serde_json::json!({ "cells": "32", "executables": "20%", "tmpfs": "512Mi" });
    assert_eq!(shown["quotas"], expected, "{shown}");
    // An amount that is none is named before anything is done.
    let wrong = node.aurae(&["plan", &file, "many"]).fails(1);
    assert!(wrong.contains("quotas.cells"), "{wrong}");
    // What was set by hand is another's until it is taken over.
    let same = "await tenant.Set({ name: \"blue\", quotas: { executables: \"30%\" } });";
    let same = folder.file("more.ts", same);
    let refused = node.aurae(&["apply", &same]).fails(1);
    assert!(refused.contains("CONFLICT"), "{refused}");
    let taken = node.aurae(&["apply", "--adopt", &same]).ok();
    assert!(
        taken.contains("quotas.executables: \"20%\" -> \"30%\""),
        "{taken}"
    );
    let gone = node.aurae(&["set", "rm", "--yes", "more"]).ok();
    assert!(gone.contains("no method takes a tenant away"), "{gone}");
}

const SECRET: &str = r#"
await runtime.Run([
  new Cell({ name: "s" }),
  new Executable({ name: "s/app", argv: ["sleep", "1000"], env: { TOKEN: args[0] } }),
]);
print("said");
"#;

#[test]
fn values_of_the_environment_are_never_shown() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("s.ts", SECRET);
    node.aurae(&["apply", &file, "hunter2"]).ok();
    for form in ["text", "json"] {
        let planned = node.aurae(&["plan", "-o", form, &file, "hunter3"]);
        assert_eq!(planned.status, Some(0), "{planned:?}");
        assert!(planned.out.contains("env.TOKEN"), "{planned:?}");
        let all = format!("{}{}", planned.out, planned.err);
        assert!(!all.contains("hunter"), "{all}");
        // Standard output is one thing.
        let said_there = planned.out.contains("said");
        assert_eq!(said_there, form == "text", "{planned:?}");
        assert_eq!(planned.err.contains("said"), form == "json", "{planned:?}");
    }
    node.aurae(&["rm", "-rf", "s"]).ok();
}

#[test]
fn what_is_protected_is_neither_stopped_nor_recreated() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let text = |hostname: &str, protect: &str| {
        format!(
            "await runtime.Run(new Cell({{ name: \"p\", hostname: \"{hostname}\"{protect} }}));"
        )
    };
    let file = folder.file("p.ts", &text("one", ", protect: true"));
    node.aurae(&["apply", &file]).ok();
    let before = uid(&node, "p");
    folder.file("p.ts", &text("two", ", protect: true"));
    let refused = node.aurae(&["apply", &file]).fails(1);
    assert!(refused.contains("PROTECTED"), "{refused}");
    folder.file("p.ts", "print('nothing');");
    let kept = node.aurae(&["apply", &file]).ok();
    assert!(kept.contains("is protected"), "{kept}");
    assert_eq!(uid(&node, "p"), before);
    folder.file(
        "p.ts",
        "// aurae: protect\nawait runtime.Run(new Cell({ name: \"p\" }));",
    );
    let commented = node.aurae(&["plan", &file]).fails(1);
    assert!(commented.contains("PROTECTED"), "{commented}");
    folder.file("p.ts", "// aurae: protect\nprint('nothing');");
    let useless = node.aurae(&["plan", &file]).fails(3);
    assert!(useless.contains("makes a workload"), "{useless}");
    // Without its protection it goes.
    folder.file("p.ts", &text("one", ""));
    node.aurae(&["apply", &file]).ok();
    assert_eq!(uid(&node, "p"), before);
    folder.file("p.ts", "print('nothing');");
    node.aurae(&["apply", &file]).ok();
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}

#[test]
fn flags_that_are_not_there_are_refused_and_those_of_a_program_come_after_dashes() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("flags.ts", "print(args);");
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &file, "--dry-run"]).fails(2);
        assert!(refused.contains("aurae plan"), "{refused}");
        let refused = node.aurae(&[way, &file, "--dry-run=server"]).fails(2);
        assert!(refused.contains("aurae plan"), "{refused}");
        node.aurae(&[way, &file, "--frobnicate"]).fails(2);
        let told = node.aurae(&[way, &file, "a", "--", "--dry-run"]).ok();
        assert!(told.contains("[ \"a\", \"--dry-run\" ]"), "{told}");
    }
}

#[test]
fn a_plan_is_kept_and_applied_unless_the_node_has_changed() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("kept.ts", CELL);
    let out = folder.file("kept.plan", "");
    let plan = ["plan", "--exit-code", "--out", &out, &file, "k"];
    node.aurae(&plan).fails(2);
    let applied = node.aurae(&["apply", &out]).ok();
    assert!(applied.contains("set kept: 1 × create"), "{applied}");
    assert_eq!(node.aurae(&plan).ok(), "nothing to do: 1 as declared\n");
    let settled = node.aurae(&["apply", &out]).ok();
    assert_eq!(settled, "nothing changed: 1 as declared\n");
    node.aurae(&["rm", "-rf", "k"]).ok();
    let moved = node.aurae(&["apply", &out]).fails(1);
    assert!(moved.contains("the node has changed"), "{moved}");
    folder.file("kept.ts", &format!("{CELL}// more\n"));
    let changed = node.aurae(&["apply", &out]).fails(1);
    assert!(changed.contains("the program has changed"), "{changed}");
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}

#[test]
fn a_target_and_no_pruning_go_no_further_than_they_say() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let both = "for (const name of args) await runtime.Run(new Cell({ name }));";
    let file = folder.file("t.ts", both);
    let one = node
        .aurae(&["apply", "--target", "b", &file, "a", "b"])
        .ok();
    assert!(
        one.contains("+ create cell b") && !one.contains("+ create cell a"),
        "{one}"
    );
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "b\n");
    let kept = node.aurae(&["apply", "--prune", "false", &file, "a"]).ok();
    assert!(kept.contains("--prune=false"), "{kept}");
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "a\nb\n");
    node.aurae(&["apply", &file, "a"]).ok();
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "a\n");
    node.aurae(&["rm", "-rf", "a"]).ok();
}

#[test]
fn a_node_that_is_no_longer_spoken_to_is_pruned_or_named() {
    let (Some(one), Some(other)) = (node(), node()) else {
        return;
    };
    let both = context("alice", &one) + &context("bob", &other);
    fs::write(one.path("both.toml"), &both).unwrap();
    let folder = Folder::new();
    let file = folder.file(
        "both.ts",
        "for (const name of args) await node(name).runtime.Run(new Cell({ name: `on-${name}` }));",
    );
    let apply = |args: &[&str]| {
        let args: Vec<_> = ["apply", &file].iter().chain(args).copied().collect();
        one.aurae_as("both.toml", &args)
    };
    apply(&["alice", "bob"]).ok();
    assert_eq!(other.aurae(&["ps", "-o", "name"]).ok(), "on-bob\n");
    // Out of reach, it is named, and remembered.
    let away = both.replace(
        &other.path("run/aurae.sock").display().to_string(),
        "/no/socket",
    );
    fs::write(one.path("both.toml"), away).unwrap();
    let named = apply(&["alice"]).ok();
    assert!(named.contains("node bob: it is out of reach"), "{named}");
    fs::write(one.path("both.toml"), &both).unwrap();
    let pruned = apply(&["alice"]).ok();
    assert!(pruned.contains("- stop cell on-bob"), "{pruned}");
    assert_eq!(other.aurae(&["ps", "-o", "name"]).ok(), "");
    assert_eq!(apply(&["alice"]).ok(), "nothing changed: 1 as declared\n");
    one.aurae(&["rm", "-rf", "on-alice"]).ok();
}

#[test]
fn workloads_as_data_are_applied_like_a_program() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let json = folder.file(
        "web.json",
        r#"[{ "kind": "cell", "name": "d" },
            { "kind": "executable", "name": "d/a", "argv": ["sleep", "1000"] }]"#,
    );
    let applied = node.aurae(&["apply", "-f", &json]).ok();
    assert!(applied.contains("set web: 2 × create"), "{applied}");
    let yaml = folder.file(
        "web.yaml",
        "- {kind: cell, name: d}\n- {kind: executable, name: d/a, argv: [sleep, '1000']}\n",
    );
    // The same set by another file: it is taken over, and nothing changes.
    let same = node.aurae(&["apply", "--adopt", &yaml]).ok();
    assert_eq!(same, "nothing changed: 2 as declared\n");
    let wrong = folder.file("wrong.json", r#"{ "kind": "machine", "name": "x" }"#);
    let refused = node.aurae(&["plan", &wrong]).fails(1);
    assert!(refused.contains("executable or cell or pod"), "{refused}");
    let slip = r#"[{"kind": "cell", "name": "d"}, {"kind": "cell", "name": "e", "hostnam": "e"}]"#;
    let refused = node
        .aurae(&["plan", &folder.file("slip.json", slip)])
        .fails(1);
    assert!(refused.contains("item 2 (e): "), "{refused}");
    assert!(refused.contains("did you mean \"hostname\"?"), "{refused}");
    // The lines that are shown are not those of the file, and don't pass for them.
    assert!(!refused.contains("slip.json:"), "{refused}");
    node.aurae(&["set", "rm", "--yes", "web"]).ok();
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}

const DRIFT: &str = r#"
await runtime.Run([
  new Cell({ name: "d", labels: { v: "1" } }),
  new Executable({ name: "d/a", argv: ["sleep", "1000"] }),
  new Executable({ name: "d/b", argv: ["sleep", "1000"] }),
  ...args.map((name) => new Executable({ name, argv: ["sleep", "1000"] })),
]);
"#;

#[test]
fn a_drift_report_tells_what_differs_from_what_was_applied_and_nothing_else() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("drift.ts", DRIFT);
    let drift = ["plan", "--refresh-only", "--exit-code", &file];
    assert_eq!(node.aurae(&drift).ok(), "no drift: 0 as applied\n");
    node.aurae(&["apply", &file]).ok();
    // What the program declares since is no drift, and neither is what it declares no more.
    let more = [&drift[..], &["d/new"]].concat();
    assert_eq!(node.aurae(&more).ok(), "no drift: 3 as applied\n");
    node.aurae(&["stop", "d/a"]).ok();
    node.aurae(&["rm", "-f", "d/b"]).ok();
    node.aurae(&[
        "-e",
        "await runtime.UpdateCell({ ref: { path: 'd' }, labels: { v: '2', \
        'aurae.io/set': 'drift' }, updateMask: ['labels'] })",
    ])
    .ok();
    let told = node.aurae(&more);
    assert_eq!(told.status, Some(2), "{told:?}");
    for part in [
        "~ differs cell d",
        "labels.v: \"2\" -> \"1\"",
        "+ ended executable d/a",
        "+ gone executable d/b",
        "set drift: 1 gone, 1 ended, 1 differs, 0 as applied",
    ] {
        assert!(told.out.contains(part), "no {part} in {}", told.out);
    }
    assert!(!told.out.contains("d/new"), "{}", told.out);
    node.aurae(&["plan", "--refresh-only", "--out", "x.plan", &file])
        .fails(2);
    node.aurae(&["rm", "-rf", "d"]).ok();
}

#[test]
fn a_workload_with_its_own_cell_is_moved_with_that_cell() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let text = |name: &str, moved: &str| {
        format!(
            "{moved}\nawait runtime.RunExecutable(new Executable({{ name: \"{name}/app\", argv: \
             [\"sleep\", \"1000\"] }}), {{ ownCell: {{}} }});"
        )
    };
    let file = folder.file("o.ts", &text("web", ""));
    node.aurae(&["apply", &file]).ok();
    let before = uid(&node, "web/app");
    folder.file(
        "o.ts",
        &text("front", "moved({ from: \"web\", to: \"front\" });"),
    );
    let names = || node.aurae(&["ps", "-o", "name"]).ok();
    // What else runs in the cell would go with it.
    let guest = [
        "run", "--cell", "web", "--name", "guest", "-d", "--", "sleep", "1000",
    ];
    node.aurae(&guest).ok();
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &file]).fails(1);
        assert!(
            refused.contains("web/guest runs in it and isn't of the set o"),
            "{way}: {refused}"
        );
    }
    assert_eq!(names(), "web\nweb/app\nweb/guest\n");
    node.aurae(&["rm", "-f", "web/guest"]).ok();
    // A cell that has the new name already isn't taken for the one that goes.
    node.aurae(&["cell", "run", "front"]).ok();
    node.aurae(&["apply", &file]).fails(1);
    assert_eq!(names(), "front\nweb\nweb/app\n");
    assert_eq!(uid(&node, "web/app"), before);
    node.aurae(&["rm", "-rf", "front"]).ok();

    let planned = node.aurae(&["plan", &file]).ok();
    assert!(
        planned.contains("± replace executable front/app") && planned.contains("it was web/app"),
        "{planned}"
    );
    assert!(
        planned.contains("set o: 1 to replace, 0 unchanged"),
        "{planned}"
    );
    let applied = node.aurae(&["apply", &file]).ok();
    assert!(
        applied.contains("set o: 1 × replace, 0 unchanged"),
        "{applied}"
    );
    assert_eq!(names(), "front\nfront/app\n");
    assert_eq!(
        node.aurae(&["apply", &file]).ok(),
        "nothing changed: 1 as declared\n"
    );
    node.aurae(&["set", "rm", "--yes", "o"]).ok();
}

#[test]
fn what_has_another_name_is_replaced_as_one_change() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let text = |name: &str, moved: &str| {
        format!(
            "{moved}\nawait runtime.Run([new Cell({{ name: \"{name}\" }}), new Executable({{ \
             name: \"{name}/app\", argv: [\"sleep\", \"1000\"] }})]);"
        )
    };
    let file = folder.file("m.ts", &text("web", ""));
    node.aurae(&["apply", &file]).ok();
    folder.file(
        "m.ts",
        &text("front", "moved({ from: \"web\", to: \"front\" });"),
    );
    let planned = node.aurae(&["plan", &file]).ok();
    let reason =
        "± replace cell front: stop it, create it again: it was web, and a node can't rename";
    assert!(planned.contains(reason), "{planned}");
    assert!(
        planned.contains("set m: 1 to create, 1 to replace, 0 unchanged"),
        "{planned}"
    );
    let applied = node.aurae(&["apply", &file]).ok();
    assert!(
        applied.contains("set m: 1 × create, 1 × replace, 0 unchanged"),
        "{applied}"
    );
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "front\nfront/app\n");
    // Said once more it means nothing.
    assert_eq!(
        node.aurae(&["apply", &file]).ok(),
        "nothing changed: 2 as declared\n"
    );
    // What is another's isn't moved.
    node.aurae(&["cell", "run", "web"]).ok();
    assert_eq!(
        node.aurae(&["plan", &file]).ok(),
        "nothing to do: 2 as declared\n"
    );
    node.aurae(&["rm", "-rf", "front"]).ok();
    let beside = node.aurae(&["apply", &file]).ok();
    assert!(beside.contains("set m: 2 × create"), "{beside}");
    assert_eq!(
        node.aurae(&["ps", "-o", "name"]).ok(),
        "front\nfront/app\nweb\n"
    );
    node.aurae(&["rm", "-rf", "front"]).ok();
    node.aurae(&["rm", "-rf", "web"]).ok();
}
