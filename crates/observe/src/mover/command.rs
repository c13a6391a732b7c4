// SPDX-License-Identifier: Apache-2.0
//! What others ask of the mover, and its answers. A closed set; the queue is bounded and who sends
//! waits.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::error::{Error, Reason};
use model::name::Uid;
use model::observe::Stream;
use rustix::event::epoll;
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};

use super::log::{Batch, Log};
use super::source::Source;
use super::{Mover, failure, now, report};
use crate::config::{Keep, LogsConfig};
use crate::folder::{Folder, LogKey};

/// Commands carried out before the pipes are looked at again.
const AT_ONCE: usize = 256;

/// The answer to one command.
type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A request to the mover.
pub(crate) enum Command {
    /// Read from these from now on.
    Attach {
        key: LogKey,
        sources: Vec<(Stream, OwnedFd)>,
        keep: Keep,
        reply: Reply<()>,
    },
    /// Nobody writes any more: take what is left, mark the end, close.
    Drain { uid: Uid, reply: Reply<Drained> },
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
    /// Bytes dropped of which not even the count could be stored; nobody but this value tells of
    /// them.
    pub unrecorded_bytes: u64,
}

/// The sending half.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    commands: mpsc::Sender<Command>,
    wake: Arc<OwnedFd>,
}

impl Sender {
    pub(super) fn new(commands: mpsc::Sender<Command>, wake: Arc<OwnedFd>) -> Self {
        Self { commands, wake }
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
        // Whoever asked and went away doesn't need the answer.
        match command {
            Command::Attach {
                key,
                sources,
                keep,
                reply,
            } => drop(reply.send(self.attach(key, sources, keep))),
            Command::Drain { uid, reply } => drop(reply.send(self.drain(uid))),
            Command::Configure(config) => self.with.config = *config,
            Command::Stop { reply } => {
                self.sync_at = Some(std::time::Instant::now());
                self.sync_when_due();
                self.stopping = true;
                drop(reply.send(Ok(())));
            }
        }
    }

    fn attach(
        &mut self,
        key: LogKey,
        sources: Vec<(Stream, OwnedFd)>,
        keep: Keep,
    ) -> Result<(), Error> {
        let made = sources
            .into_iter()
            .map(|(stream, fd)| Source::new(key.clone(), stream, fd))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| failure("can't examine an output", e))?;
        // A cell-init that was connected to anew hands the same pipes over again.
        self.detach(key.uid);
        let folder = Folder::new(&self.with.root, &key);
        let boot = self.with.boot;
        self.with.registry.insert(&key);
        let uid = key.uid;
        let log = self.logs.entry(uid);
        let log = log.or_insert_with(|| Log::new(folder, boot, keep));
        log.keep = keep;
        for mut source in made {
            let token = self.next_token;
            self.next_token += 1;
            let data = epoll::EventData::new_u64(token);
            if let Err(e) = epoll::add(&self.epoll, &source.fd, data, epoll::EventFlags::IN) {
                self.detach(uid);
                self.logs.remove(&uid);
                self.with.registry.finish(&uid);
                return Err(failure("can't watch an output", e));
            }
            source.watched = true;
            self.sources.insert(token, source);
            log.tokens.push(token);
        }
        Ok(())
    }

    fn drain(&mut self, uid: Uid) -> Result<Drained, Error> {
        let now = now();
        let Some(log) = self.logs.get_mut(&uid) else {
            return Err(Error::new(
                Reason::WrongState,
                format!("the output of {uid} is not being read"),
            ));
        };
        let tokens = log.tokens.clone();
        for source in tokens.iter().filter_map(|t| self.sources.get(t)) {
            // What is there now, and no more: a stranger who was handed the pipe can't hold this
            // up.
            let mut left = source.available().unwrap_or(0);
            while left > 0 {
                let Batch { taken, refused, .. } = log
                    .take(source, left, now, &mut self.buffer)
                    .unwrap_or_default();
                refused.into_iter().for_each(|e| report(&source.key, e));
                if taken == 0 {
                    break;
                }
                left = left.saturating_sub(taken);
            }
        }
        let end = log.end(now);
        self.with.syncer.sync(log.unsynced());
        self.detach(uid);
        self.logs.remove(&uid);
        self.with.registry.finish(&uid);
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

    fn detach(&mut self, uid: Uid) {
        let log = self.logs.get_mut(&uid);
        let tokens = log.map_or_else(Vec::new, |log| std::mem::take(&mut log.tokens));
        for token in tokens {
            if let Some(source) = self.sources.remove(&token) {
                self.pipes_grown = self.pipes_grown.saturating_sub(source.grown());
                // Init holds the pipe too: closing alone would leave it in the set.
                if source.watched
                    && let Err(errno) = epoll::delete(&self.epoll, &source.fd)
                {
                    tracing::warn!(%uid, %errno, "an output is still watched");
                }
            }
        }
    }
}
