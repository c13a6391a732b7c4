// SPDX-License-Identifier: Apache-2.0
//! Pods on a real node: containers in order, volumes between them, probes, restarts, graceful ends,
//! and a daemon that is killed in between. The containers run the node's own busybox.

use std::time::{Duration, Instant};

use api::pod::v0 as wire;
use api::pod::v0::container_status::State;
use api::pod::v0::pods_client::PodsClient;
use api::runtime::v0::{self as runtime, ObjectRef};
use api::status::{Reason, from_status};
use tonic::transport::Channel;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;

/// How long something may take that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) fn pods(person: &Person) -> PodsClient<Channel> {
    PodsClient::new(person.node.channel())
}

pub(crate) fn at(path: &str) -> Option<ObjectRef> {
    Some(ObjectRef {
        path: path.to_owned(),
        ..Default::default()
    })
}

pub(crate) fn shell(script: &str) -> Vec<String> {
    ["/bin/busybox", "sh", "-c", script]
        .map(str::to_owned)
        .into()
}

/// A container of the node's busybox, with the pod's volume `shared` at `/mnt`.
pub(crate) fn container(name: &str, script: &str) -> wire::Container {
    wire::Container {
        name: name.to_owned(),
        entrypoint: shell(script),
        mounts: vec![wire::VolumeMount {
            volume: "shared".to_owned(),
            path: "/mnt".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(crate) fn spec(containers: Vec<wire::Container>) -> wire::PodSpec {
    wire::PodSpec {
        containers,
        volumes: vec![wire::Volume {
            name: "shared".to_owned(),
            source: Some(wire::volume::Source::Empty(wire::EmptyVolume::default())),
        }],
        restart_policy: wire::RestartPolicy::Never.into(),
        stop_grace: Some(seconds(5)),
        ..Default::default()
    }
}

pub(crate) fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

pub(crate) async fn run(
    person: &Person,
    path: &str,
    spec: wire::PodSpec,
    wait_for: WaitFor,
) -> Result<wire::PodStatus, tonic::Status> {
    let request = wire::RunRequest {
        pod: Some(wire::Pod {
            r#ref: at(path),
            spec: Some(spec),
            ..Default::default()
        }),
        wait_for: wait_for.into(),
        ..Default::default()
    };
    let run = pods(person).run(request).await;
    run.map(tonic::Response::into_inner)
}

pub(crate) async fn get(person: &Person, path: &str) -> wire::PodStatus {
    let request = wire::GetRequest { r#ref: at(path) };
    pods(person).get(request).await.unwrap().into_inner()
}

/// The pod once it is as wanted.
pub(crate) async fn until(
    person: &Person,
    path: &str,
    what: &str,
    wanted: impl Fn(&wire::PodStatus) -> bool,
) -> wire::PodStatus {
    until_within(SOON, person, path, what, wanted).await
}

/// The same of what takes its time.
pub(crate) async fn until_within(
    time: Duration,
    person: &Person,
    path: &str,
    what: &str,
    wanted: impl Fn(&wire::PodStatus) -> bool,
) -> wire::PodStatus {
    let begun = Instant::now();
    loop {
        let status = get(person, path).await;
        if wanted(&status) {
            return status;
        }
        assert!(begun.elapsed() < time, "not {what}: {status:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn logs(person: &Person, path: &str) -> String {
    person.log_of(at(path)).await
}

/// Waits until the log is that: what a program has printed is there a moment later.
pub(crate) async fn until_logged(person: &Person, path: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let said = logs(person, path).await;
        if said == wanted {
            return;
        }
        assert!(begun.elapsed() < SOON, "it says {said:?}, not {wanted:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs a shell in a container; its status.
pub(crate) async fn exec(person: &Person, cell: &str, script: &str) -> Option<runtime::exit::How> {
    exec_as(person, cell, script, runtime::ExecutableSpec::default()).await
}

/// The same with what else the spec says.
pub(crate) async fn exec_as(
    person: &Person,
    cell: &str,
    script: &str,
    spec: runtime::ExecutableSpec,
) -> Option<runtime::exit::How> {
    let request = runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at(&format!("{cell}/look")),
            spec: Some(runtime::ExecutableSpec {
                argv: shell(script),
                ..spec
            }),
            ..Default::default()
        }),
        wait_for: runtime::WaitFor::Exited.into(),
        ..Default::default()
    };
    let ended = person.node.runtime().run_executable(request).await;
    ended.unwrap().into_inner().exit.and_then(|exit| exit.how)
}

pub(crate) async fn remove(person: &Person, path: &str, force: bool) -> Result<(), tonic::Status> {
    let request = wire::RemoveRequest {
        r#ref: at(path),
        force,
    };
    pods(person).remove(request).await.map(drop)
}

pub(crate) fn reason(status: &tonic::Status) -> Option<Reason> {
    from_status(status).reason
}

pub(crate) const EXITED: Option<runtime::exit::How> = Some(runtime::exit::How::Code(0));

pub(crate) async fn people(node: &TestNode) -> (Person, Person) {
    let administrator = node.administrator().await;
    let ann = administrator.introduce_administrator(node, "ann").await;
    (administrator, ann)
}

/// Stories of pods, told in each class of sandboxes: in a cell of the node, and on another daemon.
macro_rules! in_each_class {
    ($($story:ident),* $(,)?) => {$(
        mod $story {
            use crate::node::TestNode;

            #[tokio::test]
            async fn in_a_cell() {
                if let Some(node) = TestNode::start() {
                    super::$story(node).await;
                }
            }

            #[tokio::test]
            async fn elsewhere() {
                if let Some(node) = TestNode::start_elsewhere() {
                    super::$story(node).await;
                }
            }
        }
    )*};
}
pub(crate) use in_each_class;

/// Nothing of a pod is left on the node, nor where its pods run.
pub(crate) fn assert_clean(node: &TestNode) {
    assert_no_volumes(node);
    assert_no_volumes(node.with_pods());
}

fn assert_no_volumes(node: &TestNode) {
    let begun = Instant::now();
    loop {
        let left = std::fs::read_dir(node.state().join("pods")).unwrap();
        let left: Vec<_> = left.flatten().map(|it| it.file_name()).collect();
        if left == ["key"] {
            return;
        }
        assert!(begun.elapsed() < SOON, "left: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

in_each_class! {
    containers_begin_in_order_and_share_folders_and_the_network,
    an_init_container_that_has_done_its_work_has_ended,
    a_container_that_fails_is_started_again_and_waits_longer_each_time,
    probes_make_ready_and_start_again_what_is_not_alive,
    a_stop_does_the_hook_asks_and_then_kills_within_its_grace,
    a_port_is_reached_from_outside_and_a_pod_is_its_tenants_alone,
    containers_of_images_have_roots_of_their_own_and_share_what_the_pod_has,
}

async fn containers_begin_in_order_and_share_folders_and_the_network(node: TestNode) {
    let (_, ann) = people(&node).await;
    let mut sidecar = container("side", "exec /bin/busybox httpd -f -p 8080 -h /mnt");
    sidecar.sidecar = true;
    sidecar.startup = Some(wire::Probe {
        ask: Some(wire::probe::Ask::Tcp(wire::TcpAction {
            port: 8080,
            ..Default::default()
        })),
        period: Some(seconds(1)),
        ..Default::default()
    });
    let app = "/bin/busybox wget -qO- http://127.0.0.1:8080/page && echo $0 of $POD on $NODE_CPUS";
    let mut app = container("app", app);
    let fact = |name: &str, fact: wire::Fact| wire::EnvVar {
        name: name.to_owned(),
        from: Some(wire::env_var::From::Fact(fact.into())),
    };
    app.env = vec![
        fact("POD", wire::Fact::PodName),
        fact("NODE_CPUS", wire::Fact::CpuLimit),
    ];
    app.args = vec!["$(POD)".to_owned()];
    let spec = wire::PodSpec {
        init_containers: vec![container("init", "echo from-init > /mnt/page"), sidecar],
        ..spec(vec![app])
    };
    let status = run(&ann, "web", spec, WaitFor::Ended).await.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    assert_eq!(
        logs(&ann, "web/app/main").await,
        "from-init\nweb of web on 0\n"
    );
    // What ran beside ended after it, and the pod stays to be looked at.
    assert!(
        status
            .init_containers
            .iter()
            .all(|it| it.state() == State::Ended)
    );
    remove(&ann, "web", false).await.unwrap();
    let gone = pods(&ann).get(wire::GetRequest { r#ref: at("web") }).await;
    assert_eq!(reason(&gone.unwrap_err()), Some(Reason::NotFound));
    assert_clean(&node);
    node.stop();
}

async fn an_init_container_that_has_done_its_work_has_ended(node: TestNode) {
    let (_, ann) = people(&node).await;
    let spec = wire::PodSpec {
        init_containers: vec![container("init", "true")],
        ..spec(vec![container("app", "sleep 900")])
    };
    let status = run(&ann, "web", spec, WaitFor::Ready).await.unwrap();
    let init = &status.init_containers[0];
    assert_eq!(init.state(), State::Ended, "{init:?}");
    assert_eq!(init.next_start, None);
    node.stop();
}

async fn a_container_that_fails_is_started_again_and_waits_longer_each_time(mut node: TestNode) {
    let (_, ann) = people(&node).await;
    let spec = wire::PodSpec {
        restart_policy: wire::RestartPolicy::OnFailure.into(),
        ..spec(vec![
            container("app", "echo run >> /mnt/runs; exit 7"),
            container("b", "sleep 900"),
        ])
    };
    run(&ann, "web", spec, WaitFor::Created).await.unwrap();
    let backs_off = |status: &wire::PodStatus| {
        let app = &status.containers[0];
        app.restarts == 1 && app.state() == State::BackingOff
    };
    let status = until(&ann, "web", "backing off", backs_off).await;
    let app = &status.containers[0];
    let code = app.last_exit.as_ref().and_then(|exit| exit.how);
    assert_eq!(code, Some(runtime::exit::How::Code(7)));
    let (ended, next) = (
        app.last_exit.as_ref().unwrap().finished.unwrap(),
        app.next_start.unwrap(),
    );
    assert_eq!(next.seconds - ended.seconds, 10, "{app:?}");
    // The next daemon goes on where this one was.
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let status = get(&ann, "web").await;
    assert!(backs_off(&status), "{status:#?}");
    assert_eq!(status.containers[0].next_start, Some(next));
    let again = |status: &wire::PodStatus| status.containers[0].restarts == 2;
    until(&ann, "web", "started again", again).await;
    // The third shell writes a moment later; on a busy machine a fourth has, too.
    let begun = Instant::now();
    while exec(&ann, "web/b", "[ $(wc -l < /mnt/runs) -ge 3 ]").await != EXITED {
        assert!(begun.elapsed() < SOON, "it has not run three times");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn probes_make_ready_and_start_again_what_is_not_alive(mut node: TestNode) {
    let (_, ann) = people(&node).await;
    let probe = |ask| {
        Some(wire::Probe {
            ask: Some(ask),
            period: Some(seconds(1)),
            failure_threshold: Some(2),
            ..Default::default()
        })
    };
    let http = wire::HttpAction {
        port: 8080,
        path: "/ready".to_owned(),
        ..Default::default()
    };
    let alive = wire::ExecAction {
        argv: shell("! [ -e /mnt/sick ]"),
    };
    let script = "rm -f /mnt/sick; exec /bin/busybox httpd -f -p 8080 -h /mnt";
    let mut app = container("app", script);
    app.readiness = probe(wire::probe::Ask::Http(http));
    app.liveness = probe(wire::probe::Ask::Exec(alive));
    let spec = wire::PodSpec {
        restart_policy: wire::RestartPolicy::Always.into(),
        ..spec(vec![app])
    };
    run(&ann, "web", spec, WaitFor::Created).await.unwrap();
    let started = |status: &wire::PodStatus| status.containers[0].started;
    let status = until(&ann, "web", "started", started).await;
    assert!(!status.ready, "{status:#?}");
    assert_eq!(exec(&ann, "web/app", "touch /mnt/ready").await, EXITED);
    until(&ann, "web", "ready", |status| status.ready).await;
    // Probes go on with the next daemon.
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    until(&ann, "web", "ready again", |status| status.ready).await;
    assert_eq!(exec(&ann, "web/app", "rm /mnt/ready").await, EXITED);
    until(&ann, "web", "not ready", |status| !status.ready).await;
    assert_eq!(exec(&ann, "web/app", "touch /mnt/sick").await, EXITED);
    let again = |status: &wire::PodStatus| status.containers[0].restarts == 1;
    let status = until(&ann, "web", "started again", again).await;
    let message = &status.containers[0].message;
    assert!(message.contains("liveness probe failed"), "{message}");
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

/// Waits for the first output.
pub(crate) async fn has_said(person: &Person, path: &str) {
    let begun = Instant::now();
    while logs(person, path).await.is_empty() {
        assert!(begun.elapsed() < SOON, "{path} says nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How the first container has ended.
pub(crate) fn how(status: &wire::PodStatus) -> Option<runtime::exit::How> {
    status.containers.first()?.last_exit.as_ref()?.how
}

async fn a_stop_does_the_hook_asks_and_then_kills_within_its_grace(mut node: TestNode) {
    let (_, ann) = people(&node).await;
    let mut polite = container(
        "polite",
        "trap 'echo term; exit 0' TERM; echo begun; while :; do sleep 0.1; done",
    );
    polite.pre_stop = Some(wire::Hook {
        what: Some(wire::hook::What::Exec(wire::ExecAction {
            argv: shell("echo hook > /mnt/hook"),
        })),
    });
    let look = container("look", "while :; do sleep 0.1; done");
    let deaf = container(
        "deaf",
        "trap '' TERM; echo deaf; while :; do sleep 0.1; done",
    );
    let short = wire::PodSpec {
        stop_grace: Some(seconds(2)),
        ..spec(vec![deaf])
    };
    run(&ann, "deaf", short, WaitFor::Ready).await.unwrap();
    // It says so when it has begun to be.
    has_said(&ann, "deaf/deaf/main").await;
    let spec = wire::PodSpec {
        stop_grace: Some(seconds(60)),
        ..spec(vec![polite, look])
    };
    run(&ann, "web", spec, WaitFor::Ready).await.unwrap();
    has_said(&ann, "web/polite/main").await;
    let running = remove(&ann, "web", false).await.unwrap_err();
    assert_eq!(reason(&running), Some(Reason::WrongState), "{running}");
    // That it is to stop outlives the daemon that was asked.
    let stopping = tokio::spawn({
        let ann = ann.clone();
        async move {
            let request = wire::StopRequest {
                r#ref: at("web"),
                grace: None,
            };
            // The connection breaks with the daemon.
            drop(pods(&ann).stop(request).await);
        }
    });
    until(&ann, "web", "stopping", |status| status.stopping).await;
    node.kill_daemon();
    stopping.await.unwrap();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let ended = |status: &wire::PodStatus| matches!(status.phase(), Phase::Failed);
    let status = until(&ann, "web", "ended", ended).await;
    assert_eq!(how(&status), EXITED, "{status:#?}");
    assert_eq!(logs(&ann, "web/polite/main").await, "begun\nterm\n");
    assert_eq!(
        exec(&ann, "web/look", "grep -q hook /mnt/hook").await,
        EXITED
    );
    let stop = wire::StopRequest {
        r#ref: at("deaf"),
        grace: None,
    };
    let status = pods(&ann).stop(stop).await.unwrap().into_inner();
    let killed = Some(runtime::exit::How::Signal(9));
    assert_eq!(how(&status), killed, "{status:#?}");
    remove(&ann, "deaf", false).await.unwrap();
    remove(&ann, "web", false).await.unwrap();
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn files_of_the_spec_are_read_only_and_folders_of_the_node_are_administrators() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let (administrator, ann) = people(&node).await;
    let files = wire::FilesVolume {
        files: [("conf/a".to_owned(), "settings".to_owned())].into(),
        ..Default::default()
    };
    let script =
        "[ $(cat /mnt/conf/a) = settings ] && ! touch /mnt/b && grep -q '10.1.2.3 db' /etc/hosts";
    let mut files_spec = wire::PodSpec {
        host_aliases: vec![wire::HostAlias {
            ip: "10.1.2.3".to_owned(),
            names: vec!["db".to_owned()],
        }],
        ..spec(vec![container("app", script)])
    };
    files_spec.volumes[0].source = Some(wire::volume::Source::Files(files));
    let status = run(&ann, "conf", files_spec, WaitFor::Ended).await.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");

    std::fs::write(node.folder().join("file"), "of the node").unwrap();
    let host = wire::HostVolume {
        path: node.folder().display().to_string(),
        r#type: wire::host_volume::Type::Folder.into(),
        ..Default::default()
    };
    let mut host_spec = spec(vec![container("app", "cat /mnt/file")]);
    host_spec.volumes[0].source = Some(wire::volume::Source::Host(host));
    let member = administrator.introduce(&node, "acme", "mia", None).await;
    let mut disk_spec = spec(vec![container("app", "true")]);
    disk_spec.volumes[0].source = Some(wire::volume::Source::Empty(wire::EmptyVolume {
        medium: wire::empty_volume::Medium::Disk.into(),
        size_bytes: None,
    }));
    for (kind, spec) in [("host", host_spec.clone()), ("empty.medium", disk_spec)] {
        let refused = run(&member, "refused", spec, WaitFor::Ended).await;
        let refused = from_status(&refused.unwrap_err());
        assert_eq!(refused.reason, Some(Reason::PermissionDenied), "{kind}");
        let field = format!("pod.spec.volumes[0].{kind}");
        assert_eq!(refused.field, Some(field), "{refused:?}");
    }
    let status = run(&administrator, "host", host_spec, WaitFor::Ended).await;
    assert_eq!(status.unwrap().phase(), Phase::Succeeded);
    assert_eq!(logs(&administrator, "host/app/main").await, "of the node");
    node.stop();
}

async fn a_port_is_reached_from_outside_and_a_pod_is_its_tenants_alone(node: TestNode) {
    let (administrator, ann) = people(&node).await;
    let eve = administrator.introduce(&node, "evil", "eve", None).await;
    let app = container(
        "app",
        "echo hello > /mnt/page; exec /bin/busybox httpd -f -p 80 -h /mnt",
    );
    run(&ann, "web", spec(vec![app]), WaitFor::Ready)
        .await
        .unwrap();
    let start = |path: Option<ObjectRef>, port: u32| {
        let start = wire::DialStart { r#ref: path, port };
        wire::DialRequest {
            message: Some(wire::dial_request::Message::Start(start)),
        }
    };
    let get = b"GET /page HTTP/1.0\r\n\r\n".to_vec();
    let ask = move || wire::DialRequest {
        message: Some(wire::dial_request::Message::Data(get.clone())),
    };
    let begun = Instant::now();
    let text = loop {
        let asked = tokio_stream::iter([start(at("web"), 80), ask()]);
        let mut text = Vec::new();
        if let Ok(answers) = pods(&ann).dial(asked).await {
            let mut answers = answers.into_inner();
            while let Ok(Some(answer)) = answers.message().await {
                text.extend(answer.data);
            }
        }
        // The program may not listen yet.
        if !text.is_empty() || begun.elapsed() > SOON {
            break String::from_utf8_lossy(&text).into_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(
        text.contains("200 OK") && text.ends_with("hello\n"),
        "{text}"
    );
    let closed = pods(&ann)
        .dial(tokio_stream::iter([start(at("web"), 81)]))
        .await;
    assert_eq!(reason(&closed.unwrap_err()), Some(Reason::WrongState));
    let mut other = at("web");
    other.as_mut().unwrap().tenant = "system".to_owned();
    let hidden = pods(&eve)
        .dial(tokio_stream::iter([start(other, 80)]))
        .await;
    assert_eq!(reason(&hidden.unwrap_err()), Some(Reason::NotFound));
    let list = wire::ListRequest::default();
    let seen = pods(&eve).list(list.clone()).await.unwrap().into_inner();
    assert_eq!(seen.pods.len(), 0);
    let seen = pods(&ann).list(list).await.unwrap().into_inner();
    assert_eq!(seen.pods.len(), 1);
    node.stop();
}

/// An image of busybox, whose entrypoint is its shell.
pub(crate) fn busybox() -> Vec<u8> {
    crate::images::archive(IMAGE, &[busybox_layer()])
}

pub(crate) fn busybox_layer() -> Vec<u8> {
    let program = std::fs::read("/bin/busybox").unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    let files: [(&str, &[u8]); 2] = [("bin/busybox", &program), ("data/of-image", b"x")];
    for (path, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, path, data).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) const IMAGE: &str = "registry.test/demo/busybox:v1";

async fn containers_of_images_have_roots_of_their_own_and_share_what_the_pod_has(
    mut node: TestNode,
) {
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    let of_image = |name: &str, script: &str| wire::Container {
        image: IMAGE.to_owned(),
        mounts: vec![wire::VolumeMount {
            volume: "shared".to_owned(),
            path: "/work".to_owned(),
            ..Default::default()
        }],
        ..container(name, script)
    };
    let init = "echo $$$$ > /work/pid; cat /data/of-image > /work/init; touch /mine";
    let web = "echo page > /work/page; exec /bin/busybox httpd -f -p 8080 -h /work";
    let look = "set -ex; export PATH=/bin; busybox test ! -e /mine
        busybox test $(busybox cat /work/pid) = 1; busybox test -e /work/init
        until busybox wget -qO /work/got http://localhost:8080/page; do busybox sleep 0.1; done
        busybox test $(busybox hostname) = web; busybox touch /work/looked; busybox sleep 900";
    let spec = wire::PodSpec {
        init_containers: vec![of_image("init", init)],
        ..spec(vec![of_image("web", web), of_image("look", look)])
    };
    run(&ann, "web", spec, WaitFor::Ready).await.unwrap();
    let looked = "[ -e /work/looked ]";
    let begun = Instant::now();
    while exec(&ann, "web/web", looked).await != EXITED {
        let said = logs(&ann, "web").await;
        let status = get(&ann, "web").await;
        assert!(begun.elapsed() < SOON, "{said} {status:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    until(&ann, "web", "ready", |status| status.ready).await;
    let missing = wire::Container {
        image: "registry.test/demo/none:v1".to_owned(),
        pull: wire::PullPolicy::Never.into(),
        ..of_image("app", "true")
    };
    let spec = self::spec(vec![missing]);
    run(&ann, "none", spec, WaitFor::Created).await.unwrap();
    let refused = |status: &wire::PodStatus| status.containers[0].state() == State::BackingOff;
    let status = until(&ann, "none", "refused", refused).await;
    assert_eq!(status.phase(), Phase::Pending);
    let message = &status.containers[0].message;
    assert!(message.contains("demo/none"), "{message}");
    for path in ["web", "none"] {
        remove(&ann, path, true).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}
