// SPDX-License-Identifier: Apache-2.0
//! Bytes: `64M`, `1Gi`, `1.5g`, `4096`, `max`. K, M, G, T, P are powers of 1024, as docker and
//! systemd have them.

/// A number of bytes (or of anything), or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u64>);

const EXPECTED: &str =
    "write bytes, or a number with K, M, G, T or P (powers of 1024), as in 64M or 1.5Gi";

/// Parses a size.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let fail = || EXPECTED.to_owned();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).ok_or_else(fail)?;
    let shift = match unit.to_ascii_lowercase().trim_end_matches('b') {
        "" => 0_u32,
        "k" | "ki" => 10,
        "m" | "mi" => 20,
        "g" | "gi" => 30,
        "t" | "ti" => 40,
        "p" | "pi" => 50,
        _ => return Err(fail()),
    };
    scale(number, shift).ok_or_else(fail)
}

/// `number` × 2^`shift`, exactly for whole numbers and to the byte for fractions; `None` when it
/// isn't a number or doesn't fit.
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

/// Parses a size or `max`.
pub(crate) fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "max" | "unlimited" | "infinity" | "-1" => Ok(Limit(None)),
        _ => parse_bytes(text)
            .map(|bytes| Limit(Some(bytes)))
            .map_err(|problem| format!("{problem}, or max")),
    }
}

/// For people: three significant digits, `1.50Gi`.
pub(crate) fn format_bytes(bytes: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn no_limit_is_max() {
        assert_eq!(parse_limit("max"), Ok(Limit(None)));
        assert_eq!(parse_limit("1k"), Ok(Limit(Some(1024))));
        assert!(parse_limit("much").is_err());
    }

    #[test]
    fn people_read_three_digits() {
        for (bytes, text) in [
            (0, "0B"),
            (999, "999B"),
            (1024, "1.00Ki"),
            (64 << 20, "64.0Mi"),
            (1_610_612_736, "1.50Gi"),
            (u64::MAX, "16384Pi"),
        ] {
            assert_eq!(format_bytes(bytes), text);
        }
    }
}
