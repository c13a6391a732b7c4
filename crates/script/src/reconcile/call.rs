// SPDX-License-Identifier: Apache-2.0
//! Calls of a program that declare nothing: whether the command line leaves one out, and whether it
//! may take away what it names. What such a call does otherwise is the program's to know.

use api::runtime::v0::{ListRequest, Meta};
use prost_reflect::DynamicMessage;

use super::asking::running;
use super::current::{Own, find};
use super::desired::{child, text};
use super::predict::subject;
use super::set::{Claim, PROTECT_LABEL};
use crate::nodes::{Found, Nodes};
use crate::protocol::Failure;

/// The calls that end a workload, and with a cell whatever runs in it.
const TAKES_AWAY: [&str; 4] = ["runtime.Stop", "runtime.Remove", "pod.Stop", "pod.Remove"];

/// Whether the command line leaves it out: nothing is done to what isn't a `--target`.
pub(crate) fn is_left_out(claim: &Claim, request: &DynamicMessage) -> bool {
    !claim.is_about(&subject(request))
}

/// A call may not end what is protected, nor a cell around it.
///
/// # Errors
/// It would: what is protected is named. Or the node can't be asked.
pub(crate) async fn unless_protected(
    nodes: &Nodes,
    node: Option<&str>,
    found: &Found,
    request: &DynamicMessage,
) -> Result<(), Failure> {
    let action = found.method.action.as_str();
    let Some(reference) = child(request, "ref").filter(|_| TAKES_AWAY.contains(&action)) else {
        return Ok(());
    };
    let (tenant, path) = (text(&reference, "tenant"), text(&reference, "path"));
    let own = Own::of_subsystem(nodes, action);
    let current = find(nodes, node, own.as_ref(), (&tenant, &path)).await?;
    let Some(current) = current.filter(|current| !current.has_ended()) else {
        return Ok(());
    };
    let inside = ListRequest {
        tenant,
        below: path.clone(),
        ..ListRequest::default()
    };
    let inside = match current.kind.as_str() {
        "cell" => running(nodes, node, inside).await?,
        _ => Vec::new(),
    };
    let mut all = std::iter::once(current.meta()).chain(&inside);
    match all.find(|meta| meta.labels.contains_key(PROTECT_LABEL)) {
        None => Ok(()),
        Some(protected) => Err(refusal(action, path, protected)),
    }
}

fn refusal(action: &str, path: String, protected: &Meta) -> Failure {
    let what = protected.r#ref.as_ref().map_or("", |it| it.path.as_str());
    let message = match what == path {
        true => format!("{path} is protected, and {action} would end it"),
        false => format!("{what} runs in {path} and is protected, and {action} would end it"),
    };
    let mut failure = Failure::new("PROTECTED", message)
        .hint(format!("apply {what} without `protect` first, then end it"));
    failure.object = Some(path);
    failure
}
