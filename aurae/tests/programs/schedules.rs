// SPDX-License-Identifier: Apache-2.0
//! Stories of schedules: those that programs declare (made, changed in place, pruned), and
//! manifests that the client applies.

use super::{Folder, node};

const TICK: &str = r#"
if (args[0] !== "none") {
  await schedule.Declare({
    name: "tick",
    spec: {
      // As the node has them without a word.
      restart: "no",
      overlap: "forbid",
      backoff: {},
      when: { cron: { pattern: args[0] } },
      work: {
        executable: {
          executable: { ref: { path: "tick/main" }, spec: { argv: ["/bin/true"] } },
        },
      },
    },
  });
}
"#;

#[test]
fn a_schedule_is_planned_applied_changed_in_place_and_pruned() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("main.ts", TICK);
    let planned = node.aurae(&["plan", &file, "0 4 1 1 *"]).ok();
    assert!(planned.contains("create schedule tick"), "{planned}");
    let refused = node.aurae(&["plan", &file, "0 4"]).fails(1);
    assert!(refused.contains("spec.when.cron.pattern"), "{refused}");
    assert_eq!(node.aurae(&["schedule", "ls", "-o", "name"]).ok(), "");
    node.aurae(&["apply", &file, "0 4 1 1 *"]).ok();
    assert_eq!(node.aurae(&["schedule", "ls", "-o", "name"]).ok(), "tick\n");
    let same = node.aurae(&["apply", &file, "0 4 1 1 *"]).ok();
    assert!(same.contains("nothing changed"), "{same}");
    let uid = |code: &str| node.aurae(&["-e", code]).ok();
    let code = "print((await schedule.Get({ name: 'tick' })).uid)";
    let first = uid(code);
    let changed = node.aurae(&["apply", &file, "0 5 1 1 *"]).ok();
    assert!(changed.contains("~ update schedule tick"), "{changed}");
    assert_eq!(uid(code), first, "it was changed in place");
    let shown = node.aurae(&["schedule", "ls"]).ok();
    assert!(shown.contains("0 5 1 1 *"), "{shown}");
    let planned = node.aurae(&["plan", &file, "none"]).ok();
    assert!(planned.contains("- remove schedule tick"), "{planned}");
    node.aurae(&["apply", &file, "none"]).ok();
    assert_eq!(node.aurae(&["schedule", "ls", "-o", "name"]).ok(), "");
}

#[test]
fn a_workload_is_scheduled_in_one_line_and_planned_like_any_declaration() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file(
        "nightly.ts",
        r#"
const backup = new Executable({ name: "nightly", argv: ["/bin/true"] });
await schedule.Cron(backup, args[0] ?? "", { overlap: "replace" });
"#,
    );
    let planned = node.aurae(&["plan", &file, "0 4 1 1 *"]).ok();
    assert!(planned.contains("create schedule nightly"), "{planned}");
    // Three fields, as the whitepaper has them.
    let refused = node.aurae(&["plan", &file, "* * *"]).fails(1);
    assert!(refused.contains("nightly.ts:3:"), "{refused}");
    assert!(refused.contains("spec.when.cron.pattern"), "{refused}");
    node.aurae(&["apply", &file, "0 4 1 1 *"]).ok();
    let same = node.aurae(&["apply", &file, "0 4 1 1 *"]).ok();
    assert!(same.contains("nothing changed"), "{same}");
    node.aurae(&["set", "rm", "--yes", "nightly"]).ok();
    assert_eq!(node.aurae(&["schedule", "ls", "-o", "name"]).ok(), "");
}

const MANIFEST: &str = r#"
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {k: hush-hush}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  paused: true
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: app
        image: none:1
        imagePullPolicy: Never
        env: [{name: KEY, valueFrom: {secretKeyRef: {name: key, key: k}}}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "30 4 * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: app, image: "none:1"}]
"#;

#[test]
fn manifests_are_applied_shown_and_deleted_and_bad_ones_change_nothing() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("all.yaml", MANIFEST);
    let apply = |file: &str| node.aurae(&["schedule", "apply", "-f", file]);
    let dry = node
        .aurae(&["schedule", "apply", "--dry-run", "-f", &file])
        .ok();
    assert!(dry.contains("deployment/web created (dry run)"), "{dry}");
    assert_eq!(node.aurae(&["schedule", "ls", "-o", "name"]).ok(), "");
    let first = apply(&file).ok();
    assert_eq!(
        first,
        "secret/key created\ndeployment/web created\ncronjob/nightly created\n"
    );
    let again = apply(&file).ok();
    assert_eq!(again.matches("unchanged").count(), 3, "{again}");
    let shown = node.aurae(&["schedule", "ls"]).ok();
    assert!(
        shown.contains("Deployment") && shown.contains("0/2"),
        "{shown}"
    );
    let configs = node.aurae(&["schedule", "configs", "-o", "json"]).ok();
    assert!(
        configs.contains("key") && !configs.contains("hush-hush"),
        "{configs}"
    );
    let bad = MANIFEST
        .replace("        image: none:1\n", "")
        .replace("replicas: 2", "replicas: 3");
    let refused = apply(&folder.file("bad.yaml", &bad)).fails(3);
    let words = "spec.template.spec.containers[0].image: Required value";
    assert!(refused.contains(words), "{refused}");
    // A name is of one schedule.
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: a, \
               image: b}]}}";
    let refused = apply(&folder.file("pod.yaml", pod)).fails(1);
    assert!(refused.contains("made from a Deployment"), "{refused}");
    // Nothing is put into another tenant than was said.
    let elsewhere = pod.replace("{name: web}", "{name: web, namespace: acme}");
    let elsewhere = folder.file("elsewhere.yaml", &elsewhere);
    for verb in ["apply", "delete"] {
        let said = ["schedule", verb, "--tenant", "system", "-f", &elsewhere];
        let refused = node.aurae(&said).fails(3);
        assert!(refused.contains("metadata.namespace"), "{refused}");
    }
    let deleted = node.aurae(&["schedule", "delete", "-f", &file]).ok();
    assert_eq!(deleted.matches(" deleted\n").count(), 3, "{deleted}");
    let crontab = folder.file("ann", "MAILTO=ann\n@daily echo 100\\% done\n");
    let applied = node
        .aurae(&["schedule", "apply", "--crontab", "-f", &crontab])
        .ok();
    assert!(applied.starts_with("crontab/ann-"), "{applied}");
}

const CONFIGS: &str = r#"
const texts = values({ password: "first-secret", motd: "hello" });
if (args[0] !== "none") {
  await schedule.PutConfig({ kind: "secret", name: "db", data: { password: texts.password } });
  await schedule.PutConfig({ name: "motd", data: { text: texts.motd }, immutable: false });
}
"#;

#[test]
fn secrets_are_declared_compared_and_pruned_and_never_shown() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let file = folder.file("main.ts", CONFIGS);
    let values = folder.file("prod.json", r#"{ "password": "second-secret" }"#);
    let silent = |told: &str| {
        for hidden in ["first-secret", "second-secret", "hello"] {
            assert!(!told.contains(hidden), "{told}");
        }
    };
    let names = || node.aurae(&["schedule", "configs", "-o", "name"]).ok();
    let planned = node.aurae(&["plan", &file]).ok();
    for part in [
        "+ create config secret db",
        "+ create config config_map motd",
        "data.password: set, not shown",
    ] {
        assert!(planned.contains(part), "no {part} in:\n{planned}");
    }
    silent(&planned);
    assert_eq!(names(), "");
    silent(&node.aurae(&["apply", &file]).ok());
    let same = node.aurae(&["apply", &file]).ok();
    assert_eq!(same, "nothing changed: 2 as declared\n");
    // Another text differs, and is told in no form.
    for form in ["text", "json"] {
        let differs = node.aurae(&["plan", "-o", form, "--values", &values, &file]);
        assert_eq!(differs.status, Some(0), "{differs:?}");
        assert!(differs.out.contains("data.password"), "{differs:?}");
        assert!(!differs.out.contains("data.text"), "{differs:?}");
        silent(&format!("{}{}", differs.out, differs.err));
    }
    let drift = [
        "plan",
        "--refresh-only",
        "--exit-code",
        "--values",
        &values,
        &file,
    ];
    node.aurae(&drift).fails(2);
    let changed = node.aurae(&["apply", "--values", &values, &file]).ok();
    assert!(changed.contains("~ update config secret db"), "{changed}");
    assert!(changed.contains("1 × update, 1 unchanged"), "{changed}");
    assert_eq!(node.aurae(&drift).ok(), "no drift: 2 as applied\n");
    // Nobody is told it, and the program isn't either.
    let get = "print(await schedule.GetConfig({ kind: 'secret', name: 'db' }))";
    let shown = node.aurae(&["-e", get]).ok();
    assert!(shown.contains("(hidden)"), "{shown}");
    silent(&shown);
    // One that was put by hand is another's, be it the same.
    let other = folder.file(
        "other.ts",
        r#"await schedule.PutConfig({ kind: "secret", name: "hand", data: { k: args[0] } });"#,
    );
    let by_hand = "await schedule.PutConfig({ kind: 'secret', name: 'hand', data: { k: 'v' } })";
    node.aurae(&["-e", by_hand]).ok();
    for text in ["v", "w"] {
        let refused = node.aurae(&["plan", &other, text]).fails(1);
        assert!(refused.contains("CONFLICT"), "{refused}");
    }
    let taken = node.aurae(&["apply", "--adopt", &other, "v"]).ok();
    assert!(taken.contains("^ take over config secret hand"), "{taken}");
    node.aurae(&["set", "rm", "--yes", "other"]).ok();
    let pruned = node.aurae(&["apply", &file, "none"]).ok();
    assert!(pruned.contains("- remove config secret db"), "{pruned}");
    assert_eq!(names(), "");
}

#[test]
fn a_config_that_cannot_be_changed_is_replaced() {
    let Some(node) = node() else { return };
    let folder = Folder::new();
    let program = "await schedule.PutConfig({ name: 'motd', data: { text: args[0] }, \
                   immutable: args[1] === 'fixed' });";
    let file = folder.file("fixed.ts", program);
    node.aurae(&["apply", &file, "one", "fixed"]).ok();
    let planned = node.aurae(&["plan", &file, "two", "fixed"]).ok();
    assert!(
        planned.contains("replace config config_map motd"),
        "{planned}"
    );
    let replaced = node.aurae(&["apply", &file, "two", "fixed"]).ok();
    assert!(
        replaced.contains("replace config config_map motd"),
        "{replaced}"
    );
    // One that was not declared so any more can be changed from then on.
    let free = node.aurae(&["apply", &file, "two", "free"]).ok();
    assert!(free.contains("replace config config_map motd"), "{free}");
    let changed = node.aurae(&["apply", &file, "three", "free"]).ok();
    assert!(
        changed.contains("update config config_map motd"),
        "{changed}"
    );
    let get = "print((await schedule.GetConfig({ name: 'motd' })).data.text)";
    assert_eq!(node.aurae(&["-e", get]).ok(), "three\n");
}
