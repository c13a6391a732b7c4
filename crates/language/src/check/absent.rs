// SPDX-License-Identifier: Apache-2.0
//! A member that is read of something that may be absent: `object.executable.pid`, where
//! `executable` is one of several that an object may be. No flow analysis: it is said only where
//! the file tests the place nowhere, whatever way, so that nothing can have made it present.

use std::collections::HashSet;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::SymbolId;
use oxc::span::GetSpan;

use super::convert::span;
use super::facts::{Facts, Path};
use super::infer::infer;
use super::narrow::path;
use super::report::Report;
use super::types::Type;
use super::world::Lookup;
use crate::source::Span;

/// A read of a member of what may be absent.
struct Read<'a> {
    /// What may be absent.
    place: Path,
    name: &'a str,
    /// Where `tsc` puts its error.
    anchor: Span,
    member: &'a StaticMemberExpression<'a>,
    /// It is one of several of which an object has one: a test of another tells of it too.
    one_of: bool,
}

/// All of them, in the API's answers.
pub(super) fn check_absent(facts: &Facts<'_, '_>, out: &mut Vec<Report>) {
    let nodes = facts.tree.nodes.iter();
    let reads = nodes.filter_map(|node| match node.kind() {
        AstKind::StaticMemberExpression(member) if !member.optional => read(facts, member),
        _ => None,
    });
    let reads: Vec<Read<'_>> = reads.collect();
    if reads.is_empty() {
        return;
    }
    let mut tested: HashSet<Path> = HashSet::new();
    for node in facts.tree.nodes {
        add_tested(facts, node.kind(), &mut tested);
    }
    for it in reads {
        let is_tested = match it.one_of {
            true => tested.iter().any(|path| tells_of(path, &it.place)),
            false => tested.contains(&it.place),
        };
        if is_tested {
            continue;
        }
        let (name, read) = (it.name, &it.member.property);
        let message = format!("`{name}` may be absent here");
        let report = Report::new("maybe-absent", span(read.span), message).certain(false);
        out.push(
            report
                .anchored(it.anchor)
                .help(format!("write `{name}?.{}`, or test it first", read.name)),
        );
    }
}

/// Whether a test of one place may tell of another: of the same variable, and not of what lies
/// within that other place.
fn tells_of(tested: &Path, place: &Path) -> bool {
    let within = tested.1.strip_prefix(&place.1);
    let within = within.is_some_and(|rest| rest.starts_with('.'));
    tested.0 == place.0 && !within
}

/// What is read of something that may be absent.
fn read<'a>(facts: &Facts<'a, '_>, member: &'a StaticMemberExpression<'a>) -> Option<Read<'a>> {
    let place = path(facts, &member.object)?;
    let (name, one_of) = match &member.object {
        Expression::StaticMemberExpression(inner) if !inner.optional => {
            let object = infer(facts, &inner.object);
            let name = inner.property.name.as_str();
            (name, may_be_absent(facts, &object, name)?)
        }
        Expression::Identifier(name) => {
            let (property, from) = pattern(facts, place.0)?;
            may_be_absent(facts, &infer(facts, from), &property.key.static_name()?)?;
            (name.name.as_str(), false)
        }
        _ => return None,
    };
    // What a test of an element leaves of a list isn't followed.
    let text = facts.tree.program.source_text;
    let sifted = || [".filter(", ".find("].iter().any(|it| text.contains(it));
    if one_of && (sifted() || !keeps_its_type(facts, place.0)) {
        return None;
    }
    let anchor = span(member.object.span());
    Some(Read {
        place,
        name,
        anchor,
        member,
        one_of,
    })
}

/// Whether a member of the API's is optional; within, whether that is so because it is one of
/// several.
fn may_be_absent(facts: &Facts<'_, '_>, object: &Type, name: &str) -> Option<bool> {
    if !facts.world.is_of_api(object) {
        return None;
    }
    let one_of = matches!(facts.world.resolve(object), Type::Union(_));
    match facts.world.field(object, name) {
        Lookup::Found(field) if field.optional => Some(one_of),
        _ => None,
    }
}

/// Whether nothing but a test can make a variable's type another than the one it began with.
fn keeps_its_type(facts: &Facts<'_, '_>, symbol: SymbolId) -> bool {
    let annotated = match facts.symbols.declaration(symbol) {
        AstKind::VariableDeclarator(it) => it.type_annotation.is_some(),
        AstKind::FormalParameter(it) => it.initializer.is_some(),
        _ => true,
    };
    !annotated && !facts.symbols.scoping().symbol_is_mutated(symbol)
}

/// The only property of a pattern, and what it is taken from: a test of another that is taken along
/// would tell of it.
fn pattern<'a>(
    facts: &Facts<'a, '_>,
    symbol: SymbolId,
) -> Option<(&'a BindingProperty<'a>, &'a Expression<'a>)> {
    let AstKind::VariableDeclarator(it) = facts.symbols.declaration(symbol) else {
        return None;
    };
    let BindingPattern::ObjectPattern(pattern) = &it.id else {
        return None;
    };
    let [property] = pattern.properties.as_slice() else {
        return None;
    };
    let is_plain = it.type_annotation.is_none()
        && pattern.rest.is_none()
        && property.value.is_binding_identifier()
        && !facts.symbols.scoping().symbol_is_mutated(symbol);
    is_plain.then_some((property, it.init.as_ref()?))
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
