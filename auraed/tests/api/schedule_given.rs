// SPDX-License-Identifier: Apache-2.0
//! Several configs in one volume of a pod that a schedule keeps, on a real node: as Kubernetes'
//! `projected` volumes, from a manifest. They follow together, and none takes another's file.

use std::time::{Duration, Instant};

use api::convert::schedule::{read_manifests, to_put, to_spec};
use api::schedule::v0 as wire;
use api::status::{Failure, Reason, from_status};
use api::tenant::v0::Quotas;
use prost::Message;
use serde_json::{Value, json};
use wire::reason::Cause;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{EXITED, SOON, exec};
use crate::schedule::{declare, get, schedules, shell, until, until_why, with};

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

/// As long as one of Kubernetes' may be.
const LONGEST: usize = 1 << 20;

async fn put(person: &Person, name: &str, length: usize) -> Result<(), Failure> {
    let long = config("ConfigMap", name, json!({"a": "x".repeat(length)}));
    let read = read_manifests(vec![long]).unwrap();
    let put = to_put(String::new(), read.configs.first().unwrap());
    let answer = schedules(person).put_config(put).await;
    answer.map(drop).map_err(|status| from_status(&status))
}

#[tokio::test]
async fn a_config_may_be_a_megabyte_and_counts_in_its_tenants_quota() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let quotas = Quotas {
        spec_bytes: Some("2500Ki".to_owned()),
        ..Quotas::default()
    };
    crate::quotas::set(&administrator, quotas).await;
    put(&ann, "one", LONGEST - 1).await.unwrap();
    put(&ann, "two", LONGEST - 1).await.unwrap();
    let why = put(&ann, "three", LONGEST / 2).await.unwrap_err();
    assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
    assert_eq!(why.field.as_deref(), Some("data"));
    node.kill_daemon();
    let [ann, eve] = [ann, eve].map(|it| (it.target.clone(), it.serial.clone()));
    let (ann, eve) = (
        Person::new(ann.0, ann.1).await,
        Person::new(eve.0, eve.1).await,
    );
    put(&ann, "three", LONGEST / 2).await.unwrap_err();
    put(&eve, "one", LONGEST - 1).await.unwrap();
    // What takes the place of another counts in its place.
    put(&ann, "one", 10).await.unwrap();
    put(&ann, "three", LONGEST / 2).await.unwrap();
    put(&ann, "one", LONGEST - 1).await.unwrap_err();
    let removed = wire::RemoveConfigRequest {
        kind: wire::ConfigKind::ConfigMap.into(),
        name: "two".to_owned(),
        ..Default::default()
    };
    schedules(&ann).remove_config(removed).await.unwrap();
    put(&ann, "one", LONGEST - 1).await.unwrap();
    let why = put(&ann, "four", LONGEST + 1).await.unwrap_err();
    assert_eq!(why.reason, Some(Reason::InvalidField), "{why:?}");
}

/// One that waits for a time that is far, with so many bytes of words.
fn waits(name: &str, length: usize) -> wire::DeclareRequest {
    let words = format!(": {}", "x".repeat(length));
    with(shell(name, &words), |spec| {
        let far = wire::when::When::Cron(wire::Cron {
            pattern: "0 0 1 1 *".to_owned(),
            ..Default::default()
        });
        spec.when = Some(wire::When { when: Some(far) });
    })
}

#[tokio::test]
async fn a_schedule_counts_by_its_length_and_another_in_its_place() {
    const LONG: usize = 80_000;
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let quotas = Quotas {
        spec_bytes: Some("128Ki".to_owned()),
        ..Quotas::default()
    };
    crate::quotas::set(&administrator, quotas).await;
    let refused = async |person: &Person, request| {
        let status = declare(person, request).await.unwrap_err();
        let why = from_status(&status);
        assert_eq!(why.reason, Some(Reason::LimitExceeded), "{why:?}");
        assert_eq!(why.field.as_deref(), Some("spec"));
    };
    declare(&ann, waits("one", LONG)).await.unwrap();
    refused(&ann, waits("two", LONG)).await;
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    refused(&ann, waits("two", LONG)).await;
    // Another declaration counts in place of the one before, a longer one before it is kept.
    declare(&ann, waits("one", 10)).await.unwrap();
    declare(&ann, waits("two", LONG)).await.unwrap();
    refused(&ann, waits("one", LONG)).await;
    let kept = get(&ann, "one").await;
    assert!(kept.encoded_len() < LONG, "the shorter one is still wished");
    crate::schedule::remove(&ann, "two").await.unwrap();
    declare(&ann, waits("one", LONG)).await.unwrap();
}
