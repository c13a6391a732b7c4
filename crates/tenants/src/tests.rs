// SPDX-License-Identifier: Apache-2.0
//! Tenants' stories: set, shown, kept over a lost database; a pool whose one tenant wants all.

use std::collections::BTreeMap;
use std::path::Path;

use identity::Permit;
use model::error::{Error, Reason};
use model::name::Tenant;
use model::quota::{Amount, Capacity, Quota};
use store::Store;

use super::{Pool, Tenants};

fn tenant(name: &str) -> Tenant {
    name.parse().unwrap()
}

fn capacity() -> Capacity {
    let whole = [
        (Quota::MemoryMax, 1 << 30),
        (Quota::Streams, 100),
        (Quota::Cells, 100),
    ];
    Capacity {
        whole: BTreeMap::from(whole),
        reserve: 100,
    }
}

async fn tenants(state: &Path) -> Tenants {
    let store = Store::open(state).unwrap();
    Tenants::start(store, state, capacity()).await.unwrap()
}

fn permit() -> Permit {
    Permit::for_tests("tenant.Set", tenant("system")).unwrap()
}

/// A tenant of which nothing is kept elsewhere.
async fn nothing() -> Result<(), Error> {
    Ok(())
}

fn cells(text: &str) -> BTreeMap<Quota, Option<Amount>> {
    BTreeMap::from([(Quota::Cells, Some(Quota::Cells.parse(text).unwrap()))])
}

/// What a daemon knows whose database is lost.
async fn without_the_database(state: &Path) -> Tenants {
    for file in ["aurae.db", "aurae.db-wal", "aurae.db-shm"] {
        let _ = std::fs::remove_file(state.join(file));
    }
    tenants(state).await
}

#[tokio::test]
async fn what_was_set_holds_and_is_there_without_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let ann = tenant("ann");
    let first = tenants(dir.path()).await;
    assert_eq!(
        first.get(permit(), &ann).unwrap_err().reason,
        Reason::NotFound
    );
    let amount = Quota::Cells.parse("10%").unwrap();
    let set = BTreeMap::from([(Quota::Cells, Some(amount))]);
    first.set(permit(), &ann, &set).await.unwrap();
    assert_eq!(first.limits().limit(&ann, Quota::Cells), 10);
    drop(first);
    let second = without_the_database(dir.path()).await;
    assert_eq!(second.limits().limit(&ann, Quota::Cells), 10);
    let back = BTreeMap::from([(Quota::Cells, None)]);
    let status = second.set(permit(), &ann, &back).await.unwrap();
    let cells = status.usage.iter().find(|q| q.quota == Quota::Cells);
    assert_eq!(cells.map(|c| (c.limit, c.set)), Some((50, false)));
    second
        .remove(permit(), &ann, |_| false, nothing())
        .await
        .unwrap();
    assert!(second.get(permit(), &ann).is_err());
    assert!(tenants(dir.path()).await.list(permit()).is_empty());
}

#[tokio::test]
async fn a_tenant_with_a_schedule_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (all, ann) = (tenants(dir.path()).await, tenant("ann"));
    let cells = Quota::Cells.parse("10%").unwrap();
    let set = BTreeMap::from([(Quota::Cells, Some(cells))]);
    all.set(permit(), &ann, &set).await.unwrap();
    let pool = Pool::new(&all, Quota::Schedules);
    let taken = pool.take(&ann, 1).unwrap();
    let error = all
        .remove(permit(), &ann, |_| false, nothing())
        .await
        .unwrap_err();
    assert_eq!(error.reason, Reason::NotEmpty);
    assert!(error.message.contains("schedules"), "{}", error.message);
    drop(taken);
    all.remove(permit(), &ann, |_| false, nothing())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_mirror_that_is_behind_or_ahead_of_the_database_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    let (ann, bob) = (tenant("ann"), tenant("bob"));
    let mirror = dir.path().join("tenants.json");
    let all = tenants(dir.path()).await;
    all.set(permit(), &ann, &cells("10")).await.unwrap();
    let earlier = std::fs::read(&mirror).unwrap();
    all.set(permit(), &ann, &cells("20")).await.unwrap();
    let now = std::fs::read(&mirror).unwrap();
    all.set(permit(), &bob, &cells("30")).await.unwrap();
    all.remove(permit(), &bob, |_| false, nothing())
        .await
        .unwrap();
    assert_eq!(std::fs::read(&mirror).unwrap(), now);
    drop(all);
    // The daemon that wrote it stopped between the two; or its disk lost the end of the file.
    for stale in [&earlier[..], &earlier[..earlier.len() / 2], b""] {
        std::fs::write(&mirror, stale).unwrap();
        drop(tenants(dir.path()).await);
        assert_eq!(std::fs::read(&mirror).unwrap(), now);
    }
    let after = without_the_database(dir.path()).await;
    assert_eq!(after.limits().limit(&ann, Quota::Cells), 20);
}

#[tokio::test]
async fn what_a_disk_refuses_of_quotas_has_changed_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (ann, bob) = (tenant("ann"), tenant("bob"));
    let all = tenants(dir.path()).await;
    all.set(permit(), &ann, &cells("10")).await.unwrap();
    // Where the new file would be written.
    let new = dir.path().join("tenants.json.new");
    std::fs::create_dir(&new).unwrap();
    let holds = |all: &Tenants| {
        assert_eq!(all.limits().limit(&ann, Quota::Cells), 10);
        assert!(all.get(permit(), &bob).is_err());
    };
    all.set(permit(), &ann, &cells("20")).await.unwrap_err();
    all.ensure(&bob).await.unwrap_err();
    let removed = all.remove(permit(), &ann, |_| false, nothing());
    removed.await.unwrap_err();
    holds(&all);
    drop(all);
    let next = tenants(dir.path()).await;
    holds(&next);
    drop(next);
    std::fs::remove_dir(&new).unwrap();
    holds(&without_the_database(dir.path()).await);
}

#[tokio::test]
async fn a_tenant_stays_until_what_is_kept_of_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (all, ann) = (tenants(dir.path()).await, tenant("ann"));
    all.set(permit(), &ann, &cells("10")).await.unwrap();
    // Who has users still, loses nothing.
    let clear = async { panic!("nothing is removed") };
    let refused = all.remove(permit(), &ann, |_| true, clear).await;
    assert_eq!(refused.unwrap_err().reason, Reason::NotEmpty);
    let clear = async { Err(Error::new(Reason::Degraded, "the disk")) };
    let refused = all.remove(permit(), &ann, |_| false, clear).await;
    assert_eq!(refused.unwrap_err().reason, Reason::Degraded);
    all.get(permit(), &ann).unwrap();
    // No user comes while it is removed.
    let meanwhile = all.clone();
    let clear = async {
        let ensured = meanwhile.ensure(&ann);
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), ensured);
        assert!(waits.await.is_err());
        Ok(())
    };
    all.remove(permit(), &ann, |_| false, clear).await.unwrap();
    assert!(all.get(permit(), &ann).is_err());
}

#[tokio::test]
async fn quotas_that_contradict_each_other_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (all, ann) = (tenants(dir.path()).await, tenant("ann"));
    let set = |min: &str, max: &str| {
        BTreeMap::from([
            (Quota::MemoryMin, Some(Quota::MemoryMin.parse(min).unwrap())),
            (Quota::MemoryMax, Some(Quota::MemoryMax.parse(max).unwrap())),
        ])
    };
    let error = all
        .set(permit(), &ann, &set("64M", "32M"))
        .await
        .unwrap_err();
    assert_eq!(error.field.as_deref(), Some("memory_min"));
    assert!(all.get(permit(), &ann).is_err());
    all.set(permit(), &ann, &set("32M", "64M")).await.unwrap();
}

#[tokio::test]
async fn one_tenant_that_takes_all_leaves_the_others_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let all = tenants(dir.path()).await;
    let pool = Pool::new(&all, Quota::Streams);
    let fill = |name: &str| -> Vec<_> {
        std::iter::from_fn(|| pool.take(&tenant(name), 1).ok()).collect()
    };
    let mut eve = fill("eve");
    assert_eq!(eve.len(), 25);
    let refused = pool.take(&tenant("eve"), 1).unwrap_err();
    assert_eq!(refused.reason, Reason::LimitExceeded);
    assert!(
        refused.message.contains("uses 25 of its 25"),
        "{}",
        refused.message
    );
    let (ann, bob) = (fill("ann"), fill("bob"));
    assert_eq!((ann.len(), bob.len()), (25, 25));
    // 90 of 100 are for ordinary tenants, the rest is the administrators'.
    assert_eq!(fill("dan").len(), 15);
    let mut system = pool.take(&tenant("system"), 10).unwrap();
    system.grow(0).unwrap();
    eve.truncate(5);
    assert_eq!(fill("eve").len(), 20);
}
