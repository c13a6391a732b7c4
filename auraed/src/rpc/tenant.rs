// SPDX-License-Identifier: Apache-2.0
//! The `Tenant` service on the wire. `tenants` does the work; `identity` says whether a tenant has
//! users. A tenant's name is free once nothing is kept of it that the next of that name could read:
//! records, output and sets go with it. Its lines of the audit stay: they say who it was.

use std::sync::Arc;

use api::action::tenant as action;
use api::convert::scalar::{maybe_parse, parse, to_timestamp};
use api::convert::tenant as convert;
use api::status::to_status;
use api::tenant::v0 as wire;
use api::tenant::v0::tenant_server::Tenant as Service;
use identity::{Identity, Permit};
use model::error::Error;
use model::name::Tenant;
use model::time::Timestamp;
use observe::Logs;
use pod::Pods;
use runtime::Runtime;
use schedule::Schedules;
use store::Store;
use tenants::{QuotaStatus, TenantStatus, Tenants};
use tonic::{Request, Response, Status};

use super::caller::Caller;

/// The service `Tenant`.
pub(super) struct TenantService {
    pub(super) identity: Arc<Identity>,
    pub(super) tenants: Tenants,
    pub(super) runtime: Runtime,
    pub(super) pods: Pods,
    pub(super) schedules: Schedules,
    pub(super) logs: Logs,
    pub(super) store: Store,
}

type Answer<T> = Result<Response<T>, Status>;

impl TenantService {
    fn enter<T>(&self, request: &Request<T>, action: &'static str) -> Result<Caller, Status> {
        Caller::of(&self.identity, request, action)
    }

    /// Records are first: no log is found without its record.
    async fn clear(&self, name: &Tenant) -> Result<(), Error> {
        self.runtime.forget_finished(name).await?;
        self.logs.remove_all(name).await?;
        let removed = self.store.remove_sets(name.to_string()).await;
        removed.map_err(Error::from)
    }
}

#[tonic::async_trait]
impl Service for TenantService {
    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<wire::ListResponse> {
        let caller = self.enter(&request, action::LIST)?;
        let permit = caller.permit(identity::Target::every_tenant()).await?;
        let tenants = self.tenants.list(permit);
        Ok(Response::new(wire::ListResponse {
            tenants: tenants.iter().map(to_message).collect(),
        }))
    }

    async fn get(&self, request: Request<wire::GetRequest>) -> Answer<wire::TenantStatus> {
        let caller = self.enter(&request, action::GET)?;
        let message = request.into_inner();
        let name = maybe_parse("name", &message.name).map_err(to_status)?;
        let name = name.unwrap_or_else(|| caller.tenant().clone());
        let permit = caller.permit_at(&name, None).await?;
        let status = self.tenants.get(permit, &name).map_err(to_status)?;
        let mut answer = to_message(&status);
        if let Some(declared) = message.quotas {
            let compared = convert::compared(declared, |quota| status.amount_set(quota));
            let compared = compared.map_err(|e| to_status(e.within("quotas")))?;
            let none = || to_status(Error::not_found("quota", name.to_string()));
            answer.quotas = Some(compared.ok_or_else(none)?);
        }
        Ok(Response::new(answer))
    }

    async fn set(&self, request: Request<wire::SetRequest>) -> Answer<wire::TenantStatus> {
        let caller = self.enter(&request, action::SET)?;
        let message = request.into_inner();
        let name: Tenant = parse("name", &message.name).map_err(to_status)?;
        let changes = convert::quotas(message.quotas.unwrap_or_default());
        let changes = changes.map_err(|e| to_status(e.within("quotas")))?;
        let asked = changes.iter().filter(|(_, amount)| amount.is_some());
        for (quota, _) in asked {
            let there = self.runtime.check_quota(*quota);
            there.map_err(|e| to_status(e.within("quotas")))?;
        }
        let permit = caller.permit_at(&name, None).await?;
        let set = self.tenants.set(permit, &name, &changes).await;
        let status = set.map_err(|e| to_status(e.within("quotas")))?;
        Ok(Response::new(to_message(&status)))
    }

    async fn remove(&self, request: Request<wire::RemoveRequest>) -> Answer<wire::RemoveResponse> {
        let caller = self.enter(&request, action::REMOVE)?;
        let name: Tenant = parse("name", &request.get_ref().name).map_err(to_status)?;
        let permit = caller.permit_at(&name, None).await?;
        let has_users = |permit: &Permit| {
            let users = self.identity.list_users(permit);
            users.iter().any(|user| !user.disabled)
        };
        let clear = self.clear(&name);
        let removed = self.tenants.remove(permit, &name, has_users, clear).await;
        removed.map_err(to_status)?;
        self.pods.tenant_is_gone(&name);
        self.schedules.tenant_is_gone(&name);
        self.runtime.tenant_is_gone(name).await;
        Ok(Response::new(wire::RemoveResponse {}))
    }
}

fn to_message(status: &TenantStatus) -> wire::TenantStatus {
    let created = u64::try_from(status.created_ns).ok().filter(|ns| *ns > 0);
    let set = status.usage.iter().filter(|one| one.set);
    let set = set.map(|one| (one.quota, one.amount.show(one.quota)));
    wire::TenantStatus {
        name: status.name.to_string(),
        created: created.map(|ns| to_timestamp(Timestamp(ns))),
        usage: status.usage.iter().map(to_quota).collect(),
        quotas: Some(convert::to_quotas(set)),
    }
}

fn to_quota(quota: &QuotaStatus) -> wire::QuotaStatus {
    wire::QuotaStatus {
        quota: quota.quota.to_string(),
        setting: quota.amount.show(quota.quota),
        set: quota.set,
        limit: Some(quota.limit).filter(|limit| *limit != u64::MAX),
        used: quota.used,
    }
}
