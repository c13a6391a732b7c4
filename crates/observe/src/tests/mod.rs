// SPDX-License-Identifier: Apache-2.0
//! Stories of logs: real pipes, real files, real threads; the disk full or failing, the mover
//! killed, the power cut.

mod disk;
mod faults;
mod kill;
mod past;
mod power;
mod quota;
mod reading;
mod retention;
mod storing;
mod terminal;
mod usage;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use model::executable::LogPolicy;
use model::name::Uid;
use model::observe::{LogGap, LogMessage, Stream};
use tempfile::TempDir;

use super::*;

/// Longer than anything takes that comes, on a slow machine with other work, too.
const PATIENCE: Duration = Duration::from_secs(60);

fn key(number: u8) -> LogKey {
    LogKey {
        tenant: "acme".parse().unwrap(),
        uid: Uid([number; 16]),
    }
}

/// A policy with which a segment is 32 KiB.
fn small() -> LogPolicy {
    LogPolicy {
        max_bytes: Some(256 << 10),
        max_age: None,
    }
}

/// A workload: what it writes to, and the read ends that init would keep.
struct Workload {
    stdout: File,
    stderr: File,
    kept: [(Stream, OwnedFd); 2],
}

impl Workload {
    fn new() -> Self {
        let (out_read, out_write) = rustix::pipe::pipe().unwrap();
        let (err_read, err_write) = rustix::pipe::pipe().unwrap();
        Self {
            stdout: out_write.into(),
            stderr: err_write.into(),
            kept: [(Stream::Stdout, out_read), (Stream::Stderr, err_read)],
        }
    }

    /// What a daemon is handed.
    fn sources(&self) -> Vec<(Stream, OwnedFd)> {
        let pair = |(stream, fd): &(Stream, OwnedFd)| (*stream, fd.try_clone().unwrap());
        self.kept.iter().map(pair).collect()
    }
}

/// A log as its reader saw it.
#[derive(Debug, Default)]
struct Seen {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    order: Vec<(Stream, Vec<u8>)>,
    gaps: Vec<LogGap>,
    ended: bool,
    after: u64,
}

impl Seen {
    fn take(&mut self, (message, after): ReadItem) {
        match message {
            LogMessage::Data(data) => {
                let of = match data.stream {
                    Stream::Stdout => &mut self.stdout,
                    Stream::Stderr => &mut self.stderr,
                };
                of.extend(&data.data);
                assert_eq!(after, data.offset + data.data.len() as u64);
                self.order.push((data.stream, data.data));
            }
            LogMessage::Gap(gap) => self.gaps.push(gap),
            LogMessage::End => self.ended = true,
        }
        self.after = after;
    }

    fn gap_bytes(&self) -> u64 {
        self.gaps.iter().map(|g| g.bytes).sum()
    }
}

async fn read(logs: &Logs, key: &LogKey, options: ReadOptions) -> Seen {
    let mut reader = logs.read(key, options).unwrap();
    let mut seen = Seen::default();
    while let Some(item) = reader.next().await.unwrap() {
        seen.take(item);
    }
    seen
}

async fn attached(root: &Path, config: LogsConfig, policy: LogPolicy) -> (Logs, Workload) {
    let logs = Logs::start(root, config).unwrap();
    let workload = Workload::new();
    logs.attach(key(1), workload.sources(), &policy)
        .await
        .unwrap();
    (logs, workload)
}

/// Until everything that was printed is stored.
async fn settled(logs: &Logs, key: &LogKey, bytes: u64) {
    let deadline = Instant::now() + PATIENCE;
    while logs.end_offset(key).await.unwrap() < bytes {
        assert!(Instant::now() < deadline, "{bytes} bytes were not stored");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}
