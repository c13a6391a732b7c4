// SPDX-License-Identifier: Apache-2.0
//! What the client makes of a node's answers: exit statuses, output, errors. The answers come from
//! a scripted fixture; see `fixture`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod fixture;

use std::io::Write;
use std::process::Stdio;

use fixture::{Fixture, Run};

#[test]
fn an_attached_runs_end_is_ours() {
    let node = Fixture::start();
    let status = |command: &[&str]| node.aurae(&[&["run", "--"], command].concat()).status;
    assert_eq!(status(&["exit", "0"]), Some(0));
    assert_eq!(status(&["exit", "7"]), Some(7));
    assert_eq!(status(&["signal", "9"]), Some(137));
    assert_eq!(status(&["missing"]), Some(127));
    assert_eq!(status(&["broken"]), Some(126));
    assert_eq!(status(&["taken"]), Some(125));
}

#[test]
fn streams_stay_apart_and_input_is_handed_over() {
    let node = Fixture::start();
    let said = node.aurae(&["run", "--", "say", "hello"]);
    assert_eq!(
        (said.out.as_str(), said.err.as_str()),
        ("hello\n", "to stderr\n")
    );
    let mut cat = node.command(&["run", "-i", "--", "cat"]);
    let mut cat = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sent = vec![b'x'; 300_000];
    cat.stdin.take().unwrap().write_all(&sent).unwrap();
    let output = cat.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(0), sent.len())
    );
}

#[test]
fn a_refusal_is_a_sentence_and_what_to_do() {
    let node = Fixture::start();
    let run = node.aurae(&["run", "--", "missing"]);
    assert_eq!(
        run.err,
        "error: there is no program \"missing\" in the cell\nhint: look for it with `aurae exec`\n"
    );
    let denied = node.aurae(&["ps", "-A"]);
    assert_eq!(denied.status, Some(1));
    assert!(
        denied.err.contains("hint: `aurae identity explain"),
        "{denied:?}"
    );
}

#[test]
fn ps_shows_the_tree_over_all_pages() {
    let node = Fixture::start();
    let text = node.aurae(&["ps", "-a"]).ok();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "KIND", "STATE", "PID", "AGE", "COMMAND"]);
    assert_eq!(lines[1], ["web", "cell", "running", "41", "-"]);
    assert_eq!(lines[2][..5], ["├─", "job", "executable", "exited", "(3)"]);
    assert_eq!(
        lines[3][..5],
        ["└─", "nginx", "executable", "running", "42"]
    );
    assert!(text.contains("nginx -g 'daemon off;'"));
    assert_eq!(node.aurae(&["ps", "-o", "name"]).ok(), "web\nweb/nginx\n");
}

#[test]
fn programs_get_canonical_json_and_yaml() {
    let node = Fixture::start();
    let json: serde_json::Value =
        serde_json::from_str(&node.aurae(&["ps", "-a", "-o", "json"]).ok()).unwrap();
    assert_eq!(json["objects"][1]["executable"]["exit"]["code"], 3);
    assert_eq!(json["objects"][0]["cell"]["state"], "STATE_RUNNING");
    let yaml = node.aurae(&["inspect", "-o", "yaml", "web/nginx"]).ok();
    assert!(yaml.starts_with("executable:\n"), "{yaml}");
}

#[test]
fn a_name_is_also_that_of_what_its_own_cell_left() {
    let node = Fixture::start();
    assert!(
        node.aurae(&["inspect", "job"])
            .ok()
            .contains("\"path\": \"job/job\"")
    );
    let missing = node.aurae(&["inspect", "nothing"]);
    assert_eq!(
        (missing.status, missing.err.as_str()),
        (Some(1), "error: there is no nothing\n")
    );
}

#[test]
fn wait_prints_the_status_and_several_names_fail_one_by_one() {
    let node = Fixture::start();
    assert_eq!(node.aurae(&["wait", "web/nginx"]).ok(), "3\n");
    let stopped = node.aurae(&["stop", "web/nginx", "nothing"]);
    assert_eq!(
        (stopped.status, stopped.out.as_str()),
        (Some(1), "web/nginx\n")
    );
    assert!(stopped.err.contains("there is no nothing"));
}

#[test]
fn logs_join_half_lines_and_show_gaps_in_place() {
    let node = Fixture::start();
    let text = node.aurae(&["logs", "web/nginx"]);
    assert_eq!(text.out.as_bytes()[..8], *b"one\ntwo\n");
    assert!(text.err.contains("oops\n"));
    assert!(
        text.err
            .contains("[4.00Ki are missing here: the disk was full]")
    );
    let several = node.aurae(&["logs", "--timestamps", "web"]).ok();
    assert!(
        several.starts_with("web/nginx | 1970-01-01T00:00:01.000Z one\n"),
        "{several}"
    );
    let json = node.aurae(&["logs", "-o", "json", "web/nginx"]).ok();
    let lines: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&lines[1]["stream"], &lines[2]["line"]),
        (&"stderr".into(), &"two".into())
    );
    assert_eq!(lines[3]["gap"]["reason"], "REASON_DISK_FULL");
    assert_eq!(lines[4]["base64"], "/3RocmVl");
}

#[test]
fn an_update_changes_what_was_given_and_nothing_else() {
    let node = Fixture::start();
    let json = node
        .aurae(&[
            "cell", "update", "web", "--memory", "max", "--cpus", "1", "-o", "json",
        ])
        .ok();
    assert!(
        json.contains("spec.resources.memory.max spec.resources.cpu.quota"),
        "{json}"
    );
    let nothing = node.aurae(&["cell", "update", "web"]);
    assert_eq!(nothing.status, Some(2), "{nothing:?}");
}

#[test]
fn an_apply_does_not_write_over_what_another_client_has_changed() {
    let node = Fixture::start();
    let program = "await runtime.Run(new Cell({ name: 'raced', labels: { by: 'us' } }));";
    fixture::write(&node.path(""), "raced.ts", program);
    let file = node.path("raced.ts");
    let applied = node.aurae(&["apply", "--yes", "--adopt", file.to_str().unwrap()]);
    assert_eq!(applied.status, Some(1), "{applied:?}");
    for part in ["! update cell raced", "1 failed"] {
        assert!(applied.out.contains(part), "no {part}: {applied:?}");
    }
    for part in [
        "another client has changed raced",
        "raced.ts:1:",
        "goes on from here",
    ] {
        assert!(applied.err.contains(part), "no {part}: {applied:?}");
    }
}

#[test]
fn wrong_usage_is_2_and_names_the_flag() {
    let node = Fixture::start();
    for (args, flag) in [
        (&["run", "--memory", "64X", "--", "a"][..], "--memory"),
        (&["run", "--write", "/srv", "--", "a"], "owner is missing"),
        (
            &["run", "--cell", "web", "--read", "/srv", "--", "a"],
            "--read",
        ),
        (&["run", "-it", "--", "a"], "-t"),
        (&["stop", "-t", "soon", "web"], "--grace"),
        (&["logs", "--since", "yesterday", "web"], "--since"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let run = node.aurae(args);
        assert_eq!(run.status, Some(2), "{args:?}: {run:?}");
        assert!(run.err.contains(flag), "{args:?}: {run:?}");
    }
}

#[test]
fn a_handshake_that_is_refused_is_told_by_its_alert() {
    let node = Fixture::start();
    node.configure("stranger.pem", "stranger.key", "");
    let stranger = node.aurae(&["ps"]);
    assert_eq!(stranger.status, Some(1));
    assert!(
        stranger.err.contains("refused the handshake"),
        "{stranger:?}"
    );
    assert!(
        stranger.err.contains("(unknown_ca)") || stranger.err.contains("(decrypt_error)"),
        "{stranger:?}"
    );
    let attached = node.aurae(&["run", "--", "exit", "0"]);
    assert_eq!(attached.status, Some(125));
}

#[test]
fn a_node_that_is_not_the_expected_one_is_not_spoken_to() {
    let node = Fixture::start();
    node.configure("user.pem", "user.key", "id = \"spiffe://test/node/two\"");
    let other = node.aurae(&["ps"]);
    assert!(
        other
            .err
            .contains("it is spiffe://test/node/one, not spiffe://test/node/two"),
        "{other:?}"
    );
    std::fs::copy(node.path("stranger-ca.pem"), node.path("ca.pem")).unwrap();
    node.configure("user.pem", "user.key", "");
    let untrusted = node.aurae(&["ps"]);
    assert!(
        untrusted
            .err
            .contains("our CA did not issue its certificate"),
        "{untrusted:?}"
    );
}

#[test]
fn a_node_that_is_not_there_is_named() {
    let node = Fixture::start();
    let gone = node.aurae(&["--node", "unix:///nonexistent/aurae.sock", "ps"]);
    assert_eq!(gone.status, Some(1));
    assert!(
        gone.err
            .contains("no node listens at unix:///nonexistent/aurae.sock"),
        "{gone:?}"
    );
    assert!(gone.err.contains("hint: start the daemon"), "{gone:?}");
}

#[test]
fn a_deadline_is_kept_and_named() {
    let node = Fixture::start();
    let late = node.aurae(&["--timeout", "100ms", "node", "config"]);
    assert_eq!(late.status, Some(1));
    assert!(late.err.contains("--timeout"), "{late:?}");
}

#[test]
fn another_version_is_told() {
    let node = Fixture::start();
    let version = node.aurae(&["version"]);
    assert!(version.out.contains("node    9.9.9") && version.err.contains("different versions"));
    let lacking = node.aurae(&["cell", "freeze", "web"]);
    assert!(lacking.err.contains("of another version"), "{lacking:?}");
}

#[test]
fn verdicts_are_exit_statuses() {
    let node = Fixture::start();
    assert_eq!(
        node.aurae(&["identity", "explain", "runtime.Stop"]).status,
        Some(1)
    );
    let audit = node.aurae(&["identity", "audit", "--verify"]);
    assert!(
        audit.status == Some(1) && audit.err.contains("entry 2 was changed"),
        "{audit:?}"
    );
}

#[test]
fn a_key_is_made_here_and_only_the_request_goes_out() {
    let node = Fixture::start();
    let folder = node.path("alice");
    node.aurae(&[
        "identity",
        "issue",
        "alice",
        "--out",
        folder.to_str().unwrap(),
    ])
    .ok();
    let sent = std::fs::read_to_string(folder.join("alice.pem")).unwrap();
    assert!(sent.starts_with("-----BEGIN CERTIFICATE REQUEST-----") && !sent.contains("PRIVATE"));
    let key = std::fs::read_to_string(folder.join("alice.key")).unwrap();
    assert!(key.contains("PRIVATE KEY"));
}

#[test]
fn a_call_whose_daemon_dies_is_made_again_where_it_may_come_twice() {
    let node = Fixture::start();
    let again = |args: &[&str]| {
        node.break_next(1);
        let run = node.aurae(args);
        assert_eq!(node.left_to_break(), 0, "{run:?}");
        run
    };
    // What changes nothing.
    let who = again(&["identity", "whoami"]).ok();
    assert!(who.contains("ann"), "{who}");
    let version = again(&["version"]).ok();
    assert!(version.contains("9.9.9"), "{version}");
    let said = again(&["-e", "print((await node.Get({})).name)"]).ok();
    assert_eq!(said, "one\n");
    // What the node knows again by its id; without one it may have been done or not.
    let run = |more: &[&str]| {
        let words = ["--name", "web", "-d", "--", "exit", "0"];
        again(&[&["run"], more, &words].concat())
    };
    assert_eq!(run(&["--request-id", "r1"]).out, "web/web\n");
    let lost = run(&[]);
    assert_eq!(
        (lost.status, lost.out.as_str()),
        (Some(125), ""),
        "{lost:?}"
    );
    let code = |id: &str| {
        format!(
            "const run = new Executable({{ name: 'web/web', argv: ['exit', '0'] }});\n             await runtime.RunExecutable(run, {{ ownCell: {{}}{id} }}); print('done');"
        )
    };
    assert_eq!(again(&["-e", &code(", requestId: 'r2'")]).ok(), "done\n");
    let lost = again(&["-e", &code("")]).fails(1);
    assert!(lost.contains("UNAVAILABLE"), "{lost}");
}

#[test]
fn contexts_are_kept_in_the_file() {
    let node = Fixture::start();
    let set = [
        "config",
        "set-context",
        "lab",
        "--address",
        "https://[::1]:9401",
        "--ca",
        &node.file("ca.pem"),
    ];
    let (certificate, key) = (node.file("user.pem"), node.file("user.key"));
    let credentials = ["--certificate", &certificate, "--key", &key];
    let missing = [
        "--ca",
        "/lab/nosuch.pem",
        "--certificate",
        &certificate,
        "--key",
        &key,
    ];
    let missing = node.aurae(&[&set[..5], &missing[..]].concat());
    assert!(
        missing.status == Some(1) && missing.err.contains("--ca /lab/nosuch.pem"),
        "{missing:?}"
    );
    node.aurae(&["config", "use-context", "lab"]).fails(1);
    node.aurae(&[&set[..], &credentials[..]].concat()).ok();
    node.aurae(&["config", "use-context", "lab"]).ok();
    assert_eq!(node.aurae(&["config", "current-context"]).ok(), "lab\n");
    let listed = node.aurae(&["config", "get-contexts"]).ok();
    assert!(
        listed.contains("*        lab   https://[::1]:9401"),
        "{listed}"
    );
    let label = |label: &str| node.aurae(&["config", "set-context", "lab", "--label", label]);
    label("role=web").ok();
    label("zone=b").ok();
    let listed = node.aurae(&["config", "get-contexts"]).ok();
    assert!(listed.contains("role=web,zone=b"), "{listed}");
    label("zone-").ok();
    let listed = node.aurae(&["config", "get-contexts"]).ok();
    assert!(listed.contains("role=web\n"), "{listed}");
    let wrong = label("role=no spaces").fails(1);
    assert!(wrong.contains("contexts.lab.labels"), "{wrong}");
    assert!(
        node.aurae(&["config", "get-contexts"])
            .ok()
            .contains("role=web\n")
    );
    node.aurae(&["config", "delete-context", "lab"]).ok();
    let gone: Run = node.aurae(&["config", "use-context", "lab"]);
    assert!(
        gone.status == Some(1) && gone.err.contains("there are: test"),
        "{gone:?}"
    );
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let node = Fixture::start();
    let mut ps = node.command(&["completion", "bash"]);
    // Gone before anything is written.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ps = ps.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = ps.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(141), 0));
}

#[test]
fn every_command_has_help_with_examples() {
    let node = Fixture::start();
    let folder = node.path("man");
    node.aurae(&["man", folder.to_str().unwrap()]).ok();
    for page in std::fs::read_dir(&folder).unwrap() {
        let page = page.unwrap().path();
        let name = page.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains("Examples:"), "{name}");
    }
}
