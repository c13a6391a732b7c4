// SPDX-License-Identifier: Apache-2.0
//! One watcher of named things: the snapshot, a few at a time, then what the [`Feed`] says has
//! changed. Pods and schedules are watched by it; what they are, and where they are looked up, is
//! a [`Source`]'s word.
//!
//! It holds a place and at most [`STEP`] events, whatever its client takes. What the permit hides
//! is not told.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::{ObjectPath, Tenant};
use model::request::Scope;
use tokio::sync::watch;

use crate::feed::{Change, Feed, Key};

/// The most events that are held for a watcher.
const STEP: usize = 16;

/// What a watcher is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchKind {
    /// It is there: in the snapshot, or new.
    Added,
    /// It has changed.
    Changed,
    /// It is gone, or its labels match no longer.
    Removed,
    /// All that there were have been told.
    SnapshotEnd,
    /// Forget everything; a snapshot follows.
    Reset,
}

/// Where one kind of thing is looked up, for one watcher.
pub trait Source: Send + 'static {
    /// Its name within a tenant.
    type Name: Clone + Ord + Send + Sync;
    /// What is told of one that is there.
    type Status: Send;
    /// What is kept of one that is gone.
    type Gone: Send + Sync;

    /// The order of changes.
    fn feed(&self) -> &Feed<Self::Name, Self::Gone>;
    /// The next ones by name, of every tenant, `most` at the most.
    fn after(
        &self,
        from: Bound<Key<Self::Name>>,
        most: usize,
    ) -> Vec<(Key<Self::Name>, Self::Status)>;
    /// As one is now. `None`: it is gone.
    fn status(&self, key: &Key<Self::Name>) -> Option<Self::Status>;
    /// Which one it was.
    fn key(gone: &Self::Gone) -> Key<Self::Name>;
    /// The path at which permission is asked for.
    fn path(name: &Self::Name) -> ObjectPath;
    /// What becomes of an event before it is told: it may be another one for this watcher, or
    /// (`None`) none.
    fn meant(
        &mut self,
        key: &Key<Self::Name>,
        kind: WatchKind,
        told: Told<Self>,
    ) -> Option<(WatchKind, Told<Self>)>
    where
        Self: Sized;
    /// The client forgets everything.
    fn forget(&mut self);
}

/// One that a watcher is told of.
pub enum Told<S: Source> {
    /// As it is.
    Is(S::Status),
    /// With `Removed`: what is kept of it.
    Gone(Arc<S::Gone>),
}

/// One thing that a watcher is told.
pub struct WatchEvent<S: Source> {
    /// The kind of change.
    pub kind: WatchKind,
    /// Of which one; `None` for `SnapshotEnd` and `Reset`.
    pub told: Option<Told<S>>,
    /// Where to go on after this one. Within a snapshot: empty, since half of one is none.
    pub resume_token: String,
}

enum At<N> {
    /// In the snapshot: the change it began with, and the last one told.
    Snapshot(u64, Option<Key<N>>),
    /// After this change.
    Change(u64),
}

/// Tells one watcher everything, in order.
pub struct Watcher<S: Source> {
    source: S,
    permit: Permit,
    scope: Scope,
    changed: watch::Receiver<u64>,
    at: At<S::Name>,
    ready: VecDeque<WatchEvent<S>>,
}

impl<S: Source> Watcher<S> {
    /// A snapshot and then every change, or, with the token of an event, what came after it.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn new(
        source: S,
        permit: Permit,
        scope: Scope,
        resume_token: Option<&str>,
    ) -> Result<Self, Error> {
        permit.demand_scope(&scope)?;
        let feed = source.feed();
        let (changed, last) = (feed.subscribe(), feed.last());
        let kept = resume_token.map(|token| feed.place(token));
        let mut watcher = Self {
            source,
            permit,
            scope,
            changed,
            at: At::Snapshot(last, None),
            ready: VecDeque::new(),
        };
        match kept {
            None => {}
            Some(Some(place)) => watcher.at = At::Change(place),
            Some(None) => watcher.begin_anew(last),
        }
        Ok(watcher)
    }

    /// The next event. Cancel-safe. Waits for ever where nothing changes.
    pub async fn next(&mut self) -> WatchEvent<S> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            // Marked before looking, so that a change in between wakes us.
            self.changed.borrow_and_update();
            if self.advance() {
                continue;
            }
            // The sender lives in what we hold.
            let _ = self.changed.changed().await;
        }
    }

    /// The next few events. `false`: there is nothing to be told now.
    fn advance(&mut self) -> bool {
        match &self.at {
            At::Snapshot(began, after) => {
                let (began, after) = (*began, after.clone());
                self.walk(began, after);
                true
            }
            At::Change(place) => self.follow(*place),
        }
    }

    fn walk(&mut self, began: u64, after: Option<Key<S::Name>>) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let some = self.source.after(from, STEP);
        let whole = some.len() < STEP;
        if let Some((key, _)) = some.last() {
            self.at = At::Snapshot(began, Some(key.clone()));
        }
        for (key, status) in some {
            self.tell(&key, WatchKind::Added, Told::Is(status), String::new());
        }
        if whole {
            self.at = At::Change(began);
            self.ready.push_back(WatchEvent {
                kind: WatchKind::SnapshotEnd,
                told: None,
                resume_token: self.source.feed().token(began),
            });
        }
    }

    fn follow(&mut self, place: u64) -> bool {
        let scope = &self.scope;
        let meant = |tenant: &Tenant| scope.includes(tenant);
        let Some((changes, told)) = self.source.feed().after(place, STEP, meant) else {
            self.source.forget();
            self.begin_anew(self.source.feed().last());
            return true;
        };
        self.at = At::Change(told);
        for (at, change) in changes {
            let token = self.source.feed().token(at);
            match change {
                Change::Gone(gone) => {
                    let key = S::key(&gone);
                    self.tell(&key, WatchKind::Removed, Told::Gone(gone), token);
                }
                Change::Is(key, is_new) => {
                    let kind = match is_new {
                        true => WatchKind::Added,
                        false => WatchKind::Changed,
                    };
                    // One that is gone meanwhile is told of next.
                    if let Some(status) = self.source.status(&key) {
                        self.tell(&key, kind, Told::Is(status), token);
                    }
                }
            }
        }
        told > place
    }

    fn begin_anew(&mut self, last: u64) {
        self.ready.push_back(WatchEvent {
            kind: WatchKind::Reset,
            told: None,
            resume_token: String::new(),
        });
        self.at = At::Snapshot(last, None);
    }

    fn tell(&mut self, key: &Key<S::Name>, kind: WatchKind, told: Told<S>, resume_token: String) {
        if !self.scope.includes(&key.0) || !self.permit.shows(&key.0, &S::path(&key.1)) {
            return;
        }
        if let Some((kind, told)) = self.source.meant(key, kind, told) {
            self.ready.push_back(WatchEvent {
                kind,
                told: Some(told),
                resume_token,
            });
        }
    }
}
