// SPDX-License-Identifier: Apache-2.0
//! Stories of calls as clients make them: what is refused and in which words, attaching, retries,
//! watching.

use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use tonic::{Code, Status};

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{program as run, shared_cell, spec};
use crate::table::Whom::Owner;
use crate::table::at;

fn failure(status: Status) -> Failure {
    from_status(&status)
}

/// A node, and a member of a tenant with a cell `web`.
async fn node_with_cell() -> Option<(TestNode, Person)> {
    let node = TestNode::start()?;
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let made = administrator
        .node
        .runtime()
        .run_cell(shared_cell("web"))
        .await;
    made.unwrap();
    Some((node, ann))
}

#[tokio::test]
async fn what_cant_be_is_refused_by_field_and_the_node_goes_on() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = ann.node.runtime();
    let megabyte = "x".repeat(1 << 20);
    let status = client
        .run_executable(run("web/a", &["echo", &megabyte]))
        .await
        .unwrap_err();
    let refused = failure(status);
    assert_eq!(refused.reason, Some(Reason::InvalidField));
    assert_eq!(refused.field.as_deref(), Some("executable.spec.argv[1]"));
    assert!(refused.message.contains("131071"), "{refused:?}");

    let mut million = run("web/a", &["env"]);
    spec(&mut million).env = (0..1_000_000)
        .map(|i| (format!("V{i}"), String::new()))
        .collect();
    let refused = failure(client.run_executable(million).await.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::LimitExceeded), "{refused:?}");

    let mut nul = run("web/a", &["echo", "a\0b"]);
    spec(&mut nul).nice = Some(i32::MIN);
    let refused = failure(client.run_executable(nul).await.unwrap_err());
    assert_eq!(refused.field.as_deref(), Some("executable.spec.argv[1]"));

    let refused = failure(
        client
            .run_executable(run("web/\u{1b}[2J", &["a"]))
            .await
            .unwrap_err(),
    );
    assert_eq!(refused.field.as_deref(), Some("executable.ref.path"));
    assert!(!refused.message.chars().any(char::is_control));

    let done = client.run_executable(run("web/a", &["/bin/true"])).await;
    assert!(done.is_ok(), "the node goes on: {done:?}");
    node.stop();
}

#[tokio::test]
async fn a_program_that_isnt_there_is_the_answer_and_leaves_nothing() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = ann.node.runtime();
    let missing = client
        .run_executable(run("web/a", &["/no/such/program"]))
        .await;
    let refused = failure(missing.unwrap_err());
    assert_eq!(refused.code, Code::NotFound);
    assert_eq!(refused.reason, Some(Reason::ProgramNotFound));
    assert_eq!(refused.errno.as_deref(), Some("ENOENT"), "{refused:?}");
    let not_executable = client
        .run_executable(run("web/a", &["/etc/hostname"]))
        .await;
    let refused = failure(not_executable.unwrap_err());
    assert_eq!(
        refused.reason,
        Some(Reason::ProgramNotExecutable),
        "{refused:?}"
    );
    let get = wire::GetRequest {
        r#ref: at(Owner, "web/a"),
    };
    assert_eq!(client.get(get).await.unwrap_err().code(), Code::NotFound);
    node.stop();
}

#[tokio::test]
async fn an_exit_status_is_the_answer_of_a_run_that_waits_and_of_its_retry() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = ann.node.runtime();
    let mut request = run("web/job", &["/bin/sh", "-c", "exit 7"]);
    request.wait_for = wire::WaitFor::Exited.into();
    request.request_id = "nightly-1".into();
    let first = client
        .run_executable(request.clone())
        .await
        .unwrap()
        .into_inner();
    let how = first.exit.as_ref().and_then(|exit| exit.how);
    assert_eq!(how, Some(wire::exit::How::Code(7)));
    let again = client
        .run_executable(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(again.meta.unwrap().r#ref, first.meta.unwrap().r#ref);
    spec(&mut request).argv.push("other".into());
    let refused = failure(client.run_executable(request).await.unwrap_err());
    assert_eq!(refused.code, Code::InvalidArgument);
    assert_eq!(refused.reason, Some(Reason::RequestIdReused));
    node.stop();
}

fn message(message: wire::attach_request::Message) -> wire::AttachRequest {
    wire::AttachRequest {
        message: Some(message),
    }
}

fn start(path: &str) -> wire::AttachRequest {
    let start = wire::AttachStart {
        r#ref: at(Owner, path),
        stdin: true,
        ..Default::default()
    };
    message(wire::attach_request::Message::Start(start))
}

#[tokio::test]
async fn what_is_typed_comes_back_and_the_exit_comes_last() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = ann.node.runtime();
    let mut cat = run("web/cat", &["/bin/cat"]);
    spec(&mut cat).stdin = true;
    client.run_executable(cat).await.unwrap();
    let (typed, keys) = tokio::sync::mpsc::channel(4);
    typed.send(start("web/cat")).await.unwrap();
    let keys = tokio_stream::wrappers::ReceiverStream::new(keys);
    let mut screen = client.attach(keys).await.unwrap().into_inner();

    let second = client.attach(tokio_stream::iter([start("web/cat")])).await;
    assert_eq!(
        failure(second.unwrap_err()).reason,
        Some(Reason::StdinTaken)
    );

    let hello = wire::attach_request::Message::Stdin(b"hello\n".to_vec());
    typed.send(message(hello)).await.unwrap();
    let shown = screen.message().await.unwrap().unwrap();
    let Some(wire::attach_response::Message::Output(output)) = shown.message else {
        panic!("{shown:?}");
    };
    assert_eq!(output.data, b"hello\n");
    assert_eq!(output.offset, 0);

    let eof = wire::attach_request::Message::Eof(wire::AttachEof {});
    typed.send(message(eof)).await.unwrap();
    let last = screen.message().await.unwrap().unwrap();
    let Some(wire::attach_response::Message::Exit(exit)) = last.message else {
        panic!("{last:?}");
    };
    assert_eq!(exit.how, Some(wire::exit::How::Code(0)));
    assert!(
        screen.message().await.unwrap().is_none(),
        "nothing follows the exit"
    );
    node.stop();
}

#[tokio::test]
async fn a_watcher_sees_what_there_is_and_then_every_change() {
    use wire::watch_event::Type::{Added, Changed, SnapshotEnd};
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = ann.node.runtime();
    let watch = wire::WatchRequest {
        kinds: vec![2],
        ..Default::default()
    };
    let mut events = client.watch(watch).await.unwrap().into_inner();
    assert_eq!(
        events.message().await.unwrap().unwrap().r#type(),
        SnapshotEnd
    );
    let mut request = run("web/job", &["/bin/true"]);
    request.wait_for = wire::WaitFor::Exited.into();
    client.run_executable(request).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let event = events.message().await.unwrap().unwrap();
        seen.push(event.r#type());
        let Some(wire::object::Object::Executable(status)) = event.object.and_then(|o| o.object)
        else {
            panic!("an executable was asked for");
        };
        if status.state() == wire::State::Exited {
            assert!(status.exit.is_some());
            break;
        }
    }
    assert_eq!(seen.first(), Some(&Added));
    assert!(seen.iter().skip(1).all(|kind| *kind == Changed), "{seen:?}");
    node.stop();
}

#[tokio::test]
async fn labels_of_a_running_executable_change_without_another_run() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = ann.node.runtime();
    let status = client.run_executable(run("web/a", &["/bin/sleep", "1000"]));
    let status = status.await.unwrap().into_inner();
    let update = |expected_generation| wire::UpdateExecutableRequest {
        r#ref: at(Owner, "web/a"),
        labels: [("tier".to_owned(), "front".to_owned())].into(),
        expected_generation,
    };
    let changed = client.update_executable(update(1)).await.unwrap();
    let changed = changed.into_inner();
    assert_eq!(changed.pid, status.pid);
    let meta = changed.meta.unwrap();
    assert_eq!(meta.generation, 2);
    assert_eq!(meta.labels.get("tier").map(String::as_str), Some("front"));
    let refused = failure(client.update_executable(update(1)).await.unwrap_err());
    assert_eq!(
        (refused.code, refused.reason),
        (Code::Aborted, Some(Reason::Conflict))
    );
    let cell = wire::UpdateExecutableRequest {
        r#ref: at(Owner, "web"),
        ..update(0)
    };
    let refused = failure(client.update_executable(cell).await.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::NotFound));
    node.stop();
}

#[tokio::test]
async fn a_set_is_kept_for_its_tenant_and_over_a_revision_that_was_read() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = api::sets::v0::sets_client::SetsClient::new(ann.node.channel());
    let put = |name: &str, expected_revision| api::sets::v0::PutRequest {
        set: Some(api::sets::v0::Set {
            name: name.to_owned(),
            program: "shop/main.ts".to_owned(),
            nodes: vec!["one".to_owned()],
            ..Default::default()
        }),
        expected_revision,
    };
    let first = client.put(put("shop", 0)).await.unwrap().into_inner();
    assert_eq!((first.revision, first.tenant.as_str()), (1, "acme"));
    assert!(first.changed_by.ends_with("/user/ann"), "{first:?}");
    let late = failure(client.put(put("shop", 0)).await.unwrap_err());
    assert_eq!(late.reason, Some(Reason::Conflict));
    let wrong = failure(client.put(put("a/b", 0)).await.unwrap_err());
    assert_eq!(wrong.field.as_deref(), Some("set.name"));
    let request = api::sets::v0::ListRequest::default();
    let all = client.list(request).await.unwrap().into_inner();
    assert_eq!(all.sets, [first]);
    node.stop();
}

#[tokio::test]
async fn labels_of_a_running_cell_change_and_an_old_generation_is_refused() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut client = ann.node.runtime();
    let update = |expected_generation| wire::UpdateCellRequest {
        r#ref: at(Owner, "web"),
        labels: [("tier".to_owned(), "front".to_owned())].into(),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["labels".into()],
        }),
        expected_generation,
        ..Default::default()
    };
    let changed = client.update_cell(update(1)).await.unwrap().into_inner();
    let meta = changed.meta.unwrap();
    assert_eq!(meta.generation, 2);
    assert_eq!(meta.labels.get("tier").map(String::as_str), Some("front"));
    let refused = failure(client.update_cell(update(1)).await.unwrap_err());
    assert_eq!(
        (refused.code, refused.reason),
        (Code::Aborted, Some(Reason::Conflict))
    );
    let mut fixed = update(0);
    fixed.update_mask = Some(prost_types::FieldMask {
        paths: vec!["spec.share".into()],
    });
    let refused = failure(client.update_cell(fixed).await.unwrap_err());
    assert_eq!(refused.field.as_deref(), Some("update_mask.paths[0]"));
    node.stop();
}

#[tokio::test]
async fn a_log_is_read_to_its_end() {
    use api::observe::v0::{LogsRequest, logs_response::Message};
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let mut job = run("web/job", &["/bin/sh", "-c", "echo out; echo err >&2"]);
    job.wait_for = wire::WaitFor::Exited.into();
    ann.node.runtime().run_executable(job).await.unwrap();
    let refs = vec![at(Owner, "web/job").unwrap()];
    let request = LogsRequest {
        refs,
        follow: true,
        ..Default::default()
    };
    let mut items = ann.node.observe().logs(request).await.unwrap().into_inner();
    let (mut data, mut ended) = (Vec::new(), false);
    while let Some(item) = items.message().await.unwrap() {
        match item.message {
            Some(Message::Data(piece)) => data.push((piece.stream(), piece.data)),
            Some(Message::End(_)) => ended = true,
            other => panic!("{other:?}"),
        }
    }
    data.sort_by_key(|(stream, _)| i32::from(*stream));
    let expected = [
        (wire::Stream::Stdout, b"out\n".to_vec()),
        (wire::Stream::Stderr, b"err\n".to_vec()),
    ];
    assert_eq!(data, expected);
    assert!(ended);
    node.stop();
}

#[tokio::test]
async fn a_reload_changes_what_it_says_it_changes() {
    let Some((node, ann)) = node_with_cell().await else {
        return;
    };
    let administrator = node.administrator().await;
    let mut client = ann.node.runtime();
    let sleep = |path| run(path, &["sleep", "100"]);
    client.run_executable(sleep("web/a")).await.unwrap();

    node.configure("[limits]\nexecutables = 2\nmessage = \"8MiB\"\n");
    let reload = api::node::v0::ReloadRequest {};
    let answer = administrator.node.node().reload(reload).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.changed, ["limits.executables"]);
    assert_eq!(answer.needs_restart, ["limits.message"]);
    let refused = failure(client.run_executable(sleep("web/b")).await.unwrap_err());
    assert_eq!(refused.reason, Some(Reason::LimitExceeded), "{refused:?}");

    node.configure("[limits]\nconnections = 4\n");
    administrator.node.node().reload(reload).await.unwrap();
    client.run_executable(sleep("web/b")).await.unwrap();
    assert!(client::Node::connect(&ann.target).await.is_err());
    node.configure("");
    administrator.node.node().reload(reload).await.unwrap();
    client::Node::connect(&ann.target).await.unwrap();
    node.stop();
}
