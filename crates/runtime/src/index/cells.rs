// SPDX-License-Identifier: Apache-2.0
//! The living cells: who owns which, whether something new may begin in it, and which ids it has of
//! the node's or of the cell's around it.

use std::sync::Arc;

use model::error::{Error, Reason};
use model::name::Uid;
use model::quota::{Quota, Storage};
use model::status::Object;

use super::{Index, Inner, Key, is_within, wrong_state};
use crate::cell::CellHandle;
use crate::ids::{IdPool, IdRange, OWN, TOP_LEVEL_IDS};

/// A living cell, as others see it.
pub(super) struct CellEntry {
    pub(super) uid: Uid,
    pub(super) handle: CellHandle,
    pub(super) range: Option<IdRange>,
    /// What its volumes may hold together, in bytes.
    pub(super) storage: Storage,
    pub(super) nested: IdPool,
    /// Nothing new may begin in it any more.
    pub(super) closed: bool,
}

impl Index {
    /// Registers the owner of a cell, whose files may take `storage`. Refused where
    /// the enclosing cell was closed meanwhile.
    pub(crate) fn register(
        &self,
        key: Key,
        handle: CellHandle,
        range: Option<IdRange>,
        storage: Storage,
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
            storage,
            nested: IdPool::within(range),
            closed: false,
        };
        inner.counts.add_storage(&key.tenant, storage);
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

    /// The living cells that a subsystem above keeps a document with.
    pub(crate) fn annexed(&self) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let living = inner.cells.keys().filter_map(|key| inner.objects.get(key));
        let annexed = |object: &&Arc<Object>| match &***object {
            Object::Cell(cell) => cell.annex.is_some(),
            Object::Executable(_) => false,
        };
        living.filter(annexed).cloned().collect()
    }

    /// Everything from a name on, up to another one.
    pub(crate) fn between(&self, from: &Key, to: &Key) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let found = inner.objects.range(from..to);
        found.map(|(_, object)| object.clone()).collect()
    }

    /// All cells that live.
    pub(crate) fn living_cells(&self) -> Vec<Uid> {
        self.lock().cells.values().map(|entry| entry.uid).collect()
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
}

impl Inner {
    pub(super) fn unregister(&mut self, key: &Key, uid: Uid) {
        if self.cells.get(key).is_some_and(|entry| entry.uid == uid)
            && let Some(entry) = self.cells.remove(key)
        {
            self.counts.subtract_storage(&key.tenant, entry.storage);
            if let Some(range) = entry.range {
                self.free(key, range);
            }
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
    pub(super) fn take(&mut self, key: &Key, range: IdRange) -> bool {
        let taken = self.pool(key).is_some_and(|pool| pool.take(range));
        if taken && self.has_ids_of_the_node(key) {
            self.counts.add(&key.tenant, Quota::Ids, range.count.into());
        }
        taken
    }

    /// Gives a range back.
    pub(super) fn free(&mut self, key: &Key, range: IdRange) {
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

    pub(super) fn allocate(&mut self, key: &Key, count: Option<u32>) -> Result<IdRange, Error> {
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
}
