// SPDX-License-Identifier: Apache-2.0
//! `kill -9` of the mover at any instant loses and doubles nothing. The mover runs in a child
//! process, which is this test's own program run again; the pipes are FIFOs that the test keeps
//! open as init does.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const FOLDER: &str = "AURAE_TEST_KILL_FOLDER";
/// How many kills; the second under `./x soak`.
const KILLS: [u32; 2] = [100, 4000];
/// How long a mover that moves may go on: some batches.
const STEADY: Duration = Duration::from_millis(6);

/// Not a test by itself: the child.
#[test]
fn mover_of_the_kill_test() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let logs = Logs::start(&folder.join("logs"), LogsConfig::default()).unwrap();
        logs.attach(key(1), sources(&folder), &policy())
            .await
            .unwrap();
        std::future::pending::<()>().await;
    });
}

/// Segments of 1 MiB, so that kills fall into rotations too.
fn policy() -> LogPolicy {
    LogPolicy {
        max_bytes: Some(8 << 20),
        max_age: None,
    }
}

/// Standard output and standard error of a workload, kept open as init does.
pub(super) fn fifos(folder: &Path) -> [File; 2] {
    ["out", "err"].map(|name| {
        let path = folder.join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(path).unwrap()
    })
}

pub(super) fn sources(folder: &Path) -> Vec<(Stream, OwnedFd)> {
    let open = |name| OwnedFd::from(File::open(folder.join(name)).unwrap());
    vec![(Stream::Stdout, open("out")), (Stream::Stderr, open("err"))]
}

fn child(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::kill::mover_of_the_kill_test"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until a child has moved something, at most so long; how long it was.
fn until_moved(root: &Path, stored: u64, at_most: Duration) -> Duration {
    let folder = folder::Folder::new(&root.join("logs"), &key(1));
    let begun = Instant::now();
    let moved = || read::end_of(&folder).is_ok_and(|end| end > stored);
    while begun.elapsed() < at_most && !moved() {
        std::thread::sleep(Duration::from_micros(100));
    }
    begun.elapsed()
}

/// Prints numbered lines until told to stop; how many it was.
fn writer(mut to: File, stop: Arc<AtomicBool>, pause: Duration) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut number = 0u64;
        while !stop.load(Ordering::Relaxed) {
            writeln!(to, "{number:019}").unwrap();
            number += 1;
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
        }
        number
    })
}

fn check_sequence(bytes: &[u8], lines: u64) {
    let mut next = 0u64;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        assert_eq!(line, format!("{next:019}\n").as_bytes(), "line {next}");
        next += 1;
    }
    assert_eq!(next, lines);
}

#[tokio::test]
async fn a_mover_killed_at_random_loses_and_doubles_nothing() {
    let root = folder();
    let kept = fifos(root.path());
    let stop = Arc::new(AtomicBool::new(false));
    let pipe = |i: usize| kept[i].try_clone().unwrap();
    let out = writer(pipe(0), Arc::clone(&stop), Duration::ZERO);
    let err = writer(pipe(1), Arc::clone(&stop), Duration::from_micros(300));
    // What retention would drop is no loss of the mover's: read along instead of afterwards.
    let mut seen = Seen::default();
    let (mut moved_by, mut start) = (0, Duration::ZERO);
    let kills = testkit::how_much(KILLS[0], KILLS[1]);
    for kill in 0..kills {
        let mut child = child(root.path());
        // Spread over the child's steady state and, every other one, its start and its first batch,
        // however long a start takes on this machine.
        let part = |of: Duration| of * (kill.wrapping_mul(618_034) % 1_000_000) / 1_000_000;
        if kill % 2 == 0 {
            start = until_moved(root.path(), seen.after, PATIENCE);
            assert!(start < PATIENCE, "a mover moves nothing");
            tokio::time::sleep(part(STEADY)).await;
        } else {
            until_moved(root.path(), seen.after, part(start * 2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let before = seen.after;
        catch_up(root.path(), &mut seen).await;
        moved_by += u32::from(seen.after > before);
    }
    stop.store(true, Ordering::Relaxed);
    let logs = Logs::start(&root.path().join("logs"), LogsConfig::default()).unwrap();
    logs.attach(key(1), sources(root.path()), &policy())
        .await
        .unwrap();
    let (out, err) = tokio::task::spawn_blocking(|| (out.join().unwrap(), err.join().unwrap()))
        .await
        .unwrap();
    logs.drained(key(1).uid).await.unwrap();
    logs.stop().await.unwrap();
    catch_up(root.path(), &mut seen).await;
    assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
    check_sequence(&seen.stdout, out);
    check_sequence(&seen.stderr, err);
    assert!(
        moved_by > kills / 4,
        "only {moved_by} of {kills} movers moved anything"
    );
}

/// Reads on where the last look ended, while nothing is written.
async fn catch_up(root: &Path, seen: &mut Seen) {
    let folder = folder::Folder::new(&root.join("logs"), &key(1));
    let registry = Arc::default();
    let place = Arc::new(tokio::sync::Semaphore::new(1));
    let places = read::Places {
        turns: tenants::Turns::new(1),
        seat: read::Rooms::default().enter(&key(1).tenant),
        tenant: key(1).tenant,
        _permit: place.try_acquire_owned().unwrap(),
    };
    let options = ReadOptions {
        from: Some(seen.after),
        ..ReadOptions::default()
    };
    let mut reader = LogReader::new(key(1).uid, folder, boot(), registry, options, places);
    while let Some(item) = reader.next().await.unwrap() {
        seen.take(item);
    }
    seen.ended = false;
    seen.order.clear();
}

fn boot() -> [u8; 16] {
    logs::boot_id().unwrap()
}
