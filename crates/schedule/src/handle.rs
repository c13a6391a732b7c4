// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it. How
//! a schedule is declared is in `declare`, and what becomes of its runs in `runs`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::{Effect, Identity, Permit};
use model::error::Error;
use model::name::{Label, Tenant};
use model::quota::Quota;
use model::schedule::Spec;
use model::schedule::given::Texts;
use model::schedule::request::{List, Named};
use model::schedule::spec::Overlap;
use model::schedule::state::Shape;
use model::schedule::steps::Other;
use pod::Pods;
use runtime::{HeldSpec, Runtime};
use store::Store;
use tenants::{Pool, Taken, Tenants};
use tokio::sync::oneshot;

use crate::act::{Actor, Images, Ports};
use crate::configs::Configs;
use crate::declare;
use crate::effects;
use crate::kept::{self, Status};
use crate::room::Room;
use crate::task::{Handle, Order, Others};
use crate::unit::Units;
use crate::watch::Feed;
use crate::yard::{Yard, Yards};

/// What the subsystem is started with.
pub struct Settings {
    /// What a schedule is pinned to, where it may run here.
    pub node_name: String,
    /// How busy the node is.
    pub room: Room,
    /// What `node_labels` of specs are compared with.
    pub node_labels: BTreeMap<String, String>,
    /// Another text for each boot of the node.
    pub boot: String,
    /// Who else runs crontabs on the node, in words, and when to ask again. Waits for nothing.
    pub other_cron: fn() -> Option<(String, Duration)>,
}

/// The handle of the subsystem; cheap to clone.
#[derive(Clone)]
pub struct Schedules {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) ports: Ports,
    pub(crate) store: Store,
    pub(crate) tenants: Tenants,
    pub(crate) pool: Pool,
    pub(crate) yards: Yards,
    pub(crate) directory: Arc<Directory>,
    pub(crate) feed: Arc<Feed>,
}

/// Every schedule.
#[derive(Default)]
pub(crate) struct Directory(Mutex<BTreeMap<Named, Listed>>);

struct Listed {
    handle: Handle,
    counted: Counted,
}

/// What one counts in its tenant's quotas: one of `schedules`, and the bytes of its spec or texts.
pub(crate) type Counted = (Taken, HeldSpec);

impl Directory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Named, Listed>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self, named: &Named) -> Option<Handle> {
        Some(self.lock().get(named)?.handle.clone())
    }

    /// One more.
    pub(crate) fn insert(&self, named: Named, handle: Handle, counted: Counted) {
        self.lock().insert(named, Listed { handle, counted });
    }

    /// Whether its tenant may have that spec in place of the one before, which then counts as much.
    pub(crate) fn admit(&self, named: &Named, spec: &Spec) -> Result<(), Error> {
        match self.lock().get_mut(named) {
            Some(listed) => listed.counted.1.grow(spec).map_err(|e| e.field("spec")),
            None => Ok(()),
        }
    }

    /// This spec counts now.
    pub(crate) fn count(&self, named: &Named, spec: &Spec) {
        if let Some(listed) = self.lock().get_mut(named) {
            listed.counted.1.set(spec);
        }
    }

    /// Another task has taken one up.
    pub(crate) fn replace(&self, named: &Named, handle: Handle) {
        if let Some(listed) = self.lock().get_mut(named) {
            listed.handle = handle;
        }
    }

    /// It is gone.
    pub(crate) fn remove(&self, named: &Named) {
        let gone = self.lock().remove(named);
        drop(gone.map(|listed| listed.counted));
    }
}

impl Others for Directory {
    fn other(&self, tenant: &Tenant, name: &Label) -> Option<Other> {
        let named = Named {
            tenant: tenant.clone(),
            name: name.clone(),
        };
        let status = self.handle(&named)?.status.borrow().clone();
        let last = status.state.last.as_ref();
        Some(Other {
            uid: status.wish.uid,
            ended: status.state.ended,
            succeeded: status.state.succeeded,
            last: last.map(|last| last.success),
            running: status.ready,
        })
    }
}

impl Schedules {
    /// Opens the subsystem, and goes on with what is wished.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn start(
        settings: Settings,
        store: Store,
        tenants: Tenants,
        identity: Arc<Identity>,
        runtime: Runtime,
        pods: Pods,
        images: Arc<dyn Images>,
    ) -> Result<Self, Error> {
        let all = kept::all(&store).await?;
        let pool = Pool::new(&tenants, Quota::Schedules);
        let count = |tenant: &Tenant, texts: &Texts| {
            let held = runtime.hold_spec(tenant, texts, true)?;
            Ok((pool.count(tenant, 1), held))
        };
        let configs = Configs::load(&store, count).await?;
        let [a, b, c, d, e, f, g, h, ..] = declare::new_uid()?.0;
        let epoch = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let schedules = Self {
            shared: Arc::new(Shared {
                settings: Arc::new(settings),
                ports: Ports {
                    runtime,
                    pods,
                    identity,
                    images,
                    configs: Arc::new(configs),
                    units: Arc::default(),
                },
                store,
                pool,
                tenants,
                feed: Arc::new(Feed::new(epoch)),
                yards: Yards::default(),
                directory: Arc::default(),
            }),
        };
        for kept in all {
            let (shared, tenant) = (&schedules.shared, &kept.wish.named.tenant);
            let held = shared
                .ports
                .runtime
                .hold_spec(tenant, &*kept.wish.spec, true)?;
            let counted = (shared.pool.count(tenant, 1), held);
            schedules.shared.clone().begin(kept, counted);
        }
        Ok(schedules)
    }

    /// From now on knows how units of the machine are, for schedules that need one.
    pub fn know_units(&self, units: Units) {
        let (known, yard) = (
            self.shared.ports.units.clone(),
            self.yard(&Tenant::system()),
        );
        tokio::spawn(async move { known.keep(&units, || yard.tell()).await });
    }

    /// One schedule.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn get(&self, permit: &Permit, named: &Named) -> Result<Arc<Status>, Error> {
        permit.demand_tenant(&named.tenant)?;
        Ok(self.shared.find(named)?.status.borrow().clone())
    }

    /// The schedules of a tenant, or of all, by name: a page, and the token of the next one.
    ///
    /// # Errors
    /// `INVALID_FIELD`: the token is none of ours; where the permit does not cover what is asked
    /// for.
    pub fn list(
        &self,
        permit: &Permit,
        list: &List,
    ) -> Result<(Vec<Arc<Status>>, Option<String>), Error> {
        permit.demand_scope(&list.scope)?;
        let from = list.page_token.as_deref().map(parse_token).transpose()?;
        let mut at = from.map_or(Bound::Unbounded, Bound::Excluded);
        let mut page = Vec::new();
        loop {
            // Policies are asked when others may look again.
            let some = self.after(at.clone(), list.page_size);
            let last = some.len() < list.page_size;
            for (named, status) in some {
                let asked = list.scope.includes(&named.tenant);
                if asked && permit.shows(&named.tenant, &named.path()) {
                    if page.len() == list.page_size {
                        let told = page.last().map(|it: &Arc<Status>| token_of(&it.wish.named));
                        return Ok((page, told));
                    }
                    page.push(status);
                }
                at = Bound::Excluded(named);
            }
            if last {
                return Ok((page, None));
            }
        }
    }

    /// Some schedules of all tenants, in order, with what is published of them.
    pub(crate) fn after(&self, from: Bound<Named>, most: usize) -> Vec<(Named, Arc<Status>)> {
        let all = self.shared.directory.lock();
        let some = all.range((from, Bound::Unbounded)).take(most);
        some.map(|(named, listed)| (named.clone(), listed.handle.status.borrow().clone()))
            .collect()
    }

    /// What is published of one.
    pub(crate) fn status(&self, named: &Named) -> Option<Arc<Status>> {
        Some(self.shared.directory.handle(named)?.status.borrow().clone())
    }

    /// A tenant was removed, which had no schedule any more: what is kept of those it had goes.
    pub fn tenant_is_gone(&self, tenant: &Tenant) {
        self.shared.feed.drop_tenant(tenant);
    }

    /// What a schedule was made from, for the node itself; `None`: there is none of that name.
    pub fn kind_of(&self, named: &Named) -> Option<String> {
        Some(self.status(named)?.wish.spec.kind.clone())
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.shared.feed
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn configs(&self) -> &Configs {
        &self.shared.ports.configs
    }

    pub(crate) fn yard(&self, tenant: &Tenant) -> Arc<Yard> {
        self.shared.yards.of(tenant)
    }

    /// One more of the tenant's schedules, or of what counts as one.
    pub(crate) fn take(&self, tenant: &Tenant) -> Result<Taken, Error> {
        self.shared.pool.take(tenant, 1)
    }

    /// The texts of a config, in the tenant's quota.
    pub(crate) fn hold_texts(&self, tenant: &Tenant, texts: &Texts) -> Result<HeldSpec, Error> {
        self.shared.ports.runtime.hold_spec(tenant, texts, false)
    }

    /// What running it now does beside: replicas are replaced, and so is a run where that is its
    /// way with another one.
    ///
    /// # Errors
    /// Never for a schedule that was declared.
    pub fn effects_of_trigger(&self, named: &Named) -> Result<Vec<Effect>, Error> {
        let Some(handle) = self.shared.directory.handle(named) else {
            return Ok(Vec::new());
        };
        let status = handle.status.borrow().clone();
        let spec = &status.wish.spec;
        if spec.replicas.is_none() && spec.overlap != Overlap::Replace {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        for run in &status.state.runs {
            all.extend(effects::stop(&run.shape, &named.run(run.number)?));
        }
        Ok(all)
    }

    /// Runs it now.
    ///
    /// # Errors
    /// `NOT_FOUND`; `WRONG_STATE` while a run goes on that allows no other one;
    /// `PERMISSION_DENIED`: the permit does not cover [`Schedules::effects_of_trigger`].
    pub async fn trigger(&self, permit: Permit, named: &Named) -> Result<Arc<Status>, Error> {
        permit.demand_tenant(&named.tenant)?;
        for effect in self.effects_of_trigger(named)? {
            permit.demand(&named.tenant, &effect)?;
        }
        self.ask(named, Order::Trigger).await
    }

    /// Lets nothing begin by itself.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn pause(&self, permit: Permit, named: &Named) -> Result<Arc<Status>, Error> {
        permit.demand_tenant(&named.tenant)?;
        let by = format!("{} paused it", permit.user());
        self.ask(named, |reply| Order::Pause(by, reply)).await
    }

    /// Goes on.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn resume(&self, permit: Permit, named: &Named) -> Result<Arc<Status>, Error> {
        permit.demand_tenant(&named.tenant)?;
        self.ask(named, Order::Resume).await
    }

    /// Stops its runs, and forgets it.
    ///
    /// # Errors
    /// `NOT_FOUND`, `DEGRADED`, and what stopping a run may fail with; it stays then.
    pub async fn remove(&self, permit: Permit, named: &Named) -> Result<(), Error> {
        permit.demand_tenant(&named.tenant)?;
        let (schedules, named) = (self.clone(), named.clone());
        // A client that goes away leaves it whole, or gone.
        let removed = tokio::spawn(async move {
            let yard = schedules.shared.yards.of(&named.tenant);
            let _one_at_a_time = yard.declaring.lock().await;
            let order = |reply| Order::Remove(permit, reply);
            schedules.ask(&named, order).await
        });
        let broken = |e| Error::internal(format!("the request broke off: {e}"));
        removed.await.map_err(broken)?
    }

    /// What the removal of a schedule does: the ends of its runs.
    ///
    /// # Errors
    /// Never for a schedule that was declared.
    pub fn effects_of_remove(&self, named: &Named) -> Result<Vec<Effect>, Error> {
        let Some(handle) = self.shared.directory.handle(named) else {
            return Ok(Vec::new());
        };
        let status = handle.status.borrow().clone();
        let mut all = Vec::new();
        for number in self.shared.actor(named).pods() {
            all.extend(effects::leave(&Shape::Pod, &named.run(number)?));
        }
        for run in &status.state.runs {
            all.extend(effects::leave(&run.shape, &named.run(run.number)?));
        }
        Ok(all)
    }

    pub(crate) async fn ask<T>(
        &self,
        named: &Named,
        order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
    ) -> Result<T, Error> {
        ask(&self.shared.find(named)?, named, order).await
    }
}

pub(crate) async fn ask<T>(
    handle: &Handle,
    named: &Named,
    order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
) -> Result<T, Error> {
    // Who looks after the task holds the other end of its status until it is gone.
    let gone = || match handle.status.has_changed() {
        Err(_) => Error::not_found("schedule", named.name.to_string()),
        Ok(_) => {
            let message = format!("the schedule {} broke off", named.name);
            Error::internal(message).hint("the node takes it up again: ask once more")
        }
    };
    let (reply, answer) = oneshot::channel();
    let sent = handle.orders.send(order(reply)).await;
    sent.map_err(|_| gone())?;
    answer.await.unwrap_or_else(|_| Err(gone()))
}

fn token_of(named: &Named) -> String {
    format!("{}/{}", named.tenant, named.name)
}

fn parse_token(token: &str) -> Result<Named, Error> {
    let parsed = token.split_once('/').and_then(|(tenant, name)| {
        Some(Named {
            tenant: tenant.parse().ok()?,
            name: name.parse().ok()?,
        })
    });
    parsed.ok_or_else(|| {
        Error::invalid("page_token", "is not one that this node gave out")
            .hint("pass next_page_token of the previous page, or none")
    })
}

impl Shared {
    pub(crate) fn find(&self, named: &Named) -> Result<Handle, Error> {
        let found = self.directory.handle(named);
        found.ok_or_else(|| Error::not_found("schedule", named.name.to_string()))
    }

    pub(crate) fn actor(&self, named: &Named) -> Actor {
        Actor {
            ports: self.ports.clone(),
            named: named.clone(),
        }
    }
}
