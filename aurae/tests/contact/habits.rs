// SPDX-License-Identifier: Apache-2.0
//! Forms that people bring along from podman, docker, kubectl and systemctl.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::bed::{node, node_with, read_line};
use super::super::typist::Typist;

#[test]
fn a_daemon_that_dies_at_once_is_told_and_shown() {
    let Some(node) = node() else { return };
    node.aurae(&["cell", "run", "web"]).ok();
    let script = "echo 'no such folder: /var/log/nginx' >&2; exit 1";
    let nginx = [
        "run", "--cell", "web", "--name", "nginx", "-d", "--", "sh", "-c", script,
    ];
    let run = node.aurae(&nginx);
    assert_eq!(run.out, "web/nginx\n");
    let said = run.fails(1);
    for part in [
        "no such folder: /var/log/nginx",
        "web/nginx has ended already: exited (1)",
        "`aurae logs web/nginx`",
    ] {
        assert!(said.contains(part), "no {part}: {said}");
    }
    // What failed lately stands beside what runs; what was stopped and what did well don't.
    let fine = ["run", "--cell", "web", "--name", "fine", "-d", "--", "true"];
    let fine = node.aurae(&fine);
    assert!(
        fine.err.contains("web/fine has ended already: exited (0)"),
        "{fine:?}"
    );
    assert_eq!(fine.status, Some(0));
    // A program that asks for the name isn't kept, and looks for itself.
    let quick = [
        "run", "--cell", "web", "--name", "quick", "-o", "name", "-d", "--", "false",
    ];
    let quick = node.aurae(&quick);
    let told = (quick.status, quick.out.as_str(), quick.err.as_str());
    assert_eq!(told, (Some(0), "web/quick\n", ""));
    assert_eq!(node.aurae(&["wait", "web/quick"]).out, "1\n");
    node.aurae(&["rm", "web/quick"]).ok();
    let sleep = [
        "run", "--cell", "web", "--name", "s", "-d", "--", "sleep", "1000",
    ];
    let sleep = node.aurae(&sleep);
    assert_eq!((sleep.status, sleep.err.as_str()), (Some(0), ""));
    node.aurae(&["stop", "-t", "0", "web/s"]).ok();
    let shown = node.aurae(&["ps"]).ok();
    assert!(
        shown.contains("nginx") && shown.contains("exited (1)"),
        "{shown}"
    );
    assert!(
        !shown.contains("fine") && !shown.contains("sleep"),
        "{shown}"
    );
    assert_eq!(node.aurae(&["ps", "-q"]).ok(), "web\n");
}

#[test]
fn what_follows_the_cell_is_the_programs() {
    let Some(node) = node() else { return };
    node.aurae(&["cell", "run", "web"]).ok();
    assert_eq!(
        node.aurae(&["exec", "web", "echo", "-n", "--", "a"]).ok(),
        "-- a"
    );
    let options = ["exec", "-e", "A=1", "web", "sh", "-c", "echo $A$0", "-i"];
    assert_eq!(node.aurae(&options).ok(), "1-i\n");
    let job = [
        "run", "--cell", "web", "--name", "job", "-d", "--", "sleep", "1000",
    ];
    node.aurae(&job).ok();
    let inside = node.aurae(&["exec", "web/job", "--", "hostname"]).ok();
    assert_eq!(inside, "web\n");
    // `kill` as kill(1), `logs` as tail(1).
    assert_eq!(node.aurae(&["kill", "-9", "web/job"]).ok(), "web/job\n");
    assert_eq!(node.aurae(&["wait", "web/job"]).ok(), "137\n");
    let lines = [
        "run",
        "--cell",
        "web",
        "--name",
        "l",
        "--",
        "sh",
        "-c",
        "echo 1; echo 2",
    ];
    node.aurae(&lines).ok();
    assert_eq!(node.aurae(&["logs", "-n", "1", "web/l"]).ok(), "2\n");
    let label = node.aurae(&["logs", "job"]).fails(1);
    assert!(
        label.contains("did you mean `aurae logs web/job`?"),
        "{label}"
    );
}

#[test]
fn a_script_of_the_callers_folder_is_hinted_at() {
    let Some(node) = node() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.sh"), "#!/bin/sh\necho it runs\n").unwrap();
    let mut run = node.command(&["run", "--", "./s.sh"]);
    let run = run.current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(127), "{said}");
    assert!(
        said.contains("aurae run --read $PWD -w $PWD -- ./s.sh"),
        "{said}"
    );
}

#[test]
fn a_program_that_is_taken_for_an_image_is_hinted_at() {
    // No registry answers there.
    let registries = tempfile::NamedTempFile::new().unwrap();
    let host = "[host.\"localhost:9\"]\nplain_http = true\n";
    std::fs::write(registries.path(), host).unwrap();
    let setting = format!("images.registries={}", registries.path().display());
    let Some(node) = node_with(&[setting]) else {
        return;
    };
    let pulled = ["run", "-d", "localhost:9/sleep", "100"];
    let here = ["run", "-d", "--pull", "never", "sleep", "100"];
    for (typed, image) in [(&pulled[..], "localhost:9/sleep"), (&here[..], "sleep")] {
        let said = node.aurae(typed).fails(125);
        let hint = format!("{image} is taken for an image: a program goes after `--`");
        assert!(said.contains(&hint), "{said}");
    }
}

/// The machine that the node is a service of goes on.
#[test]
fn a_node_that_ends_under_another_init_says_so() {
    let Some(node) = node() else { return };
    let log = node.path("log");
    let kept = std::fs::File::open(&log).unwrap();
    node.aurae(&["node", "shutdown", "--bound", "5s"]).ok();
    drop(node);
    let said = std::io::read_to_string(kept).unwrap();
    assert!(said.contains("the node ends"), "{said}");
    assert!(!said.contains("the machine goes down"), "{said}");
}

#[test]
fn refusals_say_what_to_do() {
    let Some(node) = node() else { return };
    let folder = ["run", "-w", "/nosuch", "--", "true"];
    let folder = node.aurae(&folder).fails(125);
    assert!(
        folder.contains("can't enter working directory /nosuch: No such file"),
        "{folder}"
    );
    let target = ["run", "--read", "/usr/share:/nosuch", "--", "true"];
    let target = node.aurae(&target).fails(125);
    let words = "/nosuch can't be made in a cell: mount below /mnt, /srv or /tmp";
    assert!(target.contains(words), "{target}");
    assert!(!target.contains("os error"), "{target}");
    for least in ["1k", "300k"] {
        let small = node
            .aurae(&["cell", "run", "small", "--memory", least])
            .fails(1);
        assert!(
            small.contains("too small for a cell (at least 1M)"),
            "{small}"
        );
    }
}

#[test]
fn a_terminal_without_our_keys_leaves_ctrl_c_a_signal() {
    let Some(node) = node() else { return };
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done";
    let mut run = node.command(&["run", "-t", "--rm", "--", "sh", "-c", script]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = run.stdout.take().unwrap();
    assert_eq!(read_line(&mut stdout), "ready\r", "{}", node.log());
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(read_line(&mut stdout), "caught\r", "{}", node.log());
    assert_eq!(run.wait().unwrap().code(), Some(9));
}

/// What bash would be told at that cursor.
fn completed(node: &super::super::bed::Node, words: &[&str]) -> Vec<String> {
    completed_in("bash", node, words)
}

fn completed_in(shell: &str, node: &super::super::bed::Node, words: &[&str]) -> Vec<String> {
    let name = shell;
    let mut shell = node.command(&[&["--", "aurae"], words].concat());
    shell.env("AURAE_COMPLETE", name);
    shell.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    shell.env("_CLAP_COMPLETE_COMP_TYPE", "9");
    shell.env("_CLAP_COMPLETE_SPACE", "true");
    shell.env("_CLAP_IFS", "\n");
    let output = shell.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn names_of_objects_cells_contexts_and_users_are_completed() {
    let Some(node) = node() else { return };
    node.aurae(&["cell", "run", "web"]).ok();
    let job = [
        "run", "--cell", "web", "--name", "job", "-d", "--", "sleep", "1000",
    ];
    node.aurae(&job).ok();
    node.aurae(&["identity", "user", "create", "alice"]).ok();
    assert_eq!(completed(&node, &["logs", "w"]), ["web", "web/job"]);
    assert_eq!(completed(&node, &["exec", "w"]), ["web", "web/job"]);
    assert_eq!(completed(&node, &["cp", "w"]), ["web:/"]);
    for shell in ["zsh", "fish"] {
        let names = completed_in(shell, &node, &["logs", "w"]);
        let names: Vec<&str> = names.iter().map(|it| it.trim()).collect();
        assert_eq!(names, ["web", "web/job"], "{shell}");
    }
    let nowhere = "--node=unix:///nosuch";
    assert!(completed(&node, &[nowhere, "logs", "w"]).is_empty());
    assert_eq!(completed(&node, &["config", "use-context", "t"]), ["test"]);
    node.aurae(&["config", "set-context", "test", "-l", "role=web"])
        .ok();
    let labels = completed(&node, &["config", "set-context", "other", "--label", "ro"]);
    assert_eq!(labels, ["role=web"]);
    let users = completed(&node, &["identity", "user", "disable", "al"]);
    assert_eq!(users, ["alice"]);
    // A node that isn't there keeps no shell waiting.
    let begun = Instant::now();
    let none = completed(&node, &["--node", "unix:///nosuch", "logs", "w"]);
    assert!(none.is_empty(), "{none:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    for shell in ["bash", "zsh", "fish"] {
        let script = node.aurae(&["completion", shell]).ok();
        assert!(script.contains("AURAE_COMPLETE"), "{shell}: {script}");
    }
}

#[test]
fn on_a_narrow_terminal_no_line_wraps() {
    let Some(node) = node() else { return };
    let sleep = [
        "run",
        "-d",
        "--name",
        "a-rather-long-name",
        "--",
        "sleep",
        "1000",
    ];
    node.aurae(&sleep).ok();
    // A terminal of 40 columns.
    let mut narrow = std::process::Command::new("sh");
    let aurae = node.command(&[]);
    let line = format!("stty cols 40; '{}' ps", aurae.get_program().display());
    narrow.args(["-c", &line]);
    narrow.envs(
        aurae
            .get_envs()
            .filter_map(|(key, value)| Some((key, value?))),
    );
    let mut typist = Typist::start(&narrow);
    // KIND has gone; the name is as wide as `└─ a-rather-long-name`.
    typist.sees(&format!("NAME{}STATE", " ".repeat(19)));
    typist.sees("running");
    assert_eq!(typist.leaves(), Some(0));
}

/// Longer than the node waits for a sign of a client, and a client for one of the node.
const PAGE: Duration = Duration::from_secs(35);

#[test]
fn a_pager_that_stands_still_loses_nothing() {
    let Some(node) = node() else { return };
    node.aurae(&["cell", "run", "web"]).ok();
    // More than the pipe and the connection hold.
    let long = [
        "run", "--cell", "web", "--name", "long", "--", "seq", "600000",
    ];
    node.aurae(&long).ok();
    let mut logs = node.command(&["logs", "web/long"]);
    let mut logs = logs.stdout(Stdio::piped()).spawn().unwrap();
    let mut page = logs.stdout.take().unwrap();
    assert_eq!(read_line(&mut page), "1");
    std::thread::sleep(PAGE);
    let mut rest = String::new();
    page.read_to_string(&mut rest).unwrap();
    assert!(logs.wait().unwrap().success());
    assert_eq!(rest.lines().last(), Some("600000"));
    assert_eq!(rest.lines().count(), 600_000 - 1);
}
