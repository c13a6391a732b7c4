// SPDX-License-Identifier: Apache-2.0
//! What one interface of a cell adds to the sets, and what the settings do. Pure.

use std::net::IpAddr;

use super::expression::Name;
use super::message::{Element, Family, Value};
use super::rules_bridge;
use super::ruleset::interface;
use super::sets::{self, chain_of, members};
use crate::port::{Attached, HostPort, Protocol};
use crate::settings::Settings;

/// An element and where it belongs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Placed {
    pub(crate) family: Family,
    pub(crate) set: Name,
    pub(crate) element: Element,
}

fn placed(family: Family, set: impl Into<Name>, key: Vec<u8>, value: Option<Value>) -> Placed {
    Placed {
        family,
        set: set.into(),
        element: Element { key, value },
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The name of the set for this address's family.
fn of(names: [&'static str; 2], address: IpAddr) -> &'static str {
    let [six, four] = names;
    if address.is_ipv4() { four } else { six }
}

/// A protocol and a port as two words.
fn service(protocol: Protocol, port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    vec![protocol.number(), 0, 0, 0, high, low, 0, 0]
}

/// The elements of one interface.
pub(crate) fn of_interface(attached: &Attached) -> Vec<Placed> {
    let tenant = &attached.tenant;
    let mut all = pins(attached);
    for address in &attached.addresses {
        let bytes = octets(*address);
        let inet = Family::Inet;
        all.push(placed(
            inet,
            of(sets::TENANTS, *address),
            bytes.clone(),
            Some(Value::Jump(chain_of(tenant))),
        ));
        let twice = [bytes.clone(), bytes.clone()].concat();
        let set = members(tenant, address.is_ipv4());
        all.push(placed(inet, set, bytes, None));
        all.push(placed(inet, of(sets::SELVES, *address), twice, None));
        all.extend(
            attached
                .host_ports
                .iter()
                .flat_map(|port| published(port, *address)),
        );
    }
    all
}

/// What the port may send from.
fn pins(attached: &Attached) -> Vec<Placed> {
    let pin = |set: &'static str, value: &[u8]| {
        let key = [interface(&attached.veth), value.to_vec()].concat();
        placed(Family::Bridge, set, key, None)
    };
    let mut mac = attached.mac.0.to_vec();
    mac.resize(8, 0);
    let mut all = vec![pin(rules_bridge::MACS, &mac)];
    for address in &attached.addresses {
        let set = of([rules_bridge::SOURCES6, rules_bridge::SOURCES4], *address);
        all.push(pin(set, &octets(*address)));
    }
    if attached.addresses.iter().any(IpAddr::is_ipv6) {
        let link_local = attached.mac.link_local();
        all.push(pin(rules_bridge::SOURCES6, &link_local.octets()));
    }
    all
}

/// A port of the node that leads to this address, if it is of its family. What is at every address
/// is not at a loopback one, but where that was asked for.
fn published(port: &HostPort, to: IpAddr) -> Vec<Placed> {
    let service_at = service(port.protocol, port.host_port);
    let [high, low] = port.port.to_be_bytes();
    let value = [octets(to), vec![high, low, 0, 0]].concat();
    let value = Some(Value::Bytes(value));
    let at_one = |at: IpAddr| {
        let key = [octets(at), service_at.clone()].concat();
        placed(Family::Inet, of(sets::PORTS_AT, to), key, value.clone())
    };
    match port.address {
        Some(at) if at.is_ipv4() != to.is_ipv4() => Vec::new(),
        Some(at) if !at.is_unspecified() => vec![at_one(at)],
        _ => {
            let loopback = port.loopback().filter(|_| to.is_ipv4());
            let loopback = loopback.map(|at| at_one(at.into()));
            let key = service_at.clone();
            let all = placed(Family::Inet, of(sets::PORTS, to), key, value.clone());
            loopback.into_iter().chain([all]).collect()
        }
    }
}

/// The elements that the settings alone bring.
pub(crate) fn of_settings(settings: &Settings) -> Vec<Placed> {
    let mut all: Vec<Placed> = settings
        .node_ports
        .iter()
        .map(|(protocol, port)| {
            let key = service(*protocol, *port);
            placed(Family::Inet, sets::NODE_PORTS, key, None)
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Mac;

    fn attached(number: u32, host_ports: Vec<HostPort>) -> Attached {
        let settings = Settings::for_node(b"x");
        Attached {
            tenant: "a".parse().unwrap(),
            name: "eth0".to_owned(),
            number,
            addresses: settings.addresses(number),
            gateways: Vec::new(),
            default_route: true,
            mac: Mac::of(number),
            veth: settings.veth(number),
            mtu: 1500,
            host_ports,
            asked: false,
        }
    }

    #[test]
    fn two_interfaces_share_no_element() {
        let mut both = of_interface(&attached(2, Vec::new()));
        both.extend(of_interface(&attached(3, Vec::new())));
        let count = both.len();
        both.sort();
        both.dedup();
        assert_eq!(both.len(), count);
        // Hardware address, three sources, and three of each family.
        assert_eq!(count, 2 * (4 + 6));
    }

    #[test]
    fn a_port_is_published_in_the_families_it_was_asked_for() {
        let port = |address: Option<&str>| HostPort {
            protocol: Protocol::Tcp,
            address: address.map(|text| text.parse().unwrap()),
            host_port: 8080,
            port: 80,
            on_loopback: false,
        };
        let sets_of = |port| -> Vec<String> {
            of_interface(&attached(2, vec![port]))
                .into_iter()
                .filter(|p| p.set.starts_with("ports"))
                .map(|p| p.set.into_owned())
                .collect()
        };
        let sets = |address| sets_of(port(address));
        let asked = HostPort {
            on_loopback: true,
            ..port(None)
        };
        assert_eq!(sets_of(asked), ["ports6", "ports4_at", "ports4"]);
        assert_eq!(sets(None), ["ports6", "ports4"]);
        assert_eq!(sets(Some("0.0.0.0")), ["ports4"]);
        assert_eq!(sets(Some("192.0.2.1")), ["ports4_at"]);
        assert_eq!(sets(Some("2001:db8::1")), ["ports6_at"]);
    }
}
