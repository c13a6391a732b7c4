// SPDX-License-Identifier: Apache-2.0
//! The quota `log_bytes`, with real pipes and files: whose output goes, and what is shown.

use std::collections::BTreeMap;
use std::io::Write;

use model::name::Tenant;
use model::quota::{Capacity, Quota};
use store::Store;
use tenants::Tenants;

use super::*;

/// What each tenant may have: half of what the node keeps.
const LIMIT: u64 = 512 << 10;

async fn with_quotas(root: &Path) -> (Logs, Tenants) {
    let store = Store::open(&root.join("state")).unwrap();
    let capacity = Capacity {
        whole: BTreeMap::from([(Quota::LogBytes, 2 * LIMIT)]),
        reserve: 100,
    };
    let tenants = Tenants::start(store, root, capacity).await.unwrap();
    let logs = Logs::start(&root.join("logs"), LogsConfig::default()).unwrap();
    logs.hold_quotas(&tenants);
    (logs, tenants)
}

fn key_of(tenant: &str, number: u8) -> LogKey {
    LogKey {
        tenant: tenant.parse().unwrap(),
        uid: Uid([number; 16]),
    }
}

async fn begun(logs: &Logs, key: &LogKey) -> Workload {
    let workload = Workload::new();
    // Segments that would hold 64 MiB: none is ever full.
    let policy = LogPolicy::default();
    logs.attach(key.clone(), workload.sources(), &policy)
        .await
        .unwrap();
    workload
}

/// What a tenant has on disk.
fn on_disk(logs: &Logs, keys: &[&LogKey]) -> u64 {
    keys.iter().map(|key| logs.disk_bytes(key).unwrap()).sum()
}

fn shown(tenants: &Tenants, name: &str) -> u64 {
    let name: Tenant = name.parse().unwrap();
    tenants.used(&name)[&Quota::LogBytes]
}

#[tokio::test]
async fn a_tenants_output_is_held_to_its_quota_and_takes_no_other_tenants() {
    let root = folder();
    std::fs::create_dir(root.path().join("state")).unwrap();
    let (logs, tenants) = with_quotas(root.path()).await;
    let [old, live, others] = [("loud", 1), ("loud", 2), ("quiet", 3)].map(|(t, n)| key_of(t, n));
    let line = [b'x'; 4096];
    for (key, lines) in [(&old, 40), (&others, 100)] {
        let mut workload = begun(&logs, key).await;
        for round in 0..lines / 10 {
            (0..10).for_each(|_| workload.stdout.write_all(&line).unwrap());
            settled(&logs, key, (round + 1) * 10 * 4096).await;
        }
        logs.drained(key.uid).await.unwrap();
    }
    let mut workload = begun(&logs, &live).await;
    let all = 1024;
    for round in 0..all / 10 {
        (0..10).for_each(|_| workload.stdout.write_all(&line).unwrap());
        settled(&logs, &live, (round + 1) * 10 * 4096).await;
    }
    workload.stdout.write_all(b"the end").unwrap();
    // What is written is begun anew before it goes.
    for tries in 0.. {
        let bytes = on_disk(&logs, &[&old, &live]);
        if bytes <= LIMIT && shown(&tenants, "loud") <= LIMIT {
            break;
        }
        assert!(tries < 2500, "{bytes} bytes");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    logs.drained(live.uid).await.unwrap();
    let seen = read(&logs, &live, ReadOptions::default()).await;
    assert!(seen.gap_bytes() > 0 && seen.ended);
    assert!(seen.stdout.ends_with(b"the end"));
    assert!(
        read(&logs, &old, ReadOptions::default())
            .await
            .stdout
            .is_empty()
    );
    let quiet = read(&logs, &others, ReadOptions::default()).await;
    assert_eq!((quiet.stdout.len(), quiet.gap_bytes()), (100 * 4096, 0));
}
