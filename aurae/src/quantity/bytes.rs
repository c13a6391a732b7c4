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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_max() {
        assert_eq!(parse_limit("max"), Ok(Limit(None)));
        assert_eq!(parse_limit("1k"), Ok(Limit(Some(1024))));
        assert!(parse_limit("much").is_err());
    }
}
