// SPDX-License-Identifier: Apache-2.0
//! Whether the end of a function's body is reached though it shall return something. Certain only
//! where every way is plain: where a call may never return, or a switch may have every case, this
//! is silent.

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::convert::span;
use super::facts::Facts;
use super::infer::infer;
use super::meant::converter;
use super::report::Report;
use super::types::Type;
use crate::source::Span;

/// A function that is declared to return something, and may come to its end without.
pub(super) fn check_end<'a>(facts: &Facts<'a, '_>, function: &Function<'a>, out: &mut Vec<Report>) {
    let (Some(body), Some(annotation)) = (&function.body, &function.return_type) else {
        return;
    };
    if function.generator || matches!(annotation.type_annotation, TSType::TSTypePredicate(_)) {
        return;
    }
    let mut wanted = facts
        .world
        .resolve(&converter(facts).ty(&annotation.type_annotation));
    if function.r#async {
        wanted = match wanted.argument_of(&["Promise"]) {
            Some(_) => facts.world.resolve(&wanted.awaited()),
            None => return,
        };
    }
    if wanted.members().iter().any(may_be_nothing) || end_all(facts, &body.statements) {
        return;
    }
    let at = span(annotation.type_annotation.span());
    let message = "the end of the function is reached without a `return`".to_owned();
    let report = Report::new("missing-return", at, message);
    let end = Span::new(body.span.end.saturating_sub(1), body.span.end);
    out.push(report.anchored(at).help(format!(
        "it shall return {wanted}; line {} is its end",
        facts.tree.line_of(end.start)
    )));
}

fn end_all<'a>(facts: &Facts<'a, '_>, statements: &[Statement<'a>]) -> bool {
    statements.iter().any(|statement| ends(facts, statement))
}

/// Whether what follows a statement isn't reached, or may not be.
fn ends<'a>(facts: &Facts<'a, '_>, statement: &Statement<'a>) -> bool {
    match statement {
        Statement::BlockStatement(block) => end_all(facts, &block.body),
        Statement::IfStatement(it) => {
            let other = it.alternate.as_ref();
            ends(facts, &it.consequent) && other.is_some_and(|other| ends(facts, other))
        }
        // A call may be of a function that never returns.
        Statement::ExpressionStatement(it) => match it.expression.get_inner_expression() {
            Expression::CallExpression(_) | Expression::AwaitExpression(_) => {
                matches!(infer(facts, &it.expression), Type::Any | Type::Never)
            }
            _ => false,
        },
        Statement::VariableDeclaration(_)
        | Statement::EmptyStatement(_)
        | Statement::FunctionDeclaration(_)
        | Statement::ClassDeclaration(_)
        | Statement::TSTypeAliasDeclaration(_)
        | Statement::TSInterfaceDeclaration(_)
        | Statement::ForOfStatement(_)
        | Statement::ForInStatement(_) => false,
        Statement::WhileStatement(it) => it.test.is_literal(),
        _ => true,
    }
}

fn may_be_nothing(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Any | Type::Undefined | Type::Never | Type::Param(_)
    )
}
