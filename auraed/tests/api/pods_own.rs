// SPDX-License-Identifier: Apache-2.0
//! What containers of pods have of their own or in common, as users of Kubernetes ask for it: the
//! size of a root, users that are not root, processes, facts, probes.

use api::pod::v0 as wire;
use api::pod::v0::container_status::State;
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, IMAGE, assert_clean, busybox, container, exec, logs, people, remove, run, spec, until,
    until_logged,
};

fn of_image(name: &str, script: &str) -> wire::Container {
    wire::Container {
        image: IMAGE.to_owned(),
        mounts: Vec::new(),
        ..container(name, script)
    }
}

crate::pods::in_each_class! {
    a_root_has_its_size_and_a_container_that_must_not_be_root_isnt,
    containers_see_each_others_processes_where_the_pod_shares_them,
    a_container_is_told_the_labels_of_its_pod,
    a_pod_has_parameters_of_its_own_namespaces_alone,
}

async fn a_root_has_its_size_and_a_container_that_must_not_be_root_isnt(node: TestNode) {
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    let fills = "busybox dd if=/dev/zero of=/all bs=1M count=64 2>/dev/null && exit 9
        busybox test $(busybox stat -c %s /all) -le 8388608";
    let mut small = of_image("app", &format!("export PATH=/bin; {fills}"));
    small.root_bytes = Some(8 << 20);
    let status = run(&ann, "small", spec(vec![small]), WaitFor::Ended).await;
    let status = status.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    // The image says no user, which is root.
    let mut root = of_image("app", "exit 0");
    root.non_root = true;
    let mut user = root.clone();
    user.user = "1000".to_owned();
    let status = run(&ann, "user", spec(vec![user]), WaitFor::Ended).await;
    let status = status.unwrap();
    assert_eq!(status.phase(), Phase::Succeeded, "{status:#?}");
    let status = run(&ann, "root", spec(vec![root]), WaitFor::Ended).await;
    let status = status.unwrap();
    assert_eq!(status.phase(), Phase::Failed, "{status:#?}");
    let message = &status.containers[0].message;
    assert!(
        message.contains("non_root") && message.contains("the image's user is root"),
        "{message}"
    );
    for path in ["small", "user", "root"] {
        remove(&ann, path, false).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}

async fn containers_see_each_others_processes_where_the_pod_shares_them(mut node: TestNode) {
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    let look = "export PATH=/bin; busybox test $$ != 1 || exit 8
        until busybox ps | busybox grep -q '[s]leep 43211'; do busybox sleep 0.1; done
        busybox ps | busybox grep -q '[4]3212' && exit 7
        busybox ps | while read pid rest; do
            case $rest in *'sleep 4321'1*) kill $pid;; esac
        done
        echo seen; exec busybox sleep 43213";
    let sleeps = "export PATH=/bin; exec busybox sleep 43211";
    let pod = wire::PodSpec {
        share_processes: true,
        restart_policy: wire::RestartPolicy::Never.into(),
        ..spec(vec![of_image("look", look), of_image("sleeps", sleeps)])
    };
    // Another pod's are its own.
    let other = spec(vec![container("app", "exec sleep 43212")]);
    run(&ann, "other", other, WaitFor::Ready).await.unwrap();
    run(&ann, "web", pod, WaitFor::Created).await.unwrap();
    let killed = |status: &wire::PodStatus| {
        let sleeps = &status.containers[1];
        sleeps.state() == State::Ended && sleeps.last_exit.is_some()
    };
    let status = until(&ann, "web", "killed by its neighbour", killed).await;
    let how = status.containers[1].last_exit.as_ref().unwrap().how;
    assert_eq!(how, Some(api::runtime::v0::exit::How::Signal(15)));
    // A program beside it has the same view and what the main one has: it waits for what that
    // becomes after it has said what it has seen.
    let ps = "export PATH=/bin; for i in $(busybox seq 300); do
        busybox ps | busybox grep -q '[s]leep 43213' && exit 0; busybox sleep 0.1; done; exit 1";
    assert_eq!(
        crate::pods::exec(&ann, "web/sleeps", ps).await,
        crate::pods::EXITED
    );
    until_logged(&ann, "web/look/main", "seen\n").await;
    node.kill_daemon();
    let ann = crate::caller::Person::new(ann.target.clone(), ann.serial.clone()).await;
    assert_eq!(
        crate::pods::exec(&ann, "web/look", ps).await,
        crate::pods::EXITED
    );
    for path in ["web", "other"] {
        remove(&ann, path, true).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}

async fn a_container_is_told_the_labels_of_its_pod(node: TestNode) {
    let (_, ann) = people(&node).await;
    let mut app = container("app", "echo $APP of $NONE.");
    app.env = [("APP", "app"), ("NONE", "none")]
        .map(|(name, key)| wire::EnvVar {
            name: name.to_owned(),
            from: Some(wire::env_var::From::Label(key.to_owned())),
        })
        .into();
    let request = wire::RunRequest {
        pod: Some(wire::Pod {
            r#ref: crate::pods::at("web"),
            labels: [("app".to_owned(), "shop".to_owned())].into(),
            spec: Some(spec(vec![app])),
        }),
        wait_for: WaitFor::Ended.into(),
        ..Default::default()
    };
    let ran = crate::pods::pods(&ann).run(request).await.unwrap();
    assert_eq!(ran.into_inner().phase(), Phase::Succeeded);
    assert_eq!(logs(&ann, "web/app/main").await, "shop of .\n");
    remove(&ann, "web", false).await.unwrap();
    assert_clean(&node);
    node.stop();
}

async fn a_pod_has_parameters_of_its_own_namespaces_alone(node: TestNode) {
    let (_, ann) = people(&node).await;
    let port = "net.ipv4.ip_unprivileged_port_start";
    let machine = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let read = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start";
    let of = |name: &str| wire::PodSpec {
        sysctls: [(name.to_owned(), "7".to_owned())].into(),
        ..spec(vec![container("one", read), container("two", read)])
    };
    let ran = run(&ann, "web", of(port), WaitFor::Ended).await.unwrap();
    assert_eq!(ran.phase(), Phase::Succeeded, "{ran:#?}");
    for container in ["one", "two"] {
        assert_eq!(logs(&ann, &format!("web/{container}/main")).await, "7\n");
    }
    let after = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    assert_eq!(machine.unwrap(), after.unwrap());
    let refused = run(&ann, "no", of("vm.swappiness"), WaitFor::Ended).await;
    let refused = api::status::from_status(&refused.unwrap_err());
    let field = "pod.spec.sysctls[\"vm.swappiness\"]";
    assert_eq!(refused.field.as_deref(), Some(field), "{refused:?}");
    remove(&ann, "web", false).await.unwrap();
    assert_clean(&node);
    node.stop();
}

/// A folder of the node with one filter, which keeps programs from making folders.
fn filters() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let filter = r#"{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        { "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5 } ] }"#;
    std::fs::write(folder.path().join("no-folders.json"), filter).unwrap();
    folder
}

#[tokio::test]
async fn a_container_has_the_filter_that_a_file_of_the_node_says() {
    let folder = filters();
    let setting = format!("runtime.seccomp_profiles={}", folder.path().display());
    let Some(node) = TestNode::start_with(&[&setting]) else {
        return;
    };
    let (administrator, ann) = people(&node).await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let with = |name: &str| {
        let mut app = container("app", "touch /tmp/a && ! mkdir /tmp/b");
        app.seccomp_profile = name.to_owned();
        spec(vec![app])
    };
    let ran = run(&ann, "web", with("no-folders.json"), WaitFor::Ended).await;
    let ran = ran.unwrap();
    assert_eq!(ran.phase(), Phase::Succeeded, "{ran:#?}");
    // Without it the same program may.
    let plain = run(&ann, "plain", with(""), WaitFor::Ended).await.unwrap();
    assert_eq!(plain.phase(), Phase::Failed, "{plain:#?}");
    let none = run(&ann, "none", with("none.json"), WaitFor::Ended).await;
    let none = none.unwrap();
    let message = &none.containers[0].message;
    assert!(message.contains("none.json"), "{none:#?}");
    let refused = run(&mia, "web", with("no-folders.json"), WaitFor::Ended).await;
    let refused = api::status::from_status(&refused.unwrap_err());
    let field = "pod.spec.containers[0].seccomp_profile";
    assert_eq!(refused.field.as_deref(), Some(field), "{refused:?}");
    for path in ["web", "plain", "none"] {
        remove(&ann, path, false).await.unwrap();
    }
    assert_clean(&node);
    node.stop();
}

/// As with `kubectl exec`: what runs beside has the rights that the container was given, neither
/// more nor less.
#[tokio::test]
async fn what_runs_beside_has_the_capabilities_and_the_filter_of_the_main_process() {
    let folder = filters();
    let setting = format!("runtime.seccomp_profiles={}", folder.path().display());
    let Some(mut node) = TestNode::start_with(&[&setting]) else {
        return;
    };
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    let stays = "trap 'exit 0' TERM; while :; do busybox sleep 1; done";
    let weak = wire::Container {
        drop_capabilities: vec!["ALL".to_owned()],
        no_new_privileges: Some(true),
        ..of_image("weak", stays)
    };
    let strong = wire::Container {
        add_capabilities: vec!["SYS_TIME".to_owned()],
        ..of_image("strong", stays)
    };
    let filtered = wire::Container {
        seccomp_profile: "no-folders.json".to_owned(),
        ..of_image("filtered", stays)
    };
    let pod = spec(vec![weak, strong, of_image("plain", stays), filtered]);
    run(&ann, "web", pod, WaitFor::Ready).await.unwrap();
    // The main process is PID 1 of its container.
    let same = "[ \"$(busybox grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status)\" = \
                \"$(busybox grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/1/status)\" ]";
    for name in ["weak", "strong", "plain"] {
        let how = exec(&ann, &format!("web/{name}"), same).await;
        assert_eq!(how, EXITED, "{name}");
    }
    let none = "busybox grep -q 'CapBnd:.0000000000000000' /proc/self/status && \
                busybox grep -q 'NoNewPrivs:.1' /proc/self/status";
    assert_eq!(exec(&ann, "web/weak", none).await, EXITED);
    let makes = "busybox mkdir /folder";
    assert_eq!(exec(&ann, "web/plain", makes).await, EXITED);
    let fails = format!("! {makes} && busybox touch /file");
    assert_eq!(exec(&ann, "web/filtered", &fails).await, EXITED);
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    assert_eq!(exec(&ann, "web/filtered", &fails).await, EXITED);
    remove(&ann, "web", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}
