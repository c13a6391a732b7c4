// SPDX-License-Identifier: Apache-2.0
//! The order of changes of schedules, for those who watch. A watcher holds a place in it, not a
//! queue: what changes twice before it looks it is told once, so a slow one costs nothing. Of
//! schedules that are gone the last few of each tenant are kept; who missed one of more begins
//! anew.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::name::{Tenant, Uid};
use model::schedule::request::Named;
use tokio::sync::watch;

/// Pods that are gone, of each tenant. A watcher that is further behind begins anew.
const GONE: usize = 32;

/// The order of changes.
pub(crate) struct Feed {
    inner: Mutex<Inner>,
    /// Of the last one.
    changed: watch::Sender<u64>,
    /// Of this daemon: places of another one mean nothing here.
    epoch: u64,
}

#[derive(Default)]
struct Inner {
    last: u64,
    all: BTreeMap<Named, Place>,
    gone: HashMap<Tenant, Last>,
}

/// Where a schedule is in the order.
#[derive(Clone, Copy)]
struct Place {
    uid: Uid,
    added: u64,
    changed: u64,
}

/// What is kept of a schedule that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gone {
    /// Which.
    pub named: Named,
    /// Of that time that it was made.
    pub uid: Uid,
}

#[derive(Default)]
struct Last {
    last: VecDeque<(u64, Arc<Gone>)>,
    /// The last change that was forgotten.
    forgotten: u64,
}

/// What has changed after a place.
pub(crate) enum Change {
    /// This schedule is there now, or (`false`) has changed.
    Is(Named, bool),
    /// It is gone.
    Gone(Arc<Gone>),
}

impl Feed {
    /// `epoch`: of no other daemon.
    pub(crate) fn new(epoch: u64) -> Self {
        Self {
            inner: Mutex::default(),
            changed: watch::Sender::new(0),
            epoch,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A schedule is there, or has changed.
    pub(crate) fn changed(&self, key: &Named, uid: Uid) {
        let mut inner = self.lock();
        inner.last += 1;
        let at = inner.last;
        let new = Place {
            uid,
            added: at,
            changed: at,
        };
        let place = inner.all.entry(key.clone()).or_insert(new);
        match place.uid == uid {
            true => place.changed = at,
            false => *place = new,
        }
        self.changed.send_replace(at);
    }

    /// A schedule is gone.
    pub(crate) fn gone(&self, gone: Gone) {
        let key = &gone.named.clone();
        let mut inner = self.lock();
        let of_this = |place: &Place| place.uid == gone.uid;
        if inner.all.get(key).is_some_and(of_this) {
            inner.all.remove(key);
        }
        inner.last += 1;
        let at = inner.last;
        let last = inner.gone.entry(key.tenant.clone()).or_default();
        last.last.push_back((at, Arc::new(gone)));
        if last.last.len() > GONE
            && let Some((forgotten, _)) = last.last.pop_front()
        {
            last.forgotten = forgotten;
        }
        self.changed.send_replace(at);
    }

    /// The last change.
    pub(crate) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Told of each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// At most `most` changes after a place, of the tenants that are `meant`, each with its own
    /// place; and the place that all up to have been told then. `None`: some were forgotten.
    pub(crate) fn after(
        &self,
        place: u64,
        most: usize,
        meant: impl Fn(&Tenant) -> bool,
    ) -> Option<(Vec<(u64, Change)>, u64)> {
        let inner = self.lock();
        let mut changes = Vec::new();
        for (tenant, gone) in inner.gone.iter().filter(|(tenant, _)| meant(tenant)) {
            if gone.forgotten > place {
                tracing::debug!(%tenant, "a watcher of schedules is too far behind");
                return None;
            }
            let later = gone.last.iter().filter(|(at, _)| *at > place);
            changes.extend(later.map(|(at, it)| (*at, Change::Gone(it.clone()))));
        }
        let schedules = inner.all.iter();
        let later = schedules.filter(|(named, it)| it.changed > place && meant(&named.tenant));
        changes.extend(later.map(|(key, it)| {
            let is_new = it.added > place;
            (it.changed, Change::Is(key.clone(), is_new))
        }));
        changes.sort_by_key(|(at, _)| *at);
        let told = match changes.get(most.saturating_sub(1)) {
            Some((at, _)) => *at,
            None => inner.last,
        };
        changes.truncate(most);
        Some((changes, told))
    }

    /// A place, for a client to keep.
    pub(crate) fn token(&self, place: u64) -> String {
        format!("{:016x}-{place}", self.epoch)
    }

    /// The place that a client has kept; `None`: it isn't one of this daemon.
    pub(crate) fn place(&self, token: &str) -> Option<u64> {
        let (epoch, place) = token.split_once('-')?;
        let known = u64::from_str_radix(epoch, 16).ok()? == self.epoch;
        let place = place.parse().ok().filter(|place| *place <= self.last())?;
        known.then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_in_order_and_who_is_too_far_behind_begins_anew() {
        let feed = Feed::new(7);
        let named = |name: &str| Named {
            tenant: "acme".parse().unwrap(),
            name: name.parse().unwrap(),
        };
        let told = |place, most| {
            let (changes, place) = feed.after(place, most, |_| true)?;
            let words = changes.iter().map(|(_, change)| match change {
                Change::Is(named, true) => format!("+{}", named.name),
                Change::Is(named, false) => format!("~{}", named.name),
                Change::Gone(gone) => format!("-{}", gone.named.name),
            });
            Some((words.collect::<Vec<_>>().join(" "), place))
        };
        let (web, db, uid) = (named("web"), named("db"), Uid([1; 16]));
        let gone = |named: &Named| Gone {
            named: named.clone(),
            uid,
        };
        feed.changed(&web, uid);
        feed.changed(&db, uid);
        feed.changed(&web, uid);
        feed.changed(&web, uid);
        assert_eq!(told(0, 9), Some(("+db +web".into(), 4)));
        assert_eq!(told(0, 1), Some(("+db".into(), 2)), "a few at a time");
        feed.gone(gone(&web));
        feed.changed(&web, Uid([2; 16]));
        assert_eq!(told(4, 9), Some(("-web +web".into(), 6)));
        assert!(
            feed.after(0, 9, |it| it.as_str() == "evil")
                .unwrap()
                .0
                .is_empty()
        );
        assert_eq!(feed.place(&feed.token(4)), Some(4));
        assert_eq!(Feed::new(8).place(&feed.token(4)), None);
        for _ in 0..=GONE {
            feed.gone(gone(&db));
        }
        assert_eq!(told(4, 9), None);
    }
}
