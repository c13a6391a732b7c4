// SPDX-License-Identifier: Apache-2.0
//! Stories of the command line with a real node: `auraed` as a service of this machine.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod bed;
mod contact;
mod pods;
mod programs;
mod typist;

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use bed::{node, read_line};
use rustix::process::Signal;
use testkit::files_with;
use typist::Typist;

#[test]
fn a_run_hands_output_and_status_through() {
    let Some(node) = node() else { return };
    assert_eq!(
        node.aurae(&["run", "--rm", "--", "echo", "hello"]).ok(),
        "hello\n"
    );
    node.aurae(&["run", "--rm", "--", "sh", "-c", "exit 7"])
        .fails(7);
    node.aurae(&["run", "--rm", "--", "sh", "-c", "kill -TERM $$"])
        .fails(143);
    let both = node.aurae(&["run", "--rm", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((both.out.as_str(), both.err.as_str()), ("out\n", "err\n"));
    let left = node.aurae(&["ps", "-a", "-o", "name"]).ok();
    assert_eq!(left, "", "--rm leaves nothing");
}

#[test]
fn a_program_that_cannot_run_is_127_or_126_and_leaves_nothing() {
    let Some(node) = node() else { return };
    let missing = node
        .aurae(&["run", "--name", "a", "--", "/no/such/program"])
        .fails(127);
    assert!(missing.contains("/no/such/program"), "{missing}");
    let plain = node
        .aurae(&["run", "--name", "a", "--", "/etc/hostname"])
        .fails(126);
    assert!(plain.contains("/etc/hostname"), "{plain}");
    assert_eq!(node.aurae(&["ps", "-a", "-o", "name"]).ok(), "");
}

#[test]
fn input_goes_in_and_comes_out_whole() {
    let Some(node) = node() else { return };
    let mut cat = node.command(&["run", "-i", "--rm", "--", "cat"]);
    let mut cat = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent: Vec<u8> = (0..1_000_000_u32)
        .flat_map(|n| (n as u16).to_le_bytes())
        .collect();
    let mut stdin = cat.stdin.take().unwrap();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&copy));
    let output = cat.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", node.log());
    assert!(
        output.stdout == sent,
        "{} of {} bytes",
        output.stdout.len(),
        sent.len()
    );
}

/// What a copy brings, and what is printed for this client alone, comes whole, and the node keeps
/// none of it.
#[test]
fn what_is_copied_and_what_is_printed_without_a_log_is_not_kept() {
    let Some(node) = node() else { return };
    node.aurae(&["cell", "run", "box"]).ok();
    let numbers = |last: u32| -> String { (1..=last).map(|it| format!("{it}\n")).collect() };
    let exec = ["exec", "--no-log", "box"];
    let seq = node.aurae(&[&exec[..], &["seq", "1000000"]].concat()).ok();
    assert!(seq == numbers(1_000_000), "{} bytes", seq.len());
    let words = ["sh", "-c", "echo out; echo err >&2; exit 7"];
    let both = node.aurae(&[&exec[..], &words].concat());
    assert_eq!((both.out.as_str(), both.err.as_str()), ("out\n", "err\n"));
    both.fails(7);

    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("numbers"), numbers(3_000_000)).unwrap();
    node.aurae(&["cp", &at("numbers"), "box:/tmp/numbers"]).ok();
    node.aurae(&["cp", "box:/tmp/numbers", &at("back")]).ok();
    let back = std::fs::read(at("back")).unwrap();
    assert!(
        back == numbers(3_000_000).as_bytes(),
        "{} bytes",
        back.len()
    );
    let state = node.path("state");
    assert!(files_with(&state, b"\n999998\n").is_empty());
    // With its log it is.
    let logged = node.aurae(&["run", "--name", "l", "--", "seq", "999000", "1000000"]);
    logged.ok();
    assert!(!files_with(&state, b"\n999998\n").is_empty());

    let kept = [
        "exec", "--keep", "--name", "once", "--no-log", "box", "true",
    ];
    node.aurae(&kept).ok();
    let refused = node.aurae(&["attach", "box/once"]).fails(125);
    assert!(refused.contains("no log has it"), "{refused}");
    let typed = node
        .aurae(&["exec", "-t", "--no-log", "box", "true"])
        .fails(2);
    assert!(typed.contains("--no-log"), "{typed}");
    node.aurae(&["rm", "-rf", "box"]).ok();
}

#[test]
fn a_cell_holds_executables_until_it_is_removed() {
    let Some(node) = node() else { return };
    assert_eq!(
        node.aurae(&["cell", "run", "web", "-l", "app=shop"]).ok(),
        "web\n"
    );
    let sleep = [
        "run", "--cell", "web", "--name", "s", "-d", "--", "sleep", "1000",
    ];
    assert_eq!(node.aurae(&sleep).ok(), "web/s\n");
    let tree = node.aurae(&["ps"]).ok();
    let lines: Vec<Vec<&str>> = tree
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(lines[1][..3], ["web", "cell", "running"], "{tree}");
    assert_eq!(
        lines[2][..4],
        ["└─", "s", "executable", "running"],
        "{tree}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&node.aurae(&["ps", "-o", "json", "-l", "app=shop"]).ok()).unwrap();
    assert_eq!(json["objects"][0]["cell"]["meta"]["ref"]["path"], "web");
    assert_eq!(json["objects"].as_array().unwrap().len(), 1);
    assert_eq!(
        node.aurae(&["exec", "web", "--", "echo", "inside"]).ok(),
        "inside\n"
    );
    node.aurae(&["exec", "web", "--", "sh", "-c", "exit 3"])
        .fails(3);
    node.aurae(&["rm", "web"]).fails(1);
    assert_eq!(node.aurae(&["stop", "web/s"]).ok(), "web/s\n");
    assert_eq!(node.aurae(&["wait", "web/s"]).ok(), "143\n");
    assert!(node.aurae(&["ps", "-a"]).ok().contains("killed (SIGTERM)"));
    assert!(
        node.aurae(&["inspect", "-o", "yaml", "web/s"])
            .ok()
            .contains("signal: 15")
    );
    node.aurae(&["rm", "-rf", "web"]).ok();
    assert_eq!(node.aurae(&["ps", "-a", "-o", "name"]).ok(), "");
}

#[test]
fn a_running_cell_is_changed_in_what_was_named() {
    let Some(node) = node() else { return };
    let shared = node.path("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("note"), "hello\n").unwrap();
    node.aurae(&["cell", "run", "c", "-l", "app=shop"]).ok();
    let grant = format!("{}:/mnt", shared.display());
    node.aurae(&["cell", "update", "c", "--read", &grant]).ok();
    assert_eq!(
        node.aurae(&["exec", "c", "--", "cat", "/mnt/note"]).ok(),
        "hello\n"
    );
    node.aurae(&["exec", "c", "--", "touch", "/mnt/mine"])
        .fails(1);
    let json = node.aurae(&["inspect", "c"]).ok();
    assert!(
        json.contains("\"app\": \"shop\"") && json.contains("\"generation\": \"2\""),
        "{json}"
    );
    let stale = [
        "cell",
        "update",
        "c",
        "--expected-generation",
        "1",
        "-l",
        "app=x",
    ];
    let stale = node.aurae(&stale).fails(1);
    assert!(stale.contains("generation"), "{stale}");
    node.aurae(&["cell", "freeze", "c"]).ok();
    assert!(node.aurae(&["cell", "ls"]).ok().contains("frozen"));
    node.aurae(&["cell", "thaw", "c"]).ok();
    assert!(node.aurae(&["cell", "ls"]).ok().contains("running"));
    node.aurae(&["cell", "rm", "-rf", "c"]).ok();
}

#[test]
fn logs_are_what_was_printed() {
    let Some(node) = node() else { return };
    let print = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo oops >&2";
    node.aurae(&["cell", "run", "c"]).ok();
    node.aurae(&[
        "run", "--cell", "c", "--name", "p", "-d", "--", "sh", "-c", print,
    ])
    .ok();
    assert_eq!(node.aurae(&["wait", "c/p"]).ok(), "0\n");
    let logs = node.aurae(&["logs", "c/p"]);
    let expected: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    assert!(
        logs.out == expected,
        "{} of {} bytes",
        logs.out.len(),
        expected.len()
    );
    assert_eq!(logs.err, "oops\n");
    let tail = node
        .aurae(&["logs", "--tail", "1", "--stream", "stdout", "c/p"])
        .ok();
    assert_eq!(tail, "line 1999\n");
    let json = node
        .aurae(&["logs", "-o", "json", "--stream", "stderr", "c/p"])
        .ok();
    let line: serde_json::Value = serde_json::from_str(json.trim()).unwrap();
    assert_eq!(
        (&line["line"], &line["name"]),
        (&"oops".into(), &"c/p".into())
    );
    let alone = node.aurae(&["logs", "-f", "c"]).ok();
    assert!(alone.starts_with("line 0\n"), "{alone:.100}");
    node.aurae(&["run", "--cell", "c", "--name", "q", "--", "echo", "beside"])
        .ok();
    let both = node.aurae(&["logs", "-f", "c"]).ok();
    assert!(
        both.contains("c/p | line 0\n") && both.contains("c/q | beside\n"),
        "{both:.100}"
    );
}

#[test]
fn an_attached_run_outlives_its_daemon() {
    let Some(node) = node() else { return };
    let script =
        "echo ready; read go; i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done; exit 9";
    let mut run = node.command(&["run", "-i", "--name", "r", "--", "sh", "-c", script]);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = run.stdout.take().unwrap();
    assert_eq!(read_line(&mut stdout), "ready", "{}", node.log());
    node.kill_daemon();
    node.aurae(&["ps"]).ok();
    run.stdin.take().unwrap().write_all(b"go\n").unwrap();
    for n in 0..1000 {
        assert_eq!(read_line(&mut stdout), n.to_string(), "{}", node.log());
    }
    assert_eq!(ended(&mut run, &node), Some(9));
}

/// How the client has ended. One that waits for ever is a failure, and no test that hangs.
fn ended(run: &mut std::process::Child, node: &bed::Node) -> Option<i32> {
    let begun = std::time::Instant::now();
    loop {
        if let Some(status) = run.try_wait().unwrap() {
            return status.code();
        }
        let waited = begun.elapsed();
        assert!(
            waited < Duration::from_secs(60),
            "it still waits: {}",
            node.log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A daemon that stands still is told the end of the input, and dies before it hears.
#[test]
fn the_end_of_input_is_told_to_the_next_daemon() {
    let Some(node) = node() else { return };
    let mut run = node.command(&["run", "-i", "--name", "r", "--", "cat"]);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = run.stdin.take().unwrap();
    let mut stdout = run.stdout.take().unwrap();
    stdin.write_all(b"ready\n").unwrap();
    assert_eq!(read_line(&mut stdout), "ready", "{}", node.log());
    node.signal_daemon(Signal::STOP);
    drop(stdin);
    // On its way; no answer says that it has arrived.
    std::thread::sleep(Duration::from_millis(300));
    node.kill_daemon();
    assert_eq!(run.wait().unwrap().code(), Some(0), "{}", node.log());
}

#[test]
fn waits_and_followers_outlive_a_daemon() {
    let Some(node) = node() else { return };
    let script = "i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); sleep 0.05; done; exit 4";
    node.aurae(&["run", "--name", "job", "-d", "--", "sh", "-c", script])
        .ok();
    let spawn = |args: &[&str]| node.command(args).stdout(Stdio::piped()).spawn().unwrap();
    let wait = spawn(&["wait", "job"]);
    let mut follow = spawn(&["logs", "-f", "job"]);
    let mut lines = follow.stdout.take().unwrap();
    assert_eq!(read_line(&mut lines), "0", "{}", node.log());
    node.kill_daemon();
    for n in 1..20 {
        assert_eq!(read_line(&mut lines), n.to_string(), "{}", node.log());
    }
    assert_eq!(follow.wait().unwrap().code(), Some(0), "{}", node.log());
    let waited = wait.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&waited.stdout),
        "4\n",
        "{}",
        node.log()
    );
}

#[test]
fn a_follower_of_the_audit_outlives_a_daemon_and_sees_each_line_once() {
    let Some(node) = node() else { return };
    let follow = ["identity", "audit", "-f", "-o", "json"];
    let mut follow = node
        .command(&follow)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = follow.stdout.take().unwrap();
    let mut last = 0;
    for cell in ["before", "between", "after"] {
        node.aurae(&["cell", "run", cell]).ok();
        loop {
            let line = read_line(&mut lines);
            let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
            let sequence = entry["sequence"].as_str().unwrap().parse::<u64>().unwrap();
            assert_eq!(sequence, last + 1, "{line}");
            last = sequence;
            if entry["path"] == cell {
                break;
            }
        }
        node.kill_daemon();
    }
    follow.kill().unwrap();
    follow.wait().unwrap();
}

#[test]
fn a_watcher_of_usage_outlives_a_daemon_and_leaves_with_a_key() {
    let Some(node) = node() else { return };
    node.aurae(&["cell", "run", "before"]).ok();
    let mut typist = Typist::start(&node.command(&["top", "--interval", "100ms"]));
    typist.sees("1 objects");
    typist.sees("before");
    node.kill_daemon();
    node.aurae(&["cell", "run", "after"]).ok();
    // Its screen goes on with what the next daemon tells.
    typist.sees("2 objects");
    typist.sees("after");
    typist.types("q");
    // The screen is put back.
    typist.sees("\u{1b}[?1049l");
    assert_eq!(typist.leaves(), Some(0));
}

#[test]
fn signals_go_to_the_workload() {
    let Some(node) = node() else { return };
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done";
    let mut run = node.command(&["run", "--rm", "--", "sh", "-c", script]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = run.stdout.take().unwrap();
    assert_eq!(read_line(&mut stdout), "ready", "{}", node.log());
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(read_line(&mut stdout), "caught", "{}", node.log());
    assert_eq!(run.wait().unwrap().code(), Some(9));
}

#[test]
fn a_terminal_is_one_stream() {
    let Some(node) = node() else { return };
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2";
    let run = node.aurae(&["run", "-t", "--rm", "--", "sh", "-c", script]);
    assert_eq!(run.ok(), "24 80\r\nerr\r\n");
}

#[test]
fn wrong_input_is_refused_by_name() {
    let Some(node) = node() else { return };
    let name = node.aurae(&["cell", "run", "Web"]).fails(1);
    assert!(name.contains("Web"), "{name}");
    let user = node
        .aurae(&["run", "--name", "a", "-u", "nobody-here", "--", "true"])
        .fails(125);
    assert!(user.contains("nobody-here"), "{user}");
    let nice = node
        .aurae(&["run", "--name", "a", "--nice", "20", "--", "true"])
        .fails(125);
    assert!(nice.contains("nice"), "{nice}");
    node.aurae(&["cell", "run", "twice"]).ok();
    let twice = node.aurae(&["cell", "run", "twice"]).fails(1);
    assert!(twice.contains("twice"), "{twice}");
    for args in [
        &["logs", "gone"][..],
        &["stop", "gone"],
        &["inspect", "gone"],
        &["wait", "gone"],
    ] {
        let gone = node.aurae(args).fails(1);
        assert!(gone.contains("gone"), "{gone}");
    }
}

#[test]
fn a_user_sees_its_own_tenant_alone() {
    let Some(node) = node() else { return };
    assert!(
        node.aurae(&["identity", "whoami"])
            .ok()
            .contains("tenant/system")
    );
    node.aurae(&["identity", "user", "create", "alice", "--tenant", "blue"])
        .ok();
    let folder = node.path("alice");
    let out = ["--out", folder.to_str().unwrap()];
    node.aurae(
        &[
            &["identity", "issue", "alice", "--tenant", "blue"][..],
            &out,
        ]
        .concat(),
    )
    .ok();
    node.configure("alice.toml", &folder, "alice");
    node.aurae(&["cell", "run", "secret"]).ok();
    node.aurae_as("alice.toml", &["cell", "run", "mine"]).ok();
    assert_eq!(
        node.aurae_as("alice.toml", &["ps", "-o", "name"]).ok(),
        "mine\n"
    );
    let hidden = node.aurae_as("alice.toml", &["inspect", "secret"]).fails(1);
    assert!(hidden.contains("secret"), "{hidden}");
    node.aurae_as("alice.toml", &["node", "shutdown"]).fails(1);
    node.aurae_as("alice.toml", &["identity", "renew"]).ok();
    assert!(node.aurae(&["ps", "-A"]).ok().contains("blue"));
    node.aurae(&["identity", "user", "disable", "alice", "--tenant", "blue"])
        .ok();
    let disabled = node.aurae_as("alice.toml", &["ps"]).fails(1);
    assert!(disabled.contains("disabled"), "{disabled}");
    assert!(
        node.aurae(&["identity", "audit", "--verify"])
            .ok()
            .contains("intact")
    );
}
