// SPDX-License-Identifier: Apache-2.0
//! Whose a link is that the configuration doesn't name: ours, unless another manager has it.
//!
//! Another manager is one that says so in its state (systemd-networkd, NetworkManager, ifupdown),
//! or left a trace on the link: a master, an address or a route that neither the kernel nor a
//! router advertisement made. What an earlier daemon of this boot has taken stays ours; the file
//! of [`Ours`] says which links these are. It decides about a link once, when the link is first
//! seen.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol};
use rtnetlink::{Handle, RouteMessageBuilder};

use super::NetError;
use super::link::LinkView;

/// Links that were taken without being configured, by their indexes: a link's index is used once in
/// a boot. The file is in the run directory, which a boot empties.
#[derive(Debug)]
pub(super) struct Ours {
    file: PathBuf,
    taken: BTreeSet<u32>,
}

impl Ours {
    /// What an earlier daemon has noted. A file that isn't there is none.
    pub(super) fn read(file: PathBuf) -> Self {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let taken = text.lines().filter_map(|line| line.parse().ok()).collect();
        Self { file, taken }
    }

    pub(super) fn has(&self, index: u32) -> bool {
        self.taken.contains(&index)
    }

    /// Notes one more.
    pub(super) fn take(&mut self, index: u32) {
        if self.taken.insert(index) {
            self.write();
        }
    }

    pub(super) fn forget(&mut self, index: u32) {
        if self.taken.remove(&index) {
            self.write();
        }
    }

    fn write(&self) {
        let text: String = self
            .taken
            .iter()
            .map(|index| format!("{index}\n"))
            .collect();
        let new = self.file.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.file));
        if let Err(error) = written {
            let file = self.file.display();
            tracing::warn!(%file, %error, "network: the next daemon may take a link for another's");
        }
    }
}

/// Who else has the link; `None` where no manager does. `run` is `/run`.
///
/// # Errors
/// The kernel doesn't tell its addresses or routes.
pub(super) async fn manager(
    handle: &Handle,
    view: &LinkView,
    message: &LinkMessage,
    run: &Path,
) -> Result<Option<&'static str>, NetError> {
    if is_port(message) {
        return Ok(Some("it is a port of another link"));
    }
    if let Some(who) = by_state(run, view) {
        return Ok(Some(who));
    }
    let addresses = handle.address().get().set_link_index_filter(view.index);
    let addresses: Vec<_> = addresses
        .execute()
        .try_collect()
        .await
        .map_err(|e| NetError::Ask("addresses", e))?;
    if addresses.iter().any(|message| is_set(message, view.index)) {
        return Ok(Some("it has an address already"));
    }
    let families = [
        RouteMessageBuilder::<Ipv4Addr>::new().build(),
        RouteMessageBuilder::<Ipv6Addr>::new().build(),
    ];
    for family in families {
        let routes: Vec<_> = handle
            .route()
            .get(family)
            .execute()
            .try_collect()
            .await
            .map_err(|e| NetError::Ask("routes", e))?;
        if routes.iter().any(|route| is_made(route, view.index)) {
            return Ok(Some("it has a route already"));
        }
    }
    Ok(None)
}

fn is_port(message: &LinkMessage) -> bool {
    let master = |a: &LinkAttribute| matches!(a, LinkAttribute::Controller(index) if *index > 0);
    message.attributes.iter().any(master)
}

/// What managers say in their files.
fn by_state(run: &Path, view: &LinkView) -> Option<&'static str> {
    let text = |path: String| std::fs::read_to_string(run.join(path)).unwrap_or_default();
    let networkd = text(format!("systemd/netif/links/{}", view.index));
    let state = networkd
        .lines()
        .find_map(|l| l.strip_prefix("ADMIN_STATE="));
    if state.is_some_and(|state| state != "unmanaged") {
        return Some("systemd-networkd manages it");
    }
    let device = text(format!("NetworkManager/devices/{}", view.index));
    if device.lines().any(|line| line == "managed=true") {
        return Some("NetworkManager manages it");
    }
    let up = text("network/ifstate".to_owned());
    let name = |line: &str| line.split('=').next().is_some_and(|name| name == view.name);
    up.lines().any(name).then_some("ifupdown manages it")
}

/// Whether a manager has set the address: the kernel makes those of loopback and of links by
/// itself, and of advertised prefixes those that aren't permanent.
fn is_set(message: &AddressMessage, index: u32) -> bool {
    let header = &message.header;
    let link_local = message.attributes.iter().any(
        |a| matches!(a, AddressAttribute::Address(std::net::IpAddr::V6(a)) if a.is_unicast_link_local()),
    );
    header.index == index
        && header.scope == AddressScope::Universe
        && !link_local
        && (header.family == AddressFamily::Inet
            || header.flags.contains(AddressHeaderFlags::Permanent))
}

/// Whether a manager has made the route out of that link.
fn is_made(route: &RouteMessage, index: u32) -> bool {
    let ours = [
        RouteProtocol::Unspec,
        RouteProtocol::IcmpRedirect,
        RouteProtocol::Kernel,
        RouteProtocol::Ra,
    ];
    let leaves = |a: &RouteAttribute| matches!(a, RouteAttribute::Oif(oif) if *oif == index);
    !ours.contains(&route.header.protocol) && route.attributes.iter().any(leaves)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_its_bridges() {
        let mut message = LinkMessage::default();
        assert!(!is_port(&message));
        message.attributes.push(LinkAttribute::Controller(0));
        assert!(!is_port(&message));
        message.attributes.push(LinkAttribute::Controller(7));
        assert!(is_port(&message));
    }

    #[test]
    fn a_route_that_a_manager_made_is_told_from_the_kernels() {
        let mut route = RouteMessage::default();
        route.attributes.push(RouteAttribute::Oif(3));
        for (protocol, made) in [
            (RouteProtocol::Kernel, false),
            (RouteProtocol::Ra, false),
            (RouteProtocol::Boot, true),
            (RouteProtocol::Static, true),
            (RouteProtocol::Dhcp, true),
        ] {
            route.header.protocol = protocol;
            assert_eq!(is_made(&route, 3), made, "{protocol:?}");
            assert!(!is_made(&route, 4));
        }
    }
}
