// SPDX-License-Identifier: Apache-2.0
//! Cell-inits that lie at the wire. Between the next daemon and a cell's real init stands a liar,
//! who says something else than the init; the daemon bears it, the lying cell is ended, and
//! everybody else's goes on as if nothing had been said.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use init::protocol::codec::Packet;
use init::protocol::{
    CellEvent, CellRequest, ExitHow, ExitRecord, MAX_PACKET, MAX_SEALED, Record, Uid as WireUid,
};
use kernel::sealed::seal;
use kernel::seqpacket::{self, Mode};
use model::exit::How;
use model::name::Uid;
use model::status::Object;
use testkit::until;

use crate::client::{Answer, Client, refusal};
use crate::host::Node;

/// What an init says at first: its welcome and its workloads, with their descriptors.
pub(crate) type Words = Vec<(CellEvent, Vec<OwnedFd>)>;

/// What is said instead, on the daemon's connection. `other` is an honest cell's welcome.
type Lie = fn(&OwnedFd, Words, &CellEvent);

const LIES: [(&str, Lie); 18] = [
    ("garbage", |daemon, _, _| {
        let _ = seqpacket::send(daemon, &[0xff; 100], &[]);
    }),
    ("too-long", |daemon, _, _| {
        seqpacket::reserve_send_buffer(daemon, 2 * MAX_PACKET).unwrap();
        let _ = seqpacket::send(daemon, &vec![1; MAX_PACKET + 1], &[]);
    }),
    ("cut-short", |daemon, words, _| {
        let mut packet = Vec::new();
        words[0].0.encode(&mut packet).unwrap();
        packet.truncate(packet.len() / 2);
        let _ = seqpacket::send(daemon, &packet, &[]);
    }),
    ("another-uid", |daemon, mut words, _| {
        if let CellEvent::Welcome { uid, .. } = &mut words[0].0 {
            uid.0[0] ^= 1;
        }
        say(daemon, words);
    }),
    ("another-version", |daemon, mut words, _| {
        if let CellEvent::Welcome { version, .. } = &mut words[0].0 {
            *version += 1;
        }
        say(daemon, words);
    }),
    ("another-cell", |daemon, mut words, other| {
        let (CellEvent::Welcome { record, .. }, CellEvent::Welcome { record: theirs, .. }) =
            (&mut words[0].0, other)
        else {
            panic!("no welcome")
        };
        record.clone_from(theirs);
        say(daemon, words);
    }),
    ("too-many", |daemon, mut words, _| {
        if let CellEvent::Welcome { workloads, .. } = &mut words[0].0 {
            *workloads = u32::MAX;
        }
        say(daemon, words);
    }),
    ("too-few", |daemon, mut words, _| {
        words.truncate(1);
        say(daemon, words);
        // And the connection ends.
        let _ = rustix::net::shutdown(daemon, rustix::net::Shutdown::Both);
    }),
    ("no-record", |daemon, mut words, _| {
        if let CellEvent::Welcome { record, .. } = &mut words[0].0 {
            *record = b"{\"meta\":{}}".to_vec().into();
        }
        say(daemon, words);
    }),
    ("a-long-record-that-is-missing", |daemon, mut words, _| {
        record_beside(&mut words[0], None);
        say(daemon, words);
    }),
    ("a-record-that-changes", |daemon, mut words, _| {
        // It is not sealed: what is read could be another thing at each look.
        record_beside(&mut words[0], Some(tempfile::tempfile().unwrap().into()));
        say(daemon, words);
    }),
    ("records-without-end", |daemon, mut words, _| {
        const MANY: u32 = 64;
        if let CellEvent::Welcome { workloads, .. } = &mut words[0].0 {
            *workloads = MANY;
        }
        let long = seal(c"record", &vec![b' '; MAX_SEALED]).unwrap();
        record_beside(&mut words[1], Some(long));
        let (event, fds) = words.pop().unwrap();
        let copies = || fds.iter().map(|fd| fd.try_clone().unwrap()).collect();
        words.extend((0..MANY).map(|_| (event.clone(), copies())));
        say(daemon, words);
    }),
    ("endless-grace", |daemon, mut words, _| {
        alter(&mut words[0].0, |record| record["stop"] = endless());
        say(daemon, words);
    }),
    ("endless-grace-of-one", |daemon, mut words, _| {
        alter(&mut words[1].0, |record| record["stop"] = endless());
        say(daemon, words);
    }),
    ("last-generation", |daemon, mut words, _| {
        alter(&mut words[0].0, |record| {
            record["meta"]["generation"] = u64::MAX.into();
        });
        say(daemon, words);
    }),
    ("a-file-for-a-pipe", |daemon, mut words, _| {
        words[1].1[1] = std::fs::File::open("/etc/passwd").unwrap().into();
        say(daemon, words);
    }),
    ("descriptors", |daemon, mut words, _| {
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        words[1].1.extend((0..60).map(|_| null()));
        say(daemon, words);
    }),
    ("nobodys-process", |daemon, mut words, _| {
        words[1].1[0] = kernel::pidfd::open(1).unwrap();
        say(daemon, words);
    }),
];

/// Said after an honest handshake, of an honest cell's workload.
type Slander = fn(WireUid) -> CellEvent;

/// What is out of place ends the cell; what concerns nothing in it is passed over.
const SLANDERS: [(&str, bool, Slander); 4] = [
    ("slander-exit", false, |uid| CellEvent::Exited {
        uid,
        exit: an_exit(),
    }),
    ("slander-start", true, |_| CellEvent::Started {
        request: 999,
        pid: 1,
        started_ns: 0,
    }),
    ("slander-failure", false, |_| CellEvent::Done {
        request: u64::MAX,
    }),
    ("slander-welcome", true, |uid| CellEvent::Welcome {
        version: init::protocol::VERSION,
        uid,
        record: vec![].into(),
        workloads: 0,
    }),
];

/// Puts something else into a record, which stays a record.
fn alter(words: &mut CellEvent, how: impl FnOnce(&mut serde_json::Value)) {
    let record = match words {
        CellEvent::Welcome { record, .. } => record,
        CellEvent::Workload(state) => &mut state.record,
        other => panic!("{other:?}"),
    };
    let Record::Here(bytes) = record else {
        panic!("a long record")
    };
    let mut value = serde_json::from_slice(bytes).unwrap();
    how(&mut value);
    *bytes = serde_json::to_vec(&value).unwrap();
}

/// Says that the record is beside, and what is there.
fn record_beside((words, fds): &mut (CellEvent, Vec<OwnedFd>), file: Option<OwnedFd>) {
    match words {
        CellEvent::Welcome { record, .. } => *record = Record::Beside,
        CellEvent::Workload(state) => state.record = Record::Beside,
        other => panic!("{other:?}"),
    }
    fds.extend(file);
}

/// A stop that is longer than there will be time.
fn endless() -> serde_json::Value {
    serde_json::json!({ "at": 1, "grace": { "secs": u64::MAX, "nanos": 0 } })
}

fn an_exit() -> ExitRecord {
    ExitRecord {
        how: ExitHow::Code(0),
        started_ns: 0,
        finished_ns: 0,
        user_ns: 0,
        system_ns: 0,
        max_rss_bytes: 0,
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        oom_kills: None,
    }
}

pub(crate) fn say(daemon: &OwnedFd, words: Words) {
    for (event, fds) in words {
        let mut packet = Vec::new();
        event.encode(&mut packet).unwrap();
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        // The daemon may have had enough.
        let _ = seqpacket::send(daemon, &packet, &fds);
    }
}

/// What the init says to whom it takes for the daemon.
fn words_of(real: &Path) -> (OwnedFd, Words) {
    let socket = seqpacket::connect(real, Mode::Blocking).unwrap();
    let mut packet = Vec::new();
    let version = init::protocol::VERSION;
    CellRequest::Hello { version }.encode(&mut packet).unwrap();
    seqpacket::send(&socket, &packet, &[]).unwrap();
    let mut words = vec![hear(&socket)];
    let CellEvent::Welcome { workloads, .. } = words[0].0 else {
        panic!("no welcome")
    };
    words.extend((0..workloads).map(|_| hear(&socket)));
    (socket, words)
}

fn hear(socket: &OwnedFd) -> (CellEvent, Vec<OwnedFd>) {
    let mut buffer = vec![0; MAX_PACKET];
    let packet = seqpacket::receive(socket, &mut buffer).unwrap().unwrap();
    (
        CellEvent::decode(&buffer[..packet.length]).unwrap(),
        packet.fds,
    )
}

/// A process in the place of a cell's init.
pub(crate) struct Liar {
    listener: OwnedFd,
    real: PathBuf,
}

impl Liar {
    /// Takes the init's address.
    pub(crate) fn of(node: &Node, uid: Uid) -> Liar {
        let address = node.cells().join(format!("{uid}.sock"));
        let real = node.cells().join(format!("{uid}.real"));
        std::fs::rename(&address, &real).unwrap();
        Liar {
            listener: seqpacket::listen(&address, 1, Mode::Blocking).unwrap(),
            real,
        }
    }

    /// Hears the next daemon's handshake, and answers it with this. The connection is kept.
    pub(crate) fn lie(self, how: impl FnOnce(&OwnedFd, Words)) -> (OwnedFd, OwnedFd) {
        let daemon = seqpacket::accept(&self.listener, Mode::Blocking).unwrap();
        let _ = seqpacket::receive(&daemon, &mut [0; 100]);
        let (init, words) = words_of(&self.real);
        how(&daemon, words);
        (daemon, init)
    }
}

/// A cell with a workload.
fn cell(daemon: &mut Client, name: &str) -> (Uid, Uid) {
    let cell = daemon.cell(name).meta.uid;
    let job = daemon.start(&format!("{name}/job"), &["/bin/sleep", "1000"]);
    (cell, job.meta.uid)
}

pub(crate) fn a_lying_cell_init_harms_no_other_cell(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let (honest, job) = cell(&mut daemon, "honest");
    let before = [daemon.get("honest"), daemon.get("honest/job")];
    let liars: Vec<Uid> = LIES
        .iter()
        .map(|(name, ..)| cell(&mut daemon, name).0)
        .collect();
    let slanderers: Vec<Uid> = SLANDERS
        .iter()
        .map(|(name, ..)| cell(&mut daemon, name).0)
        .collect();
    let threads = node.kill_daemon_while(|| {
        // The honest one's words, before the next daemon comes for them.
        let (_, mut words) = words_of(&node.cells().join(format!("{honest}.sock")));
        let welcome = words.swap_remove(0).0;
        let wire = WireUid(
            u128::from_str_radix(&job.to_string(), 16)
                .unwrap()
                .to_be_bytes(),
        );
        let mut threads = Vec::new();
        for (uid, (_, lie)) in liars.iter().zip(LIES) {
            let (liar, welcome) = (Liar::of(&node, *uid), welcome.clone());
            threads.push(std::thread::spawn(move || {
                liar.lie(|daemon, words| lie(daemon, words, &welcome))
            }));
        }
        for (uid, (.., slander)) in slanderers.iter().zip(SLANDERS) {
            let liar = Liar::of(&node, *uid);
            threads.push(std::thread::spawn(move || {
                liar.lie(|daemon, words| {
                    say(daemon, words);
                    say(daemon, (0..100).map(|_| (slander(wire), vec![])).collect());
                })
            }));
        }
        threads
    });
    // No peer hangs up.
    let _kept: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    let mut daemon = node.client();
    let after = [daemon.get("honest"), daemon.get("honest/job")];
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(
            (before.meta().uid, before.state()),
            (after.meta().uid, after.state())
        );
        assert_eq!(pid(before), pid(after));
    }
    for (name, _) in LIES {
        until(&format!("{name} is ended"), || {
            ended(&mut node.client(), name)
        });
        assert!(!node.cgroup().join("acme").join(name).exists(), "{name}");
    }
    for (name, ends, _) in SLANDERS {
        let is_over = || ended(&mut node.client(), name) == ends;
        until(&format!("{name} is ended: {ends}"), is_over);
    }
    // Their names are free again.
    for (name, _) in LIES {
        daemon.cell(name);
        let ended = daemon.run(&format!("{name}/x"), &["/bin/true"]);
        assert_eq!(ended.exit.unwrap().how, How::Code(0));
    }
    assert_eq!(pid(&daemon.get("honest/job")), pid(&before[1]));
}

/// The process that it is said to have started is PID 1: nothing of that may be shown or signalled.
pub(crate) fn a_start_with_another_cells_process_ends_the_cell(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let (uid, _) = cell(&mut daemon, "liar");
    let (honest, before) = (cell(&mut daemon, "honest").0, daemon.get("honest/job"));
    let liar = node.kill_daemon_while(|| {
        let liar = Liar::of(&node, uid);
        std::thread::spawn(move || {
            liar.lie(|daemon, words| {
                say(daemon, words);
                let CellRequest::Start { request, .. } = asked(daemon) else {
                    panic!("something else than a start was asked for")
                };
                let started = CellEvent::Started {
                    request,
                    pid: 1,
                    started_ns: 0,
                };
                say(
                    daemon,
                    vec![(started, vec![kernel::pidfd::open(1).unwrap()])],
                );
            })
        })
    });
    let mut daemon = node.client();
    let ask = crate::client::run("liar/next", &["/bin/sleep", "1000"], false);
    let (reason, _) = refusal(daemon.try_ask(&ask).unwrap());
    assert!(!reason.is_empty());
    let _kept = liar.join().unwrap();
    until("the cell is ended", || ended(&mut node.client(), "liar"));
    assert!(daemon.list().iter().all(|object| pid(object) != Some(1)));
    assert_eq!(daemon.get("honest").meta().uid, honest);
    assert_eq!(pid(&daemon.get("honest/job")), pid(&before));
}

/// The next request of the daemon.
fn asked(daemon: &OwnedFd) -> CellRequest {
    let mut buffer = vec![0; MAX_PACKET];
    let packet = seqpacket::receive(daemon, &mut buffer).unwrap().unwrap();
    CellRequest::decode(&buffer[..packet.length]).unwrap()
}

fn pid(object: &Object) -> Option<u32> {
    match object {
        Object::Cell(cell) => cell.pid,
        Object::Executable(executable) => executable.pid,
    }
}

/// Failed, or gone without a trace.
fn ended(daemon: &mut Client, name: &str) -> bool {
    match daemon.try_ask(&crate::client::Ask::Get { path: name.into() }) {
        Ok(Answer::Object(object)) => object.state().is_final(),
        Ok(_) => true,
        Err(error) => panic!("the daemon is gone: {error}"),
    }
}
