// SPDX-License-Identifier: Apache-2.0
//! Who reaches whom, over both protocols and both families.

use crate::bed::{Bed, NODE4, NODE6, WORLD4, WORLD6, can_run, new_uid, ports, request, settings};
use crate::bed::{Cell, Ns, PATIENCE};
use net::{Error, Protocol};

#[test]
fn a_cell_reaches_the_world_under_the_node_s_address() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    bed.world.serve(&format!("{WORLD4}:7"));
    bed.world.serve(&format!("[{WORLD6}]:7"));
    let cell = bed.cell("a");
    assert_eq!(cell.ns.who(WORLD6, 7), NODE6);
    assert_eq!(cell.ns.who(WORLD4, 7), NODE4);
    // The node reaches the cell; the world doesn't, though it be told the way.
    assert_eq!(bed.node.who(&cell.four(), 80), "10.213.0.1");
    assert!(
        bed.settings.ipv6.unwrap().contains(
            &bed.node
                .who(&cell.six(), 80)
                .parse::<std::net::Ipv6Addr>()
                .unwrap()
        )
    );
    bed.world.ip(&format!(
        "route add 10.213.0.0/16 via {NODE4}; -6 route add {} via {NODE6}",
        bed.settings.ipv6.unwrap()
    ));
    assert!(bed.world.cut_off(&cell.four(), 80));
    assert!(bed.world.cut_off(&cell.six(), 80));
}

#[test]
fn cells_of_a_tenant_reach_each_other_and_no_one_else() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let (one, two, other) = (bed.cell("a"), bed.cell("a"), bed.cell("b"));
    assert_eq!(one.ns.who(&two.six(), 80), one.six());
    assert_eq!(two.ns.who(&one.four(), 80), two.four());
    for (from, to) in [(&other, &one), (&one, &other)] {
        assert!(from.ns.cut_off(&to.six(), 80));
        assert!(from.ns.cut_off(&to.four(), 80));
        assert!(from.ns.cut_off(&to.at.mac.link_local().to_string(), 80));
    }
}

/// Also by who asks again and again: of ICMP the kernel sends one host about one a second.
#[test]
fn a_refusal_is_heard_at_once_however_often() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    bed.world.ip("addr add 169.254.169.254/32 dev lo");
    let (one, other) = (bed.cell("a"), bed.cell("b"));
    let (six, four) = (other.six(), other.four());
    for address in [&six, &four, NODE6, NODE4, "169.254.169.254"] {
        let to = std::net::SocketAddr::new(address.parse().unwrap(), 80);
        let connect = || std::net::TcpStream::connect_timeout(&to, PATIENCE).map(drop);
        for time in 0..30 {
            let error = one.ns.run(connect).unwrap_err();
            let kind = error.kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionRefused, "{to}, {time}");
        }
    }
}

#[test]
fn a_cell_reaches_nothing_of_the_node_but_what_is_said() {
    if !can_run() {
        return;
    }
    let mut settings = settings();
    settings.node_ports = vec![(Protocol::Tcp, 53), (Protocol::Udp, 53)];
    let bed = Bed::with(settings);
    let cell = bed.cell("system");
    let own = bed.settings.node_addresses();
    for address in [
        NODE4,
        NODE6,
        "127.0.0.1",
        &own[0].to_string(),
        &own[1].to_string(),
    ] {
        for port in [53, 22] {
            bed.node
                .serve(&std::net::SocketAddr::new(address.parse().unwrap(), port).to_string());
        }
        if address != "127.0.0.1" {
            assert!(cell.ns.cut_off(address, 22), "{address}");
            cell.ns.who(address, 53);
        }
    }
    // The node's loopback network is routed to the bridge for published ports; not for cells.
    cell.ns
        .ip("addr del 127.0.0.1/8 dev lo; route add 127.0.0.1/32 via 10.213.0.1 dev eth0 onlink");
    cell.ns
        .write("/proc/sys/net/ipv4/conf/eth0/route_localnet", "1");
    assert!(cell.ns.cut_off("127.0.0.1", 53));
}

#[test]
fn the_cloud_s_credentials_are_out_of_reach() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    bed.world
        .ip("addr add 169.254.169.254/32 dev lo; -6 addr add fd00:ec2::254/128 dev lo nodad");
    bed.world.serve("169.254.169.254:80");
    bed.world.serve("[fd00:ec2::254]:80");
    let cell = bed.cell("a");
    assert_eq!(bed.node.who("169.254.169.254", 80), NODE4);
    assert!(cell.ns.cut_off("169.254.169.254", 80));
    assert!(cell.ns.cut_off("fd00:ec2::254", 80));
}

/// From the world, from the node by all its names, from another tenant's cell, and from itself.
#[test]
fn a_published_port_is_reached_from_everywhere() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let mut wanted = ports(None, 8080, 80);
    wanted.extend(ports(Some("127.0.0.1"), 8081, 80));
    let cell = bed.cell_with("a", wanted);
    let other = bed.cell("b");
    assert_eq!(bed.world.who(NODE6, 8080), "2001:db8:1::1");
    assert_eq!(bed.world.who(NODE4, 8080), "192.0.2.1");
    bed.node.who(NODE4, 8080);
    bed.node.who(NODE6, 8080);
    assert_eq!(bed.node.who("127.0.0.1", 8080), "10.213.0.1");
    assert_eq!(bed.node.who("127.0.0.1", 8081), "10.213.0.1");
    assert_eq!(other.ns.who(NODE6, 8080), other.six());
    assert_eq!(other.ns.who(NODE4, 8080), other.four());
    cell.ns.who(NODE6, 8080);
    cell.ns.who(NODE4, 8080);
    // What was asked for at one address is at no other.
    assert!(bed.world.cut_off(NODE4, 8081));
    assert!(other.ns.cut_off(NODE4, 8081));
    // What isn't published isn't there, though the same cell has it.
    assert!(other.ns.cut_off(&cell.four(), 80));
    bed.detach(cell.uid);
    assert!(bed.world.cut_off(NODE6, 8080));
    assert!(bed.node.cut_off("127.0.0.1", 8080));
}

/// What a tenant publishes answers for no program of the node by the loopback address.
#[test]
fn a_port_that_was_not_asked_for_there_is_not_on_the_node_s_loopback() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let mut wanted = ports(None, 8080, 80);
    for port in &mut wanted {
        port.on_loopback = false;
    }
    let _cell = bed.cell_with("a", wanted);
    assert!(bed.node.cut_off("127.0.0.1", 8080));
    assert!(bed.node.cut_off("127.0.0.2", 8080));
    bed.node.who(NODE4, 8080);
    bed.node.serve("127.0.0.1:8080");
    assert_eq!(bed.node.who("127.0.0.1", 8080), "127.0.0.1");
    let mut at = ports(Some("127.0.0.1"), 8081, 80);
    at[0].on_loopback = false;
    let ns = Ns::new();
    let asked = bed.attach(request(new_uid(), "a", &ns, at));
    assert!(asked.unwrap_err().to_string().contains("loopback"));
}

/// The kernel has no way from `::1` to a link. A program that tries it is told at once, and goes on
/// to 127.0.0.1.
#[test]
fn the_node_s_ipv6_loopback_refuses_at_once() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let _cell = bed.cell_with("a", ports(None, 8080, 80));
    let tried = bed
        .node
        .run(|| std::net::TcpStream::connect("[::1]:8080").map(drop));
    let kind = tried.unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
    let ns = Ns::new();
    let asked = bed.attach(request(new_uid(), "a", &ns, ports(Some("::1"), 8081, 80)));
    assert!(asked.unwrap_err().to_string().contains("127.0.0.1"));
}

#[test]
fn a_port_that_is_somebody_s_is_refused() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    bed.node.serve("0.0.0.0:22");
    let holder = bed.cell_with("a", ports(None, 8080, 80));
    let (ns, uid) = (Ns::new(), new_uid());
    let error = |wanted| bed.attach(request(uid, "b", &ns, wanted)).unwrap_err();
    match error(ports(Some(NODE4), 8080, 1)) {
        Error::PortTaken { holder: who, .. } => assert_eq!(who, holder.uid),
        other => panic!("{other}"),
    }
    assert!(matches!(
        error(ports(None, 22, 22)),
        Error::PortInUse { .. }
    ));
    let text = error(ports(None, 0, 22)).to_string();
    assert!(text.starts_with("host_ports:"), "{text}");
    // Nothing was taken by the refused ones.
    assert_eq!(bed.look().given, 1);
    bed.detach(holder.uid);
    assert!(
        bed.attach(request(uid, "b", &ns, ports(None, 8080, 1)))
            .is_ok()
    );
}

/// The second interface answers by itself: its addresses could not leave by the first.
#[test]
fn a_cell_has_several_interfaces() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let cell = bed.cell_with("a", ports(None, 8080, 80));
    let mut second = request(cell.uid, "a", &cell.ns, ports(None, 8090, 80));
    second.name = "eth1".to_owned();
    second.default_route = false;
    let second = bed.attach(second).unwrap();
    for address in &second.addresses {
        cell.ns
            .serve(&std::net::SocketAddr::new(*address, 80).to_string());
        bed.node.who(&address.to_string(), 80);
    }
    assert_eq!(bed.world.who(NODE6, 8090), "2001:db8:1::1");
    assert_eq!(bed.world.who(NODE4, 8090), "192.0.2.1");
    assert_eq!(bed.world.who(NODE4, 8080), "192.0.2.1");
    assert_eq!(bed.look().ports.len(), 2);
    let again = request(cell.uid, "a", &cell.ns, Vec::new());
    assert!(matches!(bed.attach(again), Err(Error::Attached { .. })));
    bed.detach(cell.uid);
    assert_eq!(bed.look(), net::Seen::default());
}

/// A node that did not forward doesn't become a router for others by having cells.
#[test]
fn what_is_of_no_cell_is_forwarded_as_it_was_before() {
    if !can_run() {
        return;
    }
    let (node, world) = crate::bed::uplink();
    let bed = Bed::on(node, world, settings(), Vec::new());
    let beside = Ns::new();
    beside_the_node(&bed, &beside);
    bed.world.serve(&format!("{WORLD4}:7"));
    assert!(beside.cut_off(WORLD4, 7));
    assert!(
        bed.started
            .changed
            .iter()
            .any(|c| c.name == "net/ipv4/ip_forward")
    );
    // The next daemon finds a node that forwards, and the table that says how it came to.
    drop(bed.net);
    let bed = Bed::on(bed.node, bed.world, settings(), Vec::new());
    assert!(beside.cut_off(WORLD4, 7));
    let mut open = settings();
    open.forward_others = Some(true);
    let _open = Bed::on(bed.node, bed.world, open, Vec::new());
    assert_eq!(beside.who(WORLD4, 7), "172.16.9.2");
}

fn beside_the_node(bed: &Bed, beside: &Ns) {
    bed.node.ip("link add side0 type veth peer name s0");
    crate::bed::move_link(&bed.node, "s0", beside);
    bed.node
        .ip("addr add 172.16.9.1/24 dev side0; link set side0 up");
    beside.ip("addr add 172.16.9.2/24 dev s0; link set s0 up; route add default via 172.16.9.1");
    bed.world
        .ip(&format!("route add 172.16.9.0/24 via {NODE4}"));
}

#[test]
fn one_family_alone_is_enough() {
    if !can_run() {
        return;
    }
    let mut six = settings();
    six.ipv4 = None;
    let bed = Bed::with(six);
    let (one, two) = (bed.cell("a"), bed.cell("a"));
    assert_eq!(one.at.addresses.len(), 1);
    assert_eq!(one.ns.who(&two.six(), 80), one.six());
    let mut four = settings();
    four.ipv6 = None;
    let bed = Bed::with(four);
    let (one, two): (Cell, Cell) = (bed.cell("a"), bed.cell("a"));
    assert_eq!(one.ns.who(&two.four(), 80), one.four());
}

/// Where the machine has `br_netfilter`, bridged packets pass the rules of IP too.
#[test]
fn it_works_with_and_without_br_netfilter() {
    if !can_run() {
        return;
    }
    for value in ["0", "1"] {
        let bed = Bed::new();
        for family in ["ip", "ip6"] {
            let file = format!("/proc/sys/net/bridge/bridge-nf-call-{family}tables");
            if std::path::Path::new(&file).exists() {
                bed.node.write(&file, value);
            }
        }
        let (one, two) = (bed.cell_with("a", ports(None, 8080, 80)), bed.cell("a"));
        let other = bed.cell("b");
        assert_eq!(two.ns.who(&one.six(), 80), two.six());
        assert_eq!(two.ns.who(&one.four(), 80), two.four());
        assert_eq!(bed.world.who(NODE4, 8080), "192.0.2.1");
        assert!(other.ns.cut_off(&one.six(), 80));
        assert_eq!(other.ns.who(NODE4, 8080), other.four());
    }
}

/// Packet size and routes of the uplink; and no address that the node has.
#[test]
fn the_bridge_follows_its_uplink() {
    if !can_run() {
        return;
    }
    let (node, world) = crate::bed::uplink();
    node.ip("link set up0 mtu 1400");
    node.write("/proc/sys/net/ipv6/conf/up0/accept_ra", "1");
    let bed = Bed::on(node, world, settings(), Vec::new());
    let cell = bed.cell("a");
    assert_eq!(cell.at.mtu, 1400);
    assert!(crate::bed::shows(&cell.ns, "eth0").contains("mtu 1400"));
    // A router that doesn't forward takes advertisements at 1, one that does at 2.
    let kept = bed
        .started
        .changed
        .iter()
        .find(|c| c.name.ends_with("up0/accept_ra"));
    assert_eq!(
        kept.map(|c| (c.from.as_str(), c.to.as_str())),
        Some(("1", "2"))
    );
    let (node, world) = crate::bed::uplink();
    node.ip("addr add 10.213.7.1/24 dev up0");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let start = net::Network::start(settings(), Some(node.fd()), Vec::new());
    let error = runtime.block_on(start).unwrap_err();
    assert!(
        matches!(error, Error::Overlap { field: "ipv4", .. }),
        "{error}"
    );
    assert!(error.to_string().contains("up0"), "{error}");
    drop(world);
}
