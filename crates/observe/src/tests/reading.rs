// SPDX-License-Identifier: Apache-2.0
//! Readers: the last lines, a span of time, a place, and on as it grows.

use std::io::Write;

use futures_util::StreamExt;
use model::observe::GapReason;
use proptest::prelude::*;

use super::*;

fn follow() -> ReadOptions {
    ReadOptions {
        follow: true,
        ..ReadOptions::default()
    }
}

fn last(lines: u64) -> ReadOptions {
    ReadOptions {
        tail: Some(lines),
        ..ReadOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_every_byte_over_many_segments() {
    let root = folder();
    let policy = LogPolicy {
        max_bytes: Some(1 << 30),
        max_age: None,
    };
    let (logs, workload) = attached(root.path(), LogsConfig::default(), policy).await;
    let reader = {
        let logs = logs.clone();
        tokio::spawn(async move { read(&logs, &key(1), follow()).await })
    };
    let writer = std::thread::spawn(move || {
        let mut expected = Vec::<u8>::new();
        for i in 0..20_000 {
            let line = format!("{i} abcdefghijklmnopqrstuvwxyz\n");
            (&workload.stdout).write_all(line.as_bytes()).unwrap();
            expected.extend(line.as_bytes());
            if i % 7 == 0 {
                (&workload.stderr).write_all(b"e\n").unwrap();
            }
        }
        expected
    });
    let expected = writer.join().unwrap();
    logs.drained(key(1).uid).await.unwrap();
    let seen = reader.await.unwrap();
    assert!(seen.ended && seen.gaps.is_empty());
    assert!(seen.stdout == expected);
    assert_eq!(seen.stderr.len(), 2 * 20_000usize.div_ceil(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_goes_on_while_segments_rotate() {
    let root = folder();
    // A segment is 32 KiB; nothing is dropped, because retention isn't looked at between.
    let config = LogsConfig {
        keep_every: Duration::from_secs(3600),
        ..LogsConfig::default()
    };
    let policy = LogPolicy {
        max_bytes: Some(256 << 10),
        max_age: None,
    };
    let (logs, workload) = attached(root.path(), config, policy).await;
    let mut reader = logs.read(&key(1), follow()).unwrap();
    let mut seen = Seen::default();
    let mut printed = 0;
    for i in 0..3_000 {
        let line = format!("{i:07} some forty bytes of text to fill it up\n");
        (&workload.stdout).write_all(line.as_bytes()).unwrap();
        printed += line.len();
        while seen.stdout.len() < printed {
            seen.take(reader.next().await.unwrap().unwrap());
        }
    }
    assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
    assert_eq!(seen.stdout.len(), printed);
    assert!(
        seen.stdout
            .ends_with(b"0002999 some forty bytes of text to fill it up\n")
    );
}

#[tokio::test]
async fn a_reader_that_stops_reading_harms_no_other() {
    let root = folder();
    let config = LogsConfig {
        keep_every: Duration::from_millis(200),
        ..LogsConfig::default()
    };
    let (logs, workload) = attached(root.path(), config, small()).await;
    (&workload.stdout).write_all(b"first\n").unwrap();
    let mut slow = logs.read(&key(1), follow()).unwrap();
    slow.next().await.unwrap();
    // Four megabytes through a log of 256 KiB: the writer never waits for the reader.
    let line = [b'x'; 1024];
    for _ in 0..4096 {
        (&workload.stdout).write_all(&line).unwrap();
    }
    settled(&logs, &key(1), 6 + (4 << 20)).await;
    for _ in 0..200 {
        if logs.disk_bytes(&key(1)).unwrap() <= 320 << 10 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(logs.disk_bytes(&key(1)).unwrap() <= 320 << 10);
    logs.drained(key(1).uid).await.unwrap();
    let mut seen = Seen::default();
    while let Some(item) = slow.next().await.unwrap() {
        seen.take(item);
    }
    assert!(seen.ended);
    assert!(
        seen.gaps.iter().all(|g| g.reason == GapReason::Retention),
        "{:?}",
        seen.gaps
    );
    assert!(seen.gap_bytes() > 0);
    assert_eq!(seen.gap_bytes() + seen.stdout.len() as u64, 4 << 20);
}

#[tokio::test]
async fn a_cursor_goes_on_after_its_message() {
    let root = folder();
    let (logs, workload) = attached(root.path(), LogsConfig::default(), small()).await;
    let mut bytes = 0;
    for i in 0..50 {
        let line = format!("line {i}\n");
        (&workload.stdout).write_all(line.as_bytes()).unwrap();
        bytes += line.len() as u64;
        settled(&logs, &key(1), bytes).await;
    }
    logs.drained(key(1).uid).await.unwrap();
    let items: Vec<_> = logs
        .read(&key(1), ReadOptions::default())
        .unwrap()
        .into_stream()
        .map(Result::unwrap)
        .collect()
        .await;
    assert_eq!(items.len(), 51);
    for (i, (_, after)) in items.iter().enumerate().step_by(7) {
        let options = ReadOptions {
            from: Some(*after),
            ..ReadOptions::default()
        };
        let seen = read(&logs, &key(1), options).await;
        assert_eq!(seen.order.len(), 50 - (i + 1).min(50));
    }
}

#[tokio::test]
async fn time_and_stream_choose() {
    let root = folder();
    let (logs, workload) = attached(root.path(), LogsConfig::default(), small()).await;
    (&workload.stdout).write_all(b"early\n").unwrap();
    settled(&logs, &key(1), 6).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let middle = runtime::now();
    tokio::time::sleep(Duration::from_millis(5)).await;
    (&workload.stderr).write_all(b"wrong\n").unwrap();
    (&workload.stdout).write_all(b"late\n").unwrap();
    settled(&logs, &key(1), 17).await;
    let since = ReadOptions {
        since: Some(middle),
        ..ReadOptions::default()
    };
    let seen = read(&logs, &key(1), since.clone()).await;
    assert_eq!(
        (seen.stdout.as_slice(), seen.stderr.as_slice()),
        (&b"late\n"[..], &b"wrong\n"[..])
    );
    let until = ReadOptions {
        until: Some(middle),
        follow: true,
        ..ReadOptions::default()
    };
    let seen = read(&logs, &key(1), until).await;
    assert_eq!(seen.stdout, b"early\n");
    assert!(seen.ended && seen.stderr.is_empty());
    let stderr = ReadOptions {
        streams: [Stream::Stderr].into(),
        ..since
    };
    let seen = read(&logs, &key(1), stderr).await;
    assert!(seen.stdout.is_empty());
    assert_eq!(seen.stderr, b"wrong\n");
}

#[tokio::test]
async fn the_last_lines_are_whole_lines() {
    let root = folder();
    let (logs, workload) = attached(root.path(), LogsConfig::default(), small()).await;
    let mut bytes = 0;
    // Lines come in pieces, the streams in turn.
    for (text, err) in [
        ("one\ntw", false),
        ("bad", true),
        ("o\nthr", false),
        (" thing\n", true),
        ("ee\nfour", false),
    ] {
        let mut to = if err {
            &workload.stderr
        } else {
            &workload.stdout
        };
        to.write_all(text.as_bytes()).unwrap();
        bytes += text.len() as u64;
        settled(&logs, &key(1), bytes).await;
    }
    let cases: [(u64, &str, &str); 6] = [
        (0, "", ""),
        (1, "four", ""),
        (2, "three\nfour", ""),
        (3, "three\nfour", "bad thing\n"),
        (4, "two\nthree\nfour", "bad thing\n"),
        (99, "one\ntwo\nthree\nfour", "bad thing\n"),
    ];
    for (lines, out, err) in cases {
        let seen = read(&logs, &key(1), last(lines)).await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            (text(&seen.stdout), text(&seen.stderr)),
            (out.into(), err.into()),
            "{lines}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// However the bytes are cut, the last lines of one stream are those of the whole text.
    #[test]
    fn the_tail_of_anything(
        pieces in prop::collection::vec("[ab\n]{1,30}", 1..30), lines in 0u64..40,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let root = folder();
            let (logs, workload) = attached(root.path(), LogsConfig::default(), small()).await;
            let mut whole = String::new();
            for piece in &pieces {
                (&workload.stdout).write_all(piece.as_bytes()).unwrap();
                whole.push_str(piece);
                settled(&logs, &key(1), whole.len() as u64).await;
            }
            logs.drained(key(1).uid).await.unwrap();
            let seen = read(&logs, &key(1), last(lines)).await;
            let all: Vec<&str> = whole.split_inclusive('\n').collect();
            let expected = all[all.len().saturating_sub(lines as usize)..].concat();
            assert_eq!(String::from_utf8(seen.stdout).unwrap(), expected);
        });
    }
}

#[test]
fn readers_that_hang_leave_threads_to_others() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .unwrap();
    let root = folder();
    let hanging = folder::Folder::new(root.path(), &key(1));
    std::fs::create_dir_all(hanging.path()).unwrap();
    // Opening it waits for a writer, which never comes.
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, hanging.index(0), fifo, mode, 0).unwrap();
    runtime.block_on(async {
        let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
        for _ in 0..64 {
            let mut reader = logs.read(&key(1), follow()).unwrap();
            tokio::spawn(async move { reader.next().await });
        }
        for _ in 0..20 {
            let other = key(2);
            let look = logs.end_offset(&other);
            let end = tokio::time::timeout(Duration::from_secs(10), look).await;
            assert_eq!(end.expect("a thread is free").unwrap(), 0);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    runtime.shutdown_background();
}

#[derive(Debug)]
struct Many(u64);

impl read::Crowd for Many {
    fn count(&self) -> u64 {
        self.0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_among_many_looks_seldom() {
    let root = folder();
    let (logs, workload) = attached(root.path(), LogsConfig::default(), LogPolicy::default()).await;
    let reader = logs.read(&key(1), follow()).unwrap();
    let mut reader = reader.at_the_pace_of(std::sync::Arc::new(Many(300)));
    (&workload.stdout).write_all(b"one\n").unwrap();
    settled(&logs, &key(1), 4).await;
    // What is there already is read without a pause; what comes is not.
    reader.next().await.unwrap().unwrap();
    let began = std::time::Instant::now();
    let next = tokio::spawn(async move { reader.next().await.unwrap() });
    while !next.is_finished() {
        (&workload.stdout).write_all(b"more\n").unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(
        began.elapsed() >= Duration::from_millis(280),
        "{:?}",
        began.elapsed()
    );
}
