// SPDX-License-Identifier: Apache-2.0
//! The network of a cell: what a client asks for, and what the cell has got. Pure; what an address
//! or a port of the node means to Linux is crate `net`'s.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cell::{CellSpec, Namespace};
use crate::error::{Error, Result, Within};
use crate::text::{check_count, weight};

/// The most ports of the node that one cell may have.
pub const MAX_PORTS: usize = 256;
/// The most name servers that resolvers read.
pub const MAX_DNS_SERVERS: usize = 8;
/// The most search domains, options, and names of other hosts.
pub const MAX_NAMES: usize = 64;
/// Ports below are the machine's own services: only administrators publish them.
pub const FIRST_FREE_PORT: u16 = 1024;

/// The network of a cell, as a client sent it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// `None`: that of a container is a bridge's where the node has one, any other cell has none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub mode: Option<Mode>,
    /// Ports of the node that lead to the cell, at most [`MAX_PORTS`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub ports: Vec<PublishedPort>,
    /// What a container's programs resolve names with. Empty: the node's.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub dns: Dns,
    /// More lines of a container's `/etc/hosts`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub hosts: Vec<HostAlias>,
}

/// Where a cell is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// To nothing: it has its loopback.
    None,
    /// To the node's network of cells.
    Bridge,
}

/// A protocol that has ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// RFC 9293.
    #[default]
    Tcp,
    /// RFC 768.
    Udp,
    /// RFC 9260.
    Sctp,
}

impl Protocol {
    /// `tcp`, `udp` or `sctp`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }
}

/// A port of the node that leads to one of the cell.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct PublishedPort {
    /// TCP where the client doesn't say.
    pub protocol: Protocol,
    /// The node's address that it is at. `None`: every one.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub address: Option<IpAddr>,
    /// The node's port, 1 to 65535.
    pub host_port: u16,
    /// The cell's port, 1 to 65535.
    pub port: u16,
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            None => {}
        }
        write!(
            f,
            "{}:{}/{}",
            self.host_port,
            self.port,
            self.protocol.as_str()
        )
    }
}

/// Ports of the node that are its own, as its configuration has them: `7443/tcp`,
/// `30000-32767/udp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// Of which protocol.
    pub protocol: Protocol,
    /// The first, 1 to 65535.
    pub first: u16,
    /// The last, not below the first.
    pub last: u16,
}

impl PortRange {
    /// Whether a port that is to be published is one of these.
    pub fn contains(&self, port: &PublishedPort) -> bool {
        self.protocol == port.protocol && (self.first..=self.last).contains(&port.host_port)
    }
}

impl FromStr for PortRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (numbers, protocol) = text.split_once('/')?;
            let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
            let protocol = all.into_iter().find(|it| it.as_str() == protocol)?;
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (1..=last).contains(&first).then_some(Self {
                protocol,
                first,
                last,
            })
        };
        read().ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let problem = format!("{shown:?} is no port such as 7443/tcp or 30000-32767/udp");
            Error::invalid("", problem)
        })
    }
}

/// How names are resolved; in the words of `resolv.conf(5)`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Dns {
    /// Name servers, at most [`MAX_DNS_SERVERS`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub servers: Vec<IpAddr>,
    /// Search domains.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub searches: Vec<String>,
    /// Options such as `ndots:2`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub options: Vec<String>,
}

/// An address with its names, a line of `/etc/hosts`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostAlias {
    /// The address.
    pub address: IpAddr,
    /// Its names.
    pub names: Vec<String>,
}

/// What a cell has got: its interfaces, and the node's ports that lead to it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Attached {
    /// In the order in which they were made.
    pub interfaces: Vec<Interface>,
    /// Of the node.
    pub ports: Vec<PublishedPort>,
}

/// One interface of a cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Its name in the cell.
    pub name: String,
    /// IPv6 first.
    pub addresses: Vec<IpAddr>,
    /// Where the cell's routes lead.
    pub gateways: Vec<IpAddr>,
    /// Its hardware address, as it is written.
    pub mac: String,
}

impl Attached {
    /// The addresses of all interfaces, in their order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let all = self.interfaces.iter();
        all.flat_map(|interface| interface.addresses.iter().copied())
    }
}

impl CellSpec {
    /// Where it asks to be attached: by its mode, or by ports. `None`: it doesn't say, or has no
    /// network of its own.
    pub fn asked_network(&self) -> Option<Mode> {
        let network = self.network.as_ref();
        let network = network.filter(|_| !self.shares(Namespace::Net))?;
        let ports = !network.ports.is_empty();
        network.mode.or(ports.then_some(Mode::Bridge))
    }

    /// Where it is to be attached, on a node with or without a network of cells. Nowhere where it
    /// has no network of its own. `around`: what the innermost of the cells around it asks for that
    /// asks for something; what asks for nothing has no more than that.
    pub fn network_mode(&self, node_has_one: bool, around: Option<Mode>) -> Mode {
        match self.asked_network() {
            _ if self.shares(Namespace::Net) => Mode::None,
            Some(mode) => mode,
            None if around == Some(Mode::None) => Mode::None,
            None if node_has_one && self.container.is_some() => Mode::Bridge,
            None => Mode::None,
        }
    }
}

impl Network {
    pub(crate) fn check(&self) -> Result<()> {
        check_count("ports", self.ports.len(), MAX_PORTS)?;
        check_count("dns.servers", self.dns.servers.len(), MAX_DNS_SERVERS)?;
        check_count("dns.searches", self.dns.searches.len(), MAX_NAMES)?;
        check_count("dns.options", self.dns.options.len(), MAX_NAMES)?;
        check_count("hosts", self.hosts.len(), MAX_NAMES)?;
        if self.mode == Some(Mode::None) && !self.ports.is_empty() {
            let problem = "need a network; the mode is NONE";
            return Err(Error::invalid("ports", problem));
        }
        for (i, port) in self.ports.iter().enumerate() {
            if port.host_port == 0 || port.port == 0 {
                let problem = "needs a port of the node and one of the cell, 1 to 65535";
                return Err(Error::invalid(format!("ports[{i}]"), problem));
            }
        }
        let words = [
            ("dns.searches", &self.dns.searches),
            ("dns.options", &self.dns.options),
        ];
        for (field, words) in words {
            for (i, word) in words.iter().enumerate() {
                check_word(&format!("{field}[{i}]"), word)?;
            }
        }
        for (i, host) in self.hosts.iter().enumerate() {
            let at = format!("hosts[{i}]");
            check_count("names", host.names.len(), MAX_NAMES).within(&at)?;
            for (n, name) in host.names.iter().enumerate() {
                check_word(&format!("names[{n}]"), name).within(&at)?;
            }
        }
        Ok(())
    }

    /// What it takes in the record, in bytes.
    pub(crate) fn weight(&self) -> usize {
        let words = self.dns.searches.iter().chain(&self.dns.options);
        let hosts = self.hosts.iter().flat_map(|host| &host.names);
        let texts: usize = words.chain(hosts).map(|word| weight(word) + 4).sum();
        texts + (self.ports.len() + self.dns.servers.len() + self.hosts.len()) * 120
    }
}

/// A word of a file of lines and words: visible ASCII, so that none becomes a line of its own.
fn check_word(field: &str, word: &str) -> Result<()> {
    if (1..=255).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return Ok(());
    }
    let problem = "must be 1 to 255 visible characters without spaces and #";
    Err(Error::invalid(field, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: fn(&mut Network)) -> String {
        let mut network = Network::default();
        change(&mut network);
        let error = network.check().unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_name_can_t_add_a_line() {
        let alias = |name: &str| HostAlias {
            address: IpAddr::from([10, 0, 0, 1]),
            names: vec![name.to_owned()],
        };
        let mut network = Network::default();
        network.hosts.push(alias("db.internal"));
        network.check().unwrap();
        for name in ["a b", "a\n127.0.0.1", "", "#"] {
            network.hosts = vec![alias(name)];
            network.check().unwrap_err();
        }
        refused(|it| it.dns.searches.push("a\nnameserver 192.0.2.1".into()));
    }

    #[test]
    fn a_range_of_ports_is_of_one_protocol_and_has_its_ends() {
        let range: PortRange = "2000-2002/udp".parse().unwrap();
        let port = |protocol, host_port| PublishedPort {
            protocol,
            address: None,
            host_port,
            port: 1,
        };
        for (number, within) in [(1999, false), (2000, true), (2002, true), (2003, false)] {
            assert_eq!(range.contains(&port(Protocol::Udp, number)), within);
        }
        assert!(!range.contains(&port(Protocol::Tcp, 2000)));
        let one: PortRange = "7443/tcp".parse().unwrap();
        assert_eq!((one.first, one.last), (7443, 7443));
        for wrong in ["7443", "0/tcp", "3-2/tcp", "1-70000/tcp", "1-2/TCP", "/tcp"] {
            assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_asks_for_nothing_has_no_more_than_the_cell_around() {
        let spec = |container: bool, mode| {
            let container = container.then(crate::container::Container::default);
            let network = Some(Network {
                mode,
                ..Network::default()
            });
            let draft = crate::cell::Draft {
                container,
                network,
                ..crate::cell::Draft::default()
            };
            CellSpec::try_from(draft).unwrap()
        };
        let asks = spec(true, Some(Mode::Bridge));
        let silent = spec(true, None);
        for (around, mode) in [
            (None, Mode::Bridge),
            (Some(Mode::Bridge), Mode::Bridge),
            (Some(Mode::None), Mode::None),
        ] {
            assert_eq!(silent.network_mode(true, around), mode);
            assert_eq!(asks.network_mode(true, around), Mode::Bridge);
            assert_eq!(silent.network_mode(false, around), Mode::None);
            assert_eq!(spec(false, None).network_mode(true, around), Mode::None);
        }
    }

    #[test]
    fn a_port_needs_a_network_and_two_numbers() {
        let port = PublishedPort {
            protocol: Protocol::Tcp,
            address: None,
            host_port: 8080,
            port: 80,
        };
        let mut network = Network {
            ports: vec![port.clone()],
            ..Network::default()
        };
        network.check().unwrap();
        assert_eq!(port.to_string(), "8080:80/tcp");
        network.mode = Some(Mode::None);
        network.check().unwrap_err();
        network.mode = Some(Mode::Bridge);
        if let Some(first) = network.ports.first_mut() {
            first.host_port = 0;
        }
        network.check().unwrap_err();
    }
}
