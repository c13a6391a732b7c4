// SPDX-License-Identifier: Apache-2.0
//! The thread that forces logs to the disk, so that a power loss costs no more than the last few
//! seconds. Apart from the mover, which a slow disk must not hold up. `kill -9` of the daemon needs
//! none of this: what was moved is the kernel's.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use super::mover::Files;

/// Rounds that may wait for a slow disk. One more is dropped: the kernel writes it back in its own
/// time, and the next round syncs the same files.
const WAITING: usize = 64;

/// The sending half; the thread ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Syncer(SyncSender<Vec<Arc<Files>>>);

impl Syncer {
    /// # Errors
    /// The kernel gives no thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let (send, rounds) = sync_channel::<Vec<Arc<Files>>>(WAITING);
        std::thread::Builder::new()
            .name("log-sync".to_owned())
            .spawn(move || {
                for files in rounds.into_iter().flatten() {
                    if let Err(error) = files.sync() {
                        tracing::warn!(%error, "a log can't be forced to the disk");
                    }
                }
            })?;
        Ok(Self(send))
    }

    pub(super) fn sync(&self, files: Vec<Arc<Files>>) {
        if files.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(files)) = self.0.try_send(files) {
            tracing::debug!(files = files.len(), "the disk is behind with syncing logs");
        }
    }
}
