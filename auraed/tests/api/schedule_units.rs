// SPDX-License-Identifier: Apache-2.0
//! Schedules that need units of the machine: a container after a service after a mount.

use api::schedule::v0 as wire;
use api::schedule::v0::reason::Cause;
use api::status::from_status;

use crate::schedule::{declare, shell, until as until_status, until_why, with};
use crate::units::{Machine, get, job, start, stop, units, until};

fn needs(name: &str, unit: &str, state: wire::need::State) -> wire::DeclareRequest {
    let need = wire::Need {
        of: Some(wire::need::Of::Unit(unit.to_owned())),
        state: state.into(),
    };
    with(shell(name, "exec sleep 1000"), |it| it.needs = vec![need])
}

#[tokio::test]
async fn a_schedule_waits_for_a_unit_of_the_machine() {
    use wire::need::State;
    let Some(mut machine) = Machine::start() else {
        return;
    };
    machine.service("db.service", "ExecStart=/bin/sleep 1000");
    machine.service("fills.service", "Type=oneshot\nExecStart=/bin/true");
    machine.service("fails.service", "Type=oneshot\nExecStart=/bin/false");
    let ann = machine.node.administrator().await;
    for request in [
        needs("web", "db.service", State::Running),
        needs("reads", "fills.service", State::Succeeded),
        needs("hopes", "fails.service", State::Succeeded),
        needs("lost", "no-such.service", State::Running),
    ] {
        declare(&ann, request).await.unwrap();
    }
    let until_said = async |name: &str, wanted: &str| {
        let is_said = |it: &wire::ScheduleStatus| {
            let why = it.why.as_ref();
            why.is_some_and(|why| why.cause() == Cause::Dependency && why.message == wanted)
        };
        until_status(&ann, name, wanted, is_said).await;
    };
    until_said("web", "it needs the unit db.service, which is inactive").await;
    until_said(
        "reads",
        "it needs the unit fills.service, which is inactive",
    )
    .await;
    until_said(
        "lost",
        "it needs the unit no-such.service, which isn't there",
    )
    .await;
    start(&ann, "fills").await;
    until_why(&ann, "reads", Cause::Running).await;
    start(&ann, "fails").await;
    until_said("hopes", "it needs the unit fails.service, which has failed").await;
    // The next daemon waits for the same, and what runs isn't ended by the unit's end.
    machine.node.kill_daemon();
    let ann = machine.node.administrator().await;
    until_why(&ann, "web", Cause::Dependency).await;
    start(&ann, "db").await;
    until_why(&ann, "web", Cause::Running).await;
    stop(&ann, "db").await;
    until_why(&ann, "web", Cause::Running).await;
    machine.node.stop();
}

#[tokio::test]
async fn what_no_schedule_can_need_is_refused_by_its_field() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let ann = machine.node.administrator().await;
    let field = async |request| {
        let refused = declare(&ann, request).await.unwrap_err();
        from_status(&refused).field.unwrap_or_default()
    };
    let running = wire::need::State::Running;
    assert_eq!(field(needs("a", "db", running)).await, "spec.needs[0].unit");
    let mut none = needs("c", "db.service", running);
    none.spec.as_mut().unwrap().needs[0].of = None;
    assert_eq!(field(none).await, "spec.needs[0].of");
    // Another tenant learns nothing of the machine's units.
    let bob = ann.introduce(&machine.node, "blue", "bob", None).await;
    let refused = declare(&bob, needs("d", "db.service", running)).await;
    let refused = from_status(&refused.unwrap_err());
    assert_eq!(refused.field.as_deref(), Some("spec.needs[0].unit"));
    machine.node.stop();
}

#[tokio::test]
async fn a_unit_says_why_it_does_not_run() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.service("slow.service", "Type=oneshot\nExecStart=/bin/sleep 1000");
    machine.unit(
        "late.service",
        "[Unit]\nAfter=slow.service\nWants=slow.service\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    machine.unit(
        "unmet.service",
        "[Unit]\nConditionPathExists=/no/such/path\n[Service]\nExecStart=/bin/true\n",
    );
    machine.service("fails.service", "ExecStart=/bin/sh -c 'exit 3'");
    let ann = machine.node.administrator().await;
    let why = async |name: &str| get(&ann, name).await.why.unwrap();
    assert_eq!(why("late.service").await.cause(), Cause::Unwanted);
    let request = wire::UnitJobRequest {
        no_wait: true,
        ..job("late")
    };
    units(&ann).start_unit(request).await.unwrap();
    until(&ann, "slow", "starting", |it| it.active == "activating").await;
    let late = why("late.service").await;
    assert_eq!(
        (late.cause(), &*late.unit),
        (Cause::Dependency, "slow.service")
    );
    assert_eq!(why("slow.service").await.cause(), Cause::Starting);
    start(&ann, "unmet").await;
    let unmet = why("unmet.service").await;
    assert_eq!(unmet.cause(), Cause::Condition);
    assert!(unmet.message.contains("/no/such/path"), "{unmet:?}");
    start(&ann, "fails").await;
    until(&ann, "fails", "failed", |it| it.active == "failed").await;
    let failed = why("fails.service").await;
    assert_eq!(failed.cause(), Cause::Failed);
    assert!(failed.message.contains('3'), "{failed:?}");
    machine.node.stop();
}
