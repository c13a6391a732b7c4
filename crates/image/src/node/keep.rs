// SPDX-License-Identifier: Apache-2.0
//! Names that come and go: an image gets its name when all of it is there, loses it by a removal or
//! by pruning, and then its bytes go, where nothing else needs them.

use std::collections::HashSet;
use std::time::Duration;

use identity::Permit;
use model::error::{Error, Reason};
use model::name::Tenant;

use super::holdings::Hold;
use super::records::Record;
use super::{Held, Images, Inner, now};
use crate::error::Result;
use crate::store::{Collected, Keep, Policy};

/// What a pruning has done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Pruned {
    /// References of the images that went.
    pub removed: Vec<String>,
    /// Bytes of the disk that are free now.
    pub freed_bytes: u64,
}

impl Images {
    /// Names an image; what had the name before loses it. A pin stays with the name.
    pub(super) async fn keep(
        &self,
        record: Record,
        hold: Hold,
    ) -> std::result::Result<Record, Error> {
        self.blocking(move |inner| {
            let mut held = inner.lock();
            let key = (record.tenant.clone(), record.reference.clone());
            let pinned = held.get(&key).is_some_and(|held| held.record.pinned);
            let record = Record {
                pinned: record.pinned || pinned,
                ..record
            };
            record.write(&inner.store)?;
            let kept = Held {
                record: record.clone(),
                _hold: hold,
            };
            held.insert(key, kept);
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
        let record = self.inner.find(tenant, reference)?;
        let cells = self.inner.cells_of(&record);
        if cells > 0 {
            let reference = &record.reference;
            let words = format!("{cells} cells run {reference}");
            return Err(Error::new(Reason::WrongState, words)
                .about("image", reference)
                .hint("stop and remove them first: aurae ps"));
        }
        let forget = move |inner: &Inner| {
            inner.forget(&record)?;
            inner.collect()
        };
        let collected = self.blocking(forget).await?;
        Ok(collected.bytes)
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
    fn forget(&self, record: &Record) -> Result<()> {
        let mut held = self.lock();
        self.store
            .untag(record.tenant.as_str(), &record.reference)?;
        held.remove(&(record.tenant.clone(), record.reference.clone()));
        Ok(())
    }

    fn prune(&self, tenant: Option<&Tenant>, unused_for: Duration) -> Result<Pruned> {
        let now = now();
        let old = |record: &Record| {
            !record.pinned
                && tenant.is_none_or(|tenant| record.tenant == *tenant)
                && now.since(record.used) >= unused_for
        };
        let candidates: Vec<Record> = {
            let held = self.lock();
            let records = held.values().map(|held| &held.record);
            records.filter(|record| old(record)).cloned().collect()
        };
        let mut pruned = Pruned::default();
        for record in candidates {
            if self.cells_of(&record) > 0 {
                continue;
            }
            self.forget(&record)?;
            pruned.removed.push(record.reference);
        }
        pruned.freed_bytes = self.collect()?.bytes;
        Ok(pruned)
    }

    /// Frees what no name leads to. What a transfer brings, and what cells run, is pinned.
    fn collect(&self) -> Result<Collected> {
        let policy = Policy {
            max_age: None,
            high: 100,
            low: 100,
            grace: Duration::ZERO,
        };
        let keep = Keep {
            digests: HashSet::new(),
        };
        self.store.collect(&policy, &keep)
    }
}
