// SPDX-License-Identifier: Apache-2.0
//! What the node's network of cells is to be, checked, and the addresses that follow from it. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use sha2::{Digest, Sha256};

use crate::addresses::Bounds;
use crate::port::{Mac, Protocol};
use crate::{Error, Result};

/// A bridge of Linux has at most 1023 ports (`BR_MAX_PORTS`); some are left to the administrator.
pub const MAX_PORTS: u32 = 1000;

/// The number of the bridge itself.
const GATEWAY: u32 = 1;
/// The highest number: names of links stay short, and each cell has one in both families.
const HIGHEST: u32 = 65_534;

/// What the network is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The bridge's name, 1 to 10 bytes. The two nftables tables have the same, and the ports'
    /// names begin with it: nodes with bridges of different names can share a network namespace.
    pub bridge: String,
    /// The range of the cells' IPv6 addresses, /64 to /112; none: no IPv6.
    pub ipv6: Option<Ipv6Net>,
    /// The range of the cells' IPv4 addresses, /8 to /29; none: no IPv4.
    pub ipv4: Option<Ipv4Net>,
    /// Bytes of a packet, 1280 to 65535; none: that of the uplink, 1500 where there is no uplink.
    pub mtu: Option<u32>,
    /// Whether what leaves the node bears the node's address. For IPv6, false is for a range that
    /// is routed to this node.
    pub masquerade_ipv6: bool,
    /// The same for IPv4.
    pub masquerade_ipv4: bool,
    /// Listeners of the node that every cell may reach, by the bridge's addresses or any other of
    /// the node's. Empty: none.
    pub node_ports: Vec<(Protocol, u16)>,
    /// Where no cell may send to through the node.
    pub refused: Vec<IpNet>,
    /// Whether the node forwards what is of no cell. None: as it was before Aurae; a node that did
    /// not forward goes on not to.
    pub forward_others: Option<bool>,
    /// How many interfaces a tenant may have.
    pub per_tenant: u32,
    /// How many of [`MAX_PORTS`] are for the tenant `system` alone.
    pub reserve: u32,
    /// How many connections of a tenant the kernel may track at once, those to its published ports
    /// among them.
    pub connections_per_tenant: u32,
}

impl Settings {
    /// The defaults for the node with this identity: any bytes that are its own and stay, such as
    /// the fingerprint of its CA.
    pub fn for_node(identity: &[u8]) -> Self {
        Self {
            bridge: "aurae0".to_owned(),
            ipv6: Some(unique_local(identity)),
            ipv4: Some(Ipv4Net::new_assert(Ipv4Addr::new(10, 213, 0, 0), 16)),
            mtu: None,
            masquerade_ipv6: true,
            masquerade_ipv4: true,
            node_ports: Vec::new(),
            refused: link_local(),
            forward_others: None,
            per_tenant: 500,
            reserve: 50,
            connections_per_tenant: 32_768,
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field that can't be worked with.
    pub fn check(&self) -> Result<()> {
        let name = self.bridge.as_bytes();
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_".contains(b);
        if !(1..=10).contains(&name.len()) || !name.iter().all(plain) {
            return fail("bridge", "1 to 10 letters, digits, - and _");
        }
        if self.ipv6.is_none() && self.ipv4.is_none() {
            return fail("ipv6", "one of ipv6 and ipv4 must be given");
        }
        if let Some(range) = self.ipv6 {
            let unicast = !range.contains(&Ipv6Addr::LOCALHOST)
                && range.addr().segments()[0] & 0xffc0 != 0xfe80
                && !range.addr().is_multicast();
            if !(64..=112).contains(&range.prefix_len()) || range.trunc() != range || !unicast {
                return fail("ipv6", "a unicast range of /64 to /112, without host bits");
            }
        }
        if let Some(range) = self.ipv4 {
            let unicast = !range.addr().is_loopback()
                && !range.addr().is_link_local()
                && !range.addr().is_multicast();
            if !(8..=29).contains(&range.prefix_len()) || range.trunc() != range || !unicast {
                return fail("ipv4", "a unicast range of /8 to /29, without host bits");
            }
        }
        if self.mtu.is_some_and(|mtu| !(1280..=65_535).contains(&mtu)) {
            return fail("mtu", "1280 (the least of IPv6) to 65535");
        }
        if self.reserve >= MAX_PORTS || self.per_tenant == 0 {
            return fail(
                "reserve",
                "less than 1000, and at least one for each tenant",
            );
        }
        if self.connections_per_tenant == 0 {
            return fail("connections_per_tenant", "at least 1");
        }
        Ok(())
    }

    /// The numbers of cells, and the bounds on them.
    pub(crate) fn bounds(&self) -> Bounds {
        let hosts = self.ipv4.map_or(HIGHEST, |range| {
            let bits = u32::from(32 - range.prefix_len());
            (1u32.checked_shl(bits).unwrap_or(u32::MAX) - 2).min(HIGHEST)
        });
        Bounds {
            range: GATEWAY + 1..=hosts,
            capacity: MAX_PORTS.min(hosts - GATEWAY),
            per_tenant: self.per_tenant,
            reserve: self.reserve.min(hosts / 4),
        }
    }

    /// The addresses of number `number`, IPv6 first.
    pub(crate) fn addresses(&self, number: u32) -> Vec<IpAddr> {
        let six = self.ipv6.map(|range| {
            let bits = u128::from(range.addr()) + u128::from(number);
            IpAddr::V6(Ipv6Addr::from(bits))
        });
        let four = self.ipv4.map(|range| {
            let bits = u32::from(range.addr()).saturating_add(number);
            IpAddr::V4(Ipv4Addr::from(bits))
        });
        six.into_iter().chain(four).collect()
    }

    /// The number whose address that is, of the whole range: the pool says which are given out.
    pub(crate) fn number(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => {
                let range = self.ipv4.filter(|range| range.contains(&address))?;
                Some(u32::from(address) - u32::from(range.addr()))
            }
            IpAddr::V6(address) => {
                let range = self.ipv6.filter(|range| range.contains(&address))?;
                let number = u128::from(address) - u128::from(range.addr());
                // One above all that are given out is as good as any other.
                Some(u32::try_from(number).unwrap_or(u32::MAX))
            }
        }
    }

    /// The group of the ports' links: the rules know a port by it, whatever its name is. It differs
    /// from bridge to bridge, and isn't 0, which is every link's.
    pub(crate) fn group(&self) -> u32 {
        let hash = Sha256::new()
            .chain_update(b"aurae: ports of ")
            .chain_update(self.bridge.as_bytes())
            .finalize();
        hash.iter()
            .take(4)
            .fold(0, |number, byte| number << 8 | u32::from(*byte))
            & !DYING
            | 1 << 31
    }

    /// The group of ports that are about to be removed, all at once. To the rules it is the other.
    pub(crate) fn dying_group(&self) -> u32 {
        self.group() | DYING
    }

    /// Whether a link of this group is a port of ours.
    pub(crate) fn is_ours(&self, group: u32) -> bool {
        group & !DYING == self.group()
    }

    /// The name of the node's end of number `number`.
    pub(crate) fn veth(&self, number: u32) -> String {
        format!("{}-{number:x}", self.bridge)
    }

    /// The bridge's own addresses within the ranges, IPv6 first.
    pub fn node_addresses(&self) -> Vec<IpAddr> {
        self.addresses(GATEWAY)
    }

    /// What the cells' default routes lead to: the bridge, by its link-local address in IPv6.
    pub(crate) fn gateways(&self) -> Vec<IpAddr> {
        let mut gateways = self.node_addresses();
        for gateway in &mut gateways {
            if gateway.is_ipv6() {
                *gateway = IpAddr::V6(LINK_LOCAL_GATEWAY);
            }
        }
        gateways
    }
}

/// The bit in which the two groups of ports differ.
pub(crate) const DYING: u32 = 1;

/// The bridge's link-local address: the same on every node, so a cell's route never changes.
pub(crate) const LINK_LOCAL_GATEWAY: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The bridge's hardware address: fixed, because a bridge without one takes the lowest of its
/// ports, and changes it with them.
pub(crate) const BRIDGE_MAC: Mac = Mac([0x02, 0x61, 0xff, 0xff, 0xff, 0xff]);

/// A unique local /64 (RFC 4193) of the node: `fd`, 40 bits of a hash of its identity, subnet 0.
pub fn unique_local(identity: &[u8]) -> Ipv6Net {
    let hash = Sha256::new()
        .chain_update(b"aurae: network of cells")
        .chain_update(identity)
        .finalize();
    let mut octets = [0u8; 16];
    for (to, from) in octets
        .iter_mut()
        .zip([0xfd].iter().chain(hash.iter()))
        .take(6)
    {
        *to = *from;
    }
    Ipv6Net::new_assert(Ipv6Addr::from(octets), 64)
}

/// IPv4 link-local, where clouds keep the credentials of the machine, and the IPv6 address that one
/// of them has for the same.
fn link_local() -> Vec<IpNet> {
    let metadata = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    vec![
        Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16).into(),
        Ipv6Net::new_assert(metadata, 128).into(),
    ]
}

fn fail(field: &'static str, reason: &str) -> Result<()> {
    Err(Error::Settings {
        field,
        reason: reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sound_and_of_the_node() {
        let (one, two) = (Settings::for_node(b"one"), Settings::for_node(b"two"));
        one.check().unwrap();
        assert_eq!(one, Settings::for_node(b"one"));
        assert_ne!(one.ipv6, two.ipv6);
        let range = one.ipv6.unwrap();
        assert_eq!(range.addr().octets()[0], 0xfd);
        assert_eq!(range.trunc(), range);
    }

    #[test]
    fn a_number_has_one_address_of_each_family() {
        let mut settings = Settings::for_node(b"x");
        settings.ipv6 = Some("fd12::/64".parse().unwrap());
        let text: Vec<String> = settings
            .addresses(258)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(text, ["fd12::102", "10.213.1.2"]);
        for address in ["fd12::102", "10.213.1.2"] {
            assert_eq!(settings.number(address.parse().unwrap()), Some(258));
        }
        assert_eq!(settings.number("10.214.0.1".parse().unwrap()), None);
        let far = "fd12::1:0:0:1".parse().unwrap();
        assert_eq!(settings.number(far), Some(u32::MAX));
        let gateways: Vec<String> = settings
            .gateways()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(gateways, ["fe80::1", "10.213.0.1"]);
        settings.ipv4 = Some("192.168.7.0/29".parse().unwrap());
        assert_eq!(settings.bounds().range, 2..=6);
        assert_eq!(settings.bounds().capacity, 5);
    }

    #[test]
    fn a_bad_field_is_named() {
        let said = |change: fn(&mut Settings)| {
            let mut settings = Settings::for_node(b"x");
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert!(said(|s| s.bridge = "a b".to_owned()).starts_with("bridge:"));
        assert!(said(|s| s.ipv6 = Some("fe80::/64".parse().unwrap())).starts_with("ipv6:"));
        assert!(said(|s| s.ipv4 = Some("10.0.0.1/16".parse().unwrap())).starts_with("ipv4:"));
        assert!(said(|s| s.mtu = Some(576)).starts_with("mtu:"));
        assert!(said(|s| (s.ipv4, s.ipv6) = (None, None)).starts_with("ipv6:"));
    }
}
