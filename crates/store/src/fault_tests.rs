// SPDX-License-Identifier: Apache-2.0
//! Stories of a store whose disk fails (`EIO`): what can't be written is refused and not there,
//! reads go on, a read that fails is told, and both work again when the disk does.

use std::time::{Duration, Instant};

use syscalls::Sysno;

use model::name::Uid;

use super::*;
use testkit::faults::{self, Subject};

const SUBJECT: &str = "fault_tests::subject_of_the_faults";

/// Not a test by itself: the process whose disk fails.
#[test]
fn subject_of_the_faults() {
    let Some(folder) = faults::asked() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let store = Store::open(&folder).unwrap();
    faults::answer_all(&folder, |line| {
        let (what, name) = line.split_once(' ').unwrap();
        let name = name.to_owned();
        let outcome = match what {
            "add" => runtime.block_on(store.add_user(user(&name))).map(drop),
            "put" => runtime.block_on(store.put_finished(run(&name))),
            "get" => {
                let uid = run(&name).uid;
                let found = runtime.block_on(store.finished(uid));
                return match found {
                    Ok(found) => found.is_some().to_string(),
                    Err(error) => error.to_string(),
                };
            }
            other => panic!("{other}"),
        };
        match outcome {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    });
}

fn user(name: &str) -> UserRow {
    UserRow {
        tenant: "acme".into(),
        name: name.into(),
        role: None,
        disabled: false,
        created_ns: 1,
    }
}

fn run(number: &str) -> Finished {
    Finished {
        uid: Uid([number.parse().unwrap(); 16]),
        tenant: "acme".into(),
        path: format!("web/{number}"),
        kind: "executable".into(),
        finished_ns: 1,
        request_id: None,
        record: vec![7; 10_000],
    }
}

/// Asks until it works: the store finds out by itself, each second.
fn wait_for(subject: &mut Subject, line: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = subject.ask(line);
        if answer == "ok" {
            return;
        }
        assert!(Instant::now() < deadline, "{answer}");
        // Another process finds out: it has no event for us.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_a_failing_disk_refuses_is_not_there_and_reads_go_on() {
    let failing = [
        ("put 2", [Sysno::pwrite64, Sysno::write]),
        ("add ann", [Sysno::fdatasync, Sysno::fsync]),
    ];
    for (line, calls) in failing {
        let root = tempfile::tempdir().unwrap();
        let mut subject = Subject::start(SUBJECT, root.path());
        assert_eq!(subject.ask("put 1"), "ok");
        let writer = subject.thread("store-writer");
        writer.fails(calls);
        let refusal = subject.ask(line);
        assert!(refusal.contains("aurae.db"), "{line}: {refusal}");
        assert_eq!(subject.ask("get 1"), "true");
        assert_eq!(subject.ask("get 2"), "false");
        assert!(writer.is_well(), "{calls:?} never failed");
        wait_for(&mut subject, line);
        assert_eq!(subject.ask("get 1"), "true");
        drop(subject);
        // Nothing is left that the next one would stumble over.
        std::fs::remove_file(root.path().join("control")).unwrap();
        let mut next = Subject::start(SUBJECT, root.path());
        assert_eq!(next.ask("get 1"), "true");
    }
}

#[test]
fn a_read_that_fails_is_told_and_the_next_succeeds() {
    let root = tempfile::tempdir().unwrap();
    let mut subject = Subject::start(SUBJECT, root.path());
    assert_eq!(subject.ask("put 1"), "ok");
    assert_eq!(subject.ask("get 1"), "true");
    assert_eq!(subject.ask("put 2"), "ok");
    let reader = subject.thread("store-reader");
    reader.fails([Sysno::pread64, Sysno::read]);
    let told = subject.ask("get 2");
    assert!(told.contains("aurae.db"), "{told}");
    assert!(reader.is_well());
    assert_eq!(subject.ask("get 2"), "true");
    assert_eq!(subject.ask("put 3"), "ok");
}
