// SPDX-License-Identifier: Apache-2.0
//! What a plan or an apply asks a node by itself, as any program could: what is there now. Only
//! methods that the contract marks as having no side effects. What is there of one workload is
//! asked by `current`.

use api::runtime::v0::{ListRequest, ListResponse, Meta, Object, object};
use prost::Message;
use prost_reflect::DynamicMessage;

use crate::nodes::{Ask, Found, Nodes};
use crate::protocol::Failure;

fn meta(object: &Object) -> Option<&Meta> {
    match object.object.as_ref()? {
        object::Object::Cell(cell) => cell.meta.as_ref(),
        object::Object::Executable(executable) => executable.meta.as_ref(),
    }
}

/// Sends any typed request; the answer by reflection.
pub(crate) async fn send<M: Message>(
    nodes: &Nodes,
    node: Option<&str>,
    action: &str,
    request: &M,
) -> Result<DynamicMessage, Failure> {
    let Found { method, descriptor } = nodes.find(action)?;
    let mut message = DynamicMessage::new(descriptor.input());
    message
        .transcode_from(request)
        .map_err(|problem| internal(&problem))?;
    nodes
        .unary(Ask {
            node: node.map(str::to_owned),
            method,
            descriptor,
            request: message,
            timeout: None,
        })
        .await
}

/// The same with a typed answer.
pub(crate) async fn question<M: Message, A: Message + Default>(
    nodes: &Nodes,
    node: Option<&str>,
    action: &str,
    request: &M,
) -> Result<A, Failure> {
    let answer = send(nodes, node, action, request).await?;
    answer.transcode_to().map_err(|problem| internal(&problem))
}

/// Every running object that `filter` picks, all pages of it.
pub(crate) async fn running(
    nodes: &Nodes,
    node: Option<&str>,
    filter: ListRequest,
) -> Result<Vec<Meta>, Failure> {
    let mut request = ListRequest {
        running_only: true,
        ..filter
    };
    let mut found = Vec::new();
    loop {
        let page: ListResponse = question(nodes, node, "runtime.List", &request).await?;
        found.extend(page.objects.iter().filter_map(meta).cloned());
        if page.next_page_token.is_empty() {
            return Ok(found);
        }
        request.page_token = page.next_page_token;
    }
}

fn internal(problem: &dyn std::fmt::Display) -> Failure {
    Failure::new("INTERNAL", problem.to_string())
}
