// SPDX-License-Identifier: Apache-2.0
//! Replicas, jobs and configs on a real node: a rollout that a killed daemon doesn't lose, a tenant
//! that wants ten thousand, texts that pods are given, and files that declare.

use std::time::{Duration, Instant};

use api::pod::v0 as pods;
use api::schedule::v0 as wire;
use api::status::{Reason, from_status};
use api::tenant::v0 as tenants;
use wire::reason::Cause;

use crate::caller::Person;
use crate::node::TestNode;
use crate::schedule::{
    at, cause, declare, get, history, millis, schedules, shell, until, until_why, with,
};

/// A shell of which so many replicas run.
fn replicas(name: &str, script: &str, count: u32) -> wire::DeclareRequest {
    with(shell(name, script), |it| {
        it.replicas = Some(wire::Replicas {
            count,
            min_ready: Some(millis(1500)),
            max_unavailable: "0".into(),
            max_surge: "1".into(),
            ..Default::default()
        });
    })
}

fn whole(status: &wire::ScheduleStatus, revision: u64) -> bool {
    let settled = cause(status) == Cause::Running;
    settled && status.revision == revision && status.updated == status.wanted
}

#[tokio::test]
async fn a_rollout_goes_on_after_kill_9_and_can_be_undone() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    declare(&ann, replicas("web", "exec sleep 1000", 3))
        .await
        .unwrap();
    let first = until(&ann, "web", "whole", |it| whole(it, 1)).await;
    assert_eq!((first.ready, first.wanted), (3, 3));
    // More of the same is no other revision.
    declare(&ann, replicas("web", "exec sleep 1000", 4))
        .await
        .unwrap();
    until(&ann, "web", "more", |it| whole(it, 1) && it.ready == 4).await;
    declare(&ann, replicas("web", "exec sleep 2000", 4))
        .await
        .unwrap();
    until(&ann, "web", "half new", |it| it.updated >= 2).await;
    node.kill_daemon();
    let ann = node.administrator().await;
    let begun = Instant::now();
    loop {
        let status = get(&ann, "web").await;
        let going = status
            .runs
            .iter()
            .filter(|it| it.began.is_some() && !it.stopping);
        let going = going.count();
        assert!((4..=5).contains(&going), "{going} go on: {status:#?}");
        if whole(&status, 2) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(90), "{status:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let undo = |revision| wire::UndoRequest {
        name: "web".into(),
        revision,
        ..Default::default()
    };
    let missing = schedules(&ann).undo(undo(9)).await.unwrap_err();
    assert_eq!(from_status(&missing).reason, Some(Reason::NotFound));
    schedules(&ann).undo(undo(0)).await.unwrap();
    let undone = until(&ann, "web", "undone", |it| whole(it, 3)).await;
    assert!(
        format!("{:?}", undone.spec).contains("sleep 1000"),
        "{undone:#?}"
    );
    crate::schedule::remove(&ann, "web").await.unwrap();
    node.stop();
}

#[tokio::test]
async fn a_tenant_that_wants_ten_thousand_gets_its_quota_and_slows_nobody() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let evil = administrator.introduce(&node, "evil", "eve", None).await;
    let good = administrator.introduce(&node, "good", "gil", None).await;
    let set = tenants::SetRequest {
        name: "evil".into(),
        quotas: Some(tenants::Quotas {
            cells: Some("5".into()),
            ..Default::default()
        }),
    };
    administrator.node.tenant().set(set).await.unwrap();
    let error = declare(&evil, replicas("all", "exec sleep 1000", 10_000)).await;
    let error = from_status(&error.unwrap_err());
    assert_eq!(
        error.field.as_deref(),
        Some("spec.replicas.count"),
        "{error}"
    );
    declare(&evil, replicas("all", "exec sleep 1000", 256))
        .await
        .unwrap();
    let status = until_why(&evil, "all", Cause::Quota).await;
    assert!(status.ready <= 5, "{status:?}");
    let begun = Instant::now();
    declare(&good, shell("calm", "exit 0")).await.unwrap();
    until_why(&good, "calm", Cause::Succeeded).await;
    assert!(begun.elapsed() < Duration::from_secs(20));
    // It does not spin: the same refusal waits longer each time.
    let number = get(&evil, "all").await.number;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let later = get(&evil, "all").await.number;
    assert!(later - number < 40, "{number} to {later}");
    node.stop();
}

#[tokio::test]
async fn a_job_has_its_completions_with_indexes_and_goes_when_its_time_is_over() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let script = "test $JOB_COMPLETION_INDEX -lt 3";
    let job = with(shell("three", script), |it| {
        it.job = Some(wire::Job {
            completions: Some(3),
            parallelism: Some(2),
            indexed: true,
            ..Default::default()
        });
    });
    declare(&ann, job).await.unwrap();
    let over = until_why(&ann, "three", Cause::Succeeded).await;
    assert!(over.why.unwrap().message.contains("3 of 3"));
    let ends = history(&ann, "three").await;
    assert_eq!(
        ends.iter().filter(|it| it.number > 0).count(),
        3,
        "{ends:?}"
    );
    let fails = with(shell("fails", "exit 4"), |it| {
        it.job = Some(wire::Job {
            failures: Some(1),
            remove_after: Some(millis(10_000)),
            ..Default::default()
        });
    });
    declare(&ann, fails).await.unwrap();
    until_why(&ann, "fails", Cause::Failed).await;
    let begun = Instant::now();
    while crate::schedule::is_there(&ann, "fails").await {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.stop();
}

fn config(kind: wire::ConfigKind, name: &str, text: &str) -> wire::PutConfigRequest {
    wire::PutConfigRequest {
        kind: kind.into(),
        name: name.to_owned(),
        data: [("k".to_owned(), text.to_owned())].into(),
        ..Default::default()
    }
}

/// A pod with a file of a config and a variable of a secret.
fn given(name: &str) -> wire::DeclareRequest {
    let container = pods::Container {
        name: "app".into(),
        entrypoint: ["/bin/busybox", "sleep", "1000"].map(str::to_owned).into(),
        env: vec![pods::EnvVar {
            name: "KEY".into(),
            ..Default::default()
        }],
        mounts: vec![pods::VolumeMount {
            volume: "conf".into(),
            path: "/run/conf".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let run = pods::RunRequest {
        pod: Some(pods::Pod {
            r#ref: at(name.to_owned()),
            spec: Some(pods::PodSpec {
                containers: vec![container],
                volumes: vec![pods::Volume {
                    name: "conf".into(),
                    source: Some(pods::volume::Source::Files(Default::default())),
                }],
                stop_grace: Some(millis(0)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    use wire::given::Place;
    let given = |kind: wire::ConfigKind, config: &str, place| wire::Given {
        kind: kind.into(),
        config: config.to_owned(),
        place: Some(place),
        ..Default::default()
    };
    with(shell(name, "true"), |it| {
        it.work = Some(wire::Work {
            run: Some(wire::work::Run::Pod(run)),
            given: vec![
                given(
                    wire::ConfigKind::ConfigMap,
                    "conf",
                    Place::Files(wire::GivenFiles {
                        volume: "conf".into(),
                        ..Default::default()
                    }),
                ),
                given(
                    wire::ConfigKind::Secret,
                    "key",
                    Place::Variable(wire::GivenVariable {
                        container: "app".into(),
                        name: "KEY".into(),
                        key: "k".into(),
                    }),
                ),
            ],
        });
    })
}

async fn pod(person: &Person, path: &str) -> pods::PodStatus {
    let request = pods::GetRequest {
        r#ref: at(path.to_owned()),
    };
    crate::pods::pods(person)
        .get(request)
        .await
        .unwrap()
        .into_inner()
}

crate::pods::in_each_class! {
    pods_are_given_configs_whose_files_change_and_whose_secrets_are_never_shown,
}

async fn pods_are_given_configs_whose_files_change_and_whose_secrets_are_never_shown(
    mut node: TestNode,
) {
    let ann = node.administrator().await;
    let put = async |ann: &Person, kind, name: &str, text: &str| {
        let put = schedules(ann).put_config(config(kind, name, text)).await;
        put.unwrap().into_inner()
    };
    declare(&ann, given("web")).await.unwrap();
    let waits = until_why(&ann, "web", Cause::Dependency).await;
    assert!(waits.why.unwrap().message.contains("conf"));
    put(&ann, wire::ConfigKind::ConfigMap, "conf", "one").await;
    let kept = put(&ann, wire::ConfigKind::Secret, "key", "hush-hush").await;
    assert!(kept.data.is_empty() && kept.keys == ["k"], "{kept:?}");
    until(&ann, "web", "ready", |it| it.ready == 1).await;
    let shown = pod(&ann, "web-1").await;
    let all = format!("{shown:?} {:?}", get(&ann, "web").await);
    assert!(
        all.contains("(hidden)") && !all.contains("hush-hush"),
        "{all}"
    );
    let main = crate::schedule::object(&ann, "web-1/app/main")
        .await
        .unwrap();
    let main = format!("{main:?}");
    assert!(
        main.contains("KEY") && !main.contains("hush-hush"),
        "{main}"
    );
    // The program has it.
    let number = crate::schedule::executable(
        crate::schedule::object(&ann, "web-1/app/main")
            .await
            .unwrap(),
    );
    let environment = std::fs::read(format!("/proc/{}/environ", number.pid)).unwrap();
    assert!(String::from_utf8_lossy(&environment).contains("KEY=hush-hush"));
    // Files follow, also where the daemon was killed in between.
    for (i, text) in ["two", "three"].into_iter().enumerate() {
        let ann = node.administrator().await;
        put(&ann, wire::ConfigKind::ConfigMap, "conf", text).await;
        if i == 1 {
            node.kill_daemon();
        }
        let ann = node.administrator().await;
        let begun = Instant::now();
        while !format!("{:?}", pod(&ann, "web-1").await).contains(&format!("\"k\": {text:?}")) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the old files stay"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let ann = node.administrator().await;
    assert_eq!(get(&ann, "web").await.number, 1, "it was not run anew");
    crate::schedule::remove(&ann, "web").await.unwrap();
    node.stop();
}

#[tokio::test]
async fn a_removal_that_fails_halfway_goes_on_and_a_pause_is_kept_in_memory() {
    let Some(mut node) = TestNode::start_on_small_disk() else {
        return;
    };
    let ann = node.administrator().await;
    let always = wire::RestartPolicy::Always as i32;
    for name in ["web", "idle"] {
        let request = with(shell(name, "exec sleep 1000"), |it| it.restart = always);
        crate::schedule::declare_and_run(&ann, request).await;
    }
    node.fill_disk();
    let request = wire::PauseRequest {
        name: "idle".into(),
        ..Default::default()
    };
    let paused = schedules(&ann).pause(request).await.unwrap().into_inner();
    assert!(paused.paused && paused.unwritten, "{paused:?}");
    let failed = crate::schedule::remove(&ann, "web").await;
    if let Err(failed) = failed {
        assert_eq!(
            from_status(&failed).reason,
            Some(Reason::Degraded),
            "{failed:?}"
        );
    }
    node.empty_disk();
    let begun = Instant::now();
    // Where the call was let in, nobody has to ask again.
    while let Some(status) = crate::schedule::found(&ann, "web").await {
        if cause(&status) == Cause::Running {
            crate::schedule::remove(&ann, "web").await.unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{status:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until(&ann, "idle", "written", |it| !it.unwritten).await;
    node.kill_daemon();
    let ann = node.administrator().await;
    assert!(get(&ann, "idle").await.paused);
    node.stop();
}

#[tokio::test]
async fn a_removal_that_a_killed_daemon_has_begun_goes_on() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done";
    let mut slow = shell("slow", script);
    let spec = slow.spec.as_mut().unwrap();
    spec.restart = wire::RestartPolicy::Always as i32;
    if let Some(wire::work::Run::Executable(run)) =
        spec.work.as_mut().and_then(|it| it.run.as_mut())
    {
        let program = run.executable.as_mut().and_then(|it| it.spec.as_mut());
        program.unwrap().stop_grace = Some(millis(10_000));
    }
    crate::schedule::declare_and_run(&ann, slow).await;
    // It says so when it has begun to be.
    crate::pods::has_said(&ann, "slow-1/main").await;
    let removing = {
        let mut client = schedules(&ann);
        let request = wire::RemoveRequest {
            name: "slow".into(),
            ..Default::default()
        };
        tokio::spawn(async move { client.remove(request).await })
    };
    until_why(&ann, "slow", Cause::Leaving).await;
    node.kill_daemon();
    assert!(
        removing.await.unwrap().is_err(),
        "nobody was there to answer"
    );
    let ann = node.administrator().await;
    let begun = Instant::now();
    while crate::schedule::is_there(&ann, "slow").await {
        let paths = [1, 2].map(|number| format!("slow-{number}/main"));
        assert!(
            crate::schedule::object(&ann, &paths[1]).await.is_none(),
            "it began again"
        );
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.stop();
}

#[tokio::test]
async fn schedules_are_listed_in_pages_watched_and_wait_for_no_circle() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let mut watch = schedules(&ann).watch(wire::WatchRequest::default()).await;
    let watch = watch.as_mut().unwrap().get_mut();
    use wire::watch_event::Type;
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.r#type(), Type::SnapshotEnd);
    let need = |name: &str| wire::Need {
        of: Some(wire::need::Of::Schedule(name.to_owned())),
        ..Default::default()
    };
    for (name, needs) in [("a", "b"), ("b", "c")] {
        let request = with(shell(name, "true"), |it| it.needs = vec![need(needs)]);
        declare(&ann, request).await.unwrap();
    }
    let around = with(shell("c", "true"), |it| it.needs = vec![need("a")]);
    let error = from_status(&declare(&ann, around).await.unwrap_err());
    assert_eq!(error.field.as_deref(), Some("spec.needs[0].schedule"));
    assert!(error.message.contains("c → a → b → c"), "{error}");
    let list = |page_token: String| wire::ListRequest {
        page_size: 1,
        page_token,
        ..Default::default()
    };
    let page = schedules(&ann)
        .list(list(String::new()))
        .await
        .unwrap()
        .into_inner();
    let next = schedules(&ann)
        .list(list(page.next_page_token.clone()))
        .await;
    let next = next.unwrap().into_inner();
    assert_eq!(
        (
            page.schedules[0].name.as_str(),
            next.schedules[0].name.as_str()
        ),
        ("a", "b")
    );
    assert!(next.next_page_token.is_empty());
    let mut next = async || {
        let event = watch.message().await.unwrap().unwrap();
        (event.r#type(), event.schedule.unwrap_or_default().name)
    };
    // Before it goes: what has gone by the time that a watcher looks isn't told of as added.
    assert_eq!(next().await, (Type::Added, "a".to_owned()));
    crate::schedule::remove(&ann, "a").await.unwrap();
    let removed = loop {
        if let (Type::Removed, name) = next().await {
            break name;
        }
    };
    assert_eq!(removed, "a");
    node.stop();
}

#[tokio::test]
async fn a_folder_of_manifests_is_watched_and_a_broken_file_takes_nothing_away() {
    let folder = tempfile::tempdir().unwrap();
    let setting = format!("schedule.manifests={}", folder.path().display());
    let Some(mut node) = TestNode::start_with(&["cell_network.enabled=false", &setting]) else {
        return;
    };
    let ann = node.administrator().await;
    let file = folder.path().join("web.yaml");
    let manifest = |image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  containers:\n  - name: \
             app\n    image: {image}\n    imagePullPolicy: Never\n"
        )
    };
    std::fs::write(&file, manifest("none:1")).unwrap();
    let begun = Instant::now();
    while !crate::schedule::is_there(&ann, "web").await {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until(&ann, "web", "declared", |it| it.owner == "system/admin").await;
    std::fs::write(&file, "kind: Pod\n  broken: [").unwrap();
    let begun = Instant::now();
    while !(node.log().contains("web.yaml") && node.log().contains("line 2")) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(crate::schedule::is_there(&ann, "web").await);
    // It goes while nobody looks.
    std::fs::remove_file(&file).unwrap();
    node.kill_daemon();
    let ann = node.administrator().await;
    let begun = Instant::now();
    while crate::schedule::is_there(&ann, "web").await {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    node.stop();
}
