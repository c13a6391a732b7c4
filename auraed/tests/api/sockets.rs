// SPDX-License-Identifier: Apache-2.0
//! Socket and path units on a real node: they start what serves them, with the descriptors it is to
//! have; what listens outlives the daemon; who comes too often, or takes another's address, is
//! stopped or refused in words.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::schedule::v0 as wire;

use crate::units::{Machine, job, refused, start, state, status, stop, units, until};

/// How long a client waits for an answer: a daemon may be about to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves every socket that it was given, one connection after the other, with its pid and what it
/// was told; ends after as many as its argument says.
const SERVER: &str = r#"
use strict;
my ($most) = @ARGV;
my @listening;
for my $number (3 .. 2 + $ENV{LISTEN_FDS}) {
    open(my $socket, "+<&=", $number) or die "descriptor $number: $!";
    push @listening, $socket;
}
my $own = $ENV{LISTEN_PID} == $$ ? "own" : "another's";
my $served = 0;
while ($served < $most) {
    my $wanted = "";
    vec($wanted, fileno($_), 1) = 1 for @listening;
    select($wanted, undef, undef, undef);
    for my $socket (@listening) {
        next unless vec($wanted, fileno($socket), 1);
        accept(my $client, $socket) or next;
        syswrite($client, "$$ $ENV{LISTEN_FDS} $ENV{LISTEN_FDNAMES} $own\n");
        close($client);
        $served++;
    }
}
"#;

fn server(machine: &Machine) -> String {
    let path = machine.at("serve.pl");
    std::fs::write(&path, SERVER).unwrap();
    format!("/usr/bin/perl {}", path.display())
}

/// A port that nobody has.
pub(crate) fn port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

fn answer(stream: impl Read) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

async fn ask(path: &Path) -> std::io::Result<String> {
    let path = path.to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        answer(stream)
    });
    asked.await.unwrap()
}

/// Nobody listens there any more: node-init lets go beside the answer.
async fn closed(path: &Path) {
    let begun = Instant::now();
    while UnixStream::connect(path).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "somebody has it still");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn ask_port(address: SocketAddr) -> std::io::Result<String> {
    let asked = tokio::task::spawn_blocking(move || {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        answer(stream)
    });
    asked.await.unwrap()
}

#[tokio::test]
async fn a_socket_starts_its_service_when_somebody_comes_and_listens_again_when_it_ends() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let (path, link, tcp) = (machine.at("run/deep/web"), machine.at("link"), port());
    let server = server(&machine);
    machine.unit(
        "web.socket",
        &format!(
            "[Socket]\nListenStream={}\nListenStream={tcp}\nSocketMode=0600\nSymlinks={}\n\
             FileDescriptorName=front\nRemoveOnStop=yes\nKeepAlive=yes\nReceiveBuffer=64K\n\
             ExecStartPre=/bin/sh -c 'echo pre >> OUT'\n\
             ExecStopPre=/bin/sh -c 'echo before >> OUT'\n\
             ExecStopPost=/bin/sh -c 'echo after >> OUT'\n",
            path.display(),
            link.display()
        ),
    );
    machine.service("web.service", &format!("ExecStart={server} 2"));
    assert_eq!(start(&administrator, "web.socket").await.result, "done");
    let listening = state(&administrator, "web.socket").await;
    assert_eq!(
        listening,
        ("active".into(), "listening".into(), "success".into())
    );
    assert_eq!(state(&administrator, "web").await.0, "inactive");
    let mode = std::fs::metadata(&path).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o600
    );
    // The first one starts it; the second one reaches the same.
    let first = ask(&link).await.unwrap();
    assert!(first.ends_with(" 2 front:front own"), "{first}");
    until(&administrator, "web.socket", "running", |it| {
        it.sub == "running"
    })
    .await;
    let second = ask_port(tcp).await.unwrap();
    assert_eq!(first, second);
    // It has ended after two: the socket listens again, and another one is started.
    let third = ask(&path).await.unwrap();
    assert_ne!(first, third);
    let up = until(&administrator, "web", "known", |it| it.main_pid.is_some()).await;
    let pid = up.main_pid.unwrap();
    assert!(third.starts_with(&format!("{pid} ")), "{third}");
    assert_eq!(stop(&administrator, "web").await.result, "done");
    until(&administrator, "web.socket", "listening", |it| {
        it.sub == "listening"
    })
    .await;
    assert_eq!(stop(&administrator, "web.socket").await.result, "done");
    assert_eq!(state(&administrator, "web.socket").await.1, "dead");
    assert!(ask_port(tcp).await.is_err());
    let gone = || !path.exists() && std::fs::symlink_metadata(&link).is_err();
    let begun = Instant::now();
    while !gone() {
        assert!(begun.elapsed() < PATIENCE, "its files stay");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(machine.out(), ["pre", "before", "after"]);
}

#[tokio::test]
async fn the_files_of_a_socket_that_is_restarted_are_the_new_ones() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let path = machine.at("web");
    let socket = format!(
        "[Socket]\nListenStream={}\nRemoveOnStop=yes\n",
        path.display()
    );
    machine.unit("web.socket", &socket);
    machine.service("web.service", "ExecStart=/bin/true");
    start(&administrator, "web.socket").await;
    for round in 0..50 {
        let restart = units(&administrator).restart_unit(job("web.socket")).await;
        assert_eq!(restart.unwrap().into_inner().result, "done", "{round}");
        for _ in 0..3 {
            let now = state(&administrator, "web.socket").await;
            assert_eq!(now.1, "listening", "round {round}");
            assert!(path.exists(), "round {round}: its file has gone");
        }
    }
    machine.node.stop();
}

/// Asks again and again, and counts answers and refusals.
fn client(path: PathBuf, end: Arc<AtomicBool>, asked: Arc<AtomicUsize>) -> Vec<String> {
    let mut refusals = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let answered = UnixStream::connect(&path).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            answer(stream)
        });
        match answered {
            Ok(line) if line.contains(" 1 ") => {
                asked.fetch_add(1, Ordering::Relaxed);
            }
            Ok(line) => refusals.push(format!("the answer {line:?}")),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    refusals
}

#[tokio::test]
async fn no_client_is_refused_or_lost_while_daemons_are_killed() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let path = machine.at("web");
    let server = server(&machine);
    // It ends often: whoever comes then waits in the socket for the next one. Neither the socket's
    // limit nor the service's is this story's.
    let socket = format!(
        "[Socket]\nListenStream={}\nTriggerLimitIntervalSec=0\n",
        path.display()
    );
    machine.unit("web.socket", &socket);
    machine.unit(
        "web.service",
        &format!("[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart={server} 50\n"),
    );
    start(&administrator, "web.socket").await;
    let (end, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (path, end, asked) = (path.clone(), end.clone(), Arc::clone(&asked));
            std::thread::spawn(move || client(path, end, asked))
        })
        .collect();
    for _ in 0..3 {
        let before = asked.load(Ordering::Relaxed);
        let begun = Instant::now();
        // Some are served by each daemon, over more than one service.
        while asked.load(Ordering::Relaxed) < before + 120 {
            assert!(begun.elapsed() < PATIENCE, "nobody is served any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        machine.node.kill_daemon();
    }
    let administrator = machine.node.administrator().await;
    until(&administrator, "web.socket", "active", |it| {
        it.active == "active"
    })
    .await;
    let before = asked.load(Ordering::Relaxed);
    let begun = Instant::now();
    while asked.load(Ordering::Relaxed) < before + 60 {
        assert!(begun.elapsed() < PATIENCE, "nobody is served any more");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    end.store(true, Ordering::Relaxed);
    for client in clients {
        assert_eq!(client.join().unwrap(), Vec::<String>::new());
    }
    assert_eq!(stop(&administrator, "web.socket").await.result, "done");
    closed(&path).await;
    machine.node.stop();
}

#[tokio::test]
async fn a_start_that_its_daemon_did_not_live_to_do_has_its_sockets() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let (path, go) = (machine.at("web"), machine.at("go"));
    let server = server(&machine);
    let socket = format!("[Socket]\nListenStream={}\n", path.display());
    machine.unit("web.socket", &socket);
    // It is begun once no other job goes on; that daemon is dead by then.
    machine.service("web.service", &format!("Type=idle\nExecStart={server} 50"));
    let waits = format!("until [ -e {} ]; do sleep 0.05; done", go.display());
    machine.service(
        "busy.service",
        &format!("Type=oneshot\nExecStart=/bin/sh -c '{waits}'"),
    );
    start(&administrator, "web.socket").await;
    let mut busy = units(&administrator);
    let job = wire::UnitJobRequest {
        no_wait: true,
        ..job("busy.service")
    };
    busy.start_unit(job).await.unwrap();
    let asked = tokio::spawn(async move { ask(&path).await });
    until(
        &administrator,
        "web.service",
        "waiting for its turn",
        |it| it.active == "activating" && it.main_pid.is_none(),
    )
    .await;
    machine.node.kill_daemon();
    std::fs::write(go, "").unwrap();
    let answer = asked.await.unwrap().unwrap();
    assert!(answer.ends_with(" 1 web.socket own"), "{answer}");
    machine.node.stop();
}

#[tokio::test]
async fn each_connection_has_an_instance_of_its_own_and_too_many_are_refused() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let tcp = port();
    machine.unit(
        "echo.socket",
        &format!("[Socket]\nListenStream={tcp}\nAccept=yes\nMaxConnections=3\nNoDelay=yes\n"),
    );
    machine.unit(
        "echo@.service",
        "[Service]\nStandardInput=socket\n\
         ExecStart=/bin/sh -c 'echo $REMOTE_ADDR $REMOTE_PORT $${LISTEN_FDS:-none}; exec cat'\n",
    );
    start(&administrator, "echo.socket").await;
    let connect = move || {
        let stream = TcpStream::connect(tcp).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut three = Vec::new();
    for _ in 0..3 {
        let stream = connect();
        let own = stream.local_addr().unwrap();
        let copy = stream.try_clone().unwrap();
        let line = tokio::task::spawn_blocking(move || answer(copy)).await;
        let line = line.unwrap().unwrap();
        assert_eq!(line, format!("127.0.0.1 {} none", own.port()));
        three.push(stream);
    }
    let fourth = connect();
    let line = tokio::task::spawn_blocking(move || answer(fourth)).await;
    assert!(!matches!(line.unwrap(), Ok(line) if !line.is_empty()));
    // They go on without the daemon, and are counted by the next one.
    machine.node.kill_daemon();
    let administrator = machine.node.administrator().await;
    three[0].write_all(b"still there\n").unwrap();
    let copy = three[0].try_clone().unwrap();
    let line = tokio::task::spawn_blocking(move || answer(copy)).await;
    assert_eq!(line.unwrap().unwrap(), "still there");
    let own = three[0].local_addr().unwrap();
    let instance = format!("echo@0-{tcp}-{own}.service");
    assert_eq!(state(&administrator, &instance).await.1, "running");
    let fifth = connect();
    let line = tokio::task::spawn_blocking(move || answer(fifth)).await;
    assert!(!matches!(line.unwrap(), Ok(line) if !line.is_empty()));
    // Each that goes makes room.
    drop(three.remove(0));
    let begun = Instant::now();
    loop {
        let next = connect();
        let line = tokio::task::spawn_blocking(move || answer(next)).await;
        match line.unwrap() {
            Ok(line) if line.starts_with("127.0.0.1") => break,
            _ => assert!(begun.elapsed() < PATIENCE, "there is no room"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(three);
    machine.node.stop();
}

#[tokio::test]
async fn a_service_that_never_takes_its_connections_fails_its_socket() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    for (name, limits) in [
        ("often", "StartLimitIntervalSec=0"),
        ("start", "StartLimitIntervalSec=10min"),
    ] {
        let path = machine.at(name);
        machine.unit(
            &format!("{name}.socket"),
            &format!(
                "[Socket]\nListenStream={}\nTriggerLimitIntervalSec=1h\n",
                path.display()
            ),
        );
        machine.unit(
            &format!("{name}.service"),
            &format!("[Unit]\n{limits}\n[Service]\nExecStart=/bin/true\n"),
        );
        let socket = format!("{name}.socket");
        start(&administrator, &socket).await;
        let _client = UnixStream::connect(&path).unwrap();
        let failed = until(&administrator, &socket, "failed", |it| {
            it.active == "failed"
        })
        .await;
        let expected = match name {
            "often" => "trigger-limit-hit",
            _ => "start-limit-hit",
        };
        assert_eq!(failed.result, expected, "{failed:#?}");
        // Nobody listens any more.
        closed(&path).await;
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_refused_with_who_has_it() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let (path, file, link) = (machine.at("a"), machine.at("file"), machine.at("a-link"));
    let mine = UnixListener::bind(&path).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let own = std::process::id();
    for (name, address, part) in [
        ("path", path.display().to_string(), format!("(pid {own})")),
        (
            "port",
            port.local_addr().unwrap().to_string(),
            format!("(pid {own})"),
        ),
        ("file", file.display().to_string(), "left alone".to_owned()),
    ] {
        let socket = format!("{name}.socket");
        machine.unit(&socket, &format!("[Socket]\nListenStream={address}\n"));
        machine.service(&format!("{name}.service"), "ExecStart=/bin/sleep 1000");
        assert_eq!(start(&administrator, &socket).await.result, "failed");
        let words = status(&administrator, &socket).await.message;
        assert!(words.contains(&address) && words.contains(&part), "{words}");
    }
    // A socket that nobody listens on any more is replaced, and a link is, not what it leads to.
    drop(mine);
    assert_eq!(start(&administrator, "path.socket").await.result, "done");
    let text = format!("[Socket]\nListenStream={}\n", link.display());
    machine.unit("link.socket", &text);
    machine.service("link.service", "ExecStart=/bin/sleep 1000");
    assert_eq!(start(&administrator, "link.socket").await.result, "done");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    // A socket of another unit of this node.
    machine.unit(
        "twice.socket",
        &format!("[Socket]\nListenStream={}\n", path.display()),
    );
    machine.service("twice.service", "ExecStart=/bin/sleep 1000");
    assert_eq!(start(&administrator, "twice.socket").await.result, "failed");
    let words = status(&administrator, "twice.socket").await.message;
    assert!(words.contains("another unit of this node"), "{words}");
    // What can't be served is said before anything listens.
    for (text, part) in [
        ("ListenUSBFunction=/dev/gadget", "USB"),
        ("ListenDatagram=9999\nAccept=yes", "Accept"),
        ("SocketMode=0600", "listens on nothing"),
        ("ListenStream=9999\nSmackLabel=x", "SmackLabel"),
    ] {
        machine.unit("bad.socket", &format!("[Socket]\n{text}\n"));
        let words = refused(&administrator, "bad.socket").await;
        assert!(words.contains(part), "{text}: {words}");
        let request = wire::ReloadUnitFilesRequest::default();
        let mut client = units(&administrator);
        client.reload_unit_files(request).await.unwrap();
    }
}

#[tokio::test]
async fn a_path_that_comes_or_changes_starts_its_unit_also_over_daemons() {
    let Some(mut machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let (spool, file) = (machine.at("spool/in"), machine.at("config"));
    machine.unit(
        "spool.path",
        &format!(
            "[Path]\nDirectoryNotEmpty={}\nMakeDirectory=yes\n",
            spool.display()
        ),
    );
    machine.service(
        "spool.service",
        &format!(
            "Type=oneshot\nExecStart=/bin/sh -c 'cat {0}/* >> OUT; rm {0}/*'",
            spool.display()
        ),
    );
    machine.unit(
        "config.path",
        &format!(
            "[Path]\nPathChanged={}\nUnit=note.service\n",
            file.display()
        ),
    );
    machine.service(
        "note.service",
        "Type=oneshot\nExecStart=/bin/sh -c 'echo changed >> OUT'",
    );
    start(&administrator, "spool.path").await;
    start(&administrator, "config.path").await;
    let waiting = state(&administrator, "spool.path").await;
    assert_eq!(
        waiting,
        ("active".into(), "waiting".into(), "success".into())
    );
    let told = |count: usize| {
        let begun = Instant::now();
        while machine.out().len() < count {
            assert!(begun.elapsed() < PATIENCE, "{:?}", machine.out());
            std::thread::sleep(Duration::from_millis(20));
        }
        machine.out()
    };
    // Made beside and moved in, as a spool is filled: whole, and by one change.
    let put = |text: &str, to: &Path| {
        std::fs::write(machine.at("beside"), text).unwrap();
        std::fs::rename(machine.at("beside"), to).unwrap();
    };
    let job = spool.join("job");
    let begun = Instant::now();
    while !spool.exists() {
        assert!(begun.elapsed() < PATIENCE, "MakeDirectory=");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    put("one\n", &job);
    assert_eq!(told(1), ["one"]);
    until(&administrator, "spool.path", "waiting", |it| {
        it.sub == "waiting"
    })
    .await;
    put("x", &file);
    assert_eq!(told(2), ["one", "changed"]);
    until(&administrator, "config.path", "waiting", |it| {
        it.sub == "waiting"
    })
    .await;
    // What comes while no daemon looks is found by the next one.
    put("two\n", &job);
    machine.node.kill_daemon();
    let out = |machine: &Machine| machine.out().len();
    let administrator = machine.node.administrator().await;
    let begun = Instant::now();
    while out(&machine) < 3 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", machine.out());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(machine.out()[2], "two");
    assert_eq!(stop(&administrator, "spool.path").await.result, "done");
    assert_eq!(state(&administrator, "spool.path").await.1, "dead");
    machine.node.stop();
}

#[tokio::test]
async fn a_folder_that_somebody_keeps_filling_fails_its_path_unit_and_not_the_node() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let administrator = machine.node.administrator().await;
    let folder = machine.at("full");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("x"), "x").unwrap();
    machine.unit(
        "full.path",
        &format!(
            "[Path]\nDirectoryNotEmpty={}\nTriggerLimitBurst=10\nTriggerLimitIntervalSec=1h\n",
            folder.display()
        ),
    );
    machine.unit(
        "full.service",
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nType=oneshot\nExecStart=/bin/true\n",
    );
    start(&administrator, "full.path").await;
    let failed = until(&administrator, "full.path", "failed", |it| {
        it.active == "failed"
    })
    .await;
    assert_eq!(failed.result, "trigger-limit-hit");
    assert!(failed.message.contains("10 times"), "{}", failed.message);
}
