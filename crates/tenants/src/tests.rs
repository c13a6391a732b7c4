// SPDX-License-Identifier: Apache-2.0
//! Tenants' stories: set, shown, kept over a lost database; a pool whose one tenant wants all.

use std::collections::BTreeMap;
use std::path::Path;

use identity::Permit;
use model::error::Reason;
use model::name::Tenant;
use model::quota::{Capacity, Quota};
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
    for file in ["aurae.db", "aurae.db-wal", "aurae.db-shm"] {
        let _ = std::fs::remove_file(dir.path().join(file));
    }
    let second = tenants(dir.path()).await;
    assert_eq!(second.limits().limit(&ann, Quota::Cells), 10);
    let back = BTreeMap::from([(Quota::Cells, None)]);
    let status = second.set(permit(), &ann, &back).await.unwrap();
    let cells = status.quotas.iter().find(|q| q.quota == Quota::Cells);
    assert_eq!(cells.map(|c| (c.limit, c.set)), Some((50, false)));
    second.remove(permit(), &ann, false).await.unwrap();
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
    let error = all.remove(permit(), &ann, false).await.unwrap_err();
    assert_eq!(error.reason, Reason::NotEmpty);
    assert!(error.message.contains("schedules"), "{}", error.message);
    drop(taken);
    all.remove(permit(), &ann, false).await.unwrap();
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
