// SPDX-License-Identifier: Apache-2.0
//! Single values: booleans, numbers, sizes, shares, permissions, resource limits.

use model::signal::Signal;

use super::{Bounds, Limit};
use crate::finding::shown;
use crate::time::Span;

/// A boolean (systemd.syntax(7)): `yes`, `no` and their other forms, in either case.
///
/// # Errors
/// It is none of them.
pub fn boolean(text: &str) -> Result<bool, String> {
    let is = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is(&["1", "yes", "y", "true", "t", "on"]) {
        return Ok(true);
    }
    if is(&["0", "no", "n", "false", "f", "off"]) {
        return Ok(false);
    }
    Err(format!(
        "{} is no boolean: write `yes` or `no`",
        shown(text)
    ))
}

/// A whole number of this range: decimal, or with `0x`, `0o`, `0b`; `0` before digits is octal.
///
/// # Errors
/// It is no number, or out of range.
pub fn number(text: &str, least: i64, most: i64) -> Result<i64, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (digits.get(2..).unwrap_or(""), 16),
        [b'0', b'b', ..] => (digits.get(2..).unwrap_or(""), 2),
        [b'0', b'o', ..] => (digits.get(2..).unwrap_or(""), 8),
        [b'0', _, ..] => (digits, 8),
        _ => (digits, 10),
    };
    let plain = digits.chars().all(|c| c.is_digit(radix));
    let value = plain
        .then(|| i64::from_str_radix(digits, radix).ok())
        .flatten();
    let value = value.map(|it| if negative { -it } else { it });
    match value {
        Some(value) if (least..=most).contains(&value) => Ok(value),
        _ if most == i64::MAX => Err(format!("{} is no number from {least} on", shown(text))),
        _ => Err(format!(
            "{} is no number from {least} to {most}",
            shown(text)
        )),
    }
}

/// Permissions in octal digits, up to 7777.
///
/// # Errors
/// It is no such number.
pub fn mode(text: &str) -> Result<u32, String> {
    let octal = !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
    let value = octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    value.filter(|it| *it <= 0o7777).ok_or_else(|| {
        format!(
            "{} is no mode: write octal digits, as in `0755`",
            shown(text)
        )
    })
}

/// Largest first, as parts of one size must be.
const SIZES: [(&str, u32); 8] = [
    ("E", 6),
    ("P", 5),
    ("T", 4),
    ("G", 3),
    ("M", 2),
    ("K", 1),
    ("B", 0),
    ("", 0),
];

/// Bytes: `64M`, `1.5G`, `1G 512M`. `base` is 1024, or 1000 for rates.
///
/// # Errors
/// It is no size, or beyond 64 bits.
pub fn size(text: &str, base: u64) -> Result<u64, String> {
    let wrong = || format!("{} is no size: write it as in `64M` or `1.5G`", shown(text));
    let mut rest = text.trim();
    let mut total = 0_u64;
    let mut first = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (digits, after) = rest.split_at_checked(end).ok_or_else(wrong)?;
        let after = after.trim_start();
        let units = SIZES.iter().enumerate().skip(first);
        let (rank, (name, power)) = units
            .into_iter()
            .find(|(_, (name, _))| after.starts_with(name))
            .ok_or_else(wrong)?;
        let unit = base.checked_pow(*power).ok_or_else(wrong)?;
        total = scaled(digits, unit)
            .and_then(|it| total.checked_add(it))
            .ok_or_else(wrong)?;
        rest = after.get(name.len()..).unwrap_or("").trim_start();
        if rest.starts_with(|c: char| !c.is_ascii_digit()) {
            return Err(wrong());
        }
        first = rank + 1;
    }
    Ok(total)
}

fn scaled(digits: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut total = u128::from(whole) * u128::from(unit);
    if digits.contains('.') {
        let places = u32::try_from(fraction.len())
            .ok()
            .filter(|it| (1..=18).contains(it))?;
        let part: u64 = fraction.parse().ok()?;
        total += u128::from(part) * u128::from(unit) / 10_u128.pow(places);
    }
    u64::try_from(total).ok()
}

/// A share with `%`, `‰` or `‱`, in hundredths of a percent.
///
/// # Errors
/// It is no share, or finer than can be counted.
pub fn share(text: &str) -> Result<u64, String> {
    let wrong = || format!("{} is no share: write it as in `20%`", shown(text));
    let (digits, scale, places) = if let Some(it) = text.strip_suffix('%') {
        (it, 100, 2)
    } else if let Some(it) = text.strip_suffix('‰') {
        (it, 10, 1)
    } else {
        (text.strip_suffix('‱').ok_or_else(wrong)?, 1, 0)
    };
    let fraction = digits
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len());
    if fraction > places {
        return Err(wrong());
    }
    scaled(digits, scale).ok_or_else(wrong)
}

/// A bound of memory or tasks: `infinity`, a share, or a size or count.
///
/// # Errors
/// It is none of these; a share above 100 %.
pub fn limit(text: &str, bytes: bool) -> Result<Limit, String> {
    if text == "infinity" {
        return Ok(Limit::Infinity);
    }
    if text.ends_with(['%', '‰', '‱']) {
        let share = share(text)?;
        let share = u32::try_from(share).ok().filter(|it| *it <= 10_000);
        return share
            .map(Limit::Share)
            .ok_or_else(|| format!("{} is more than 100%", shown(text)));
    }
    let value = if bytes {
        size(text, 1024)?
    } else {
        positive(text)?
    };
    Ok(Limit::Of(value))
}

fn positive(text: &str) -> Result<u64, String> {
    let value = number(text, 1, i64::MAX)?;
    Ok(value.unsigned_abs())
}

/// What the number of a resource limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// A plain number of things.
    Plain,
    /// Bytes, with K, M, G.
    Bytes,
    /// Time, kept in seconds.
    Seconds,
    /// Time, kept in microseconds.
    Micros,
    /// A nice level: `+5`, `-5`, or the kernel's number, 20 less the level.
    Nice,
}

/// `SOFT:HARD` or one for both; `infinity` is none.
///
/// # Errors
/// One of them is wrong, or the soft one is above the hard one.
pub fn bounds(text: &str, counts: Counts) -> Result<Bounds, String> {
    let (soft, hard) = text.split_once(':').unwrap_or((text, text));
    let soft = bound(soft.trim(), counts)?;
    let hard = bound(hard.trim(), counts)?;
    if soft.unwrap_or(u64::MAX) > hard.unwrap_or(u64::MAX) {
        return Err(format!(
            "{} has a soft limit above the hard one",
            shown(text)
        ));
    }
    Ok(Bounds { soft, hard })
}

fn bound(text: &str, counts: Counts) -> Result<Option<u64>, String> {
    if text == "infinity" {
        return Ok(None);
    }
    Ok(Some(match counts {
        Counts::Plain => number(text, 0, i64::MAX)?.unsigned_abs(),
        Counts::Bytes => size(text, 1024)?,
        Counts::Seconds => match Span::parse_with(text, 1_000_000)?.micros() {
            Some(micros) => micros.div_ceil(1_000_000),
            None => return Ok(None),
        },
        Counts::Micros => match Span::parse_with(text, 1)?.micros() {
            Some(micros) => micros,
            None => return Ok(None),
        },
        Counts::Nice if text.starts_with(['+', '-']) => {
            (20 - number(text, -20, 19)?).unsigned_abs()
        }
        Counts::Nice => number(text, 0, 40)?.unsigned_abs(),
    }))
}

/// A signal by its name (`SIGTERM`, `TERM`, `RTMIN+3`) or number. Names are in capitals.
///
/// # Errors
/// There is no such signal.
pub fn signal(text: &str) -> Result<Signal, String> {
    let known = (!text.contains(|c: char| c.is_ascii_lowercase())).then(|| text.parse().ok());
    known.flatten().ok_or_else(|| {
        format!(
            "{} is no signal: write a name such as `SIGTERM`, or a number",
            shown(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_those_of_the_manual() {
        // systemd.syntax(7): "1, yes, true and on are equivalent", and their opposites.
        for yes in ["1", "yes", "true", "on", "YES", "y", "t"] {
            assert_eq!(boolean(yes), Ok(true));
        }
        for no in ["0", "no", "false", "off", "Off", "n", "f"] {
            assert_eq!(boolean(no), Ok(false));
        }
        assert!(boolean("maybe").is_err() && boolean("").is_err());
    }

    #[test]
    fn sizes_and_shares() {
        for (text, bytes) in [
            ("64M", 64 << 20),
            ("1.5G", 3 << 29),
            ("1G 512M", (1 << 30) + (512 << 20)),
            ("16E", 0),
            ("0", 0),
            ("5 K", 5 << 10),
            ("7B", 7),
        ] {
            assert_eq!(size(text, 1024).unwrap_or(0), bytes, "{text}");
        }
        for bad in ["", "M", "-1", "1K 1M", "64X", "1.", "1 2 3 4"] {
            assert!(size(bad, 1024).is_err(), "{bad}");
        }
        assert_eq!(size("1K", 1000), Ok(1000));
        assert_eq!(
            (share("20%"), share("12.5%"), share("1‰")),
            (Ok(2000), Ok(1250), Ok(10))
        );
        assert!(share("20").is_err() && share("1.234%").is_err());
        assert_eq!(limit("50%", true), Ok(Limit::Share(5000)));
        assert!(limit("101%", true).is_err() && limit("0", false).is_err());
        assert_eq!(limit("infinity", true), Ok(Limit::Infinity));
    }

    #[test]
    fn resource_limits_are_one_number_or_two() {
        // systemd.exec(5), LimitCPU= and so on.
        let of = |soft, hard| Ok(Bounds { soft, hard });
        assert_eq!(
            bounds("1024:4096", Counts::Plain),
            of(Some(1024), Some(4096))
        );
        assert_eq!(bounds("infinity", Counts::Plain), of(None, None));
        assert_eq!(bounds("1K:infinity", Counts::Bytes), of(Some(1024), None));
        assert_eq!(bounds("1min", Counts::Seconds), of(Some(60), Some(60)));
        assert_eq!(
            bounds("10ms", Counts::Micros),
            of(Some(10_000), Some(10_000))
        );
        assert_eq!(bounds("-5", Counts::Nice), of(Some(25), Some(25)));
        assert_eq!(bounds("30", Counts::Nice), of(Some(30), Some(30)));
        assert!(bounds("2:1", Counts::Plain).is_err());
    }

    #[test]
    fn numbers_modes_and_signals() {
        assert_eq!(number("0x10", 0, 100), Ok(16));
        assert_eq!(number("-5", -20, 19), Ok(-5));
        assert!(number("20", -20, 19).is_err() && number("--5", -20, 19).is_err());
        assert_eq!((mode("0755"), mode("1777")), (Ok(0o755), Ok(0o1777)));
        assert!(mode("8").is_err() && mode("10000").is_err() && mode("").is_err());
        assert_eq!(signal("SIGTERM").unwrap().number(), 15);
        assert_eq!(signal("RTMIN+3").unwrap().number(), 37);
        assert!(signal("sigterm").is_err());
    }
}
