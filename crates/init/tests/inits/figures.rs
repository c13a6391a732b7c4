// SPDX-License-Identifier: Apache-2.0
//! The cost of cells and executables beside that of the kernel's own calls, in turns within one
//! run: `--test inits -- --figures`. Take them with an optimised build (`--release`); they are no
//! test. On a busy machine a new session waits for its first turn longer than the raw clone does,
//! which has had turns before: run them under `chrt -f 10` there.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::bed::*;
use crate::images::*;
use init::protocol::*;
use kernel::clone::{self, Cloned, Options};
use kernel::exec::Prepared;
use kernel::namespace::Namespaces as Kinds;
use kernel::process;
use kernel::wait::{self, Reap, Target};

/// A small static program (Debian's busybox-static).
const PROGRAM: &str = "/bin/busybox";
const TURNS: usize = 300;

pub(crate) fn measure() {
    let node = Node::start();
    let mut daemon = node.daemon();
    executables(&node, &mut daemon);
    let program = || launch_of(&[PROGRAM, "true"]);
    let bare = |name: &str| Plan::bare(name, IDS + 10_000_000);
    cells(&node, &mut daemon, "cell", bare, program);
    let image = Image::new();
    let contained = |name: &str| image.container_of(bare(name), true, 0);
    let main = || launch_in(Pids::New, &["/bin/true"]);
    cells(&node, &mut daemon, "container", contained, main);
    memory(&node, &mut daemon);
}

fn report(what: &str, ours: &mut [Duration], raw: &mut [Duration]) {
    ours.sort_unstable();
    raw.sort_unstable();
    let at = |all: &[Duration], part: usize| all[all.len() * part / 100];
    for part in [50, 90, 99] {
        let (ours, raw) = (at(ours, part), at(raw, part));
        let ratio = ours.as_secs_f64() / raw.as_secs_f64();
        println!("{what} p{part}: {ours:?}, raw {raw:?}, ratio {ratio:.2}");
    }
}

fn prepared() -> Prepared {
    Prepared::new(&["busybox", "true"], &["PATH=/bin"]).unwrap()
}

/// fork, exec, wait; in new namespaces and a cgroup of its own where asked.
fn raw(namespaces: Kinds, group: Option<&OwnedFd>) -> Duration {
    let prepared = prepared();
    let program = std::ffi::CString::new(PROGRAM).unwrap();
    let start = Instant::now();
    let cgroup = group.map(AsFd::as_fd);
    match clone::clone(Options {
        namespaces,
        cgroup,
        ..Options::default()
    })
    .unwrap()
    {
        Cloned::Child => {
            let _ = prepared.exec(&program);
            process::exit(1)
        }
        Cloned::Parent(pid, _) => wait::wait(Target::Pid(pid), Reap::Yes).unwrap(),
    };
    start.elapsed()
}

/// A program in a running cell, with its leaf and pipes, until its exit is here; and the kernel
/// alone.
fn executables(node: &Node, daemon: &mut Daemon) {
    // Without mounts: the thread that brings them may not be gone when the raw clone is made.
    let cell = daemon.cell(node, Plan::bare("executables", IDS));
    let mut launch = launch_of(&[PROGRAM, "true"]);
    let (mut ours, mut raws, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        raws.push(raw(Kinds::NONE, None));
        launch.uid = random_uid();
        let start = Instant::now();
        let running = cell.start(&launch);
        starts.push(start.elapsed());
        cell.link.exit_of(running.uid);
        ours.push(start.elapsed());
        cell.ack(running.uid);
    }
    report("executable", &mut ours, &mut raws.clone());
    report("  of which until Started", &mut starts, &mut raws);
}

/// An isolated cell, a program in it, its end and that of the cell.
fn cells(
    node: &Node,
    daemon: &mut Daemon,
    what: &str,
    plan: impl Fn(&str) -> Plan,
    program: impl Fn() -> Launch,
) {
    let (mut ours, mut raws, mut creations) = (Vec::new(), Vec::new(), Vec::new());
    let (mut runs, mut ends) = (Vec::new(), Vec::new());
    for turn in 0..TURNS / 3 {
        let start = Instant::now();
        let group = node.base.create(&format!("raw{turn}")).unwrap();
        let group = group.into_fd();
        let _ = raw(Kinds::ALL, Some(&group));
        node.base.remove(&format!("raw{turn}"), TIMEOUT).unwrap();
        raws.push(start.elapsed());

        let plan = plan(&format!("{what}{turn}"));
        let name = plan.name.clone();
        let start = Instant::now();
        let cell = daemon.cell(node, plan);
        creations.push(start.elapsed());
        cell.run_launch(&program());
        runs.push(start.elapsed());
        cell.link
            .ask(|request| CellRequest::Exit { request }, &[])
            .unwrap();
        let (event, _) = daemon.event();
        assert!(matches!(event, NodeEvent::CellExited { .. }));
        ends.push(start.elapsed());
        cell.group.remove("exe0", TIMEOUT).unwrap();
        let tenant = node.place().tenant("tenant");
        tenant.remove(&name, TIMEOUT).unwrap();
        ours.push(start.elapsed());
        send(&daemon.socket, &NodeRequest::AckCell { uid: cell.uid }, &[]);
    }
    report(what, &mut ours, &mut raws.clone());
    report(
        "  of which until CellCreated",
        &mut creations,
        &mut raws.clone(),
    );
    report("  until its program's exit", &mut runs, &mut raws.clone());
    report("  until CellExited", &mut ends, &mut raws);
}

fn memory(node: &Node, daemon: &mut Daemon) {
    let mut cells = Vec::new();
    for count in [10, 100, 300] {
        while cells.len() < count {
            let name = format!("memory{}", cells.len());
            let cell = daemon.cell(node, Plan::bare(&name, IDS + 10_000_000));
            cell.run(&[PROGRAM, "true"]);
            cells.push(cell);
        }
        let all: Vec<u64> = cells
            .iter()
            .map(|cell| memory_of(cell.pid.unsigned_abs(), "Pss:"))
            .collect();
        let mean = all.iter().sum::<u64>() / all.len() as u64;
        println!(
            "memory: {count} cells: {mean} kB PSS per cell-init, node-init {} kB",
            memory_of(node.init.id(), "Pss:")
        );
    }
}
