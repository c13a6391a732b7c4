// SPDX-License-Identifier: Apache-2.0
//! What a pod's spec may not say, by the field that is named.

use std::time::Duration;

use super::*;
use crate::pod::PodSpec;
use crate::pod::env::Fact;
use crate::pod::probe::{Ask, Hook, Probe, Tcp};
use crate::pod::told::{FileFact, Said};
use crate::pod::volume::{Empty, Files, Host, Medium, Source, Volume, VolumeMount};

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
        ..VolumeMount::default()
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

fn fuse(target: &str) -> crate::device::Device {
    crate::device::Device {
        path: "/dev/fuse".into(),
        target: target.into(),
        ..Default::default()
    }
}

#[test]
fn what_a_container_cant_have_is_refused_by_the_fields_path() {
    let cases: [(&str, Change); 16] = [
        ("share_processes", |pod| {
            pod.share_processes = true;
            pod.host_pid = true;
        }),
        ("sysctls[\"kernel.sem\"]", |pod| {
            pod.sysctls = [("kernel.sem".into(), "1".into())].into();
            pod.host_ipc = true;
        }),
        ("containers[0].devices", |pod| {
            pod.containers[0].devices = vec![fuse("/dev/fuse")];
        }),
        ("containers[0].devices[0].target", |pod| {
            pod.containers[0].image = "nginx".into();
            pod.containers[0].devices = vec![fuse("/srv/fuse")];
        }),
        ("containers[0].all_devices", |pod| {
            pod.containers[0].all_devices = true;
        }),
        ("containers[0].unmasked", |pod| {
            pod.containers[0].unmasked = true;
        }),
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
        ("containers[0].root_on_disk", |pod| {
            pod.containers[0].root_on_disk = true;
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
            let (medium, size_bytes) = (Medium::Disk, Some((16 << 20) - 1));
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

fn fact(path: &str, from: Said) -> FileFact {
    FileFact {
        path: path.to_owned(),
        from,
    }
}

fn of_files(pod: &mut Draft, change: fn(&mut Files)) {
    let mut files = Files {
        files: [("a".to_owned(), "1".to_owned())].into(),
        facts: vec![fact("labels", Said::Labels)],
        ..Files::default()
    };
    change(&mut files);
    pod.volumes[0].source = Source::Files(files);
}

fn put(files: &mut Files, path: &str) {
    files.files.insert(path.to_owned(), String::new());
}

#[test]
fn files_that_cant_be_beside_each_other_are_refused_by_the_fields_path() {
    let cases: [(&str, Change); 15] = [
        ("volumes[0].files.facts[0].path", |pod| {
            of_files(pod, |it| put(it, "labels"));
        }),
        ("volumes[0].files.facts[1].path", |pod| {
            of_files(pod, |it| it.facts.push(it.facts[0].clone()));
        }),
        ("volumes[0].files.facts[0].path", |pod| {
            of_files(pod, |it| put(it, "labels/b"));
        }),
        // Between them stands another one.
        ("volumes[0].files.files[\"a\"]", |pod| {
            of_files(pod, |it| {
                ["a-b", "a/b"].iter().for_each(|path| put(it, path))
            });
        }),
        ("volumes[0].files.facts[0].path", |pod| {
            of_files(pod, |it| it.facts[0].path = "../x".into());
        }),
        ("volumes[0].files.facts[0].path", |pod| {
            of_files(pod, |it| it.facts[0].path = "..data".into());
        }),
        ("volumes[0].files.facts[0].path", |pod| {
            of_files(pod, |it| it.facts[0].path = "/x".into());
        }),
        ("volumes[0].files.facts[0].path", |pod| {
            of_files(pod, |it| it.facts[0].path.clear());
        }),
        ("volumes[0].files.facts[0].fact", |pod| {
            of_files(pod, |it| it.facts[0].from = Said::Fact(Fact::HostIp));
        }),
        ("volumes[0].files.facts[0].label", |pod| {
            of_files(pod, |it| it.facts[0].from = Said::Label("a b".into()));
        }),
        ("volumes[0].files.files", |pod| {
            of_files(pod, |it| (0..64).for_each(|i| put(it, &format!("f{i}"))));
        }),
        ("volumes[0].files.modes[\"a\"]", |pod| {
            of_files(pod, |it| it.modes = [("a".into(), 0o4755)].into());
        }),
        ("volumes[0].files.modes[\"../a\"]", |pod| {
            of_files(pod, |it| it.modes = [("../a".into(), 0o600)].into());
        }),
        ("volumes[0].files.mode", |pod| {
            of_files(pod, |it| it.mode = Some(0o1777));
        }),
        ("volumes", |pod| {
            of_files(pod, |it| {
                let fact = |i| fact(&format!("f{i}"), Said::Labels);
                it.facts = (0..40).map(fact).collect();
            });
            let name = "more".to_owned();
            let source = pod.volumes[0].source.clone();
            pod.volumes.push(Volume { name, source });
        }),
    ];
    let mut fine = pod();
    of_files(&mut fine, |it| it.modes = [("a".into(), 0o600)].into());
    PodSpec::try_from(fine).unwrap();
    all_refused(&cases);
}

#[test]
fn a_part_of_a_volume_is_said_once_and_stays_in_it() {
    let with = |expr: &str, sub_path: &str| {
        let mut draft = pod();
        draft.containers[0].mounts = vec![VolumeMount {
            sub_path_expr: expr.to_owned(),
            ..mount("data", "/a", sub_path)
        }];
        PodSpec::try_from(draft)
    };
    // Which variables there are is known when a run begins: a config may bring them.
    with("logs/$(NAME)", "").unwrap();
    for (expr, sub_path) in [("$(A)", "b"), ("../$(A)", ""), ("/$(A)", ""), ("a\nb", "")] {
        let error = with(expr, sub_path).unwrap_err();
        let field = "containers[0].mounts[0].sub_path_expr";
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
    }
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
