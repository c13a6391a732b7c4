// SPDX-License-Identifier: Apache-2.0
//! Calls that declare nothing and would change nothing, since the node is as they ask for already:
//! a user that is disabled, a cell that is frozen. A plan says so, and an apply doesn't send them:
//! that is what makes a second apply change nothing.

use api::identity::v0::{
    DisableUserRequest, EnableUserRequest, ListUsersRequest, ListUsersResponse, User,
};
use api::runtime::v0::{ObjectRef, State};
use prost::Message;
use prost_reflect::DynamicMessage;

use super::asking::question;
use super::current::{Own, find};
use super::desired::child;
use crate::nodes::{Found, Nodes};
use crate::protocol::Failure;

/// The answer that a call would give if it were sent, where it would change nothing.
///
/// # Errors
/// The node can't be asked.
pub(crate) async fn noop(
    nodes: &Nodes,
    node: Option<&str>,
    found: &Found,
    request: &DynamicMessage,
) -> Result<Option<DynamicMessage>, Failure> {
    match found.method.action.as_str() {
        "identity.DisableUser" => {
            let wanted: DisableUserRequest = typed(request)?;
            let user = user(nodes, node, wanted.tenant, &wanted.name).await?;
            let user = user.filter(|user| user.disabled);
            user.map(|user| answer(found, &user)).transpose()
        }
        "identity.EnableUser" => {
            let wanted: EnableUserRequest = typed(request)?;
            let user = user(nodes, node, wanted.tenant, &wanted.name).await?;
            let user = user.filter(|user| !user.disabled);
            user.map(|user| answer(found, &user)).transpose()
        }
        _ => of_workload(nodes, node, found, request).await,
    }
}

/// A workload that is in the state already that a call brings about.
async fn of_workload(
    nodes: &Nodes,
    node: Option<&str>,
    found: &Found,
    request: &DynamicMessage,
) -> Result<Option<DynamicMessage>, Failure> {
    let wanted: &[State] = match found.method.action.as_str() {
        "runtime.FreezeCell" => &[State::Frozen],
        "runtime.ThawCell" => &[State::Running],
        "runtime.Stop" => &[State::Exited],
        "pod.Stop" => &[State::Exited, State::Failed],
        _ => return Ok(None),
    };
    let Some(reference) = child(request, "ref") else {
        return Ok(None);
    };
    let reference: ObjectRef = typed(&reference)?;
    let own = Own::of_subsystem(nodes, &found.method.action);
    let name = (reference.tenant.as_str(), reference.path.as_str());
    let current = find(nodes, node, own.as_ref(), name).await?;
    let current = current.filter(|current| current.own == own && wanted.contains(&current.state));
    Ok(current.map(|current| current.as_answer(found)))
}

async fn user(
    nodes: &Nodes,
    node: Option<&str>,
    tenant: String,
    name: &str,
) -> Result<Option<User>, Failure> {
    let request = ListUsersRequest { tenant };
    let users: ListUsersResponse = question(nodes, node, "identity.ListUsers", &request).await?;
    Ok(users.users.into_iter().find(|user| user.name == name))
}

fn typed<M: Message + Default>(request: &DynamicMessage) -> Result<M, Failure> {
    request
        .transcode_to()
        .map_err(|problem| Failure::new("INTERNAL", problem.to_string()))
}

fn answer<M: Message>(found: &Found, message: &M) -> Result<DynamicMessage, Failure> {
    let mut answer = DynamicMessage::new(found.descriptor.output());
    answer
        .transcode_from(message)
        .map_err(|problem| Failure::new("INTERNAL", problem.to_string()))?;
    Ok(answer)
}
