// SPDX-License-Identifier: Apache-2.0
//! Numbers that a type allows and the API refuses: the limits that a field's documentation states
//! as a sentence `-20 to 19.` or as `@minimum` and `@maximum`, both ends included. The checker's
//! own; the types don't say them.

use oxc::ast::ast::*;
use oxc::span::GetSpan;
use oxc::syntax::operator::UnaryOperator;

use super::convert::span;
use super::module::Module;
use super::report::Report;
use super::types::Field;

/// The limits that a documentation comment states.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range {
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
}

impl Range {
    pub(crate) fn of_doc(doc: &str) -> Self {
        let tag = |name: &str| {
            let after = doc.split_once(name)?.1;
            after.split_whitespace().next()?.parse::<f64>().ok()
        };
        let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
        let mut sentences = doc.split(['.', '\n']).map(str::trim);
        let sentence = sentences.find_map(|sentence| {
            let (from, to) = sentence.split_once(" to ")?;
            Some((number(from)?, number(to)?))
        });
        Self {
            minimum: tag("@minimum").or(sentence.map(|(from, _)| from)),
            maximum: tag("@maximum").or(sentence.map(|(_, to)| to)),
        }
    }

    /// Why a value is refused.
    fn refuses(self, value: f64) -> Option<String> {
        match self {
            Self {
                minimum: Some(minimum),
                ..
            } if value < minimum => Some(format!("at least {minimum}")),
            Self {
                maximum: Some(maximum),
                ..
            } if value > maximum => Some(format!("at most {maximum}")),
            _ => None,
        }
    }
}

impl<'a> Module<'a, '_> {
    /// Says that a number is beyond its field's limits.
    pub(crate) fn ranged(&self, field: &Field, value: &Expression<'a>, out: &mut Vec<Report>) {
        let Some(doc) = &field.doc else { return };
        let (Some(number), range) = (number(value), Range::of_doc(doc)) else {
            return;
        };
        if let Some(limit) = range.refuses(number) {
            let at = span(value.span());
            let message = format!("`{}` is {limit}", field.name);
            out.push(Report::new("out-of-range", at, message).own());
        }
    }
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
            (range.minimum, range.maximum)
        };
        assert_eq!(limits("-20 to 19. Default 0."), (Some(-20.0), Some(19.0)));
        assert_eq!(
            limits("Shares. @minimum 1 @maximum 10000"),
            (Some(1.0), Some(10000.0))
        );
        assert_eq!(limits("From the stop signal to SIGKILL."), (None, None));
    }
}
