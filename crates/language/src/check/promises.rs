// SPDX-License-Identifier: Apache-2.0
//! What is done with promises and streams: a call of the API that isn't awaited, a stream that is,
//! and either of them where a list or a text is meant.

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::convert::span;
use super::facts::Facts;
use super::infer::infer;
use super::names::is_global;
use super::report::Report;
use super::types::{ENVIRONMENT, Type};
use super::world::is_promise;
use crate::source::Span;

/// A call of the API whose answer isn't awaited.
pub(super) fn check_floating<'a>(
    facts: &Facts<'a, '_>,
    statement: &ExpressionStatement<'a>,
    out: &mut Vec<Report>,
) {
    let Expression::CallExpression(call) = statement.expression.get_inner_expression() else {
        return;
    };
    if !reaches_api(facts, &call.callee) {
        return;
    }
    let ty = infer(facts, &statement.expression);
    let at = span(statement.expression.span());
    if is_promise(&ty) {
        let here = Span::new(at.start, at.start);
        let message = "nothing waits for this call: its failure would go unseen";
        let report = Report::new("missing-await", at, message.to_owned())
            .help("put `await` before it")
            .fix("Add `await`", here, "await ".to_owned());
        out.push(report.own());
    } else if facts.world.streamed(&ty).is_some() {
        let message = "nothing reads this stream: it isn't even opened".to_owned();
        let report = Report::new("stream-misuse", at, message)
            .help("read it with `for await (const item of …)`");
        out.push(report.own());
    }
}

/// Whether a call is one of the API's: what its arguments are is then the schema's to say.
pub(super) fn asks_api<'a>(facts: &Facts<'a, '_>, callee: &Expression<'a>) -> bool {
    let is_ours = |name: &IdentifierReference<'_>| {
        let library = &facts.world.environment.library;
        is_global(facts, name) && !library.iter().any(|it| **it == *name.name)
    };
    match callee.get_inner_expression() {
        Expression::Identifier(name) => is_ours(name),
        Expression::StaticMemberExpression(member) => match member.object.get_inner_expression() {
            Expression::Identifier(name) if is_global(facts, name) => is_ours(name),
            object => {
                let ty = infer(facts, object).present();
                facts.world.is_of_api(&ty) && !matches!(ty, Type::Array(_))
            }
        },
        _ => false,
    }
}

/// Whether a callee is a global of the API or a member of one, or of one of its objects.
fn reaches_api<'a>(facts: &Facts<'a, '_>, callee: &Expression<'a>) -> bool {
    match callee.get_inner_expression() {
        Expression::Identifier(name) => is_global(facts, name) && name.name != "Promise",
        Expression::StaticMemberExpression(member) => match member.object.get_inner_expression() {
            Expression::Identifier(name) if is_global(facts, name) => name.name != "Promise",
            object => {
                let ty = infer(facts, object).present();
                matches!(&ty, Type::Named(name, _) if name.file == ENVIRONMENT) && !is_promise(&ty)
            }
        },
        _ => false,
    }
}

pub(super) fn check_await<'a>(
    facts: &Facts<'a, '_>,
    it: &AwaitExpression<'a>,
    out: &mut Vec<Report>,
) {
    let ty = infer(facts, &it.argument);
    if facts.world.streamed(&ty).is_some() {
        let message = "a stream isn't awaited but read".to_owned();
        let report = Report::new("stream-misuse", span(it.span), message)
            .help("read it with `for await (const item of …)`");
        out.push(report.own());
    }
}

pub(super) fn check_for<'a>(facts: &Facts<'a, '_>, of: &ForOfStatement<'a>, out: &mut Vec<Report>) {
    let ty = infer(facts, &of.right);
    let at = span(of.right.span());
    if is_promise(&ty) {
        let inner = ty.awaited();
        let reads = facts.world.streamed(&inner).is_some() || facts.world.element(&inner).is_some();
        let here = Span::new(at.start, at.start);
        let code = match of.r#await {
            true => "stream-misuse",
            false => "missing-await",
        };
        let report = Report::new(code, at, "a promise can't be gone through".to_owned());
        let report = match reads {
            true => {
                report
                    .help("put `await` before it")
                    .fix("Add `await`", here, "await ".to_owned())
            }
            false => report,
        };
        out.push(report);
    } else if !of.r#await && facts.world.streamed(&ty).is_some() {
        let start = of.span.start.saturating_add(3);
        let message = "a stream is read with `for await`".to_owned();
        let report = Report::new("stream-misuse", at, message).help("write `for await (…)`");
        let here = Span::new(start, start);
        out.push(report.fix("Make it `for await`", here, " await".to_owned()));
    }
}

pub(super) fn check_template<'a>(
    facts: &Facts<'a, '_>,
    template: &TemplateLiteral<'a>,
    out: &mut Vec<Report>,
) {
    for expression in &template.expressions {
        let ty = infer(facts, expression);
        if is_promise(&ty) {
            let at = span(expression.span());
            let here = Span::new(at.start, at.start);
            let message = "this is a promise and reads `[object Promise]`".to_owned();
            let report = Report::new("missing-await", at, message)
                .help("put `await` before it")
                .fix("Add `await`", here, "await ".to_owned());
            out.push(report.own());
        }
    }
}
