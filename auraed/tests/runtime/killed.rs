// SPDX-License-Identifier: Apache-2.0
//! Stories of daemons that are killed, and of those that come after them.

use std::time::{Duration, Instant};

use kernel::signal::Signal;
use model::exit::How;
use model::lifecycle::State;
use model::status::Object;
use testkit::until;

use crate::client::{Ask, executable, refusal, run};
use crate::host::Node;
use crate::stories::{deaf, sh};

/// A view as two daemons should agree on it: revisions are each daemon's own.
fn view(mut objects: Vec<Object>) -> Vec<Object> {
    for object in &mut objects {
        object.meta_mut().revision = 0;
        if let Object::Executable(executable) = object
            && !executable.state.is_final()
        {
            executable.stdout_bytes = 0;
            executable.stderr_bytes = 0;
        }
    }
    objects
}

pub(crate) fn the_view_after_is_the_view_before(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    for i in 0..5 {
        daemon.cell(&format!("c{i}"));
        daemon.cell(&format!("c{i}/in"));
        for j in 0..4 {
            daemon.start(&format!("c{i}/in/job{j}"), &["/bin/sleep", "1000"]);
        }
        daemon.run(&format!("c{i}/done"), &sh("echo x; exit 4"));
    }
    daemon.stop("c4", None);
    daemon.ask(Ask::Freeze {
        path: "c3".into(),
        frozen: true,
    });
    let before = view(daemon.list());
    assert_eq!(before.len(), 5 * 7);
    for _ in 0..3 {
        node.kill_daemon();
        let after = view(node.client().list());
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
        assert_eq!(before.len(), after.len());
    }
}

pub(crate) fn a_stop_goes_on_under_the_next_daemon(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let uid = deaf(&mut daemon);
    let begun = Instant::now();
    let mut asking = node.client();
    let asked = std::thread::spawn(move || {
        asking.try_ask(&Ask::Stop {
            path: "web/deaf".into(),
            grace_ms: Some(10_000),
        })
    });
    until("it is stopping", || {
        daemon.get("web/deaf").state() == State::Stopping
    });
    // The state is published when the intent is on its way to the record; the signal goes after.
    until("it has heard", || daemon.log(uid) == "ready\nheard\n");
    node.kill_daemon();
    assert!(
        asked.join().unwrap().is_err(),
        "the first daemon never answered"
    );
    let mut daemon = node.client();
    assert_eq!(daemon.get("web/deaf").state(), State::Stopping);
    let ended = executable(daemon.ask(Ask::Wait {
        path: "web/deaf".into(),
        uid,
    }));
    assert_eq!(ended.exit.unwrap().how, How::Signal(9));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(9_900), "{took:?}");
}

pub(crate) fn what_ends_while_there_is_no_daemon_is_not_lost(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    daemon.cell("web");
    let uids: Vec<_> = (0..20)
        .map(|i| {
            let script = format!("sleep 0.1; echo {i}; exit {i}");
            daemon.start(&format!("web/job{i}"), &sh(&script)).meta.uid
        })
        .collect();
    for _ in 0..10 {
        node.kill_daemon();
        drop(node.client());
    }
    let mut daemon = node.client();
    for (i, uid) in uids.into_iter().enumerate() {
        let path = format!("web/job{i}");
        let ended = executable(daemon.ask(Ask::Wait { path, uid }));
        assert_eq!(ended.exit.unwrap().how, How::Code(u8::try_from(i).unwrap()));
    }
}

/// Whether the cell is said not to answer.
fn is_silent(object: &Object) -> bool {
    matches!(object, Object::Cell(cell) if cell.conditions.iter().any(|c| c.kind == "InitSilent"))
}

/// A cell's init that says nothing keeps the next daemon from no other cell.
pub(crate) fn a_silent_cell_init_delays_no_other_cell(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let mute = daemon.cell("mute");
    for path in ["mute/in", "dead", "web"] {
        daemon.cell(path);
        daemon.start(&format!("{path}/job"), &["/bin/sleep", "1000"]);
    }
    let before = view(daemon.list());
    let stopped = [&daemon.get("mute"), &daemon.get("dead")].map(|cell| match cell {
        Object::Cell(cell) => kernel::pidfd::open(cell.pid.unwrap().try_into().unwrap()).unwrap(),
        Object::Executable(_) => unreachable!(),
    });
    for init in &stopped {
        kernel::pidfd::send_signal(init, Signal::STOP).unwrap();
    }
    node.kill_daemon();
    let begun = Instant::now();
    let mut daemon = node.client();
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(10), "held up for {waited:?}");
    // The others are as they were, and work.
    assert_eq!(daemon.get("web/job").state(), State::Running);
    let ended = daemon.run("web/x", &["/bin/true"]);
    assert_eq!(ended.exit.unwrap().how, How::Code(0));
    // It is told of as far as it is known, and its name and its ids are its own.
    for path in ["mute", "mute/in", "dead"] {
        assert!(is_silent(&daemon.get(path)), "{path}");
        let started = daemon.ask(run(&format!("{path}/x"), &["/bin/true"], false));
        assert_eq!(refusal(started).0, "WRONG_STATE");
        let path = path.to_owned();
        let stop = Ask::Stop {
            path,
            grace_ms: None,
        };
        assert_eq!(refusal(daemon.ask(stop)).0, "WRONG_STATE");
    }
    let other = daemon.cell("other");
    assert_ne!(other.first_uid, mute.first_uid);
    // One answers at last, the other dies.
    kernel::pidfd::send_signal(&stopped[0], Signal::CONT).unwrap();
    kernel::pidfd::send_signal(&stopped[1], Signal::KILL).unwrap();
    until("it has answered", || !is_silent(&daemon.get("mute/in")));
    until("it has ended", || {
        daemon.get("dead").state() == State::Failed
    });
    let is_left = |object: &Object| {
        let path = object.meta().path.to_string();
        !["dead", "dead/job", "other", "web/x"].contains(&path.as_str())
    };
    let after = view(daemon.list());
    let after: Vec<_> = after.into_iter().filter(is_left).collect();
    let before: Vec<_> = before.into_iter().filter(is_left).collect();
    assert_eq!(before, after);
    let ended = daemon.run("mute/in/x", &["/bin/true"]);
    assert_eq!(ended.exit.unwrap().how, How::Code(0));
    let group = node.cgroup().join("acme/dead");
    until("the dead one's group is gone", || !group.exists());
}

/// A daemon that finds many cells has a view at once.
pub(crate) fn many_cells_are_adopted_together(name: &str) {
    let cells: usize = std::env::var("AURAE_CELLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60);
    let node = Node::start(name);
    let mut daemon = node.client();
    for i in 0..cells {
        daemon.cell(&format!("c{i}"));
        daemon.start(&format!("c{i}/job"), &["/bin/sleep", "1000"]);
    }
    let before = view(daemon.list());
    let begun = Instant::now();
    node.kill_daemon();
    let after = view(node.client().list());
    println!(
        "    {cells} cells: killed, started and listed again in {:.1?}",
        begun.elapsed()
    );
    assert!(before == after, "the view after is the view before");
    let begun = Instant::now();
    let mut daemon = node.client();
    for i in 0..cells {
        daemon.ask(Ask::Remove {
            path: format!("c{i}"),
            recursive: true,
            force: true,
        });
    }
    println!(
        "    {cells} cells: stopped and removed in {:.1?}",
        begun.elapsed()
    );
    assert!(daemon.list().is_empty());
}
