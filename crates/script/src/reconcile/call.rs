// SPDX-License-Identifier: Apache-2.0
//! Calls of a program that declare nothing: how a plan and an apply tell of one, whether the
//! command line leaves it out, and whether it may take away what it names. What such a call does
//! otherwise is the program's to know.

use api::runtime::v0::{ListRequest, Meta};
use prost_reflect::DynamicMessage;

use super::asking::running;
use super::change::{Action, Change};
use super::current::{Own, find};
use super::desired::{apart, child, text};
use super::difference::{Difference, differences};
use super::predict::{SUBJECTS, subject};
use super::set::{Claim, PROTECT_LABEL};
use crate::nodes::{Found, Nodes, Question};
use crate::protocol::Failure;

/// The calls that end a workload, and with a cell whatever runs in it.
const TAKES_AWAY: [&str; 4] = ["runtime.Stop", "runtime.Remove", "pod.Stop", "pod.Remove"];

/// A call as it is told: its method and what it is about. `action` is what comes of it.
pub(crate) fn noted(asked: &Question<'_>, request: &DynamicMessage, action: Action) -> Change {
    Change {
        tenant: text(request, "tenant"),
        node: asked.call.node.clone(),
        at: asked.at.clone(),
        differences: match action {
            Action::Call => fields(request),
            _ => Vec::new(),
        },
        ..Change::new(action, &asked.call.method, subject(request))
    }
}

/// A call that the command line leaves out as it is told, and an answer that says nothing.
pub(crate) fn left_out(asked: &Question<'_>, request: &DynamicMessage) -> (Change, DynamicMessage) {
    let noted = Change {
        reason: apart().reason,
        ..noted(asked, request, Action::Unchanged)
    };
    (noted, DynamicMessage::new(asked.found.descriptor.output()))
}

/// What a call says beside what it is about.
fn fields(request: &DynamicMessage) -> Vec<Difference> {
    let about = subject(request);
    let names = ["tenant", "ref.tenant", "ref.path"];
    let is_said = |it: &Difference| {
        names.contains(&it.field.as_str())
            || (SUBJECTS.contains(&it.field.as_str())
                && it.to.as_ref().and_then(|it| it.as_str()) == Some(about.as_str()))
    };
    let mut all = differences("", None, Some(request));
    all.retain(|it| !is_said(it));
    all
}

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
