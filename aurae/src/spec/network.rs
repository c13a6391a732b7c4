// SPDX-License-Identifier: Apache-2.0
//! Flags that describe the network of a cell, for `run` and `cell run`, in docker's words.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use api::runtime::v0::{CniNetwork, HostAlias, Network, PublishedPort, network, published_port};

const PORT: &str = "write [ADDRESS:]PORT:PORT[/tcp|udp|sctp]: the node's port and the cell's, as \
                    in 8080:80 or 127.0.0.1:5353:53/udp";

/// What it is attached to.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "The network")]
pub(crate) struct NetworkFlags {
    /// What it is attached to: a container to the bridge where the node has one
    #[arg(long, visible_alias = "network", value_enum, value_name = "NETWORK")]
    pub(crate) net: Option<Net>,
    /// A port of the node that leads to it: [ADDRESS:]PORT:PORT[/PROTOCOL]
    #[arg(short, long, value_name = "PORTS", value_parser = parse_port)]
    pub(crate) publish: Vec<PublishedPort>,
    /// A name server of a container, instead of the node's
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) dns: Vec<IpAddr>,
    /// A search domain of a container
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) dns_search: Vec<String>,
    /// A name in a container's /etc/hosts: NAME:ADDRESS
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    pub(crate) add_host: Vec<HostAlias>,
    /// Its IPv4 address, of the node's range
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Option<Ipv4Addr>,
    /// Its IPv6 address, of the node's range
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip6: Option<Ipv6Addr>,
    /// A network of CNI: NETWORK[:INTERFACE]; with --net cni those alone
    #[arg(long, value_name = "NETWORK", value_parser = parse_cni)]
    pub(crate) cni: Vec<CniNetwork>,
}

/// What a cell is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Net {
    /// Nothing but its loopback
    None,
    /// The node's network of cells
    Bridge,
    /// Networks of CNI: those of --cni, or the node's default one
    Cni,
    /// The node's own network: the same as --share net
    Host,
}

impl NetworkFlags {
    /// What the cell asks for; none where no flag says anything.
    pub(crate) fn build(&self) -> Option<Network> {
        let mode = match self.net {
            None | Some(Net::Host) => network::Mode::Unspecified,
            Some(Net::None) => network::Mode::None,
            Some(Net::Bridge) => network::Mode::Bridge,
            Some(Net::Cni) => network::Mode::Cni,
        };
        let four = self.ip.map(|address| address.to_string());
        let six = self.ip6.map(|address| address.to_string());
        let asked = Network {
            mode: mode.into(),
            ports: self.publish.clone(),
            dns_servers: self.dns.iter().map(IpAddr::to_string).collect(),
            dns_searches: self.dns_search.clone(),
            dns_options: Vec::new(),
            hosts: self.add_host.clone(),
            addresses: six.into_iter().chain(four).collect(),
            cni: self.cni.clone(),
            ..Network::default()
        };
        (asked != Network::default()).then_some(asked)
    }

    /// Whether the node's network namespace is to be shared.
    pub(crate) fn is_host(&self) -> bool {
        self.net == Some(Net::Host)
    }

    /// The first flag that was given, to say that it doesn't fit.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.net.is_some(), "--net"),
            (!self.publish.is_empty(), "--publish"),
            (!self.dns.is_empty(), "--dns"),
            (!self.dns_search.is_empty(), "--dns-search"),
            (!self.add_host.is_empty(), "--add-host"),
            (self.ip.is_some(), "--ip"),
            (self.ip6.is_some(), "--ip6"),
            (!self.cni.is_empty(), "--cni"),
        ];
        let mut given = given.iter().filter(|(is_given, _)| *is_given);
        given.next().map(|(_, flag)| *flag)
    }
}

fn parse_port(text: &str) -> Result<PublishedPort, String> {
    let (numbers, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol {
        // The contract's default, so that what comes back is what was sent.
        "tcp" => published_port::Protocol::Unspecified,
        "udp" => published_port::Protocol::Udp,
        "sctp" => published_port::Protocol::Sctp,
        other => return Err(format!("{other:?} is no protocol; {PORT}")),
    };
    let number = |text: &str| {
        let number = text.parse::<u16>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("{text:?} is no port; {PORT}"))
    };
    let (rest, port) = numbers.rsplit_once(':').ok_or(PORT)?;
    let (address, host_port) = rest.rsplit_once(':').unwrap_or(("", rest));
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    if !bare.is_empty() && bare.parse::<IpAddr>().is_err() {
        return Err(format!("{address:?} is no address; {PORT}"));
    }
    Ok(PublishedPort {
        protocol: protocol.into(),
        address: bare.to_owned(),
        host_port: number(host_port)?.into(),
        port: number(port)?.into(),
    })
}

fn parse_cni(text: &str) -> Result<CniNetwork, String> {
    let (name, interface) = text.split_once(':').unwrap_or((text, ""));
    match name {
        "" => Err("write NETWORK or NETWORK:INTERFACE, as in storage:net1".to_owned()),
        name => Ok(CniNetwork {
            name: name.to_owned(),
            interface: interface.to_owned(),
        }),
    }
}

fn parse_host(text: &str) -> Result<HostAlias, String> {
    let parts = text.split_once([':', '=']);
    let (name, address) = parts.ok_or("write NAME:ADDRESS, as in db:192.0.2.7")?;
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    let address: IpAddr = bare
        .parse()
        .map_err(|_| format!("{address:?} is no address; write NAME:ADDRESS"))?;
    Ok(HostAlias {
        address: address.to_string(),
        names: vec![name.to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_docker_s() {
        let port = parse_port("8080:80").unwrap();
        assert_eq!((port.host_port, port.port), (8080, 80));
        let port = parse_port("[fd00::1]:53:5353/udp").unwrap();
        assert_eq!((port.address.as_str(), port.host_port), ("fd00::1", 53));
        let port = parse_port("127.0.0.1:8080:80").unwrap();
        assert_eq!((port.address.as_str(), port.port), ("127.0.0.1", 80));
        for text in [
            "80",
            "Nice=5",
            "0:80",
            "8080:70000",
            "a:1:2",
            "8080:80/icmp",
        ] {
            parse_port(text).unwrap_err();
        }
    }

    #[test]
    fn hosts_have_either_family() {
        assert_eq!(parse_host("db:fd00::7").unwrap().address, "fd00::7");
        assert_eq!(parse_host("db:192.0.2.7").unwrap().names, ["db"]);
        parse_host("db").unwrap_err();
    }

    #[test]
    fn a_network_of_cni_may_name_its_interface() {
        assert_eq!(parse_cni("lan").unwrap().interface, "");
        let network = parse_cni("lan:net7").unwrap();
        assert_eq!(
            (network.name.as_str(), network.interface.as_str()),
            ("lan", "net7")
        );
        parse_cni(":net7").unwrap_err();
    }
}
