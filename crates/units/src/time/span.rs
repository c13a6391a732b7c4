// SPDX-License-Identifier: Apache-2.0
//! One span of time: microseconds, or no end.

use std::fmt;

/// A span in microseconds. The largest number means no end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Span(u64);

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
/// 30.44 days, and 365.25 days: systemd.time(7).
const MONTH: u64 = 2_629_800 * SECOND;
const YEAR: u64 = 31_557_600 * SECOND;

/// Every name of a unit, the longer first where one begins another; none is the default. `M` is a
/// month, `m` a minute.
const UNITS: [(&str, u64); 31] = [
    ("seconds", SECOND),
    ("second", SECOND),
    ("sec", SECOND),
    ("s", SECOND),
    ("minutes", MINUTE),
    ("minute", MINUTE),
    ("min", MINUTE),
    ("months", MONTH),
    ("month", MONTH),
    ("M", MONTH),
    ("msec", 1000),
    ("ms", 1000),
    ("m", MINUTE),
    ("hours", HOUR),
    ("hour", HOUR),
    ("hr", HOUR),
    ("h", HOUR),
    ("days", DAY),
    ("day", DAY),
    ("d", DAY),
    ("weeks", WEEK),
    ("week", WEEK),
    ("w", WEEK),
    ("years", YEAR),
    ("year", YEAR),
    ("y", YEAR),
    ("usec", 1),
    ("us", 1),
    ("µs", 1),
    ("μs", 1),
    ("", 0),
];

/// What is written, largest first, and how many digits its fraction has.
const SHOWN: [(&str, u64, usize); 9] = [
    ("y", YEAR, 0),
    ("month", MONTH, 0),
    ("w", WEEK, 0),
    ("d", DAY, 0),
    ("h", HOUR, 0),
    ("min", MINUTE, 0),
    ("s", SECOND, 6),
    ("ms", 1000, 3),
    ("us", 1, 0),
];

impl Span {
    /// Without an end.
    pub const INFINITY: Span = Span(u64::MAX);
    /// None at all.
    pub const ZERO: Span = Span(0);

    /// So many microseconds; the largest number is no end.
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros)
    }

    /// So many seconds.
    pub const fn from_secs(seconds: u64) -> Span {
        Span(seconds.saturating_mul(SECOND))
    }

    /// In microseconds; `None` where it has no end.
    pub const fn micros(self) -> Option<u64> {
        if self.0 == u64::MAX {
            None
        } else {
            Some(self.0)
        }
    }

    /// Parses a span; a number without unit is seconds.
    ///
    /// # Errors
    /// The text is no span, or one that 64 bits of microseconds don't hold.
    pub fn parse(text: &str) -> Result<Span, String> {
        Self::parse_with(text, SECOND)
    }

    /// As [`Span::parse`], with the length in microseconds of a number that has no unit.
    ///
    /// # Errors
    /// The text is no span, or one that 64 bits of microseconds don't hold.
    pub fn parse_with(text: &str, default: u64) -> Result<Span, String> {
        let text = text.trim_matches([' ', '\t', '\n', '\r']);
        if text == "infinity" {
            return Ok(Self::INFINITY);
        }
        let mut rest = text;
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (part, after) = one(rest, default).ok_or_else(|| wrong(text))?;
            total = total
                .checked_add(part)
                .filter(|sum| *sum != u64::MAX)
                .ok_or_else(|| format!("{} is too long", crate::finding::shown(text)))?;
            rest = after.trim_start_matches([' ', '\t', '\n', '\r']);
        }
        if text.is_empty() {
            return Err(wrong(text));
        }
        Ok(Span(total))
    }
}

fn wrong(text: &str) -> String {
    let shown = crate::finding::shown(text);
    format!("{shown} is no span of time: write it as in `5min 20s`, or `infinity`")
}

/// The first number with its unit, in microseconds, and what follows.
fn one(text: &str, default: u64) -> Option<(u64, &str)> {
    // A plus is a number's sign; a minus is none of a span.
    let text = text.strip_prefix('+').unwrap_or(text);
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() || rest.len() + whole.len() + 1 == text.len() {
        return None;
    }
    if !fraction.is_empty() && rest.starts_with('.') {
        return None;
    }
    let rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
    let (name, unit) = UNITS.iter().find(|(name, _)| rest.starts_with(name))?;
    let unit = if name.is_empty() { default } else { *unit };
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut micros = whole.checked_mul(unit)?;
    // Each digit by itself is cut to the microsecond, as systemd does.
    let mut share = unit / 10;
    for digit in fraction.bytes() {
        micros = micros.checked_add(u64::from(digit - b'0').checked_mul(share)?)?;
        share /= 10;
    }
    Some((micros, rest.get(name.len()..)?))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

impl fmt::Display for Span {
    /// `1h 3min 30s`, `infinity`, `0`; what is left below a minute as a fraction, `1.500000s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::INFINITY {
            return f.write_str("infinity");
        }
        if self.0 == 0 {
            return f.write_str("0");
        }
        let mut left = self.0;
        let mut space = "";
        for (name, unit, digits) in SHOWN {
            let (whole, rest) = (left / unit, left % unit);
            if whole == 0 {
                continue;
            }
            if digits > 0 && rest > 0 {
                return write!(f, "{space}{whole}.{rest:0digits$}{name}");
            }
            write!(f, "{space}{whole}{name}")?;
            (left, space) = (rest, " ");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_are_those_of_the_manual() {
        // systemd.time(7), "Parsing time spans" and its examples.
        for (text, micros, shown) in [
            ("2 h", 2 * HOUR, "2h"),
            ("2hours", 2 * HOUR, "2h"),
            ("48hr", 48 * HOUR, "2d"),
            ("1y 12month", 2 * YEAR, "2y"),
            ("55s500ms", 55_500_000, "55.500000s"),
            ("300ms20s 5day", 5 * DAY + 20_300_000, "5d 20.300000s"),
            ("1h 3.5min", HOUR + 3 * MINUTE + 30 * SECOND, "1h 3min 30s"),
            ("50", 50 * SECOND, "50s"),
            ("1M 1m", MONTH + MINUTE, "1month 1min"),
            ("0", 0, "0"),
            (".5s", 500_000, "500ms"),
            ("3µs", 3, "3us"),
            ("2weeks", 2 * WEEK, "2w"),
        ] {
            let span = Span::parse(text).unwrap();
            assert_eq!(
                (span.micros(), &*span.to_string()),
                (Some(micros), shown),
                "{text}"
            );
        }
        assert_eq!(Span::parse("infinity"), Ok(Span::INFINITY));
        assert_eq!(Span::parse_with("5", 1), Ok(Span(5)));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "-1s",
            "1x",
            "s",
            "1.",
            ".",
            "1 infinity",
            "99999999999y",
            "1..2s",
            "1s-",
        ] {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(micros in 0..u64::MAX) {
            let span = Span(micros);
            prop_assert_eq!(Span::parse(&span.to_string()), Ok(span));
        }

        #[test]
        fn no_text_does_harm(text: String) {
            let _ = Span::parse(&text);
        }
    }
}
