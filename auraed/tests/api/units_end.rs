// SPDX-License-Identifier: Apache-2.0
//! What a machine needs of units: mounts, and a node that goes down, whose units stop in the
//! reverse of their order, each with its commands and within its own time.

use crate::units::{Machine, job, of, start, state, status, stop, units, until, written};

#[tokio::test]
async fn units_stop_in_the_reverse_of_their_order_when_the_node_goes_down() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "data.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n\
         ExecStop=/bin/sh -c 'echo data >> OUT'\n",
    );
    machine.unit(
        "base.service",
        "[Unit]\nRequires=data.service\nAfter=data.service\n\
         [Service]\nExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'\n\
         TimeoutStopSec=1\nExecStopPost=/bin/sh -c 'echo base $SERVICE_RESULT >> OUT'\n",
    );
    machine.unit(
        "web.service",
        "[Unit]\nAfter=base.service\n\
         [Service]\nExecStart=/bin/sh -c 'exec sleep 1000'\nRestart=always\nRestartSec=0\n\
         ExecStop=/bin/sh -c 'sleep 0.5; echo web >> OUT'\n",
    );
    // No order binds it: it needn't wait for anybody, and nobody for it.
    machine.unit(
        "alone.service",
        "[Service]\nExecStart=/bin/sh -c 'exec sleep 1000'\n\
         ExecStop=/bin/sh -c 'echo alone >> OUT'\n",
    );
    for name in ["data", "base", "web", "alone"] {
        assert_eq!(start(&administrator, name).await.result, "done", "{name}");
    }
    until(&administrator, "web", "running", |it| it.sub == "running").await;
    machine.node.end();
    let out = machine.out();
    let ordered: Vec<&str> = out.iter().map(String::as_str).collect();
    let without: Vec<&str> = ordered
        .iter()
        .copied()
        .filter(|it| *it != "alone")
        .collect();
    assert_eq!(without, ["web", "base timeout", "data"], "{ordered:?}");
    assert!(ordered.contains(&"alone"), "{ordered:?}");
}

#[tokio::test]
async fn a_unit_has_its_own_time_out_however_short_the_nodes_bound_is() {
    let Some(mut machine) = Machine::start_with(&["shutdown.bound=3s"]) else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "slow.service",
        "[Service]\nExecStart=/bin/sh -c 'exec sleep 1000'\nTimeoutStopSec=1h\n\
         ExecStop=/bin/sh -c 'sleep 6; echo slow >> OUT'\n",
    );
    // It stops before the other one, beside what has an hour alone.
    machine.unit(
        "endless.service",
        "[Unit]\nAfter=slow.service\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n\
         TimeoutStopSec=infinity\nExecStop=/bin/sh -c 'echo endless >> OUT'\n",
    );
    machine.unit(
        "beside.service",
        "[Service]\nExecStart=/bin/sh -c 'exec sleep 1000'\nTimeoutStopSec=1h\n",
    );
    for name in ["slow", "endless", "beside"] {
        assert_eq!(start(&administrator, name).await.result, "done", "{name}");
    }
    machine.node.end();
    assert_eq!(machine.out(), ["endless", "slow"]);
    // An hour of what has no end, two of the slow one (its command, and what it runs), 3 s, and
    // what the part of units lacks.
    let log = machine.node.log();
    assert!(log.contains("Exit follows, in 10803s at most"), "{log}");
}

/// A tmpfs of the test's own is mounted, unmounted by hand, and mounted by hand.
#[tokio::test]
async fn mounts_are_units_whoever_mounts_them() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let place = machine.at("place").display().to_string();
    let _left = Unmount(place.clone());
    let name = units_name(&place);
    let text = format!("[Mount]\nWhat=tmpfs\nWhere={place}\nType=tmpfs\nOptions=size=64k\n");
    machine.unit(&name, &text);
    machine.unit(
        "needs.service",
        &format!(
            "[Unit]\nRequiresMountsFor={place}/below\n\
             [Service]\nExecStart=/bin/sh -c 'stat -f -c %%T {place} >> OUT; exec sleep 1000'\n"
        ),
    );
    assert_eq!(start(&administrator, "needs.service").await.result, "done");
    until(&administrator, "needs.service", "running", |it| {
        it.sub == "running"
    })
    .await;
    let mount = until(&administrator, &name, "mounted", |it| it.sub == "mounted").await;
    assert_eq!(mount.active, "active");
    // What needs it has looked, and holds it no more.
    written(&machine, &["tmpfs"]).await;
    let run = |program: &str, words: &[&str]| {
        let status = std::process::Command::new(program).args(words).status();
        assert!(status.unwrap().success(), "{program} {words:?}");
    };
    run("umount", &[&place]);
    until(&administrator, &name, "dead", |it| it.sub == "dead").await;
    run("mount", &["-t", "tmpfs", "tmpfs", &place]);
    until(&administrator, &name, "mounted", |it| it.sub == "mounted").await;
    // It goes with what needs it.
    assert_eq!(stop(&administrator, &name).await.result, "done");
    until(&administrator, "needs.service", "down", |it| {
        it.active == "inactive"
    })
    .await;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&place), "{mounts}");
    assert_eq!(machine.out(), ["tmpfs"]);
    // What can't be mounted says why.
    let broken = machine.at("broken").display().to_string();
    let other = units_name(&broken);
    let text = format!("[Mount]\nWhat=/nowhere\nWhere={broken}\nType=ext4\n");
    machine.unit(&other, &text);
    assert_eq!(start(&administrator, &other).await.result, "failed");
    let failed = until(&administrator, &other, "failed", |it| it.active == "failed").await;
    assert_eq!(failed.result, "exit-code");
}

/// What a test that fails has left mounted.
struct Unmount(String);

impl Drop for Unmount {
    fn drop(&mut self) {
        let mut umount = std::process::Command::new("umount");
        // Where the test has come to its end there is none.
        let _ = umount.args(["-q", &self.0]).status();
    }
}

/// A path's mount unit (systemd-escape(1), `--path`), of a path with letters, digits and `-._`.
fn units_name(path: &str) -> String {
    let escaped = path.trim_matches('/').replace('-', "\\x2d");
    format!("{}.mount", escaped.replace('/', "-"))
}

#[tokio::test]
async fn what_ends_an_activation_never_reaches_the_next_one() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    // Ended by its own command, and by signals.
    machine.unit(
        "once.service",
        "[Unit]\nStartLimitIntervalSec=0\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 0.05\n\
         ExecStop=/bin/true\n",
    );
    machine.unit(
        "long.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    for name in ["once", "long"] {
        start(&administrator, name).await;
    }
    for round in 0..20 {
        for name in ["once", "long"] {
            let restarted = units(&administrator).restart_unit(job(name)).await;
            let restarted = restarted.unwrap().into_inner();
            assert_eq!(restarted.result, "done", "{name} in round {round}");
        }
    }
    let once = state(&administrator, "once").await;
    assert_eq!(once, of(("active", "exited", "success")));
    let long = status(&administrator, "long").await;
    assert_eq!((&*long.sub, long.activation), ("running", 21));
    machine.node.stop();
}

/// A signal for what was there before doesn't reach what was begun after it.
#[tokio::test]
async fn what_a_restart_has_begun_is_not_ended_by_it() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "web.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    start(&administrator, "web").await;
    for round in 0..150 {
        let restart = units(&administrator).restart_unit(job("web")).await;
        assert_eq!(restart.unwrap().into_inner().result, "done", "{round}");
        let begun = status(&administrator, "web").await;
        for _ in 0..3 {
            let now = status(&administrator, "web").await;
            let same = now.active == "active" && now.main_pid == begun.main_pid;
            assert!(same, "round {round}: {begun:#?} became {now:#?}");
        }
    }
    machine.node.stop();
}

/// A boot's targets wait for its gettys, which are idle: each would wait for the other until the
/// five seconds are over that an idle service waits at most.
#[tokio::test]
async fn an_idle_service_waits_for_work_and_not_for_what_waits_for_it() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let at = "cut -d. -f1 /proc/uptime >> OUT";
    machine.unit(
        "work.service",
        &format!("[Service]\nType=oneshot\nExecStart=/bin/sh -c 'sleep 2; {at}'\n"),
    );
    machine.unit(
        "getty.service",
        &format!("[Service]\nType=idle\nExecStart=/bin/sh -c '{at}; exec sleep 1000'\n"),
    );
    machine.unit(
        "all.target",
        "[Unit]\nWants=work.service getty.service\nAfter=work.service getty.service\n",
    );
    machine.unit(
        "last.service",
        "[Unit]\nRequires=all.target\nAfter=all.target\n\
         [Service]\nType=oneshot\nExecStart=/bin/true\n",
    );
    assert_eq!(start(&administrator, "last").await.result, "done");
    // The getty is up when its shell is executed, and writes a moment later.
    testkit::soon("what both write", || {
        (machine.out().len() >= 2).then_some(())
    });
    let times: Vec<u64> = machine.out().iter().flat_map(|it| it.parse()).collect();
    let [work, getty] = *times.as_slice() else {
        panic!("two have written: {times:?}");
    };
    assert!((0..3).contains(&(getty - work)), "{times:?}");
    machine.node.end();
}

/// No row is written: what the next daemon knows of a unit is older than what runs for it.
#[tokio::test]
async fn a_unit_that_was_restarted_on_a_full_disk_outlives_the_daemon() {
    let Some(mut machine) = Machine::start_on_small_disk() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "web.service",
        "Type=forking\nPIDFile=OUT.pid\nExecStartPre=/bin/true\n\
         ExecStart=/bin/sh -c 'echo begun >> OUT; sleep 1000 & echo $! > OUT.pid'\n",
    );
    assert_eq!(start(&administrator, "web").await.result, "done");
    machine.node.fill_disk();
    for _ in 0..3 {
        assert_eq!(stop(&administrator, "web").await.result, "done");
        assert_eq!(start(&administrator, "web").await.result, "done");
    }
    let before = status(&administrator, "web").await.main_pid;
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    let now = until(&administrator, "web", "running", |it| it.sub == "running").await;
    assert_eq!(now.main_pid, before);
    // Nothing is done a second time.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(status(&administrator, "web").await.main_pid, before);
    assert_eq!(machine.out(), ["begun"; 4]);
    machine.node.stop();
}

/// What `systemd-sysv-generator` makes of an init script whose commands leave processes behind, and
/// that provides what it needs itself.
#[tokio::test]
async fn an_init_script_stops_where_its_commands_leave_processes_behind() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "script.service",
        "[Unit]\nAfter=alias.service\n\
         [Service]\nType=forking\nTimeoutSec=1min\nIgnoreSIGPIPE=no\nKillMode=process\n\
         GuessMainPID=no\nRemainAfterExit=yes\nSuccessExitStatus=5 6\n\
         ExecStart=/bin/bash -c 'echo start >> OUT; sleep 1000 &'\n\
         ExecStop=/bin/bash -c 'echo stop >> OUT; sleep 10 &'\n",
    );
    let alias = machine.at("lib").join("alias.service");
    std::os::unix::fs::symlink("script.service", alias).unwrap();
    for _ in 0..2 {
        let restarted = units(&administrator).restart_unit(job("script")).await;
        assert_eq!(restarted.unwrap().into_inner().result, "done");
        let begun = std::time::Instant::now();
        assert_eq!(stop(&administrator, "script").await.result, "done");
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    }
    assert_eq!(machine.out(), ["start", "stop", "start", "stop"]);
    machine.node.stop();
}
