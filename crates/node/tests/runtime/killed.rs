// SPDX-License-Identifier: Apache-2.0
//! Stories of daemons that are killed, and of those that come after them.

use std::time::{Duration, Instant};

use model::exit::How;
use model::lifecycle::State;
use model::status::Object;

use crate::client::{Ask, executable};
use crate::host::Node;
use crate::stories::{sh, wait_until};

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
    let job = daemon.start("web/deaf", &sh("trap '' TERM; while :; do sleep 1; done"));
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    let mut asking = node.client();
    let asked = std::thread::spawn(move || {
        asking.try_ask(&Ask::Stop {
            path: "web/deaf".into(),
            grace_ms: Some(1500),
        })
    });
    wait_until("it is stopping", || {
        daemon.get("web/deaf").state() == State::Stopping
    });
    // The state is published when the intent is on its way to the record, not in it.
    std::thread::sleep(Duration::from_millis(50));
    node.kill_daemon();
    assert!(
        asked.join().unwrap().is_err(),
        "the first daemon never answered"
    );
    let mut daemon = node.client();
    assert_eq!(daemon.get("web/deaf").state(), State::Stopping);
    let uid = job.meta.uid;
    let ended = executable(daemon.ask(Ask::Wait {
        path: "web/deaf".into(),
        uid,
    }));
    assert_eq!(ended.exit.unwrap().how, How::Signal(9));
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(1400) && took < Duration::from_secs(4),
        "{took:?}"
    );
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
