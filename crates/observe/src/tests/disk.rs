// SPDX-License-Identifier: Apache-2.0
//! A full disk: workloads go on, what is dropped is counted in its place, and storing goes on when
//! there is room.

use std::io::Write;
use std::process::Command;

use model::observe::GapReason;

use super::*;

/// A file system of its own; unmounted in the end.
struct Tmpfs(TempDir);

impl Tmpfs {
    /// `None` where the tests may not mount.
    fn new(size: &str) -> Option<Self> {
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

async fn print(workload: &Workload, lines: std::ops::Range<u32>) -> u64 {
    let mut to = workload.stdout.try_clone().unwrap();
    let work = move || {
        let mut bytes = 0;
        for i in lines {
            let line = format!("{i:099}\n");
            to.write_all(line.as_bytes()).unwrap();
            bytes += line.len() as u64;
        }
        bytes
    };
    let printing = tokio::task::spawn_blocking(work);
    tokio::time::timeout(Duration::from_secs(20), printing)
        .await
        .expect("the workload is blocked")
        .unwrap()
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
    tokio::time::sleep(Duration::from_millis(50)).await;
    std::fs::remove_file(&ballast).unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    printed += print(&workload, 30_000..31_000).await;
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!(drained.unrecorded_bytes, 0);
    assert_eq!(drained.end_offset, printed);
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert!(seen.gap_bytes() > 1 << 20, "{:?}", seen.gaps);
    assert!(seen.gaps.iter().all(|g| g.reason == GapReason::DiskFull));
    assert_eq!(seen.gap_bytes() + seen.stdout.len() as u64, printed);
    let text = String::from_utf8(seen.stdout).unwrap();
    assert!(text.starts_with(&format!("{:099}\n", 0)));
    assert!(
        text.ends_with(&format!("{:099}\n", 30_999)),
        "storing went on"
    );
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
    tokio::time::sleep(Duration::from_millis(50)).await;
    std::fs::remove_file(&ballast).unwrap();
    drop(fill);
    tokio::time::sleep(Duration::from_millis(400)).await;
    printed += print(&workload, 2_000..2_001).await;
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!((drained.end_offset, drained.unrecorded_bytes), (printed, 0));
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert_eq!(seen.gap_bytes(), 200_000);
    assert_eq!(seen.stdout.len(), 100);
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
    for _ in 0..200 {
        if logs.disk_bytes(&key(1)).unwrap() <= 256 << 10 {
            break;
        }
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
    for _ in 0..200 {
        if (1..=3).map(used).sum::<u64>() <= NODE {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!((1..=3).map(used).sum::<u64>() <= NODE);
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
    for _ in 0..100 {
        if seen.stdout.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        seen = read(&logs, &key(1), ReadOptions::default()).await;
    }
    assert!(seen.stdout.is_empty() && seen.ended);
    assert_eq!(seen.gap_bytes(), printed);
    assert_eq!(seen.gaps[0].reason, GapReason::Retention);
    logs.stop().await.unwrap();
}
