// SPDX-License-Identifier: Apache-2.0
//! Arrays and functions where a type is asked for: each element, and what a function's body gives,
//! is held against what is wanted of it. The forms that can stand there are told apart in `fit`.

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::assign::Verdict;
use super::convert::span;
use super::facts::Facts;
use super::fit::{Place, fit, refuse};
use super::infer::infer;
use super::report::Report;
use super::types::Type;

use Verdict::{No, Unsure, Yes};

pub(super) fn fit_array<'a>(
    facts: &Facts<'a, '_>,
    array: &ArrayExpression<'a>,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let mut takers = Vec::new();
    for member in wanted.members() {
        match facts.world.resolve(member) {
            Type::Array(element) => takers.push(element.as_ref().clone()),
            Type::Any | Type::Param(_) | Type::Tuple(_) | Type::Union(_) => return Unsure,
            other => {
                let list = Type::Array(Type::Any.into());
                if let Some(element) = other.argument_of(&["Iterable"]) {
                    takers.push(element);
                } else if facts.world.assignable(&list, &other) != No {
                    return Unsure;
                }
            }
        }
    }
    match takers.as_slice() {
        [] => refuse(span(array.span), "an array", wanted, place, out),
        [element] => fit_elements(facts, array, element, place, out),
        _ => Unsure,
    }
}

fn fit_elements<'a>(
    facts: &Facts<'a, '_>,
    array: &ArrayExpression<'a>,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let mut verdict = Yes;
    // A list with an `any` in it is a list of `any`, for which the API's schema doesn't care.
    let is_any = |element: &ArrayExpressionElement<'a>| {
        let expression = element.as_expression();
        expression.is_some_and(|it| infer(facts, it).is_any())
    };
    if !place.api && array.elements.iter().any(is_any) {
        return Unsure;
    }
    for element in &array.elements {
        let fits = match element.as_expression() {
            Some(expression) => {
                let anchor = span(expression.span());
                let place = Place {
                    wanted,
                    anchor,
                    ..place
                };
                fit(facts, expression, place, out)
            }
            None => Unsure,
        };
        verdict = verdict.and(fits);
    }
    verdict
}

pub(super) fn fit_arrow<'a>(
    facts: &Facts<'a, '_>,
    arrow: &ArrowFunctionExpression<'a>,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let Some(returns) = returns_wanted(facts, wanted) else {
        return refuse(span(arrow.span), "a function", wanted, place, out);
    };
    let annotated = arrow.return_type.is_some()
        || arrow
            .params
            .items
            .iter()
            .any(|it| it.type_annotation.is_some());
    let body = arrow.body.as_expression();
    match (body, returns) {
        (Some(body), Some(returns)) if !annotated && !arrow.r#async => {
            let place = Place {
                wanted: &returns,
                anchor: span(body.span()),
                fresh: false,
                api: place.api,
            };
            match fit(facts, body, place, out) {
                No => No,
                _ => Unsure,
            }
        }
        _ => Unsure,
    }
}

pub(super) fn fit_function<'a>(
    facts: &Facts<'a, '_>,
    wanted: &Type,
    expression: &Expression<'a>,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    match returns_wanted(facts, wanted) {
        Some(_) => Unsure,
        None => {
            let at = span(expression.span());
            refuse(at, "a function", wanted, place, out)
        }
    }
}

/// What a function that is asked for shall return; the inner `None` where that isn't sure,
/// the outer where no function is asked for at all.
fn returns_wanted(facts: &Facts<'_, '_>, wanted: &Type) -> Option<Option<Type>> {
    let mut found = None;
    for member in wanted.members() {
        let member = facts.world.resolve(member);
        match &member {
            Type::Object(_) | Type::Named(..) => {
                let Some(shape) = facts.world.shape(&member) else {
                    return Some(None);
                };
                match (shape.calls.as_slice(), found.is_none()) {
                    ([signature], true) if signature.generics.is_empty() => {
                        found = Some(match &signature.returns {
                            Type::Undefined | Type::Any => None,
                            other => Some(other.clone()),
                        });
                    }
                    ([], _) if !shape.fields.iter().any(|field| !field.optional) => {
                        return Some(None);
                    }
                    ([], _) => {}
                    _ => return Some(None),
                }
            }
            Type::Any | Type::Param(_) | Type::Union(_) => return Some(None),
            Type::ClassOf(_) | Type::ValueOf(_) => return Some(None),
            _ => {}
        }
    }
    found
}
