// SPDX-License-Identifier: Apache-2.0
//! The pods that there are: how one comes to be, is gone on with after an earlier daemon, and goes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use identity::{Effect, Identity, Permit};
use model::cell;
use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::pod::env::Facts;
use model::pod::request::RunPod;
use model::pod::status::PodStatus;
use model::request::{Remove, RunCell, Stop, WaitFor};
use model::status::{CellStatus, Meta, Object};
use runtime::volume::Held;
use runtime::{HeldSpec, Runtime};
use tenants::{Share, Tenants};
use tokio::sync::{Semaphore, oneshot, watch};

use crate::address::OfNode;
use crate::cell::left;
use crate::cell::program::{Around, pod_cell};
use crate::cell::remove::remove;
use crate::cell::volumes::Volumes;
use crate::cell::{CLASS, CellSandbox, effects};
use crate::elsewhere::task::AwayTask;
use crate::elsewhere::{self, Classes, Elsewhere, Place};
use crate::handle::Settings;
use crate::kept::{Away, Kept, Seal};
use crate::task::{Beginning, Handle, Task};
use crate::watch::{Feed, Gone, Key};

const RUN_CELL: &str = "runtime.RunCell";
const REMOVE: &str = "runtime.Remove";
const STOP: &str = "runtime.Stop";

/// Who waits for a pod to be gone.
type Waiting = Vec<oneshot::Sender<Result<(), Error>>>;

/// How many questions of probes a tenant may have open. More wait.
const QUESTIONS: usize = 32;
/// What every part of the subsystem reaches.
pub(crate) struct Shared {
    pub(crate) runtime: Runtime,
    pub(crate) identity: Arc<Identity>,
    pub(crate) tenants: Tenants,
    pub(crate) settings: Settings,
    pub(crate) classes: Classes,
    pub(crate) folder: PathBuf,
    pub(crate) seal: Arc<Seal>,
    pub(crate) pods: Mutex<BTreeMap<Key, Handle>>,
    pub(crate) questions: Mutex<BTreeMap<Tenant, Arc<Semaphore>>>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) of_node: Arc<OfNode>,
    /// Those of an earlier daemon are there.
    pub(crate) known: watch::Sender<bool>,
}

/// What the pod's cell is refused for stands in the pod's spec under the same name.
fn of_pod(error: Error) -> Error {
    error.renamed("cell.spec", "pod.spec")
}

fn place(meta: &Meta, away: &Away) -> Place {
    Place {
        tenant: meta.tenant.clone(),
        path: meta.path.clone(),
        uid: meta.uid,
        for_a_member: away.for_a_member,
    }
}

/// Bits that an attacker can't guess.
pub(crate) fn random<T: Default + AsMut<[u8]>>() -> std::io::Result<T> {
    let mut bits = T::default();
    rustix::rand::getrandom(bits.as_mut(), rustix::rand::GetRandomFlags::empty())?;
    Ok(bits)
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Handle>> {
        // Nothing panics while it is held.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Handle> {
        self.lock().get(&(tenant.clone(), path.clone())).cloned()
    }

    pub(crate) fn find(&self, target: &ObjectRef) -> Result<Handle, Error> {
        let found = self.handle(&target.tenant, &target.path);
        let found = found.filter(|it| target.uid.is_none_or(|uid| uid == it.uid));
        found.ok_or_else(|| Error::not_found("pod", target.path.to_string()))
    }

    /// With the names, labels and addresses that the pod's cell has now; `None`: its cell was
    /// removed, with a cell around it or by itself. Who was told so finds no pod any more, also
    /// where its task hasn't come to its end.
    pub(crate) fn fresh(&self, mut status: PodStatus) -> Option<PodStatus> {
        let seen = self.runtime.seen(&status.meta.tenant, &status.meta.path)?;
        if seen.meta().uid != status.meta.uid {
            return None;
        }
        status.meta = seen.meta().clone();
        // What is on another daemon is on that one's network.
        if &*status.sandbox_class == CLASS {
            if let Object::Cell(cell) = &*seen {
                status.network = cell.network.clone();
            }
            status.host_addresses = self.of_node.now();
        }
        Some(status)
    }

    /// The same of a pod that answered for itself: as it was, where it was removed meanwhile.
    pub(crate) fn fresh_or_last(&self, status: PodStatus) -> PodStatus {
        self.fresh(status.clone()).unwrap_or(status)
    }

    /// `for_a_member`: who asks is no administrator.
    pub(crate) async fn make(
        self: Arc<Self>,
        request: RunPod,
        for_a_member: bool,
    ) -> Result<Handle, Error> {
        let RunPod {
            tenant,
            path,
            labels,
            spec,
            ..
        } = request;
        let mut kept = Kept::new(spec);
        let there = self.classes.of(&kept.spec)?.cloned();
        kept.away = there.as_ref().map(|there| Away {
            class: there.class().to_owned(),
            for_a_member,
            begun: false,
        });
        let uid = Uid(random().map_err(|e| Error::internal(format!("no random bits: {e}")))?);
        let held = self
            .runtime
            .hold_storage(&tenant, kept.spec.storage(), false);
        let held = held.map_err(|e| e.field("pod.spec.volumes"))?;
        let counted = self.runtime.hold_spec(&tenant, &kept.counted(), false);
        let counted = counted.map_err(|e| e.field("pod.spec"))?;
        let permit = self.permit(&tenant, &path)?;
        let part = permit.part(vec![Effect::on(RUN_CELL, &path), Effect::on(REMOVE, &path)])?;
        let cell = RunCell {
            labels,
            spec: match &there {
                None => pod_cell(&kept.spec).map_err(of_pod)?,
                // Nothing runs in it: it is the pod's place on this node.
                Some(_) => cell::Draft::default().try_into()?,
            },
            request_id: None,
            wait_for: WaitFor::Started,
            annex: Some((uid, self.seal.seal(&tenant, &path, uid, &kept)?)),
            for_a_member,
            tenant,
            path,
        };
        let made = self.runtime.run_cell(part, cell).await.map_err(of_pod)?;
        let Object::Cell(cell) = &*made else {
            return Err(Error::internal("a cell was made that is none"));
        };
        let at = kept.away.as_ref().map(|away| place(&cell.meta, away));
        if let Some((there, at)) = there.as_deref().zip(at) {
            let begun = elsewhere::task::begin(there, &at, &cell.meta.labels, &kept.spec).await;
            if let Err(error) = begun {
                self.take_back(there, &permit, &at).await;
                return Err(error);
            }
            kept.away.iter_mut().for_each(|away| away.begun = true);
        }
        Ok(self.keep(cell, kept, permit, (held, counted)))
    }

    /// A pod could not be begun elsewhere: nothing of it stays here, nor there. What can't be
    /// reached now is a stray there later.
    async fn take_back(&self, there: &dyn Elsewhere, permit: &Permit, at: &Place) {
        let effects = vec![
            Effect::below(REMOVE, &at.path),
            Effect::below(STOP, &at.path),
        ];
        let target = ObjectRef {
            uid: Some(at.uid),
            kind: Some(Kind::Cell),
            ..ObjectRef::new(at.tenant.clone(), at.path.clone())
        };
        let remove = Remove {
            target,
            recursive: true,
            force: true,
        };
        let here = match permit.part(effects) {
            Ok(permit) => self.runtime.remove(permit, remove).await.map(drop),
            Err(error) => Err(error),
        };
        there.forget(at);
        for error in [here, there.remove(at, true).await]
            .into_iter()
            .filter_map(Result::err)
        {
            tracing::warn!(pod = %at.path, %error, "a pod that never began stays behind");
        }
    }

    pub(crate) fn adopt(self: &Arc<Self>, cell: &CellStatus) -> Result<(), Error> {
        let meta = &cell.meta;
        let Some(annex) = &cell.annex else {
            return Ok(());
        };
        let kept = self.seal.read(&meta.tenant, &meta.path, meta.uid, annex);
        let kept = match kept {
            Ok(kept) => kept,
            Err(why) => {
                self.end(meta);
                let message = format!("the record of {} is no pod's: {why}", meta.path);
                return Err(Error::new(Reason::WrongState, message));
            }
        };
        let permit = self.permit(&meta.tenant, &meta.path)?;
        // They are there, whatever the quota is now.
        let storage = kept.spec.storage();
        let held = self.runtime.hold_storage(&meta.tenant, storage, true)?;
        let counted = self
            .runtime
            .hold_spec(&meta.tenant, &kept.counted(), true)?;
        self.keep(cell, kept, permit, (held, counted));
        Ok(())
    }

    /// Kills a cell that says of itself that it is a pod's, or has a pod's folder, without a record
    /// that the node has sealed. What its volumes hold counts in no quota, and would go on to be
    /// held by its containers where the folder alone were removed.
    fn end(self: &Arc<Self>, meta: &Meta) {
        let (shared, meta) = (self.clone(), meta.clone());
        tokio::spawn(async move {
            let path = &meta.path;
            tracing::error!(%path, "its record is no pod's: the cell is killed");
            match shared.kill(&meta).await {
                Ok(()) => {
                    let volumes = Volumes::left(&shared.folder, meta.uid);
                    left::until_removed((), meta.path, move || volumes.remove()).await;
                }
                Err(error) => tracing::error!(%path, %error, "it can't be killed"),
            }
        });
    }

    async fn kill(&self, meta: &Meta) -> Result<(), Error> {
        let (tenant, path) = (meta.tenant.clone(), meta.path.clone());
        let effects = vec![Effect::below(STOP, &path)];
        let permit = self.identity.node_permit_in(tenant.clone(), effects);
        let target = ObjectRef {
            tenant,
            path,
            uid: Some(meta.uid),
            kind: Some(Kind::Cell),
        };
        let grace = Some(Duration::ZERO);
        match self.runtime.stop(permit?, Stop { target, grace }).await {
            Err(error) if error.reason != Reason::NotFound => Err(error),
            // What isn't there has ended.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The node's permit for all that keeping a pod takes: one line in the audit for each daemon.
    fn permit(&self, tenant: &Tenant, path: &ObjectPath) -> Result<Permit, Error> {
        let permit = self.identity.node_permit_in(tenant.clone(), effects(path));
        permit.map_err(Error::from)
    }

    /// Begins the task of a pod.
    fn keep(
        self: &Arc<Self>,
        cell: &CellStatus,
        kept: Kept,
        permit: Permit,
        (held, counted): (Held, HeldSpec),
    ) -> Handle {
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
            volumes: Volumes::new(&self.folder, meta.uid, root_id, &kept.spec),
            spec: RwLock::new(Arc::new(kept.spec.clone())),
            told: Mutex::default(),
            held: Mutex::new(Some(held)),
            counted: Mutex::new(counted),
            around: Around {
                facts: Facts {
                    pod_name: meta.path.name().to_owned(),
                    tenant: meta.tenant.to_string(),
                    pod_uid: meta.uid.to_string(),
                    node_name: self.settings.node_name.clone(),
                    ..Facts::default()
                },
                node_bytes: self.settings.node_memory,
                filter: String::new(),
            },
            filters: Arc::from(self.settings.seccomp_profiles.as_path()),
            of_node: self.of_node.clone(),
        });
        let share = self.tenants.share(&key.0);
        let (run, handle) = self.task(sandbox, meta, kept, &share);
        let (shared, uid) = (self.clone(), handle.uid);
        self.lock().insert(key.clone(), handle.clone());
        self.feed.changed(&key, uid);
        tokio::spawn(async move {
            let waiting = share.run(run).await;
            shared.forget(&key, uid);
            for waiter in waiting {
                let _ = waiter.send(Ok(()));
            }
        });
        handle
    }

    /// What keeps a pod in its sandbox, or on the daemon of its class, and what reaches it.
    fn task(
        &self,
        sandbox: Arc<CellSandbox>,
        meta: Meta,
        kept: Kept,
        share: &Share,
    ) -> (BoxFuture<'static, Waiting>, Handle) {
        let feed = self.feed.clone();
        let Some(away) = &kept.away else {
            let (task, handle) = Task::new(Beginning {
                sandbox,
                questions: self.questions(&meta.tenant),
                share: share.clone(),
                feed,
                meta,
                kept,
            });
            return (Box::pin(task.run()), handle);
        };
        let (task, handle) = AwayTask::new(elsewhere::task::Beginning {
            there: self.classes.named(&away.class),
            own: sandbox,
            at: place(&meta, away),
            feed,
            meta,
            kept,
        });
        (Box::pin(task.run()), handle)
    }

    /// Whether a pod elsewhere has its place on this node.
    pub(crate) fn has(&self, at: &Place) -> bool {
        // Its place is made before it is begun.
        self.runtime.living(at.uid).is_some()
    }

    fn forget(&self, key: &Key, uid: Uid) {
        let mut pods = self.lock();
        if pods.get(key).is_some_and(|handle| handle.uid == uid)
            && let Some(handle) = pods.remove(key)
        {
            drop(pods);
            let status = handle.status.borrow();
            let (meta, phase) = (status.meta.clone(), status.phase);
            self.feed.gone(key, uid, Gone { meta, phase });
        }
    }

    pub(crate) fn drop_tenant(&self, tenant: &Tenant) {
        let questions = self.questions.lock();
        let mut questions = questions.unwrap_or_else(PoisonError::into_inner);
        questions.remove(tenant);
        self.feed.drop_tenant(tenant);
        for there in self.classes.others.values() {
            there.tenant_is_gone(tenant);
        }
    }

    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.lock().values().cloned().collect()
    }

    /// The status of a pod that is there.
    pub(crate) fn status(&self, key: &Key) -> Option<PodStatus> {
        let handle = self.lock().get(key).cloned()?;
        let status = handle.status.borrow().clone();
        self.fresh(status)
    }

    /// The next pods by name, of every tenant: fewer than `most` are the last.
    pub(crate) fn after(&self, mut from: Bound<Key>, most: usize) -> Vec<(Key, PodStatus)> {
        let mut next = Vec::new();
        while next.len() < most {
            let some = self.handles_after(from, most - next.len());
            let Some((last, _)) = some.last() else { break };
            from = Bound::Excluded(last.clone());
            next.extend(some.into_iter().filter_map(|(key, handle)| {
                let status = handle.status.borrow().clone();
                Some((key, self.fresh(status)?))
            }));
        }
        next
    }

    fn handles_after(&self, from: Bound<Key>, most: usize) -> Vec<(Key, Handle)> {
        let pods = self.lock();
        let next = pods.range((from, Bound::Unbounded)).take(most);
        next.map(|(key, handle)| (key.clone(), handle.clone()))
            .collect()
    }

    fn questions(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let questions = self.questions.lock();
        let mut questions = questions.unwrap_or_else(PoisonError::into_inner);
        let open = || Arc::new(Semaphore::new(QUESTIONS));
        questions.entry(tenant.clone()).or_insert_with(open).clone()
    }

    /// Removes the folders of pods that are no more. A cell that lives without a record, and has a
    /// pod's folder, is killed first; one whose record is there was gone on with, was killed, or
    /// there is no permit for it now.
    pub(crate) fn remove_orphans(self: &Arc<Self>) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // A pod has its folder after its name is known.
            let Ok(uid) = name.parse::<Uid>() else {
                continue;
            };
            if self.knows(uid) {
                continue;
            }
            match self.runtime.living(uid).as_deref() {
                Some(Object::Cell(cell)) if cell.annex.is_none() => self.end(&cell.meta),
                Some(_) => {}
                None => {
                    if let Err(error) = remove(&entry.path()) {
                        tracing::warn!(%error, "the volumes of a pod that is no more stay behind");
                    }
                }
            }
        }
    }

    fn knows(&self, uid: Uid) -> bool {
        self.lock().values().any(|it| it.uid == uid)
    }
}
