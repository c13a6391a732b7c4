// SPDX-License-Identifier: Apache-2.0
//! A transfer under way, as its caller sees it: how far it is, and its end. Dropping it ends it.

use std::time::Duration;

use model::error::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::registry::Progress;

/// A pull or a push.
#[derive(Debug)]
pub struct Transfer<T> {
    progress: watch::Receiver<Progress>,
    task: Task<T>,
}

/// Aborted when dropped.
#[derive(Debug)]
struct Task<T>(JoinHandle<Result<T, Error>>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T: Send + 'static> Transfer<T> {
    /// Begins one.
    pub(super) fn start<W>(work: impl FnOnce(watch::Sender<Progress>) -> W) -> Self
    where
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (sender, progress) = watch::channel(Progress::default());
        Self {
            progress,
            task: Task(tokio::spawn(work(sender))),
        }
    }

    /// How far it is, as soon as that has changed, and at most once in `pause`. `None`: it has
    /// ended.
    ///
    /// # Errors
    /// None of its own; [`Transfer::end`] has the transfer's.
    pub async fn next(&mut self, pause: Duration) -> Result<Option<Progress>, Error> {
        if self.progress.changed().await.is_err() {
            return Ok(None);
        }
        let progress = self.progress.borrow_and_update().clone();
        // What changes meanwhile is in the next one.
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = closed(&self.progress) => {}
        }
        Ok(Some(progress))
    }

    /// What came of it.
    ///
    /// # Errors
    /// The transfer's.
    pub async fn end(mut self) -> Result<T, Error> {
        let ended = |error| Error::internal(format!("the transfer has failed: {error}"));
        (&mut self.task.0).await.map_err(ended)?
    }
}

/// Resolves when the transfer has ended.
async fn closed(progress: &watch::Receiver<Progress>) {
    let mut progress = progress.clone();
    while progress.changed().await.is_ok() {}
}

/// An archive on its way to a caller, in pieces.
#[derive(Debug)]
pub struct Pieces {
    pub(super) pieces: mpsc::Receiver<Result<Vec<u8>, Error>>,
}

impl Pieces {
    /// The next piece; `None`: all of it was given.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, Error>> {
        self.pieces.recv().await
    }
}
