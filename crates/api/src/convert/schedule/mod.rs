// SPDX-License-Identifier: Apache-2.0
//! Schedules: requests and specs from the wire, specs and statuses back.

mod back;
mod spec;
mod status;
mod work;

use model::error::{Result, Within};
use model::name::{Label, Tenant};
use model::schedule::request::{Declare, Named, check_name};

use super::scalar::{maybe_parse, parse, required};
use crate::schedule::v0 as wire;

pub use back::to_spec;
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
