// SPDX-License-Identifier: Apache-2.0
//! The fields that a literal has and its type hasn't, and those that it lacks: what is said of
//! them, and what would mend it. Which fields a literal gives, and whether they fit, is `fit`'s.

use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::convert::span;
use super::facts::Facts;
use super::fit::{Place, listed, listed_fields};
use super::report::Report;
use super::types::{Field, Type};
use super::world::{Lookup, of_object};
use crate::source::Span;

pub(super) fn unknown_field(
    name: &str,
    wanted: &Type,
    fields: &[Field],
    key: Span,
    place: Place<'_>,
) -> Report {
    let names = || fields.iter().map(|field| field.name.as_ref());
    let message = match wanted {
        Type::Named(owner, _) => format!("`{}` has no field `{name}`", owner.name),
        _ => format!("there is no field `{name}` here"),
    };
    let all: Vec<&str> = names().collect();
    let report = Report::new("unknown-field", key, message)
        .help(format!("its fields: {}", listed(&all)))
        .suggesting(name, names(), key, false);
    match place.fresh {
        true => report,
        false => report.own(),
    }
}

/// The required fields that aren't given.
pub(super) fn missing_fields<'a>(
    facts: &Facts<'a, '_>,
    object: &ObjectExpression<'a>,
    wanted: &Type,
    given: &[String],
    place: Place<'_>,
) -> Option<Report> {
    let shape = facts.world.shape(wanted)?;
    if shape.nominal {
        return None;
    }
    let absent = shape
        .fields
        .iter()
        .filter(|field| !field.optional)
        .filter(|field| !given.iter().any(|it| *it == *field.name))
        // Every object has them.
        .filter(|it| !matches!(of_object(&it.name), Lookup::Unknown));
    let absent: Vec<&Field> = absent.collect();
    let first = absent.first()?;
    let names: Vec<&str> = absent.iter().map(|field| field.name.as_ref()).collect();
    let at = span(object.span);
    let at = Span::new(at.start, at.start.saturating_add(1));
    let message = match names.as_slice() {
        [name] => format!("the field `{name}` is missing"),
        many => format!("fields are missing: {}", listed(many)),
    };
    let report = Report::new("missing-field", at, message)
        .anchored(place.anchor)
        .help(format!("`{}` is {}", first.name, first.ty));
    Some(adding(facts, report, object, &absent))
}

/// Offers to write the absent fields at the end of the literal.
fn adding<'a>(
    facts: &Facts<'a, '_>,
    report: Report,
    object: &ObjectExpression<'a>,
    absent: &[&Field],
) -> Report {
    let text = absent
        .iter()
        .map(|field| format!("{}: {}", field.name, sample(facts, &field.ty)));
    let text = text.collect::<Vec<_>>().join(", ");
    let title = format!("Add {}", listed_fields(absent));
    match object.properties.last() {
        Some(last) => {
            let end = last.span().end;
            report.fix(title, Span::new(end, end), format!(", {text}"))
        }
        None => {
            let start = object.span.start.saturating_add(1);
            let end = object.span.end.saturating_sub(1);
            report.fix(title, Span::new(start, end), format!(" {text} "))
        }
    }
}

/// A value to begin with.
fn sample(facts: &Facts<'_, '_>, ty: &Type) -> String {
    match facts.world.resolve(ty).present().members().first() {
        Some(Type::StringLiteral(value)) => format!("{value:?}"),
        Some(Type::String | Type::Template) => "\"\"".to_owned(),
        Some(Type::Number) => "0".to_owned(),
        Some(Type::BigInt) => "0n".to_owned(),
        Some(Type::Boolean | Type::BooleanLiteral(_)) => "false".to_owned(),
        Some(Type::Array(_)) => "[]".to_owned(),
        Some(Type::Object(_) | Type::Named(..)) => "{}".to_owned(),
        _ => "undefined".to_owned(),
    }
}
