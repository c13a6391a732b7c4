// SPDX-License-Identifier: Apache-2.0
//! Ten thousand connections at once to the daemon's own listener: silent ones, half-open
//! handshakes, nonsense, and clients with a good certificate that take every place they can get.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use client::Target;
use rustix::process::Uid;

use crate::caller::Person;
use crate::node::TestNode;

const CONNECTIONS: usize = 10_000;
/// Of them, those with a good certificate: a handshake costs milliseconds of both.
const PROVEN: usize = 300;
/// The user of the others.
const STRANGER: u32 = 64_242;
/// The contract's bound for each tenant.
const PER_TENANT: u64 = 64;
/// Within what others are served, on a machine that is busy with other things as well.
const SERVED: Duration = Duration::from_secs(20);
/// What 512 strangers and 256 guests may cost the daemon, at 40 KB each, and a half again.
const MOST_KB: u64 = (512 + 256) * 40 * 3 / 2;

/// A call on a connection that was there before, and one on a new connection.
async fn served(node: &TestNode, person: &Person) -> Duration {
    let begun = Instant::now();
    let request = api::node::v0::GetRequest {};
    let answer = person.node.node().get(person.node.unary(request)).await;
    answer.unwrap();
    drop(node.administrator().await);
    begun.elapsed()
}

/// As another user, as a program of a tenant's is one: who is beside them isn't of their source.
async fn strangers(node: &TestNode) -> Vec<UnixStream> {
    let socket = node.socket();
    let open = std::fs::Permissions::from_mode(0o711);
    for folder in [node.folder(), socket.parent().unwrap()] {
        std::fs::set_permissions(folder, open.clone()).unwrap();
    }
    let flood = move || {
        // Of this thread alone, which ends with that user.
        let user = Uid::from_raw(STRANGER);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        (0..CONNECTIONS - PROVEN)
            .map(|n| stranger(&socket, n))
            .collect()
    };
    let joined = tokio::task::spawn_blocking(|| std::thread::spawn(flood).join());
    joined.await.unwrap().unwrap()
}

/// Waits while the socket's queue is full.
fn stranger(socket: &Path, n: usize) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    // Those that were displaced already can't be written to.
    let _displaced = match n % 3 {
        0 => Ok(()),
        // The beginning of a ClientHello, and nothing more.
        1 => stream.write_all(&[22, 3, 1, 2, 0, 1]),
        _ => stream.write_all(b"GET / HTTP/1.1\r\n\r\n"),
    };
    stream
}

/// Connects with the same certificate again and again; answers those that were let in.
async fn greedy(node: &TestNode, target: &Target) -> Vec<client::Node> {
    let mut held = Vec::new();
    for _ in 0..PROVEN {
        held.extend(client::Node::connect(target).await.ok());
    }
    assert!(!node.log().contains("panicked"), "{}", node.log());
    held
}

/// How many connections of that tenant the node counts.
async fn counted(administrator: &Person, tenant: &str) -> u64 {
    let request = api::tenant::v0::GetRequest {
        name: tenant.into(),
        ..Default::default()
    };
    let status = administrator.node.tenant().get(request).await.unwrap();
    let quotas = status.into_inner().usage;
    let held = quotas.iter().find(|quota| quota.quota == "connections");
    held.unwrap().used.unwrap()
}

/// Waits until the node counts no connection of that tenant any more.
async fn has_left(administrator: &Person, tenant: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while counted(administrator, tenant).await > 0 {
        assert!(Instant::now() < deadline, "a closed connection counts");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Serves others all the while; answers how long it took them at worst, too.
async fn meanwhile<T>(
    node: &TestNode,
    other: &Person,
    flood: impl Future<Output = T>,
) -> (T, Duration) {
    let mut flood = std::pin::pin!(flood);
    let mut slowest = Duration::ZERO;
    loop {
        tokio::select! {
            flooded = &mut flood => return (flooded, slowest),
            took = served(node, other) => slowest = slowest.max(took),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_connections_cost_little_and_harm_no_other_tenant() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let bob = administrator.introduce(&node, "blue", "bob", None).await;
    let target = ann.target.clone();
    drop(ann);
    has_left(&administrator, "acme").await;
    let quiet = served(&node, &bob).await;
    let before = node.daemon_memory_kb();

    let flooding = async { (strangers(&node).await, greedy(&node, &target).await) };
    let ((strangers, guests), mut slowest) = meanwhile(&node, &bob, flooding).await;
    slowest = slowest.max(served(&node, &bob).await);
    let peak = node.daemon_memory_kb();
    println!(
        "{} connections, {} of them let in: {} KB more in the daemon; served others within \
         {slowest:?} ({quiet:?} before)",
        strangers.len() + PROVEN,
        guests.len(),
        peak.saturating_sub(before),
    );
    assert_eq!(strangers.len(), CONNECTIONS - PROVEN);
    // The node's count: a client on a busy machine may hear too late that it was rejected.
    assert_eq!(counted(&administrator, "acme").await, PER_TENANT);
    assert!(guests.len() as u64 >= PER_TENANT, "{}", guests.len());
    assert!(peak - before < MOST_KB, "from {before} KB to {peak} KB");
    assert!(slowest < SERVED, "{slowest:?}");

    drop((strangers, guests));
    let deadline = Instant::now() + Duration::from_secs(60);
    while client::Node::connect(&target).await.is_err() {
        assert!(Instant::now() < deadline, "places come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    node.stop();
}
