// SPDX-License-Identifier: Apache-2.0
//! An open stream ends within a second when what it was permitted is withdrawn, whichever method it
//! is of; and so does a call that waits.

use std::pin::Pin;
use std::time::Duration;

use api::action::ACTIONS;
use api::identity::v0 as identity;
use api::observe::v0 as observe;
use api::pod::v0 as pod;
use api::runtime::v0 as wire;
use api::schedule::v0 as schedule;
use api::status::{Reason, from_status};
use tonic::Status;

use crate::caller::Person;
use crate::node::TestNode;
use crate::pods;
use crate::requests::{cell, program};
use crate::schedule::schedules;
use crate::table::Whom::Owner;
use crate::table::at;

/// What runs until the story ends.
const SLEEPS: &[&str] = &["/bin/sleep", "1000"];

type Ended = Pin<Box<dyn Future<Output = Status> + Send>>;

/// Opens a stream; the future resolves with its end.
type Open = fn(Person, String) -> Ended;

const STREAMS: &[(&str, Open)] = &[
    ("runtime.Watch", watch),
    ("runtime.Attach", attach),
    ("runtime.Wait", wait),
    ("runtime.RunExecutable", run),
    ("observe.Logs", logs),
    ("observe.WatchUsage", watch_usage),
    ("observe.Journal", journal),
    ("pod.Watch", watch_pods),
    ("schedule.Watch", watch_schedules),
];

/// Those that take an administrator, or a pod: each has a story of its own.
const APART: &[&str] = &["identity.Audit", "pod.Dial"];

/// Streams that end by themselves, when the image is there, or was sent.
const ENDING: &[&str] = &["image.Pull", "image.Push", "image.Export"];

/// Reads a stream to its end, which must be an error.
macro_rules! end_of {
    ($answer:expr) => {{
        let mut stream = match $answer {
            Ok(answer) => answer.into_inner(),
            Err(status) => return status,
        };
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("the stream ended by itself"),
                Err(status) => return status,
            }
        }
    }};
}

fn watch(ann: Person, _: String) -> Ended {
    let request = wire::WatchRequest::default();
    Box::pin(async move { end_of!(ann.node.runtime().watch(request).await) })
}

fn attach(ann: Person, _: String) -> Ended {
    use wire::attach_request::Message;
    let start = wire::AttachStart {
        r#ref: at(Owner, "web/main"),
        ..Default::default()
    };
    let first = wire::AttachRequest {
        message: Some(Message::Start(start)),
    };
    let asked = tokio_stream::StreamExt::chain(
        tokio_stream::iter([first]),
        tokio_stream::pending::<wire::AttachRequest>(),
    );
    Box::pin(async move { end_of!(ann.node.runtime().attach(asked).await) })
}

fn wait(ann: Person, uid: String) -> Ended {
    let mut target = at(Owner, "web/main").unwrap_or_default();
    target.uid = uid;
    let request = wire::WaitRequest {
        r#ref: Some(target),
    };
    Box::pin(async move {
        let waited = ann.node.runtime().wait(request).await;
        waited
            .err()
            .unwrap_or_else(|| Status::ok("it was answered"))
    })
}

fn run(ann: Person, _: String) -> Ended {
    let mut request = program("web/other", SLEEPS);
    request.wait_for = wire::WaitFor::Exited.into();
    Box::pin(async move {
        let run = ann.node.runtime().run_executable(request).await;
        run.err().unwrap_or_else(|| Status::ok("it was answered"))
    })
}

fn logs(ann: Person, _: String) -> Ended {
    let request = observe::LogsRequest {
        refs: at(Owner, "web/main").into_iter().collect(),
        follow: true,
        ..Default::default()
    };
    Box::pin(async move { end_of!(ann.node.observe().logs(request).await) })
}

fn watch_usage(ann: Person, _: String) -> Ended {
    let request = observe::WatchUsageRequest::default();
    Box::pin(async move { end_of!(ann.node.observe().watch_usage(request).await) })
}

fn journal(ann: Person, _: String) -> Ended {
    let request = observe::JournalRequest {
        follow: true,
        ..Default::default()
    };
    Box::pin(async move { end_of!(ann.node.observe().journal(request).await) })
}

fn watch_pods(ann: Person, _: String) -> Ended {
    let request = pod::WatchRequest::default();
    Box::pin(async move { end_of!(pods::pods(&ann).watch(request).await) })
}

fn watch_schedules(ann: Person, _: String) -> Ended {
    let request = schedule::WatchRequest::default();
    Box::pin(async move { end_of!(schedules(&ann).watch(request).await) })
}

/// A connection on which nothing is sent.
fn dial(ops: Person, _: String) -> Ended {
    let start = pod::DialStart {
        r#ref: pods::at("web"),
        port: 80,
    };
    let first = pod::DialRequest {
        message: Some(pod::dial_request::Message::Start(start)),
    };
    let asked = tokio_stream::StreamExt::chain(
        tokio_stream::iter([first]),
        tokio_stream::pending::<pod::DialRequest>(),
    );
    Box::pin(async move { end_of!(pods::pods(&ops).dial(asked).await) })
}

fn audit(ops: Person, _: String) -> Ended {
    let request = identity::AuditRequest {
        follow: true,
        ..Default::default()
    };
    Box::pin(async move { end_of!(ops.node.identity().audit(request).await) })
}

/// The user and the denial that ends the stream of that method.
fn denial(tenant: &str, user: &str, action: &str) -> identity::DenyRequest {
    identity::DenyRequest {
        tenant: tenant.into(),
        user: user.into(),
        action: action.into(),
        ..Default::default()
    }
}

/// The journal is an administrator's to give.
fn may_read_the_journal() -> identity::AllowRequest {
    identity::AllowRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: "observe.Journal".into(),
        ..Default::default()
    }
}

#[test]
fn every_stream_ends_by_itself_or_is_opened_here() {
    for action in ACTIONS.iter().filter(|action| action.server_streams) {
        let opened = STREAMS.iter().map(|(name, _)| name);
        let known = opened.chain(APART).chain(ENDING);
        let rows = known.filter(|name| **name == action.name).count();
        assert_eq!(rows, 1, "{} must be opened here, or end", action.name);
    }
}

#[tokio::test]
async fn a_stream_ends_within_a_second_of_its_permission() {
    // Without its sockets the node has no journal to follow.
    let sockets = tempfile::tempdir().unwrap();
    let folder = format!("journal.folder={}", sockets.path().display());
    let settings = [
        "cell_network.enabled=false",
        "journal.enabled=true",
        &folder,
    ];
    let Some(node) = TestNode::start_with(&settings) else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let allowed = administrator.allow(may_read_the_journal()).await;
    let mut runtime = ann.node.runtime();
    let cell = cell(Owner, "web", wire::CellSpec::default());
    runtime.run_cell(cell).await.unwrap();
    let main = runtime
        .run_executable(program("web/main", SLEEPS))
        .await
        .unwrap();
    let meta = main.into_inner().meta.unwrap();
    let uid = meta.r#ref.unwrap().uid;
    for (action, open) in STREAMS {
        let ended = tokio::spawn(open(ann.clone(), uid.clone()));
        still_open(action, &ended).await;
        let grant = administrator.deny(denial("acme", "ann", action)).await;
        ends(action, ended).await;
        administrator.withdraw(grant.id).await;
    }
    // What was allowed by a grant ends with that.
    let ended = tokio::spawn(journal(ann.clone(), uid));
    still_open("observe.Journal", &ended).await;
    administrator.withdraw(allowed.id).await;
    ends("observe.Journal", ended).await;
    node.stop();
}

/// Nothing of it is decided by an action: the connection itself ends.
#[tokio::test]
async fn a_watch_of_the_node_s_health_ends_with_its_certificate() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(ann.node.channel());
    let request = tonic_health::pb::HealthCheckRequest::default();
    let mut watched = health.watch(request).await.unwrap().into_inner();
    assert!(watched.message().await.unwrap().is_some());
    let ended = tokio::spawn(async move { watched.message().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!ended.is_finished(), "it did not stay open");
    administrator.revoke(&ann).await;
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    let ended = ended.expect("it goes on").unwrap();
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    node.stop();
}

#[tokio::test]
async fn a_follower_of_the_audit_ends_with_its_permission() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ops = administrator.introduce_administrator(&node, "ops").await;
    let ended = tokio::spawn(audit(ops, String::new()));
    still_open("identity.Audit", &ended).await;
    administrator
        .deny(denial("system", "ops", "identity"))
        .await;
    // Every tenant's audit is no single tenant's: the denial narrows what is shown.
    ends("identity.Audit", ended).await;
    node.stop();
}

#[tokio::test]
async fn a_connection_to_a_pod_ends_with_its_permission() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ops = administrator.introduce_administrator(&node, "ops").await;
    let mut server = pods::container("app", "exec /bin/busybox httpd -f -p 80 -h /mnt");
    server.readiness = Some(pod::Probe {
        ask: Some(pod::probe::Ask::Tcp(pod::TcpAction {
            port: 80,
            ..Default::default()
        })),
        period: Some(pods::seconds(1)),
        ..Default::default()
    });
    let spec = pods::spec(vec![server]);
    pods::run(&ops, "web", spec, pod::WaitFor::Ready)
        .await
        .unwrap();
    let ended = tokio::spawn(dial(ops, String::new()));
    still_open("pod.Dial", &ended).await;
    administrator
        .deny(denial("system", "ops", "pod.Dial"))
        .await;
    ends("pod.Dial", ended).await;
    node.stop();
}

/// Long enough for the stream to have been permitted.
async fn still_open(action: &str, ended: &tokio::task::JoinHandle<Status>) {
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!ended.is_finished(), "{action} did not stay open");
}

async fn ends(action: &str, ended: tokio::task::JoinHandle<Status>) {
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    let status = ended
        .unwrap_or_else(|_| panic!("{action} goes on"))
        .unwrap();
    let reason = from_status(&status).reason;
    assert_eq!(
        reason,
        Some(Reason::PermissionDenied),
        "{action}: {status:?}"
    );
}
