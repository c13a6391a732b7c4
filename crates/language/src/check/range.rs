// SPDX-License-Identifier: Apache-2.0
//! Values that a type allows and the API refuses: numbers and durations beyond the limits that a
//! field's documentation states as `@minimum` and `@maximum`, both ends included, and texts that
//! are no duration. The checker's own; the types don't say them.

use oxc::ast::ast::*;
use oxc::span::GetSpan;
use oxc::syntax::operator::UnaryOperator;

use super::convert::span;
use super::report::Report;
use super::types::{ENVIRONMENT, Field, Type};

/// An end of a range: as it is written, and what it counts (nanoseconds where it is a duration).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct End<'d> {
    text: &'d str,
    counts: f64,
}

/// The limits that a documentation comment states.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range<'d> {
    minimum: Option<End<'d>>,
    maximum: Option<End<'d>>,
}

impl<'d> Range<'d> {
    pub(crate) fn of_doc(doc: &'d str) -> Self {
        let tag = |name: &str| {
            let text = doc.split_once(name)?.1.split_whitespace().next()?;
            let counts = text.parse().ok().or_else(|| nanoseconds(text))?;
            Some(End { text, counts })
        };
        Self {
            minimum: tag("@minimum "),
            maximum: tag("@maximum "),
        }
    }

    /// Why a value is refused.
    fn refuses(self, value: f64) -> Option<String> {
        let below = self.minimum.filter(|end| value < end.counts);
        let above = self.maximum.filter(|end| value > end.counts);
        let below = below.map(|end| format!("at least {}", end.text));
        below.or_else(|| above.map(|end| format!("at most {}", end.text)))
    }
}

/// What a documentation comment says to people: its limits as a sentence.
pub(crate) fn readable(doc: &str) -> String {
    let range = Range::of_doc(doc);
    let told = doc.lines().filter(|line| !line.starts_with("@m"));
    let told = told.collect::<Vec<_>>().join("\n");
    let said = match (range.minimum, range.maximum) {
        (Some(from), Some(to)) => format!("From {} to {}.", from.text, to.text),
        (Some(from), None) => format!("At least {}.", from.text),
        (None, Some(to)) => format!("At most {}.", to.text),
        (None, None) => return told,
    };
    // Some fields' own words say it already.
    let ends = [range.minimum, range.maximum].into_iter().flatten();
    let words = told.replace(',', "");
    match ends.into_iter().all(|end| words.contains(end.text)) {
        true => told,
        false => format!("{told}\n\n{said}").trim().to_owned(),
    }
}

/// Says that a value, or an element of a list, is beyond its field's limits.
pub(crate) fn check_range(field: &Field, value: &Expression<'_>, out: &mut Vec<Report>) {
    if let Expression::ArrayExpression(list) = value {
        let elements = list.elements.iter();
        for element in elements.filter_map(ArrayExpressionElement::as_expression) {
            check_range(field, element, out);
        }
        return;
    }
    let at = span(value.span());
    let range = field.doc.as_deref().map(Range::of_doc).unwrap_or_default();
    let counted = match value {
        Expression::StringLiteral(_) => check_duration(&field.ty, value, out),
        value => number(value),
    };
    if let Some(limit) = counted.and_then(|counts| range.refuses(counts)) {
        let message = format!("`{}` is {limit}", field.name);
        out.push(Report::new("out-of-range", at, message).own());
    }
}

/// What a text counts where a duration is asked for, in nanoseconds; says so if it is none.
pub(crate) fn check_duration(
    wanted: &Type,
    value: &Expression<'_>,
    out: &mut Vec<Report>,
) -> Option<f64> {
    let Expression::StringLiteral(text) = value else {
        return None;
    };
    if !is_duration(wanted) {
        return None;
    }
    let counts = nanoseconds(&text.value);
    if counts.is_none() {
        let message = format!("{:?} is no duration", text.value.as_str());
        let report = Report::new("out-of-range", span(text.span), message).own();
        out.push(report.help(
            "write a number with its unit, such as \"1m30s\", \"500ms\" or \"1.5s\"; units: \
             ns, us, ms, s, m, h, d",
        ));
    }
    counts
}

/// Whether a duration is taken, whatever else.
pub(super) fn is_duration(ty: &Type) -> bool {
    ty.members().iter().any(|ty| {
        matches!(ty, Type::Named(name, _)
            if name.file == ENVIRONMENT && name.name.as_ref() == "Duration")
    })
}

/// A duration as the language writes it, in nanoseconds; `None` for what is none.
fn nanoseconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let mut sum = 0.0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let whole = number.starts_with(|c: char| c.is_ascii_digit());
        let number: f64 = number.parse().ok().filter(|_| whole)?;
        let letters = after.find(|c: char| !c.is_ascii_lowercase());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        sum += number * length_of(unit)?;
        if after.is_empty() {
            return Some(sign * sum);
        }
        rest = after;
    }
}

/// A unit in nanoseconds.
fn length_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        _ => return None,
    })
}

fn number(value: &Expression<'_>) -> Option<f64> {
    match value.get_inner_expression() {
        Expression::NumericLiteral(it) => Some(it.value),
        Expression::BigIntLiteral(it) => it.value.as_str().parse().ok(),
        Expression::UnaryExpression(it) if it.operator == UnaryOperator::UnaryNegation => {
            number(&it.argument).map(|value| -value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_off_the_documentation() {
        let limits = |doc: &str| {
            let range = Range::of_doc(doc);
            let counts = |end: Option<End<'_>>| end.map(|it| it.counts);
            (counts(range.minimum), counts(range.maximum))
        };
        assert_eq!(
            limits("Shares. @minimum 1\n@maximum 10000"),
            (Some(1.0), Some(1e4))
        );
        assert_eq!(limits("Default 0.\n@minimum -20"), (Some(-20.0), None));
        assert_eq!(
            limits("@minimum 100ms\n@maximum 1h"),
            (Some(1e8), Some(3.6e12))
        );
        assert_eq!(limits("From the stop signal to SIGKILL."), (None, None));
        assert_eq!(
            readable("-20 to 19.\n@minimum -20\n@maximum 19"),
            "-20 to 19."
        );
        assert_eq!(
            readable("Processes.\n@minimum 1"),
            "Processes.\n\nAt least 1."
        );
    }

    #[test]
    fn durations_are_read_as_the_language_writes_them() {
        assert_eq!(nanoseconds("1m30s"), Some(90e9));
        assert_eq!(nanoseconds("1.5s"), Some(1.5e9));
        assert_eq!(nanoseconds("-2h"), Some(-7.2e12));
        for wrong in ["", "5", "5 s", "s", "1x", "1s2", ".5s", "1.2.3s"] {
            assert_eq!(nanoseconds(wrong), None, "{wrong:?}");
        }
    }
}
