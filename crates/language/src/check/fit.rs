// SPDX-License-Identifier: Apache-2.0
//! Whether an expression may stand where a type is asked for, told at the part of it that doesn't
//! fit: the field of a literal, the element of an array. Where `tsc` would stop at the first
//! error of an expression, the rest is told too and marked as hidden from it.

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::assign::Verdict;
use super::calls::signatures_of_call;
use super::convert::span;
use super::facts::Facts;
use super::given::{missing_fields, unknown_field};
use super::infer::{infer, infer_expecting};
use super::parts::{fit_array, fit_arrow, fit_function};
use super::range::{check_range, is_duration};
use super::report::{Report, Seen, decide};
use super::types::{Field, Type};
use super::world::{Lookup, is_promise};
use crate::source::Span;

use Verdict::{No, Unsure, Yes};

/// What is asked for, and where `tsc` complains if it isn't given.
#[derive(Clone, Copy)]
pub(crate) struct Place<'t> {
    pub(crate) wanted: &'t Type,
    pub(crate) anchor: Span,
    /// Unknown fields are `tsc`'s errors only in a literal that stands there itself.
    pub(crate) fresh: bool,
    /// It is the API that asks.
    pub(crate) api: bool,
}

impl<'t> Place<'t> {
    pub(crate) fn new(wanted: &'t Type, anchor: Span) -> Self {
        Self {
            wanted,
            anchor,
            fresh: true,
            api: false,
        }
    }
}

/// Whether the expression fits; reports what doesn't.
pub(crate) fn fit<'a>(
    facts: &Facts<'a, '_>,
    expression: &Expression<'a>,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let wanted = facts.world.resolve(place.wanted);
    if matches!(wanted, Type::Any | Type::Param(_)) || facts.memo.is_tired() {
        return Unsure;
    }
    let before = out.len();
    let place = Place {
        api: place.api || facts.world.is_of_api(place.wanted),
        ..place
    };
    let verdict = fit_form(facts, expression, &wanted, place, out);
    decide(out.get_mut(before..).unwrap_or_default(), place.api);
    verdict
}

fn fit_form<'a>(
    facts: &Facts<'a, '_>,
    expression: &Expression<'a>,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    match expression {
        Expression::ParenthesizedExpression(it) => fit(facts, &it.expression, place, out),
        Expression::ObjectExpression(object) => fit_object(facts, object, wanted, place, out),
        Expression::ArrayExpression(array) => fit_array(facts, array, wanted, place, out),
        Expression::ConditionalExpression(it) => {
            let place = Place {
                fresh: false,
                ..place
            };
            let first = fit(facts, &it.consequent, place, out);
            let hidden = out.len();
            let second = fit(facts, &it.alternate, place, out);
            if first == No {
                out.iter_mut().skip(hidden).for_each(Report::hide);
            }
            first.and(second)
        }
        Expression::ArrowFunctionExpression(arrow) => fit_arrow(facts, arrow, wanted, place, out),
        Expression::FunctionExpression(_) => fit_function(facts, wanted, expression, place, out),
        _ => fit_value(facts, expression, wanted, place, out),
    }
}

fn fit_value<'a>(
    facts: &Facts<'a, '_>,
    expression: &Expression<'a>,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let ty = infer_expecting(facts, expression, Some(wanted));
    let narrowable = matches!(
        expression.get_inner_expression(),
        Expression::Identifier(_)
            | Expression::StaticMemberExpression(_)
            | Expression::ComputedMemberExpression(_)
            | Expression::ChainExpression(_)
            | Expression::LogicalExpression(_)
            | Expression::AssignmentExpression(_)
            | Expression::SequenceExpression(_)
            | Expression::ThisExpression(_)
    );
    let verdict = match narrowable {
        true => facts.world.assignable_narrowed(&ty, wanted),
        false if is_generic_call(facts, expression) => facts.world.assignable_generic(&ty, wanted),
        false => facts.world.assignable(&ty, wanted),
    };
    if verdict == No {
        let at = span(expression.span());
        let report = unit_missing(&ty, place.wanted, at);
        let report = report.unwrap_or_else(|| mismatch(facts, &ty, wanted, at, Some(expression)));
        out.push(report.anchored(place.anchor));
    }
    verdict
}

/// Whether it is what a call gives whose type parameters nothing names.
fn is_generic_call<'a>(facts: &Facts<'a, '_>, expression: &Expression<'a>) -> bool {
    match expression.get_inner_expression() {
        Expression::AwaitExpression(it) => is_generic_call(facts, &it.argument),
        Expression::CallExpression(call) => {
            let signatures = signatures_of_call(facts, call).unwrap_or_default();
            call.type_arguments.is_none() && signatures.iter().any(|it| !it.generics.is_empty())
        }
        _ => false,
    }
}

/// What to say of a value of type `found` where `wanted` is asked for.
fn mismatch<'a>(
    facts: &Facts<'a, '_>,
    found: &Type,
    wanted: &Type,
    at: Span,
    expression: Option<&Expression<'a>>,
) -> Report {
    if let Some(report) = nothing_fits(&displayed(found), wanted, at) {
        return report;
    }
    let shown = displayed(wanted);
    if is_promise(found) && facts.world.assignable(&found.awaited(), wanted) != No {
        let here = Span::new(at.start, at.start);
        return Report::new(
            "missing-await",
            at,
            format!(
                "this is a promise; its value, {}, is needed",
                found.awaited()
            ),
        )
        .help("put `await` before it")
        .fix("Add `await`", here, "await ".to_owned());
    }
    let values: Vec<&str> = wanted
        .members()
        .iter()
        .filter_map(|ty| match ty {
            Type::StringLiteral(value) => Some(value.as_ref()),
            _ => None,
        })
        .collect();
    if let (Type::StringLiteral(value), false) = (found, values.is_empty()) {
        let report = Report::new(
            "wrong-enum",
            at,
            format!("{value:?} is none of the values that are allowed here"),
        );
        let report = report.help(format!("allowed: {}", listed(&values)));
        return match expression {
            Some(Expression::StringLiteral(_)) => report.suggesting(value, values, at, true),
            _ => report,
        };
    }
    if facts.world.streamed(found).is_some() {
        let message = format!("this is a stream, where {shown} is needed");
        return Report::new("stream-misuse", at, message)
            .help("read it with `for await (const item of …)`");
    }
    Report::new(
        "wrong-type",
        at,
        format!("expected {shown}, found {}", displayed(found)),
    )
}

/// The type as a message shows it: without the `undefined` of what may be left out.
fn displayed(ty: &Type) -> String {
    match ty {
        Type::Union(_) => ty.present().to_string(),
        other => other.to_string(),
    }
}

fn fit_object<'a>(
    facts: &Facts<'a, '_>,
    object: &ObjectExpression<'a>,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let mut candidates = Vec::new();
    for member in wanted.members() {
        let member = facts.world.resolve(member);
        match &member {
            Type::Any | Type::Param(_) => return Unsure,
            Type::Object(_) | Type::Named(..) => match facts.world.shape(&member) {
                Some(_) if is_promise(&member) => {}
                Some(_) => candidates.push(member),
                None => return Unsure,
            },
            Type::Union(_) | Type::ClassOf(_) | Type::ValueOf(_) => return Unsure,
            _ => {}
        }
    }
    match candidates.as_slice() {
        [] => refuse(span(object.span), "an object", wanted, place, out),
        [one] => fit_members(facts, object, one, place, out),
        many => fit_union(facts, object, many, place, out),
    }
}

/// One of several: told of the one that its literal fields choose, if they choose one.
fn fit_union<'a>(
    facts: &Facts<'a, '_>,
    object: &ObjectExpression<'a>,
    candidates: &[Type],
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let mut refused = Vec::new();
    for candidate in candidates {
        let mut reports = Vec::new();
        match fit_members(facts, object, candidate, place, &mut reports) {
            No => refused.push((candidate, reports)),
            verdict => return verdict,
        }
    }
    // What is wrong whichever is meant; else what is wrong with the one that literals choose.
    // Beyond that `tsc` chooses its own candidate, perhaps on another line.
    let mut common: Vec<Report> = Vec::new();
    if let Some(((_, first), others)) = refused.split_first() {
        let is_in = |report: &Report, list: &[Report]| {
            list.iter()
                .any(|it| it.code == report.code && it.at == report.at)
        };
        let everywhere = first
            .iter()
            .filter(|report| report.code != "missing-field")
            .filter(|report| others.iter().all(|(_, list)| is_in(report, list)));
        common.extend(everywhere.cloned());
    }
    if common.iter().any(|report| report.seen == Seen::Tsc) {
        out.append(&mut common);
        return No;
    }
    refused.retain(|(candidate, _)| is_chosen(facts, object, candidate));
    match refused.pop() {
        Some((_, reports)) if refused.is_empty() => {
            out.extend(reports);
            No
        }
        _ => Unsure,
    }
}

/// Whether the literals among the object's fields are the candidate's.
fn is_chosen<'a>(facts: &Facts<'a, '_>, object: &ObjectExpression<'a>, candidate: &Type) -> bool {
    object.properties.iter().all(|property| {
        let ObjectPropertyKind::ObjectProperty(property) = property else {
            return true;
        };
        let Some(name) = property.key.static_name() else {
            return true;
        };
        let Expression::StringLiteral(value) = &property.value else {
            return true;
        };
        match facts.world.field(candidate, &name) {
            Lookup::Found(field) if matches!(field.ty, Type::StringLiteral(_)) => {
                let value = Type::StringLiteral(value.value.as_str().into());
                facts.world.assignable(&value, &field.ty) != No
            }
            _ => true,
        }
    })
}

fn fit_members<'a>(
    facts: &Facts<'a, '_>,
    object: &ObjectExpression<'a>,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let mut given = Given::default();
    let mut parts = Vec::new();
    let mut unknown = Vec::new();
    let mut verdict = Yes;
    for property in &object.properties {
        let fits = match property {
            ObjectPropertyKind::SpreadProperty(spread) => {
                spread_in(facts, &infer(facts, &spread.argument), &mut given)
            }
            ObjectPropertyKind::ObjectProperty(property) => match property.key.static_name() {
                None => {
                    given.open = true;
                    Unsure
                }
                Some(name) => {
                    given.names.push(name.to_string());
                    fit_member(
                        facts,
                        property,
                        &name,
                        wanted,
                        place,
                        &mut parts,
                        &mut unknown,
                    )
                }
            },
        };
        verdict = verdict.and(fits);
    }
    let missing = match given.open {
        true => None,
        false => {
            // A field that was mistyped is there under another name: one mistake, one finding.
            given.names.extend(unknown.iter().filter_map(meant));
            missing_fields(facts, object, wanted, &given.names, place)
        }
    };
    // In the order in which `tsc` gives up: parts, fields too many, fields missing.
    let mut shown = parts.iter().any(|part| part.seen == Seen::Tsc);
    out.append(&mut parts);
    for mut report in unknown {
        if shown {
            report.hide();
        }
        shown |= report.seen == Seen::Tsc;
        if report.seen != Seen::Own {
            verdict = No;
        }
        out.push(report);
    }
    if let Some(mut report) = missing {
        if shown {
            report.hide();
        }
        out.push(report);
        verdict = No;
    }
    verdict
}

fn spread_in(facts: &Facts<'_, '_>, ty: &Type, given: &mut Given) -> Verdict {
    let (fields, open) = facts.world.fields(&ty.present());
    given.open |= open || matches!(ty, Type::Union(_));
    let present = fields.into_iter().filter(|field| !field.optional);
    given
        .names
        .extend(present.map(|field| field.name.to_string()));
    Unsure
}

fn fit_member<'a>(
    facts: &Facts<'a, '_>,
    property: &ObjectProperty<'a>,
    name: &str,
    wanted: &Type,
    place: Place<'_>,
    parts: &mut Vec<Report>,
    unknown: &mut Vec<Report>,
) -> Verdict {
    let key = span(property.key.span());
    match facts.world.field(wanted, name) {
        Lookup::Unknown => Unsure,
        Lookup::Found(_) if property.kind != PropertyKind::Init => Unsure,
        Lookup::Found(field) => {
            let wanted = match field.optional {
                true => Type::union([field.ty.clone(), Type::Undefined]),
                false => field.ty.clone(),
            };
            let place = Place {
                wanted: &wanted,
                anchor: key,
                ..place
            };
            let verdict = fit(facts, &property.value, place, parts);
            if verdict != No {
                check_range(&field, &property.value, unknown);
            }
            verdict
        }
        Lookup::Missing => {
            let (fields, _) = facts.world.fields(wanted);
            if fields.is_empty() {
                return Yes;
            }
            unknown.push(unknown_field(name, wanted, &fields, key, place));
            Yes
        }
    }
}

/// Says that something of this form stands where another is asked for.
pub(super) fn refuse(
    at: Span,
    found: &str,
    wanted: &Type,
    place: Place<'_>,
    out: &mut Vec<Report>,
) -> Verdict {
    let report = nothing_fits(found, wanted, at).unwrap_or_else(|| {
        let message = format!("expected {}, found {found}", displayed(wanted));
        Report::new("wrong-type", at, message)
    });
    out.push(report.anchored(place.anchor));
    No
}

/// Where no value at all may stand: what `never` means there, in words.
fn nothing_fits(found: &str, wanted: &Type, at: Span) -> Option<Report> {
    matches!(wanted, Type::Never).then(|| {
        let message = format!("nothing may be given here, found {found}");
        Report::new("wrong-type", at, message).help("leave it out: there is no such field")
    })
}

/// A number where a duration is asked for, or a text such as `256Mi` for a number of bytes.
fn unit_missing(found: &Type, wanted: &Type, at: Span) -> Option<Report> {
    match found {
        Type::Number | Type::NumberLiteral(_) if is_duration(wanted) => {
            let message = format!("expected a duration, found {found}");
            let report = Report::new("wrong-type", at, message);
            Some(report.help("write it with its unit: \"30s\", \"500ms\", \"1m30s\""))
        }
        Type::StringLiteral(text)
            if wanted.members().iter().any(|ty| matches!(ty, Type::BigInt)) =>
        {
            let bytes = api::quantity::parse_bytes(text).ok()?;
            let message = format!("expected {}, found {found}", wanted.present());
            let report = Report::new("wrong-type", at, message);
            let report = report.help(format!("write the number: {bytes}"));
            Some(report.fix(format!("Change to {bytes}"), at, bytes.to_string()))
        }
        _ => None,
    }
}

/// The fields that a literal gives.
#[derive(Default)]
struct Given {
    names: Vec<String>,
    /// And others that aren't known.
    open: bool,
}

pub(super) fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 20;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = match names.len() > SHOWN {
        true => ", …",
        false => "",
    };
    format!("{}{more}", shown.join(", "))
}

pub(super) fn listed_fields(fields: &[&Field]) -> String {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_ref()).collect();
    listed(&names)
}

/// The field that a mistyped one was meant to be.
fn meant(unknown: &Report) -> Option<String> {
    let fixes =
        (unknown.code == "unknown-field" && unknown.seen == Seen::Tsc).then_some(&unknown.fixes)?;
    let edit = fixes.first()?.edits.first()?;
    Some(edit.text.clone())
}
