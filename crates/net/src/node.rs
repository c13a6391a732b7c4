// SPDX-License-Identifier: Apache-2.0
//! The node's side of the network: the bridge with its addresses, the kernel settings that
//! forwarding takes, and what follows from the uplinks. Made so at every start, whatever is there.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

use crate::conversation::Conversation;
use crate::links::{self, Link};
use crate::settings::{BRIDGE_MAC, LINK_LOCAL_GATEWAY, Settings};
use crate::sysctl::{self, Changed};
use crate::{Error, Result};

/// The bridge as it was made or found.
pub(crate) struct Node {
    pub(crate) bridge: u32,
    pub(crate) mtu: u32,
    /// Whether the node forwarded before we came.
    pub(crate) forwarded: bool,
    pub(crate) changed: Vec<Changed>,
}

/// All links of the namespace.
pub(crate) fn links(route: &mut Conversation) -> Result<Vec<Link>> {
    let found = route.dump("listing the links", links::list())?;
    let links = found.iter().filter_map(|message| match message {
        Message::NewLink(link) => Some(Link::read(link)),
        _ => None,
    });
    Ok(links.collect())
}

/// Makes the bridge, or finds it, and makes the node a router for it.
pub(crate) fn prepare(route: &mut Conversation, settings: &Settings) -> Result<Node> {
    let there = links(route)?;
    let name = settings.bridge.as_str();
    let bridge = there.iter().find(|link| link.name == name);
    if bridge.is_some_and(|link| !link.bridge) {
        return Err(Error::Settings {
            field: "bridge",
            reason: format!("{name} is a link of another kind; choose another name"),
        });
    }
    let index = bridge.map_or(0, |link| link.index);
    refuse_overlap(route, settings, &there, index)?;
    let uplinks = uplinks(route, index)?;
    let mtu = settings.mtu.unwrap_or_else(|| mtu_of(&there, &uplinks));
    if bridge.is_none() {
        route.ask(vec![links::make_bridge(name, BRIDGE_MAC, mtu)])?;
    }
    let bridge = crate::inner::find(route, "looking for the bridge", name)?;
    let mut node = Node {
        bridge,
        mtu,
        forwarded: forwards(settings)?,
        changed: Vec::new(),
    };
    settle(name, settings, &mut node.changed)?;
    route.ask(links::bring_up(bridge, name, mtu))?;
    addresses(route, settings, bridge)?;
    forward(settings, &there, &mut node.changed)?;
    Ok(node)
}

/// The smallest packet size of the uplinks, or Ethernet's.
fn mtu_of(links: &[Link], uplinks: &[u32]) -> u32 {
    let of_uplinks = links.iter().filter(|link| uplinks.contains(&link.index));
    let least = of_uplinks.map(|link| link.mtu).min().unwrap_or(1500);
    least.clamp(1280, 65_535)
}

/// No link of the node may have an address of the cells' ranges.
fn refuse_overlap(
    route: &mut Conversation,
    settings: &Settings,
    there: &[Link],
    bridge: u32,
) -> Result<()> {
    let ranges = [
        ("ipv6", settings.ipv6.map(IpNet::V6)),
        ("ipv4", settings.ipv4.map(IpNet::V4)),
    ];
    for message in route.dump("listing the addresses", links::list_addresses())? {
        let Message::NewAddress(message) = message else {
            continue;
        };
        let Some(address) = links::address_of(&message) else {
            continue;
        };
        if message.header.index == bridge {
            continue;
        }
        for (field, range) in ranges {
            let Some(range) = range else { continue };
            let overlaps = range.contains(&address.network()) || address.contains(&range.network());
            if overlaps {
                let link = there.iter().find(|l| l.index == message.header.index);
                return Err(Error::Overlap {
                    field,
                    range,
                    address,
                    link: link.map_or_else(String::new, |link| link.name.clone()),
                });
            }
        }
    }
    Ok(())
}

/// The links that default routes lead out by, IPv6 first.
fn uplinks(route: &mut Conversation, bridge: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for family in [AddressFamily::Inet6, AddressFamily::Inet] {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        for answer in route.dump("listing the routes", Message::GetRoute(message))? {
            if let Message::NewRoute(route) = answer {
                found.extend(ways_out(&route).into_iter().filter(|out| *out != bridge));
            }
        }
    }
    Ok(found)
}

/// The links of a default route, of one way or of several.
fn ways_out(route: &RouteMessage) -> Vec<u32> {
    let header = &route.header;
    if header.destination_prefix_length != 0
        || header.kind != RouteType::Unicast
        || header.table != RouteHeader::RT_TABLE_MAIN
    {
        return Vec::new();
    }
    let of_hop = |hop: &RouteNextHop| hop.interface_index;
    route
        .attributes
        .iter()
        .flat_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => vec![*index],
            RouteAttribute::MultiPath(hops) => hops.iter().map(of_hop).collect(),
            _ => Vec::new(),
        })
        .collect()
}

const FORWARD4: &str = "net/ipv4/ip_forward";
const FORWARD6: &str = "net/ipv6/conf/all/forwarding";

fn forwards(settings: &Settings) -> Result<bool> {
    let four = settings.ipv4.is_some() && sysctl::read(FORWARD4)? != "0";
    let six = settings.ipv6.is_some() && sysctl::read(FORWARD6)? != "0";
    Ok(four || six)
}

/// What the bridge itself needs, before it is up.
fn settle(bridge: &str, settings: &Settings, changed: &mut Vec<Changed>) -> Result<()> {
    if settings.ipv4.is_some() {
        let of = |name: &str| format!("net/ipv4/conf/{bridge}/{name}");
        // For ports published on 127.0.0.1; the rules refuse that network to cells.
        sysctl::set(&of("route_localnet"), "1", changed)?;
        sysctl::set(&of("send_redirects"), "0", changed)?;
        // Cells are told of the bridge's own address and of no other that the node has.
        sysctl::set(&of("arp_ignore"), "1", changed)?;
    }
    if settings.ipv6.is_some() {
        let of = |name: &str| format!("net/ipv6/conf/{bridge}/{name}");
        sysctl::set(&of("disable_ipv6"), "0", changed)?;
        sysctl::set(&of("accept_ra"), "0", changed)?;
        sysctl::set(&of("accept_redirects"), "0", changed)?;
    }
    Ok(())
}

/// The bridge's addresses are those of the settings and no others.
fn addresses(route: &mut Conversation, settings: &Settings, bridge: u32) -> Result<()> {
    let mut wanted = Vec::new();
    for address in settings.node_addresses() {
        let length = match address {
            IpAddr::V6(_) => settings.ipv6.map(|range| range.prefix_len()),
            IpAddr::V4(_) => settings.ipv4.map(|range| range.prefix_len()),
        };
        wanted.extend(length.map(|length| IpNet::new_assert(address, length)));
    }
    if settings.ipv6.is_some() {
        wanted.push(IpNet::new_assert(IpAddr::V6(LINK_LOCAL_GATEWAY), 64));
    }
    let mut steps = Vec::new();
    for message in route.dump("listing the addresses", links::list_addresses())? {
        let Message::NewAddress(message) = message else {
            continue;
        };
        let known = links::address_of(&message).is_some_and(|address| wanted.contains(&address));
        if message.header.index == bridge && !known {
            steps.push(links::remove_address(message));
        }
    }
    let add = |address: &IpNet| links::add_address(bridge, *address, true);
    steps.extend(wanted.iter().map(add));
    route.ask(steps)
}

/// Makes the node forward. A link that takes its routes from routers' advertisements goes on to do
/// so: forwarding alone would end that.
fn forward(settings: &Settings, there: &[Link], changed: &mut Vec<Changed>) -> Result<()> {
    if settings.ipv4.is_some() {
        sysctl::set(FORWARD4, "1", changed)?;
    }
    if settings.ipv6.is_none() || sysctl::read(FORWARD6)? == "1" {
        return Ok(());
    }
    // A link without IPv6, of a smaller packet size than it takes, has no such folder.
    let ours = |link: &&Link| link.name != "lo" && link.mtu >= 1280 && link.name != settings.bridge;
    for link in there.iter().filter(ours) {
        let accepts = format!("net/ipv6/conf/{}/accept_ra", link.name);
        if sysctl::read(&accepts).is_ok_and(|value| value == "1") {
            sysctl::set(&accepts, "2", changed)?;
        }
    }
    sysctl::set(FORWARD6, "1", changed)
}
