// SPDX-License-Identifier: Apache-2.0
//! What units have printed outlives their runs' records: once, in order, and never silently less.

use std::io::Write;
use std::sync::Arc;

use futures_util::TryStreamExt;
use model::name::Tenant;
use model::observe::JournalQuery;

use super::disk::Tmpfs;
use super::*;
use crate::journal::{PastLog, PastRun, Printer, keep, read};

const UNIT: &str = "shop.service";

struct Named(&'static str);

impl Printer for Named {
    fn fields(&self, line: &[u8]) -> Vec<(String, Vec<u8>)> {
        let field = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
        vec![
            field("MESSAGE", line),
            field("_SYSTEMD_UNIT", self.0.as_bytes()),
        ]
    }
}

fn system(number: u8) -> LogKey {
    LogKey {
        tenant: Tenant::system(),
        ..key(number)
    }
}

fn run_of(unit: &'static str, number: u8) -> PastRun {
    PastRun {
        uid: key(number).uid,
        printer: Arc::new(Named(unit)),
    }
}

/// A run that has printed this and has ended.
async fn printed(logs: &Logs, number: u8, text: &str) {
    let mut workload = Workload::new();
    let key = system(number);
    let policy = LogPolicy::default();
    logs.attach(key.clone(), workload.sources(), &policy)
        .await
        .unwrap();
    let text = text.to_owned();
    let write = move || workload.stdout.write_all(text.as_bytes()).unwrap();
    tokio::task::spawn_blocking(write).await.unwrap();
    logs.drained(key.uid).await.unwrap();
}

async fn messages(logs: &Logs, query: JournalQuery) -> Vec<String> {
    let query = JournalQuery {
        past: true,
        ..query
    };
    let entries: Vec<_> = read(logs, query)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    let messages = entries.iter().filter_map(|(it, _)| it.get("MESSAGE"));
    messages.map(text).collect()
}

fn of_unit(unit: &str) -> JournalQuery {
    JournalQuery {
        matches: vec![("_SYSTEMD_UNIT".to_owned(), unit.as_bytes().to_vec())],
        ..JournalQuery::default()
    }
}

#[tokio::test]
async fn a_past_is_of_one_unit_and_goes_on_over_runs_and_daemons() {
    let root = folder();
    let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
    printed(&logs, 1, "first\nsecond").await;
    printed(&logs, 2, "third\n").await;
    printed(&logs, 3, "other\n").await;
    let log = PastLog::of(UNIT);
    let first = vec![vec![run_of(UNIT, 1)]];
    keep(&logs, log, UNIT, first).await.unwrap();
    let of_b = vec![vec![run_of("b.service", 3)]];
    keep(&logs, PastLog::of("b.service"), "b.service", of_b)
        .await
        .unwrap();
    for number in [1, 3] {
        logs.remove(&system(number)).await.unwrap();
    }
    logs.stop().await.unwrap();
    drop(logs);
    // Another daemon.
    let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
    keep(&logs, log, UNIT, vec![vec![run_of(UNIT, 2)]])
        .await
        .unwrap();
    logs.remove(&system(2)).await.unwrap();
    let all = ["first", "second", "third"];
    assert_eq!(messages(&logs, of_unit(UNIT)).await, all);
    let last = JournalQuery {
        tail: Some(2),
        ..of_unit(UNIT)
    };
    assert_eq!(messages(&logs, last).await, ["second", "third"]);
    assert_eq!(messages(&logs, of_unit("b.service")).await, ["other"]);
    assert_eq!(messages(&logs, JournalQuery::default()).await.len(), 4);
    assert!(messages(&logs, of_unit("c.service")).await.is_empty());
    // The log goes on in one segment: pasts of few lines take no file each.
    let files = std::fs::read_dir(root.path().join("system").join(log_uid(log))).unwrap();
    assert_eq!(files.count(), 2);
}

fn log_uid(log: PastLog) -> String {
    format!("{log:?}")
        .trim_start_matches("PastLog(Uid(")
        .trim_end_matches("))")
        .to_owned()
}

#[tokio::test]
async fn what_was_stored_before_the_daemon_was_killed_is_not_stored_again() {
    let root = folder();
    let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
    printed(&logs, 1, "a\nb\n").await;
    printed(&logs, 2, "c\nd\n").await;
    let (log, both) = (PastLog::of(UNIT), || {
        vec![vec![run_of(UNIT, 1)], vec![run_of(UNIT, 2)]]
    });
    // It was killed after the first, or after both, before the records went.
    keep(&logs, log, UNIT, vec![vec![run_of(UNIT, 1)]])
        .await
        .unwrap();
    for _ in 0..2 {
        keep(&logs, log, UNIT, both()).await.unwrap();
        assert_eq!(messages(&logs, of_unit(UNIT)).await, ["a", "b", "c", "d"]);
    }
    // After it had removed some: the one that the last line is of goes last.
    let last = keep(&logs, log, UNIT, both()).await.unwrap();
    assert_eq!(last, Some(key(2).uid));
    let left = vec![vec![run_of(UNIT, 2)]];
    keep(&logs, log, UNIT, left).await.unwrap();
    assert_eq!(messages(&logs, of_unit(UNIT)).await, ["a", "b", "c", "d"]);
    // And within an entry: what is torn is no entry, and hides none.
    let at = root.path().join("system").join(log_uid(log));
    let data = std::fs::read_dir(&at).unwrap().map(|it| it.unwrap().path());
    let data = data.filter(|it| it.extension().is_some_and(|it| it == "data"));
    let data = data.last().unwrap();
    let whole = std::fs::metadata(&data).unwrap().len();
    let file = File::options().write(true).open(&data).unwrap();
    file.set_len(whole - 5).unwrap();
    keep(&logs, log, UNIT, both()).await.unwrap();
    assert_eq!(messages(&logs, of_unit(UNIT)).await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_the_past_comes_when_there_is_room() {
    let Some(disk) = Tmpfs::new("4m") else {
        return;
    };
    let config = LogsConfig {
        keep_free_percent: 0,
        ..LogsConfig::default()
    };
    let logs = Logs::start(disk.path(), config).unwrap();
    let text = "x".repeat(99) + "\n";
    printed(&logs, 1, &text.repeat(10_000)).await;
    let filler = disk.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let runs = || vec![vec![run_of(UNIT, 1)]];
    keep(&logs, PastLog::of(UNIT), UNIT, runs())
        .await
        .unwrap_err();
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while keep(&logs, PastLog::of(UNIT), UNIT, runs()).await.is_err() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(messages(&logs, of_unit(UNIT)).await.len(), 10_000);
}

#[tokio::test]
async fn of_a_run_that_printed_without_end_the_last_is_kept_and_the_rest_counted() {
    let root = folder();
    let logs = Logs::start(root.path(), LogsConfig::default()).unwrap();
    let text = "y".repeat(1023) + "\n";
    printed(&logs, 1, &text.repeat(17 << 10)).await;
    keep(&logs, PastLog::of_gone(), UNIT, vec![vec![run_of(UNIT, 1)]])
        .await
        .unwrap();
    let messages = messages(&logs, of_unit(UNIT)).await;
    assert_eq!(messages.len(), (16 << 10) + 1);
    let told = format!("<4>{} bytes of output are not there", 1 << 20);
    assert_eq!(messages.first(), Some(&told));
}
