// SPDX-License-Identifier: Apache-2.0
//! A sandbox that is a cell of this node: the pod's cell, a nested one for each container, and in
//! that the executable `main`. All of it is the runtime's; here is what it is asked for, with
//! permits that are parts of the one that the node has for the pod. [`port`] is the port's methods;
//! [`settle`] brings what there is to what the spec says now.

mod files;
mod host;
mod last_word;
pub(crate) mod left;
mod port;
pub(crate) mod program;
pub(crate) mod remove;
mod seccomp;
mod settle;
pub(crate) mod volumes;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use identity::{Effect, Permit};
use model::cell::{CellSpec, Mount};
use model::error::{Error, Reason};
use model::exit::Exit;
use model::label::Labels;
use model::name::{Label, ObjectPath, Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::pod::debug::{ASK, Debug, MAIN};
use model::pod::spec::{Container, PodSpec};
use model::pod::steps::Count;
use model::pod::user;
use model::request::{Remove, RunCell, RunExecutable, Stop, UpdateExecutable, WaitFor};
use model::status::{ExecutableStatus, Object};
use runtime::beside::{exit_of, unique_name};
use runtime::volume::Held;
use runtime::{HeldSpec, Runtime};

use crate::address::OfNode;
use crate::kept::Seal;
use crate::sandbox::{Program, Sandbox};
use program::Around;
use volumes::Volumes;

/// The name of this class of sandboxes.
pub(crate) const CLASS: &str = "cell";

const RUN_CELL: &str = "runtime.RunCell";
const RUN_EXECUTABLE: &str = "runtime.RunExecutable";
const UPDATE_EXECUTABLE: &str = "runtime.UpdateExecutable";
const UPDATE_CELL: &str = "runtime.UpdateCell";
const GET: &str = "runtime.Get";
const WAIT: &str = "runtime.Wait";
const STOP: &str = "runtime.Stop";
const REMOVE: &str = "runtime.Remove";

/// What the node does in a pod by itself.
const ACTIONS: [&str; 8] = [
    RUN_CELL,
    RUN_EXECUTABLE,
    UPDATE_CELL,
    UPDATE_EXECUTABLE,
    GET,
    WAIT,
    STOP,
    REMOVE,
];

/// The effects of keeping a pod.
pub(crate) fn effects(pod: &ObjectPath) -> Vec<Effect> {
    let below = |action: &&'static str| Effect::below(action, pod);
    ACTIONS.iter().map(below).collect()
}

/// The label that says how often a container was started again before a run.
const RESTARTS: &str = "pod.aurae/restarts";
/// The same since it ran for long.
const IN_A_ROW: &str = "pod.aurae/restarts-in-a-row";
/// The label of a run for which what is asked after a start was done.
const STARTED: &str = "pod.aurae/started";

/// See the module.
pub(crate) struct CellSandbox {
    pub(crate) runtime: Runtime,
    /// The node's, for all that it does in the pod.
    pub(crate) permit: Permit,
    pub(crate) seal: Arc<Seal>,
    pub(crate) tenant: Tenant,
    pub(crate) path: ObjectPath,
    pub(crate) uid: Uid,
    /// As it is to be now.
    pub(crate) spec: RwLock<Arc<PodSpec>>,
    pub(crate) volumes: Volumes,
    /// The labels that its files tell; `None`: it isn't known.
    pub(crate) told: Mutex<Option<Labels>>,
    /// What its volumes take of the tenant's memory, until they are removed.
    pub(crate) held: Mutex<Option<Held>>,
    /// What its spec counts in its tenant's quota.
    pub(crate) counted: Mutex<HeldSpec>,
    pub(crate) around: Around,
    pub(crate) of_node: Arc<OfNode>,
    /// The node's filters of system calls.
    pub(crate) filters: Arc<Path>,
}

impl CellSandbox {
    fn counted(&self) -> MutexGuard<'_, HeldSpec> {
        // Nothing panics while it is held.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self, action: &'static str, path: &ObjectPath) -> Result<Permit, Error> {
        self.permit.part(vec![Effect::below(action, path)])
    }

    fn below(&self, path: &ObjectPath, name: &str) -> Result<ObjectPath, Error> {
        let broken = |e: model::name::InvalidName| Error::invalid("pod.ref.path", e);
        path.child(name.parse::<Label>().map_err(broken)?)
            .map_err(broken)
    }

    /// What programs are told now: addresses of the node may change.
    fn around(&self) -> Around {
        let mut around = self.around.clone();
        let host_ips = self.of_node.now();
        let found = self.runtime.seen(&self.tenant, &self.path);
        around.facts.pod_ips = match found.as_deref() {
            _ if self.spec().host_network => host_ips.clone(),
            Some(Object::Cell(cell)) => {
                // Kubernetes' addresses of a pod are those of its first interface.
                let network = cell.network.iter();
                let first = network.filter_map(|it| it.interfaces.first());
                first.flat_map(|it| it.addresses.clone()).collect()
            }
            _ => Vec::new(),
        };
        around.facts.host_ips = host_ips;
        if let Some(pod) = found {
            around.facts.labels = pod.meta().labels.told();
        }
        around
    }

    /// The same with what the container's file of the node says.
    async fn around_of(&self, container: &Container) -> Result<Around, Error> {
        let around = self.around();
        if container.seccomp_profile.is_empty() {
            return Ok(around);
        }
        let (folder, name) = (self.filters.clone(), container.seccomp_profile.clone());
        let read = tokio::task::spawn_blocking(move || seccomp::read(&folder, &name)).await;
        let filter = read.map_err(|e| Error::internal(e.to_string()))??;
        Ok(Around { filter, ..around })
    }

    fn spec(&self) -> Arc<PodSpec> {
        // Nothing panics while it is held.
        let spec = self.spec.read();
        spec.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cell of a container; of one that was added, `name` is its place ([`Debug::place`]).
    fn container(&self, name: &str) -> Result<ObjectPath, Error> {
        let mut parts = name.split('/');
        parts.try_fold(self.path.clone(), |path, part| self.below(&path, part))
    }

    fn main(&self, name: &str) -> Result<ObjectPath, Error> {
        self.below(&self.container(name)?, MAIN)
    }

    fn target(&self, path: ObjectPath, uid: Option<Uid>, kind: Kind) -> ObjectRef {
        ObjectRef {
            tenant: self.tenant.clone(),
            path,
            uid,
            kind: Some(kind),
        }
    }

    fn pod(&self) -> ObjectRef {
        self.target(self.path.clone(), Some(self.uid), Kind::Cell)
    }

    async fn make_now(&self, container: &Container) -> Result<(), Error> {
        let path = self.container(&container.name)?;
        if self.is_there(&path) {
            return Ok(());
        }
        let mounts = self.mounts(container).await?;
        let spec = program::container_cell(&self.spec(), container, mounts, false)?;
        self.run_cell(path, spec).await
    }

    fn is_there(&self, path: &ObjectPath) -> bool {
        let found = self.runtime.seen(&self.tenant, path);
        found.is_some_and(|found| !found.state().is_final())
    }

    /// The mounts of a container, for which paths of the node are looked at.
    async fn mounts(&self, container: &Container) -> Result<Vec<Mount>, Error> {
        let (volumes, spec) = (self.volumes.clone(), self.spec());
        let (container, facts) = (container.clone(), self.around().facts);
        let found = move || volumes.mounts(&spec, &container, &facts);
        let found = tokio::task::spawn_blocking(found).await;
        found.map_err(|e| Error::internal(e.to_string()))?
    }

    async fn run_cell(&self, path: ObjectPath, spec: CellSpec) -> Result<(), Error> {
        let permit = self
            .permit
            .part(vec![Effect::on(RUN_CELL, &path), Effect::on(REMOVE, &path)])?;
        let request = RunCell {
            tenant: self.tenant.clone(),
            path,
            labels: Labels::default(),
            spec,
            request_id: None,
            wait_for: WaitFor::Started,
            annex: None,
            for_a_member: false,
        };
        self.runtime.run_cell(permit, request).await.map(drop)
    }

    /// Makes the cell of a container that is added, and starts its program.
    async fn debug_now(&self, debug: &Debug) -> Result<Program, Error> {
        let (container, place) = (&debug.container, debug.place());
        let path = self.container(&place)?;
        let sees = !debug.target.is_empty();
        if !self.is_there(&path) {
            let mounts = self.mounts(container).await?;
            let spec = program::container_cell(&self.spec(), container, mounts, sees)?;
            self.run_cell(path, spec).await?;
        }
        self.check_user(container, &place).await?;
        let around = self.around_of(container).await?;
        let spec = program::debug_program(&self.spec(), container, &around, sees)?;
        let labels = marks(Count::default(), false)?;
        let started = self.run(self.main(&place)?, labels, spec);
        program_of(&*started.await?).ok_or_else(|| Error::internal("no program was started"))
    }

    async fn start_now(&self, container: &Container, count: Count) -> Result<Program, Error> {
        let path = self.main(&container.name)?;
        self.check_user(container, &container.name).await?;
        self.forget_word(container).await?;
        let around = self.around_of(container).await?;
        let spec = program::main_program(&self.spec(), container, &around)?;
        let started = self.run(path, marks(count, false)?, spec);
        let started = started.await?;
        program_of(&started).ok_or_else(|| Error::internal("a program that is none was started"))
    }

    /// One that must not be root is looked at again where its image says the user.
    async fn check_user(&self, container: &Container, place: &str) -> Result<(), Error> {
        if !container.non_root || container.named_user(&self.spec()).is_some() {
            return Ok(());
        }
        let path = self.container(place)?;
        let permit = self.permit(GET, &path)?;
        let target = self.target(path, None, Kind::Cell);
        let user = self.runtime.image_user(permit, &target).await?;
        user::check_image(&user).map_err(|error| {
            let message = format!("non_root {}", error.message);
            Error::invalid("pod.spec.containers.non_root", message)
                .hint(error.hint.clone().unwrap_or_default())
        })
    }

    async fn run(
        &self,
        path: ObjectPath,
        labels: Labels,
        spec: model::executable::ExecutableSpec,
    ) -> Result<Arc<Object>, Error> {
        let (permit, request) = self.to_run(path, labels, spec, WaitFor::Started)?;
        self.runtime.run_executable(permit, request).await
    }

    fn to_run(
        &self,
        path: ObjectPath,
        labels: Labels,
        spec: model::executable::ExecutableSpec,
        wait_for: WaitFor,
    ) -> Result<(Permit, RunExecutable), Error> {
        let permit = self.permit.part(vec![
            Effect::on(RUN_EXECUTABLE, &path),
            Effect::on(REMOVE, &path),
        ])?;
        let request = RunExecutable {
            tenant: self.tenant.clone(),
            path,
            labels,
            spec,
            request_id: None,
            wait_for,
            own_cell: None,
            attach_follows: false,
        };
        Ok((permit, request))
    }

    async fn started_now(&self, container: &str, uid: Uid) -> Result<(), Error> {
        let path = self.main(container)?;
        let Some(program) = self.program(container).filter(|it| it.uid == uid) else {
            return Ok(());
        };
        let request = UpdateExecutable {
            target: self.target(path.clone(), Some(uid), Kind::Executable),
            labels: marks(program.count, true)?,
            expected_generation: None,
        };
        let permit = self.permit(UPDATE_EXECUTABLE, &path)?;
        self.runtime
            .update_executable(permit, request)
            .await
            .map(drop)
    }

    async fn ended_now(&self, container: &str, uid: Uid) -> Result<Exit, Error> {
        let path = self.main(container)?;
        let target = self.target(path.clone(), Some(uid), Kind::Executable);
        let ended = self
            .runtime
            .wait(self.permit(WAIT, &path)?, &target)
            .await?;
        exit_of(&ended)
    }

    async fn stop_now(&self, container: &str, uid: Uid, grace: Duration) -> Result<(), Error> {
        let path = self.main(container)?;
        let request = Stop {
            target: self.target(path.clone(), Some(uid), Kind::Executable),
            grace: Some(grace),
        };
        let permit = self.permit(STOP, &path)?;
        match self.runtime.stop(permit, request).await {
            Err(error) if error.reason != Reason::NotFound => Err(error),
            // What isn't there has ended.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn exec_now(
        &self,
        container: &str,
        argv: &[String],
        timeout: Duration,
    ) -> Result<Exit, Error> {
        let pod = self.spec();
        let named = pod.container(container);
        let named = named.ok_or_else(|| Error::not_found("container", container))?;
        let name = unique_name(ASK)?;
        let path = self.below(&self.container(container)?, name.as_str())?;
        let around = self.around_of(named).await?;
        let spec = program::beside(&pod, named, &around, argv)?;
        let asked = self.to_run(path.clone(), Labels::default(), spec, WaitFor::Exited);
        let (permit, request) = asked?;
        let stop = || self.permit(STOP, &path);
        self.runtime
            .run_within(permit, request, timeout, stop)
            .await
    }

    async fn remove_now(&self) -> Result<(), Error> {
        let effects = vec![
            Effect::below(REMOVE, &self.path),
            Effect::below(STOP, &self.path),
        ];
        let request = Remove {
            target: self.pod(),
            recursive: true,
            force: true,
        };
        match self
            .runtime
            .remove(self.permit.part(effects)?, request)
            .await
        {
            Err(error) if error.reason != Reason::NotFound => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Who waits for it is not held up by what can't be removed now: that is tried again beside.
    async fn clean_now(&self) {
        let held = self.held.lock();
        let held = held.unwrap_or_else(PoisonError::into_inner).take();
        let volumes = self.volumes.clone();
        let remove = move || volumes.remove();
        let removed = tokio::task::spawn_blocking(remove.clone()).await;
        if !matches!(removed, Ok(Ok(()))) {
            tokio::spawn(left::until_removed(held, self.path.clone(), remove));
        }
    }
}

fn marks(count: Count, started: bool) -> Result<Labels, Error> {
    let mut labels = std::collections::BTreeMap::from([
        (RESTARTS.to_owned(), count.restarts.to_string()),
        (IN_A_ROW.to_owned(), count.in_a_row.to_string()),
    ]);
    if started {
        labels.insert(STARTED.to_owned(), "true".to_owned());
    }
    Labels::new(labels)
}

fn program_of(object: &Object) -> Option<Program> {
    let Object::Executable(status) = object else {
        return None;
    };
    let ended = status.state.is_final();
    let exit = status.exit;
    Some(Program {
        uid: status.meta.uid,
        count: Count {
            restarts: number(status, RESTARTS),
            in_a_row: number(status, IN_A_ROW),
        },
        started: status.meta.labels.get(STARTED).is_some(),
        since: status.started.unwrap_or(status.meta.created),
        exit: ended.then(|| exit.unwrap_or_else(Exit::unknown)),
        stopping: status.state == model::lifecycle::State::Stopping,
    })
}

fn number(status: &ExecutableStatus, label: &str) -> u32 {
    let text = status.meta.labels.get(label);
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
