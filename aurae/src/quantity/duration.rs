// SPDX-License-Identifier: Apache-2.0
//! Spans of time: `10s`, `1h30m`, `500ms`, `2d`; a plain number is seconds, as `docker stop -t 10`.

use std::time::Duration;

const EXPECTED: &str = "write a span of time such as 10s, 1h30m, 500ms or 2d";

/// Parses a span of time, to the microsecond.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let fail = || EXPECTED.to_owned();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Duration::from_secs).map_err(|_| fail());
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (micros, after) = parse_part(rest).ok_or_else(fail)?;
        total = total.checked_add(micros).ok_or_else(fail)?;
        rest = after;
    }
    if text.is_empty() {
        return Err(fail());
    }
    Ok(Duration::from_micros(total))
}

/// The first number with its unit, in microseconds, and what follows.
fn parse_part(text: &str) -> Option<(u64, &str)> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (number, rest) = text.split_at_checked(text.find(|c| !is_number(c))?)?;
    let end = rest.find(is_number).unwrap_or(rest.len());
    let (unit, after) = rest.split_at_checked(end)?;
    let micros_per_unit: u64 = match unit {
        "us" | "µs" => 1,
        "ms" => 1_000,
        "s" | "sec" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        "w" => 604_800_000_000,
        _ => return None,
    };
    let micros = match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(micros_per_unit)?,
        Some((whole, fraction)) => {
            let digits = u32::try_from(fraction.len())
                .ok()
                .filter(|n| (1..=9).contains(n))?;
            let part = fraction.parse::<u64>().ok()?.checked_mul(micros_per_unit)?;
            let whole = whole.parse::<u64>().ok()?.checked_mul(micros_per_unit)?;
            whole.checked_add(part / 10_u64.pow(digits))?
        }
    };
    Some((micros, after))
}

/// For people: the two greatest units, `1h30m`; below a second `120ms`.
pub(crate) fn format_duration(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |big: u64, unit: &str, small: u64, smaller: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{smaller}"),
    };
    match seconds {
        0 if span.as_millis() > 0 => format!("{}ms", span.as_millis()),
        0 if span.as_micros() > 0 => format!("{}us", span.as_micros()),
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_as_people_write_them() {
        for (text, millis) in [
            ("10s", 10_000),
            ("10", 10_000),
            ("0", 0),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1.5s", 1_500),
            ("2d", 172_800_000),
            ("1m30s", 90_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "s",
            "10x",
            "-1s",
            "1h30",
            "10 s",
            "1.s",
            "99999999999999999d",
            "1s ",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn people_read_two_units() {
        for (millis, text) in [
            (0, "0s"),
            (120, "120ms"),
            (59_999, "59s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (5_400_000, "1h30m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }
}
