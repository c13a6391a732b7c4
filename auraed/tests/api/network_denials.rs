// SPDX-License-Identifier: Apache-2.0
//! What the network of cells denies members, on a real node: ports that are the node's own, and a
//! network below a cell that is to have none.

use std::net::{SocketAddr, TcpListener, TcpStream};

use api::runtime::v0 as wire;
use api::status::Reason;

use crate::containers::{WELL, at, cell_of, container, refused, with_image};
use crate::network::{NODE4, SOON, address, bed, port, published, run, start, web};

#[tokio::test]
async fn a_members_port_answers_for_nothing_of_the_node() {
    let Some(bed) = bed().await else {
        return;
    };
    let loopback = wire::PublishedPort {
        address: "127.0.0.1".to_owned(),
        ..port(8080, 80)
    };
    for asked in [loopback, port(9443, 80)] {
        let cell = published(vec![asked.clone()]);
        let denied = start(&bed.ann, "web", cell, web("x")).await.unwrap_err();
        assert_eq!(
            refused(&denied).0,
            Some(Reason::PermissionDenied),
            "{asked:?}"
        );
    }
    let cell = published(vec![port(8080, 80)]);
    start(&bed.ann, "web", cell, web("ann")).await.unwrap();
    assert!(bed.world.get(NODE4, 8080).ends_with("ann\n"));
    // What a program of the node sends to itself stays there, also once one listens.
    let itself = SocketAddr::from(([127, 0, 0, 1], 8080));
    let asked = bed
        .ns
        .run(|| TcpStream::connect_timeout(&itself, SOON).map(drop));
    assert_eq!(
        asked.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionRefused
    );
    let own = bed.ns.run(|| TcpListener::bind(itself).unwrap());
    let _asks = bed.ns.connect("127.0.0.1", 8080);
    own.set_nonblocking(true).unwrap();
    own.accept().unwrap();
    // An administrator's is where he expects it.
    with_image(&bed.administrator).await;
    let cell = published(vec![port(9443, 80)]);
    let web = web("administrator");
    start(&bed.administrator, "web", cell, web).await.unwrap();
    for host in [NODE4, "127.0.0.1"] {
        let said = bed.ns.get(host, 9443);
        assert!(said.ends_with("administrator\n"), "{host}: {said}");
    }
    bed.node.stop();
}

#[tokio::test]
async fn a_cell_that_is_to_have_no_network_has_none_below_it() {
    let Some(bed) = bed().await else {
        return;
    };
    with_image(&bed.administrator).await;
    let of_mode = |mode: wire::network::Mode| {
        Some(wire::Network {
            mode: mode.into(),
            ..Default::default()
        })
    };
    let bridge = wire::CellSpec {
        network: of_mode(wire::network::Mode::Bridge),
        ..cell_of(container())
    };
    let only = "[ \"$(busybox ls /sys/class/net)\" = lo ] && \
                ! busybox grep -q nameserver /etc/resolv.conf";
    for person in [&bed.ann, &bed.administrator] {
        let closed = wire::RunCellRequest {
            cell: Some(wire::Cell {
                r#ref: at("closed"),
                spec: Some(wire::CellSpec {
                    network: of_mode(wire::network::Mode::None),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        person.node.runtime().run_cell(closed).await.unwrap();
        let how = run(person, "closed/box", cell_of(container()), only).await;
        assert_eq!(how, WELL);
    }
    let denied = start(&bed.ann, "closed/web", bridge.clone(), web("x")).await;
    let denied = denied.unwrap_err();
    assert_eq!(
        refused(&denied).0,
        Some(Reason::PermissionDenied),
        "{denied:?}"
    );
    let ports = published(vec![port(8080, 80)]);
    let denied = start(&bed.ann, "closed/web", ports, web("x")).await;
    assert_eq!(
        refused(&denied.unwrap_err()).0,
        Some(Reason::PermissionDenied)
    );
    let cell = start(&bed.administrator, "closed/web", bridge, web("x")).await;
    assert!(!address(&cell.unwrap(), true).is_empty());
    bed.node.stop();
}
