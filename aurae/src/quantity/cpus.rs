// SPDX-License-Identifier: Apache-2.0
//! CPU time: `0.5`, `2`, `500m` (thousandths, as in Kubernetes), `50%` (as systemd's CPUQuota).

use super::Limit;

const EXPECTED: &str = "write CPUs as 0.5, 500m or 50%, or max";
/// More than any machine has.
const MOST: f64 = 65_536.0;

/// Parses CPUs into thousandths of a CPU.
pub(crate) fn parse_cpus(text: &str) -> Result<Limit, String> {
    if matches!(text, "max" | "unlimited" | "infinity") {
        return Ok(Limit(None));
    }
    let (number, per_cpu) = match text.strip_suffix('m') {
        Some(number) => (number, 1.0),
        None => match text.strip_suffix('%') {
            Some(number) => (number, 10.0),
            None => (text, 1000.0),
        },
    };
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = number.parse::<f64>().ok().filter(|_| plain);
    match value.map(|value| value * per_cpu) {
        Some(milli) if (1.0..=MOST * 1000.0).contains(&milli) => {
            // In range and positive, so that the cast is exact up to rounding.
            Ok(Limit(Some(milli.round() as u64)))
        }
        Some(_) => Err(format!("{EXPECTED}; at least 1m")),
        None => Err(EXPECTED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_as_docker_kubernetes_and_systemd_write_them() {
        for (text, milli) in [
            ("0.5", 500),
            ("2", 2000),
            ("500m", 500),
            ("50%", 500),
            ("1.25", 1250),
        ] {
            assert_eq!(parse_cpus(text), Ok(Limit(Some(milli))), "{text}");
        }
        assert_eq!(parse_cpus("max"), Ok(Limit(None)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", "m", "-1", "1e3", "inf", "NaN", "0", "0.0001", "99999999", "1.2.3",
        ] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }
}
