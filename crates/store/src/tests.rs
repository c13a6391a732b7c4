// SPDX-License-Identifier: Apache-2.0
//! The store's stories: first and second start, newer schemas, corrupt files, full disks,
//! concurrent writers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use model::name::Uid;

use super::*;

fn run(n: u8, tenant: &str, path: &str, finished_ns: i64) -> Finished {
    Finished {
        uid: Uid([n; 16]),
        tenant: tenant.to_owned(),
        path: path.to_owned(),
        kind: "executable".to_owned(),
        finished_ns,
        request_id: Some(format!("request-{n}")),
        record: vec![n; 100],
    }
}

#[tokio::test]
async fn what_was_put_is_there_after_a_second_start() {
    let dir = tempfile::tempdir().unwrap();
    let facts = NodeFacts {
        node: "n1".into(),
        trust_domain: "example.test".into(),
    };
    let first = Store::open(dir.path()).unwrap();
    assert_eq!(first.node_facts().await.unwrap(), None);
    first.put_node_facts(facts.clone()).await.unwrap();
    first.put_finished(run(1, "a", "web", 10)).await.unwrap();
    first.put_finished(run(1, "a", "web", 10)).await.unwrap();
    drop(first);

    let second = Store::open(dir.path()).unwrap();
    assert_eq!(second.node_facts().await.unwrap(), Some(facts));
    assert_eq!(
        second.finished(Uid([1; 16])).await.unwrap(),
        Some(run(1, "a", "web", 10))
    );
}

#[tokio::test]
async fn finished_runs_are_listed_in_pages_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=9 {
        let tenant = if n % 2 == 0 { "a" } else { "b" };
        let made = run(n, tenant, &format!("web/{n}"), i64::from(n));
        store.put_finished(made).await.unwrap();
    }
    let page = store.list_finished(None, 2).await.unwrap();
    assert_eq!(page.iter().map(|r| r.uid.0[0]).collect::<Vec<_>>(), [1, 2]);
    let next = store.list_finished(Some(page[1].uid), 100);
    let next: Vec<u8> = next.await.unwrap().iter().map(|r| r.uid.0[0]).collect();
    assert_eq!(next, [3, 4, 5, 6, 7, 8, 9]);

    let removed = store.remove_finished(vec![Uid([5; 16]), Uid([1; 16])]);
    assert_eq!(removed.await.unwrap(), 2);
    assert_eq!(store.list_finished(None, 100).await.unwrap().len(), 7);
    let some = store.finished_of(vec![Uid([4; 16]), Uid([99; 16])]).await;
    assert_eq!(some.unwrap().len(), 1);
}

#[tokio::test]
async fn a_grant_needs_its_user_and_a_failed_job_takes_no_neighbour_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let user = UserRow {
        tenant: "a".into(),
        name: "ann".into(),
        role: None,
        disabled: false,
        created_ns: 1,
    };
    let grant = |id: &str, user: &str| GrantRow {
        id: id.into(),
        tenant: "a".into(),
        user: user.into(),
        effect: GrantEffect::Allow,
        action: "runtime.Stop".into(),
        target_tenant: "a".into(),
        path: None,
        created_ns: 1,
    };
    assert!(store.add_user(user.clone()).await.unwrap());
    assert!(!store.add_user(user).await.unwrap());
    let (bad, good) = tokio::join!(
        store.add_grant(grant("g1", "nobody")),
        store.add_grant(grant("g2", "ann"))
    );
    assert!(matches!(bad, Err(StoreError::Statement { .. })), "{bad:?}");
    good.unwrap();
    assert_eq!(store.grants().await.unwrap(), [grant("g2", "ann")]);
    assert!(store.health().is_well());
    assert!(store.remove_grant("g2".into()).await.unwrap());
    assert!(!store.remove_grant("g2".into()).await.unwrap());
}

#[tokio::test]
async fn many_writers_at_once_are_all_answered() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let writes = (0..200u8).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.put_finished(run(n, "a", "web", 1)).await })
    });
    for write in writes.collect::<Vec<_>>() {
        write.await.unwrap().unwrap();
    }
    let all = store.list_finished(None, 1000).await.unwrap();
    assert_eq!(all.len(), 200);
}

/// The transactions that changed something, and the pages that they wrote.
fn written(file: &Path) -> (usize, usize) {
    let wal = std::fs::read(file.with_extension("db-wal")).unwrap();
    let frames = wal[32..].chunks(24 + usize::from(schema::PAGE));
    // A frame of the log says how large the database is where it ends a transaction.
    let ends = frames.clone().filter(|frame| frame[4..8] != [0; 4]);
    (ends.count(), frames.len())
}

#[tokio::test]
async fn a_run_in_the_place_of_another_writes_one_page_in_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let file = dir.path().join(FILE);
    // As large as what is kept of a run without arguments, and with few.
    let sized = |n: u8| Finished {
        record: vec![n; 1600],
        ..run(n, "a", "web", n.into())
    };
    store.put_finished(sized(1)).await.unwrap();
    let (transactions, pages) = written(&file);
    for n in 2..=20 {
        let replaced = {
            let store = store.clone();
            let old = vec![Uid([n - 1; 16])];
            tokio::spawn(async move { store.remove_finished_later(old).await })
        };
        tokio::task::yield_now().await;
        store.put_finished(sized(n)).await.unwrap();
        assert_eq!(replaced.await.unwrap().unwrap(), 1);
    }
    assert_eq!(written(&file), (transactions + 19, pages + 19));
    let left = store.list_finished(None, 9).await.unwrap();
    assert_eq!(left, [sized(20)]);
}

#[tokio::test]
async fn a_removal_that_can_wait_goes_with_the_next_write_or_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=3 {
        store.put_finished(run(n, "a", "web", 1)).await.unwrap();
    }
    let file = dir.path().join(FILE);
    let (before, _) = written(&file);
    let later = |n: u8| {
        let store = store.clone();
        tokio::spawn(async move { store.remove_finished_later(vec![Uid([n; 16])]).await })
    };
    let waiting = [later(1), later(2)];
    // They are queued before this test goes on: it has one thread.
    tokio::task::yield_now().await;
    store.put_finished(run(4, "a", "web", 2)).await.unwrap();
    for removed in waiting {
        assert_eq!(removed.await.unwrap().unwrap(), 1);
    }
    assert_eq!(written(&file).0, before + 1, "each wrote a transaction");
    // With nothing that follows it doesn't wait for ever.
    assert_eq!(later(3).await.unwrap().unwrap(), 1);
    // What can wait is done before the store is closed.
    let last = later(4);
    tokio::task::yield_now().await;
    last.abort();
    let _aborted = last.await;
    drop(store);
    let second = Store::open(dir.path()).unwrap();
    assert!(second.list_finished(None, 9).await.unwrap().is_empty());
}

#[test]
fn a_newer_schema_is_refused_by_name_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(Store::open(dir.path()).unwrap());
    let file = dir.path().join(FILE);
    let db = Connection::open(&file).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    let error = Store::open(dir.path()).unwrap_err();
    let NewerSchema { found, known, .. } = newer(&error);
    assert_eq!((found, known), (99, schema::newest()));
    assert!(
        error.to_string().contains("aurae.db has schema 99"),
        "{error}"
    );
}

struct NewerSchema {
    found: i64,
    known: i64,
}

fn newer(error: &StoreError) -> NewerSchema {
    match error {
        StoreError::NewerSchema { found, known, .. } => NewerSchema {
            found: *found,
            known: *known,
        },
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn corrupt_files_are_named_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    std::fs::write(&file, vec![7u8; 8192]).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");

    std::fs::remove_file(&file).unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 0..100 {
        store.put_finished(run(n, "a", "web", 1)).await.unwrap();
    }
    drop(store);
    settle(&file);
    let mut bytes = std::fs::read(&file).unwrap();
    for byte in bytes.iter_mut().skip(4096).step_by(3) {
        *byte ^= 0xff;
    }
    std::fs::write(&file, bytes).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains(file.to_str().unwrap()));
}

/// Waits until the threads of a dropped store have closed their files, and moves the WAL into the
/// file.
fn settle(file: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while file.with_extension("db-wal").exists() {
        assert!(Instant::now() < deadline, "the store's threads don't end");
        let db = Connection::open(file).unwrap();
        let _busy = db.pragma_update(None, "wal_checkpoint", "TRUNCATE");
        drop(db);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_second_instance_is_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let held = StateLock::acquire(dir.path()).unwrap();
    let error = StateLock::acquire(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains(&format!("pid {}, started at 2", std::process::id())),
        "{error}"
    );
    assert!(error.contains(dir.path().to_str().unwrap()), "{error}");
    drop(held);
    StateLock::acquire(dir.path()).unwrap();
}

#[test]
fn the_database_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let _store = Store::open(dir.path()).unwrap();
    for name in ["aurae.db", "aurae.db-wal", "aurae.db-shm"] {
        let mode = std::fs::metadata(dir.path().join(name))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
}

/// A small tmpfs, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(dir.path())
            .status();
        if !mounted.is_ok_and(|s| s.success()) {
            testkit::skip("mounting a tmpfs needs root");
            return None;
        }
        Some(Self(dir))
    }

    fn fill(&self) {
        let block = vec![1u8; 4096];
        let mut file = std::fs::File::create(self.0.path().join("filler")).unwrap();
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_degrades_reads_go_on_and_it_recovers() {
    let Some(disk) = SmallDisk::new() else { return };
    let store = Store::open(disk.0.path()).unwrap();
    store.put_finished(run(1, "a", "web", 1)).await.unwrap();
    disk.fill();
    let mut refused = None;
    for n in 2..200 {
        if let Err(e) = store.put_finished(run(n, "a", "web", 1)).await {
            refused = Some(e);
            break;
        }
    }
    let refused = refused.expect("a full disk must show");
    assert!(
        matches!(refused, StoreError::Degraded { .. }),
        "{refused:?}"
    );
    assert!(
        store
            .health()
            .degraded()
            .unwrap()
            .contains("the disk is full")
    );
    assert!(store.finished(Uid([1; 16])).await.unwrap().is_some());

    disk.free();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !store.health().is_well() {
        assert!(Instant::now() < deadline, "it must find out by itself");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.put_finished(run(201, "a", "web", 1)).await.unwrap();
}

/// What a daemon that was killed leaves: no log was moved into its file.
fn killed(state: &Path, at: &Path) {
    for name in ["aurae.db", "aurae.db-wal"] {
        std::fs::copy(state.join(name), at.join(name)).unwrap();
    }
}

#[tokio::test]
async fn a_killed_daemon_begins_again_on_a_full_disk_reads_and_recovers() {
    let Some(disk) = SmallDisk::new() else { return };
    let before = tempfile::tempdir().unwrap();
    let store = Store::open(before.path()).unwrap();
    store.put_finished(run(1, "a", "web", 1)).await.unwrap();
    killed(before.path(), disk.0.path());
    disk.fill();

    let store = Store::open(disk.0.path()).unwrap();
    let words = store.health().degraded().unwrap();
    assert!(words.contains("the disk is full"), "{words}");
    assert!(store.finished(Uid([1; 16])).await.unwrap().is_some());
    let refused = store.put_finished(run(2, "a", "web", 1)).await;
    assert!(
        matches!(refused, Err(StoreError::Degraded { .. })),
        "{refused:?}"
    );

    disk.free();
    store.put_finished(run(3, "a", "web", 1)).await.unwrap();
    assert!(store.health().is_well());
}

#[test]
fn a_disk_too_full_for_a_new_database_is_a_clear_error() {
    let Some(disk) = SmallDisk::new() else { return };
    disk.fill();
    let error = Store::open(disk.0.path()).unwrap_err().to_string();
    assert!(
        error.contains("aurae.db") && error.contains("full"),
        "{error}"
    );
}
