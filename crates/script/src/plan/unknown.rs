// SPDX-License-Identifier: Apache-2.0
//! What a plan says of what it can't know, and of what it knows isn't there.

use crate::nodes::failure::UNKNOWN_IN_PLAN;
use crate::protocol::Failure;
use crate::reconcile::change::Action;
use crate::reconcile::desired::Verdict;
use crate::reconcile::difference::Difference;
use crate::reconcile::predict::Unknowns;

/// Whether a path in a request is of what names its object.
pub(super) fn names_object(path: &str) -> bool {
    path.split('.').any(|part| part == "ref")
}

/// What of a workload isn't known yet differs, and may mean another run.
pub(super) fn mark_unknown(verdict: &mut Verdict, kind: &str, unknowns: Unknowns) {
    let workload = format!("{kind}.");
    for (path, _) in unknowns {
        let field = path.strip_prefix(&workload).unwrap_or(&path).to_owned();
        add_unknown(&mut verdict.differences, field);
        if matches!(verdict.action, Action::Unchanged | Action::Update) {
            verdict.action = Action::Replace;
        }
    }
}

fn add_unknown(differences: &mut Vec<Difference>, field: String) {
    differences.retain(|one| one.field != field);
    differences.push(Difference {
        field,
        from: None,
        to: None,
        sensitive: false,
        unknown: true,
    });
}

/// The refusal of a plan.
pub(super) fn unknown(what: &str) -> Failure {
    let message = format!("a plan can't know this: {what}");
    Failure::new(UNKNOWN_IN_PLAN, message)
        .hint("a program that depends on it can be run or applied, not planned")
}

/// As a node would answer.
pub(super) fn not_found(path: &str) -> Failure {
    let mut failure = Failure::new("NOT_FOUND", format!("there is no object {path}"));
    failure.object = Some(path.to_owned());
    failure
}

/// As a node refuses it.
pub(super) fn without_cell(path: &str) -> Failure {
    let message = format!("{path} names no cell, and an executable runs in one");
    let mut failure = Failure::new("INVALID_FIELD", message);
    failure.field = Some("executable.ref.path".to_owned());
    failure.hint(format!(
        "write CELL/{path}; with ownCell, the cell is created with it"
    ))
}
