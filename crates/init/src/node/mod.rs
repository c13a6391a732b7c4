// SPDX-License-Identifier: Apache-2.0
//! Node-init: the one process that must not end.
//!
//! The parent of the daemon, of the spawner and of every cell-init; on a machine, of every orphan.
//! One loop waits for signals (of children, and to stop), the daemon, the spawner, and the status
//! pipes of cells that are being created. A failure in it (a malformed packet, a closed socket, no
//! memory, no descriptors) is answered or written to the console, and the loop goes on.
//!
//! It knows nothing of the workloads in a cell, reads no configuration and uses no network.
//!
//! * [`binary`]: which file a daemon is executed from.
//! * [`boot`], [`disk`] and [`machine`]: before the loop, as PID 1.
//! * [`child`]: executing the daemon and the spawner.
//! * [`daemon`]: the connection to the daemon.
//! * [`creation`]: the connection to the spawner.
//! * [`kept`]: descriptors that outlive the daemon.
//! * [`orphans`]: the ends of what a dead cell-init has left.
//! * [`rescue`]: a shell where no daemon comes up.
//! * [`shutdown`]: the end.
//! * [`state`]: the state's folder where the root can't be written.
//! * [`watchdog`]: signs of life for the machine's device.

mod binary;
mod boot;
mod cells;
mod child;
pub(crate) mod console;
mod creation;
mod daemon;
mod disk;
mod groups;
mod kept;
mod machine;
mod orphans;
mod reap;
mod rescue;
mod shutdown;
mod state;
mod watchdog;

use std::time::Duration;

use kernel::memory::Scratch;
use kernel::poll::Deadline;
use kernel::rlimit::{self, Limit, Resource};
use kernel::signal::{self, Signal, SignalFd, SignalSet};
use kernel::{Result, process, sched, time};

use crate::again::insist;
use crate::link::Link;
use crate::options::Options;
use crate::poll::{Interest, Poll};
use crate::protocol::{MAX_PACKET, Role};
use cells::Cells;
use child::Child;
pub(crate) use console::Console;
use creation::Spawner;
use daemon::Daemon;
use groups::Groups;
use kept::Kept;
use orphans::Orphans;
use rescue::Rescue;
use shutdown::Shutdown;
use watchdog::Dog;

pub(crate) use machine::find_role;
pub use watchdog::Settings as WatchdogSettings;

const SIGNALS: u64 = 0;
const DAEMON: u64 = 1;
const SPAWNER: u64 = 2;
/// The token of a cell's status pipe is this and its descriptor.
const STATUS: u64 = 16;

/// How many packets are read before the other sources have their turn.
const PACKETS_AT_ONCE: usize = 64;
/// How long to leave alone what failed for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// The signals that node-init listens to. All others are blocked, so that none ends it by accident.
const LISTENED: [Signal; 6] = [
    Signal::CHLD,
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::PWR,
    Signal::USR2,
];

/// The state of node-init.
struct Node {
    options: Options,
    role: Role,
    console: Console,
    poll: Poll,
    signals: SignalFd,
    groups: Groups,
    /// The limit of descriptors that it was started with; its children get it back.
    descriptors: Option<Limit>,
    started_ns: u64,
    daemon: Daemon,
    spawner: Spawner,
    cells: Cells,
    kept: Kept,
    orphans: Orphans,
    rescue: Rescue,
    /// There may be exits that the daemon doesn't know.
    news: bool,
    /// Children may have ended without a signal: look again.
    reap_again: bool,
    audit_head: Option<(u64, [u8; 32])>,
    buffer: Option<Scratch>,
    shutdown: Option<Shutdown>,
    dog: Dog,
}

/// Runs node-init. Returns only if it can't start.
pub(crate) fn run(options: Options) -> Result<std::convert::Infallible> {
    kernel::oom_wait::wait_for_memory();
    kernel::memory::join_freed();
    let early = Console::default();
    let say = |line: &str| early.say(line);
    let role = insist(say, || options.role.map_or_else(machine::find_role, Ok))?;
    insist(say, || signal::set_mask(SignalSet::ALL))?;
    process::set_umask(0o022);
    let console = boot::boot(role, &options)?;
    let sources = insist(|line| console.say(line), || Sources::open(role))?;
    let groups = Groups::settle(options.cgroup.as_deref(), role, &console)?;
    Node::new(options, role, console, sources, groups).serve()
}

/// The parts that node-init can't run without.
struct Sources {
    poll: Poll,
    signals: SignalFd,
    buffer: Scratch,
}

impl Sources {
    fn open(role: Role) -> Result<Sources> {
        let poll = Poll::new()?;
        let signals = SignalFd::new(SignalSet::of(&LISTENED))?;
        poll.add(&signals, SIGNALS, Interest::READ)?;
        if role == Role::Service {
            process::set_child_subreaper(true)?;
        }
        let buffer = Scratch::new(MAX_PACKET)?;
        Ok(Sources {
            poll,
            signals,
            buffer,
        })
    }
}

impl Node {
    fn new(
        options: Options,
        role: Role,
        console: Console,
        sources: Sources,
        groups: Groups,
    ) -> Node {
        let descriptors = raise_descriptors();
        if process::id() == 1 {
            // Not permitted in a container: then it stays as it is.
            let _ = sched::set_own_oom_score_adj(-1000);
        }
        let daemon = Daemon::of(&options.program);
        let dog = Dog::new(options.watchdog.clone(), role);
        Node {
            options,
            role,
            console,
            poll: sources.poll,
            signals: sources.signals,
            groups,
            descriptors,
            started_ns: time::boottime_ns(),
            daemon,
            spawner: Spawner::default(),
            cells: Cells::default(),
            kept: Kept::of_limit(descriptors),
            orphans: Orphans::default(),
            rescue: Rescue::default(),
            news: false,
            reap_again: false,
            audit_head: None,
            buffer: Some(sources.buffer),
            shutdown: None,
            dog,
        }
    }

    fn serve(mut self) -> ! {
        loop {
            self.give_sign();
            self.kill_daemon_if_due();
            self.give_up_the_late();
            self.start_what_is_due();
            self.flush();
            let timeout = self.timeout();
            if self.poll.wait(timeout).is_err() {
                // Can't happen with a valid descriptor; children are looked after all the same.
                self.read_signals();
            }
            if self.reap_again {
                self.reap();
            }
            let mut number = 0;
            while let Some(token) = self.poll.token(number) {
                self.handle(token);
                number += 1;
            }
            // Sent now, so that the next wait doesn't delay it.
            self.flush();
            self.advance_shutdown();
        }
    }

    fn handle(&mut self, token: u64) {
        match token {
            SIGNALS => self.read_signals(),
            DAEMON => self.read_daemon(),
            SPAWNER => self.read_spawner(),
            _ => self.read_status(token),
        }
    }

    fn start_what_is_due(&mut self) {
        if self.shutdown.is_some() {
            return;
        }
        self.renew_spawner_if_idle();
        self.start_spawner_if_due();
        self.start_daemon_if_due();
    }

    fn timeout(&self) -> Option<Duration> {
        let links = [&self.daemon.child, &self.spawner.child];
        let stuck = links
            .into_iter()
            .flatten()
            .any(|child: &Child| child.link.is_stuck());
        let starts = match self.shutdown {
            None => [self.daemon.start_at(), self.spawner.start_at()],
            Some(_) => [None, None],
        };
        let shutdown = self.shutdown.as_ref().and_then(Shutdown::deadline);
        let deadlines = starts
            .into_iter()
            .chain([shutdown, self.daemon.kill_at()])
            .chain(self.spawner.bounds())
            .chain([self.daemon.welcome_due(), self.dog.deadline()])
            .flatten();
        let soonest = deadlines.filter_map(Deadline::remaining).min();
        let again = stuck || self.reap_again;
        again.then_some(PAUSE).into_iter().chain(soonest).min()
    }

    /// Sends what waits, then what there is to tell, and keeps the poll set in step. In that order:
    /// what is left to tell then has a packet before it in the queue, and the socket's room is
    /// waited for.
    fn flush(&mut self) {
        if !send_waiting(&mut self.daemon.child) {
            self.lose_daemon_link();
        }
        self.tell_news();
        if !watch(&mut self.poll, &mut self.daemon.child, DAEMON) {
            self.lose_daemon_link();
        }
        let spawner = &mut self.spawner.child;
        if !send_waiting(spawner) || !watch(&mut self.poll, spawner, SPAWNER) {
            self.lose_spawner();
        }
    }
}

/// `false` where the connection is broken.
fn send_waiting(child: &mut Option<Child>) -> bool {
    let open = child.as_mut().filter(|child| !child.closed);
    open.is_none_or(|child| child.link.is_flushed() || child.link.flush().is_ok())
}

/// Waits for what the link waits for; `false` where it can't be watched.
fn watch(poll: &mut Poll, child: &mut Option<Child>, token: u64) -> bool {
    let Some(child) = child.as_mut().filter(|child| !child.closed) else {
        return true;
    };
    let interest = Link::interest(&child.link);
    if interest == child.interest {
        return true;
    }
    child.interest = interest;
    poll.change(&child.link, token, interest).is_ok()
}

/// Raises the limit of descriptors as far as permitted; returns the limit before.
fn raise_descriptors() -> Option<Limit> {
    let before = rlimit::get(Resource::NOFILE).ok()?;
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok();
    let most = most
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(before.hard);
    let hard = most.max(before.hard);
    if rlimit::set(Resource::NOFILE, Limit { soft: hard, hard }).is_err() {
        let _ = rlimit::set(
            Resource::NOFILE,
            Limit {
                soft: before.hard,
                ..before
            },
        );
    }
    rlimit::get(Resource::NOFILE).ok()
}
