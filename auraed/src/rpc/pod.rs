// SPDX-License-Identifier: Apache-2.0
//! The `Pods` service on the wire. `pod` does the work.

use std::sync::Arc;
use std::time::Duration;

use api::action::pod as action;
use api::action::runtime::{REMOVE, RUN_CELL, RUN_EXECUTABLE, STOP, UPDATE_CELL};
use api::convert::pod as convert;
use api::pod::v0 as wire;
use api::pod::v0::dial_request::Message as Asked;
use api::pod::v0::pods_server::Pods as Service;
use api::status::to_status;
use futures_util::{Stream, stream};
use identity::{Effect, Identity, Reach};
use image::node::Images;
use model::error::{Error, Reason};
use model::name::Tenant;
use model::pod::PodSpec;
use pod::{Pods, Stream as Connection, Told, WatchEvent, Watcher};
use schedule::Schedules;
use tenants::{Tenants, WatchKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tonic::{Request, Response, Status, Streaming};

use super::caller::Caller;
use super::fetch::Fetch;
use super::keys::Keys;
use super::stream::{Answers, Beside, first, until_expelled};

/// The service `Pods`.
pub(super) struct PodService {
    pub(super) identity: Arc<Identity>,
    pub(super) pods: Pods,
    /// Whose runs some of them are.
    pub(super) schedules: Schedules,
    /// Those of containers are brought from here.
    pub(super) images: Images,
    /// How long the first message of a connection may take.
    pub(super) timeout: Duration,
    /// Whose time a stream takes.
    pub(super) tenants: Tenants,
}

type Answer<T> = Result<Response<T>, Status>;

/// The most bytes of one answer of a connection.
const PIECE: usize = 64 << 10;

impl PodService {
    fn enter<T>(&self, request: &Request<T>, action: &'static str) -> Result<Caller, Status> {
        Caller::of(&self.identity, request, action)
    }

    /// The images that are brought before the pod is made, one after the other.
    fn fetches(&self, tenant: &Tenant, spec: &PodSpec) -> Result<Vec<Fetch>, Error> {
        let inits = spec.init_containers.iter().enumerate();
        let inits = inits.map(|(i, it)| (format!("pod.spec.init_containers[{i}].image"), it));
        let apps = spec.containers.iter().enumerate();
        let apps = apps.map(|(i, it)| (format!("pod.spec.containers[{i}].image"), it));
        let mut fetches = Vec::new();
        for (field, container) in inits.chain(apps) {
            if let Some(root) = container.root() {
                fetches.extend(Fetch::of_root(&self.images, tenant, &root, &field)?);
            }
        }
        Ok(fetches)
    }
}

#[tonic::async_trait]
impl Service for PodService {
    async fn run(&self, request: Request<wire::RunRequest>) -> Answer<wire::PodStatus> {
        let caller = self.enter(&request, action::RUN)?;
        let mut request = request.into_inner();
        let keys = std::mem::take(&mut request.registry_credentials);
        let keys = Keys::of(keys).map_err(to_status)?;
        let run = convert::run(caller.tenant(), request).map_err(to_status)?;
        let (tenant, path) = (run.tenant.clone(), run.path.clone());
        let fetches = self.fetches(&tenant, &run.spec).map_err(to_status)?;
        let also = [RUN_CELL, RUN_EXECUTABLE];
        let mut also = also.map(|action| Effect::below(action, &path)).to_vec();
        also.extend(fetches.first().map(|_| Images::effect_of_pull()));
        also.extend(self.pods.replaced(&tenant, &path));
        let permit = caller
            .permit_effects(&tenant, &path, Reach::Object, also)
            .await?;
        self.pods.admit(&permit, &run).map_err(to_status)?;
        for fetch in fetches {
            let fetching = fetch.carry_out(&self.images, &permit, &tenant, &keys);
            caller.unless_expelled(fetching).await?;
        }
        let status = caller.unless_expelled(self.pods.run(permit, run)).await?;
        Ok(Response::new(convert::to_status(&status)))
    }

    async fn get(&self, request: Request<wire::GetRequest>) -> Answer<wire::PodStatus> {
        let caller = self.enter(&request, action::GET)?;
        let target = convert::target(caller.tenant(), request.into_inner().r#ref);
        let target = target.map_err(to_status)?;
        let permit = caller.permit_for(&target).await?;
        let status = self.pods.get(permit, &target).map_err(to_status)?;
        Ok(Response::new(convert::to_status(&status)))
    }

    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<wire::ListResponse> {
        let caller = self.enter(&request, action::LIST)?;
        let list = convert::list(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = caller.permit_scope(&list.scope, None).await?;
        let (page, next) = self.pods.list(&permit, &list).map_err(to_status)?;
        Ok(Response::new(wire::ListResponse {
            pods: page.iter().map(convert::to_status).collect(),
            next_page_token: next.unwrap_or_default(),
        }))
    }

    type WatchStream = Answers<wire::WatchEvent>;

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Answer<Self::WatchStream> {
        let caller = self.enter(&request, action::WATCH)?;
        let watch = convert::watch(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = caller.permit_scope(&watch.scope, None).await?;
        let watcher = self.pods.watch(permit, watch).map_err(to_status)?;
        let events = until_expelled(events(watcher), caller.expelled());
        Ok(Response::new(events))
    }

    async fn update(&self, request: Request<wire::UpdateRequest>) -> Answer<wire::PodStatus> {
        let caller = self.enter(&request, action::UPDATE)?;
        let update = convert::update(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let target = &update.target;
        let also = vec![Effect::below(UPDATE_CELL, &target.path)];
        let permit = caller
            .permit_effects(&target.tenant, &target.path, Reach::Object, also)
            .await?;
        let updating = self.pods.update(permit, update);
        let status = caller.unless_expelled(updating).await?;
        Ok(Response::new(convert::to_status(&status)))
    }

    async fn debug(&self, request: Request<wire::DebugRequest>) -> Answer<wire::PodStatus> {
        let caller = self.enter(&request, action::DEBUG)?;
        let mut request = request.into_inner();
        let keys = std::mem::take(&mut request.registry_credentials);
        let keys = Keys::of(keys).map_err(to_status)?;
        let debug = convert::debug(caller.tenant(), request).map_err(to_status)?;
        let (tenant, path) = (debug.target.tenant.clone(), debug.target.path.clone());
        let root = debug.debug.container.root();
        let fetch = root.map(|it| Fetch::of_root(&self.images, &tenant, &it, "container.image"));
        let fetch = fetch.transpose().map_err(to_status)?.flatten();
        let also = [RUN_CELL, RUN_EXECUTABLE];
        let mut also = also.map(|action| Effect::below(action, &path)).to_vec();
        also.extend(fetch.as_ref().map(|_| Images::effect_of_pull()));
        let permit = caller
            .permit_effects(&tenant, &path, Reach::Object, also)
            .await?;
        if let Some(fetch) = fetch {
            let fetching = fetch.carry_out(&self.images, &permit, &tenant, &keys);
            caller.unless_expelled(fetching).await?;
        }
        let adding = self.pods.debug(permit, debug);
        let status = caller.unless_expelled(adding).await?;
        Ok(Response::new(convert::to_status(&status)))
    }

    async fn stop(&self, request: Request<wire::StopRequest>) -> Answer<wire::PodStatus> {
        let caller = self.enter(&request, action::STOP)?;
        let stop = convert::stop(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let target = &stop.target;
        let mut also = vec![Effect::below(STOP, &target.path)];
        also.extend(self.schedules.effect_of_stop(target));
        let permit = caller
            .permit_effects(&target.tenant, &target.path, Reach::Object, also)
            .await?;
        // The caller that stops a run of a schedule ends its wish.
        let target = target.clone();
        let stop = |permit| self.pods.stop(permit, stop);
        let stop = self.schedules.stopping(permit, &target, stop);
        let status = caller.unless_expelled(stop).await?;
        Ok(Response::new(convert::to_status(&status)))
    }

    async fn remove(&self, request: Request<wire::RemoveRequest>) -> Answer<wire::RemoveResponse> {
        let caller = self.enter(&request, action::REMOVE)?;
        let remove = convert::remove(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let target = &remove.target;
        let mut also = vec![Effect::below(REMOVE, &target.path)];
        if remove.force {
            also.push(Effect::below(STOP, &target.path));
            also.extend(self.schedules.effect_of_stop(target));
        }
        let permit = caller
            .permit_effects(&target.tenant, &target.path, Reach::Object, also)
            .await?;
        let (target, force) = (target.clone(), remove.force);
        let remove = |permit| self.pods.remove(permit, remove);
        match force {
            true => {
                let remove = self.schedules.stopping(permit, &target, remove);
                caller.unless_expelled(remove).await?;
            }
            false => caller.unless_expelled(remove(permit)).await?,
        }
        Ok(Response::new(wire::RemoveResponse {}))
    }

    type DialStream = Answers<wire::DialResponse>;

    async fn dial(
        &self,
        request: Request<Streaming<wire::DialRequest>>,
    ) -> Answer<Self::DialStream> {
        let caller = self.enter(&request, action::DIAL)?;
        let mut asked = request.into_inner();
        let start = caller
            .unless_expelled(first(&mut asked, self.timeout, "start", start))
            .await?;
        let dial = convert::dial(caller.tenant(), start).map_err(to_status)?;
        let permit = caller.permit_for(&dial.target).await?;
        let connection = caller.unless_expelled(self.pods.dial(permit, dial)).await?;
        let (read, write) = tokio::io::split(connection);
        let share = self.tenants.share(caller.tenant());
        let dialed = Dialed {
            read,
            _feeding: Beside::start(&share, feed(asked, write)),
        };
        let pieces = dialed.into_stream();
        Ok(Response::new(until_expelled(pieces, caller.expelled())))
    }
}

fn start(message: wire::DialRequest) -> Option<wire::DialStart> {
    match message.message {
        Some(Asked::Start(start)) => Some(start),
        _ => None,
    }
}

/// Hands the client's bytes to the port, one message after the other. A client that goes away ends
/// the connection; one that has no more to send says so.
async fn feed(mut asked: Streaming<wire::DialRequest>, mut port: WriteHalf<Box<dyn Connection>>) {
    while let Ok(Some(message)) = asked.message().await {
        let sent = match message.message {
            Some(Asked::Data(bytes)) => port.write_all(&bytes).await,
            Some(Asked::Eof(wire::DialEof {})) => port.shutdown().await,
            Some(Asked::Start(_)) | None => Ok(()),
        };
        if sent.is_err() {
            // The other end has closed: the client learns it by the end of the answers.
            return;
        }
    }
}

/// An open connection to a port.
struct Dialed {
    read: ReadHalf<Box<dyn Connection>>,
    _feeding: Beside,
}

impl Dialed {
    fn into_stream(self) -> impl Stream<Item = Result<wire::DialResponse, Status>> + Send {
        stream::try_unfold(self, |mut dialed| async move {
            let mut data = Vec::with_capacity(PIECE);
            let read = dialed.read.read_buf(&mut data).await;
            let count = read.map_err(|e| {
                let message = format!("the connection broke: {e}");
                to_status(Error::new(Reason::WrongState, message))
            })?;
            Ok((count > 0).then_some((wire::DialResponse { data }, dialed)))
        })
    }
}

fn events(watcher: Watcher) -> impl Stream<Item = Result<wire::WatchEvent, Status>> + Send {
    stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await;
        Some((Ok(to_event(&event)), watcher))
    })
}

fn to_told(pod: &Told) -> wire::PodStatus {
    match pod {
        Told::Is(status) => convert::to_status(status),
        Told::Gone(gone) => convert::to_gone(&gone.meta, gone.phase),
    }
}

fn to_event(event: &WatchEvent) -> wire::WatchEvent {
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
        pod: event.told.as_ref().map(to_told),
        resume_token: event.resume_token.clone(),
    }
}
