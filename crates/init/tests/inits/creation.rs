// SPDX-License-Identifier: Apache-2.0
//! The processes that create a cell, killed and stopped at every stage. Only that cell is lost, and
//! the daemon gets an error; the next cell is created, and the next daemon answered, within bounds.
//!
//! A process is held by the cgroup that it is cloned into, that of its tenant's inits: a frozen
//! one, so that it gets no further than the kernel's own part of its clone. A cell's root does the
//! same by `SIGSTOP` to what comes into its cell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Story;
use crate::bed::*;
use crate::crashes::spawner_of;
use init::protocol::*;
use kernel::cgroup::Cgroup;
use kernel::signal::Signal;
use rustix::io::Errno;
use testkit::until;

pub(crate) const STORIES: &[Story] = &[
    (
        "a_helper_that_is_killed_or_held_is_one_cells_loss",
        a_helper_that_is_killed_or_held_is_one_cells_loss,
    ),
    (
        "a_cell_that_is_held_up_keeps_no_other_waiting",
        a_cell_that_is_held_up_keeps_no_other_waiting,
    ),
    (
        "an_init_that_is_held_while_it_is_created_is_killed",
        an_init_that_is_held_while_it_is_created_is_killed,
    ),
    (
        "a_spawner_that_is_held_is_replaced",
        a_spawner_that_is_held_is_replaced,
    ),
    (
        "an_init_that_is_killed_while_it_is_created_is_an_answer",
        an_init_that_is_killed_while_it_is_created_is_an_answer,
    ),
    (
        "a_flood_of_stops_inside_a_cell_harms_no_other_cell",
        a_flood_of_stops_inside_a_cell_harms_no_other_cell,
    ),
    (
        "a_spawner_does_not_grow_with_what_it_has_created",
        a_spawner_does_not_grow_with_what_it_has_created,
    ),
];

/// Cells of a tenant whose inits stand still from the first moment, where that is said.
struct Tenant {
    name: &'static str,
    inits: Cgroup,
}

impl Tenant {
    fn new(node: &Node, name: &'static str) -> Tenant {
        let inits = node.place().tenant(name).ensure("_inits").unwrap();
        Tenant { name, inits }
    }

    fn plan(&self, mut plan: Plan) -> Plan {
        plan.tenant = self.name;
        plan
    }

    fn hold(&self, hold: bool) {
        let value = if hold { "1" } else { "0" };
        self.inits.write("cgroup.freeze", value).unwrap();
    }

    fn inits(&self) -> Vec<i32> {
        self.inits.processes().unwrap()
    }
}

/// The answer that no cell was made, and when it came.
fn refused(daemon: &Daemon, asked: u64) -> Failure {
    match daemon.event().0 {
        NodeEvent::CellFailed { request, failure } if request == asked => failure,
        other => panic!("{other:?}"),
    }
}

fn is(failure: &Failure, errno: Errno) {
    assert_eq!(failure.errno, errno.raw_os_error(), "{failure:?}");
}

/// A cell can be made and works.
fn all_is_well(node: &Node, daemon: &mut Daemon) {
    let cell = daemon.cell(node, node.plan());
    assert_eq!(cell.sh("exit 4").exit.how, ExitHow::Code(4));
}

fn a_helper_that_is_killed_or_held_is_one_cells_loss() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let tenant = Tenant::new(&node, "held");
    let outer = daemon.cell(
        &node,
        tenant.plan(Plan::new("outer", IDS + 5_000_000, 300_000)),
    );
    let inner = |name: &str| tenant.plan(Plan::new(name, IDS + 5_100_000, 65_536));
    let before = tenant.inits();
    let helper = || tenant.inits().into_iter().find(|pid| !before.contains(pid));
    tenant.hold(true);
    let (asked, _) = daemon.ask_for_cell(&node, &inner("killed"), Some(&outer));
    until("the helper is there", || helper().is_some());
    let pidfd = kernel::pidfd::open(helper().unwrap()).unwrap();
    kernel::pidfd::send_signal(&pidfd, Signal::KILL).unwrap();
    is(&refused(&daemon, asked), Errno::CHILD);
    all_is_well(&node, &mut daemon);
    let (asked, _) = daemon.ask_for_cell(&node, &inner("held"), Some(&outer));
    is(&refused(&daemon, asked), Errno::TIMEDOUT);
    until("the helper is killed", || helper().is_none());
    all_is_well(&node, &mut daemon);
    tenant.hold(false);
    daemon.nested(&node, inner("free"), &outer);
}

fn a_cell_that_is_held_up_keeps_no_other_waiting() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let ids = |number: u32| IDS + number * 1_000_000;
    let tenant = Tenant::new(&node, "held");
    let outer = daemon.cell(&node, tenant.plan(Plan::new("outer", ids(5), 600_000)));
    let free = daemon.cell(&node, Plan::new("free", ids(6), 600_000));
    tenant.hold(true);
    let mut asked: Vec<u64> = (1..=5)
        .map(|number| {
            let plan = Plan::new(&format!("held{number}"), ids(5) + number * 70_000, 65_536);
            daemon
                .ask_for_cell(&node, &tenant.plan(plan), Some(&outer))
                .0
        })
        .collect();
    let start = Instant::now();
    // All are held up now, each for 5 s.
    for number in 1..=5 {
        let plan = Plan::new(&format!("quick{number}"), ids(6) + number * 70_000, 65_536);
        daemon.nested(&node, plan, &free);
        all_is_well(&node, &mut daemon);
    }
    // One after the other they would take 25 s before the first quick one.
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
    for _ in 1..=5 {
        let NodeEvent::CellFailed { request, failure } = daemon.event().0 else {
            panic!("a held cell was made")
        };
        is(&failure, Errno::TIMEDOUT);
        asked.retain(|number| *number != request);
    }
    assert_eq!(asked, [0; 0]);
    assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
}

fn an_init_that_is_held_while_it_is_created_is_killed() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let tenant = Tenant::new(&node, "held");
    tenant.hold(true);
    let (asked, _) = daemon.ask_for_cell(&node, &tenant.plan(node.plan()), None);
    // A creation that waits delays no other one.
    all_is_well(&node, &mut daemon);
    let failure = refused(&daemon, asked);
    is(&failure, Errno::TIMEDOUT);
    until("it is killed", || tenant.inits().is_empty());
    // The same while the next daemon waits for its welcome.
    daemon.ask_for_cell(&node, &tenant.plan(node.plan()), None);
    daemon.crash();
    let daemon = node.daemon();
    assert_eq!(daemon.welcome.cells.len(), 1);
}

fn a_spawner_that_is_held_is_replaced() {
    let node = Node::start();
    let mut daemon = node.daemon();
    all_is_well(&node, &mut daemon);
    let hold = || {
        let spawner = kernel::pidfd::open(spawner_of(&node).expect("a spawner")).unwrap();
        kernel::pidfd::send_signal(&spawner, Signal::STOP).unwrap();
    };
    hold();
    let (asked, _) = daemon.ask_for_cell(&node, &node.plan(), None);
    is(&refused(&daemon, asked), Errno::CHILD);
    until("there is another", || spawner_of(&node).is_some());
    // It may not have said its first word.
    let start = Instant::now();
    while let Err(failure) = daemon.try_cell(&node, node.plan(), None) {
        is(&failure, Errno::AGAIN);
        assert!(start.elapsed() < TIMEOUT);
    }
    hold();
    daemon.ask_for_cell(&node, &node.plan(), None);
    daemon.crash();
    let daemon = node.daemon();
    assert_eq!(daemon.welcome.cells.len(), 2);
}

fn an_init_that_is_killed_while_it_is_created_is_an_answer() {
    let node = Node::start();
    let mut daemon = node.daemon();
    all_is_well(&node, &mut daemon);
    let spawner = spawner_of(&node);
    let tenant = Tenant::new(&node, "victims");
    let mut made = 0;
    for _ in 0..30 {
        let plan = tenant.plan(node.plan());
        let path = tenant.inits.path().join("cgroup.kill");
        let over = AtomicBool::new(false);
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = std::fs::write(&path, "1");
                }
            });
            let (asked, _) = daemon.ask_for_cell(&node, &plan, None);
            let answer = daemon.event().0;
            over.store(true, Ordering::Relaxed);
            (asked, answer)
        });
        match answer {
            (asked, NodeEvent::CellFailed { request, .. }) if request == asked => {}
            // It was quicker. Its end is reported.
            (_, NodeEvent::CellCreated { .. }) => {
                made += 1;
                std::fs::write(&path, "1").unwrap();
                assert!(matches!(daemon.event().0, NodeEvent::CellExited { .. }));
            }
            (_, other) => panic!("{other:?}"),
        }
    }
    println!("    {made} of 30 were ready before");
    assert_eq!(spawner_of(&node), spawner, "the spawner ended with them");
    daemon.crash();
    let mut daemon = node.daemon();
    assert_eq!(daemon.welcome.cells.len(), 1);
    for _ in 0..made {
        let NodeEvent::CellExited { uid, .. } = daemon.event().0 else {
            panic!("no end")
        };
        send(&daemon.socket, &NodeRequest::AckCell { uid }, &[]);
    }
    all_is_well(&node, &mut daemon);
}

fn a_flood_of_stops_inside_a_cell_harms_no_other_cell() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let outer = daemon.cell(&node, Plan::new("outer", IDS + 5_000_000, 300_000));
    let _flood = outer.start(&launch_of(&[
        "/bin/sh",
        "-c",
        "while :; do kill -STOP -1; done",
    ]));
    std::thread::sleep(Duration::from_millis(50));
    let (asked, _) = daemon.ask_for_cell(
        &node,
        &Plan::new("inner", IDS + 5_100_000, 65_536),
        Some(&outer),
    );
    // It may be quick enough: then it stands still as a cell.
    match daemon.event().0 {
        NodeEvent::CellFailed { request, failure } if request == asked => {
            println!("    {failure}");
            is(&failure, Errno::TIMEDOUT);
        }
        NodeEvent::CellCreated { .. } => {}
        other => panic!("{other:?}"),
    }
    all_is_well(&node, &mut daemon);
    daemon.crash();
    let daemon = node.daemon();
    assert!(daemon.welcome.cells.len() >= 2);
}

/// A cell with two extents, as the daemon makes them: their text grows in pieces.
fn mapped_in_two(name: &str) -> Plan {
    let mut plan = Plan::bare(name, IDS + 10_000_000);
    let whole = plan.launch.uid_map[0];
    let half = whole.count / 2;
    let first = IdMap {
        count: half,
        ..whole
    };
    let second = IdMap {
        inside: 65_536,
        outside: whole.outside + half,
        count: whole.count - half,
    };
    plan.launch.uid_map = vec![first, second];
    plan.launch.gid_map = vec![first, second];
    plan
}

/// Each init is a copy of it, so what it keeps of a creation is paid by every later cell.
fn a_spawner_does_not_grow_with_what_it_has_created() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut create = |count: usize| {
        for number in 0..count {
            let name = format!("passing{number}");
            let cell = daemon.cell(&node, mapped_in_two(&name));
            let exit = |request| CellRequest::Exit { request };
            cell.link.ask(exit, &[]).unwrap();
            assert!(matches!(daemon.event().0, NodeEvent::CellExited { .. }));
            let tenant = node.place().tenant("tenant");
            tenant.remove(&name, TIMEOUT).unwrap();
            send(&daemon.socket, &NodeRequest::AckCell { uid: cell.uid }, &[]);
        }
    };
    create(50);
    let spawner = spawner_of(&node).expect("a spawner");
    // Memory that is no file's.
    let anonymous = || memory_of(spawner.unsigned_abs(), "Anonymous:");
    let before = anonymous();
    create(200);
    let after = anonymous();
    assert_eq!(spawner_of(&node), Some(spawner));
    assert!(after <= before + 4, "{before} KiB, {after} KiB");
}
