// SPDX-License-Identifier: Apache-2.0
//! Which logs are being written, and the bell that tells their readers of more. Holds no bytes: a reader reads
//! files, so a slow one costs nobody anything.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use model::name::Uid;
use tokio::sync::Notify;

use super::folder::LogKey;

/// A log that is being written.
#[derive(Debug, Default)]
pub(super) struct Live {
    more: Notify,
    /// Bytes so far, of standard output and of standard error.
    totals: [AtomicU64; 2],
}

impl Live {
    /// Resolves when there is more to read, or the log ended. Make it *before* looking at the files.
    pub(super) fn more(&self) -> tokio::sync::futures::Notified<'_> {
        self.more.notified()
    }

    /// Bytes of both streams so far. Each is right; together they may be of two moments.
    pub(super) fn totals(&self) -> (u64, u64) {
        let [stdout, stderr] = &self.totals;
        (
            stdout.load(Ordering::Relaxed),
            stderr.load(Ordering::Relaxed),
        )
    }
}

/// All of them. Written by the mover alone.
#[derive(Debug, Default)]
pub(super) struct Registry {
    logs: RwLock<HashMap<Uid, (LogKey, Arc<Live>)>>,
}

impl Registry {
    pub(super) fn get(&self, uid: &Uid) -> Option<Arc<Live>> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.get(uid).map(|(_, live)| Arc::clone(live))
    }

    pub(super) fn contains(&self, uid: &Uid) -> bool {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.contains_key(uid)
    }

    pub(super) fn insert(&self, key: &LogKey) {
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        logs.entry(key.uid)
            .or_insert_with(|| (key.clone(), Arc::default()));
    }

    pub(super) fn announce(&self, uid: &Uid, (stdout, stderr): (u64, u64)) {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, live)) = logs.get(uid) {
            let [out, err] = &live.totals;
            out.store(stdout, Ordering::Relaxed);
            err.store(stderr, Ordering::Relaxed);
            live.more.notify_waiters();
        }
    }

    pub(super) fn finish(&self, uid: &Uid) {
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, live)) = logs.remove(uid) {
            live.more.notify_waiters();
        }
    }
}
