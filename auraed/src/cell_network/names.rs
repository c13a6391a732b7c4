// SPDX-License-Identifier: Apache-2.0
//! How the node resolves names, read when a container is made: leases and networks change.

use std::net::IpAddr;
use std::path::Path;

use model::network::{Dns, MAX_DNS_SERVERS};
use runtime::ports::NodeNames;

/// Where systemd-resolved keeps the servers that it asks. `/etc/resolv.conf` names its own address
/// then, a loopback one.
const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";
/// No more of a file is handed on, in bytes.
const MOST: usize = 32 << 10;

/// What it is now. A file that isn't there says nothing.
pub(super) fn of_node() -> NodeNames {
    let resolv_conf = read("/etc/resolv.conf");
    let dns_here = parse(&resolv_conf, |text| text.parse().ok());
    let mut dns = parse(&resolv_conf, reachable);
    if dns.servers.is_empty() && !resolv_conf.is_empty() {
        dns.servers = parse(&read(RESOLVED), reachable).servers;
    }
    NodeNames {
        hosts: read("/etc/hosts"),
        resolv_conf,
        dns,
        dns_here,
    }
}

fn read(path: impl AsRef<Path>) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let bytes = bytes.get(..MOST).unwrap_or(&bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

/// By resolv.conf(5), with the servers that `of` takes; the last `search` counts.
fn parse(text: &str, of: fn(&str) -> Option<IpAddr>) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let first = words.next();
        let rest = || words.clone().map(str::to_owned).collect();
        match first {
            Some("nameserver") => dns.servers.extend(words.next().and_then(of)),
            Some("search" | "domain") => dns.searches = rest(),
            Some("options") => dns.options.extend::<Vec<String>>(rest()),
            _ => {}
        }
    }
    dns.servers.truncate(MAX_DNS_SERVERS);
    dns
}

/// A loopback address is another machine's in another namespace, and a link-local one has no link.
fn reachable(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    (!address.is_loopback() && !local).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_the_node_alone_are_left_out() {
        let dns = parse(
            "# a comment\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\nnameserver 192.0.2.1\n\
             search a.example b.example\noptions edns0 trust-ad\n",
            reachable,
        );
        assert_eq!(dns.servers, [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(dns.searches, ["a.example", "b.example"]);
        assert_eq!(dns.options, ["edns0", "trust-ad"]);
    }
}
