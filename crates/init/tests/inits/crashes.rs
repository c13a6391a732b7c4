// SPDX-License-Identifier: Apache-2.0
//! What is left after a daemon, an init or the spawner was killed, and the order in which
//! everything ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::seqpacket;
use kernel::signal::Signal;
use testkit::until;

pub(crate) const STORIES: &[Story] = &[
    (
        "a_daemon_that_dies_at_any_moment_loses_nothing",
        a_daemon_that_dies_at_any_moment,
    ),
    (
        "what_a_deaf_daemon_asked_for_is_done",
        what_a_deaf_daemon_asked_for_is_done,
    ),
    (
        "a_killed_cell_init_is_a_cells_end",
        a_killed_cell_init_is_a_cells_end,
    ),
    ("a_killed_spawner_is_replaced", a_killed_spawner_is_replaced),
    (
        "cells_outlive_a_killed_node_init",
        cells_outlive_a_killed_node_init,
    ),
    (
        "a_daemon_that_crashes_at_once_is_restarted_ever_more_slowly",
        crash_loop,
    ),
    (
        "a_daemon_that_served_is_started_again_at_once",
        a_daemon_that_served_is_started_again_at_once,
    ),
    ("a_daemon_of_another_version_is_refused", another_version),
    (
        "the_next_daemon_is_of_what_is_installed",
        the_next_daemon_is_of_what_is_installed,
    ),
    (
        "a_cell_in_the_making_is_there_for_the_next_daemon",
        a_cell_in_the_making,
    ),
    (
        "everything_is_stopped_in_order",
        everything_is_stopped_in_order,
    ),
    (
        "what_does_not_stop_is_killed_within_the_bound",
        what_does_not_stop_is_killed,
    ),
    (
        "nested_cells_have_their_grace",
        nested_cells_have_their_grace,
    ),
    (
        "cells_are_made_after_a_stop_and_a_start",
        cells_are_made_after_a_stop_and_a_start,
    ),
    (
        "no_descriptors_left_is_an_answer",
        no_descriptors_left_is_an_answer,
    ),
];

/// A small generator, so that a failure can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Sends starts and acknowledgements without waiting, dies at a random point, and compares.
fn a_daemon_that_dies_at_any_moment() {
    let seed = std::env::var("AURAE_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed =
        seed.unwrap_or(Instant::now().elapsed().as_nanos() as u64 + u64::from(std::process::id()));
    println!("AURAE_TEST_SEED={seed}");
    let mut dice = Dice(seed | 1);
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let mut sent: BTreeMap<Uid, u8> = BTreeMap::new();
    for round in 0..testkit::how_much(60, 2000) {
        for _ in 0..dice.roll(6) {
            let code = u8::try_from(dice.roll(200)).unwrap();
            let launch = launch_of(&["/bin/sh", "-c", &format!("exit {code}")]);
            cell.ask_to_start(&launch);
            sent.insert(launch.uid, code);
        }
        if round % 10 == 9 {
            // The whole daemon, not its connection alone.
            daemon.crash();
            daemon = node.daemon();
            assert_eq!(daemon.welcome.cells, [(cell.uid, cell.pid)]);
        }
        std::thread::sleep(Duration::from_micros(dice.roll(3000)));
        cell.reconnect();
        let mut ended = BTreeMap::new();
        for (state, fds) in &cell.link.workloads {
            assert_eq!(fds.len(), if state.exit.is_some() { 2 } else { 3 });
            if let Some(exit) = state.exit {
                ended.insert(state.uid, exit.how);
            }
        }
        for (uid, how) in ended {
            assert_eq!(how, ExitHow::Code(sent[&uid]));
            if dice.roll(2) == 0 {
                cell.ack(uid);
                sent.remove(&uid);
            }
        }
    }
    // Every start that was sent, and whose end was not acknowledged, is there.
    let all: Vec<Uid> = cell
        .link
        .workloads
        .iter()
        .map(|(state, _)| state.uid)
        .collect();
    for (uid, code) in &sent {
        assert!(all.contains(uid), "a start was lost");
        let (state, _) = cell
            .link
            .workloads
            .iter()
            .find(|(state, _)| state.uid == *uid)
            .unwrap();
        let exit = state.exit.unwrap_or_else(|| cell.link.exit_of(*uid));
        assert_eq!(exit.how, ExitHow::Code(*code));
    }
}

/// A daemon that reads no answers has its requests wait in its socket. They are carried out when it
/// is dead.
fn what_a_deaf_daemon_asked_for_is_done() {
    let node = Node::start();
    let daemon = node.daemon();
    // No cell's: it is refused, with an answer.
    let mut packet = Vec::new();
    let order = NodeRequest::CreateCell {
        request: 1,
        launch: node.plan().launch,
    };
    init::codec::Packet::encode(&order, &mut packet).unwrap();
    packet.truncate(20);
    rustix::io::ioctl_fionbio(&daemon.socket, true).unwrap();
    let fill = || {
        let mut asked = 0;
        let mut refusals = 0;
        // What node-init has just read makes room for a moment.
        while refusals < 20 {
            match seqpacket::send(&daemon.socket, &packet, &[]) {
                Ok(()) => (asked, refusals) = (asked + 1, 0),
                Err(_) => {
                    refusals += 1;
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        asked
    };
    assert!(fill() > 0);
    let head = NodeRequest::AuditHead {
        sequence: 77,
        hash: [7; 32],
    };
    // A little room, for the last word: it is behind everything that was asked.
    while try_send(&daemon.socket, &head, &[]).is_none() {
        receive::<NodeEvent>(&daemon.socket).unwrap();
    }
    daemon.crash();
    let daemon = node.daemon();
    assert_eq!(daemon.welcome.audit_head, Some((77, [7; 32])));
}

fn a_killed_cell_init_is_a_cells_end() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let running = cell.start(&launch_of(&["/bin/sleep", "60"]));
    kernel::pidfd::send_signal(&cell.pidfd, Signal::KILL).unwrap();
    let (event, _) = daemon.event();
    let NodeEvent::CellExited { uid, exit } = event else {
        panic!("{event:?}")
    };
    assert_eq!(
        (uid, exit.how),
        (
            cell.uid,
            ExitHow::Signal {
                signal: 9,
                core: false
            }
        )
    );
    until("its workload has ended with it", || {
        kernel::pidfd::has_ended(&running.pidfd).unwrap()
    });
}

pub(crate) fn spawner_of(node: &Node) -> Option<i32> {
    let own = node.init.id();
    let is_child = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // Cell-inits are clones of it, in user namespaces of their own.
        let user = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).ok();
        status.contains(&format!("PPid:\t{own}\n"))
            && line.starts_with("auraed-spawner")
            && user(&pid.to_string()) == user("self")
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        entry
            .unwrap()
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
    });
    all.into_iter().find(is_child)
}

fn a_killed_spawner_is_replaced() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    for _ in 0..3 {
        let pid = rustix::process::Pid::from_raw(spawner_of(&node).expect("a spawner")).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        // Until another is there the answer says to try again; then it works.
        let start = Instant::now();
        loop {
            match daemon.try_cell(&node, node.plan(), None) {
                Ok(_) => break,
                Err(failure) => assert!([10, 11].contains(&failure.errno), "{failure:?}"),
            }
            assert!(start.elapsed() < TIMEOUT);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(cell.sh("exit 6").exit.how, ExitHow::Code(6));
}

fn cells_outlive_a_killed_node_init() {
    let mut node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, node.plan());
    let mut launch = launch_of(&[
        "/bin/sh",
        "-c",
        "trap 'exit 9' TERM; echo up; sleep 60 & wait",
    ]);
    launch.grace_ms = 3000;
    let running = cell.start(&launch);
    node.replace_init();
    let daemon = node.daemon();
    // This node-init never heard of the cell; its socket is enough.
    assert_eq!(
        (daemon.welcome.cells.len(), daemon.welcome.daemon_starts),
        (0, 1)
    );
    cell.reconnect();
    assert_eq!(cell.link.workloads[0].0.uid, running.uid);
    assert_eq!(cell.sh("exit 6").exit.how, ExitHow::Code(6));
    // And it is stopped in order with everything else, found by its cgroup.
    let stopping = std::thread::spawn(move || node.stop());
    assert_eq!(cell.link.exit_of(running.uid).how, ExitHow::Code(9));
    cell.ack(running.uid);
    assert!(stopping.join().unwrap() < TIMEOUT);
}

fn crash_loop() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    node.flavour("crash");
    daemon.crash();
    std::thread::sleep(Duration::from_secs(1));
    // No daemon is there, and the cell goes on.
    kernel::pidfd::send_signal(&cell.pidfd, Signal::CONT).unwrap();
    node.flavour("");
    let daemon = node.daemon();
    let starts = daemon.welcome.daemon_starts;
    // At once, then after 100, 200, 400 and 800 ms; fewer where the host is slow.
    assert!((2..=7).contains(&starts), "{starts}");
    assert_eq!(daemon.welcome.cells.len(), 1);
}

fn a_daemon_that_served_is_started_again_at_once() {
    let node = Node::start();
    let start = Instant::now();
    for death in 1..=12 {
        let daemon = node.daemon();
        assert_eq!(daemon.welcome.daemon_starts, death);
        send(&daemon.socket, &NodeRequest::Ready, &[]);
        daemon.crash();
    }
    node.daemon();
    // With the pauses of a crash loop it would be more than 30 s.
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
}

fn another_version() {
    let node = Node::start();
    let daemon = node.daemon();
    node.flavour("old");
    daemon.crash();
    let (socket, _) = node.raw_daemon();
    let (event, _) = receive::<NodeEvent>(&socket).unwrap();
    let NodeEvent::Refused { version, reason } = event else {
        panic!("{event:?}")
    };
    assert_eq!(version, VERSION);
    assert!(reason.contains("version 0"), "{reason}");
    assert!(
        receive::<NodeEvent>(&socket).is_none(),
        "the connection ends"
    );
}

fn the_next_daemon_is_of_what_is_installed() {
    use std::os::unix::fs::MetadataExt;
    let executed = |daemon: &Daemon| {
        let exe = format!("/proc/{}/exe", daemon.pid);
        std::fs::metadata(exe).unwrap().ino()
    };
    let node = Node::installed();
    let mut daemon = node.daemon();
    send(&daemon.socket, &NodeRequest::Ready, &[]);
    let cell = daemon.cell(&node, node.plan());
    let own = executed(&daemon);
    let binary = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let new = install(node.folder.path(), &binary);
    node.reload();
    let daemon = node.daemon();
    send(&daemon.socket, &NodeRequest::Ready, &[]);
    assert!(new != own && executed(&daemon) == new);
    assert_eq!(daemon.welcome.cells.len(), 1, "its cell went on");
    // What can't be executed is followed by node-init's own.
    install(node.folder.path(), b"no program");
    node.reload();
    let daemon = node.daemon();
    assert_eq!(executed(&daemon), own);
    assert_eq!(daemon.welcome.cells.len(), 1);
    drop(cell);
}

fn a_cell_in_the_making() {
    let node = Node::start();
    let mut daemon = node.daemon();
    for (round, delay_us) in [0, 300, 1000, 3000].into_iter().enumerate() {
        let plan = node.plan();
        let uid = plan.launch.uid;
        daemon.ask_for_cell(&node, &plan, None);
        std::thread::sleep(Duration::from_micros(delay_us));
        daemon.crash();
        daemon = node.daemon();
        assert_eq!(daemon.welcome.cells.len(), round + 1);
        let link = CellLink::connect(&node.socket_path(uid));
        assert!(link.record.starts_with(b"record of cell"));
    }
}

fn everything_is_stopped_in_order() {
    let mut node = Node::with_bound(TIMEOUT);
    let mut daemon = node.daemon();
    let cells: Vec<Cell> = (0..5).map(|_| daemon.cell(&node, node.plan())).collect();
    let mut launch = launch_of(&[
        "/bin/sh",
        "-c",
        "trap 'kill $!; sleep 3; echo bye; exit 12' USR1; sleep 60 & echo ready; wait; wait",
    ]);
    launch.stop_signal = 10;
    launch.grace_ms = 10_000;
    let mut runs = Vec::new();
    for cell in &cells {
        launch.uid = random_uid();
        runs.push(cell.start(&launch));
    }
    for run in &runs {
        assert_eq!(read_line(&run.stdout), "ready\n");
    }
    let stopping = std::thread::spawn(move || (node.stop(), node));
    let (event, _) = daemon.event();
    assert!(
        matches!(
            event,
            NodeEvent::ShuttingDown {
                mode: PowerMode::Exit,
                ..
            }
        ),
        "{event:?}"
    );
    for (cell, run) in cells.iter().zip(runs) {
        assert_eq!(cell.link.exit_of(run.uid).how, ExitHow::Code(12));
        assert_eq!(read_all(run.stdout), "bye\n");
        cell.ack(run.uid);
    }
    for _ in &cells {
        let (event, _) = daemon.event();
        let NodeEvent::CellExited { exit, .. } = event else {
            panic!("{event:?}")
        };
        assert_eq!(exit.how, ExitHow::Code(0));
    }
    // In parallel: five times three seconds did not add up.
    let (took, _node) = stopping.join().unwrap();
    assert!(took < Duration::from_secs(14), "{took:?}");
}

fn what_does_not_stop_is_killed() {
    let mut node = Node::with_bound(Duration::from_secs(2));
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let mut launch = launch_of(&["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"]);
    launch.grace_ms = 60_000;
    let run = cell.start(&launch);
    let took = node.stop();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(kernel::pidfd::has_ended(&run.pidfd).unwrap());
}

fn nested_cells_have_their_grace() {
    let mut node = Node::start();
    let mut daemon = node.daemon();
    let outer = daemon.cell(&node, Plan::new("outer", IDS, 300_000));
    let inner = daemon.nested(&node, Plan::new("inner", IDS + 100_000, 65_536), &outer);
    let mut launch = launch_of(&[
        "/bin/sh",
        "-c",
        "trap 'kill $!; sleep 0.3; exit 13' TERM; sleep 60 & echo ready; wait; wait",
    ]);
    launch.grace_ms = 60_000;
    let run = inner.start(&launch);
    assert_eq!(read_line(&run.stdout), "ready\n");
    let stopping = std::thread::spawn(move || node.stop());
    assert_eq!(inner.link.exit_of(run.uid).how, ExitHow::Code(13));
    inner.ack(run.uid);
    assert!(stopping.join().unwrap() < Duration::from_secs(20));
}

fn no_descriptors_left_is_an_answer() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    let limit = |pid: i32, soft: u64| {
        let limit = kernel::rlimit::Limit { soft, hard: 10_000 };
        let set = || kernel::rlimit::set_of(pid, kernel::rlimit::Resource::NOFILE, limit);
        if set().is_ok() {
            return;
        }
        // In a container root may not; the very user whose process it is may.
        let changed = as_user(cell.init_id, cell.root, || set().is_ok());
        assert!(changed);
    };
    let init = i32::try_from(node.init.id()).unwrap();
    limit(cell.pid, 9);
    let failure = cell.try_start(&launch_of(&["/bin/true"])).err().unwrap();
    assert_eq!(failure.step, Step::Limit, "{failure:?}");
    limit(cell.pid, 1000);
    assert_eq!(cell.sh("exit 3").exit.how, ExitHow::Code(3));
    limit(init, 12);
    let failure = daemon.try_cell(&node, node.plan(), None).err().unwrap();
    assert!(
        [Step::Protocol, Step::Limit, Step::Clone].contains(&failure.step),
        "{failure:?}"
    );
    limit(init, 1000);
    daemon.cell(&node, node.plan());
}

/// A service that is stopped and started again finds groups that were killed.
fn cells_are_made_after_a_stop_and_a_start() {
    let mut node = Node::start();
    let mut daemon = node.daemon();
    let plan = node.plan();
    let _cell = daemon.cell(&node, plan);
    node.stop();
    node.start_init();
    let mut daemon = node.daemon();
    let plan = node.plan();
    let cell = daemon.cell(&node, plan);
    assert_eq!(cell.sh("exit 7").exit.how, ExitHow::Code(7));
}
