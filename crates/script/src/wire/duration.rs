// SPDX-License-Identifier: Apache-2.0
//! Durations as programs write them (`1m30s`, `0.5s`, `-2h`) and as answers give them (`90s`,
//! `0.000000001s`): exact to the nanosecond, within the 10,000 years that Google's message allows.

use std::fmt::Write;

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// The most seconds that `google.protobuf.Duration` allows, either way.
const MOST: i128 = 315_576_000_000;

/// Longer units first: `ms` is not `m`.
const UNITS: [(&str, i128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
];

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoDuration {
    /// Not of the form.
    Form,
    /// More than 10,000 years, or a part of a nanosecond.
    Range,
}

/// Seconds and nanoseconds, of the same sign.
pub(super) fn parse(text: &str) -> Result<(i64, i32), NoDuration> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if rest.is_empty() {
        return Err(NoDuration::Form);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanos, after) = part(rest)?;
        total = total.checked_add(nanos).ok_or(NoDuration::Range)?;
        rest = after;
    }
    let total = if negative { -total } else { total };
    if total.abs() > MOST * SECOND {
        return Err(NoDuration::Range);
    }
    let seconds = i64::try_from(total / SECOND).map_err(|_| NoDuration::Range)?;
    let nanos = i32::try_from(total % SECOND).map_err(|_| NoDuration::Range)?;
    Ok((seconds, nanos))
}

/// One number with its unit, in nanoseconds, and what follows.
fn part(text: &str) -> Result<(i128, &str), NoDuration> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (fraction, rest) = digits(rest);
            if fraction.is_empty() {
                return Err(NoDuration::Form);
            }
            (fraction, rest)
        }
        None => ("", rest),
    };
    let letters = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let (name, rest) = rest.split_at_checked(letters).ok_or(NoDuration::Form)?;
    let unit = UNITS.iter().find(|(unit, _)| *unit == name);
    let (_, unit) = unit.ok_or(NoDuration::Form)?;
    if whole.is_empty() {
        return Err(NoDuration::Form);
    }
    let whole: i128 = whole.parse().map_err(|_| NoDuration::Range)?;
    let whole = whole.checked_mul(*unit).ok_or(NoDuration::Range)?;
    Ok((
        whole
            .checked_add(fractional(fraction, *unit)?)
            .ok_or(NoDuration::Range)?,
        rest,
    ))
}

/// Digits behind the point, in nanoseconds of the unit: exactly, or not at all.
fn fractional(digits: &str, unit: i128) -> Result<i128, NoDuration> {
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let places = u32::try_from(digits.len())
        .ok()
        .filter(|places| *places <= 18);
    let scale = 10_i128.pow(places.ok_or(NoDuration::Range)?);
    let number: i128 = digits.parse().map_err(|_| NoDuration::Form)?;
    let scaled = number * unit;
    if scaled % scale != 0 {
        return Err(NoDuration::Range);
    }
    Ok(scaled / scale)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// In seconds, as short as it is exact. None where the message is none: signs that differ, a second
/// or more in the nanoseconds, or too long.
pub(super) fn format(seconds: i64, nanos: i32) -> Option<String> {
    let total = i128::from(seconds) * SECOND + i128::from(nanos);
    let signs_differ = seconds.signum() * i64::from(nanos.signum()) < 0;
    if signs_differ || i128::from(nanos).abs() >= SECOND || total.abs() > MOST * SECOND {
        return None;
    }
    let mut text = String::new();
    if total < 0 {
        text.push('-');
    }
    // Writing to a string can't fail.
    let _ = write!(text, "{}", total.abs() / SECOND);
    let part = total.abs() % SECOND;
    if part != 0 {
        let _ = write!(text, ".{}", format!("{part:09}").trim_end_matches('0'));
    }
    text.push('s');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds, nanos) in [
            ("1m30s", 90, 0),
            ("500ms", 0, 500_000_000),
            ("1.5s", 1, 500_000_000),
            ("-2h", -7200, 0),
            ("-0.5s", 0, -500_000_000),
            ("1d1ns", 86_400, 1),
            ("0s", 0, 0),
            ("0.25us", 0, 250),
            ("315576000000s", 315_576_000_000, 0),
        ] {
            assert_eq!(parse(text), Ok((seconds, nanos)), "{text}");
        }
        for text in [
            "", "-", "5", "5 s", "s", ".5s", "5.s", "1x", "1S", "+1s", "1s-1s", "−1s",
        ] {
            assert_eq!(parse(text), Err(NoDuration::Form), "{text}");
        }
        for text in [
            "0.1ns",
            "315576000001s",
            "99999999999999999999999999999999999999999s",
        ] {
            assert_eq!(parse(text), Err(NoDuration::Range), "{text}");
        }
    }

    #[test]
    fn durations_are_written_in_seconds() {
        assert_eq!(format(90, 0).as_deref(), Some("90s"));
        assert_eq!(format(0, -1).as_deref(), Some("-0.000000001s"));
        assert_eq!(format(1, 500_000_000).as_deref(), Some("1.5s"));
        assert_eq!(format(1, -1), None);
        assert_eq!(format(0, 1_000_000_000), None);
        assert_eq!(format(i64::MIN, 0), None);
    }
}
