// SPDX-License-Identifier: Apache-2.0
//! What removes itself is removed by the node, however its client went; `rm -f` takes the cell that
//! was made for a run along.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::bed::{Node, node, read_line};
use super::super::typist::Typist;

/// Nothing is left, soon: the last attachment is told the end before the record goes.
fn leaves_nothing(node: &Node) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let left = node.aurae(&["ps", "-a", "-o", "name"]).ok();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "left: {left}\n{}", node.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_run_that_removes_itself_leaves_nothing_when_its_client_has_gone() {
    let Some(node) = node() else { return };
    // Its reader leaves after a line.
    let script = "echo one; read go; echo two; echo three";
    let run = [
        "run", "-i", "--rm", "--name", "job", "--", "sh", "-c", script,
    ];
    let mut run = node
        .command(&run)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = run.stdout.take().unwrap();
    assert_eq!(read_line(&mut stdout), "one", "{}", node.log());
    drop(stdout);
    drop(run.stdin.take());
    run.wait().unwrap();
    leaves_nothing(&node);
    // Its client is killed.
    let run = ["run", "--rm", "--name", "job", "--", "sleep", "5"];
    let mut run = node.command(&run).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while node.aurae(&["ps", "-o", "name"]).ok().is_empty() {
        assert!(Instant::now() < deadline, "{}", node.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    leaves_nothing(&node);
    // It is stopped by another one.
    let run = ["run", "--rm", "--name", "job", "--", "sleep", "1000"];
    let mut run = node.command(&run).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    // Its cell is there before it.
    while !node.aurae(&["ps", "-o", "name"]).ok().contains("job/job") {
        assert!(Instant::now() < deadline, "{}", node.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    node.aurae(&["stop", "job/job"]).ok();
    assert_eq!(run.wait().unwrap().code(), Some(143));
    leaves_nothing(&node);
}

/// The record goes with the program, also where its client has left it to itself.
#[test]
fn a_run_that_removes_itself_leaves_nothing_after_a_detach() {
    let Some(node) = node() else { return };
    let script = "echo ready; sleep 3";
    let run = ["run", "-it", "--rm", "--name", "job", "--", "sh", "-c"];
    let run = node.command(&[&run[..], &[script]].concat());
    let mut typist = Typist::start(&run);
    typist.sees("ready");
    typist.types("\u{10}\u{11}");
    typist.sees("job/job runs on");
    assert_eq!(typist.leaves(), Some(0));
    let left = node.aurae(&["ps", "-o", "name"]).ok();
    assert!(left.contains("job/job"), "it ended with its client: {left}");
    leaves_nothing(&node);
    // The third Ctrl-C leaves a program that ends by none.
    let script = "trap 'echo heard' INT; echo ready; for i in $(seq 40); do sleep 0.1; done";
    let run = node.command(&["run", "--rm", "--name", "job", "--", "sh", "-c", script]);
    let mut typist = Typist::start(&run);
    typist.sees("ready");
    for _ in 0..2 {
        typist.types("\u{3}");
        typist.sees("heard");
    }
    typist.types("\u{3}");
    typist.sees("runs on");
    typist.leaves();
    leaves_nothing(&node);
}

/// Its output and its end come whole, however quickly it ends, also over a daemon's death.
#[test]
fn what_removes_itself_is_kept_for_the_attachment_that_follows() {
    let Some(node) = node() else { return };
    for _ in 0..10 {
        let run = node.aurae(&["run", "--rm", "--name", "quick", "--", "echo", "hello"]);
        assert_eq!(run.ok(), "hello\n");
    }
    let script = "echo ready; read go; echo done; exit 9";
    let run = ["run", "-i", "--rm", "--name", "r", "--", "sh", "-c", script];
    let mut run = node
        .command(&run)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = run.stdout.take().unwrap();
    assert_eq!(read_line(&mut stdout), "ready", "{}", node.log());
    node.kill_daemon();
    drop(run.stdin.take());
    assert_eq!(read_line(&mut stdout), "done", "{}", node.log());
    assert_eq!(run.wait().unwrap().code(), Some(9));
    leaves_nothing(&node);
}

#[test]
fn rm_f_of_a_run_takes_the_cell_that_was_made_for_it_along() {
    let Some(node) = node() else { return };
    node.aurae(&["run", "-d", "--name", "job", "--", "sleep", "1000"])
        .ok();
    let running = node.aurae(&["rm", "job"]).fails(1);
    assert!(running.contains("aurae rm -f job"), "{running}");
    node.aurae(&["rm", "-f", "job"]).ok();
    assert_eq!(node.aurae(&["ps", "-a", "-o", "name"]).ok(), "");
    // A cell that contains more is not taken along unasked.
    node.aurae(&["run", "-d", "--name", "job", "--", "sleep", "1000"])
        .ok();
    let beside = [
        "run", "-d", "--cell", "job", "--name", "b", "--", "sleep", "1000",
    ];
    node.aurae(&beside).ok();
    let full = node.aurae(&["rm", "-f", "job"]).fails(1);
    assert!(full.contains("contains 1 object"), "{full}");
    assert!(full.contains("hint: `aurae rm -rf job`"), "{full}");
    let busy = node.aurae(&["rm", "-r", "job"]).fails(1);
    assert!(busy.contains("hint: `aurae rm -rf job`"), "{busy}");
    node.aurae(&["rm", "-rf", "job"]).ok();
}
