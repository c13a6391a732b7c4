// SPDX-License-Identifier: Apache-2.0
//! The `Schedules` service on the wire. `schedule` does the work.

use std::sync::Arc;

use api::action::schedule as action;
use api::convert::object::scope;
use api::convert::schedule as convert;
use api::schedule::v0 as wire;
use api::schedule::v0::schedules_server::Schedules as Service;
use api::status::to_status;
use futures_util::{Stream, stream};
use identity::{Effect, Identity, Permit, Reach};
use model::error::Error;
use model::request::Scope;
use model::schedule::request::Named;
use schedule::{KeptConfig, Schedules, Status as Known, Told, WatchEvent, Watcher};
use tenants::WatchKind;
use tonic::{Request, Response, Status};

use super::caller::Caller;
use super::stream::{Answers, until_expelled};

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

    /// Does `act` on a schedule, once what `effects` says of its runs is permitted. A run that
    /// began between the decision and the act is decided on, too.
    async fn deciding<T, F: Future<Output = Result<T, Error>>>(
        &self,
        caller: &Caller,
        named: &Named,
        effects: impl Fn() -> Result<Vec<Effect>, Error>,
        act: impl Fn(Permit) -> F,
    ) -> Result<T, Status> {
        let effects = || effects().map_err(to_status);
        let once = async |decided: &[Effect]| {
            let (path, also) = (named.path(), decided.to_vec());
            let permit = caller.permit_effects(&named.tenant, &path, Reach::Object, also);
            caller.unless_expelled(act(permit.await?)).await
        };
        let decided = effects()?;
        let error = match once(&decided).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let now = effects()?;
        match now.iter().all(|it| decided.contains(it)) {
            true => Err(error),
            false => once(&now).await,
        }
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

fn config(kept: &KeptConfig, told: convert::Told<'_>) -> wire::Config {
    convert::to_config(&convert::Kept {
        named: &kept.named,
        data: &kept.data,
        told,
        immutable: kept.immutable,
        generation: kept.generation,
        changed: kept.changed,
        owner: kept.owner.to_string(),
    })
}

fn events(watcher: Watcher) -> impl Stream<Item = Result<wire::WatchEvent, Status>> + Send {
    stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await;
        Some((Ok(to_event(&event)), watcher))
    })
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
    let told = |told: &Told| match told {
        Told::Is(known) => message(known),
        Told::Gone(gone) => wire::ScheduleStatus {
            tenant: gone.named.tenant.to_string(),
            name: gone.named.name.to_string(),
            uid: gone.uid.to_string(),
            ..Default::default()
        },
    };
    wire::WatchEvent {
        r#type: kind.into(),
        schedule: event.told.as_ref().map(told),
        resume_token: event.resume_token.clone(),
    }
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
        let list = convert::list(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = caller.permit_scope(&list.scope, None).await?;
        let (page, next) = self.schedules.list(&permit, &list).map_err(to_status)?;
        Ok(Response::new(wire::ListResponse {
            schedules: page.iter().map(|known| message(known)).collect(),
            next_page_token: next.unwrap_or_default(),
        }))
    }

    type WatchStream = Answers<wire::WatchEvent>;

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Answer<Self::WatchStream> {
        let caller = Caller::of(&self.identity, &request, action::WATCH)?;
        let watch = convert::watch(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = caller.permit_scope(&watch.scope, None).await?;
        let watcher = self.schedules.watch(permit, watch).map_err(to_status)?;
        let events = until_expelled(events(watcher), caller.expelled());
        Ok(Response::new(events))
    }

    async fn undo(&self, request: Request<wire::UndoRequest>) -> Answer<wire::ScheduleStatus> {
        let caller = Caller::of(&self.identity, &request, action::UNDO)?;
        let asked = request.into_inner();
        let named = convert::named(caller.tenant(), &asked.tenant, &asked.name);
        let named = named.map_err(to_status)?;
        // What there is is told to who may ask for it alone.
        caller
            .permit_at(&named.tenant, Some(&named.path()))
            .await?
            .demand_tenant(&named.tenant)
            .map_err(to_status)?;
        let declare = self.schedules.revision(&named, asked.revision).await;
        let declare = declare.map_err(to_status)?;
        let also = self.schedules.effects_of_declare(&named, &declare.spec);
        let also = also.map_err(to_status)?;
        let permit = caller
            .permit_effects(&named.tenant, &named.path(), Reach::Object, also)
            .await?;
        let undone = self.schedules.undo(permit, declare);
        shown(&*caller.unless_expelled(undone).await?)
    }

    async fn put_config(&self, request: Request<wire::PutConfigRequest>) -> Answer<wire::Config> {
        let caller = Caller::of(&self.identity, &request, action::PUT_CONFIG)?;
        let put = convert::put(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = caller
            .permit_at(&put.named.tenant, Some(&put.named.path()))
            .await?;
        let put = self.schedules.put_config(permit, put);
        let kept = caller.unless_expelled(put).await?;
        Ok(Response::new(config(&kept, convert::Told::Keys)))
    }

    async fn get_config(&self, request: Request<wire::GetConfigRequest>) -> Answer<wire::Config> {
        let caller = Caller::of(&self.identity, &request, action::GET_CONFIG)?;
        let it = request.into_inner();
        let named = convert::config(caller.tenant(), &it.tenant, it.kind, &it.name);
        let named = named.map_err(to_status)?;
        let permit = caller.permit_at(&named.tenant, Some(&named.path())).await?;
        let kept = self.schedules.get_config(&permit, &named);
        let kept = kept.map_err(to_status)?;
        let told = convert::Told::Texts(&it.data);
        Ok(Response::new(config(&kept, told)))
    }

    async fn list_configs(
        &self,
        request: Request<wire::ListConfigsRequest>,
    ) -> Answer<wire::ListConfigsResponse> {
        let caller = Caller::of(&self.identity, &request, action::LIST_CONFIGS)?;
        let scope = scope(caller.tenant(), &request.get_ref().tenant).map_err(to_status)?;
        let Scope::Tenant(tenant) = &scope else {
            let error = Error::invalid("tenant", "must be one tenant");
            return Err(to_status(error));
        };
        let permit = caller.permit_scope(&scope, None).await?;
        let all = self.schedules.list_configs(&permit, tenant);
        let all = all.map_err(to_status)?;
        Ok(Response::new(wire::ListConfigsResponse {
            configs: all
                .iter()
                .map(|kept| config(kept, convert::Told::Keys))
                .collect(),
        }))
    }

    async fn remove_config(
        &self,
        request: Request<wire::RemoveConfigRequest>,
    ) -> Answer<wire::RemoveConfigResponse> {
        let caller = Caller::of(&self.identity, &request, action::REMOVE_CONFIG)?;
        let it = request.into_inner();
        let named = convert::config(caller.tenant(), &it.tenant, it.kind, &it.name);
        let named = named.map_err(to_status)?;
        let permit = caller.permit_at(&named.tenant, Some(&named.path())).await?;
        let removed = self.schedules.remove_config(permit, &named);
        caller.unless_expelled(removed).await?;
        Ok(Response::new(wire::RemoveConfigResponse {}))
    }

    async fn remove(&self, request: Request<wire::RemoveRequest>) -> Answer<wire::RemoveResponse> {
        let caller = Caller::of(&self.identity, &request, action::REMOVE)?;
        let message = request.into_inner();
        let named = convert::named(caller.tenant(), &message.tenant, &message.name);
        let named = named.map_err(to_status)?;
        let effects = || self.schedules.effects_of_remove(&named);
        let remove = |permit| self.schedules.remove(permit, &named);
        self.deciding(&caller, &named, effects, remove).await?;
        Ok(Response::new(wire::RemoveResponse {}))
    }

    async fn trigger(
        &self,
        request: Request<wire::TriggerRequest>,
    ) -> Answer<wire::ScheduleStatus> {
        let caller = Caller::of(&self.identity, &request, action::TRIGGER)?;
        let it = request.into_inner();
        let named = convert::named(caller.tenant(), &it.tenant, &it.name).map_err(to_status)?;
        let effects = || self.schedules.effects_of_trigger(&named);
        let trigger = |permit| self.schedules.trigger(permit, &named);
        shown(&*self.deciding(&caller, &named, effects, trigger).await?)
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
