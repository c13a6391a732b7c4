// SPDX-License-Identifier: Apache-2.0
//! Names that come and go: an image gets its name when all of it is there, loses it by a removal or
//! by pruning, and then its bytes go, where nothing else needs them.

use std::collections::{BTreeMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use identity::Permit;
use model::error::{Error, Reason};
use model::name::Tenant;
use model::time::Timestamp;

use super::holdings::Hold;
use super::records::{Content, Record};
use super::{Held, Images, Inner, now};
use crate::digest::Digest;
use crate::error::Result;
use crate::store::{Collected, InUse, Policy};

/// What a pruning has done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Pruned {
    /// References of the images that went.
    pub removed: Vec<String>,
    /// Bytes of the disk that are free now.
    pub freed_bytes: u64,
}

impl Images {
    /// Names an image; what had the name before loses it. A pin stays with the name. `kept` goes
    /// when it is named: what must not be collected until then.
    pub(super) async fn keep(
        &self,
        record: Record,
        hold: Hold,
        kept: impl Send + 'static,
    ) -> std::result::Result<Record, Error> {
        self.blocking(move |inner| {
            let _kept = kept;
            let _one_at_a_time = inner.changing();
            let before = inner.record(&record.tenant, &record.reference);
            let record = Record {
                pinned: record.pinned || before.is_some_and(|before| before.pinned),
                ..record
            };
            record.write(&inner.store)?;
            let key = (record.tenant.clone(), record.reference.clone());
            let held = Held {
                record: record.clone(),
                _hold: hold,
            };
            // What it replaces is given back outside of the lock.
            let _before = inner.lock().insert(key, held);
            Ok(record)
        })
        .await
    }

    /// Forgets an image; answers the bytes that are free by that.
    ///
    /// # Errors
    /// `NOT_FOUND`; `WRONG_STATE` while a cell of the tenant runs it; the store can't be written.
    pub async fn remove(
        &self,
        permit: Permit,
        tenant: &Tenant,
        reference: &str,
    ) -> std::result::Result<u64, Error> {
        permit.demand_tenant(tenant)?;
        let record = self.inner()?.find(tenant, reference)?;
        let name = record.reference.clone();
        let forget = move |inner: &Inner| {
            let mut gone = HashSet::new();
            let unused = |record: &Record| inner.cells_of(record) == 0;
            let forgotten = inner.forget(&record, unused, &mut gone)?;
            match inner.cells_of(&record) {
                cells if cells > 0 && !forgotten => Ok(Err(cells)),
                _ => inner.collect(gone).map(Ok),
            }
        };
        let collected = self.blocking(forget).await?;
        collected.map(|collected| collected.bytes).map_err(|cells| {
            Error::new(Reason::WrongState, format!("{cells} cells run {name}"))
                .about("image", name)
                .hint("stop and remove them first: aurae ps")
        })
    }

    /// Forgets the tenant's images that are neither pinned nor run by a cell and were not used for
    /// so long.
    ///
    /// # Errors
    /// The store can't be written.
    pub async fn prune(
        &self,
        permit: Permit,
        tenant: &Tenant,
        unused_for: Duration,
    ) -> std::result::Result<Pruned, Error> {
        permit.demand_tenant(tenant)?;
        let tenant = tenant.clone();
        self.blocking(move |inner| inner.prune(Some(&tenant), unused_for))
            .await
    }

    /// The same for all tenants: what the node does by itself.
    ///
    /// # Errors
    /// The store can't be written.
    pub async fn prune_unused(&self, age: Duration) -> std::result::Result<Pruned, Error> {
        self.blocking(move |inner| inner.prune(None, age)).await
    }
}

impl Images {
    /// Puts unpacked layers on disk, so that a loss of power takes none. Waits for the disk.
    ///
    /// # Errors
    /// What the disk says.
    pub async fn settle(&self) -> std::result::Result<(), Error> {
        self.blocking(|inner| inner.store.settle()).await
    }
}

impl Inner {
    /// Forgets an image that is still as it was when it was chosen, and still may go by `may_go`;
    /// says whether it did. `gone` gets what it led to.
    pub(super) fn forget(
        &self,
        record: &Record,
        may_go: impl Fn(&Record) -> bool,
        gone: &mut HashSet<Digest>,
    ) -> Result<bool> {
        let _one_at_a_time = self.changing();
        let current = self.record(&record.tenant, &record.reference);
        let same = |current: &Record| current.manifest == record.manifest && may_go(current);
        if !current.as_ref().is_some_and(same) {
            return Ok(false);
        }
        gone.insert(record.manifest.digest.clone());
        if let Ok(content) = Content::read(&self.store, &record.manifest) {
            gone.extend(content.manifest.blobs().map(|blob| blob.digest.clone()));
            gone.extend(content.config.diff_ids.iter().cloned());
        }
        self.store
            .untag(record.tenant.as_str(), &record.reference)?;
        let key = (record.tenant.clone(), record.reference.clone());
        let _held = self.lock().remove(&key);
        Ok(true)
    }

    fn prune(&self, tenant: Option<&Tenant>, unused_for: Duration) -> Result<Pruned> {
        let now = now();
        let old = |record: &Record| {
            !record.pinned
                && tenant.is_none_or(|tenant| record.tenant == *tenant)
                && now.since(record.used) >= unused_for
                && self.cells_of(record) == 0
        };
        let candidates: Vec<Record> = {
            let held = self.lock();
            let records = held.values().map(|held| &held.record);
            records.filter(|record| old(record)).cloned().collect()
        };
        let (mut pruned, mut gone) = (Pruned::default(), HashSet::new());
        let left = self.leftovers(tenant, now);
        gone.extend(left.iter().flat_map(Hold::digests).cloned());
        for record in candidates {
            if self.forget(&record, old, &mut gone)? {
                pruned.removed.push(record.reference);
            }
        }
        pruned.freed_bytes = self.collect(gone)?.bytes;
        Ok(pruned)
    }

    /// Keeps count of what a transfer has brought that ended without a name: it is on the disk for
    /// the next attempt, until it is pruned.
    pub(super) fn leave(&self, tenant: &Tenant, hold: Hold) {
        let mut leftovers = self
            .leftovers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match leftovers.get_mut(tenant) {
            Some((since, left)) => {
                *since = now();
                left.merge(hold);
            }
            None => drop(leftovers.insert(tenant.clone(), (now(), hold))),
        }
    }

    /// The leftovers of a tenant, or the old ones of all, to be given back once they are collected.
    fn leftovers(&self, tenant: Option<&Tenant>, now: Timestamp) -> Vec<Hold> {
        let mut leftovers = self
            .leftovers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let goes = |of: &Tenant, since: Timestamp| match tenant {
            Some(tenant) => of == tenant,
            None => now.since(since) > Policy::default().grace,
        };
        let gone = leftovers.extract_if(.., |of, (since, _)| goes(of, *since));
        let gone: BTreeMap<Tenant, Hold> = gone.map(|(of, (_, hold))| (of, hold)).collect();
        drop(leftovers);
        self.given_back(gone)
    }

    /// Nothing is noted of them on the disk any more, either.
    fn given_back(&self, leftovers: BTreeMap<Tenant, Hold>) -> Vec<Hold> {
        for tenant in leftovers.keys() {
            if let Err(error) = self.store.forget_pending(tenant.as_str()) {
                tracing::warn!(%error, %tenant, "what is pruned is noted as if it were there");
            }
        }
        leftovers.into_values().collect()
    }

    /// The leftovers of all tenants.
    pub(super) fn all_leftovers(&self) -> Vec<Hold> {
        let mut leftovers = self
            .leftovers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *leftovers);
        drop(leftovers);
        self.given_back(all.into_iter().map(|(of, (_, hold))| (of, hold)).collect())
    }

    /// Frees what these led to and nothing else needs, and what no name has led to for long: parts
    /// of transfers that were cut stay for the next attempt. What a transfer brings is pinned.
    fn collect(&self, at_once: HashSet<Digest>) -> Result<Collected> {
        self.collect_by(at_once, Policy::default().grace)
    }

    /// The same, with all that no name leads to, however young.
    pub(super) fn collect_at_once(&self, at_once: HashSet<Digest>) -> Result<Collected> {
        self.collect_by(at_once, Duration::ZERO)
    }

    /// Names are forgotten here and not by the store, which knows no tenants: so it is told that
    /// the disk is never too full (`pressure`).
    fn collect_by(&self, at_once: HashSet<Digest>, grace: Duration) -> Result<Collected> {
        let policy = Policy {
            max_age: None,
            high: 100,
            low: 100,
            grace,
        };
        let in_use = InUse {
            released: at_once,
            ..InUse::default()
        };
        self.store.collect(&policy, &in_use)
    }
}
