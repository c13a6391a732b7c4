// SPDX-License-Identifier: Apache-2.0
//! How long the record of an executable that removes itself stays: until every attachment has had
//! its end. A run that said that an attachment follows keeps it for [`ATTACH_WITHIN`] without one.
//!
//! It counts attachments and does not know them; `attach` counts, `cell::finish` waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::name::Uid;
use tokio::sync::watch;

/// How long after the end the attachment that was announced may come.
pub(crate) const ATTACH_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// The attachments of one executable.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    now: usize,
    /// Whether there has been one since this daemon began.
    ever: bool,
}

/// The attachments of executables that remove themselves.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    counts: Mutex<HashMap<Uid, watch::Sender<Count>>>,
}

impl Attachments {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, watch::Sender<Count>>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one until the answer is dropped.
    pub(crate) fn count(self: &Arc<Self>, uid: Uid) -> Counted {
        let mut counts = self.lock();
        let count = counts.entry(uid).or_default();
        count.send_modify(|count| {
            count.now += 1;
            count.ever = true;
        });
        Counted {
            attachments: Arc::clone(self),
            uid,
        }
    }

    /// Whether a client is attached.
    pub(crate) fn is_attached(&self, uid: Uid) -> bool {
        let counts = self.lock();
        counts.get(&uid).is_some_and(|count| count.borrow().now > 0)
    }

    /// Resolves when the last attachment of an executable that has ended is gone.
    pub(crate) async fn all_gone(&self, uid: Uid) {
        let mut count = self.lock().entry(uid).or_default().subscribe();
        let came = tokio::time::timeout(ATTACH_WITHIN, count.wait_for(|count| count.ever))
            .await
            .is_ok();
        if came {
            // An error says that another waiter took the count out: then all are gone.
            let _ = count.wait_for(|count| count.now == 0).await;
        }
    }

    /// The executable's record is gone, or about to go.
    pub(crate) fn forget(&self, uid: Uid) {
        self.lock().remove(&uid);
    }
}

/// One attachment, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    attachments: Arc<Attachments>,
    uid: Uid,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(count) = self.attachments.lock().get(&self.uid) {
            count.send_modify(|count| count.now = count.now.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: Uid = Uid([7; 16]);

    async fn is_gone(attachments: &Attachments, within: Duration) -> bool {
        let gone = attachments.all_gone(JOB);
        tokio::time::timeout(within, gone).await.is_ok()
    }

    #[tokio::test]
    async fn the_announced_attachment_is_awaited_for_a_bounded_time() {
        let attachments = Attachments::default();
        assert!(!is_gone(&attachments, ATTACH_WITHIN / 2).await);
        assert!(is_gone(&attachments, ATTACH_WITHIN * 2).await);
    }

    #[tokio::test]
    async fn the_last_attachment_ends_the_wait_and_a_detached_one_needs_none() {
        let attachments = Arc::new(Attachments::default());
        let (first, second) = (attachments.count(JOB), attachments.count(JOB));
        drop(first);
        assert!(attachments.is_attached(JOB));
        assert!(!is_gone(&attachments, ATTACH_WITHIN + ATTACH_WITHIN / 2).await);
        drop(second);
        assert!(!attachments.is_attached(JOB));
        assert!(is_gone(&attachments, ATTACH_WITHIN / 2).await);
        attachments.forget(JOB);
        assert!(attachments.lock().is_empty(), "nothing is kept");
    }
}
