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

/// A reference, with the caller's own tenant where it names none.
///
/// # Errors
/// `INVALID_FIELD`: there is none, or its tenant, path, uid or kind is malformed.
pub fn object_ref(own: &Tenant, message: Option<wire::ObjectRef>) -> Result<ObjectRef> {
    reference(own, required("ref", message)?).within("ref")
}

/// [`object_ref`] of an element of a list: the caller of this function adds the list's name to the
/// field's path.
///
/// # Errors
/// `INVALID_FIELD`: its tenant, path, uid or kind is malformed.
pub fn reference(own: &Tenant, message: wire::ObjectRef) -> Result<ObjectRef> {
    Ok(ObjectRef {
        tenant: maybe_parse("tenant", &message.tenant)?.unwrap_or_else(|| own.clone()),
        path: parse("path", &message.path)?,
        uid: maybe_parse("uid", &message.uid)?,
        kind: kind("kind", message.kind)?,
    })
}

/// A reference to an object that is to be created.
///
/// # Errors
/// `INVALID_FIELD`: those of [`object_ref`]; it has a uid, which only the node gives; or it says
/// another kind than `kind`.
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

/// The message of a reference.
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

/// Checks the number of a kind; `None` for unspecified.
///
/// # Errors
/// `INVALID_FIELD`: the node doesn't know the number.
pub fn kind(field: &str, number: i32) -> Result<Option<Kind>> {
    Ok(match enumeration(field, number)? {
        wire::Kind::Unspecified => None,
        wire::Kind::Cell => Some(Kind::Cell),
        wire::Kind::Executable => Some(Kind::Executable),
    })
}

/// The wire's number of a kind.
pub fn to_kind(kind: Kind) -> wire::Kind {
    match kind {
        Kind::Cell => wire::Kind::Cell,
        Kind::Executable => wire::Kind::Executable,
    }
}

/// Checks the labels of one object.
///
/// # Errors
/// `INVALID_FIELD`: those of [`Labels::new`] and [`Labels::of_caller`], below `labels`.
pub fn labels(map: BTreeMap<String, String>) -> Result<Labels> {
    Labels::new(map)
        .and_then(Labels::of_caller)
        .within("labels")
}

/// The tenants of a request: the caller's own where `tenant` is empty, every tenant for `*`.
///
/// # Errors
/// `INVALID_FIELD`: `tenant` is no tenant's name.
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
