// SPDX-License-Identifier: Apache-2.0
//! What belongs to a set and isn't declared any more: the running objects with the set's label, on
//! the nodes and in the tenants that the program speaks of, and no others. Nothing is stopped here;
//! an apply does it, a plan says it.

use std::collections::BTreeSet;

use api::identity::v0::{WhoAmIRequest, WhoAmIResponse};
use api::runtime::v0::{Kind, ListRequest, Meta, ObjectRef};

use super::asking::{question, running};
use super::change::{Action, Change};
use super::declared::{SET_LABEL, goes_with};
use super::journal::Journal;
use crate::host::nodes::Nodes;
use crate::protocol::Failure;

/// An object that is to be stopped, or would be if it weren't for what is in it.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) node: Option<String>,
    pub(crate) reference: ObjectRef,
    /// Why it has to be left running all the same: what would go with it.
    pub(crate) kept: Option<String>,
}

impl Leftover {
    /// As a plan tells it.
    pub(crate) fn change(&self) -> Change {
        let (action, reason) = match &self.kept {
            None => (Action::Stop, "it isn't declared any more".to_owned()),
            Some(kept) => (
                Action::Unchanged,
                format!("it isn't declared any more, but {kept}"),
            ),
        };
        Change {
            action,
            kind: kind(&self.reference).to_owned(),
            name: self.reference.path.clone(),
            tenant: self.reference.tenant.clone(),
            node: self.node.clone(),
            reason: Some(reason),
            differences: Vec::new(),
            at: None,
            error: None,
        }
    }
}

fn kind(reference: &ObjectRef) -> &'static str {
    match reference.kind() {
        Kind::Executable => "executable",
        _ => "cell",
    }
}

/// All of them, what is in a cell before the cell.
///
/// # Errors
/// A node can't be asked.
pub(crate) async fn leftovers(nodes: &Nodes, journal: &Journal) -> Result<Vec<Leftover>, Failure> {
    let keys = journal.keys();
    let mut all = Vec::new();
    for node in nodes.contacted_or_default() {
        let here = |key: &&super::journal::Key| nodes.same(&key.0, &node);
        let own = own_tenant(nodes, node.as_deref()).await?;
        let canonical = |tenant: &str| match tenant {
            "" => own.clone(),
            tenant => tenant.to_owned(),
        };
        let declared: BTreeSet<(String, String)> = keys
            .iter()
            .filter(here)
            .map(|(_, tenant, path)| (canonical(tenant), path.clone()))
            .collect();
        let mut tenants: BTreeSet<String> =
            declared.iter().map(|(tenant, _)| tenant.clone()).collect();
        tenants.insert(own.clone());
        for tenant in tenants {
            let found = of_set(nodes, node.as_deref(), &tenant, journal.set()).await?;
            for meta in found {
                let reference = meta.r#ref.clone().unwrap_or_default();
                let name = (reference.tenant.clone(), reference.path.clone());
                if !declared.contains(&name) {
                    let kept = kept(nodes, node.as_deref(), &meta, journal.set(), &declared);
                    all.push(Leftover {
                        node: node.clone(),
                        kept: kept.await?,
                        reference,
                    });
                }
            }
        }
    }
    all.sort_by_key(|one| std::cmp::Reverse(one.reference.path.matches('/').count()));
    Ok(all)
}

/// What would go with a leftover, its own cell's members included, and mustn't.
async fn kept(
    nodes: &Nodes,
    node: Option<&str>,
    meta: &Meta,
    set: &str,
    declared: &BTreeSet<(String, String)>,
) -> Result<Option<String>, Failure> {
    let reference = goes_with(meta).or_else(|| meta.r#ref.clone());
    let Some(cell) = reference.filter(|it| it.kind() == Kind::Cell) else {
        return Ok(None);
    };
    let inside = format!("{}/", cell.path);
    let mut ours = declared.iter();
    let ours = ours.find(|(tenant, path)| *tenant == cell.tenant && path.starts_with(&inside));
    if let Some((_, path)) = ours {
        return Ok(Some(format!("{path}, which would go with it, is")));
    }
    let other = foreign(nodes, node, &cell, set).await?;
    Ok(other.map(|other| format!("holds {other}, which isn't of this set")))
}

async fn of_set(
    nodes: &Nodes,
    node: Option<&str>,
    tenant: &str,
    set: &str,
) -> Result<Vec<Meta>, Failure> {
    let filter = ListRequest {
        tenant: tenant.to_owned(),
        selector: format!("{SET_LABEL}={set}"),
        ..ListRequest::default()
    };
    running(nodes, node, filter).await
}

/// Something that runs in a cell and isn't of the set: who stops the cell stops it, too.
pub(crate) async fn foreign(
    nodes: &Nodes,
    node: Option<&str>,
    cell: &ObjectRef,
    set: &str,
) -> Result<Option<String>, Failure> {
    if cell.kind() != Kind::Cell {
        return Ok(None);
    }
    let filter = ListRequest {
        tenant: cell.tenant.clone(),
        selector: format!("{SET_LABEL}!={set}"),
        below: cell.path.clone(),
        ..ListRequest::default()
    };
    let found = running(nodes, node, filter).await?;
    let inside = format!("{}/", cell.path);
    let references = found.into_iter().filter_map(|meta| meta.r#ref);
    let mut others = references.map(|reference| reference.path);
    Ok(others.find(|path| path.starts_with(&inside)))
}

/// Whose objects a request means that doesn't say so.
async fn own_tenant(nodes: &Nodes, node: Option<&str>) -> Result<String, Failure> {
    let chosen = nodes.tenant(node).await?;
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let who: WhoAmIResponse = question(nodes, node, "identity.WhoAmI", &WhoAmIRequest {}).await?;
    Ok(who.tenant)
}
