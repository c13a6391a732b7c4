// SPDX-License-Identifier: Apache-2.0
//! Stories of daemons that are killed, and of those that come after them.

use std::time::{Duration, Instant};

use model::exit::How;
use model::lifecycle::State;
use model::status::Object;

use crate::client::{Answer, Ask, executable, run};
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

/// Kills the daemon again and again while workloads start, print and end. Every start that was
/// answered must end as its script says, once; nothing may stay behind.
pub(crate) fn at_random_moments_nothing_is_lost(name: &str) {
    let kills: u32 = std::env::var("AURAE_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(40);
    let node = Node::start(name);
    node.client().cell("web");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut answered = Vec::new();
    for kill in 0..kills {
        let mut daemon = node.client();
        let pause = Duration::from_micros(next(80_000));
        let killer = std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                std::thread::sleep(pause);
                node.kill_daemon();
            });
            for n in 0.. {
                let code = u8::try_from(next(200)).unwrap();
                let path = format!("web/r{kill}-{n}");
                let script = format!("echo {path}; sleep 0.00{}; exit {code}", next(9));
                match daemon.try_ask(&run(&path, &sh(&script), next(2) == 0)) {
                    Ok(Answer::Object(object)) => answered.push((path, code, object.meta().uid)),
                    Ok(other) => panic!("{path}: {other:?}"),
                    Err(_) => break,
                }
            }
            killer.join()
        });
        killer.unwrap();
    }
    assert!(!answered.is_empty());
    let mut daemon = node.client();
    wait_until("all have ended", || {
        daemon
            .list()
            .iter()
            .filter(|object| !object.state().is_final())
            .count()
            == 1
    });
    for (path, code, uid) in &answered {
        let ended = executable(daemon.ask(Ask::Wait {
            path: path.clone(),
            uid: *uid,
        }));
        assert_eq!(ended.exit.unwrap().how, How::Code(*code), "{path}");
    }
    let left: Vec<_> = std::fs::read_dir(node.cgroup().join("acme/web"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["_init"]);
    println!("    {kills} kills, {} starts answered", answered.len());
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
