// SPDX-License-Identifier: Apache-2.0
//! What is asked for a cell's interface, and what it got: plain data, which the runtime keeps in
//! the cell's record. No kernel here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use model::name::{Tenant, Uid};
use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::{Error, Result};

/// A protocol that has ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
    /// RFC 9260.
    Sctp,
}

impl Protocol {
    /// Its number (IANA).
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }

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
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct HostPort {
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// The node's address it is at; none: every one, in both families. `0.0.0.0` and `::` are every
    /// one of their family. `::1` is at no time one of them: the kernel can't lead it to a link.
    pub address: Option<IpAddr>,
    /// The node's port, 1 to 65535.
    pub host_port: u16,
    /// The cell's port, 1 to 65535.
    pub port: u16,
    /// Whether what the node's own programs send to a loopback address of the node may be led to
    /// the cell: that of `address`, 127.0.0.1 where that is every one. Programs trust who answers
    /// there.
    #[serde(default)]
    pub on_loopback: bool,
}

impl HostPort {
    /// The loopback address of the node that it is at beside the others.
    pub(crate) fn loopback(&self) -> Option<Ipv4Addr> {
        let every = match self.address {
            None => true,
            Some(address) => address == IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        (every && self.on_loopback).then_some(Ipv4Addr::LOCALHOST)
    }

    /// Whether a connection could be meant for both.
    pub(crate) fn overlaps(&self, other: &HostPort) -> bool {
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

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            None => {}
        }
        write!(f, "{}/{}", self.host_port, self.protocol.as_str())
    }
}

/// The address of a network card.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The one of the cell with this number: locally administered, unicast.
    pub(crate) fn of(number: u32) -> Mac {
        let [a, b, c, d] = number.to_be_bytes();
        Mac([0x02, 0x61, a, b, c, d])
    }

    /// The link-local address that follows from it (RFC 4291, appendix A).
    pub fn link_local(self) -> Ipv6Addr {
        let Mac([a, b, c, d, e, f]) = self;
        let octets = [
            0xfe,
            0x80,
            0,
            0,
            0,
            0,
            0,
            0,
            a ^ 2,
            b,
            c,
            0xff,
            0xfe,
            d,
            e,
            f,
        ];
        Ipv6Addr::from(octets)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mac([a, b, c, d, e, g]) = self;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({self})")
    }
}

/// What is asked for one interface of a cell.
#[derive(Debug)]
pub struct Attach {
    /// The cell.
    pub uid: Uid,
    /// Whose cell it is: cells of one tenant reach each other.
    pub tenant: Tenant,
    /// The cell's network namespace.
    pub netns: OwnedFd,
    /// The interface's name in the cell, 1 to 15 bytes; `eth0` by custom.
    pub name: String,
    /// Whether the cell's default routes lead here: true for one interface of a cell. By the others
    /// leaves what bears their addresses, answers above all.
    pub default_route: bool,
    /// Ports of the node that lead to this interface.
    pub host_ports: Vec<HostPort>,
    /// Wanted addresses; with several of one number. Empty: any.
    pub addresses: Vec<IpAddr>,
}

/// How many ports of the node one interface may have.
pub const MAX_HOST_PORTS: usize = 256;

impl Attach {
    /// Checks what doesn't depend on the node.
    pub(crate) fn check(&self) -> Result<()> {
        let plain = |b: u8| b.is_ascii_graphic() && !b"/:%".contains(&b);
        let name = &self.name;
        let reserved = ["lo", ".", "..", "all", "default"].contains(&name.as_str());
        if !(1..=15).contains(&name.len()) || !name.bytes().all(plain) || reserved {
            return fail(
                "name",
                "1 to 15 visible characters without / : %, and not lo",
            );
        }
        if self.host_ports.len() > MAX_HOST_PORTS {
            return fail("host_ports", "at most 256");
        }
        let zero = |port: &HostPort| port.host_port == 0 || port.port == 0;
        // The kernel takes no answer to `::1` from a link (and has no `route_localnet` for IPv6).
        let loopback = |port: &HostPort| port.address == Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
        if self.host_ports.iter().any(loopback) {
            return fail(
                "host_ports",
                "a port of ::1 leads to no cell; take 127.0.0.1",
            );
        }
        let unasked = |port: &HostPort| {
            !port.on_loopback && port.address.is_some_and(|address| address.is_loopback())
        };
        if self.host_ports.iter().any(unasked) {
            return fail(
                "host_ports",
                "a port of a loopback address that is not to be led from there leads nowhere",
            );
        }
        if self.host_ports.iter().any(zero) {
            return fail("host_ports", "a port is 1 to 65535");
        }
        let (mut rest, mut twice) = (self.host_ports.as_slice(), false);
        while let [first, behind @ ..] = rest {
            twice |= behind.iter().any(|other| first.overlaps(other));
            rest = behind;
        }
        if twice {
            return fail("host_ports", "a port of the node leads to one port alone");
        }
        Ok(())
    }
}

fn fail(field: &'static str, reason: &str) -> Result<()> {
    Err(Error::Request {
        field,
        reason: reason.to_owned(),
    })
}

/// One interface of a cell as it is: what the runtime keeps in the cell's record, and hands back at
/// the daemon's next start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attached {
    /// The cell's tenant.
    pub tenant: Tenant,
    /// The interface's name in the cell.
    pub name: String,
    /// Its number out of the node's range.
    pub number: u32,
    /// Its addresses, IPv6 first. The whole range is reached by the gateways.
    pub addresses: Vec<IpAddr>,
    /// Where its routes lead.
    pub gateways: Vec<IpAddr>,
    /// Whether the cell's default routes lead here.
    pub default_route: bool,
    /// Its hardware address.
    pub mac: Mac,
    /// The node's end.
    pub veth: String,
    /// Bytes of a packet.
    pub mtu: u32,
    /// Ports of the node that lead here.
    pub host_ports: Vec<HostPort>,
    /// Whether its addresses were asked for. False in the records of earlier daemons.
    #[serde(default)]
    pub asked: bool,
}

impl Attached {
    /// What number `number` means for a request.
    pub(crate) fn of(attach: &Attach, number: u32, settings: &Settings, mtu: u32) -> Self {
        Self {
            tenant: attach.tenant.clone(),
            name: attach.name.clone(),
            number,
            addresses: settings.addresses(number),
            gateways: settings.gateways(),
            default_route: attach.default_route,
            mac: Mac::of(number),
            veth: settings.veth(number),
            mtu,
            host_ports: attach.host_ports.clone(),
            asked: !attach.addresses.is_empty(),
        }
    }
}

/// What a link says of itself: whose it is. It is what adoption believes.
pub(crate) fn alias(uid: Uid, name: &str) -> String {
    format!("aurae {uid} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(address: Option<&str>, host_port: u16, protocol: Protocol) -> HostPort {
        HostPort {
            protocol,
            address: address.map(|text| text.parse().unwrap()),
            host_port,
            port: 80,
            on_loopback: false,
        }
    }

    #[test]
    fn ports_overlap_where_one_connection_could_be_both_s() {
        let tcp = |address, number| port(address, number, Protocol::Tcp);
        assert!(tcp(None, 80).overlaps(&tcp(Some("10.0.0.1"), 80)));
        assert!(tcp(Some("0.0.0.0"), 80).overlaps(&tcp(Some("10.0.0.1"), 80)));
        assert!(!tcp(Some("0.0.0.0"), 80).overlaps(&tcp(Some("fd00::1"), 80)));
        assert!(!tcp(Some("10.0.0.2"), 80).overlaps(&tcp(Some("10.0.0.1"), 80)));
        assert!(!tcp(None, 80).overlaps(&tcp(None, 81)));
        assert!(!tcp(None, 80).overlaps(&port(None, 80, Protocol::Udp)));
    }

    #[test]
    fn link_local_addresses_are_those_of_eui64() {
        let mac = Mac([0x02, 0x61, 0, 0, 1, 2]);
        assert_eq!(mac.link_local().to_string(), "fe80::61:ff:fe00:102");
        assert_eq!(mac.to_string(), "02:61:00:00:01:02");
    }
}
