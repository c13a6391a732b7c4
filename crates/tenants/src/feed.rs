// SPDX-License-Identifier: Apache-2.0
//! The order of changes of named things, for those who watch them: pods and schedules. A watcher
//! holds a place in the order, not a queue: what changes twice before it looks it is told once, so
//! a slow one costs nothing. Of what is gone the last few of each tenant are kept; who missed one
//! of more begins anew.
//!
//! It holds no status, and knows no permit: who watches looks both up at what it is told.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::name::{Tenant, Uid};
use tokio::sync::watch;

/// Of what is gone so many are kept for each tenant. A watcher that is further behind begins anew.
const GONE: usize = 32;

/// Whose it is, and its name.
pub type Key<N> = (Tenant, N);

/// The order of changes of what has a name `N`; `G` is kept of what is gone.
#[derive(Debug)]
pub struct Feed<N, G> {
    inner: Mutex<Inner<N, G>>,
    /// Of the last one.
    changed: watch::Sender<u64>,
    /// Of this daemon: places of another one mean nothing here.
    epoch: u64,
}

#[derive(Debug)]
struct Inner<N, G> {
    last: u64,
    all: BTreeMap<Key<N>, Place>,
    gone: HashMap<Tenant, Last<G>>,
    /// The last change of a tenant that is gone with its own.
    dropped: u64,
}

/// Where one is in the order.
#[derive(Clone, Copy, Debug)]
struct Place {
    uid: Uid,
    added: u64,
    changed: u64,
}

#[derive(Debug)]
struct Last<G> {
    last: VecDeque<(u64, Arc<G>)>,
    /// The last change that was forgotten.
    forgotten: u64,
}

impl<G> Default for Last<G> {
    fn default() -> Self {
        Self {
            last: VecDeque::new(),
            forgotten: 0,
        }
    }
}

/// What has changed after a place.
#[derive(Debug)]
pub enum Change<N, G> {
    /// This one is there now, or (`false`) has changed.
    Is(Key<N>, bool),
    /// It is gone.
    Gone(Arc<G>),
}

/// Changes in their order, each with its place.
pub type Changes<N, G> = Vec<(u64, Change<N, G>)>;

impl<N: Clone + Ord, G> Feed<N, G> {
    /// `epoch`: of no other daemon.
    pub fn new(epoch: u64) -> Self {
        Self {
            inner: Mutex::new(Inner {
                last: 0,
                all: BTreeMap::new(),
                gone: HashMap::new(),
                dropped: 0,
            }),
            changed: watch::Sender::new(0),
            epoch,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<N, G>> {
        // Nothing panics while it is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One is there, or has changed.
    pub fn changed(&self, key: &Key<N>, uid: Uid) {
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

    /// That one is gone. Another one may have its name by now.
    pub fn gone(&self, key: &Key<N>, uid: Uid, kept: G) {
        let mut inner = self.lock();
        let of_this = |place: &Place| place.uid == uid;
        if inner.all.get(key).is_some_and(of_this) {
            inner.all.remove(key);
        }
        inner.last += 1;
        let at = inner.last;
        let gone = inner.gone.entry(key.0.clone()).or_default();
        gone.last.push_back((at, Arc::new(kept)));
        if gone.last.len() > GONE
            && let Some((forgotten, _)) = gone.last.pop_front()
        {
            gone.forgotten = forgotten;
        }
        self.changed.send_replace(at);
    }

    /// A tenant is gone: the next tenant of its name is told nothing of what was its.
    pub fn drop_tenant(&self, tenant: &Tenant) {
        let mut inner = self.lock();
        if let Some(gone) = inner.gone.remove(tenant) {
            let last = gone.last.back().map_or(gone.forgotten, |(at, _)| *at);
            inner.dropped = inner.dropped.max(last);
        }
    }

    /// The last change.
    pub fn last(&self) -> u64 {
        self.lock().last
    }

    /// Told of each change.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// At most `most` changes after a place, of the tenants that are `meant`, each with its own
    /// place; and the place that all up to have been told then. `None`: some were forgotten.
    pub fn after(
        &self,
        place: u64,
        most: usize,
        meant: impl Fn(&Tenant) -> bool,
    ) -> Option<(Changes<N, G>, u64)> {
        let inner = self.lock();
        if inner.dropped > place {
            return None;
        }
        let mut changes = Vec::new();
        for (tenant, gone) in inner.gone.iter().filter(|(tenant, _)| meant(tenant)) {
            if gone.forgotten > place {
                tracing::debug!(%tenant, "a watcher is too far behind");
                return None;
            }
            let later = gone.last.iter().filter(|(at, _)| *at > place);
            changes.extend(later.map(|(at, kept)| (*at, Change::Gone(kept.clone()))));
        }
        let all = inner.all.iter();
        let later = all.filter(|((tenant, _), it)| it.changed > place && meant(tenant));
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
    pub fn token(&self, place: u64) -> String {
        format!("{:016x}-{place}", self.epoch)
    }

    /// The place that a client has kept; `None`: it isn't one of this daemon.
    pub fn place(&self, token: &str) -> Option<u64> {
        let (epoch, place) = token.split_once('-')?;
        let known = u64::from_str_radix(epoch, 16).ok()? == self.epoch;
        let place = place.parse().ok().filter(|place| *place <= self.last())?;
        known.then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &'static str) -> Key<&'static str> {
        ("acme".parse().unwrap(), name)
    }

    fn told(
        feed: &Feed<&'static str, &'static str>,
        place: u64,
        most: usize,
    ) -> Option<(Vec<String>, u64)> {
        let (changes, place) = feed.after(place, most, |_| true)?;
        let words = changes.iter().map(|(_, change)| match change {
            Change::Is((_, name), true) => format!("+{name}"),
            Change::Is((_, name), false) => format!("~{name}"),
            Change::Gone(name) => format!("-{name}"),
        });
        Some((words.collect(), place))
    }

    #[test]
    fn changes_are_told_in_order_and_who_is_too_far_behind_begins_anew() {
        let feed = Feed::new(7);
        let (web, db) = (key("web"), key("db"));
        let uid = Uid([1; 16]);
        feed.changed(&web, uid);
        feed.changed(&db, uid);
        assert_eq!(
            told(&feed, 0, 9),
            Some((vec!["+web".into(), "+db".into()], 2))
        );
        feed.changed(&web, uid);
        feed.changed(&web, uid);
        assert_eq!(told(&feed, 2, 9), Some((vec!["~web".into()], 4)));
        // A few at a time, and none twice.
        assert_eq!(told(&feed, 0, 1), Some((vec!["+db".into()], 2)));
        feed.gone(&web, uid, web.1);
        feed.changed(&web, Uid([2; 16]));
        assert_eq!(
            told(&feed, 4, 9),
            Some((vec!["-web".into(), "+web".into()], 6))
        );
        let others = feed
            .after(0, 9, |tenant| tenant.as_str() == "evil")
            .unwrap();
        assert!(others.0.is_empty());
        let token = feed.token(4);
        assert_eq!(feed.place(&token), Some(4));
        assert_eq!(Feed::<&str, &str>::new(8).place(&token), None);
        assert_eq!(feed.place(&feed.token(99)), None);
        for _ in 0..=GONE {
            feed.gone(&db, uid, db.1);
        }
        assert_eq!(told(&feed, 4, 9), None);
        assert!(told(&feed, feed.last(), 9).is_some());
    }

    #[test]
    fn nothing_of_a_tenant_that_is_gone_is_told_to_who_has_its_name_next() {
        let feed = Feed::new(7);
        let (web, uid) = (key("web"), Uid([1; 16]));
        feed.changed(&web, uid);
        feed.gone(&web, uid, web.1);
        assert_eq!(told(&feed, 1, 9), Some((vec!["-web".into()], 2)));
        feed.drop_tenant(&web.0);
        // Who was behind begins anew, and finds nothing.
        assert_eq!(told(&feed, 1, 9), None);
        assert_eq!(told(&feed, 2, 9), Some((Vec::new(), 2)));
    }
}
