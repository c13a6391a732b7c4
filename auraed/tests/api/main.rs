// SPDX-License-Identifier: Apache-2.0
//! The API of a real node, over its socket. Here: who may call what, every method of the contract
//! asked by every kind of caller. The table is in `table`; a method without a row there fails
//! [`every_method_has_a_row`]. What calls do is in `stories`.
//!
//! The node is the `auraed` binary as a service on this machine, with state and sockets in a folder
//! of its own; it needs root and a cgroup2 hierarchy.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod bodies;
mod caller;
mod containers;
mod containers_own;
mod crontabs;
mod cycles;
mod direct;
mod disks;
mod effects;
mod elsewhere;
mod escapes;
mod fair;
mod finished;
mod flood;
mod hardening;
mod hooks;
mod images;
mod joined;
mod light;
mod listeners;
mod network;
mod network_addresses;
mod network_cni;
mod network_denials;
mod node;
mod pods;
mod pods_admit;
mod pods_below;
mod pods_change;
mod pods_end;
mod pods_last_word;
mod pods_network;
mod pods_node;
mod pods_own;
mod pods_parts;
mod pods_probes;
mod pods_told;
mod pods_volumes;
mod pods_watch;
mod privileges;
mod pulled;
mod quotas;
mod raw;
mod requests;
mod required;
mod schedule;
mod schedule_given;
mod schedule_health;
mod schedule_many;
mod schedule_units;
mod sockets;
mod specs;
mod stories;
mod table;
mod tenants;
mod tenants_removed;
mod unit_sandbox;
mod units;
mod units_bus;
mod units_end;
mod units_environment;
mod units_follow;
mod units_given;
mod units_held;
mod units_init;
mod units_judge;
mod units_many;
mod units_own;
mod units_past;
mod units_shown;
mod units_slices;
mod units_syslog;
mod withdrawn;

use std::io::{BufRead, BufReader};

use api::action::ACTIONS;
use api::identity::v0 as identity;
use api::runtime::v0::ListRequest;
use api::status::Reason;

use caller::Person;
use node::TestNode;
use raw::{Answer, call};
use table::{ROWS, Row, Whom};

#[test]
fn every_method_has_a_row() {
    for action in ACTIONS {
        let rows = ROWS.iter().filter(|row| row.action == action.name).count();
        assert_eq!(rows, 1, "{} must have one row in the table", action.name);
    }
    assert_eq!(
        ROWS.len(),
        ACTIONS.len(),
        "a row of the table is of no method"
    );
}

/// The people of the story.
struct Cast {
    administrator: Person,
    owner: Person,
    stranger: Person,
    revoked: Person,
    expired: Person,
}

async fn cast(node: &TestNode) -> Cast {
    let administrator = node.administrator().await;
    let owner = administrator.introduce(node, "acme", "ann", None).await;
    let stranger = administrator.introduce(node, "other", "sam", None).await;
    let revoked = administrator.introduce(node, "acme", "rita", None).await;
    administrator.revoke(&revoked).await;
    let second = std::time::Duration::from_secs(1);
    let expired = administrator
        .introduce(node, "acme", "eve", Some(second))
        .await;
    Cast {
        administrator,
        owner,
        stranger,
        revoked,
        expired,
    }
}

#[tokio::test]
async fn every_method_is_for_whom_it_should_be() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let cast = cast(&node).await;
    table::furnish(&cast.administrator, &cast.owner).await;
    // Certificates are good to the end of their last second.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for row in ROWS {
        refused_by_certificate(row, &cast).await;
        for (whom, person) in [
            (Whom::Stranger, &cast.stranger),
            (Whom::Owner, &cast.owner),
            (Whom::Administrator, &cast.administrator),
        ] {
            let answer = call(person, row, whom).await;
            row.expected(whom).check(row.action, whom, &answer);
        }
        if row.changes {
            after_a_change(row, &cast).await;
        }
    }
    node.stop();
}

/// Whatever is asked: a caller whose certificate isn't accepted is told why, and nothing else. Each
/// call has a connection of its own, since the node ends those of such a caller after some seconds:
/// on one that is held, a call could meet that end instead of its answer.
async fn refused_by_certificate(row: &Row, cast: &Cast) {
    for (person, reason) in [
        (&cast.revoked, Reason::CertRevoked),
        (&cast.expired, Reason::CertExpired),
    ] {
        let person = Person::new(person.target.clone(), person.serial.clone()).await;
        let answer = call(&person, row, Whom::Owner).await;
        assert_eq!(answer.reason(), Some(reason), "{} {answer:?}", row.action);
        assert_eq!(
            answer.code(),
            Some(tonic::Code::Unauthenticated),
            "{}",
            row.action
        );
    }
}

/// A policy decides from the next call on: a denial wins over what members have by themselves, a
/// permission gives what they don't; and both end when they are withdrawn.
async fn after_a_change(row: &Row, cast: &Cast) {
    let before = row.expected(Whom::Owner);
    let mut grants = Vec::new();
    if before.permits() {
        let message = identity::DenyRequest {
            tenant: "acme".into(),
            user: "ann".into(),
            action: row.action.into(),
            ..Default::default()
        };
        grants.push(cast.administrator.deny(message).await);
    } else {
        for action in [row.action].iter().chain(also_taken(row.action)) {
            let message = identity::AllowRequest {
                tenant: "acme".into(),
                user: "ann".into(),
                action: (*action).into(),
                ..Default::default()
            };
            grants.push(cast.administrator.allow(message).await);
        }
    }
    let answer = call(&cast.owner, row, Whom::Owner).await;
    assert_ne!(
        before.permits(),
        answer.was_permitted(),
        "{} after {grants:?}: {answer:?}",
        row.action
    );
    for grant in grants {
        cast.administrator.withdraw(grant.id).await;
    }
}

/// What the row's call of a method takes beside permission for the method.
fn also_taken(action: &str) -> &'static [&'static str] {
    match action {
        "schedule.RestartUnit" | "schedule.KillUnit" => &["schedule.StopUnit"],
        _ => &[],
    }
}

#[tokio::test]
async fn who_has_no_certificate_of_ours_is_refused_at_the_handshake() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let alert = node.connect_without_certificate().await;
    assert!(alert.contains("CertificateRequired"), "{alert}");
    let forged = Person::forged(&node, "tenant/system/user/admin");
    let error = client::Node::connect(&forged).await.unwrap_err();
    let client::Error::Handshake { alert, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*alert, Some("unknown_ca"), "{error}");
    node.stop();
}

#[tokio::test]
async fn a_second_daemon_says_who_holds_the_state_and_ends_when_told() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let mut second = node.second();
    let mut said = BufReader::new(second.stderr.take().unwrap()).lines();
    let refusal = said.next().unwrap().unwrap();
    assert!(refusal.contains("is in use by pid "), "{refusal}");
    // It goes on trying, as a service that waits for its turn.
    assert!(said.any(|line| line.unwrap() == refusal));
    assert_eq!(node::end(&mut second), Some(0));
    let mut runtime = administrator.node.runtime();
    runtime.list(ListRequest::default()).await.unwrap();
    node.stop();
}

#[tokio::test]
async fn a_stream_ends_within_a_second_of_its_caller() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let watcher = administrator.introduce(&node, "acme", "ann", None).await;
    let request = api::runtime::v0::WatchRequest::default();
    let mut stream = watcher
        .node
        .runtime()
        .watch(request)
        .await
        .unwrap()
        .into_inner();
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(
        first.r#type(),
        api::runtime::v0::watch_event::Type::SnapshotEnd
    );
    let started = std::time::Instant::now();
    administrator.revoke(&watcher).await;
    let end = stream.message().await.unwrap_err();
    assert_eq!(
        api::status::from_status(&end).reason,
        Some(Reason::CertRevoked)
    );
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
    node.stop();
}

#[tokio::test]
async fn reflection_and_health_are_for_every_user() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let listed = raw::health(&ann, "aurae.runtime.v0.Runtime").await;
    assert!(matches!(listed, Answer::Message(_)), "{listed:?}");
    administrator.revoke(&ann).await;
    let refused = raw::health(&ann, "").await;
    assert_eq!(refused.reason(), Some(Reason::CertRevoked));
    node.stop();
}
