// SPDX-License-Identifier: Apache-2.0
//! What services of a machine need of the runtime: light cells, daemons that put themselves in the
//! background, kill modes, streams to files. The daemon is killed in between.

use std::path::Path;

use api::runtime::v0 as wire;
use api::runtime::v0::ending::{KillMode, MainProcess};
use api::status::{Reason, from_status};
use testkit::until;

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::{cell, shared_cell};
use crate::table::Whom::Administrator;
use crate::table::at;

/// A node with the cell `system`, which shares all that the node has, and its administrator.
async fn with_system() -> Option<(TestNode, Person)> {
    let node = TestNode::start()?;
    let administrator = node.administrator().await;
    administrator.introduce(&node, "acme", "ann", None).await;
    let system = shared_cell("system");
    let made = administrator.node.runtime().run_cell(system).await;
    made.unwrap();
    Some((node, administrator))
}

fn light() -> wire::CellSpec {
    wire::CellSpec {
        light: true,
        ..Default::default()
    }
}

async fn light_cell(person: &Person, path: &str) -> wire::CellStatus {
    let asked = cell(Administrator, path, light());
    let made = person.node.runtime().run_cell(asked).await;
    made.unwrap().into_inner()
}

fn shell(script: &str) -> wire::ExecutableSpec {
    wire::ExecutableSpec {
        argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        ..Default::default()
    }
}

async fn run(
    person: &Person,
    path: &str,
    spec: wire::ExecutableSpec,
    wait_for: wire::WaitFor,
) -> Result<wire::ExecutableStatus, tonic::Status> {
    let asked = wire::RunExecutableRequest {
        executable: Some(wire::Executable {
            r#ref: at(Administrator, path),
            spec: Some(spec),
            ..Default::default()
        }),
        wait_for: wait_for.into(),
        ..Default::default()
    };
    let ran = person.node.runtime().run_executable(asked).await;
    ran.map(tonic::Response::into_inner)
}

async fn started(
    person: &Person,
    path: &str,
    spec: wire::ExecutableSpec,
) -> wire::ExecutableStatus {
    run(person, path, spec, wire::WaitFor::Started)
        .await
        .unwrap()
}

async fn get(person: &Person, path: &str) -> wire::ExecutableStatus {
    let asked = wire::GetRequest {
        r#ref: at(Administrator, path),
    };
    let got = person.node.runtime().get(asked).await.unwrap();
    match got.into_inner().object {
        Some(wire::object::Object::Executable(executable)) => executable,
        other => panic!("{other:?}"),
    }
}

async fn stop(person: &Person, path: &str) {
    let asked = wire::StopRequest {
        r#ref: at(Administrator, path),
        grace: None,
    };
    person.node.runtime().stop(asked).await.unwrap();
}

/// Kills an executable's main process; answers how it has ended then.
async fn killed(person: &Person, running: &wire::ExecutableStatus) -> wire::exit::How {
    let meta = running.meta.clone().unwrap();
    let signal = wire::SignalRequest {
        r#ref: meta.r#ref.clone(),
        signal: "KILL".to_owned(),
        all_processes: false,
    };
    person.node.runtime().signal(signal).await.unwrap();
    let wait = wire::WaitRequest { r#ref: meta.r#ref };
    let ended = person.node.runtime().wait(wait).await.unwrap().into_inner();
    match ended.object {
        Some(wire::object::Object::Executable(ended)) => ended.exit.unwrap().how.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest.trim_start());
    !state.is_empty() && !state.starts_with('Z')
}

fn number_in(file: &Path) -> u32 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[tokio::test]
async fn a_light_cell_costs_no_process_and_is_found_again() {
    let Some((mut node, mut administrator)) = with_system().await else {
        return;
    };
    let before = node.processes().len();
    let unit = light_cell(&administrator, "system/unit").await;
    assert_eq!(node.processes().len(), before, "no init of its own");
    let one = started(&administrator, "system/unit/one", shell("exec sleep 1000")).await;
    let two = started(&administrator, "system/unit/two", shell("exec sleep 1000")).await;
    let group = node.group().join("tenants/acme/system/unit");
    assert!(group.join("one").exists() && unit.cgroup.ends_with("acme/system/unit"));
    node.kill_daemon();
    administrator = node.administrator().await;
    for (path, known) in [("system/unit/one", &one), ("system/unit/two", &two)] {
        let now = get(&administrator, path).await;
        assert_eq!(
            (now.pid, now.state),
            (known.pid, wire::State::Running.into())
        );
    }
    let how = killed(&administrator, &one).await;
    assert_eq!(how, wire::exit::How::Signal(9));
    // It takes new ones, and ends with what is in it; the cell around it goes on.
    let well = run(
        &administrator,
        "system/unit/three",
        shell("exit 3"),
        wire::WaitFor::Exited,
    );
    let how = well.await.unwrap().exit.unwrap().how.unwrap();
    assert_eq!(how, wire::exit::How::Code(3));
    stop(&administrator, "system/unit").await;
    assert!(!group.exists() && !runs(two.pid));
    assert_eq!(node.processes().len(), before);
    light_cell(&administrator, "system/unit").await;
    stop(&administrator, "system").await;
    assert!(!group.exists());
    node.stop();
}

#[tokio::test]
async fn a_daemon_that_goes_to_the_background_stays() {
    let Some((mut node, mut administrator)) = with_system().await else {
        return;
    };
    light_cell(&administrator, "system/unit").await;
    let file = node.folder().join("daemon.pid");
    let shown = file.display();
    let ending = |main: MainProcess| {
        let has_file = main == MainProcess::PidFile;
        Some(wire::Ending {
            main_process: main.into(),
            pid_file: if has_file {
                file.display().to_string()
            } else {
                String::new()
            },
            ..Default::default()
        })
    };
    // The control: what the executed process leaves behind is stopped.
    let forks = format!("sleep 1000 & echo $! > {shown}");
    let ended = run(
        &administrator,
        "system/unit/a",
        shell(&forks),
        wire::WaitFor::Exited,
    );
    ended.await.unwrap();
    assert!(!runs(number_in(&file)));
    // The file comes late.
    let late = format!("(sleep 0.2; echo $$ > {shown}.new; exec sleep 1000) & exit 0");
    let late = late.replace("$$", "$(exec sh -c 'echo $PPID')");
    let late = late.replace("exec sleep", &format!("mv {shown}.new {shown}; exec sleep"));
    for (main, script) in [
        (MainProcess::Guessed, forks.as_str()),
        (MainProcess::PidFile, forks.as_str()),
        (MainProcess::PidFile, late.as_str()),
    ] {
        let _ = std::fs::remove_file(&file);
        let spec = wire::ExecutableSpec {
            ending: ending(main),
            ..shell(script)
        };
        let daemon = started(&administrator, "system/unit/a", spec).await;
        assert_eq!(daemon.pid, number_in(&file), "{main:?}");
        assert!(runs(daemon.pid));
        node.kill_daemon();
        administrator = node.administrator().await;
        let again = get(&administrator, "system/unit/a").await;
        assert_eq!(
            (again.pid, again.state),
            (daemon.pid, wire::State::Running.into())
        );
        let how = killed(&administrator, &again).await;
        assert_eq!(how, wire::exit::How::Signal(9), "{main:?}");
    }
    let spec = wire::ExecutableSpec {
        ending: ending(MainProcess::None),
        ..shell(&forks)
    };
    runs_as_long_as_one_of_it(&administrator, spec, &file).await;
    // A start that fails says how.
    let spec = wire::ExecutableSpec {
        ending: ending(MainProcess::Guessed),
        ..shell("exit 4")
    };
    let failed = started(&administrator, "system/unit/a", spec).await;
    assert_eq!(failed.exit.unwrap().how, Some(wire::exit::How::Code(4)));
    node.stop();
}

/// Without a main process it runs as long as something of it does.
async fn runs_as_long_as_one_of_it(
    administrator: &Person,
    spec: wire::ExecutableSpec,
    file: &Path,
) {
    let daemon = started(administrator, "system/unit/a", spec).await;
    assert_eq!((daemon.pid, daemon.state), (0, wire::State::Running.into()));
    let pid = number_in(file);
    let process = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    let meta = daemon.meta.unwrap();
    let wait = wire::WaitRequest { r#ref: meta.r#ref };
    administrator.node.runtime().wait(wait).await.unwrap();
}

#[tokio::test]
async fn kill_modes_say_who_outlives_the_main_process() {
    let Some((node, administrator)) = with_system().await else {
        return;
    };
    light_cell(&administrator, "system/unit").await;
    let file = node.folder().join("child.pid");
    let shown = file.display();
    // The child ignores the stop signal; the main process doesn't.
    let script = format!(
        "sh -c 'trap \"\" TERM; echo $$ > {shown}; while :; do sleep 1; done' & \
         until [ -s {shown} ]; do sleep 0.05; done; exec sleep 1000"
    );
    let spec = |mode: KillMode| wire::ExecutableSpec {
        ending: Some(wire::Ending {
            kill_mode: mode.into(),
            ..Default::default()
        }),
        stop_grace: Some(prost_types::Duration {
            seconds: 60,
            nanos: 0,
        }),
        ..shell(&script)
    };
    let began = std::time::Instant::now();
    for (mode, child_stays) in [(KillMode::Mixed, false), (KillMode::Process, true)] {
        let _ = std::fs::remove_file(&file);
        started(&administrator, "system/unit/a", spec(mode)).await;
        until("the child", || runs(number_in(&file)));
        let child = number_in(&file);
        stop(&administrator, "system/unit/a").await;
        assert_eq!(runs(child), child_stays, "{mode:?}");
        // Its name is free all the same.
        let again = started(&administrator, "system/unit/a", shell("exec sleep 1000")).await;
        assert!(runs(again.pid));
        stop(&administrator, "system/unit/a").await;
        assert_eq!(runs(child), child_stays, "{mode:?}");
    }
    assert!(began.elapsed().as_secs() < 60, "a grace was waited for");
    let child = number_in(&file);
    stop(&administrator, "system/unit").await;
    until("the cell ends what was left behind", || !runs(child));
    node.stop();
}

#[tokio::test]
async fn streams_lead_to_files_and_programs_have_other_names() {
    let Some((node, administrator)) = with_system().await else {
        return;
    };
    let file = node.folder().join("out");
    let stream = |kind: wire::standard_stream::Kind, path: &Path| {
        Some(wire::StandardStream {
            kind: kind.into(),
            path: path.display().to_string(),
        })
    };
    let spec = |kind: wire::standard_stream::Kind, script: &str| wire::ExecutableSpec {
        argv: ["another-name", "-c", script].map(str::to_owned).to_vec(),
        program: "/bin/sh".to_owned(),
        cwd: "/nosuch/folder".to_owned(),
        cwd_optional: true,
        streams: Some(wire::Streams {
            stdin: None,
            stdout: stream(kind, &file),
            stderr: stream(wire::standard_stream::Kind::Inherit, Path::new("")),
        }),
        ..Default::default()
    };
    for (kind, script, said) in [
        (
            wire::standard_stream::Kind::File,
            "echo $0 in $PWD",
            "another-name in /\n",
        ),
        (
            wire::standard_stream::Kind::Append,
            "echo more >&2",
            "another-name in /\nmore\n",
        ),
        (wire::standard_stream::Kind::Truncate, "echo less", "less\n"),
        (wire::standard_stream::Kind::File, "printf L", "Less\n"),
    ] {
        let spec = spec(kind, script);
        let ended = run(&administrator, "system/a", spec, wire::WaitFor::Exited).await;
        let how = ended.unwrap().exit.unwrap().how.unwrap();
        assert_eq!(how, wire::exit::How::Code(0), "{script}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), said, "{script}");
    }
    let missing = wire::ExecutableSpec {
        streams: Some(wire::Streams {
            stdin: stream(wire::standard_stream::Kind::File, Path::new("/nosuch")),
            ..Default::default()
        }),
        ..shell("exit 0")
    };
    let refused = run(&administrator, "system/a", missing, wire::WaitFor::Exited).await;
    let refused = from_status(&refused.unwrap_err());
    assert_eq!(refused.field.as_deref(), Some("executable.spec.streams"));
    node.stop();
}

#[tokio::test]
async fn a_member_gets_no_more_by_it_than_he_had() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    let top = cell(Administrator, "light", light());
    let top = ann.node.runtime().run_cell(top).await;
    let refused = from_status(&top.unwrap_err());
    assert_eq!(
        refused.field.as_deref(),
        Some("cell.spec.light"),
        "{refused:?}"
    );
    let web = cell(Administrator, "web", wire::CellSpec::default());
    if let Err(status) = ann.node.runtime().run_cell(web).await {
        return testkit::skip(&format!("no isolated cells here: {status}"));
    }
    light_cell(&ann, "web/light").await;
    type Change = fn(&mut wire::ExecutableSpec);
    let cases: [(&str, Reason, Change); 3] = [
        ("scheduling.policy", Reason::PermissionDenied, |spec| {
            spec.scheduling = Some(wire::Scheduling {
                policy: wire::scheduling::Policy::Fifo.into(),
                priority: Some(1),
                ..Default::default()
            });
        }),
        ("ending.pid_file", Reason::Unsupported, |spec| {
            spec.ending = Some(wire::Ending {
                main_process: MainProcess::PidFile.into(),
                pid_file: "/run/a.pid".to_owned(),
                ..Default::default()
            });
        }),
        ("streams.stdin.path", Reason::InvalidField, |spec| {
            spec.streams = Some(wire::Streams {
                stdin: Some(wire::StandardStream {
                    kind: wire::standard_stream::Kind::Descriptor.into(),
                    path: "listen".to_owned(),
                }),
                ..Default::default()
            });
        }),
    ];
    for (field, reason, change) in cases {
        let mut spec = shell("exit 0");
        change(&mut spec);
        let refused = run(&ann, "web/light/a", spec, wire::WaitFor::Exited).await;
        let refused = from_status(&refused.unwrap_err());
        assert_eq!(refused.reason, Some(reason), "{field}: {refused:?}");
        let field = format!("executable.spec.{field}");
        assert_eq!(refused.field, Some(field));
    }
    // In a light cell of his own he is the root of the cell around it, and of nothing more.
    let seen = "[ $(id -u) = 0 ] && ! [ -e /proc/1/root/etc/shadow -a -r /etc/shadow ]";
    let ended = run(&ann, "web/light/a", shell(seen), wire::WaitFor::Exited).await;
    let how = ended.unwrap().exit.unwrap().how.unwrap();
    assert_eq!(how, wire::exit::How::Code(0));
    node.stop();
}
