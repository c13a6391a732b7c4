// SPDX-License-Identifier: Apache-2.0
//! systemd's unit files on a real node: started in order, restarted, stopped, found again after
//! `kill -9` of the daemon; what can't be honoured is refused by name. The units are in folders of
//! the test's own; their programs are the machine's shell.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use api::schedule::v0 as wire;
use api::schedule::v0::units_client::UnitsClient;
use api::status::{Reason, from_status};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::caller::Person;
use crate::node::TestNode;

/// How long something may take that should happen soon.
const SOON: Duration = Duration::from_secs(60);

/// A node that runs units, and its folders.
struct Machine {
    folder: TempDir,
    node: TestNode,
}

impl Machine {
    fn start() -> Option<Machine> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etc", "run", "lib"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let paths = format!(
            "units.paths=[\"{}\", \"{}\", \"{}\"]",
            at("etc"),
            at("run"),
            at("lib")
        );
        let persistent = format!("units.persistent={}", at("etc"));
        let runtime = format!("units.runtime={}", at("run"));
        let node = TestNode::start_with(&[
            "cell_network.enabled=false",
            "units.enabled=true",
            &paths,
            &persistent,
            &runtime,
        ])?;
        Some(Machine { folder, node })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A unit's file; `OUT` in it: a file that its programs write to.
    fn unit(&self, name: &str, text: &str) {
        let path = self.at("lib").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let out = self.at("out").display().to_string();
        std::fs::write(path, text.replace("OUT", &out)).unwrap();
    }

    fn service(&self, name: &str, text: &str) {
        self.unit(name, &format!("[Service]\n{text}\n"));
    }

    /// What its units have written.
    fn out(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.at("out")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn units(person: &Person) -> UnitsClient<Channel> {
    UnitsClient::new(person.node.channel())
}

fn job(name: &str) -> wire::UnitJobRequest {
    wire::UnitJobRequest {
        name: name.to_owned(),
        ..Default::default()
    }
}

async fn start(person: &Person, name: &str) -> wire::UnitJob {
    units(person)
        .start_unit(job(name))
        .await
        .unwrap()
        .into_inner()
}

async fn stop(person: &Person, name: &str) -> wire::UnitJob {
    units(person)
        .stop_unit(job(name))
        .await
        .unwrap()
        .into_inner()
}

async fn refused(person: &Person, name: &str) -> String {
    let error = units(person).start_unit(job(name)).await.unwrap_err();
    from_status(&error).message
}

async fn get(person: &Person, name: &str) -> wire::UnitDetail {
    let name = name.to_owned();
    let request = wire::GetUnitRequest { name };
    units(person).get_unit(request).await.unwrap().into_inner()
}

async fn status(person: &Person, name: &str) -> wire::UnitStatus {
    get(person, name).await.status.unwrap()
}

/// `ActiveState`, `SubState`, `Result`.
async fn state(person: &Person, name: &str) -> (String, String, String) {
    let status = status(person, name).await;
    (status.active, status.sub, status.result)
}

async fn until(
    person: &Person,
    name: &str,
    what: &str,
    wanted: impl Fn(&wire::UnitStatus) -> bool,
) -> wire::UnitStatus {
    let begun = Instant::now();
    loop {
        let status = status(person, name).await;
        if wanted(&status) {
            return status;
        }
        assert!(begun.elapsed() < SOON, "{name} is not {what}: {status:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn files(person: &Person, verb: &str, name: &str) -> Vec<wire::UnitFileChange> {
    let request = wire::UnitFilesRequest {
        names: vec![name.to_owned()],
        runtime: false,
    };
    let mut client = units(person);
    let answer = match verb {
        "enable" => client.enable_units(request).await,
        "disable" => client.disable_units(request).await,
        "mask" => client.mask_units(request).await,
        _ => client.unmask_units(request).await,
    };
    answer.unwrap().into_inner().changes
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn of(words: (&str, &str, &str)) -> (String, String, String) {
    (words.0.to_owned(), words.1.to_owned(), words.2.to_owned())
}

#[tokio::test]
async fn units_start_in_their_order_with_what_they_need_and_stop_in_the_other() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit("app.target", "[Unit]\nWants=web.service absent.service\n");
    machine.unit(
        "web.service",
        "[Unit]\nDescription=A web\nRequires=prepare.service\nAfter=prepare.service\n\
         [Service]\nExecStartPre=/bin/sh -c 'echo pre >> OUT'\n\
         ExecStart=/bin/sh -c 'echo web $A $B >> OUT; exec sleep 1000'\n\
         Environment=A=one\nEnvironmentFile=-OUT.env\n\
         ExecStartPost=/bin/sh -c 'sleep 0.5; echo post >> OUT'\n\
         ExecReload=/bin/sh -c 'echo reload $MAINPID >> OUT'\n\
         ExecStop=/bin/sh -c 'echo stop >> OUT'\n\
         ExecStopPost=/bin/sh -c 'echo after $SERVICE_RESULT >> OUT'\n",
    );
    std::fs::write(machine.at("out.env"), "B=two\n").unwrap();
    machine.unit(
        "prepare.service",
        "[Unit]\nBefore=web.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/sh -c 'sleep 0.3; echo prepared >> OUT'\n\
         ExecStop=/bin/sh -c 'echo unprepared >> OUT'\n",
    );
    let started = start(&administrator, "app.target").await;
    assert_eq!(started.result, "done", "{started:#?}");
    until(&administrator, "web", "running", |it| it.sub == "running").await;
    assert_eq!(machine.out()[..3], ["prepared", "pre", "web one two"]);
    let prepared = state(&administrator, "prepare").await;
    assert_eq!(prepared, of(("active", "exited", "success")));
    let web = status(&administrator, "web.service").await;
    assert_eq!((&*web.description, &*web.load), ("A web", "loaded"));
    let pid = web.main_pid.unwrap();
    assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
    let reload = units(&administrator).reload_unit(job("web")).await.unwrap();
    assert_eq!(reload.into_inner().result, "done");
    // What requires it goes with it.
    let stopped = stop(&administrator, "prepare").await;
    assert_eq!(stopped.result, "done", "{stopped:#?}");
    assert_eq!(
        state(&administrator, "web").await,
        of(("inactive", "dead", "success"))
    );
    let expected = [
        "post".to_owned(),
        format!("reload {pid}"),
        "stop".to_owned(),
        "after success".to_owned(),
        "unprepared".to_owned(),
    ];
    assert_eq!(machine.out()[3..], expected);
    machine.node.stop();
}

#[tokio::test]
async fn what_crashes_is_started_again_until_its_limit_and_on_failure_is_told() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "crash.service",
        "[Unit]\nOnFailure=told.service\nStartLimitBurst=3\nStartLimitIntervalSec=1000\n\
         [Service]\nExecStart=/bin/sh -c 'echo run >> OUT; exit 3'\nRestart=on-failure\n\
         RestartSec=100ms\n",
    );
    machine.service(
        "told.service",
        "Type=oneshot\nExecStart=/bin/sh -c 'echo told >> OUT'",
    );
    start(&administrator, "crash").await;
    let failed = until(&administrator, "crash", "failed", |it| {
        it.active == "failed"
    })
    .await;
    assert_eq!(failed.result, "start-limit-hit", "{failed:#?}");
    until(&administrator, "told", "begun", |it| {
        it.activation == 1 && it.active == "inactive"
    })
    .await;
    let runs = machine.out().iter().filter(|it| *it == "run").count();
    assert_eq!((runs, machine.out().last().unwrap().as_str()), (3, "told"));
    assert_eq!(start(&administrator, "crash").await.result, "failed");
    let request = wire::ResetFailedUnitsRequest::default();
    units(&administrator)
        .reset_failed_units(request)
        .await
        .unwrap();
    assert_eq!(start(&administrator, "crash").await.result, "done");
    // A program that isn't there: a simple service has started, an exec one hasn't.
    machine.service("simple.service", "ExecStart=/no/such/program");
    machine.service("exec.service", "Type=exec\nExecStart=/no/such/program");
    assert_eq!(start(&administrator, "exec").await.result, "failed");
    start(&administrator, "simple").await;
    let failed = until(&administrator, "simple", "failed", |it| {
        it.active == "failed"
    })
    .await;
    assert_eq!(
        (&*failed.exit_code, &*failed.exit_status),
        ("exited", "203")
    );
    machine.node.stop();
}

#[tokio::test]
async fn units_outlive_their_daemon_and_the_next_one_goes_on() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "web.service",
        "ExecStart=/bin/sh -c 'echo run >> OUT; exec sleep 1000'\nRestart=always\nRestartSec=100ms",
    );
    machine.service(
        "slow.service",
        "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'sleep 3; echo slow >> OUT'\n\
         ExecStart=/bin/sh -c 'echo second >> OUT'",
    );
    start(&administrator, "web").await;
    let request = wire::UnitJobRequest {
        no_wait: true,
        ..job("slow")
    };
    units(&administrator).start_unit(request).await.unwrap();
    until(&administrator, "slow", "starting", |it| it.sub == "start").await;
    let before = status(&administrator, "web").await;
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    let after = status(&administrator, "web").await;
    assert_eq!(
        (&after.main_pid, &*after.sub),
        (&before.main_pid, "running")
    );
    // The list of commands goes on where it was.
    until(&administrator, "slow", "done", |it| it.sub == "exited").await;
    assert_eq!(machine.out(), ["run", "slow", "second"]);
    kill(after.main_pid.unwrap());
    let again = until(&administrator, "web", "restarted", |it| {
        it.sub == "running" && it.activation == after.activation + 1
    });
    assert_eq!(again.await.restarts, 1);
    assert_eq!(stop(&administrator, "web").await.result, "done");
    assert_eq!(state(&administrator, "web").await.0, "inactive");
    machine.node.stop();
}

#[tokio::test]
async fn a_cycle_is_named_and_broken_and_a_masked_unit_is_not_started() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    for (own, other) in [("a", "b"), ("b", "c"), ("c", "a")] {
        machine.unit(
            &format!("{own}.service"),
            &format!(
                "[Unit]\nWants={other}.service\nAfter={other}.service\n\
                 [Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=yes\n"
            ),
        );
    }
    let started = start(&administrator, "a").await;
    assert_eq!(started.result, "done");
    let notes = started.notes.join("\n");
    assert!(
        notes.contains("wait for each other") && notes.contains("was deleted"),
        "{notes}"
    );
    machine.service("web.service", "ExecStart=/bin/sleep 1000");
    let masked = files(&administrator, "mask", "web.service").await;
    assert_eq!(masked[0].target, "/dev/null");
    let words = refused(&administrator, "web").await;
    assert!(words.contains("web.service is masked"), "{words}");
    assert_eq!(status(&administrator, "web").await.load, "masked");
    files(&administrator, "unmask", "web.service").await;
    assert_eq!(start(&administrator, "web").await.result, "done");
    let words = refused(&administrator, "none.service").await;
    assert!(words.contains("none.service"), "{words}");
    machine.node.stop();
}

#[tokio::test]
async fn drop_ins_templates_and_links_count_as_systemds_do() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit("app.target", "[Unit]\nDescription=App\n");
    machine.unit(
        "web@.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nUser=daemon\n\
         ExecStart=+/bin/sh -c 'echo %i $SAID >> OUT'\n[Install]\nWantedBy=app.target\n",
    );
    machine.unit(
        "web@.service.d/said.conf",
        "[Service]\nEnvironment=SAID=more\n",
    );
    let links = files(&administrator, "enable", "web@15-main.service").await;
    assert_eq!(links.len(), 1);
    assert!(
        links[0]
            .path
            .ends_with("etc/app.target.wants/web@15-main.service"),
        "{links:?}"
    );
    assert_eq!(
        status(&administrator, "web@15-main").await.file_state,
        "enabled"
    );
    assert_eq!(start(&administrator, "app.target").await.result, "done");
    until(&administrator, "web@15-main", "up", |it| it.sub == "exited").await;
    assert_eq!(machine.out(), ["15-main more"]);
    files(&administrator, "disable", "web@15-main.service").await;
    assert_eq!(
        status(&administrator, "web@15-main").await.file_state,
        "disabled"
    );
    let detail = get(&administrator, "web@15-main").await;
    assert_eq!(detail.files.len(), 2, "{detail:#?}");
    machine.node.stop();
}

#[tokio::test]
async fn conditions_skip_assertions_fail_and_what_is_not_honoured_is_refused_by_name() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "skipped.service",
        "[Unit]\nConditionPathExists=/nowhere\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    assert_eq!(start(&administrator, "skipped").await.result, "skipped");
    let skipped = status(&administrator, "skipped").await;
    assert_eq!(
        (&*skipped.active, &*skipped.condition),
        ("inactive", "PathExists=/nowhere")
    );
    machine.unit(
        "failed.service",
        "[Unit]\nAssertPathExists=/nowhere\n[Service]\nExecStart=/bin/sleep 1000\n",
    );
    assert_eq!(start(&administrator, "failed").await.result, "failed");
    machine.service(
        "sandboxed.service",
        "ExecStart=/bin/true\nProtectSystem=strict",
    );
    let words = refused(&administrator, "sandboxed").await;
    assert!(
        words.contains("ProtectSystem") && words.contains("not honoured"),
        "{words}"
    );
    machine.service(
        "warned.service",
        "ExecStart=/bin/sleep 1000\nTimerSlackNSec=1",
    );
    assert_eq!(start(&administrator, "warned").await.result, "done");
    let findings = status(&administrator, "warned").await.findings.join("\n");
    assert!(findings.contains("TimerSlackNSec"), "{findings}");
    let ann = administrator
        .introduce(&machine.node, "acme", "ann", None)
        .await;
    let error = units(&ann).start_unit(job("warned")).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::PermissionDenied, "{error}");
    machine.node.stop();
}

#[tokio::test]
async fn timers_start_what_they_are_for() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "tick.service",
        "Type=oneshot\nExecStart=/bin/sh -c 'echo tick >> OUT'",
    );
    machine.unit(
        "tick.timer",
        "[Timer]\nOnActiveSec=200ms\nOnUnitActiveSec=1h\n",
    );
    machine.unit(
        "often.timer",
        "[Timer]\nOnCalendar=*:*:*\nUnit=often@x.service\n",
    );
    machine.service(
        "often@.service",
        "Type=oneshot\nExecStart=/bin/sh -c 'echo %i >> OUT'",
    );
    assert_eq!(start(&administrator, "tick.timer").await.result, "done");
    until(&administrator, "tick", "run", |it| {
        it.activation == 1 && it.active == "inactive"
    })
    .await;
    assert_eq!(start(&administrator, "often.timer").await.result, "done");
    until(&administrator, "often@x", "run twice", |it| {
        it.activation >= 2
    })
    .await;
    let timer = status(&administrator, "often.timer").await;
    assert!(timer.last.is_some() && timer.next.is_some(), "{timer:#?}");
    stop(&administrator, "often.timer").await;
    assert_eq!(state(&administrator, "often.timer").await.1, "dead");
    assert_eq!(machine.out().iter().filter(|it| *it == "tick").count(), 1);
    machine.node.stop();
}

#[tokio::test]
async fn two_hundred_units_start_together() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let names: Vec<String> = (0..200).map(|it| format!("many-{it}.service")).collect();
    for name in &names {
        machine.service(name, "ExecStart=/bin/sleep 1000");
    }
    machine.unit(
        "all.target",
        &format!("[Unit]\nWants={}\n", names.join(" ")),
    );
    let begun = Instant::now();
    let request = job("all.target");
    let mut call = tonic::Request::new(request);
    call.set_timeout(Duration::from_secs(300));
    let started = units(&administrator).start_unit(call).await.unwrap();
    assert_eq!(started.into_inner().result, "done");
    let list = units(&administrator)
        .list_units(wire::ListUnitsRequest::default())
        .await;
    let list = list.unwrap().into_inner().units;
    let running = list.iter().filter(|it| it.sub == "running").count();
    assert_eq!(running, 200);
    eprintln!("200 units in {:?}", begun.elapsed());
    machine.node.stop();
}

#[tokio::test]
async fn a_node_that_runs_no_units_says_so() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let refused = units(&administrator)
        .list_units(wire::ListUnitsRequest::default())
        .await;
    let error = from_status(&refused.unwrap_err());
    assert_eq!(error.reason, Some(Reason::Unsupported), "{error}");
    node.stop();
}
