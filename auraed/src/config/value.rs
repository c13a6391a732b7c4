// SPDX-License-Identifier: Apache-2.0
//! Values with units in the configuration: `64M`, `1h30m`. Plain numbers are bytes and seconds;
//! [`model::quantity`] reads them. Used by the schema alone.

use std::fmt;
use std::time::Duration;

use model::quantity;
use model::quota::{Amount, Quota};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number of bytes: `1048576`, `64M`, `64Mi` or `64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

/// A span of time: `10s`, `1h30m`, `250ms`, `7d`; a plain number counts seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// A share of the node, in thousandths: `10%`; from 1% to 50%.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(pub(crate) u16);

/// `true`, `false`, or `auto`: as it fits where the daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    Auto,
    On,
    Off,
}

/// The units in which times are shown.
const TIME_UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quantity::write_bytes(self.0))
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

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Amount::Share(self.0).show(Quota::Cells))
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
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

impl Serialize for Switch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::On => serializer.serialize_bool(true),
            Self::Off => serializer.serialize_bool(false),
        }
    }
}

struct SwitchWord;

impl Visitor<'_> for SwitchWord {
    type Value = Switch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or \"auto\"")
    }

    fn visit_bool<E: de::Error>(self, on: bool) -> Result<Switch, E> {
        Ok(match on {
            true => Switch::On,
            false => Switch::Off,
        })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Switch, E> {
        match text {
            "auto" => Ok(Switch::Auto),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SwitchWord)
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
            expected: "a number of bytes such as 1048576, 64M or 1.5G",
            from_text: |text| quantity::parse_bytes(text).ok().map(ByteSize),
            from_number: ByteSize,
        })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "a share from 1% to 50%";
        let text = String::deserialize(deserializer)?;
        match Quota::Cells.parse(&text) {
            Ok(Amount::Share(permille @ 10..=500)) => Ok(Share(permille)),
            _ => Err(de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &EXPECTED,
            )),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WithUnit {
            expected: "a span of time such as 10s, 1h30m or 250ms",
            from_text: |text| quantity::parse_duration(text).ok().map(Span),
            from_number: |seconds| Span(Duration::from_secs(seconds)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_has_three_positions() {
        #[derive(Serialize, Deserialize, Debug, PartialEq)]
        struct Of {
            on: Switch,
        }
        for (text, on) in [
            ("on = true\n", Switch::On),
            ("on = false\n", Switch::Off),
            ("on = \"auto\"\n", Switch::Auto),
        ] {
            assert_eq!(toml::from_str::<Of>(text).unwrap(), Of { on });
            assert_eq!(toml::to_string(&Of { on }).unwrap(), text);
        }
        let wrong = toml::from_str::<Of>("on = \"yes\"\n").unwrap_err();
        assert!(
            wrong.to_string().contains("true, false or \"auto\""),
            "{wrong}"
        );
    }

    #[test]
    fn what_is_printed_reads_back() {
        for bytes in [0, 1, 1000, 1 << 20, 3 << 30, (1 << 20) + 1] {
            let shown = ByteSize(bytes).to_string();
            assert_eq!(quantity::parse_bytes(&shown), Ok(bytes));
        }
        for ms in [0, 1, 1500, 60_000, 90_000, 86_400_000] {
            let span = Duration::from_millis(ms);
            assert_eq!(quantity::parse_duration(&Span(span).to_string()), Ok(span));
        }
    }
}
