// SPDX-License-Identifier: Apache-2.0
//! Calls that declare nothing and would change nothing, since the node is as they ask for already:
//! a user that is disabled, a cell that is frozen. A plan says so, and an apply doesn't send them:
//! that is what makes a second apply change nothing.

use api::identity::v0::{
    DisableUserRequest, EnableUserRequest, ListUsersRequest, ListUsersResponse, User,
};
use api::runtime::v0::{FreezeCellRequest, State, StopRequest, ThawCellRequest, object};
use prost::Message;
use prost_reflect::DynamicMessage;

use super::asking::{Current, get, question};
use crate::host::Found;
use crate::host::nodes::Nodes;
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
        _ => of_runtime(nodes, node, found, request).await,
    }
}

async fn of_runtime(
    nodes: &Nodes,
    node: Option<&str>,
    found: &Found,
    request: &DynamicMessage,
) -> Result<Option<DynamicMessage>, Failure> {
    let (reference, wanted) = match found.method.action.as_str() {
        "runtime.FreezeCell" => (typed::<FreezeCellRequest>(request)?.r#ref, State::Frozen),
        "runtime.ThawCell" => (typed::<ThawCellRequest>(request)?.r#ref, State::Running),
        "runtime.Stop" => (typed::<StopRequest>(request)?.r#ref, State::Exited),
        _ => return Ok(None),
    };
    let Some(reference) = reference else {
        return Ok(None);
    };
    let current = get(nodes, node, &reference.tenant, &reference.path).await?;
    let Some(current) = current.filter(|current| state(current) == wanted) else {
        return Ok(None);
    };
    match wanted {
        // Of the type that the method answers with.
        State::Exited => answer(found, &current.object).map(Some),
        _ => Ok(Some(current.status)),
    }
}

fn state(current: &Current) -> State {
    match &current.object.object {
        Some(object::Object::Cell(cell)) => cell.state(),
        Some(object::Object::Executable(executable)) => executable.state(),
        None => State::Unspecified,
    }
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
