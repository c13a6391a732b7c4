// SPDX-License-Identifier: Apache-2.0
//! systemd's unit files on a real node: started in order, restarted, stopped, found again after
//! `kill -9` of the daemon; what can't be honoured is refused by name. The units are in folders of
//! the test's own; their programs are the machine's shell.

use std::os::unix::fs::symlink;
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
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A node that runs units, and its folders.
pub(crate) struct Machine {
    pub(crate) folder: TempDir,
    pub(crate) node: TestNode,
}

impl Machine {
    pub(crate) fn start() -> Option<Machine> {
        Machine::start_with(&[])
    }

    /// With more settings.
    pub(crate) fn start_with(more: &[&str]) -> Option<Machine> {
        Machine::start_by(more, TestNode::start_with)
    }

    /// With a state directory on a file system of its own.
    pub(crate) fn start_on_small_disk() -> Option<Machine> {
        Machine::start_by(&[], |settings| TestNode::start_in(settings, true))
    }

    fn start_by(
        more: &[&str],
        starts: impl FnOnce(&[&str]) -> Option<TestNode>,
    ) -> Option<Machine> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etc", "run", "lib"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let paths = format!(
            "units.paths=[\"{}\", \"{}\", \"{}\", \"{}\", \"{}\"]",
            at("etc.control"),
            at("run.control"),
            at("etc"),
            at("run"),
            at("lib")
        );
        let persistent = format!("units.persistent={}", at("etc"));
        let runtime = format!("units.runtime={}", at("run"));
        let own: [&str; 5] = [
            "cell_network.enabled=false",
            "units.enabled=true",
            &paths,
            &persistent,
            &runtime,
        ];
        let node = starts(&[&own[..], more].concat())?;
        Some(Machine { folder, node })
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A unit's file; `OUT` in it: a file that its programs write to.
    pub(crate) fn unit(&self, name: &str, text: &str) {
        let path = self.at("lib").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let out = self.at("out").display().to_string();
        std::fs::write(path, text.replace("OUT", &out)).unwrap();
    }

    pub(crate) fn service(&self, name: &str, text: &str) {
        self.unit(name, &format!("[Service]\n{text}\n"));
    }

    /// What its units have written.
    pub(crate) fn out(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.at("out")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

pub(crate) fn units(person: &Person) -> UnitsClient<Channel> {
    UnitsClient::new(person.node.channel())
}

pub(crate) fn job(name: &str) -> wire::UnitJobRequest {
    wire::UnitJobRequest {
        name: name.to_owned(),
        ..Default::default()
    }
}

pub(crate) async fn start(person: &Person, name: &str) -> wire::UnitJob {
    units(person)
        .start_unit(job(name))
        .await
        .unwrap()
        .into_inner()
}

pub(crate) async fn stop(person: &Person, name: &str) -> wire::UnitJob {
    units(person)
        .stop_unit(job(name))
        .await
        .unwrap()
        .into_inner()
}

pub(crate) async fn refused(person: &Person, name: &str) -> String {
    let error = units(person).start_unit(job(name)).await.unwrap_err();
    from_status(&error).message
}

pub(crate) async fn get(person: &Person, name: &str) -> wire::UnitDetail {
    let name = name.to_owned();
    let request = wire::GetUnitRequest { name };
    units(person).get_unit(request).await.unwrap().into_inner()
}

pub(crate) async fn status(person: &Person, name: &str) -> wire::UnitStatus {
    get(person, name).await.status.unwrap()
}

/// `ActiveState`, `SubState`, `Result`.
pub(crate) async fn state(person: &Person, name: &str) -> (String, String, String) {
    let status = status(person, name).await;
    (status.active, status.sub, status.result)
}

pub(crate) async fn until(
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

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

pub(crate) fn of(words: (&str, &str, &str)) -> (String, String, String) {
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
         ExecStartPost=/bin/sh -c 'until grep -q ^web OUT; do sleep 0.1; done; echo post >> OUT'\n\
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

/// The pid in a file that a unit has written.
pub(crate) async fn pid_in(machine: &Machine, name: &str) -> u32 {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(machine.at(name)).unwrap_or_default();
        if let Ok(pid) = text.trim().parse() {
            return pid;
        }
        assert!(begun.elapsed() < SOON, "{name} has no pid: {text:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map_or("", |(_, it)| it.trim_start());
    !state.is_empty() && !state.starts_with('Z')
}

#[tokio::test]
async fn what_a_stop_reaches_and_leaves_is_what_kill_mode_says() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    // The main process ends by its signal; what it has started ignores that. Both hold once it
    // writes.
    let script = "trap \"\" TERM; sleep 1000 & trap - TERM; echo $! > OUT.left; exec sleep 1000";
    for (mode, stays) in [
        ("control-group", false),
        ("mixed", false),
        ("process", true),
        ("none", true),
    ] {
        let name = format!("{mode}.service");
        let text = format!(
            "KillMode={mode}\nTimeoutStopSec=1\nExecStart=/bin/sh -c '{script}'\n\
             ExecStopPost=/bin/sh -c 'echo {mode} $SERVICE_RESULT >> OUT'"
        );
        machine.service(&name, &text);
        let _ = std::fs::remove_file(machine.at("out.left"));
        start(&administrator, &name).await;
        let left = pid_in(&machine, "out.left").await;
        let main = status(&administrator, &name).await.main_pid.unwrap();
        assert_eq!(stop(&administrator, &name).await.result, "done");
        assert_eq!(lives(left), stays, "{mode}");
        assert_eq!(lives(main), mode == "none", "{mode}");
        let words = status(&administrator, &name).await.message;
        let named = words.contains(&format!("left behind: {left}"))
            || words.contains(&format!(", {left} ("));
        assert_eq!(named, stays, "{mode}: {words}");
        assert_eq!(machine.out().last().unwrap(), &format!("{mode} success"));
        // The next activation begins beside what is left.
        start(&administrator, &name).await;
        assert_eq!(lives(left), stays, "{mode}");
        stop(&administrator, &name).await;
    }
    machine.node.stop();
}

#[tokio::test]
async fn a_forking_service_is_followed_by_its_pid_file_and_by_no_strangers_number() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "forks.service",
        "Type=forking\nPIDFile=OUT.pid\nRestart=on-failure\nRestartSec=100ms\n\
         ExecStart=@/bin/sh called -c 'echo $0 >> OUT; sleep 1000 & echo $! > OUT.pid'",
    );
    assert_eq!(start(&administrator, "forks").await.result, "done");
    let up = status(&administrator, "forks").await;
    assert_eq!(up.main_pid, Some(pid_in(&machine, "out.pid").await));
    assert_eq!(machine.out(), ["called"]);
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    assert_eq!(status(&administrator, "forks").await.main_pid, up.main_pid);
    kill(up.main_pid.unwrap());
    let again = until(&administrator, "forks", "restarted", |it| {
        it.sub == "running" && it.activation == up.activation + 1
    });
    let again = again.await;
    assert_ne!(again.main_pid, up.main_pid);
    // A file that names another unit's process, or PID 1, names none.
    for (name, number) in [("other", again.main_pid.unwrap()), ("one", 1)] {
        machine.service(
            &format!("{name}.service"),
            &format!(
                "Type=forking\nPIDFile=OUT.{name}\nTimeoutStartSec=1\nTimeoutStopSec=1\n\
                 ExecStart=/bin/sh -c 'sleep 1000 & echo {number} > OUT.{name}'"
            ),
        );
        assert_eq!(start(&administrator, name).await.result, "failed", "{name}");
        let failed = status(&administrator, name).await;
        assert_eq!((failed.main_pid, &*failed.result), (None, "timeout"));
    }
    assert!(lives(again.main_pid.unwrap()));
    assert_eq!(stop(&administrator, "forks").await.result, "done");
    assert!(!machine.at("out.pid").exists());
    machine.node.stop();
}

/// What says a word to the socket of a unit.
const SAY: &str = "use Socket; $| = 1;\n\
    sub word { my ($text, $to) = @_; socket(my $s, AF_UNIX, SOCK_DGRAM, 0);\n\
    send($s, $text, 0, pack_sockaddr_un($to // $ENV{NOTIFY_SOCKET})); }\n";

#[tokio::test]
async fn a_service_says_that_it_is_ready_and_lives_and_no_stranger_does_so_for_it() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let program = |name: &str, body: &str| {
        let path = machine.at(&format!("{name}.pl"));
        std::fs::write(&path, format!("{SAY}{body}")).unwrap();
        path.display().to_string()
    };
    let says = program(
        "says",
        "select(undef, undef, undef, 0.3); word(\"STATUS=at work\\nREADY=1\\nX_OWN=1\");\n\
         while (1) { select(undef, undef, undef, 0.2); word('WATCHDOG=1'); }\n",
    );
    machine.service(
        "says.service",
        &format!("Type=notify\nWatchdogSec=5\nExecStart=/usr/bin/perl {says}"),
    );
    let made: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(machine.folder.path(), made).unwrap();
    assert_eq!(start(&administrator, "says").await.result, "done");
    let up = status(&administrator, "says").await;
    assert_eq!((&*up.sub, &*up.message), ("running", "at work"));
    // Another unit's process, a child where the main process alone may speak.
    let socket = std::fs::read(format!("/proc/{}/environ", up.main_pid.unwrap())).unwrap();
    let socket = String::from_utf8(socket).unwrap();
    let socket = socket
        .split('\0')
        .find_map(|it| it.strip_prefix("NOTIFY_SOCKET="));
    let stranger = program(
        "stranger",
        &format!("word(\"STOPPING=1\\nMAINPID=1\", '{}');\n", socket.unwrap()),
    );
    machine.service(
        "stranger.service",
        &format!("Type=oneshot\nExecStart=/usr/bin/perl {stranger}"),
    );
    assert_eq!(start(&administrator, "stranger").await.result, "done");
    let child = program(
        "child",
        "if (fork() == 0) { word('READY=1'); exit 0; }\nsleep 1000;\n",
    );
    machine.service(
        "child.service",
        &format!(
            "Type=notify\nTimeoutStartSec=2\nTimeoutStopSec=1\n\
             ExecStart=/usr/bin/perl {child}"
        ),
    );
    assert_eq!(start(&administrator, "child").await.result, "failed");
    assert_eq!(status(&administrator, "child").await.result, "timeout");
    let same = status(&administrator, "says").await;
    assert_eq!((&same.main_pid, &*same.sub), (&up.main_pid, "running"));
    // The next daemon hears it at the same address; who falls silent is ended.
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    let main = rustix::process::Pid::from_raw(i32::try_from(up.main_pid.unwrap()).unwrap());
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(status(&administrator, "says").await.sub, "running");
    rustix::process::kill_process(main.unwrap(), rustix::process::Signal::STOP).unwrap();
    let ended = until(&administrator, "says", "ended", |it| it.active == "failed").await;
    assert_eq!(ended.result, "watchdog");
    machine.node.stop();
}

/// A service runs from its exec on, and writes a moment later.
pub(crate) async fn written(machine: &Machine, lines: &[&str]) {
    let begun = Instant::now();
    while machine.out().len() < lines.len() {
        assert!(begun.elapsed() < SOON, "{:?}", machine.out());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(machine.out(), lines);
}

#[tokio::test]
async fn a_job_goes_on_under_the_next_daemon() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "first.service",
        "[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart=/bin/sh -c 'sleep 2; echo first >> OUT'\n\
         ExecStop=/bin/sh -c 'sleep 2; echo down >> OUT'\n",
    );
    machine.unit(
        "second.service",
        "[Unit]\nRequires=first.service\nAfter=first.service\n\
         [Service]\nExecStart=/bin/sh -c 'echo second >> OUT; exec sleep 1000'\n",
    );
    let unwaited = |name: &str| wire::UnitJobRequest {
        no_wait: true,
        ..job(name)
    };
    // The second one's start waits for the first one's.
    let asked = units(&administrator).start_unit(unwaited("second")).await;
    asked.unwrap();
    until(&administrator, "first", "starting", |it| it.sub == "start").await;
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    until(&administrator, "second", "up", |it| it.sub == "running").await;
    written(&machine, &["first", "second"]).await;
    // A restart that is at its stop starts again.
    let asked = units(&administrator).restart_unit(unwaited("first")).await;
    asked.unwrap();
    until(&administrator, "first", "stopping", |it| it.sub == "stop").await;
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    until(&administrator, "second", "up again", |it| {
        it.sub == "running" && it.activation == 2
    })
    .await;
    let all = ["first", "second", "down", "first", "second"];
    written(&machine, &all).await;
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
    machine.service("sandboxed.service", "ExecStart=/bin/true\nRootImage=/image");
    let words = refused(&administrator, "sandboxed").await;
    assert!(
        words.contains("RootImage") && words.contains("not honoured"),
        "{words}"
    );
    machine.service(
        "warned.service",
        "ExecStart=/bin/sleep 1000\nLogLevelMax=err",
    );
    assert_eq!(start(&administrator, "warned").await.result, "done");
    let findings = status(&administrator, "warned").await.findings.join("\n");
    assert!(findings.contains("LogLevelMax"), "{findings}");
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

/// As systemd, which unloads what is inactive and in no loaded unit's files.
#[tokio::test]
async fn what_is_down_starts_by_its_files_as_they_are_and_what_runs_goes_on_as_it_was() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let ann = machine.node.administrator().await;
    let says = |word: &str| format!("Type=oneshot\nExecStart=/bin/sh -c 'echo {word} >> OUT'");
    machine.service("idle.service", &says("first"));
    machine.service("named.service", &says("named"));
    machine.unit(
        "runs.service",
        "[Unit]\nWants=named.service\n[Service]\nExecStart=/bin/sleep 1000\nExecStop=/bin/sh -c \
         'echo stopped >> OUT'\n",
    );
    start(&ann, "idle").await;
    start(&ann, "runs").await;
    written(&machine, &["first", "named"]).await;
    machine.service("idle.service", &says("second"));
    machine.service("named.service", &says("never"));
    machine.service("runs.service", "ExecStart=/bin/sleep 1000\n");
    symlink("idle.service", machine.at("lib/alias.service")).unwrap();
    start(&ann, "idle").await;
    start(&ann, "alias").await;
    assert_eq!(
        get(&ann, "alias").await.status.unwrap().name,
        "idle.service"
    );
    // What runs wants it, and holds on to what was read.
    start(&ann, "named").await;
    stop(&ann, "runs").await;
    let lines = ["first", "named", "second", "second", "named", "stopped"];
    written(&machine, &lines).await;
    // Nothing does any more.
    start(&ann, "named").await;
    assert_eq!(machine.out().last().unwrap(), "never");
    machine.node.stop();
}
