// SPDX-License-Identifier: Apache-2.0
//! Watching the index: a snapshot, then every change, for as long as the watcher likes.
//!
//! A watcher holds a place in the snapshot or in the ring, not a queue; see [`super::snapshot`] and
//! [`super::ring`]. It is told of at most a step at once, and holds up no writer longer.

use std::collections::VecDeque;
use std::sync::Arc;

use model::request::Filter;
use model::status::Object;
use tokio::sync::watch as signal;

use super::Index;
use super::list::matches;
use super::ring::ChangeKind;
use super::snapshot::Snapshot;
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
    /// The kind of change.
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
    /// Every change up to this one was told, where it is meant.
    place: u64,
    /// Until every change that it holds is passed.
    snapshot: Option<Snapshot>,
    /// Of one step.
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
            snapshot: None,
            ready: VecDeque::new(),
        };
        match token.filter(|token| !token.is_empty()) {
            None => this.begin(),
            Some(token) => {
                let found = this.index.lock().ring.locate(token, &this.filter.scope);
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

    /// How many events wait for the client.
    #[cfg(test)]
    pub(crate) fn is_ready_with(&self) -> usize {
        self.ready.len()
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

    /// Goes on with the snapshot, or with the changes after it, a few at a time. Whether there was
    /// any.
    fn advance(&mut self) -> bool {
        match &self.snapshot {
            Some(snapshot) if !snapshot.is_whole() => {
                self.walk();
                true
            }
            _ => self.follow(),
        }
    }

    fn is_meant(&self, object: &Object) -> bool {
        matches(&self.filter, object) && (self.shows)(object)
    }

    /// The next step of the snapshot.
    fn walk(&mut self) {
        let Some(snapshot) = &mut self.snapshot else {
            return;
        };
        let step = self.index.step(&self.filter, snapshot.after());
        snapshot.took(&step);
        let end = snapshot.is_whole().then(|| snapshot.began().to_string());
        let meant = step.objects.iter().filter(|object| self.is_meant(object));
        let events = meant.map(|object| WatchEvent {
            kind: WatchKind::Added,
            object: Some(self.index.present(object)),
            resume_token: String::new(),
        });
        let events: Vec<_> = events.collect();
        self.ready.extend(events);
        self.ready.extend(end.map(|resume_token| WatchEvent {
            kind: WatchKind::SnapshotEnd,
            object: None,
            resume_token,
        }));
    }

    /// The next changes. What the snapshot holds of them was told.
    fn follow(&mut self) -> bool {
        let Ok((changes, place)) = self.index.changes(self.place, &self.filter.scope) else {
            self.reset();
            return true;
        };
        let seen = !changes.is_empty();
        self.place = place;
        for (token, change) in changes {
            let snapshot = self.snapshot.as_ref();
            let is_told = snapshot.is_some_and(|s| s.holds(&change, token.sequence));
            if !is_told && self.is_meant(&change.object) {
                self.ready.push_back(WatchEvent {
                    kind: change.kind.into(),
                    object: Some(change.object),
                    resume_token: token.to_string(),
                });
            }
        }
        self.snapshot.take_if(|s| s.is_behind(self.place));
        seen
    }

    fn reset(&mut self) {
        self.ready.push_back(WatchEvent {
            kind: WatchKind::Reset,
            object: None,
            resume_token: String::new(),
        });
        self.begin();
    }

    fn begin(&mut self) {
        let newest = self.index.newest();
        self.place = newest.sequence;
        self.snapshot = Some(Snapshot::begin(newest));
    }
}

impl From<ChangeKind> for WatchKind {
    fn from(kind: ChangeKind) -> Self {
        match kind {
            ChangeKind::Added => WatchKind::Added,
            ChangeKind::Changed => WatchKind::Changed,
            ChangeKind::Removed => WatchKind::Removed,
        }
    }
}
