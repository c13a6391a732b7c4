// SPDX-License-Identifier: Apache-2.0
//! What of a pod is administrators' on a real node: a member asks for it in a spec, by a manifest
//! and in a container that it adds to a pod of an administrator's, and gets none of it.

use api::convert::pod::{read_manifest, to_spec};
use api::pod::v0 as wire;
use api::runtime::v0::ObjectRef;
use api::status::{Reason, from_status};
use serde_json::json;
use wire::container_status::State;
use wire::volume::Source;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{EXITED, assert_clean, container, get, how, pods, remove, run, spec, until};

/// The tenant's pod, also for who is of another one.
fn of_acme(path: &str) -> Option<ObjectRef> {
    Some(ObjectRef {
        tenant: "acme".to_owned(),
        path: path.to_owned(),
        ..Default::default()
    })
}

async fn run_in_acme(
    person: &Person,
    path: &str,
    spec: wire::PodSpec,
    wait_for: WaitFor,
) -> wire::PodStatus {
    let request = wire::RunRequest {
        pod: Some(wire::Pod {
            r#ref: of_acme(path),
            spec: Some(spec),
            ..Default::default()
        }),
        wait_for: wait_for.into(),
        ..Default::default()
    };
    pods(person).run(request).await.unwrap().into_inner()
}

async fn debug(
    person: &Person,
    path: &str,
    container: wire::Container,
) -> Result<wire::PodStatus, tonic::Status> {
    let request = wire::DebugRequest {
        r#ref: of_acme(path),
        container: Some(container),
        target: String::new(),
        ..Default::default()
    };
    let added = pods(person).debug(request).await;
    added.map(tonic::Response::into_inner)
}

fn assert_refused(refused: tonic::Status, field: &str) {
    let refused = from_status(&refused);
    assert_eq!(
        refused.reason,
        Some(Reason::PermissionDenied),
        "{refused:?}"
    );
    assert_eq!(refused.field.as_deref(), Some(field), "{refused:?}");
}

#[tokio::test]
async fn a_member_adds_no_container_with_a_volume_that_is_an_administrators() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let ann = administrator.introduce_administrator(&node, "ann").await;
    let host = wire::HostVolume {
        path: node.folder().display().to_string(),
        r#type: wire::host_volume::Type::Folder.into(),
        ..Default::default()
    };
    let disk = wire::EmptyVolume {
        medium: wire::empty_volume::Medium::Disk.into(),
        size_bytes: None,
    };
    std::fs::write(node.folder().join("file"), "of the node").unwrap();
    let mut theirs = spec(vec![container("app", "while :; do sleep 1; done")]);
    theirs.volumes = [
        ("shared", Source::Empty(wire::EmptyVolume::default())),
        ("host", Source::Host(host)),
        ("disk", Source::Empty(disk)),
    ]
    .map(|(name, source)| wire::Volume {
        name: name.to_owned(),
        source: Some(source),
    })
    .into();
    run_in_acme(&ann, "web", theirs, WaitFor::Ready).await;
    let look = |name: &str, volume: &str, script: &str| {
        let mut look = container(name, script);
        look.mounts[0].volume = volume.to_owned();
        look
    };
    for volume in ["host", "disk"] {
        let refused = debug(&mia, "web", look("look", volume, "true")).await;
        assert_refused(refused.unwrap_err(), "container.mounts[0].volume");
        // A part of it, and reading, are no less.
        let mut part = look("look", volume, "true");
        part.mounts[0].sub_path = "part".to_owned();
        part.mounts[0].read_only = true;
        let refused = debug(&mia, "web", part).await;
        assert_refused(refused.unwrap_err(), "container.mounts[0].volume");
    }
    assert!(get(&mia, "web").await.debug_containers.is_empty());
    assert!(!node.folder().join("part").exists());
    // What the tenant's own is, it may have; an administrator may have all.
    let own = look("own", "shared", "touch /mnt/a");
    debug(&mia, "web", own).await.unwrap();
    let reads = look("reads", "host", "grep -q 'of the node' /mnt/file");
    debug(&ann, "web", reads).await.unwrap();
    let writes = look("writes", "disk", "touch /mnt/a");
    debug(&ann, "web", writes).await.unwrap();
    let over = |status: &wire::PodStatus| {
        let added = &status.debug_containers;
        added.len() == 3 && added.iter().all(|it| it.state() == State::Ended)
    };
    let status = until(&mia, "web", "over", over).await;
    for added in &status.debug_containers {
        let exit = added.last_exit.as_ref().and_then(|exit| exit.how);
        assert_eq!(exit, EXITED, "{added:?}");
    }
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn labels_of_selinuxs_are_administrators_in_pods_as_well() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let ann = administrator.introduce_administrator(&node, "ann").await;
    let of_program = spec(vec![wire::Container {
        selinux_label: "u:r:web_t:s0".to_owned(),
        ..container("app", "true")
    }]);
    let of_files = wire::PodSpec {
        selinux_file_label: "u:object_r:web_file_t:s0".to_owned(),
        ..spec(vec![container("app", "true")])
    };
    let has_selinux = std::fs::read_to_string("/proc/filesystems")
        .unwrap()
        .contains("selinuxfs");
    for (spec, field) in [
        (of_program, "pod.spec.containers[0].selinux_label"),
        (of_files, "pod.spec.selinux_file_label"),
    ] {
        let refused = run(&mia, "refused", spec.clone(), WaitFor::Ended).await;
        assert_refused(refused.unwrap_err(), field);
        if has_selinux {
            continue;
        }
        let refused = run(&ann, "refused", spec, WaitFor::Ended).await;
        let refused = from_status(&refused.unwrap_err());
        assert_eq!(refused.reason, Some(Reason::Unsupported), "{refused:?}");
        assert_eq!(refused.field.as_deref(), Some(field), "{refused:?}");
    }
    let labelled = wire::Container {
        name: "look".to_owned(),
        selinux_label: "u:r:web_t:s0".to_owned(),
        ..container("app", "true")
    };
    let lasting = spec(vec![container("app", "while :; do sleep 1; done")]);
    run(&mia, "web", lasting, WaitFor::Ready).await.unwrap();
    let refused = debug(&mia, "web", labelled).await;
    assert_refused(refused.unwrap_err(), "container.selinux_label");
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn a_program_without_a_filter_is_administrators_in_pods_as_well() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let ann = administrator.introduce_administrator(&node, "ann").await;
    let open = wire::Container {
        unconfined: true,
        ..container("app", "true")
    };
    let of_app = spec(vec![open.clone()]);
    let of_init = wire::PodSpec {
        init_containers: vec![open.clone()],
        ..spec(vec![container("main", "true")])
    };
    let manifest = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" },
        "spec": {
            "securityContext": { "seccompProfile": { "type": "Unconfined" } },
            "containers": [{ "name": "app", "command": ["/bin/busybox", "true"] }],
        },
    });
    let read = read_manifest(vec![manifest]).unwrap();
    let of_manifest = to_spec(&read[0].draft);
    for (spec, list) in [
        (of_app.clone(), "containers"),
        (of_init, "init_containers"),
        (of_manifest, "containers"),
    ] {
        let refused = run(&mia, "refused", spec, WaitFor::Ended).await;
        let field = format!("pod.spec.{list}[0].unconfined");
        assert_refused(refused.unwrap_err(), &field);
    }
    let lasting = spec(vec![container("app", "while :; do sleep 1; done")]);
    run(&mia, "web", lasting, WaitFor::Ready).await.unwrap();
    let look = wire::Container {
        name: "look".to_owned(),
        ..open
    };
    let refused = debug(&mia, "web", look.clone()).await;
    assert_refused(refused.unwrap_err(), "container.unconfined");
    // Filtered it may be added, and an administrator adds it as it is.
    let filtered = wire::Container {
        name: "filtered".to_owned(),
        unconfined: false,
        ..look.clone()
    };
    debug(&mia, "web", filtered).await.unwrap();
    debug(&ann, "web", look).await.unwrap();
    let over = |status: &wire::PodStatus| {
        let added = &status.debug_containers;
        added.len() == 2 && added.iter().all(|it| it.state() == State::Ended)
    };
    let status = until(&mia, "web", "over", over).await;
    for added in &status.debug_containers {
        let exit = added.last_exit.as_ref().and_then(|exit| exit.how);
        assert_eq!(exit, EXITED, "{added:?}");
    }
    let status = run_in_acme(&ann, "open", of_app, WaitFor::Ended).await;
    assert_eq!(
        (status.phase(), how(&status)),
        (Phase::Succeeded, EXITED),
        "{status:#?}"
    );
    for path in ["web", "open"] {
        remove(&mia, path, true).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn a_pod_says_its_class_of_sandbox_and_gets_no_other_than_it_asks_for() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let sleeps = || spec(vec![container("app", "exec sleep 900")]);
    let of_class = |class: &str| wire::PodSpec {
        sandbox_class: class.to_owned(),
        ..sleeps()
    };
    let plain = run(&administrator, "plain", sleeps(), WaitFor::Ready).await;
    assert_eq!(plain.unwrap().sandbox_class, "cell");
    let asked = run(&administrator, "asked", of_class("cell"), WaitFor::Ready).await;
    assert_eq!(asked.unwrap().sandbox_class, "cell");
    let refused = run(&administrator, "other", of_class("microvm"), WaitFor::Ready).await;
    let refused = from_status(&refused.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::Unsupported), "{refused:?}");
    assert_eq!(refused.field.as_deref(), Some("pod.spec.sandbox_class"));
    assert!(refused.message.contains("it offers: cell"), "{refused:?}");
    let none = wire::GetRequest {
        r#ref: crate::pods::at("other"),
    };
    assert!(pods(&administrator).get(none).await.is_err());
    for pod in ["plain", "asked"] {
        remove(&administrator, pod, true).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}
