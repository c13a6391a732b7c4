// SPDX-License-Identifier: Apache-2.0
//! What services of a machine need of a cell-init: light cells that it serves beside its own, main
//! processes that aren't the executed ones, descriptors from 3 on.

use std::os::fd::AsFd;

use crate::Story;
use crate::bed::*;
use init::protocol::*;
use kernel::seqpacket::{self, Mode};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_light_cell_is_served_beside_its_own",
        a_light_cell_is_served_beside_its_own,
    ),
    (
        "a_daemon_in_the_background_is_followed",
        a_daemon_in_the_background_is_followed,
    ),
    (
        "a_main_process_of_another_parent_has_an_end",
        a_main_process_of_another_parent_has_an_end,
    ),
    (
        "a_light_cell_that_came_to_nothing_holds_nothing_up",
        a_light_cell_that_came_to_nothing_holds_nothing_up,
    ),
    (
        "a_stream_that_would_block_says_so",
        a_stream_that_would_block_says_so,
    ),
    (
        "a_stop_without_a_daemon_asks_what_has_no_main_process",
        a_stop_without_a_daemon_asks_what_has_no_main_process,
    ),
    (
        "descriptors_are_passed_by_name",
        descriptors_are_passed_by_name,
    ),
];

/// A light cell in this one, as the daemon makes it.
fn light_in(node: &Node, cell: &Cell, name: &str) -> Cell {
    let uid = random_uid();
    let group = cell.group.create(name).unwrap();
    let path = node.socket_path(uid);
    let listener = seqpacket::listen(&path, 8, Mode::Nonblocking).unwrap();
    let asked = cell.link.ask(
        |request| CellRequest::Light {
            request,
            uid,
            record: Record::Here(name.as_bytes().to_vec()),
        },
        &[listener.as_fd()],
    );
    asked.unwrap();
    drop(listener);
    Cell {
        uid,
        init_id: cell.init_id,
        group,
        pidfd: cell.pidfd.try_clone().unwrap(),
        pid: cell.pid,
        root: cell.root,
        link: CellLink::connect(&path),
        path,
        number: 0.into(),
    }
}

fn a_light_cell_is_served_beside_its_own() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, Plan::bare("web", 524_288));
    let mut light = light_in(&node, &cell, "light");
    assert_eq!(light.link.record, b"light");
    let went = light.sh("echo hello; exit 7");
    assert_eq!(
        (went.stdout.as_str(), went.exit.how),
        ("hello\n", ExitHow::Code(7))
    );
    // Each conversation is about its own workloads, and has its own daemon.
    let running = light.start(&launch_of(&["/bin/sleep", "1000"]));
    let signal = |link: &CellLink| {
        let uid = running.uid;
        let signal = |request| CellRequest::Signal {
            request,
            uid,
            signal: 15,
        };
        link.ask(signal, &[])
    };
    assert!(
        signal(&cell.link).is_err(),
        "it is no workload of the cell's"
    );
    light.reconnect();
    assert_eq!(light.link.workloads.len(), 1);
    assert_eq!(light.link.workloads[0].0.uid, running.uid);
    let exit = |link: &CellLink| link.ask(|request| CellRequest::Exit { request }, &[]);
    assert!(
        exit(&light.link).is_err() && exit(&cell.link).is_err(),
        "busy"
    );
    signal(&light.link).unwrap();
    let ended = light.link.exit_of(running.uid);
    assert!(matches!(ended.how, ExitHow::Signal { signal: 15, .. }));
    light.ack(running.uid);
    // Its end is that of the conversation, and of nothing else.
    exit(&light.link).unwrap();
    assert!(receive::<CellEvent>(&light.link.socket).is_none());
    assert_eq!(cell.sh("exit 3").exit.how, ExitHow::Code(3));
    let _ = cell
        .group
        .remove("light", std::time::Duration::from_secs(2));
}

fn a_daemon_in_the_background_is_followed() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let mut cell = daemon.cell(&node, Plan::bare("web", 524_288));
    let background = "sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' & exit 0";
    let mut launch = launch_of(&["/bin/sh", "-c", background]);
    launch.forks = true;
    let running = cell.start(&launch);
    let pid: i32 = read_line(&running.stdout).trim().parse().unwrap();
    let uid = running.uid;
    let forked = |event: &CellEvent| match event {
        CellEvent::Forked { uid: whose, exit } if *whose == uid => Some(*exit),
        _ => None,
    };
    let (first, _) = cell.link.wait_for(forked);
    assert_eq!(first.how, ExitHow::Code(0));
    // A daemon that comes now is told so.
    cell.reconnect();
    let (state, fds) = &cell.link.workloads[0];
    assert_eq!((state.first, state.exit), (Some(first), None));
    assert!(!state.has_process && fds.len() == 2);
    let outside = outside_of(cell.pid, pid);
    let pidfd = kernel::pidfd::open(outside).unwrap();
    let main = |request| CellRequest::Main { request, uid, pid };
    cell.link.ask(main, &[pidfd.as_fd()]).unwrap();
    let signal = |request| CellRequest::Signal {
        request,
        uid,
        signal: 9,
    };
    cell.link.ask(signal, &[]).unwrap();
    let ended = cell.link.exit_of(uid);
    assert!(matches!(ended.how, ExitHow::Signal { signal: 9, .. }));
    cell.ack(uid);
    // One that fails at once has just an end.
    let mut fails = launch_of(&["/bin/sh", "-c", "exit 4"]);
    fails.forks = true;
    assert_eq!(cell.run_launch(&fails).exit.how, ExitHow::Code(4));
}

/// The main process is the child of one that stays: the init can't reap it, and tells its end all
/// the same. Nor is it two executables' at once.
fn a_main_process_of_another_parent_has_an_end() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, Plan::bare("web", 524_288));
    let parent = "sleep 1000 >/dev/null 2>&1 & echo $!; while :; do sleep 1; done";
    let mut launch = launch_of(&["/bin/sh", "-c", &format!("sh -c '{parent}' & exit 0")]);
    launch.forks = true;
    let running = cell.start(&launch);
    let pid: i32 = read_line(&running.stdout).trim().parse().unwrap();
    let uid = running.uid;
    cell.link.wait_for(|event| match event {
        CellEvent::Forked { uid: whose, .. } if *whose == uid => Some(()),
        _ => None,
    });
    let pidfd = kernel::pidfd::open(outside_of(cell.pid, pid)).unwrap();
    let main = |uid| {
        let request = move |request| CellRequest::Main { request, uid, pid };
        cell.link.ask(request, &[pidfd.as_fd()])
    };
    main(uid).unwrap();
    let other = cell.start(&launch_of(&["/bin/sleep", "1000"]));
    let refused = main(other.uid).unwrap_err();
    assert_eq!(refused.errno, rustix::io::Errno::EXIST.raw_os_error());
    kernel::pidfd::send_signal(&pidfd, kernel::signal::Signal::KILL).unwrap();
    assert_eq!(cell.link.exit_of(uid).how, ExitHow::Unknown);
}

fn a_light_cell_that_came_to_nothing_holds_nothing_up() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, Plan::bare("web", 524_288));
    let light = light_in(&node, &cell, "light");
    let uid = light.uid;
    let unlight = || {
        cell.link
            .ask(|request| CellRequest::Unlight { request, uid }, &[])
    };
    let running = light.start(&launch_of(&["/bin/sleep", "1000"]));
    assert_eq!(
        unlight().unwrap_err().errno,
        rustix::io::Errno::BUSY.raw_os_error()
    );
    let exit = |link: &CellLink| link.ask(|request| CellRequest::Exit { request }, &[]);
    assert!(exit(&cell.link).is_err(), "something runs in it");
    let kill = |request| CellRequest::Signal {
        request,
        uid: running.uid,
        signal: 9,
    };
    light.link.ask(kill, &[]).unwrap();
    light.link.exit_of(running.uid);
    unlight().unwrap();
    assert!(receive::<CellEvent>(&light.link.socket).is_none());
    assert!(unlight().is_err(), "there is none any more");
    // One whose daemon is gone is no reason to stay.
    let another = light_in(&node, &cell, "another");
    drop(another.link);
    exit(&cell.link).unwrap();
    for name in ["light", "another"] {
        let _ = cell.group.remove(name, std::time::Duration::from_secs(2));
    }
}

fn a_stream_that_would_block_says_so() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, Plan::bare("web", 524_288));
    assert_eq!(cell.sh("mkfifo /tmp/fifo").exit.how, ExitHow::Code(0));
    let mut launch = launch_of(&["/bin/cat"]);
    launch.opens = vec![Open {
        stream: 1,
        how: OpenHow::Plain,
        path: b"/tmp/fifo".to_vec(),
    }];
    let asked = cell.ask_to_start(&launch);
    let failure = cell.hear_of_start(&launch, asked).err().unwrap();
    assert_eq!(failure.step, Step::Open);
    assert!(failure.detail.contains("no process reads"), "{failure:?}");
    // For reading it is one that nobody has written to: it is at its end.
    launch.opens[0].stream = 0;
    assert_eq!(cell.run_launch(&launch).exit.how, ExitHow::Code(0));
    // What output inherits can be written, too.
    let mut both = launch_of(&["/bin/sh", "-c", "read line; echo and $line"]);
    assert_eq!(cell.sh("echo this > /tmp/both").exit.how, ExitHow::Code(0));
    let open = |stream, how, path: &[u8]| Open {
        stream,
        how,
        path: path.to_vec(),
    };
    both.opens = vec![
        open(0, OpenHow::Plain, b"/tmp/both"),
        open(1, OpenHow::Same, b""),
    ];
    assert_eq!(cell.run_launch(&both).exit.how, ExitHow::Code(0));
    assert_eq!(cell.sh("cat /tmp/both").stdout, "this\nand this\n");
    launch.opens[0].path = b"/proc/self/status".to_vec();
    let status = cell.run_launch(&launch).stdout;
    assert!(status.contains("Groups:"), "{status}");
}

fn a_stop_without_a_daemon_asks_what_has_no_main_process() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, Plan::bare("web", 524_288));
    let background = "trap \"sleep 0.2; echo bye; exit 0\" TERM; echo up; \
                      while :; do sleep 0.05; done";
    let mut launch = launch_of(&["/bin/sh", "-c", &format!("sh -c '{background}' & exit 0")]);
    launch.forks = true;
    launch.stop_signal = 15;
    launch.grace_ms = 20_000;
    let running = cell.start(&launch);
    assert_eq!(read_line(&running.stdout), "up\n");
    let uid = running.uid;
    cell.link.wait_for(|event| match event {
        CellEvent::Forked { uid: whose, .. } if *whose == uid => Some(()),
        _ => None,
    });
    kernel::pidfd::send_signal(&cell.pidfd, kernel::signal::Signal::TERM).unwrap();
    assert_eq!(read_line(&running.stdout), "bye\n");
}

/// The node's number of a process with that number in the namespace of a cell-init, which is below
/// that.
fn outside_of(init: i32, inside: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{init}/status")).unwrap();
    let children = format!("/proc/{init}/task/{init}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let last = line.and_then(|line| line.split_whitespace().last());
    if last == Some(inside.to_string().as_str()) {
        return init;
    }
    let below = children.split_whitespace().map(|pid| pid.parse().unwrap());
    let found = below.map(|pid| outside_of(pid, inside));
    found.max().unwrap_or(0)
}

fn descriptors_are_passed_by_name() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, Plan::bare("web", 524_288));
    let script = "cat <&3; cat <&4; echo $LISTEN_FDS $LISTEN_FDNAMES; \
                  [ $LISTEN_PID = $$ ] && [ $WATCHDOG_PID = $$ ] && ls /proc/$$/fd | tr '\\n' ' '";
    let mut launch = launch_of(&["/bin/sh", "-c", script]);
    launch.env.push(b"LISTEN_FDS=99".to_vec());
    launch.passed = 2;
    launch.names = vec!["one".to_owned(), "two".to_owned()];
    launch.pid_env = vec!["WATCHDOG_PID".to_owned()];
    let [first, second] = ["1st\n", "2nd\n"].map(|text| {
        let (read, write) = kernel::pipe::pipe().unwrap();
        rustix::io::write(&write, text.as_bytes()).unwrap();
        read
    });
    let asked = cell.ask_to_start_by(&launch, |_, start, fds| {
        let mut fds = fds.to_vec();
        fds.extend([first.as_fd(), second.as_fd()]);
        send(&cell.link.socket, start, &fds);
    });
    let running = cell.hear_of_start(&launch, asked).unwrap();
    let went = cell.finish(running);
    assert_eq!(went.stdout, "1st\n2nd\n2 one:two\n0 1 2 3 4 ", "{went:?}");
}
