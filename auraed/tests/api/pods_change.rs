// SPDX-License-Identifier: Apache-2.0
//! Running pods that change, on a real node: a container that is added to look at another one, and
//! resources in place.

use std::time::Instant;

use api::node::v0::GetRequest;
use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use api::status::{Reason, from_status};
use wire::container_status::State;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    IMAGE, SOON, assert_clean, at, busybox, container, get, logs, pods, remove, run, spec, until,
};

async fn debug(
    person: &Person,
    pod: &str,
    container: wire::Container,
    target: &str,
) -> Result<wire::PodStatus, tonic::Status> {
    let request = wire::DebugRequest {
        r#ref: at(pod),
        container: Some(container),
        target: target.to_owned(),
        ..Default::default()
    };
    let added = pods(person).debug(request).await;
    added.map(tonic::Response::into_inner)
}

/// Another tenant's pod is none.
async fn assert_hidden(eve: &Person, look: wire::Container) {
    let mut theirs = at("web");
    theirs.as_mut().unwrap().tenant = "acme".to_owned();
    let request = wire::DebugRequest {
        r#ref: theirs,
        container: Some(look),
        target: String::new(),
        ..Default::default()
    };
    let hidden = pods(eve).debug(request).await.unwrap_err();
    let hidden = from_status(&hidden);
    assert_eq!(hidden.reason, Some(Reason::NotFound), "{hidden:?}");
}

crate::pods::in_each_class! {
    a_container_that_is_added_sees_the_pod_and_its_target_and_changes_neither,
    what_a_container_may_take_and_labels_change_in_place_within_the_class,
}

async fn a_container_that_is_added_sees_the_pod_and_its_target_and_changes_neither(
    mut node: TestNode,
) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    crate::images::import(&mia, &busybox()).await.unwrap();
    let serves = "echo page > /mnt/page; exec /bin/busybox httpd -f -p 8080 -h /mnt";
    let app = wire::Container {
        image: IMAGE.to_owned(),
        ..container("app", serves)
    };
    run(&mia, "web", spec(vec![app]), WaitFor::Ready)
        .await
        .unwrap();
    // The pod is ready when its program runs; that listens a moment later.
    let look = "until /bin/busybox wget -qO- http://localhost:8080/page 2>/dev/null
        do /bin/busybox sleep 1; done
        cat /data/of-image; /bin/busybox ps; /bin/busybox sleep 900";
    let look = wire::Container {
        image: IMAGE.to_owned(),
        mounts: Vec::new(),
        ..container("look", look)
    };
    let status = debug(&mia, "web", look.clone(), "app").await.unwrap();
    assert_eq!(status.debug_containers[0].state(), State::Running);
    let begun = Instant::now();
    loop {
        let said = logs(&mia, "web/app/look/main").await;
        // The target's program is among the processes that it sees.
        if said.starts_with("page\n") && said.contains("httpd -f -p 8080") {
            break;
        }
        assert!(begun.elapsed() < SOON, "{said}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // The same once more is another's name.
    let again = debug(&mia, "web", look.clone(), "app").await.unwrap_err();
    let again = from_status(&again);
    assert_eq!(again.field.as_deref(), Some("container.name"), "{again:?}");
    assert_hidden(&eve, look.clone()).await;
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    let goes_on = |status: &wire::PodStatus| {
        status.ready && status.debug_containers[0].state() == State::Running
    };
    let status = until(&mia, "web", "going on", goes_on).await;
    assert_eq!(status.containers[0].restarts, 0);
    let short = wire::Container {
        name: "short".to_owned(),
        entrypoint: vec!["/bin/busybox".to_owned(), "true".to_owned()],
        ..Default::default()
    };
    debug(&mia, "web", short, "").await.unwrap();
    let over = |status: &wire::PodStatus| status.debug_containers[1].state() == State::Ended;
    let status = until(&mia, "web", "over", over).await;
    // It says nothing about the pod.
    assert_eq!(status.phase(), Phase::Running, "{status:#?}");
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

fn needs(mib: u64) -> Option<wire::Needs> {
    Some(wire::Needs {
        memory_limit_bytes: Some(mib << 20),
        ..Default::default()
    })
}

async fn what_a_container_may_take_and_labels_change_in_place_within_the_class(node: TestNode) {
    let administrator = node.administrator().await;
    let facts = administrator.node.node().get(GetRequest {}).await.unwrap();
    // Where the kernel holds no memory limits, labels change all the same.
    let limits = facts
        .into_inner()
        .controllers
        .iter()
        .any(|it| it == "memory");
    let needs = |mib| needs(mib).filter(|_| limits);
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let mut app = container("app", "while :; do sleep 1; done");
    app.resources = needs(64);
    let mut spec = spec(vec![app]);
    let status = run(&mia, "web", spec.clone(), WaitFor::Ready)
        .await
        .unwrap();
    let class = match limits {
        true => wire::Qos::Burstable,
        false => wire::Qos::BestEffort,
    };
    assert_eq!(status.qos(), class);
    let update = |spec: wire::PodSpec| wire::UpdateRequest {
        pod: Some(wire::Pod {
            r#ref: at("web"),
            labels: [("tier".to_owned(), "front".to_owned())].into(),
            spec: Some(spec),
        }),
    };
    spec.containers[0].resources = needs(32);
    let updated = pods(&mia).update(update(spec.clone())).await.unwrap();
    let meta = updated.into_inner().meta.unwrap();
    assert_eq!(meta.labels.get("tier").map(String::as_str), Some("front"));
    assert_eq!(get(&mia, "web").await.containers[0].restarts, 0);
    if limits {
        assert_eq!(memory_max(&mia, "web/app").await, 32 << 20);
    }
    spec.containers[0].resources = match limits {
        true => None,
        false => self::needs(32),
    };
    let refused = pods(&mia).update(update(spec)).await.unwrap_err();
    let refused = from_status(&refused);
    assert_eq!(
        refused.field.as_deref(),
        Some("pod.spec.containers"),
        "{refused:?}"
    );
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

/// The bound of a cell's group, in bytes.
async fn memory_max(mia: &Person, path: &str) -> u64 {
    let request = runtime::GetRequest { r#ref: at(path) };
    let cell = mia.node.runtime().get(request).await.unwrap().into_inner();
    let Some(runtime::object::Object::Cell(cell)) = cell.object else {
        panic!("{cell:?}");
    };
    let group = kernel::cgroup::find::mount_point().unwrap();
    let group = group.join(cell.cgroup.trim_start_matches('/'));
    let limit = std::fs::read_to_string(group.join("memory.max")).unwrap();
    limit.trim().parse().unwrap()
}
