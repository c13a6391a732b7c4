// SPDX-License-Identifier: Apache-2.0
//! What the network says in the words of the runtime and of the API, and back. Pure.

use ::net::cni;
use model::error::{Error, Reason};
use model::network::{Attached, FIRST_INTERFACE, Interface, Protocol, PublishedPort};
use runtime::ports::Attach;

use super::kept::Has;

const PORTS: &str = "cell.spec.network.ports";
const ADDRESSES: &str = "cell.spec.network.addresses";
pub(super) const CNI: &str = "cell.spec.network.cni";

pub(super) const DISABLED: &str = "cell_network.enabled is false in the node's configuration";

pub(super) fn no_network(why: &str) -> Error {
    let message = format!("this node has no network of cells: {why}");
    Error::new(Reason::Unsupported, message)
        .hint("leave the cell without one (--net none); `aurae node info` says what the node lacks")
}

/// What failed, with its causes: `Display` says the first alone.
pub(super) fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

/// In the words of the API. What another tenant has is said without its name.
pub(super) fn refused(error: ::net::Error) -> Error {
    use ::net::Error as Net;
    match &error {
        Net::PortTaken { port, .. } => port_taken(port),
        Net::PortInUse { port } => port_in_use(port),
        Net::AddressTaken { address } => {
            let message = format!("the address {address} isn't free");
            Error::new(Reason::Conflict, message)
                .field(ADDRESSES)
                .hint("ask for another address, or for none: a free one is found")
        }
        Net::Request {
            field: "addresses",
            reason,
        } => Error::invalid(ADDRESSES, reason.clone()),
        Net::Request { reason, .. } => Error::invalid(PORTS, reason.clone()),
        Net::Full { .. } | Net::TenantFull { .. } => {
            Error::new(Reason::LimitExceeded, error.to_string())
        }
        _ => {
            let message = format!(
                "the cell can't be attached to the network: {}",
                said(&error)
            );
            Error::new(Reason::Internal, message).errno(error.errno())
        }
    }
}

pub(super) fn port_taken(port: &str) -> Error {
    let message = format!("port {port} of the node leads to another cell");
    Error::new(Reason::Conflict, message)
        .field(PORTS)
        .hint("publish another port, or stop the cell that has it")
}

pub(super) fn port_in_use(port: &str) -> Error {
    let message = format!("a program of the node listens on its port {port}");
    Error::new(Reason::Conflict, message)
        .field(PORTS)
        .hint("publish another port")
}

/// What a plugin said, or what could not be done with it.
pub(super) fn plugins_refused(network: &str, error: &cni::Error) -> Error {
    let message = format!(
        "the cell can't be attached to the network {network} of CNI: {}",
        said(error)
    );
    let reason = match error {
        cni::Error::Timeout { .. } => Reason::Deadline,
        _ => Reason::Degraded,
    };
    Error::new(reason, message).field(CNI)
}

pub(super) fn request(attach: &Attach) -> Result<::net::Attach, Error> {
    let netns = attach.netns.try_clone();
    let netns = netns.map_err(|e| Error::internal(format!("the cell's network: {e}")))?;
    Ok(::net::Attach {
        uid: attach.uid,
        tenant: attach.tenant.clone(),
        netns,
        name: FIRST_INTERFACE.to_owned(),
        default_route: true,
        addresses: attach.network.addresses.clone(),
        host_ports: attach
            .network
            .ports
            .iter()
            .map(|port| host_port(port, attach.on_loopback))
            .collect(),
    })
}

pub(super) fn host_port(port: &PublishedPort, on_loopback: bool) -> ::net::HostPort {
    ::net::HostPort {
        protocol: match port.protocol {
            Protocol::Tcp => ::net::Protocol::Tcp,
            Protocol::Udp => ::net::Protocol::Udp,
            Protocol::Sctp => ::net::Protocol::Sctp,
        },
        address: port.address,
        host_port: port.host_port,
        port: port.port,
        on_loopback,
    }
}

pub(super) fn published(port: &::net::HostPort) -> PublishedPort {
    PublishedPort {
        protocol: match port.protocol {
            ::net::Protocol::Tcp => Protocol::Tcp,
            ::net::Protocol::Udp => Protocol::Udp,
            ::net::Protocol::Sctp => Protocol::Sctp,
        },
        address: port.address,
        host_port: port.host_port,
        port: port.port,
    }
}

/// A port of CNI's `portMappings`, as they were told to plugins.
pub(super) fn of_mapping(mapping: &serde_json::Value) -> Option<PublishedPort> {
    let number = |field: &str| u16::try_from(mapping.get(field)?.as_u64()?).ok();
    let text = |field: &str| mapping.get(field).and_then(serde_json::Value::as_str);
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    Some(PublishedPort {
        protocol: all
            .into_iter()
            .find(|it| text("protocol") == Some(it.as_str()))?,
        address: text("hostIP").and_then(|text| text.parse().ok()),
        host_port: number("hostPort")?,
        port: number("containerPort")?,
    })
}

/// What clients see of it: the bridge's interface first.
pub(super) fn shown(has: &Has) -> Attached {
    let bridge = has.bridge.iter().map(|attached| Interface {
        name: attached.name.clone(),
        addresses: attached.addresses.clone(),
        gateways: attached.gateways.clone(),
        mac: attached.mac.to_string(),
        cni: String::new(),
    });
    let of_bridge = has.bridge.iter().flat_map(|it| &it.host_ports);
    let of_plugins = has.cni.iter().flat_map(|it| it.ports.iter().cloned());
    Attached {
        interfaces: bridge
            .chain(has.cni.iter().map(|it| it.interface.clone()))
            .collect(),
        ports: of_bridge.map(published).chain(of_plugins).collect(),
    }
}

/// What a network's plugins say of the cell's interface: their words, so no more than a few.
pub(super) fn interface(network: &str, name: &str, outcome: &cni::Outcome) -> Interface {
    const MOST: usize = 16;
    let own = |it: &&cni::Interface| it.name == name && !it.sandbox.is_empty();
    let mac = outcome.interfaces.iter().find(own).map(|it| &it.mac);
    let mac = mac.filter(|mac| mac.len() <= 32 && mac.bytes().all(|b| b.is_ascii_graphic()));
    let addresses = outcome.addresses.iter().take(MOST);
    Interface {
        name: name.to_owned(),
        gateways: addresses.clone().filter_map(|it| it.gateway).collect(),
        addresses: addresses.map(|it| it.address.addr()).collect(),
        mac: mac.cloned().unwrap_or_default(),
        cni: network.to_owned(),
    }
}
