// SPDX-License-Identifier: Apache-2.0
//! Manifests with more than pods, as schedules and configs.

use super::*;

fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": {
            "containers": [{
                "name": "web",
                "image": "nginx:1.27",
                "env": [{
                    "name": "PASSWORD",
                    "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } },
                }],
            }],
        },
    })
}

fn all(documents: Vec<Value>) -> String {
    let text = program(documents, &origin()).unwrap();
    assert_right(&text);
    // Comments as one line.
    text.replace("\n//   ", " ")
}

#[test]
fn a_deployment_is_a_schedule_with_replicas_and_its_configs_come_first() {
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web" } },
            "template": template(),
        },
    });
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "db" },
        "stringData": { "password": "hidden" },
    });
    let text = all(vec![deployment, secret]);
    assert_has(
        &text,
        &[
            "stand here in the clear",
            "await schedule.PutConfig({",
            "kind: \"secret\"",
            "data: { password: \"hidden\" }",
            "await schedule.Declare({",
            "tenant: \"shop\"",
            "name: \"web\"",
            "labels: { app: \"web\" }",
            "image: \"nginx:1.27\"",
            "given: [",
            "config: \"db\"",
            "replicas: {",
            "count: 3",
            "kind: \"Deployment\"",
        ],
    );
    assert!(text.find("PutConfig").unwrap() < text.find("Declare").unwrap());
}

#[test]
fn jobs_daemon_sets_and_config_maps_are_taken_too() {
    let mut job = template();
    job["spec"]["restartPolicy"] = json!("Never");
    let job = json!({ "template": job, "completions": 2, "backoffLimit": 1 });
    let documents = vec![
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "page" },
                "data": { "index.html": "hello" } }),
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" },
                "spec": job.clone() }),
        json!({ "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "nightly" },
                "spec": { "schedule": "30 4 * * *", "timeZone": "Europe/Berlin",
                          "concurrencyPolicy": "Forbid", "jobTemplate": { "spec": job } } }),
        json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "each" },
                "spec": { "selector": { "matchLabels": { "app": "web" } },
                          "template": template() } }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "alone" },
                "spec": template()["spec"] }),
    ];
    let text = all(documents);
    assert_has(
        &text,
        &[
            "kind: \"config_map\"",
            "\"index.html\": \"hello\"",
            "completions: 2",
            "pattern: \"30 4 * * *\"",
            "zone: \"Europe/Berlin\"",
            "kind: \"CronJob\"",
            "kind: \"DaemonSet\"",
            "kind: \"Pod\"",
        ],
    );
    assert_eq!(text.matches("await schedule.Declare").count(), 4, "{text}");
}

#[test]
fn what_a_node_would_refuse_is_left_out_with_its_fields() {
    let broken = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
                         "metadata": { "name": "web" },
                         "spec": { "selector": { "matchLabels": { "app": "web" } },
                                   "template": { "spec": { "containers": [{ "name": "a" }] } } } });
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "front" } });
    let text = all(vec![broken, service]);
    assert_has(
        &text,
        &["// Deployment web is left out:", "image: Required value"],
    );
    assert_has(&text, &["// Service front is left out:"]);
    assert!(!text.contains("await"), "{text}");
}
