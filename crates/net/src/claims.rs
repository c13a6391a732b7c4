// SPDX-License-Identifier: Apache-2.0
//! Whether ports of the node are free: no other cell's, and no program's that listens.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use crate::error::Step;
use crate::port::{Attached, HostPort, Protocol};
use crate::worker::Key;
use crate::{Error, Result};

/// Refuses ports that another cell has, and those on which a program of the node listens: a cell must
/// not take the node's own services over.
pub(crate) fn ports_are_free(
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
        for address in at(port) {
            nobody_listens(port, address)?;
        }
    }
    Ok(())
}

/// The addresses to try.
fn at(port: &HostPort) -> Vec<IpAddr> {
    match port.address {
        Some(address) => vec![address],
        None => vec![
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ],
    }
}

/// Takes the port for an instant, in the thread's namespace. SCTP isn't looked at: the standard
/// library has no sockets of it.
fn nobody_listens(port: &HostPort, address: IpAddr) -> Result<()> {
    let at = SocketAddr::new(address, port.host_port);
    let tried = match port.protocol {
        Protocol::Tcp => TcpListener::bind(at).map(drop),
        Protocol::Udp => UdpSocket::bind(at).map(drop),
        Protocol::Sctp => return Ok(()),
    };
    match tried {
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(Error::PortInUse {
            port: port.to_string(),
        }),
        // An address that the node doesn't have yet, or a family that it lacks.
        Err(error) if is_absent(&error) => Ok(()),
        other => other.step(format!("trying host port {port}")),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    const NO_SUCH_FAMILY: i32 = 97;
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(NO_SUCH_FAMILY)
}
