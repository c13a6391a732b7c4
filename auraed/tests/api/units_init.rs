// SPDX-License-Identifier: Apache-2.0
//! The init of the cell that all units run in is killed: no service ends by it, and the next one
//! knows what there is. A tenant's cell ends with its init.

use std::time::{Duration, Instant};

use api::node::v0::{ListUnownedRequest, UnownedProcess};
use api::runtime::v0 as runtime;
use testkit::until as wait_until;

use crate::caller::Person;
use crate::node::TestNode;
use crate::requests::shared_cell;
use crate::table::Whom::Administrator;
use crate::table::{argv, at};
use crate::units::{Machine, kill, lives, pid_in, start, state, status, stop, until};

/// How long something may take that should happen soon.
const SOON: Duration = Duration::from_secs(60);

/// The init of the cell of a tenant's; none while there is none.
fn init_of(node: &TestNode, cell: &str) -> Option<u32> {
    let mut all = node.processes().into_iter();
    let found = all.find(|(name, _)| name.starts_with("aurae-cell") && name.ends_with(cell));
    found.map(|(_, pid)| pid.parse().unwrap())
}

/// Kills the init of all units, and waits until the next one has adopted them.
fn kill_init(node: &TestNode) -> u32 {
    let old = init_of(node, " system/system").unwrap();
    let adopted = || node.log().matches("another init has adopted").count();
    let before = adopted();
    kill(old);
    wait_until("there is another init", || {
        adopted() > before && init_of(node, " system/system").is_some_and(|new| new != old)
    });
    old
}

fn in_system(path: &str) -> Option<runtime::ObjectRef> {
    Some(runtime::ObjectRef {
        tenant: "system".to_owned(),
        path: path.to_owned(),
        ..Default::default()
    })
}

/// How an executable of a unit has ended.
async fn end_of(person: &Person, path: &str) -> runtime::exit::How {
    let r#ref = in_system(path);
    let get = runtime::GetRequest { r#ref };
    let ended = person.node.runtime().get(get).await.unwrap().into_inner();
    match ended.object {
        Some(runtime::object::Object::Executable(ended)) => ended.exit.unwrap().how.unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn logged(person: &Person, path: &str, word: &str) {
    let begun = Instant::now();
    while !person.log_of(in_system(path)).await.contains(word) {
        assert!(
            begun.elapsed() < SOON,
            "{word:?} is not in the log of {path}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

const SAY: &str = "use Socket; $| = 1;\n\
    sub word { socket(my $s, AF_UNIX, SOCK_DGRAM, 0);\n\
    send($s, $_[0], 0, pack_sockaddr_un($ENV{NOTIFY_SOCKET})); }\n";

/// Whether the node can limit how many processes there are.
fn has_tasks(machine: &Machine) -> bool {
    let file = machine.node.group().join("cgroup.controllers");
    let controllers = std::fs::read_to_string(file).unwrap();
    controllers.split_whitespace().any(|name| name == "pids")
}

/// A service of each kind.
fn services(machine: &Machine) {
    let tasks = match has_tasks(machine) {
        true => "TasksMax=77",
        false => "",
    };
    let web = "ExecStart=/bin/sh -c 'echo before; until [ -e OUT.go ]; do sleep 0.1; done; \
               rm OUT.go; echo after; exit 3'\nRestart=on-failure\nRestartSec=100ms\n\
               LimitNOFILE=777\n";
    machine.service("web.service", &format!("{web}{tasks}"));
    machine.service(
        "forks.service",
        "Type=forking\nPIDFile=OUT.pid\nRestart=on-failure\nRestartSec=100ms\n\
         ExecStart=/bin/sh -c 'sleep 1000 & echo $! > OUT.pid'",
    );
    machine.service(
        "once.service",
        "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo once >> OUT'\n\
         ExecStop=/bin/sh -c 'echo undone >> OUT'",
    );
    let says = machine.at("says.pl");
    let body = "word(\"READY=1\\nSTATUS=at work\");\n\
                while (! -e $ARGV[0]) { select(undef, undef, undef, 0.1); word('WATCHDOG=1'); }\n\
                word('STATUS=later'); sleep 1000;\n";
    std::fs::write(&says, format!("{SAY}{body}")).unwrap();
    machine.service(
        "says.service",
        &format!(
            "Type=notify\nExecStart=/usr/bin/perl {} OUT.say",
            says.display()
        ),
    );
    machine.unit(
        "port.socket",
        &format!(
            "[Socket]\nListenStream={}\nAccept=yes\n",
            machine.at("port").display()
        ),
    );
    machine.unit(
        "port@.service",
        "[Service]\nExecStart=/bin/sh -c 'echo served'\nStandardInput=socket\n\
         StandardOutput=socket\n",
    );
}

fn ask_port(machine: &Machine) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(machine.at("port")).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    text
}

const UP: [&str; 3] = ["web", "forks", "says"];

async fn mains(person: &Person) -> Vec<Option<u32>> {
    let mut pids = Vec::new();
    for name in UP {
        let now = status(person, name).await;
        assert_eq!((&*now.active, &*now.sub), ("active", "running"), "{name}");
        pids.push(now.main_pid);
    }
    pids
}

#[tokio::test]
async fn the_death_of_the_init_of_all_units_ends_no_service() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let made: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(machine.folder.path(), made).unwrap();
    services(&machine);
    for name in ["web", "forks", "once", "says", "port.socket"] {
        let job = start(&administrator, name).await;
        assert_eq!(job.result, "done", "{name}: {job:#?}");
    }
    let before = mains(&administrator).await;
    kill_init(&machine.node);
    assert_eq!(mains(&administrator).await, before);
    let web = status(&administrator, "web").await;
    assert!(before.iter().flatten().all(|pid| lives(*pid)));
    let unowned = ListUnownedRequest {};
    let unowned = administrator.node.node().list_unowned(unowned).await;
    let unowned = unowned.unwrap().into_inner().processes;
    let is_ours = |process: &UnownedProcess| before.contains(&Some(process.pid));
    assert!(!unowned.iter().any(is_ours), "{unowned:?}");
    let once = state(&administrator, "once").await;
    assert_eq!((&*once.0, &*once.1), ("active", "exited"));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", before[0].unwrap())).unwrap();
    assert!(limits.contains(" 777 "), "{limits}");
    if has_tasks(&machine) {
        let limit = machine.node.group().join("system/system/web/pids.max");
        assert_eq!(std::fs::read_to_string(limit).unwrap().trim(), "77");
    }
    // What it writes is in its log, its end is its own, and so is what follows from that.
    std::fs::write(machine.at("out.go"), "").unwrap();
    logged(&administrator, &web.path, "before\nafter\n").await;
    let again = until(&administrator, "web", "restarted", |it| {
        it.sub == "running" && it.activation == web.activation + 1
    });
    again.await;
    let how = end_of(&administrator, &web.path).await;
    assert_eq!(how, runtime::exit::How::Code(3));
    // So it is of what has put itself in the background.
    let gone = status(&administrator, "forks").await;
    kill(before[1].unwrap());
    let forks = until(&administrator, "forks", "restarted", |it| {
        it.sub == "running" && it.main_pid.is_some() && it.main_pid != before[1]
    });
    let forks = forks.await;
    let how = end_of(&administrator, &gone.path).await;
    assert_eq!(how, runtime::exit::How::Signal(9));
    assert_eq!(forks.main_pid, Some(pid_in(&machine, "out.pid").await));
    // Words, connections, new units and stops are as before.
    std::fs::write(machine.at("out.say"), "").unwrap();
    until(&administrator, "says", "heard", |it| it.message == "later").await;
    assert_eq!(ask_port(&machine), "served\n");
    assert_eq!(stop(&administrator, "once").await.result, "done");
    assert_eq!(machine.out(), ["once", "undone"]);
    // The next daemon finds what the next init keeps; and that one may die, too.
    let now = mains(&administrator).await;
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    assert_eq!(mains(&administrator).await, now);
    kill_init(&machine.node);
    assert_eq!(mains(&administrator).await, now);
    for (name, pid) in UP.into_iter().zip(now) {
        assert_eq!(stop(&administrator, name).await.result, "done");
        assert!(!lives(pid.unwrap()), "{name} is stopped");
        let now = status(&administrator, name).await;
        assert_eq!(now.active, "inactive", "{name}");
    }
    machine.node.stop();
}

#[tokio::test]
async fn what_ends_between_two_inits_has_its_own_end() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    for code in 1..=20 {
        machine.service(
            &format!("s{code}.service"),
            &format!(
                "ExecStart=/bin/sh -c 'while kill -0 $(cat OUT.init); do :; done; exit {code}'"
            ),
        );
    }
    machine.service("first.service", "ExecStart=/bin/sleep 1000");
    start(&administrator, "first").await;
    let init = init_of(&machine.node, " system/system").unwrap();
    std::fs::write(machine.at("out.init"), init.to_string()).unwrap();
    for code in 1..=20 {
        start(&administrator, &format!("s{code}")).await;
    }
    kill_init(&machine.node);
    for code in 1..=20 {
        let name = format!("s{code}");
        let ended = until(&administrator, &name, "ended", |it| it.active == "failed");
        let ended = ended.await;
        let told = (ended.exit_code.clone(), ended.exit_status.clone());
        assert_eq!(told, ("exited".to_owned(), code.to_string()), "{ended:#?}");
    }
    assert_eq!(status(&administrator, "first").await.sub, "running");
    machine.node.stop();
}

#[tokio::test]
async fn what_starts_and_stops_while_the_init_dies_is_in_a_known_state_afterwards() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service("first.service", "ExecStart=/bin/sleep 1000");
    start(&administrator, "first").await;
    let names: Vec<String> = (0..12).map(|number| format!("s{number}")).collect();
    for name in &names {
        machine.service(
            &format!("{name}.service"),
            "ExecStartPre=/bin/true\nExecStart=/bin/sleep 1000\nExecStop=/bin/true",
        );
    }
    for round in 0..2 {
        let node = &machine.node;
        let dies = async |after| {
            tokio::time::sleep(Duration::from_millis(after)).await;
            kill_init(node);
        };
        let starts = names.iter().map(|name| start(&administrator, name));
        let starts = futures_util::future::join_all(starts);
        let (jobs, ()) = tokio::join!(starts, dies(10 + round * 15));
        for (name, job) in names.iter().zip(jobs) {
            // One that the dead init was carrying out has failed, with words.
            let now = state(&administrator, name).await;
            match job.result.as_str() {
                "done" => assert_eq!(now.1, "running", "{name}"),
                "failed" => assert_eq!(now.0, "failed", "{name}"),
                other => panic!("{name}: {other}"),
            }
            if now.0 == "failed" {
                assert_eq!(start(&administrator, name).await.result, "done", "{name}");
            }
        }
        let mut pids = Vec::new();
        for name in &names {
            pids.push(status(&administrator, name).await.main_pid.unwrap());
        }
        let stops = names.iter().map(|name| stop(&administrator, name));
        let stops = futures_util::future::join_all(stops);
        let (jobs, ()) = tokio::join!(stops, dies(10 + round * 15));
        for (name, job) in names.iter().zip(jobs) {
            assert_eq!(job.result, "done", "{name}");
            assert_ne!(state(&administrator, name).await.0, "active", "{name}");
        }
        assert!(pids.iter().all(|pid| !lives(*pid)), "round {round}");
        assert_eq!(status(&administrator, "first").await.sub, "running");
    }
    machine.node.stop();
}

#[tokio::test]
async fn an_init_that_dies_again_and_again_takes_its_cell_with_it_and_units_begin_anew() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "web.service",
        "ExecStart=/bin/sleep 1000\nRestart=always\nRestartSec=100ms",
    );
    start(&administrator, "web").await;
    let before = status(&administrator, "web").await;
    for _ in 0..5 {
        kill_init(&machine.node);
        assert_eq!(
            status(&administrator, "web").await.main_pid,
            before.main_pid
        );
    }
    kill(init_of(&machine.node, " system/system").unwrap());
    let anew = until(&administrator, "web", "running anew", |it| {
        it.sub == "running" && it.activation > before.activation
    });
    assert_ne!(anew.await.main_pid, before.main_pid);
    assert!(!lives(before.main_pid.unwrap()), "nothing is left unseen");
    let log = machine.node.log();
    assert!(
        log.contains("5 inits of the cell were lost within"),
        "{log}"
    );
    machine.node.stop();
}

#[tokio::test]
async fn an_init_that_is_told_to_end_ends_its_cell_in_order() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.unit(
        "web.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh -c \
         'trap \"echo bye; exit 0\" TERM; echo up; while :; do sleep 0.1; done'\n",
    );
    start(&administrator, "web").await;
    let before = status(&administrator, "web").await;
    logged(&administrator, &before.path, "up").await;
    let init = init_of(&machine.node, " system/system").unwrap();
    let init = rustix::process::Pid::from_raw(init.try_into().unwrap()).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::TERM).unwrap();
    until(&administrator, "web", "down", |it| it.active == "inactive").await;
    let said = administrator.log_of(in_system(&before.path)).await;
    assert_eq!(said, "up\nbye\n");
    wait_until("the cell has ended", || {
        init_of(&machine.node, " system/system").is_none()
    });
    assert!(!machine.node.log().contains("has adopted what runs"));
    // The next unit has the next cell, once this one has gone.
    let begun = Instant::now();
    while start(&administrator, "web").await.result != "done" {
        assert!(begun.elapsed() < SOON, "no unit can be started any more");
    }
    machine.node.stop();
}

#[tokio::test]
async fn where_the_daemon_dies_with_the_init_units_end_and_begin_as_they_declare() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    machine.service(
        "web.service",
        "ExecStart=/bin/sleep 1000\nRestart=always\nRestartSec=100ms",
    );
    start(&administrator, "web").await;
    let before = status(&administrator, "web").await.main_pid.unwrap();
    let init = init_of(&machine.node, " system/system").unwrap();
    // No daemon sees it: the one that comes finds a cell without an init.
    let daemon = machine.node.daemon();
    kill(daemon.parse().unwrap());
    kill(init);
    wait_until("there is another daemon", || {
        let all = machine.node.processes();
        let mut daemons = all.iter().filter(|(name, _)| name == "serve");
        daemons.any(|(_, pid)| *pid != daemon) && machine.node.answers()
    });
    let administrator = machine.node.administrator().await;
    let anew = until(&administrator, "web", "running anew", |it| {
        it.sub == "running" && it.main_pid != Some(before)
    });
    assert!(anew.await.main_pid.is_some());
    wait_until("nothing is left unseen", || !lives(before));
    machine.node.stop();
}

#[tokio::test]
async fn a_tenants_cell_ends_with_its_init_also_where_it_shares_all_that_the_node_has() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    administrator.introduce(&node, "acme", "ann", None).await;
    let web = shared_cell("web");
    let made = administrator.node.runtime().run_cell(web).await;
    let made = made.unwrap().into_inner();
    let asked = runtime::RunExecutableRequest {
        executable: Some(runtime::Executable {
            r#ref: at(Administrator, "web/job"),
            spec: Some(argv(&["/bin/sleep", "1000"])),
            ..Default::default()
        }),
        ..Default::default()
    };
    let job = administrator.node.runtime().run_executable(asked).await;
    let job = job.unwrap().into_inner();
    kill(made.pid);
    let wait = runtime::WaitRequest {
        r#ref: job.meta.unwrap().r#ref,
    };
    let ended = administrator.node.runtime().wait(wait).await.unwrap();
    let Some(runtime::object::Object::Executable(ended)) = ended.into_inner().object else {
        panic!("an executable has ended");
    };
    assert_eq!(ended.state, i32::from(runtime::State::Failed));
    assert!(!lives(job.pid));
    node.stop();
}
