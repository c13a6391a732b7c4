// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use identity::{Effect, Identity, Permit, UserKey};
use model::error::Error;
use model::name::{Label, Tenant, Uid};
use model::object::ObjectRef;
use model::quota::Quota;
use model::request::Scope;
use model::schedule::request::{Declare, Named};
use model::schedule::state::Shape;
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
        actor.check_labels(&spec.work)?;
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
        let each = |(named, listed): (&Named, &Listed)| {
            asked(&named.tenant).then(|| (named.clone(), listed.handle.status.clone()))
        };
        // Policies are asked when others may look again.
        let all: Vec<_> = self
            .shared
            .directory
            .lock()
            .iter()
            .filter_map(each)
            .collect();
        let shown = all
            .iter()
            .filter(|(named, _)| permit.shows(&named.tenant, &named.path()));
        Ok(shown.map(|(_, status)| status.borrow().clone()).collect())
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

    /// Whose run that is, or a program of it: the schedule and the number of its run. Only what
    /// goes on and is what the reference says.
    fn owner_of(&self, target: &ObjectRef) -> Option<(Named, u64)> {
        let ObjectRef { tenant, path, .. } = target;
        let (name, number) = path.labels().first()?.as_str().rsplit_once('-')?;
        let number = number.parse().ok()?;
        let named = Named {
            tenant: tenant.clone(),
            name: name.parse().ok()?,
        };
        let status = self.shared.directory.handle(&named)?.status;
        let status = status.borrow().clone();
        let run = status.state.runs.iter().find(|it| it.number == number)?;
        // Not what a user runs beside the programs, nor `web-03`.
        let own = named.run(number).ok()?;
        let below = |name| effects::below(&own, name).is_ok_and(|it| it == *path);
        if own != *path && !run.shape.programs().iter().any(below) {
            return None;
        }
        let seen = self.shared.ports.runtime.seen(tenant, path)?;
        let meta = seen.meta();
        let meant = target.uid.is_none_or(|uid| uid == meta.uid)
            && target.kind.is_none_or(|kind| kind == meta.kind);
        (meant && !seen.state().is_final()).then_some((named, number))
    }

    /// The effect, beside its own, of a call that stops what is there: the schedule that has begun
    /// it wishes it no more.
    pub fn effect_of_stop(&self, target: &ObjectRef) -> Option<Effect> {
        let (named, _) = self.owner_of(target)?;
        Some(Effect::on(PAUSE, &named.path()))
    }

    /// Stops something, as `stop` says, with the permit for that. Where it is a schedule's run, its
    /// owner is told before, so that none follows it; and again, where the stop fails.
    ///
    /// # Errors
    /// Those of `stop`; `PERMISSION_DENIED`: the permit does not cover
    /// [`Schedules::effect_of_stop`].
    pub async fn stopping<T, F: Future<Output = Result<T, Error>>>(
        &self,
        permit: Permit,
        target: &ObjectRef,
        stop: impl FnOnce(Permit) -> F,
    ) -> Result<T, Error> {
        let Some((named, number)) = self.owner_of(target) else {
            return stop(permit).await;
        };
        permit.demand(&target.tenant, &Effect::on(PAUSE, &named.path()))?;
        let by = format!("{} stopped run {number}", permit.user());
        let asked = |reply| Order::StopAsked(number, by.clone(), reply);
        self.ask(&named, asked).await?;
        let stopped = stop(permit).await;
        if stopped.is_err() {
            let failed = |reply| Order::StopFailed(number, by, reply);
            if let Err(error) = self.ask(&named, failed).await {
                tracing::warn!(schedule = %named.name, %error, "a stop that failed is not untold");
            }
        }
        stopped
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
        if !same {
            self.check_chain(&named, &spec)?;
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

    /// What follows itself, also through others, would run for ever.
    fn check_chain(&self, named: &Named, spec: &Spec) -> Result<(), Error> {
        let mut next = spec.follows().cloned();
        let mut seen = BTreeSet::new();
        while let Some(name) = next {
            if name == named.name {
                let error = Error::invalid(
                    "spec.when.after.schedule",
                    "leads back to this schedule: each end would begin it again",
                );
                return Err(error.hint("have one of them begin at a time, or NOW"));
            }
            let other = Named {
                tenant: named.tenant.clone(),
                name: name.clone(),
            };
            let handle = self.directory.handle(&other).filter(|_| seen.insert(name));
            next = handle.and_then(|it| it.status.borrow().wish.spec.follows().cloned());
        }
        Ok(())
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
