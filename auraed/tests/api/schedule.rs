// SPDX-License-Identifier: Apache-2.0
//! Schedules on a real node: what is wished comes about, and again after a crash, after `kill -9`
//! of the daemon, after a reboot and with a full disk; on behalf of who has declared it, and of
//! nobody else. The workloads run the node's own busybox.

use std::time::{Duration, Instant};

use api::identity::v0 as identity;
use api::runtime::v0::{self as runtime, ObjectRef};
use api::schedule::v0 as wire;
use api::schedule::v0::history_entry::Outcome;
use api::schedule::v0::reason::Cause;
use api::schedule::v0::schedules_client::SchedulesClient;
use api::status::{Reason, from_status};
use api::tenant::v0 as tenants;
use tonic::transport::Channel;
use wire::when::When as Said;

use crate::caller::Person;
use crate::node::TestNode;

/// How long something may take that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) fn schedules(person: &Person) -> SchedulesClient<Channel> {
    SchedulesClient::new(person.node.channel())
}

pub(crate) fn at(path: String) -> Option<ObjectRef> {
    Some(ObjectRef {
        path,
        ..Default::default()
    })
}

pub(crate) fn millis(millis: i64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: millis / 1000,
        nanos: i32::try_from(millis % 1000).unwrap() * 1_000_000,
    }
}

/// A shell in a cell of its own, now, with a short back-off.
pub(crate) fn shell(name: &str, script: &str) -> wire::DeclareRequest {
    let words = ["/bin/busybox", "sh", "-c", script];
    let executable = runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at(format!("{name}/main")),
            spec: Some(runtime::ExecutableSpec {
                argv: words.map(str::to_owned).into(),
                stop_grace: Some(millis(0)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    wire::DeclareRequest {
        name: name.to_owned(),
        spec: Some(wire::ScheduleSpec {
            work: Some(wire::Work {
                run: Some(wire::work::Run::Executable(executable)),
                ..Default::default()
            }),
            backoff: Some(wire::Backoff {
                first: Some(millis(100)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(crate) fn with(
    mut request: wire::DeclareRequest,
    change: impl FnOnce(&mut wire::ScheduleSpec),
) -> wire::DeclareRequest {
    change(request.spec.as_mut().unwrap());
    request
}

fn when(said: Said) -> Option<wire::When> {
    Some(wire::When { when: Some(said) })
}

fn cron(pattern: &str) -> Option<wire::When> {
    when(Said::Cron(wire::Cron {
        pattern: pattern.to_owned(),
        ..Default::default()
    }))
}

const ALWAYS: i32 = wire::RestartPolicy::Always as i32;
const ON_FAILURE: i32 = wire::RestartPolicy::OnFailure as i32;

pub(crate) async fn declare(
    person: &Person,
    request: wire::DeclareRequest,
) -> Result<wire::ScheduleStatus, tonic::Status> {
    let declared = schedules(person).declare(request).await;
    declared.map(tonic::Response::into_inner)
}

/// Declares it, and waits for its first run.
pub(crate) async fn declare_and_run(person: &Person, request: wire::DeclareRequest) {
    let name = request.name.clone();
    declare(person, request).await.unwrap();
    until(person, &name, "running", |it| running(it) == Some(1)).await;
}

pub(crate) async fn get(person: &Person, name: &str) -> wire::ScheduleStatus {
    let request = wire::GetRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    schedules(person).get(request).await.unwrap().into_inner()
}

pub(crate) async fn history(person: &Person, name: &str) -> Vec<wire::HistoryEntry> {
    let request = wire::HistoryRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    let answer = schedules(person).history(request).await.unwrap();
    answer.into_inner().entries
}

pub(crate) fn cause(status: &wire::ScheduleStatus) -> Cause {
    status
        .why
        .as_ref()
        .map_or(Cause::Unspecified, wire::Reason::cause)
}

/// The schedule once it is as wanted.
pub(crate) async fn until(
    person: &Person,
    name: &str,
    what: &str,
    wanted: impl Fn(&wire::ScheduleStatus) -> bool,
) -> wire::ScheduleStatus {
    let begun = Instant::now();
    loop {
        let status = get(person, name).await;
        if wanted(&status) {
            return status;
        }
        assert!(begun.elapsed() < SOON, "not {what}: {status:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn until_why(person: &Person, name: &str, wanted: Cause) -> wire::ScheduleStatus {
    let what = wanted.as_str_name();
    until(person, name, what, |status| cause(status) == wanted).await
}

/// The run that goes on.
fn running(status: &wire::ScheduleStatus) -> Option<u64> {
    let run = status.runs.iter().find(|run| run.began.is_some())?;
    Some(run.number)
}

pub(crate) async fn object(person: &Person, path: &str) -> Option<runtime::Object> {
    let request = runtime::GetRequest {
        r#ref: at(path.to_owned()),
    };
    let found = person.node.runtime().get(request).await;
    found.ok().map(tonic::Response::into_inner)
}

pub(crate) fn executable(object: runtime::Object) -> runtime::ExecutableStatus {
    match object.object {
        Some(runtime::object::Object::Executable(status)) => status,
        other => panic!("{other:?}"),
    }
}

async fn kill(person: &Person, path: &str) {
    let request = runtime::SignalRequest {
        r#ref: at(path.to_owned()),
        signal: "KILL".to_owned(),
        all_processes: true,
    };
    person.node.runtime().signal(request).await.unwrap();
}

/// Removes one.
pub(crate) async fn remove(person: &Person, name: &str) -> Result<(), tonic::Status> {
    let request = wire::RemoveRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    schedules(person).remove(request).await.map(drop)
}

/// One that may be gone.
pub(crate) async fn found(person: &Person, name: &str) -> Option<wire::ScheduleStatus> {
    let request = wire::GetRequest {
        name: name.to_owned(),
        ..Default::default()
    };
    let found = schedules(person).get(request).await.ok()?;
    Some(found.into_inner())
}

/// Whether there is one.
pub(crate) async fn is_there(person: &Person, name: &str) -> bool {
    found(person, name).await.is_some()
}

macro_rules! change {
    ($person:expr, $method:ident, $request:ident, $name:expr) => {
        schedules($person)
            .$method(wire::$request {
                name: $name.to_owned(),
                ..Default::default()
            })
            .await
    };
}

#[tokio::test]
async fn what_a_user_runs_at_the_name_of_a_run_is_left_alone_and_no_label_makes_it_one() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let run = |labels: &[(&str, &str)]| {
        let pairs = labels.iter();
        let pairs = pairs.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let work = shell("web-1", "exec sleep 1000").spec.unwrap().work;
        let Some(wire::work::Run::Executable(mut request)) = work.unwrap().run else {
            panic!("no executable");
        };
        request.own_cell = Some(runtime::CellSpec::default());
        request.executable.as_mut().unwrap().labels = pairs.collect();
        request
    };
    let forged = run(&[("schedule.aurae/owner", "web"), ("schedule.aurae/run", "1")]);
    let refused = ann.node.runtime().run_executable(forged).await;
    let error = from_status(&refused.unwrap_err());
    assert_eq!(error.reason, Some(Reason::InvalidField));
    assert_eq!(error.field.as_deref(), Some("executable.labels"));
    assert!(error.message.contains("schedule.aurae/owner"), "{error}");
    ann.node.runtime().run_executable(run(&[])).await.unwrap();
    let request = with(shell("web", "exec sleep 1000"), |it| {
        it.restart = ALWAYS;
        it.history = Some(1);
    });
    declare(&ann, request).await.unwrap();
    // The first name is taken.
    for number in 2..5 {
        until(&ann, "web", "running", |it| running(it) == Some(number)).await;
        kill(&ann, &format!("web-{number}/main")).await;
    }
    until(&ann, "web", "running", |it| running(it) == Some(5)).await;
    change!(&ann, remove, RemoveRequest, "web").unwrap();
    let own = executable(object(&ann, "web-1/main").await.unwrap());
    assert!(own.exit.is_none(), "{own:?}");
}

#[tokio::test]
async fn what_crashes_is_started_again_with_its_history_until_somebody_stops_it() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let request = with(shell("web", "echo run; exec sleep 1000"), |it| {
        it.restart = ALWAYS
    });
    let declared = declare(&ann, request.clone()).await.unwrap();
    assert_eq!(
        (declared.generation, declared.owner.as_str()),
        (1, "acme/ann")
    );
    until(&ann, "web", "running", |it| running(it) == Some(1)).await;
    // Declared once more it is the same.
    assert_eq!(declare(&ann, request).await.unwrap().generation, 1);
    for number in 1..4 {
        kill(&ann, &format!("web-{number}/main")).await;
        until(&ann, "web", "running again", |it| {
            running(it) == Some(number + 1)
        })
        .await;
    }
    let ends = history(&ann, "web").await;
    let told: Vec<_> = ends.iter().map(|it| (it.number, it.outcome())).collect();
    assert_eq!(told, [1, 2, 3].map(|number| (number, Outcome::Failed)));
    assert!(ends[0].message.contains("signal 9"), "{ends:?}");
    // It says whose it is, and the records of the runs before are there.
    let run = executable(object(&ann, "web-4/main").await.unwrap());
    let labels = run.meta.unwrap().labels;
    assert_eq!(
        labels.get("schedule.aurae/owner").map(String::as_str),
        Some("web")
    );
    assert!(
        executable(object(&ann, "web-1/main").await.unwrap())
            .exit
            .is_some()
    );
    // Whoever stops the run ends the wish.
    let stop = runtime::StopRequest {
        r#ref: at("web-4".to_owned()),
        grace: Some(millis(0)),
    };
    ann.node.runtime().stop(stop).await.unwrap();
    let status = until_why(&ann, "web", Cause::Paused).await;
    assert!(
        status
            .why
            .unwrap()
            .message
            .contains("acme/ann stopped run 4")
    );
    change!(&ann, resume, ResumeRequest, "web").unwrap();
    until(&ann, "web", "running", |it| running(it) == Some(5)).await;
    change!(&ann, remove, RemoveRequest, "web").unwrap();
    assert!(
        executable(object(&ann, "web-5/main").await.unwrap())
            .exit
            .is_some()
    );
    let gone = change!(&ann, pause, PauseRequest, "web").unwrap_err();
    assert_eq!(from_status(&gone).reason, Some(Reason::NotFound));
    node.stop();
}

#[tokio::test]
async fn a_daemon_that_is_killed_in_any_state_is_followed_by_one_that_goes_on() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let always = |name: &str, script: &str| with(shell(name, script), |it| it.restart = ALWAYS);
    declare(&ann, always("runs", "exec sleep 1000"))
        .await
        .unwrap();
    let slow = with(always("backs-off", "exit 3"), |it| {
        it.backoff = Some(wire::Backoff {
            first: Some(millis(600_000)),
            most: Some(millis(600_000)),
            ..Default::default()
        });
    });
    declare(&ann, slow).await.unwrap();
    let waits = with(shell("waits", "true"), |it| it.when = cron("0 0 1 1 *"));
    declare(&ann, waits).await.unwrap();
    declare(&ann, shell("done", "exit 0")).await.unwrap();
    declare(&ann, always("paused", "exec sleep 1000"))
        .await
        .unwrap();
    change!(&ann, pause, PauseRequest, "paused").unwrap();
    until(&ann, "runs", "running", |it| running(it).is_some()).await;
    until(&ann, "paused", "running", |it| running(it).is_some()).await;
    until_why(&ann, "backs-off", Cause::BackOff).await;
    until_why(&ann, "done", Cause::Succeeded).await;
    let before = executable(object(&ann, "runs-1/main").await.unwrap()).pid;
    for round in 0..3u32 {
        // One is just being made, ended and declared.
        let fresh = format!("fresh-{round}");
        declare(&ann, always(&fresh, "exec sleep 1000"))
            .await
            .unwrap();
        let number = running(&get(&ann, "paused").await).unwrap();
        kill(&ann, &format!("paused-{number}/main")).await;
        node.kill_daemon();
        let ann = node.administrator().await;
        until(&ann, &fresh, "running", |it| running(it).is_some()).await;
        until(&ann, "runs", "running", |it| running(it) == Some(1)).await;
        until_why(&ann, "backs-off", Cause::BackOff).await;
        until_why(&ann, "waits", Cause::Waiting).await;
        until_why(&ann, "done", Cause::Succeeded).await;
        until_why(&ann, "paused", Cause::Paused).await;
        let after = executable(object(&ann, "runs-1/main").await.unwrap()).pid;
        assert_eq!(after, before, "it was not started anew");
        // Nothing runs twice.
        let request = runtime::ListRequest {
            running_only: true,
            selector: "schedule.aurae/owner".to_owned(),
            ..Default::default()
        };
        let list = ann.node.runtime().list(request).await;
        let list = list.unwrap().into_inner().objects.len();
        assert_eq!(list, 2 + usize::try_from(round).unwrap());
        change!(&ann, trigger, TriggerRequest, "paused").unwrap();
        until(&ann, "paused", "running", |it| running(it).is_some()).await;
        let number = running(&get(&ann, "paused").await).unwrap();
        kill(&ann, &format!("paused-{number}/main")).await;
        let again = wire::RemoveRequest {
            name: "paused".to_owned(),
            ..Default::default()
        };
        schedules(&ann).remove(again).await.unwrap();
        declare(&ann, always("paused", "exec sleep 1000"))
            .await
            .unwrap();
        until(&ann, "paused", "running", |it| running(it).is_some()).await;
        change!(&ann, pause, PauseRequest, "paused").unwrap();
    }
    node.stop();
}

#[tokio::test]
async fn after_a_reboot_what_is_to_run_runs_again_as_its_policy_says() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let policies = [("always", ALWAYS), ("on-failure", ON_FAILURE), ("no", 0)];
    for (name, restart) in policies {
        let request = with(shell(name, "exec sleep 1000"), |it| it.restart = restart);
        declare(&ann, request).await.unwrap();
        until(&ann, name, "running", |it| running(it) == Some(1)).await;
    }
    node.reboot(Duration::ZERO);
    let ann = node.administrator().await;
    for name in ["always", "on-failure"] {
        until(&ann, name, "running again", |it| running(it) == Some(2)).await;
        let ends = history(&ann, name).await;
        assert_eq!(ends[0].outcome(), Outcome::Lost, "{ends:?}");
    }
    until_why(&ann, "no", Cause::Failed).await;
    node.stop();
}

#[tokio::test]
async fn a_cron_pattern_of_each_second_keeps_its_overlap_policy() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let each = |name: &str, overlap: wire::Overlap| {
        with(shell(name, "exec sleep 1000"), |it| {
            it.when = cron("* * * * * *");
            it.overlap = overlap.into();
        })
    };
    declare(&ann, each("forbid", wire::Overlap::Forbid))
        .await
        .unwrap();
    declare(&ann, each("replace", wire::Overlap::Replace))
        .await
        .unwrap();
    declare(&ann, each("allow", wire::Overlap::Allow))
        .await
        .unwrap();
    until(&ann, "forbid", "skipped twice", |it| {
        it.last
            .as_ref()
            .is_some_and(|last| last.outcome() == Outcome::Skipped)
    })
    .await;
    assert_eq!(running(&get(&ann, "forbid").await), Some(1));
    until(&ann, "replace", "replaced", |it| {
        running(it).is_some_and(|it| it >= 3)
    })
    .await;
    let ends = history(&ann, "replace").await;
    assert!(
        ends.iter().all(|it| it.outcome() == Outcome::Stopped),
        "{ends:?}"
    );
    until(&ann, "allow", "three at once", |it| {
        it.runs.iter().filter(|run| run.began.is_some()).count() >= 3
    })
    .await;
    let short = with(shell("short", "exit 0"), |it| it.when = cron("* * * * * *"));
    declare(&ann, short).await.unwrap();
    until(&ann, "short", "run three times", |it| it.number >= 3).await;
    for name in ["forbid", "replace", "allow", "short"] {
        change!(&ann, remove, RemoveRequest, name).unwrap();
    }
    node.stop();
}

#[tokio::test]
async fn a_time_that_passed_while_the_node_was_down_is_skipped_or_made_up_for() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let each = |name: &str, missed: wire::Missed| {
        with(shell(name, "exit 0"), |it| {
            it.when = cron("*/5 * * * * *");
            it.missed = missed.into();
        })
    };
    declare(&ann, each("skip", wire::Missed::Skip))
        .await
        .unwrap();
    declare(&ann, each("made-up", wire::Missed::RunOnce))
        .await
        .unwrap();
    until_why(&ann, "made-up", Cause::Waiting).await;
    node.reboot(Duration::from_secs(16));
    let ann = node.administrator().await;
    let told = async |name: &str, found: &dyn Fn(&wire::HistoryEntry) -> bool| {
        let begun = Instant::now();
        while !history(&ann, name).await.iter().any(found) {
            assert!(begun.elapsed() < SOON, "{name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let missed = |it: &wire::HistoryEntry| it.trigger() == wire::Trigger::Missed;
    told("skip", &|it| missed(it) && it.outcome() == Outcome::Skipped).await;
    told("made-up", &|it| {
        missed(it) && it.outcome() == Outcome::Succeeded
    })
    .await;
    node.stop();
}

#[tokio::test]
async fn a_schedule_waits_for_others_and_comes_after_them() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let need = |schedule: &str| wire::Need {
        of: Some(wire::need::Of::Schedule(schedule.to_owned())),
        state: wire::need::State::Running.into(),
    };
    let web = with(shell("web", "exec sleep 1000"), |it| {
        it.needs = vec![need("db")]
    });
    declare(&ann, web).await.unwrap();
    let status = until_why(&ann, "web", Cause::Dependency).await;
    assert_eq!(status.why.unwrap().schedule, "db");
    let after = when(Said::After(wire::After {
        schedule: "job".to_owned(),
        success: true,
    }));
    let next = with(shell("next", "exit 0"), |it| it.when = after);
    declare(&ann, next).await.unwrap();
    until_why(&ann, "next", Cause::After).await;
    // What leads back to itself is refused.
    let back = when(Said::After(wire::After {
        schedule: "next".to_owned(),
        success: false,
    }));
    for name in ["next", "job"] {
        let around = with(shell(name, "exit 0"), |it| it.when = back.clone());
        let error = from_status(&declare(&ann, around).await.unwrap_err());
        assert_eq!(error.field.as_deref(), Some("spec.when.after.schedule"));
    }
    declare(&ann, shell("db", "exec sleep 1000")).await.unwrap();
    until(&ann, "web", "running", |it| running(it) == Some(1)).await;
    declare(&ann, shell("job", "test -e /nowhere"))
        .await
        .unwrap();
    until_why(&ann, "job", Cause::Failed).await;
    assert_eq!(get(&ann, "next").await.number, 0, "it failed");
    declare(&ann, shell("job", "exit 0")).await.unwrap();
    until(&ann, "next", "run", |it| it.last.is_some()).await;
    node.stop();
}

/// `web` of the tenant `acme` is refused because its owner was disabled.
async fn until_disabled(administrator: &Person) {
    let begun = Instant::now();
    loop {
        let request = wire::WhyRequest {
            tenant: "acme".into(),
            name: "web".into(),
        };
        let why = schedules(administrator).why(request).await.unwrap();
        let why = why.into_inner();
        if why.cause() == Cause::Permission {
            assert!(why.message.contains("disabled"), "{why:?}");
            return;
        }
        assert!(begun.elapsed() < SOON, "{why:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn each_act_is_decided_anew_on_behalf_of_who_has_declared_it() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let request = with(shell("web", "exec sleep 1000"), |it| it.restart = ALWAYS);
    declare(&ann, request).await.unwrap();
    until(&ann, "web", "running", |it| running(it) == Some(1)).await;
    // What is denied at its name is denied to its runs.
    let deny = identity::DenyRequest {
        tenant: "acme".into(),
        user: "ann".into(),
        action: "runtime.RunExecutable".into(),
        path: "web".into(),
        ..Default::default()
    };
    let grant = administrator.deny(deny).await;
    kill(&ann, "web-1/main").await;
    let status = until_why(&ann, "web", Cause::Permission).await;
    let message = status.why.unwrap().message;
    assert!(
        message.contains("acme/ann") && message.contains("RunExecutable"),
        "{message}"
    );
    let ends = history(&ann, "web").await;
    assert!(
        ends.iter().any(|it| it.outcome() == Outcome::Refused),
        "{ends:?}"
    );
    administrator.withdraw(grant.id).await;
    // Nobody has to ask.
    let again = until(&ann, "web", "running again", |it| running(it).is_some()).await;
    let path = format!("web-{}/main", running(&again).unwrap());
    let user = identity::DisableUserRequest {
        tenant: "acme".into(),
        name: "ann".into(),
    };
    administrator
        .node
        .identity()
        .disable_user(user)
        .await
        .unwrap();
    let target = Some(ObjectRef {
        tenant: "acme".into(),
        path,
        ..Default::default()
    });
    let signal = runtime::SignalRequest {
        r#ref: target,
        signal: "KILL".to_owned(),
        all_processes: true,
    };
    administrator.node.runtime().signal(signal).await.unwrap();
    until_disabled(&administrator).await;
    node.stop();
}

#[tokio::test]
async fn a_hostile_tenant_has_its_quota_and_its_crashes_slow_nobody_else() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let evil = administrator.introduce(&node, "evil", "eve", None).await;
    let good = administrator.introduce(&node, "good", "gil", None).await;
    let set = tenants::SetRequest {
        name: "evil".into(),
        quotas: Some(tenants::Quotas {
            schedules: Some("40".into()),
            ..Default::default()
        }),
    };
    let mut quotas = tenants::tenant_client::TenantClient::new(administrator.node.channel());
    quotas.set(set).await.unwrap();
    let mut refused = 0;
    for number in 0..60 {
        let crash = with(shell(&format!("crash-{number}"), "exit 1"), |it| {
            it.restart = ALWAYS;
            it.backoff = Some(wire::Backoff {
                first: Some(millis(100)),
                most: Some(millis(100)),
                ..Default::default()
            });
        });
        if let Err(status) = declare(&evil, crash).await {
            let error = from_status(&status);
            assert_eq!(error.reason, Some(Reason::LimitExceeded), "{error:?}");
            refused += 1;
        }
    }
    assert_eq!(refused, 20);
    let mut slowest = Duration::ZERO;
    for number in 0..5 {
        let begun = Instant::now();
        let name = format!("calm-{number}");
        declare(&good, shell(&name, "exit 0")).await.unwrap();
        until_why(&good, &name, Cause::Succeeded).await;
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
    node.stop();
}

#[tokio::test]
async fn a_full_disk_stops_no_restart_and_refuses_new_wishes() {
    let Some(mut node) = TestNode::start_on_small_disk() else {
        return;
    };
    let ann = node.administrator().await;
    let request = with(shell("web", "exec sleep 1000"), |it| it.restart = ALWAYS);
    declare(&ann, request).await.unwrap();
    until(&ann, "web", "running", |it| running(it) == Some(1)).await;
    node.fill_disk();
    for number in 1..4 {
        let path = format!(
            "/proc/{}",
            executable(object(&ann, &format!("web-{number}/main")).await.unwrap()).pid
        );
        let pid = path.rsplit('/').next().unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        until(&ann, "web", "running again", |it| {
            running(it) == Some(number + 1)
        })
        .await;
    }
    until(&ann, "web", "unwritten", |it| it.unwritten).await;
    let refused = declare(&ann, shell("new", "exit 0")).await.unwrap_err();
    assert_eq!(
        from_status(&refused).reason,
        Some(Reason::Degraded),
        "{refused:?}"
    );
    // A daemon that begins on it knows what it kept, and goes on.
    node.kill_daemon();
    let ann = node.administrator().await;
    until(&ann, "web", "running", |it| running(it) == Some(4)).await;
    let refused = declare(&ann, shell("new", "exit 0")).await.unwrap_err();
    assert_eq!(from_status(&refused).reason, Some(Reason::Degraded));
    node.empty_disk();
    until(&ann, "web", "written", |it| !it.unwritten).await;
    node.kill_daemon();
    let ann = node.administrator().await;
    until(&ann, "web", "running", |it| running(it) == Some(4)).await;
    node.stop();
}

#[tokio::test]
async fn what_can_never_come_about_is_refused_by_its_field() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let field = |status: tonic::Status| from_status(&status).field.unwrap_or_default();
    let three = with(shell("three", "true"), |it| it.when = cron("* * *"));
    let refused = declare(&ann, three).await.unwrap_err();
    assert!(format!("{:?}", from_status(&refused)).contains("`* * * * *`"));
    assert_eq!(field(refused), "spec.when.cron.pattern");
    let elsewhere = with(shell("pinned", "true"), |it| it.node = "elsewhere".into());
    assert_eq!(
        field(declare(&ann, elsewhere).await.unwrap_err()),
        "spec.node"
    );
    let past = Said::At(prost_types::Timestamp {
        seconds: 1,
        nanos: 0,
    });
    let past = with(shell("past", "true"), |it| it.when = when(past));
    assert_eq!(
        field(declare(&ann, past).await.unwrap_err()),
        "spec.when.at"
    );
    node.stop();
}

#[tokio::test]
async fn why_names_what_is_in_the_way() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    let limited = with(shell("limited", "exit 1"), |it| {
        it.restart = ON_FAILURE;
        it.start_limit = Some(wire::StartLimit {
            starts: 2,
            within: Some(millis(60_000)),
        });
    });
    declare(&ann, limited).await.unwrap();
    until_why(&ann, "limited", Cause::StartLimit).await;
    let mut image = shell("image", "true");
    let work = image.spec.as_mut().unwrap().work.as_mut().unwrap();
    if let Some(wire::work::Run::Executable(run)) = &mut work.run {
        run.executable.as_mut().unwrap().spec.as_mut().unwrap().main = true;
        run.own_cell = Some(runtime::CellSpec {
            container: Some(runtime::Container {
                image: "nowhere.invalid/none:1".into(),
                pull: runtime::container::Pull::Never.into(),
                ..Default::default()
            }),
            ..Default::default()
        });
    }
    declare(&ann, image).await.unwrap();
    until_why(&ann, "image", Cause::Image).await;
    let soon = std::time::SystemTime::now() + Duration::from_secs(3);
    let soon = with(shell("soon", "exit 0"), |it| {
        it.when = when(Said::At(soon.into()))
    });
    let status = declare(&ann, soon).await.unwrap();
    assert_eq!(cause(&status), Cause::Waiting);
    until_why(&ann, "soon", Cause::Succeeded).await;
    let lax = wire::Lax {
        quiet_for: Some(millis(3_600_000)),
        ..Default::default()
    };
    let lax = with(shell("lax", "exit 0"), |it| it.when = when(Said::Lax(lax)));
    declare(&ann, lax).await.unwrap();
    until_why(&ann, "lax", Cause::Pressure).await;
    let all = wire::Lax {
        cpu: Some(100),
        memory: Some(100),
        io: Some(100),
        quiet_for: Some(millis(0)),
        ..Default::default()
    };
    let lax = with(shell("lax", "exit 0"), |it| it.when = when(Said::Lax(all)));
    declare(&ann, lax).await.unwrap();
    // Where the kernel tells its pressure.
    let wanted = match std::path::Path::new("/proc/pressure/cpu").exists() {
        true => Cause::Succeeded,
        false => Cause::Pressure,
    };
    until_why(&ann, "lax", wanted).await;
    node.stop();
}

/// A cell with two executables.
fn pair(name: &str) -> wire::DeclareRequest {
    let program = |program: &str| runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at(format!("{name}/{program}")),
            spec: Some(runtime::ExecutableSpec {
                argv: vec!["/bin/sleep".into(), "1000".into()],
                stop_grace: Some(millis(0)),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    let cell = runtime::RunCellRequest {
        cell: Some(runtime::Cell {
            r#ref: at(name.to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    };
    let work = wire::CellWork {
        cell: Some(cell),
        executables: vec![program("one"), program("two")],
    };
    with(shell(name, "true"), |it| {
        it.restart = ALWAYS;
        it.work = Some(wire::Work {
            run: Some(wire::work::Run::Cell(work)),
            ..Default::default()
        });
    })
}

#[tokio::test]
async fn a_cell_of_several_ends_with_the_first_that_fails_and_begins_again_whole() {
    let Some(mut node) = TestNode::start() else {
        return;
    };
    let ann = node.administrator().await;
    declare_and_run(&ann, pair("duo")).await;
    kill(&ann, "duo-1/two").await;
    until(&ann, "duo", "running again", |it| running(it) == Some(2)).await;
    let ends = history(&ann, "duo").await;
    assert!(
        ends[0].message.contains("two killed by signal 9"),
        "{ends:?}"
    );
    assert!(
        executable(object(&ann, "duo-1/one").await.unwrap())
            .exit
            .is_some()
    );
    node.kill_daemon();
    let ann = node.administrator().await;
    until(&ann, "duo", "running on", |it| running(it) == Some(2)).await;
    // Another wish takes its place.
    let changed = with(pair("duo"), |it| it.history = Some(3));
    assert_eq!(declare(&ann, changed).await.unwrap().generation, 2);
    until(&ann, "duo", "replaced", |it| running(it) == Some(3)).await;
    let ends = history(&ann, "duo").await;
    assert_eq!(ends.last().unwrap().outcome(), Outcome::Stopped, "{ends:?}");
    // The owner and the schedule are on record.
    let request = identity::AuditRequest {
        action: "runtime.RunCell".into(),
        ..Default::default()
    };
    let lines = ann.node.identity().audit(request).await.unwrap();
    let mut lines = lines.into_inner();
    let mut told = false;
    while let Some(line) = lines.message().await.unwrap() {
        let text = format!("{line:?}");
        told |= text.contains("schedule duo run 3") && text.contains("user/admin");
    }
    assert!(told, "no line names the schedule");
    change!(&ann, remove, RemoveRequest, "duo").unwrap();
    node.stop();
}
