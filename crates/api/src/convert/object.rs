// SPDX-License-Identifier: Apache-2.0
//! References to objects, labels, kinds, selections.

use std::collections::{BTreeMap, BTreeSet};

use model::error::{Error, Result, Within};
use model::label::Labels;
use model::name::Tenant;
use model::object::{Kind, ObjectRef};
use model::request::{Filter, Scope};

use super::scalar::{enumeration, maybe_parse, parse, required};
use crate::runtime::v0 as wire;

/// A reference, with the caller's own tenant where none is given.
pub fn object_ref(own: &Tenant, message: Option<wire::ObjectRef>) -> Result<ObjectRef> {
    reference(own, required("ref", message)?).within("ref")
}

/// The same for one that stands in a list: the field's path is the caller's to give.
pub fn reference(own: &Tenant, message: wire::ObjectRef) -> Result<ObjectRef> {
    Ok(ObjectRef {
        tenant: maybe_parse("tenant", &message.tenant)?.unwrap_or_else(|| own.clone()),
        path: parse("path", &message.path)?,
        uid: maybe_parse("uid", &message.uid)?,
        kind: kind("kind", message.kind)?,
    })
}

/// A reference to something that is to be made: a uid is new per run and can't be asked for.
pub fn new_object(own: &Tenant, kind: Kind, message: Option<wire::ObjectRef>) -> Result<ObjectRef> {
    let reference = object_ref(own, message)?;
    if reference.uid.is_some() {
        return Err(Error::invalid(
            "ref.uid",
            "must be empty: the node gives each run its own",
        ));
    }
    match reference.kind {
        Some(other) if other != kind => Err(Error::invalid(
            "ref.kind",
            format!("is {other}, but this call makes a {kind}"),
        )),
        _ => Ok(reference),
    }
}

/// A reference for the wire.
pub fn to_object_ref(reference: &ObjectRef) -> wire::ObjectRef {
    wire::ObjectRef {
        tenant: reference.tenant.to_string(),
        path: reference.path.to_string(),
        uid: reference.uid.map(|uid| uid.to_string()).unwrap_or_default(),
        kind: reference
            .kind
            .map_or(wire::Kind::Unspecified, to_kind)
            .into(),
    }
}

/// `None` for unspecified.
pub fn kind(field: &str, number: i32) -> Result<Option<Kind>> {
    Ok(match enumeration(field, number)? {
        wire::Kind::Unspecified => None,
        wire::Kind::Cell => Some(Kind::Cell),
        wire::Kind::Executable => Some(Kind::Executable),
    })
}

/// A kind for the wire.
pub fn to_kind(kind: Kind) -> wire::Kind {
    match kind {
        Kind::Cell => wire::Kind::Cell,
        Kind::Executable => wire::Kind::Executable,
    }
}

/// Checked labels.
pub fn labels(map: BTreeMap<String, String>) -> Result<Labels> {
    Labels::new(map).within("labels")
}

/// Empty: the caller's own; `*`: everybody's.
pub fn scope(own: &Tenant, tenant: &str) -> Result<Scope> {
    match tenant {
        "*" => Ok(Scope::Every),
        _ => Ok(Scope::Tenant(
            maybe_parse("tenant", tenant)?.unwrap_or_else(|| own.clone()),
        )),
    }
}

/// The part that `ListRequest` and `WatchRequest` have in common.
pub(super) fn filter(
    own: &Tenant,
    tenant: &str,
    selector: &str,
    kinds: &[i32],
    below: &str,
) -> Result<Filter> {
    let kinds = kinds.iter().enumerate().map(|(i, number)| {
        let field = format!("kinds[{i}]");
        kind(&field, *number)?.ok_or_else(|| Error::invalid(field, "must not be unspecified"))
    });
    Ok(Filter {
        scope: scope(own, tenant)?,
        selector: selector.parse().map_err(|e: Error| e.within("selector"))?,
        kinds: kinds.collect::<Result<BTreeSet<Kind>>>()?,
        below: maybe_parse("below", below)?,
    })
}
