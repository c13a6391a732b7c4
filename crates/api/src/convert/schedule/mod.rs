// SPDX-License-Identifier: Apache-2.0
//! Schedules: requests and specs from the wire, specs and statuses back.

mod back;
mod config;
mod many;
mod spec;
mod status;
mod work;

use model::error::{Result, Within};
use model::name::{Label, Tenant};
use model::schedule::request::{Declare, List, Named, Watch, check_name};

use super::object::scope;
use super::request::{page_size, token};
use super::scalar::{maybe_parse, parse, required};
use crate::schedule::v0 as wire;

pub use back::to_spec;
pub use config::{Kept, Told, config, normal_config, put, to_config, to_name, to_put};
pub use model::schedule::crontab;
pub use model::schedule::manifest::{All as Manifests, Read, ReadConfig, read as read_manifests};
pub use status::{Shown, to_entry, to_reason, to_status};

/// Checks the request of `Declare`.
///
/// # Errors
/// `INVALID_FIELD`: a part is missing or malformed, or a path isn't the schedule's.
pub fn declare(own: &Tenant, message: wire::DeclareRequest) -> Result<Declare> {
    let named = named(own, &message.tenant, &message.name)?;
    check_name(&named.name)?;
    let spec = required("spec", message.spec)?;
    let spec = spec::spec(&named, spec).within("spec")?;
    Ok(Declare { named, spec })
}

/// The request with its spec in the form that a status gives it back in: what says the same is the
/// same. For a client that compares the two; `own` is the caller's tenant.
///
/// # Errors
/// `INVALID_FIELD`: the node would refuse it.
pub fn normal(own: &str, message: wire::DeclareRequest) -> Result<wire::DeclareRequest> {
    let own: Tenant = parse("tenant", own)?;
    let Declare { named, spec } = declare(&own, message.clone())?;
    Ok(wire::DeclareRequest {
        spec: Some(to_spec(named.name.as_str(), &spec)),
        ..message
    })
}

/// The most schedules of one page, and how many where the request doesn't say.
const MAX_PAGE: usize = 100;

/// Checks the request of `List`.
///
/// # Errors
/// `INVALID_FIELD`: the tenant, the page's size or its token is malformed.
pub fn list(own: &Tenant, message: wire::ListRequest) -> Result<List> {
    Ok(List {
        scope: scope(own, &message.tenant)?,
        page_size: page_size(message.page_size, MAX_PAGE, MAX_PAGE)?,
        page_token: token("page_token", message.page_token)?,
    })
}

/// Checks the request of `Watch`.
///
/// # Errors
/// `INVALID_FIELD`: the tenant or the token is malformed.
pub fn watch(own: &Tenant, message: wire::WatchRequest) -> Result<Watch> {
    Ok(Watch {
        scope: scope(own, &message.tenant)?,
        resume_token: token("resume_token", message.resume_token)?,
    })
}

/// Checks the name of a schedule.
///
/// # Errors
/// `INVALID_FIELD`: the tenant or the name is malformed.
pub fn named(own: &Tenant, tenant: &str, name: &str) -> Result<Named> {
    Ok(Named {
        tenant: maybe_parse("tenant", tenant)?.unwrap_or_else(|| own.clone()),
        name: parse::<Label>("name", name)?,
    })
}
