// SPDX-License-Identifier: Apache-2.0
//! The network of a manifest: how names are resolved, and the ports of the node. A node has no
//! service of names for a cluster, so `ClusterFirst` is `Default`, as in Kubernetes where there is
//! none.

use super::probe::Ports;
use super::reader::Fields;
use crate::network::{Dns, Network, Protocol, PublishedPort};

pub(super) fn network(fields: &mut Fields<'_>) -> Network {
    let policy = fields.text("dnsPolicy");
    let known = [
        "",
        "Default",
        "ClusterFirst",
        "ClusterFirstWithHostNet",
        "None",
    ];
    if !known.contains(&policy.as_str()) {
        let words = format!("is {policy}; Default, ClusterFirst and None can be taken");
        fields.refuse("dnsPolicy", words);
    }
    let mut dns = match fields.object("dnsConfig") {
        Some(given) => config(given),
        None => Dns::default(),
    };
    // `None` is what the pod says alone; otherwise that comes behind what the node says.
    dns.add = policy != "None" && dns != Dns::default();
    if policy == "None" && dns.servers.is_empty() {
        let words = "is None: dnsConfig must name a server then";
        fields.refuse("dnsPolicy", words);
    }
    Network {
        dns,
        domain: fields.text("subdomain"),
        ..Network::default()
    }
}

fn config(mut fields: Fields<'_>) -> Dns {
    let mut servers = Vec::new();
    for (i, text) in fields.list("nameservers").iter().enumerate() {
        match text.parse() {
            Ok(server) => servers.push(server),
            Err(_) => fields.refuse(&format!("nameservers[{i}]"), "is no IP address"),
        }
    }
    let option = |mut fields: Fields<'_>| {
        let (name, value) = (fields.text("name"), fields.text("value"));
        fields.end();
        match value.as_str() {
            "" => name,
            value => format!("{name}:{value}"),
        }
    };
    let dns = Dns {
        servers,
        searches: fields.list("searches"),
        options: fields.each("options", option),
        add: false,
    };
    fields.end();
    dns
}

/// The ports of a container: their names are what probes use; those with a `hostPort` are added to
/// `published`. Others are open to the pod's neighbors whether they are named or not.
pub(super) fn ports(fields: &mut Fields<'_>, published: &mut Vec<PublishedPort>) -> Ports {
    let ports = fields.each("ports", port);
    let mut named = Vec::new();
    for (name, port, of_node) in ports.into_iter().flatten() {
        named.push((name, port));
        published.extend(of_node);
    }
    named.into_iter().collect()
}

fn port(mut fields: Fields<'_>) -> Option<(String, u16, Option<PublishedPort>)> {
    let name = fields.text("name");
    let port = fields.number::<u16>("containerPort");
    let host_port = fields.number::<u16>("hostPort").filter(|port| *port > 0);
    let protocol = match fields.text("protocol").as_str() {
        "" | "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => {
            fields.refuse("protocol", "must be TCP, UDP or SCTP");
            Protocol::Tcp
        }
    };
    let address = match fields.text("hostIP").as_str() {
        "" => None,
        text => {
            let address = text.parse();
            if address.is_err() {
                fields.refuse("hostIP", "is no IP address");
            }
            address.ok()
        }
    };
    fields.end();
    let of_node = host_port.zip(port).map(|(host_port, port)| PublishedPort {
        protocol,
        address,
        host_port,
        port,
    });
    Some((name, port?, of_node))
}
