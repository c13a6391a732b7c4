// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it.

use std::ops::Bound;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use identity::{Effect, Identity, Permit};
use model::error::Error;
use model::name::{ObjectPath, Tenant};
use model::object::ObjectRef;
use model::pod::request::{
    DebugPod, Dial, ListPods, RemovePod, RunPod, StopPod, UpdatePod, WaitFor,
};
use model::pod::status::PodStatus;
use model::request::Scope;
use model::status::Object;
use runtime::Runtime;
use tenants::Tenants;
use tokio::sync::{oneshot, watch};

use crate::admit;
use crate::elsewhere::{Classes, Placed, Seen};
use crate::kept::Seal;
use crate::reach::Stream;
use crate::shared::{Shared, random};
use crate::task::{Handle, Order};
use crate::watch::{Feed, Key};

/// Bytes of specs that end a page: with one more its message is below the 4 MiB that clients read.
const PAGE_BYTES: u64 = 2 << 20;
/// Pods that are looked at in one step.
const STEP: usize = 64;

const RUN_CELL: &str = "runtime.RunCell";
const RUN_EXECUTABLE: &str = "runtime.RunExecutable";
const UPDATE_CELL: &str = "runtime.UpdateCell";
const STOP: &str = "runtime.Stop";
const REMOVE: &str = "runtime.Remove";
const UPDATE_POD: &str = "pod.Update";
const STOP_POD: &str = "pod.Stop";
const REMOVE_POD: &str = "pod.Remove";

/// How long a connection to a port may take.
const DIAL: Duration = Duration::from_secs(10);

/// What the subsystem is started with.
pub struct Settings {
    /// The node's state directory; `pods` in it is the subsystem's.
    pub state_dir: PathBuf,
    /// What containers are told.
    pub node_name: String,
    /// In bytes.
    pub node_memory: u64,
    /// The folder of filters of system calls that containers may name.
    pub seccomp_profiles: PathBuf,
    /// Other daemons on which pods run.
    pub classes: Classes,
}

/// The handle of the subsystem; cheap to clone.
#[derive(Clone)]
pub struct Pods {
    shared: Arc<Shared>,
}

impl Pods {
    /// Opens the subsystem, and goes on with the pods of an earlier daemon.
    ///
    /// # Errors
    /// Where its folder can't be used.
    pub fn start(
        settings: Settings,
        runtime: Runtime,
        identity: Arc<Identity>,
        tenants: Tenants,
    ) -> std::io::Result<Self> {
        let folder = settings.state_dir.join("pods");
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder)?;
        let pods = Self {
            shared: Arc::new(Shared {
                seal: Arc::new(Seal::open(&folder)?),
                runtime,
                identity,
                tenants,
                classes: settings.classes.clone(),
                settings,
                folder,
                pods: Mutex::default(),
                questions: Mutex::default(),
                feed: Arc::new(Feed::new(u64::from_ne_bytes(random()?))),
                of_node: Arc::default(),
                known: watch::Sender::new(false),
            }),
        };
        pods.adopt();
        tokio::spawn({
            let pods = pods.clone();
            async move {
                // Cells whose inits were silent are there now, or never.
                pods.shared.runtime.logs_are_known().await;
                pods.adopt();
                pods.shared.known.send_replace(true);
                let shared = pods.shared.clone();
                pods.remove_strays();
                // What workloads have left may be much.
                let removed = tokio::task::spawn_blocking(move || shared.remove_orphans()).await;
                if let Err(error) = removed {
                    tracing::warn!(%error, "volumes of pods that are no more stay behind");
                }
            }
        });
        Ok(pods)
    }

    /// Resolves once the pods of an earlier daemon are there, or never will be; for a subsystem of
    /// the node that keeps some.
    pub async fn are_known(&self) {
        // The sender is as old as the handle.
        let _ = self.shared.known.subscribe().wait_for(|known| *known).await;
    }

    /// Resolves once something is known of every pod that runs elsewhere, if no more than that its
    /// daemon is silent; at the latest after that time. Who asks before is shown pods that nothing
    /// is known of.
    pub async fn are_seen(&self, within: Duration) {
        let away = self.shared.handles().into_iter().filter_map(|it| it.away);
        let seen = away.map(|(class, at)| {
            let mut seen = self.shared.classes.named(&class).follow(&at);
            async move {
                // The sender is the port's.
                let _ = seen.wait_for(|seen| !matches!(seen, Seen::Unknown)).await;
            }
        });
        let seen = futures_util::future::join_all(seen);
        if tokio::time::timeout(within, seen).await.is_err() {
            tracing::warn!("nothing is known yet of some pods that run elsewhere");
        }
    }

    /// Goes on with the pods that this daemon doesn't keep yet.
    fn adopt(&self) {
        for object in self.shared.runtime.annexed() {
            let Object::Cell(cell) = &*object else {
                continue;
            };
            let known = self.shared.handle(&cell.meta.tenant, &cell.meta.path);
            if known.is_some_and(|handle| handle.uid == cell.meta.uid) {
                continue;
            }
            if let Err(error) = self.shared.adopt(cell) {
                let path = &cell.meta.path;
                tracing::error!(%path, %error, "a pod can't be gone on with");
            }
        }
    }

    /// Removes from other daemons what this node runs there no more: its places here went while it
    /// had no daemon, or that one was silent.
    fn remove_strays(&self) {
        for there in self.shared.classes.others.values() {
            let (shared, there) = (self.shared.clone(), there.clone());
            tokio::spawn(async move {
                loop {
                    let found = there.found().await;
                    for at in found.into_iter().filter(|at| !shared.has(at)) {
                        if let Err(error) = there.remove(&at, true).await {
                            tracing::warn!(pod = %at.path, %error, "a stray stays elsewhere");
                        }
                    }
                }
            });
        }
    }

    /// The daemon that has what is at a path, where that is in a pod that runs elsewhere or is one.
    pub fn away(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Placed> {
        let around = std::iter::successors(Some(path.clone()), ObjectPath::parent);
        let mut around = around.filter_map(|path| self.shared.handle(tenant, &path)?.away);
        around.next().map(|(class, at)| Placed {
            is_the_pod: at.path == *path,
            class,
        })
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Makes a pod and begins to start its containers.
    ///
    /// # Errors
    /// `ALREADY_EXISTS`, `PERMISSION_DENIED` (a folder of the node, its network or one of its own
    /// ports, or a program without a filter, for who is no administrator), `LIMIT_EXCEEDED`
    /// (volumes in memory, or ports, beyond the tenant's quota), and what making a cell may fail
    /// with. Nothing is left behind.
    pub async fn run(&self, permit: Permit, request: RunPod) -> Result<PodStatus, Error> {
        let RunPod { tenant, path, .. } = &request;
        for action in [RUN_CELL, RUN_EXECUTABLE] {
            permit.demand(tenant, &Effect::below(action, path))?;
        }
        if let Some(effect) = self.replaced(tenant, path) {
            permit.demand(tenant, &effect)?;
        }
        self.admit(&permit, &request)?;
        let for_a_member = !permit.is_administrator();
        let wait_for = request.wait_for;
        let shared = self.shared.clone();
        // A client that goes away leaves the pod whole.
        let made = tokio::spawn(async move { shared.make(request, for_a_member).await }).await;
        let handle = made.map_err(|e| Error::internal(format!("the request broke off: {e}")))??;
        let mut status = handle.status.clone();
        let enough = |status: &PodStatus| match wait_for {
            WaitFor::Created => true,
            WaitFor::Ready => status.ready || status.phase.is_final(),
            WaitFor::Ended => status.phase.is_final(),
        };
        match status.wait_for(enough).await {
            Ok(status) => Ok(self.shared.fresh_or_last(status.clone())),
            // It was removed meanwhile: as it was.
            Err(_) => Ok(handle.status.borrow().clone()),
        }
    }

    /// Whether the caller may ask for such a pod: before its images are asked for at registries.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`, by what is for administrators; `INVALID_FIELD`, by what can't be there.
    pub fn admit(&self, permit: &Permit, request: &RunPod) -> Result<(), Error> {
        let there = self.shared.classes.of(&request.spec)?;
        let class = there.map(|it| it.class());
        admit::check(permit, &request.spec, &request.path, class)?;
        let network = &request.spec.network;
        let runtime = &self.shared.runtime;
        runtime.check_network(permit, network, "pod.spec.network")
    }

    /// The effect of running at a name whose finished record would be replaced.
    pub fn replaced(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Effect> {
        let standing = self.shared.runtime.standing(tenant, path)?;
        standing.ended.then(|| Effect::on(REMOVE, path))
    }

    /// The pods that an act on a cell or a program of the runtime's concerns: the one that it is
    /// of, and those inside of it. They are cells to every call of the runtime, so what is denied
    /// of a pod is denied there, too.
    fn concerned(&self, target: &ObjectRef) -> Vec<ObjectPath> {
        let pods = self.shared.lock();
        let of_tenant = pods.keys().filter(|(tenant, _)| *tenant == target.tenant);
        let near = |path: &&ObjectPath| target.path.is_within(path) || path.is_within(&target.path);
        of_tenant
            .map(|(_, path)| path)
            .filter(near)
            .cloned()
            .collect()
    }

    /// The effects on pods of a call that stops something of the runtime's.
    pub fn effects_of_stop(&self, target: &ObjectRef) -> Vec<Effect> {
        let pods = self.concerned(target).into_iter();
        pods.map(|path| Effect::on(STOP_POD, &path)).collect()
    }

    /// Of a call that removes it; `stops`: and stops it before.
    pub fn effects_of_remove(&self, target: &ObjectRef, stops: bool) -> Vec<Effect> {
        let actions: &[&'static str] = match stops {
            true => &[STOP_POD, REMOVE_POD],
            false => &[REMOVE_POD],
        };
        let pods = self.concerned(target).into_iter();
        let effects = pods.flat_map(|path| actions.iter().map(move |it| Effect::on(it, &path)));
        effects.collect()
    }

    /// Of a call that changes the limits of a cell.
    pub fn effect_of_update(&self, target: &ObjectRef) -> Option<Effect> {
        let pods = self.concerned(target).into_iter();
        let mut own = pods.filter(|path| target.path.is_within(path));
        own.next().map(|path| Effect::on(UPDATE_POD, &path))
    }

    /// One pod.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn get(&self, permit: Permit, target: &ObjectRef) -> Result<PodStatus, Error> {
        permit.demand_tenant(&target.tenant)?;
        let status = self.shared.find(target)?.status.borrow().clone();
        let fresh = self.shared.fresh(status);
        fresh.ok_or_else(|| Error::not_found("pod", target.path.to_string()))
    }

    /// The status of a pod as it changes, for a subsystem of the node that keeps it; `None`: there
    /// is no such pod. Its sender goes with the pod.
    pub fn seen(&self, tenant: &Tenant, path: &ObjectPath) -> Option<watch::Receiver<PodStatus>> {
        Some(self.shared.handle(tenant, path)?.status)
    }

    /// The pods of a tenant, or of all, by path: a page, and the token of the next one.
    ///
    /// # Errors
    /// `INVALID_FIELD`: the token is none of ours; where the permit does not cover what is asked
    /// for.
    pub fn list(
        &self,
        permit: &Permit,
        list: &ListPods,
    ) -> Result<(Vec<PodStatus>, Option<String>), Error> {
        permit.demand_scope(&list.scope)?;
        let from = list.page_token.as_deref();
        let from = from
            .map(|token| parse_token(token, &list.scope))
            .transpose()?;
        let mut at = from.map_or_else(|| first_of(&list.scope), Bound::Excluded);
        let (mut page, mut bytes) = (Vec::new(), 0);
        loop {
            // Others may look between two steps.
            let some = self.shared.after(at.clone(), STEP);
            let last = some.len() < STEP;
            for (key, status) in some {
                if !list.scope.includes(&key.0) {
                    return Ok((page, None));
                }
                if permit.shows(&key.0, &key.1) {
                    if page.len() == list.page_size || bytes > PAGE_BYTES {
                        let told = page.last().map(token_of);
                        return Ok((page, told));
                    }
                    bytes += runtime::spec_length(&status.spec);
                    page.push(status);
                }
                at = Bound::Excluded(key);
            }
            if last {
                return Ok((page, None));
            }
        }
    }

    /// Changes a running pod.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where it ends, `INVALID_FIELD` by what can't be changed. Nothing
    /// has changed then.
    pub async fn update(&self, permit: Permit, request: UpdatePod) -> Result<PodStatus, Error> {
        let target = &request.target;
        permit.demand(&target.tenant, &Effect::below(UPDATE_CELL, &target.path))?;
        let handle = self.shared.find(target)?;
        let update = Box::new((request.spec, request.labels));
        let status = ask(&handle, target, |reply| Order::Update(update, reply)).await?;
        Ok(self.shared.fresh_or_last(status))
    }

    /// Adds a container to a running pod; answers when its program runs.
    ///
    /// # Errors
    /// `NOT_FOUND`, `PERMISSION_DENIED` (a program without a filter, or a volume that is for
    /// administrators), `WRONG_STATE` where it ends, `INVALID_FIELD`, `LIMIT_EXCEEDED`, and what
    /// making a cell and starting a program may fail with.
    pub async fn debug(&self, permit: Permit, request: DebugPod) -> Result<PodStatus, Error> {
        let target = &request.target;
        for action in [RUN_CELL, RUN_EXECUTABLE] {
            permit.demand(&target.tenant, &Effect::below(action, &target.path))?;
        }
        let handle = self.shared.find(target)?;
        // What a volume is can't be changed while the pod runs.
        let spec = handle.status.borrow().spec.clone();
        admit::check_debug(&permit, &spec, &request.debug.container)?;
        let debug = Box::new(request.debug);
        let status = ask(&handle, target, |reply| Order::Debug(debug, reply)).await?;
        Ok(self.shared.fresh_or_last(status))
    }

    /// Ends the containers of a pod; answers when they have.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub async fn stop(&self, permit: Permit, request: StopPod) -> Result<PodStatus, Error> {
        let target = &request.target;
        permit.demand(&target.tenant, &Effect::below(STOP, &target.path))?;
        let handle = self.shared.find(target)?;
        let own = || handle.status.borrow().spec.grace();
        let grace = request.grace.unwrap_or_else(own);
        let status = ask(&handle, target, |reply| Order::Stop(grace, reply)).await?;
        Ok(self.shared.fresh_or_last(status))
    }

    /// A tenant was removed, which had no pod any more: what is kept of those it had goes.
    pub fn tenant_is_gone(&self, tenant: &Tenant) {
        self.shared.drop_tenant(tenant);
    }

    /// Ends the containers of all pods, because the node goes down: each pod within its own grace,
    /// and all within that time. What has not ended then ends with the cells.
    pub async fn end_all(&self, within: Duration) {
        let ends = self.shared.handles().into_iter().map(async |handle| {
            let (reply, answer) = oneshot::channel();
            let grace = handle.status.borrow().spec.grace().min(within);
            if handle.orders.send(Order::Stop(grace, reply)).await.is_ok() {
                // One that is gone has ended.
                drop(answer.await);
            }
        });
        let ends = futures_util::future::join_all(ends);
        if tokio::time::timeout(within, ends).await.is_err() {
            tracing::warn!(?within, "pods have not ended in time; their cells end now");
        }
    }

    /// Resolves when every pod is gone with what it had on the node, at the latest after that time:
    /// its cells have ended.
    pub async fn all_gone(&self, within: Duration) {
        let mut changed = self.shared.feed.subscribe();
        let gone =
            async { while !self.shared.handles().is_empty() && changed.changed().await.is_ok() {} };
        if tokio::time::timeout(within, gone).await.is_err() {
            tracing::warn!("volumes of pods stay behind until the next start");
        }
    }

    /// Removes a pod with its logs and volumes.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where it runs, without `force`.
    pub async fn remove(&self, permit: Permit, request: RemovePod) -> Result<(), Error> {
        let target = &request.target;
        permit.demand(&target.tenant, &Effect::below(REMOVE, &target.path))?;
        if request.force {
            permit.demand(&target.tenant, &Effect::below(STOP, &target.path))?;
        }
        let handle = self.shared.find(target)?;
        let force = request.force;
        ask(&handle, target, |reply| Order::Remove(force, reply)).await
    }

    /// Connects to a port of a pod.
    ///
    /// # Errors
    /// `NOT_FOUND`, `WRONG_STATE` where nothing listens there, `DEADLINE`, `PERMISSION_DENIED` for
    /// who is no administrator where the pod is on the node's own network.
    pub async fn dial(&self, permit: Permit, request: Dial) -> Result<Box<dyn Stream>, Error> {
        permit.demand_tenant(&request.target.tenant)?;
        let handle = self.shared.find(&request.target)?;
        admit::check_dial(&permit, &handle.status.borrow().spec)?;
        handle.ports.dial(None, request.port, DIAL).await
    }
}

/// Where the pods of a scope begin. No path comes before it.
fn first_of(scope: &Scope) -> Bound<Key> {
    let Scope::Tenant(tenant) = scope else {
        return Bound::Unbounded;
    };
    let first = "0".parse().map(|path| (tenant.clone(), path));
    first.map_or(Bound::Unbounded, Bound::Included)
}

fn token_of(status: &PodStatus) -> String {
    format!("{}:{}", status.meta.tenant, status.meta.path)
}

fn parse_token(token: &str, scope: &Scope) -> Result<Key, Error> {
    let parsed = token.split_once(':');
    let parsed = parsed.and_then(|(tenant, path)| Some((tenant.parse().ok()?, path.parse().ok()?)));
    parsed
        .filter(|(tenant, _)| scope.includes(tenant))
        .ok_or_else(|| {
            Error::invalid("page_token", "is not one that this node gave out")
                .hint("pass next_page_token of the previous page, or none")
        })
}

async fn ask<T>(
    handle: &Handle,
    target: &ObjectRef,
    order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Order,
) -> Result<T, Error> {
    let gone = || Error::not_found("pod", target.path.to_string());
    let (reply, answer) = oneshot::channel();
    let sent = handle.orders.send(order(reply)).await;
    sent.map_err(|_| gone())?;
    answer.await.unwrap_or_else(|_| Err(gone()))
}
