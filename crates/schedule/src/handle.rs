// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use identity::{Effect, Identity, Permit, UserKey};
use model::error::Error;
use model::name::{Label, ObjectPath, Tenant, Uid};
use model::quota::Quota;
use model::request::Scope;
use model::schedule::request::{Declare, Named};
use model::schedule::steps::Other;
use model::schedule::{Spec, State, When, Why};
use pod::Pods;
use runtime::Runtime;
use store::Store;
use tenants::{Pool, Taken, Tenants};
use tokio::sync::oneshot;

use crate::act::{Actor, Images, Ports};
use crate::effects;
use crate::kept::{self, Kept, Status, Wish};
use crate::room::Room;
use crate::task::{Beginning, Handle, Order, Others, Task};
use crate::yard::Yards;

const DECLARE: &str = "schedule.Declare";
const PAUSE: &str = "schedule.Pause";

/// What the subsystem is started with.
pub struct Settings {
    /// What a schedule is pinned to, where it may run here.
    pub node_name: String,
    /// How busy the node is.
    pub room: Room,
}

/// The handle of the subsystem; cheap to clone.
#[derive(Clone)]
pub struct Schedules {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    ports: Ports,
    store: Store,
    tenants: Tenants,
    pool: Pool,
    yards: Yards,
    directory: Arc<Directory>,
}

/// Every schedule.
#[derive(Default)]
struct Directory(Mutex<BTreeMap<Named, Listed>>);

struct Listed {
    handle: Handle,
    /// Of the tenant's quota.
    _taken: Taken,
}

impl Directory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Named, Listed>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, named: &Named) -> Option<Handle> {
        Some(self.lock().get(named)?.handle.clone())
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
            last: last.map(|last| (last.number, last.success)),
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
        let schedules = Self {
            shared: Arc::new(Shared {
                settings,
                ports: Ports {
                    runtime,
                    pods,
                    identity,
                    images,
                },
                store,
                pool: Pool::new(&tenants, Quota::Schedules),
                tenants,
                yards: Yards::default(),
                directory: Arc::default(),
            }),
        };
        for kept in all {
            let taken = schedules.shared.pool.count(&kept.wish.named.tenant, 1);
            schedules.shared.begin(kept, taken);
        }
        Ok(schedules)
    }

    /// Keeps a schedule, for the user of the permit.
    ///
    /// # Errors
    /// `INVALID_FIELD` (another node's, or a time that is past), `LIMIT_EXCEEDED`, `DEGRADED`.
    /// Nothing has changed then.
    pub async fn declare(&self, permit: Permit, request: Declare) -> Result<Arc<Status>, Error> {
        let Declare { named, spec } = request;
        permit.demand(&named.tenant, &Effect::on(DECLARE, &named.path()))?;
        for effect in self.effects_of_declare(&named, &spec)? {
            permit.demand(&named.tenant, &effect)?;
        }
        self.check_node(&spec)?;
        let owner = permit.user().clone();
        let shared = self.shared.clone();
        // A client that goes away leaves it whole.
        let declared = tokio::spawn(async move { shared.declare(named, spec, owner).await });
        let broken = |e| Error::internal(format!("the request broke off: {e}"));
        declared.await.map_err(broken)?
    }

    /// What the runs of a schedule do, at its name: its declaration needs permission for that.
    ///
    /// # Errors
    /// `INVALID_FIELD`: what is to run can't be named so.
    pub fn effects_of_declare(&self, named: &Named, spec: &Spec) -> Result<Vec<Effect>, Error> {
        let actor = self.shared.actor(named);
        actor.effects_of_start(&spec.work, &named.path())
    }

    fn check_node(&self, spec: &Spec) -> Result<(), Error> {
        let own = &self.shared.settings.node_name;
        if spec.node.is_empty() || spec.node == *own {
            return Ok(());
        }
        let problem = format!("is {}, but this node is {own}", spec.node);
        Err(Error::invalid("spec.node", problem).hint(format!(
            "declare it there: `aurae config get-contexts` shows the contexts, \
             `aurae --node CONTEXT schedule …` asks the node {}",
            spec.node
        )))
    }

    /// One schedule.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn get(&self, permit: &Permit, named: &Named) -> Result<Arc<Status>, Error> {
        permit.demand_tenant(&named.tenant)?;
        Ok(self.shared.find(named)?.status.borrow().clone())
    }

    /// The schedules of a tenant, or of all, by name.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn list(&self, permit: &Permit, scope: &Scope) -> Result<Vec<Arc<Status>>, Error> {
        match scope {
            Scope::Tenant(tenant) => permit.demand_tenant(tenant)?,
            Scope::Every if permit.every_tenant() => {}
            Scope::Every => {
                return Err(Error::internal("the permit does not cover every tenant"));
            }
        }
        let asked = |tenant: &Tenant| match scope {
            Scope::Tenant(asked) => asked == tenant,
            Scope::Every => true,
        };
        let all = self.shared.directory.lock();
        let shown = all.iter().filter(|(named, _)| {
            asked(&named.tenant) && permit.shows(&named.tenant, &named.path())
        });
        Ok(shown
            .map(|(_, listed)| listed.handle.status.borrow().clone())
            .collect())
    }

    /// Runs it now.
    ///
    /// # Errors
    /// `NOT_FOUND`; `WRONG_STATE` while a run goes on that allows no other one.
    pub async fn trigger(&self, permit: Permit, named: &Named) -> Result<Arc<Status>, Error> {
        permit.demand_tenant(&named.tenant)?;
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
        let yard = self.shared.yards.of(&named.tenant);
        let _one_at_a_time = yard.declaring.lock().await;
        self.ask(named, |reply| Order::Remove(permit, reply)).await
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
        let work = &status.wish.spec.work;
        let actor = self.shared.actor(named);
        let mut numbers = actor.pods(work, status.state.numbers);
        numbers.extend(status.state.runs.iter().map(|run| run.number));
        numbers.sort_unstable();
        numbers.dedup();
        let mut all = Vec::new();
        for number in numbers {
            all.extend(effects::leave(work, &named.run(number)?));
        }
        Ok(all)
    }

    /// Whose run is at a path, or around it: the schedule and the number of its run.
    pub fn owner_of(&self, tenant: &Tenant, path: &ObjectPath) -> Option<(Named, u64)> {
        let (name, number) = path.labels().first()?.as_str().rsplit_once('-')?;
        let number = number.parse().ok()?;
        let named = Named {
            tenant: tenant.clone(),
            name: name.parse().ok()?,
        };
        let status = self.shared.directory.handle(&named)?.status;
        let runs = |it: &model::schedule::state::Run| it.number == number;
        let owned = status.borrow().state.runs.iter().any(runs);
        owned.then_some((named, number))
    }

    /// The effect, beside its own, of a call that stops what is at a path: the schedule that has
    /// begun it wishes it no more.
    pub fn effect_of_stop(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Effect> {
        let (named, _) = self.owner_of(tenant, path)?;
        Some(Effect::on(PAUSE, &named.path()))
    }

    /// Tells the owner of what is at a path that a user stops it now. To be called with the permit
    /// for that, before the stop.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`: the permit does not cover [`Schedules::effect_of_stop`].
    pub async fn stop_asked(
        &self,
        permit: &Permit,
        tenant: &Tenant,
        path: &ObjectPath,
    ) -> Result<(), Error> {
        let Some((named, number)) = self.owner_of(tenant, path) else {
            return Ok(());
        };
        permit.demand(tenant, &Effect::on(PAUSE, &named.path()))?;
        let by = format!("{} stopped run {number}", permit.user());
        self.ask(&named, |reply| Order::StopAsked(number, by, reply))
            .await
    }

    async fn ask<T>(
        &self,
        named: &Named,
        order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
    ) -> Result<T, Error> {
        ask(&self.shared.find(named)?, named, order).await
    }
}

async fn ask<T>(
    handle: &Handle,
    named: &Named,
    order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
) -> Result<T, Error> {
    let gone = || Error::not_found("schedule", named.name.to_string());
    let (reply, answer) = oneshot::channel();
    let sent = handle.orders.send(order(reply)).await;
    sent.map_err(|_| gone())?;
    answer.await.unwrap_or_else(|_| Err(gone()))
}

impl Shared {
    fn find(&self, named: &Named) -> Result<Handle, Error> {
        let found = self.directory.handle(named);
        found.ok_or_else(|| Error::not_found("schedule", named.name.to_string()))
    }

    fn actor(&self, named: &Named) -> Actor {
        Actor {
            ports: self.ports.clone(),
            named: named.clone(),
        }
    }

    async fn declare(
        self: Arc<Self>,
        named: Named,
        spec: Spec,
        owner: UserKey,
    ) -> Result<Arc<Status>, Error> {
        let yard = self.yards.of(&named.tenant);
        let _one_at_a_time = yard.declaring.lock().await;
        let now = runtime::now();
        let known = self.directory.handle(&named);
        let same = known.as_ref().is_some_and(|handle| {
            let status = handle.status.borrow();
            *status.wish.spec == spec && status.wish.owner == owner
        });
        if let (When::At(time), false) = (&spec.when, same)
            && *time <= now
        {
            let error = Error::invalid("spec.when.at", "is a time that has passed");
            return Err(error.hint("leave `when` out to run it now"));
        }
        if let Some(handle) = known {
            if same {
                return Ok(handle.status.borrow().clone());
            }
            let spec = Arc::new(spec);
            return ask(&handle, &named, |reply| Order::Declare(spec, owner, reply)).await;
        }
        let taken = self.pool.take(&named.tenant, 1)?;
        let mut state = State::new(&spec, now);
        // Of one of that name that was removed: the records of its runs are still there.
        state.numbers = self.actor(&named).last_number();
        let wish = Wish {
            named,
            uid: new_uid()?,
            generation: 1,
            owner,
            created: now,
            changed: now,
            spec: Arc::new(spec),
        };
        self.store.put_schedule(kept::row(&wish, &state)?).await?;
        let kept = Kept {
            wish,
            state,
            history: VecDeque::new(),
            lines: 0,
        };
        let mut status = self.begin(kept, taken).status;
        // Its first step, which says what it waits for.
        let first =
            |status: &Arc<Status>| status.why != Why::Starting || !status.state.runs.is_empty();
        let status = status.wait_for(first).await;
        let gone = |_| Error::internal("the task of a schedule ended early");
        status.map(|status| status.clone()).map_err(gone)
    }

    /// Begins the task of a schedule.
    fn begin(self: &Arc<Self>, kept: Kept, taken: Taken) -> Handle {
        let named = kept.wish.named.clone();
        let (task, handle) = Task::new(Beginning {
            actor: self.actor(&named),
            store: self.store.clone(),
            tenants: self.tenants.clone(),
            room: self.settings.room.clone(),
            yard: self.yards.of(&named.tenant),
            others: self.directory.clone(),
            kept,
        });
        let listed = Listed {
            handle: handle.clone(),
            _taken: taken,
        };
        self.directory.lock().insert(named.clone(), listed);
        let share = self.tenants.share(&named.tenant);
        let (directory, yard) = (self.directory.clone(), self.yards.of(&named.tenant));
        tokio::spawn(async move {
            let waiting = share.run(task.run()).await;
            directory.lock().remove(&named);
            yard.news
                .send_modify(|count| *count = count.wrapping_add(1));
            if let Some(waiter) = waiting {
                let _ = waiter.send(Ok(()));
            }
        });
        handle
    }
}

/// 128 random bits.
fn new_uid() -> Result<Uid, Error> {
    let mut bits = [0; 16];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::internal(format!("no random bits: {e}")).errno(e.raw_os_error()))?;
    Ok(Uid(bits))
}
