// SPDX-License-Identifier: Apache-2.0
//! The start: what an earlier daemon made is found again in the kernel, what is of no living cell
//! is removed, and the tables are put in place.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use ipnet::IpNet;
use model::name::Uid;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

use crate::addresses::Pool;
use crate::conversation::{Conversation, LinkNews};
use crate::links::Link;
use crate::nft::message::chain_drops;
use crate::port::{Attached, alias};
use crate::settings::Settings;
use crate::sysctl::Changed;
use crate::worker::Worker;
use crate::{Error, Result, conntrack, links, node};

/// What a start found and did, for the node's log.
#[derive(Debug, Default)]
pub struct Started {
    /// Kernel settings that were changed.
    pub changed: Vec<Changed>,
    /// Interfaces that go on.
    pub adopted: Vec<(Uid, String)>,
    /// Interfaces of living cells that can't go on: their links are gone, or their addresses aren't
    /// of the node's ranges any more. Their cells have no network by them.
    pub lost: Vec<(Uid, String, Error)>,
    /// Links that were of no living cell, and are removed.
    pub removed: Vec<String>,
}

/// Makes the node's side and takes over what lives.
pub(crate) fn start(
    settings: Settings,
    here: OwnedFd,
    living: Vec<(Uid, Attached)>,
) -> Result<(Worker, Started)> {
    let mut route = Conversation::route()?;
    let mut netfilter = Conversation::netfilter()?;
    let before = chain_drops(&mut netfilter, &settings.bridge, "forward")?;
    let node = node::prepare(&mut route, &settings)?;
    // A node that did not forward did so for a reason; a table of an earlier start knows it still.
    let drop_others = match settings.forward_others {
        Some(others) => !others,
        None => before.unwrap_or(!node.forwarded),
    };
    let mut started = Started {
        changed: node.changed.clone(),
        ..Started::default()
    };
    let mut worker = Worker {
        pool: Pool::new(settings.bounds()),
        settings,
        here,
        route,
        netfilter,
        sockets: Conversation::sockets()?,
        news: LinkNews::open()?,
        node,
        drop_others,
        cells: BTreeMap::new(),
        tracked: BTreeSet::new(),
        stranded: false,
    };
    worker.take_over(living, &mut started)?;
    Ok((worker, started))
}

impl Worker {
    fn take_over(&mut self, living: Vec<(Uid, Attached)>, started: &mut Started) -> Result<()> {
        let there = node::links(&mut self.route)?;
        let mut kept = BTreeMap::new();
        for (uid, attached) in living {
            match self.claim(uid, &attached, &there) {
                Ok(index) => {
                    started.adopted.push((uid, attached.name.clone()));
                    kept.insert(index, (uid, attached.clone()));
                    self.cells.insert((uid, attached.name.clone()), attached);
                }
                Err(error) => started.lost.push((uid, attached.name, error)),
            }
        }
        // The rules first: what goes on is never without them.
        self.replace()?;
        let settings = self.settings.clone();
        for link in there.iter().filter(|link| settings.is_ours(link.group)) {
            if !kept.contains_key(&link.index) {
                self.gone(links::remove(&link.name))?;
                started.removed.push(link.name.clone());
            }
        }
        self.forget_neighbours()?;
        for (index, (uid, attached)) in kept {
            let named = alias(uid, &attached.name);
            let mut steps = links::settle_port(index, &attached, &named);
            steps.extend(links::know(index, self.node.bridge, &attached));
            steps.extend(links::bring_up(index, &attached.veth, attached.mtu));
            self.route.ask(steps)?;
        }
        self.forget_connections()
    }

    /// Checks a record against the kernel and takes its number; gives its link's index.
    fn claim(&mut self, uid: Uid, attached: &Attached, there: &[Link]) -> Result<u32> {
        let (expected, group) = (alias(uid, &attached.name), self.settings.group());
        let link = there.iter().find(|link| {
            link.name == attached.veth
                && link.group == group
                && link.port_of == self.node.bridge
                && link.alias.as_deref() == Some(expected.as_str())
        });
        let link = link.ok_or_else(|| Error::Answer {
            step: format!("looking for {} of cell {uid}", attached.veth),
            reason: "it isn't there".to_owned(),
        })?;
        let refuse = |reason| {
            let address = attached.addresses.first().copied();
            Err(Error::Claim {
                address: address.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)),
                uid,
                reason,
            })
        };
        let number = attached.number;
        if self.settings.addresses(number) != attached.addresses {
            return refuse("the node's ranges are others now");
        }
        let claimed = self.pool.claim(number, &attached.tenant, attached.asked);
        if claimed.is_err() {
            return refuse("another cell has it");
        }
        Ok(link.index)
    }

    /// Neighbors of the bridge that were made for cells that are gone.
    fn forget_neighbours(&mut self) -> Result<()> {
        let living: BTreeSet<IpAddr> = self.addresses().into_iter().collect();
        for family in [AddressFamily::Inet6, AddressFamily::Inet] {
            let listed = self
                .route
                .dump("listing the neighbors", links::list_neighbours(family))?;
            let bridge = self.node.bridge;
            let known = listed.iter().filter_map(|message| match message {
                Message::NewNeighbour(neighbour) => links::known_on(bridge, neighbour),
                _ => None,
            });
            let gone: Vec<IpAddr> = known.filter(|address| !living.contains(address)).collect();
            for address in gone {
                self.gone(links::forget(bridge, address))?;
            }
        }
        Ok(())
    }

    /// Connections of addresses that neither a cell nor the node has.
    fn forget_connections(&mut self) -> Result<()> {
        let mut kept: BTreeSet<IpAddr> = self.addresses().into_iter().collect();
        kept.extend(self.settings.node_addresses());
        let six = self.settings.ipv6.map(IpNet::V6);
        let four = self.settings.ipv4.map(IpNet::V4);
        let gone = |address: IpAddr| {
            let in_range = six
                .iter()
                .chain(&four)
                .any(|range| range.contains(&address));
            in_range && !kept.contains(&address)
        };
        conntrack::forget_all(&mut self.netfilter, &gone)
    }
}
