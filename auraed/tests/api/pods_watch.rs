// SPDX-License-Identifier: Apache-2.0
//! Watching pods on a real node: a snapshot, changes, a place to go on from; each tenant its own.

use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use tonic::Streaming;
use wire::WaitFor;
use wire::watch_event::Type;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{SOON, at, container, people, pods, remove, run, spec};

async fn watch(person: &Person, resume_token: &str) -> Streaming<wire::WatchEvent> {
    let request = wire::WatchRequest {
        resume_token: resume_token.to_owned(),
        ..Default::default()
    };
    pods(person).watch(request).await.unwrap().into_inner()
}

/// The next event, which comes soon.
async fn next(events: &mut Streaming<wire::WatchEvent>) -> wire::WatchEvent {
    let event = tokio::time::timeout(SOON, events.message()).await;
    event.expect("an event").unwrap().unwrap()
}

/// The next events up to one that is as wanted.
async fn until(
    events: &mut Streaming<wire::WatchEvent>,
    wanted: impl Fn(&wire::WatchEvent) -> bool,
) -> wire::WatchEvent {
    loop {
        let event = next(events).await;
        if wanted(&event) {
            return event;
        }
    }
}

fn path(event: &wire::WatchEvent) -> String {
    let meta = event.pod.as_ref().and_then(|pod| pod.meta.as_ref());
    let named = meta.and_then(|meta| meta.r#ref.as_ref());
    named.map_or_else(String::new, |it| it.path.clone())
}

crate::pods::in_each_class! {
    every_change_of_a_pod_is_told_to_its_tenant_and_from_where_one_was,
    who_was_told_that_a_pod_s_cell_is_removed_is_shown_no_pod,
}

async fn every_change_of_a_pod_is_told_to_its_tenant_and_from_where_one_was(mut node: TestNode) {
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let (mut mias, mut eves) = (watch(&mia, "").await, watch(&eve, "").await);
    for events in [&mut mias, &mut eves] {
        assert_eq!(next(events).await.r#type(), Type::SnapshotEnd);
    }
    let lasting = spec(vec![container("app", "while :; do sleep 1; done")]);
    run(&mia, "web", lasting, WaitFor::Ready).await.unwrap();
    let first = next(&mut mias).await;
    assert_eq!(
        (first.r#type(), path(&first)),
        (Type::Added, "web".to_owned())
    );
    let is_ready = |event: &wire::WatchEvent| event.pod.as_ref().is_some_and(|pod| pod.ready);
    let ready = until(&mut mias, is_ready).await;
    // Who was away goes on from there.
    drop(mias);
    let failing = spec(vec![container("app", "exit 7")]);
    run(&mia, "job", failing, WaitFor::Ended).await.unwrap();
    let mut mias = watch(&mia, &ready.resume_token).await;
    let job = until(&mut mias, |event| path(event) == "job").await;
    assert_ne!(job.r#type(), Type::Removed);
    let events = |event: &wire::WatchEvent| {
        let told = event.pod.iter().flat_map(|pod| &pod.events);
        told.map(|it| (it.container.clone(), it.message.clone()))
            .collect::<Vec<_>>()
    };
    let failed = ("app".to_owned(), "ended with exit code 7".to_owned());
    if !events(&job).contains(&failed) {
        until(&mut mias, |event| events(event).contains(&failed)).await;
    }
    remove(&mia, "job", false).await.unwrap();
    let gone = until(&mut mias, |event| event.r#type() == Type::Removed).await;
    assert_eq!(path(&gone), "job");
    // A place of another daemon is none; a snapshot says what is there.
    node.kill_daemon();
    let mia = Person::new(mia.target.clone(), mia.serial.clone()).await;
    let mut mias = watch(&mia, &gone.resume_token).await;
    assert_eq!(next(&mut mias).await.r#type(), Type::Reset);
    let there = next(&mut mias).await;
    assert_eq!(
        (there.r#type(), path(&there)),
        (Type::Added, "web".to_owned())
    );
    until(&mut mias, |event| event.r#type() == Type::SnapshotEnd).await;
    // Nothing of it was another tenant's to know.
    let told = eves.message().await;
    assert!(!matches!(told, Ok(Some(_))), "{told:?}");
    remove(&mia, "web", true).await.unwrap();
    node.stop();
}

async fn who_was_told_that_a_pod_s_cell_is_removed_is_shown_no_pod(node: TestNode) {
    let (_, ann) = people(&node).await;
    for round in 0..5 {
        let lasting = spec(vec![container("app", "while :; do sleep 1; done")]);
        run(&ann, "web", lasting, WaitFor::Ready).await.unwrap();
        let request = runtime::RemoveRequest {
            r#ref: at("web"),
            recursive: true,
            force: true,
        };
        ann.node.runtime().remove(request).await.unwrap();
        let list = pods(&ann).list(wire::ListRequest::default()).await;
        assert_eq!(list.unwrap().into_inner().pods, [], "in round {round}");
        let mut events = watch(&ann, "").await;
        let first = next(&mut events).await;
        assert_eq!(first.r#type(), Type::SnapshotEnd, "in round {round}");
    }
    node.stop();
}
