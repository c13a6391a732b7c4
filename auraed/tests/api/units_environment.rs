// SPDX-License-Identifier: Apache-2.0
//! What callers give the unit manager and its units while they are there: variables of all
//! commands, watchdogs that don't count, settings, marks. By the API, by the bus, and by systemd's
//! own `systemctl`.

use api::schedule::v0 as wire;
use api::status::{Reason, from_status};

use crate::caller::Person;
use crate::units::{Machine, kill, start, state, status, stop, units, until};
use crate::units_bus::{Bus, MANAGER, NAME};

const INTERFACE: &str = "org.freedesktop.systemd1.Manager";

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|it| (*it).to_owned()).collect()
}

async fn give(person: &Person, unset: &[&str], set: &[&str]) -> Result<Vec<String>, String> {
    let request = wire::SetUnitManagerRequest {
        unset: words(unset),
        set: words(set),
        ..Default::default()
    };
    let given = units(person).set_unit_manager(request).await;
    let given = given.map_err(|error| from_status(&error).message)?;
    Ok(given.into_inner().environment)
}

async fn given(person: &Person) -> wire::UnitManager {
    let request = wire::GetUnitManagerRequest {};
    let given = units(person).get_unit_manager(request).await;
    given.unwrap().into_inner()
}

async fn set_watchdogs(person: &Person, count: bool) {
    let request = wire::SetUnitManagerRequest {
        service_watchdogs: Some(count),
        ..Default::default()
    };
    units(person).set_unit_manager(request).await.unwrap();
}

async fn set(person: &Person, name: &str, settings: &[(&str, &str)]) -> Result<(), String> {
    let setting = |(name, value): &(&str, &str)| wire::UnitSetting {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    let request = wire::SetUnitPropertiesRequest {
        name: name.to_owned(),
        settings: settings.iter().map(setting).collect(),
        runtime: true,
    };
    let set = units(person).set_unit_properties(request).await;
    set.map(|_| ()).map_err(|error| from_status(&error).message)
}

#[tokio::test]
async fn variables_of_the_manager_are_those_of_later_commands_over_a_killed_daemon() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "says.service",
        "Type=oneshot\nEnvironment=OWN=unit\nExecStart=/bin/sh -c 'echo $GIVEN-$OWN-$PATH >> OUT'",
    );
    let before = given(&administrator).await.environment;
    assert_eq!(before.len(), 1);
    assert!(before[0].starts_with("PATH=/"), "{before:?}");
    let set = ["GIVEN=a b", "OWN=manager", "PATH=/bin"];
    let all = give(&administrator, &[], &set).await.unwrap();
    assert_eq!(all, set);
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    assert_eq!(given(&administrator).await.environment, set);
    assert_eq!(start(&administrator, "says").await.result, "done");
    // All or none, in bounds, and only what is a variable.
    assert!(give(&administrator, &["OWN"], &["1=x"]).await.is_err());
    let large = format!("LARGE={}", "x".repeat(16 << 10));
    let refused = give(&administrator, &["OWN"], &[&large]).await.unwrap_err();
    assert!(refused.contains("16384"), "{refused}");
    let left = give(&administrator, &["GIVEN", "OWN=other", "PATH"], &[]).await;
    let left = left.unwrap();
    assert_eq!(left, ["OWN=manager".to_owned(), before[0].clone()]);
    assert_eq!(start(&administrator, "says").await.result, "done");
    let path = before[0].strip_prefix("PATH=").unwrap();
    assert_eq!(
        machine.out(),
        ["a b-unit-/bin".to_owned(), format!("-unit-{path}")]
    );
    machine.node.stop();
}

#[tokio::test]
async fn a_watchdog_that_does_not_count_ends_no_service_until_it_does() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "silent.service",
        "WatchdogSec=1\nNotifyAccess=all\nExecStart=/bin/sleep 1000",
    );
    assert!(given(&administrator).await.service_watchdogs);
    set_watchdogs(&administrator, false).await;
    start(&administrator, "silent").await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(state(&administrator, "silent").await.1, "running");
    assert!(!given(&administrator).await.service_watchdogs);
    set_watchdogs(&administrator, true).await;
    let failed = until(&administrator, "silent", "failed", |it| {
        it.active == "failed"
    });
    assert_eq!(failed.await.result, "watchdog");
    machine.node.stop();
}

#[tokio::test]
async fn settings_and_marks_of_a_unit_that_is_there_are_kept_and_bounded() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "web.service",
        "ExecStart=/bin/sleep 1000\nExecReload=/bin/true",
    );
    start(&administrator, "web").await;
    let settings = [("Description", "of a call"), ("Markers", "+needs-restart")];
    set(&administrator, "web", &settings).await.unwrap();
    let file = machine.at("run.control/web.service.d/50-Description.conf");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.ends_with("[Unit]\nDescription=of a call\n"), "{text}");
    let web = status(&administrator, "web").await;
    assert_eq!(web.description, "of a call");
    assert_eq!(web.markers, ["needs-restart"]);
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    set(&administrator, "web", &[("Markers", "+needs-reload")])
        .await
        .unwrap();
    let both = ["needs-reload", "needs-restart"];
    assert_eq!(status(&administrator, "web").await.markers, both);
    // A reload takes its own mark away, the end of the unit all.
    let request = crate::units::job("web");
    units(&administrator).reload_unit(request).await.unwrap();
    assert_eq!(
        status(&administrator, "web").await.markers,
        ["needs-restart"]
    );
    stop(&administrator, "web").await;
    assert!(status(&administrator, "web").await.markers.is_empty());
    for (name, value) in [
        ("Moon", "1"),
        ("Markers", "soon"),
        ("Description", "a\n[Install]"),
    ] {
        let settings = [("Description", "other"), (name, value)];
        assert!(
            set(&administrator, "web", &settings).await.is_err(),
            "{name}"
        );
    }
    assert_eq!(status(&administrator, "web").await.description, "of a call");
    let absent = wire::SetUnitPropertiesRequest {
        name: "absent.service".to_owned(),
        settings: vec![wire::UnitSetting::default()],
        runtime: true,
    };
    let refused = units(&administrator).set_unit_properties(absent).await;
    assert_eq!(
        from_status(&refused.unwrap_err()).reason,
        Some(Reason::NotFound)
    );
    machine.node.stop();
}

#[tokio::test]
async fn systemds_clients_set_variables_properties_and_marks() {
    let Some(bus) = Bus::start("given") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    let administrator = machine.node.administrator().await;
    machine.service("web.service", "ExecStart=/bin/sleep 1000");
    start(&administrator, "web").await;
    bus.call(&["SetEnvironment", "as", "2", "A=1", "B=2"])
        .unwrap();
    let change = ["UnsetAndSetEnvironment", "asas", "1", "A", "1", "C=3"];
    bus.call(&change).unwrap();
    let wrong = bus
        .call(&["SetEnvironment", "as", "1", "A-B=1"])
        .unwrap_err();
    assert!(wrong.contains("Invalid environment"), "{wrong}");
    let shown = bus.systemctl("show-environment").unwrap();
    assert!(shown.contains("B=2\nC=3\nPATH="), "{shown}");
    assert_eq!(bus.systemctl("service-watchdogs").unwrap(), "yes");
    bus.systemctl("service-watchdogs no").unwrap();
    let property = bus.property(MANAGER, INTERFACE, "ServiceWatchdogs");
    assert_eq!(property.unwrap(), "b false");
    bus.systemctl("set-property --runtime web IPAccounting=yes CPUAccounting=no")
        .unwrap();
    let file = machine.at("run.control/web.service.d/50-IPAccounting.conf");
    assert!(
        std::fs::read_to_string(file)
            .unwrap()
            .contains("IPAccounting=yes")
    );
    // What systemctl sends as numbers: addresses, and a bit for each processor.
    machine.service("idle.service", "ExecStart=/bin/true");
    let words = "set-property --runtime idle IPAddressAllow=10.0.0.0/8 IPAddressDeny=any \
                 AllowedCPUs=0-2";
    bus.systemctl(words).unwrap();
    for (name, lines) in [
        ("IPAddressAllow", "IPAddressAllow=10.0.0.0/8\n"),
        (
            "IPAddressDeny",
            "IPAddressDeny=0.0.0.0/0\nIPAddressDeny=::/0\n",
        ),
        ("AllowedCPUs", "AllowedCPUs=0 1 2\n"),
    ] {
        let file = machine.at(&format!("run.control/idle.service.d/50-{name}.conf"));
        let said = std::fs::read_to_string(file).unwrap();
        assert!(said.ends_with(lines), "{name}: {said}");
    }
    let unknown = ["SetUnitProperties", "sba(sv)", "web.service", "true", "1"];
    let unknown = bus.call(&[&unknown[..], &["Type", "s", "a\nb"]].concat());
    assert!(unknown.unwrap_err().contains("one line"));
    let before = status(&administrator, "web").await.main_pid;
    bus.systemctl("set-property web Markers=needs-restart")
        .unwrap();
    let unit = format!("{MANAGER}/unit/web_2eservice");
    let marked = bus.property(&unit, &format!("{NAME}.Unit"), "Markers");
    assert_eq!(marked.unwrap(), "as 1 \"needs-restart\"");
    bus.systemctl("reload-or-restart --marked").unwrap();
    let after = status(&administrator, "web").await;
    assert_ne!(after.main_pid, before);
    assert!(after.markers.is_empty() && after.active == "active");
    kill(after.main_pid.unwrap());
    machine.node.stop();
}
