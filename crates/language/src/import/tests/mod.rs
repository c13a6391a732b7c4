// SPDX-License-Identifier: Apache-2.0
//! Compose files as they are written, and manifests: what becomes of each field, and that every
//! program is right and in the one style. Files here are JSON, which YAML is made into.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::*;
use crate::check::{Environment, File, check};
use crate::declare::aurae_d_ts;
use crate::source::Source;

mod crontabs;
mod files;
mod manifests;
mod units;

static TYPES: LazyLock<Arc<Environment>> =
    LazyLock::new(|| Arc::new(Environment::new(aurae_d_ts().unwrap())));

fn origin() -> Origin {
    Origin {
        name: "compose.yaml".to_owned(),
        folder: PathBuf::from("/srv/shop"),
        zone: None,
    }
}

/// The program, which has no finding and is as the formatter would have it.
fn imported(document: Value) -> String {
    let text = program(vec![document], &origin()).unwrap();
    assert_right(&text);
    text
}

/// It has no finding, and is as the formatter would have it.
fn assert_right(text: &str) {
    let source = Source::new("app.ts", text.to_owned());
    let file = File {
        source: source.clone(),
        imports: HashMap::new(),
    };
    let found = check(&TYPES, &[file]);
    let wrong: Vec<_> = found.iter().map(|one| (&one.code, &one.message)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{text}");
    assert_eq!(format(&source).unwrap(), text);
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part} in:\n{text}");
    }
}

#[test]
fn what_others_wait_for_begins_before_them() {
    let text = imported(files::shop());
    let db = text.find("const db: pod.Container").unwrap();
    let migrate = text.find("const migrate: pod.Container").unwrap();
    let web = text.find("const web: pod.Container").unwrap();
    assert!(db < migrate && migrate < web, "{text}");
    assert_has(
        &text,
        &[
            "name: \"shop\"",
            "initContainers: [db, migrate]",
            "containers: [web",
            "hostAliases: [{ ip: \"127.0.0.1\", names: [",
            "restartPolicy: \"always\"",
            "stopGrace: \"1m30s\"",
            "const settings = values({",
            "TAG: \"1.25\"",
            "image: `registry.example/shop/web:${settings.TAG}`",
            "...(args.includes(\"debug\") ? [admin] : [])",
            "await runtime.Run(app);",
        ],
    );
    // Waited for until it is healthy, and it goes on; the other one ends.
    let (db, rest) = text[db..].split_once("const migrate").unwrap();
    let (migrate, _) = rest.split_once("const web").unwrap();
    let probe = "exec: { argv: [\"/bin/sh\", \"-c\", \"pg_isready -U shop\"] }";
    assert_has(db, &["startup: {", "readiness: {", probe, "sidecar: true"]);
    assert_has(
        db,
        &["failureThreshold: 5", "period: \"10s\"", "timeout: \"5s\""],
    );
    assert!(!migrate.contains("sidecar"), "{migrate}");
    assert_has(
        migrate,
        &["args: [\"rake\", \"db:migrate\", \"--with spaces\"]"],
    );
}

#[test]
fn each_field_of_a_service_has_its_place() {
    let text = imported(files::shop());
    assert_has(
        &text,
        &[
            "user: \"1000\"",
            "group: \"1000\"",
            "cwd: \"/app\"",
            "addCapabilities: [\"NET_BIND_SERVICE\"]",
            "dropCapabilities: [\"ALL\"]",
            "noNewPrivileges: true",
            "{ path: \"/dev/fuse\" }",
            "{ path: \"/dev/kvm\", target: \"/dev/own\", access: \"rw\" }",
            "path: \"vendor.com/gpu=0\"",
            "path: \"/dev/net/tun\", access: \"rw\"",
            "readOnly: true",
            "cpuLimitMillis: 500",
            "memoryLimitBytes: 536870912",
            "memoryRequestBytes: 134217728",
            "stopSignal: \"SIGQUIT\"",
            "pull: \"always\"",
            "env: variables([await file.readText(\"web.env\")], {",
            "function variables(",
            "{ volume: \"data\", path: \"/var/lib/postgresql/data\" }",
            "{ name: \"data\", empty: {} }",
            "path: \"/srv/shop/html\"",
            "path: \"/run/secrets/db_password\"",
            "files: { db_password: await file.readText(\"./secrets/db.txt\") }",
            "subPath: \"db_password\"",
            "network: {",
            "{ hostPort: 8080, port: 80 },",
            "...(args.includes(\"debug\") ? \
             [{ hostPort: 9090, port: 8080, address: \"127.0.0.1\" }] : []),",
        ],
    );
    // A node would replace it, and Compose doesn't.
    assert_has(&text, &["value: \"price $$(raw) $5\""]);
}

#[test]
fn a_privileged_service_says_all_that_it_is_given() {
    let text = imported(
        serde_json::json!({"services": {"agent": {"image": "agent:1",
        "privileged": true, "cap_drop": ["ALL"], "security_opt": ["seccomp:unconfined"]}}}),
    );
    assert_has(
        &text,
        &[
            "addCapabilities: [\"ALL\"]",
            "unconfined: true",
            "unmasked: true",
            "allDevices: true",
        ],
    );
    assert!(!text.contains("dropCapabilities"), "{text}");
    assert_eq!(text.matches("unconfined").count(), 1, "{text}");
}

#[test]
fn folders_of_the_node_bring_what_is_mounted_below_as_docker_does() {
    let text = imported(json!({ "services": { "a": { "image": "a", "volumes": [
        "/srv/plain:/plain:ro", "/srv/alone:/alone:ro,private",
        { "type": "bind", "source": "/media", "target": "/media", "read_only": true,
          "bind": { "propagation": "rshared", "create_host_path": true, "selinux": "z" } },
    ] } } }));
    assert_eq!(
        text.matches("propagation: \"rprivate\"").count(),
        1,
        "{text}"
    );
    assert_eq!(text.matches("propagation: \"rslave\"").count(), 1, "{text}");
    assert_has(
        &text,
        &["rshared is taken as rslave", "volumes.bind.selinux"],
    );
}

#[test]
fn what_a_pod_cant_have_is_a_comment_with_the_reason() {
    let text = imported(files::shop());
    let comments: Vec<_> = text.lines().filter(|line| line.starts_with("//")).collect();
    let comments = comments.join(" ").replace(" //   ", " ");
    assert_has(
        &comments,
        &[
            "networks: front and back separate nothing: a pod has one network",
            "volumes: data is there as long as the pod, and goes with it",
            "volumes: ./html can't be written: a pod reads folders of the node",
            "logging: the node keeps what a container prints: `aurae logs`",
            "deploy.replicas 3: there is one of each service in a pod",
            "surprise: a pod has no such thing",
            "DB_PASSWORD: has no value here",
        ],
    );
}

#[test]
fn files_of_every_size_become_right_programs() {
    for (name, file) in files::all() {
        let text = imported(file);
        assert!(text.contains("await runtime.Run(app);"), "{name}:\n{text}");
    }
}

#[test]
fn services_that_wait_for_each_other_begin_all_the_same() {
    let text = imported(json!({ "services": {
        "a": { "image": "a", "depends_on": ["b"] },
        "b": { "image": "b", "depends_on": ["a"] },
        "c": { "image": "c" },
    } }));
    assert_has(
        &text,
        &["a, b wait for each other", "initContainers: [a, b]"],
    );
    let text = imported(json!({ "services": {
        "a": { "image": "a", "depends_on": ["b"] },
        "b": { "image": "b", "depends_on": ["a"] },
    } }));
    assert_has(&text, &["initContainers: [a]", "containers: [b]"]);
}

#[test]
fn a_job_is_asked_nothing_and_each_container_has_a_name_of_its_own() {
    let ended = json!({ "job_1": { "condition": "service_completed_successfully" } });
    let text = imported(json!({ "services": {
        "job_1": { "image": "a", "healthcheck": { "test": ["CMD", "true"] } },
        "job-1": { "image": "b", "depends_on": ended },
    } }));
    let names = ["name: \"job-1\"", "name: \"job-1-2\""];
    assert_has(&text, &names);
    assert_has(&text, &["healthcheck: what runs to its end"]);
    assert!(!text.contains("readiness"), "{text}");
}

#[test]
fn names_that_a_program_has_already_are_left_to_it() {
    let text = imported(json!({ "services": {
        "runtime": { "image": "a" },
        "app": { "image": "a" },
        "my-app_1": { "image": "a" },
        "class": { "image": "a" },
        "implements": { "image": "a" },
        "9lives": { "image": "a" },
    } }));
    assert_has(
        &text,
        &[
            "const runtimeService: ",
            "const app2: ",
            "const myApp1: ",
            "const classService: ",
            "const implementsService: ",
            "const it9lives: ",
            "name: \"my-app-1\"",
        ],
    );
}

#[test]
fn a_text_of_the_file_ends_no_string_and_no_comment() {
    let text = imported(json!({ "services": {
        "web": {
            "image": "a`${print(1)}`",
            "command": ["\"; print(2); //", "${X:-`}\u{2028}"],
            "x\n*/ print(3) //": 1,
        },
    } }));
    assert!(!text.contains("\nprint("), "{text}");
    assert_eq!(text.matches("print(3)").count(), 1);
}

#[test]
fn a_hostile_text_takes_no_time_and_no_stack() {
    let nested = ["${A:-".repeat(100_000), "}".repeat(100_000)].concat();
    let open = "${".repeat(100_000);
    for image in [nested, open, "$".repeat(200_000)] {
        let document = json!({ "services": { "web": { "image": image } } });
        assert!(program(vec![document], &origin()).is_ok());
    }
    let many: serde_json::Map<_, _> = (0..2000)
        .map(|i| (format!("s{i}"), json!({ "image": "a" })))
        .collect();
    let refused = program(vec![json!({ "services": many })], &origin()).unwrap_err();
    assert!(refused.to_string().contains("more than 1,000"), "{refused}");
    let forty: serde_json::Map<_, _> = (0..40)
        .map(|i| (format!("s{i}"), json!({ "image": "a" })))
        .collect();
    let text = imported(json!({ "services": forty }));
    assert_has(&text, &["40 of them, and a pod has 32 containers"]);
}

#[test]
fn a_manifest_becomes_its_pods() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "my-web", "labels": { "app": "web" } },
        "spec": {
            "nodeSelector": { "disk": "ssd" },
            "terminationGracePeriodSeconds": 5,
            "restartPolicy": "OnFailure",
            "containers": [{
                "name": "app", "image": "nginx:1.25", "imagePullPolicy": "IfNotPresent",
                "env": [
                    { "name": "A", "value": "b" },
                    { "name": "NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                ],
                "readinessProbe": { "httpGet": { "port": 80, "path": "/ready" }, "periodSeconds": 5 },
            }],
        },
    });
    let text = imported(pod);
    assert_has(
        &text,
        &[
            "spec.nodeSelector: ",
            "const myWeb = new Pod({",
            "name: \"my-web\"",
            "labels: { app: \"web\" }",
            "restartPolicy: \"on_failure\"",
            "stopGrace: \"5s\"",
            "pull: \"if_not_present\"",
            "fact: \"pod_name\"",
            "period: \"5s\"",
            "await runtime.Run(myWeb);",
        ],
    );
}

#[test]
fn what_is_neither_is_refused() {
    let refused = |documents: Vec<Value>| program(documents, &origin()).unwrap_err();
    assert_eq!(refused(vec![json!({ "a": 1 })]), NotImported::Neither);
    assert_eq!(refused(vec![]), NotImported::Neither);
    let project = json!({ "services": {} });
    let two = vec![project.clone(), project];
    assert_eq!(refused(two), NotImported::SeveralProjects(2));
    let malformed = refused(vec![json!({ "services": { "a": [] } })]);
    assert_eq!(malformed.to_string(), "services.a must be an object");
}
