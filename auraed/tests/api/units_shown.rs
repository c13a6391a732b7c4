// SPDX-License-Identifier: Apache-2.0
//! What is told of a unit, and starts that end as systemd's do: whose they are, when they changed,
//! what triggers them; files that come between two reloads; programs that are not there; units that
//! a call makes of every type that has commands or is mounted.

use api::schedule::v0 as wire;

use crate::units::{Machine, SOON, get, of, start, state, stop, units, until};

fn depends(detail: &wire::UnitDetail, kind: &str) -> Vec<String> {
    let all = detail.dependencies.iter();
    let mut all = all.filter(|it| it.kind == kind);
    all.next().map(|it| it.units.clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_unit_shows_its_group_its_times_and_what_starts_it() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    machine.unit("web.socket", "[Socket]\nListenStream=OUT.sock\n");
    machine.service(
        "real.service",
        "ExecStart=/bin/sleep 1000\nExecReload=/bin/sleep 1000",
    );
    let link = machine.at("lib").join("web.service");
    std::os::unix::fs::symlink("real.service", link).unwrap();
    start(&person, "web.socket").await;
    start(&person, "real.service").await;

    let detail = get(&person, "real.service").await;
    assert_eq!(depends(&detail, "TriggeredBy"), ["web.socket"]);
    // The unit's own name, and not the one by which it was meant.
    let socket = get(&person, "web.socket").await.status.unwrap();
    assert_eq!(socket.triggers, "real.service");
    let status = detail.status.unwrap();
    let of_main = std::fs::read_to_string(format!("/proc/{}/cgroup", status.main_pid.unwrap()));
    let of_main = of_main.unwrap();
    let line = of_main
        .lines()
        .find_map(|it| it.strip_prefix("0::"))
        .unwrap();
    assert!(!detail.control_group.is_empty() && detail.control_group != line);
    assert!(
        line.starts_with(&detail.control_group),
        "{line} {}",
        detail.control_group
    );
    let times = detail.times.unwrap();
    assert!(times.begun.is_some() && times.left.is_none() && times.main_ended.is_none());
    let begun = times.main_begun.unwrap();
    assert_eq!(detail.invocation.len(), 32);

    stop(&person, "real.service").await;
    let detail = get(&person, "real.service").await;
    let times = detail.times.unwrap();
    assert_eq!(times.main_begun.unwrap(), begun);
    let ended = times.main_ended.unwrap();
    assert!((ended.seconds, ended.nanos) > (begun.seconds, begun.nanos));
    assert!(times.left.is_some() && times.changed.is_some());
    // Its cell ends behind the stop.
    let begun = std::time::Instant::now();
    while !get(&person, "real.service").await.control_group.is_empty() {
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_simple_service_without_its_program_has_started_and_failed() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    // systemd.service(5), Type=: simple is up before its program is executed, exec after that.
    for (kind, result) in [("simple", "done"), ("idle", "done"), ("exec", "failed")] {
        let name = format!("{kind}.service");
        machine.service(&name, &format!("Type={kind}\nExecStart=/none/such"));
        assert_eq!(start(&person, &name).await.result, result, "{kind}");
        let status = until(&person, &name, "failed", |it| it.active == "failed").await;
        assert_eq!(status.exit_status, "203", "{kind}");
    }
    // A command before it is another matter.
    machine.service(
        "before.service",
        "ExecStartPre=/none/such\nExecStart=/bin/sleep 1000",
    );
    assert_eq!(start(&person, "before.service").await.result, "failed");
}

#[tokio::test]
async fn a_file_that_comes_after_a_reload_is_found_where_a_unit_wants_it() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    machine.unit("all.target", "[Unit]\nWants=late.service\n");
    start(&person, "all.target").await;
    machine.service("late.service", "ExecStart=/bin/sleep 1000");
    start(&person, "all.target").await;
    stop(&person, "all.target").await;
    start(&person, "all.target").await;
    assert_eq!(
        state(&person, "late.service").await,
        of(("active", "running", "success"))
    );
}

#[tokio::test]
async fn how_long_a_unit_may_run_follows_its_files() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    let file = |most: &str| {
        let text = format!("ExecStart=/bin/sleep 1000\nRuntimeMaxSec={most}");
        machine.service("short.service", &text);
    };
    file("infinity");
    start(&person, "short.service").await;
    file("100ms");
    let request = wire::ReloadUnitFilesRequest {};
    units(&person).reload_unit_files(request).await.unwrap();
    let ended = until(&person, "short", "over", |it| it.active == "failed").await;
    assert_eq!(ended.result, "timeout");
}

#[tokio::test]
async fn a_call_makes_no_unit_of_a_type_that_has_no_end() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    let make = |name: &str, text: String| wire::StartTransientUnitRequest {
        name: name.to_owned(),
        text,
        ..Default::default()
    };
    let mut api = units(&person);
    let refused = api.start_transient_unit(make("all.target", "[Unit]\n".into()));
    let words = refused.await.unwrap_err().message().to_owned();
    assert!(
        words.contains("service, slice, timer, socket, path"),
        "{words}"
    );

    machine.service(
        "asked.service",
        "Type=oneshot\nExecStart=/bin/sh -c 'echo asked >> OUT'",
    );
    let text = format!("[Path]\nPathExists={}\n", machine.at("sign").display());
    let made = api.start_transient_unit(make("asked.path", text));
    assert_eq!(made.await.unwrap().into_inner().result, "done");
    std::fs::write(machine.at("sign"), "").unwrap();
    crate::units::written(&machine, &["asked"]).await;
    stop(&person, "asked.path").await;
}
