// SPDX-License-Identifier: Apache-2.0
//! Health checks of runs: what is ready, what is stopped, and what follows.

use std::time::{Duration, Instant};

use api::pod::v0 as pod;
use api::runtime::v0 as runtime;
use api::schedule::v0 as wire;
use api::schedule::v0::history_entry::Outcome;
use api::schedule::v0::reason::Cause;
use api::status::from_status;

use crate::caller::Person;
use crate::node::TestNode;
use crate::schedule::{SOON, at, declare, history, millis, shell, until, until_why, with};

fn asked(ask: pod::probe::Ask) -> pod::Probe {
    pod::Probe {
        ask: Some(ask),
        period: Some(millis(1000)),
        timeout: Some(millis(10_000)),
        failure_threshold: Some(1),
        ..Default::default()
    }
}

fn by_program(script: &str) -> pod::Probe {
    let words = ["/bin/busybox", "sh", "-c", script];
    let argv = words.map(str::to_owned).into();
    asked(pod::probe::Ask::Exec(pod::ExecAction { argv }))
}

/// A server needs a moment until it listens.
fn by_page(port: u32, path: &str) -> pod::Probe {
    let page = pod::HttpAction {
        port,
        path: path.to_owned(),
        ..Default::default()
    };
    pod::Probe {
        initial_delay: Some(millis(1000)),
        ..asked(pod::probe::Ask::Http(page))
    }
}

fn checked(name: &str, script: &str, health: pod::Probe) -> wire::DeclareRequest {
    with(shell(name, script), |it| {
        it.health = Some(health);
        it.restart = wire::RestartPolicy::Always.into();
    })
}

/// Serves /tmp, from which a file goes when the script says so.
const SERVES: &str = "echo yes > /tmp/ok; busybox httpd -f -p 8080 -h /tmp & \
    until test -e /tmp/ends; do sleep 0.1; done; rm /tmp/ok; wait";

/// A run that has failed for that reason is in the history. It needn't be the first: on a busy
/// machine a server may not listen yet when it is asked for the first time.
async fn until_failed(person: &Person, name: &str, why: &str) {
    let begun = Instant::now();
    loop {
        let entries = history(person, name).await;
        let failed =
            |it: &wire::HistoryEntry| it.outcome() == Outcome::Failed && it.message.contains(why);
        if entries.iter().any(failed) {
            return;
        }
        assert!(begun.elapsed() < SOON, "no {why:?} in {entries:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_run_that_does_not_answer_is_stopped_and_has_failed() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let by_file = by_program("test -e /tmp/ok");
    let script = "echo > /tmp/ok; sleep 4; rm /tmp/ok; sleep 1000";
    let serves = SERVES.replace("test -e /tmp/ends", "sleep 4");
    for request in [
        checked("file", script, by_file),
        checked("page", &serves, by_page(8080, "/ok")),
        checked("well", "sleep 1000", by_program("true")),
    ] {
        declare(&ann, request).await.unwrap();
    }
    for name in ["file", "page", "well"] {
        until(&ann, name, "ready", |it| it.ready == 1).await;
    }
    // The next daemon asks on.
    node.kill_daemon();
    let ann = node.administrator().await;
    for (name, answer) in [
        ("file", "the program exited with 1"),
        ("page", "the answer's status is 404"),
    ] {
        until(&ann, name, "another run", |it| it.number > 1).await;
        until_failed(&ann, name, &format!("its health check failed: {answer}")).await;
        until(&ann, name, "ready again", |it| it.ready == 1).await;
    }
    let well = until(&ann, "well", "ready", |it| it.ready == 1).await;
    assert_eq!(well.number, 1);
    node.stop();
}

#[tokio::test]
async fn what_is_needed_must_have_answered() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let need = wire::Need {
        of: Some(wire::need::Of::Schedule("db".to_owned())),
        ..Default::default()
    };
    let script = "until test -e /tmp/go; do sleep 0.1; done; echo > /tmp/up; sleep 1000";
    let health = pod::Probe {
        failure_threshold: Some(1000),
        ..by_program("test -e /tmp/up")
    };
    declare(&ann, checked("db", script, health)).await.unwrap();
    let web = with(shell("web", "sleep 1000"), |it| it.needs = vec![need]);
    declare(&ann, web).await.unwrap();
    let begun = |it: &wire::ScheduleStatus| it.runs.iter().any(|run| run.began.is_some());
    until(&ann, "db", "running", |it| begun(it) && it.ready == 0).await;
    until_why(&ann, "web", Cause::Dependency).await;
    let go = ["/bin/busybox", "touch", "/tmp/go"];
    beside(&ann, "db-1", &go).await;
    until_why(&ann, "web", Cause::Running).await;
    node.stop();
}

#[tokio::test]
async fn what_no_check_can_be_is_refused_by_its_field() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let field = async |health| {
        let refused = declare(&ann, checked("web", "true", health)).await;
        from_status(&refused.unwrap_err()).field.unwrap_or_default()
    };
    assert_eq!(field(pod::Probe::default()).await, "spec.health.ask");
    assert_eq!(field(by_page(0, "/")).await, "spec.health.http.port");
    let late = pod::Probe {
        period: Some(millis(10)),
        ..by_program("true")
    };
    assert_eq!(field(late).await, "spec.health.period");
    let grace = pod::Probe {
        grace: Some(millis(1000)),
        ..by_program("true")
    };
    assert_eq!(field(grace).await, "spec.health.grace");
    node.stop();
}

/// Runs another program in a cell, to its end.
async fn beside(person: &Person, cell: &str, words: &[&str]) {
    let request = runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at(format!("{cell}/beside")),
            spec: Some(runtime::ExecutableSpec {
                argv: words.iter().map(ToString::to_string).collect(),
                ..Default::default()
            }),
            ..Default::default()
        }),
        wait_for: runtime::WaitFor::Exited.into(),
        ..Default::default()
    };
    person.node.runtime().run_executable(request).await.unwrap();
}
