// SPDX-License-Identifier: Apache-2.0
//! The stories: what must hold of cells and executables on a real kernel.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use model::exit::How;
use model::lifecycle::State;
use model::name::Uid;
use model::status::Object;
use model::{cell, executable as exe};
use testkit::stories::Told;
use testkit::until;

use crate::client::{Answer, Ask, Client, draft, executable, refusal, run};
use crate::host::Node;
use crate::{again, aged, chaos, groups, held, killed, liars, slow, updates};

type Story = fn(&str);

const STORIES: &[(&str, Story)] = &[
    ("codes", exit_codes_come_back),
    ("refused", what_cannot_run_leaves_nothing),
    ("names", a_living_name_is_taken_and_a_finished_one_replaced),
    ("forker", stop_ends_what_a_shell_left_behind),
    (
        "stubborn",
        who_ignores_the_stop_signal_is_killed_after_its_grace,
    ),
    ("orphans", what_outlives_its_main_process_is_ended),
    ("retry", a_retried_request_is_answered_the_same),
    ("own", again::an_own_cell_goes_with_its_executable),
    (
        "auto",
        again::what_removes_itself_is_gone_but_its_end_was_told,
    ),
    ("again", again::who_was_told_of_the_end_may_use_the_name),
    (
        "again-killed",
        again::the_name_is_free_under_the_next_daemon,
    ),
    (
        "again-never",
        again::a_name_that_does_not_get_free_is_refused_in_time,
    ),
    ("nested", cells_nest_and_stop_together),
    ("freeze", freezing_holds_everything_and_spares_inits),
    ("watch", a_watcher_sees_everything_and_resumes),
    ("signal", signals_reach_the_main_process_or_all),
    ("aged", aged::a_finished_record_goes_when_it_is_too_old),
    ("remove", removing_is_refused_where_it_would_lose_something),
    ("attach", who_attaches_types_reads_all_and_is_told_the_end),
    ("terminal", a_terminal_is_one),
    ("lost-init", a_cell_whose_init_dies_fails_with_all_in_it),
    ("limits", a_limit_without_its_controller_is_refused_by_name),
    ("mounts", mounts_are_what_was_asked_for_and_change_live),
    ("used", what_was_used_is_kept_with_the_end),
    ("update", updates::one_refused_changes_nothing),
    ("below", updates::one_takes_what_is_below_a_mount_with_it),
    ("updates", updates::at_any_moment_the_record_is_what_holds),
    (
        "slow-store",
        slow::what_is_removed_while_it_is_stored_stays_removed,
    ),
    (
        "broken-store",
        slow::what_is_removed_before_it_could_be_stored_stays_removed,
    ),
    ("full-store", slow::a_cell_ends_while_nothing_can_be_stored),
    (
        "stuck-store",
        slow::what_the_store_can_not_forget_is_not_removed,
    ),
    ("adopt", killed::the_view_after_is_the_view_before),
    ("resume", killed::a_stop_goes_on_under_the_next_daemon),
    (
        "meanwhile",
        killed::what_ends_while_there_is_no_daemon_is_not_lost,
    ),
    (
        "groups-before",
        groups::inits_of_before_are_adopted_and_new_ones_are_outside,
    ),
    (
        "groups-after",
        groups::an_ordered_end_leaves_no_group_of_a_tenant,
    ),
    ("silent", killed::a_silent_cell_init_delays_no_other_cell),
    ("many", killed::many_cells_are_adopted_together),
    ("liars", liars::a_lying_cell_init_harms_no_other_cell),
    ("mute", held::a_cell_init_that_says_nothing_is_lost),
    ("half-frozen", held::a_refused_freeze_changes_nothing),
    ("late", held::a_start_that_takes_too_long_is_given_up_alone),
    (
        "strangers",
        liars::a_start_with_another_cells_process_ends_the_cell,
    ),
    ("moments", chaos::at_random_moments_nothing_is_lost),
];

/// Tells those that were asked for; all without a name.
pub(crate) fn tell() -> ExitCode {
    let root = || testkit::stories::by_root("the stories need root");
    testkit::stories::run(STORIES, root, |name, story| Told::by(|| story(name)))
}

/// A script for `sh`.
pub(crate) fn sh(script: &str) -> [&str; 3] {
    ["/bin/sh", "-c", script]
}

fn exit_codes_come_back(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let cell = daemon.cell("web");
    assert_eq!(cell.state, State::Running);
    assert!(cell.pid.unwrap() > 1 && cell.first_uid.unwrap() > 0);
    for code in [0, 1, 42, 255] {
        let ended = daemon.run("web/job", &sh(&format!("echo {code}; exit {code}")));
        assert_eq!(ended.state, State::Exited);
        assert_eq!(ended.exit.unwrap().how, How::Code(code));
        assert_eq!(daemon.log(ended.meta.uid), format!("{code}\n"));
        assert_eq!(ended.stdout_bytes, format!("{code}\n").len() as u64);
    }
    let killed = daemon.run("web/job", &sh("kill -9 $$"));
    assert_eq!(killed.exit.unwrap().how, How::Signal(9));
    assert!(
        !node.cgroup().join("acme/web/job").exists(),
        "no leaf stays behind"
    );
}

fn what_cannot_run_leaves_nothing(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let (reason, errno) = refusal(daemon.ask(run("web/a", &["/no/such"], false)));
    assert_eq!((reason.as_str(), errno), ("PROGRAM_NOT_FOUND", Some(2)));
    let (reason, errno) = refusal(daemon.ask(run("web/a", &["/etc/passwd"], false)));
    assert_eq!(
        (reason.as_str(), errno),
        ("PROGRAM_NOT_EXECUTABLE", Some(13))
    );
    let (reason, _) = refusal(daemon.ask(run("nowhere/a", &["/bin/true"], false)));
    assert_eq!(reason, "NOT_FOUND");
    let ask = Ask::Run {
        path: "solo/solo".into(),
        spec: draft(&["/no/such"]),
        own_cell: Some(cell::Draft::default()),
        id: None,
        wait: false,
    };
    let (reason, _) = refusal(daemon.ask(ask));
    assert_eq!(reason, "PROGRAM_NOT_FOUND");
    assert_eq!(daemon.list().len(), 1, "only the cell: {:?}", daemon.list());
    assert!(!node.cgroup().join("acme/web/a").exists());
    assert!(!node.cgroup().join("acme/solo").exists());
}

fn a_living_name_is_taken_and_a_finished_one_replaced(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let first = daemon.start("web/a", &["/bin/sleep", "100"]);
    for path in ["web/a", "web"] {
        let ask = Ask::RunCell {
            path: path.into(),
            spec: Default::default(),
            id: None,
            wait: false,
        };
        assert_eq!(refusal(daemon.ask(ask)).0, "ALREADY_EXISTS", "{path}");
    }
    daemon.stop("web/a", None);
    let second = daemon.run("web/a", &["/bin/true"]);
    assert_ne!(first.meta.uid, second.meta.uid);
    assert_eq!(daemon.list().len(), 2);
    let ask = Ask::Wait {
        path: "web/a".into(),
        uid: first.meta.uid,
    };
    assert_eq!(
        refusal(daemon.ask(ask)).0,
        "NOT_FOUND",
        "the first record was replaced"
    );
}

fn stop_ends_what_a_shell_left_behind(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    daemon.start(
        "web/forker",
        &sh("sleep 1000 & sleep 1001 & sleep 1002; true"),
    );
    let begun = Instant::now();
    let stopped = daemon.stop("web/forker", None);
    assert_eq!(stopped.state(), State::Exited);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    let Object::Executable(stopped) = stopped else {
        panic!()
    };
    assert_eq!(stopped.exit.unwrap().how, How::Signal(15));
    assert!(!node.cgroup().join("acme/web/forker").exists());
}

fn who_ignores_the_stop_signal_is_killed_after_its_grace(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    deaf(&mut daemon);
    let begun = Instant::now();
    let Object::Executable(stopped) = daemon.stop("web/deaf", Some(400)) else {
        panic!()
    };
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(400), "{took:?}");
    assert_eq!(stopped.exit.unwrap().how, How::Signal(9));
    assert!(!stopped.exit.unwrap().oom_killed);
}

/// Starts `web/deaf`, which says when it hears SIGTERM and goes on, and waits until it would.
pub(crate) fn deaf(daemon: &mut Client) -> Uid {
    let script = sh("trap 'echo heard' TERM; echo ready; while :; do sleep 0.05; done");
    let job = daemon.start("web/deaf", &script).meta.uid;
    until("it is ready", || daemon.log(job) == "ready\n");
    job
}

fn what_outlives_its_main_process_is_ended(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let begun = Instant::now();
    let ended = daemon.run("web/parent", &sh("sleep 1000 & echo done; exit 7"));
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(ended.exit.unwrap().how, How::Code(7));
    assert_eq!(daemon.log(ended.meta.uid), "done\n");
}

fn a_retried_request_is_answered_the_same(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let ask = |script: &str, wait| Ask::Run {
        path: "web/once".into(),
        spec: draft(&sh(script)),
        own_cell: None,
        id: Some("request-1".into()),
        wait,
    };
    let first = executable(daemon.ask(ask("sleep 0.2; exit 3", false)));
    let again = executable(daemon.ask(ask("sleep 0.2; exit 3", true)));
    assert_eq!(first.meta.uid, again.meta.uid);
    assert_eq!(again.exit.unwrap().how, How::Code(3));
    assert_eq!(
        refusal(daemon.ask(ask("exit 4", false))).0,
        "REQUEST_ID_REUSED"
    );
    node.kill_daemon();
    let mut daemon = node.client();
    let later = executable(daemon.ask(ask("sleep 0.2; exit 3", true)));
    assert_eq!(first.meta.uid, later.meta.uid, "the next daemon knows, too");
    assert_eq!(
        refusal(daemon.ask(ask("exit 4", false))).0,
        "REQUEST_ID_REUSED"
    );
}

fn cells_nest_and_stop_together(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let outer = daemon.cell("a");
    let inner = daemon.cell("a/b");
    let (first, range) = (outer.first_uid.unwrap(), outer.effective.id_range.unwrap());
    let nested = inner.first_uid.unwrap();
    assert!(
        nested >= first + 65_536 && nested < first + range,
        "{first} {range} {nested}"
    );
    daemon.start("a/b/job", &["/bin/sleep", "1000"]);
    daemon.start("a/job", &["/bin/sleep", "1000"]);
    let Object::Cell(a) = daemon.get("a") else {
        panic!()
    };
    assert_eq!(a.running_children, 2);
    node.kill_daemon();
    let mut daemon = node.client();
    assert_eq!(daemon.stop("a", None).state(), State::Exited);
    for object in daemon.list() {
        assert_eq!(object.state(), State::Exited, "{object:?}");
    }
    assert!(!node.cgroup().join("acme/a").exists());
    let again = daemon.cell("a");
    assert_eq!(again.first_uid, outer.first_uid, "its ids were free again");
}

fn ticks(daemon: &mut Client, uid: Uid) -> usize {
    daemon.log(uid).len()
}

/// The ticks of both once no more come: output is stored a moment after it was written.
fn settled(daemon: &mut Client, jobs: [Uid; 2]) -> [usize; 2] {
    let mut last = jobs.map(|uid| ticks(daemon, uid));
    until("no more ticks come", || {
        std::thread::sleep(Duration::from_millis(200));
        let now = jobs.map(|uid| ticks(daemon, uid));
        std::mem::replace(&mut last, now) == now
    });
    last
}

fn freezing_holds_everything_and_spares_inits(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("a");
    daemon.cell("a/b");
    let script = "while :; do echo; sleep 0.01; done";
    let outer = daemon.start("a/tick", &sh(script)).meta.uid;
    let inner = daemon.start("a/b/tick", &sh(script)).meta.uid;
    let jobs = [outer, inner];
    let frozen = daemon.ask(Ask::Freeze {
        path: "a".into(),
        frozen: true,
    });
    let Answer::Object(frozen) = frozen else {
        panic!("{frozen:?}")
    };
    assert_eq!(frozen.state(), State::Frozen);
    let before = settled(&mut daemon, jobs);
    for path in ["a", "a/b", "a/tick", "a/b/tick"] {
        assert_eq!(daemon.get(path).state(), State::Frozen, "{path}");
    }
    assert_eq!(
        refusal(daemon.ask(run("a/new", &["/bin/true"], false))).0,
        "WRONG_STATE"
    );
    // The next daemon finds it frozen, and every init answers it.
    node.kill_daemon();
    let mut daemon = node.client();
    assert_eq!(daemon.get("a/b/tick").state(), State::Frozen);
    assert_eq!(before, settled(&mut daemon, jobs));
    daemon.ask(Ask::Freeze {
        path: "a".into(),
        frozen: false,
    });
    until("both go on", || {
        ticks(&mut daemon, outer) > before[0] && ticks(&mut daemon, inner) > before[1]
    });
    assert_eq!(daemon.get("a/b").state(), State::Running);
    daemon.ask(Ask::Freeze {
        path: "a".into(),
        frozen: true,
    });
    assert_eq!(
        daemon.stop("a", Some(2000)).state(),
        State::Exited,
        "a frozen cell stops"
    );
}

fn a_watcher_sees_everything_and_resumes(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let Answer::Events(snapshot, token) = daemon.ask(Ask::Watch {
        token: None,
        events: 2,
    }) else {
        panic!()
    };
    let seen: Vec<_> = snapshot.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(seen, ["Added", "SnapshotEnd"]);
    daemon.run("web/job", &["/bin/true"]);
    daemon.ask(Ask::Remove {
        path: "web/job".into(),
        recursive: false,
        force: false,
    });
    let resumed = daemon.ask(Ask::Watch {
        token: Some(token.clone()),
        events: 3,
    });
    let Answer::Events(events, _) = resumed else {
        panic!()
    };
    let expected = [
        ("Added", "web/job running"),
        ("Changed", "web/job exited"),
        ("Removed", "web/job exited"),
    ];
    let seen: Vec<_> = events
        .iter()
        .map(|(kind, what)| (kind.as_str(), what.as_str()))
        .collect();
    assert_eq!(seen, expected);
    node.kill_daemon();
    let mut daemon = node.client();
    let reset = daemon.ask(Ask::Watch {
        token: Some(token),
        events: 3,
    });
    let Answer::Events(events, _) = reset else {
        panic!()
    };
    let seen: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(
        seen,
        ["Reset", "Added", "SnapshotEnd"],
        "another daemon's token"
    );
}

fn signals_reach_the_main_process_or_all(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let script = "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.05; done";
    let uid = daemon.start("web/job", &sh(script)).meta.uid;
    until("it is up", || daemon.log(uid) == "up\n");
    let signal = |all| Ask::Signal {
        path: "web/job".into(),
        signal: "SIGUSR1".into(),
        all,
    };
    assert!(matches!(daemon.ask(signal(false)), Answer::Object(_)));
    let ended = executable(daemon.ask(Ask::Wait {
        path: "web/job".into(),
        uid,
    }));
    assert_eq!(ended.exit.unwrap().how, How::Code(5));
    assert_eq!(refusal(daemon.ask(signal(true))).0, "WRONG_STATE");
    let uid = daemon
        .start("web/many", &sh("sleep 100 & sleep 100"))
        .meta
        .uid;
    let kill = Ask::Signal {
        path: "web/many".into(),
        signal: "KILL".into(),
        all: true,
    };
    assert!(matches!(daemon.ask(kill), Answer::Object(_)));
    let ended = executable(daemon.ask(Ask::Wait {
        path: "web/many".into(),
        uid,
    }));
    assert_eq!(ended.exit.unwrap().how, How::Signal(9));
}

fn removing_is_refused_where_it_would_lose_something(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    daemon.start("web/job", &["/bin/sleep", "1000"]);
    let remove = |path: &str, recursive, force| Ask::Remove {
        path: path.into(),
        recursive,
        force,
    };
    assert_eq!(
        refusal(daemon.ask(remove("web/job", false, false))).0,
        "WRONG_STATE"
    );
    assert_eq!(
        refusal(daemon.ask(remove("web", false, true))).0,
        "NOT_EMPTY"
    );
    assert_eq!(
        refusal(daemon.ask(remove("web", true, false))).0,
        "WRONG_STATE"
    );
    assert_eq!(daemon.get("web/job").state(), State::Running);
    let Answer::Removed(2) = daemon.ask(remove("web", true, true)) else {
        panic!()
    };
    assert!(daemon.list().is_empty());
    daemon.cell("empty");
    let Answer::Removed(1) = daemon.ask(remove("empty", false, false)) else {
        panic!()
    };
    node.kill_daemon();
    assert!(node.client().list().is_empty(), "nothing comes back");
}

fn who_attaches_types_reads_all_and_is_told_the_end(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let spec = exe::Draft {
        stdin: true,
        ..draft(&sh("echo hello; cat; exit 6"))
    };
    let ask = |path: &str| Ask::Run {
        path: path.into(),
        spec: spec.clone(),
        own_cell: None,
        id: None,
        wait: false,
    };
    let attach = |path: &str, input: &str| Ask::Attach {
        path: path.into(),
        input: input.into(),
    };
    daemon.ask(ask("web/one"));
    daemon.ask(ask("web/two"));
    let Answer::Attached(bytes, how) = daemon.ask(attach("web/one", "typed\n")) else {
        panic!()
    };
    assert_eq!(bytes, b"hello\ntyped\n");
    assert_eq!(how, "Code(6)");
    node.kill_daemon();
    let mut daemon = node.client();
    let Answer::Attached(bytes, _) = daemon.ask(attach("web/two", "later\n")) else {
        panic!()
    };
    assert_eq!(
        bytes, b"hello\nlater\n",
        "the next daemon has its standard input, too"
    );
    let Answer::Attached(bytes, how) = daemon.ask(attach("web/one", "")) else {
        panic!()
    };
    assert_eq!(
        (bytes.as_slice(), how.as_str()),
        (&b"hello\ntyped\n"[..], "Code(6)")
    );
}

fn a_terminal_is_one(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let terminal = Some(exe::Terminal {
        rows: 33,
        columns: 101,
    });
    let spec = exe::Draft {
        terminal,
        ..draft(&sh("test -t 0 && test -t 1 && stty size; echo $TERM"))
    };
    let ask = Ask::Run {
        path: "web/tty".into(),
        spec,
        own_cell: None,
        id: None,
        wait: true,
    };
    let ended = executable(daemon.ask(ask));
    assert_eq!(daemon.log(ended.meta.uid), "33 101\r\nxterm\r\n");
    assert_eq!(ended.exit.unwrap().how, How::Code(0));
}

fn a_cell_whose_init_dies_fails_with_all_in_it(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let cell = daemon.cell("web");
    let uid = daemon.start("web/job", &["/bin/sleep", "1000"]).meta.uid;
    let init = kernel::pidfd::open(i32::try_from(cell.pid.unwrap()).unwrap()).unwrap();
    kernel::pidfd::send_signal(&init, kernel::signal::Signal::KILL).unwrap();
    let ended = executable(daemon.ask(Ask::Wait {
        path: "web/job".into(),
        uid,
    }));
    assert_eq!(ended.state, State::Failed);
    assert_eq!(ended.exit.unwrap().how, How::Unknown, "never invented");
    until("the cell failed", || {
        daemon.get("web").state() == State::Failed
    });
    assert!(!node.cgroup().join("acme/web").exists());
    assert_eq!(daemon.cell("web").state, State::Running, "its name is free");
}

fn a_limit_without_its_controller_is_refused_by_name(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let root = kernel::cgroup::Cgroup::open(node.cgroup()).unwrap();
    let there = root.controllers().unwrap().iter().any(|c| c == "memory");
    let mut spec = cell::Draft::default();
    spec.resources.memory.max = Some(64 << 20);
    let ask = Ask::RunCell {
        path: "small".into(),
        spec,
        id: None,
        wait: false,
    };
    match (there, daemon.ask(ask)) {
        (true, Answer::Object(_)) => {
            let limit = node.cgroup().join("acme/small/memory.max");
            assert_eq!(
                std::fs::read_to_string(limit).unwrap().trim(),
                (64 << 20).to_string()
            );
        }
        (
            false,
            Answer::Error {
                reason, message, ..
            },
        ) => {
            assert_eq!(reason, "CONTROLLER_UNAVAILABLE");
            assert!(message.contains("memory"), "{message}");
            assert!(daemon.list().is_empty());
            assert!(!node.cgroup().join("acme/small").exists());
        }
        (_, other) => panic!("{other:?}"),
    }
}

fn what_was_used_is_kept_with_the_end(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    // The main process itself does next to nothing: it's the others that are easily forgotten.
    let busy = "(i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done) & wait";
    let ended = daemon.run("web/busy", &sh(busy));
    let used = ended.final_usage.clone().unwrap();
    assert!(used.cpu_usage_us.unwrap() > 5_000, "{used:?}");
    let root = kernel::cgroup::Cgroup::open(node.cgroup()).unwrap();
    for (controller, known) in [
        ("memory", used.memory_peak_bytes.is_some()),
        ("pids", used.pids_peak.is_some()),
        ("io", used.io_read_bytes.is_some()),
    ] {
        let there = root.controllers().unwrap().iter().any(|c| c == controller);
        assert_eq!(known, there, "{controller}: {used:?}");
        let why = format!("{controller} controller not available");
        assert_eq!(used.unavailable.contains(&why), !there, "{used:?}");
    }
    let Object::Cell(cell) = daemon.stop("web", None) else {
        panic!("a cell is asked for");
    };
    let whole = cell.final_usage.clone().unwrap();
    assert!(whole.cpu_usage_us >= used.cpu_usage_us, "{whole:?}");
    node.kill_daemon();
    let mut next = node.client();
    match (next.get("web/busy"), next.get("web")) {
        (Object::Executable(busy), Object::Cell(web)) => {
            assert_eq!(busy.final_usage, Some(used));
            assert_eq!(web.final_usage, Some(whole));
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn mount(source: &std::path::Path, target: &str, owner_uid: Option<u32>) -> cell::Mount {
    let access = if owner_uid.is_some() {
        cell::Access::Write
    } else {
        cell::Access::Read
    };
    cell::Mount {
        source: source.to_str().unwrap().to_owned(),
        target: target.to_owned(),
        access,
        owner_uid,
        owner_gid: None,
        allow_root_owner: false,
        propagation: cell::Propagation::None,
    }
}

fn mounts_are_what_was_asked_for_and_change_live(name: &str) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let node = Node::start(name);
    let mut daemon = node.client();
    // Beside the node's own folders, where idmapped mounts are likelier than on a tmpfs.
    let dir = tempfile::Builder::new()
        .prefix("aurae-mount-")
        .tempdir_in("/var/tmp")
        .unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(dir.path().join("hello"), "from the node").unwrap();
    let mut spec = cell::Draft {
        mounts: vec![mount(dir.path(), "/run/in", None)],
        ..Default::default()
    };
    daemon.cell_with("web", spec.clone());
    let read = daemon.run("web/cat", &["/bin/cat", "/run/in/hello"]);
    assert_eq!(daemon.log(read.meta.uid), "from the node");
    let refused = daemon.run("web/touch", &sh("touch /run/in/new"));
    assert_ne!(
        refused.exit.unwrap().how,
        How::Code(0),
        "a read-only mount is read-only"
    );

    let owned = dir.path().join("owned");
    std::fs::create_dir(&owned).unwrap();
    chown(&owned, Some(4242), Some(4242)).unwrap();
    spec.mounts.push(mount(&owned, "/run/out", Some(4242)));
    let update = Ask::Update {
        path: "web".into(),
        spec,
        mask: vec!["spec.mounts".into()],
        generation: Some(1),
    };
    match daemon.ask(update.clone()) {
        Answer::Object(object) => assert_eq!(object.meta().generation, 2),
        Answer::Error {
            reason, message, ..
        } if reason == "UNSUPPORTED" => {
            println!("    no idmapped mounts on /var/tmp: {message}");
            return;
        }
        other => panic!("{other:?}"),
    }
    let wrote = daemon.run(
        "web/write",
        &sh("umask 0; echo x > /run/out/file; ! chmod 4755 /run/out/file"),
    );
    assert_eq!(
        wrote.exit.unwrap().how,
        How::Code(0),
        "{}",
        daemon.log(wrote.meta.uid)
    );
    let file = std::fs::metadata(owned.join("file")).unwrap();
    assert_eq!(file.uid(), 4242);
    assert_eq!(file.mode() & 0o7000, 0, "no set-id bit reaches the disk");
    assert_eq!(
        refusal(daemon.ask(update)).0,
        "CONFLICT",
        "the generation has passed"
    );
    let none = Ask::Update {
        path: "web".into(),
        spec: cell::Draft::default(),
        mask: vec!["spec.mounts".into()],
        generation: None,
    };
    assert!(matches!(daemon.ask(none), Answer::Object(_)));
    let gone = daemon.run("web/cat", &["/bin/cat", "/run/in/hello"]);
    assert_ne!(
        gone.exit.unwrap().how,
        How::Code(0),
        "a mount can be taken back"
    );
}
