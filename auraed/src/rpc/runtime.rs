// SPDX-License-Identifier: Apache-2.0
//! The `Runtime` service on the wire. `runtime` does the work; `Attach` is in `attach`.

use std::sync::Arc;

use api::action::runtime as action;
use api::convert::{object, request as convert, status};
use api::runtime::v0 as wire;
use api::runtime::v0::runtime_server::Runtime as Service;
use api::status::to_status;
use client::Node;
use futures_util::{Stream, stream};
use identity::permit::Permit;
use identity::{Effect, Identity, Reach};
use image::node::Images;
use model::cell::CellSpec;
use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};
use model::object::{Kind, ObjectRef};
use model::request::{ListQuery, Remove, RunExecutable, WaitFor};
use model::status::Object;
use observe::Logs;
use pod::Pods;
use prost::Message;
use runtime::{Page, Runtime, WatchEvent, WatchKind, Watcher};
use schedule::Schedules;
use tenants::Tenants;
use tonic::{Request, Response, Status};

use super::attach::Attaching;
use super::away::{Away, Itself, no_cells, one};
use super::caller::Caller;
use super::deadline::DefaultDeadline;
use super::fetch::Fetch;
use super::keys::Keys;
use super::stream::{Answers, until_expelled};

/// A page of objects is made smaller where its message would be larger: clients read 4 MiB unless
/// told otherwise.
const MAX_PAGE_BYTES: usize = 3 << 20;

/// The service `Runtime`.
pub(super) struct RuntimeService {
    pub(super) identity: Arc<Identity>,
    pub(super) runtime: Runtime,
    /// Whose runs some of it is.
    pub(super) schedules: Schedules,
    /// Whose containers some of it is.
    pub(super) pods: Pods,
    /// Where some of those run.
    pub(super) away: Away,
    /// Those of cells are brought from here.
    pub(super) images: Images,
    pub(super) logs: Logs,
    /// Of calls without a deadline of their own.
    pub(super) deadline: DefaultDeadline,
    /// Whose time a stream takes.
    pub(super) tenants: Tenants,
}

type Answer<T> = Result<Response<T>, Status>;

impl RuntimeService {
    pub(super) fn enter<T>(
        &self,
        request: &Request<T>,
        action: &'static str,
    ) -> Result<Caller, Status> {
        Caller::of(&self.identity, request, action)
    }

    /// Awaits `work` of a Run call. A call that answers at once and has no deadline gets the
    /// default one; a call that waits for the end goes on as long as its caller's certificate and
    /// permission count.
    async fn run<T>(
        &self,
        caller: &Caller,
        wait_for: WaitFor,
        bounded: bool,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Status> {
        if wait_for == WaitFor::Exited || bounded {
            return caller.unless_expelled(work).await;
        }
        let bound = self.deadline.get();
        match tokio::time::timeout(bound, work).await {
            Ok(done) => done.map_err(to_status),
            Err(_) => {
                let message = format!("it was not started within {bound:?}");
                Err(to_status(Error::new(Reason::Deadline, message)))
            }
        }
    }

    /// One page, with as many objects as a message may hold.
    async fn page(&self, caller: &Caller, mut query: ListQuery) -> Answer<wire::ListResponse> {
        let filter = &query.filter;
        let permit = caller
            .permit_scope(&filter.scope, filter.below.as_ref())
            .await?;
        loop {
            let page = self
                .runtime
                .list(&permit, &query)
                .await
                .map_err(to_status)?;
            let answer = to_page(&page);
            if answer.encoded_len() <= MAX_PAGE_BYTES || query.page_size <= 1 {
                return Ok(Response::new(answer));
            }
            query.page_size = page.objects.len().div_ceil(2).max(1);
        }
    }

    /// Brings the image of a cell that is to be run, however long that takes.
    async fn fetch(
        &self,
        caller: &Caller,
        permit: &Permit,
        tenant: &Tenant,
        (fetch, keys): (Option<Fetch>, Keys),
    ) -> Result<(), Status> {
        match fetch {
            None => Ok(()),
            Some(fetch) => {
                let fetching = fetch.carry_out(&self.images, permit, tenant, &keys);
                caller.unless_expelled(fetching).await
            }
        }
    }

    /// The effect of running at a name whose finished record would be replaced.
    fn replaced(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Effect> {
        let standing = self.runtime.standing(tenant, path)?;
        standing.ended.then(|| Effect::on(action::REMOVE, path))
    }

    /// The other effects of a `RunExecutable`: the own cell that it creates, finished records that
    /// it replaces, and its own where that is removed at its end.
    fn effects_of_run(&self, request: &RunExecutable) -> Vec<Effect> {
        let cell = request
            .own_cell
            .as_ref()
            .and_then(|_| request.path.parent());
        let made = cell.iter().map(|cell| Effect::on(action::RUN_CELL, cell));
        let joined = request.own_cell.iter().flat_map(effects_of_joining);
        let names = cell.iter().chain([&request.path]);
        let replaced = names.filter_map(|path| self.replaced(&request.tenant, path));
        let goes = request.spec.auto_remove;
        let goes = goes.then(|| Effect::on(action::REMOVE, &request.path));
        made.chain(joined).chain(replaced).chain(goes).collect()
    }

    /// The other effects of a `Remove`: running objects are stopped first. `may_run`: whether they
    /// run isn't known.
    fn effects_of_remove(&self, request: &Remove, may_run: bool) -> Vec<Effect> {
        let target = &request.target;
        let standing = self.runtime.standing(&target.tenant, &target.path);
        let stops =
            request.force || may_run || standing.is_some_and(|s| !s.ended && s.kind == Kind::Cell);
        let stopped = stops.then(|| Effect::below(action::STOP, &target.path));
        let wish = || self.schedules.effect_of_stop(target);
        let wish = stops.then(wish).flatten();
        let of_pods = self.pods.effects_of_remove(target, stops);
        stopped.into_iter().chain(wish).chain(of_pods).collect()
    }

    /// The cell that is to be frozen or thawed, with all that is in it.
    async fn to_hold(
        &self,
        caller: &Caller,
        target: Option<wire::ObjectRef>,
    ) -> Result<(ObjectRef, Permit), Status> {
        let target = object::object_ref(caller.tenant(), target)
            .and_then(|target| convert::of_kind(Kind::Cell, target))
            .map_err(to_status)?;
        let permit = caller.permit_below(&target).await?;
        Ok((target, permit))
    }
}

fn of_run(message: &mut wire::RunExecutableRequest) -> &mut [wire::ObjectRef] {
    let executable = message.executable.as_mut();
    executable.map_or_else(Default::default, |it| one(&mut it.r#ref))
}

fn of_cell(message: &mut wire::RunCellRequest) -> &mut [wire::ObjectRef] {
    let cell = message.cell.as_mut();
    cell.map_or_else(Default::default, |it| one(&mut it.r#ref))
}

/// What runs in namespaces of other cells is as good as run there.
fn effects_of_joining(spec: &CellSpec) -> impl Iterator<Item = Effect> {
    let joined = spec.join.values();
    joined.map(|other| Effect::on(action::RUN_CELL, other))
}

fn has_deadline<T>(request: &Request<T>) -> bool {
    request.metadata().contains_key("grpc-timeout")
}

fn cell(object: &Object) -> Answer<wire::CellStatus> {
    match object {
        Object::Cell(cell) => Ok(Response::new(status::to_cell(cell))),
        Object::Executable(_) => Err(other_kind()),
    }
}

fn executable(object: &Object) -> Answer<wire::ExecutableStatus> {
    match object {
        Object::Executable(executable) => Ok(Response::new(status::to_executable(executable))),
        Object::Cell(_) => Err(other_kind()),
    }
}

fn other_kind() -> Status {
    to_status(Error::internal(
        "the runtime answered with an object of another kind",
    ))
}

fn any(object: &Object) -> Answer<wire::Object> {
    Ok(Response::new(status::to_object(object)))
}

fn to_page(page: &Page) -> wire::ListResponse {
    wire::ListResponse {
        objects: page
            .objects
            .iter()
            .map(|object| status::to_object(object))
            .collect(),
        next_page_token: page.next_page_token.clone().unwrap_or_default(),
        resume_token: page.resume_token.clone(),
    }
}

fn events(watcher: Watcher) -> impl Stream<Item = Result<wire::WatchEvent, Status>> {
    stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await;
        Some((Ok(to_event(event)), watcher))
    })
}

fn to_event(event: WatchEvent) -> wire::WatchEvent {
    use wire::watch_event::Type;
    let kind = match event.kind {
        WatchKind::Added => Type::Added,
        WatchKind::Changed => Type::Changed,
        WatchKind::Removed => Type::Removed,
        WatchKind::SnapshotEnd => Type::SnapshotEnd,
        WatchKind::Reset => Type::Reset,
    };
    wire::WatchEvent {
        r#type: kind.into(),
        object: event.object.map(|object| status::to_object(&object)),
        resume_token: event.resume_token,
    }
}

#[tonic::async_trait]
impl Service for RuntimeService {
    async fn run_executable(
        &self,
        request: Request<wire::RunExecutableRequest>,
    ) -> Answer<wire::ExecutableStatus> {
        let mut caller = self.enter(&request, action::RUN_EXECUTABLE)?;
        let bounded = has_deadline(&request);
        let aside = self.away.aside(&caller, &request, Itself::Place, of_run);
        let mut request = request.into_inner();
        let keys = std::mem::take(&mut request.registry_credentials);
        let keys = Keys::of(keys).map_err(to_status)?;
        let request = convert::run_executable(caller.tenant(), request);
        let request = request.map_err(to_status)?;
        caller.known_as(request.request_id.as_ref().map(|id| id.as_str()));
        let (tenant, own_cell) = (request.tenant.clone(), request.own_cell.as_ref());
        let fetch = Fetch::of(&self.images, &tenant, own_cell, "own_cell").map_err(to_status)?;
        let mut also = self.effects_of_run(&request);
        // Whether a finished record is replaced there isn't known here.
        let replaces = matches!(aside, Ok(Some(_)));
        also.extend(replaces.then(|| Effect::on(action::REMOVE, &request.path)));
        also.extend(fetch.as_ref().map(|_| Images::effect_of_pull()));
        let permit = caller
            .permit_effects(&tenant, &request.path, Reach::Object, also)
            .await?;
        if let Some(aside) = aside? {
            if request.own_cell.is_some() {
                return Err(no_cells(&request.path));
            }
            let run = async |node: Node, call| node.runtime().run_executable(call).await;
            return aside.pass(&caller, &permit, run).await;
        }
        self.fetch(&caller, &permit, &tenant, (fetch, keys)).await?;
        let wait_for = request.wait_for;
        let work = self.runtime.run_executable(permit, request);
        executable(&*self.run(&caller, wait_for, bounded, work).await?)
    }

    async fn run_cell(&self, request: Request<wire::RunCellRequest>) -> Answer<wire::CellStatus> {
        let mut caller = self.enter(&request, action::RUN_CELL)?;
        let bounded = has_deadline(&request);
        let aside = self.away.aside(&caller, &request, Itself::Place, of_cell);
        let mut request = request.into_inner();
        let keys = std::mem::take(&mut request.registry_credentials);
        let keys = Keys::of(keys).map_err(to_status)?;
        let request = convert::run_cell(caller.tenant(), request);
        let request = request.map_err(to_status)?;
        caller.known_as(request.request_id.as_ref().map(|id| id.as_str()));
        let (tenant, spec) = (request.tenant.clone(), Some(&request.spec));
        let fetch = Fetch::of(&self.images, &tenant, spec, "cell.spec").map_err(to_status)?;
        let also = self.replaced(&tenant, &request.path).into_iter();
        let also = also.chain(fetch.as_ref().map(|_| Images::effect_of_pull()));
        let also = also.chain(effects_of_joining(&request.spec));
        let permit = caller
            .permit_effects(&tenant, &request.path, Reach::Object, also.collect())
            .await?;
        if aside?.is_some() {
            return Err(no_cells(&request.path));
        }
        self.fetch(&caller, &permit, &tenant, (fetch, keys)).await?;
        let wait_for = request.wait_for;
        let work = self.runtime.run_cell(permit, request);
        cell(&*self.run(&caller, wait_for, bounded, work).await?)
    }

    async fn update_cell(
        &self,
        request: Request<wire::UpdateCellRequest>,
    ) -> Answer<wire::CellStatus> {
        let caller = self.enter(&request, action::UPDATE_CELL)?;
        let aside = self
            .away
            .aside(&caller, &request, Itself::Place, |it| one(&mut it.r#ref));
        let request = convert::update_cell(caller.tenant(), request.into_inner());
        let request = request.map_err(to_status)?;
        let target = &request.target;
        let also = self.pods.effect_of_update(target).into_iter().collect();
        let permit = caller
            .permit_effects(&target.tenant, &target.path, Reach::Object, also)
            .await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().update_cell(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        let work = self.runtime.update_cell(permit, request);
        cell(&*caller.unless_expelled(work).await?)
    }

    async fn update_executable(
        &self,
        request: Request<wire::UpdateExecutableRequest>,
    ) -> Answer<wire::ExecutableStatus> {
        let caller = self.enter(&request, action::UPDATE_EXECUTABLE)?;
        let aside = self
            .away
            .aside(&caller, &request, Itself::Place, |it| one(&mut it.r#ref));
        let request = convert::update_executable(caller.tenant(), request.into_inner());
        let request = request.map_err(to_status)?;
        let permit = caller.permit_for(&request.target).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().update_executable(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        let work = self.runtime.update_executable(permit, request);
        executable(&*caller.unless_expelled(work).await?)
    }

    async fn freeze_cell(
        &self,
        request: Request<wire::FreezeCellRequest>,
    ) -> Answer<wire::CellStatus> {
        let caller = self.enter(&request, action::FREEZE_CELL)?;
        let away = &self.away;
        let aside = away.aside(&caller, &request, Itself::Pod, |it| one(&mut it.r#ref));
        let (target, permit) = self.to_hold(&caller, request.into_inner().r#ref).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().freeze_cell(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        let held = self.runtime.freeze_cell(permit, &target).await;
        cell(&*held.map_err(to_status)?)
    }

    async fn thaw_cell(&self, request: Request<wire::ThawCellRequest>) -> Answer<wire::CellStatus> {
        let caller = self.enter(&request, action::THAW_CELL)?;
        let away = &self.away;
        let aside = away.aside(&caller, &request, Itself::Pod, |it| one(&mut it.r#ref));
        let (target, permit) = self.to_hold(&caller, request.into_inner().r#ref).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().thaw_cell(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        let held = self.runtime.thaw_cell(permit, &target).await;
        cell(&*held.map_err(to_status)?)
    }

    async fn get(&self, request: Request<wire::GetRequest>) -> Answer<wire::Object> {
        let caller = self.enter(&request, action::GET)?;
        let aside = self
            .away
            .aside(&caller, &request, Itself::Place, |it| one(&mut it.r#ref));
        let target = object::object_ref(caller.tenant(), request.into_inner().r#ref);
        let target = target.map_err(to_status)?;
        let permit = caller.permit_for(&target).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().get(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        any(&*self.runtime.get(permit, &target).await.map_err(to_status)?)
    }

    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<wire::ListResponse> {
        let caller = self.enter(&request, action::LIST)?;
        let query = convert::list(caller.tenant(), request.into_inner()).map_err(to_status)?;
        self.page(&caller, query).await
    }

    type WatchStream = Answers<wire::WatchEvent>;

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Answer<Self::WatchStream> {
        let caller = self.enter(&request, action::WATCH)?;
        let query = convert::watch(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let filter = &query.filter;
        let permit = caller
            .permit_scope(&filter.scope, filter.below.as_ref())
            .await?;
        let watcher = self.runtime.watch(permit, query).map_err(to_status)?;
        Ok(Response::new(until_expelled(
            events(watcher),
            caller.expelled(),
        )))
    }

    async fn wait(&self, request: Request<wire::WaitRequest>) -> Answer<wire::Object> {
        let caller = self.enter(&request, action::WAIT)?;
        let aside = self
            .away
            .aside(&caller, &request, Itself::Place, |it| one(&mut it.r#ref));
        let target = convert::wait(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = caller.permit_for(&target).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().wait(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        any(&*caller
            .unless_expelled(self.runtime.wait(permit, &target))
            .await?)
    }

    async fn signal(&self, request: Request<wire::SignalRequest>) -> Answer<wire::Object> {
        let caller = self.enter(&request, action::SIGNAL)?;
        let aside = self
            .away
            .aside(&caller, &request, Itself::Pod, |it| one(&mut it.r#ref));
        let request = convert::signal(caller.tenant(), request.into_inner());
        let request = request.map_err(to_status)?;
        let target = &request.target;
        let mut also = Vec::new();
        if request.signal.is_stop() {
            also.push(Effect::on(action::STOP, &target.path));
            also.extend(self.pods.effects_of_stop(target));
        }
        let permit = caller
            .permit_effects(&target.tenant, &target.path, Reach::Object, also)
            .await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().signal(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        any(&*self
            .runtime
            .signal(permit, request)
            .await
            .map_err(to_status)?)
    }

    async fn stop(&self, request: Request<wire::StopRequest>) -> Answer<wire::Object> {
        let caller = self.enter(&request, action::STOP)?;
        let aside = self
            .away
            .aside(&caller, &request, Itself::Place, |it| one(&mut it.r#ref));
        let request = convert::stop(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let target = &request.target;
        let mut also = self.pods.effects_of_stop(target);
        also.extend(self.schedules.effect_of_stop(target));
        let permit = caller
            .permit_effects(&target.tenant, &target.path, Reach::Subtree, also)
            .await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().stop(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        // The caller that stops a run of a schedule ends its wish.
        let target = target.clone();
        let stop = |permit| self.runtime.stop(permit, request);
        let stop = self.schedules.stopping(permit, &target, stop);
        any(&*caller.unless_expelled(stop).await?)
    }

    async fn remove(&self, request: Request<wire::RemoveRequest>) -> Answer<wire::RemoveResponse> {
        let caller = self.enter(&request, action::REMOVE)?;
        let aside = self
            .away
            .aside(&caller, &request, Itself::Place, |it| one(&mut it.r#ref));
        let request = convert::remove(caller.tenant(), request.into_inner());
        let request = request.map_err(to_status)?;
        // What runs there isn't known here.
        let also = self.effects_of_remove(&request, matches!(aside, Ok(Some(_))));
        let reach = match request.recursive {
            true => Reach::Subtree,
            false => Reach::Object,
        };
        let target = &request.target;
        let permit = caller
            .permit_effects(&target.tenant, &target.path, reach, also)
            .await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.runtime().remove(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        let (target, force) = (target.clone(), request.force);
        let remove = |permit| self.runtime.remove(permit, request);
        let removed = match force {
            true => {
                let remove = self.schedules.stopping(permit, &target, remove);
                caller.unless_expelled(remove).await?
            }
            false => caller.unless_expelled(remove(permit)).await?,
        };
        Ok(Response::new(wire::RemoveResponse { removed }))
    }

    type AttachStream = Answers<wire::AttachResponse>;

    async fn attach(
        &self,
        request: Request<tonic::Streaming<wire::AttachRequest>>,
    ) -> Answer<Self::AttachStream> {
        let caller = self.enter(&request, action::ATTACH)?;
        let attaching = Attaching {
            runtime: self.runtime.clone(),
            logs: self.logs.clone(),
            away: self.away.clone(),
            timeout: self.deadline.get(),
            share: self.tenants.share(caller.tenant()),
        };
        attaching.attach(caller, request.into_inner()).await
    }
}
