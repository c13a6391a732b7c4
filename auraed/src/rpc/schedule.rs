// SPDX-License-Identifier: Apache-2.0
//! The `Schedules` service on the wire. `schedule` does the work.

use std::sync::Arc;

use api::action::schedule as action;
use api::convert::object::scope;
use api::convert::schedule as convert;
use api::schedule::v0 as wire;
use api::schedule::v0::schedules_server::Schedules as Service;
use api::status::to_status;
use identity::{Identity, Permit, Reach};
use model::schedule::request::Named;
use schedule::{Schedules, Status as Known};
use tonic::{Request, Response, Status};

use super::caller::Caller;

/// The service `Schedules`.
pub(super) struct ScheduleService {
    pub(super) identity: Arc<Identity>,
    pub(super) schedules: Schedules,
}

type Answer<T> = Result<Response<T>, Status>;

impl ScheduleService {
    /// The caller, the schedule that is named, and a permit for it.
    async fn enter<T>(
        &self,
        request: Request<T>,
        action: &'static str,
        name: impl FnOnce(T) -> (String, String),
    ) -> Result<(Caller, Named, Permit), Status> {
        let caller = Caller::of(&self.identity, &request, action)?;
        let (tenant, name) = name(request.into_inner());
        let named = convert::named(caller.tenant(), &tenant, &name).map_err(to_status)?;
        let permit = caller.permit_at(&named.tenant, Some(&named.path())).await?;
        Ok((caller, named, permit))
    }
}

fn shown(known: &Known) -> Answer<wire::ScheduleStatus> {
    Ok(Response::new(message(known)))
}

fn message(known: &Known) -> wire::ScheduleStatus {
    let wish = &known.wish;
    convert::to_status(&convert::Shown {
        named: &wish.named,
        uid: wish.uid.to_string(),
        generation: wish.generation,
        owner: wish.owner.to_string(),
        declared: (wish.created, wish.changed),
        spec: &wish.spec,
        state: &known.state,
        why: &known.why,
        last: known.history.back(),
        unwritten: known.unwritten,
    })
}

#[tonic::async_trait]
impl Service for ScheduleService {
    async fn declare(
        &self,
        request: Request<wire::DeclareRequest>,
    ) -> Answer<wire::ScheduleStatus> {
        let caller = Caller::of(&self.identity, &request, action::DECLARE)?;
        let declare = convert::declare(caller.tenant(), request.into_inner());
        let declare = declare.map_err(to_status)?;
        let named = &declare.named;
        let also = self.schedules.effects_of_declare(named, &declare.spec);
        let also = also.map_err(to_status)?;
        let permit = caller
            .permit_effects(&named.tenant, &named.path(), Reach::Object, also)
            .await?;
        let declared = self.schedules.declare(permit, declare);
        shown(&*caller.unless_expelled(declared).await?)
    }

    async fn get(&self, request: Request<wire::GetRequest>) -> Answer<wire::ScheduleStatus> {
        let name = |it: wire::GetRequest| (it.tenant, it.name);
        let (_, named, permit) = self.enter(request, action::GET, name).await?;
        let known = self.schedules.get(&permit, &named);
        shown(&*known.map_err(to_status)?)
    }

    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<wire::ListResponse> {
        let caller = Caller::of(&self.identity, &request, action::LIST)?;
        let scope = scope(caller.tenant(), &request.get_ref().tenant).map_err(to_status)?;
        let permit = caller.permit_scope(&scope, None).await?;
        let all = self.schedules.list(&permit, &scope).map_err(to_status)?;
        Ok(Response::new(wire::ListResponse {
            schedules: all.iter().map(|known| message(known)).collect(),
        }))
    }

    async fn remove(&self, request: Request<wire::RemoveRequest>) -> Answer<wire::RemoveResponse> {
        let caller = Caller::of(&self.identity, &request, action::REMOVE)?;
        let message = request.into_inner();
        let named = convert::named(caller.tenant(), &message.tenant, &message.name);
        let named = named.map_err(to_status)?;
        let also = self
            .schedules
            .effects_of_remove(&named)
            .map_err(to_status)?;
        let permit = caller
            .permit_effects(&named.tenant, &named.path(), Reach::Object, also)
            .await?;
        let removed = self.schedules.remove(permit, &named);
        caller.unless_expelled(removed).await?;
        Ok(Response::new(wire::RemoveResponse {}))
    }

    async fn trigger(
        &self,
        request: Request<wire::TriggerRequest>,
    ) -> Answer<wire::ScheduleStatus> {
        let name = |it: wire::TriggerRequest| (it.tenant, it.name);
        let (caller, named, permit) = self.enter(request, action::TRIGGER, name).await?;
        let triggered = self.schedules.trigger(permit, &named);
        shown(&*caller.unless_expelled(triggered).await?)
    }

    async fn pause(&self, request: Request<wire::PauseRequest>) -> Answer<wire::ScheduleStatus> {
        let name = |it: wire::PauseRequest| (it.tenant, it.name);
        let (caller, named, permit) = self.enter(request, action::PAUSE, name).await?;
        let paused = self.schedules.pause(permit, &named);
        shown(&*caller.unless_expelled(paused).await?)
    }

    async fn resume(&self, request: Request<wire::ResumeRequest>) -> Answer<wire::ScheduleStatus> {
        let name = |it: wire::ResumeRequest| (it.tenant, it.name);
        let (caller, named, permit) = self.enter(request, action::RESUME, name).await?;
        let resumed = self.schedules.resume(permit, &named);
        shown(&*caller.unless_expelled(resumed).await?)
    }

    async fn history(
        &self,
        request: Request<wire::HistoryRequest>,
    ) -> Answer<wire::HistoryResponse> {
        let name = |it: wire::HistoryRequest| (it.tenant, it.name);
        let (_, named, permit) = self.enter(request, action::HISTORY, name).await?;
        let known = self.schedules.get(&permit, &named).map_err(to_status)?;
        Ok(Response::new(wire::HistoryResponse {
            entries: known.history.iter().map(convert::to_entry).collect(),
        }))
    }

    async fn why(&self, request: Request<wire::WhyRequest>) -> Answer<wire::Reason> {
        let name = |it: wire::WhyRequest| (it.tenant, it.name);
        let (_, named, permit) = self.enter(request, action::WHY, name).await?;
        let known = self.schedules.get(&permit, &named).map_err(to_status)?;
        Ok(Response::new(convert::to_reason(&known.why)))
    }
}
