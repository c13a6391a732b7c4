// SPDX-License-Identifier: Apache-2.0
//! One watcher of pods: the snapshot, a few pods at a time, then what the [`Feed`] says has
//! changed.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use identity::Permit;
use model::error::Error;
use model::name::{ObjectPath, Tenant};
use model::pod::request::WatchPods;
use model::pod::status::{Phase, PodStatus};
use model::request::Scope;
use model::status::Meta;
use tenants::Change;
use tokio::sync::watch;

use crate::handle::Pods;
use crate::shared::Shared;
use crate::shown::Shown;

/// The most events that are held for a watcher.
const STEP: usize = 16;

/// Whose a pod is, and its name.
pub(crate) type Key = tenants::Key<ObjectPath>;
/// The order of changes of pods.
pub(crate) type Feed = tenants::Feed<ObjectPath, Gone>;

/// What is kept of a pod that is gone. Its spec may be large, and nobody asks for it any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gone {
    /// As it last was.
    pub meta: Meta,
    /// The phase that it was in.
    pub phase: Phase,
}

/// What a watcher is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchKind {
    /// It is there: in the snapshot, or new.
    Added,
    /// It has changed.
    Changed,
    /// It is gone, or its labels match no longer.
    Removed,
    /// All there were have been told.
    SnapshotEnd,
    /// Forget everything; a snapshot follows.
    Reset,
}

/// A pod that a watcher is told of.
#[derive(Clone, Debug)]
pub enum Told {
    /// As it is.
    Is(Box<PodStatus>),
    /// With `Removed`: what is kept of it.
    Gone(Arc<Gone>),
}

/// One thing that a watcher is told.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// What.
    pub kind: WatchKind,
    /// Of which pod; `None` for `SnapshotEnd` and `Reset`.
    pub pod: Option<Told>,
    /// Where to go on after this one. Within a snapshot: empty, since half of one is none.
    pub resume_token: String,
}

enum At {
    /// In the snapshot: the change it began with, and the last pod told.
    Snapshot(u64, Option<Key>),
    /// After this change.
    Change(u64),
}

/// Tells one watcher everything, in order.
pub struct Watcher {
    shared: Arc<Shared>,
    permit: Permit,
    scope: Scope,
    shown: Shown,
    changed: watch::Receiver<u64>,
    at: At,
    ready: VecDeque<WatchEvent>,
}

impl Pods {
    /// A snapshot and then every change.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn watch(&self, permit: Permit, request: WatchPods) -> Result<Watcher, Error> {
        permit.demand_scope(&request.scope)?;
        let shared = self.shared();
        let feed = &shared.feed;
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
            shared,
            permit,
            scope: request.scope,
            shown: Shown::new(request.selector),
            changed,
            at,
            ready,
        })
    }
}

fn reset() -> WatchEvent {
    WatchEvent {
        kind: WatchKind::Reset,
        pod: None,
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

    fn walk(&mut self, began: u64, after: Option<Key>) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let pods = self.shared.after(from, STEP);
        let whole = pods.len() < STEP;
        if let Some((key, _)) = pods.last() {
            self.at = At::Snapshot(began, Some(key.clone()));
        }
        for (_, status) in pods {
            self.tell(WatchKind::Added, Told::Is(Box::new(status)), String::new());
        }
        if whole {
            self.at = At::Change(began);
            self.ready.push_back(WatchEvent {
                kind: WatchKind::SnapshotEnd,
                pod: None,
                resume_token: self.shared.feed.token(began),
            });
        }
    }

    fn follow(&mut self, place: u64) -> bool {
        let scope = self.scope.clone();
        let meant = |tenant: &Tenant| match &scope {
            Scope::Tenant(asked) => asked == tenant,
            Scope::Every => true,
        };
        let Some((changes, told)) = self.shared.feed.after(place, STEP, meant) else {
            self.ready.push_back(reset());
            self.shown.reset();
            self.at = At::Snapshot(self.shared.feed.last(), None);
            return true;
        };
        self.at = At::Change(told);
        for (at, change) in changes {
            let token = self.shared.feed.token(at);
            match change {
                Change::Gone(gone) => self.tell(WatchKind::Removed, Told::Gone(gone), token),
                Change::Is(key, is_new) => {
                    let kind = match is_new {
                        true => WatchKind::Added,
                        false => WatchKind::Changed,
                    };
                    // One that is gone meanwhile is told of next.
                    if let Some(status) = self.shared.status(&key) {
                        self.tell(kind, Told::Is(Box::new(status)), token);
                    }
                }
            }
        }
        told > place
    }

    fn tell(&mut self, kind: WatchKind, pod: Told, resume_token: String) {
        let meta = match &pod {
            Told::Is(status) => &status.meta,
            Told::Gone(gone) => &gone.meta,
        };
        let asked = match &self.scope {
            Scope::Tenant(tenant) => *tenant == meta.tenant,
            Scope::Every => true,
        };
        if !asked || !self.permit.shows(&meta.tenant, &meta.path) {
            return;
        }
        let key = (meta.tenant.clone(), meta.path.clone());
        let Some(kind) = self.shown.told(&key, &meta.labels, kind) else {
            return;
        };
        let pod = match pod {
            Told::Is(status) if kind == WatchKind::Removed => Told::Gone(Arc::new(Gone {
                meta: status.meta,
                phase: status.phase,
            })),
            pod => pod,
        };
        self.ready.push_back(WatchEvent {
            kind,
            pod: Some(pod),
            resume_token,
        });
    }
}
