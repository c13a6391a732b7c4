// SPDX-License-Identifier: Apache-2.0
//! The addresses, routes and name servers of a link in one form, from a static table, a DHCPv4 or a
//! DHCPv6 lease. Pure; the clients make leases, `apply` sets them in the kernel.

use std::net::{IpAddr, Ipv4Addr};

use mozim::{DhcpV4Lease, DhcpV6Lease};

use super::config::{LinkConfig, Prefix};

/// Addresses, routes and name servers from one source for one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lease {
    pub(super) addresses: Vec<Address>,
    pub(super) routes: Vec<Route>,
    pub(super) dns: Vec<NameServer>,
    pub(super) search: Vec<String>,
    pub(super) mtu: Option<u32>,
}

/// A name server; a link-local one means nothing without its link.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NameServer {
    address: IpAddr,
    link: Option<String>,
}

impl NameServer {
    /// The server at this address, on the link of that name. Only a link-local address needs the
    /// name.
    pub(super) fn on_link(address: IpAddr, name: &str) -> Self {
        let local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        Self {
            address,
            link: local.then(|| name.to_owned()),
        }
    }
}

impl From<IpAddr> for NameServer {
    fn from(address: IpAddr) -> Self {
        Self {
            address,
            link: None,
        }
    }
}

impl std::fmt::Display for NameServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.link {
            Some(link) => write!(f, "{}%{link}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// An address and how long it is good for, in seconds; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Address {
    pub(super) prefix: Prefix,
    pub(super) valid: Option<u32>,
    pub(super) preferred: Option<u32>,
}

/// A route through this link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Route {
    pub(super) to: Prefix,
    /// `None`: the destination is on the link itself.
    pub(super) via: Option<IpAddr>,
    pub(super) metric: u32,
}

const EVERYWHERE_V4: Prefix = Prefix {
    address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    length: 0,
};

impl Lease {
    /// The lease of a link's configuration.
    pub(super) fn of_config(config: &LinkConfig) -> Self {
        let forever = |prefix: &Prefix| Address {
            prefix: *prefix,
            valid: None,
            preferred: None,
        };
        let defaults = config
            .gateway
            .iter()
            .map(|via| default_route(*via, config.metric));
        let routes = config.route.iter().map(|route| Route {
            to: route.to,
            via: route.via,
            metric: route.metric.unwrap_or(config.metric),
        });
        Self {
            addresses: config.address.iter().map(forever).collect(),
            routes: routes.chain(defaults).collect(),
            mtu: config.mtu,
            ..Self::default()
        }
    }

    /// The lease of a DHCPv4 server. Classless routes take the place of routers (RFC 3442).
    pub(super) fn of_dhcp4(lease: &DhcpV4Lease, metric: u32) -> Self {
        let length = u32::from(lease.subnet_mask).leading_ones();
        let prefix = Prefix {
            address: IpAddr::V4(lease.yiaddr),
            length: u8::try_from(length).unwrap_or(32),
        };
        let seconds = (lease.lease_time_sec != u32::MAX).then_some(lease.lease_time_sec);
        let routes = match &lease.classless_routes {
            Some(routes) => routes
                .iter()
                .map(|route| Route {
                    to: Prefix {
                        address: IpAddr::V4(route.destination),
                        length: route.prefix_length,
                    },
                    via: (!route.router.is_unspecified()).then_some(IpAddr::V4(route.router)),
                    metric,
                })
                .collect(),
            None => lease
                .gateways
                .iter()
                .flatten()
                .take(1)
                .map(|router| default_route(IpAddr::V4(*router), metric))
                .collect(),
        };
        let domains = lease
            .domain_search
            .clone()
            .or(lease.domain_name.clone().map(|d| vec![d]));
        Self {
            addresses: vec![Address {
                prefix,
                valid: seconds,
                preferred: seconds,
            }],
            routes,
            dns: lease
                .dns_srvs
                .iter()
                .flatten()
                .map(|server| IpAddr::V4(*server).into())
                .collect(),
            search: domains.unwrap_or_default(),
            mtu: lease.mtu.map(u32::from).filter(|mtu| *mtu >= 576),
        }
    }

    /// The lease of a DHCPv6 server. Routes come from router advertisements alone.
    pub(super) fn of_dhcp6(lease: &DhcpV6Lease, name: &str) -> Self {
        let finite = |seconds: u32| (seconds != u32::MAX).then_some(seconds);
        Self {
            addresses: vec![Address {
                prefix: Prefix {
                    address: IpAddr::V6(lease.address),
                    length: 128,
                },
                valid: finite(lease.valid_time_sec),
                preferred: finite(lease.preferred_time_sec),
            }],
            dns: lease
                .dns_srvs
                .iter()
                .map(|server| NameServer::on_link(IpAddr::V6(*server), name))
                .collect(),
            search: lease.domain_list.clone(),
            ..Self::default()
        }
    }
}

fn default_route(via: IpAddr, metric: u32) -> Route {
    let everywhere_v6 = Prefix {
        address: std::net::Ipv6Addr::UNSPECIFIED.into(),
        length: 0,
    };
    Route {
        to: if via.is_ipv4() {
            EVERYWHERE_V4
        } else {
            everywhere_v6
        },
        via: Some(via),
        metric,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_table_becomes_addresses_and_routes() {
        let config: LinkConfig = toml::from_str(
            "address = ['192.0.2.7/24']\ngateway = ['192.0.2.1', 'fe80::1']\nmetric = 7\n\
             route = [{ to = '198.51.100.0/24', via = '192.0.2.9', metric = 3 }]\n",
        )
        .unwrap();
        let lease = Lease::of_config(&config);
        assert_eq!(lease.addresses.len(), 1);
        let shown: Vec<_> = lease
            .routes
            .iter()
            .map(|r| format!("{} {} {}", String::from(r.to), r.via.unwrap(), r.metric))
            .collect();
        assert_eq!(
            shown,
            [
                "198.51.100.0/24 192.0.2.9 3",
                "0.0.0.0/0 192.0.2.1 7",
                "::/0 fe80::1 7"
            ]
        );
    }

    #[test]
    fn a_dhcpv4_lease_expires_and_routes_through_its_first_router() {
        let mut lease = DhcpV4Lease::default();
        lease.yiaddr = Ipv4Addr::new(192, 0, 2, 7);
        lease.subnet_mask = Ipv4Addr::new(255, 255, 255, 0);
        lease.lease_time_sec = 3600;
        lease.gateways = Some(vec![
            Ipv4Addr::new(192, 0, 2, 1),
            Ipv4Addr::new(192, 0, 2, 2),
        ]);
        lease.domain_name = Some("example.org".to_owned());
        let ours = Lease::of_dhcp4(&lease, 1024);
        assert_eq!(String::from(ours.addresses[0].prefix), "192.0.2.7/24");
        assert_eq!(ours.addresses[0].valid, Some(3600));
        assert_eq!(
            ours.routes,
            [default_route(Ipv4Addr::new(192, 0, 2, 1).into(), 1024)]
        );
        assert_eq!(ours.search, ["example.org"]);
    }
}
