// SPDX-License-Identifier: Apache-2.0
//! Sizes and times in text: `64M`, `1.5Gi`, `1m30s`. Parsed in the same way for the daemon's
//! configuration and the client's flags; the API itself has numbers, with their unit in the field's
//! name.

use std::time::Duration;

/// The error of [`parse_bytes`]: how to write a size.
pub const SIZE: &str =
    "write bytes, or a number with K, M, G, T or P (powers of 1024), as in 64M or 1.5Gi";

/// The error of [`parse_duration`]: how to write a time.
pub const TIME: &str = "write a span of time such as 10s, 1h30m, 500ms or 2d";

/// Bytes: a number, with a unit or without. K, M, G, T and P are powers of 1024, as docker and
/// systemd have them, in either case, and so are `Ki`, `KB` and `KiB`. Fractions are cut to the
/// byte.
///
/// # Errors
/// [`SIZE`]: the text is no such number, or it is beyond 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, &'static str> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).ok_or(SIZE)?;
    let shift = match unit.to_ascii_lowercase().trim_end_matches('b') {
        "" => 0_u32,
        "k" | "ki" => 10,
        "m" | "mi" => 20,
        "g" | "gi" => 30,
        "t" | "ti" => 40,
        "p" | "pi" => 50,
        _ => return Err(SIZE),
    };
    scale(number, shift).ok_or(SIZE)
}

/// For people: three significant digits, `1.50Gi`.
pub fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let mut unit = "B";
    let mut value = bytes as f64;
    for next in UNITS.iter().skip(1) {
        if value < 999.5 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    match (unit, value) {
        ("B", _) => format!("{bytes}B"),
        (_, v) if v < 9.995 => format!("{v:.2}{unit}"),
        (_, v) if v < 99.95 => format!("{v:.1}{unit}"),
        (_, v) => format!("{v:.0}{unit}"),
    }
}

/// As a setting: exact, in the largest unit that it is a whole number of, `64Mi`.
pub fn write_bytes(bytes: u64) -> String {
    const UNITS: [(&str, u32); 5] = [("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let whole = |(_, shift): &&(&str, u32)| bytes > 0 && bytes.trailing_zeros() >= *shift;
    match UNITS.iter().find(whole) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// `number` × 2^`shift`; `None` where it isn't a number or doesn't fit.
fn scale(number: &str, shift: u32) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let unit = 1_u128 << shift;
    let mut total = whole
        .parse::<u64>()
        .ok()
        .map(u128::from)?
        .checked_mul(unit)?;
    if !fraction.is_empty() {
        let digits = u32::try_from(fraction.len()).ok().filter(|n| *n <= 12)?;
        let part = fraction.parse::<u64>().ok().map(u128::from)?;
        total = total.checked_add(part.checked_mul(unit)? / 10_u128.pow(digits))?;
    }
    u64::try_from(total).ok()
}

/// A span of time: numbers with units, `10s`, `1h30m`, `250ms`, `7d`, to the microsecond. A plain
/// number is seconds, as in `docker stop -t 10`.
///
/// # Errors
/// [`TIME`]: the text is no span of time, or it is longer than can be counted.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Duration::from_secs).map_err(|_| TIME);
    }
    if text.is_empty() {
        return Err(TIME);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (micros, after) = parse_part(rest).ok_or(TIME)?;
        total = total.checked_add(micros).ok_or(TIME)?;
        rest = after;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_three_digits_and_settings_are_exact() {
        for (bytes, shown, written) in [
            (0, "0B", "0"),
            (999, "999B", "999"),
            (1024, "1.00Ki", "1Ki"),
            (64 << 20, "64.0Mi", "64Mi"),
            ((64 << 20) + 1, "64.0Mi", "67108865"),
            (1_610_612_736, "1.50Gi", "1536Mi"),
            (u64::MAX, "16384Pi", "18446744073709551615"),
        ] {
            assert_eq!(
                (&*show_bytes(bytes), &*write_bytes(bytes)),
                (shown, written)
            );
            assert_eq!(parse_bytes(written), Ok(bytes));
        }
    }
    use proptest::prelude::*;

    #[test]
    fn sizes_as_docker_systemd_and_kubernetes_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64M", 64 << 20),
            ("64m", 64 << 20),
            ("64MiB", 64 << 20),
            ("1Gi", 1 << 30),
            ("1.5G", 3 << 29),
            ("0.1k", 102),
            ("512b", 512),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_told_how_to_be_one() {
        for text in [
            "",
            "M",
            "64X",
            "-1",
            "1.G",
            "1..2G",
            "64 M",
            "18446744073709551616",
            "99999999P",
            "٣",
        ] {
            let problem = parse_bytes(text).expect_err(text);
            assert!(problem.contains("as in 64M"), "{problem}");
        }
    }

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
    fn what_is_no_time_is_refused() {
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

    proptest! {
        #[test]
        fn whole_units_are_exact(number in 0u64..1 << 14, power in 0usize..6) {
            let unit = ["", "K", "M", "G", "T", "P"][power];
            prop_assert_eq!(parse_bytes(&format!("{number}{unit}")), Ok(number << (10 * power)));
        }

        #[test]
        fn no_text_does_harm(text: String) {
            let _ = (parse_bytes(&text), parse_duration(&text));
        }
    }
}
