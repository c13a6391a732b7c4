// SPDX-License-Identifier: Apache-2.0
//! A workload as a node has it, and who is asked about it: the Runtime service, or the workload's
//! own subsystem where the contract names methods for that (`found_by`, `removed_by`). To the
//! Runtime service such a workload, a pod, is a cell. Whose an object is and what follows from it
//! is `desired`'s.

use std::collections::{BTreeMap, BTreeSet};

use api::pod::v0::{Phase, PodStatus};
use api::runtime::v0::{
    CellStatus, ExecutableStatus, GetRequest, Kind, Meta, ObjectRef, State, exit,
};
use api::sets::v0::Member;
use language::schema::Declares;
use prost_reflect::{DynamicMessage, ReflectMessage, Value as Field};

use super::asking::send;
use super::desired::child;
use super::manifest::Manifests;
use crate::nodes::{Ask, Found, Nodes};
use crate::protocol::Failure;

/// The methods that a workload of another subsystem than the Runtime is asked and removed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// `pod`.
    pub(crate) kind: String,
    /// `pod.Get`.
    pub(crate) found_by: String,
    /// `pod.Remove`.
    pub(crate) removed_by: String,
}

impl Own {
    /// Of the workload that a method makes; none where the Runtime is asked about it.
    pub(crate) fn of(found: &Found) -> Option<Self> {
        Self::said(&found.method.action, found.method.declares.as_ref()?)
    }

    /// Of what a manifest remembers; none where this client doesn't know its method, too.
    pub(crate) fn of_member(nodes: &Nodes, member: &Member) -> Option<Self> {
        Self::of(&nodes.find(&member.method).ok()?)
    }

    /// Of the workloads of a method's subsystem, whatever the method does with them.
    pub(crate) fn of_subsystem(nodes: &Nodes, action: &str) -> Option<Self> {
        let (subsystem, _) = action.split_once('.')?;
        let mut methods = nodes.methods_of(subsystem).iter();
        methods.find_map(|one| Self::said(&one.action, one.declares.as_ref()?))
    }

    fn said(action: &str, said: &Declares) -> Option<Self> {
        said.workload().filter(|_| !said.found_by.is_empty())?;
        let (subsystem, _) = action.split_once('.')?;
        Some(Self {
            kind: said.kind.clone(),
            found_by: format!("{subsystem}.{}", said.found_by),
            removed_by: format!("{subsystem}.{}", said.removed_by),
        })
    }
}

/// A workload as the node has it.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    /// `cell`, `executable`, `pod`.
    pub(crate) kind: String,
    /// Its status, with every field that the API has.
    pub(crate) status: DynamicMessage,
    /// Where it is in its life, in the Runtime's words.
    pub(crate) state: State,
    /// How it ended, where it has and that is known.
    pub(crate) exit: Option<exit::How>,
    /// Who removes it where the Runtime doesn't. Its name isn't free before that.
    pub(crate) own: Option<Own>,
    meta: Meta,
}

impl Current {
    /// From what `runtime.Get` answers.
    fn of_runtime(answer: &DynamicMessage) -> Option<Self> {
        let kinds = ["cell", "executable"];
        let kind = kinds.into_iter().find(|it| answer.has_field_by_name(it))?;
        let status = child(answer, kind)?;
        let (state, exit) = match kind {
            "cell" => (status.transcode_to::<CellStatus>().ok()?.state(), None),
            _ => {
                let typed = status.transcode_to::<ExecutableStatus>().ok()?;
                let exit = typed.exit.as_ref().and_then(|exit| exit.how);
                (typed.state(), exit)
            }
        };
        Some(Self {
            kind: kind.to_owned(),
            meta: child(&status, "meta")?.transcode_to().ok()?,
            status,
            state,
            exit,
            own: None,
        })
    }

    /// From the status that its own subsystem answers.
    fn of_own(own: &Own, status: DynamicMessage) -> Option<Self> {
        let (state, exit) = match status.descriptor().full_name() {
            "aurae.pod.v0.PodStatus" => of_pod(&status.transcode_to().ok()?),
            // A kind of workload that is newer than this: it is there.
            _ => (State::Running, None),
        };
        Some(Self {
            kind: own.kind.clone(),
            meta: child(&status, "meta")?.transcode_to().ok()?,
            status,
            state,
            exit,
            own: Some(own.clone()),
        })
    }

    /// What every object has.
    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Who it is, tenant and uid included.
    pub(crate) fn reference(&self) -> ObjectRef {
        self.meta.r#ref.clone().unwrap_or_default()
    }

    /// Counts what was asked for: another one means that a client has changed it since.
    pub(crate) fn generation(&self) -> u64 {
        self.meta.generation
    }

    /// The value of a label; empty: it has none.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.meta.labels.get(name).map_or("", String::as_str)
    }

    /// Whether it has ended, be its record still there.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, State::Exited | State::Failed)
    }

    /// The status as a method answers it that answers with an object of any kind.
    pub(crate) fn as_answer(&self, found: &Found) -> DynamicMessage {
        let output = found.descriptor.output();
        if output.full_name() == self.status.descriptor().full_name() {
            return self.status.clone();
        }
        let mut answer = DynamicMessage::new(output);
        let status = Field::Message(self.status.clone());
        let _ = answer.try_set_field_by_name(&self.kind, status);
        answer
    }
}

/// A pod's life as the Runtime tells that of an executable.
fn of_pod(pod: &PodStatus) -> (State, Option<exit::How>) {
    match (pod.phase(), pod.stopping) {
        (Phase::Succeeded, _) => (State::Exited, Some(exit::How::Code(0))),
        // It was ended, and didn't fail.
        (Phase::Failed, true) => (State::Exited, None),
        (Phase::Failed, false) => (State::Failed, None),
        (_, true) => (State::Stopping, None),
        (Phase::Pending, false) => (State::Starting, None),
        (Phase::Unspecified | Phase::Running, false) => (State::Running, None),
    }
}

/// The workload of that name; none where there is none. One of another subsystem is asked for
/// there first: a cell or an executable may have the name instead.
///
/// # Errors
/// The node can't be asked.
pub(crate) async fn find(
    nodes: &Nodes,
    node: Option<&str>,
    own: Option<&Own>,
    (tenant, path): (&str, &str),
) -> Result<Option<Current>, Failure> {
    let reference = ObjectRef {
        tenant: tenant.to_owned(),
        path: path.to_owned(),
        uid: String::new(),
        kind: Kind::Unspecified.into(),
    };
    if let Some(own) = own {
        match about(nodes, node, &own.found_by, &reference).await {
            Err(failure) if failure.code == "NOT_FOUND" => {}
            answer => return Ok(Current::of_own(own, answer?)),
        }
    }
    let request = GetRequest {
        r#ref: Some(reference),
    };
    match send(nodes, node, "runtime.Get", &request).await {
        Ok(answer) => Ok(Current::of_runtime(&answer)),
        Err(failure) if failure.code == "NOT_FOUND" => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Removes a workload by its own subsystem, which ends it first; one that is gone is gone.
///
/// # Errors
/// The node refuses.
pub(crate) async fn remove(
    nodes: &Nodes,
    node: Option<&str>,
    own: &Own,
    reference: &ObjectRef,
) -> Result<(), Failure> {
    match about(nodes, node, &own.removed_by, reference).await {
        Err(failure) if failure.code == "NOT_FOUND" => Ok(()),
        other => other.map(drop),
    }
}

/// Calls a method that takes a reference, and `force` where it has that.
async fn about(
    nodes: &Nodes,
    node: Option<&str>,
    action: &str,
    reference: &ObjectRef,
) -> Result<DynamicMessage, Failure> {
    let internal = |problem: &dyn std::fmt::Display| Failure::new("INTERNAL", problem.to_string());
    let Found { method, descriptor } = nodes.find(action)?;
    let mut request = DynamicMessage::new(descriptor.input());
    let of = descriptor.input().get_field_by_name("ref");
    let of = of.and_then(|field| field.kind().as_message().cloned());
    let of = of.ok_or_else(|| internal(&format!("{action} takes no reference")))?;
    let mut named = DynamicMessage::new(of);
    named.transcode_from(reference).map_err(|e| internal(&e))?;
    request.set_field_by_name("ref", Field::Message(named));
    // A method that only looks has no such field.
    let _ = request.try_set_field_by_name("force", Field::Bool(true));
    nodes
        .unary(Ask {
            node: node.map(str::to_owned),
            method,
            descriptor,
            request,
            timeout: None,
        })
        .await
}

/// The same where the program may have said before that it is of another kind: then the set's
/// manifest says who is asked.
///
/// # Errors
/// The node can't be asked, or the set there is another program's.
pub(crate) async fn present(
    nodes: &Nodes,
    node: Option<&str>,
    set: &Manifests,
    own: Option<&Own>,
    (tenant, path): (&str, &str),
) -> Result<Option<Current>, Failure> {
    let before = match own {
        Some(_) => None,
        None => set.held_as(nodes, node, (tenant, path)).await?,
    };
    let before = before.and_then(|member| Own::of_member(nodes, &member));
    find(nodes, node, own.or(before.as_ref()), (tenant, path)).await
}

/// The paths of the set's workloads that other subsystems are asked about: of those that it held
/// and those that it holds by this run.
///
/// # Errors
/// As [`present`].
pub(crate) async fn owned(
    nodes: &Nodes,
    node: Option<&str>,
    set: &Manifests,
    tenant: &str,
) -> Result<BTreeSet<String>, Failure> {
    let (before, declared) = set.members(nodes, node).await?;
    let tenant = match tenant {
        "" => set.own_tenant(nodes, node).await?,
        tenant => tenant.to_owned(),
    };
    // Few methods make thousands of members.
    let mut methods: BTreeMap<&str, bool> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for member in before.iter().chain(&declared) {
        let is_own = methods
            .entry(&member.method)
            .or_insert_with(|| Own::of_member(nodes, member).is_some());
        let path = member.key.get("path").filter(|_| *is_own);
        let ours = member.key.get("tenant") == Some(&tenant);
        found.extend(path.filter(|_| ours).cloned());
    }
    Ok(found)
}
