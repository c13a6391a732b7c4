// SPDX-License-Identifier: Apache-2.0
//! What is wrong with the arguments of a call: how many they are, and what each is. Which overload
//! is meant is `calls`'.

use std::sync::Arc;

use oxc::span::GetSpan;

use super::assign::Verdict;
use super::calls::{Called, accepts, instantiate};
use super::convert::span;
use super::facts::Facts;
use super::fit::{Place, fit};
use super::range::check_duration;
use super::report::{Report, Seen};
use super::types::Signature;

use Verdict::{No, Unsure, Yes};

/// Says what is wrong with a call.
pub(crate) fn check_call<'a>(
    facts: &Facts<'a, '_>,
    signatures: &[Arc<Signature>],
    called: &Called<'_, 'a>,
    out: &mut Vec<Report>,
) {
    if called.spreads() {
        return;
    }
    let before = out.len();
    match signatures {
        [] => {}
        [one] => check_signature(facts, one, called, out),
        many => check_overloads(facts, many, called, out),
    }
    for report in out.get_mut(before..).unwrap_or_default() {
        report.certain = Some(called.api || report.certain == Some(true));
    }
}

fn check_signature<'a>(
    facts: &Facts<'a, '_>,
    signature: &Signature,
    called: &Called<'_, 'a>,
    out: &mut Vec<Report>,
) {
    if !called.counts(signature) {
        out.push(wrong_count(signature, called));
        return;
    }
    let signature = instantiate(facts, signature, called);
    let mut refused = false;
    for (index, argument) in called.arguments.iter().enumerate() {
        let wanted = signature.param(index);
        let (Some(expression), Some(wanted)) = (argument.as_expression(), wanted) else {
            continue;
        };
        let mut reports = Vec::new();
        let place = Place::new(&wanted, span(expression.span()));
        let verdict = fit(facts, expression, place, &mut reports);
        if verdict != No {
            check_duration(&wanted, expression, &mut reports);
        }
        // `tsc` tells of the first argument that doesn't fit.
        if refused {
            reports.iter_mut().for_each(Report::hide);
        }
        refused |= verdict == No;
        out.append(&mut reports);
    }
}

/// No overload fits: the one that the arguments come nearest to is explained.
fn check_overloads<'a>(
    facts: &Facts<'a, '_>,
    signatures: &[Arc<Signature>],
    called: &Called<'_, 'a>,
    out: &mut Vec<Report>,
) {
    let mut refused = Vec::new();
    for signature in signatures.iter().filter(|it| called.counts(it)) {
        let mut reports = Vec::new();
        check_signature(facts, signature, called, &mut reports);
        match accepts(facts, signature, called) {
            No => {}
            Unsure => return,
            Yes => {
                // What the types allow and the API doesn't.
                let own = |report: &Report| report.seen == Seen::Own;
                out.extend(reports.into_iter().filter(own));
                return;
            }
        }
        reports.retain(|report| report.seen != Seen::Own);
        refused.push(reports);
    }
    // `tsc` 7 puts its error where the last overload is refused.
    let Some(last) = refused.last() else { return };
    let tsc = last.first().map_or(called.anchor, |report| report.anchor);
    let nearest = refused
        .iter()
        .min_by_key(|reports| reports.iter().map(weight).sum::<u32>());
    for (index, report) in nearest.into_iter().flatten().enumerate() {
        let mut report = report.clone().anchored(tsc);
        if index > 0 {
            report.hide();
        }
        out.push(report);
    }
}

/// How far a report says the arguments are from what is wanted.
fn weight(report: &Report) -> u32 {
    match report.code {
        "wrong-enum" | "missing-await" => 1,
        // A slip of the pen is nearer than a field of another form.
        "unknown-field" if !report.fixes.is_empty() => 1,
        "unknown-field" => 3,
        "missing-field" => 3,
        _ => 2,
    }
}

fn wrong_count(signature: &Signature, called: &Called<'_, '_>) -> Report {
    let given = called.arguments.len();
    let required = signature.required();
    let wanted = match (required, signature.params.len()) {
        (least, _) if signature.rest => format!("at least {least}"),
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    let at = match given < required {
        true => called.anchor,
        false => called
            .arguments
            .get(signature.params.len())
            .map_or(called.whole, |argument| span(argument.span())),
    };
    let message = format!("expected {wanted} arguments, found {given}");
    Report::new("wrong-type", at, message).help(format!("it takes {signature}"))
}
