// SPDX-License-Identifier: Apache-2.0
//! Jobs that nobody asks for, jobs that take too long, what a unit's end does to the machine, and
//! whose processes a signal reaches.

use std::time::{Duration, Instant};

use api::schedule::v0 as wire;
use api::status::from_status;

use crate::caller::Person;
use crate::units::{Machine, job, kill, lives, pid_in, start, status, stop, units, until};

/// How long something may take that should happen soon.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn what_nobody_needs_stops_and_what_is_upheld_comes_back() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "helper.service",
        "[Unit]\nStopWhenUnneeded=yes\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    for name in ["one", "two"] {
        machine.unit(
            &format!("{name}.service"),
            "[Unit]\nWants=helper.service\nAfter=helper.service\n[Service]\n\
             ExecStart=/bin/sleep 1000\n",
        );
    }
    start(&administrator, "one").await;
    start(&administrator, "two").await;
    until(&administrator, "helper", "up", |it| it.sub == "running").await;
    stop(&administrator, "one").await;
    assert_eq!(status(&administrator, "helper").await.sub, "running");
    stop(&administrator, "two").await;
    until(&administrator, "helper", "down", |it| it.sub == "dead").await;
    // Started by itself nobody needs it either.
    start(&administrator, "helper").await;
    until(&administrator, "helper", "down again", |it| {
        it.sub == "dead" && it.activation == 2
    })
    .await;
    machine.unit("keeper.target", "[Unit]\nUpholds=kept.service\n");
    machine.service("kept.service", "ExecStart=/bin/sleep 1000");
    start(&administrator, "keeper.target").await;
    let up = until(&administrator, "kept", "up", |it| it.sub == "running").await;
    stop(&administrator, "kept").await;
    let again = until(&administrator, "kept", "up again", |it| it.sub == "running").await;
    assert_eq!(again.activation, up.activation + 1);
    stop(&administrator, "keeper.target").await;
    stop(&administrator, "kept").await;
    assert_eq!(status(&administrator, "kept").await.active, "inactive");
    machine.node.stop();
}

#[tokio::test]
async fn what_is_upheld_and_fails_at_once_is_left_for_a_while() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit("keeper.target", "[Unit]\nUpholds=broken.service\n");
    machine.unit(
        "broken.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\nExecStart=/bin/false\n",
    );
    start(&administrator, "keeper.target").await;
    let left = until(&administrator, "broken", "left", |it| {
        it.message.contains("that came 16 times within 10s")
    });
    let left = left.await;
    assert!((16..=18).contains(&left.activation), "{left:#?}");
    // After that it is tried again.
    let again = until(&administrator, "broken", "tried again", |it| {
        it.activation > left.activation + 1
    });
    again.await;
    machine.node.stop();
}

#[tokio::test]
async fn a_job_that_takes_too_long_is_given_up_and_its_unit_is_not() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "slow.service",
        "[Unit]\nJobRunningTimeoutSec=1\nJobTimeoutAction=reboot\n[Service]\nType=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart=/bin/sh -c 'until [ -e OUT.go ]; do sleep 0.1; done; echo slow >> OUT'\n",
    );
    let given_up = tokio::time::timeout(SOON, start(&administrator, "slow")).await;
    assert_eq!(given_up.unwrap().result, "timeout");
    let now = status(&administrator, "slow").await;
    assert_eq!((&*now.active, now.job_id), ("activating", 0));
    let words = "its start job took too long; JobTimeoutAction=reboot was not done";
    assert!(now.message.starts_with(words), "{}", now.message);
    std::fs::write(machine.at("out.go"), "").unwrap();
    until(&administrator, "slow", "done", |it| it.sub == "exited").await;
    assert_eq!(machine.out(), ["slow"]);
    // A job that waits for another one's is late, too.
    machine.unit(
        "waits.service",
        "[Unit]\nJobTimeoutSec=1\nAfter=never.service\nWants=never.service\n[Service]\n\
         ExecStart=/bin/sleep 1000\n",
    );
    machine.service("never.service", "Type=oneshot\nExecStart=/bin/sleep 1000");
    assert_eq!(start(&administrator, "waits").await.result, "timeout");
    assert_eq!(status(&administrator, "waits").await.active, "inactive");
    machine.node.stop();
}

#[tokio::test]
async fn what_a_unit_would_do_to_the_machine_is_said_where_the_node_is_not_its_init() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "fails.service",
        "[Unit]\nFailureAction=reboot-force\n[Service]\nType=oneshot\nExecStart=/bin/false\n",
    );
    machine.unit(
        "ends.service",
        "[Unit]\nSuccessAction=poweroff\n[Service]\nType=oneshot\nExecStart=/bin/true\n",
    );
    machine.unit(
        "often.service",
        "[Unit]\nStartLimitAction=exit\nStartLimitBurst=1\nStartLimitIntervalSec=100\n[Service]\n\
         Type=oneshot\nExecStart=/bin/true\n",
    );
    for (name, words) in [
        ("fails", "FailureAction=reboot-force was not done"),
        ("ends", "SuccessAction=poweroff was not done"),
    ] {
        start(&administrator, name).await;
        let said = status(&administrator, name).await;
        assert!(said.message.contains(words), "{name}: {}", said.message);
    }
    assert_eq!(start(&administrator, "often").await.result, "done");
    assert_eq!(start(&administrator, "often").await.result, "failed");
    let said = status(&administrator, "often").await;
    assert_eq!(said.result, "start-limit-hit");
    assert!(
        said.message.contains("StartLimitAction=exit was not done"),
        "{}",
        said.message
    );
    machine.node.stop();
}

async fn signalled(person: &Person, name: &str, whom: wire::UnitKillWhom) -> Result<(), String> {
    let request = wire::KillUnitRequest {
        name: name.to_owned(),
        signal: "USR1".to_owned(),
        whom: whom.into(),
        ..Default::default()
    };
    let sent = units(person).kill_unit(request).await;
    sent.map(drop).map_err(|it| from_status(&it).message)
}

/// Until the unit shows that it reloads.
async fn begin_reload(person: &Person, name: &str) {
    let reload = wire::UnitJobRequest {
        no_wait: true,
        ..job(name)
    };
    units(person).reload_unit(reload).await.unwrap();
    until(person, name, "reloading", |it| it.sub == "reload").await;
}

#[tokio::test]
async fn a_signal_reaches_those_whom_it_is_for() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    // A shell sets its trap some time after it was executed, and says so.
    let who = |name: &str| {
        format!(
            "trap \"echo {name} >> OUT\" USR1; echo {name} >> OUT.set; \
             while true; do sleep 0.05; done"
        )
    };
    machine.service(
        "web.service",
        &format!(
            "ExecStart=/bin/sh -c '({}) & {}'\nExecReload=/bin/sh -c '{}'",
            who("child"),
            who("main"),
            who("control")
        ),
    );
    start(&administrator, "web").await;
    use wire::UnitKillWhom::{All, Control, Main};
    // In whichever order they have written.
    let wrote = async |file: &str, expected: &[&str]| {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(machine.at(file)).unwrap_or_default();
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            if lines == expected {
                return std::fs::remove_file(machine.at(file)).unwrap();
            }
            assert!(begun.elapsed() < SOON, "{file}: {lines:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    wrote("out.set", &["child", "main"]).await;
    signalled(&administrator, "web", Main).await.unwrap();
    wrote("out", &["main"]).await;
    let none = signalled(&administrator, "web", Control).await.unwrap_err();
    assert!(none.contains("has no control process"), "{none}");
    begin_reload(&administrator, "web").await;
    wrote("out.set", &["control"]).await;
    signalled(&administrator, "web", Control).await.unwrap();
    wrote("out", &["control"]).await;
    signalled(&administrator, "web", All).await.unwrap();
    wrote("out", &["child", "control", "main"]).await;
    machine.node.stop();
}

/// The unit is `reload`ing as soon as that is decided, which is before its command is executed.
#[tokio::test]
async fn a_signal_waits_for_the_command_that_it_is_for() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "web.service",
        "ExecStart=/bin/sleep 1000\nExecReload=/bin/sleep 500",
    );
    start(&administrator, "web").await;
    for round in 0..20 {
        begin_reload(&administrator, "web").await;
        let sent = signalled(&administrator, "web", wire::UnitKillWhom::Control).await;
        assert_eq!(sent, Ok(()), "round {round}");
        until(&administrator, "web", "up", |it| it.sub == "running").await;
    }
    let none = signalled(&administrator, "web", wire::UnitKillWhom::Control).await;
    assert!(none.unwrap_err().contains("has no control process"));
    machine.node.stop();
}

/// Begins its own program anew beside itself, as nginx does, and goes.
const REPLACES_ITSELF: &str = "trap 'sh $0 $1 & echo $! > $1; exit 0' USR1\n\
    echo $$ > $1.set\nwhile true; do sleep 0.05; done\n";

/// systemd.service(5), PIDFile=; nginx's package upgrades the program that runs.
#[tokio::test]
async fn a_server_that_replaces_itself_goes_on_by_its_pid_file() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let mut administrator = machine.node.administrator().await;
    std::fs::write(machine.at("out.server"), REPLACES_ITSELF).unwrap();
    machine.service(
        "web.service",
        "Type=forking\nPIDFile=OUT.pid\n\
         ExecStart=/bin/sh -c 'sh OUT.server OUT.pid & echo $! > OUT.pid'",
    );
    start(&administrator, "web").await;
    let first = status(&administrator, "web").await;
    assert_eq!(first.main_pid, Some(pid_in(&machine, "out.pid").await));
    let mut before = first.main_pid;
    for daemon_dies in [false, true] {
        // Its trap is set some time after it was executed.
        let begun = Instant::now();
        while Some(pid_in(&machine, "out.pid.set").await) != before {
            assert!(begun.elapsed() < SOON, "no trap was set");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let told = signalled(&administrator, "web", wire::UnitKillWhom::Main).await;
        assert_eq!(told, Ok(()));
        if daemon_dies {
            machine.node.kill_daemon();
            administrator = machine.node.administrator().await;
        }
        let moved = until(&administrator, "web", "moved", |it| it.main_pid != before).await;
        assert_eq!(
            (&*moved.sub, moved.activation),
            ("running", first.activation)
        );
        assert_eq!(moved.main_pid, Some(pid_in(&machine, "out.pid").await));
        before = moved.main_pid;
    }
    // The file of one that is gone names another unit's process, which is none of its own.
    machine.service("other.service", "ExecStart=/bin/sleep 1000");
    start(&administrator, "other").await;
    let other = status(&administrator, "other").await.main_pid.unwrap();
    std::fs::write(machine.at("out.pid"), format!("{other}\n")).unwrap();
    kill(before.unwrap());
    let ended = until(&administrator, "web", "ended", |it| it.sub == "failed").await;
    assert_eq!((&*ended.result, ended.main_pid), ("signal", None));
    assert!(lives(other));
    machine.node.stop();
}
