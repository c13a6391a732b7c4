// SPDX-License-Identifier: Apache-2.0
//! The `Sets` service: a manifest is checked, then stored by `store`. It acts on no member of a
//! set; clients do, with the members' own methods.

use std::sync::Arc;

use api::action::sets as action;
use api::convert::object::scope;
use api::convert::scalar::{maybe_parse, to_timestamp};
use api::convert::set::{put, to_set};
use api::sets::v0 as wire;
use api::sets::v0::sets_server::Sets as Service;
use api::status::to_status;
use identity::Identity;
use model::error::{Error, Reason};
use model::name::Tenant;
use model::request::Scope;
use model::set::{MAX_BYTES, Manifest, check_name};
use model::time::Timestamp;
use store::{MAX_SETS_PER_TENANT, SetRow, SetWritten, Store, now_ns};
use tenants::Turns;
use tonic::{Request, Response, Status};

use super::caller::Caller;

/// The service `Sets`.
pub(super) struct SetsService {
    pub(super) identity: Arc<Identity>,
    pub(super) store: Store,
    /// Reads go to the store in turns by tenant: a list may be of many megabytes.
    pub(super) reads: Turns,
}

type Answer<T> = Result<Response<T>, Status>;

impl SetsService {
    fn enter<T>(&self, request: &Request<T>, action: &'static str) -> Result<Caller, Status> {
        Caller::of(&self.identity, request, action)
    }
}

#[tonic::async_trait]
impl Service for SetsService {
    async fn get(&self, request: Request<wire::GetRequest>) -> Answer<wire::Set> {
        let caller = self.enter(&request, action::GET)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, "tenant", &message.tenant)?;
        check_name("name", &message.name).map_err(to_status)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let whose = permit.tenant().as_str().to_owned();
        let (store, name) = (self.store.clone(), message.name.clone());
        let read = async move { store.set(whose, name).await };
        let found = self.reads.run(caller.tenant(), read).await;
        let found = found.map_err(to_status)?;
        let found = found.map_err(|e| to_status(e.into()))?;
        let row = found.ok_or_else(|| to_status(Error::not_found("set", message.name)))?;
        Ok(Response::new(to_wire(row).map_err(to_status)?))
    }

    async fn list(&self, request: Request<wire::ListRequest>) -> Answer<wire::ListResponse> {
        let caller = self.enter(&request, action::LIST)?;
        let scope = scope(caller.tenant(), &request.get_ref().tenant).map_err(to_status)?;
        let permit = caller.permit_scope(&scope, None).await?;
        let whose = match scope {
            Scope::Tenant(_) => Some(permit.tenant().as_str().to_owned()),
            Scope::Every => None,
        };
        let store = self.store.clone();
        let read = async move { store.sets(whose).await };
        let rows = self.reads.run(caller.tenant(), read).await;
        let rows = rows.map_err(to_status)?;
        let rows = rows.map_err(|e| to_status(e.into()))?;
        let sets: Result<Vec<_>, _> = rows.into_iter().map(to_wire).collect();
        Ok(Response::new(wire::ListResponse {
            sets: sets.map_err(to_status)?,
        }))
    }

    async fn put(&self, request: Request<wire::PutRequest>) -> Answer<wire::Set> {
        let caller = self.enter(&request, action::PUT)?;
        let message = request.into_inner();
        let (whose, name, manifest) = put(message.set).map_err(to_status)?;
        let tenant = tenant(&caller, "set.tenant", &whose)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let kept = encode(&manifest).map_err(to_status)?;
        let row = SetRow {
            tenant: permit.tenant().as_str().to_owned(),
            name,
            revision: message.expected_revision,
            changed_ns: now_ns(),
            changed_by: permit.actor().to_owned(),
            manifest: kept,
        };
        let written = self.store.put_set(row.clone()).await;
        let written = written.map_err(|e| to_status(e.into()))?;
        let revision = check(written, &row.name, row.revision).map_err(to_status)?;
        let row = SetRow { revision, ..row };
        Ok(Response::new(to_wire(row).map_err(to_status)?))
    }

    async fn remove(&self, request: Request<wire::RemoveRequest>) -> Answer<wire::RemoveResponse> {
        let caller = self.enter(&request, action::REMOVE)?;
        let message = request.into_inner();
        let tenant = tenant(&caller, "tenant", &message.tenant)?;
        check_name("name", &message.name).map_err(to_status)?;
        let permit = caller.permit_at(&tenant, None).await?;
        let whose = permit.tenant().as_str().to_owned();
        let read = message.expected_revision;
        let removed = self.store.remove_set(whose, message.name.clone(), read);
        let removed = removed.await.map_err(|e| to_status(e.into()))?;
        match removed {
            SetWritten::Overtaken(0) => Err(to_status(Error::not_found("set", message.name))),
            other => check(other, &message.name, read)
                .map(|_| Response::new(wire::RemoveResponse {}))
                .map_err(to_status),
        }
    }
}

fn tenant(caller: &Caller, field: &str, named: &str) -> Result<Tenant, Status> {
    let named = maybe_parse(field, named).map_err(to_status)?;
    Ok(named.unwrap_or_else(|| caller.tenant().clone()))
}

fn check(written: SetWritten, name: &str, read: u64) -> Result<u64, Error> {
    match written {
        SetWritten::At(revision) => Ok(revision),
        SetWritten::Overtaken(found) => {
            let message = format!("the set {name} has revision {found}, not {read}");
            Err(Error::new(Reason::Conflict, message)
                .about("set", name)
                .hint("another apply has written it meanwhile: apply again"))
        }
        SetWritten::Full => {
            let message = format!("the tenant has {MAX_SETS_PER_TENANT} sets, as many as it may");
            Err(Error::new(Reason::LimitExceeded, message)
                .hint("remove one that isn't needed: `aurae set ls`, `aurae set rm NAME`"))
        }
    }
}

fn encode(manifest: &Manifest) -> Result<Vec<u8>, Error> {
    let kept = serde_json::to_vec(manifest)
        .map_err(|problem| Error::internal(format!("a manifest can't be kept: {problem}")))?;
    if kept.len() <= MAX_BYTES {
        return Ok(kept);
    }
    let message = format!("the manifest has {} bytes, at most {MAX_BYTES}", kept.len());
    Err(Error::new(Reason::LimitExceeded, message)
        .field("set.members")
        .hint("divide the program into several, each a set of its own"))
}

fn to_wire(row: SetRow) -> Result<wire::Set, Error> {
    let manifest: Manifest = serde_json::from_slice(&row.manifest)
        .map_err(|problem| Error::internal(format!("the set {} is broken: {problem}", row.name)))?;
    let changed = u64::try_from(row.changed_ns).unwrap_or(0);
    Ok(wire::Set {
        tenant: row.tenant,
        name: row.name,
        revision: row.revision,
        changed: Some(to_timestamp(Timestamp(changed))),
        changed_by: row.changed_by,
        ..to_set(manifest)
    })
}
