// SPDX-License-Identifier: Apache-2.0
//! Waiting for the end of a run: every caller that waits for one has the same value to look at.

use std::sync::Arc;

use model::name::Uid;
use model::status::Object;
use tokio::sync::watch as signal;

use super::Index;

impl Index {
    /// Follows the run of that uid to its end: the value is set once it has ended.
    pub(crate) fn end_of(&self, uid: Uid) -> Option<signal::Receiver<Option<Arc<Object>>>> {
        let mut inner = self.lock();
        let object = inner.objects.get(inner.uids.get(&uid)?).cloned()?;
        if object.state().is_final() {
            return Some(signal::channel(Some(object)).1);
        }
        Some(
            inner
                .waiters
                .entry(uid)
                .or_insert_with(|| signal::Sender::new(None))
                .subscribe(),
        )
    }

    /// Follows a run that is yet to be made, so that its end is not missed however short it is.
    pub(crate) fn expect_end(&self, uid: Uid) -> signal::Receiver<Option<Arc<Object>>> {
        let mut inner = self.lock();
        inner
            .waiters
            .entry(uid)
            .or_insert_with(|| signal::Sender::new(None))
            .subscribe()
    }

    /// That run was never made.
    pub(crate) fn expect_no_end(&self, uid: Uid) {
        self.lock().waiters.remove(&uid);
    }
}
