// SPDX-License-Identifier: Apache-2.0
//! Comparisons of numbers and versions: `>=6.1`, `< 5`.

use std::cmp::Ordering;

use crate::finding::shown;
use crate::glob;
use crate::syntax::words::{Escapes, split};

/// How two things are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Less,
    AtMost,
    Equal,
    NotEqual,
    AtLeast,
    More,
}

/// Longer ones first.
const SIGNS: [(&str, Comparison); 7] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("!=", Comparison::NotEqual),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::More),
    ("=", Comparison::Equal),
];

impl Comparison {
    /// The comparison that a text begins with, and the rest.
    pub(super) fn before(text: &str, default: Comparison) -> (Comparison, &str) {
        let found = SIGNS
            .iter()
            .find_map(|(sign, how)| Some((*how, text.strip_prefix(sign)?)));
        let (how, rest) = found.unwrap_or((default, text));
        (how, rest.trim())
    }

    pub(super) fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::AtLeast => order.is_ge(),
            Self::More => order.is_gt(),
        }
    }
}

/// The signs of a version's words (systemd.unit(5), `ConditionKernelVersion=`), longer ones first.
const VERSION_SIGNS: [&str; 10] = ["!$=", "$=", "<>", "<=", ">=", "==", "!=", "<", ">", "="];

/// Whether a version is as all the words of a parameter say, which may be in quotes: with a sign
/// they are compared, without one they are patterns.
pub(super) fn version(own: &str, parameter: &str) -> Result<bool, String> {
    let words = split(parameter, Escapes::Keep).map_err(|_| "a quote has no end".to_owned())?;
    let mut words = words.iter().map(|it| it.text.trim());
    let mut holds = true;
    let mut first = true;
    while let Some(word) = words.next() {
        let sign = VERSION_SIGNS.iter().find(|sign| word.starts_with(**sign));
        let sign = sign.copied().unwrap_or_default();
        let value = word.strip_prefix(sign).unwrap_or(word).trim();
        // A blank may follow the first sign.
        let value = match (value, first) {
            ("", true) => words.next().unwrap_or_default(),
            (value, _) => value,
        };
        if value.is_empty() {
            return Err(format!("{} has no version", shown(word)));
        }
        holds &= is_as(own, sign, value);
        first = false;
    }
    match first {
        true => Err("there is no version".to_owned()),
        false => Ok(holds),
    }
}

/// `=` and `!=` compare texts, the other signs versions.
fn is_as(own: &str, sign: &str, value: &str) -> bool {
    let order = versions(own, value);
    match sign {
        "!$=" => !glob::matches(value, own),
        "=" => own == value,
        "!=" => own != value,
        "<>" => order.is_ne(),
        "==" => order.is_eq(),
        "<=" => order.is_le(),
        ">=" => order.is_ge(),
        "<" => order.is_lt(),
        ">" => order.is_gt(),
        // None, or `$=`.
        _ => glob::matches(value, own),
    }
}

/// Numbers by their value, letters by their order; `~` is before everything.
pub(super) fn versions(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let separator = |c: char| !c.is_ascii_alphanumeric() && c != '~';
        one = one.trim_start_matches(separator);
        other = other.trim_start_matches(separator);
        match (one.strip_prefix('~'), other.strip_prefix('~')) {
            (Some(a), Some(b)) => {
                (one, other) = (a, b);
                continue;
            }
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {}
        }
        if one.is_empty() || other.is_empty() {
            return one.len().min(1).cmp(&other.len().min(1));
        }
        let (a, rest_a) = run(one);
        let (b, rest_b) = run(other);
        let numbers = (a.parse::<u128>(), b.parse::<u128>());
        let order = match numbers {
            (Ok(a), Ok(b)) => a.cmp(&b),
            // A number is newer than letters.
            (Ok(_), Err(_)) => Ordering::Greater,
            (Err(_), Ok(_)) => Ordering::Less,
            (Err(_), Err(_)) => a.cmp(b),
        };
        if order.is_ne() {
            return order;
        }
        (one, other) = (rest_a, rest_b);
    }
}

/// The digits or letters at the beginning.
fn run(text: &str) -> (&str, &str) {
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    let other = |c: char| !c.is_ascii_alphanumeric() || c.is_ascii_digit() != digit;
    text.split_at_checked(text.find(other).unwrap_or(text.len()))
        .unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_parts() {
        for (one, order, other) in [
            ("6.1.0-13-cloud", Ordering::Greater, "6.1"),
            ("6.10", Ordering::Greater, "6.9"),
            ("5.4", Ordering::Less, "5.4.1"),
            ("1.0~rc1", Ordering::Less, "1.0"),
            ("1.0", Ordering::Equal, "1-0"),
            ("12", Ordering::Greater, "a"),
        ] {
            assert_eq!(versions(one, other), order, "{one} {other}");
        }
    }

    #[test]
    fn a_kernel_is_as_all_words_say() {
        // systemd.unit(5), ConditionKernelVersion=.
        for (parameter, expected) in [
            (">=6.1 <7", true),
            ("> 6.2", false),
            ("6.1.*", true),
            ("5.*", false),
            ("!=6.1.0", false),
        ] {
            assert_eq!(version("6.1.0", parameter), Ok(expected), "{parameter}");
        }
        assert!(version("6", "").is_err());
    }
}
