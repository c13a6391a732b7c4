// SPDX-License-Identifier: Apache-2.0
//! Goes over a module and says what is wrong: each place where a type is asked for, each member
//! that is read, each comparison. Names, arguments and promises have rooms of their own (`names`,
//! `arguments`, `promises`).

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;
use oxc::span::GetSpan;
use oxc::syntax::operator::AssignmentOperator;

use super::absent::check_absent;
use super::arguments::check_call;
use super::calls::{Called, constructors, signatures_of_call};
use super::convert::span;
use super::ends::check_end;
use super::facts::Facts;
use super::fit::{Place, fit};
use super::infer::infer;
use super::meant::converter;
use super::names::{check_name, check_type_name, is_global, is_in_parts};
use super::promises::{asks_api, check_await, check_floating, check_for, check_template};
use super::report::Report;
use super::symbols::symbol_type;
use super::told::{is_augmented, unless_told_off};
use super::types::Type;
use super::words::missing_member;
use super::world::{Lookup, is_promise};
use crate::finding::{Edit, Fix};
use crate::source::Span;

/// All that is wrong with the module, in its order.
pub(crate) fn reports(facts: &Facts<'_, '_>) -> Vec<Report> {
    let mut out = Vec::new();
    for node in facts.tree.nodes {
        check_node(facts, node.kind(), node.id(), &mut out);
    }
    check_absent(facts, &mut out);
    unless_told_off(facts, &mut out);
    out.sort_by_key(|report| (report.at, report.code));
    out.dedup_by(|a, b| a.at == b.at && a.code == b.code);
    out
}

fn check_node<'a>(facts: &Facts<'a, '_>, kind: AstKind<'a>, id: NodeId, out: &mut Vec<Report>) {
    match kind {
        AstKind::VariableDeclarator(variable) => check_variable(facts, variable, out),
        AstKind::AssignmentExpression(it) => check_assignment(facts, it, out),
        AstKind::FormalParameter(param) => check_parameter(facts, param, out),
        AstKind::PropertyDefinition(property) => check_property(facts, property, out),
        AstKind::ReturnStatement(statement) => check_return(facts, statement, id, out),
        AstKind::ArrowFunctionExpression(arrow) => check_arrow(facts, arrow, out),
        AstKind::TSSatisfiesExpression(it) => {
            let wanted = converter(facts).ty(&it.type_annotation);
            let end = it.expression.span().end;
            let anchor = facts.tree.after(end);
            fit(facts, &it.expression, Place::new(&wanted, anchor), out);
        }
        AstKind::CallExpression(call) => {
            if let Some(signatures) = signatures_of_call(facts, call) {
                let called = Called {
                    api: asks_api(facts, &call.callee),
                    ..Called::of_call(call)
                };
                check_call(facts, &signatures, &called, out);
            }
        }
        AstKind::NewExpression(new) => {
            if let Some((constructors, _)) = constructors(facts, new) {
                let called = Called {
                    api: asks_api(facts, &new.callee),
                    ..Called::of_new(new)
                };
                check_call(facts, &constructors, &called, out);
            }
        }
        AstKind::StaticMemberExpression(member) => check_member(facts, member, id, out),
        AstKind::IdentifierReference(name) => check_name(facts, name, id, out),
        AstKind::TSQualifiedName(name) => check_type_name(facts, name, out),
        AstKind::BinaryExpression(binary) => check_comparison(facts, binary, out),
        AstKind::SwitchStatement(switch) => check_switch(facts, switch, out),
        AstKind::Function(function) => check_end(facts, function, out),
        AstKind::ExpressionStatement(statement) => check_floating(facts, statement, out),
        AstKind::AwaitExpression(it) => check_await(facts, it, out),
        AstKind::ForOfStatement(of) => check_for(facts, of, out),
        AstKind::TemplateLiteral(template) => check_template(facts, template, out),
        _ => {}
    }
}

fn check_variable<'a>(
    facts: &Facts<'a, '_>,
    variable: &VariableDeclarator<'a>,
    out: &mut Vec<Report>,
) {
    if let (BindingPattern::ObjectPattern(pattern), Some(init)) = (&variable.id, &variable.init)
        && variable.type_annotation.is_none()
    {
        check_pattern(facts, pattern, init, out);
    }
    let (Some(annotation), Some(init)) = (&variable.type_annotation, &variable.init) else {
        return;
    };
    let wanted = converter(facts).ty(&annotation.type_annotation);
    let place = Place::new(&wanted, span(variable.id.span()));
    fit(facts, init, place, out);
}

fn check_assignment<'a>(
    facts: &Facts<'a, '_>,
    it: &AssignmentExpression<'a>,
    out: &mut Vec<Report>,
) {
    if it.operator != AssignmentOperator::Assign {
        return;
    }
    let wanted = match &it.left {
        AssignmentTarget::AssignmentTargetIdentifier(name) => {
            let symbol = facts.symbols.of(name);
            let declared = symbol.map(|symbol| (symbol, facts.symbols.declaration(symbol)));
            match declared {
                Some((symbol, AstKind::VariableDeclarator(variable)))
                    if variable.type_annotation.is_some() =>
                {
                    symbol_type(facts, symbol)
                }
                _ => return,
            }
        }
        AssignmentTarget::StaticMemberExpression(member) => {
            let object = infer(facts, &member.object).present();
            if matches!(facts.world.resolve(&object), Type::Union(_)) {
                return;
            }
            match facts.world.field(&object, &member.property.name) {
                Lookup::Found(field) if field.optional => Type::union([field.ty, Type::Undefined]),
                Lookup::Found(field) => field.ty,
                _ => return,
            }
        }
        _ => return,
    };
    let place = Place::new(&wanted, span(it.left.span()));
    fit(facts, &it.right, place, out);
}

fn check_parameter<'a>(facts: &Facts<'a, '_>, param: &FormalParameter<'a>, out: &mut Vec<Report>) {
    if let (Some(annotation), Some(init)) = (&param.type_annotation, &param.initializer) {
        let wanted = converter(facts).ty(&annotation.type_annotation);
        let place = Place::new(&wanted, span(param.pattern.span()));
        fit(facts, init, place, out);
    }
}

fn check_property<'a>(
    facts: &Facts<'a, '_>,
    property: &PropertyDefinition<'a>,
    out: &mut Vec<Report>,
) {
    if let (Some(annotation), Some(value)) = (&property.type_annotation, &property.value) {
        let wanted = converter(facts).ty(&annotation.type_annotation);
        let wanted = match property.optional {
            true => Type::union([wanted, Type::Undefined]),
            false => wanted,
        };
        let place = Place::new(&wanted, span(property.key.span()));
        fit(facts, value, place, out);
    }
}

fn check_return<'a>(
    facts: &Facts<'a, '_>,
    statement: &ReturnStatement<'a>,
    id: NodeId,
    out: &mut Vec<Report>,
) {
    let Some(value) = &statement.argument else {
        return;
    };
    let function = facts.tree.nodes.ancestor_kinds(id).find(|kind| {
        matches!(
            kind,
            AstKind::Function(_) | AstKind::ArrowFunctionExpression(_)
        )
    });
    let (annotation, is_async) = match function {
        Some(AstKind::Function(it)) if !it.generator && it.type_parameters.is_none() => {
            (it.return_type.as_deref(), it.r#async)
        }
        Some(AstKind::ArrowFunctionExpression(it)) if it.type_parameters.is_none() => {
            (it.return_type.as_deref(), it.r#async)
        }
        _ => return,
    };
    check_returned(
        facts,
        value,
        annotation,
        is_async,
        span(statement.span),
        out,
    );
}

fn check_arrow<'a>(
    facts: &Facts<'a, '_>,
    arrow: &ArrowFunctionExpression<'a>,
    out: &mut Vec<Report>,
) {
    if let Some(value) = arrow.body.as_expression()
        && arrow.type_parameters.is_none()
    {
        let annotation = arrow.return_type.as_deref();
        check_returned(
            facts,
            value,
            annotation,
            arrow.r#async,
            span(value.span()),
            out,
        );
    }
}

fn check_returned<'a>(
    facts: &Facts<'a, '_>,
    value: &Expression<'a>,
    annotation: Option<&TSTypeAnnotation<'a>>,
    is_async: bool,
    anchor: Span,
    out: &mut Vec<Report>,
) {
    let Some(annotation) = annotation else { return };
    if matches!(annotation.type_annotation, TSType::TSTypePredicate(_)) {
        return;
    }
    let mut wanted = converter(facts).ty(&annotation.type_annotation);
    if is_async {
        // It may return the value or a promise of it.
        wanted = facts.world.resolve(&wanted);
        wanted = match wanted.argument_of(&["Promise"]) {
            Some(_) => wanted.awaited(),
            None => return,
        };
        if is_promise(&facts.world.resolve(&infer(facts, value))) {
            return;
        }
    }
    if matches!(wanted, Type::Undefined) {
        return;
    }
    fit(facts, value, Place::new(&wanted, anchor), out);
}

fn check_member<'a>(
    facts: &Facts<'a, '_>,
    member: &StaticMemberExpression<'a>,
    id: NodeId,
    out: &mut Vec<Report>,
) {
    let object = infer(facts, &member.object).present();
    let name = member.property.name.as_str();
    if !matches!(facts.world.field(&object, name), Lookup::Missing) {
        return;
    }
    if is_augmented(facts, &object) || is_in_parts(facts, id) {
        return;
    }
    let at = span(member.property.span);
    let (fields, _) = facts.world.fields(&object);
    if is_promise(&object) {
        let name = (name, at);
        out.push(member_of_promise(
            facts,
            &object,
            name,
            &member.object,
            true,
        ));
        return;
    }
    let called = match facts.tree.nodes.parent_kind(id) {
        AstKind::CallExpression(call) => call.callee.span() == member.span,
        _ => false,
    };
    let subsystem = match &member.object {
        Expression::Identifier(it) if is_global(facts, it) => Some(it.name.as_str()),
        _ => None,
    };
    let report = missing_member(&object, name, at, &fields, called, subsystem);
    out.push(report.certain(subsystem.is_some() || facts.world.is_of_api(&object)));
}

/// A name that is read of a promise: of its value, if `await` is put before `object`.
fn member_of_promise<'a>(
    facts: &Facts<'a, '_>,
    promise: &Type,
    (name, at): (&str, Span),
    object: &Expression<'a>,
    parentheses: bool,
) -> Report {
    let value = promise.awaited();
    if matches!(facts.world.field(&value, name), Lookup::Missing) {
        let message = format!("a promise has no member `{name}`");
        return Report::new("unknown-field", at, message)
            .help("put `await` before the call to have its answer");
    }
    let object = span(object.span());
    let message = format!("`{name}` is read of a promise, not of the answer");
    let mut report = Report::new("missing-await", at, message);
    report.help = Some("put `await` before the call".to_owned());
    let edit = |at: u32, text: &str| Edit {
        span: Span::new(at, at),
        text: text.to_owned(),
    };
    let edits = match parentheses {
        true => vec![edit(object.start, "(await "), edit(object.end, ")")],
        false => vec![edit(object.start, "await ")],
    };
    report.fixes.push(Fix {
        title: "Add `await`".to_owned(),
        edits,
    });
    report
}

/// `const { name } = value` where the value has no `name`.
fn check_pattern<'a>(
    facts: &Facts<'a, '_>,
    pattern: &ObjectPattern<'a>,
    init: &Expression<'a>,
    out: &mut Vec<Report>,
) {
    let ty = infer(facts, init);
    if matches!(ty, Type::Union(_)) {
        return;
    }
    for property in &pattern.properties {
        let Some(name) = property.key.static_name() else {
            continue;
        };
        if !matches!(facts.world.field(&ty, &name), Lookup::Missing) {
            continue;
        }
        let at = span(property.key.span());
        if is_promise(&ty) {
            out.push(member_of_promise(facts, &ty, (&name, at), init, false));
        } else if matches!(facts.world.resolve(&ty), Type::Named(..)) {
            let (fields, _) = facts.world.fields(&ty);
            let report = missing_member(&ty, &name, at, &fields, false, None);
            out.push(report.certain(facts.world.is_of_api(&ty)));
        }
    }
}

/// `x === "text"`, and `==`, `!==` and `!=`, where x can't be that.
fn check_comparison<'a>(
    facts: &Facts<'a, '_>,
    binary: &BinaryExpression<'a>,
    out: &mut Vec<Report>,
) {
    if !binary.operator.is_equality() {
        return;
    }
    let ((Expression::StringLiteral(text), other) | (other, Expression::StringLiteral(text))) =
        (&binary.left, &binary.right)
    else {
        return;
    };
    never_equal(facts, text, other, span(binary.span), out);
}

/// `switch (x) { case "text": … }` where x can't be that.
fn check_switch<'a>(facts: &Facts<'a, '_>, switch: &SwitchStatement<'a>, out: &mut Vec<Report>) {
    for case in &switch.cases {
        if let Some(Expression::StringLiteral(text)) = &case.test {
            never_equal(facts, text, &switch.discriminant, span(text.span), out);
        }
    }
}

fn never_equal<'a>(
    facts: &Facts<'a, '_>,
    text: &StringLiteral<'a>,
    other: &Expression<'a>,
    anchor: Span,
    out: &mut Vec<Report>,
) {
    let Some((declared, certain)) = declared_place(facts, other) else {
        return;
    };
    let declared = facts.world.resolve(&declared).present();
    let values = declared.members().iter().filter_map(|ty| match ty {
        Type::StringLiteral(value) => Some(value.as_ref()),
        _ => None,
    });
    let values: Vec<&str> = values.collect();
    let strange = |ty: &Type| {
        !matches!(
            ty,
            Type::StringLiteral(_) | Type::Number | Type::NumberLiteral(_) | Type::Boolean
        )
    };
    let value = text.value.as_str();
    if values.is_empty() || values.contains(&value) || declared.members().iter().any(strange) {
        return;
    }
    let at = span(text.span);
    let message = format!("it is never {value:?}");
    let report = Report::new("wrong-enum", at, message)
        .anchored(anchor)
        .certain(certain);
    let report = report.help(format!("it is one of {}", values.join(", ")));
    out.push(report.suggesting(value, values, at, true));
}

/// The type of a place as it is declared, and whether it is the API's: the flow can only have
/// taken values away.
pub(crate) fn declared_place<'a>(
    facts: &Facts<'a, '_>,
    place: &Expression<'a>,
) -> Option<(Type, bool)> {
    let inner = place.get_inner_expression();
    let member = match inner {
        Expression::Identifier(name) => {
            let ty = symbol_type(facts, facts.symbols.of(name)?);
            let certain = facts.world.is_of_api(&ty);
            return Some((ty, certain));
        }
        Expression::StaticMemberExpression(member) => &**member,
        Expression::ChainExpression(chain) => match &chain.expression {
            ChainElement::StaticMemberExpression(member) => &**member,
            _ => return None,
        },
        _ => return None,
    };
    let object = infer(facts, &member.object).present();
    let ty = facts.world.member_type(&object, &member.property.name);
    let certain = facts.world.is_of_api(&object) || facts.world.is_of_api(&ty);
    Some((ty, certain))
}
