// SPDX-License-Identifier: Apache-2.0
//! Which logs are being written, and the bell that tells their readers of more. Holds no bytes: a
//! reader reads files, so a slow one costs the others nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use model::name::Uid;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::folder::LogKey;

/// A log that is being written.
#[derive(Debug, Default)]
pub(super) struct Live {
    more: Arc<Notify>,
    /// Bytes stored of standard output and standard error over its whole life; `None` before that
    /// was looked at.
    stored: Mutex<Option<(u64, u64)>>,
}

/// All of them. Written by the mover alone.
#[derive(Debug, Default)]
pub(super) struct Registry {
    logs: RwLock<HashMap<Uid, (LogKey, Arc<Live>)>>,
    /// Rung when there is another one.
    another: Notify,
}

impl Registry {
    /// Resolves when there is more to read, or the log ended; `None` where it has ended, or isn't
    /// written. Ask *before* looking at the files. The future is made under the lock that the end
    /// takes: made after it, it would never resolve.
    pub(super) fn more(&self, uid: &Uid) -> Option<OwnedNotified> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.get(uid)
            .map(|(_, live)| live.more.clone().notified_owned())
    }

    pub(super) fn contains(&self, uid: &Uid) -> bool {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        logs.contains_key(uid)
    }

    /// Does `work` while the log is not, and can't become, a live one; `None` where it is.
    pub(super) fn unless_live<T>(&self, uid: &Uid, work: impl FnOnce() -> T) -> Option<T> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        (!logs.contains_key(uid)).then(work)
    }

    pub(super) fn insert(&self, key: &LogKey) {
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        logs.entry(key.uid)
            .or_insert_with(|| (key.clone(), Arc::default()));
        drop(logs);
        self.another.notify_waiters();
    }

    /// Resolves when that log is being written.
    pub(super) async fn is_there(&self, uid: &Uid) {
        loop {
            // The bell before the look.
            let another = self.another.notified();
            tokio::pin!(another);
            another.as_mut().enable();
            if self.contains(uid) {
                return;
            }
            another.await;
        }
    }

    /// There is more; so much was stored altogether.
    pub(super) fn announce(&self, uid: &Uid, stored: (u64, u64)) {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, live)) = logs.get(uid) {
            *live.stored.lock().unwrap_or_else(PoisonError::into_inner) = Some(stored);
            live.more.notify_waiters();
        }
    }

    /// Whose log it is, and what is known to be stored of it.
    pub(super) fn stored(&self, uid: &Uid) -> Option<(LogKey, Option<(u64, u64)>)> {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        let (key, live) = logs.get(uid)?;
        let stored = *live.stored.lock().unwrap_or_else(PoisonError::into_inner);
        Some((key.clone(), stored))
    }

    /// What the files said, unless the mover knows better by now.
    pub(super) fn found(&self, uid: &Uid, stored: (u64, u64)) {
        let logs = self.logs.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, live)) = logs.get(uid) {
            let mut known = live.stored.lock().unwrap_or_else(PoisonError::into_inner);
            known.get_or_insert(stored);
        }
    }

    pub(super) fn finish(&self, uid: &Uid) {
        let mut logs = self.logs.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, live)) = logs.remove(uid) {
            live.more.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_end_of_a_log_is_told_or_there_already() {
        let key = LogKey {
            tenant: "blue".parse().unwrap(),
            uid: Uid([7; 16]),
        };
        let registry = Registry::default();
        assert!(registry.more(&key.uid).is_none());
        registry.insert(&key);
        let (told, ended) = (registry.more(&key.uid), registry.more(&key.uid));
        assert!(registry.more(&key.uid).unwrap().now_or_never().is_none());
        registry.announce(&key.uid, (1, 0));
        assert!(told.unwrap().now_or_never().is_some());
        registry.finish(&key.uid);
        assert!(ended.unwrap().now_or_never().is_some());
        assert!(registry.more(&key.uid).is_none(), "it has ended");
    }
}
