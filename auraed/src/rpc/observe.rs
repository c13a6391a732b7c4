// SPDX-License-Identifier: Apache-2.0
//! The `Observe` service on the wire. `observe` does the work.

use std::sync::Arc;

use api::action::observe as action;
use api::convert::observe as convert;
use api::observe::v0 as wire;
use api::observe::v0::observe_server::Observe as Service;
use api::status::to_status;
use client::Node;
use futures_util::StreamExt;
use identity::{Effect, Identity, Permit, Reach, Target};
use model::error::Error;
use model::name::Tenant;
use model::object::ObjectRef;
use model::request::Scope;
use observe::Observe;
use tonic::{Request, Response, Status};

use super::away::{Away, Itself};
use super::caller::Caller;
use super::stream::{Answers, until_expelled};

/// The service `Observe`.
pub(super) struct ObserveService {
    pub(super) identity: Arc<Identity>,
    pub(super) observe: Observe,
    /// Where some of what is asked about runs.
    pub(super) away: Away,
}

type Answer<T> = Result<Response<T>, Status>;

/// One permit for all objects that are named; without any, for the tenant's objects that the caller
/// may see.
async fn permit_all(
    caller: &Caller,
    tenant: &Tenant,
    refs: &[ObjectRef],
    reach: Reach,
) -> Result<Permit, Status> {
    let Some((first, others)) = refs.split_first() else {
        return caller
            .permit_scope(&Scope::Tenant(tenant.clone()), None)
            .await;
    };
    let effect = |target: &ObjectRef| Effect {
        action: caller.action(),
        path: Some(target.path.clone()),
        reach,
    };
    let also = others.iter().map(effect).collect();
    caller
        .permit_effects(&first.tenant, &first.path, reach, also)
        .await
}

#[tonic::async_trait]
impl Service for ObserveService {
    type LogsStream = Answers<wire::LogsResponse>;

    async fn logs(&self, request: Request<wire::LogsRequest>) -> Answer<Self::LogsStream> {
        let caller = Caller::of(&self.identity, &request, action::LOGS)?;
        let away = &self.away;
        let aside = away.aside(&caller, &request, Itself::Pod, |it| &mut it.refs);
        let query = convert::logs(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = permit_all(&caller, caller.tenant(), &query.refs, Reach::Subtree).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.observe().logs(call).await;
            return aside.pass_stream(&caller, &permit, call).await;
        }
        let items = self.observe.logs(permit, query).map_err(to_status)?;
        let items = items.map(|item| item.map(convert::to_logs_response).map_err(to_status));
        Ok(Response::new(until_expelled(items, caller.expelled())))
    }

    type JournalStream = Answers<wire::JournalEntry>;

    async fn journal(&self, request: Request<wire::JournalRequest>) -> Answer<Self::JournalStream> {
        let caller = Caller::of(&self.identity, &request, action::JOURNAL)?;
        let query = convert::journal(request.into_inner()).map_err(to_status)?;
        let permit = caller.permit(Target::own()).await?;
        let entries = self
            .observe
            .journal(permit, query)
            .await
            .map_err(to_status)?;
        let entries = entries.map(|item| {
            let (entry, behind) = item.map_err(to_status)?;
            Ok(convert::to_journal_entry(entry.time, entry.fields, behind))
        });
        Ok(Response::new(until_expelled(entries, caller.expelled())))
    }

    async fn usage(&self, request: Request<wire::UsageRequest>) -> Answer<wire::UsageResponse> {
        let caller = Caller::of(&self.identity, &request, action::USAGE)?;
        let away = &self.away;
        let aside = away.aside(&caller, &request, Itself::Pod, |it| &mut it.refs);
        let query = convert::usage(caller.tenant(), request.into_inner()).map_err(to_status)?;
        let permit = permit_all(&caller, &query.tenant, &query.refs, Reach::Object).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.observe().usage(call).await;
            return aside.pass(&caller, &permit, call).await;
        }
        let sample = self.observe.usage(permit, query).await;
        let answer = sample.map(convert::to_usage_response);
        answer.map(Response::new).map_err(to_status)
    }

    type WatchUsageStream = Answers<wire::UsageResponse>;

    async fn watch_usage(
        &self,
        request: Request<wire::WatchUsageRequest>,
    ) -> Answer<Self::WatchUsageStream> {
        let caller = Caller::of(&self.identity, &request, action::WATCH_USAGE)?;
        let away = &self.away;
        let aside = away.aside(&caller, &request, Itself::Pod, |it| &mut it.refs);
        let watch = convert::watch_usage(caller.tenant(), request.into_inner());
        let watch = watch.map_err(to_status)?;
        let (tenant, refs) = (&watch.query.tenant, &watch.query.refs);
        let permit = permit_all(&caller, tenant, refs, Reach::Object).await?;
        if let Some(aside) = aside? {
            let call = async |node: Node, call| node.observe().watch_usage(call).await;
            return aside.pass_stream(&caller, &permit, call).await;
        }
        let samples = self.observe.watch_usage(permit, watch).map_err(to_status)?;
        let samples = samples.map(|sample: Result<_, Error>| {
            sample.map(convert::to_usage_response).map_err(to_status)
        });
        Ok(Response::new(until_expelled(samples, caller.expelled())))
    }
}
