// SPDX-License-Identifier: Apache-2.0
//! What clients of the bus do with units beside jobs: their processes are held and go on, also for
//! a job; their folders are removed. And what a unit is told that a path or timer has started.

use testkit::soon;

use crate::units::{start, status, stop, until};
use crate::units_bus::{Bus, MANAGER, NAME};

#[tokio::test]
async fn a_unit_is_held_goes_on_and_hears_a_job_and_its_folders_go_on_demand() {
    let Some(bus) = Bus::start("held") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    let person = machine.node.administrator().await;
    let folder = format!("aurae-held-{}", std::process::id());
    machine.service(
        "ticks.service",
        &format!(
            "StateDirectory={folder}\nTimeoutStopSec=1h\n\
             ExecStart=/bin/sh -c 'while :; do echo tick >> OUT; sleep 0.05; done'"
        ),
    );
    start(&person, "ticks.service").await;
    soon("a tick", || machine.out().first().map(drop));
    let frozen = || {
        let unit = format!("{MANAGER}/unit/ticks_2eservice");
        bus.property(&unit, &format!("{NAME}.Unit"), "FreezerState")
    };
    bus.call(&["FreezeUnit", "s", "ticks.service"]).unwrap();
    assert_eq!(frozen().unwrap(), "s \"frozen\"");
    let held = machine.out().len();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(machine.out().len(), held);
    // A unit that runs keeps its folders.
    let clean = ["CleanUnit", "sas", "ticks.service", "1", "state"];
    assert!(bus.call(&clean).unwrap_err().contains("stop it first"));
    bus.call(&["ThawUnit", "s", "ticks.service"]).unwrap();
    assert_eq!(frozen().unwrap(), "s \"running\"");
    soon("another tick", || {
        (machine.out().len() > held).then_some(())
    });

    // One that is held hears its stop, and not after an hour.
    bus.call(&["FreezeUnit", "s", "ticks.service"]).unwrap();
    stop(&person, "ticks.service").await;
    assert_eq!(status(&person, "ticks.service").await.result, "success");
    let none = bus.call(&["FreezeUnit", "s", "ticks.service"]).unwrap_err();
    assert!(none.contains("has no processes"), "{none}");

    let state = std::path::Path::new("/var/lib").join(folder);
    assert!(state.is_dir());
    let wrong = ["CleanUnit", "sas", "ticks.service", "1", "everything"];
    assert!(bus.call(&wrong).unwrap_err().contains("no kind of folder"));
    bus.call(&clean).unwrap();
    assert!(!state.exists());
    machine.node.stop();
}

#[tokio::test]
async fn a_unit_is_told_which_path_or_timer_has_started_it() {
    let Some(bus) = Bus::start("told") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    let person = machine.node.administrator().await;
    machine.service(
        "job.service",
        "Type=oneshot\nRemainAfterExit=yes\n\
         ExecStartPre=sh -c 'test \"$TRIGGER_UNIT\" != other.path'\n\
         ExecStart=/bin/sh -c 'echo $TRIGGER_UNIT $TRIGGER_PATH >> OUT'\n",
    );
    let sign = machine.at("sign");
    machine.service(
        "said.service",
        "Type=notify\nRemainAfterExit=yes\nExecStart=systemd-notify --ready",
    );
    assert_eq!(start(&person, "said.service").await.result, "done");
    machine.unit(
        "job.path",
        &format!("[Path]\nPathExistsGlob={}*\n", sign.display()),
    );
    machine.unit("job.timer", "[Timer]\nOnActiveSec=10ms\n");
    start(&person, "job.path").await;
    std::fs::write(&sign, "").unwrap();
    until(&person, "job", "up", |it| it.active == "active").await;
    let unit = format!("{MANAGER}/unit/job_2eservice");
    let details = bus.property(&unit, &format!("{NAME}.Unit"), "ActivationDetails");
    let wanted = format!(
        "a(ss) 2 \"trigger_unit\" \"job.path\" \"trigger_path\" \"{}\"",
        sign.display()
    );
    assert_eq!(details.unwrap(), wanted);
    stop(&person, "job.path").await;
    stop(&person, "job.service").await;
    std::fs::remove_file(&sign).unwrap();

    start(&person, "job.timer").await;
    until(&person, "job", "up", |it| it.active == "active").await;
    stop(&person, "job.timer").await;
    stop(&person, "job.service").await;
    // By hand it is told of none.
    start(&person, "job.service").await;
    let by_path = format!("job.path {}", sign.display());
    assert_eq!(machine.out(), [by_path.as_str(), "job.timer", ""]);
    machine.node.stop();
}

/// A service that sees what comes below an empty folder, can't write it, and has put a link in the
/// way.
fn sees(empty: &str, secret: &str, kept: &str) -> String {
    format!(
        "TemporaryFileSystem={empty}\nInaccessiblePaths={secret}\nExecStart=/bin/sh -c '\
         ln -s {kept} {empty}/link; \
         until cat {empty}/new/place/file; do sleep 0.05; done >> OUT; \
         touch {empty}/new/place/other || echo refused >> OUT; \
         until cat {empty}/one; do sleep 0.05; done >> OUT; sleep 1000'"
    )
}

#[tokio::test]
async fn a_place_of_the_machine_is_shown_to_a_unit_that_runs_and_by_no_link() {
    let Some(bus) = Bus::start("bound") else {
        return;
    };
    let Some(machine) = bus.node() else { return };
    let person = machine.node.administrator().await;
    for name in ["given", "empty", "kept", "secret"] {
        std::fs::create_dir(machine.at(name)).unwrap();
    }
    std::fs::write(machine.at("given/file"), "given\n").unwrap();
    let at = |name: &str| machine.at(name).display().to_string();
    let empty = at("empty");
    machine.service("shown.service", &sees(&empty, &at("secret"), &at("kept")));
    machine.service("plain.service", "ExecStart=/bin/sleep 1000");
    start(&person, "shown.service").await;
    start(&person, "plain.service").await;
    let bind = |unit: &str, target: &str, make: &str| {
        let given = at("given");
        let source = match target.ends_with("one") {
            true => format!("{given}/file"),
            false => given,
        };
        bus.call(&[
            "BindMountUnit",
            "sssbb",
            unit,
            &source,
            target,
            "true",
            make,
        ])
    };
    let place = format!("{empty}/new/place");
    let missing = bind("shown.service", &place, "false").unwrap_err();
    assert!(missing.contains("--mkdir"), "{missing}");
    bind("shown.service", &place, "true").unwrap();
    bind("shown.service", &format!("{empty}/one"), "true").unwrap();
    soon("what it was shown", || {
        (machine.out() == ["given", "refused", "given"]).then_some(())
    });
    for (unit, target, words) in [
        ("shown.service", format!("{empty}/link/in"), "is no folder"),
        (
            "shown.service",
            at("secret/in"),
            "is not accessible to shown.service",
        ),
        ("shown.service", format!("{empty}/../kept"), "without `..`"),
        ("plain.service", at("kept/in"), "has no mounts of its own"),
        ("none.service", at("kept/in"), "none.service"),
    ] {
        let refused = bind(unit, &target, "true").unwrap_err();
        assert!(refused.contains(words), "{target}: {refused}");
    }
    stop(&person, "shown.service").await;
    let down = bind("shown.service", &place, "true").unwrap_err();
    assert!(down.contains("has no main process"), "{down}");
    // Of all this the machine itself has nothing.
    for name in ["kept", "empty", "secret"] {
        assert_eq!(
            std::fs::read_dir(machine.at(name)).unwrap().count(),
            0,
            "{name}"
        );
    }
    machine.node.stop();
}
