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
use super::current::{self, Own};
use super::desired::goes_with;
use super::guest::{Guest, guest};
use super::keyed::Keyed;
use super::manifest::Manifests;
use super::set::{PROTECT_LABEL, SET_LABEL};
use crate::nodes::Nodes;
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
    Workload(Workload),
    /// Something that another method made.
    Keyed(Box<Keyed>),
    /// Something that this client knows no method for.
    Unknown(Member),
}

/// A workload that is left.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) reference: ObjectRef,
    /// As the manifest has it, or would have it.
    member: Member,
    /// Who removes it where the Runtime doesn't.
    own: Option<Own>,
}

impl Leftover {
    /// As a plan tells it.
    pub(crate) fn change(&self) -> Change {
        let action = match (&self.kept, &self.what) {
            (Some(_), _) | (_, What::Unknown(_)) => Action::Unchanged,
            (None, What::Workload(Workload { own: None, .. })) => Action::Stop,
            (None, What::Workload(_) | What::Keyed(_)) => Action::Remove,
        };
        let reason = match &self.kept {
            None => "it isn't declared any more".to_owned(),
            Some(kept) => format!("it isn't declared any more, but {kept}"),
        };
        let (kind, name, tenant) = match &self.what {
            What::Workload(it) => {
                let ObjectRef { path, tenant, .. } = &it.reference;
                (it.member.kind.clone(), path.clone(), tenant.clone())
            }
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

    /// As the manifest has it. A workload has its label, but in whose name that is looked for only
    /// the manifest says.
    fn member(&self) -> Member {
        match &self.what {
            What::Keyed(it) => it.member(),
            What::Workload(Workload { member, .. }) | What::Unknown(member) => member.clone(),
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
            What::Workload(it) => match &it.own {
                Some(own) => current::remove(nodes, node, own, &it.reference).await,
                None => stop(nodes, node, it.reference.clone()).await,
            },
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
            members.push(one.member());
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
    follow(nodes, set, &mut seen, &mut found).await?;
    found.all.sort_by_key(|one| match &one.what {
        What::Workload(it) => (0, std::cmp::Reverse(it.reference.path.matches('/').count())),
        _ => (1, std::cmp::Reverse(0)),
    });
    Ok(found)
}

/// Looks at the nodes that those which were seen name, and at those that these name. Only where
/// each knows of the other is it one set on both: a node that lies about itself has no say in what
/// happens on others.
async fn follow(
    nodes: &Nodes,
    set: &Manifests,
    seen: &mut BTreeSet<String>,
    found: &mut Leftovers,
) -> Result<(), Failure> {
    let mut said: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    loop {
        let listed = set.listed().await;
        let named = listed
            .values()
            .flatten()
            .filter(|name| !seen.contains(*name));
        let named: BTreeSet<String> = named.cloned().collect();
        let before = seen.len();
        for name in named {
            if !said.contains_key(&name) {
                match set.listed_by(nodes, &name).await {
                    Ok(names) => _ = said.insert(name.clone(), names),
                    Err(failure) => {
                        found.away.insert(name.clone(), failure);
                        seen.insert(name);
                        continue;
                    }
                }
            }
            let theirs = said.get(&name);
            let knows = |other: &String| {
                other.is_empty() || theirs.is_some_and(|names| names.contains(other))
            };
            let mut naming = listed.iter().filter(|(_, names)| names.contains(&name));
            if !naming.any(|(other, _)| knows(other)) {
                continue;
            }
            match on(nodes, Some(&name), set).await {
                Ok(all) => found.all.extend(all),
                Err(failure) if failure.code == "CONFLICT" => return Err(failure),
                Err(failure) => _ = found.away.insert(name.clone(), failure),
            }
            seen.insert(name);
        }
        if seen.len() == before {
            return Ok(());
        }
    }
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
            let left = workload(nodes, node, set, &workloads, meta).await?;
            all.extend(left.map(|(kept, reference)| {
                let member = as_member(&before, &reference);
                let own = Own::of_member(nodes, &member);
                let what = What::Workload(Workload {
                    reference,
                    member,
                    own,
                });
                let node = node.map(str::to_owned);
                Leftover { node, what, kept }
            }));
        }
    }
    for member in before.iter().filter(|member| !declared.contains(member)) {
        all.extend(remembered(nodes, node, set, member).await?);
    }
    Ok(all)
}

/// A workload as the manifest has it, or would have it.
fn as_member(before: &[Member], reference: &ObjectRef) -> Member {
    let key = [
        ("tenant".to_owned(), reference.tenant.clone()),
        ("path".to_owned(), reference.path.clone()),
    ]
    .into();
    let known = before.iter().find(|member| member.key == key);
    known.cloned().unwrap_or_else(|| Member {
        method: match reference.kind() {
            Kind::Executable => "runtime.RunExecutable".to_owned(),
            _ => "runtime.RunCell".to_owned(),
        },
        kind: kind(reference).to_owned(),
        key,
    })
}

/// A workload that isn't declared any more, and why it stays all the same.
async fn workload(
    nodes: &Nodes,
    node: Option<&str>,
    set: &Manifests,
    declared: &BTreeSet<(String, String)>,
    meta: Meta,
) -> Result<Option<(Option<String>, ObjectRef)>, Failure> {
    let reference = meta.r#ref.clone().unwrap_or_default();
    let name = (reference.tenant.clone(), reference.path.clone());
    if declared.contains(&name) {
        return Ok(None);
    }
    let kept = match staying(set, &reference.path) {
        None if meta.labels.contains_key(PROTECT_LABEL) => Some("is protected".to_owned()),
        None => kept(nodes, node, &meta, set, declared).await?,
        stays => stays,
    };
    Ok(Some((kept, reference)))
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
    set: &Manifests,
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
    let guest = guest(nodes, node, (&cell, true), set).await?;
    Ok(guest.map(|guest| match guest {
        Guest::Foreign(path) => format!("holds {path}, which isn't of this set"),
        Guest::Protected(path) => format!("holds {path}, which is protected"),
    }))
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
