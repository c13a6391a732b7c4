// SPDX-License-Identifier: Apache-2.0
//! Kubernetes' quantities: `500m`, `64Mi`, `1G`, `1e3`, `1.5`. Exact, in thousandths.

/// A quantity in thousandths, rounded up.
pub(super) fn thousandths(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.contains('.') || part.len() > 18 {
        return None;
    }
    let digits: u128 = format!("{whole}{part}").parse().ok()?;
    let below = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let (times, divided) = factor(suffix)?;
    let exact = digits.checked_mul(times)?.checked_mul(1000)?;
    let thousandths = exact.div_ceil(below.checked_mul(divided)?);
    u64::try_from(thousandths).ok()
}

/// A whole number, rounded up.
pub(super) fn whole(text: &str) -> Option<u64> {
    thousandths(text).map(|thousandths| thousandths.div_ceil(1000))
}

/// What a suffix multiplies with, and divides by.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    let power = |base: u128, n: u32| Some((base.pow(n), 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "k" => power(1000, 1),
        "M" => power(1000, 2),
        "G" => power(1000, 3),
        "T" => power(1000, 4),
        "P" => power(1000, 5),
        "Ki" => power(1024, 1),
        "Mi" => power(1024, 2),
        "Gi" => power(1024, 3),
        "Ti" => power(1024, 4),
        "Pi" => power(1024, 5),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            let n: u32 = digits.strip_prefix('+').unwrap_or(digits).parse().ok()?;
            Some((10_u128.checked_pow(n.min(18))?, 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_kubernetes_own() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("500m", Some(500)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("1e3", Some(1_000_000)),
            ("1u", Some(1)),
            ("2Ki", Some(2_048_000)),
            ("1M", Some(1_000_000_000)),
            ("", None),
            (".", None),
            ("1.2.3", None),
            ("1Q", None),
            ("-1", None),
            ("99999999999999999999P", None),
        ] {
            assert_eq!(thousandths(text), expected, "{text}");
        }
        assert_eq!(whole("1.5"), Some(2));
        assert_eq!(whole("64Mi"), Some(64 << 20));
    }
}
