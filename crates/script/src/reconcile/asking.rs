// SPDX-License-Identifier: Apache-2.0
//! What a plan or an apply asks a node by itself, as any program could: what is there now. Only
//! methods that the contract marks as having no side effects.

use api::runtime::v0::{
    GetRequest, Kind, ListRequest, ListResponse, Meta, Object, ObjectRef, object,
};
use prost::Message;
use prost_reflect::DynamicMessage;

use crate::host::Found;
use crate::host::nodes::{Ask, Nodes};
use crate::protocol::Failure;

/// An object as the node has it.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    /// `cell`, `executable`.
    pub(crate) kind: &'static str,
    /// Its status, with every field that the API has.
    pub(crate) status: DynamicMessage,
    /// The same, typed.
    pub(crate) object: Object,
}

impl Current {
    fn new(message: &DynamicMessage) -> Option<Self> {
        let object: Object = message.transcode_to().ok()?;
        let kind = match object.object.as_ref()? {
            object::Object::Cell(_) => "cell",
            object::Object::Executable(_) => "executable",
        };
        let status = message.get_field_by_name(kind)?.as_message()?.clone();
        Some(Self {
            kind,
            status,
            object,
        })
    }

    /// What every object has.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        meta(&self.object)
    }

    /// Who it is, tenant and uid included.
    pub(crate) fn reference(&self) -> ObjectRef {
        meta(&self.object)
            .and_then(|meta| meta.r#ref.clone())
            .unwrap_or_default()
    }

    /// Counts what was asked for: another one means that a client has changed it since.
    pub(crate) fn generation(&self) -> u64 {
        meta(&self.object).map_or(0, |meta| meta.generation)
    }

    /// The value of a label; empty: it has none.
    pub(crate) fn label(&self, name: &str) -> &str {
        let labels = meta(&self.object).map(|meta| &meta.labels);
        labels
            .and_then(|labels| labels.get(name))
            .map_or("", String::as_str)
    }
}

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

/// The object of that name; none where there is none.
pub(crate) async fn get(
    nodes: &Nodes,
    node: Option<&str>,
    tenant: &str,
    path: &str,
) -> Result<Option<Current>, Failure> {
    let request = GetRequest {
        r#ref: Some(ObjectRef {
            tenant: tenant.to_owned(),
            path: path.to_owned(),
            uid: String::new(),
            kind: Kind::Unspecified.into(),
        }),
    };
    match send(nodes, node, "runtime.Get", &request).await {
        Ok(answer) => Ok(Current::new(&answer)),
        Err(failure) if failure.code == "NOT_FOUND" => Ok(None),
        Err(failure) => Err(failure),
    }
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
