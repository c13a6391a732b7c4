// SPDX-License-Identifier: Apache-2.0
//! Stories of pods that programs declare: made, compared, changed, recreated and removed as cells
//! are.

use super::{Folder, Node, node};

const POD: &str = r#"
if (args[0] !== "none") {
  await runtime.Run(new Pod({
    name: "web",
    labels: { v: args[0] ?? "1" },
    protect: args[2] === "protect",
    stopGrace: "1s",
    containers: [{
      name: "app",
      entrypoint: ["sleep", "1000"],
      env: [{ name: "KEY", value: args[1] ?? "first-secret" }],
    }],
  }));
}
"#;

/// Which run of the pod it is.
fn run_of(node: &Node, name: &str) -> String {
    let code = format!("print((await pod.Get('{name}')).meta.ref.uid)");
    node.aurae(&["-e", &code]).ok()
}

#[test]
fn a_pod_is_planned_and_applied_as_a_cell_is() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("main.ts", POD);
    let planned = node.aurae(&["plan", &file]).ok();
    for part in [
        "+ create pod web",
        "spec.containers.app.entrypoint",
        "spec.containers.app.env.KEY.value",
        "labels.v: \"1\"",
    ] {
        assert!(planned.contains(part), "no {part} in:\n{planned}");
    }
    assert!(!planned.contains("first-secret"), "{planned}");
    assert_eq!(node.aurae(&["pod", "ls", "-o", "name"]).ok(), "");
    let applied = node.aurae(&["apply", &file]).ok();
    assert!(applied.contains("set main: 1 × create"), "{applied}");
    assert_eq!(node.aurae(&["pod", "ls", "-o", "name"]).ok(), "web\n");
    let unchanged = "nothing changed: 1 as declared\n";
    assert_eq!(node.aurae(&["apply", &file]).ok(), unchanged);
    let shown = node.aurae(&["set", "show", "main"]).ok();
    assert!(shown.contains("pod   web   pod.Run"), "{shown}");

    // Another label is no other run; another environment is, and isn't shown.
    let first = run_of(&node, "web");
    let labelled = node.aurae(&["apply", &file, "2"]).ok();
    assert!(labelled.contains("~ update pod web"), "{labelled}");
    assert!(labelled.contains("labels.v: \"1\" -> \"2\""), "{labelled}");
    assert_eq!(run_of(&node, "web"), first);
    for way in ["plan", "apply"] {
        let replaced = node.aurae(&[way, &file, "2", "second-secret"]).ok();
        assert!(replaced.contains("replace pod web"), "{way}: {replaced}");
        assert!(!replaced.contains("-secret"), "{way}: {replaced}");
    }
    let second = run_of(&node, "web");
    assert_ne!(second, first);

    // What is protected is neither recreated nor removed.
    let asked = ["apply", &file, "2", "second-secret", "protect"];
    node.aurae(&asked).ok();
    let refused = node
        .aurae(&["apply", &file, "2", "third", "protect"])
        .fails(1);
    assert!(refused.contains("PROTECTED"), "{refused}");
    let kept = node.aurae(&["apply", &file, "none"]).ok();
    assert!(kept.contains("is protected"), "{kept}");
    assert_eq!(run_of(&node, "web"), second);
    node.aurae(&asked[..4]).ok();

    let planned = node.aurae(&["plan", &file, "none"]).ok();
    assert!(planned.contains("- remove pod web"), "{planned}");
    let gone = node.aurae(&["apply", &file, "none"]).ok();
    assert!(gone.contains("- remove pod web"), "{gone}");
    assert_eq!(node.aurae(&["pod", "ls", "-o", "name"]).ok(), "");
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}

#[test]
fn a_pod_of_another_is_left_alone_and_one_that_has_ended_is_run_again() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("main.ts", POD);
    let by_hand = folder.file("by-hand.ts", POD);
    node.aurae(&[&by_hand]).ok();
    let first = run_of(&node, "web");
    for way in ["plan", "apply"] {
        let refused = node.aurae(&[way, &file]).fails(1);
        let both = refused.contains("CONFLICT") && refused.contains("--adopt");
        assert!(both, "{way}: {refused}");
    }
    let taken = node.aurae(&["apply", "--adopt", &file]).ok();
    assert!(taken.contains("~ update pod web"), "{taken}");
    assert_eq!(run_of(&node, "web"), first);

    node.aurae(&["pod", "stop", "web"]).ok();
    for way in ["plan", "apply"] {
        let started = node.aurae(&[way, &file]).ok();
        assert!(started.contains("start pod web"), "{way}: {started}");
    }
    assert_ne!(run_of(&node, "web"), first);
    // The same name, and another kind of workload.
    let cell = folder.file("main.ts", "await runtime.Run(new Cell({ name: \"web\" }));");
    let replaced = node.aurae(&["apply", &cell]).ok();
    assert!(replaced.contains("it is a pod"), "{replaced}");
    assert_eq!(node.aurae(&["pod", "ls", "-o", "name"]).ok(), "");
    folder.file("main.ts", POD);
    let replaced = node.aurae(&["apply", &file]).ok();
    assert!(replaced.contains("it is a cell"), "{replaced}");
    let gone = node.aurae(&["set", "rm", "--yes", "main"]).ok();
    assert!(gone.contains("- remove pod web"), "{gone}");
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}

const DATA: &str = r#"[{
  "kind": "pod", "name": "job", "restartPolicy": "never",
  "containers": [{ "name": "a", "entrypoint": ["true"] }]
}]"#;

#[test]
fn a_pod_is_declared_by_data_and_one_that_has_done_its_work_stays_so() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("job.json", DATA);
    node.aurae(&["apply", &file]).ok();
    let waiting = folder.file(
        "wait.ts",
        "for (;;) {\n  const job = await pod.Get(\"job\");\n  if (job.phase === \"succeeded\") break;\n  \
         await sleep(\"50ms\");\n}",
    );
    node.aurae(&[&waiting]).ok();
    let unchanged = "nothing changed: 1 as declared\n";
    assert_eq!(node.aurae(&["apply", &file]).ok(), unchanged);
    node.aurae(&["set", "rm", "--yes", "job"]).ok();
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}

const COMPOSE: &str = r#"
name: shop
x-common: &common
  restart: always
services:
  web:
    <<: *common
    image: registry.example/web:${TAG:-1}
    depends_on: [db]
    ports: ["8080:80"]
    env_file: web.env
  db:
    image: registry.example/db
    healthcheck: { test: [CMD, "true"], interval: 5s }
"#;

#[test]
fn a_compose_file_is_imported_checked_and_planned() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("compose.yaml", COMPOSE);
    folder.file("web.env", "# of the web\nA=\"b\"\nPRICE=$(5)\n");
    let program = node.aurae(&["import", &file]).ok();
    assert!(program.contains("restartPolicy: \"always\""), "{program}");
    let app = folder.file("app.ts", &program);
    node.aurae(&["check", "--no-tsc", &app]).ok();
    node.aurae(&["fmt", "--check", &app]).ok();
    let values = folder.file("values.json", r#"{ "TAG": "2" }"#);
    let planned = node.aurae(&["plan", "--values", &values, &app]).ok();
    for part in [
        "+ create pod shop",
        "spec.containers.web.image: \"registry.example/web:2\"",
        "spec.containers.web.env.PRICE.value",
        "spec.initContainers.db.sidecar: true",
    ] {
        assert!(planned.contains(part), "no {part} in:\n{planned}");
    }
    let neither = folder.file("neither.yaml", "a: 1\n");
    let refused = node.aurae(&["import", &neither]).fails(3);
    assert!(refused.contains("neither a Compose file"), "{refused}");
}

const WAITS: &str = r#"
const [apps, job, web] = await runtime.Run([
  new Cell({ name: "apps", hostname: args[0] ?? "one" }),
  new Pod({
    name: "job",
    restartPolicy: "never",
    containers: [{ name: "a", entrypoint: ["true"] }],
  }),
  new Pod({
    name: "apps/web",
    stopGrace: "1s",
    containers: [{ name: "a", entrypoint: ["sleep", "1000"] }],
  }),
]);
const ended = await pod.Run(new Pod({
  name: "job",
  restartPolicy: "never",
  containers: [{ name: "a", entrypoint: ["true"] }],
}), { waitFor: "ended" });
const ready = await pod.Run(new Pod({
  name: "apps/web",
  stopGrace: "1s",
  containers: [{ name: "a", entrypoint: ["sleep", "1000"] }],
}), { waitFor: "ready" });
print(ended.phase, ready.ready);
"#;

#[test]
fn a_pod_is_waited_for_and_goes_with_the_cell_around_it() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("waits.ts", WAITS);
    let applied = node.aurae(&["apply", &file]).ok();
    assert!(applied.contains("succeeded true"), "{applied}");
    assert!(applied.contains("set waits: 3 × create"), "{applied}");
    let again = node.aurae(&["apply", &file]).ok();
    assert!(again.contains("succeeded true"), "{again}");
    assert!(again.contains("nothing changed: 3 as declared"), "{again}");
    // The containers of the set's own pod are no guests of another's.
    let first = run_of(&node, "apps/web");
    let planned = node.aurae(&["plan", &file, "two"]).ok();
    assert!(planned.contains("replace cell apps"), "{planned}");
    let replaced = node.aurae(&["apply", &file, "two"]).ok();
    assert!(replaced.contains("succeeded true"), "{replaced}");
    assert_ne!(run_of(&node, "apps/web"), first);
    node.aurae(&["set", "rm", "--yes", "waits"]).ok();
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "");
}
