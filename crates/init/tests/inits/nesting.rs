// SPDX-License-Identifier: Apache-2.0
//! Cells in cells, and cells that share.

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use testkit::until;

pub(crate) const STORIES: &[Story] = &[
    ("cells_nest_three_deep", cells_nest_three_deep),
    (
        "a_cell_ends_with_the_one_around_it",
        a_cell_ends_with_the_one_around_it,
    ),
    (
        "a_cell_shares_what_it_is_told_to_with_the_node",
        a_cell_shares_with_the_node,
    ),
    (
        "a_nested_cell_shares_what_it_is_told_to_with_its_parent",
        a_nested_cell_shares,
    ),
    (
        "a_cell_that_shares_everything_is_the_nodes",
        a_cell_that_shares_everything,
    ),
    (
        "every_way_of_sharing_works_or_is_refused_by_name",
        every_way_of_sharing,
    ),
    (
        "ids_that_the_parent_has_not_are_refused",
        ids_that_the_parent_has_not_are_refused,
    ),
];

/// Names of a cell's namespaces, as a process in it sees them.
fn namespaces(cell: &Cell) -> Vec<String> {
    let kinds = ["user", "mnt", "pid", "net", "ipc", "uts"];
    let script = kinds
        .map(|kind| format!("readlink /proc/self/ns/{kind}"))
        .join("; ");
    cell.sh(&script).stdout.lines().map(str::to_owned).collect()
}

fn of_node() -> Vec<String> {
    let kinds = ["user", "mnt", "pid", "net", "ipc", "uts"];
    let read = |kind| std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
    kinds
        .map(|kind| read(kind).to_str().unwrap().to_owned())
        .to_vec()
}

/// For each kind, whether it is the same in both.
fn same(one: &[String], other: &[String]) -> Vec<bool> {
    assert_eq!((one.len(), other.len()), (6, 6), "{one:?} {other:?}");
    one.iter().zip(other).map(|(a, b)| a == b).collect()
}

fn cells_nest_three_deep() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut plan = Plan::new("one", IDS, 300_000);
    plan.launch.gid_map = plan.launch.uid_map.clone();
    let one = daemon.cell(&node, plan);
    let two = daemon.nested(&node, Plan::new("two", IDS + 10_000, 200_000), &one);
    let three = daemon.nested(&node, Plan::new("three", IDS + 20_000, 65_536), &two);
    let four = daemon.nested(&node, Plan::new("four", IDS + 30_000, 1000), &three);
    for (cell, name) in [
        (&one, "one"),
        (&two, "two"),
        (&three, "three"),
        (&four, "four"),
    ] {
        let went = cell.sh("id -u; hostname; ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm; touch /tmp/x /run/y; ls -A /tmp");
        let expected = format!("0\n{name}\n");
        assert!(went.stdout.starts_with(&expected), "{went:?}");
        assert!(went.stdout.ends_with("x\n"), "{went:?}");
    }
    // To all other processes, a child's root is a user of the parent's range.
    let running = four.start(&launch_of(&["/bin/sleep", "60"]));
    let pid = kernel::pidfd::pid_of(&running.pidfd).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(
        status.contains(&format!("Uid:\t{}", IDS + 30_000)),
        "{status}"
    );
    // The enclosing cell sees the processes of the one in it.
    let seen = three.sh("ls -d /proc/[0-9]* | wc -l").stdout;
    assert!(seen.trim().parse::<u32>().unwrap() > 3, "{seen}");
    assert!(
        same(&namespaces(&three), &namespaces(&four))
            .iter()
            .all(|same| !same)
    );
}

fn a_cell_ends_with_the_one_around_it() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let one = daemon.cell(&node, Plan::new("one", IDS, 300_000));
    let two = daemon.nested(&node, Plan::new("two", IDS + 10_000, 200_000), &one);
    let running = two.start(&launch_of(&["/bin/sleep", "60"]));
    kernel::pidfd::send_signal(&one.pidfd, kernel::signal::Signal::KILL).unwrap();
    let mut ended = [daemon.event().0, daemon.event().0].map(|event| match event {
        NodeEvent::CellExited { uid, exit } => (uid, exit.how),
        other => panic!("{other:?}"),
    });
    ended.sort_unstable_by_key(|(uid, _)| *uid != one.uid);
    let killed = ExitHow::Signal {
        signal: 9,
        core: false,
    };
    assert_eq!(ended, [(one.uid, killed), (two.uid, killed)]);
    until("its workload has ended", || {
        kernel::pidfd::has_ended(&running.pidfd).unwrap()
    });
}

fn a_cell_shares_with_the_node() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let node_has = of_node();
    let kinds = [
        Namespaces::USER,
        Namespaces::MOUNT,
        Namespaces::PID,
        Namespaces::NET,
        Namespaces::IPC,
        Namespaces::UTS,
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        let cell = daemon.cell(&node, node.plan().sharing(kind));
        let mut expected = vec![false; 6];
        expected[at] = true;
        assert_eq!(same(&namespaces(&cell), &node_has), expected, "{kind}");
    }
}

fn a_nested_cell_shares() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let parent = daemon.cell(&node, Plan::new("parent", IDS, 300_000));
    let parent_has = namespaces(&parent);
    let kinds = [
        Namespaces::USER,
        Namespaces::MOUNT,
        Namespaces::PID,
        Namespaces::NET,
        Namespaces::IPC,
        Namespaces::UTS,
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        let plan = Plan::new(&format!("child{at}"), IDS + 100_000, 65_536).sharing(kind);
        let child = daemon.nested(&node, plan, &parent);
        let mut expected = vec![false; 6];
        expected[at] = true;
        assert_eq!(same(&namespaces(&child), &parent_has), expected, "{kind}");
        // What it leaves running is reaped where it is, also without a pid namespace of its own.
        assert_eq!(
            child.sh("(sleep 0.01 &) ; exit 9").exit.how,
            ExitHow::Code(9)
        );
    }
}

fn a_cell_that_shares_everything() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan().sharing(Namespaces::ALL.0));
    assert_eq!(namespaces(&cell), of_node());
    let folder = tempfile::tempdir().unwrap();
    let script = format!("id -u > {}/id", folder.path().display());
    assert_eq!(cell.sh(&script).exit.how, ExitHow::Code(0));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("id")).unwrap(),
        "0\n"
    );
    // A cell in such a cell may be isolated.
    let inner = daemon.nested(&node, node.plan(), &cell);
    assert!(
        same(&namespaces(&inner), &of_node())
            .iter()
            .all(|same| !same)
    );
}

fn every_way_of_sharing() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let parent = daemon.cell(&node, Plan::new("parent", IDS, 300_000));
    let mut made = 0;
    for shared in 0..64u8 {
        for nested in [false, true] {
            let name = format!("way{shared}-{nested}");
            let plan = Plan::new(&name, IDS + 100_000, 65_536).sharing(shared);
            match daemon.try_cell(&node, plan, nested.then_some(&parent)) {
                Ok(cell) => {
                    let went = cell.sh("readlink /proc/self > /dev/null && echo fine");
                    assert_eq!(went.stdout, "fine\n", "{name}: {went:?}");
                    cell.link
                        .ask(|request| CellRequest::Exit { request }, &[])
                        .unwrap();
                    assert!(matches!(daemon.event().0, NodeEvent::CellExited { .. }));
                    made += 1;
                }
                Err(failure) => println!("{name}: {failure:?}"),
            }
        }
    }
    assert_eq!(made, 128);
}

fn ids_that_the_parent_has_not_are_refused() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let parent = daemon.cell(&node, Plan::new("parent", IDS, 1000));
    let plan = Plan::new("child", IDS + 990, 11);
    let failure = daemon.try_cell(&node, plan, Some(&parent)).err().unwrap();
    assert_eq!(failure.step, Step::IdMap);
    assert!(
        // The last of the parent's is its init's.
        failure.detail.contains(&(IDS + 999).to_string()),
        "{failure:?}"
    );
}
