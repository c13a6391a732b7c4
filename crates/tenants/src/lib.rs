// SPDX-License-Identifier: Apache-2.0
//! Tenants as objects: what an administrator has set for each, and what each uses of the node's
//! pools.
//!
//! [`Tenants`] answers `Tenant.List`, `Get`, `Set` and `Remove`, each with the `Permit` that
//! identity gave for it, and hands the rule ([`model::quota::Limits`]) to the owner of a pool: the
//! runtime (cells, executables, ids, cgroups), the listener (connections), the API's layers (calls
//! and their bytes), the log engine (readers, bytes). A pool of the daemon's memory that no
//! subsystem counts is a [`Pool`]. It limits nothing by itself, and knows no cgroup.
//!
//! What can't be counted out is had in turns by tenant: the daemon's time ([`Time`]) and places at
//! what works for all ([`Turns`]). What is refused too often is paced ([`Refusals`]). What changes
//! is told in an order that keeps little for each ([`Feed`], [`Watcher`]).
//!
//! ```text
//!   Tenant.Set ──> Tenants ──> store (table tenants) and STATE/tenants.json
//!                     │ limits()                     ▲
//!                     ▼                              │ found again without the database
//!   runtime, listen, rpc, observe: admit(tenant, quota, wanted, used)
//!                     │ Meter
//!                     └──> Tenant.Get: use beside limit
//! ```
//!
//! A tenant is there as soon as it has a user, a workload, or quotas; without quotas of its own it
//! has the defaults. A lost database loses no quota: the same rows are in `tenants.json`.

mod counts;
mod feed;
mod line;
mod mirror;
mod pool;
mod refusals;
#[cfg(test)]
mod tests;
mod time;
mod turns;
mod watcher;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use identity::Permit;
use model::error::{Error, Reason};
use model::name::Tenant;
use model::quota::{Amount, Capacity, Limits, Quota, Quotas};
use store::{Store, TenantRow, now_ns};
use tokio::sync::watch;

pub use counts::Counts;
pub use feed::{Change, Changes, Feed, Key};
use mirror::Mirror;
pub use pool::{Pool, Taken};
pub use refusals::Refusals;
pub use time::{Payer, Share, Time, Timed, Turn};
pub use turns::{Place, Turns};
pub use watcher::{Source, Told, WatchEvent, WatchKind, Watcher};

/// The most tenants that quotas are kept for.
pub const MAX_TENANTS: usize = 4096;

/// The owner of a pool, as far as `Tenant.Get` asks: how much of which quotas a tenant uses.
/// Answers at once, from memory or by reading a few files of the kernel's.
pub trait Meter: Send + Sync + 'static {
    /// Use by quota, in the quota's unit.
    fn used(&self, tenant: &Tenant) -> Vec<(Quota, u64)>;
    /// Tenants that this owner has something of.
    fn tenants(&self) -> Vec<Tenant>;
}

/// One quota of one tenant, as of now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuotaStatus {
    /// The quota.
    pub quota: Quota,
    /// What was set, or the default.
    pub amount: Amount,
    /// Whether an administrator has set it.
    pub set: bool,
    /// The number that it means on this node; `u64::MAX`: no bound.
    pub limit: u64,
    /// `None`: not known (a weight, or a controller that the node lacks).
    pub used: Option<u64>,
}

/// A tenant, as of now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantStatus {
    /// The tenant's name.
    pub name: Tenant,
    /// When its first quota was set, or its first user was created; `CLOCK_REALTIME`, nanoseconds.
    /// 0: neither.
    pub created_ns: i64,
    /// Every quota, in the order of [`Quota::ALL`].
    pub usage: Vec<QuotaStatus>,
}

impl TenantStatus {
    /// What an administrator has set of a quota; `None`: it has its default.
    pub fn amount_set(&self, quota: Quota) -> Option<Amount> {
        let found = self.usage.iter().find(|one| one.quota == quota && one.set);
        found.map(|one| one.amount)
    }
}

/// The handle; cheap to clone.
#[derive(Clone)]
pub struct Tenants {
    inner: Arc<Inner>,
}

struct Inner {
    limits: ArcSwap<Limits>,
    created: Mutex<BTreeMap<Tenant, i64>>,
    store: Store,
    mirror: Mirror,
    /// Held while store, mirror and snapshot are changed, so that all see changes in one order.
    changing: Arc<tokio::sync::Mutex<()>>,
    changes: watch::Sender<u64>,
    meters: Mutex<Vec<Arc<dyn Meter>>>,
    time: Time,
}

/// The right to change what is set.
type Changing = tokio::sync::OwnedMutexGuard<()>;

impl Tenants {
    /// Reads what was set. Where the database is new, it is filled from the mirror; otherwise the
    /// mirror is written anew where it says anything else: a change that was cut short by the
    /// daemon's death was none.
    ///
    /// # Errors
    /// The store's, or, of a new database, a mirror that can't be read, named by its file.
    pub async fn start(store: Store, state_dir: &Path, capacity: Capacity) -> Result<Self, Error> {
        let mirror = Mirror::at(state_dir);
        let mut rows = store.tenants().await?;
        if rows.is_empty() {
            rows = mirror.read()?;
            for row in &rows {
                store.put_tenant(row.clone()).await?;
            }
        } else {
            mirror.follow(&rows);
        }
        let (mut set, mut created) = (BTreeMap::new(), BTreeMap::new());
        for row in rows {
            let name: Tenant = row.name.parse().map_err(|e| {
                Error::internal(format!("the store names a tenant {:?}: {e}", row.name))
            })?;
            created.insert(name.clone(), row.created_ns);
            set.insert(name, readable(&row));
        }
        Ok(Self {
            inner: Arc::new(Inner {
                limits: ArcSwap::from_pointee(Limits { capacity, set }),
                created: Mutex::new(created),
                store,
                mirror,
                changing: Arc::default(),
                changes: watch::Sender::new(0),
                meters: Mutex::new(Vec::new()),
                time: Time::default(),
            }),
        })
    }

    /// Who may have how much, as of now.
    pub fn limits(&self) -> Arc<Limits> {
        self.inner.limits.load_full()
    }

    /// The daemon's time, which tenants share.
    pub fn time(&self) -> &Time {
        &self.inner.time
    }

    /// Counts the changes of the limits, for who has told the kernel of them.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// The node has become larger or smaller (a reloaded configuration).
    pub fn set_capacity(&self, capacity: Capacity) {
        let set = self.limits().set.clone();
        self.publish(Limits { capacity, set });
    }

    /// The owner of a pool is asked from now on what tenants use of it.
    pub fn register(&self, meter: Arc<dyn Meter>) {
        self.meters().push(meter);
    }

    /// A tenant has got its first user.
    ///
    /// # Errors
    /// The store's; `LIMIT_EXCEEDED` past [`MAX_TENANTS`].
    pub async fn ensure(&self, tenant: &Tenant) -> Result<(), Error> {
        let one_at_a_time = self.one_at_a_time().await;
        if self.created().contains_key(tenant) {
            return Ok(());
        }
        let quotas = self.limits().set.get(tenant).cloned().unwrap_or_default();
        self.put(one_at_a_time, tenant, quotas).await
    }

    /// Every tenant that has a user, a quota or a workload.
    pub fn list(&self, _permit: Permit) -> Vec<TenantStatus> {
        let mut names: Vec<Tenant> = self.created().keys().cloned().collect();
        for meter in self.all_meters() {
            names.extend(meter.tenants());
        }
        names.sort_unstable();
        names.dedup();
        names.iter().map(|name| self.status(name)).collect()
    }

    /// One tenant.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn get(&self, _permit: Permit, name: &Tenant) -> Result<TenantStatus, Error> {
        let known = self.created().contains_key(name)
            || self.all_meters().iter().any(|m| m.tenants().contains(name));
        match known {
            true => Ok(self.status(name)),
            false => Err(Error::not_found("tenant", name.to_string())),
        }
    }

    /// Sets some quotas of a tenant, which is created where it isn't there. `None` gives a quota
    /// its default again. What is more already stays: nothing new begins until there is less.
    ///
    /// # Errors
    /// `INVALID_FIELD` for quotas that contradict each other, `LIMIT_EXCEEDED` past
    /// [`MAX_TENANTS`], the store's, the mirror's. Nothing has changed then.
    pub async fn set(
        &self,
        _permit: Permit,
        name: &Tenant,
        changes: &BTreeMap<Quota, Option<Amount>>,
    ) -> Result<TenantStatus, Error> {
        let one_at_a_time = self.one_at_a_time().await;
        let mut quotas = self.limits().set.get(name).cloned().unwrap_or_default();
        for (quota, amount) in changes {
            match amount {
                Some(amount) => drop(quotas.0.insert(*quota, *amount)),
                None => drop(quotas.0.remove(quota)),
            }
        }
        self.check(name, &quotas)?;
        self.put(one_at_a_time, name, quotas).await?;
        Ok(self.status(name))
    }

    /// Forgets a tenant and its quotas. `has_users` is identity's word, asked while no user can
    /// come in between. `clear` removes what is kept of the tenant elsewhere, before its name is
    /// free. Where that fails, or is cut short, the tenant is still there; another call removes it.
    ///
    /// # Errors
    /// `NOT_FOUND`; `NOT_EMPTY` while it has users, images, schedules, or anything that has not
    /// ended; those of `clear`; the store's; the mirror's.
    pub async fn remove(
        &self,
        permit: Permit,
        name: &Tenant,
        has_users: impl FnOnce(&Permit) -> bool + Send,
        clear: impl Future<Output = Result<(), Error>> + Send,
    ) -> Result<(), Error> {
        let one_at_a_time = self.one_at_a_time().await;
        let has_users = has_users(&permit);
        let status = self.get(permit, name)?;
        let living = |s: &&QuotaStatus| {
            let kept = [
                Quota::Cells,
                Quota::Executables,
                Quota::ImageBytes,
                Quota::Schedules,
            ];
            kept.contains(&s.quota) && s.used.is_some_and(|n| n > 0)
        };
        let what = match status.usage.iter().find(living) {
            _ if has_users => Some(("users", "disable its users first, or lower its quotas")),
            Some(status) if status.quota == Quota::ImageBytes => Some((
                "images",
                "remove them first: aurae --tenant NAME image ls, image rm",
            )),
            Some(status) if status.quota == Quota::Schedules => Some((
                "schedules",
                "remove them first: aurae --tenant NAME schedule ls, schedule rm",
            )),
            Some(status) => Some((status.quota.as_str(), "stop them first: aurae stop")),
            None => None,
        };
        if let Some((what, hint)) = what {
            let message = format!("the tenant {name} has {what}");
            return Err(Error::new(Reason::NotEmpty, message)
                .about("tenant", name.to_string())
                .hint(hint));
        }
        clear.await?;
        self.keep(one_at_a_time, name, None).await
    }

    /// Bounds that can't both hold are refused together.
    fn check(&self, name: &Tenant, quotas: &Quotas) -> Result<(), Error> {
        let capacity = self.limits().capacity.clone();
        let set = BTreeMap::from([(name.clone(), quotas.clone())]);
        let limits = Limits { capacity, set };
        let [min, max] =
            [Quota::MemoryMin, Quota::MemoryMax].map(|quota| limits.limit(name, quota));
        if min > max {
            let problem = format!(
                "is {}, more than memory_max, which is {}",
                Quota::MemoryMin.show(min),
                Quota::MemoryMax.show(max)
            );
            return Err(Error::invalid("memory_min", problem));
        }
        Ok(())
    }

    async fn one_at_a_time(&self) -> Changing {
        self.inner.changing.clone().lock_owned().await
    }

    /// Keeps a tenant with these quotas.
    async fn put(
        &self,
        one_at_a_time: Changing,
        name: &Tenant,
        quotas: Quotas,
    ) -> Result<(), Error> {
        let known = self.created().get(name).copied();
        if known.is_none() && self.created().len() >= MAX_TENANTS {
            let message = format!("the node keeps {MAX_TENANTS} tenants, the most it does");
            return Err(Error::new(Reason::LimitExceeded, message));
        }
        let created_ns = known.unwrap_or_else(now_ns);
        self.keep(one_at_a_time, name, Some((created_ns, quotas)))
            .await
    }

    /// Keeps what is set for a tenant, `None`: nothing any more. A client that goes away leaves it
    /// whole.
    async fn keep(
        &self,
        one_at_a_time: Changing,
        name: &Tenant,
        set: Option<(i64, Quotas)>,
    ) -> Result<(), Error> {
        let (this, name) = (self.clone(), name.clone());
        let kept = tokio::spawn(async move {
            let _one_at_a_time = one_at_a_time;
            this.keep_now(&name, set).await
        });
        let broken = |e| Error::internal(format!("the request broke off: {e}"));
        kept.await.map_err(broken)?
    }

    /// On both places of the disk, and then in memory. The mirror is first: after a crash in
    /// between it is written anew from the store, which the change has not reached. Where the store
    /// refuses, the mirror is put back.
    async fn keep_now(&self, name: &Tenant, set: Option<(i64, Quotas)>) -> Result<(), Error> {
        let before = self.rows();
        let mut rows = before.clone();
        rows.retain(|row| row.name != name.as_str());
        let row = set.as_ref().map(|(created_ns, quotas)| TenantRow {
            name: name.to_string(),
            quotas: quotas.to_string(),
            created_ns: *created_ns,
        });
        rows.extend(row.clone());
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let kept = match (self.inner.mirror.write(rows), row) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(row)) => self.inner.store.put_tenant(row).await.map_err(Error::from),
            (Ok(()), None) => {
                let removed = self.inner.store.remove_tenant(name.to_string()).await;
                removed.map(drop).map_err(Error::from)
            }
        };
        if let Err(error) = kept {
            self.inner.mirror.follow(&before);
            return Err(error);
        }
        let mut limits = Limits::clone(&self.limits());
        match set {
            Some((created_ns, quotas)) => {
                self.created().insert(name.clone(), created_ns);
                limits.set.insert(name.clone(), quotas);
            }
            None => {
                self.created().remove(name);
                limits.set.remove(name);
            }
        }
        self.publish(limits);
        Ok(())
    }

    /// What is set now, as it is stored, by name.
    fn rows(&self) -> Vec<TenantRow> {
        let limits = self.limits();
        let created = self.created();
        let rows = created.iter().map(|(name, created_ns)| TenantRow {
            name: name.to_string(),
            quotas: limits
                .set
                .get(name)
                .map(Quotas::to_string)
                .unwrap_or_default(),
            created_ns: *created_ns,
        });
        rows.collect()
    }

    /// What a tenant uses of each quota that a pool counts, in the quota's unit.
    pub fn used(&self, name: &Tenant) -> BTreeMap<Quota, u64> {
        let mut used = BTreeMap::new();
        for meter in self.all_meters() {
            for (quota, amount) in meter.used(name) {
                *used.entry(quota).or_default() += amount;
            }
        }
        used
    }

    fn status(&self, name: &Tenant) -> TenantStatus {
        let limits = self.limits();
        let used = self.used(name);
        let is_set = |quota| {
            limits
                .set
                .get(name)
                .is_some_and(|q| q.0.contains_key(&quota))
        };
        let usage = Quota::ALL.iter().map(|quota| QuotaStatus {
            quota: *quota,
            amount: limits.amount(name, *quota),
            set: is_set(*quota),
            limit: limits.limit(name, *quota),
            used: used.get(quota).copied(),
        });
        TenantStatus {
            name: name.clone(),
            created_ns: self.created().get(name).copied().unwrap_or_default(),
            usage: usage.collect(),
        }
    }

    fn publish(&self, limits: Limits) {
        self.inner.limits.store(Arc::new(limits));
        self.inner.changes.send_modify(|n| *n += 1);
    }

    fn created(&self) -> std::sync::MutexGuard<'_, BTreeMap<Tenant, i64>> {
        self.inner
            .created
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn meters(&self) -> std::sync::MutexGuard<'_, Vec<Arc<dyn Meter>>> {
        self.inner
            .meters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn all_meters(&self) -> Vec<Arc<dyn Meter>> {
        self.meters().clone()
    }
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenants").finish_non_exhaustive()
    }
}

/// What a later daemon has written may hold quotas that this one doesn't know: the tenant has the
/// defaults then, which are bounds, too.
fn readable(row: &TenantRow) -> Quotas {
    row.quotas.parse().unwrap_or_else(|error| {
        tracing::error!(tenant = row.name, %error, "its quotas can't be read; it has the defaults");
        Quotas::default()
    })
}
