// SPDX-License-Identifier: Apache-2.0
//! Interfaces that come and go: the daemon's death at any instant, traffic while it happens, many.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use model::name::Uid;
use net::{Attached, Error, Network, Seen};

use crate::bed::{Bed, NODE4, Ns, can_run, new_uid, ports, request, settings, uplink};

/// The daemon dies; the next one goes on with what lives, and traffic doesn't notice.
#[test]
fn what_lives_goes_on_behind_a_new_daemon() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let cell = bed.cell_with("a", ports(None, 8080, 80));
    let (friend, gone) = (bed.cell("a"), bed.cell("b"));
    let before = bed.look();
    let record = |cell: &crate::bed::Cell| -> (Uid, Attached) {
        let text = serde_json::to_string(&cell.at).unwrap();
        (cell.uid, serde_json::from_str(&text).unwrap())
    };
    let mut stranger = record(&gone);
    stranger.0 = new_uid();
    let living = vec![record(&cell), record(&friend), stranger];
    drop(bed.net);
    let bed = Bed::on(bed.node, bed.world, bed.settings, living);
    assert_eq!(bed.started.adopted.len(), 2);
    assert_eq!(bed.started.removed, std::slice::from_ref(&gone.at.veth));
    assert_eq!(bed.started.lost.len(), 1);
    assert_eq!(bed.started.changed, []);
    let after = bed.look();
    assert_eq!((after.given, after.ports.len()), (2, 2));
    assert!(after.neighbors.len() < before.neighbors.len());
    assert_eq!(bed.world.who(NODE4, 8080), "192.0.2.1");
    assert_eq!(friend.ns.who(&cell.six(), 80), friend.six());
    let next = bed.cell("b");
    assert!(next.at.number > friend.at.number);
    assert_eq!(next.ns.who(NODE4, 8080), next.four());
    for uid in [cell.uid, friend.uid, next.uid] {
        bed.detach(uid);
    }
    assert_eq!(bed.look(), Seen::default());
}

/// A cell's namespace goes with its processes, and its links with it: the rest is ours to remove.
#[test]
fn a_cell_that_is_gone_already_is_detached() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let uid = new_uid();
    let ns = Ns::new();
    bed.attach(request(uid, "a", &ns, ports(None, 8080, 80)))
        .unwrap();
    ns.ip("link del eth0");
    drop(ns);
    bed.detach(uid);
    bed.detach(uid);
    assert_eq!(bed.look(), Seen::default());
}

#[test]
fn a_failed_attach_leaves_nothing() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let ns = Ns::new();
    ns.ip("link add eth0 type bridge");
    let error = bed.attach(request(new_uid(), "a", &ns, ports(None, 8080, 80)));
    assert_eq!(error.unwrap_err().errno(), 17);
    assert_eq!(bed.look(), Seen::default());
    // The node's own, or no network namespace at all.
    let mut wrong = request(new_uid(), "a", &ns, Vec::new());
    wrong.netns = bed.node.fd();
    let refused = bed.attach(wrong).unwrap_err().to_string();
    assert!(refused.starts_with("netns:"), "{refused}");
    let mut wrong = request(new_uid(), "a", &ns, Vec::new());
    wrong.netns = std::fs::File::open("/dev/null").unwrap().into();
    assert!(matches!(bed.attach(wrong), Err(Error::Kernel { .. })));
    assert_eq!(bed.look(), Seen::default());
    ns.ip("link del eth0");
    assert!(bed.attach(request(new_uid(), "a", &ns, Vec::new())).is_ok());
}

#[test]
fn rules_that_somebody_flushed_are_put_back() {
    if !can_run() {
        return;
    }
    if Command::new("nft").arg("--version").output().is_err() {
        return testkit::skip("no nft(8) to flush rules with");
    }
    let bed = Bed::new();
    let cell = bed.cell_with("a", ports(None, 8080, 80));
    let flush = || {
        let flushed = bed
            .node
            .run(|| Command::new("nft").args(["flush", "ruleset"]).status());
        assert!(flushed.unwrap().success());
    };
    flush();
    assert_eq!(bed.runtime.block_on(bed.net.look()).unwrap_err().errno(), 2);
    bed.runtime.block_on(bed.net.repair()).unwrap();
    assert_eq!(bed.world.who(NODE4, 8080), "192.0.2.1");
    flush();
    let other = bed.cell("b");
    assert!(other.ns.cut_off(&cell.four(), 80));
    flush();
    bed.detach(other.uid);
    assert_eq!(bed.look().ports, std::slice::from_ref(&cell.at.veth));
    assert_eq!(bed.world.who(NODE4, 8080), "192.0.2.1");
}

/// Who sent to an old cell's address meets nobody, though its connection was let through.
#[test]
fn an_address_is_given_on_without_its_connections() {
    if !can_run() {
        return;
    }
    let mut settings = settings();
    settings.ipv4 = Some("10.213.0.0/29".parse().unwrap());
    settings.ipv6 = None;
    settings.reserve = 0;
    let bed = Bed::with(settings);
    let first = bed.cell_with("a", ports(None, 8080, 80));
    let peer = bed.world.run(|| UdpSocket::bind("192.0.2.1:0").unwrap());
    peer.set_read_timeout(Some(crate::bed::PATIENCE)).unwrap();
    let mut bytes = [0; 64];
    peer.send_to(b"hello", (NODE4, 8080)).unwrap();
    peer.recv(&mut bytes).unwrap();
    bed.detach(first.uid);
    // Five numbers: the sixth cell has the first one's.
    let spaces: Vec<_> = (0..5).map(|_| (new_uid(), Ns::new())).collect();
    let mut heirs = Vec::new();
    for (uid, ns) in &spaces {
        heirs.push(bed.attach(request(*uid, "b", ns, Vec::new())).unwrap());
    }
    let heir = heirs.iter().position(|a| a.addresses == first.at.addresses);
    let heir = &spaces[heir.unwrap()].1;
    let socket = heir.run(|| UdpSocket::bind((first.four().parse::<IpAddr>().unwrap(), 80)));
    let socket = socket.unwrap();
    peer.send_to(b"for the first", (NODE4, 8080)).unwrap();
    // Behind it, by the node, which may.
    bed.node.run(|| {
        let own = UdpSocket::bind("0.0.0.0:0").unwrap();
        own.send_to(b"mark", (first.four().parse::<IpAddr>().unwrap(), 80))
            .unwrap();
    });
    socket.set_read_timeout(Some(crate::bed::PATIENCE)).unwrap();
    let length = socket.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"mark");
}

/// A peer that never stops sending is led to the port's next owner.
#[test]
fn a_port_is_given_on_under_traffic() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let peer = bed.world.run(|| UdpSocket::bind("192.0.2.1:0").unwrap());
    peer.set_read_timeout(Some(crate::bed::PATIENCE)).unwrap();
    let mut bytes = [0; 64];
    for _ in 0..3 {
        let cell = bed.cell_with("a", ports(None, 8080, 80));
        peer.send_to(b"hello", (NODE4, 8080)).unwrap();
        peer.recv(&mut bytes).unwrap();
        bed.detach(cell.uid);
    }
}

#[test]
fn a_cell_is_detached_under_traffic() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let cell = bed.cell_with("a", ports(None, 8080, 80));
    let noise = bed.world.run(|| UdpSocket::bind("192.0.2.1:0").unwrap());
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = noise.send_to(b"noise", (NODE4, 8080));
            }
        });
        bed.detach(cell.uid);
        let seen = bed.look();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(seen, Seen::default());
    });
}

/// Adopted with no cell living: nothing of the dead daemon's is there.
#[test]
fn a_daemon_killed_at_any_instant_leaves_nothing() {
    if !can_run() {
        return;
    }
    let (mut node, mut world) = uplink();
    let rounds: u64 = testkit::how_much(40, 400);
    for round in 0..rounds {
        let mut child = killed_daemon(&node);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Each fourth one is killed while it starts.
        if round % 4 > 0 {
            assert!(lines.any(|line| line.unwrap().ends_with("started")));
        }
        // From the first message to some way into the loop; the child never stops by itself.
        let instant = Instant::now() + Duration::from_micros(round * 1777 % 60_000);
        while Instant::now() < instant {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let bed = Bed::on(node, world, settings(), Vec::new());
        assert_eq!(bed.look(), Seen::default(), "round {round}");
        drop(bed.net);
        (node, world) = (bed.node, bed.world);
    }
}

/// This program again, as [`churn`] alone, in the node's namespace.
fn killed_daemon(node: &Ns) -> std::process::Child {
    let own = std::env::current_exe().unwrap();
    node.run(|| {
        Command::new(own)
            .args([
                "--exact",
                "life::churn",
                "--nocapture",
                "--test-threads=1",
                "-q",
            ])
            .env("AURAE_CHURN", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    })
}

/// Not a test by itself: attaches and detaches until it is killed.
#[test]
fn churn() {
    if std::env::var_os("AURAE_CHURN").is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let start = Network::start(settings(), None, Vec::new());
    let (network, _) = runtime.block_on(start).unwrap();
    let spaces = [Ns::new(), Ns::new(), Ns::new()];
    println!("started");
    std::io::stdout().flush().unwrap();
    for round in 0u64.. {
        let uids: Vec<Uid> = spaces.iter().map(|_| new_uid()).collect();
        for (uid, ns) in uids.iter().zip(&spaces) {
            let host_ports = ports(None, 9000 + u16::from(uid.0[0]), 80);
            let attach = network.attach(request(*uid, "a", ns, host_ports));
            runtime
                .block_on(attach)
                .unwrap_or_else(|e| panic!("round {round}: {e}"));
        }
        for uid in uids {
            runtime.block_on(network.detach(uid)).unwrap();
        }
    }
}

/// What one costs doesn't grow with how many there are.
#[test]
fn three_hundred_cost_what_ten_do_each() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let spaces: Vec<(Uid, Ns)> = (0..300u32)
        .map(|n| (Uid(u128::from(n + 1).to_be_bytes()), Ns::new()))
        .collect();
    let mut times = Vec::new();
    for (number, (uid, ns)) in spaces.iter().enumerate() {
        let port = 10_000 + u16::try_from(number).unwrap();
        let began = Instant::now();
        bed.attach(request(*uid, "a", ns, ports(None, port, 80)))
            .unwrap();
        times.push(began.elapsed());
    }
    let median = |times: &[Duration]| {
        let mut sorted = times.to_vec();
        sorted.sort();
        sorted[sorted.len() / 2]
    };
    let (first, last) = (median(&times[..20]), median(&times[280..]));
    let began = Instant::now();
    bed.runtime.block_on(bed.net.repair()).unwrap();
    let replaced = began.elapsed();
    let began = Instant::now();
    spaces.iter().for_each(|(uid, _)| bed.detach(*uid));
    let each = began.elapsed() / 300;
    println!(
        "attach: {first:?} among the first 20, {last:?} among the last 20 of 300; \
         detach: {each:?}; all rules anew with 300: {replaced:?}"
    );
    // The quickest of each: one lock of the kernel is every namespace's, so other tests are in the
    // times.
    let least = |times: &[Duration]| *times.iter().min().unwrap();
    let (first, last) = (least(&times[..20]), least(&times[280..]));
    assert!(
        last < first * 4 + Duration::from_millis(2),
        "{first:?}, then {last:?}"
    );
    assert_eq!(bed.look(), Seen::default());
}

/// Cells that end at once are detached at once.
#[test]
fn many_are_detached_together() {
    if !can_run() {
        return;
    }
    let bed = Bed::new();
    let spaces: Vec<(Uid, Ns)> = (0..60u32)
        .map(|n| (Uid(u128::from(n + 1).to_be_bytes()), Ns::new()))
        .collect();
    let attach = || {
        for (uid, ns) in &spaces {
            bed.attach(request(*uid, "a", ns, Vec::new())).unwrap();
        }
    };
    let stays = bed.cell("a");
    // Other work on the machine may fall into one half of a round.
    let quicker = (0..5).any(|_| {
        attach();
        let began = Instant::now();
        spaces.iter().take(6).for_each(|(uid, _)| bed.detach(*uid));
        let alone = began.elapsed() / 6;
        let began = Instant::now();
        bed.runtime.block_on(async {
            let detached = spaces[6..].iter().map(|(uid, _)| bed.net.detach(*uid));
            for outcome in futures_util::future::join_all(detached).await {
                outcome.unwrap();
            }
        });
        let together = began.elapsed() / 54;
        println!("detach: {alone:?} alone, {together:?} each of 54 together");
        assert_eq!(bed.look().ports, std::slice::from_ref(&stays.at.veth));
        together < alone
    });
    assert!(quicker, "those together take as long as each alone");
    stays.ns.who(&bed.cell("a").six(), 80);
    attach();
}
