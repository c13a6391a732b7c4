// SPDX-License-Identifier: Apache-2.0
//! A member that is read of something that may be absent: `object.executable.pid`, where
//! `executable` is one of several that an object may be. No flow analysis: it is said only where
//! the file tests the place nowhere, whatever way, so that nothing can have made it present.

use std::collections::HashSet;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::convert::span;
use super::facts::{Facts, Path};
use super::infer::infer;
use super::narrow::path;
use super::report::Report;
use super::types::Type;
use super::world::Lookup;

/// All of them, in the API's answers.
pub(super) fn check_absent(facts: &Facts<'_, '_>, out: &mut Vec<Report>) {
    let mut reads = Vec::new();
    let mut tested: HashSet<Path> = HashSet::new();
    for node in facts.tree.nodes {
        let AstKind::StaticMemberExpression(member) = node.kind() else {
            continue;
        };
        let Some(place) = path(facts, &member.object) else {
            continue;
        };
        if !member.optional
            && let Expression::StaticMemberExpression(inner) = &member.object
            && !inner.optional
            && may_be_absent(facts, inner)
        {
            reads.push((place, inner, member));
        }
    }
    if reads.is_empty() {
        return;
    }
    for node in facts.tree.nodes {
        add_tested(facts, node.kind(), &mut tested);
    }
    for ((symbol, names), inner, member) in reads {
        if tested.contains(&(symbol, names)) {
            continue;
        }
        let name = inner.property.name.as_str();
        let at = span(member.property.span());
        let message = format!("`{name}` may be absent here");
        let report = Report::new("maybe-absent", at, message).certain(false);
        let anchor = span(inner.span());
        out.push(report.anchored(anchor).help(format!(
            "write `{name}?.{}`, or test it first",
            member.property.name
        )));
    }
}

/// Whether a member of the API's is optional.
fn may_be_absent<'a>(facts: &Facts<'a, '_>, member: &StaticMemberExpression<'a>) -> bool {
    let object = infer(facts, &member.object);
    if matches!(facts.world.resolve(&object), Type::Union(_)) || !facts.world.is_of_api(&object) {
        return false;
    }
    let field = facts.world.field(&object, &member.property.name);
    matches!(field, Lookup::Found(field) if field.optional)
}

/// Every place that is looked at otherwise than by reading a member of it.
fn add_tested<'a>(facts: &Facts<'a, '_>, kind: AstKind<'a>, tested: &mut HashSet<Path>) {
    let mut add = |expression: &Expression<'a>| {
        tested.extend(path(facts, expression));
    };
    match kind {
        AstKind::IfStatement(it) => add(&it.test),
        AstKind::WhileStatement(it) => add(&it.test),
        AstKind::ConditionalExpression(it) => add(&it.test),
        AstKind::LogicalExpression(it) => {
            add(&it.left);
            add(&it.right);
        }
        AstKind::UnaryExpression(it) => add(&it.argument),
        AstKind::BinaryExpression(it) => {
            add(&it.left);
            add(&it.right);
        }
        AstKind::SwitchStatement(it) => add(&it.discriminant),
        AstKind::CallExpression(it) => {
            let arguments = it.arguments.iter().filter_map(Argument::as_expression);
            arguments.for_each(&mut add);
        }
        AstKind::AssignmentExpression(it) => {
            if let AssignmentTarget::StaticMemberExpression(member) = &it.left
                && let Some((symbol, mut names)) = path(facts, &member.object)
            {
                if !names.is_empty() {
                    names.push('.');
                }
                names.push_str(&member.property.name);
                tested.insert((symbol, names));
            }
        }
        AstKind::ChainExpression(it) => match &it.expression {
            ChainElement::StaticMemberExpression(member) => add(&member.object),
            ChainElement::ComputedMemberExpression(member) => add(&member.object),
            ChainElement::CallExpression(call) => add(&call.callee),
            _ => {}
        },
        _ => {}
    }
}
