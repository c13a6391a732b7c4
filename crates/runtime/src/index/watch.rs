// SPDX-License-Identifier: Apache-2.0
//! Watching the index: a snapshot, then every change, for as long as the watcher likes.
//!
//! A watcher holds a place in the ring, not a queue; see [`super::ring`].

use std::collections::VecDeque;
use std::sync::Arc;

use model::request::Filter;
use model::status::Object;
use tokio::sync::watch as signal;

use super::Index;
use super::list::matches;
use super::ring::ChangeKind;
use crate::Shared;

/// What a watcher is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchKind {
    /// It is there: in the snapshot, or new.
    Added,
    /// It has changed.
    Changed,
    /// It is gone; the object as it last was.
    Removed,
    /// All there were have been told.
    SnapshotEnd,
    /// Forget everything; a snapshot follows.
    Reset,
}

/// One thing that a watcher is told.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// What.
    pub kind: WatchKind,
    /// Of which object; `None` for `SnapshotEnd` and `Reset`.
    pub object: Option<Arc<Object>>,
    /// Where to go on after this one. Within a snapshot: empty, since half of one is none.
    pub resume_token: String,
}

/// Which objects a watcher may be told of.
pub(crate) type Shows = Box<dyn Fn(&Object) -> bool + Send + Sync>;

/// Tells one watcher everything, in order.
pub struct Watcher {
    index: Arc<Index>,
    filter: Filter,
    shows: Shows,
    changed: signal::Receiver<u64>,
    /// Where the whole of a finished object is read.
    whole: Option<Arc<Shared>>,
    /// Of the last change told.
    place: u64,
    ready: VecDeque<WatchEvent>,
}

impl Watcher {
    /// Watches from a resume token, or from a snapshot.
    pub(crate) fn new(
        index: Arc<Index>,
        filter: Filter,
        shows: Shows,
        token: Option<&str>,
    ) -> Self {
        let changed = index.changed.subscribe();
        let mut this = Self {
            index,
            filter,
            shows,
            changed,
            whole: None,
            place: 0,
            ready: VecDeque::new(),
        };
        match token.filter(|token| !token.is_empty()) {
            None => this.snapshot(),
            Some(token) => {
                let found = this.index.lock().ring.locate(token);
                match found {
                    Some(place) => this.place = place,
                    None => this.reset(),
                }
            }
        }
        this
    }

    /// The next event. Cancel-safe. Waits for ever where nothing changes.
    pub async fn next(&mut self) -> WatchEvent {
        loop {
            if let Some(event) = self.ready.front().cloned() {
                let event = self.shown(event).await;
                self.ready.pop_front();
                return event;
            }
            // Marked before looking, so that a change in between wakes us.
            self.changed.borrow_and_update();
            if self.advance() {
                continue;
            }
            // The sender lives in the index, which we hold.
            let _ = self.changed.changed().await;
        }
    }

    /// Shows finished objects whole.
    pub(crate) fn reading(mut self, shared: Arc<Shared>) -> Self {
        self.whole = Some(shared);
        self
    }

    async fn shown(&self, mut event: WatchEvent) -> WatchEvent {
        if let (Some(shared), Some(object)) = (&self.whole, &event.object) {
            match shared.whole(object).await {
                Ok(whole) => event.object = Some(whole),
                // It was removed, which the next events tell.
                Err(error) => tracing::debug!(%error, "a finished object is told as a summary"),
            }
        }
        event
    }

    /// Takes changes from the ring, a few at a time. Whether there was any.
    fn advance(&mut self) -> bool {
        const BATCH: usize = 64;
        let index = self.index.clone();
        let inner = index.lock();
        let mut seen = false;
        for _ in 0..BATCH {
            match inner.ring.after(self.place) {
                Ok(Some((place, change))) => {
                    self.place = place;
                    seen = true;
                    if matches(&self.filter, &change.object) && (self.shows)(&change.object) {
                        let kind = match change.kind {
                            ChangeKind::Added => WatchKind::Added,
                            ChangeKind::Changed => WatchKind::Changed,
                            ChangeKind::Removed => WatchKind::Removed,
                        };
                        let object = Some(change.object.clone());
                        let resume_token = inner.ring.token(place).to_string();
                        self.ready.push_back(WatchEvent {
                            kind,
                            object,
                            resume_token,
                        });
                    }
                }
                Ok(None) => return seen,
                Err(_missed) => {
                    drop(inner);
                    self.ready.clear();
                    self.reset();
                    return true;
                }
            }
        }
        seen
    }

    fn reset(&mut self) {
        let kind = WatchKind::Reset;
        self.ready.push_back(WatchEvent {
            kind,
            object: None,
            resume_token: String::new(),
        });
        self.snapshot();
    }

    fn snapshot(&mut self) {
        let index = self.index.clone();
        let inner = index.lock();
        self.place = inner.ring.newest();
        let all = inner
            .objects
            .values()
            .filter(|object| matches(&self.filter, object) && (self.shows)(object));
        self.ready.extend(all.map(|object| WatchEvent {
            kind: WatchKind::Added,
            object: Some(inner.present(object)),
            resume_token: String::new(),
        }));
        let resume_token = inner.ring.token(self.place).to_string();
        let kind = WatchKind::SnapshotEnd;
        self.ready.push_back(WatchEvent {
            kind,
            object: None,
            resume_token,
        });
    }
}
