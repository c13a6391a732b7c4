// SPDX-License-Identifier: Apache-2.0
//! The mover: one thread that carries every byte that workloads print from their pipes into their
//! logs.
//!
//! It sleeps in `epoll` over the tenants, each an `epoll` over its read ends. Its state isn't
//! locked then: what needs no disk (the beginning of a log, the end of one that nothing was printed
//! to) is done by the task that asks for it, which would be two hand-overs away from the answer.
//! When some can be read it takes one batch from each, then waits a *short pause* if the batches
//! were small: a busy writer fills its pipe meanwhile and is moved in one go, an idle one's next
//! write is on its own. Tenants take turns (`turns`), so a tenant with many busy pipes holds up no
//! other's; a batch is at most a large pipe full, and a disk that refuses makes the mover drop and
//! count.
//!
//! It decides nothing about whose log is kept how long (`retention`), forces nothing to the disk
//! (`sync`), and serves no reader (`read`): it tells them by [`Live`] that there is more.

mod command;
mod log;
mod room;
mod segment;
mod source;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

pub use command::Drained;
pub(super) use command::{Attach, Command, Rotator, Sender};
pub(super) use segment::Files;

use self::log::{Log, Now};
use self::room::Room;
use self::source::{BUFFER, Source};
use self::turns::Turns;
use super::config::LogsConfig;
use super::format::RECORD;
use super::live::Registry;
use super::retention::Retention;
use super::sync::Syncer;

/// The token of the eventfd; tenants and sources count from 1.
const WAKE: u64 = 0;
/// Tenants that one look finds ready, and sources of one tenant.
const EVENTS: usize = 512;
/// What a tenant prints before retention is told, in bytes.
const TOLD_EVERY: u64 = 64 << 10;
/// Commands that may wait; who sends one more waits with it.
const COMMANDS: usize = 1024;

/// What the mover works with.
pub(super) struct Surroundings {
    pub(super) root: std::path::PathBuf,
    pub(super) config: LogsConfig,
    pub(super) boot: [u8; 16],
    pub(super) registry: Arc<Registry>,
    pub(super) retention: Retention,
    pub(super) syncer: Syncer,
}

/// The thread's state. Others hold it for moments in which the thread sleeps, and write to no disk.
pub(super) struct Mover {
    with: Surroundings,
    epoll: Arc<std::os::fd::OwnedFd>,
    wake: Arc<std::os::fd::OwnedFd>,
    commands: mpsc::Receiver<Command>,
    logs: HashMap<Uid, Log>,
    sources: HashMap<u64, Source>,
    /// A tenant that has sources, or had some lately, by its token.
    rooms: HashMap<u64, Room>,
    room_of: HashMap<Tenant, u64>,
    /// Rooms without a source, the one that was left first in front.
    idle: VecDeque<u64>,
    turns: Turns<u64, Ready>,
    next_token: u64,
    pipes_grown: usize,
    sync_at: Option<Instant>,
    buffer: Vec<u8>,
    stopping: bool,
}

/// Starts the thread.
///
/// # Errors
/// The kernel gives no descriptor or no thread.
pub(super) fn start(with: Surroundings) -> std::io::Result<Sender> {
    let (mover, mut sender) = Mover::new(with)?;
    // The thread's alone, so that all of it goes with the thread.
    let mover = Arc::new(Mutex::new(mover));
    sender.mover = Arc::downgrade(&mover);
    std::thread::Builder::new()
        .name("log-mover".to_owned())
        .spawn(move || run_or_abort(&mover))?;
    Ok(sender)
}

/// Without its mover a daemon would let every workload's pipe fill up. The next daemon begins where
/// this one ends, so ending is the safe answer to a defect here.
fn run_or_abort(mover: &Mutex<Mover>) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(mover)));
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(errno)) => {
            tracing::error!(%errno, "the log mover can't go on; ending the daemon");
            std::process::abort();
        }
        Err(_) => abort_after_panic(),
    }
}

fn abort_after_panic() -> ! {
    tracing::error!("the log mover panicked; ending the daemon");
    std::process::abort();
}

fn run(mover: &Mutex<Mover>) -> Result<(), Errno> {
    let mut sweep = Sweep::default();
    loop {
        // By itself: the state must not be held while the thread sleeps.
        let look = lock(mover).look();
        let Some(look) = look else { return Ok(()) };
        let events = look.wait()?;
        let pause = lock(mover).round(&events, &mut sweep)?;
        if let Some(end) = pause {
            wait_for_more(mover, end)?;
        }
    }
}

fn lock(mover: &Mutex<Mover>) -> MutexGuard<'_, Mover> {
    mover.lock().unwrap_or_else(|_| abort_after_panic())
}

/// Waits until that moment for more bytes, not for commands.
fn wait_for_more(mover: &Mutex<Mover>, end: Instant) -> Result<(), Errno> {
    let wake = Arc::clone(&lock(mover).wake);
    while Instant::now() < end {
        let mut fds = [PollFd::new(&wake, PollFlags::IN)];
        match poll(&mut fds, Some(&until(end))) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => {
                let mut mover = lock(mover);
                mover.obey()?;
                if mover.stopping {
                    return Ok(());
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// A look at who is ready, for which the state needn't be held.
struct Look {
    epoll: Arc<std::os::fd::OwnedFd>,
    timeout: Option<Timespec>,
}

impl Look {
    fn wait(&self) -> Result<Vec<epoll::Event>, Errno> {
        let mut events = Vec::with_capacity(EVENTS);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, buffer, self.timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(events),
            Err(e) => Err(e),
        }
    }
}

/// A source that can be read, or has hung up.
type Ready = (u64, epoll::EventFlags);

impl Mover {
    fn new(with: Surroundings) -> Result<(Self, Sender), Errno> {
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let data = epoll::EventData::new_u64(WAKE);
        epoll::add(&epoll, &wake, data, epoll::EventFlags::IN)?;
        let (send, commands) = mpsc::channel(COMMANDS);
        let sender = Sender::new(send, Arc::clone(&wake));
        let mover = Self {
            with,
            epoll,
            wake,
            commands,
            logs: HashMap::new(),
            sources: HashMap::new(),
            rooms: HashMap::new(),
            room_of: HashMap::new(),
            idle: VecDeque::new(),
            turns: Turns::new(),
            next_token: WAKE + 1,
            pipes_grown: 0,
            sync_at: None,
            buffer: vec![0; BUFFER],
            stopping: false,
        };
        Ok((mover, sender))
    }

    /// The next look; `None`: there is none.
    fn look(&self) -> Option<Look> {
        let timeout = match self.turns.is_empty() {
            true => self.sync_at.map(until),
            false => Some(Timespec::default()),
        };
        (!self.stopping).then(|| Look {
            epoll: Arc::clone(&self.epoll),
            timeout,
        })
    }

    /// Gives every tenant that is ready one turn. Answers how long to wait for more.
    fn round(
        &mut self,
        events: &[epoll::Event],
        sweep: &mut Sweep,
    ) -> Result<Option<Instant>, Errno> {
        let now = now();
        let mut woken = false;
        for event in events {
            match event.data.u64() {
                WAKE => woken = true,
                tenant if self.turns.is_done(tenant) => self.gather(tenant)?,
                _ => {}
            }
        }
        for _ in 0..self.turns.in_a_round() {
            let Some((token, flags)) = self.turns.next() else {
                break;
            };
            self.serve(token, flags, now, sweep);
        }
        if woken {
            self.obey()?;
        }
        self.sync_when_due();
        if !self.turns.is_empty() || self.stopping {
            return Ok(None);
        }
        let Sweep { moved, crowded } = std::mem::take(sweep);
        let end = now.instant + self.with.config.batch_pause;
        Ok((moved && !crowded).then_some(end))
    }

    /// Gives turns to what a tenant has ready now.
    fn gather(&mut self, tenant: u64) -> Result<(), Errno> {
        let Some(room) = self.rooms.get(&tenant) else {
            return Ok(());
        };
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&room.epoll, buffer, Some(&Timespec::default())) {
            Err(Errno::INTR) => return Ok(()),
            other => other?,
        };
        let ready = events.iter().map(|event| (event.data.u64(), event.flags));
        self.turns.offer(tenant, ready);
        Ok(())
    }

    /// One batch of one source.
    fn serve(&mut self, token: u64, flags: epoll::EventFlags, now: Now, sweep: &mut Sweep) {
        let Some(source) = self.sources.get_mut(&token) else {
            return;
        };
        let Some(log) = self.logs.get_mut(&source.key.uid) else {
            return;
        };
        let Some(room) = self.rooms.get_mut(&source.room) else {
            return;
        };
        room.count_turn();
        let most = u64::try_from(self.with.config.pipe_bytes).unwrap_or(u64::MAX);
        let taken = match log.take(source, most, now, &mut self.buffer) {
            Ok(batch) => {
                if batch.rotated {
                    self.with.retention.segment_full(&source.key, log.limits);
                }
                if let Some(errno) = batch.refused {
                    report(&source.key, errno);
                    self.with.retention.disk_full();
                }
                batch.taken
            }
            Err(errno) => {
                tracing::error!(uid = %source.key.uid, %errno, "an output can't be read any more");
                return quiet(&room.epoll, token, source);
            }
        };
        if taken == 0 {
            if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
                quiet(&room.epoll, token, source);
            }
            return;
        }
        sweep.moved = true;
        room.untold += taken + RECORD as u64;
        if room.untold >= TOLD_EVERY && self.with.retention.grown(&room.tenant, room.untold) {
            room.untold = 0;
        }
        if source.is_crowded_by(taken) {
            sweep.crowded = true;
            let budget = self
                .with
                .config
                .pipes_max_bytes
                .saturating_sub(self.pipes_grown);
            self.pipes_grown += source.grow(self.with.config.pipe_bytes, budget);
        }
        self.with.registry.announce(&source.key.uid, log.stored());
        if log.is_dirty() && self.sync_at.is_none() {
            self.sync_at = Some(now.instant + self.with.config.sync_every);
        }
    }

    fn sync_when_due(&mut self) {
        if self.sync_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        self.sync_at = None;
        let files = self.logs.values_mut().flat_map(Log::unsynced);
        self.with.syncer.sync(files.collect());
    }
}

/// What came of serving each source that was ready.
#[derive(Default)]
struct Sweep {
    moved: bool,
    crowded: bool,
}

/// A source that is ready without having anything must not keep the loop spinning. A pipe that hung
/// up has no writer left; a terminal may be opened again by a process of its session, which an
/// edge-triggered watch tells.
fn quiet(epoll: &std::os::fd::OwnedFd, token: u64, source: &mut Source) {
    use epoll::EventFlags;
    let outcome = if source.is_terminal() {
        let data = epoll::EventData::new_u64(token);
        epoll::modify(epoll, &source.fd, data, EventFlags::IN | EventFlags::ET)
    } else {
        source.watched = false;
        epoll::delete(epoll, &source.fd)
    };
    if let Err(errno) = outcome {
        tracing::warn!(uid = %source.key.uid, %errno, "an output that ended can't be put aside");
    }
}

fn report(key: &super::folder::LogKey, errno: Errno) {
    tracing::warn!(
        tenant = %key.tenant,
        uid = %key.uid,
        %errno,
        "the disk refuses output: it is dropped and counted until that changes"
    );
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        wall_us: runtime::now().0 / 1_000,
    }
}

/// From now to `end`, as the kernel wants it.
fn until(end: Instant) -> rustix::event::Timespec {
    let left: Duration = end.saturating_duration_since(Instant::now());
    rustix::event::Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

/// An error of the mover as the API says it.
fn failure(what: &str, errno: Errno) -> Error {
    Error::new(Reason::Internal, format!("{what}: {errno}")).errno(errno.raw_os_error())
}
