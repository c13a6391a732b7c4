// SPDX-License-Identifier: Apache-2.0
//! Watching pods: a snapshot, then every change. A watcher holds a place in the order of changes,
//! not a queue: what changes twice before it looks it is told once, so a slow one costs nothing.
//! Of pods that are gone the last few of each tenant are kept; who missed one of more begins anew.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::name::{ObjectPath, Tenant, Uid};
use model::pod::status::PodStatus;
use tokio::sync::watch;

/// Pods that are gone, of each tenant. A watcher that is further behind begins anew.
const GONE: usize = 32;

/// A pod's name.
pub(crate) type Key = (Tenant, ObjectPath);

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
    pods: BTreeMap<Key, Place>,
    gone: HashMap<Tenant, Gone>,
}

/// Where a pod is in the order.
#[derive(Clone, Copy)]
struct Place {
    uid: Uid,
    added: u64,
    changed: u64,
}

#[derive(Default)]
struct Gone {
    last: VecDeque<(u64, Arc<PodStatus>)>,
    /// The last change that was forgotten.
    forgotten: u64,
}

/// What has changed after a place.
pub(crate) enum Change {
    /// This pod is there now, or (`false`) has changed.
    Is(Key, bool),
    /// It is gone; as it last was.
    Gone(Arc<PodStatus>),
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

    /// A pod is there, or has changed.
    pub(crate) fn changed(&self, key: &Key, uid: Uid) {
        let mut inner = self.lock();
        inner.last += 1;
        let at = inner.last;
        let new = Place {
            uid,
            added: at,
            changed: at,
        };
        let place = inner.pods.entry(key.clone()).or_insert(new);
        match place.uid == uid {
            true => place.changed = at,
            false => *place = new,
        }
        self.changed.send_replace(at);
    }

    /// A pod is gone.
    pub(crate) fn gone(&self, key: &Key, status: PodStatus) {
        let mut inner = self.lock();
        let of_this = |place: &Place| place.uid == status.meta.uid;
        if inner.pods.get(key).is_some_and(of_this) {
            inner.pods.remove(key);
        }
        inner.last += 1;
        let at = inner.last;
        let gone = inner.gone.entry(key.0.clone()).or_default();
        gone.last.push_back((at, Arc::new(status)));
        if gone.last.len() > GONE
            && let Some((forgotten, _)) = gone.last.pop_front()
        {
            gone.forgotten = forgotten;
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
                tracing::debug!(%tenant, "a watcher of pods is too far behind");
                return None;
            }
            let later = gone.last.iter().filter(|(at, _)| *at > place);
            changes.extend(later.map(|(at, status)| (*at, Change::Gone(status.clone()))));
        }
        let pods = inner.pods.iter();
        let later = pods.filter(|((tenant, _), it)| it.changed > place && meant(tenant));
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
    use model::object::Kind;
    use model::pod::qos::Qos;
    use model::pod::spec::{Container, Draft};
    use model::pod::status::Phase;
    use model::status::Meta;
    use model::time::Timestamp;

    fn key(path: &str) -> Key {
        ("acme".parse().unwrap(), path.parse().unwrap())
    }

    fn status(key: &Key, uid: Uid) -> PodStatus {
        let container = Container {
            name: "app".to_owned(),
            entrypoint: vec!["true".to_owned()],
            ..Container::default()
        };
        let draft = Draft {
            containers: vec![container],
            ..Draft::default()
        };
        PodStatus {
            meta: Meta {
                tenant: key.0.clone(),
                path: key.1.clone(),
                uid,
                kind: Kind::Cell,
                labels: model::label::Labels::default(),
                generation: 1,
                revision: 0,
                created: Timestamp(0),
            },
            spec: draft.try_into().unwrap(),
            phase: Phase::Pending,
            stopping: false,
            ready: false,
            qos: Qos::BestEffort,
            containers: Vec::new(),
            debug: Vec::new(),
            events: Vec::new(),
        }
    }

    fn told(feed: &Feed, place: u64, most: usize) -> Option<(Vec<String>, u64)> {
        let (changes, place) = feed.after(place, most, |_| true)?;
        let words = changes.iter().map(|(_, change)| match change {
            Change::Is((_, path), true) => format!("+{path}"),
            Change::Is((_, path), false) => format!("~{path}"),
            Change::Gone(status) => format!("-{}", status.meta.path),
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
        feed.gone(&web, status(&web, uid));
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
        assert_eq!(Feed::new(8).place(&token), None);
        assert_eq!(feed.place(&feed.token(99)), None);
        for _ in 0..=GONE {
            feed.gone(&db, status(&db, uid));
        }
        assert_eq!(told(&feed, 4, 9), None);
        assert!(told(&feed, feed.last(), 9).is_some());
    }
}
