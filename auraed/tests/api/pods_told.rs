// SPDX-License-Identifier: Apache-2.0
//! Files that tell a pod of itself, on a real node: they follow its labels and resources, whoever
//! changes them and whatever dies meanwhile, and no container changes them.

use std::collections::BTreeMap;
use std::time::Instant;

use api::convert::pod::{read_manifest, to_spec};
use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use api::status::{Reason, from_status};
use serde_json::{Value, json};
use wire::WaitFor;
use wire::volume::Source;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, SOON, assert_clean, at, container, exec, get, pods, reason, remove, run, shell, spec,
};

/// What a person writes for Kubernetes, with the node's busybox.
fn manifest() -> Value {
    let field = |path: &str, field: &str| json!({"path": path, "fieldRef": {"fieldPath": field}});
    let app = json!({"path": "in/app", "mode": 0o400,
        "fieldRef": {"fieldPath": "metadata.labels['app']"}});
    let downward = json!({"items": [
        field("name", "metadata.name"), field("namespace", "metadata.namespace"),
        field("labels", "metadata.labels"), field("notes", "metadata.annotations"), app,
        {"path": "memory", "resourceFieldRef": {"containerName": "app",
            "resource": "limits.memory", "divisor": "1Mi"}}]});
    let sources = json!([
        {"configMap": {"name": "conf", "items": [{"key": "a", "path": "in/a"}]}},
        {"secret": {"name": "keys"}}, {"downwardAPI": downward}]);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "annotations": {"note": "say \"so\""}},
        "spec": {
            "containers": [{"name": "app", "command": shell("while :; do sleep 1; done"),
                "volumeMounts": [{"name": "all", "mountPath": "/mnt"}]}],
            "volumes": [{"name": "all", "projected": {"defaultMode": 0o444, "sources": sources}}]}})
}

fn told() -> wire::PodSpec {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"},
        "data": {"a": "of-conf", "b": "left"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"key": "of-keys"}});
    let mut read = read_manifest(vec![config, secret, manifest()]).unwrap();
    wire::PodSpec {
        stop_grace: Some(crate::pods::seconds(0)),
        ..to_spec(&read.remove(0).draft)
    }
}

fn labels(tier: &str) -> BTreeMap<String, String> {
    let of = [("app", "shop"), ("tier", tier)];
    of.map(|(key, text)| (key.to_owned(), text.to_owned()))
        .into()
}

async fn update(person: &Person, tier: &str, spec: wire::PodSpec) -> Result<(), tonic::Status> {
    let request = wire::UpdateRequest {
        pod: Some(wire::Pod {
            r#ref: at("web"),
            labels: labels(tier),
            spec: Some(spec),
        }),
    };
    pods(person).update(request).await.map(drop)
}

/// Changes the labels at the pod's cell, of which the pod isn't told.
async fn relabel(person: &Person, tier: &str) {
    let request = runtime::UpdateCellRequest {
        r#ref: at("web"),
        labels: labels(tier),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["labels".to_owned()],
        }),
        ..Default::default()
    };
    person.node.runtime().update_cell(request).await.unwrap();
}

/// What the file with all labels says of a pod of that tier.
fn says(tier: &str) -> String {
    format!("[ \"$(cat /mnt/labels)\" = \"$(printf 'app=\"shop\"\\ntier=\"{tier}\"')\" ]")
}

async fn until_says(person: &Person, tier: &str) {
    let begun = Instant::now();
    while exec(person, "web/app", &says(tier)).await != EXITED {
        assert!(begun.elapsed() < SOON, "the old labels stay");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

async fn begin(person: &Person, spec: wire::PodSpec) {
    let request = wire::RunRequest {
        pod: Some(wire::Pod {
            r#ref: at("web"),
            labels: labels("front"),
            spec: Some(spec),
        }),
        wait_for: WaitFor::Ready.into(),
        ..Default::default()
    };
    pods(person).run(request).await.unwrap();
}

crate::pods::in_each_class! {
    files_tell_a_pod_of_itself_and_follow_its_labels,
    no_container_changes_what_files_tell,
}

async fn files_tell_a_pod_of_itself_and_follow_its_labels(mut node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    begin(&mia, told()).await;
    let all = "cd /mnt && [ \"$(cat name) $(cat namespace) $(cat in/app)\" = 'web acme shop' ] &&
        [ \"$(cat in/a) $(cat key)\" = 'of-conf of-keys' ] && [ \"$(cat memory)\" = 0 ] &&
        [ \"$(cat notes)\" = 'note=\"say \\\"so\\\"\"' ] && ! [ -e b ] &&
        [ \"$(stat -L -c %a in/app key name | tr '\\n' ' ')\" = '400 444 444 ' ]";
    assert_eq!(exec(&mia, "web/app", all).await, EXITED);
    assert_eq!(exec(&mia, "web/app", &says("front")).await, EXITED);
    // The spec comes back as it was sent.
    let shown = get(&mia, "web").await.spec.unwrap();
    assert_eq!(shown.volumes, told().volumes);
    // Who is answered finds them so.
    update(&mia, "back", told()).await.unwrap();
    assert_eq!(exec(&mia, "web/app", &says("back")).await, EXITED);
    assert_eq!(exec(&mia, "web/app", all).await, EXITED);
    // A change that the pod isn't told of, and one that its daemon doesn't live to see.
    relabel(&mia, "side").await;
    until_says(&mia, "side").await;
    relabel(&mia, "last").await;
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    until_says(&mia, "last").await;
    assert_eq!(exec(&mia, "web/app", all).await, EXITED);
    assert_eq!(get(&mia, "web").await.containers[0].restarts, 0);
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn no_container_changes_what_files_tell(node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let mut pod = told();
    let hostile = "cd /mnt
        for f in name in/a key ..data labels; do
            rm -rf $f; ln -sf /etc/passwd $f; mv name $f; echo evil > $f
        done 2>/dev/null
        mount -o remount,rw /mnt; mount -o remount,bind,rw /mnt; mount -t tmpfs none /mnt
        mkdir -p /tmp/w && mount --bind /mnt /tmp/w && mount -o remount,bind,rw /tmp/w
        echo evil > /tmp/w/name; chmod 777 /tmp/w/..data/name; chown 1000 /tmp/w/..data/name
        ln -s / /tmp/w/..next; mkdir /tmp/w/..folder; echo done; while :; do sleep 1; done";
    let mut evil = container("evil", hostile);
    evil.mounts = pod.containers[0].mounts.clone();
    evil.add_capabilities = vec!["ALL".to_owned()];
    pod.containers.push(evil);
    begin(&mia, pod.clone()).await;
    let begun = Instant::now();
    while !crate::pods::logs(&mia, "web/evil/main")
        .await
        .contains("done")
    {
        assert!(begun.elapsed() < SOON, "it still tries");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let whole = "cd /mnt && [ \"$(cat name in/a key)\" = webof-confof-keys ] &&
        [ \"$(stat -L -c %a:%u name)\" = 444:0 ] && ! [ -e ..next ] && ! [ -e ..folder ]";
    assert_eq!(exec(&mia, "web/app", whole).await, EXITED);
    // What is in force changes for all.
    update(&mia, "back", pod).await.unwrap();
    assert_eq!(exec(&mia, "web/app", &says("back")).await, EXITED);
    assert_eq!(exec(&mia, "web/app", whole).await, EXITED);
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

/// A file of the volume `shared` that tells a fact.
fn of_fact(path: &str, from: wire::file_fact::From) -> Option<Source> {
    Some(Source::Files(wire::FilesVolume {
        facts: vec![wire::FileFact {
            path: path.to_owned(),
            from: Some(from),
        }],
        ..Default::default()
    }))
}

#[tokio::test]
async fn files_that_would_be_elsewhere_or_tell_nothing_are_refused_by_their_field() {
    use wire::file_fact::From;
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let amount = wire::FileAmount {
        container: "none".to_owned(),
        fact: wire::Fact::CpuLimit.into(),
        divisor: None,
    };
    for (path, from, field) in [
        ("../up", From::Labels(true), "facts[0].path"),
        ("/etc/passwd", From::Labels(true), "facts[0].path"),
        ("", From::Labels(true), "facts[0].path"),
        ("..data", From::Labels(true), "facts[0].path"),
        ("a", From::Labels(false), "facts[0].labels"),
        ("a", From::Fact(wire::Fact::PodIp.into()), "facts[0].fact"),
        ("a", From::Amount(amount), "facts[0].amount.container"),
    ] {
        let mut pod = spec(vec![container("app", "true")]);
        pod.volumes[0].source = of_fact(path, from);
        let refused = run(&mia, "no", pod, WaitFor::Ended).await.unwrap_err();
        assert_eq!(reason(&refused), Some(Reason::InvalidField), "{refused}");
        let expected = format!("pod.spec.volumes[0].files.{field}");
        assert_eq!(from_status(&refused).field, Some(expected), "{refused}");
    }
    assert_clean(&node);
    node.stop();
}
