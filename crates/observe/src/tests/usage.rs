// SPDX-License-Identifier: Apache-2.0
//! Samples of usage by tenant: who wants a thousand of them has others wait for one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use identity::{Permit, UserKey};
use model::error::Error;
use model::name::Tenant;
use model::object::{Kind, ObjectRef};
use model::observe::{UsageQuery, WatchUsageQuery};
use model::quota::{Capacity, Quota};
use runtime::{Measured, Objects};
use store::Store;
use tenants::{Pool, Tenants};

use super::*;

/// Objects whose samples hang until they are let go on, one by one.
#[derive(Default)]
struct Hanging {
    samples: Mutex<Samples>,
    changed: Condvar,
}

#[derive(Default)]
struct Samples {
    built: usize,
    /// More than these may not end.
    may_end: usize,
    /// Of which tenant each was that ended.
    ended: Vec<String>,
}

impl Hanging {
    fn let_end(&self, more: usize) {
        self.samples.lock().unwrap().may_end += more;
        self.changed.notify_all();
    }
}

struct LetGo(Arc<Hanging>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.let_end(usize::MAX / 2);
    }
}

impl Objects for Hanging {
    fn executables(&self, target: &ObjectRef) -> Result<Vec<ObjectRef>, Error> {
        let mut samples = self.samples.lock().unwrap();
        while samples.ended.len() >= samples.may_end {
            samples = self.changed.wait(samples).unwrap();
        }
        samples.ended.push(target.tenant.to_string());
        Ok(Vec::new())
    }

    fn measured(&self, query: &UsageQuery) -> Result<Vec<Measured>, Error> {
        self.samples.lock().unwrap().built += 1;
        let object = ObjectRef {
            tenant: query.tenant.clone(),
            path: "web".parse().unwrap(),
            uid: Some(Uid([1; 16])),
            kind: Some(Kind::Cell),
        };
        Ok(vec![Measured {
            object,
            ended: None,
            cgroup: None,
        }])
    }
}

fn query(tenant: &str) -> UsageQuery {
    UsageQuery {
        refs: Vec::new(),
        tenant: tenant.parse().unwrap(),
    }
}

fn permit(tenant: &str) -> Permit {
    let tenant: Tenant = tenant.parse().unwrap();
    let user = UserKey {
        tenant: tenant.clone(),
        name: "ann".parse().unwrap(),
    };
    let permit = Permit::for_tests("observe.Usage", tenant).unwrap();
    permit.of_user(user)
}

async fn observe(root: &Path, objects: Arc<Hanging>) -> Observe {
    std::fs::create_dir(root.join("state")).unwrap();
    let store = Store::open(&root.join("state")).unwrap();
    let capacity = Capacity {
        whole: BTreeMap::new(),
        reserve: 100,
    };
    let tenants = Tenants::start(store, root, capacity).await.unwrap();
    let logs = Logs::start(&root.join("logs"), LogsConfig::default()).unwrap();
    Observe::new(logs, objects, Pool::new(&tenants, Quota::LogReaders))
}

#[test]
fn samples_of_one_tenant_leave_threads_and_turns_to_others() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let root = folder();
    let objects = Arc::new(Hanging::default());
    // The runtime's end waits for its threads.
    let _let_go = LetGo(objects.clone());
    runtime.block_on(async {
        let observe = observe(root.path(), objects.clone()).await;
        for _ in 0..64 {
            let watch = WatchUsageQuery {
                query: query("eve"),
                interval: Duration::from_millis(100),
            };
            let mut samples = observe.watch_usage(permit("eve"), watch).unwrap();
            tokio::spawn(async move {
                while let Some(sample) = futures_util::StreamExt::next(&mut samples).await {
                    sample.unwrap();
                }
            });
        }
        let deadline = Instant::now() + PATIENCE;
        while objects.samples.lock().unwrap().built < 2 {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let free = tokio::task::spawn_blocking(|| ());
        let free = tokio::time::timeout(Duration::from_secs(10), free).await;
        free.expect("a thread is free").unwrap();
        // Who waits for its turn holds nothing.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(objects.samples.lock().unwrap().built, 2);
        let bob = tokio::spawn({
            let observe = observe.clone();
            async move { observe.usage(permit("bob"), query("bob")).await }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        objects.let_end(8);
        let sampled = tokio::time::timeout(Duration::from_secs(10), bob).await;
        sampled.expect("it is bob's turn").unwrap().unwrap();
        let ended = objects.samples.lock().unwrap().ended.clone();
        let before = ended.iter().take_while(|it| *it != "bob").count();
        assert!(before <= 4, "{ended:?}");
    });
    runtime.shutdown_background();
}
