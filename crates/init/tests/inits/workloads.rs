// SPDX-License-Identifier: Apache-2.0
//! Starting executables, and the records that their cell-init keeps.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::seqpacket;
use testkit::until;

pub(crate) const STORIES: &[Story] = &[
    (
        "a_program_runs_and_its_code_comes_back",
        a_program_runs_and_its_code_comes_back,
    ),
    (
        "what_can_not_run_is_the_answer_itself",
        what_can_not_run_is_the_answer_itself,
    ),
    (
        "a_program_has_three_descriptors_and_no_more",
        a_program_has_three_descriptors_and_no_more,
    ),
    (
        "users_limits_and_rights_are_as_asked",
        users_limits_and_rights_are_as_asked,
    ),
    ("a_filter_is_installed_last", a_filter_is_installed_last),
    (
        "a_terminal_is_the_controlling_one",
        a_terminal_is_the_controlling_one,
    ),
    (
        "a_terminal_is_no_way_to_block_the_init",
        a_terminal_is_no_way_to_block_the_init,
    ),
    (
        "standard_input_is_kept_until_it_is_closed",
        standard_input_is_kept_until_it_is_closed,
    ),
    (
        "exits_and_records_survive_daemons",
        exits_and_records_survive_daemons,
    ),
    (
        "output_waits_for_the_next_daemon",
        output_waits_for_the_next_daemon,
    ),
    (
        "a_failed_start_without_a_waiting_client_ends_as_in_a_shell",
        a_failed_start_without_a_waiting_client_ends_as_in_a_shell,
    ),
    ("orphans_are_reaped", orphans_are_reaped),
    (
        "mounts_come_and_go_while_it_runs",
        mounts_come_and_go_while_it_runs,
    ),
    (
        "a_pipe_in_a_mounts_place_is_no_way_to_block_the_init",
        a_pipe_in_a_mounts_place_is_no_way_to_block_the_init,
    ),
    (
        "nonsense_is_answered_or_ignored",
        nonsense_is_answered_or_ignored,
    ),
    (
        "an_end_is_refused_while_something_runs",
        an_end_is_refused_while_something_runs,
    ),
];

fn a_program_runs_and_its_code_comes_back() {
    let node = Node::start();
    let mut daemon = node.daemon();
    assert_eq!(daemon.welcome.isolation, Ok(()));
    let cell = daemon.cell(&node, node.plan());
    let went = cell.sh("echo out; echo err >&2; hostname; exit 42");
    assert_eq!(went.exit.how, ExitHow::Code(42));
    assert_eq!(
        (went.stdout.as_str(), went.stderr.as_str()),
        ("out\ncell0\n", "err\n")
    );
    assert!(went.exit.finished_ns > went.exit.started_ns && went.exit.max_rss_bytes > 0);
    let killed = cell.sh("kill -9 $$");
    assert_eq!(
        killed.exit.how,
        ExitHow::Signal {
            signal: 9,
            core: false
        }
    );
}

fn what_can_not_run_is_the_answer_itself() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let missing = cell
        .try_start(&launch_of(&["no-such-program"]))
        .err()
        .unwrap();
    assert_eq!((missing.step, missing.errno), (Step::Exec, 2));
    assert_eq!(missing.detail, "no-such-program");
    let not_executable = cell.try_start(&launch_of(&["/etc/passwd"])).err().unwrap();
    assert_eq!(
        (not_executable.step, not_executable.errno),
        (Step::Exec, 13)
    );
    let mut nowhere = launch_of(&["/bin/true"]);
    nowhere.cwd = b"/no/such/folder".to_vec();
    let nowhere = cell.try_start(&nowhere).err().unwrap();
    assert_eq!((nowhere.step, nowhere.errno), (Step::Directory, 2));
    let mut unknown = launch_of(&["/bin/true"]);
    unknown.user = Some(Principal::Name("mallory".into()));
    assert_eq!(cell.try_start(&unknown).err().unwrap().step, Step::User);
    // Nothing of them is left.
    cell.reconnect();
    assert!(cell.link.workloads.is_empty());
}

fn a_program_has_three_descriptors_and_no_more() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    // Others run meanwhile, whose pipes must not leak either.
    let _others: Vec<_> = (0..5)
        .map(|_| cell.start(&launch_of(&["/bin/sleep", "60"])))
        .collect();
    let went = cell.workload(&["descriptors"]);
    assert_eq!(went.stdout, "0 1 2\n", "{went:?}");
}

fn users_limits_and_rights_are_as_asked() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let mut launch = launch_of(&[
        "/bin/sh",
        "-c",
        "id -u; id -g; id -G; umask; ulimit -n; nice; echo $HOME; pwd; cat /proc/self/oom_score_adj; grep -E 'CapEff|NoNewPrivs|SigBlk|SigIgn' /proc/self/status | tr -d '\t'",
    ]);
    launch.user = Some(Principal::Name("www-data".into()));
    launch.groups = vec![Principal::Name("tty".into()), Principal::Id(77)];
    launch.umask = 0o027;
    launch.cwd = b"/".to_vec();
    launch.rlimits = vec![(7, 99, 100)];
    launch.nice = 5;
    launch.oom_score_adj = Some(300);
    let went = cell.run_launch(&launch);
    let expected = "33\n33\n33 5 77\n0027\n99\n5\n/var/www\n/\n300\nSigBlk:0000000000000000\nSigIgn:0000000000000000\nCapEff:0000000000000000\nNoNewPrivs:1\n";
    assert_eq!(went.stdout, expected, "{went:?}");
    let mut ambient = launch_of(&[
        "/bin/sh",
        "-c",
        "grep CapEff /proc/self/status | tr -d '\t'",
    ]);
    ambient.user = Some(Principal::Id(33));
    ambient.ambient = 1 << 10;
    assert_eq!(
        cell.run_launch(&ambient).stdout,
        "CapEff:0000000000000400\n"
    );
    let mut root = launch_of(&[
        "/bin/sh",
        "-c",
        "grep CapEff /proc/self/status | tr -d '\t'; ulimit -n",
    ]);
    root.bounding = 0b11;
    assert_eq!(
        cell.run_launch(&root).stdout,
        "CapEff:0000000000000003\n1024\n"
    );
}

fn a_filter_is_installed_last() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    // BPF: all calls are allowed but mkdir (83), which is EPERM.
    let words: [(u16, u8, u8, u32); 4] = [
        (0x20, 0, 0, 0),
        (0x15, 0, 1, 83),
        (0x06, 0, 0, 0x0005_0001),
        (0x06, 0, 0, 0x7fff_0000),
    ];
    let mut filter = Vec::new();
    for (code, yes, no, k) in words {
        filter.extend(code.to_ne_bytes());
        filter.extend([yes, no]);
        filter.extend(k.to_ne_bytes());
    }
    for no_new_privileges in [true, false] {
        let mut launch = launch_of(&["/bin/sh", "-c", "mkdir /tmp/x; echo $?"]);
        launch.seccomp = filter.clone();
        launch.no_new_privileges = no_new_privileges;
        let went = cell.run_launch(&launch);
        assert_eq!(went.stdout, "1\n", "{went:?}");
    }
}

/// Runs a script on a terminal of 33 lines of 99 characters; what it printed.
fn on_a_terminal(cell: &Cell, user: Option<Principal>, script: &str) -> String {
    let mut launch = launch_of(&["/bin/sh", "-c", script]);
    launch.stdio = Stdio::Terminal {
        rows: 33,
        columns: 99,
    };
    launch.user = user;
    let number = cell.link.next_request();
    let leaf = cell.leaf();
    let start = CellRequest::Start {
        request: number,
        launch: launch.clone(),
    };
    send(&cell.link.socket, &start, &[leaf.as_fd()]);
    let (_, mut fds) = cell.link.wait_for(|event| match event {
        CellEvent::Started { request, .. } if *request == number => Some(()),
        CellEvent::Failed { failure, .. } => panic!("{failure:?}"),
        _ => None,
    });
    assert_eq!(fds.len(), 2, "a pidfd and the master");
    let master = fds.pop().unwrap();
    assert_eq!(cell.link.exit_of(launch.uid).how, ExitHow::Code(5));
    let mut shown = Vec::new();
    let mut buffer = [0; 1000];
    // EIO when all is read and no process has the other end open.
    while let Ok(length) = rustix::io::read(&master, &mut buffer) {
        shown.extend(&buffer[..length]);
    }
    cell.ack(launch.uid);
    String::from_utf8_lossy(&shown).replace('\r', "")
}

fn a_terminal_is_the_controlling_one() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let script = "test -t 0 && tty; stty size; echo me > /dev/tty; echo by name > $(tty); exit 5";
    let wanted = "/dev/pts/0\n33 99\nme\nby name\n";
    assert_eq!(on_a_terminal(&cell, None, script), wanted);
    let nobody = Some(Principal::Id(65_534));
    assert_eq!(on_a_terminal(&cell, nobody, script), wanted);
    // In a cell that shares the node's mounts it is one of the node's.
    let sharing = daemon.cell(&node, node.plan().sharing(Namespaces::MOUNT));
    let shown = on_a_terminal(&sharing, None, script);
    assert!(
        shown.starts_with("/dev/pts/") && shown.ends_with(" 99\nme\nby name\n"),
        "{shown}"
    );
}

/// Mounting over the cell's terminals hurts the cell's own, and never its init.
fn a_terminal_is_no_way_to_block_the_init() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let went = cell.sh("mkfifo /tmp/pipe && mount --bind /tmp/pipe /dev/pts/ptmx");
    assert_eq!(went.exit.how, ExitHow::Code(0), "{went:?}");
    let mut launch = launch_of(&["/bin/true"]);
    launch.stdio = Stdio::Terminal {
        rows: 1,
        columns: 1,
    };
    let leaf = cell.leaf();
    let refused = cell.link.ask(
        |request| CellRequest::Start {
            request,
            launch: launch.clone(),
        },
        &[leaf.as_fd()],
    );
    let failure = refused.unwrap_err();
    assert_eq!((failure.step, failure.errno), (Step::Stdio, 18), "EXDEV");
    assert_eq!(cell.sh("exit 3").exit.how, ExitHow::Code(3));
}

fn standard_input_is_kept_until_it_is_closed() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let mut launch = launch_of(&["/bin/cat"]);
    launch.keep_stdin = true;
    let running = cell.start(&launch);
    std::fs::File::from(running.stdin.unwrap())
        .write_all(b"first ")
        .unwrap();
    // The daemon is gone, and with it its write end: cat must not see an end.
    cell.reconnect();
    let (state, mut fds) = cell.link.workloads.remove(0);
    assert!(state.has_stdin);
    std::fs::File::from(fds.pop().unwrap())
        .write_all(b"second")
        .unwrap();
    let uid = launch.uid;
    cell.link
        .ask(|request| CellRequest::CloseStdin { request, uid }, &[])
        .unwrap();
    assert_eq!(cell.link.exit_of(uid).how, ExitHow::Code(0));
    assert_eq!(read_all(running.stdout), "first second");
}

fn exits_and_records_survive_daemons() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let mut launch = launch_of(&["/bin/sh", "-c", "read go; exit 7"]);
    launch.record = Record::Here(vec![7; MAX_RECORD]);
    launch.keep_stdin = true;
    let uid = launch.uid;
    let running = cell.start(&launch);
    daemon.crash();
    cell.reconnect();
    assert_eq!(cell.link.record, b"record of cell0");
    let (state, _) = &cell.link.workloads[0];
    assert_eq!(
        (state.uid, &state.record, state.exit),
        (uid, &launch.record, None)
    );
    let record = Record::Here(b"changed".to_vec());
    cell.link
        .ask(
            |request| CellRequest::PutRecord {
                request,
                uid,
                record: record.clone(),
            },
            &[],
        )
        .unwrap();
    std::fs::File::from(running.stdin.unwrap())
        .write_all(b"go\n")
        .unwrap();
    let exit = cell.link.exit_of(uid);
    assert_eq!(exit.how, ExitHow::Code(7));
    // Not acknowledged: it is there for the next, and the one after.
    for _ in 0..2 {
        cell.reconnect();
        let (state, _) = &cell.link.workloads[0];
        assert_eq!((state.exit, &state.record), (Some(exit), &record));
    }
    cell.ack(uid);
    cell.reconnect();
    assert!(cell.link.workloads.is_empty());
    // The node knows the cell as well.
    assert_eq!(node.daemon().welcome.cells, [(cell.uid, cell.pid)]);
}

fn output_waits_for_the_next_daemon() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let running = cell.start(&launch_of(&[
        "/bin/sh",
        "-c",
        "sleep 0.2; echo late; echo bad >&2",
    ]));
    drop((running.stdout, running.stderr));
    daemon.crash();
    let deadline = Instant::now() + Duration::from_secs(30);
    let (exit, fds) = loop {
        cell.reconnect();
        let (state, fds) = cell.link.workloads.remove(0);
        if let Some(exit) = state.exit {
            break (exit, fds);
        }
        assert!(Instant::now() < deadline, "it doesn't end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(exit.how, ExitHow::Code(0));
    let [out, err] = fds.try_into().unwrap();
    cell.ack(running.uid);
    assert_eq!(
        (read_all(out).as_str(), read_all(err).as_str()),
        ("late\n", "bad\n")
    );
}

fn a_failed_start_without_a_waiting_client_ends_as_in_a_shell() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let launch = launch_of(&["no-such-program"]);
    let _ = cell.ask_to_start(&launch);
    // The daemon dies at once: the answer may still have been sent to it.
    cell.reconnect();
    if let Some((state, _)) = cell.link.workloads.first() {
        let exit = state.exit.unwrap_or_else(|| cell.link.exit_of(launch.uid));
        assert_eq!(exit.how, ExitHow::Code(127));
    }
}

fn orphans_are_reaped() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let went = cell.workload(&["orphans", "2000"]);
    assert_eq!(went.exit.how, ExitHow::Code(0), "{went:?}");
    let left = || cell.sh("cat /proc/[0-9]*/stat | grep -c ' Z '").stdout;
    until("no zombie is left", || left() == "0\n");
}

fn mounts_come_and_go_while_it_runs() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "content").unwrap();
    let mut made = Plan::bare("unused", IDS).mounting(folder.path(), "/home/someone/deep");
    let made = made.mounts.remove(0);
    let target = made.1.target.clone();
    assert_eq!(cell.sh("ls -A /home").stdout, "");
    cell.mount(vec![made]).unwrap();
    // Nothing is left where it came by.
    assert_eq!(cell.sh("ls -A /dev/.mounts/*").stdout, "");
    assert_eq!(
        cell.sh("cat /home/someone/deep/file; echo x > /home/someone/deep/file")
            .stdout,
        "content"
    );
    cell.link
        .ask(
            |request| CellRequest::Unmount {
                request,
                target: target.clone(),
            },
            &[],
        )
        .unwrap();
    assert_eq!(cell.sh("ls -A /home/someone/deep").stdout, "");
    assert_eq!(
        std::fs::read(folder.path().join("file")).unwrap(),
        b"content"
    );
}

fn a_pipe_in_a_mounts_place_is_no_way_to_block_the_init() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let me = std::env::current_exe().unwrap();
    let me = format!("/run/bed/{}", me.file_name().unwrap().to_str().unwrap());
    let _busy = cell.start(&launch_of(&[&me, "workload", "fifos", "/tmp/place"]));
    std::thread::sleep(Duration::from_millis(50));
    let to = MountTarget {
        target: b"/tmp/place".to_vec(),
        directory: false,
    };
    let file = kernel::mount::copy_tree("/etc/passwd".as_ref(), false).unwrap();
    let attached = cell.staged(vec![false], vec![file], || {
        let mut attached = 0;
        for _ in 0..2000 {
            let mount = |request| CellRequest::Mount {
                request,
                from: 0,
                to: to.clone(),
            };
            // Refused where it was taken away again.
            if cell.link.ask(mount, &[]).is_ok() {
                attached += 1;
                let target = to.target.clone();
                let unmount = |request| CellRequest::Unmount {
                    request,
                    target: target.clone(),
                };
                cell.link.ask(unmount, &[]).unwrap();
            }
        }
        attached
    });
    assert!(attached > 0);
}

fn nonsense_is_answered_or_ignored() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    for packet in [
        &[1u8; 40][..],
        &[200],
        &[3, 99, 0, 0, 0, 0, 0, 0, 0],
        &[0; 5000],
    ] {
        seqpacket::send(&cell.link.socket, packet, &[cell.link.socket.as_fd()]).unwrap();
        seqpacket::send(&daemon.socket, packet, &[daemon.socket.as_fd()]).unwrap();
    }
    seqpacket::send(&cell.link.socket, &vec![5; MAX_PACKET + 100], &[]).unwrap();
    assert_eq!(cell.sh("exit 3").exit.how, ExitHow::Code(3));
    // A start without its descriptors is refused by its number.
    let number = cell.link.next_request();
    let start = CellRequest::Start {
        request: number,
        launch: launch_of(&["/bin/true"]),
    };
    send(&cell.link.socket, &start, &[]);
    let (failure, _) = cell.link.wait_for(|event| match event {
        CellEvent::Failed { request, failure } if *request == number => Some(failure.clone()),
        _ => None,
    });
    assert_eq!(failure.step, Step::Protocol);
    daemon.cell(&node, node.plan());
}

fn an_end_is_refused_while_something_runs() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let running = cell.start(&launch_of(&["/bin/sleep", "60"]));
    let busy = cell
        .link
        .ask(|request| CellRequest::Exit { request }, &[])
        .unwrap_err();
    assert_eq!(busy.errno, 16);
    let uid = running.uid;
    cell.link
        .ask(
            |request| CellRequest::Signal {
                request,
                uid,
                signal: 15,
            },
            &[],
        )
        .unwrap();
    assert_eq!(
        cell.link.exit_of(uid).how,
        ExitHow::Signal {
            signal: 15,
            core: false
        }
    );
    cell.ack(uid);
    cell.link
        .ask(|request| CellRequest::Exit { request }, &[])
        .unwrap();
    let (event, _) = daemon.event();
    let NodeEvent::CellExited { uid, exit } = event else {
        panic!("{event:?}")
    };
    assert_eq!((uid, exit.how), (cell.uid, ExitHow::Code(0)));
    // Kept until it is acknowledged.
    daemon.crash();
    let daemon = node.daemon();
    assert!(matches!(daemon.event().0, NodeEvent::CellExited { .. }));
    send(&daemon.socket, &NodeRequest::AckCell { uid: cell.uid }, &[]);
    daemon.crash();
    assert!(node.daemon().welcome.cells.is_empty());
}
