// SPDX-License-Identifier: Apache-2.0
//! Stories of a name that is used again: who was told that a run with a cell of its own has ended
//! may run the name at once, whatever the machine is busy with and whichever daemon answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::cell;
use model::executable as exe;
use model::exit::How;
use model::lifecycle::State;
use testkit::until;

use crate::client::{Answer, Ask, Client, draft, executable, run};
use crate::host::Node;
use crate::stories::sh;

/// Clients at a time, each with a name of its own.
const CLIENTS: usize = 4;
/// How often each runs its name; the second under `./x soak`.
const ROUNDS: [usize; 2] = [100, 5000];
/// Threads that keep the kernel busy with cgroups.
const LOAD: usize = 4;

/// Runs `path` in a cell of its own.
fn own(path: &str, argv: &[&str], auto_remove: bool, wait: bool) -> Ask {
    Ask::Run {
        path: path.into(),
        spec: exe::Draft {
            auto_remove,
            ..draft(argv)
        },
        own_cell: Some(cell::Draft::default()),
        id: None,
        wait,
    }
}

/// Makes and removes cgroups beside the node's while `story` is told: the kernel has one lock for
/// that, so whatever the daemon removes after an answer takes it long.
fn under_load(node: &Node, story: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..LOAD {
            let group = format!("{}-load-{number}", node.base().display());
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::fs::create_dir(&group).unwrap();
                    std::fs::remove_dir(&group).unwrap();
                }
            });
        }
        // Also where the story fails: the threads must end.
        let _over = Over(&over);
        story();
    });
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn an_own_cell_goes_with_its_executable(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    for _ in 0..3 {
        let ended = executable(daemon.ask(own("solo/solo", &["/bin/true"], false, true)));
        assert_eq!(ended.exit.unwrap().how, How::Code(0));
    }
    until("the cell goes", || {
        !node.cgroup().join("acme/solo").exists()
    });
    until("only the record stays", || daemon.list().len() == 1);
    assert_eq!(daemon.get("solo/solo").state(), State::Exited);
}

pub(crate) fn what_removes_itself_is_gone_but_its_end_was_told(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let ended = executable(daemon.ask(own("solo/solo", &sh("exit 9"), true, true)));
    assert_eq!(ended.exit.unwrap().how, How::Code(9));
    until("nothing stays", || daemon.list().is_empty());
}

/// Each way of being told: by the run itself, of one that removes itself, by a wait, by a stop.
fn told_of_its_end(daemon: &mut Client, path: &str, round: usize) {
    match round % 4 {
        0 => drop(executable(daemon.ask(own(
            path,
            &["/bin/true"],
            false,
            true,
        )))),
        1 => drop(executable(daemon.ask(own(
            path,
            &["/bin/true"],
            true,
            true,
        )))),
        2 => {
            let started = executable(daemon.ask(own(path, &sh("sleep 0.01"), false, false)));
            let wait = Ask::Wait {
                path: path.into(),
                uid: started.meta.uid,
            };
            assert_eq!(executable(daemon.ask(wait)).state, State::Exited);
        }
        _ => {
            executable(daemon.ask(own(path, &["/bin/sleep", "1000"], false, false)));
            assert_eq!(daemon.stop(path, None).state(), State::Exited);
        }
    }
}

pub(crate) fn who_was_told_of_the_end_may_use_the_name(name: &str) {
    let node = Node::start(name);
    let rounds = testkit::how_much(ROUNDS[0], ROUNDS[1]);
    under_load(&node, || {
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let mut daemon = node.client();
                scope.spawn(move || {
                    let path = format!("solo{number}/solo{number}");
                    for round in 0..rounds {
                        told_of_its_end(&mut daemon, &path, round);
                    }
                });
            }
        });
    });
}

/// The end was told by a daemon that was killed before the cell was gone.
pub(crate) fn the_name_is_free_under_the_next_daemon(name: &str) {
    let node = Node::start(name);
    for _ in 0..10 {
        let mut daemon = node.client();
        executable(daemon.ask(own("solo/solo", &["/bin/true"], false, true)));
        node.kill_daemon();
        let mut daemon = node.client();
        executable(daemon.ask(own("solo/solo", &["/bin/true"], false, true)));
    }
}

/// Its cell is ending, and something else in that takes an hour: the wait has a bound, and what has
/// the name is said.
pub(crate) fn a_name_that_does_not_get_free_is_refused_in_time(name: &str) {
    let node = Node::start(name);
    std::fs::write(node.dir().join("timeout"), "2000").unwrap();
    node.kill_daemon();
    let mut daemon = node.client();
    executable(daemon.ask(own("solo/solo", &["/bin/sleep", "1000"], false, false)));
    let deaf = sh("trap '' TERM; echo deaf; while :; do sleep 1; done");
    let Ask::Run { path, spec, .. } = run("solo/deaf", &deaf, false) else {
        unreachable!()
    };
    let deaf = executable(daemon.ask(Ask::Run {
        path,
        spec: exe::Draft {
            stop_grace: Some(Duration::from_secs(3600)),
            ..spec
        },
        own_cell: None,
        id: None,
        wait: false,
    }));
    let uid = deaf.meta.uid;
    // A stop that comes before would end it.
    until("it ignores the stop", || daemon.log(uid) == "deaf\n");
    daemon.stop("solo/solo", None);
    let asked = Instant::now();
    let answer = daemon.ask(own("solo/solo", &["/bin/true"], false, true));
    let Answer::Error {
        reason, message, ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(reason, "WRONG_STATE", "{message}");
    assert!(message.contains("stopping"), "{message}");
    assert!(asked.elapsed() < Duration::from_secs(15), "{asked:?}");
}
