// SPDX-License-Identifier: Apache-2.0
//! Connections of a socket with `Accept=yes`: where they come from, what their service's instance
//! is called, and how many there may be.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use units::name::UnitName;

/// Where a connection comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// Both ends.
    Inet(SocketAddr, SocketAddr),
    /// Process and user at the other end, where the kernel says them.
    Unix(Option<(u32, u32)>),
}

/// An IPv4 address that came over a socket of both families is one of IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Peer {
    /// Of a connection.
    pub(crate) fn of(connection: impl AsFd) -> Peer {
        use rustix::net::{getpeername, getsockname, sockopt};
        let fd = connection.as_fd();
        let remote = getpeername(fd).ok().flatten();
        let remote = remote.and_then(|it| SocketAddr::try_from(it).ok());
        let local = getsockname(fd).ok();
        let local = local.and_then(|it| SocketAddr::try_from(it).ok());
        if let Some((local, remote)) = local.zip(remote) {
            return Peer::Inet(plain(local), plain(remote));
        }
        let credentials = sockopt::socket_peercred(fd).ok();
        Peer::Unix(credentials.map(|it| {
            let pid = it.pid.as_raw_nonzero().get();
            (u32::try_from(pid).unwrap_or(0), it.uid.as_raw())
        }))
    }

    /// Of the instance of an earlier daemon's connection, as far as its name says it.
    pub(crate) fn named(instance: &str) -> Peer {
        let parts: Vec<&str> = instance.split('-').collect();
        let of = |text: &str| {
            let (address, port) = text.rsplit_once(':')?;
            let address: IpAddr = address.parse().ok()?;
            Some(SocketAddr::new(address, port.parse().ok()?))
        };
        let inet = match parts.as_slice() {
            [_, local, remote] => of(local).zip(of(remote)),
            _ => None,
        };
        match inet {
            Some((local, remote)) => Peer::Inet(local, remote),
            None => Peer::Unix(None),
        }
    }

    /// As `MaxConnectionsPerSource=` counts it; `None`: it doesn't.
    pub(crate) fn source(&self) -> Option<IpAddr> {
        match self {
            Peer::Inet(_, remote) => Some(remote.ip()),
            Peer::Unix(_) => None,
        }
    }

    /// `REMOTE_ADDR` and `REMOTE_PORT` (systemd.exec(5)).
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        match self {
            Peer::Inet(_, remote) => vec![
                ("REMOTE_ADDR".to_owned(), remote.ip().to_string()),
                ("REMOTE_PORT".to_owned(), remote.port().to_string()),
            ],
            Peer::Unix(_) => Vec::new(),
        }
    }

    /// What comes behind the `@` (systemd.socket(5), Accept=).
    fn instance(&self, number: u64) -> String {
        let of = |address: &SocketAddr| format!("{}:{}", address.ip(), address.port());
        match self {
            Peer::Inet(local, remote) => format!("{number}-{}-{}", of(local), of(remote)),
            Peer::Unix(Some((pid, uid))) => format!("{number}-{pid}-{uid}"),
            Peer::Unix(None) => format!("{number}-unknown"),
        }
    }

    /// The service of a connection: `PREFIX@INSTANCE.service`.
    pub(crate) fn service(&self, socket: &UnitName, number: u64) -> Option<UnitName> {
        let instance = self.instance(number);
        UnitName::parse(&format!("{}@{instance}.service", socket.prefix())).ok()
    }
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The socket unit that it came over.
    pub(crate) socket: UnitName,
    pub(crate) peer: Peer,
    /// Until its service has it; with the number that node-init keeps it under.
    pub(crate) waits: Option<(OwnedFd, Option<u64>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_called_as_systemds() {
        let socket = UnitName::parse("ssh.socket").unwrap();
        let inet = |local: &str, remote: &str| {
            let of = |it: &str| plain(it.parse().unwrap());
            Peer::Inet(of(local), of(remote))
        };
        for (peer, name) in [
            (
                inet("[::ffff:10.0.0.1]:22", "[::ffff:10.0.0.2]:50000"),
                "ssh@7-10.0.0.1:22-10.0.0.2:50000.service",
            ),
            (
                inet("[fe80::1]:22", "[fe80::2]:50000"),
                "ssh@7-fe80::1:22-fe80::2:50000.service",
            ),
            (Peer::Unix(Some((12, 1000))), "ssh@7-12-1000.service"),
            (Peer::Unix(None), "ssh@7-unknown.service"),
        ] {
            let service = peer.service(&socket, 7).unwrap();
            assert_eq!(service.as_str(), name);
            let named = Peer::named(service.instance().unwrap());
            assert_eq!(named.source(), peer.source());
        }
        let peer = inet("[::ffff:10.0.0.1]:22", "[::ffff:10.0.0.2]:50000");
        let variables = peer.variables();
        let shown: Vec<String> = variables.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(shown, ["REMOTE_ADDR=10.0.0.2", "REMOTE_PORT=50000"]);
    }
}
