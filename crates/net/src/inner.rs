// SPDX-License-Identifier: Apache-2.0
//! The cell's end of a pair: what is said in the cell's own namespace. The caller's thread is there
//! for as long as it takes to open one socket.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use kernel::namespace::{Namespaces, join};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

use crate::conversation::{Conversation, LinkNews, RouteStep};
use crate::error::Step;
use crate::links::{self, Link};
use crate::port::Attached;
use crate::settings::BRIDGE_MAC;
use crate::{Error, Result};

/// Sockets in a cell's namespace.
pub(crate) struct Inside {
    pub(crate) route: Conversation,
    pub(crate) news: LinkNews,
}

/// How long a link has to work. It takes a millisecond, a second where the kernel puts it off
/// because it has many, and then as long as others of a loaded machine hold the kernel's lock of
/// links. Other cells wait meanwhile, so not longer: the root of a cell that runs could take the
/// link down again and again.
const COMES_UP: Duration = Duration::from_secs(4);

/// Waits for a link: the kernel sees that it is up behind the request that brings it up.
pub(crate) fn await_link(
    route: &mut Conversation,
    news: &LinkNews,
    name: &str,
    is_ready: fn(&Link) -> bool,
) -> Result<()> {
    let deadline = Instant::now() + COMES_UP;
    let step = format!("waiting for {name}");
    loop {
        news.drain();
        let link = match route.get(&step, links::get(name))? {
            Some(Message::NewLink(link)) => Link::read(&link),
            _ => Link::default(),
        };
        if is_ready(&link) {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || !news.wait(left)? {
            return Err(Error::Answer {
                step,
                reason: format!("it doesn't work after {} s", COMES_UP.as_secs()),
            });
        }
    }
}

/// Opens sockets in the namespace `there`, by a thread that belongs in `here`.
///
/// # Errors
/// Where the thread can't come back it is in the wrong namespace: the second value says so, and the
/// thread must do nothing more.
pub(crate) fn open(there: BorrowedFd<'_>, here: impl AsFd) -> (Result<Inside>, Result<()>) {
    if let Err(error) = join(there, Namespaces::NET).step("entering the cell's network namespace") {
        return (Err(error), Ok(()));
    }
    let inside = Conversation::route().and_then(|route| {
        let news = LinkNews::open()?;
        Ok(Inside { route, news })
    });
    let back = join(here, Namespaces::NET).step("coming back to the node's network namespace");
    (inside, back)
}

/// Gives the cell's end its addresses and routes and brings it and the loopback up.
pub(crate) fn configure(cell: &mut Conversation, attached: &Attached) -> Result<()> {
    let step = format!("looking for {} in the cell", attached.name);
    let index = find(cell, &step, &attached.name)?;
    let mut steps = links::bring_up(index, &attached.name, attached.mtu);
    steps.extend(loopback());
    let link_local = IpAddr::V6(attached.mac.link_local());
    if attached.addresses.iter().any(IpAddr::is_ipv6) {
        // With its prefix, so that the gateway's address is on the link.
        let address = IpNet::new_assert(link_local, 64);
        steps.push(links::add_address(index, address, true));
    }
    for address in &attached.addresses {
        steps.push(links::add_address(index, IpNet::from(*address), false));
    }
    for gateway in &attached.gateways {
        steps.push(links::neighbour(index, *gateway, BRIDGE_MAC));
        steps.extend(way_out(index, *gateway, attached));
    }
    cell.ask(steps)
}

/// `lo` is number 1 of every namespace; the cell's init brings it up too.
fn loopback() -> Vec<RouteStep> {
    let mut message = LinkMessage::default();
    message.header.index = 1;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    vec![("bringing lo up".to_owned(), 0, Message::SetLink(message))]
}

pub(crate) fn find(cell: &mut Conversation, step: &str, name: &str) -> Result<u32> {
    match cell.get(step, links::get(name))? {
        Some(Message::NewLink(link)) => Ok(link.header.index),
        _ => Err(Error::Answer {
            step: step.to_owned(),
            reason: "it isn't there".to_owned(),
        }),
    }
}

/// The default route; of an interface that isn't the cell's first way out, in a table of its own
/// that holds for its addresses.
fn way_out(index: u32, gateway: IpAddr, attached: &Attached) -> Vec<RouteStep> {
    let table = if attached.default_route {
        u32::from(RouteHeader::RT_TABLE_MAIN)
    } else {
        TABLES + attached.number
    };
    let mut steps = vec![default_route(index, gateway, table)];
    if !attached.default_route {
        let same = |address: &&IpAddr| address.is_ipv4() == gateway.is_ipv4();
        steps.extend(
            attached
                .addresses
                .iter()
                .filter(same)
                .map(|address| lookup(*address, table)),
        );
    }
    steps
}

/// The first of our tables in a cell: above those that have names.
const TABLES: u32 = 0x1_0000;

fn default_route(index: u32, gateway: IpAddr, table: u32) -> RouteStep {
    let mut message = RouteMessage::default();
    message.header.address_family = links::family(gateway);
    message.header.table = u8::try_from(table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unicast;
    // The gateway is on the link though no prefix of the cell's says so.
    message.header.flags = RouteFlags::Onlink;
    message.attributes = vec![
        RouteAttribute::Table(table),
        RouteAttribute::Gateway(gateway.into()),
        RouteAttribute::Oif(index),
    ];
    let step = format!("adding the default route by {gateway}");
    (step, NLM_F_CREATE | NLM_F_EXCL, Message::NewRoute(message))
}

/// What bears the address takes the table.
fn lookup(source: IpAddr, table: u32) -> RouteStep {
    let mut message = RuleMessage::default();
    message.header.family = links::family(source);
    message.header.src_len = if source.is_ipv4() { 32 } else { 128 };
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![RuleAttribute::Source(source), RuleAttribute::Table(table)];
    let step = format!("adding the rule for {source}");
    (step, NLM_F_CREATE | NLM_F_EXCL, Message::NewRule(message))
}
