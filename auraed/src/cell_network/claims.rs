// SPDX-License-Identifier: Apache-2.0
//! Which ports of the node are whose, of the bridge's cells and of those that plugins publish: the
//! two know nothing of each other, and a connection must not be led to either by chance.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::error::{Error, Reason};
use model::name::Uid;
use model::network::PublishedPort;

use super::words::{host_port, port_in_use, port_taken, refused};

type Ports = Arc<Mutex<HashMap<Uid, (By, Vec<PublishedPort>)>>>;

/// Who leads ports of the node to a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// Crate `net`, which sees to it that no two of its cells have one, and in which order.
    Bridge,
    Plugins,
}

/// See the module.
#[derive(Default)]
pub(super) struct Claims(Ports);

/// The ports of a cell; they are free when this is dropped.
pub(super) struct Claim {
    ports: Ports,
    uid: Uid,
}

fn lock(ports: &Ports) -> MutexGuard<'_, HashMap<Uid, (By, Vec<PublishedPort>)>> {
    // Nothing panics while it is held.
    ports.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claims {
    /// Claims ports for a cell that is to be attached.
    ///
    /// # Errors
    /// `CONFLICT`: another cell has one. Whose isn't told.
    pub(super) fn take(&self, uid: Uid, by: By, ports: Vec<PublishedPort>) -> Result<Claim, Error> {
        let mut all = lock(&self.0);
        let others = all
            .values()
            .filter(|(other, _)| (by, *other) != (By::Bridge, By::Bridge));
        for other in others.flat_map(|(_, ports)| ports) {
            if let Some(port) = ports.iter().find(|port| port.overlaps(other)) {
                let text = format!("{}/{}", port.host_port, port.protocol.as_str());
                return Err(port_taken(&text));
            }
        }
        all.insert(uid, (by, ports));
        drop(all);
        Ok(self.claim(uid))
    }

    /// What a cell that lives has, or that is to be removed yet, is its own.
    pub(super) fn of_living(&self, uid: Uid, by: By, ports: Vec<PublishedPort>) -> Claim {
        lock(&self.0).insert(uid, (by, ports));
        self.claim(uid)
    }

    fn claim(&self, uid: Uid) -> Claim {
        let ports = self.0.clone();
        Claim { ports, uid }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.ports).remove(&self.uid);
    }
}

/// Whether plugins may publish these. Theirs lead what the node's own programs send to 127.0.0.1 to
/// the cell, too, and the node can't tell them not to.
///
/// # Errors
/// `PERMISSION_DENIED` where no administrator asks, `CONFLICT` where a program of the node listens.
pub(super) async fn check_plugins(
    ports: &[PublishedPort],
    by_administrator: bool,
) -> Result<(), Error> {
    if ports.is_empty() {
        return Ok(());
    }
    if !by_administrator {
        let message = "ports that plugins of CNI publish are for administrators of the node";
        let error = Error::new(Reason::PermissionDenied, message);
        return Err(error
            .field("cell.spec.network.ports")
            .hint("publish ports on the bridge: mode BRIDGE (--net bridge)"));
    }
    // The kernel's list of listeners: to try would be to listen there oneself for a moment.
    let ports: Vec<_> = ports.iter().map(|port| host_port(port, true)).collect();
    let looked = tokio::task::spawn_blocking(move || ::net::listened_on(&ports)).await;
    let found = looked.map_err(|error| Error::internal(error.to_string()))?;
    match found.map_err(refused)? {
        Some(port) => Err(port_in_use(&port.to_string())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::network::Protocol;
    use std::net::{IpAddr, Ipv4Addr, TcpListener};

    #[test]
    fn a_port_is_one_cells_until_that_is_gone() {
        let claims = Claims::default();
        let port = |host_port| PublishedPort {
            protocol: Protocol::Tcp,
            address: None,
            host_port,
            port: 80,
        };
        let (one, two) = (Uid([1; 16]), Uid([2; 16]));
        let (bridge, plugins) = (By::Bridge, By::Plugins);
        for (first_by, then_by) in [(bridge, plugins), (plugins, bridge), (plugins, plugins)] {
            let first = claims.take(one, first_by, vec![port(8080)]).unwrap();
            let refused = claims.take(two, then_by, vec![port(8081), port(8080)]);
            assert_eq!(refused.err().unwrap().reason, Reason::Conflict);
            let _second = claims.take(two, then_by, vec![port(8081)]).unwrap();
            drop(first);
            claims.take(one, first_by, vec![port(8080)]).unwrap();
        }
        // Of the bridge's two the second waits for the first one's end, in crate `net`.
        let _first = claims.take(one, bridge, vec![port(8080)]).unwrap();
        claims.take(two, bridge, vec![port(8080)]).unwrap();
    }

    #[tokio::test]
    async fn a_port_with_a_listener_is_no_plugins() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = PublishedPort {
            protocol: Protocol::Tcp,
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            host_port: listener.local_addr().unwrap().port(),
            port: 80,
        };
        let ports = [port];
        let refused = check_plugins(&ports, true).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Conflict);
        let refused = check_plugins(&ports, false).await.unwrap_err();
        assert_eq!(refused.reason, Reason::PermissionDenied);
        check_plugins(&[], false).await.unwrap();
    }
}
