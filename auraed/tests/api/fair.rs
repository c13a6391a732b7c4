// SPDX-License-Identifier: Apache-2.0
//! The daemon's own time: a tenant that calls as much as it can doesn't have another one wait for
//! all of that. Counted are the calls of the first that are answered while the other one's is, not
//! the time that it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use api::observe::v0::UsageRequest;
use api::runtime::v0::ListRequest;
use tokio::task::JoinSet;

use crate::caller::Person;
use crate::node::TestNode;
use crate::table::{Whom::Owner, at};

/// Calls of the flood that are open at the same time, over so many connections.
const CONNECTIONS: usize = 8;
const OF_EACH: usize = 32;
/// Objects that each of them asks about: each is a decision of the policies.
const OBJECTS: usize = 48;
/// Calls of the other tenant's.
const CALLS: usize = 21;
/// The longest that anything here may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The flood, and how many of its calls were answered so far.
struct Flood {
    answered: Arc<AtomicUsize>,
    _callers: JoinSet<()>,
}

impl Flood {
    async fn begin(eve: &Person) -> Self {
        let answered = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let node = client::Node::connect(&eve.target).await.unwrap();
            for _ in 0..OF_EACH {
                let (node, answered) = (node.clone(), answered.clone());
                callers.spawn(async move {
                    let name = |n| at(Owner, &format!("nosuch/{n}")).unwrap();
                    let request = UsageRequest {
                        refs: (0..OBJECTS).map(name).collect(),
                        ..Default::default()
                    };
                    loop {
                        let asked = node.observe().usage(request.clone()).await;
                        assert_eq!(asked.unwrap_err().code(), tonic::Code::NotFound);
                        answered.fetch_add(1, Relaxed);
                    }
                });
            }
        }
        Self {
            answered,
            _callers: callers,
        }
    }

    fn answered(&self) -> usize {
        self.answered.load(Relaxed)
    }

    /// Until all of its calls are open and some were answered.
    async fn in_full(&self) {
        let started = Instant::now();
        while self.answered() < OF_EACH {
            assert!(started.elapsed() < PATIENCE, "the flood is answered");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_calls_has_no_other_tenant_wait_for_all_of_them() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "acme", "eve", None).await;
    let bob = administrator.introduce(&node, "blue", "bob", None).await;
    let mut runtime = bob.node.runtime();
    runtime.list(ListRequest::default()).await.unwrap();
    let flood = Flood::begin(&eve).await;
    flood.in_full().await;
    let mut between = Vec::new();
    for _ in 0..CALLS {
        let before = flood.answered();
        runtime.list(ListRequest::default()).await.unwrap();
        between.push(flood.answered() - before);
    }
    drop(flood);
    between.sort_unstable();
    println!("calls of the flood answered during one of another tenant: {between:?}");
    let middle = between[CALLS / 2];
    let open = CONNECTIONS * OF_EACH;
    assert!(middle < open / 4, "{middle} of {open}: {between:?}");
    node.stop();
}
