// SPDX-License-Identifier: Apache-2.0
//! What is printed is stored, once and in order, over daemons that come and go.

use std::io::Write;

use super::*;

#[tokio::test]
async fn idle_writes_are_stored_one_by_one_in_order() {
    let root = folder();
    let (logs, mut workload) = attached(root.path(), LogsConfig::default(), small()).await;
    let mut bytes = 0;
    for i in 0..20 {
        let line = format!("line {i}\n");
        let to = if i % 3 == 0 {
            &mut workload.stderr
        } else {
            &mut workload.stdout
        };
        to.write_all(line.as_bytes()).unwrap();
        bytes += line.len() as u64;
        settled(&logs, &key(1), bytes).await;
    }
    drop((workload.stdout, workload.stderr));
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!(drained.stdout_bytes + drained.stderr_bytes, bytes);
    assert_eq!((drained.end_offset, drained.unrecorded_bytes), (bytes, 0));
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert!(seen.ended && seen.gaps.is_empty());
    let lines: Vec<_> = (0..20).map(|i| format!("line {i}\n")).collect();
    let read: Vec<_> = seen
        .order
        .iter()
        .map(|(_, d)| String::from_utf8_lossy(d))
        .collect();
    assert_eq!(read, lines);
    for (i, (stream, _)) in seen.order.iter().enumerate() {
        assert_eq!(*stream == Stream::Stderr, i % 3 == 0);
    }
}

#[tokio::test]
async fn who_prints_nothing_leaves_nothing() {
    let root = folder();
    let (logs, _workload) = attached(root.path(), LogsConfig::default(), small()).await;
    logs.drained(key(1).uid).await.unwrap();
    assert!(logs.known().unwrap().is_empty());
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert!(seen.ended && seen.order.is_empty() && seen.gaps.is_empty());
}

#[tokio::test]
async fn the_last_bytes_are_taken_when_the_leaf_is_empty() {
    let root = folder();
    let (logs, mut workload) = attached(root.path(), LogsConfig::default(), small()).await;
    workload
        .stdout
        .write_all(b"last words, no newline")
        .unwrap();
    // A write end stays open, as where a descriptor was handed to a stranger: no end of file comes.
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!(drained.stdout_bytes, 22);
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert_eq!(seen.stdout, b"last words, no newline");
    assert!(logs.drained(key(1).uid).await.is_err());
}

#[tokio::test]
async fn the_next_daemon_goes_on_at_the_end() {
    let root = folder();
    let workload = Workload::new();
    let mut expected = Vec::<u8>::new();
    for daemon in 0..5 {
        let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
        logs.attach(key(1), workload.sources(), &small())
            .await
            .unwrap();
        for i in 0..300 {
            let line = format!("{daemon}:{i} and some more words to fill the segment\n");
            (&workload.stdout).write_all(line.as_bytes()).unwrap();
            expected.extend(line.as_bytes());
        }
        settled(&logs, &key(1), expected.len() as u64).await;
        logs.stop().await.unwrap();
        // Nothing reads now: it waits in the pipe.
        (&workload.stdout).write_all(b"in between\n").unwrap();
        expected.extend(b"in between\n");
    }
    let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
    logs.attach(key(1), workload.sources(), &small())
        .await
        .unwrap();
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!(drained.stdout_bytes, expected.len() as u64);
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
    assert!(
        seen.stdout == expected,
        "{} bytes, not {}",
        seen.stdout.len(),
        expected.len()
    );
}

#[tokio::test]
async fn a_drained_log_may_be_attached_and_drained_again() {
    let root = folder();
    let (logs, mut workload) = attached(root.path(), LogsConfig::default(), small()).await;
    workload.stdout.write_all(b"one\n").unwrap();
    logs.drained(key(1).uid).await.unwrap();
    logs.attach(key(1), workload.sources(), &small())
        .await
        .unwrap();
    let drained = logs.drained(key(1).uid).await.unwrap();
    assert_eq!(drained.stdout_bytes, 4);
    logs.attach(key(1), workload.sources(), &small())
        .await
        .unwrap();
    workload.stdout.write_all(b"two\n").unwrap();
    logs.drained(key(1).uid).await.unwrap();
    let seen = read(&logs, &key(1), ReadOptions::default()).await;
    assert_eq!(seen.stdout, b"one\ntwo\n");
}

#[tokio::test]
async fn a_log_in_use_is_not_removed_and_a_finished_one_is() {
    let root = folder();
    let (logs, mut workload) = attached(root.path(), LogsConfig::default(), small()).await;
    workload.stdout.write_all(b"x\n").unwrap();
    assert!(logs.remove(&key(1)).await.is_err());
    logs.drained(key(1).uid).await.unwrap();
    assert_eq!(logs.known().unwrap(), vec![key(1)]);
    assert!(logs.disk_bytes(&key(1)).unwrap() > 0);
    logs.remove(&key(1)).await.unwrap();
    logs.remove(&key(1)).await.unwrap();
    assert!(logs.known().unwrap().is_empty());
}

#[tokio::test]
async fn many_writers_are_served_alike() {
    let root = folder();
    let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
    let workloads: Vec<_> = (0..100).map(|i| (key(i), Workload::new())).collect();
    for (key, workload) in &workloads {
        logs.attach(key.clone(), workload.sources(), &small())
            .await
            .unwrap();
    }
    // One prints without end; the others don't notice.
    let mut flood = workloads[0].1.stdout.try_clone().unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = std::sync::Arc::clone(&stop);
    let flooding = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            flood.write_all(&[b'f'; 4096]).unwrap();
        }
    });
    for round in 1..=5u64 {
        for (_, workload) in &workloads[1..] {
            (&workload.stdout).write_all(b"tick\n").unwrap();
        }
        for (key, _) in &workloads[1..] {
            settled(&logs, key, round * 5).await;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    flooding.join().unwrap();
}
