// SPDX-License-Identifier: Apache-2.0
//! Sizes, times and CPU shares as people write them: `64Mi`, `1m30s`, `500m`. For configuration and
//! command lines; the API itself carries numbers with their unit in the field's name.

use std::time::Duration;

use crate::error::{Error, Result};

const SIZES: [(&str, u64); 15] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

const TIMES: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// Bytes: a number with at most three decimals and a unit as in Kubernetes, e.g. `64Mi`, `1.5G`,
/// `4096`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let hint = "write a number of bytes, or one with a unit such as 64Mi, 1.5G";
    one(text, &SIZES).ok_or_else(|| refusal(text, "size", hint))
}

/// A time: one or more numbers with units, the greater first: `10s`, `1m30s`, `250ms`, `7d`.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let fail = || {
        refusal(
            text,
            "time",
            "write numbers with units, such as 10s, 1m30s, 250ms, 7d",
        )
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let unit_at = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(fail)?;
        let (number, tail) = rest.split_at(unit_at);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        let scale = TIMES
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(fail)?
            .1;
        if scale >= last {
            return Err(fail());
        }
        let part = scaled(number, scale).ok_or_else(fail)?;
        nanos = nanos.checked_add(part).ok_or_else(fail)?;
        last = scale;
        rest = next;
    }
    if last == u64::MAX {
        return Err(fail());
    }
    Ok(Duration::from_nanos(nanos))
}

/// CPUs, in thousandths: `2`, `0.5`, `500m`.
pub fn parse_millicpus(text: &str) -> Result<u64> {
    let units = [("m", 1), ("", 1000)];
    let hint = "write a number of CPUs such as 2 or 0.5, or thousandths such as 500m";
    one(text, &units)
        .filter(|n| *n > 0)
        .ok_or_else(|| refusal(text, "number of CPUs", hint))
}

fn refusal(text: &str, what: &str, hint: &str) -> Error {
    let shown: String = text.chars().take(40).collect();
    Error::invalid("", format!("{shown:?} is not a {what}")).hint(hint)
}

fn one(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = units.iter().find(|(name, _)| *name == unit)?.1;
    scaled(number, scale)
}

/// `number`, with at most three decimals, times `scale`; `None` where that isn't whole or is too
/// great.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 3 {
        return None;
    }
    let power = 10u128.pow(u32::try_from(decimals.len()).ok()?);
    let value = u128::from(whole.parse::<u64>().ok()?) * power + decimals.parse::<u128>().ok()?;
    let product = value.checked_mul(u128::from(scale))?;
    if product % power != 0 {
        return None;
    }
    u64::try_from(product / power).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64Mi", 64 << 20),
            ("1.5Gi", 3 << 29),
            ("1.5G", 1_500_000_000),
            ("2k", 2000),
            ("1KiB", 1024),
        ] {
            assert_eq!(parse_bytes(text).unwrap(), bytes, "{text}");
        }
        for bad in [
            "",
            "-1",
            "1.5",
            "Mi",
            "1 Mi",
            "1mi",
            "1e3",
            "20000000000000000000",
            "1.0001k",
            "16777216Ti",
            ".5k",
            "1.k",
        ] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_have_their_units() {
        for (text, millis) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("1.5s", 1500),
            ("0", 0),
            ("7d", 604_800_000),
        ] {
            assert_eq!(
                parse_duration(text).unwrap(),
                Duration::from_millis(millis),
                "{text}"
            );
        }
        for bad in [
            "",
            "10",
            "s",
            "1s1m",
            "1s1s",
            "-1s",
            "1 s",
            "99999999999d",
            "1x",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn cpus_are_thousandths() {
        assert_eq!(parse_millicpus("500m").unwrap(), 500);
        assert_eq!(parse_millicpus("0.5").unwrap(), 500);
        assert_eq!(parse_millicpus("2").unwrap(), 2000);
        assert!(parse_millicpus("0").is_err());
        assert!(parse_millicpus("2x").is_err());
    }

    proptest! {
        #[test]
        fn no_text_overflows(text in "[0-9.]{0,30}[A-Za-zµ]{0,3}") {
            let _ = parse_bytes(&text);
            let _ = parse_duration(&text);
            let _ = parse_millicpus(&text);
        }
    }
}
