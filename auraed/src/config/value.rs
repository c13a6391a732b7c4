// SPDX-License-Identifier: Apache-2.0
//! Values with units, as people write them in the configuration: `64MiB`, `1h30m`. Plain numbers
//! are bytes and seconds. Used by the schema alone.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes: `1048576`, `64M` (10^6), `64Mi` or `64MiB` (2^20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

/// A span of time: `10s`, `1h30m`, `250ms`, `7d`; a plain number counts seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

const BYTE_UNITS: [(&str, u64); 5] = [
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("", 1),
];
const DECIMAL_UNITS: [(&str, u64); 4] = [
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("K", 1_000),
];
const TIME_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().strip_suffix('B').unwrap_or(unit.trim());
    let (_, factor) = BYTE_UNITS
        .iter()
        .chain(DECIMAL_UNITS.iter())
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn parse_span(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total_ms: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    if let Ok(seconds) = rest.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let (_, factor) = TIME_UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        total_ms = total_ms.checked_add(number.parse::<u64>().ok()?.checked_mul(*factor)?)?;
        rest = next;
    }
    Some(Duration::from_millis(total_ms))
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = BYTE_UNITS
            .iter()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
            .copied()
            .unwrap_or(("", 1));
        let suffix = if unit.is_empty() { "" } else { "B" };
        write!(f, "{}{unit}{suffix}", self.0 / factor)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        let (unit, factor) = TIME_UNITS
            .iter()
            .rev()
            .find(|(_, factor)| ms >= u128::from(*factor) && ms.is_multiple_of(u128::from(*factor)))
            .copied()
            .unwrap_or(("ms", 1));
        write!(f, "{}{unit}", ms / u128::from(factor))
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

struct WithUnit<T> {
    expected: &'static str,
    from_text: fn(&str) -> Option<T>,
    from_number: fn(u64) -> T,
}

impl<T> Visitor<'_> for WithUnit<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        u64::try_from(number)
            .map(self.from_number)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        Ok((self.from_number)(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.from_text)(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WithUnit {
            expected: "a number of bytes such as 1048576, 64M or 64MiB",
            from_text: |text| parse_bytes(text).map(ByteSize),
            from_number: ByteSize,
        })
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WithUnit {
            expected: "a span of time such as 10s, 1h30m or 250ms",
            from_text: |text| parse_span(text).map(Span),
            from_number: |seconds| Span(Duration::from_secs(seconds)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("7", 7),
            ("64M", 64_000_000),
            ("64Mi", 64 << 20),
            ("64MiB", 64 << 20),
            ("1k", 1000),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "64 parsecs", "99999999999T"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn spans_are_read_as_people_write_them() {
        for (text, ms) in [
            ("10", 10_000),
            ("10s", 10_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
        ] {
            assert_eq!(parse_span(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "1 fortnight", "1h30"] {
            assert_eq!(parse_span(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for bytes in [0, 1, 1000, 1 << 20, 3 << 30, (1 << 20) + 1] {
            assert_eq!(parse_bytes(&ByteSize(bytes).to_string()), Some(bytes));
        }
        for ms in [0, 1, 1500, 60_000, 90_000, 86_400_000] {
            let span = Duration::from_millis(ms);
            assert_eq!(parse_span(&Span(span).to_string()), Some(span));
        }
    }
}
