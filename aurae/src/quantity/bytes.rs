// SPDX-License-Identifier: Apache-2.0
//! Bytes: `64M`, `1Gi`, `1.5g`, `4096`, `max`. K, M, G, T, P are powers of 1024, as docker and
//! systemd have them.

/// A number of bytes (or of anything), or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u64>);

/// Parses a size, in bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    api::quantity::parse_bytes(text).map_err(str::to_owned)
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
