// SPDX-License-Identifier: Apache-2.0
//! Round trips of every message, and what no packet may do to the decoder.

use super::{CREATE_CELL, CodecError, Packet, encode_sealed, request_number, start_head};
use crate::protocol::sandbox::{
    Entry, Kind, Label, MemoryPolicy, MountOption, Mounts, Sandbox, Spread,
};
use crate::protocol::*;
use proptest::prelude::*;

fn uid() -> impl Strategy<Value = Uid> {
    any::<[u8; 16]>().prop_map(Uid)
}

fn blob(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,16}"
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Protocol),
        Just(Step::Exec),
        Just(Step::Namespace),
        Just(Step::Root),
        Just(Step::Sysctl),
        Just(Step::Attach)
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    (step(), any::<i32>(), text()).prop_map(|(step, errno, detail)| Failure {
        step,
        errno,
        detail,
    })
}

fn how() -> impl Strategy<Value = ExitHow> {
    prop_oneof![
        any::<u8>().prop_map(ExitHow::Code),
        (any::<u8>(), any::<bool>()).prop_map(|(signal, core)| ExitHow::Signal { signal, core }),
        Just(ExitHow::Unknown),
    ]
}

fn exit() -> impl Strategy<Value = ExitRecord> {
    (how(), any::<[u64; 9]>(), any::<Option<u64>>()).prop_map(|(how, n, oom_kills)| ExitRecord {
        how,
        started_ns: n[0],
        finished_ns: n[1],
        user_ns: n[2],
        system_ns: n[3],
        max_rss_bytes: n[4],
        minor_faults: n[5],
        major_faults: n[6],
        voluntary_switches: n[7],
        involuntary_switches: n[8],
        oom_kills,
    })
}

fn mode() -> impl Strategy<Value = PowerMode> {
    prop_oneof![
        Just(PowerMode::PowerOff),
        Just(PowerMode::Reboot),
        Just(PowerMode::Halt),
        Just(PowerMode::Exit)
    ]
}

fn maps() -> impl Strategy<Value = Vec<IdMap>> {
    prop::collection::vec(
        any::<[u32; 3]>().prop_map(|[inside, outside, count]| IdMap {
            inside,
            outside,
            count,
        }),
        0..4,
    )
}

fn mount() -> impl Strategy<Value = MountTarget> {
    (blob(40), any::<bool>()).prop_map(|(target, directory)| MountTarget { target, directory })
}

fn volume() -> impl Strategy<Value = Volume> {
    let owner = (any::<u32>(), any::<u32>(), any::<bool>());
    let place = (blob(40), any::<u64>(), any::<u32>());
    (place, owner).prop_map(|((target, size_bytes, mode), (uid, gid, no_exec))| Volume {
        target,
        size_bytes,
        mode,
        uid,
        gid,
        no_exec,
    })
}

fn sysctls() -> impl Strategy<Value = Vec<Sysctl>> {
    let one = ("[a-z/]{1,20}", "[0-9 ]{1,8}");
    let one = one.prop_map(|(path, value)| Sysctl { path, value });
    prop::collection::vec(one, 0..3)
}

fn paths() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(blob(30), 0..4)
}

fn root() -> impl Strategy<Value = Root> {
    let words = (any::<bool>(), any::<bool>());
    let restricted = (paths(), paths());
    let image = (paths(), words, restricted, any::<u64>(), "[a-z:,]{0,20}");
    let image = image.prop_map(|(layers, words, restricted, bytes, file_label)| {
        let (masked, read_only) = restricted;
        let (writable, own_groups) = words;
        Root::Image(ImageRoot {
            layers,
            writable,
            masked,
            read_only,
            shared_memory_bytes: bytes,
            own_groups,
            file_label,
        })
    });
    prop_oneof![Just(Root::Node), Just(Root::Bare), image]
}

fn pids() -> impl Strategy<Value = Pids> {
    prop_oneof![Just(Pids::Cell), Just(Pids::New), uid().prop_map(Pids::Of)]
}

fn cell_launch() -> impl Strategy<Value = CellLaunch> {
    let volumes = prop::collection::vec(volume(), 0..3);
    (
        uid(),
        0u8..128,
        any::<bool>(),
        maps(),
        maps(),
        (any::<u32>(), "[a-z/]{0,200}"),
        "[a-z]{0,60}",
        (volumes, sysctls()),
        record(),
        root(),
    )
        .prop_map(
            |(
                uid,
                unshare,
                parent,
                uid_map,
                gid_map,
                (init_id, title),
                hostname,
                (volumes, sysctls),
                record,
                root,
            )| {
                CellLaunch {
                    uid,
                    unshare: Namespaces(unshare),
                    root,
                    parent,
                    joins: [1, 2].map(Namespaces).repeat(usize::from(parent)),
                    uid_map,
                    gid_map,
                    init_id,
                    title,
                    hostname,
                    volumes,
                    sysctls,
                    record,
                }
            },
        )
}

fn principal() -> impl Strategy<Value = Principal> {
    prop_oneof![
        any::<u32>().prop_map(Principal::Id),
        "[a-z]{1,20}".prop_map(Principal::Name)
    ]
}

fn stdio() -> impl Strategy<Value = Stdio> {
    let terminal = |(rows, columns)| Stdio::Terminal { rows, columns };
    prop_oneof![Just(Stdio::Pipes), any::<(u16, u16)>().prop_map(terminal)]
}

fn launch() -> impl Strategy<Value = Launch> {
    let words = || prop::collection::vec(blob(20), 0..5);
    let who = (
        prop::option::of(principal()),
        prop::option::of(principal()),
        prop::collection::vec(principal(), 0..3),
    );
    let limits = (
        any::<u32>(),
        any::<Vec<(u8, u64, u64)>>().prop_map(|mut list| {
            list.truncate(16);
            list
        }),
        any::<i8>(),
        any::<Option<i16>>(),
        blob(16),
    );
    let rights = (any::<[u64; 2]>(), any::<[bool; 5]>(), blob(64));
    let end = ((stdio(), pids()), any::<u8>(), any::<u32>(), record());
    (uid(), words(), words(), blob(30), who, limits, rights, end).prop_map(
        |(uid, argv, env, cwd, who, limits, rights, end)| Launch {
            uid,
            pids: end.0.1,
            argv,
            env,
            cwd,
            user: who.0,
            group: who.1,
            groups: who.2,
            member: rights.1[3],
            umask: limits.0,
            rlimits: limits.1,
            nice: limits.2,
            oom_score_adj: limits.3,
            affinity: limits.4,
            bounding: rights.0[0],
            ambient: rights.0[1],
            no_new_privileges: rights.1[0],
            seccomp: rights.2,
            seccomp_log: rights.1[1],
            keep_stdin: rights.1[2],
            stdio: end.0.0,
            stop_signal: end.1,
            grace_ms: end.2,
            record: end.3,
            ..services(Launch::plain(uid), rights.1)
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![blob(99).prop_map(Record::Here), Just(Record::Beside)]
}

/// What services of a machine have: some of it, or none.
fn services(mut launch: Launch, flags: [bool; 5]) -> Launch {
    launch.forks = flags[0];
    launch.cwd_optional = flags[1];
    launch.ignore_sigpipe = flags[2];
    if flags[3] {
        launch.program = Some(b"/bin/true".to_vec());
        launch.passed = 2;
        launch.names = vec!["a".to_owned(), "b c".to_owned()];
        launch.pid_env = vec!["WATCHDOG_PID".to_owned()];
        launch.keyring = Keyring::Shared;
    }
    if flags[4] {
        let open = |stream, how| Open {
            stream,
            how,
            path: b"/tmp/a".to_vec(),
        };
        launch.opens = vec![open(0, OpenHow::Terminal), open(1, OpenHow::Append)];
        launch.io_priority = Some((2, 7));
        launch.policy = Some((1, 99));
        launch.timer_slack_ns = u64::MAX;
        launch.sandbox = Some(sandbox());
    }
    launch
}

/// One with a bit of everything.
fn sandbox() -> Sandbox {
    let entry = |kind| Entry {
        target: b"/srv/a".to_vec(),
        in_root: true,
        optional: false,
        kind,
        why: "a.service:3: ReadOnlyPaths=/srv/a".to_owned(),
    };
    let options = vec![MountOption {
        name: "size".to_owned(),
        value: "10%".to_owned(),
    }];
    Sandbox {
        mounts: Some(Mounts {
            root: Some(b"/srv".to_vec()),
            propagation: Spread::Slave,
            no_suid: true,
            entries: vec![
                entry(Kind::Inaccessible),
                entry(Kind::Bind {
                    source: b"/etc".to_vec(),
                    recursive: true,
                    read_only: false,
                }),
                entry(Kind::Temporary {
                    options,
                    attributes: 2,
                }),
                entry(Kind::Processes {
                    hide: "invisible".to_owned(),
                    only: true,
                }),
                entry(Kind::Exec),
            ],
        }),
        network: Some(b"/run/x/net".to_vec()),
        memory: Some(MemoryPolicy {
            mode: 2,
            nodes: vec![1],
        }),
        label: Some(Label {
            file: "apparmor/exec".to_owned(),
            text: "exec nginx".to_owned(),
            optional: true,
        }),
        filters: vec![vec![0; 8], Vec::new()],
        ..Sandbox::default()
    }
}

fn node_request() -> impl Strategy<Value = NodeRequest> {
    prop_oneof![
        (any::<u16>(), text()).prop_map(|(version, build)| NodeRequest::Hello { version, build }),
        (any::<u64>(), cell_launch())
            .prop_map(|(request, launch)| NodeRequest::CreateCell { request, launch }),
        uid().prop_map(|uid| NodeRequest::AckCell { uid }),
        (mode(), any::<u32>())
            .prop_map(|(mode, bound_ms)| NodeRequest::Shutdown { mode, bound_ms }),
        any::<(u64, [u8; 32])>()
            .prop_map(|(sequence, hash)| NodeRequest::AuditHead { sequence, hash }),
        Just(NodeRequest::Ready),
        any::<(bool, u32)>()
            .prop_map(|(wanted, needs_ms)| NodeRequest::EndsFirst { wanted, needs_ms }),
        (any::<u64>(), text(), text()).prop_map(|(request, owner, name)| {
            NodeRequest::KeepDescriptor {
                request,
                owner,
                name,
            }
        }),
        any::<u64>().prop_map(|number| NodeRequest::DropDescriptor { number }),
        any::<u64>().prop_map(|request| NodeRequest::ListDescriptors { request }),
        Just(NodeRequest::RenewRoot),
        uid().prop_map(|uid| NodeRequest::TellOrphans { uid }),
    ]
}

fn welcome() -> impl Strategy<Value = Welcome> {
    let role = prop_oneof![
        Just(Role::Machine),
        Just(Role::Container),
        Just(Role::Service)
    ];
    let isolation = prop_oneof![Just(Ok(())), failure().prop_map(Err)];
    let cells = prop::collection::vec((uid(), any::<i32>()), 0..4);
    (
        any::<u16>(),
        role,
        any::<[u64; 2]>(),
        any::<Option<(u64, [u8; 32])>>(),
        cells,
        isolation,
    )
        .prop_map(
            |(version, role, numbers, audit_head, cells, isolation)| Welcome {
                version,
                role,
                daemon_starts: numbers[0],
                started_ns: numbers[1],
                audit_head,
                cells,
                isolation,
            },
        )
}

fn node_event() -> impl Strategy<Value = NodeEvent> {
    prop_oneof![
        welcome().prop_map(NodeEvent::Welcome),
        (any::<u16>(), text()).prop_map(|(version, reason)| NodeEvent::Refused { version, reason }),
        any::<(u64, i32)>().prop_map(|(request, pid)| NodeEvent::CellCreated { request, pid }),
        (any::<u64>(), failure())
            .prop_map(|(request, failure)| NodeEvent::CellFailed { request, failure }),
        (uid(), exit()).prop_map(|(uid, exit)| NodeEvent::CellExited { uid, exit }),
        (mode(), any::<u32>(), any::<bool>()).prop_map(|(mode, bound_ms, grows)| {
            NodeEvent::ShuttingDown {
                mode,
                bound_ms,
                grows,
            }
        }),
        any::<(u64, u64)>()
            .prop_map(|(request, number)| NodeEvent::DescriptorKept { request, number }),
        (any::<u64>(), failure())
            .prop_map(|(request, failure)| NodeEvent::DescriptorNotKept { request, failure }),
        (any::<[u64; 2]>(), text(), text()).prop_map(|([request, number], owner, name)| {
            NodeEvent::Descriptor {
                request,
                number,
                owner,
                name,
            }
        }),
        any::<u64>().prop_map(|request| NodeEvent::DescriptorsListed { request }),
    ]
}

fn cell_request() -> impl Strategy<Value = CellRequest> {
    let request = any::<u64>;
    prop_oneof![
        any::<u16>().prop_map(|version| CellRequest::Hello { version }),
        (request(), record())
            .prop_map(|(request, record)| CellRequest::PutCellRecord { request, record }),
        (request(), uid(), record()).prop_map(|(request, uid, record)| CellRequest::PutRecord {
            request,
            uid,
            record
        }),
        (request(), launch()).prop_map(|(request, launch)| CellRequest::Start { request, launch }),
        (request(), uid(), any::<u8>()).prop_map(|(request, uid, signal)| CellRequest::Signal {
            request,
            uid,
            signal
        }),
        (request(), uid()).prop_map(|(request, uid)| CellRequest::CloseStdin { request, uid }),
        uid().prop_map(|uid| CellRequest::Ack { uid }),
        (request(), any::<u32>(), mount()).prop_map(|(request, from, to)| CellRequest::Mount {
            request,
            from,
            to
        }),
        request().prop_map(|request| CellRequest::Stage { request }),
        request().prop_map(|request| CellRequest::Sealed { request }),
        (request(), blob(99))
            .prop_map(|(request, target)| CellRequest::Unmount { request, target }),
        (request(), uid(), record()).prop_map(|(request, uid, record)| CellRequest::Light {
            request,
            uid,
            record
        }),
        (request(), uid(), any::<i32>()).prop_map(|(request, uid, pid)| CellRequest::Main {
            request,
            uid,
            pid
        }),
        (request(), uid()).prop_map(|(request, uid)| CellRequest::Unlight { request, uid }),
        request().prop_map(|request| CellRequest::Orphans { request }),
        (request(), workload(), any::<(bool, u8, u32)>()).prop_map(
            |(request, state, (forks, stop_signal, grace_ms))| CellRequest::Adopt {
                request,
                state,
                forks,
                stop_signal,
                grace_ms,
            }
        ),
        request().prop_map(|request| CellRequest::Exit { request }),
    ]
}

fn workload() -> impl Strategy<Value = WorkloadState> {
    let flags = (stdio(), any::<[bool; 2]>());
    (
        uid(),
        any::<i32>(),
        flags,
        record(),
        any::<u64>(),
        prop::option::of(exit()),
        prop::option::of(exit()),
    )
        .prop_map(
            |(uid, pid, (stdio, flags), record, started_ns, exit, first)| WorkloadState {
                uid,
                pid,
                stdio,
                has_stdin: flags[0],
                record,
                started_ns,
                exit,
                first,
                has_process: flags[0] ^ flags[1],
            },
        )
}

fn cell_event() -> impl Strategy<Value = CellEvent> {
    prop_oneof![
        (any::<u16>(), uid(), record(), any::<u32>()).prop_map(
            |(version, uid, record, workloads)| CellEvent::Welcome {
                version,
                uid,
                record,
                workloads
            }
        ),
        (any::<u16>(), text()).prop_map(|(version, reason)| CellEvent::Refused { version, reason }),
        workload().prop_map(CellEvent::Workload),
        (uid(), exit()).prop_map(|(uid, exit)| CellEvent::Forked { uid, exit }),
        any::<(u64, i32, u64)>().prop_map(|(request, pid, started_ns)| {
            CellEvent::Started {
                request,
                pid,
                started_ns,
            }
        }),
        (any::<u64>(), failure())
            .prop_map(|(request, failure)| CellEvent::Failed { request, failure }),
        any::<u64>().prop_map(|request| CellEvent::Done { request }),
        (uid(), exit()).prop_map(|(uid, exit)| CellEvent::Exited { uid, exit }),
    ]
}

fn round_trip<P: Packet + PartialEq + std::fmt::Debug>(message: &P) {
    let mut packet = vec![7; 3];
    message.encode(&mut packet).unwrap();
    assert_eq!(&P::decode(&packet).unwrap(), message);
    for cut in 0..packet.len() {
        P::decode(&packet[..cut]).expect_err("a packet that is cut short");
    }
    packet.push(0);
    assert_eq!(P::decode(&packet), Err(CodecError::Trailing(1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_request_is_known_by_its_number_however_little_of_it_came(
        launch in cell_launch(),
        asked in cell_request(),
        request in any::<u64>(),
    ) {
        let mut packet = Vec::new();
        NodeRequest::CreateCell { request, launch }.encode(&mut packet).unwrap();
        prop_assert_eq!(request_number(&packet[..9]), Some((CREATE_CELL, request)));
        prop_assert_eq!(request_number(&packet[..8]), None);
        asked.encode(&mut packet).unwrap();
        let number = match &asked {
            CellRequest::Start { request, .. }
            | CellRequest::PutRecord { request, .. }
            | CellRequest::PutCellRecord { request, .. }
            | CellRequest::Signal { request, .. }
            | CellRequest::CloseStdin { request, .. }
            | CellRequest::Stage { request }
            | CellRequest::Sealed { request }
            | CellRequest::Mount { request, .. }
            | CellRequest::Unmount { request, .. }
            | CellRequest::Light { request, .. }
            | CellRequest::Main { request, .. }
            | CellRequest::Unlight { request, .. }
            | CellRequest::Orphans { request }
            | CellRequest::Adopt { request, .. }
            | CellRequest::Exit { request } => *request,
            CellRequest::Hello { .. } | CellRequest::Ack { .. } => return Ok(()),
        };
        prop_assert_eq!(request_number(&packet).unwrap().1, number);
    }

    #[test]
    fn node_requests_come_back_as_they_went(message in node_request()) {
        round_trip(&message);
    }

    #[test]
    fn node_events_come_back_as_they_went(message in node_event()) {
        round_trip(&message);
    }

    #[test]
    fn cell_requests_come_back_as_they_went(message in cell_request()) {
        round_trip(&message);
    }

    #[test]
    fn cell_events_come_back_as_they_went(message in cell_event()) {
        round_trip(&message);
    }

    #[test]
    fn ends_of_orphans_come_back_as_they_went(pid in any::<i32>(), exit in exit()) {
        round_trip(&Orphan { pid, exit });
    }

    #[test]
    fn arbitrary_bytes_never_panic(packet in blob(600)) {
        let _ = NodeRequest::decode(&packet);
        let _ = NodeEvent::decode(&packet);
        let _ = CellRequest::decode(&packet);
        let _ = CellEvent::decode(&packet);
        let _ = Orphan::decode(&packet);
        let _ = start_head(&packet);
    }

    #[test]
    fn a_changed_byte_never_panics(message in cell_request(), at in any::<usize>(), to in any::<u8>()) {
        let mut packet = Vec::new();
        message.encode(&mut packet).unwrap();
        let at = at % packet.len();
        packet[at] = to;
        let _ = CellRequest::decode(&packet);
    }

    #[test]
    fn the_head_of_a_start_is_its_beginning(launch in launch(), request in any::<u64>()) {
        let mut packet = Vec::new();
        CellRequest::Start { request, launch: launch.clone() }.encode(&mut packet).unwrap();
        let head = start_head(&packet).unwrap().expect("a start");
        assert_eq!((head.request, head.uid, head.stdio), (request, launch.uid, launch.stdio));
        assert_eq!(head.pids, launch.pids);
        assert_eq!((head.keep_stdin, head.stop_signal), (launch.keep_stdin, launch.stop_signal));
        assert_eq!((head.grace_ms, head.record), (launch.grace_ms, launch.record));
    }
}

#[test]
fn a_record_over_the_limit_is_refused_by_name() {
    let mut packet = Vec::new();
    let record = Record::Here(vec![0; MAX_RECORD + 1]);
    let error = CellRequest::PutCellRecord { request: 1, record }
        .encode(&mut packet)
        .unwrap_err();
    let limit = MAX_RECORD;
    assert_eq!(
        error,
        CodecError::TooLong {
            field: "record",
            length: MAX_RECORD + 1,
            limit
        }
    );
}

#[test]
fn a_list_that_claims_more_than_the_packet_brings_is_truncated() {
    let mut packet = vec![2];
    packet.extend_from_slice(&9u64.to_le_bytes());
    packet.extend_from_slice(&[0; 16 + 1]);
    packet.extend_from_slice(&[1, 0]);
    packet.extend_from_slice(&0u32.to_le_bytes());
    packet.extend_from_slice(&340u32.to_le_bytes());
    assert_eq!(
        NodeRequest::decode(&packet),
        Err(CodecError::Truncated("uid_map"))
    );
}

#[test]
fn a_welcome_with_every_cell_fits_a_packet() {
    let welcome = Welcome {
        version: VERSION,
        role: Role::Machine,
        daemon_starts: 1,
        started_ns: 1,
        audit_head: Some((1, [0; 32])),
        cells: vec![(Uid([1; 16]), 1); MAX_CELLS],
        isolation: Ok(()),
    };
    let mut packet = Vec::new();
    NodeEvent::Welcome(welcome).encode(&mut packet).unwrap();
    assert!(packet.len() <= MAX_PACKET);
}

#[test]
fn an_unknown_message_is_named_with_its_number() {
    let error = NodeRequest::decode(&[200]).unwrap_err();
    assert_eq!(error.to_string(), "`NodeRequest` has the unknown value 200");
}

/// What `execve` takes: 6 MiB of arguments and environment, each with a NUL and a pointer, none
/// longer than 128 KiB.
#[test]
fn a_start_with_all_that_execve_takes_is_sealed_and_read() {
    let launch = |argv| Launch {
        argv,
        pids: Pids::New,
        member: true,
        record: Record::Here(vec![0; MAX_RECORD]),
        ..Launch::plain(Uid([1; 16]))
    };
    let start = |argv| CellRequest::Start {
        request: 7,
        launch: launch(argv),
    };
    let most = 6 * 1024 * 1024;
    let mut sealed = Vec::new();
    for argv in [
        vec![vec![b'x'; MAX_STRING]; most / (MAX_STRING + 9)],
        vec![vec![]; most / 9],
        vec![vec![b'x'; 3]; most / 12],
    ] {
        let start = start(argv);
        encode_sealed(&start, &mut sealed).unwrap();
        assert!(sealed.len() <= MAX_SEALED);
        assert_eq!(start_head(&sealed).unwrap().unwrap().request, 7);
        assert_eq!(CellRequest::decode(&sealed).unwrap(), start);
        start.encode(&mut Vec::new()).unwrap_err();
    }
    let error = encode_sealed(&start(vec![vec![b'x'; MAX_STRING + 1]]), &mut sealed).unwrap_err();
    assert!(
        error.to_string().starts_with("`argv` is 131072 long"),
        "{error}"
    );
}
