// SPDX-License-Identifier: Apache-2.0
//! Whether ports of the node are free: no other cell's, and no program's that listens.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::conversation::Conversation;
use crate::port::{Attached, HostPort, Protocol};
use crate::worker::Key;
use crate::{Error, Result};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// Refuses ports that another cell has, and those on which a program of the node listens: a cell
/// must not take the node's own services over.
pub(crate) fn ports_are_free(
    sockets: &mut Conversation,
    wanted: &[HostPort],
    cells: &BTreeMap<Key, Attached>,
) -> Result<()> {
    for port in wanted {
        let holder = cells
            .iter()
            .find(|(_, attached)| attached.host_ports.iter().any(|has| has.overlaps(port)));
        if let Some(((holder, _), _)) = holder {
            return Err(Error::PortTaken {
                port: port.to_string(),
                holder: *holder,
            });
        }
    }
    match met(sockets, wanted)? {
        Some(port) => Err(Error::PortInUse {
            port: port.to_string(),
        }),
        None => Ok(()),
    }
}

/// The first of these ports on which a program listens, in the caller's network namespace. Blocks
/// for as long as the kernel takes to list its sockets; opens none of that port.
///
/// # Errors
/// The kernel's refusal.
pub fn listened_on(wanted: &[HostPort]) -> Result<Option<HostPort>> {
    let mut sockets = Conversation::sockets()?;
    Ok(met(&mut sockets, wanted)?.cloned())
}

fn met<'a>(sockets: &mut Conversation, wanted: &'a [HostPort]) -> Result<Option<&'a HostPort>> {
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        let of_it: Vec<_> = wanted.iter().filter(|p| p.protocol == protocol).collect();
        if of_it.is_empty() {
            continue;
        }
        let listeners = listeners(sockets, protocol)?;
        let taken = |port: &&&HostPort| listeners.iter().any(|listener| meets(port, *listener));
        if let Some(port) = of_it.iter().find(taken) {
            return Ok(Some(port));
        }
    }
    Ok(None)
}

/// Whether what comes to the published port could be the listener's. One at `::` may listen in both
/// families: it is taken to.
fn meets(port: &HostPort, (address, number): (IpAddr, u16)) -> bool {
    let everywhere = |a: IpAddr| a.is_unspecified();
    number == port.host_port
        && port.address.is_none_or(|wanted| {
            wanted == address
                || (address.is_ipv6() && everywhere(address))
                || (wanted.is_ipv4() == address.is_ipv4()
                    && (everywhere(wanted) || everywhere(address)))
        })
}

/// The node's listening sockets of a protocol, by `sock_diag(7)`.
fn listeners(sockets: &mut Conversation, protocol: Protocol) -> Result<Vec<(IpAddr, u16)>> {
    /// The module for SCTP's sockets isn't there, so neither are its sockets.
    const ABSENT: [i32; 2] = [2, 93];
    let mut found = Vec::new();
    for family in [IPV6, IPV4] {
        let sequence = sockets.next_sequence();
        let what = "listing the node's listeners";
        let answers = sockets.dump_raw(what, &request(sequence, family, protocol));
        match answers {
            Err(Error::Kernel { errno, .. })
                if protocol == Protocol::Sctp && ABSENT.contains(&errno) => {}
            answers => {
                let of_family = |answer: &&crate::conversation::Answer| answer.kind == BY_FAMILY;
                let answers = answers?;
                found.extend(
                    answers
                        .iter()
                        .filter(of_family)
                        .filter_map(|a| read(&a.bytes)),
                );
            }
        }
    }
    Ok(found)
}

/// `inet_diag_req_v2`, behind a header.
fn request(sequence: u32, family: u8, protocol: Protocol) -> Vec<u8> {
    /// TCP's and SCTP's listening state; the one that UDP's unconnected sockets are in.
    const LISTEN: u32 = 1 << 10;
    const CLOSED: u32 = 1 << 7;
    let states = if protocol == Protocol::Udp {
        CLOSED
    } else {
        LISTEN
    };
    let mut bytes = 72u32.to_ne_bytes().to_vec();
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([family, protocol.number(), 0, 0]);
    bytes.extend(states.to_ne_bytes());
    // No socket in particular.
    bytes.extend([0; 48]);
    bytes
}

/// The local address and port of an `inet_diag_msg`.
fn read(bytes: &[u8]) -> Option<(IpAddr, u16)> {
    let message = bytes.get(16..)?;
    let port = u16::from_be_bytes(message.get(4..6)?.try_into().ok()?);
    let address = match *message.first()? {
        IPV4 => IpAddr::from(<[u8; 4]>::try_from(message.get(8..12)?).ok()?),
        IPV6 => IpAddr::from(<[u8; 16]>::try_from(message.get(8..24)?).ok()?),
        _ => return None,
    };
    Some((address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_met_where_packets_could_be_its() {
        let port = |address: Option<&str>| HostPort {
            protocol: Protocol::Tcp,
            address: address.map(|text| text.parse().unwrap()),
            host_port: 22,
            port: 22,
            on_loopback: false,
        };
        let at = |text: &str| -> (IpAddr, u16) { (text.parse().unwrap(), 22) };
        assert!(meets(&port(None), at("127.0.0.1")));
        assert!(meets(&port(Some("10.0.0.1")), at("::")));
        assert!(meets(&port(Some("10.0.0.1")), at("0.0.0.0")));
        assert!(meets(&port(Some("0.0.0.0")), at("10.0.0.1")));
        assert!(!meets(&port(Some("10.0.0.1")), at("127.0.0.1")));
        assert!(!meets(&port(Some("fd00::1")), at("0.0.0.0")));
        assert!(!meets(&port(None), ("::".parse().unwrap(), 23)));
    }
}
