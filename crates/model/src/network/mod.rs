// SPDX-License-Identifier: Apache-2.0
//! The network of a cell: what a client asks for, and what the cell has got. Pure; what an address
//! or a port of the node means to Linux is crate `net`'s.

mod check;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cell::{CellSpec, Namespace};
use crate::error::{Error, Result};

/// The most ports of the node that one cell may have.
pub const MAX_PORTS: usize = 256;
/// The most name servers that resolvers read.
pub const MAX_DNS_SERVERS: usize = 8;
/// The most search domains, options, and names of other hosts.
pub const MAX_NAMES: usize = 64;
/// The most networks of CNI that one cell is attached to.
pub const MAX_CNI: usize = 8;
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
    /// Wanted addresses of the bridge, at most one of each family. Empty: free ones.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub addresses: Vec<IpAddr>,
    /// The names of its addresses are `HOSTNAME.DOMAIN`, too. Empty: the host name alone.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub domain: String,
    /// Networks of CNI, each an interface, at most [`MAX_CNI`].
    #[serde(skip_serializing_if = "crate::is_default")]
    pub cni: Vec<CniNetwork>,
}

/// Where a cell is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// To nothing: it has its loopback.
    None,
    /// To the node's network of cells.
    Bridge,
    /// To networks of CNI alone.
    Cni,
}

/// A network of CNI that a cell is attached to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CniNetwork {
    /// As in the file of its configuration.
    pub name: String,
    /// The interface in the cell. Empty: by its place.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub interface: String,
}

/// The interface that a cell's routes lead to, by custom.
pub const FIRST_INTERFACE: &str = "eth0";

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

impl PublishedPort {
    /// Whether a connection to the node could be meant for both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let same = self.protocol == other.protocol && self.host_port == other.host_port;
        same && match (self.address, other.address) {
            (Some(a), Some(b)) if a.is_ipv4() == b.is_ipv4() => {
                a == b || a.is_unspecified() || b.is_unspecified()
            }
            (Some(_), Some(_)) => false,
            _ => true,
        }
    }
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
    /// They come behind the node's, and don't replace them.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub add: bool,
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
    /// The network of CNI that it is of. Empty: the bridge.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cni: String,
}

impl Attached {
    /// The addresses of all interfaces, in their order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let all = self.interfaces.iter();
        all.flat_map(|interface| interface.addresses.iter().copied())
    }

    /// What it is attached to first of all.
    pub fn mode(&self) -> Mode {
        match self.interfaces.first() {
            Some(first) if !first.cni.is_empty() => Mode::Cni,
            _ => Mode::Bridge,
        }
    }
}

impl CellSpec {
    /// Where it asks to be attached: by its mode, or by what needs a network (the bridge stands for
    /// the node's default then). `None`: it doesn't say, or has no network of its own.
    pub fn asked_network(&self) -> Option<Mode> {
        let network = self.network.as_ref();
        let network = network.filter(|_| !self.shares(Namespace::Net))?;
        network.mode.or(network.needs_one().then_some(Mode::Bridge))
    }

    /// Whether it is to be attached, on a node with or without a network of cells: never where it
    /// has no network of its own. `around`: what the innermost of the cells around it asks for that
    /// asks for something; what asks for nothing has no more than that. `by_default`: a pod's cell,
    /// as a container's, is attached where it doesn't say.
    pub fn is_attached(&self, node_has_one: bool, around: Option<Mode>, by_default: bool) -> bool {
        match self.asked_network() {
            _ if self.shares(Namespace::Net) => false,
            Some(mode) => mode != Mode::None,
            None if around == Some(Mode::None) => false,
            None => node_has_one && (by_default || self.container.is_some()),
        }
    }
}

impl Network {
    /// Whether it asks for something that only an attached cell can have.
    fn needs_one(&self) -> bool {
        !(self.ports.is_empty() && self.addresses.is_empty() && self.cni.is_empty())
    }

    /// Whether it says where to be attached, or asks for what needs that.
    pub(crate) fn attaches(&self) -> bool {
        self.mode.is_some() || self.needs_one()
    }

    /// Its networks of CNI with the names of their interfaces. `first`: the first one is the cell's
    /// first interface.
    pub fn cni_interfaces(&self, first: bool) -> Vec<CniNetwork> {
        let of_place = |place: usize| match (first, place) {
            (true, 0) => FIRST_INTERFACE.to_owned(),
            (true, _) => format!("net{place}"),
            (false, _) => format!("net{}", place + 1),
        };
        let each = self.cni.iter().enumerate();
        each.map(|(place, it)| CniNetwork {
            name: it.name.clone(),
            interface: match it.interface.as_str() {
                "" => of_place(place),
                own => own.to_owned(),
            },
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
