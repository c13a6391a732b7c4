// SPDX-License-Identifier: Apache-2.0
//! The thread that forces logs to the disk, so that a power loss costs no more than the last few
//! seconds. Apart from the mover, which a slow disk must not hold up. `kill -9` of the daemon needs
//! none of this: what was moved is the kernel's.
//!
//! Nothing that is to be forced is dropped, because a finished log comes once: files wait as a set,
//! and where they are too many the whole file system is forced instead.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use model::error::Error;
use tokio::sync::oneshot;

use super::mover::Files;

/// Files that may wait for a slow disk, each with two descriptors.
const WAITING: usize = 512;

/// What is to be forced to the disk.
#[derive(Debug)]
struct Waiting<F> {
    files: Vec<Arc<F>>,
    /// One of more than there is room for: its file system is forced as a whole.
    beyond: Option<Arc<F>>,
    /// Those who want to know when it is done.
    told: Vec<Reply>,
}

/// Where the answer goes that everything is on the disk, or why not.
pub(super) type Reply = oneshot::Sender<Result<(), Error>>;

impl<F> Default for Waiting<F> {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            beyond: None,
            told: Vec::new(),
        }
    }
}

impl<F> Waiting<F> {
    fn add(&mut self, file: Arc<F>) {
        if self.files.iter().any(|waiting| Arc::ptr_eq(waiting, &file)) {
            return;
        }
        if self.files.len() < WAITING {
            self.files.push(file);
        } else {
            self.beyond = Some(file);
        }
    }
}

/// The sending half; the thread ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Syncer {
    waiting: Arc<Mutex<Waiting<Files>>>,
    wake: SyncSender<()>,
}

impl Syncer {
    /// # Errors
    /// The kernel gives no thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let shared = waiting.clone();
        std::thread::Builder::new()
            .name("log-sync".to_owned())
            .spawn(move || {
                while woken.recv().is_ok() {
                    force(std::mem::take(
                        &mut *shared.lock().unwrap_or_else(PoisonError::into_inner),
                    ));
                }
            })?;
        Ok(Self { waiting, wake })
    }

    pub(super) fn sync(&self, files: Vec<Arc<Files>>) {
        if !files.is_empty() {
            self.add(files, None);
        }
    }

    /// The same; answers when these, and all that were to be forced before, are on the disk.
    pub(super) fn sync_and_tell(&self, files: Vec<Arc<Files>>, reply: Reply) {
        self.add(files, Some(reply));
    }

    fn add(&self, files: Vec<Arc<Files>>, reply: Option<Reply>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        files.into_iter().for_each(|file| waiting.add(file));
        waiting.told.extend(reply);
        drop(waiting);
        // Full: the thread will look after this anyway.
        let _ = self.wake.try_send(());
    }
}

fn force(waiting: Waiting<Files>) {
    let one = |files: Arc<Files>| files.sync();
    let all = |files: Arc<Files>| Ok(rustix::fs::syncfs(&files.data)?);
    let files = waiting.files.into_iter().map(one);
    let mut outcome = Ok(());
    for result in files.chain(waiting.beyond.map(all)) {
        if let Err(error) = result {
            tracing::warn!(%error, "a log can't be forced to the disk");
            outcome = Err(Error::internal(format!(
                "a log can't be forced to the disk: {error}"
            )));
        }
    }
    for reply in waiting.told {
        // Who asked may be gone.
        let _gone = reply.send(outcome.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_log_waits_for_a_slow_disk_however_many_do() {
        let mut waiting = Waiting::default();
        let files: Vec<Arc<usize>> = (0..WAITING + 100).map(Arc::new).collect();
        for file in files.iter().chain(&files) {
            waiting.add(file.clone());
        }
        // Each is among those that are forced by themselves, or the whole file system is.
        assert_eq!(waiting.files.len(), WAITING);
        assert!(waiting.beyond.is_some());
        let mut waiting = Waiting::default();
        for file in files.iter().take(WAITING).chain(&files[..WAITING]) {
            waiting.add(file.clone());
        }
        assert!(waiting.files.len() == WAITING && waiting.beyond.is_none());
    }
}
