// SPDX-License-Identifier: Apache-2.0
//! Addresses that are asked for, on a real node: who has one keeps it, and nobody hears whose it
//! is.

use api::runtime::v0 as wire;
use api::status::{Reason, from_status};

use crate::containers::{WELL, cell_of, container, with_image};
use crate::network::{
    WORLD4, address, bed, cell_of_name, nothing_is_left, remove, run, start, web,
};

fn at_address(addresses: &[&str]) -> wire::CellSpec {
    wire::CellSpec {
        network: Some(wire::Network {
            addresses: addresses.iter().map(|it| (*it).to_owned()).collect(),
            ..Default::default()
        }),
        ..cell_of(container())
    }
}

#[tokio::test]
async fn an_address_that_is_asked_for_is_kept_and_nobody_hears_whose_it_is() {
    let Some(mut bed) = bed().await else {
        return;
    };
    let wanted = at_address(&["10.213.0.77"]);
    let before = start(&bed.ann, "web", wanted.clone(), web("x")).await;
    let before = before.unwrap();
    assert_eq!(address(&before, false), "10.213.0.77");
    assert!(address(&before, true).ends_with("::4d"), "{before:?}");

    let introduce = async |bed: &crate::network::Bed, tenant: &str, name: &str| {
        let person = bed.administrator.introduce(&bed.node, tenant, name, None);
        let person = person.await;
        with_image(&person).await;
        person
    };
    let sam = introduce(&bed, "other", "sam").await;
    let six = address(&before, true);
    let refused = async |person, addresses: &[&str]| {
        let asked = start(person, "mine", at_address(addresses), web("x")).await;
        from_status(&asked.unwrap_err())
    };
    for taken in ["10.213.0.77", six.as_str()] {
        let error = refused(&sam, &[taken]).await;
        assert_eq!(error.reason, Some(Reason::Conflict), "{error:?}");
        assert!(!format!("{error:?}").contains("acme"), "{error:?}");
    }
    for outside in ["10.214.0.1", "10.213.0.1", "10.213.255.255", "fd00::9"] {
        let error = refused(&sam, &[outside]).await;
        assert_eq!(error.reason, Some(Reason::InvalidField), "{error:?}");
        assert_eq!(error.field.as_deref(), Some("own_cell.network.addresses"));
    }
    // Both have one number; a pair of two is none.
    let error = refused(&sam, &["10.213.0.78", &six]).await;
    assert_eq!(error.reason, Some(Reason::InvalidField), "{error:?}");

    bed.node.kill_daemon();
    bed.administrator = bed.node.administrator().await;
    let bea = introduce(&bed, "acme", "bea").await;
    let sam = introduce(&bed, "other", "tom").await;
    let after = cell_of_name(&bea, "web").await;
    assert_eq!(after.network, before.network);
    let error = refused(&sam, &["10.213.0.77"]).await;
    assert_eq!(error.reason, Some(Reason::Conflict), "{error:?}");
    // Who still sends there meets its owner or nobody, and no other tenant.
    remove(&bea, "web").await;
    nothing_is_left(&bed);
    let error = refused(&sam, &["10.213.0.77"]).await;
    assert_eq!(error.reason, Some(Reason::Conflict), "{error:?}");
    start(&bea, "web", wanted, web("x")).await.unwrap();
    bed.node.stop();
}

#[tokio::test]
async fn an_address_that_lies_reaches_nobody() {
    let Some(bed) = bed().await else {
        return;
    };
    let mut cell = cell_of(container());
    cell.network = Some(wire::Network {
        addresses: vec!["10.213.0.50".to_owned()],
        ..Default::default()
    });
    let world = std::net::SocketAddr::new(WORLD4.parse().unwrap(), 7000);
    let world = bed
        .world
        .run(|| std::net::TcpListener::bind(world).unwrap());
    std::thread::spawn(move || while world.accept().is_ok() {});
    // Its root may do what it likes to its own interface.
    let script = format!(
        "busybox nc -w 5 {WORLD4} 7000 </dev/null || exit 3; \
         busybox ip addr flush dev eth0 scope global; \
         busybox ip addr add 10.213.0.51/32 dev eth0; \
         busybox ip route add 10.213.0.1 dev eth0; \
         busybox ip route add default via 10.213.0.1; \
         busybox nc -w 2 {WORLD4} 7000 </dev/null && exit 4; exit 0"
    );
    let mut request = crate::containers::request("liar/main", crate::containers::script(&script));
    let spec = request.executable.as_mut().unwrap().spec.as_mut().unwrap();
    spec.capabilities = Some(wire::Capabilities {
        bounding: vec!["ALL".to_owned()],
        ..Default::default()
    });
    request.own_cell = Some(cell);
    let ended = bed.ann.node.runtime().run_executable(request).await;
    assert_eq!(ended.unwrap().into_inner().exit.unwrap().how, Some(WELL));
    remove(&bed.ann, "liar").await;
    // Who has the address has lost nothing by it.
    let owner = format!("busybox nc -w 5 {WORLD4} 7000 </dev/null || exit 3");
    let how = run(&bed.ann, "owner", at_address(&["10.213.0.51"]), &owner).await;
    assert_eq!(how, WELL);
    bed.node.stop();
}
