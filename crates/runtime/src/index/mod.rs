// SPDX-License-Identifier: Apache-2.0
//! The index: every object by name and by uid as last published, who owns which cell, which names
//! and ids are taken. Readers look here and never wait for an owner; owners publish here and never
//! look at each other.
//!
//! It is one lock around plain maps, held for the time of a look-up or a change and never across an
//! await. It decides nothing about lives (that is `model::lifecycle`, called by the owners); it
//! guards what must be true of the node as a whole: a name has one living object, an id one cell, a
//! request id one run.
//!
//! Here objects are published and found by name. [`reserve`] takes names, [`cells`] knows the
//! owners of the living cells and their ids, [`aged`] what is finished and too much, [`ends`] who
//! waits for one. [`ring`] keeps the newest changes for watchers, [`snapshot`] walks, [`watch`] and
//! [`list`] read, [`requests`] knows retries.

mod aged;
mod cells;
pub(crate) mod counts;
mod ends;
pub(crate) mod list;
pub(crate) mod requests;
mod reserve;
pub(crate) mod ring;
pub(crate) mod silent;
mod snapshot;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::{Error, Reason};
use model::lifecycle::State;
use model::name::{ObjectPath, Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::status::Object;
use tokio::sync::watch as signal;

use super::ids::IdPool;
use super::settings::Bounds;
use super::specs;
use cells::CellEntry;
use counts::{Counts, LimitsNow};
use requests::Requests;
pub(crate) use reserve::{IdWish, Reservation, Taken};
use ring::{Change, ChangeKind, Ring};
pub(crate) use silent::INIT_SILENT;

/// A name on the node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    /// The tenant that has the name.
    pub(crate) tenant: Tenant,
    /// The object's path in that tenant.
    pub(crate) path: ObjectPath,
}

impl Key {
    /// The name of a published object.
    pub(crate) fn of(object: &Object) -> Self {
        let meta = object.meta();
        Self {
            tenant: meta.tenant.clone(),
            path: meta.path.clone(),
        }
    }

    /// The enclosing cell's.
    pub(crate) fn parent(&self) -> Option<Key> {
        let path = self.path.parent()?;
        Some(Self {
            tenant: self.tenant.clone(),
            path,
        })
    }
}

/// See the module.
pub(crate) struct Index {
    inner: Mutex<Inner>,
    changed: signal::Sender<u64>,
}

struct Inner {
    objects: BTreeMap<Key, Arc<Object>>,
    uids: HashMap<Uid, Key>,
    reserved: BTreeMap<Key, (Uid, Kind)>,
    cells: BTreeMap<Key, CellEntry>,
    /// The ids of cells without an owner yet.
    silent: BTreeMap<Key, silent::Held>,
    /// Objects that have not ended, reserved ones included, and the node's ids that cells have.
    counts: Counts,
    /// Objects that have, by tenant.
    finished: HashMap<Tenant, usize>,
    /// How many living objects are directly in a cell; none where there is none.
    living: HashMap<Key, usize>,
    bounds: Bounds,
    ids: IdPool,
    ring: Ring,
    requests: Requests,
    /// Who waits for the end of a run; made by the first who does.
    waiters: HashMap<Uid, signal::Sender<Option<Arc<Object>>>>,
    revision: u64,
    /// How many objects were looked at in steps.
    #[cfg(test)]
    looked: std::cell::Cell<usize>,
}

impl Index {
    /// An empty one. Revisions begin above `revision`.
    pub(crate) fn new(
        bounds: Bounds,
        limits: LimitsNow,
        ids: IdPool,
        ring: Ring,
        revision: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            changed: signal::Sender::new(ring.newest()),
            inner: Mutex::new(Inner {
                objects: BTreeMap::new(),
                uids: HashMap::new(),
                reserved: BTreeMap::new(),
                cells: BTreeMap::new(),
                silent: BTreeMap::new(),
                counts: Counts::new(limits.clone()),
                finished: HashMap::new(),
                living: HashMap::new(),
                bounds,
                ids,
                ring,
                requests: Requests::new(limits),
                waiters: HashMap::new(),
                revision,
                #[cfg(test)]
                looked: std::cell::Cell::new(0),
            }),
        })
    }

    /// Changes how much there may be, from now on.
    pub(crate) fn set_bounds(&self, bounds: Bounds) {
        self.lock().bounds = bounds;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way; were it otherwise, going on with what is there beats
        // never answering again.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes an object for the first time under its reserved name. Answers the finished object
    /// whose name it took: its record and logs are to go.
    pub(crate) fn publish_new(
        &self,
        object: Object,
        reservation: Reservation,
    ) -> Option<Arc<Object>> {
        let key = reservation.keep();
        let displaced = {
            let mut inner = self.lock();
            inner.reserved.remove(&key);
            let displaced = inner.forget(&key);
            inner.put(object, ChangeKind::Added);
            displaced
        };
        self.wake();
        displaced
    }

    /// Publishes an object that an earlier daemon, or the archive, knew. `false` where the name is
    /// taken by a living one, or by a newer record. A cell that was silent is told of anew.
    pub(crate) fn publish_known(&self, object: Object) -> bool {
        let mut inner = self.lock();
        let key = Key::of(&object);
        let mut kind = ChangeKind::Added;
        if let Some(present) = inner.objects.get(&key) {
            let same = present.meta().uid == object.meta().uid && silent::is_silent(present);
            if object.state().is_final() || !(same || present.state().is_final()) {
                return false;
            }
            match same {
                true => kind = ChangeKind::Changed,
                false => drop(inner.forget(&key)),
            }
        }
        if !object.state().is_final() {
            let (meta, spec) = (object.meta(), specs::of(&object));
            match kind {
                ChangeKind::Added => inner.counts.begin(&key.tenant, meta.kind, meta.uid, spec),
                // Nothing was known of it while it was silent.
                _ => inner.counts.set_spec(&key.tenant, meta.uid, spec),
            }
        }
        inner.put(object, kind);
        drop(inner);
        self.wake();
        true
    }

    /// Publishes what an owner now knows of its object.
    pub(crate) fn publish(&self, object: Object) {
        if self.lock().publish(object) {
            self.wake();
        }
    }

    /// Keeps only a summary of an object that has ended, and whose record is in the store.
    pub(crate) fn summarize(&self, uid: Uid) {
        let mut inner = self.lock();
        let Some(key) = inner.uids.get(&uid).cloned() else {
            return;
        };
        if let Some(object) = inner.objects.get_mut(&key)
            && let Some(summary) = crate::finished::summary(object)
        {
            *object = Arc::new(summary);
        }
    }

    /// Takes an object out.
    pub(crate) fn remove(&self, uid: Uid) -> Option<Arc<Object>> {
        let mut inner = self.lock();
        let key = inner.uids.get(&uid)?.clone();
        let removed = inner.forget(&key);
        drop(inner);
        self.wake();
        removed
    }

    /// Forgets what was told of a tenant.
    pub(crate) fn drop_changes(&self, tenant: &Tenant) {
        self.lock().ring.drop_tenant(tenant);
    }

    fn wake(&self) {
        let newest = self.lock().ring.newest();
        self.changed.send_replace(newest);
    }

    /// The object of that name, where it is the one meant.
    pub(crate) fn get(&self, target: &ObjectRef) -> Result<Arc<Object>, Error> {
        let key = Key {
            tenant: target.tenant.clone(),
            path: target.path.clone(),
        };
        let inner = self.lock();
        let found = inner.objects.get(&key).cloned();
        found
            .filter(|object| target.admits(object.meta().uid, object.meta().kind))
            .ok_or_else(|| target.not_found())
    }

    /// Whatever is at that name.
    pub(crate) fn at(&self, key: &Key) -> Option<Arc<Object>> {
        self.lock().objects.get(key).cloned()
    }

    /// The run of that uid.
    pub(crate) fn by_uid(&self, uid: Uid) -> Option<Arc<Object>> {
        let inner = self.lock();
        inner.objects.get(inner.uids.get(&uid)?).cloned()
    }

    /// Everything at or below that name, children first.
    pub(crate) fn subtree(&self, key: &Key) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let within = inner
            .objects
            .range(key..)
            .take_while(|(k, _)| is_within(k, key));
        let mut found: Vec<_> = within.map(|(_, object)| object.clone()).collect();
        found.reverse();
        found
    }
}

fn is_within(key: &Key, outer: &Key) -> bool {
    key.tenant == outer.tenant && key.path.is_within(&outer.path)
}

impl Inner {
    /// Whether there was such an object to publish anew.
    fn publish(&mut self, object: Object) -> bool {
        let key = Key::of(&object);
        let Some(present) = self.objects.get(&key) else {
            return false;
        };
        if present.meta().uid != object.meta().uid {
            return false;
        }
        if object.state().is_final() && !present.state().is_final() {
            let meta = object.meta();
            self.counts.end(&key.tenant, meta.kind, meta.uid);
        }
        self.put(object, ChangeKind::Changed);
        true
    }

    /// Counts the living objects of the cell around one.
    fn live_on(&mut self, key: &Key, lived: bool, lives: bool) {
        let Some(parent) = key.parent() else { return };
        match (lived, lives) {
            (false, true) => *self.living.entry(parent).or_default() += 1,
            (true, false) => {
                if let Some(count) = self.living.get_mut(&parent) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        self.living.remove(&parent);
                    }
                }
            }
            (true, true) | (false, false) => {}
        }
    }

    fn running_in(&self, cell: &Key) -> usize {
        self.living.get(cell).copied().unwrap_or_default()
    }

    fn put(&mut self, mut object: Object, kind: ChangeKind) {
        self.revision += 1;
        object.meta_mut().revision = self.revision;
        let object = Arc::new(object);
        let key = Key::of(&object);
        let uid = object.meta().uid;
        self.uids.insert(uid, key.clone());
        let before = self.objects.get(&key).map(|before| before.state());
        let lived = before.is_some_and(|state| !state.is_final());
        self.live_on(&key, lived, !object.state().is_final());
        if object.state().is_final() && !before.is_some_and(State::is_final) {
            *self.finished.entry(key.tenant.clone()).or_default() += 1;
        }
        if object.state().is_final()
            && let Some(waiter) = self.waiters.remove(&uid)
        {
            waiter.send_replace(Some(object.clone()));
        }
        self.ring.push(Change {
            kind,
            object: object.clone(),
        });
        self.objects.insert(key, object);
    }

    fn forget(&mut self, key: &Key) -> Option<Arc<Object>> {
        let object = self.objects.remove(key)?;
        let uid = object.meta().uid;
        self.uids.remove(&uid);
        self.requests.forget(uid);
        self.revision += 1;
        self.live_on(key, !object.state().is_final(), false);
        match object.state().is_final() {
            true => aged::one_less(&mut self.finished, &key.tenant),
            false => self.counts.end(&key.tenant, object.meta().kind, uid),
        }
        if let Some(waiter) = self.waiters.remove(&uid) {
            waiter.send_replace(Some(object.clone()));
        }
        self.ring.push(Change {
            kind: ChangeKind::Removed,
            object: object.clone(),
        });
        Some(object)
    }
}

fn wrong_state(key: &Key, what: &str) -> Error {
    Error::new(Reason::WrongState, format!("{} {what}", key.path))
        .about("cell", key.path.to_string())
}
