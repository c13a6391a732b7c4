// SPDX-License-Identifier: Apache-2.0
//! Several configs in one volume of a pod that a schedule keeps, on a real node: as Kubernetes'
//! `projected` volumes, from a manifest. They follow together, and none takes another's file.

use std::time::{Duration, Instant};

use api::convert::schedule::{read_manifests, to_put, to_spec};
use api::schedule::v0 as wire;
use serde_json::{Value, json};
use wire::reason::Cause;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{EXITED, SOON, exec};
use crate::schedule::{declare, get, schedules, until, until_why};

fn config(kind: &str, name: &str, data: Value) -> Value {
    let field = match kind {
        "Secret" => "stringData",
        _ => "data",
    };
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data})
}

fn pod() -> Value {
    let script = ["/bin/busybox", "sh", "-c", "while :; do sleep 1; done"];
    let sources = json!([
        {"configMap": {"name": "one"}},
        {"configMap": {"name": "none", "optional": true}},
        {"secret": {"name": "keys", "items": [{"key": "k", "path": "in/key", "mode": 0o400}]}},
        {"downwardAPI": {"items": [{"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}}]}}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "app", "image": "none", "command": script,
            "volumeMounts": [{"name": "all", "mountPath": "/run/all"}]}],
        "volumes": [{"name": "all", "projected": {"sources": sources}}]}})
}

/// The program is the node's: a manifest has to name an image.
fn of_node(spec: &mut wire::ScheduleSpec) {
    let Some(wire::work::Run::Pod(run)) = spec.work.as_mut().and_then(|it| it.run.as_mut()) else {
        panic!("no pod: {spec:?}");
    };
    let pod = run.pod.as_mut().and_then(|it| it.spec.as_mut()).unwrap();
    for container in &mut pod.containers {
        container.image.clear();
    }
}

/// Applies documents as `aurae schedule apply` does.
async fn apply(person: &Person, documents: Vec<Value>) {
    let read = read_manifests(documents).unwrap();
    for config in &read.configs {
        let put = to_put(String::new(), config);
        schedules(person).put_config(put).await.unwrap();
    }
    for schedule in &read.schedules {
        let name = schedule.name.to_string();
        let mut spec = to_spec(&name, &schedule.spec);
        of_node(&mut spec);
        let request = wire::DeclareRequest {
            tenant: String::new(),
            name,
            spec: Some(spec),
        };
        declare(person, request).await.unwrap();
    }
}

async fn until_holds(person: &Person, script: &str) {
    let begun = Instant::now();
    while exec(person, "web-1/app", script).await != EXITED {
        assert!(begun.elapsed() < SOON, "not yet: {script}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn configs_in_one_volume_follow_together_and_none_takes_anothers_file() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let one = |text: &str| config("ConfigMap", "one", json!({"a": text}));
    apply(&ann, vec![pod(), one("1")]).await;
    let waits = until_why(&ann, "web", Cause::Dependency).await;
    assert!(waits.why.unwrap().message.contains("keys"));
    apply(&ann, vec![config("Secret", "keys", json!({"k": "hush"}))]).await;
    until(&ann, "web", "ready", |it| it.ready == 1).await;
    let all = |a: &str| {
        format!(
            "cd /run/all && [ \"$(cat a in/key)\" = {a}hush ] && [ -s uid ] && \
             [ \"$(stat -L -c %a a in/key | tr '\\n' ' ')\" = '644 400 ' ]"
        )
    };
    until_holds(&ann, &all("1")).await;
    let request = api::pod::v0::GetRequest {
        r#ref: crate::pods::at("web-1"),
    };
    let shown = crate::pods::pods(&ann).get(request).await.unwrap();
    assert!(!format!("{shown:?}").contains("hush"), "{shown:?}");
    apply(&ann, vec![one("2")]).await;
    node.kill_daemon();
    let ann = node.administrator().await;
    until_holds(&ann, &all("2")).await;
    // A key that would be another's file changes nothing of what is there.
    let clash = config("ConfigMap", "one", json!({"a": "3", "uid": "evil"}));
    apply(&ann, vec![clash]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(exec(&ann, "web-1/app", &all("2")).await, EXITED);
    apply(&ann, vec![one("4")]).await;
    until_holds(&ann, &all("4")).await;
    assert_eq!(get(&ann, "web").await.number, 1, "it was not run anew");
    crate::schedule::remove(&ann, "web").await.unwrap();
    node.stop();
}
