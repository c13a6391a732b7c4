// SPDX-License-Identifier: Apache-2.0
//! A cell-init is killed whose cell shares every namespace of the node: what runs there goes on,
//! and the next init of the cell knows how each ends.

use std::os::fd::{AsFd, OwnedFd};

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::pidfd;
use kernel::seqpacket::{self, Mode};
use kernel::signal::Signal;
use rustix::io::Errno;
use testkit::until;

pub(crate) const STORIES: &[Story] = &[
    (
        "what_a_dead_init_has_left_is_adopted_with_its_ends",
        what_a_dead_init_has_left_is_adopted_with_its_ends,
    ),
    (
        "what_has_no_main_process_is_adopted_too",
        what_has_no_main_process_is_adopted_too,
    ),
    (
        "an_end_is_waited_for_until_node_init_has_begun_to_speak",
        an_end_is_waited_for_until_node_init_has_begun_to_speak,
    ),
    (
        "a_flood_of_orphans_drowns_no_main_process",
        a_flood_of_orphans_drowns_no_main_process,
    ),
    (
        "a_word_that_never_comes_is_an_unknown_end",
        a_word_that_never_comes_is_an_unknown_end,
    ),
    (
        "an_init_of_other_namespaces_adopts_nothing",
        an_init_of_other_namespaces_adopts_nothing,
    ),
];

/// A cell of the administrators' that shares all that the node has.
fn shared() -> Plan {
    let mut plan = Plan::bare("web", 0).sharing(Namespaces::ALL.0);
    plan.tenant = "system";
    plan
}

/// Kills a cell's init, and waits until node-init says so.
fn kill_init(daemon: &Daemon, cell: &Cell) {
    pidfd::send_signal(&cell.pidfd, Signal::KILL).unwrap();
    let (event, _) = daemon.event();
    assert!(matches!(event, NodeEvent::CellExited { uid, .. } if uid == cell.uid));
}

/// Another init for a cell whose init has died; it hears of orphans.
fn another_init(node: &Node, daemon: &mut Daemon, launch: &CellLaunch, dead: Cell) -> Cell {
    let (cell, socket) = deaf_init(node, daemon, launch, dead);
    tell(daemon, &cell, &socket);
    cell
}

/// Has node-init say how orphans end.
fn tell(daemon: &Daemon, cell: &Cell, socket: &OwnedFd) {
    let tell = NodeRequest::TellOrphans { uid: cell.uid };
    send(&daemon.socket, &tell, &[socket.as_fd()]);
}

/// One that hears of orphans as soon as node-init has the socket.
fn deaf_init(node: &Node, daemon: &mut Daemon, launch: &CellLaunch, dead: Cell) -> (Cell, OwnedFd) {
    let inits = node.place().tenant("system").child("_inits").unwrap();
    std::fs::remove_file(&dead.path).unwrap();
    let listener = seqpacket::listen(&dead.path, 8, Mode::Nonblocking).unwrap();
    daemon.request += 1;
    let uid = dead.uid;
    send(&daemon.socket, &NodeRequest::AckCell { uid }, &[]);
    let order = NodeRequest::CreateCell {
        request: daemon.request,
        launch: launch.clone(),
    };
    let inits = inits.into_fd();
    send(&daemon.socket, &order, &[inits.as_fd(), listener.as_fd()]);
    let (NodeEvent::CellCreated { pid, .. }, fds) = daemon.event() else {
        panic!("no other init was made");
    };
    let [pidfd] = fds.try_into().unwrap();
    let link = CellLink::connect(&dead.path);
    let (ours, theirs) = seqpacket::pair(Mode::Nonblocking).unwrap();
    let hear = |request| CellRequest::Orphans { request };
    link.ask(hear, &[theirs.as_fd()]).unwrap();
    let cell = Cell {
        pidfd,
        pid,
        link,
        ..dead
    };
    (cell, ours)
}

/// What the daemon knows of a workload that runs.
fn known(running: &Running, pid: i32) -> WorkloadState {
    WorkloadState {
        uid: running.uid,
        pid,
        stdio: Stdio::Pipes,
        has_stdin: running.stdin.is_some(),
        record: Record::Here(b"a record".to_vec()),
        started_ns: 77,
        exit: None,
        first: None,
        has_process: true,
    }
}

/// A record that goes beside its packet; how long it is says nothing.
const LONG: &[u8] = b"a long record";

fn adopt(
    cell: &Cell,
    (running, leaf): (&Running, &str),
    state: &WorkloadState,
    forks: bool,
) -> Result<(), Failure> {
    let leaf = cell.group.child(leaf).unwrap().into_fd();
    let mut fds = vec![leaf.as_fd()];
    if state.has_process {
        fds.push(running.pidfd.as_fd());
    }
    fds.extend([running.stdout.as_fd(), running.stderr.as_fd()]);
    fds.extend(running.stdin.as_ref().map(AsFd::as_fd));
    let long = kernel::sealed::seal(c"record", LONG).unwrap();
    fds.extend((state.record == Record::Beside).then_some(long.as_fd()));
    let ask = |request| CellRequest::Adopt {
        request,
        state: state.clone(),
        forks,
        stop_signal: 15,
        grace_ms: 500,
    };
    cell.link.ask(ask, &fds)
}

fn pid_of(running: &Running) -> i32 {
    pidfd::pid_of(&running.pidfd).unwrap()
}

/// One that ends when it is told to.
fn waiting(cell: &Cell, then: &str) -> Running {
    let mut launch = launch_of(&["/bin/sh", "-c", &format!("echo up; read line; {then}")]);
    launch.keep_stdin = true;
    let running = cell.start(&launch);
    assert_eq!(read_line(&running.stdout), "up\n");
    running
}

fn end(running: &Running) {
    rustix::io::write(running.stdin.as_ref().unwrap(), b"\n").unwrap();
}

fn ended(pidfd: &OwnedFd) {
    until("it has ended", || pidfd::has_ended(pidfd).unwrap());
}

fn what_a_dead_init_has_left_is_adopted_with_its_ends() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let plan = shared();
    let launch = plan.launch.clone();
    let cell = daemon.cell(&node, plan);
    let later = waiting(&cell, "echo later; exit 3");
    let meanwhile = waiting(&cell, "exit 4");
    let stopped = cell.start(&launch_of(&["/bin/sleep", "1000"]));
    let all = [&later, &meanwhile, &stopped];
    let pids = all.map(pid_of);
    kill_init(&daemon, &cell);
    end(&meanwhile);
    ended(&meanwhile.pidfd);
    let mut cell = another_init(&node, &mut daemon, &launch, cell);
    for ((running, leaf), pid) in all.into_iter().zip(["exe0", "exe1", "exe2"]).zip(pids) {
        let mut state = known(running, pid);
        if running.uid == later.uid {
            state.record = Record::Beside;
        }
        adopt(&cell, (running, leaf), &state, false).unwrap();
    }
    // One that has ended before is told of, with what it was.
    let exit = cell.link.exit_of(meanwhile.uid);
    assert_eq!((exit.how, exit.started_ns), (ExitHow::Code(4), 77));
    // A daemon that comes now finds them, and their streams.
    cell.reconnect();
    assert_eq!(cell.link.workloads.len(), 3);
    for (state, fds) in &cell.link.workloads {
        let runs = state.uid != meanwhile.uid;
        let has_stdin = usize::from(state.has_stdin);
        assert_eq!((state.exit.is_none(), state.has_process), (runs, runs));
        let is_long = state.record == Record::Beside;
        assert_eq!(is_long, state.uid == later.uid);
        assert!(!is_long || bytes_of(&state.record, fds) == LONG);
        let streams = 2 + has_stdin + usize::from(is_long);
        assert_eq!(fds.len(), usize::from(runs) + streams);
    }
    end(&later);
    assert_eq!(read_line(&later.stdout), "later\n");
    assert_eq!(cell.link.exit_of(later.uid).how, ExitHow::Code(3));
    let uid = stopped.uid;
    let signal = |request| CellRequest::Signal {
        request,
        uid,
        signal: 15,
    };
    cell.link.ask(signal, &[]).unwrap();
    let how = cell.link.exit_of(uid).how;
    assert!(matches!(how, ExitHow::Signal { signal: 15, .. }), "{how:?}");
    // It is an init as any other one.
    assert_eq!(cell.sh("exit 5").exit.how, ExitHow::Code(5));
    for running in all {
        cell.ack(running.uid);
    }
    let exit = |request| CellRequest::Exit { request };
    cell.link.ask(exit, &[]).unwrap();
}

/// What node-init has reaped before it had the socket it says on it first of all.
fn an_end_is_waited_for_until_node_init_has_begun_to_speak() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let plan = shared();
    let launch = plan.launch.clone();
    let cell = daemon.cell(&node, plan);
    let [early, never] = ["exit 4", "exit 5"].map(|then| waiting(&cell, then));
    let pids = [&early, &never].map(pid_of);
    kill_init(&daemon, &cell);
    let (cell, socket) = deaf_init(&node, &mut daemon, &launch, cell);
    adopt(&cell, (&early, "exe0"), &known(&early, pids[0]), false).unwrap();
    end(&early);
    until("it is reaped", || !pidfd::exists(&early.pidfd).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(300));
    tell(&daemon, &cell, &socket);
    assert_eq!(cell.link.exit_of(early.uid).how, ExitHow::Code(4));
    // Where no word will come there is an end all the same.
    kill_init(&daemon, &cell);
    let (cell, socket) = deaf_init(&node, &mut daemon, &launch, cell);
    adopt(&cell, (&never, "exe1"), &known(&never, pids[1]), false).unwrap();
    end(&never);
    until("it is reaped", || !pidfd::exists(&never.pidfd).unwrap());
    drop(socket);
    assert_eq!(cell.link.exit_of(never.uid).how, ExitHow::Unknown);
}

/// Processes that a service leaves behind end by the hundred beside it.
fn a_flood_of_orphans_drowns_no_main_process() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let plan = shared();
    let launch = plan.launch.clone();
    let cell = daemon.cell(&node, plan);
    let quiet = waiting(&cell, "exit 3");
    let flood = "i=0; while [ $i -lt 600 ]; do sh -c 'exit 1 & exit 0'; i=$((i+1)); done; exit 4";
    let loud = waiting(&cell, flood);
    let all = [&quiet, &loud];
    let pids = all.map(pid_of);
    kill_init(&daemon, &cell);
    let cell = another_init(&node, &mut daemon, &launch, cell);
    for ((running, leaf), pid) in all.into_iter().zip(["exe0", "exe1"]).zip(pids) {
        adopt(&cell, (running, leaf), &known(running, pid), false).unwrap();
    }
    pidfd::send_signal(&cell.pidfd, Signal::STOP).unwrap();
    end(&quiet);
    ended(&quiet.pidfd);
    end(&loud);
    ended(&loud.pidfd);
    pidfd::send_signal(&cell.pidfd, Signal::CONT).unwrap();
    assert_eq!(cell.link.exit_of(quiet.uid).how, ExitHow::Code(3));
    let how = cell.link.exit_of(loud.uid).how;
    // While the init stood still, node-init's socket had no room for all of them.
    assert!(
        matches!(how, ExitHow::Code(4) | ExitHow::Unknown),
        "{how:?}"
    );
}

fn what_has_no_main_process_is_adopted_too() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let plan = shared();
    let launch = plan.launch.clone();
    let cell = daemon.cell(&node, plan);
    let script = "sh -c 'echo $$; read line; exit 6' <&3 & exit 0";
    let mut forks = launch_of(&["/bin/sh", "-c", &format!("exec 3<&0; {script}")]);
    (forks.forks, forks.keep_stdin) = (true, true);
    let running = cell.start(&forks);
    let pid: i32 = read_line(&running.stdout).trim().parse().unwrap();
    let uid = running.uid;
    let (first, _) = cell.link.wait_for(|event| match event {
        CellEvent::Forked { uid: whose, exit } if *whose == uid => Some(*exit),
        _ => None,
    });
    let has_ended = cell.start(&launch_of(&["/bin/sh", "-c", "exit 8"]));
    let its = cell.link.exit_of(has_ended.uid);
    kill_init(&daemon, &cell);
    let cell = another_init(&node, &mut daemon, &launch, cell);
    let headless = WorkloadState {
        first: Some(first),
        has_process: false,
        ..known(&running, 0)
    };
    adopt(&cell, (&running, "exe0"), &headless, true).unwrap();
    let over = WorkloadState {
        exit: Some(its),
        has_process: false,
        ..known(&has_ended, 0)
    };
    adopt(&cell, (&has_ended, "exe1"), &over, false).unwrap();
    assert!(
        adopt(&cell, (&has_ended, "exe1"), &over, false).is_err(),
        "twice"
    );
    // Node-init is the parent of what the daemon calls the main process now.
    let main = pidfd::open(pid).unwrap();
    let name = |request| CellRequest::Main { request, uid, pid };
    cell.link.ask(name, &[main.as_fd()]).unwrap();
    end(&running);
    assert_eq!(cell.link.exit_of(uid).how, ExitHow::Code(6));
}

/// The main process's parent is another one, which waits for it and says nothing.
fn a_word_that_never_comes_is_an_unknown_end() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let plan = shared();
    let launch = plan.launch.clone();
    let cell = daemon.cell(&node, plan);
    let script = "sleep 1000 & echo $!; wait; sleep 1000";
    let running = cell.start(&launch_of(&["/bin/sh", "-c", script]));
    let pid: i32 = read_line(&running.stdout).trim().parse().unwrap();
    let parent = pid_of(&running);
    kill_init(&daemon, &cell);
    let cell = another_init(&node, &mut daemon, &launch, cell);
    adopt(&cell, (&running, "exe0"), &known(&running, parent), false).unwrap();
    let (uid, main) = (running.uid, pidfd::open(pid).unwrap());
    let name = |request| CellRequest::Main { request, uid, pid };
    cell.link.ask(name, &[main.as_fd()]).unwrap();
    pidfd::send_signal(&main, Signal::KILL).unwrap();
    assert_eq!(cell.link.exit_of(uid).how, ExitHow::Unknown);
    // One whose parent is node-init has an end, as soon as node-init goes on.
    let second = waiting(&cell, "exit 9");
    let pid = pid_of(&second);
    kill_init(&daemon, &cell);
    let cell = another_init(&node, &mut daemon, &launch, cell);
    adopt(&cell, (&second, "exe1"), &known(&second, pid), false).unwrap();
    let init = pidfd::open(i32::try_from(node.init.id()).unwrap()).unwrap();
    pidfd::send_signal(&init, Signal::STOP).unwrap();
    end(&second);
    ended(&second.pidfd);
    std::thread::sleep(std::time::Duration::from_millis(300));
    pidfd::send_signal(&init, Signal::CONT).unwrap();
    assert_eq!(cell.link.exit_of(second.uid).how, ExitHow::Code(9));
}

fn an_init_of_other_namespaces_adopts_nothing() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, Plan::bare("web", 524_288));
    let (_, theirs) = seqpacket::pair(Mode::Nonblocking).unwrap();
    let hear = |request| CellRequest::Orphans { request };
    let refused = cell.link.ask(hear, &[theirs.as_fd()]).unwrap_err();
    assert_eq!(refused.errno, Errno::INVAL.raw_os_error());
    let running = cell.start(&launch_of(&["/bin/sleep", "1000"]));
    let state = WorkloadState {
        uid: random_uid(),
        ..known(&running, pid_of(&running))
    };
    let refused = adopt(&cell, (&running, "exe0"), &state, false).unwrap_err();
    assert_eq!(refused.errno, Errno::PROTO.raw_os_error());
}
