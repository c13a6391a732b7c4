// SPDX-License-Identifier: Apache-2.0
//! Spans of time: `10s`, `1h30m`, `500ms`, `2d`; a plain number is seconds, as `docker stop -t 10`.

use std::time::Duration;

/// Parses a span of time.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    api::quantity::parse_duration(text).map_err(str::to_owned)
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
