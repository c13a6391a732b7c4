// SPDX-License-Identifier: Apache-2.0
//! The connections that the kernel tracks, as far as an address that is given back is concerned:
//! what was let through to a cell that is gone must not go on to the next one with its address.

use std::net::IpAddr;

use crate::Result;
use crate::conversation::{Answer, Conversation, acknowledged};
use crate::nft::attributes::{Attributes, first};

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// `NFNL_SUBSYS_CTNETLINK`, with the number of a message.
const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;

const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
const FILTER: u16 = 25;

/// Which side of a connection an address is looked for on.
#[derive(Clone, Copy)]
enum Side {
    /// It began the connection.
    Began,
    /// It answers, also behind a port of the node.
    Answers,
}

fn message(kind: u16, flags: u16, sequence: u32, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(20 + body.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([family, 0, 0, 0]);
    bytes.extend(body);
    bytes
}

fn family(ipv4: bool) -> u8 {
    if ipv4 { 2 } else { 10 }
}

/// The list of connections that have the address on that side. Kernels before 5.8 ignore the filter
/// and list all: what comes is looked at again.
fn list_of(address: IpAddr, side: Side) -> Attributes {
    let (kind, octets) = match address {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (3, address.octets().to_vec()),
    };
    let ip = Attributes::default().bytes(kind, &octets);
    let tuple = Attributes::default().nest(1, ip);
    const SOURCE_ADDRESS: u32 = 1;
    let (tuple_kind, flags_kind) = match side {
        Side::Began => (TUPLE_ORIGINAL, 1),
        Side::Answers => (TUPLE_REPLY, 2),
    };
    let filter = Attributes::default().bytes(flags_kind, &SOURCE_ADDRESS.to_ne_bytes());
    Attributes::default()
        .nest(tuple_kind, tuple)
        .nest(FILTER, filter)
}

/// The source address of one direction of a connection.
fn source(body: &[u8], tuple: u16) -> Option<IpAddr> {
    let ip = first(first(body, tuple)?, 1)?;
    let four = first(ip, 1).and_then(|octets| <[u8; 4]>::try_from(octets).ok());
    let six = first(ip, 3).and_then(|octets| <[u8; 16]>::try_from(octets).ok());
    four.map(IpAddr::from).or(six.map(IpAddr::from))
}

/// Forgets the connections from and to an address.
pub(crate) fn forget(netfilter: &mut Conversation, address: IpAddr) -> Result<()> {
    for side in [Side::Began, Side::Answers] {
        let body = list_of(address, side).into_bytes();
        forget_those(netfilter, address.is_ipv4(), &body, &|has| has == address)?;
    }
    Ok(())
}

/// Forgets the connections that others began with an address, also by a port of the node.
pub(crate) fn forget_answered_by(netfilter: &mut Conversation, address: IpAddr) -> Result<()> {
    let body = list_of(address, Side::Answers).into_bytes();
    forget_those(netfilter, address.is_ipv4(), &body, &|has| has == address)
}

/// Forgets the connections from and to addresses for which `gone` holds.
pub(crate) fn forget_all(
    netfilter: &mut Conversation,
    gone: &dyn Fn(IpAddr) -> bool,
) -> Result<()> {
    forget_those(netfilter, false, &[], gone)?;
    forget_those(netfilter, true, &[], gone)
}

fn forget_those(
    netfilter: &mut Conversation,
    ipv4: bool,
    filter: &[u8],
    gone: &dyn Fn(IpAddr) -> bool,
) -> Result<()> {
    let what = "listing tracked connections";
    let sequence = netfilter.next_sequence();
    let request = message(GET, NLM_F_DUMP, sequence, family(ipv4), filter);
    let found = netfilter.dump_raw(what, &request)?;
    for connection in found.iter().filter(|answer| answer.kind >> 8 == 1) {
        forget_one(netfilter, ipv4, connection, gone)?;
    }
    Ok(())
}

fn forget_one(
    netfilter: &mut Conversation,
    ipv4: bool,
    connection: &Answer,
    gone: &dyn Fn(IpAddr) -> bool,
) -> Result<()> {
    const NOT_THERE: i32 = 2;
    let body = connection.bytes.get(20..).unwrap_or_default();
    let sides = [TUPLE_ORIGINAL, TUPLE_REPLY];
    if !sides
        .into_iter()
        .filter_map(|side| source(body, side))
        .any(gone)
    {
        return Ok(());
    }
    let mut which = Attributes::default();
    for (kind, nested) in [(TUPLE_ORIGINAL, 0x8000), (ZONE, 0), (ID, 0)] {
        if let Some(value) = first(body, kind) {
            which = which.bytes(kind | nested, value);
        }
    }
    let sequence = netfilter.next_sequence();
    let request = message(
        DELETE,
        NLM_F_ACK,
        sequence,
        family(ipv4),
        &which.into_bytes(),
    );
    for answer in netfilter.exchange(&request)? {
        // It may have ended meanwhile.
        if answer.errno != Some(NOT_THERE) {
            acknowledged("forgetting a tracked connection", &answer)?;
        }
    }
    Ok(())
}
