// SPDX-License-Identifier: Apache-2.0
//! Whatever system call fails, an init doesn't end, blocks no other process, loses nothing, and
//! serves as before once the fault is gone.
//!
//! In a round a daemon connects, creates and starts things, and goes. Rounds are repeated, each
//! time with another call of the init failing ([`Fault::Nth`]), then with all calls of a kind
//! failing for a while ([`Fault::Kinds`]), for each errno of [`ERRNOS`]. In a round any request may
//! be refused and any connection closed. After it nothing may be refused any more, and what was
//! started before must be there, with its own end.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use syscalls::Sysno;

use crate::Story;
use crate::bed::*;
use crate::crashes::spawner_of;
use init::protocol::*;
use kernel::seqpacket::{self, Mode};
use kernel::signal::Signal;
use testkit::tracer::{Fault, Tracer};

pub(crate) const STORIES: &[Story] = &[
    (
        "a_cell_init_bears_a_failure_of_every_call",
        a_cell_init_bears_a_failure_of_every_call,
    ),
    (
        "node_init_bears_a_failure_of_every_call",
        node_init_bears_a_failure_of_every_call,
    ),
];

/// No memory, no space, no descriptors.
const ERRNOS: [Errno; 3] = [Errno::ENOMEM, Errno::ENOSPC, Errno::EMFILE];
/// What each single call fails with; kinds of calls fail with all of [`ERRNOS`].
const EACH: [Errno; 2] = [Errno::ENOMEM, Errno::ENOSPC];
/// The short form: every call once, and kinds of calls with one errno.
const SHORT: [Errno; 1] = [Errno::ENOMEM];
/// How often a kind fails before the fault is gone.
const TIMES: u64 = 4;
/// How long a round waits for another spawner.
const REPLACED: Duration = Duration::from_millis(500);
/// Nothing takes longer, on a slow machine with other work, too.
const SOON: Duration = Duration::from_secs(30);

/// The process whose calls fail.
trait Subject {
    fn tracer(&self) -> &Tracer;
    /// A round. Anything may be refused in it.
    fn round(&mut self);
    /// Nothing may be refused here, and nothing may be missing.
    fn check(&mut self);
    /// How many descriptors it has open.
    fn descriptors(&self) -> usize;
}

/// What was injected: which kinds failed with which errno.
type Borne = BTreeSet<(Sysno, i32)>;

/// Says under which fault a test fails.
struct Say(Fault, Vec<Sysno>, &'static str);

impl Drop for Say {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Say(fault, failed, when) = self;
            println!("    {when} {fault:?}, which failed {failed:?}");
        }
    }
}

/// A round and a check under this fault; what failed.
fn under(subject: &mut impl Subject, fault: Fault) -> Vec<Sysno> {
    let mut say = Say(fault, Vec::new(), "under");
    subject.tracer().set(fault);
    let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| subject.round()));
    say.1 = subject.tracer().failed();
    if let Err(panic) = told {
        std::panic::resume_unwind(panic);
    }
    say.2 = "after";
    subject.tracer().set(Fault::None);
    assert_eq!(subject.tracer().ended(), None);
    subject.check();
    assert_eq!(subject.tracer().ended(), None);
    std::mem::take(&mut say.1)
}

/// Every call of a round, and every kind of call, with every errno.
fn bear_everything(subject: &mut impl Subject, name: &str) {
    let start = Instant::now();
    under(subject, Fault::None);
    // What it does once at its start is not of a round.
    subject.tracer().forget();
    under(subject, Fault::None);
    let ordinary: Vec<Sysno> = subject.tracer().seen().into_keys().collect();
    let before = subject.descriptors();
    let (mut borne, mut rounds) = (Borne::new(), 0);
    let mut bear = |subject: &mut _, fault, errno: Errno| {
        let failed = under(subject, fault);
        rounds += 1;
        borne.extend(failed.iter().map(|call| (*call, errno as i32)));
        failed
    };
    for errno in testkit::how_much(SHORT.as_slice(), &EACH).iter().copied() {
        let mut at = 0;
        while !bear(subject, Fault::Nth { at, errno }, errno).is_empty()
            || !reached_the_end(subject, at)
        {
            at += 1;
        }
    }
    let kinds: Vec<Sysno> = subject.tracer().seen().into_keys().collect();
    let (times, mut partners) = (TIMES, BTreeMap::new());
    let errnos = testkit::how_much(SHORT.as_slice(), &ERRNOS);
    for (errno, call) in errnos
        .iter()
        .flat_map(|errno| kinds.iter().map(|call| (*errno, *call)))
    {
        // What is made only where another call failed fails together with that.
        let known = partners.get(&call).copied().unwrap_or(call);
        let mut others = [&[known], kinds.as_slice()].concat().into_iter();
        let failed = others.find(|other| {
            let calls = [call, *other];
            let fault = Fault::Kinds {
                calls,
                errno,
                times,
            };
            bear(subject, fault, errno).contains(&call)
        });
        partners.extend(failed.map(|other| (call, other)));
        // What only another failure leads to may take more than two of them to fail as well.
        let reached = failed.is_some() || !ordinary.contains(&call);
        assert!(reached, "{call} never failed with {errno}");
    }
    println!(
        "    {name}: {rounds} rounds, {} failures of {} kinds of calls, {:.1?}",
        borne.len(),
        kinds.len(),
        start.elapsed()
    );
    assert_eq!(subject.descriptors(), before, "descriptors were left open");
}

/// Whether a round has no more calls than this.
fn reached_the_end(subject: &mut impl Subject, at: u64) -> bool {
    subject.tracer().set(Fault::None);
    subject.round();
    let calls = subject.tracer().calls();
    subject.check();
    calls <= at
}

fn descriptors_of(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

/// A cell-init under a tracer.
struct CellInit {
    tracer: Tracer,
    cell: Cell,
    link: Option<Talk>,
    /// What was started and not acknowledged: its code, and whether we were told that it runs.
    owed: BTreeMap<Uid, (u8, bool)>,
}

/// A connection to a cell-init that may close it at any moment: everything is `None` then.
struct Talk {
    socket: OwnedFd,
    number: u64,
}

impl Talk {
    fn event(&self) -> Option<(CellEvent, Vec<OwnedFd>)> {
        receive_within(&self.socket, SOON)
    }

    /// Asks, and waits for the answer; ends that come meanwhile are noted.
    fn ask(
        &mut self,
        owed: &mut BTreeMap<Uid, (u8, bool)>,
        make: impl Fn(u64) -> CellRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Option<Result<Vec<OwnedFd>, Failure>> {
        self.number += 1;
        let number = self.number;
        try_send(&self.socket, &make(number), fds)?;
        loop {
            match self.event()? {
                (CellEvent::Done { request } | CellEvent::Started { request, .. }, fds)
                    if request == number =>
                {
                    return Some(Ok(fds));
                }
                (CellEvent::Failed { request, failure }, _) if request == number => {
                    return Some(Err(failure));
                }
                (CellEvent::Exited { uid, exit }, _) => self.ended(owed, uid, &exit)?,
                (other, _) => panic!("{other:?}"),
            }
        }
    }

    fn ended(
        &self,
        owed: &mut BTreeMap<Uid, (u8, bool)>,
        uid: Uid,
        exit: &ExitRecord,
    ) -> Option<()> {
        let (code, _) = owed[&uid];
        assert_eq!(exit.how, ExitHow::Code(code), "another end than its own");
        try_send(&self.socket, &CellRequest::Ack { uid }, &[])?;
        owed.remove(&uid);
        Some(())
    }
}

impl CellInit {
    /// A new connection, with everything that it tells at first.
    fn connect(&mut self) -> Option<Talk> {
        self.link = None;
        let socket = seqpacket::connect(&self.cell.path, Mode::Blocking).unwrap();
        let talk = Talk { socket, number: 0 };
        try_send(&talk.socket, &CellRequest::Hello { version: VERSION }, &[])?;
        let (CellEvent::Welcome { workloads, .. }, _) = talk.event()? else {
            panic!("no welcome")
        };
        let mut there = BTreeSet::new();
        for _ in 0..workloads {
            let (CellEvent::Workload(state), _) = talk.event()? else {
                panic!("no workload")
            };
            there.insert(state.uid);
            if let Some(exit) = state.exit {
                // An acknowledgement may not have come to the last one.
                self.owed
                    .entry(state.uid)
                    .or_insert_with(|| match exit.how {
                        ExitHow::Code(code) => (code, true),
                        other => panic!("{other:?}"),
                    });
                talk.ended(&mut self.owed, state.uid, &exit)?;
            }
        }
        // What was never answered may not have been started.
        self.owed
            .retain(|uid, (_, told)| *told || there.contains(uid));
        for uid in self.owed.keys() {
            assert!(there.contains(uid), "a workload that ran is lost");
        }
        Some(talk)
    }

    /// `None` where the connection was closed.
    fn try_round(&mut self) -> Option<()> {
        let mut talk = self.connect()?;
        let record = || Record::Here(b"another record".to_vec());
        let owed = &mut self.owed;
        for (code, terminal) in [(7, false), (8, true), (9, false)] {
            let mut launch = launch_of(&["/bin/sh", "-c", &format!("exit {code}")]);
            let leaf = self.cell.leaf();
            let pipe = kernel::pipe::pipe().unwrap();
            let mut fds = vec![leaf.as_fd()];
            if terminal {
                let (rows, columns) = (3, 3);
                launch.stdio = Stdio::Terminal { rows, columns };
            } else {
                fds.extend([&pipe.0, &pipe.1, &pipe.1, &pipe.0, &pipe.0].map(AsFd::as_fd));
            }
            let uid = launch.uid;
            owed.insert(uid, (code, false));
            let start = |request| CellRequest::Start {
                request,
                launch: launch.clone(),
            };
            match talk.ask(owed, start, &fds)? {
                Ok(_) => {
                    if let Some((_, told)) = owed.get_mut(&uid) {
                        *told = true;
                    }
                }
                Err(_) => drop(owed.remove(&uid)),
            }
            let put = |request| CellRequest::PutRecord {
                request,
                uid,
                record: record(),
            };
            let _ = talk.ask(owed, put, &[])?;
            let signal = |request| CellRequest::Signal {
                request,
                uid,
                signal: Signal::CONT.number() as u8,
            };
            let _ = talk.ask(owed, signal, &[])?;
        }
        let put = |request| CellRequest::PutCellRecord {
            request,
            record: record(),
        };
        let _ = talk.ask(owed, put, &[])?;
        mount_and_unmount(&mut talk, owed)?;
        let exit = |request| CellRequest::CloseStdin {
            request,
            uid: random_uid(),
        };
        let _ = talk.ask(owed, exit, &[])?;
        self.link = Some(talk);
        Some(())
    }
}

/// `None` where the connection was closed.
fn mount_and_unmount(talk: &mut Talk, owed: &mut BTreeMap<Uid, (u8, bool)>) -> Option<()> {
    let quiet = kernel::mount::Attributes::NO_DEV;
    let folder = kernel::mount::tmpfs(4096, 0o755, quiet).unwrap();
    rustix::fs::mkdirat(&folder, "0", rustix::fs::Mode::RWXU).unwrap();
    let stage = |request| CellRequest::Stage { request };
    let _ = talk.ask(owed, stage, &[folder.as_fd()])?;
    let mount = |request| CellRequest::Mount {
        request,
        from: 0,
        to: MountTarget {
            target: b"/run/mounted".to_vec(),
            directory: true,
        },
    };
    let _ = talk.ask(owed, mount, &[])?;
    let unmount = |request| CellRequest::Unmount {
        request,
        target: b"/run/mounted".to_vec(),
    };
    let _ = talk.ask(owed, unmount, &[])?;
    Some(())
}

impl Subject for CellInit {
    fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    fn round(&mut self) {
        let _ = self.try_round();
    }

    fn check(&mut self) {
        let mut talk = self.connect().expect("a daemon is welcome again");
        while !self.owed.is_empty() {
            match talk.event().expect("it keeps the connection") {
                (CellEvent::Exited { uid, exit }, _) => {
                    talk.ended(&mut self.owed, uid, &exit).unwrap();
                }
                (other, _) => panic!("{other:?}"),
            }
        }
        let put = |request| CellRequest::PutCellRecord {
            request,
            record: Record::Here(Vec::new()),
        };
        talk.ask(&mut self.owed, put, &[]).unwrap().unwrap();
        self.link = Some(talk);
    }

    fn descriptors(&self) -> usize {
        descriptors_of(self.cell.pid)
    }
}

fn a_cell_init_bears_a_failure_of_every_call() {
    let node = Node::start();
    let mut daemon = node.daemon();
    let cell = daemon.cell(&node, node.plan());
    // Its own connection would keep ours waiting.
    let cell = cell.without_link();
    let tracer = Tracer::attach(cell.pid);
    let mut init = CellInit {
        tracer,
        cell,
        link: None,
        owed: BTreeMap::new(),
    };
    bear_everything(&mut init, "cell-init");
    let CellInit { tracer, link, .. } = init;
    tracer.detach(|| drop(link));
}

/// Node-init under a tracer.
struct NodeInit {
    tracer: Tracer,
    node: Node,
    daemon: Option<Daemon>,
}

impl NodeInit {
    /// The next daemon that is welcomed.
    fn welcomed(&self) -> Daemon {
        for _ in 0..20 {
            let (socket, pid) = self.node.raw_daemon();
            match receive_within(&socket, SOON) {
                Some((NodeEvent::Welcome(welcome), _)) => {
                    return Daemon {
                        socket,
                        pid,
                        welcome,
                        request: 0,
                    };
                }
                Some((other, _)) => panic!("{other:?}"),
                None => kill(pid),
            }
        }
        panic!("no daemon is welcome")
    }

    /// `None` where the daemon's connection was closed.
    fn try_round(&self, daemon: &mut Daemon) -> Option<()> {
        let head = NodeRequest::AuditHead {
            sequence: 1,
            hash: [1; 32],
        };
        try_send(&daemon.socket, &head, &[])?;
        try_send(&daemon.socket, &NodeRequest::Ready, &[])?;
        // A refusal will do.
        self.live_and_die(daemon).map(drop)
    }

    /// A cell is made, killed, and its end told.
    fn live_and_die(&self, daemon: &mut Daemon) -> Option<Result<(), Failure>> {
        let plan = self.node.plan();
        let asked = daemon.try_ask_for_cell(&self.node, &plan)?;
        loop {
            match receive_within(&daemon.socket, SOON)? {
                (NodeEvent::CellCreated { request, pid }, _) if request == asked => {
                    kill(pid);
                    return self.hear_the_end(daemon, plan.launch.uid).map(Ok);
                }
                (NodeEvent::CellFailed { request, failure }, _) if request == asked => {
                    return Some(Err(failure));
                }
                // Of a cell whose end an earlier daemon could not acknowledge.
                (NodeEvent::CellExited { uid, exit }, _) => self.store(daemon, uid, &exit)?,
                (other, _) => panic!("{other:?}"),
            }
        }
    }

    fn hear_the_end(&self, daemon: &Daemon, cell: Uid) -> Option<()> {
        loop {
            let (NodeEvent::CellExited { uid, exit }, _) = receive_within(&daemon.socket, SOON)?
            else {
                panic!("something else than an end")
            };
            self.store(daemon, uid, &exit)?;
            if uid == cell {
                return Some(());
            }
        }
    }

    fn store(&self, daemon: &Daemon, uid: Uid, exit: &ExitRecord) -> Option<()> {
        let killed = ExitHow::Signal {
            signal: 9,
            core: false,
        };
        assert_eq!(exit.how, killed, "another end than its own");
        try_send(&daemon.socket, &NodeRequest::AckCell { uid }, &[])
    }

    /// The spawner is replaced in this round, not after it: what node-init does for that is to
    /// fail, too. Not for long, where it can't be.
    fn until_replaced(&self, daemon: &mut Daemon) -> Option<()> {
        let start = Instant::now();
        while let Err(failure) = self.live_and_die(daemon)? {
            if ![10, 11].contains(&failure.errno) || start.elapsed() > REPLACED {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(())
    }

    /// Ends what an earlier daemon could not.
    fn settle(&self, daemon: &Daemon) -> Option<()> {
        for (uid, pid) in &daemon.welcome.cells {
            kill(*pid);
            self.hear_the_end(daemon, *uid)?;
        }
        Some(())
    }
}

fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

impl Subject for NodeInit {
    fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    fn round(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            kill(daemon.pid);
        }
        let mut daemon = self.welcomed();
        let _ = self.settle(&daemon);
        let _ = self.try_round(&mut daemon);
        kill(spawner_of(&self.node).unwrap_or(0));
        let _ = self.try_round(&mut daemon);
        let _ = self.until_replaced(&mut daemon);
        self.daemon = Some(daemon);
    }

    fn check(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            kill(daemon.pid);
        }
        let mut daemon = self.welcomed();
        self.settle(&daemon).expect("the connection stays");
        let start = Instant::now();
        // Until the spawner is replaced the answer is to try again.
        while let Err(failure) = self
            .live_and_die(&mut daemon)
            .expect("the connection stays")
        {
            assert!([10, 11].contains(&failure.errno), "{failure:?}");
            assert!(start.elapsed() < SOON, "no cell can be made");
            std::thread::sleep(Duration::from_millis(2));
        }
        self.daemon = Some(daemon);
    }

    fn descriptors(&self) -> usize {
        descriptors_of(i32::try_from(self.node.init.id()).unwrap())
    }
}

fn node_init_bears_a_failure_of_every_call() {
    let node = Node::with_short_timeouts();
    let tracer = Tracer::attach(i32::try_from(node.init.id()).unwrap());
    let mut init = NodeInit {
        tracer,
        node,
        daemon: None,
    };
    init.daemon = Some(init.welcomed());
    bear_everything(&mut init, "node-init");
    let NodeInit {
        tracer,
        node: _node,
        daemon,
    } = init;
    let daemon = daemon.unwrap();
    tracer.detach(|| send(&daemon.socket, &NodeRequest::Ready, &[]));
}
