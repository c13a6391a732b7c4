// SPDX-License-Identifier: Apache-2.0
//! Stories of programs with real nodes: running, planning and applying them, and how they fail.

mod apply;
mod asked;
mod broken;
mod hostile;
mod owners;
mod pages;
mod pods;
mod recipes;
mod running;
mod schedules;
mod sets;
mod slips;
mod streams;
mod values;

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::bed::{Node, node, read_line};

/// A folder of programs.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("aurae.json"), "{}").unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

const WEB: &str = r#"
const labels = { app: "web", version: args[0] ?? "1" };
await runtime.Run([
  new Cell({ name: "web", labels, hostname: args[1] ?? "web" }),
  new Executable({ name: "web/app", argv: ["sleep", "1000"], stopGrace: "1s", stopSignal: "term" }),
  new Executable({ name: "web/side", argv: ["sleep", "1000"], env: { V: args[2] ?? "1" } }),
]);
"#;

/// A node as one of several in a configuration.
fn context(name: &str, node: &Node) -> String {
    let path = |file: &str| node.path(file).display().to_string();
    format!(
        "[nodes.{name}]\naddress = \"unix://{}\"\nca = \"{}\"\n[users.{name}]\ncertificate = \
         \"{}\"\nkey = \"{}\"\n[contexts.{name}]\nnode = \"{name}\"\nuser = \"{name}\"\n",
        path("run/aurae.sock"),
        path("state/pki/ca.pem"),
        path("state/pki/admin.pem"),
        path("state/pki/admin.key"),
    )
}

/// The object's uid: another one is another run.
fn uid(node: &Node, name: &str) -> String {
    let code = format!(
        "const o = await runtime.Get('{name}'); print((o.cell ?? o.executable).meta.ref.uid)"
    );
    node.aurae(&["-e", &code]).ok()
}

#[test]
fn a_program_runs_from_a_file_a_pipe_or_a_line() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "hello.ts",
        "#!/usr/bin/env aurae\nenum Tone { Low = 1 }\nprint(args, Tone.Low satisfies number);",
    );
    assert_eq!(
        node.aurae(&[&file, "a", "--b"]).ok(),
        "[ \"a\", \"--b\" ] 1\n"
    );
    assert_eq!(
        node.aurae(&["-e", "print(await node.Get({}).then((s) => s.name))"])
            .ok(),
        "test\n"
    );
    let mut piped = node.command(&["-"]);
    let mut piped = piped
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut piped.stdin.take().unwrap(), b"print(6 * 7)").unwrap();
    assert_eq!(piped.wait_with_output().unwrap().stdout, b"42\n");
}

#[test]
fn a_programs_exit_statuses_are_as_promised() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    node.aurae(&["-e", "print(1)"]).ok();
    node.aurae(&["-e", "throw new Error('no')"]).fails(1);
    let mistyped = node.aurae(&["insepct"]).fails(2);
    assert!(mistyped.contains("aurae inspect"), "{mistyped}");
    let wrong = folder.file(
        "wrong.ts",
        "await runtime.Run(new Cell({ name: \"a\", memroy: 1 }));",
    );
    let found = node.aurae(&["check", &wrong]).fails(3);
    assert!(
        found.contains("wrong.ts:1:") && found.contains("memroy"),
        "{found}"
    );
    let unknown = folder.file(
        "unknown.ts",
        "const s = await runtime.RunCell({ cell: { ref: { path: \"a\" } } });\n\
         if (s.pid > 3) await runtime.Stop(\"b\");",
    );
    let found = node.aurae(&["plan", &unknown]).fails(3);
    assert!(found.contains("unknown.ts:2:"), "{found}");
}

#[test]
fn what_is_wrong_is_neither_planned_nor_applied_and_a_run_goes_as_far_as_it_can() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "wrong.ts",
        "await runtime.Run(new Cell({ name: \"first\" }));\n\
         await runtime.Run(new Cell({ name: \"second\", memroy: 1 }));\n",
    );
    for way in ["plan", "apply"] {
        let found = node.aurae(&[way, &file]).fails(3);
        assert!(
            found.contains("wrong.ts:2:") && found.contains("memroy"),
            "{way}: {found}"
        );
        assert!(!found.contains("no further"), "{way}: {found}");
    }
    assert_eq!(node.aurae(&["ps", "-a", "-o", "name"]).ok(), "");
    // Types are erased where it runs: the second line is refused when its turn comes.
    let told = node.aurae(&[&file]).fails(1);
    assert!(told.contains("memroy"), "{told}");
    assert_eq!(node.aurae(&["ps", "-a", "-o", "name"]).ok(), "first\n");
    node.aurae(&["rm", "-rf", "first"]).ok();
}

#[test]
fn an_error_is_shown_where_it_was_written() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    folder.file(
        "lib/late.ts",
        "export async function late(path: string): Promise<void> {\n  await sleep(1);\n  \
         await runtime.RunExecutable({\n    executable: { ref: { path }, spec: { argv: [\"x\"], \
         nice: 77 } },\n  });\n}\n",
    );
    let file = folder.file(
        "main.ts",
        "import { late } from \"./lib/late.ts\";\n\nawait late(\"web/x\");\n",
    );
    let told = node.aurae(&[&file]).fails(1);
    for part in [
        "runtime.RunExecutable",
        "executable.spec.nice",
        "lib/late.ts:3:",
        "77",
    ] {
        assert!(told.contains(part), "no {part} in:\n{told}");
    }
    let file = folder.file("typo.ts", "const web: any = {};\nprint(web.nmae(1));\n");
    let told = node.aurae(&[&file]).fails(1);
    assert!(
        told.contains("TypeError: web.nmae is not a function") && told.contains("typo.ts:2:11"),
        "{told}"
    );
    for (called, meant) in [
        ("runtime.run(1)", "runtime.run isn't offered; did you mean"),
        ("observe.Metrics(1)", "observe has Logs"),
    ] {
        let file = folder.file("seed.ts", &format!("await {called};\n"));
        let told = node.aurae(&[&file]).fails(1);
        assert!(told.contains(meant), "{called}: {told}");
    }
}

#[test]
fn applied_twice_the_second_changes_nothing() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("web.ts", WEB);
    let planned = node.aurae(&["plan", &file]).ok();
    assert!(
        planned.contains("set web: 3 to create, 0 unchanged"),
        "{planned}"
    );
    assert_eq!(
        node.aurae(&["ps", "-a", "-o", "name"]).ok(),
        "",
        "a plan changes nothing"
    );
    node.aurae(&["apply", &file]).ok();
    let before = uid(&node, "web/app");
    assert_eq!(
        node.aurae(&["apply", &file]).ok(),
        "nothing changed: 3 as declared\n"
    );
    assert_eq!(
        node.aurae(&["plan", &file]).ok(),
        "nothing to do: 3 as declared\n"
    );
    assert_eq!(uid(&node, "web/app"), before);
    node.aurae(&["rm", "-rf", "web"]).ok();
}

#[test]
fn what_differs_is_changed_or_recreated_and_what_is_left_over_is_stopped() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("web.ts", WEB);
    node.aurae(&["apply", &file]).ok();
    let (cell, app) = (uid(&node, "web"), uid(&node, "web/app"));

    let changed = node.aurae(&["apply", &file, "2"]).ok();
    assert!(changed.contains("~ update cell web"), "{changed}");
    assert!(
        changed.contains("labels.version: \"1\" -> \"2\""),
        "{changed}"
    );
    assert_eq!(
        (uid(&node, "web"), uid(&node, "web/app")),
        (cell.clone(), app.clone())
    );

    let replaced = node.aurae(&["apply", &file, "2", "web", "9"]).ok();
    assert!(
        replaced.contains("± replace executable web/side"),
        "{replaced}"
    );
    assert_eq!(uid(&node, "web/app"), app);

    node.aurae(&[
        "run", "--cell", "web", "--name", "foreign", "-d", "--", "sleep", "1000",
    ])
    .ok();
    let refused = node.aurae(&["apply", &file, "2", "other"]).fails(1);
    assert!(refused.contains("web/foreign"), "{refused}");
    assert_eq!(uid(&node, "web"), cell);

    let less: Vec<&str> = WEB
        .lines()
        .filter(|line| !line.contains("web/side"))
        .collect();
    let less = folder.file("web.ts", &less.join("\n"));
    let stopped = node.aurae(&["apply", &less, "2"]).ok();
    assert!(stopped.contains("- stop executable web/side"), "{stopped}");
    assert!(!stopped.contains("foreign"), "{stopped}");
    assert!(
        node.aurae(&["ps", "-o", "name"])
            .ok()
            .contains("web/foreign")
    );
    node.aurae(&["rm", "-rf", "web"]).ok();
}

#[test]
fn no_other_sets_objects_go_with_an_executable_and_its_own_cell() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "job.ts",
        r#"
if (args[0] !== undefined) {
  await runtime.RunExecutable({
    executable: { ref: { path: "job/app" }, spec: { argv: ["sleep", args[0]] } },
    ownCell: {},
  });
}
"#,
    );
    node.aurae(&["apply", &file, "1000"]).ok();
    assert_eq!(
        node.aurae(&["apply", &file, "1000"]).ok(),
        "nothing changed: 1 as declared\n"
    );
    node.aurae(&[
        "run", "--cell", "job", "--name", "foreign", "-d", "--", "sleep", "1000",
    ])
    .ok();
    let (app, foreign) = (uid(&node, "job/app"), uid(&node, "job/foreign"));
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &file, "2000"]).fails(1);
        assert!(refused.contains("job/foreign"), "{way}: {refused}");
        let kept = node.aurae(&[way, &file]).ok();
        assert!(
            kept.contains("executable job/app") && kept.contains("holds job/foreign"),
            "{way}: {kept}"
        );
    }
    assert_eq!(
        (uid(&node, "job/app"), uid(&node, "job/foreign")),
        (app, foreign),
        "both run on"
    );
    node.aurae(&["rm", "-f", "job/foreign"]).ok();
    let stopped = node.aurae(&["apply", &file]).ok();
    assert!(stopped.contains("- stop executable job/app"), "{stopped}");
    // Its cell goes when the kernel has let go of its last process.
    let begun = Instant::now();
    while !node.aurae(&["ps", "-o", "name"]).ok().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the cell stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_cell_that_is_left_over_is_kept_for_what_is_declared_in_it() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("web.ts", WEB);
    node.aurae(&["apply", &file]).ok();
    let app = uid(&node, "web/app");
    let less: Vec<&str> = WEB
        .lines()
        .filter(|line| !line.contains("new Cell"))
        .collect();
    let less = folder.file("web.ts", &less.join("\n"));
    let kept = node.aurae(&["apply", &less]).ok();
    assert!(
        kept.contains("cell web") && !kept.contains("stop"),
        "{kept}"
    );
    assert_eq!(uid(&node, "web/app"), app);
    node.aurae(&["rm", "-rf", "web"]).ok();
}

/// Credentials of a user of the tenant `blue` with these permissions on the tenant `green`.
fn user(node: &Node, name: &str, actions: &[&str]) -> PathBuf {
    let folder = node.path(&format!("users-{name}"));
    fs::create_dir_all(&folder).unwrap();
    node.aurae(&["--tenant", "blue", "identity", "user", "create", name])
        .ok();
    for action in actions {
        node.aurae(&[
            "--tenant",
            "blue",
            "identity",
            "allow",
            "--target-tenant",
            "green",
            name,
            action,
        ])
        .ok();
    }
    let out = folder.to_str().unwrap();
    node.aurae(&["--tenant", "blue", "identity", "issue", name, "--out", out])
        .ok();
    folder
}

#[test]
fn a_plan_needs_read_grants_alone() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("web.ts", WEB);
    node.aurae(&["--tenant", "green", "apply", &file]).ok();
    let reader = user(&node, "reader", &["runtime.Get", "runtime.List"]);
    node.configure("reader.toml", &reader, "reader");
    let planned = node
        .aurae_as(
            "reader.toml",
            &["--tenant", "green", "plan", "-o", "json", &file, "2"],
        )
        .ok();
    assert!(
        planned.contains("\"field\": \"labels.version\""),
        "{planned}"
    );
    let refused = node
        .aurae_as("reader.toml", &["--tenant", "green", "apply", &file, "2"])
        .fails(1);
    assert!(refused.contains("runtime.RunCell"), "{refused}");
    let settled = node.aurae(&["--tenant", "green", "plan", &file]).ok();
    assert_eq!(
        settled,
        "nothing to do: 3 as declared
",
        "nothing was changed"
    );
    node.aurae(&["--tenant", "green", "rm", "-rf", "web"]).ok();
}

#[test]
fn calls_to_several_nodes_run_side_by_side() {
    let (Some(one), Some(other)) = (node(), node()) else {
        return;
    };
    let both = context("alice", &one) + &context("bob", &other);
    fs::write(one.path("both.toml"), both).unwrap();
    let folder = Folder::new();
    let file = folder.file(
        "both.ts",
        r#"
const names = ["alice", "bob"];
await Promise.all(names.map((name) => node(name).runtime.Run(new Cell({ name: `on-${name}` }))));
const began = Date.now();
await Promise.all(names.map((name) =>
  node(name).runtime.Run(
    new Executable({ name: `on-${name}/nap`, argv: ["sleep", "2"] }),
    { waitFor: "exited" },
  )
));
print(Date.now() - began < 3900);
"#,
    );
    let said = one.aurae_as("both.toml", &[&file]).ok();
    assert_eq!(
        said, "true\n",
        "two naps of two seconds take less than four"
    );
    assert_eq!(one.aurae(&["ps", "-o", "name"]).ok(), "on-alice\n");
    assert_eq!(other.aurae(&["ps", "-o", "name"]).ok(), "on-bob\n");
    one.aurae(&["rm", "-rf", "on-alice"]).ok();
    other.aurae(&["rm", "-rf", "on-bob"]).ok();
    a_selection_is_applied_and_left(&one, &other, &folder);
}

/// A node that loses its label loses what the set had there.
fn a_selection_is_applied_and_left(one: &Node, other: &Node, folder: &Folder) {
    let label = |name: &str, label: &str| {
        one.aurae_as(
            "both.toml",
            &["config", "set-context", name, "--label", label],
        )
        .ok()
    };
    let file = folder.file(
        "selected.ts",
        r#"for (const on of nodes("role=web")) {
  await on.runtime.Run(new Cell({ name: "picked", labels: { on: `${on}` } }));
}
"#,
    );
    one.aurae_as("both.toml", &["config", "use-context", "alice"])
        .ok();
    let none = one.aurae_as("both.toml", &["apply", &file]);
    assert!(
        none.err.contains("selected.ts:1:") && none.err.contains("matches no context"),
        "{none:?}"
    );
    label("alice", "role=web");
    label("bob", "role=web");
    let planned = one.aurae_as("both.toml", &["plan", &file]).ok();
    assert!(planned.contains("2 to create"), "{planned}");
    one.aurae_as("both.toml", &["apply", &file]).ok();
    for node in [one, other] {
        assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "picked\n");
    }
    let again = one.aurae_as("both.toml", &["apply", &file]).ok();
    assert_eq!(again, "nothing changed: 2 as declared\n");
    label("bob", "role-");
    let left = one.aurae_as("both.toml", &["apply", &file]).ok();
    assert!(left.contains("- stop cell picked"), "{left}");
    assert_eq!(other.aurae(&["ps", "-o", "name"]).ok(), "");
    assert_eq!(one.aurae(&["ps", "-o", "name"]).ok(), "picked\n");
    one.aurae(&["rm", "-rf", "picked"]).ok();
}
