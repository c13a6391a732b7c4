// SPDX-License-Identifier: Apache-2.0
//! What the node sends to the world with: what containers are told of it, and what clients see. The
//! kernel's routes say it; no packet is sent.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The first unicast addresses of either world, IPv6 first: any that a default route leads to.
const WORLD: [(&str, &str); 2] = [("[::]:0", "[2000::1]:9"), ("0.0.0.0:0", "1.0.0.1:9")];

/// A list of all pods asks for it as often as there are pods.
const AGE: Duration = Duration::from_secs(2);

/// The node's addresses, looked up again after [`AGE`]: leases change.
#[derive(Default)]
pub(crate) struct OfNode(Mutex<Option<(Instant, Vec<IpAddr>)>>);

impl OfNode {
    /// IPv6 first; none of a family for which the node has no way to the world.
    pub(crate) fn now(&self) -> Vec<IpAddr> {
        // Nothing panics while it is held.
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, addresses)) = &*seen
            && when.elapsed() < AGE
        {
            return addresses.clone();
        }
        let addresses: Vec<IpAddr> = WORLD.iter().filter_map(|way| source(*way)).collect();
        *seen = Some((Instant::now(), addresses.clone()));
        addresses
    }
}

/// What a datagram to there would be sent with.
fn source((from, to): (&str, &str)) -> Option<IpAddr> {
    let to: SocketAddr = to.parse().ok()?;
    let socket = UdpSocket::bind(from).ok()?;
    socket.connect(to).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}
