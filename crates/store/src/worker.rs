// SPDX-License-Identifier: Apache-2.0
//! The store's two threads. The writer gathers what has been queued into one transaction (group
//! commit); each job has a savepoint, so one that fails takes no other with it. A job that can wait
//! goes into the transaction of the next one that can't, or into its own after [`LATER`]. The
//! reader serves queries from committed snapshots, also while writing is broken.
//!
//! Queues are bounded by semaphores whose permits travel with the jobs: the caller of one too many
//! waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{Durability, Health, StoreError, schema};

/// Jobs that may wait for one thread; the next caller waits for a place.
const QUEUE: usize = 1024;
/// Jobs of one transaction.
const BATCH: usize = 256;
/// Jobs after which the log of writes is moved into the file: a few megabytes.
const MOVED_EVERY: usize = 256;
/// The longest that a job that can wait waits for another one's transaction.
const LATER: Duration = Duration::from_secs(1);
/// How often a degraded store tries to write.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// When a job's transaction is begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// At once.
    Now,
    /// With the next job whose turn is now, and after [`LATER`] at the latest.
    Later,
}

/// A job whose type is forgotten until its answer goes out.
trait Job: Send {
    fn durability(&self) -> Durability;
    fn turn(&self) -> Turn;
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Typed<T, F> {
    durability: Durability,
    turn: Turn,
    job: Option<F>,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    _place: OwnedSemaphorePermit,
}

impl<T, F> Job for Typed<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
{
    fn durability(&self) -> Durability {
        self.durability
    }

    fn turn(&self) -> Turn {
        self.turn
    }

    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if let Some(job) = self.job.take() {
            self.result = Some(job(connection)?);
        }
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        let answer = outcome.and_then(|()| result.ok_or(StoreError::Closed));
        // A caller that went away has not asked to undo anything.
        let _gone = reply.send(answer);
    }
}

/// The sending half of a worker thread's queue.
#[derive(Debug)]
struct Queue {
    jobs: Sender<Box<dyn Job>>,
    places: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

/// The files are closed when the last handle is dropped: they may be opened again at once.
impl Drop for Queue {
    fn drop(&mut self) {
        // The thread ends when there is no sender any more.
        self.jobs = channel().0;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a thread of the store ended early");
        }
    }
}

impl Queue {
    fn new() -> (Self, Receiver<Box<dyn Job>>) {
        let (jobs, receiver) = channel();
        let places = Arc::new(Semaphore::new(QUEUE));
        let queue = Self {
            jobs,
            places,
            thread: None,
        };
        (queue, receiver)
    }

    async fn run<T, F>(&self, durability: Durability, turn: Turn, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let closed = |_| StoreError::Closed;
        let place = Arc::clone(&self.places).acquire_owned().await;
        let (reply, answer) = oneshot::channel();
        let job = Typed {
            durability,
            turn,
            job: Some(job),
            result: None,
            reply,
            _place: place.map_err(|_| StoreError::Closed)?,
        };
        self.jobs
            .send(Box::new(job))
            .map_err(|_| StoreError::Closed)?;
        answer.await.map_err(closed)?
    }
}

fn spawn(
    name: &str,
    file: &Path,
    body: impl FnOnce() + Send + 'static,
) -> Result<Option<JoinHandle<()>>, StoreError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(512 * 1024)
        .spawn(body)
        .map(Some)
        .map_err(|e| StoreError::Open {
            file: file.display().to_string(),
            problem: format!("no thread for it: {e}"),
        })
}

/// The one that writes. Its thread ends when the last handle is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Queue,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        file: PathBuf,
        health: Health,
    ) -> Result<Self, StoreError> {
        let (mut queue, jobs) = Queue::new();
        let thread = WriterThread {
            connection,
            file: file.clone(),
            health,
            unmoved: 0,
            durable: None,
        };
        queue.thread = spawn("store-writer", &file, move || thread.serve(&jobs))?;
        Ok(Self { queue })
    }

    pub(super) async fn run<T, F>(
        &self,
        durability: Durability,
        turn: Turn,
        job: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.queue.run(durability, turn, job).await
    }
}

/// Jobs of the next transaction, in the order in which they came.
#[derive(Default)]
struct Waiting {
    jobs: Vec<Box<dyn Job>>,
    /// When they may wait no longer.
    due: Option<Instant>,
}

impl Waiting {
    fn add(&mut self, job: Box<dyn Job>, now: Instant) {
        let due = match job.turn() {
            Turn::Now => now,
            Turn::Later => now + LATER,
        };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        self.jobs.push(job);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.jobs.len() >= BATCH || self.due.is_some_and(|due| due <= now)
    }

    fn take(&mut self) -> Vec<Box<dyn Job>> {
        self.due = None;
        std::mem::take(&mut self.jobs)
    }
}

struct WriterThread {
    connection: Connection,
    file: PathBuf,
    health: Health,
    /// Jobs that were committed since the log of writes was last moved into the file.
    unmoved: usize,
    /// Whether the connection waits for the disk at each commit; `None`: not known.
    durable: Option<bool>,
}

impl WriterThread {
    fn serve(mut self, jobs: &Receiver<Box<dyn Job>>) {
        let mut waiting = Waiting::default();
        loop {
            let next = match self.timeout(&waiting) {
                Some(timeout) => jobs.recv_timeout(timeout),
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let now = Instant::now();
            match next {
                Ok(job) => waiting.add(job, now),
                Err(RecvTimeoutError::Timeout) if !self.health.is_well() => self.probe(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.commit(waiting.take()),
            }
            let most = BATCH.saturating_sub(waiting.jobs.len());
            for job in jobs.try_iter().take(most) {
                waiting.add(job, now);
            }
            if waiting.is_due(now) {
                self.commit(waiting.take());
            }
        }
    }

    /// How long the next job may take to come; `None`: as long as it likes.
    fn timeout(&self, waiting: &Waiting) -> Option<Duration> {
        let probe = (!self.health.is_well()).then_some(PROBE_EVERY);
        let due = waiting
            .due
            .map(|due| due.saturating_duration_since(Instant::now()));
        probe.into_iter().chain(due).min()
    }

    fn probe(&mut self) {
        self.durable = None;
        match schema::probe(&self.connection) {
            Ok(()) => self.health.recover(),
            Err(e) => {
                self.classify(&e);
            }
        }
    }

    /// One transaction for all; answers go out after its commit.
    fn commit(&mut self, mut batch: Vec<Box<dyn Job>>) {
        if batch.is_empty() {
            return;
        }
        let durable = batch.iter().any(|j| j.durability() == Durability::Disk);
        let outcomes = match self.transaction(&mut batch, durable) {
            Ok(outcomes) => {
                self.health.recover();
                outcomes
            }
            Err(e) => {
                self.roll_back();
                let error = self.classify(&e);
                batch.iter().map(|_| Err(error.clone())).collect()
            }
        };
        self.unmoved += batch.len();
        for (job, outcome) in batch.into_iter().zip(outcomes) {
            job.answer(outcome);
        }
        self.move_when_due();
    }

    /// Moves what was written from SQLite's log into the file. It waits for the disk, so that it
    /// comes after the answers: SQLite by itself does it within a commit.
    fn move_when_due(&mut self) {
        if self.unmoved < MOVED_EVERY || !self.health.is_well() {
            return;
        }
        self.unmoved = 0;
        // All of it stays in the log where this fails, and the next commit tells of the disk.
        let moved = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = moved {
            tracing::warn!(%error, "the database's log stays as it is for now");
        }
    }

    fn transaction(
        &mut self,
        batch: &mut [Box<dyn Job>],
        durable: bool,
    ) -> rusqlite::Result<Vec<Result<(), StoreError>>> {
        self.wait_for_disk(durable)?;
        self.execute("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(batch.len());
        for job in batch {
            self.execute("SAVEPOINT job")?;
            let outcome = match job.run(&self.connection) {
                Ok(()) => Ok(()),
                // The disk fails for everybody.
                Err(e) if StoreError::broken(&e, &self.file).is_some() => return Err(e),
                Err(e) => {
                    self.execute("ROLLBACK TO job")?;
                    Err(StoreError::Statement {
                        detail: e.to_string(),
                    })
                }
            };
            self.execute("RELEASE job")?;
            outcomes.push(outcome);
        }
        self.execute("COMMIT")?;
        Ok(outcomes)
    }

    /// Sets whether commits wait for the disk from now on.
    fn wait_for_disk(&mut self, durable: bool) -> rusqlite::Result<()> {
        if self.durable == Some(durable) {
            return Ok(());
        }
        self.durable = None;
        let level = if durable { "FULL" } else { "NORMAL" };
        self.connection.pragma_update(None, "synchronous", level)?;
        self.durable = Some(durable);
        Ok(())
    }

    /// A statement without an answer, compiled once.
    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn roll_back(&self) {
        // SQLite may have rolled back by itself (a full disk does that).
        if !self.connection.is_autocommit()
            && let Err(e) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!("the store can't roll back: {e}");
        }
    }

    fn classify(&self, error: &rusqlite::Error) -> StoreError {
        match StoreError::broken(error, &self.file) {
            Some(reason) => {
                self.health.fail(&reason);
                StoreError::Degraded { reason }
            }
            None => StoreError::Statement {
                detail: error.to_string(),
            },
        }
    }
}

/// The one that reads.
#[derive(Debug)]
pub(super) struct Reader {
    queue: Queue,
}

impl Reader {
    pub(super) fn start(
        connection: Connection,
        file: PathBuf,
        health: Health,
    ) -> Result<Self, StoreError> {
        let (mut queue, jobs) = Queue::new();
        let path = file.clone();
        queue.thread = spawn("store-reader", &path, move || {
            check_large(&connection, &file, &health);
            for mut job in jobs {
                let outcome =
                    job.run(&connection)
                        .map_err(|e| match StoreError::broken(&e, &file) {
                            Some(reason) => StoreError::Degraded { reason },
                            None => StoreError::Statement {
                                detail: e.to_string(),
                            },
                        });
                job.answer(outcome);
            }
        })?;
        Ok(Self { queue })
    }

    pub(super) async fn run<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.queue.run(Durability::Kernel, Turn::Now, job).await
    }
}

/// The check that was too long for the start. What it finds can't heal by itself, so a later
/// successful write must not hide it: it is logged, and the reads that hit the broken pages fail by
/// themselves.
fn check_large(connection: &Connection, file: &Path, health: &Health) {
    let large = std::fs::metadata(file).is_ok_and(|m| m.len() > schema::CHECK_AT_START_BYTES);
    if !large {
        return;
    }
    if let Ok(Some(detail)) = schema::quick_check(connection) {
        health.fail(&format!(
            "{}: the file is corrupt ({detail})",
            file.display()
        ));
    }
}
