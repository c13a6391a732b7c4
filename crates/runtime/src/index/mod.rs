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
//! [`ring`] keeps the newest changes for watchers, [`watch`] and [`list`] read, [`requests`] knows
//! retries.

pub(crate) mod counts;
pub(crate) mod list;
pub(crate) mod requests;
pub(crate) mod ring;
pub(crate) mod silent;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::status::Object;
use model::time::Timestamp;
use tokio::sync::watch as signal;

use super::cell::CellHandle;
use super::ids::{IdPool, IdRange, OWN, TOP_LEVEL_IDS};
use super::settings::Bounds;
use counts::{Counts, LimitsNow, quota_of};
use model::quota::Quota;
use requests::Requests;
use ring::{Change, ChangeKind, Ring};
pub(crate) use silent::INIT_SILENT;

/// A name on the node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    /// Whose.
    pub(crate) tenant: Tenant,
    /// Where.
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

    /// Where its group is below the one of the tenants.
    pub(crate) fn below(&self) -> std::path::PathBuf {
        let mut path = std::path::PathBuf::from(self.tenant.as_str());
        path.extend(self.path.labels().iter().map(|label| label.as_str()));
        path
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
    /// The ids of cells that nobody owns yet.
    silent: BTreeMap<Key, silent::Held>,
    /// Objects that have not ended, reserved ones included, and the node's ids that cells have.
    counts: Counts,
    /// Objects that have, by tenant.
    finished: HashMap<Tenant, usize>,
    bounds: Bounds,
    ids: IdPool,
    ring: Ring,
    requests: Requests,
    /// Who waits for the end of a run; made by the first who does.
    waiters: HashMap<Uid, signal::Sender<Option<Arc<Object>>>>,
    revision: u64,
}

/// A living cell, as others see it.
struct CellEntry {
    uid: Uid,
    handle: CellHandle,
    range: Option<IdRange>,
    /// What its volumes may hold together, in bytes.
    tmpfs: u64,
    nested: IdPool,
    /// Nothing new may begin in it any more.
    closed: bool,
}

/// A name, and for a cell its ids, until the object is published or the making of it failed.
pub(crate) struct Reservation {
    index: Arc<Index>,
    key: Key,
    range: Option<IdRange>,
    armed: bool,
}

impl Reservation {
    /// The ids of a cell with a user namespace of its own.
    pub(crate) fn range(&self) -> Option<IdRange> {
        self.range
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.armed {
            self.index.lock().release(&self.key, self.range);
        }
    }
}

/// Why the name of a cell can't be reserved now.
pub(crate) enum Taken {
    /// The cell that has the name is ending; its owner says when it has ended.
    Ending(CellHandle),
    /// Another reason.
    Refused(Error),
}

/// Which ids a new cell gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IdWish {
    /// It lives in its parent's user namespace, or is no cell.
    None,
    /// This many, or as many as there is room for, up to the default.
    Count(Option<u32>),
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
                bounds,
                ids,
                ring,
                requests: Requests::new(limits),
                waiters: HashMap::new(),
                revision,
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

    /// Takes a name for something that is about to be made in the cell that encloses it.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        key: Key,
        uid: Uid,
        kind: Kind,
        wish: IdWish,
    ) -> Result<Reservation, Error> {
        self.reserve_in(&mut self.lock(), key, uid, kind, wish)
    }

    /// [`Index::reserve`], of a cell. One look tells a name that is free from one whose cell is
    /// ending: between two looks the cell could go.
    pub(crate) fn reserve_cell(
        self: &Arc<Self>,
        key: &Key,
        uid: Uid,
        wish: IdWish,
    ) -> Result<Reservation, Taken> {
        let mut inner = self.lock();
        if let Some(entry) = inner.cells.get(key)
            && entry.closed
        {
            return Err(Taken::Ending(entry.handle.clone()));
        }
        self.reserve_in(&mut inner, key.clone(), uid, Kind::Cell, wish)
            .map_err(Taken::Refused)
    }

    fn reserve_in(
        self: &Arc<Self>,
        inner: &mut Inner,
        key: Key,
        uid: Uid,
        kind: Kind,
        wish: IdWish,
    ) -> Result<Reservation, Error> {
        inner.check_name(&key, kind)?;
        inner.counts.admit(&key.tenant, quota_of(kind), 1)?;
        let range = match wish {
            IdWish::None => None,
            IdWish::Count(count) => Some(inner.allocate(&key, count)?),
        };
        inner.counts.add(&key.tenant, quota_of(kind), 1);
        inner.reserved.insert(key.clone(), (uid, kind));
        Ok(Reservation {
            index: self.clone(),
            key,
            range,
            armed: true,
        })
    }

    /// Publishes an object for the first time under its reserved name. Answers the finished object
    /// whose name it took: its record and logs are to go.
    pub(crate) fn publish_new(
        &self,
        object: Object,
        mut reservation: Reservation,
    ) -> Option<Arc<Object>> {
        reservation.armed = false;
        let displaced = {
            let mut inner = self.lock();
            inner.reserved.remove(&reservation.key);
            let displaced = inner.forget(&reservation.key);
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
        if !object.state().is_final() && kind == ChangeKind::Added {
            inner
                .counts
                .add(&key.tenant, quota_of(object.meta().kind), 1);
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

    /// Whether a tenant's volumes may hold so many bytes more.
    pub(crate) fn admit_tmpfs(&self, tenant: &Tenant, bytes: u64) -> Result<(), Error> {
        let admitted = self.lock().counts.admit(tenant, Quota::Tmpfs, bytes);
        admitted.map_err(|e| e.field("cell.spec.volumes"))
    }

    /// Registers the owner of a cell, whose volumes may hold `tmpfs` bytes together. Refused where
    /// the enclosing cell was closed meanwhile.
    pub(crate) fn register(
        &self,
        key: Key,
        handle: CellHandle,
        range: Option<IdRange>,
        tmpfs: u64,
    ) -> Result<(), Error> {
        let mut inner = self.lock();
        if let Some(parent) = key.parent()
            && inner.cells.get(&parent).is_none_or(|entry| entry.closed)
        {
            return Err(wrong_state(
                &parent,
                "is stopping: nothing new can begin in it",
            ));
        }
        let entry = CellEntry {
            uid: handle.uid(),
            handle,
            range,
            tmpfs,
            nested: IdPool::within(range),
            closed: false,
        };
        inner.counts.add(&key.tenant, Quota::Tmpfs, tmpfs);
        inner.cells.insert(key.clone(), entry);
        inner.hold_within(&key);
        Ok(())
    }

    /// Marks ids as taken that an adopted cell has. Whether they were free, or held for it; its
    /// enclosing cell must have been registered before.
    pub(crate) fn take_ids(&self, key: &Key, range: IdRange) -> bool {
        let mut inner = self.lock();
        inner.let_go(key);
        inner.take(key, range)
    }

    /// The ids of a cell: its own, or those that it shares; `None`: the node's.
    pub(crate) fn ids(&self, key: &Key) -> Option<IdRange> {
        let inner = self.lock();
        let mut around = std::iter::successors(Some(key.clone()), Key::parent);
        around.find_map(|key| inner.cells.get(&key).and_then(|entry| entry.range))
    }

    /// The node's id of the root of a cell.
    pub(crate) fn root_id(&self, key: &Key) -> u32 {
        self.ids(key).map_or(0, |ids| ids.first)
    }

    /// The owner of the living cell of that name.
    pub(crate) fn cell(&self, key: &Key) -> Option<CellHandle> {
        self.lock().cells.get(key).map(|entry| entry.handle.clone())
    }

    /// Lets nothing new begin in a cell. With `only_idle`, refused where something lives in it.
    pub(crate) fn close(&self, key: &Key, only_idle: bool) -> Result<(), Error> {
        let mut inner = self.lock();
        if only_idle && inner.is_busy(key) {
            return Err(Error::new(
                Reason::WrongState,
                format!("something in the cell {} still runs", key.path),
            )
            .about("cell", key.path.to_string())
            .hint("stop it first, or say force"));
        }
        if let Some(entry) = inner.cells.get_mut(key) {
            entry.closed = true;
        }
        Ok(())
    }

    /// The owners of the living cells directly in a cell.
    pub(crate) fn nested(&self, key: &Key) -> Vec<CellHandle> {
        let inner = self.lock();
        let below = inner
            .cells
            .range(key..)
            .take_while(|(k, _)| is_within(k, key));
        below
            .filter(|(k, _)| k.parent().as_ref() == Some(key))
            .map(|(_, entry)| entry.handle.clone())
            .collect()
    }

    /// The owner of a cell is done: its ids are free, and no request reaches it any more.
    pub(crate) fn unregister(&self, key: &Key, uid: Uid) {
        self.lock().unregister(key, uid);
    }

    /// The owner of a cell is done, and this is the cell's end. Owner, ids and name go in one step:
    /// a request that finds the name taken finds the owner to wait for. Answers the cell as it was
    /// published last. With `keep` its record stays under the name.
    pub(crate) fn depart(&self, cell: Object, keep: bool) -> Arc<Object> {
        let (key, uid) = (Key::of(&cell), cell.meta().uid);
        let mut inner = self.lock();
        inner.unregister(&key, uid);
        let unpublished = Arc::new(cell.clone());
        inner.publish(cell);
        let published = inner.uids.get(&uid).and_then(|key| inner.objects.get(key));
        let published = published.cloned().unwrap_or(unpublished);
        if !keep && inner.uids.contains_key(&uid) {
            inner.forget(&key);
        }
        drop(inner);
        self.wake();
        published
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

    /// Whether a tenant has so many finished records that it is worth ageing some out.
    pub(crate) fn is_crowded(&self, tenant: &Tenant) -> bool {
        let inner = self.lock();
        let most = inner.bounds.finished_per_tenant;
        let many = inner.finished.get(tenant);
        many.is_some_and(|n| *n > most + most / 16)
    }

    /// What ended before this moment is too old to be kept; `CLOCK_REALTIME`, nanoseconds.
    pub(crate) fn oldest_kept(&self, now: Timestamp) -> i64 {
        let age = u64::try_from(self.lock().bounds.finished_age.as_nanos()).unwrap_or(u64::MAX);
        i64::try_from(now.0.saturating_sub(age)).unwrap_or(i64::MAX)
    }

    /// The finished records that are one too many of their tenant's, or too old at that moment;
    /// each tenant's oldest first.
    pub(crate) fn aged(&self, now: Timestamp) -> Vec<Uid> {
        let inner = self.lock();
        let age = u64::try_from(inner.bounds.finished_age.as_nanos()).unwrap_or(u64::MAX);
        let before = Timestamp(now.0.saturating_sub(age));
        let mut ended: BTreeMap<&Tenant, Vec<(Timestamp, Uid)>> = BTreeMap::new();
        for object in inner.objects.values().filter(|o| o.state().is_final()) {
            let of_tenant = ended.entry(&object.meta().tenant).or_default();
            of_tenant.push((list::finished(object), object.meta().uid));
        }
        let gone = ended.into_values().flat_map(|mut of_tenant| {
            of_tenant.sort_unstable();
            let excess = of_tenant
                .len()
                .saturating_sub(inner.bounds.finished_per_tenant);
            let old = of_tenant.iter().take_while(|(at, _)| *at < before).count();
            of_tenant.into_iter().take(excess.max(old))
        });
        gone.map(|(_, uid)| uid).collect()
    }
}

fn one_less(counts: &mut HashMap<Tenant, usize>, tenant: &Tenant) {
    if let Some(count) = counts.get_mut(tenant) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(tenant);
        }
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
            self.ended(&key.tenant, object.meta().kind);
        }
        self.put(object, ChangeKind::Changed);
        true
    }

    fn unregister(&mut self, key: &Key, uid: Uid) {
        if self.cells.get(key).is_some_and(|entry| entry.uid == uid)
            && let Some(entry) = self.cells.remove(key)
        {
            self.counts.subtract(&key.tenant, Quota::Tmpfs, entry.tmpfs);
            if let Some(range) = entry.range {
                self.free(key, range);
            }
        }
    }

    fn check_name(&self, key: &Key, kind: Kind) -> Result<(), Error> {
        if let Some(parent) = key.parent() {
            let Some(entry) = self.cells.get(&parent) else {
                return Err(self.no_cell(&parent));
            };
            if entry.closed {
                return Err(wrong_state(
                    &parent,
                    "is stopping: nothing new can begin in it",
                ));
            }
        } else if kind == Kind::Executable {
            return Err(
                Error::invalid("path", "of an executable must name the cell it runs in")
                    .hint("give CELL/NAME, or ask for a cell of its own"),
            );
        }
        let living = self
            .objects
            .get(key)
            .is_some_and(|object| !object.state().is_final());
        if living || self.reserved.contains_key(key) {
            return Err(Error::new(
                Reason::AlreadyExists,
                format!("{} exists already and has not ended", key.path),
            )
            .about(kind.as_str(), key.path.to_string())
            .hint("stop it first, or choose another name"));
        }
        Ok(())
    }

    fn no_cell(&self, key: &Key) -> Error {
        let name = key.path.to_string();
        match self.objects.get(key) {
            Some(object) if silent::is_silent(object) => silent::refusal(key),
            Some(object) if object.meta().kind == Kind::Cell => {
                wrong_state(key, "has ended").hint("run the cell again")
            }
            Some(_) => wrong_state(key, "is an executable, not a cell"),
            None => Error::not_found("cell", name).hint("run the cell first"),
        }
    }

    /// Whether a cell has its ids of the node's own, not of those of a cell around it.
    fn has_ids_of_the_node(&self, key: &Key) -> bool {
        let mut around = key.parent();
        while let Some(cell) = around {
            match self.cells.get(&cell) {
                Some(entry) if entry.range.is_none() => around = cell.parent(),
                _ => return false,
            }
        }
        true
    }

    /// Marks a range as taken. Whether it was free.
    fn take(&mut self, key: &Key, range: IdRange) -> bool {
        let taken = self.pool(key).is_some_and(|pool| pool.take(range));
        if taken && self.has_ids_of_the_node(key) {
            self.counts.add(&key.tenant, Quota::Ids, range.count.into());
        }
        taken
    }

    /// Gives a range back.
    fn free(&mut self, key: &Key, range: IdRange) {
        let Some(pool) = self.pool(key) else { return };
        pool.free(range);
        if self.has_ids_of_the_node(key) {
            self.counts
                .subtract(&key.tenant, Quota::Ids, range.count.into());
        }
    }

    /// The pool that a cell of that name has its ids from.
    fn pool(&mut self, key: &Key) -> Option<&mut IdPool> {
        match key.parent() {
            None => Some(&mut self.ids),
            Some(parent) => {
                // A cell that shares its parent's ids hands on those of the next one up.
                let shares = self.cells.get(&parent)?.range.is_none();
                if shares {
                    self.pool(&parent)
                } else {
                    Some(&mut self.cells.get_mut(&parent)?.nested)
                }
            }
        }
    }

    fn allocate(&mut self, key: &Key, count: Option<u32>) -> Result<IdRange, Error> {
        let top = key.path.parent().is_none();
        let Some(pool) = self.pool(key) else {
            return Err(Error::internal(format!(
                "the cell around {} has no ids",
                key.path
            )));
        };
        let largest = pool.largest();
        let count = count.unwrap_or(if top {
            TOP_LEVEL_IDS
        } else {
            OWN.min(largest.max(model::cell::MIN_ID_RANGE))
        });
        let refused = || {
            let whose = if top {
                "the node"
            } else {
                "the enclosing cell"
            };
            Error::new(
                Reason::LimitExceeded,
                format!("{whose} has no {count} consecutive user ids left (at most {largest})"),
            )
            .field("cell.spec.id_range")
            .hint("ask for a smaller id_range, make the enclosing cell with a larger one, or share user")
        };
        if !self.has_ids_of_the_node(key) {
            return self
                .pool(key)
                .and_then(|pool| pool.allocate(count))
                .ok_or_else(refused);
        }
        let admitted = self.counts.admit(&key.tenant, Quota::Ids, count.into());
        admitted.map_err(|e| e.field("cell.spec.id_range"))?;
        let range = self.ids.allocate(count).ok_or_else(refused)?;
        self.counts.add(&key.tenant, Quota::Ids, count.into());
        Ok(range)
    }

    fn release(&mut self, key: &Key, range: Option<IdRange>) {
        if let Some((uid, kind)) = self.reserved.remove(key) {
            self.waiters.remove(&uid);
            self.ended(&key.tenant, kind);
        }
        if let Some(range) = range {
            self.free(key, range);
        }
    }

    fn ended(&mut self, tenant: &Tenant, kind: Kind) {
        self.counts.subtract(tenant, quota_of(kind), 1);
    }

    /// Whether something lives, or is being made, in a cell.
    fn is_busy(&self, key: &Key) -> bool {
        let inside = |k: &Key| k != key && is_within(k, key);
        self.reserved
            .range(key..)
            .take_while(|(k, _)| is_within(k, key))
            .any(|(k, _)| inside(k))
            || self
                .objects
                .range(key..)
                .take_while(|(k, _)| is_within(k, key))
                .any(|(k, object)| inside(k) && !object.state().is_final())
    }

    fn put(&mut self, mut object: Object, kind: ChangeKind) {
        self.revision += 1;
        object.meta_mut().revision = self.revision;
        let object = Arc::new(object);
        let key = Key::of(&object);
        let uid = object.meta().uid;
        self.uids.insert(uid, key.clone());
        let before = self
            .objects
            .get(&key)
            .is_some_and(|before| before.state().is_final());
        if object.state().is_final() && !before {
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
        match object.state().is_final() {
            true => one_less(&mut self.finished, &key.tenant),
            false => self.ended(&key.tenant, object.meta().kind),
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
