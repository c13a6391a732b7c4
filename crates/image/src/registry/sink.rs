// SPDX-License-Identifier: Apache-2.0
//! The bridge from the async client to the blocking store: a thread that owns one `Ingest`, and a
//! short queue to it. A full queue holds the download up; a sink that is dropped leaves what has
//! come for the next attempt.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::error::RegistryError;
use super::tap::{Tap, Tapped};
use crate::error::ImageError;
use crate::manifest::Descriptor;
use crate::store::{Ingest, Pin, Store};

/// How many pieces wait for the disk at most.
const QUEUE: usize = 4;

enum Step {
    Write(Bytes),
    Restart,
    Finish,
}

/// Where a blob is written.
#[derive(Debug)]
pub(crate) struct Sink {
    steps: mpsc::Sender<Step>,
    /// How the writer ended; taken by who hears of it first.
    end: Option<oneshot::Receiver<Result<Option<Pin>, ImageError>>>,
    offset: u64,
    size: u64,
    /// Whether bytes of an earlier attempt are a part of it.
    resumed: bool,
}

impl Sink {
    /// Opens an ingest of this scope, which may have bytes already. `tap` reads it meanwhile.
    ///
    /// # Errors
    /// Those of [`Store::ingest_for`].
    pub(crate) async fn open(
        store: &Store,
        scope: &str,
        descriptor: &Descriptor,
        tap: Option<Arc<dyn Tap>>,
    ) -> Result<Self, RegistryError> {
        let (steps, queue) = mpsc::channel(QUEUE);
        let (opened, open) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let (store, scope) = (store.clone(), scope.to_owned());
        let (digest, size) = (descriptor.digest.clone(), descriptor.size);
        tokio::task::spawn_blocking(move || {
            match store.ingest_for(&scope, &digest, size) {
                Ok(ingest) => {
                    if opened.send(Ok(ingest.offset())).is_ok() {
                        // A receiver that is gone means that the pull was given up.
                        let _ = ended.send(run(ingest, tap.as_deref(), queue));
                    }
                }
                Err(problem) => drop(opened.send(Err(problem))),
            };
        });
        let offset = open.await.map_err(|_| RegistryError::Stopped)??;
        Ok(Self {
            steps,
            end: Some(end),
            offset,
            size,
            resumed: offset > 0,
        })
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes are missing.
    pub(crate) fn missing(&self) -> u64 {
        self.size.saturating_sub(self.offset)
    }

    /// Whether bytes of an earlier attempt are a part of it.
    pub(crate) fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Hands the next bytes over. They are on disk only after [`Sink::finish`].
    pub(crate) async fn write(&mut self, bytes: Bytes) -> Result<(), RegistryError> {
        let length = super::wire::length(&bytes);
        self.step(Step::Write(bytes)).await?;
        self.offset += length;
        Ok(())
    }

    /// Forgets what has come.
    pub(crate) async fn restart(&mut self) -> Result<(), RegistryError> {
        self.step(Step::Restart).await?;
        self.offset = 0;
        self.resumed = false;
        Ok(())
    }

    async fn step(&mut self, step: Step) -> Result<(), RegistryError> {
        if self.steps.send(step).await.is_ok() {
            return Ok(());
        }
        match self.ended().await {
            Err(problem) => Err(problem),
            Ok(_) => Err(RegistryError::Stopped),
        }
    }

    async fn ended(&mut self) -> Result<Pin, RegistryError> {
        let end = self.end.take().ok_or(RegistryError::Stopped)?;
        let ended = end.await.map_err(|_| RegistryError::Stopped)?;
        ended?.ok_or(RegistryError::Stopped)
    }

    /// Ends it and keeps what has come. The next one of this scope finds it from here on.
    pub(crate) async fn close(mut self) {
        // The queue's end is the writer's sign to go.
        let (steps, _) = mpsc::channel(1);
        self.steps = steps;
        // Its error, if any, was told to who wrote.
        let _ = self.ended().await;
    }

    /// Verifies the blob and shows it to all.
    ///
    /// # Errors
    /// Those of [`Ingest::finish`] and [`Ingest::write`].
    pub(crate) async fn finish(mut self) -> Result<Pin, RegistryError> {
        self.step(Step::Finish).await?;
        self.ended().await
    }
}

fn run(
    ingest: Ingest,
    tap: Option<&dyn Tap>,
    mut queue: mpsc::Receiver<Step>,
) -> Result<Option<Pin>, ImageError> {
    let mut ingest = Tapped::new(ingest, tap)?;
    while let Some(step) = queue.blocking_recv() {
        match step {
            Step::Write(bytes) => ingest.write(&bytes)?,
            Step::Restart => ingest.restart()?,
            Step::Finish => return ingest.finish().map(Some),
        }
    }
    Ok(None)
}
