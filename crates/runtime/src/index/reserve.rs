// SPDX-License-Identifier: Apache-2.0
//! Names that are taken before there is an object: one living object has a name, and what is about
//! to be made has it already. With the name of a cell go its ids.

use std::sync::Arc;

use model::error::{Error, Reason};
use model::name::{Tenant, Uid};
use model::object::Kind;
use model::quota::{Quota, Storage};

use super::{Index, Inner, Key, is_within, silent, wrong_state};
use crate::cell::CellHandle;
use crate::ids::IdRange;

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

    /// The name stays taken; answers it.
    pub(super) fn keep(mut self) -> Key {
        self.armed = false;
        self.key.clone()
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
    /// Takes a name for something that is about to be made in the cell that encloses it, with a
    /// spec of that length.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        key: Key,
        uid: Uid,
        (kind, spec): (Kind, u64),
        wish: IdWish,
    ) -> Result<Reservation, Error> {
        self.reserve_in(&mut self.lock(), key, uid, (kind, spec), wish)
    }

    /// [`Index::reserve`], of a cell. One look tells a name that is free from one whose cell is
    /// ending: between two looks the cell could go.
    pub(crate) fn reserve_cell(
        self: &Arc<Self>,
        key: &Key,
        uid: Uid,
        spec: u64,
        wish: IdWish,
    ) -> Result<Reservation, Taken> {
        let mut inner = self.lock();
        if let Some(entry) = inner.cells.get(key)
            && entry.closed
        {
            return Err(Taken::Ending(entry.handle.clone()));
        }
        self.reserve_in(&mut inner, key.clone(), uid, (Kind::Cell, spec), wish)
            .map_err(Taken::Refused)
    }

    fn reserve_in(
        self: &Arc<Self>,
        inner: &mut Inner,
        key: Key,
        uid: Uid,
        (kind, spec): (Kind, u64),
        wish: IdWish,
    ) -> Result<Reservation, Error> {
        inner.check_name(&key, kind)?;
        inner.counts.admit_object(&key.tenant, kind, spec)?;
        let range = match wish {
            IdWish::None => None,
            IdWish::Count(count) => Some(inner.allocate(&key, count)?),
        };
        inner.counts.begin(&key.tenant, kind, uid, spec);
        inner.reserved.insert(key.clone(), (uid, kind));
        Ok(Reservation {
            index: self.clone(),
            key,
            range,
            armed: true,
        })
    }

    /// Whether what a tenant's workloads write may hold so much more.
    pub(crate) fn admit_storage(&self, tenant: &Tenant, wanted: Storage) -> Result<(), Error> {
        self.lock().admit_storage(tenant, wanted)
    }
}

impl Index {
    /// A tenant's volumes may hold so much more, until it is given back. Refused where that is
    /// beyond its quotas, unless they are `there` already.
    pub(crate) fn take_storage(
        &self,
        tenant: &Tenant,
        wanted: Storage,
        there: bool,
    ) -> Result<(), Error> {
        let mut inner = self.lock();
        if !there {
            inner.admit_storage(tenant, wanted)?;
        }
        inner.counts.add_storage(tenant, wanted);
        Ok(())
    }

    pub(crate) fn give_storage(&self, tenant: &Tenant, held: Storage) {
        self.lock().counts.subtract_storage(tenant, held);
    }

    /// A tenant has so much more, until it is given back. Refused where that is beyond its quota,
    /// unless it is `there` already.
    pub(crate) fn take_more(
        &self,
        tenant: &Tenant,
        quota: Quota,
        more: u64,
        there: bool,
    ) -> Result<(), Error> {
        let mut inner = self.lock();
        if !there {
            inner.counts.admit(tenant, quota, more)?;
        }
        inner.counts.add(tenant, quota, more);
        Ok(())
    }

    pub(crate) fn give_back(&self, tenant: &Tenant, quota: Quota, less: u64) {
        self.lock().counts.subtract(tenant, quota, less);
    }
}

impl Inner {
    fn admit_storage(&self, tenant: &Tenant, wanted: Storage) -> Result<(), Error> {
        for (quota, bytes) in wanted.by_quota() {
            let field = match quota {
                Quota::Disk => "cell.spec.container.root_bytes",
                _ => "cell.spec.volumes",
            };
            if bytes > 0 {
                let admitted = self.counts.admit(tenant, quota, bytes);
                admitted.map_err(|e| e.field(field))?;
            }
        }
        Ok(())
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

    /// Whether something lives, or is being made, in a cell.
    pub(super) fn is_busy(&self, key: &Key) -> bool {
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

    fn release(&mut self, key: &Key, range: Option<IdRange>) {
        if let Some((uid, kind)) = self.reserved.remove(key) {
            self.waiters.remove(&uid);
            self.counts.end(&key.tenant, kind, uid);
        }
        if let Some(range) = range {
            self.free(key, range);
        }
    }
}
