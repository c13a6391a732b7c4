// SPDX-License-Identifier: Apache-2.0
//! The store's two threads. The writer gathers what has been queued into one transaction (group
//! commit); each job has a savepoint, so one that fails takes nobody with it. The reader serves
//! queries from committed snapshots, also while writing is broken.
//!
//! Queues are bounded by semaphores whose permits travel with the jobs: the caller of one too many
//! waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::{Durability, Health, StoreError, schema};

/// Jobs that may wait for one thread; the next caller waits for a place.
const QUEUE: usize = 1024;
/// Jobs of one transaction.
const BATCH: usize = 256;
/// How often a degraded store tries to write.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// A job whose type is forgotten until its answer goes out.
trait Job: Send {
    fn durability(&self) -> Durability;
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Typed<T, F> {
    durability: Durability,
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

/// Whoever drops the last handle finds the files closed: the next to open them may be in a hurry.
impl Drop for Queue {
    fn drop(&mut self) {
        // The thread ends when nobody can send any more.
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

    async fn run<T, F>(&self, durability: Durability, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let closed = |_| StoreError::Closed;
        let place = Arc::clone(&self.places).acquire_owned().await;
        let (reply, answer) = oneshot::channel();
        let job = Typed {
            durability,
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
        };
        queue.thread = spawn("store-writer", &file, move || thread.serve(&jobs))?;
        Ok(Self { queue })
    }

    pub(super) async fn run<T, F>(&self, durability: Durability, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.queue.run(durability, job).await
    }
}

struct WriterThread {
    connection: Connection,
    file: PathBuf,
    health: Health,
}

impl WriterThread {
    fn serve(self, jobs: &Receiver<Box<dyn Job>>) {
        loop {
            let first = if self.health.is_well() {
                jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                jobs.recv_timeout(PROBE_EVERY)
            };
            match first {
                Ok(first) => {
                    let batch = std::iter::once(first)
                        .chain(jobs.try_iter().take(BATCH - 1))
                        .collect();
                    self.commit(batch);
                }
                Err(RecvTimeoutError::Timeout) => self.probe(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn probe(&self) {
        match schema::probe(&self.connection) {
            Ok(()) => self.health.recover(),
            Err(e) => {
                self.classify(&e);
            }
        }
    }

    /// One transaction for all; answers go out after its commit.
    fn commit(&self, mut batch: Vec<Box<dyn Job>>) {
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
        for (job, outcome) in batch.into_iter().zip(outcomes) {
            job.answer(outcome);
        }
    }

    fn transaction(
        &self,
        batch: &mut [Box<dyn Job>],
        durable: bool,
    ) -> rusqlite::Result<Vec<Result<(), StoreError>>> {
        let level = if durable { "FULL" } else { "NORMAL" };
        self.connection.pragma_update(None, "synchronous", level)?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(batch.len());
        for job in batch {
            self.connection.execute_batch("SAVEPOINT job")?;
            let outcome = match job.run(&self.connection) {
                Ok(()) => Ok(()),
                // The disk fails for everybody.
                Err(e) if StoreError::broken(&e, &self.file).is_some() => return Err(e),
                Err(e) => {
                    self.connection.execute_batch("ROLLBACK TO job")?;
                    Err(StoreError::Statement {
                        detail: e.to_string(),
                    })
                }
            };
            self.connection.execute_batch("RELEASE job")?;
            outcomes.push(outcome);
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(outcomes)
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
        self.queue.run(Durability::Kernel, job).await
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
