// SPDX-License-Identifier: Apache-2.0
//! What the kernel has of ours, for an administrator's eyes and for tests: nothing is decided by
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

use crate::nft::message::elements_of;
use crate::nft::rules_inet::of_tenant;
use crate::nft::ruleset::tables;
use crate::worker::Worker;
use crate::{Result, links, node};

/// Links, neighbors and elements of rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Ports of the bridge, and links on the way to being one.
    pub ports: Vec<String>,
    /// Addresses that the node knows to be a cell's.
    pub neighbors: Vec<IpAddr>,
    /// How many elements each set of the rules has; sets without any are left out.
    pub elements: BTreeMap<String, usize>,
    /// How many addresses the node has given out.
    pub given: u32,
}

impl Worker {
    pub(crate) fn look(&mut self) -> Result<Seen> {
        let bridge = self.node.bridge;
        let ports = node::links(&mut self.route)?
            .into_iter()
            .filter(|link| self.settings.is_ours(link.group) || link.port_of == bridge)
            .map(|link| link.name);
        let mut seen = Seen {
            ports: ports.collect(),
            given: self.pool.used(),
            ..Seen::default()
        };
        for family in [AddressFamily::Inet6, AddressFamily::Inet] {
            let listed = self
                .route
                .dump("listing the neighbors", links::list_neighbours(family))?;
            seen.neighbors.extend(listed.iter().filter_map(|m| match m {
                Message::NewNeighbour(neighbour) => links::known_on(bridge, neighbour),
                _ => None,
            }));
        }
        let mut tables = tables(&self.settings, self.drop_others);
        let tenants: BTreeSet<_> = self.cells.values().map(|a| &a.tenant).collect();
        tables.extend(tenants.into_iter().map(|t| of_tenant(&self.settings, t)));
        let name = &self.settings.bridge;
        for (family, set) in tables
            .iter()
            .flat_map(|t| t.sets.iter().map(|s| (t.family, s)))
        {
            let count = elements_of(&mut self.netfilter, family, name, &set.name)?.len();
            if count > 0 {
                seen.elements.insert(set.name.to_string(), count);
            }
        }
        Ok(seen)
    }
}
