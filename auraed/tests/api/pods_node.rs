// SPDX-License-Identifier: Apache-2.0
//! Pods of administrators that reach out to a real node: its processes, its IPC, its devices. And
//! what even root of such a pod, with every capability that it can have, doesn't do to the node.

use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use api::status::{Reason, from_status};
use wire::WaitFor;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods::{
    EXITED, IMAGE, assert_clean, busybox, exec, exec_as, people, remove, run, shell, spec,
};

/// It stays until it is asked to go.
const STAYS: &str = "trap 'exit 0' TERM; while :; do busybox sleep 1; done";

fn of_image(name: &str, script: &str) -> wire::Container {
    wire::Container {
        name: name.to_owned(),
        image: IMAGE.to_owned(),
        entrypoint: shell(script),
        ..Default::default()
    }
}

/// All that a container can be given.
pub(crate) fn powerful(name: &str) -> wire::Container {
    wire::Container {
        add_capabilities: vec!["ALL".to_owned()],
        unconfined: true,
        unmasked: true,
        all_devices: true,
        ..of_image(name, STAYS)
    }
}

fn of_node(containers: Vec<wire::Container>) -> wire::PodSpec {
    wire::PodSpec {
        host_pid: true,
        host_ipc: true,
        volumes: Vec::new(),
        ..spec(containers)
    }
}

pub(crate) async fn bed() -> Option<(TestNode, Person)> {
    let node = TestNode::start()?;
    let (_, ann) = people(&node).await;
    crate::images::import(&ann, &busybox()).await.unwrap();
    Some((node, ann))
}

/// A program beside the main one, with all that the main one has.
pub(crate) async fn with_all(
    person: &Person,
    cell: &str,
    script: &str,
) -> Option<runtime::exit::How> {
    let spec = runtime::ExecutableSpec {
        capabilities: Some(runtime::Capabilities {
            bounding: vec!["ALL".to_owned()],
            ambient: Vec::new(),
        }),
        seccomp: Some(runtime::Seccomp {
            profile: runtime::seccomp::Profile::Unconfined.into(),
            ..Default::default()
        }),
        auto_remove: true,
        ..Default::default()
    };
    exec_as(person, cell, script, spec).await
}

#[tokio::test]
async fn a_pod_of_the_nodes_processes_and_ipc_sees_them_and_outlives_the_daemon() {
    let Some((mut node, ann)) = bed().await else {
        return;
    };
    let of_node = of_node(vec![of_image("app", STAYS), of_image("other", STAYS)]);
    let within = run(&ann, "own/inner", of_node.clone(), WaitFor::Created).await;
    let refused = from_status(&within.unwrap_err());
    assert_eq!(refused.field.as_deref(), Some("pod.spec.host_pid"));
    run(&ann, "agent", of_node, WaitFor::Ready).await.unwrap();
    let ns = |kind: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}"));
        link.unwrap().display().to_string()
    };
    let here = std::process::id();
    let sees = format!(
        "[ $(busybox readlink /proc/self/ns/pid) = {} ] || exit 1; \
         [ $(busybox readlink /proc/self/ns/ipc) = {} ] || exit 2; \
         busybox grep -q . /proc/{here}/status && [ $$ != 1 ] || exit 3; \
         busybox grep -q ' /dev/mqueue mqueue ' /proc/mounts || exit 4",
        ns("pid"),
        ns("ipc"),
    );
    for container in ["agent/app", "agent/other"] {
        assert_eq!(exec(&ann, container, &sees).await, EXITED, "{container}");
    }
    // The main processes are found by the next daemon, among all of the node's.
    node.kill_daemon();
    let ann = Person::new(ann.target.clone(), ann.serial.clone()).await;
    let found = crate::pods::get(&ann, "agent").await;
    assert!(
        found.containers.iter().all(|it| it.restarts == 0),
        "{found:?}"
    );
    assert_eq!(exec(&ann, "agent/app", &sees).await, EXITED);
    remove(&ann, "agent", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

/// Root of the pod has every capability in the pod's user namespace, no filter, nothing masked and
/// all devices. The node's processes are in another user namespace.
#[tokio::test]
async fn root_of_a_pod_that_sees_the_nodes_processes_does_nothing_to_them() {
    let Some((node, ann)) = bed().await else {
        return;
    };
    let of_node = of_node(vec![powerful("app"), of_image("victim", STAYS)]);
    run(&ann, "agent", of_node, WaitFor::Ready).await.unwrap();
    // The control: it does all that to a process of its own pod.
    let own = "for p in /proc/[0-9]*; do \
               [ $(busybox readlink $p/ns/user || echo no) = $(busybox readlink /proc/self/ns/user) ] \
               && [ \"$(busybox cut -d: -f3- $p/cgroup)\" != \
               \"$(busybox cut -d: -f3- /proc/self/cgroup)\" ] \
               && busybox grep -q sleep $p/cmdline && echo ${p#/proc/} && break; done";
    let does = |pid: &str| {
        format!(
            "p={pid}; [ -n \"$p\" ] || exit 90; \
             busybox head -c 1 /proc/$p/environ >/dev/null && echo 500 > /proc/$p/oom_score_adj \
             && busybox ls /proc/$p/root/ >/dev/null && busybox kill -STOP $p && \
             busybox kill -CONT $p"
        )
    };
    let control = does(&format!("$({own})"));
    assert_eq!(with_all(&ann, "agent/app", &control).await, EXITED);
    let (daemon, init) = (node.daemon(), std::process::id().to_string());
    let kills = |pid: &str| {
        format!(
            "busybox grep -q . /proc/{pid}/comm || exit 9; \
             busybox kill -KILL {pid} && exit 1; busybox kill -STOP {pid} && exit 2; \
             busybox head -c 1 /proc/{pid}/environ >/dev/null && exit 3; \
             echo 1000 > /proc/{pid}/oom_score_adj && exit 4; \
             busybox ls /proc/{pid}/root/ && exit 5; \
             busybox nsenter -t {pid} -m busybox true && exit 6; \
             busybox nsenter -t {pid} -U busybox true && exit 7; \
             busybox renice 19 -p {pid} && exit 8; \
             busybox head -c 1 /proc/{pid}/mem && exit 10; \
             busybox readlink /proc/{pid}/exe && exit 11; true"
        )
    };
    for pid in [daemon.as_str(), init.as_str(), "1"] {
        assert_eq!(
            with_all(&ann, "agent/app", &kills(pid)).await,
            EXITED,
            "{pid}"
        );
    }
    let kernel = "for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern \
                  /proc/sys/kernel/pid_max /proc/sys/vm/drop_caches; do \
                  busybox umount $f 2>/dev/null; echo 1 > $f && exit 1; done; true";
    assert_eq!(with_all(&ann, "agent/app", kernel).await, EXITED);
    assert_eq!(node.daemon(), daemon);
    remove(&ann, "agent", true).await.unwrap();
    node.stop();
}

#[tokio::test]
async fn a_privileged_container_has_every_device_and_may_mount() {
    let Some((node, ann)) = bed().await else {
        return;
    };
    let mut pod = spec(vec![powerful("strong"), of_image("plain", STAYS)]);
    pod.volumes.clear();
    run(&ann, "pod", pod, WaitFor::Ready).await.unwrap();
    let devices = "true <>/dev/fuse && true <>/dev/net/tun && [ -c /dev/kmsg ] && \
                   [ $(busybox stat -c %u:%g /dev/fuse) = 0:0 ] && echo > /dev/null";
    let mounts = "busybox mkdir -p /tmp/m && busybox mount -t tmpfs m /tmp/m";
    let both = format!("{devices} && {mounts}");
    assert_eq!(with_all(&ann, "pod/strong", &both).await, EXITED);
    // Beside it there is none of them, nor does a node that it made open one.
    let none = "[ ! -e /dev/fuse ] && [ ! -e /dev/kmsg ] && ! busybox mknod /tmp/f c 10 229";
    assert_eq!(with_all(&ann, "pod/plain", none).await, EXITED);
    remove(&ann, "pod", true).await.unwrap();
    assert_clean(&node);
    node.stop();
}

#[tokio::test]
async fn what_reaches_out_to_the_node_is_refused_to_a_member_by_its_field() {
    // No image is here, and no registry is reached: nothing is asked for what is refused.
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let mia = administrator.introduce(&node, "acme", "mia", None).await;
    let plain = || of_image("app", STAYS);
    let device = runtime::Device {
        path: "/dev/fuse".to_owned(),
        ..Default::default()
    };
    let of_pod = [
        (
            "host_pid",
            wire::PodSpec {
                host_pid: true,
                ..spec(vec![plain()])
            },
        ),
        (
            "host_ipc",
            wire::PodSpec {
                host_ipc: true,
                ..spec(vec![plain()])
            },
        ),
    ];
    let of_container = [
        (
            "devices",
            wire::Container {
                devices: vec![device],
                ..plain()
            },
        ),
        (
            "all_devices",
            wire::Container {
                all_devices: true,
                ..plain()
            },
        ),
        (
            "unmasked",
            wire::Container {
                unmasked: true,
                ..plain()
            },
        ),
    ];
    let of_container = of_container.map(|(field, container)| {
        let spec = spec(vec![plain_named("first"), container]);
        (format!("containers[1].{field}"), spec)
    });
    let of_pod = of_pod.map(|(field, spec)| (field.to_owned(), spec));
    for (field, spec) in of_pod.into_iter().chain(of_container) {
        let refused = run(&mia, "web", spec, WaitFor::Created).await.unwrap_err();
        let refused = from_status(&refused);
        assert_eq!(
            refused.reason,
            Some(Reason::PermissionDenied),
            "{refused:?}"
        );
        assert_eq!(refused.field, Some(format!("pod.spec.{field}")));
    }
    node.stop();
}

fn plain_named(name: &str) -> wire::Container {
    of_image(name, STAYS)
}
