// SPDX-License-Identifier: Apache-2.0
//! Units that come and go without end: a record of each would fill the node. What they have printed
//! stays, under their names.

use std::net::TcpStream;
use std::time::Instant;

use api::observe::v0 as observe;
use api::runtime::v0 as runtime;
use api::schedule::v0 as wire;

use crate::caller::Person;
use crate::sockets::port;
use crate::units::{Machine, SOON, start, units};

/// What is recorded of units, by path.
async fn records(person: &Person) -> Vec<String> {
    let request = runtime::ListRequest {
        tenant: "system".to_owned(),
        below: "system".to_owned(),
        ..Default::default()
    };
    let listed = person.node.runtime().list(request).await.unwrap();
    let objects = listed.into_inner().objects.into_iter();
    let meta = |it: runtime::Object| match it.object? {
        runtime::object::Object::Cell(cell) => cell.meta,
        runtime::object::Object::Executable(executable) => executable.meta,
    };
    let paths = objects.filter_map(|it| Some(meta(it)?.r#ref?.path));
    paths.filter(|path| path != "system").collect()
}

/// The past of a unit, or of all: unit and message of each line.
async fn past(person: &Person, unit: Option<&str>) -> Vec<(String, String)> {
    let request = observe::JournalRequest {
        matches: unit
            .map(|it| format!("_SYSTEMD_UNIT={it}"))
            .into_iter()
            .collect(),
        past: true,
        ..Default::default()
    };
    let answer = person.node.observe().journal(request).await.unwrap();
    let (mut stream, mut lines) = (answer.into_inner(), Vec::new());
    while let Some(entry) = stream.message().await.unwrap() {
        let field = |name: &str| {
            let found = entry.fields.iter().find(|it| it.name == name).unwrap();
            String::from_utf8(found.value.clone()).unwrap()
        };
        lines.push((field("_SYSTEMD_UNIT"), field("MESSAGE")));
    }
    lines
}

/// Waits until nothing is recorded but what there is a file of.
async fn only_quiet_is_left(administrator: &Person) {
    let begun = Instant::now();
    loop {
        let left = records(administrator).await;
        // What there is a file of stays.
        assert!(
            left.iter().any(|it| it.starts_with("system/quiet")),
            "{left:?}"
        );
        if left.iter().all(|it| it.starts_with("system/quiet")) {
            break;
        }
        assert!(begun.elapsed() < 2 * SOON, "{left:?}");
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn a_flood_of_connections_leaves_no_record_and_every_line() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let tcp = port();
    machine.unit(
        "chat.socket",
        &format!("[Socket]\nListenStream={tcp}\nAccept=yes\n"),
    );
    machine.service(
        "chat@.service",
        "StandardOutput=journal\nExecStart=/bin/sh -c 'echo from $REMOTE_PORT'\n",
    );
    machine.service("quiet.service", "Type=oneshot\nExecStart=/bin/true\n");
    start(&administrator, "quiet").await;
    start(&administrator, "chat.socket").await;
    let mut ports = Vec::new();
    for _ in 0..40 {
        let stream = TcpStream::connect(tcp).unwrap();
        ports.push(stream.local_addr().unwrap().port());
    }
    let begun = Instant::now();
    while records(&administrator).await.len() < 2 * ports.len() {
        assert!(begun.elapsed() < SOON, "not all connections have begun");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    // A unit that a call makes; and a daemon that knows of neither.
    let made = wire::StartTransientUnitRequest {
        name: "once.service".to_owned(),
        text: "[Service]\nType=oneshot\nExecStart=/bin/echo once\n".to_owned(),
        ..Default::default()
    };
    let made = units(&administrator).start_transient_unit(made).await;
    assert_eq!(made.unwrap().into_inner().result, "done");
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    // By hand: the daemon does so too, a while later.
    let _gone = std::fs::remove_file(machine.at("transient/once.service"));
    let request = wire::ReloadUnitFilesRequest {};
    units(&administrator)
        .reload_unit_files(request)
        .await
        .unwrap();
    only_quiet_is_left(&administrator).await;
    let mut said: Vec<(String, String)> = past(&administrator, None).await;
    let once = ("once.service".to_owned(), "once".to_owned());
    let of_once = past(&administrator, Some("once.service")).await;
    assert_eq!(of_once, std::slice::from_ref(&once));
    assert!(said.contains(&once));
    said.retain(|it| *it != once);
    for port in ports {
        let named = format!("-127.0.0.1:{port}.service");
        let line = format!("from {port}");
        let of = said.iter().filter(|it| it.1 == line).collect::<Vec<_>>();
        assert!(of.len() == 1 && of[0].0.ends_with(&named), "{port}: {of:?}");
        assert_eq!(past(&administrator, Some(&of[0].0)).await.len(), 1);
    }
    assert_eq!(said.len(), 40);
    machine.node.stop();
}
