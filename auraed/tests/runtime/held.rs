// SPDX-License-Identifier: Apache-2.0
//! Cell-inits that are held up, by their tenant or by a file that hangs: those that say nothing at
//! all are lost and their cells end, those that are late with one thing go on.
//!
//! Between the next daemon and a cell's init stands a go-between, as in [`crate::liars`], who hands
//! everything on and holds back what the story says.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use init::protocol::codec::Packet;
use init::protocol::{CellEvent, CellRequest, Failure, MAX_PACKET, Step};
use kernel::seqpacket;
use model::lifecycle::State;
use rustix::io::Errno;
use testkit::until;

use crate::client::{Answer, Ask, refusal, run};
use crate::host::Node;
use crate::liars::{Liar, say};
use crate::stories::sh;

/// How long these daemons wait for a cell-init.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The bounds that a stop then has: that, what an init has to end after it, and a slow host.
const BOUND: Duration = Duration::from_secs(15);
/// How long those wait that have an answer to come: a stop that waits for it passes its bound.
const PATIENT: Duration = Duration::from_secs(20);

/// A packet as it is, with its descriptors; `None` at the end.
fn take(from: &OwnedFd) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let mut buffer = vec![0; MAX_PACKET];
    let packet = seqpacket::receive(from, &mut buffer).ok()??;
    buffer.truncate(packet.length);
    Some((buffer, packet.fds))
}

fn give(to: &OwnedFd, (bytes, fds): &(Vec<u8>, Vec<OwnedFd>)) -> Option<()> {
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    seqpacket::send(to, bytes, &fds).ok()
}

/// Says nothing more to the daemon.
fn mute(daemon: OwnedFd, _init: OwnedFd) {
    while take(&daemon).is_some() {}
}

/// Hands on everything.
fn hand_on(daemon: OwnedFd, init: OwnedFd) {
    refusing(daemon, init, |_| None);
}

/// Hands on everything, but says itself that it doesn't end.
fn unwilling(daemon: OwnedFd, init: OwnedFd) {
    refusing(daemon, init, |asked| match asked {
        CellRequest::Exit { request } => Some(*request),
        _ => None,
    });
}

/// Hands on everything, but refuses these.
fn refusing(daemon: OwnedFd, init: OwnedFd, what: fn(&CellRequest) -> Option<u64>) {
    let (daemon, init) = (Arc::new(daemon), Arc::new(init));
    let (to, from) = (daemon.clone(), init.clone());
    std::thread::spawn(move || while take(&from).is_some_and(|said| give(&to, &said).is_some()) {});
    while let Some(asked) = take(&daemon) {
        let refused = CellRequest::decode(&asked.0).ok();
        if let Some(request) = refused.and_then(|asked| what(&asked)) {
            let failure = Failure {
                step: Step::Limit,
                errno: Errno::NOMEM.raw_os_error(),
                detail: "no memory".into(),
            };
            say(
                &daemon,
                vec![(CellEvent::Failed { request, failure }, vec![])],
            );
        } else if give(&init, &asked).is_none() {
            break;
        }
    }
    let _ = rustix::net::shutdown(&init, rustix::net::Shutdown::Both);
}

/// Hands on everything, but keeps no other record of the cell.
fn forgetful(daemon: OwnedFd, init: OwnedFd) {
    refusing(daemon, init, |asked| match asked {
        CellRequest::PutCellRecord { request, .. } => Some(*request),
        _ => None,
    });
}

/// Hands on everything; from the first start on only once the daemon's timeout has passed.
fn late_once(daemon: OwnedFd, init: OwnedFd) {
    let (daemon, init) = (Arc::new(daemon), Arc::new(init));
    let (to, from) = (daemon.clone(), init.clone());
    std::thread::spawn(move || {
        let mut late = false;
        while let Some(said) = take(&from) {
            if let Ok(CellEvent::Started { .. }) = CellEvent::decode(&said.0)
                && !std::mem::replace(&mut late, true)
            {
                std::thread::sleep(PATIENT + Duration::from_secs(1));
            }
            if give(&to, &said).is_none() {
                return;
            }
        }
    });
    while take(&daemon).is_some_and(|asked| give(&init, &asked).is_some()) {}
}

/// What a go-between does once the handshake is handed on.
type Role = fn(OwnedFd, OwnedFd);

/// Makes these cells, and has the next daemon, which waits so long for an init, find go-betweens in
/// place of theirs.
fn between(node: &Node, timeout: Duration, cells: &[(&str, Role)]) {
    let mut daemon = node.client();
    let uids: Vec<_> = cells
        .iter()
        .map(|(name, _)| daemon.cell(name).meta.uid)
        .collect();
    std::fs::write(node.dir().join("timeout"), timeout.as_millis().to_string()).unwrap();
    node.kill_daemon_while(|| {
        for (uid, (_, role)) in uids.into_iter().zip(cells) {
            let (liar, role) = (Liar::of(node, uid), *role);
            std::thread::spawn(move || {
                let (daemon, init) = liar.lie(say);
                role(daemon, init);
            });
        }
    });
}

pub(crate) fn a_cell_init_that_says_nothing_is_lost(name: &str) {
    let node = Node::start(name);
    between(
        &node,
        TIMEOUT,
        &[
            ("mute", mute),
            ("asked", mute),
            ("outer", hand_on),
            ("outer/mute", mute),
            ("busy", unwilling),
        ],
    );
    let mut daemon = node.client();
    // A caller that asks is told at once.
    let begun = Instant::now();
    let (_, errno) = refusal(daemon.ask(Ask::Freeze {
        path: "asked".into(),
        frozen: true,
    }));
    assert_eq!(errno, Some(Errno::TIMEDOUT.raw_os_error()));
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    for name in ["mute", "asked", "outer", "busy"] {
        let begun = Instant::now();
        let ended = daemon.stop(name, Some(0));
        assert!(ended.state().is_final(), "{name}: {:?}", ended.state());
        assert!(begun.elapsed() < BOUND, "{name}: {:?}", begun.elapsed());
        assert!(!node.cgroup().join("acme").join(name).exists(), "{name}");
        // Its name is free again.
        daemon.cell(name);
    }
}

pub(crate) fn a_start_that_takes_too_long_is_given_up_alone(name: &str) {
    let node = Node::start(name);
    between(&node, PATIENT, &[("web", late_once)]);
    let mut daemon = node.client();
    let (reason, errno) = refusal(daemon.ask(run("web/slow", &["/bin/sleep", "1000"], false)));
    assert_eq!(errno, Some(Errno::TIMEDOUT.raw_os_error()), "{reason}");
    assert_eq!(daemon.get("web").state(), State::Running);
    // What is held back comes before the answer to this: that of what was given up.
    let ended = daemon.run("web/job", &sh("exit 5"));
    assert_eq!(ended.exit.unwrap().how, model::exit::How::Code(5));
    assert_eq!(daemon.get("web").state(), State::Running);
    // Its name is free once its processes have died, and nothing of it is in the way of the cell's
    // end.
    until("its name is free", || {
        let again = daemon.ask(run("web/slow", &["/bin/sleep", "1000"], false));
        matches!(again, Answer::Object(_))
    });
    let begun = Instant::now();
    assert!(daemon.stop("web", Some(0)).state().is_final());
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
}

pub(crate) fn a_refused_freeze_changes_nothing(name: &str) {
    let node = Node::start(name);
    between(&node, PATIENT, &[("web", forgetful)]);
    let mut daemon = node.client();
    let freeze = || Ask::Freeze {
        path: "web".into(),
        frozen: true,
    };
    refusal(daemon.ask(freeze()));
    assert_eq!(daemon.get("web").state(), State::Running);
    let ended = daemon.run("web/job", &sh("exit 5"));
    assert_eq!(ended.exit.unwrap().how, model::exit::How::Code(5));
}
