// SPDX-License-Identifier: Apache-2.0
//! What units print goes to a syslog that listens at systemd's socket, as rsyslog does on a Debian.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::units::{Machine, start, status, stop, until};

/// How long something may take that should happen soon.
const SOON: Duration = Duration::from_secs(60);

/// A machine whose journal is in a folder of the test's.
fn machine(more: &[&str]) -> Option<(Machine, PathBuf, tempfile::TempDir)> {
    let journal = tempfile::tempdir().unwrap();
    let folder = format!("journal.folder={}", journal.path().display());
    let own = ["journal.enabled=true", folder.as_str()];
    let settings: Vec<&str> = own.into_iter().chain(more.iter().copied()).collect();
    let machine = Machine::start_with(&settings)?;
    let socket = journal.path().join("syslog");
    Some((machine, socket, journal))
}

fn listen(socket: &PathBuf) -> UnixDatagram {
    let listens = UnixDatagram::bind(socket).unwrap();
    listens.set_read_timeout(Some(SOON)).unwrap();
    listens
}

/// The next message, without the number of the process.
fn next(syslog: &UnixDatagram) -> String {
    let mut buffer = vec![0; 64 << 10];
    let length = syslog.recv(&mut buffer).expect("no message");
    buffer.truncate(length);
    let text = String::from_utf8_lossy(&buffer).into_owned();
    let (tag, message) = text.split_once(": ").unwrap_or_default();
    format!("{}: {message}", tag.split('[').next().unwrap_or_default())
}

/// The next message of a program that is called so.
fn next_of(syslog: &UnixDatagram, program: &str) -> String {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < SOON, "{program} said nothing");
        let message = next(syslog);
        if message.contains(&format!(">{program}: ")) {
            return message;
        }
    }
}

#[tokio::test]
async fn what_a_unit_prints_is_passed_on_once_and_over_a_daemons_death() {
    let Some((mut machine, socket, _journal)) = machine(&[]) else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let syslog = listen(&socket);
    machine.service(
        "web.service",
        "SyslogIdentifier=web\nSyslogFacility=local0\nExecStart=/bin/sh -c 'echo plain; \
         echo \"<3>broken\" >&2; until [ -e OUT.go ]; do sleep 0.1; done; rm OUT.go; echo after; \
         until [ -e OUT.go ]; do sleep 0.1; done; printf end'\n",
    );
    assert_eq!(start(&administrator, "web").await.result, "done");
    let mut first = [next_of(&syslog, "web"), next_of(&syslog, "web")];
    first.sort();
    assert_eq!(first, ["<131>web: broken", "<134>web: plain"]);
    // What is silent for a while is heard again.
    tokio::time::sleep(Duration::from_secs(2)).await;
    std::fs::write(machine.at("out.go"), "").unwrap();
    assert_eq!(next_of(&syslog, "web"), "<134>web: after");
    // The next daemon passes on what comes, and not what has been passed on, to the syslog that is
    // there by then.
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    drop(syslog);
    std::fs::remove_file(&socket).unwrap();
    let syslog = listen(&socket);
    std::fs::write(machine.at("out.go"), "").unwrap();
    assert_eq!(next_of(&syslog, "web"), "<134>web: end");
    until(&administrator, "web", "down", |it| it.active == "inactive").await;
    machine.node.stop();
}

#[tokio::test]
async fn a_flood_takes_nothing_from_others_and_a_syslog_that_reads_nothing_holds_up_no_unit() {
    let limit = ["journal.rate_burst=1000", "journal.rate_interval=1s"];
    let Some((machine, socket, _journal)) = machine(&limit) else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let syslog = listen(&socket);
    machine.service("flood.service", "ExecStart=/usr/bin/yes flood\n");
    machine.service(
        "calm.service",
        "Type=oneshot\nExecStart=/bin/sh -c 'for i in $(seq 300); do echo line $i; done'\n",
    );
    assert_eq!(start(&administrator, "flood").await.result, "done");
    // Nothing reads the socket yet: more than it holds waits, and units go on.
    for _ in 0..3 {
        assert_eq!(start(&administrator, "calm").await.result, "done");
    }
    assert_eq!(status(&administrator, "flood").await.sub, "running");
    for round in 0..3 {
        for line in 1..=300 {
            let said = next_of(&syslog, "sh");
            assert!(said.starts_with("<30>sh: line "), "{round} {line}: {said}");
        }
    }
    let mut floods = 0;
    while !next_of(&syslog, "yes").contains("bytes of output were not passed on") {
        floods += 1;
        assert!(floods <= 1000, "more than its limit was passed on");
    }
    assert_eq!(stop(&administrator, "flood").await.result, "done");
    machine.node.stop();
}
