// SPDX-License-Identifier: Apache-2.0
//! A disk that fails (`EIO`) under the mover and under readers: workloads go on, what is dropped is
//! counted in its place, a reader is told, and all goes on when the disk does.

use std::io::Write;

use model::observe::GapReason;
use syscalls::Sysno;

use super::kill::{fifos, sources};
use super::*;
use testkit::faults::{self, Subject};

const SUBJECT: &str = "tests::faults::subject_of_the_faults";

/// Not a test by itself: the process whose disk fails.
#[test]
fn subject_of_the_faults() {
    let Some(folder) = faults::asked() else {
        return;
    };
    // One thread reads, and it stays.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .thread_name("reader")
        .thread_keep_alive(Duration::from_secs(600))
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let logs = Logs::start(&folder.join("logs"), LogsConfig::default()).unwrap();
    let policy = small();
    let attached = logs.attach(key(1), sources(&folder), &policy);
    runtime.block_on(attached).unwrap();
    faults::answer_all(&folder, |line| match line {
        "stored" => match runtime.block_on(logs.end_offset(&key(1))) {
            Ok(offset) => offset.to_string(),
            Err(error) => error.to_string(),
        },
        "drain" => match runtime.block_on(logs.drained(key(1).uid)) {
            Ok(drained) => format!("{} {}", drained.end_offset, drained.unrecorded_bytes),
            Err(error) => error.to_string(),
        },
        "read" => runtime.block_on(async {
            let mut reader = logs.read(&key(1), ReadOptions::default()).unwrap();
            let mut seen = Seen::default();
            loop {
                match reader.next().await {
                    Ok(Some(item)) => seen.take(item),
                    Ok(None) => return seen.stdout.len().to_string(),
                    Err(error) => return format!("{error} ({:?})", error.errno),
                }
            }
        }),
        other => panic!("{other}"),
    });
}

/// Prints these lines of 20 bytes, each by one write: what is dropped is dropped by lines. It
/// doesn't return while the pipe is full.
fn print(mut to: &File, lines: std::ops::Range<u64>) -> u64 {
    let count = lines.end - lines.start;
    for line in lines {
        to.write_all(format!("{line:019}\n").as_bytes()).unwrap();
    }
    count * 20
}

/// Waits until so many bytes are accounted for.
fn wait_for(subject: &mut Subject, bytes: u64) {
    let deadline = Instant::now() + PATIENCE;
    let mut is_stored = || {
        let stored = subject.ask("stored").parse::<u64>();
        stored.is_ok_and(|it| it >= bytes)
    };
    while !is_stored() {
        assert!(Instant::now() < deadline, "{bytes} bytes were not stored");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What of the disk fails: the data alone, the index alone, or both.
const FAILING: [[Sysno; 2]; 3] = [
    [Sysno::splice, Sysno::splice],
    [Sysno::pwrite64, Sysno::pwrite64],
    [Sysno::splice, Sysno::pwrite64],
];

#[test]
fn a_failing_disk_drops_and_counts_and_blocks_no_workload() {
    for calls in FAILING {
        let root = folder();
        let [out, _err] = fifos(root.path());
        let mut subject = Subject::start(SUBJECT, root.path());
        let mut printed = print(&out, 0..100);
        wait_for(&mut subject, printed);
        let mover = subject.thread("log-mover");
        mover.fails(calls);
        // More than a pipe holds: the printing program would block if nothing read.
        printed += print(&out, 100..10_000);
        assert!(mover.is_well(), "{calls:?} never failed");
        let mut line = 10_000;
        let before = subject.ask("read");
        while subject.ask("read") == before {
            assert!(line < 11_000, "{calls:?}: nothing is stored any more");
            printed += print(&out, line..line + 1);
            line += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(subject.ask("drain"), format!("{printed} 0"), "{calls:?}");
        check(root.path(), printed, line, calls);
    }
}

/// What was printed is there or counted in its place.
fn check(root: &Path, printed: u64, lines: u64, calls: [Sysno; 2]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let seen = runtime.block_on(async {
        let logs = Logs::start(&root.join("logs"), LogsConfig::default()).unwrap();
        read(&logs, &key(1), ReadOptions::default()).await
    });
    assert!(seen.ended);
    assert!(!seen.gaps.is_empty(), "{calls:?}");
    assert!(
        seen.gaps.iter().all(|gap| gap.reason == GapReason::IoError),
        "{:?}",
        seen.gaps
    );
    let left = u64::try_from(seen.stdout.len()).unwrap();
    assert_eq!(seen.gap_bytes() + left, printed, "{calls:?}");
    let text = String::from_utf8(seen.stdout).unwrap();
    let first: String = (0..100).map(|line| format!("{line:019}\n")).collect();
    assert!(text.starts_with(&first));
    assert!(text.ends_with(&format!("{:019}\n", lines - 1)), "{calls:?}");
}

#[test]
fn a_reader_is_told_of_a_failing_disk_and_the_next_reads_all() {
    let root = folder();
    let [out, _err] = fifos(root.path());
    let mut subject = Subject::start(SUBJECT, root.path());
    let printed = print(&out, 0..5_000);
    wait_for(&mut subject, printed);
    subject.ask("drain");
    assert_eq!(subject.ask("read"), printed.to_string());
    let reader = subject.thread("reader");
    reader.fails([Sysno::pread64, Sysno::read]);
    let told = subject.ask("read");
    assert!(
        told.contains("the log at ") && told.contains("(Some(5))"),
        "{told}"
    );
    assert!(reader.is_well());
    assert_eq!(subject.ask("read"), printed.to_string());
}
