// SPDX-License-Identifier: Apache-2.0
//! What a network may ask for, and where a cell is attached.

use super::*;

fn refused(change: fn(&mut Network)) -> String {
    let mut network = Network::default();
    change(&mut network);
    let error = network.check().unwrap_err();
    error.to_string()
}

#[test]
fn a_name_can_t_add_a_line() {
    let alias = |name: &str| HostAlias {
        address: IpAddr::from([10, 0, 0, 1]),
        names: vec![name.to_owned()],
    };
    let mut network = Network::default();
    network.hosts.push(alias("db.internal"));
    network.check().unwrap();
    for name in ["a b", "a\n127.0.0.1", "", "#"] {
        network.hosts = vec![alias(name)];
        network.check().unwrap_err();
    }
    refused(|it| it.dns.searches.push("a\nnameserver 192.0.2.1".into()));
}

#[test]
fn a_range_of_ports_is_of_one_protocol_and_has_its_ends() {
    let range: PortRange = "2000-2002/udp".parse().unwrap();
    let port = |protocol, host_port| PublishedPort {
        protocol,
        address: None,
        host_port,
        port: 1,
    };
    for (number, within) in [(1999, false), (2000, true), (2002, true), (2003, false)] {
        assert_eq!(range.contains(&port(Protocol::Udp, number)), within);
    }
    assert!(!range.contains(&port(Protocol::Tcp, 2000)));
    let one: PortRange = "7443/tcp".parse().unwrap();
    assert_eq!((one.first, one.last), (7443, 7443));
    for wrong in ["7443", "0/tcp", "3-2/tcp", "1-70000/tcp", "1-2/TCP", "/tcp"] {
        assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
    }
}

#[test]
fn who_asks_for_nothing_has_no_more_than_the_cell_around() {
    let spec = |container: bool, mode| {
        let container = container.then(crate::container::Container::default);
        let network = Some(Network {
            mode,
            ..Network::default()
        });
        let draft = crate::cell::Draft {
            container,
            network,
            ..crate::cell::Draft::default()
        };
        CellSpec::try_from(draft).unwrap()
    };
    let asks = spec(true, Some(Mode::Bridge));
    let silent = spec(true, None);
    for (around, is) in [
        (None, true),
        (Some(Mode::Bridge), true),
        (Some(Mode::Cni), true),
        (Some(Mode::None), false),
    ] {
        assert_eq!(silent.is_attached(true, around, false), is);
        assert!(asks.is_attached(true, around, false));
        assert!(!silent.is_attached(false, around, false));
        let plain = spec(false, None);
        assert!(!plain.is_attached(true, around, false));
        // A pod's cell is one of these.
        assert_eq!(plain.is_attached(true, around, true), is);
    }
}

#[test]
fn a_port_needs_a_network_and_two_numbers() {
    let port = PublishedPort {
        protocol: Protocol::Tcp,
        address: None,
        host_port: 8080,
        port: 80,
    };
    let mut network = Network {
        ports: vec![port.clone()],
        ..Network::default()
    };
    network.check().unwrap();
    assert_eq!(port.to_string(), "8080:80/tcp");
    network.mode = Some(Mode::None);
    network.check().unwrap_err();
    network.mode = Some(Mode::Bridge);
    if let Some(first) = network.ports.first_mut() {
        first.host_port = 0;
    }
    network.check().unwrap_err();
}

#[test]
fn each_interface_has_a_name_of_its_own() {
    let cni = |name: &str, interface: &str| CniNetwork {
        name: name.to_owned(),
        interface: interface.to_owned(),
    };
    let mut network = Network {
        cni: vec![cni("lan", ""), cni("store", "")],
        ..Network::default()
    };
    let names = |network: &Network, first| {
        let all = network.cni_interfaces(first).into_iter();
        all.map(|it| it.interface).collect::<Vec<_>>()
    };
    network.check().unwrap();
    assert_eq!(names(&network, false), ["net1", "net2"]);
    assert_eq!(names(&network, true), ["eth0", "net1"]);
    for (field, change) in [
        ("cni[1].interface", cni("store", "net1")),
        ("cni[1].interface", cni("store", "eth0")),
        ("cni[1].interface", cni("store", "lo")),
        ("cni[1].interface", cni("store", "a/b")),
        ("cni[1].name", cni("../x", "")),
    ] {
        network.cni.truncate(1);
        network.cni.push(change);
        let error = network.check().unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field));
    }
    network.cni = vec![cni("lan", "eth0")];
    network.mode = Some(Mode::Cni);
    network.check().unwrap();
    network.addresses = vec![[10, 213, 0, 9].into()];
    let error = network.check().unwrap_err();
    assert_eq!(error.field.as_deref(), Some("addresses"));
}
