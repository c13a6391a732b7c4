// SPDX-License-Identifier: Apache-2.0
//! Two tenants on one node, one of which means harm: it takes all that it can get of each pool, is
//! refused by the quota's name, and the other one doesn't notice.

use api::observe::v0 as observe;
use api::runtime::v0 as wire;
use api::status::{Failure, Reason, from_status};
use api::tenant::v0 as tenant;
use futures_util::future::join_all;
use tonic::{Status, Streaming};

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{program as run, shared_cell};
use crate::table::Whom::Owner;
use crate::table::at;

/// What the attacked node may need beside what it needs quietly, in KB.
const MOST_KB: u64 = 48 * 1024;

fn failure(status: &Status) -> Failure {
    from_status(status)
}

/// A node with the tenants `acme` (eve, who means harm) and `blue` (bob).
async fn two_tenants() -> Option<(TestNode, Person, Person, Person)> {
    let node = TestNode::start()?;
    let administrator = node.administrator().await;
    let eve = administrator.introduce(&node, "acme", "eve", None).await;
    let bob = administrator.introduce(&node, "blue", "bob", None).await;
    Some((node, administrator, eve, bob))
}

async fn set(administrator: &Person, name: &str, quotas: tenant::Quotas) -> tenant::TenantStatus {
    let request = tenant::SetRequest {
        name: name.into(),
        quotas: Some(quotas),
    };
    administrator
        .node
        .tenant()
        .set(request)
        .await
        .unwrap()
        .into_inner()
}

fn limit_of(status: &tenant::TenantStatus, quota: &str) -> (Option<u64>, Option<u64>) {
    let found = status.usage.iter().find(|s| s.quota == quota).unwrap();
    (found.used, found.limit)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// An ordinary call of another person's.
async fn is_served(person: &Person) {
    let list = wire::ListRequest::default();
    person.node.runtime().list(list).await.unwrap();
}

fn assert_names(status: &Status, quota: &str) {
    let refused = failure(status);
    assert_eq!(refused.reason, Some(Reason::LimitExceeded), "{refused:?}");
    assert!(refused.message.contains(quota), "{refused:?}");
}

#[tokio::test]
async fn a_quota_is_set_shown_refused_by_name_and_raised() {
    let Some((node, administrator, eve, _)) = two_tenants().await else {
        return;
    };
    administrator
        .node
        .runtime()
        .run_cell(shared_cell("web"))
        .await
        .unwrap();
    let quotas = tenant::Quotas {
        executables: some("2"),
        ..Default::default()
    };
    let status = set(&administrator, "acme", quotas).await;
    assert_eq!(limit_of(&status, "executables"), (Some(0), Some(2)));
    // Half of them; where this machine lets a daemon open few files, there are fewer.
    let (used, limit) = limit_of(&status, "cells");
    assert!(used == Some(1) && limit.is_some_and(|it| 0 < it && it <= 2048));

    let mut client = eve.node.runtime();
    for path in ["web/a", "web/b"] {
        client
            .run_executable(run(path, &["sleep", "1000"]))
            .await
            .unwrap();
    }
    let refused = client
        .run_executable(run("web/c", &["sleep", "1000"]))
        .await
        .unwrap_err();
    assert_names(&refused, "uses 2 of its 2 of the quota executables");

    let more = tenant::Quotas {
        executables: some("default"),
        ..Default::default()
    };
    set(&administrator, "acme", more).await;
    client
        .run_executable(run("web/c", &["sleep", "1000"]))
        .await
        .unwrap();
    node.stop();
}

#[tokio::test]
async fn quotas_are_the_administrators_alone_and_bad_ones_are_named() {
    let Some((node, administrator, eve, bob)) = two_tenants().await else {
        return;
    };
    let quotas = tenant::Quotas {
        executables: some("2"),
        ..Default::default()
    };
    set(&administrator, "acme", quotas.clone()).await;
    // A member sees its own tenant, not another's, and changes none.
    let get = |name: &str| tenant::GetRequest {
        name: name.into(),
        ..Default::default()
    };
    let own = eve.node.tenant().get(get("")).await.unwrap().into_inner();
    assert_eq!(limit_of(&own, "executables"), (Some(0), Some(2)));
    assert!(bob.node.tenant().get(get("acme")).await.is_err());
    let set_own = tenant::SetRequest {
        name: "acme".into(),
        quotas: Some(quotas.clone()),
    };
    assert!(eve.node.tenant().set(set_own).await.is_err());

    let bad = tenant::SetRequest {
        name: "acme".into(),
        quotas: Some(tenant::Quotas {
            cells: some("many"),
            ..Default::default()
        }),
    };
    let refused = failure(&administrator.node.tenant().set(bad).await.unwrap_err());
    assert_eq!(
        refused.field.as_deref(),
        Some("quotas.cells"),
        "{refused:?}"
    );
    let remove = tenant::RemoveRequest {
        name: "acme".into(),
    };
    let refused = failure(
        &administrator
            .node
            .tenant()
            .remove(remove)
            .await
            .unwrap_err(),
    );
    assert_eq!(refused.reason, Some(Reason::NotEmpty));
    node.stop();
}

#[tokio::test]
async fn a_tenant_with_all_its_calls_open_keeps_no_other_from_calling() {
    let Some((node, administrator, eve, bob)) = two_tenants().await else {
        return;
    };
    let quotas = tenant::Quotas {
        streams: some("40"),
        ..Default::default()
    };
    set(&administrator, "acme", quotas).await;
    let mut held: Vec<Streaming<wire::WatchEvent>> = Vec::new();
    let refused = loop {
        match eve
            .node
            .runtime()
            .watch(wire::WatchRequest::default())
            .await
        {
            Ok(stream) => held.push(stream.into_inner()),
            Err(status) => break status,
        }
        assert!(held.len() <= 40, "the quota holds");
    };
    assert_names(&refused, "quota streams");
    assert_eq!(held.len(), 40);
    is_served(&bob).await;
    is_served(&administrator).await;
    drop(held);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while eve
        .node
        .runtime()
        .list(wire::ListRequest::default())
        .await
        .is_err()
    {
        assert!(tokio::time::Instant::now() < deadline, "places come back");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    node.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_large_requests_is_bounded_and_harms_no_other_tenant() {
    let Some((node, administrator, eve, bob)) = two_tenants().await else {
        return;
    };
    let quotas = tenant::Quotas {
        request_bytes: some("4M"),
        ..Default::default()
    };
    set(&administrator, "acme", quotas).await;
    is_served(&bob).await;
    let before = node.daemon_memory_kb();
    let large = "x".repeat(3 << 19);
    let mut people = Vec::new();
    for _ in 0..16 {
        people.push(client::Node::connect(&eve.target).await.unwrap());
    }
    let calls = people
        .iter()
        .flat_map(|node| (0..8).map(move |_| node.clone()))
        .map(|node| {
            let request = run("web/a", &["echo", &large]);
            async move { node.runtime().run_executable(request).await.unwrap_err() }
        });
    let (answers, ()) = tokio::join!(join_all(calls), async {
        for _ in 0..20 {
            is_served(&bob).await;
        }
    });
    let refused = answers
        .iter()
        .filter(|s| s.message().contains("request_bytes"))
        .count();
    let grown = node.daemon_memory_kb() - before;
    println!(
        "{refused} of {} refused; the daemon grew by {grown} KB",
        answers.len()
    );
    assert!(refused > 0, "the quota is met: {:?}", answers.first());
    assert!(grown < MOST_KB, "from {before} KB by {grown} KB");
    node.stop();
}

#[tokio::test]
async fn readers_of_logs_keep_no_run_from_being_attached() {
    let Some((node, administrator, eve, bob)) = two_tenants().await else {
        return;
    };
    let quotas = tenant::Quotas {
        log_readers: some("3"),
        ..Default::default()
    };
    set(&administrator, "acme", quotas).await;
    administrator
        .node
        .runtime()
        .run_cell(shared_cell("web"))
        .await
        .unwrap();
    let mut client = eve.node.runtime();
    client
        .run_executable(run("web/a", &["sleep", "1000"]))
        .await
        .unwrap();
    let follow = || observe::LogsRequest {
        refs: vec![at(Owner, "web/a").unwrap()],
        follow: true,
        ..Default::default()
    };
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(eve.node.observe().logs(follow()).await.unwrap());
    }
    let refused = eve
        .node
        .observe()
        .logs(follow())
        .await
        .map(drop)
        .unwrap_err();
    assert_names(&refused, "quota log_readers");
    let start = wire::AttachStart {
        r#ref: at(Owner, "web/a"),
        ..Default::default()
    };
    let first = wire::AttachRequest {
        message: Some(wire::attach_request::Message::Start(start)),
    };
    let requests = tokio_stream::once(first);
    client.attach(requests).await.unwrap();
    is_served(&bob).await;
    node.stop();
}

#[tokio::test]
async fn what_is_kept_of_a_tenant_is_shown_beside_its_quotas() {
    let Some((node, administrator, eve, _)) = two_tenants().await else {
        return;
    };
    let quotas = tenant::Quotas {
        log_bytes: some("10M"),
        finished_bytes: some("64K"),
        audit_bytes: some("40K"),
        ..Default::default()
    };
    set(&administrator, "acme", quotas).await;
    let mut runtime = administrator.node.runtime();
    runtime.run_cell(shared_cell("web")).await.unwrap();
    let large = "x".repeat(8 << 10);
    for n in 0..12 {
        let print = ["sh", "-c", "echo $0", &large];
        let mut request = run(&format!("web/r{n}"), &print);
        request.wait_for = wire::WaitFor::Exited.into();
        eve.node.runtime().run_executable(request).await.unwrap();
    }
    let get = || tenant::GetRequest {
        name: "acme".into(),
        ..Default::default()
    };
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let status = eve.node.tenant().get(get()).await.unwrap().into_inner();
        let used = |quota, most| {
            let (used, limit) = limit_of(&status, quota);
            assert_eq!(limit, Some(most), "{quota}");
            used.is_some_and(|used| used > 0 && used <= most)
        };
        let finished = used("finished_bytes", 64 << 10);
        // Output is counted when there are 64 KiB more of it.
        if finished && used("audit_bytes", 40 << 10) && used("log_bytes", 10 << 20) {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{status:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let all = eve.node.runtime().list(wire::ListRequest::default()).await;
    let kept = all.unwrap().into_inner().objects.len();
    assert!((3..9).contains(&kept), "the oldest records went: {kept}");
    node.stop();
}
