// SPDX-License-Identifier: Apache-2.0
//! The network of a cell, from the wire and back.

use std::net::IpAddr;

use model::error::{Error, Result, Within};
use model::network::{
    Attached, CniNetwork, Dns, HostAlias, Interface, Mode, Network, Protocol, PublishedPort,
};

use super::scalar::enumeration;
use crate::runtime::v0 as wire;

pub(super) fn network(message: wire::Network) -> Result<Network> {
    use wire::network::Mode as Wire;
    let mode = match enumeration("mode", message.mode)? {
        Wire::Unspecified => None,
        Wire::None => Some(Mode::None),
        Wire::Bridge => Some(Mode::Bridge),
        Wire::Cni => Some(Mode::Cni),
    };
    let ports = message.ports.into_iter().enumerate();
    let ports = ports.map(|(i, it)| port(it).within(&format!("ports[{i}]")));
    let hosts = message.hosts.into_iter().enumerate();
    let hosts = hosts.map(|(i, it)| alias(it).within(&format!("hosts[{i}]")));
    let servers = message.dns_servers.iter().enumerate();
    let servers = servers.map(|(i, text)| address(&format!("dns_servers[{i}]"), text));
    let addresses = message.addresses.iter().enumerate();
    let addresses = addresses.map(|(i, text)| address(&format!("addresses[{i}]"), text));
    Ok(Network {
        mode,
        ports: ports.collect::<Result<_>>()?,
        dns: Dns {
            servers: servers.collect::<Result<_>>()?,
            searches: message.dns_searches,
            options: message.dns_options,
            add: message.dns_add,
        },
        hosts: hosts.collect::<Result<_>>()?,
        addresses: addresses.collect::<Result<_>>()?,
        domain: message.domain,
        cni: message.cni.into_iter().map(cni).collect(),
    })
}

fn cni(message: wire::CniNetwork) -> CniNetwork {
    CniNetwork {
        name: message.name,
        interface: message.interface,
    }
}

fn port(message: wire::PublishedPort) -> Result<PublishedPort> {
    use wire::published_port::Protocol as Wire;
    let number = |field: &str, number: u32| {
        let number = u16::try_from(number).ok().filter(|number| *number > 0);
        number.ok_or_else(|| Error::invalid(field, "must be from 1 to 65535"))
    };
    Ok(PublishedPort {
        protocol: match enumeration("protocol", message.protocol)? {
            Wire::Unspecified | Wire::Tcp => Protocol::Tcp,
            Wire::Udp => Protocol::Udp,
            Wire::Sctp => Protocol::Sctp,
        },
        address: match message.address.as_str() {
            "" => None,
            text => Some(address("address", text)?),
        },
        host_port: number("host_port", message.host_port)?,
        port: number("port", message.port)?,
    })
}

fn alias(message: wire::HostAlias) -> Result<HostAlias> {
    if message.names.is_empty() {
        return Err(Error::invalid("names", "must have one"));
    }
    Ok(HostAlias {
        address: address("address", &message.address)?,
        names: message.names,
    })
}

fn address(field: &str, text: &str) -> Result<IpAddr> {
    let parsed = text.parse();
    parsed.map_err(|_| Error::invalid(field, format!("{text:?} is no IPv4 or IPv6 address")))
}

pub(super) fn to_network(network: &Network) -> wire::Network {
    use wire::network::Mode as Wire;
    let mode = match network.mode {
        None => Wire::Unspecified,
        Some(Mode::None) => Wire::None,
        Some(Mode::Bridge) => Wire::Bridge,
        Some(Mode::Cni) => Wire::Cni,
    };
    let hosts = network.hosts.iter().map(|host| wire::HostAlias {
        address: host.address.to_string(),
        names: host.names.clone(),
    });
    let cni = network.cni.iter().map(|it| wire::CniNetwork {
        name: it.name.clone(),
        interface: it.interface.clone(),
    });
    wire::Network {
        mode: mode.into(),
        ports: network.ports.iter().map(to_port).collect(),
        dns_servers: network.dns.servers.iter().map(IpAddr::to_string).collect(),
        dns_searches: network.dns.searches.clone(),
        dns_options: network.dns.options.clone(),
        hosts: hosts.collect(),
        addresses: network.addresses.iter().map(IpAddr::to_string).collect(),
        domain: network.domain.clone(),
        dns_add: network.dns.add,
        cni: cni.collect(),
    }
}

fn to_port(port: &PublishedPort) -> wire::PublishedPort {
    use wire::published_port::Protocol as Wire;
    let protocol = match port.protocol {
        Protocol::Tcp => Wire::Unspecified,
        Protocol::Udp => Wire::Udp,
        Protocol::Sctp => Wire::Sctp,
    };
    wire::PublishedPort {
        protocol: protocol.into(),
        address: port.address.map(|it| it.to_string()).unwrap_or_default(),
        host_port: port.host_port.into(),
        port: port.port.into(),
    }
}

/// What another node says that something there is attached to.
pub(super) fn attached(message: wire::NetworkStatus) -> Result<Attached> {
    let addresses = |field: &str, list: Vec<String>| {
        let all = list.iter().map(|text| address(field, text));
        all.collect::<Result<Vec<_>>>()
    };
    let interfaces = message.interfaces.into_iter().map(|it| {
        Ok(Interface {
            name: it.name,
            addresses: addresses("interfaces.addresses", it.addresses)?,
            gateways: addresses("interfaces.gateways", it.gateways)?,
            mac: it.mac,
            cni: it.cni,
        })
    });
    Ok(Attached {
        interfaces: interfaces.collect::<Result<_>>()?,
        ports: message.ports.into_iter().map(port).collect::<Result<_>>()?,
    })
}

pub(super) fn to_status(attached: &Attached) -> wire::NetworkStatus {
    let texts = |list: &[IpAddr]| list.iter().map(IpAddr::to_string).collect();
    let interfaces = attached.interfaces.iter();
    let interfaces = interfaces.map(|interface| wire::Interface {
        name: interface.name.clone(),
        addresses: texts(&interface.addresses),
        gateways: texts(&interface.gateways),
        mac: interface.mac.clone(),
        cni: interface.cni.clone(),
    });
    wire::NetworkStatus {
        interfaces: interfaces.collect(),
        ports: attached.ports.iter().map(to_port).collect(),
    }
}
