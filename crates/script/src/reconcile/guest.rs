// SPDX-License-Identifier: Apache-2.0
//! What runs in a cell and mustn't end with it: what isn't of the set, and what is protected. A
//! plan and an apply refuse to recreate such a cell, and `prune` lets it stay.

use std::collections::BTreeSet;

use api::runtime::v0::{Kind, ListRequest, Meta, ObjectRef};

use super::asking::running;
use super::current;
use super::desired::goes_with;
use super::manifest::Manifests;
use super::set::{PROTECT_LABEL, SET_LABEL};
use crate::nodes::Nodes;
use crate::protocol::Failure;

/// A cell can't be recreated with objects in it that aren't of the set, or are protected. `own` is
/// a cell of another subsystem's.
///
/// # Errors
/// There is one: it is named.
pub(crate) async fn refuse_guests(
    nodes: &Nodes,
    node: Option<&str>,
    (reference, own): (&ObjectRef, bool),
    set: &Manifests,
) -> Result<(), Failure> {
    let path = &reference.path;
    let mut failure = match guest(nodes, node, (reference, own), set).await? {
        None => return Ok(()),
        Some(Guest::Foreign(other)) => {
            let message = format!(
                "{path} would have to be recreated, but {other} runs in it and isn't of the set \
                 {}",
                set.claim().set
            );
            Failure::new("CONFLICT", message).hint(format!(
                "stop {other} first, or leave those fields of {path} as they are"
            ))
        }
        Some(Guest::Protected(other)) => {
            let message = format!(
                "{path} would have to be recreated, but {other} runs in it and is protected"
            );
            Failure::new("PROTECTED", message).hint(format!(
                "leave those fields of {path} as they are; or apply {other} without `protect` \
                 first"
            ))
        }
    };
    failure.object = Some(path.clone());
    Err(failure)
}

/// Something in a cell that mustn't end with it.
pub(super) enum Guest {
    /// It isn't of the set.
    Foreign(String),
    /// It is, and is protected.
    Protected(String),
}

/// Something that runs in a cell and mustn't be stopped: stopping the cell stops it, too. None for
/// what is no cell.
///
/// # Errors
/// The node can't be asked.
pub(super) async fn guest(
    nodes: &Nodes,
    node: Option<&str>,
    (cell, own): (&ObjectRef, bool),
    set: &Manifests,
) -> Result<Option<Guest>, Failure> {
    if cell.kind() != Kind::Cell {
        return Ok(None);
    }
    let filter = ListRequest {
        tenant: cell.tenant.clone(),
        below: cell.path.clone(),
        ..ListRequest::default()
    };
    let found = running(nodes, node, filter).await?;
    let name = &set.claim().set;
    let is_ours = |meta: &Meta| meta.labels.get(SET_LABEL).is_some_and(|of| of == name);
    // What is in a workload of another subsystem and bears no set's label is a part of it, as a
    // pod's containers are.
    let mut owned = match found.iter().all(is_ours) {
        true => BTreeSet::new(),
        false => current::owned(nodes, node, set, &cell.tenant).await?,
    };
    owned.retain(|path| own || *path != cell.path);
    let is_part = |meta: &Meta, path: &str| {
        let mut around = owned.iter().filter_map(|it| path.strip_prefix(it.as_str()));
        !meta.labels.contains_key(SET_LABEL) && around.any(|rest| rest.starts_with('/'))
    };
    // A cell that an executable of the set brought has no label of its own.
    let brought = found.iter().filter(|meta| is_ours(meta));
    let brought: BTreeSet<String> = brought.filter_map(goes_with).map(|it| it.path).collect();
    let inside = format!("{}/", cell.path);
    let mut protected = None;
    for meta in found {
        let path = meta.r#ref.as_ref().map(|it| it.path.clone());
        let path = path.unwrap_or_default();
        if !path.starts_with(&inside) || brought.contains(&path) || is_part(&meta, &path) {
            continue;
        }
        if !is_ours(&meta) {
            return Ok(Some(Guest::Foreign(path)));
        }
        if meta.labels.contains_key(PROTECT_LABEL) {
            protected.get_or_insert(Guest::Protected(path));
        }
    }
    Ok(protected)
}
