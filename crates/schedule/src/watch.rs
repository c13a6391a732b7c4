// SPDX-License-Identifier: Apache-2.0
//! One watcher of schedules: the snapshot, a few at a time, then what the feed says has changed.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::{Label, Tenant, Uid};
use model::request::Scope;
use model::schedule::request::{Named, Watch};
use tenants::Change;
use tokio::sync::watch;

use crate::handle::Schedules;
use crate::kept::Status;

/// The most events that are held for a watcher.
const STEP: usize = 16;

/// The order of changes of schedules.
pub(crate) type Feed = tenants::Feed<Label, Gone>;

/// A schedule's name, as the feed has it.
pub(crate) fn key(named: &Named) -> tenants::Key<Label> {
    (named.tenant.clone(), named.name.clone())
}

/// What is kept of a schedule that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gone {
    /// Which.
    pub named: Named,
    /// Of that time that it was made.
    pub uid: Uid,
}

/// What a watcher is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchKind {
    /// It is there: in the snapshot, or new.
    Added,
    /// It has changed.
    Changed,
    /// It is gone.
    Removed,
    /// All there were have been told.
    SnapshotEnd,
    /// Forget everything; a snapshot follows.
    Reset,
}

/// A schedule that a watcher is told of.
#[derive(Clone, Debug)]
pub enum Told {
    /// As it is.
    Is(Arc<Status>),
    /// With `Removed`: what is kept of it.
    Gone(Arc<Gone>),
}

/// One thing that a watcher is told.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// What.
    pub kind: WatchKind,
    /// Of which schedule; `None` for `SnapshotEnd` and `Reset`.
    pub schedule: Option<Told>,
    /// Where to go on after this one. Within a snapshot: empty, since half of one is none.
    pub resume_token: String,
}

enum At {
    /// In the snapshot: the change it began with, and the last one told.
    Snapshot(u64, Option<Named>),
    /// After this change.
    Change(u64),
}

/// Tells one watcher everything, in order.
pub struct Watcher {
    schedules: Schedules,
    permit: Permit,
    scope: Scope,
    changed: watch::Receiver<u64>,
    at: At,
    ready: VecDeque<WatchEvent>,
}

impl Schedules {
    /// A snapshot and then every change.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn watch(&self, permit: Permit, request: Watch) -> Result<Watcher, Error> {
        permit.demand_scope(&request.scope)?;
        let feed = self.feed();
        let (changed, last) = (feed.subscribe(), feed.last());
        let mut ready = VecDeque::new();
        let at = match &request.resume_token {
            None => At::Snapshot(last, None),
            Some(token) => match feed.place(token) {
                Some(place) => At::Change(place),
                None => {
                    ready.push_back(reset());
                    At::Snapshot(last, None)
                }
            },
        };
        Ok(Watcher {
            schedules: self.clone(),
            permit,
            scope: request.scope,
            changed,
            at,
            ready,
        })
    }
}

fn reset() -> WatchEvent {
    WatchEvent {
        kind: WatchKind::Reset,
        schedule: None,
        resume_token: String::new(),
    }
}

impl Watcher {
    /// The next event. Cancel-safe. Waits for ever where nothing changes.
    pub async fn next(&mut self) -> WatchEvent {
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

    fn walk(&mut self, began: u64, after: Option<Named>) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.schedules.after(from, STEP);
        let whole = all.len() < STEP;
        if let Some((named, _)) = all.last() {
            self.at = At::Snapshot(began, Some(named.clone()));
        }
        for (_, status) in all {
            self.tell(WatchKind::Added, Told::Is(status), String::new());
        }
        if whole {
            self.at = At::Change(began);
            self.ready.push_back(WatchEvent {
                kind: WatchKind::SnapshotEnd,
                schedule: None,
                resume_token: self.schedules.feed().token(began),
            });
        }
    }

    fn follow(&mut self, place: u64) -> bool {
        let scope = self.scope.clone();
        let meant = |tenant: &Tenant| match &scope {
            Scope::Tenant(asked) => asked == tenant,
            Scope::Every => true,
        };
        let Some((changes, told)) = self.schedules.feed().after(place, STEP, meant) else {
            self.ready.push_back(reset());
            self.at = At::Snapshot(self.schedules.feed().last(), None);
            return true;
        };
        self.at = At::Change(told);
        for (at, change) in changes {
            let token = self.schedules.feed().token(at);
            match change {
                Change::Gone(gone) => self.tell(WatchKind::Removed, Told::Gone(gone), token),
                Change::Is((tenant, name), is_new) => {
                    let kind = match is_new {
                        true => WatchKind::Added,
                        false => WatchKind::Changed,
                    };
                    // One that is gone meanwhile is told of next.
                    if let Some(status) = self.schedules.status(&Named { tenant, name }) {
                        self.tell(kind, Told::Is(status), token);
                    }
                }
            }
        }
        told > place
    }

    fn tell(&mut self, kind: WatchKind, told: Told, resume_token: String) {
        let named = match &told {
            Told::Is(status) => &status.wish.named,
            Told::Gone(gone) => &gone.named,
        };
        let asked = match &self.scope {
            Scope::Tenant(tenant) => *tenant == named.tenant,
            Scope::Every => true,
        };
        if asked && self.permit.shows(&named.tenant, &named.path()) {
            self.ready.push_back(WatchEvent {
                kind,
                schedule: Some(told),
                resume_token,
            });
        }
    }
}
