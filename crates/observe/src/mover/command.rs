// SPDX-License-Identifier: Apache-2.0
//! What others ask of the mover, and its answers. A closed set; the queue is bounded and who sends
//! waits.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};

use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::observe::Stream;
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

use super::log::{Batch, Log, Now};
use super::source::Source;
use super::{Mover, failure, now, report};
use crate::config::{LogsConfig, RetentionLimits};
use crate::folder::{Folder, LogKey};

/// Commands carried out before the pipes are looked at again.
const AT_ONCE: usize = 256;

/// The answer to one command.
type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What a log is begun with.
pub(crate) struct Attach {
    pub(crate) key: LogKey,
    pub(crate) sources: Vec<(Stream, OwnedFd)>,
    pub(crate) limits: RetentionLimits,
}

/// A request to the mover.
pub(crate) enum Command {
    /// Read from these from now on.
    Attach { what: Attach, reply: Reply<()> },
    /// It has no writer any more: take what is left, mark the end, close.
    Drain { uid: Uid, reply: Reply<Drained> },
    /// Its writer pauses: take what is left, and close, without an end. Answers with the bytes of
    /// standard output stored over its whole life, and then when they are on the disk.
    PutAside {
        uid: Uid,
        reply: Reply<u64>,
        synced: Reply<()>,
    },
    /// Take what this tenant's workloads have printed so far, and answer when it is on the disk.
    Settle { tenant: Tenant, reply: Reply<()> },
    /// Begin another segment, so that retention can take the one that is written.
    Rotate { key: LogKey },
    /// Use these settings for what comes.
    Configure(Box<LogsConfig>),
    /// Sync and end the thread.
    Stop { reply: Reply<()> },
}

/// What a finished log holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drained {
    /// Bytes of standard output stored over its whole life, what retention has dropped since
    /// included.
    pub stdout_bytes: u64,
    /// The same of standard error.
    pub stderr_bytes: u64,
    /// Length of the whole output, what was never stored included.
    pub end_offset: u64,
    /// Bytes dropped of which not even the count could be stored; only this value tells of
    /// them.
    pub unrecorded_bytes: u64,
}

/// The sending half.
#[derive(Clone)]
pub(crate) struct Sender {
    commands: mpsc::Sender<Command>,
    wake: Arc<OwnedFd>,
    pub(super) mover: Weak<Mutex<Mover>>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sender")
    }
}

/// How retention asks for other segments. It keeps no mover going.
#[derive(Clone, Debug)]
pub(crate) struct Rotator {
    commands: mpsc::WeakSender<Command>,
    wake: Arc<OwnedFd>,
}

impl Rotator {
    /// Asks for one. A mover that is busy isn't waited for: the next look asks again.
    pub(crate) fn ask(&self, key: LogKey) {
        if let Some(commands) = self.commands.upgrade()
            && commands.try_send(Command::Rotate { key }).is_ok()
        {
            let wake = Arc::clone(&self.wake);
            // It fails where the mover has ended.
            let mover = Weak::new();
            let _ended = Sender {
                commands,
                wake,
                mover,
            }
            .ring();
        }
    }
}

impl Sender {
    pub(crate) fn rotator(&self) -> Rotator {
        Rotator {
            commands: self.commands.downgrade(),
            wake: Arc::clone(&self.wake),
        }
    }

    pub(super) fn new(commands: mpsc::Sender<Command>, wake: Arc<OwnedFd>) -> Self {
        Self {
            commands,
            wake,
            mover: Weak::new(),
        }
    }

    /// Begins a log: at once where the mover sleeps, else when it comes to it.
    pub(crate) async fn attach(&self, what: Attach) -> Result<(), Error> {
        match self.attach_now(what) {
            Ok(outcome) => outcome,
            Err(what) => self.ask(|reply| Command::Attach { what, reply }).await,
        }
    }

    fn attach_now(&self, what: Attach) -> Result<Result<(), Error>, Attach> {
        let Some(mover) = self.mover.upgrade() else {
            return Err(what);
        };
        match mover.try_lock() {
            Ok(mut mover) if !mover.stopping => Ok(mover.attach(what)),
            _ => Err(what),
        }
    }

    /// Ends a log: at once where the mover sleeps and nothing was ever printed, else when the mover
    /// comes to it.
    pub(crate) async fn drain(&self, uid: Uid) -> Result<Drained, Error> {
        match self.drain_now(uid) {
            Some(drained) => Ok(drained),
            None => self.ask(|reply| Command::Drain { uid, reply }).await,
        }
    }

    fn drain_now(&self, uid: Uid) -> Option<Drained> {
        let mover = self.mover.upgrade()?;
        let mut mover = mover.try_lock().ok()?;
        mover.drain_unused(uid)
    }

    /// Answers when all of it is on the disk, with what that is.
    pub(crate) async fn put_aside(&self, uid: Uid) -> Result<u64, Error> {
        let (synced, on_disk) = oneshot::channel();
        let stored = self
            .ask(|reply| Command::PutAside { uid, reply, synced })
            .await?;
        on_disk.await.map_err(|_| stopped())??;
        Ok(stored)
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn ask<T>(
        &self,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(command(reply)).await?;
        answer.await.map_err(|_| stopped())?
    }

    pub(crate) async fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).await.map_err(|_| stopped())?;
        self.ring()
    }

    fn ring(&self) -> Result<(), Error> {
        // A full counter means that the mover is being woken already.
        match rustix::io::write(&*self.wake, &1u64.to_ne_bytes()) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(failure("can't wake the log mover", errno)),
        }
    }
}

fn stopped() -> Error {
    Error::new(Reason::ShuttingDown, "the log mover has stopped")
}

impl Mover {
    /// Carries out the commands that wait.
    pub(super) fn obey(&mut self) -> Result<(), Errno> {
        let mut counter = [0u8; 8];
        match rustix::io::read(&*self.wake, &mut counter[..]) {
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) | Ok(_) => {}
            Err(e) => return Err(e),
        }
        for _ in 0..AT_ONCE {
            match self.commands.try_recv() {
                Ok(command) => self.carry_out(command),
                Err(mpsc::error::TryRecvError::Empty) => return Ok(()),
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return Ok(());
                }
            }
        }
        // More may wait: come back after the pipes.
        match rustix::io::write(&*self.wake, &1u64.to_ne_bytes()) {
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn carry_out(&mut self, command: Command) {
        // A caller that went away doesn't need the answer.
        match command {
            Command::Attach { what, reply } => drop(reply.send(self.attach(what))),
            Command::Drain { uid, reply } => drop(reply.send(self.drain(uid))),
            Command::PutAside { uid, reply, synced } => {
                drop(reply.send(self.put_aside(uid, synced)));
            }
            Command::Settle { tenant, reply } => self.settle(&tenant, reply),
            Command::Rotate { key } => self.rotate(&key),
            Command::Configure(config) => self.with.config = *config,
            Command::Stop { reply } => {
                self.sync_at = Some(std::time::Instant::now());
                self.sync_when_due();
                self.stopping = true;
                drop(reply.send(Ok(())));
            }
        }
    }

    pub(super) fn attach(&mut self, what: Attach) -> Result<(), Error> {
        let Attach {
            key,
            sources,
            limits,
        } = what;
        let failed = |e| failure("can't examine an output", e);
        let room = self.room(&key.tenant).map_err(failed)?;
        let made = sources
            .into_iter()
            .map(|(stream, fd)| Source::new(key.clone(), room, stream, fd))
            .collect::<Result<Vec<_>, _>>();
        let made = made.map_err(|e| {
            self.leave(room, None);
            failed(e)
        })?;
        // A cell-init that was connected to anew hands the same pipes over again.
        self.detach(key.uid);
        let folder = Folder::new(&self.with.root, &key);
        let boot = self.with.boot;
        self.with.registry.insert(&key);
        let uid = key.uid;
        let log = self.logs.entry(uid);
        let log = log.or_insert_with(|| Log::new(folder, boot, limits));
        log.limits = limits;
        for source in made {
            match self.watch(source) {
                Ok(token) => self
                    .logs
                    .entry(uid)
                    .and_modify(|log| log.tokens.push(token)),
                Err(e) => {
                    self.detach(uid);
                    self.leave(room, None);
                    self.logs.remove(&uid);
                    self.with.registry.finish(&uid);
                    return Err(failure("can't watch an output", e));
                }
            };
        }
        Ok(())
    }

    fn rotate(&mut self, key: &LogKey) {
        let Some(log) = self.logs.get_mut(&key.uid) else {
            return;
        };
        match log.rotate(now()) {
            Ok(true) => self.with.retention.rotated(&key.tenant),
            Ok(false) => {}
            Err(errno) => report(key, errno),
        }
    }

    /// The log, with all that was in its pipes taken.
    fn emptied(&mut self, uid: Uid, now: Now) -> Result<&mut Log, Error> {
        let Some(log) = self.logs.get_mut(&uid) else {
            return Err(Error::new(
                Reason::WrongState,
                format!("the output of {uid} is not being read"),
            ));
        };
        let tokens = log.tokens.clone();
        for source in tokens.iter().filter_map(|t| self.sources.get(t)) {
            take_what_is_there(log, source, now, &mut self.buffer);
        }
        Ok(log)
    }

    fn put_aside(&mut self, uid: Uid, synced: Reply<()>) -> Result<u64, Error> {
        let now = now();
        let log = self.emptied(uid, now)?;
        let stored = log.put_aside(now);
        let files = log.unsynced();
        self.with.syncer.sync_and_tell(files, synced);
        self.finish(uid);
        Ok(stored)
    }

    pub(super) fn drain(&mut self, uid: Uid) -> Result<Drained, Error> {
        let now = now();
        let log = self.emptied(uid, now)?;
        let end = log.end(now);
        let files = log.unsynced();
        self.with.syncer.sync(files);
        self.finish(uid);
        let end = end.map_err(|e| failure("can't mark the end of a log", e))?;
        if end.unwritten > 0 {
            tracing::error!(%uid, bytes = end.unwritten, "output was dropped, and no room to say so");
        }
        Ok(Drained {
            stdout_bytes: end.stdout_bytes,
            stderr_bytes: end.stderr_bytes,
            end_offset: end.offset,
            unrecorded_bytes: end.unwritten,
        })
    }

    fn settle(&mut self, tenant: &Tenant, reply: Reply<()>) {
        let now = now();
        let mut files = Vec::new();
        for (uid, log) in &mut self.logs {
            let tokens = log.tokens.clone();
            let mut sources = tokens.iter().filter_map(|t| self.sources.get(t)).peekable();
            if sources.peek().is_none_or(|it| it.key.tenant != *tenant) {
                continue;
            }
            let taken: u64 = sources
                .map(|source| take_what_is_there(log, source, now, &mut self.buffer))
                .sum();
            if taken > 0 {
                self.with.registry.announce(uid, log.stored());
            }
            files.extend(log.unsynced());
        }
        self.with.syncer.sync_and_tell(files, reply);
    }

    /// [`Mover::drain`] of a log that nothing was ever printed to, which takes no disk; `None` of
    /// any other.
    fn drain_unused(&mut self, uid: Uid) -> Option<Drained> {
        let log = self.logs.get(&uid).filter(|_| !self.stopping)?;
        let mut sources = log.tokens.iter().filter_map(|t| self.sources.get(t));
        let empty =
            sources.all(|source| !source.is_terminal() && matches!(source.available(), Ok(0)));
        if !empty || !log.is_unused() {
            return None;
        }
        self.finish(uid);
        Some(Drained::default())
    }

    /// Forgets a log that has its end.
    fn finish(&mut self, uid: Uid) {
        self.detach(uid);
        self.logs.remove(&uid);
        self.with.registry.finish(&uid);
    }

    fn detach(&mut self, uid: Uid) {
        let log = self.logs.get_mut(&uid);
        let tokens = log.map_or_else(Vec::new, |log| std::mem::take(&mut log.tokens));
        tokens.into_iter().for_each(|token| self.unwatch(token));
    }
}

/// Takes what is in a pipe now, and no more: a stranger who was handed it can't hold this up. How
/// many bytes it were.
fn take_what_is_there(log: &mut Log, source: &Source, now: Now, buffer: &mut [u8]) -> u64 {
    let there = source.available().unwrap_or(0);
    let mut left = there;
    while left > 0 {
        let batch = log.take(source, left, now, buffer);
        let Batch { taken, refused, .. } = batch.unwrap_or_default();
        refused.into_iter().for_each(|e| report(&source.key, e));
        if taken == 0 {
            break;
        }
        left = left.saturating_sub(taken);
    }
    there - left
}
