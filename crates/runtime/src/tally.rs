// SPDX-License-Identifier: Apache-2.0
//! The archive with a count of what is in it: bytes of finished records by tenant, and which record
//! is how old, so that each tenant is held to its quota `finished_bytes` without asking the disk.
//!
//! Every put and removal goes through here. What is counted is the store's truth, records that no
//! daemon can read any more included.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::Error;
use model::name::{Tenant, Uid};
use model::quota::{Limits, Quota};
use store::Finished;

use super::ports::Archive;
use futures_util::future::BoxFuture;

/// See the module. Clones share the count.
#[derive(Clone)]
pub(crate) struct Tally {
    archive: Arc<dyn Archive>,
    records: Arc<Mutex<Records>>,
}

/// The counts by tenant; no locks and no input or output.
#[derive(Default)]
struct Records {
    /// By tenant; what is empty isn't there.
    of: BTreeMap<Tenant, OfTenant>,
    places: HashMap<Uid, (Tenant, i64)>,
    /// Being removed, and counted no more.
    going: HashMap<Uid, Counted>,
}

/// Of one tenant.
#[derive(Default)]
struct OfTenant {
    bytes: u64,
    /// By end, so that the oldest is first; with the bytes of each.
    by_end: BTreeMap<(i64, Uid), u64>,
}

/// What is counted of a record.
struct Counted {
    tenant: Tenant,
    uid: Uid,
    end_ns: i64,
    bytes: u64,
}

impl Counted {
    /// `None`: of no tenant. The store has names as texts; every one was a tenant's.
    fn of(record: &Finished) -> Option<Self> {
        Some(Self {
            tenant: record.tenant.parse().ok()?,
            uid: record.uid,
            end_ns: record.finished_ns,
            bytes: u64::try_from(record.record.len()).unwrap_or(u64::MAX),
        })
    }
}

impl Records {
    fn add(&mut self, record: Counted) {
        self.remove(record.uid);
        let of = self.of.entry(record.tenant.clone()).or_default();
        of.bytes = of.bytes.saturating_add(record.bytes);
        of.by_end.insert((record.end_ns, record.uid), record.bytes);
        self.places
            .insert(record.uid, (record.tenant, record.end_ns));
    }

    fn remove(&mut self, uid: Uid) -> Option<Counted> {
        let (tenant, end_ns) = self.places.remove(&uid)?;
        let of = self.of.get_mut(&tenant)?;
        let bytes = of.by_end.remove(&(end_ns, uid))?;
        of.bytes = of.bytes.saturating_sub(bytes);
        if of.by_end.is_empty() {
            self.of.remove(&tenant);
        }
        Some(Counted {
            tenant,
            uid,
            end_ns,
            bytes,
        })
    }

    /// It is about to be removed: nothing else has to go for it.
    fn let_go(&mut self, uid: Uid) {
        let going = self.remove(uid);
        self.going.extend(going.map(|it| (uid, it)));
    }

    /// The store has removed it, or could not.
    fn removed(&mut self, uid: Uid, gone: bool) {
        let going = self.going.remove(&uid);
        match gone {
            true => drop(self.remove(uid)),
            false => going.into_iter().for_each(|it| self.add(it)),
        }
    }

    fn bytes(&self, tenant: &Tenant) -> u64 {
        self.of.get(tenant).map_or(0, |of| of.bytes)
    }

    /// Whether the tenant is beyond its quota, or all together beyond the node's.
    fn is_over(&self, limits: &Limits, tenant: &Tenant) -> bool {
        let used = self.of.iter().map(|(tenant, of)| (tenant, of.bytes));
        self.bytes(tenant) > limits.limit(tenant, Quota::FinishedBytes)
            || limits
                .capacity
                .fullest(Quota::FinishedBytes, used)
                .is_some()
    }

    /// What goes so that every quota holds, each tenant's oldest first.
    fn excess(&self, limits: &Limits) -> Vec<(Tenant, Uid)> {
        let mut going = Vec::new();
        let mut left = Vec::new();
        for (tenant, of) in &self.of {
            let limit = limits.limit(tenant, Quota::FinishedBytes);
            let (mut bytes, mut oldest) = (of.bytes, of.by_end.iter());
            while bytes > limit
                && let Some(((_, uid), size)) = oldest.next()
            {
                bytes = bytes.saturating_sub(*size);
                going.push((tenant.clone(), *uid));
            }
            left.push((tenant, bytes, oldest));
        }
        loop {
            let used = left.iter().map(|(tenant, bytes, _)| (*tenant, *bytes));
            let Some(fullest) = limits.capacity.fullest(Quota::FinishedBytes, used) else {
                return going;
            };
            let found = left.iter_mut().find(|(tenant, _, _)| *tenant == fullest);
            let Some((tenant, bytes, oldest)) = found else {
                return going;
            };
            let Some(((_, uid), size)) = oldest.next() else {
                return going;
            };
            *bytes = bytes.saturating_sub(*size);
            going.push((tenant.clone(), *uid));
        }
    }

    /// What ended before that moment.
    fn before(&self, end_ns: i64) -> Vec<(Tenant, Uid)> {
        let of = self.of.iter().flat_map(|(tenant, of)| {
            let old = of.by_end.range(..(end_ns, Uid([0; 16])));
            old.map(move |((_, uid), _)| (tenant.clone(), *uid))
        });
        of.collect()
    }
}

impl Tally {
    /// Counts nothing yet: [`Archive::load`] counts what it hands out.
    pub(crate) fn new(archive: Arc<dyn Archive>) -> Self {
        Self {
            archive,
            records: Arc::default(),
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a tenant's finished records.
    pub(crate) fn bytes(&self, tenant: &Tenant) -> u64 {
        self.records().bytes(tenant)
    }

    /// Whether something of that tenant's, or of another's, has to go.
    pub(crate) fn is_over(&self, limits: &Limits, tenant: &Tenant) -> bool {
        self.records().is_over(limits, tenant)
    }

    /// What goes so that every quota holds, each tenant's oldest first.
    pub(crate) fn excess(&self, limits: &Limits) -> Vec<(Tenant, Uid)> {
        self.records().excess(limits)
    }

    /// It is about to be removed, by [`Archive::remove`] or [`Archive::remove_later`]: nothing else
    /// has to go for it.
    pub(crate) fn let_go(&self, uid: Uid) {
        self.records().let_go(uid);
    }

    /// The archive has removed some, or could not.
    fn removed(&self, uids: Vec<Uid>, outcome: Result<(), Error>) -> Result<(), Error> {
        let mut records = self.records();
        for uid in uids {
            records.removed(uid, outcome.is_ok());
        }
        outcome
    }

    /// What ended before that moment (`CLOCK_REALTIME`, nanoseconds).
    pub(crate) fn before(&self, end_ns: i64) -> Vec<(Tenant, Uid)> {
        self.records().before(end_ns)
    }
}

impl Archive for Tally {
    fn put(&self, record: Finished) -> BoxFuture<'static, Result<(), Error>> {
        let tally = self.clone();
        Box::pin(async move {
            let counted = Counted::of(&record);
            tally.archive.put(record).await?;
            counted.into_iter().for_each(|it| tally.records().add(it));
            Ok(())
        })
    }

    fn remove(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
        let tally = self.clone();
        Box::pin(async move {
            let removed = tally.archive.remove(uids.clone()).await;
            tally.removed(uids, removed)
        })
    }

    fn remove_later(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<(), Error>> {
        let tally = self.clone();
        Box::pin(async move {
            let removed = tally.archive.remove_later(uids.clone()).await;
            tally.removed(uids, removed)
        })
    }

    fn get(&self, uids: Vec<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
        self.archive.get(uids)
    }

    fn load(&self, after: Option<Uid>) -> BoxFuture<'static, Result<Vec<Finished>, Error>> {
        let tally = self.clone();
        Box::pin(async move {
            let page = tally.archive.load(after).await?;
            let mut records = tally.records();
            page.iter()
                .filter_map(Counted::of)
                .for_each(|it| records.add(it));
            drop(records);
            Ok(page)
        })
    }
}

#[cfg(test)]
mod tests {
    use model::quota::{Amount, Capacity, Quotas};

    use super::*;

    /// A node that keeps so many bytes, none of them in reserve; `a` may have 3,000.
    fn limits(whole: u64) -> Limits {
        let quota = Quotas([(Quota::FinishedBytes, Amount::Absolute(3000))].into());
        Limits {
            capacity: Capacity {
                whole: [(Quota::FinishedBytes, whole)].into(),
                reserve: 0,
            },
            set: [("a".parse().unwrap(), quota)].into(),
        }
    }

    fn record(n: u8, tenant: &str) -> Counted {
        Counted {
            tenant: tenant.parse().unwrap(),
            uid: Uid([n; 16]),
            end_ns: n.into(),
            bytes: 1000,
        }
    }

    fn excess(records: &Records, limits: &Limits) -> Vec<u8> {
        let going = records.excess(limits).into_iter();
        going.map(|(_, uid)| uid.0[0]).collect()
    }

    #[test]
    fn a_tenants_oldest_records_are_beyond_its_quota_and_no_other_tenants() {
        let mut records = Records::default();
        for n in 1..=9 {
            records.add(record(n, if n % 2 == 0 { "a" } else { "b" }));
        }
        let [a, b] = ["a", "b"].map(|t| t.parse::<Tenant>().unwrap());
        let limits = limits(20_000);
        assert_eq!((records.bytes(&a), records.bytes(&b)), (4000, 5000));
        assert!(records.is_over(&limits, &a) && !records.is_over(&limits, &b));
        // `a` has 2, 4, 6, 8; `b` may have a quarter of 20,000.
        assert_eq!(excess(&records, &limits), [2]);
        // The same once more is counted once; what is removed, no more.
        records.add(record(8, "a"));
        assert_eq!(records.bytes(&a), 4000);
        records.let_go(Uid([2; 16]));
        assert_eq!(
            (records.bytes(&a), excess(&records, &limits)),
            (3000, vec![])
        );
        records.removed(Uid([2; 16]), false);
        assert_eq!(excess(&records, &limits), [2], "the store refused");
        records.removed(Uid([2; 16]), true);
        assert_eq!(records.bytes(&a), 3000);
        assert!(excess(&records, &limits).is_empty());
        let old = records.before(4).into_iter().map(|(_, uid)| uid.0[0]);
        assert_eq!(old.collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn where_all_have_too_many_records_who_has_most_gives() {
        let mut records = Records::default();
        for (n, tenant) in [(1, "c"), (2, "d"), (3, "d"), (4, "e"), (5, "f"), (6, "f")] {
            records.add(record(n, tenant));
        }
        let mut limits = limits(4001);
        for tenant in ["c", "d", "e", "f"] {
            let quota = Quotas([(Quota::FinishedBytes, Amount::Unlimited)].into());
            limits.set.insert(tenant.parse().unwrap(), quota);
        }
        let mut gone = excess(&records, &limits);
        gone.sort_unstable();
        assert_eq!(gone, [2, 5]);
    }
}
