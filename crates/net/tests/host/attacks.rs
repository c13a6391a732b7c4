// SPDX-License-Identifier: Apache-2.0
//! A cell whose root is hostile: what it says of itself, of its neighbors and of the gateway, and
//! what it takes of the node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use crate::bed::{Bed, Cell, Ns, PATIENCE, SHORT, WORLD4, can_run, new_uid, request, settings};
use crate::frames::{Mac, Tap, arp, behind_options, discovery, ethernet, has, udp4, udp6};

const BRIDGE: Mac = [0x02, 0x61, 0xff, 0xff, 0xff, 0xff];
const ALL: Mac = [0xff; 6];

fn four(cell: &Cell) -> Ipv4Addr {
    cell.four().parse().unwrap()
}

fn six(cell: &Cell) -> Ipv6Addr {
    cell.six().parse().unwrap()
}

fn gateway6(bed: &Bed) -> Ipv6Addr {
    match bed.settings.node_addresses()[0] {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => panic!("IPv6 comes first"),
    }
}

const GATEWAY4: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);

/// Frames that the cell may send; each kind of lie below is one of these with another address.
fn honest(bed: &Bed, cell: &Cell) -> Vec<Vec<u8>> {
    let (mac, a, b) = (cell.at.mac.0, four(cell), six(cell));
    let gateway = gateway6(bed);
    vec![
        ethernet(BRIDGE, mac, 0x0800, &udp4(a, GATEWAY4, b"honest4")),
        ethernet(BRIDGE, mac, 0x86dd, &udp6(b, gateway, b"honest6")),
        ethernet(BRIDGE, mac, 0x0806, &arp(mac, a, GATEWAY4)),
        ethernet(
            BRIDGE,
            mac,
            0x86dd,
            &behind_options(&discovery(136, b, gateway, b, mac)),
        ),
        ethernet(BRIDGE, mac, 0x86dd, &discovery(136, b, gateway, b, mac)),
    ]
}

fn lies(bed: &Bed, cell: &Cell, victim: &Cell) -> Vec<(&'static str, Vec<u8>)> {
    let (mac, a, b) = (cell.at.mac.0, four(cell), six(cell));
    let (his_mac, his4, his6) = (victim.at.mac.0, four(victim), six(victim));
    let gateway = gateway6(bed);
    let frame = |from, kind, packet: Vec<u8>| ethernet(BRIDGE, from, kind, &packet);
    let about = |kind, target| discovery(kind, b, gateway, target, mac);
    vec![
        ("its MAC", frame(his_mac, 0x0800, udp4(a, GATEWAY4, b"lie"))),
        (
            "the bridge's MAC",
            frame(BRIDGE, 0x0800, udp4(a, GATEWAY4, b"lie")),
        ),
        ("its IPv4", frame(mac, 0x0800, udp4(his4, GATEWAY4, b"lie"))),
        (
            "the node's IPv4",
            frame(mac, 0x0800, udp4(GATEWAY4, his4, b"lie")),
        ),
        (
            "loopback",
            frame(mac, 0x0800, udp4(Ipv4Addr::LOCALHOST, GATEWAY4, b"lie")),
        ),
        (
            "no IPv4",
            frame(mac, 0x0800, udp4(Ipv4Addr::UNSPECIFIED, GATEWAY4, b"lie")),
        ),
        ("its IPv6", frame(mac, 0x86dd, udp6(his6, gateway, b"lie"))),
        (
            "a free IPv6",
            frame(
                mac,
                0x86dd,
                udp6("2001:db8::9".parse().unwrap(), gateway, b"lie"),
            ),
        ),
        ("its ARP", frame(mac, 0x0806, arp(mac, his4, GATEWAY4))),
        (
            "the gateway's ARP",
            ethernet(ALL, mac, 0x0806, &arp(mac, GATEWAY4, his4)),
        ),
        (
            "its MAC in ARP",
            frame(mac, 0x0806, arp(his_mac, a, GATEWAY4)),
        ),
        ("its NDP", frame(mac, 0x86dd, about(136, his6))),
        ("the gateway's NDP", frame(mac, 0x86dd, about(136, gateway))),
        (
            "its NDP, hidden",
            frame(mac, 0x86dd, behind_options(&about(136, his6))),
        ),
        ("a router", frame(mac, 0x86dd, about(134, b))),
        ("a redirect", frame(mac, 0x86dd, about(137, his6))),
        ("another protocol", frame(mac, 0x88cc, b"lie".to_vec())),
        (
            "IPv4 as a VLAN",
            frame(
                mac,
                0x8100,
                [&[0, 5, 8, 0][..], &udp4(his4, GATEWAY4, b"lie")].concat(),
            ),
        ),
    ]
}

#[test]
fn a_cell_sends_as_itself_alone() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let (cell, victim) = (bed.cell("a"), bed.cell("b"));
    let (out, seen) = (Tap::on(&cell.ns, "eth0"), Tap::on(&bed.node, "aurae0"));
    let neighbor = Tap::on(&victim.ns, "eth0");
    let mark = ethernet(
        BRIDGE,
        cell.at.mac.0,
        0x0800,
        &udp4(four(&cell), GATEWAY4, b"mark"),
    );
    for frame in honest(&bed, &cell) {
        out.send(&frame);
        assert!(seen.until(&frame).len() < 100);
    }
    for (what, frame) in lies(&bed, &cell, &victim) {
        out.send(&frame);
        out.send(&mark);
        let through = seen.until(b"mark");
        assert!(!through.iter().any(|one| has(one, &frame[6..])), "{what}");
    }
    // Straight to the neighbor, in true words: cells reach each other by the node alone.
    for frame in honest(&bed, &cell) {
        out.send(&[&victim.at.mac.0[..], &frame[6..]].concat());
        out.send(&[&ALL[..], &frame[6..]].concat());
    }
    out.send(&mark);
    seen.until(b"mark");
    // Nor did the neighbor hear any of it: what the node itself sends it comes behind.
    bed.node.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"all sent", (four(&victim), 9)).unwrap();
    });
    for frame in neighbor.until(b"all sent") {
        assert_ne!(frame[6..12], cell.at.mac.0);
    }
}

/// A frame to an address that bridges keep for themselves is taken by the port, past the bridge.
#[test]
fn no_packet_passes_by_the_port_itself() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let (cell, listener) = (
        bed.cell("a"),
        bed.node.run(|| UdpSocket::bind("0.0.0.0:9").unwrap()),
    );
    let out = Tap::on(&cell.ns, "eth0");
    for last in 0..16 {
        let reserved = [0x01, 0x80, 0xc2, 0, 0, last];
        for to in [GATEWAY4, "192.0.2.2".parse().unwrap(), Ipv4Addr::BROADCAST] {
            let packet = udp4(four(&cell), to, b"past the bridge");
            out.send(&ethernet(reserved, cell.at.mac.0, 0x0800, &packet));
        }
    }
    bed.node.run(|| {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        own.send_to(b"mark", "127.0.0.1:9").unwrap();
    });
    let mut bytes = [0; 64];
    let (length, _) = listener.recv_from(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"mark");
}

/// Its root gives itself a neighbor's address by the kernel's own means.
#[test]
fn a_neighbor_s_addresses_can_t_be_taken() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let (cell, victim) = (bed.cell("b"), bed.cell("a"));
    let friend = bed.cell("a");
    let (his4, his6) = (victim.four(), victim.six());
    cell.ns.ip(&format!(
        "addr add {his4}/16 dev eth0; -6 addr add {his6}/64 dev eth0 nodad"
    ));
    cell.ns.serve(&format!("{his4}:81"));
    assert!(friend.ns.cut_off(&his4, 81));
    cell.ns.run(|| {
        // As the victim to the victim's friend: no answer can come, and none of it may arrive.
        let socket = UdpSocket::bind((his6.parse::<Ipv6Addr>().unwrap(), 0)).unwrap();
        let _ = socket.send_to(b"lie", (six(&friend), 80));
    });
    assert_eq!(friend.ns.who(&his4, 80), friend.four());
    assert_eq!(friend.ns.who(&his6, 80), friend.six());
    // Another hardware address, and it is cut off altogether, alone.
    cell.ns.ip("link set eth0 address 02:61:00:00:00:63");
    assert!(
        cell.ns
            .cut_off(&bed.settings.node_addresses()[1].to_string(), 80)
    );
    assert_eq!(friend.ns.who(&his4, 80), friend.four());
}

#[test]
fn a_flood_of_connections_is_the_tenant_s_own_loss() {
    if !can_run() {
        return;
    }
    let mut settings = settings();
    settings.connections_per_tenant = 50;
    let bed = Bed::with(settings);
    bed.world.serve(&format!("{WORLD4}:7"));
    let (hostile, other) = (bed.cell("a"), bed.cell("b"));
    let held = bed
        .world
        .run(|| TcpListener::bind((WORLD4.parse::<Ipv4Addr>().unwrap(), 8)).unwrap());
    let open = |cell: &Cell, count: usize, patience: Duration| -> Vec<TcpStream> {
        let to = (WORLD4.parse::<Ipv4Addr>().unwrap(), 8).into();
        cell.ns.run(|| {
            (0..count)
                .map_while(|_| TcpStream::connect_timeout(&to, patience).ok())
                .collect()
        })
    };
    let mut flood = open(&hostile, 40, PATIENCE);
    assert_eq!(flood.len(), 40);
    flood.extend(open(&hostile, 40, SHORT));
    assert!(flood.len() <= 50, "{}", flood.len());
    assert!(hostile.ns.cut_off(WORLD4, 7));
    assert_eq!(open(&other, 20, PATIENCE).len(), 20);
    other.ns.who(WORLD4, 7);
    drop((flood, held));
}

#[test]
fn a_tenant_s_interfaces_are_bounded_and_the_node_keeps_some() {
    if !can_run() {
        return;
    }
    let mut settings = settings();
    settings.ipv4 = Some("10.213.0.0/28".parse().unwrap());
    settings.per_tenant = 6;
    settings.reserve = 3;
    let bed = Bed::with(settings);
    let ns: Vec<Ns> = (0..16).map(|_| Ns::new()).collect();
    let mut spaces = ns.iter();
    let mut attach = |tenant: &str| {
        let ns = spaces.next().unwrap();
        bed.attach(request(new_uid(), tenant, ns, Vec::new()))
    };
    assert!((0..6).all(|_| attach("a").is_ok()));
    assert!(matches!(attach("a"), Err(net::Error::TenantFull { .. })));
    assert!((0..4).all(|_| attach("b").is_ok()));
    assert!(matches!(attach("b"), Err(net::Error::Full { .. })));
    assert!((0..3).all(|_| attach("system").is_ok()));
    assert!(matches!(attach("system"), Err(net::Error::Full { .. })));
}

/// The rules as a program of others reads them.
#[test]
fn nft_reads_our_rules() {
    if !can_run() {
        return;
    }
    if Command::new("nft").arg("--version").output().is_err() {
        return testkit::skip("no nft(8) to read rules with");
    }
    let bed = Bed::new();
    let _cell = bed.cell_with("a", crate::bed::ports(None, 8080, 80));
    let output = bed
        .node
        .run(|| Command::new("nft").args(["list", "ruleset"]).output());
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    for part in [
        "table inet aurae0",
        "table bridge aurae0",
        "masquerade",
        "8080 : 10.213.0.2 . 80",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
