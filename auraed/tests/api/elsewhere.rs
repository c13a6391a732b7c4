// SPDX-License-Identifier: Apache-2.0
//! Pods on another daemon, beyond what pods do in each class (`pods*`): whose decision counts, what
//! a member and another tenant can do, both daemons' deaths, and what is there when one is silent.

use std::time::{Duration, Instant};

use api::identity::v0 as identity;
use api::pod::v0 as wire;
use api::pod::v0::container_status::State;
use api::runtime::v0 as runtime;
use api::standing;
use api::status::{Reason, from_status};
use tokio_stream::StreamExt;
use tonic::Request;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, SOON, assert_clean, at, busybox, container, exec, get, people, pods, reason, remove,
    run, shell, spec, until, until_logged, until_within,
};

/// A pod that stays.
fn lasting() -> wire::PodSpec {
    spec(vec![container(
        "app",
        "echo begun; while :; do sleep 1; done",
    )])
}

/// Of the class of this node itself.
fn here() -> wire::PodSpec {
    wire::PodSpec {
        sandbox_class: "cell".to_owned(),
        ..lasting()
    }
}

/// The same person, to the daemon that there is now.
async fn again(person: &Person) -> Person {
    Person::new(person.target.clone(), person.serial.clone()).await
}

/// The paths of all cells and executables that a person sees on a node.
async fn paths(person: &Person, tenant: &str) -> Vec<String> {
    let request = runtime::ListRequest {
        tenant: tenant.to_owned(),
        ..Default::default()
    };
    let list = person.node.runtime().list(request).await.unwrap();
    let objects = list.into_inner().objects.into_iter();
    let meta = objects.filter_map(|object| match object.object? {
        runtime::object::Object::Cell(cell) => cell.meta,
        runtime::object::Object::Executable(executable) => executable.meta,
    });
    meta.filter_map(|meta| Some(meta.r#ref?.path)).collect()
}

/// Its daemon doesn't answer.
fn is_silent(status: &wire::PodStatus) -> bool {
    let told = |event: &wire::Event| event.message.contains("doesn't answer");
    !status.ready && status.events.iter().any(told)
}

/// Waits until a node has these pods and no other.
async fn until_pods(person: &Person, wanted: &[&str]) {
    let begun = Instant::now();
    loop {
        let list = wire::ListRequest {
            tenant: "*".to_owned(),
            ..Default::default()
        };
        let list = pods(person).list(list).await.unwrap().into_inner().pods;
        let of = |pod: wire::PodStatus| pod.meta?.r#ref.map(|it| it.path);
        let there: Vec<_> = list.into_iter().filter_map(of).collect();
        if there == wanted {
            return;
        }
        assert!(begun.elapsed() < SOON, "there are {there:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_pod_runs_there_whole_and_is_reached_here() {
    let Some(mut node) = TestNode::start_elsewhere() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let theirs = node.there().administrator().await;
    let status = run(&ann, "web", lasting(), WaitFor::Ready).await.unwrap();
    assert_eq!(status.sandbox_class, "vm");
    assert_eq!(status.meta.as_ref().unwrap().labels.len(), 0, "{status:#?}");
    // Here is its place alone; what runs is there.
    assert_eq!(paths(&ann, "").await, ["web"]);
    let all = ["web", "web/app", "web/app/main"];
    assert_eq!(paths(&theirs, "").await, all);
    assert_eq!(get(&theirs, "web").await.sandbox_class, "cell");
    until_logged(&ann, "web/app", "begun\n").await;
    // Logs of the pod itself are all of its containers'.
    until_logged(&ann, "web", "begun\n").await;
    assert_eq!(exec(&ann, "web/app", "true").await, EXITED);
    let main = runtime::GetRequest {
        r#ref: at("web/app/main"),
    };
    let object = ann.node.runtime().get(main).await.unwrap().into_inner();
    assert!(matches!(
        object.object,
        Some(runtime::object::Object::Executable(_))
    ));
    // A frozen pod is frozen where it runs.
    let freeze = runtime::FreezeCellRequest { r#ref: at("web") };
    ann.node.runtime().freeze_cell(freeze).await.unwrap();
    let cell = runtime::GetRequest { r#ref: at("web") };
    let frozen = theirs.node.runtime().get(cell).await.unwrap().into_inner();
    let Some(runtime::object::Object::Cell(cell)) = frozen.object else {
        panic!("{frozen:?}");
    };
    assert_eq!(cell.state(), runtime::State::Frozen);
    let thaw = runtime::ThawCellRequest { r#ref: at("web") };
    ann.node.runtime().thaw_cell(thaw).await.unwrap();
    // No cell is made in it, with an image or without.
    let cell = runtime::RunCellRequest {
        cell: Some(runtime::Cell {
            r#ref: at("web/mine"),
            ..Default::default()
        }),
        ..Default::default()
    };
    let refused = ann.node.runtime().run_cell(cell).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Reason::Unsupported));
    // One that says so stays here.
    let status = run(&ann, "near", here(), WaitFor::Ready).await.unwrap();
    assert_eq!(status.sandbox_class, "cell");
    until_pods(&theirs, &["web"]).await;
    remove(&ann, "web", true).await.unwrap();
    remove(&ann, "near", true).await.unwrap();
    until_pods(&theirs, &[]).await;
    assert_eq!(paths(&theirs, "").await.len(), 0);
    assert_clean(&node);
    node.stop();
}

/// A program that waits for a line, attached to from here: input and output go there and back.
#[tokio::test]
async fn who_is_attached_here_talks_to_a_program_there() {
    use runtime::attach_request::Message as Asked;
    use runtime::attach_response::Message as Answer;
    let Some(node) = TestNode::start_elsewhere() else {
        return;
    };
    let (_, ann) = people(&node).await;
    run(&ann, "web", lasting(), WaitFor::Ready).await.unwrap();
    let executable = runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at("web/app/asks"),
            spec: Some(runtime::ExecutableSpec {
                argv: shell("read line; echo \"it said $line\"; exit 3"),
                stdin: true,
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    ann.node.runtime().run_executable(executable).await.unwrap();
    let start = Asked::Start(runtime::AttachStart {
        r#ref: at("web/app/asks"),
        stdin: true,
        ..Default::default()
    });
    let messages = [start, Asked::Stdin(b"hello\n".to_vec())];
    let messages = messages.map(|message| runtime::AttachRequest {
        message: Some(message),
    });
    // The client's half stays open.
    let messages = tokio_stream::iter(messages).chain(tokio_stream::pending());
    let answers = ann.node.runtime().attach(messages).await.unwrap();
    let (mut answers, mut output) = (answers.into_inner(), Vec::new());
    let exit = loop {
        match answers.message().await.unwrap().unwrap().message.unwrap() {
            Answer::Output(piece) => output.extend(piece.data),
            Answer::Gap(gap) => panic!("{gap:?}"),
            Answer::Exit(exit) => break exit,
        }
    };
    assert_eq!(String::from_utf8(output).unwrap(), "it said hello\n");
    assert_eq!(exit.how, Some(runtime::exit::How::Code(3)));
    remove(&ann, "web", true).await.unwrap();
    node.stop();
}

#[tokio::test]
async fn a_member_gets_no_more_there_than_here() {
    let Some(node) = TestNode::start_elsewhere() else {
        return;
    };
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let mut member = lasting();
    member.volumes[0].source = Some(wire::volume::Source::Empty(wire::EmptyVolume {
        size_bytes: Some(1 << 20),
        ..Default::default()
    }));
    run(&mia, "web", member, WaitFor::Ready).await.unwrap();
    let at_web = |path: &str| runtime::ObjectRef {
        tenant: "acme".to_owned(),
        path: path.to_owned(),
        ..Default::default()
    };
    let strong = |person: &Person, path: &str| {
        let request = runtime::RunExecutableRequest {
            executable: Some(runtime::Executable {
                r#ref: Some(at_web(path)),
                spec: Some(runtime::ExecutableSpec {
                    argv: shell("true"),
                    oom_score_adj: Some(-5),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            wait_for: runtime::WaitFor::Exited.into(),
            ..Default::default()
        };
        let mut runtime = person.node.runtime();
        async move { runtime.run_executable(request).await }
    };
    // The other daemon is asked with an administrator's certificate; a member is none there.
    let refused = strong(&mia, "web/app/strong").await.unwrap_err();
    let refused = from_status(&refused);
    assert_eq!(
        refused.reason,
        Some(Reason::PermissionDenied),
        "{refused:?}"
    );
    assert_eq!(
        refused.field.as_deref(),
        Some("executable.spec.oom_score_adj")
    );
    // Another tenant sees nothing of it.
    let hidden = strong(&eve, "web/app/look").await.unwrap_err();
    assert_eq!(reason(&hidden), Some(Reason::NotFound));
    assert_eq!(exec(&mia, "web/app", "true").await, EXITED);
    what_is_denied_here_is_not_asked_for_there(&administrator, &mia).await;
    remove(&mia, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn what_is_denied_here_is_not_asked_for_there(administrator: &Person, mia: &Person) {
    let deny = async |action: &str| {
        let denial = identity::DenyRequest {
            tenant: "acme".into(),
            user: "mia".into(),
            action: action.into(),
            path: "web/app".into(),
            ..Default::default()
        };
        administrator.deny(denial).await.id
    };
    let denied = deny("runtime.RunExecutable").await;
    let request = runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at("web/app/again"),
            spec: Some(runtime::ExecutableSpec {
                argv: shell("true"),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let refused = mia.node.runtime().run_executable(request).await;
    assert_eq!(
        reason(&refused.unwrap_err()),
        Some(Reason::PermissionDenied)
    );
    administrator.withdraw(denied).await;
    // A removal there may stop what runs there: who may not stop it may not remove it.
    let denied = deny("runtime.Stop").await;
    let cell = runtime::RemoveRequest {
        r#ref: at("web/app"),
        recursive: true,
        force: false,
    };
    let refused = mia.node.runtime().remove(cell).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Reason::PermissionDenied));
    assert!(get(mia, "web").await.ready);
    administrator.withdraw(denied).await;
}

/// An administrator gives up what only administrators may, for one call.
#[tokio::test]
async fn a_call_may_be_made_as_a_member_and_as_nothing_else() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let shares = |path: &str| runtime::RunCellRequest {
        cell: Some(runtime::Cell {
            r#ref: at(path),
            spec: Some(runtime::CellSpec {
                share: vec![runtime::Namespace::Net.into()],
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let mut as_member = Request::new(shares("web"));
    let member = standing::MEMBER.parse().unwrap();
    as_member.metadata_mut().insert(standing::KEY, member);
    let refused = ann.node.runtime().run_cell(as_member).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Reason::PermissionDenied));
    ann.node.runtime().run_cell(shares("web")).await.unwrap();
    let mut as_root = Request::new(shares("more"));
    let root = "administrator".parse().unwrap();
    as_root.metadata_mut().insert(standing::KEY, root);
    let refused = ann.node.runtime().run_cell(as_root).await.unwrap_err();
    let refused = from_status(&refused);
    assert_eq!(refused.reason, Some(Reason::InvalidField));
    assert_eq!(refused.field.as_deref(), Some(standing::KEY));
    node.stop();
}

#[tokio::test]
async fn images_are_brought_and_need_no_registry_there() {
    let Some(mut node) = TestNode::start_elsewhere() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let theirs = node.there().administrator().await;
    let imported = crate::images::import(&ann, &busybox()).await.unwrap();
    let of_image = |image: &str| {
        let mut app = container(
            "app",
            "echo of-image; while :; do /bin/busybox sleep 1; done",
        );
        app.image = image.to_owned();
        // Nothing is pulled there, whatever is asked for here.
        app.pull = wire::PullPolicy::IfNotPresent.into();
        spec(vec![app])
    };
    let by_name = of_image(&imported[0].reference);
    run(&ann, "named", by_name.clone(), WaitFor::Ready)
        .await
        .unwrap();
    let by_digest = of_image(&imported[0].digest);
    run(&ann, "exact", by_digest, WaitFor::Ready).await.unwrap();
    until_logged(&ann, "exact/app", "of-image\n").await;
    let list = api::image::v0::ListRequest::default();
    let mut images = api::image::v0::images_client::ImagesClient::new(theirs.node.channel());
    let there = images.list(list).await.unwrap().into_inner().images;
    assert_eq!(there.len(), 1, "{there:?}");
    assert_eq!(there[0].digest, imported[0].digest);
    // Who asked for it is told what it asked for.
    let shown = get(&ann, "named").await.spec.unwrap();
    assert_eq!(shown.containers[0].pull, by_name.containers[0].pull);
    for path in ["named", "exact"] {
        remove(&ann, path, true).await.unwrap();
    }
    node.stop();
}

#[tokio::test]
async fn a_pod_outlives_the_daemons_of_both() {
    let Some(mut node) = TestNode::start_elsewhere() else {
        return;
    };
    let (_, ann) = people(&node).await;
    run(&ann, "web", lasting(), WaitFor::Ready).await.unwrap();
    let whole = |status: &wire::PodStatus| status.ready && status.containers[0].restarts == 0;
    node.there().kill_daemon();
    until(&ann, "web", "back", whole).await;
    assert_eq!(exec(&ann, "web/app", "true").await, EXITED);
    node.kill_daemon();
    let ann = again(&ann).await;
    let status = get(&ann, "web").await;
    assert!(whole(&status), "{status:#?}");
    assert_eq!(status.sandbox_class, "vm");
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn a_pod_whose_node_has_lost_everything_has_failed_and_can_be_removed() {
    let Some(mut node) = TestNode::start_elsewhere() else {
        return;
    };
    let (_, ann) = people(&node).await;
    run(&ann, "web", lasting(), WaitFor::Ready).await.unwrap();
    node.there().reboot(Duration::from_millis(500));
    let failed = |status: &wire::PodStatus| status.phase() == Phase::Failed;
    // It has half a minute to come back.
    let status = until_within(3 * SOON, &ann, "web", "failed", failed).await;
    assert_eq!(status.containers[0].state(), State::Ended);
    let told = |event: &wire::Event| event.message.contains("no more on the daemon");
    assert!(status.events.iter().any(told), "{status:#?}");
    remove(&ann, "web", false).await.unwrap();
    let status = run(&ann, "web", lasting(), WaitFor::Ready).await.unwrap();
    assert!(status.ready);
    remove(&ann, "web", true).await.unwrap();
    node.stop();
}

/// Its place goes while the other daemon is stopped: it goes there when that one is back, and not
/// only when this one is.
#[tokio::test]
async fn nothing_stays_there_whose_place_here_has_gone() {
    let Some(mut node) = TestNode::start_elsewhere() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let theirs = node.there().administrator().await;
    for path in ["one", "two"] {
        run(&ann, path, lasting(), WaitFor::Ready).await.unwrap();
    }
    let stopped = node.there().stop_daemon();
    until(&ann, "one", "silent", is_silent).await;
    let refused = remove(&ann, "one", true).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Reason::Degraded), "{refused:?}");
    // Its cell here goes all the same.
    for path in ["one", "two"] {
        let cell = runtime::RemoveRequest {
            r#ref: at(path),
            recursive: true,
            force: true,
        };
        ann.node.runtime().remove(cell).await.unwrap();
    }
    // This daemon dies before it could say so.
    node.kill_daemon();
    drop(stopped);
    // Who was silent for long is hung up on.
    until_pods(&again(&theirs).await, &[]).await;
    let ann = again(&ann).await;
    until_pods(&ann, &[]).await;
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn what_can_not_be_there_is_refused_and_leaves_nothing() {
    let Some(mut node) = TestNode::start_elsewhere() else {
        return;
    };
    let (_, ann) = people(&node).await;
    let theirs = node.there().administrator().await;
    let refused = async |path: &str, spec: wire::PodSpec| {
        let refused = run(&ann, path, spec, WaitFor::Created).await.unwrap_err();
        let refused = from_status(&refused);
        (refused.reason, refused.field.unwrap_or_default())
    };
    let unsupported = |field: &str| (Some(Reason::Unsupported), field.to_owned());
    let mut of_node = lasting();
    of_node.host_network = true;
    let expected = unsupported("pod.spec.host_network");
    assert_eq!(refused("web", of_node).await, expected);
    assert_eq!(
        refused("shop/web", lasting()).await,
        unsupported("pod.ref.path")
    );
    let mut other = lasting();
    other.sandbox_class = "gvisor".to_owned();
    assert_eq!(
        refused("web", other).await,
        unsupported("pod.spec.sandbox_class")
    );
    // A pod that isn't this node's keeps its name, and isn't touched.
    run(&theirs, "web", lasting(), WaitFor::Ready)
        .await
        .unwrap();
    let taken = refused("web", lasting()).await;
    assert_eq!(taken, (Some(Reason::AlreadyExists), String::new()));
    assert!(get(&theirs, "web").await.ready);
    // What the other daemon refuses is refused here, by its field.
    let mut labelled = lasting();
    labelled.selinux_file_label = "system_u:object_r:container_file_t:s0".to_owned();
    let (why, field) = refused("labelled", labelled).await;
    assert_eq!(why, Some(Reason::Unsupported));
    assert_eq!(field, "pod.spec.selinux_file_label");
    run(&ann, "kept", lasting(), WaitFor::Ready).await.unwrap();
    let stopped = node.there().stop_daemon();
    until(&ann, "kept", "silent", is_silent).await;
    // Nothing waits for a daemon that is known not to answer: that would be DEADLINE.
    let (why, _) = refused("late", lasting()).await;
    assert_eq!(why, Some(Reason::Degraded));
    drop(stopped);
    until(&ann, "kept", "there again", |status| status.ready).await;
    remove(&ann, "kept", true).await.unwrap();
    assert_eq!(paths(&ann, "").await.len(), 0);
    until_pods(&ann, &[]).await;
    until_pods(&again(&theirs).await, &["web"]).await;
    node.stop();
}

/// One tenant takes all the calls that it can have open there; another one's come through, and so
/// does what the node does with its own pods.
#[tokio::test]
async fn a_tenant_that_takes_all_calls_there_takes_its_own_alone() {
    let Some(node) = TestNode::start_elsewhere() else {
        return;
    };
    let administrator = node.administrator().await;
    let (_, ann) = people(&node).await;
    let member = || {
        let mut spec = lasting();
        spec.volumes[0].source = Some(wire::volume::Source::Empty(wire::EmptyVolume {
            size_bytes: Some(1 << 20),
            ..Default::default()
        }));
        spec
    };
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    run(&eve, "web", member(), WaitFor::Ready).await.unwrap();
    run(&ann, "web", lasting(), WaitFor::Ready).await.unwrap();
    let get = runtime::GetRequest {
        r#ref: at("web/app/main"),
    };
    let main = eve.node.runtime().get(get).await.unwrap().into_inner();
    let Some(runtime::object::Object::Executable(main)) = main.object else {
        panic!("{main:?}");
    };
    let main = main.meta.unwrap().r#ref.unwrap();
    let mut held = Vec::new();
    let refused = loop {
        // A connection takes 64.
        let eve = match held.len() % 32 {
            0 => again(&eve).await,
            _ => eve.clone(),
        };
        let wait = runtime::WaitRequest {
            r#ref: Some(main.clone()),
        };
        let mut runtime = eve.node.runtime();
        let mut waiting = tokio::spawn(async move { runtime.wait(wait).await });
        match tokio::time::timeout(Duration::from_millis(300), &mut waiting).await {
            Ok(answer) => break from_status(&answer.unwrap().unwrap_err()),
            Err(_) => held.push((eve, waiting)),
        }
        assert!(held.len() < 200, "there is no bound");
    };
    assert_eq!(refused.reason, Some(Reason::LimitExceeded), "{refused:?}");
    assert!(held.len() > 16, "{} calls", held.len());
    assert_eq!(exec(&ann, "web/app", "true").await, EXITED);
    remove(&ann, "web", true).await.unwrap();
    remove(&eve, "web", true).await.unwrap();
    for (_, waiting) in held {
        drop(waiting.await.unwrap());
    }
    assert_clean(&node);
    node.stop();
}
