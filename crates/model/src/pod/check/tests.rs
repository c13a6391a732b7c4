// SPDX-License-Identifier: Apache-2.0
//! What a pod's spec may not say, by the field that is named.

use std::time::Duration;

use super::*;
use crate::pod::PodSpec;
use crate::pod::probe::{Ask, Hook, Probe, Tcp};

fn pod() -> Draft {
    let container = |name: &str| Container {
        name: name.to_owned(),
        entrypoint: vec!["true".to_owned()],
        ..Container::default()
    };
    Draft {
        containers: vec![container("app")],
        init_containers: vec![container("init")],
        volumes: vec![Volume {
            name: "data".to_owned(),
            source: Source::Empty(Empty::default()),
        }],
        ..Draft::default()
    }
}

fn mount(volume: &str, path: &str, sub_path: &str) -> VolumeMount {
    VolumeMount {
        volume: volume.to_owned(),
        path: path.to_owned(),
        sub_path: sub_path.to_owned(),
        read_only: false,
    }
}

fn probe() -> Probe {
    Probe {
        ask: Ask::Tcp(Tcp {
            port: 80,
            host: None,
        }),
        initial_delay: None,
        period: None,
        timeout: None,
        success_threshold: None,
        failure_threshold: None,
        grace: None,
    }
}

type Change = fn(&mut Draft);

#[test]
fn what_cant_be_is_refused_by_the_fields_path() {
    let cases: [(&str, Change); 17] = [
        ("containers", |pod| pod.containers.clear()),
        ("containers", |pod| {
            pod.containers = vec![Container::default(); 40]
        }),
        ("containers[0].name", |pod| {
            pod.containers[0].name = "init".into()
        }),
        ("containers[0].name", |pod| {
            pod.containers[0].name = "A".into()
        }),
        ("containers[0].entrypoint", |pod| {
            pod.containers[0].entrypoint.clear()
        }),
        ("containers[0].user", |pod| {
            pod.containers[0].user = "-".into()
        }),
        ("containers[0].sidecar", |pod| {
            pod.containers[0].sidecar = true
        }),
        ("init_containers[0].liveness", |pod| {
            pod.init_containers[0].liveness = Some(probe());
        }),
        ("containers[0].liveness.success_threshold", |pod| {
            let success_threshold = Some(2);
            let twice = Probe {
                success_threshold,
                ..probe()
            };
            pod.containers[0].liveness = Some(twice);
        }),
        ("containers[0].readiness.tcp.port", |pod| {
            pod.containers[0].readiness = Some(Probe {
                ask: Ask::Tcp(Tcp::default()),
                ..probe()
            });
        }),
        ("containers[0].pre_stop.exec.argv", |pod| {
            pod.containers[0].pre_stop = Some(Hook::Exec(Vec::new()));
        }),
        ("containers[0].mounts[0].volume", |pod| {
            pod.containers[0].mounts = vec![mount("none", "/a", "")];
        }),
        ("containers[0].mounts[0].path", |pod| {
            pod.containers[0].mounts = vec![mount("data", "/proc/a", "")];
        }),
        ("containers[0].mounts[0].sub_path", |pod| {
            pod.containers[0].mounts = vec![mount("data", "/a", "../b")];
        }),
        ("containers[0].add_capabilities[0]", |pod| {
            pod.containers[0].add_capabilities = vec!["FLY".into()];
        }),
        ("volumes[0].files.files[\"/x\"]", |pod| {
            let files = [("/x".to_owned(), String::new())].into();
            pod.volumes[0].source = Source::Files(Files {
                files,
                ..Files::default()
            });
        }),
        ("", |pod| {
            let files = [("x".to_owned(), "y".repeat(MAX_WEIGHT))].into();
            pod.volumes[0].source = Source::Files(Files {
                files,
                ..Files::default()
            });
        }),
    ];
    PodSpec::try_from(pod()).unwrap();
    all_refused(&cases);
}

#[test]
fn what_a_container_cant_have_is_refused_by_the_fields_path() {
    let cases: [(&str, Change); 9] = [
        ("containers[0].seccomp_profile", |pod| {
            pod.containers[0].seccomp_profile = "../a.json".into();
        }),
        ("containers[0].seccomp_profile", |pod| {
            pod.containers[0].seccomp_profile = "a.json".into();
            pod.containers[0].unconfined = true;
        }),
        ("sysctls[\"a b\"]", |pod| {
            pod.sysctls = [("a b".into(), "1".into())].into();
        }),
        ("sysctls[\"net.core.somaxconn\"]", |pod| {
            pod.sysctls = [("net.core.somaxconn".into(), "1".into())].into();
            pod.host_network = true;
        }),
        ("containers[0].readiness.grace", |pod| {
            let grace = Some(Duration::from_secs(5));
            pod.containers[0].readiness = Some(Probe { grace, ..probe() });
        }),
        ("containers[0].liveness.grace", |pod| {
            let grace = Some(Duration::ZERO);
            pod.containers[0].liveness = Some(Probe { grace, ..probe() });
        }),
        ("containers[0].root_bytes", |pod| {
            pod.containers[0].root_bytes = Some(1 << 20);
        }),
        ("containers[0].root_bytes", |pod| {
            pod.containers[0].image = "nginx".into();
            pod.containers[0].root_bytes = Some(1);
        }),
        ("containers[0].termination_message_path", |pod| {
            pod.containers[0].termination_message_path = "/dev/termination-log".into();
        }),
    ];
    all_refused(&cases);
}

#[test]
fn volumes_that_cant_be_are_refused_by_the_fields_path() {
    let cases: [(&str, Change); 6] = [
        ("volumes[0].host.owner_gid", |pod| {
            pod.volumes[0].source = Source::Host(Host {
                path: "/srv".into(),
                owner_gid: Some(1),
                ..Host::default()
            });
        }),
        ("volumes[0].host.owner_uid", |pod| {
            pod.volumes[0].source = Source::Host(Host {
                path: "/".into(),
                owner_uid: Some(1),
                ..Host::default()
            });
        }),
        ("fs_group", |pod| pod.fs_group = Some(DEFAULT_ID_RANGE)),
        ("volumes[0].empty.size_bytes", |pod| {
            let (medium, size_bytes) = (Medium::Disk, Some(1 << 20));
            pod.volumes[0].source = Source::Empty(Empty { medium, size_bytes });
        }),
        ("volumes[0].empty.size_bytes", |pod| {
            let (medium, size_bytes) = (Medium::Memory, Some(1));
            pod.volumes[0].source = Source::Empty(Empty { medium, size_bytes });
        }),
        ("volumes[0].files.files[\"..data\"]", |pod| {
            let files = [("..data".to_owned(), String::new())].into();
            pod.volumes[0].source = Source::Files(Files {
                files,
                ..Files::default()
            });
        }),
    ];
    all_refused(&cases);
}

fn all_refused(cases: &[(&str, Change)]) {
    for (field, change) in cases {
        let mut draft = pod();
        change(&mut draft);
        let error = PodSpec::try_from(draft).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(*field), "{error}");
    }
}

#[test]
fn a_record_reads_as_the_spec_that_was_written() {
    let mut draft = pod();
    draft.containers[0].liveness = Some(probe());
    draft.containers[0].mounts = vec![mount("data", "/a", "b/c")];
    let spec = PodSpec::try_from(draft).unwrap();
    let json = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<PodSpec>(&json).unwrap(), spec);
    assert!(!json.contains("null"), "{json}");
}
