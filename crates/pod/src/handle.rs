// SPDX-License-Identifier: Apache-2.0
//! What `auraed/rpc` calls: a method per RPC, each with the `Permit` that identity gave for it.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use identity::{Effect, Identity, Permit};
use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant, Uid};
use model::object::ObjectRef;
use model::pod::env::Facts;
use model::pod::request::{Dial, RemovePod, RunPod, StopPod, WaitFor};
use model::pod::spec::PodSpec;
use model::pod::status::PodStatus;
use model::pod::volume::Source;
use model::request::{RunCell, Scope, WaitFor as WaitForCell};
use model::status::{CellStatus, Object};
use runtime::Runtime;
use tenants::Tenants;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::cell::program::{Around, pod_cell};
use crate::cell::volumes::Volumes;
use crate::cell::{CellSandbox, effects};
use crate::kept::{Kept, Seal};
use crate::sandbox::Stream;
use crate::task::{Beginning, Handle, Order, Task};

const RUN_CELL: &str = "runtime.RunCell";
const RUN_EXECUTABLE: &str = "runtime.RunExecutable";
const STOP: &str = "runtime.Stop";
const REMOVE: &str = "runtime.Remove";

/// How many questions of probes a tenant may have open. More wait.
const QUESTIONS: usize = 32;
/// How long a connection to a port may take.
const DIAL: Duration = Duration::from_secs(10);

/// What the subsystem is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node's state directory; `pods` in it is the subsystem's.
    pub state_dir: PathBuf,
    /// What containers are told.
    pub node_name: String,
    /// In bytes.
    pub node_memory: u64,
}

/// The handle of the subsystem; cheap to clone.
#[derive(Clone)]
pub struct Pods {
    shared: Arc<Shared>,
}

struct Shared {
    runtime: Runtime,
    identity: Arc<Identity>,
    tenants: Tenants,
    settings: Settings,
    folder: PathBuf,
    seal: Arc<Seal>,
    pods: Mutex<BTreeMap<Key, Handle>>,
    questions: Mutex<BTreeMap<Tenant, Arc<Semaphore>>>,
}

type Key = (Tenant, ObjectPath);

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
                settings,
                folder,
                pods: Mutex::default(),
                questions: Mutex::default(),
            }),
        };
        pods.adopt();
        tokio::spawn({
            let pods = pods.clone();
            async move {
                // Cells whose inits were silent are there now, or never.
                pods.shared.runtime.logs_are_known().await;
                pods.adopt();
                pods.shared.sweep();
            }
        });
        Ok(pods)
    }

    /// Goes on with the pods that nobody keeps yet.
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

    /// Makes a pod and begins to start its containers.
    ///
    /// # Errors
    /// `ALREADY_EXISTS`, `PERMISSION_DENIED` (a folder of the node, for who is no administrator),
    /// and what making a cell may fail with. Nothing is left behind.
    pub async fn run(&self, permit: Permit, request: RunPod) -> Result<PodStatus, Error> {
        let RunPod { tenant, path, .. } = &request;
        for action in [RUN_CELL, RUN_EXECUTABLE] {
            permit.demand(tenant, &Effect::below(action, path))?;
        }
        if let Some(effect) = self.replaced(tenant, path) {
            permit.demand(tenant, &effect)?;
        }
        admits(&permit, &request.spec)?;
        let wait_for = request.wait_for;
        let shared = self.shared.clone();
        // A client that goes away leaves the pod whole.
        let made = tokio::spawn(async move { shared.make(request).await }).await;
        let handle = made.map_err(|e| Error::internal(format!("the request broke off: {e}")))??;
        let mut status = handle.status.clone();
        let enough = |status: &PodStatus| match wait_for {
            WaitFor::Created => true,
            WaitFor::Ready => status.ready || status.phase.is_final(),
            WaitFor::Ended => status.phase.is_final(),
        };
        match status.wait_for(enough).await {
            Ok(status) => Ok(self.shared.fresh(status.clone())),
            // It was removed meanwhile: as it was.
            Err(_) => Ok(handle.status.borrow().clone()),
        }
    }

    /// The effect of running at a name whose finished record would be replaced.
    pub fn replaced(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Effect> {
        let standing = self.shared.runtime.standing(tenant, path)?;
        standing.ended.then(|| Effect::on(REMOVE, path))
    }

    /// One pod.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn get(&self, permit: Permit, target: &ObjectRef) -> Result<PodStatus, Error> {
        permit.demand_tenant(&target.tenant)?;
        let handle = self.shared.find(target)?;
        let status = handle.status.borrow().clone();
        Ok(self.shared.fresh(status))
    }

    /// The status of a pod as it changes, for a subsystem of the node that keeps it; `None`: there
    /// is no such pod. Its sender goes with the pod.
    pub fn seen(&self, tenant: &Tenant, path: &ObjectPath) -> Option<watch::Receiver<PodStatus>> {
        Some(self.shared.handle(tenant, path)?.status)
    }

    /// The pods of a tenant, or of all, by path.
    ///
    /// # Errors
    /// Where the permit does not cover what is asked for.
    pub fn list(&self, permit: &Permit, scope: &Scope) -> Result<Vec<PodStatus>, Error> {
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
        let pods = self.shared.lock();
        let shown = pods
            .iter()
            .filter(|((tenant, path), _)| asked(tenant) && permit.shows(tenant, path));
        let statuses: Vec<_> = shown
            .map(|(_, handle)| handle.status.borrow().clone())
            .collect();
        drop(pods);
        Ok(statuses
            .into_iter()
            .map(|it| self.shared.fresh(it))
            .collect())
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
        Ok(self.shared.fresh(status))
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
    /// `NOT_FOUND`, `WRONG_STATE` where nothing listens there, `DEADLINE`.
    pub async fn dial(&self, permit: Permit, request: Dial) -> Result<Box<dyn Stream>, Error> {
        permit.demand_tenant(&request.target.tenant)?;
        let handle = self.shared.find(&request.target)?;
        handle.sandbox.dial(request.port, DIAL).await
    }
}

/// What reaches out of the tenant's own cells is for administrators.
fn admits(permit: &Permit, spec: &PodSpec) -> Result<(), Error> {
    if permit.is_administrator() {
        return Ok(());
    }
    let mut volumes = spec.volumes.iter().enumerate();
    let refused = volumes.find_map(|(i, volume)| match &volume.source {
        Source::Host(host) => {
            let what = format!("mounting {} of the node", host.path);
            Some((what, format!("pod.spec.volumes[{i}].host")))
        }
        // It is on the node's disk, and nothing bounds it there.
        Source::Empty => {
            let what = format!(
                "the empty volume {}, whose size has no bound yet,",
                volume.name
            );
            Some((what, format!("pod.spec.volumes[{i}].empty")))
        }
        Source::Files(_) => None,
    });
    match refused {
        None => Ok(()),
        Some((what, field)) => {
            let message = format!("{what} is for administrators");
            let error = Error::new(Reason::PermissionDenied, message).field(field);
            Err(error.hint("leave it out, or have an administrator run the pod in your tenant"))
        }
    }
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Handle>> {
        // Nothing panics while it is held.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Handle> {
        self.lock().get(&(tenant.clone(), path.clone())).cloned()
    }

    fn find(&self, target: &ObjectRef) -> Result<Handle, Error> {
        let found = self.handle(&target.tenant, &target.path);
        let found = found.filter(|it| target.uid.is_none_or(|uid| uid == it.uid));
        found.ok_or_else(|| Error::not_found("pod", target.path.to_string()))
    }

    /// With the names and labels that the pod's cell has now.
    fn fresh(&self, mut status: PodStatus) -> PodStatus {
        let seen = self.runtime.seen(&status.meta.tenant, &status.meta.path);
        if let Some(seen) = seen
            && seen.meta().uid == status.meta.uid
        {
            status.meta = seen.meta().clone();
        }
        status
    }

    async fn make(self: Arc<Self>, request: RunPod) -> Result<Handle, Error> {
        let RunPod {
            tenant,
            path,
            labels,
            spec,
            ..
        } = request;
        let kept = Kept {
            spec,
            stop: None,
            ends: BTreeMap::new(),
        };
        let permit = self.permit(&tenant, &path)?;
        let part = permit.part(vec![Effect::on(RUN_CELL, &path), Effect::on(REMOVE, &path)])?;
        let cell = RunCell {
            labels,
            spec: pod_cell(&kept.spec)?,
            request_id: None,
            wait_for: WaitForCell::Started,
            annex: Some(self.seal.seal(&tenant, &path, &kept)?),
            tenant,
            path,
        };
        let made = self.runtime.run_cell(part, cell).await?;
        match &*made {
            Object::Cell(cell) => Ok(self.keep(cell, kept, permit)),
            Object::Executable(_) => Err(Error::internal("a cell was made that is none")),
        }
    }

    fn adopt(self: &Arc<Self>, cell: &CellStatus) -> Result<(), Error> {
        let meta = &cell.meta;
        let Some(annex) = &cell.annex else {
            return Ok(());
        };
        let kept = self.seal.read(&meta.tenant, &meta.path, annex);
        let kept = kept.map_err(|why| {
            let message = format!("the record of {} is no pod's: {why}", meta.path);
            Error::new(Reason::WrongState, message)
        })?;
        let permit = self.permit(&meta.tenant, &meta.path)?;
        self.keep(cell, kept, permit);
        Ok(())
    }

    /// The node's permit for all that keeping a pod takes: one line in the audit for each daemon.
    fn permit(&self, tenant: &Tenant, path: &ObjectPath) -> Result<Permit, Error> {
        let permit = self.identity.node_permit_in(tenant.clone(), effects(path));
        permit.map_err(Error::from)
    }

    /// Begins the task of a pod.
    fn keep(self: &Arc<Self>, cell: &CellStatus, kept: Kept, permit: Permit) -> Handle {
        let meta = cell.meta.clone();
        let key = (meta.tenant.clone(), meta.path.clone());
        let root_id = cell.first_uid.unwrap_or(0);
        let sandbox = Arc::new(CellSandbox {
            runtime: self.runtime.clone(),
            permit,
            seal: self.seal.clone(),
            tenant: meta.tenant.clone(),
            path: meta.path.clone(),
            uid: meta.uid,
            spec: kept.spec.clone(),
            volumes: Volumes::new(&self.folder, meta.uid, root_id),
            around: Around {
                facts: Facts {
                    pod_name: meta.path.name().to_owned(),
                    tenant: meta.tenant.to_string(),
                    pod_uid: meta.uid.to_string(),
                    node_name: self.settings.node_name.clone(),
                },
                node_bytes: self.settings.node_memory,
            },
        });
        let (task, handle) = Task::new(Beginning {
            sandbox,
            questions: self.questions(&meta.tenant),
            meta,
            kept,
        });
        self.lock().insert(key.clone(), handle.clone());
        let (shared, uid) = (self.clone(), handle.uid);
        let share = self.tenants.share(&key.0);
        tokio::spawn(async move {
            let waiting = share.run(task.run()).await;
            shared.forget(&key, uid);
            for waiter in waiting {
                let _ = waiter.send(Ok(()));
            }
        });
        handle
    }

    fn forget(&self, key: &Key, uid: Uid) {
        let mut pods = self.lock();
        if pods.get(key).is_some_and(|handle| handle.uid == uid) {
            pods.remove(key);
        }
    }

    fn questions(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let questions = self.questions.lock();
        let mut questions = questions.unwrap_or_else(PoisonError::into_inner);
        let open = || Arc::new(Semaphore::new(QUESTIONS));
        questions.entry(tenant.clone()).or_insert_with(open).clone()
    }

    /// Removes the folders of pods that are no more. One whose record can't be read, or for which
    /// there is no permit now, may live all the same: what its cell is is the runtime's to say.
    fn sweep(&self) {
        let cells = self.runtime.annexed();
        let living: HashSet<_> = cells.iter().map(|it| it.meta().uid.to_string()).collect();
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of_pod = name.parse::<Uid>().is_ok();
            // A pod has its folder after its name is known.
            if of_pod
                && !self.knows(&name)
                && !living.contains(&name)
                && let Err(error) = std::fs::remove_dir_all(entry.path())
            {
                tracing::warn!(%error, "the volumes of a pod that is no more stay behind");
            }
        }
    }

    fn knows(&self, uid: &str) -> bool {
        self.lock().values().any(|it| it.uid.to_string() == uid)
    }
}
