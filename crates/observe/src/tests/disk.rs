// SPDX-License-Identifier: Apache-2.0
//! A full disk: workloads go on, what is dropped is counted in its place, and storing goes on when
//! there is room.

use std::io::Write;
use std::process::Command;

use model::observe::GapReason;

use super::*;

/// A file system of its own; unmounted in the end.
pub(super) struct Tmpfs(TempDir);

impl Tmpfs {
    /// `None` where the tests may not mount.
    pub(super) fn new(size: &str) -> Option<Self> {
        let at = folder();
        let option = format!("size={size},mode=700");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "aurae-test"])
            .arg(at.path())
            .stderr(std::process::Stdio::null())
            .status();
        status.is_ok_and(|s| s.success()).then_some(Self(at))
    }
}

impl Tmpfs {
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let unmounted = Command::new("umount")
            .arg("--lazy")
            .arg(self.0.path())
            .status();
        assert!(unmounted.is_ok_and(|s| s.success()));
    }
}

/// Keeps everything: only the disk sets a limit.
fn greedy() -> (LogsConfig, LogPolicy) {
    let config = LogsConfig {
        keep_free_percent: 0,
        ..LogsConfig::default()
    };
    let policy = LogPolicy {
        max_bytes: Some(1 << 30),
        max_age: None,
    };
    (config, policy)
}

fn line(number: u32) -> String {
    format!("{number:099}\n")
}

async fn print(workload: &Workload, lines: std::ops::Range<u32>) -> u64 {
    let mut to = workload.stdout.try_clone().unwrap();
    let work = move || {
        let mut bytes = 0;
        for i in lines {
            let line = line(i);
            to.write_all(line.as_bytes()).unwrap();
            bytes += line.len() as u64;
        }
        bytes
    };
    let printing = tokio::task::spawn_blocking(work);
    tokio::time::timeout(PATIENCE, printing)
        .await
        .expect("the workload is blocked")
        .unwrap()
}

/// Until the mover has taken all that was printed: what it couldn't store by then is dropped.
async fn taken(workload: &Workload) {
    let deadline = Instant::now() + PATIENCE;
    let (_, pipe) = &workload.kept[0];
    while rustix::io::ioctl_fionread(pipe).unwrap() > 0 {
        assert!(Instant::now() < deadline, "the mover doesn't take it");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Prints lines until one of them is stored: on a full disk the mover tries that only now and then.
/// The bytes, and the next number.
async fn print_until_stored(logs: &Logs, workload: &Workload, first: u32) -> (u64, u32) {
    let deadline = Instant::now() + PATIENCE;
    let (mut bytes, mut next) = (0, first);
    loop {
        bytes += print(workload, next..next + 1).await;
        next += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let seen = read(logs, &key(1), ReadOptions::default()).await;
        // What was stored last before the disk was full may be a part of a line.
        let text = String::from_utf8(seen.stdout).unwrap();
        let last = text
            .strip_suffix('\n')
            .and_then(|it| it.lines().next_back());
        let number = last.and_then(|it| it.parse::<u32>().ok());
        if number.is_some_and(|it| it >= first) {
            return (bytes, next);
        }
        assert!(Instant::now() < deadline, "nothing is stored any more");
    }
}

#[tokio::test]
async fn a_full_disk_drops_and_counts_and_blocks_no_workload() {
    let Some(disk) = Tmpfs::new("1m") else {
        testkit::skip("this user may not mount a tmpfs");
        return;
    };
    let (config, policy) = greedy();
    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![0; 512 << 10]).unwrap();
    let (logs, workload) = attached(&disk.0.path().join("logs"), config, policy).await;
    // 3 MB into half a megabyte.
    let mut printed = print(&workload, 0..30_000).await;
    taken(&workload).await;
    std::fs::remove_file(&ballast).unwrap();
    let (bytes, next) = print_until_stored(&logs, &workload, 30_000).await;
    printed += bytes + print(&workload, next..next + 1_000).await;
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!(drained.unrecorded_bytes, 0);
    assert_eq!(drained.end_offset, printed);
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert!(seen.gap_bytes() > 1 << 20, "{:?}", seen.gaps);
    assert!(seen.gaps.iter().all(|g| g.reason == GapReason::DiskFull));
    assert_eq!(seen.gap_bytes() + seen.stdout.len() as u64, printed);
    let text = String::from_utf8(seen.stdout).unwrap();
    assert!(text.starts_with(&line(0)));
    assert!(text.ends_with(&line(next + 999)), "storing went on");
    logs.stop().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_was_full_from_the_start_says_so_later() {
    let Some(disk) = Tmpfs::new("256k") else {
        testkit::skip("this user may not mount a tmpfs");
        return;
    };
    let (config, policy) = greedy();
    let ballast = disk.0.path().join("ballast");
    let root = disk.0.path().join("logs");
    std::fs::create_dir(&root).unwrap();
    let mut fill = File::create(&ballast).unwrap();
    while fill.write_all(&[0; 4096]).is_ok() {}
    let (logs, workload) = attached(&root, config, policy).await;
    let mut printed = print(&workload, 0..2_000).await;
    taken(&workload).await;
    std::fs::remove_file(&ballast).unwrap();
    drop(fill);
    let (bytes, next) = print_until_stored(&logs, &workload, 2_000).await;
    printed += bytes;
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!((drained.end_offset, drained.unrecorded_bytes), (printed, 0));
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    // All from before there was room, and what came before the mover tried again.
    assert!(seen.gap_bytes() >= 200_000, "{:?}", seen.gaps);
    assert_eq!(seen.gap_bytes() + seen.stdout.len() as u64, printed);
    let text = String::from_utf8(seen.stdout).unwrap();
    assert!(text.ends_with(&line(next - 1)), "storing went on");
    logs.stop().await.unwrap();
}

#[tokio::test]
async fn the_oldest_segments_go_and_their_place_is_shown() {
    let root = folder();
    let config = LogsConfig {
        keep_every: Duration::from_millis(200),
        ..LogsConfig::default()
    };
    let (logs, workload) = attached(root.path(), config, small()).await;
    let printed = print(&workload, 0..20_000).await;
    settled(&logs, &key(1), printed).await;
    let deadline = Instant::now() + PATIENCE;
    while logs.disk_bytes(&key(1)).unwrap() > 256 << 10 {
        assert!(Instant::now() < deadline, "nothing goes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    logs.drained(key(1).uid).await.unwrap();
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert_eq!(seen.gaps.len(), 1);
    let gap = seen.gaps[0];
    assert_eq!((gap.reason, gap.offset), (GapReason::Retention, 0));
    assert_eq!(gap.bytes + seen.stdout.len() as u64, printed);
    assert!(seen.stdout.len() > 100 << 10, "not more than it must");
    logs.stop().await.unwrap();
}

/// Three workloads print in turn, none of them more than it may alone. Together they are over what
/// the node keeps: what was printed first goes, whosever it is.
#[tokio::test]
async fn over_the_nodes_bound_the_oldest_goes_and_is_shown_in_its_place() {
    const NODE: u64 = 512 << 10;
    let root = folder();
    let config = LogsConfig {
        keep_every: Duration::from_millis(200),
        node_max_bytes: NODE,
        ..LogsConfig::default()
    };
    let logs = Logs::start(root.path(), config).unwrap();
    let mut printed = Vec::new();
    for number in 1..=3 {
        let workload = Workload::new();
        let sources = workload.sources();
        logs.attach(key(number), sources, &small()).await.unwrap();
        printed.push(print(&workload, 0..1_800).await);
        logs.drained(key(number).uid).await.unwrap();
        // Segments are as old as the second that they were written in.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
    let used = |number| logs.disk_bytes(&key(number)).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while (1..=3).map(used).sum::<u64>() > NODE {
        assert!(Instant::now() < deadline, "too much stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut left = Vec::new();
    for (number, printed) in (1..).zip(printed) {
        let seen = read(&logs, &key(number), ReadOptions::default()).await;
        assert!(seen.ended);
        assert_eq!(seen.gap_bytes() + seen.stdout.len() as u64, printed);
        for gap in &seen.gaps {
            assert_eq!((gap.reason, gap.offset), (GapReason::Retention, 0));
        }
        left.push(seen.stdout.len() as u64);
    }
    assert!(left[0] < left[2], "the first lost most: {left:?}");
    assert_eq!(left[2], 180_000, "the last lost nothing: {left:?}");
    assert!(left.iter().sum::<u64>() > NODE / 2, "not more than it must");
    logs.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_too_old_leaves_a_marker_with_its_length() {
    let root = folder();
    let config = LogsConfig {
        keep_every: Duration::from_millis(200),
        ..LogsConfig::default()
    };
    let policy = LogPolicy {
        max_bytes: None,
        max_age: Some(Duration::from_secs(1)),
    };
    let (logs, workload) = attached(root.path(), config, policy).await;
    let printed = print(&workload, 0..100).await;
    logs.drained(key(1).uid).await.unwrap();
    let mut seen = read(&logs, &key(1), ReadOptions::default()).await;
    let deadline = Instant::now() + PATIENCE;
    while !seen.stdout.is_empty() {
        assert!(Instant::now() < deadline, "it stays");
        tokio::time::sleep(Duration::from_millis(50)).await;
        seen = read(&logs, &key(1), ReadOptions::default()).await;
    }
    assert!(seen.ended);
    assert_eq!(seen.gap_bytes(), printed);
    assert_eq!(seen.gaps[0].reason, GapReason::Retention);
    logs.stop().await.unwrap();
}
