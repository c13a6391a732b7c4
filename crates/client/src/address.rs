// SPDX-License-Identifier: Apache-2.0
//! Where a node listens: `unix:///PATH` or `https://HOST:PORT`. A bare absolute path and gRPC's own
//! `unix:/PATH` are understood, too.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A TCP port. `host` is a name or an IP address (IPv6 without brackets).
    Tcp {
        /// Name or IP address.
        host: String,
        /// The port's number, 1 to 65535.
        port: u16,
    },
}

impl Address {
    /// Whether a text is meant as an address, right or wrong, rather than as a context's name.
    pub fn is_meant_by(text: &str) -> bool {
        text.contains("://") || text.starts_with("unix:") || text.starts_with('/')
    }

    /// Whether a node there sees the same file system as we do.
    pub fn is_of_this_machine(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not an address: {problem}")]
pub struct InvalidAddress {
    given: String,
    problem: &'static str,
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let fail = |problem| InvalidAddress {
            given: text.chars().take(200).collect(),
            problem,
        };
        let path = text
            .strip_prefix("unix://")
            .or_else(|| text.strip_prefix("unix:"))
            .or_else(|| text.starts_with('/').then_some(text));
        if let Some(path) = path {
            if !path.starts_with('/') {
                return Err(fail("write unix:///PATH with an absolute path"));
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let rest = text
            .strip_prefix("https://")
            .ok_or_else(|| fail("write unix:///PATH or https://HOST:PORT"))?;
        let (host, port) = rest
            .trim_end_matches('/')
            .rsplit_once(':')
            .ok_or_else(|| fail("the port is missing, as in https://HOST:PORT"))?;
        let port = port
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| fail("the port is a number from 1 to 65535"))?;
        let host = unbracket(host).ok_or_else(|| fail("write an IPv6 address in brackets"))?;
        if host.is_empty() || host.contains(['/', '@', '?', '#']) {
            return Err(fail("the host is a name or an IP address"));
        }
        Ok(Self::Tcp {
            host: host.to_owned(),
            port,
        })
    }
}

/// `[::1]` gives `::1`; a bare name or IPv4 address stays; anything half-bracketed is `None`.
fn unbracket(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']'),
        None if host.contains([':', ']']) => None,
        None => Some(host),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "https://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "https://{host}:{port}"),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = InvalidAddress;

    fn try_from(text: String) -> Result<Self, InvalidAddress> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_being_printed() {
        for text in [
            "unix:///run/aurae/aurae.sock",
            "https://node.example:9401",
            "https://[2001:db8::1]:9401",
            "https://192.0.2.1:1",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_socket_may_be_written_as_a_path() {
        for text in ["/run/aurae.sock", "unix:/run/aurae.sock"] {
            assert!(Address::is_meant_by(text));
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), "unix:///run/aurae.sock");
        }
        assert!(!Address::is_meant_by("home"));
    }

    #[test]
    fn a_wrong_address_says_what_to_write() {
        let problem = |text: &str| text.parse::<Address>().unwrap_err().to_string();
        assert!(problem("unix://relative/path").contains("absolute"));
        assert!(problem("http://node:1").contains("https://HOST:PORT"));
        assert!(problem("https://node").contains("port is missing"));
        assert!(problem("https://node:0").contains("1 to 65535"));
        assert!(problem("https://2001:db8::1:443").contains("brackets"));
        assert!(problem("https://[::1:443").contains("brackets"));
        assert!(problem("https://:443").contains("name or an IP"));
    }
}
