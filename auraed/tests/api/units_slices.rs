// SPDX-License-Identifier: Apache-2.0
//! Slices on a real node: made by a call, with drop-ins of their shorter names, and what is known
//! of one without a file. What their limits do is in the stories, on a machine with controllers.

use api::schedule::v0 as wire;
use api::status::{Reason, from_status};
use tonic::Code;

use crate::caller::Person;
use crate::units::{Machine, get, start, state, status, stop, units};
use crate::units_bus::{Bus, MANAGER, NAME};

async fn make(person: &Person, name: &str, text: &str) -> Result<wire::UnitJob, tonic::Status> {
    let request = wire::StartTransientUnitRequest {
        name: name.to_owned(),
        text: text.to_owned(),
        ..Default::default()
    };
    let made = units(person).start_transient_unit(request).await;
    made.map(tonic::Response::into_inner)
}

fn setting(detail: &wire::UnitDetail, name: &str) -> String {
    let all = detail.settings.iter();
    let found = all.filter(|it| it.name == name).map(|it| it.value.clone());
    found.collect()
}

#[tokio::test]
async fn a_slice_is_made_by_a_call_and_its_file_goes_when_it_is_stopped() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    let of_none = status(&person, "a-b.slice").await;
    assert_eq!(of_none.description, "Slice /a/b");
    assert_eq!(of_none.load, "loaded");
    let text = "[Unit]\nDescription=made\n[Slice]\nMemoryMax=8M\nTasksMax=9\n";
    let made = make(&person, "a-b.slice", text).await.unwrap();
    assert_eq!(made.result, "done");
    assert_eq!(state(&person, "a-b.slice").await.0.as_str(), "active");
    // What files say of it counts before what the call has said.
    machine.unit("a-.slice.d/x.conf", "[Slice]\nMemoryMax=4M\n");
    let request = wire::ReloadUnitFilesRequest {};
    units(&person).reload_unit_files(request).await.unwrap();
    let detail = get(&person, "a-b.slice").await;
    assert_eq!(setting(&detail, "MemoryMax"), "Limit(Of(4194304))");
    assert_eq!(setting(&detail, "TasksMax"), "Limit(Of(9))");
    assert_eq!(detail.status.unwrap().description, "made");
    // One that has a file is there already.
    let again = make(&person, "a-b.slice", text).await.unwrap_err();
    assert_eq!(from_status(&again).reason, Some(Reason::AlreadyExists));
    assert_eq!(again.code(), Code::AlreadyExists);
    // To start it anew is not its end.
    let file = machine.at("transient/a-b.slice");
    let request = crate::units::job("a-b.slice");
    units(&person).restart_unit(request).await.unwrap();
    assert!(file.exists());
    stop(&person, "a-b.slice").await;
    assert!(!file.exists(), "its file is there still");
    let detail = get(&person, "a-b.slice").await;
    assert_eq!(setting(&detail, "MemoryMax"), "Limit(Of(4194304))");
    assert_eq!(setting(&detail, "TasksMax"), "");
    assert_eq!(detail.status.unwrap().description, "Slice /a/b");
    // What an administrator writes then counts at once.
    machine.unit("a-b.slice", "[Unit]\nDescription=written\n[Slice]\n");
    assert_eq!(status(&person, "a-b.slice").await.description, "written");
}

#[tokio::test]
async fn a_slice_that_is_up_by_a_unit_in_it_may_get_a_file_and_its_limits() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let person = machine.node.administrator().await;
    machine.service(
        "in.service",
        "Slice=web-api.slice\nExecStart=/bin/sleep 1000",
    );
    start(&person, "in").await;
    // The group is there before a limit is.
    let group = get(&person, "in.service").await.control_group;
    assert!(group.ends_with("/_web.slice/_web-api.slice/in"), "{group}");
    assert_eq!(state(&person, "web-api.slice").await.0, "active");
    let text = "[Unit]\nDescription=made\n[Slice]\nTasksMax=9\n";
    // What is up isn't started, as in systemd.
    let made = make(&person, "web-api.slice", text).await.unwrap();
    assert_eq!(made.result, "skipped");
    let detail = get(&person, "web-api.slice").await;
    assert_eq!(setting(&detail, "TasksMax"), "Limit(Of(9))");
    assert!(group.starts_with(&detail.control_group), "{group}");
    assert_eq!(state(&person, "in.service").await.0, "active");
    // Its end is theirs.
    stop(&person, "web-api.slice").await;
    assert_eq!(state(&person, "in.service").await.0, "inactive");
    assert_eq!(
        status(&person, "web-api.slice").await.description,
        "Slice /web/api"
    );
}

#[tokio::test]
async fn a_slice_is_made_on_the_bus_with_its_limits_as_properties() {
    let Some(bus) = Bus::start("slices") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    let call = [
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        "a-b-c.slice",
        "replace",
        "2",
        "Description",
        "s",
        "slice too",
        "MemoryMax",
        "t",
        "1000000002",
        "0",
    ];
    let unit = format!("{MANAGER}/unit/a_2db_2dc_2eslice");
    let told = |interface: &str, name: &str| {
        let interface = format!("{NAME}.{interface}");
        bus.property(&unit, &interface, name).unwrap()
    };
    assert_eq!(told("Unit", "Description"), "s \"Slice /a/b/c\"");
    assert_eq!(told("Slice", "MemoryMax"), format!("t {}", u64::MAX));
    let made = bus.call(&call).unwrap();
    assert!(made.contains("/job/"), "{made}");
    testkit::soon("the slice", || {
        (told("Unit", "ActiveState") == "s \"active\"").then_some(())
    });
    assert_eq!(told("Unit", "Description"), "s \"slice too\"");
    assert_eq!(told("Slice", "MemoryMax"), "t 1000000002");
    assert_eq!(told("Slice", "Slice"), "s \"a-b.slice\"");
    assert_eq!(told("Unit", "Transient"), "b true");
    let again = bus.call(&call).unwrap_err();
    assert!(again.contains("is there already"), "{again}");
    bus.call(&["StopUnit", "ss", "a-b-c.slice", "replace"])
        .unwrap();
    testkit::soon("its end", || {
        (told("Unit", "ActiveState") == "s \"inactive\"").then_some(())
    });
    assert_eq!(told("Unit", "Description"), "s \"Slice /a/b/c\"");
    machine.node.stop();
}
