// SPDX-License-Identifier: Apache-2.0
//! The messages of rtnetlink that the network of cells takes: the bridge, its ports, and what the
//! node knows of the cells behind them. Makes them and reads them; [`crate::conversation`] sends.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, BridgePortState, BridgeStpState, In6AddrGenMode, InfoBridge,
    InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoPortKind, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage, State,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

use crate::conversation::RouteStep;
use crate::port::{Attached, Mac};

/// A link as far as it matters here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) alias: Option<String>,
    pub(crate) group: u32,
    pub(crate) mtu: u32,
    pub(crate) bridge: bool,
    /// The index of what it is a port of, 0 where of nothing.
    pub(crate) port_of: u32,
    /// Whether it is a port of a bridge that takes frames.
    pub(crate) forwards: bool,
    /// Whether the kernel has seen that both ends are up: before that, what is sent is lost.
    pub(crate) works: bool,
}

impl Link {
    pub(crate) fn read(message: &LinkMessage) -> Self {
        let mut link = Link {
            index: message.header.index,
            ..Link::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::IfAlias(alias) => link.alias = Some(alias.clone()),
                LinkAttribute::Group(group) => link.group = *group,
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                LinkAttribute::OperState(state) => link.works = *state == State::Up,
                LinkAttribute::Controller(index) => link.port_of = *index,
                LinkAttribute::LinkInfo(infos) => {
                    link.bridge |= infos.contains(&LinkInfo::Kind(InfoKind::Bridge));
                    link.forwards |= infos.iter().any(takes_frames);
                }
                _ => {}
            }
        }
        link
    }
}

fn takes_frames(info: &LinkInfo) -> bool {
    let forwarding = InfoBridgePort::State(BridgePortState::Forwarding);
    matches!(info, LinkInfo::PortData(InfoPortData::BridgePort(port)) if port.contains(&forwarding))
}

/// The bridge, down. Its ports are alone: it learns nothing, and forwards no group.
pub(crate) fn make_bridge(name: &str, mac: Mac, mtu: u32) -> RouteStep {
    let mut message = LinkMessage::default();
    let data = vec![
        InfoBridge::StpState(BridgeStpState::Disabled),
        InfoBridge::ForwardDelay(0),
        InfoBridge::MulticastSnooping(false),
    ];
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Address(mac.0.to_vec()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Bridge),
            LinkInfo::Data(InfoData::Bridge(data)),
        ]),
    ];
    let step = format!("making the bridge {name}");
    (step, NLM_F_CREATE | NLM_F_EXCL, Message::NewLink(message))
}

/// Changes of a link that is there.
fn set(index: u32, attributes: Vec<LinkAttribute>, up: bool) -> Message {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = attributes;
    if up {
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
    }
    Message::SetLink(message)
}

/// No link-local address by itself: the link has none, or gets it without a wait.
fn no_automatic_address() -> LinkAttribute {
    let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
    LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])])
}

/// Brings a link up as what it is to be.
pub(crate) fn bring_up(index: u32, name: &str, mtu: u32) -> Vec<RouteStep> {
    let quiet = set(
        index,
        vec![no_automatic_address(), LinkAttribute::Mtu(mtu)],
        false,
    );
    vec![
        (format!("setting up {name}"), 0, quiet),
        (
            format!("bringing {name} up"),
            0,
            set(index, Vec::new(), true),
        ),
    ]
}

/// The pair of a cell: the node's end as a port of the bridge, down; the other in the cell. The
/// group is there from the first instant: without its elements in the rules, a port passes nothing.
pub(crate) fn make_pair(
    attached: &Attached,
    bridge: u32,
    group: u32,
    cell: BorrowedFd<'_>,
) -> RouteStep {
    let mut peer = LinkMessage::default();
    peer.attributes = vec![
        LinkAttribute::IfName(attached.name.clone()),
        LinkAttribute::Address(attached.mac.0.to_vec()),
        LinkAttribute::Mtu(attached.mtu),
        LinkAttribute::NetNsFd(cell.as_raw_fd()),
    ];
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(attached.veth.clone()),
        LinkAttribute::Group(group),
        LinkAttribute::Mtu(attached.mtu),
        LinkAttribute::Controller(bridge),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    let step = format!("making the pair of {} and {}", attached.veth, attached.name);
    (step, NLM_F_CREATE | NLM_F_EXCL, Message::NewLink(message))
}

/// What makes the node's end a quiet port: it hears no flood and teaches the bridge nothing. That
/// it speaks to the bridge alone is in the rules ([`crate::nft::rules_bridge`] says why).
pub(crate) fn settle_port(index: u32, attached: &Attached, alias: &str) -> Vec<RouteStep> {
    let port = vec![
        // Its own published ports come back by the port they left by, where `br_netfilter` is on.
        InfoBridgePort::HairpinMode(true),
        InfoBridgePort::Learning(false),
        InfoBridgePort::UnicastFlood(false),
        InfoBridgePort::MulticastFlood(false),
        InfoBridgePort::BroadcastFlood(false),
        InfoBridgePort::Guard(true),
    ];
    let info = LinkAttribute::LinkInfo(vec![
        LinkInfo::PortKind(InfoPortKind::Bridge),
        LinkInfo::PortData(InfoPortData::BridgePort(port)),
    ]);
    let named = vec![
        LinkAttribute::IfAlias(alias.to_owned()),
        no_automatic_address(),
    ];
    let veth = &attached.veth;
    vec![
        (format!("naming {veth}"), 0, set(index, named, false)),
        (
            format!("isolating {veth}"),
            0,
            Message::NewLink(link_of(set(index, vec![info], false))),
        ),
    ]
}

/// `RTM_SETLINK` knows no kinds: what a port of a bridge is comes by `RTM_NEWLINK`.
fn link_of(message: Message) -> LinkMessage {
    match message {
        Message::SetLink(link) => link,
        _ => LinkMessage::default(),
    }
}

/// What the node knows of a cell, so that it asks no cell: where its hardware address is, and which
/// of its addresses has it.
pub(crate) fn know(port: u32, bridge: u32, attached: &Attached) -> Vec<RouteStep> {
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    let mut entry = NeighbourMessage::default();
    entry.header.family = AddressFamily::Bridge;
    entry.header.ifindex = port;
    entry.header.state = NeighbourState::Noarp;
    entry.header.flags = NeighbourFlags::Controller;
    entry.attributes = vec![NeighbourAttribute::LinkLayerAddress(
        attached.mac.0.to_vec(),
    )];
    let step = format!("telling the bridge where {} is", attached.mac);
    let mut steps = vec![(step, flags, Message::NewNeighbour(entry))];
    for address in &attached.addresses {
        steps.push(neighbour(bridge, *address, attached.mac));
    }
    steps
}

/// A neighbour that is never asked for.
pub(crate) fn neighbour(link: u32, address: IpAddr, mac: Mac) -> RouteStep {
    let mut message = neighbour_message(link, address);
    message.header.state = NeighbourState::Permanent;
    message
        .attributes
        .push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    let step = format!("making {address} a known neighbor");
    (step, flags, Message::NewNeighbour(message))
}

/// Forgets a neighbour.
pub(crate) fn forget(link: u32, address: IpAddr) -> RouteStep {
    let message = neighbour_message(link, address);
    let step = format!("forgetting the neighbor {address}");
    (step, 0, Message::DelNeighbour(message))
}

fn neighbour_message(link: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(address);
    message.header.ifindex = link;
    let address = match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    };
    message.attributes = vec![NeighbourAttribute::Destination(address)];
    message
}

/// The neighbours that were made by [`neighbour`] on a link.
pub(crate) fn known_on(link: u32, message: &NeighbourMessage) -> Option<IpAddr> {
    let ours = message.header.ifindex == link && message.header.state == NeighbourState::Permanent;
    message
        .attributes
        .iter()
        .filter(|_| ours)
        .find_map(|attribute| match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(a)) => Some(IpAddr::V4(*a)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(a)) => Some(IpAddr::V6(*a)),
            _ => None,
        })
}

pub(crate) fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

/// An address, usable at once. Without `prefix_route`, nothing else becomes reachable by it.
pub(crate) fn add_address(link: u32, address: IpNet, prefix_route: bool) -> RouteStep {
    let mut message = AddressMessage::default();
    message.header.family = family(address.addr());
    message.header.prefix_len = address.prefix_len();
    message.header.index = link;
    // Duplicates can't be: the addresses are given out by us, and no cell hears another.
    message.header.flags = AddressHeaderFlags::Nodad;
    let mut flags = AddressFlags::Nodad;
    if !prefix_route {
        flags |= AddressFlags::Noprefixroute;
    }
    message.attributes = vec![
        AddressAttribute::Local(address.addr()),
        AddressAttribute::Address(address.addr()),
        AddressAttribute::Flags(flags),
    ];
    let step = format!("adding the address {address}");
    (
        step,
        NLM_F_CREATE | NLM_F_REPLACE,
        Message::NewAddress(message),
    )
}

/// Removes a link by its name; of a pair, both ends go.
pub(crate) fn remove(name: &str) -> RouteStep {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
    (format!("removing {name}"), 0, Message::DelLink(message))
}

/// Puts a link into another group, by its name.
pub(crate) fn regroup(name: &str, group: u32) -> RouteStep {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Group(group),
    ];
    (format!("regrouping {name}"), 0, Message::SetLink(message))
}

/// Removes all links of a group at once, which takes the kernel as long as one.
pub(crate) fn remove_group(group: u32) -> RouteStep {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::Group(group)];
    let step = "removing ports together".to_owned();
    (step, 0, Message::DelLink(message))
}

/// Removes an address.
pub(crate) fn remove_address(message: AddressMessage) -> RouteStep {
    let step = "removing an address of the bridge".to_owned();
    (step, 0, Message::DelAddress(message))
}

/// The address of a message about one, with its prefix.
pub(crate) fn address_of(message: &AddressMessage) -> Option<IpNet> {
    // Of a pair of ends, `Local` is this one; IPv6 has none where there is no pair.
    let local = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let other = message.attributes.iter().find_map(|a| match a {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    IpNet::new(local.or(other)?, message.header.prefix_len).ok()
}

/// All addresses.
pub(crate) fn list_addresses() -> Message {
    Message::GetAddress(AddressMessage::default())
}

/// The link of this name.
pub(crate) fn get(name: &str) -> Message {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
    Message::GetLink(message)
}

/// All links.
pub(crate) fn list() -> Message {
    Message::GetLink(LinkMessage::default())
}

/// All neighbours of a family.
pub(crate) fn list_neighbours(family: AddressFamily) -> Message {
    let mut message = NeighbourMessage::default();
    message.header.family = family;
    Message::GetNeighbour(message)
}
