// SPDX-License-Identifier: Apache-2.0
//! What belongs to a set and isn't declared any more: the running workloads with the set's label,
//! and whatever else the set's manifest remembers, on the nodes that the program speaks to and on
//! those that the manifest names. Nothing is taken away by looking; an apply does it
//! ([`Leftover::take_away`]), a plan says it.

use std::collections::{BTreeMap, BTreeSet};

use api::identity::v0::{WhoAmIRequest, WhoAmIResponse};
use api::runtime::v0::{Kind, ListRequest, Meta, ObjectRef, StopRequest};
use api::sets::v0::Member;

use super::asking::{question, running, send};
use super::change::{Action, Change};
use super::desired::goes_with;
use super::keyed::Keyed;
use super::manifest::Manifests;
use super::set::{PROTECT_LABEL, SET_LABEL};
use crate::host::nodes::Nodes;
use crate::protocol::Failure;

/// What isn't declared any more, and the nodes that couldn't be asked.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// In the order in which they go: what is in a cell before the cell.
    pub(crate) all: Vec<Leftover>,
    /// By the context's name: why.
    pub(crate) away: BTreeMap<String, Failure>,
}

/// An object that is to be taken away, or would be if it weren't for a reason.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) node: Option<String>,
    pub(crate) what: What,
    /// Why it stays all the same.
    pub(crate) kept: Option<String>,
}

/// What is left.
#[derive(Debug)]
pub(crate) enum What {
    /// A workload that runs.
    Workload(ObjectRef),
    /// Something that another method made.
    Keyed(Box<Keyed>),
    /// Something that this client knows no method for.
    Unknown(Member),
}

impl Leftover {
    /// As a plan tells it.
    pub(crate) fn change(&self) -> Change {
        let action = match (&self.kept, &self.what) {
            (Some(_), _) | (_, What::Unknown(_)) => Action::Unchanged,
            (None, What::Workload(_)) => Action::Stop,
            (None, What::Keyed(_)) => Action::Remove,
        };
        let reason = match &self.kept {
            None => "it isn't declared any more".to_owned(),
            Some(kept) => format!("it isn't declared any more, but {kept}"),
        };
        let (kind, name, tenant) = match &self.what {
            What::Workload(of) => (kind(of).to_owned(), of.path.clone(), of.tenant.clone()),
            What::Keyed(it) => (it.kind().to_owned(), it.name(), it.tenant()),
            What::Unknown(it) => (it.kind.clone(), it.method.clone(), String::new()),
        };
        Change {
            node: self.node.clone(),
            reason: Some(reason),
            tenant,
            ..Change::new(action, kind, name)
        }
    }

    /// As the manifest has it, where it does.
    fn member(&self) -> Option<Member> {
        match &self.what {
            What::Workload(_) => None,
            What::Keyed(it) => Some(it.member()),
            What::Unknown(it) => Some(it.clone()),
        }
    }

    /// Takes it away, unless it is kept.
    ///
    /// # Errors
    /// The node refuses.
    pub(crate) async fn take_away(&self, nodes: &Nodes) -> Result<(), Failure> {
        let node = self.node.as_deref();
        match &self.what {
            _ if self.kept.is_some() => Ok(()),
            What::Workload(reference) => stop(nodes, node, reference.clone()).await,
            What::Keyed(keyed) => remove(nodes, node, keyed).await,
            What::Unknown(_) => Ok(()),
        }
    }
}

/// Takes a declared object away; one that is gone already is gone.
pub(crate) async fn remove(nodes: &Nodes, node: Option<&str>, it: &Keyed) -> Result<(), Failure> {
    let Some(current) = it.current(nodes, node).await? else {
        return Ok(());
    };
    let ask = it.removal(nodes, node, &current)?;
    match nodes.unary(ask).await {
        Err(failure) if failure.code == "NOT_FOUND" => Ok(()),
        other => other.map(drop),
    }
}

/// Stops a workload; one that has ended meanwhile, or with its cell, has ended.
pub(crate) async fn stop(
    nodes: &Nodes,
    node: Option<&str>,
    reference: ObjectRef,
) -> Result<(), Failure> {
    let request = StopRequest {
        r#ref: Some(reference),
        grace: None,
    };
    match send(nodes, node, "runtime.Stop", &request).await {
        Err(failure) if matches!(failure.code.as_str(), "NOT_FOUND" | "WRONG_STATE") => Ok(()),
        other => other.map(drop),
    }
}

fn kind(reference: &ObjectRef) -> &'static str {
    match reference.kind() {
        Kind::Executable => "executable",
        _ => "cell",
    }
}

impl Leftovers {
    /// What stays on each node though it isn't declared, by the node's name.
    pub(crate) fn staying(&self, nodes: &Nodes) -> BTreeMap<String, Vec<Member>> {
        let mut staying: BTreeMap<String, Vec<Member>> = BTreeMap::new();
        for one in self.all.iter().filter(|one| one.kept.is_some()) {
            let members = staying.entry(nodes.name(one.node.as_deref())).or_default();
            members.extend(one.member());
        }
        staying
    }

    /// The nodes that couldn't be asked.
    pub(crate) fn away(&self) -> BTreeSet<String> {
        self.away.keys().cloned().collect()
    }
}

/// A node of the set that couldn't be asked, as a plan and an apply tell it.
pub(crate) fn out_of_reach(name: &str, failure: &Failure) -> Change {
    Change {
        reason: Some(format!(
            "it is out of reach, and what the set has there stays: {}",
            failure.message
        )),
        ..Change::new(Action::Unchanged, "node", name)
    }
}

/// What is left on every node of the set. The program's own nodes come first: what they remember
/// tells of the others.
///
/// # Errors
/// One of the program's own nodes can't be asked, or the set there is another program's.
pub(crate) async fn leftovers(nodes: &Nodes, set: &Manifests) -> Result<Leftovers, Failure> {
    let mut found = Leftovers::default();
    let mut seen = BTreeSet::new();
    for node in nodes.contacted_or_default() {
        // One context may be spoken to by its name and as the command line's.
        if seen.insert(nodes.name(node.as_deref())) {
            found.all.extend(on(nodes, node.as_deref(), set).await?);
        }
    }
    loop {
        let known = set.known_nodes().await;
        let Some(name) = known.into_iter().find(|name| !seen.contains(name)) else {
            break;
        };
        match on(nodes, Some(&name), set).await {
            Ok(all) => found.all.extend(all),
            Err(failure) if failure.code == "CONFLICT" => return Err(failure),
            Err(failure) => _ = found.away.insert(name.clone(), failure),
        }
        seen.insert(name);
    }
    found.all.sort_by_key(|one| match &one.what {
        What::Workload(it) => (0, std::cmp::Reverse(it.path.matches('/').count())),
        _ => (1, std::cmp::Reverse(0)),
    });
    Ok(found)
}

async fn on(nodes: &Nodes, node: Option<&str>, set: &Manifests) -> Result<Vec<Leftover>, Failure> {
    let own = set.own_tenant(nodes, node).await?;
    let (before, declared) = set.members(nodes, node).await?;
    let path_of = |member: &Member| {
        let field = |name: &str| member.key.get(name).cloned();
        field("tenant").zip(field("path"))
    };
    let workloads: BTreeSet<(String, String)> = declared.iter().filter_map(path_of).collect();
    let both = before.iter().chain(&declared);
    let mut tenants: BTreeSet<String> = both
        .filter_map(|it| it.key.get("tenant").cloned())
        .collect();
    tenants.insert(own);
    let mut all = Vec::new();
    for tenant in tenants {
        for meta in of_set(nodes, node, &tenant, &set.claim().set).await? {
            all.extend(workload(nodes, node, set, &workloads, meta).await?);
        }
    }
    for member in before.iter().filter(|member| !declared.contains(member)) {
        all.extend(remembered(nodes, node, set, member).await?);
    }
    Ok(all)
}

async fn workload(
    nodes: &Nodes,
    node: Option<&str>,
    set: &Manifests,
    declared: &BTreeSet<(String, String)>,
    meta: Meta,
) -> Result<Option<Leftover>, Failure> {
    let reference = meta.r#ref.clone().unwrap_or_default();
    let name = (reference.tenant.clone(), reference.path.clone());
    if declared.contains(&name) {
        return Ok(None);
    }
    let kept = match staying(set, &reference.path) {
        None if meta.labels.contains_key(PROTECT_LABEL) => Some("is protected".to_owned()),
        None => kept(nodes, node, &meta, &set.claim().set, declared).await?,
        stays => stays,
    };
    Ok(Some(Leftover {
        node: node.map(str::to_owned),
        what: What::Workload(reference),
        kept,
    }))
}

/// Why a leftover of that name stays by the command line's word.
fn staying(set: &Manifests, name: &str) -> Option<String> {
    match set.claim() {
        claim if claim.keep => Some("stays: --prune=false".to_owned()),
        claim if !claim.is_about(name) => Some("isn't a --target".to_owned()),
        _ => None,
    }
}

async fn remembered(
    nodes: &Nodes,
    node: Option<&str>,
    set: &Manifests,
    member: &Member,
) -> Result<Option<Leftover>, Failure> {
    let leftover = |what, kept| Leftover {
        node: node.map(str::to_owned),
        what,
        kept,
    };
    let Ok(found) = nodes.find(&member.method) else {
        let kept = format!("this client doesn't know {}", member.method);
        return Ok(Some(leftover(What::Unknown(member.clone()), Some(kept))));
    };
    let keyed = Keyed::remembered(nodes, member);
    let Some(keyed) = keyed.filter(|_| found.method.declares.is_some()) else {
        // A workload: its label says whether it is there.
        return Ok(None);
    };
    if keyed.current(nodes, node).await?.is_none() {
        return Ok(None);
    }
    let kept = match staying(set, &keyed.name()) {
        None if keyed.stays() => Some(format!("no method takes a {} away", keyed.kind())),
        stays => stays,
    };
    Ok(Some(leftover(What::Keyed(Box::new(keyed)), kept)))
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

/// A cell can't be recreated with objects in it that aren't of the set.
///
/// # Errors
/// There is one: it is named.
pub(crate) async fn refuse_foreign(
    nodes: &Nodes,
    node: Option<&str>,
    reference: &ObjectRef,
    set: &str,
) -> Result<(), Failure> {
    let Some(other) = foreign(nodes, node, reference, set).await? else {
        return Ok(());
    };
    let path = &reference.path;
    let message = format!(
        "{path} would have to be recreated, but {other} runs in it and isn't of the set {set}"
    );
    let mut failure = Failure::new("CONFLICT", message).hint(format!(
        "stop {other} first, or leave those fields of {path} as they are"
    ));
    failure.object = Some(path.clone());
    Err(failure)
}

/// Something that runs in a cell and isn't of the set: stopping the cell stops it, too.
async fn foreign(
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
///
/// # Errors
/// The node can't be asked.
pub(crate) async fn own_tenant(nodes: &Nodes, node: Option<&str>) -> Result<String, Failure> {
    let chosen = nodes.tenant(node).await?;
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let who: WhoAmIResponse = question(nodes, node, "identity.WhoAmI", &WhoAmIRequest {}).await?;
    Ok(who.tenant)
}
