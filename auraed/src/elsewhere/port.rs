// SPDX-License-Identifier: Apache-2.0
//! The pod subsystem's port to another daemon (`pod::Elsewhere`), by that daemon's own `Pods`.

use std::sync::Arc;
use std::time::Duration;

use api::convert::object::to_object_ref;
use api::convert::pod as convert;
use api::pod::v0 as wire;
use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::label::Labels;
use model::name::{Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::pod::PodSpec;
use model::pod::debug::Debug;
use model::pod::status::PodStatus;
use model::status::Meta;
use pod::{Elsewhere, Place, Seen, Stream};
use tokio::sync::{Mutex, watch};
use tonic::{Code, Request, Response, Status};

use super::carry::Carrier;
use super::link::{self, Link};
use super::mirror::Mirror;

/// What a call that waits for an end has beside the time of that.
const BESIDE: Duration = Duration::from_secs(30);
/// The longest end of a pod whose own grace isn't known here.
const LONGEST_END: Duration = Duration::from_secs(3660);

/// The daemon of one class.
pub(super) struct Other {
    pub(super) link: Arc<Link>,
    pub(super) mirror: Mirror,
    pub(super) carrier: Carrier,
    /// Of this node itself, for what names no tenant.
    pub(super) own: Tenant,
    /// The snapshot whose pods were told last.
    pub(super) told: Mutex<u64>,
}

impl Other {
    /// The status that a call has answered, from then on what is known of the pod.
    fn answered(
        &self,
        at: &Place,
        answer: Result<Response<wire::PodStatus>, Status>,
    ) -> Result<(), Error> {
        let answer = answer.map_err(|status| self.link.refusal(&status))?;
        let status = self.read(answer)?;
        if self.mirror.mark(&status.meta) == Some(at.uid) {
            self.mirror.put(at.uid, status);
        }
        Ok(())
    }

    fn read(&self, answer: Response<wire::PodStatus>) -> Result<PodStatus, Error> {
        convert::status(&self.own, answer.into_inner()).map_err(|error| {
            let field = error.field.as_deref().unwrap_or_default();
            let name = self.link.name();
            Error::internal(format!(
                "the answer of {name} is not understood: {field} {error}"
            ))
        })
    }

    /// The pod, by the uid that it has there where that is known.
    fn target(at: &Place, uid: Option<Uid>) -> ObjectRef {
        ObjectRef {
            tenant: at.tenant.clone(),
            path: at.path.clone(),
            uid,
            kind: Some(Kind::Cell),
        }
    }

    fn known(&self, at: &Place) -> ObjectRef {
        Self::target(at, self.mirror.uid_there(at))
    }

    /// What is at a pod's name there.
    async fn standing(&self, at: &Place) -> Result<Option<PodStatus>, Error> {
        let node = self.link.of(&at.tenant).await?;
        let asked = link::soon(wire::GetRequest {
            r#ref: Some(to_object_ref(&Self::target(at, None))),
        });
        match link::pods(&node).get(asked).await {
            Ok(answer) => self.read(answer).map(Some),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(self.link.refusal(&status)),
        }
    }

    async fn remove_run(&self, meta: &Meta, force: bool) -> Result<(), Error> {
        let node = self.link.of(&meta.tenant).await?;
        let asked = wire::RemoveRequest {
            r#ref: Some(to_object_ref(&meta.to_ref())),
            force,
        };
        let removed = link::within(asked, LONGEST_END);
        match link::pods(&node).remove(removed).await {
            Err(status) if status.code() != Code::NotFound => Err(self.link.refusal(&status)),
            // What isn't there is removed.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The images that a pod names, one after the other.
    async fn carry(&self, tenant: &Tenant, spec: &PodSpec) -> Result<(), Error> {
        let all = spec.init_containers.iter().chain(&spec.containers);
        for container in all.filter(|it| !it.image.is_empty()) {
            self.carrier
                .carry(&self.link, tenant, &container.image)
                .await?;
        }
        Ok(())
    }

    fn pod(&self, at: &Place, uid: Option<Uid>, labels: &Labels, spec: &PodSpec) -> wire::Pod {
        wire::Pod {
            r#ref: Some(to_object_ref(&Self::target(at, uid))),
            labels: self.mirror.marked(at, labels),
            spec: Some(convert::to_whole_spec(spec)),
        }
    }

    async fn begin_now(&self, at: &Place, labels: &Labels, spec: &PodSpec) -> Result<(), Error> {
        // What it is told from now on is of a pod that is known.
        drop(self.mirror.follow(at));
        if let Some(status) = self.standing(at).await? {
            match self.mirror.mark(&status.meta) {
                Some(uid) if uid == at.uid => {
                    self.mirror.put(uid, status);
                    return Ok(());
                }
                // An earlier run, which this node has no place for any more.
                Some(_) => self.remove_run(&status.meta, true).await?,
                None => return Err(self.taken(at)),
            }
        }
        self.carry(&at.tenant, spec).await?;
        let node = self.link.of(&at.tenant).await?;
        let run = wire::RunRequest {
            pod: Some(self.pod(at, None, labels, spec)),
            ..wire::RunRequest::default()
        };
        let run = link::pods(&node).run(as_of(at, link::soon(run))).await;
        self.answered(at, run)
    }

    fn taken(&self, at: &Place) -> Error {
        let name = self.link.name();
        let message = format!("{name} runs a pod {} that isn't this node's", at.path);
        let error = Error::new(Reason::AlreadyExists, message);
        let error = error.about("pod", at.path.to_string());
        error.hint("choose another name, or remove that one there")
    }

    async fn update_now(&self, at: &Place, labels: &Labels, spec: &PodSpec) -> Result<(), Error> {
        self.carry(&at.tenant, spec).await?;
        let node = self.link.of(&at.tenant).await?;
        let update = wire::UpdateRequest {
            pod: Some(self.pod(at, self.mirror.uid_there(at), labels, spec)),
        };
        let update = as_of(at, link::soon(update));
        self.answered(at, link::pods(&node).update(update).await)
    }

    async fn debug_now(&self, at: &Place, debug: &Debug) -> Result<(), Error> {
        let image = &debug.container.image;
        if !image.is_empty() {
            self.carrier.carry(&self.link, &at.tenant, image).await?;
        }
        let node = self.link.of(&at.tenant).await?;
        let debug = wire::DebugRequest {
            r#ref: Some(to_object_ref(&self.known(at))),
            container: Some(convert::to_whole_container(&debug.container)),
            target: debug.target.clone(),
            ..wire::DebugRequest::default()
        };
        let debug = as_of(at, link::soon(debug));
        self.answered(at, link::pods(&node).debug(debug).await)
    }

    async fn stop_now(&self, at: &Place, grace: Duration) -> Result<(), Error> {
        let node = self.link.of(&at.tenant).await?;
        let stop = wire::StopRequest {
            r#ref: Some(to_object_ref(&self.known(at))),
            grace: Some(api::convert::scalar::to_duration(grace)),
        };
        let stop = link::within(stop, grace.saturating_add(BESIDE));
        self.answered(at, link::pods(&node).stop(stop).await)
    }

    async fn remove_now(&self, at: &Place, force: bool) -> Result<(), Error> {
        match self.standing(at).await? {
            Some(status) if self.mirror.mark(&status.meta) == Some(at.uid) => {
                self.remove_run(&status.meta, force).await
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// As what the other daemon is to take a call for a pod.
fn as_of<T>(at: &Place, request: Request<T>) -> Request<T> {
    match at.for_a_member {
        true => link::as_member(request),
        false => request,
    }
}

impl Elsewhere for Other {
    fn class(&self) -> &str {
        self.link.class()
    }

    fn begin<'a>(
        &'a self,
        at: &'a Place,
        labels: &'a Labels,
        spec: &'a PodSpec,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.begin_now(at, labels, spec))
    }

    fn update<'a>(
        &'a self,
        at: &'a Place,
        labels: &'a Labels,
        spec: &'a PodSpec,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.update_now(at, labels, spec))
    }

    fn debug<'a>(&'a self, at: &'a Place, debug: &'a Debug) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.debug_now(at, debug))
    }

    fn stop<'a>(&'a self, at: &'a Place, grace: Duration) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.stop_now(at, grace))
    }

    fn remove<'a>(&'a self, at: &'a Place, force: bool) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.remove_now(at, force))
    }

    fn dial<'a>(
        &'a self,
        at: &'a Place,
        port: u16,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn Stream>, Error>> {
        Box::pin(async move {
            let target = self.known(at);
            let dialing = super::dial::dial(&self.link, &target, port);
            match tokio::time::timeout(timeout, dialing).await {
                Ok(dialed) => dialed.map(|stream| Box::new(stream) as Box<dyn Stream>),
                Err(_) => {
                    let name = self.link.name();
                    let message = format!("{name} did not connect to port {port} in {timeout:?}");
                    Err(Error::new(Reason::Deadline, message))
                }
            }
        })
    }

    fn is_of(&self, shown: &PodSpec, spec: &PodSpec) -> bool {
        convert::to_spec(shown) == convert::to_spec(spec)
    }

    fn follow(&self, at: &Place) -> watch::Receiver<Seen> {
        self.mirror.follow(at)
    }

    fn forget(&self, at: &Place) {
        self.mirror.forget(at);
    }

    fn tenant_is_gone(&self, tenant: &Tenant) {
        self.link.forget(tenant);
    }

    fn found(&self) -> BoxFuture<'_, Vec<Place>> {
        Box::pin(async move {
            let mut told = self.told.lock().await;
            let (snapshot, places) = self.mirror.found(*told).await;
            *told = snapshot;
            places
        })
    }
}
