// SPDX-License-Identifier: Apache-2.0
//! Stories about the wire: what a spec says survives the way to a message and back, and what
//! clients may send by mistake or malice is refused under the name of its field.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::time::Duration;

use api::convert::{cell, executable, object, request};
use api::runtime::v0 as wire;
use model::name::Tenant;
use model::{cell as cells, executable as executables};
use proptest::prelude::*;

fn own() -> Tenant {
    "acme".parse().unwrap()
}

fn reference(path: &str) -> Option<wire::ObjectRef> {
    Some(wire::ObjectRef {
        path: path.into(),
        ..Default::default()
    })
}

fn run(path: &str, spoil: impl FnOnce(&mut wire::RunExecutableRequest)) -> Result<(), String> {
    let spec = wire::ExecutableSpec {
        argv: vec!["true".into()],
        ..Default::default()
    };
    let mut message = wire::RunExecutableRequest {
        executable: Some(wire::Executable {
            r#ref: reference(path),
            spec: Some(spec),
            ..Default::default()
        }),
        ..Default::default()
    };
    spoil(&mut message);
    let checked = request::run_executable(&own(), message);
    checked.map(|_| ()).map_err(|e| e.field.clone().unwrap())
}

fn spec(message: &mut wire::RunExecutableRequest) -> &mut wire::ExecutableSpec {
    message.executable.as_mut().unwrap().spec.as_mut().unwrap()
}

#[test]
fn a_refusal_names_the_field_by_its_path_in_the_request() {
    type Spoil = fn(&mut wire::RunExecutableRequest);
    let cases: [(&str, Spoil); 14] = [
        ("executable", |m| m.executable = None),
        ("executable.ref", |m| {
            m.executable.as_mut().unwrap().r#ref = None
        }),
        ("executable.spec", |m| {
            m.executable.as_mut().unwrap().spec = None
        }),
        ("executable.spec.argv", |m| spec(m).argv.clear()),
        ("executable.spec.argv[2]", |m| {
            spec(m).argv = vec!["a".into(), "b".into(), "c\0".into()];
        }),
        ("executable.spec.rlimits[0].name", |m| {
            spec(m).rlimits = vec![wire::Rlimit::default()]
        }),
        ("executable.spec.seccomp.action", |m| {
            spec(m).seccomp = Some(wire::Seccomp {
                action: 99,
                ..Default::default()
            });
        }),
        ("executable.spec.seccomp.deny[0]", |m| {
            let deny = vec!["mount; rm".into()];
            spec(m).seccomp = Some(wire::Seccomp {
                deny,
                ..Default::default()
            });
        }),
        ("executable.spec.terminal.rows", |m| {
            spec(m).terminal = Some(wire::Terminal {
                rows: 1 << 20,
                columns: 80,
            });
        }),
        ("executable.spec.stop_grace", |m| {
            spec(m).stop_grace = Some(prost_types::Duration {
                seconds: -1,
                nanos: 0,
            });
        }),
        ("executable.spec.resources.cpu.weight", |m| {
            let cpu = Some(wire::Cpu {
                weight: Some(0),
                ..Default::default()
            });
            spec(m).resources = Some(wire::Resources {
                cpu,
                ..Default::default()
            });
        }),
        ("executable.labels", |m| {
            m.executable
                .as_mut()
                .unwrap()
                .labels
                .insert("a b".into(), String::new());
        }),
        ("request_id", |m| m.request_id = "line\nbreak".into()),
        ("wait_for", |m| m.wait_for = -1),
    ];
    for (field, spoil) in cases {
        assert_eq!(run("web/nginx", spoil), Err(field.to_owned()));
    }
    assert_eq!(run("web/nginx", |_| ()), Ok(()));
}

#[test]
fn a_namespace_that_does_not_exist_is_not_taken_for_another() {
    let refused = run("web/nginx", |m| {
        m.own_cell = Some(wire::CellSpec {
            share: vec![8],
            ..Default::default()
        });
    });
    assert_eq!(refused, Err("own_cell.share[0]".to_owned()));
}

#[test]
fn hostile_names_are_refused() {
    for path in [
        "",
        "nginx",
        "web/\u{1b}[2J",
        "web/../x",
        "web//x",
        "Web/x",
        "web/_init",
        "a/b\0",
    ] {
        assert_eq!(
            run(path, |_| ()),
            Err("executable.ref.path".to_owned()),
            "{path:?}"
        );
    }
    let tenant = run("web/x", |m| {
        let target = m.executable.as_mut().unwrap().r#ref.as_mut().unwrap();
        target.tenant = "a/b".into();
    });
    assert_eq!(tenant, Err("executable.ref.tenant".to_owned()));
}

#[test]
fn the_callers_own_tenant_is_filled_in_and_another_is_kept_for_the_policy_to_judge() {
    let mut message = wire::ObjectRef {
        path: "web".into(),
        ..Default::default()
    };
    let own_ref = object::object_ref(&own(), Some(message.clone())).unwrap();
    assert_eq!(own_ref.tenant, own());
    message.tenant = "other".into();
    let other = object::object_ref(&own(), Some(message)).unwrap();
    assert_eq!(other.tenant.as_str(), "other");
}

#[test]
fn what_is_to_be_made_has_no_uid_and_the_calls_own_kind() {
    let with = |uid: &str, kind| {
        run("web/x", move |m| {
            let target = m.executable.as_mut().unwrap().r#ref.as_mut().unwrap();
            target.uid = uid.into();
            target.kind = kind;
        })
    };
    let uid = "00112233445566778899aabbccddeeff";
    assert_eq!(with(uid, 0), Err("executable.ref.uid".to_owned()));
    assert_eq!(with("", 1), Err("executable.ref.kind".to_owned()));
    assert_eq!(with("", 2), Ok(()));
}

#[test]
fn waiting_needs_a_uid_and_freezing_a_cell() {
    let message = wire::WaitRequest {
        r#ref: reference("web/x"),
    };
    let error = request::wait(&own(), message).unwrap_err();
    assert_eq!(error.field.as_deref(), Some("ref.uid"));
    let mut target = object::object_ref(&own(), reference("web")).unwrap();
    target.kind = Some(model::object::Kind::Executable);
    assert!(request::of_kind(model::object::Kind::Cell, target).is_err());
}

#[test]
fn pages_are_bounded() {
    let list = |page_size| {
        request::list(
            &own(),
            wire::ListRequest {
                page_size,
                ..Default::default()
            },
        )
    };
    assert_eq!(list(0).unwrap().page_size, 500);
    assert_eq!(list(1000).unwrap().page_size, 1000);
    assert!(list(1001).is_err());
    assert!(list(u32::MAX).is_err());
}

fn durations() -> impl Strategy<Value = Option<Duration>> {
    proptest::option::of((1u64..3600, 0u32..1_000_000_000).prop_map(|(s, n)| Duration::new(s, n)))
}

fn resources() -> impl Strategy<Value = model::resources::Resources> {
    let number = || proptest::option::of(1u64..10_000);
    (
        number(),
        number(),
        number(),
        number(),
        durations(),
        "(0-3|1,2)?",
    )
        .prop_map(|(weight, low, max, pids_max, quota, cpus)| {
            let mut resources = model::resources::Resources::default();
            resources.cpu.weight = weight;
            resources.cpu.quota = quota;
            resources.cpu.cpus = cpus;
            resources.memory.low = low;
            resources.memory.max = max;
            resources.pids_max = pids_max;
            resources.io.weight = weight;
            if weight.is_some() {
                resources.unified.insert("cpu.idle".into(), "1".into());
            }
            resources.io.max = low
                .map(|n| model::resources::IoMax {
                    device: "8:0".into(),
                    reads_per_second: Some(n),
                    ..Default::default()
                })
                .into_iter()
                .collect();
            resources
        })
}

fn executable_drafts() -> impl Strategy<Value = executables::Draft> {
    let texts = || proptest::collection::vec("[a-z]{1,8}", 0..4);
    let program = (
        proptest::collection::vec("[\u{1}-\u{2ff}]{1,20}", 1..5),
        proptest::collection::btree_map("[A-Z]{1,5}", "[\u{1}-\u{2ff}]{0,20}", 0..5),
        "(/[a-z]{1,5}){0,3}",
        "[a-z]{0,8}",
        texts(),
    );
    let numbers = (
        proptest::option::of(0u32..=0o777),
        proptest::option::of(-20i32..=19),
        proptest::option::of(any::<bool>()),
        durations(),
        any::<(bool, bool, bool, bool)>(),
    );
    (
        program,
        numbers,
        texts(),
        resources(),
        proptest::option::of(any::<(u16, u16)>()),
    )
        .prop_map(
            |((argv, env, cwd, user, groups), numbers, allow, resources, size)| {
                let (umask, nice, no_new_privileges, stop_grace, flags) = numbers;
                let (stdin, auto_remove, kill, main) = flags;
                let mut draft = executables::Draft {
                    argv,
                    env,
                    cwd,
                    user,
                    groups,
                    umask,
                    nice,
                    no_new_privileges,
                    stop_grace,
                    stdin,
                    auto_remove,
                    resources,
                    main,
                    ..Default::default()
                };
                draft.seccomp.allow = allow;
                if kill {
                    draft.seccomp.action = model::seccomp::Action::Kill;
                    draft.capabilities = Some(Default::default());
                    draft.logs.max_bytes = Some(1 << 20);
                }
                draft.program = draft.user.clone();
                match kill {
                    true => draft.selinux_label = "u:r:t:s0".to_owned(),
                    false => draft.apparmor_profile = draft.user.clone(),
                }
                draft.ignore_sigpipe = kill;
                draft.cwd_optional = stdin;
                if auto_remove {
                    draft.ending.kill_mode = model::launch::KillMode::Mixed;
                    draft.ending.main_process = model::launch::MainProcess::Guessed;
                    draft.streams.stdout = model::launch::Stream::Append("/log".into());
                    draft.streams.stderr = model::launch::Stream::Inherit;
                    draft.scheduling.io_class = Some(model::launch::IoClass::Idle);
                    draft.scheduling.timer_slack = stop_grace;
                    draft.keyring = model::launch::Keyring::Shared;
                    draft.personality = model::launch::Personality::Linux32;
                }
                draft.terminal =
                    size.map(|(rows, columns)| executables::Terminal { rows, columns });
                draft
            },
        )
}

fn network() -> model::network::Network {
    use model::network::{CniNetwork, Dns, HostAlias, Network, Protocol, PublishedPort};
    let address = std::net::IpAddr::from([192, 0, 2, 7]);
    Network {
        mode: None,
        ports: vec![PublishedPort {
            protocol: Protocol::Udp,
            address: Some(address),
            host_port: 5353,
            port: 53,
        }],
        dns: Dns {
            servers: vec![address],
            searches: vec!["example.org".into()],
            options: vec!["ndots:2".into()],
            add: true,
        },
        hosts: vec![HostAlias {
            address,
            names: vec!["db".into()],
        }],
        addresses: vec![address, std::net::Ipv6Addr::LOCALHOST.into()],
        domain: "shop.example".into(),
        cni: vec![CniNetwork {
            name: "storage".into(),
            interface: "net7".into(),
        }],
    }
}

fn hooks() -> impl Strategy<Value = Vec<model::hook::Hook>> {
    use model::hook::{Hook, Moment};
    let moments = [
        Moment::CreateRuntime,
        Moment::CreateContainer,
        Moment::StartContainer,
        Moment::Poststart,
        Moment::Poststop,
    ];
    let hook = (
        proptest::sample::select(moments.to_vec()),
        "/[a-z]{1,5}",
        proptest::collection::vec("[a-z]{0,5}", 0..3),
        proptest::collection::btree_map("[A-Z]{1,3}", "[a-z]{0,3}", 0..3),
        proptest::option::of(1u64..600_000),
    );
    let hook = hook.prop_map(|(moment, path, argv, env, timeout)| Hook {
        moment,
        path,
        argv,
        env,
        timeout: timeout.map(std::time::Duration::from_millis),
    });
    proptest::collection::vec(hook, 0..3)
}

fn containers() -> impl Strategy<Value = model::container::Container> {
    use model::container::{Container, Pull};
    let pulls = proptest::sample::select(&[Pull::IfNotPresent, Pull::Always, Pull::Never][..]);
    let sizes = || proptest::option::of(4096u64..1 << 40);
    let paths = || proptest::collection::vec("/[a-z]{1,5}", 0..3);
    let device = ("/dev/[a-z]{1,5}", "(/dev/[a-z]{1,5})?", "[rwm]{0,3}");
    let device = device.prop_map(|(path, target, access)| model::device::Device {
        path,
        target,
        access,
    });
    let more = (
        (proptest::collection::vec(device, 0..3), hooks()),
        paths(),
        paths(),
        any::<bool>(),
        any::<[bool; 3]>(),
        "(u:r:t(:s0)?)?",
    );
    let root = ("[a-z/:]{0,20}", pulls, any::<bool>(), sizes(), sizes());
    (root, more).prop_map(
        |(
            (image, pull, read_only, root_bytes, shared_memory_bytes),
            (
                (devices, hooks),
                masked_paths,
                read_only_paths,
                unmasked,
                [groups, all, disk],
                selinux_file_label,
            ),
        )| Container {
            image,
            pull,
            read_only,
            root_bytes,
            root_on_disk: disk,
            shared_memory_bytes,
            devices,
            hooks,
            all_devices: all,
            masked_paths,
            read_only_paths,
            unmasked,
            delegate_cgroup: groups,
            selinux_file_label,
        },
    )
}

proptest! {
    #[test]
    fn an_executable_survives_the_wire(draft in executable_drafts()) {
        if let Ok(spec) = executables::ExecutableSpec::try_from(draft) {
            let message = executable::to_spec(&spec);
            prop_assert_eq!(&executable::spec(message).unwrap(), &spec);
            // So does what it means.
            let effective = spec.effective(Default::default());
            let message = executable::to_spec(&effective.to_draft());
            let again = executable::spec(message).unwrap();
            prop_assert_eq!(again.effective(Default::default()), effective);
        }
    }

    #[test]
    fn a_cell_survives_the_wire(
        share in proptest::collection::btree_set(
            proptest::sample::select(&cells::Namespace::ALL[..]), 0..7),
        resources in resources(),
        hostname in "[a-z]{0,5}",
        owner in proptest::option::of(0u32..9),
        id_range in proptest::option::of(1u32..99999),
        container in proptest::option::of(containers()),
        propagation in proptest::sample::select(&[
            cells::Propagation::None,
            cells::Propagation::Rprivate,
            cells::Propagation::Rslave,
        ][..]),
    ) {
        let access = if owner.is_some() { cells::Access::Write } else { cells::Access::Read };
        let mount = cells::Mount {
            source: "/srv".into(),
            target: "/data".into(),
            access,
            owner_uid: owner,
            owner_gid: owner,
            allow_root_owner: owner == Some(0),
            propagation,
        };
        let volume = cells::Volume {
            path: "/v".into(),
            size_bytes: Some(1 << 20),
            mode: None,
            uid: owner,
            gid: id_range,
            no_exec: owner.is_some(),
        };
        let mounts = !share.contains(&cells::Namespace::Mount);
        let other = |ns: &cells::Namespace| (*ns, "db/main".parse().unwrap());
        let join = [cells::Namespace::Net, cells::Namespace::Uts];
        let joined = join.iter().filter(|ns| owner.is_some() && !share.contains(ns));
        let draft = cells::Draft {
            join: joined.map(other).collect(),
            share,
            resources,
            mounts: mounts.then_some(mount).into_iter().collect(),
            volumes: mounts.then_some(volume).into_iter().collect(),
            hostname,
            id_range,
            container: mounts.then_some(container).flatten(),
            sysctls: [("net.core.somaxconn".to_owned(), "1".to_owned())].into(),
            network: Some(network()),
            light: false,
        };
        if let Ok(spec) = cells::CellSpec::try_from(draft) {
            prop_assert_eq!(cell::spec(cell::to_spec(&spec)).unwrap(), spec);
        }
    }

    #[test]
    fn no_bytes_of_a_request_do_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        use prost::Message;
        if let Ok(message) = wire::RunExecutableRequest::decode(bytes.as_slice()) {
            let _ = request::run_executable(&own(), message);
        }
        if let Ok(message) = wire::RunCellRequest::decode(bytes.as_slice()) {
            let _ = request::run_cell(&own(), message);
        }
        if let Ok(message) = wire::UpdateCellRequest::decode(bytes.as_slice()) {
            let _ = request::update_cell(&own(), message);
        }
    }
}
