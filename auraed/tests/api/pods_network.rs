// SPDX-License-Identifier: Apache-2.0
//! Pods on the network of cells, on a real node with a cable to a world: addresses that containers
//! know, ports of the node, names, the node's own network, and the daemon's death.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use api::pod::v0 as wire;
use api::runtime::v0 as runtime;
use api::status::{Reason, from_status};
use wire::{Phase, WaitFor};

use crate::caller::Person;
use crate::containers::{BOX, WELL, cell_of, container as cell_container, with_image};
use crate::network::{Bed, NODE4, NODE6, SOON, bed, nothing_is_left, port, run as run_cell};
use crate::pods::{get, remove, run, seconds};

fn container(name: &str, script: &str) -> wire::Container {
    let script = format!("export PATH=/bin; {script}");
    let entrypoint = ["/bin/busybox", "sh", "-c", &script].map(str::to_owned);
    wire::Container {
        name: name.to_owned(),
        image: BOX.to_owned(),
        pull: wire::PullPolicy::Never.into(),
        entrypoint: entrypoint.into(),
        ..Default::default()
    }
}

fn pod(containers: Vec<wire::Container>, network: runtime::Network) -> wire::PodSpec {
    wire::PodSpec {
        containers,
        network: Some(network),
        stop_grace: Some(seconds(1)),
        ..Default::default()
    }
}

fn published(ports: Vec<runtime::PublishedPort>) -> runtime::Network {
    runtime::Network {
        ports,
        ..Default::default()
    }
}

fn ready(port: u32) -> Option<wire::Probe> {
    Some(wire::Probe {
        ask: Some(wire::probe::Ask::Http(wire::HttpAction {
            port,
            ..Default::default()
        })),
        period: Some(seconds(1)),
        failure_threshold: Some(30),
        ..Default::default()
    })
}

/// A server of one line, ready when it answers.
fn server(line: &str) -> wire::Container {
    let script = format!("echo {line} > /srv/index.html; exec busybox httpd -f -p 80 -h /srv");
    wire::Container {
        readiness: ready(80),
        ..container("web", &script.replace("echo", "busybox echo"))
    }
}

async fn stranger(bed: &Bed) -> Person {
    let introduced = bed.administrator.introduce(&bed.node, "other", "sam", None);
    let sam = introduced.await;
    with_image(&sam).await;
    sam
}

fn addresses(pod: &wire::PodStatus) -> Vec<String> {
    let network = pod.network.clone().unwrap();
    assert_eq!(network.interfaces.len(), 1, "{network:?}");
    network.interfaces.first().unwrap().addresses.clone()
}

fn fact(name: &str, fact: wire::Fact) -> wire::EnvVar {
    wire::EnvVar {
        name: name.to_owned(),
        from: Some(wire::env_var::From::Fact(fact.into())),
    }
}

/// How a container of a person gets a line from there.
fn gets(host: &str, line: &str) -> String {
    format!(
        "busybox printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 5 {host} 80 | \
         busybox grep -q {line}"
    )
}

/// A server that says its pod's addresses, with names and ports of its own.
fn told_its_facts() -> wire::PodSpec {
    let mut web = server("$POD_IPS of $HOST_IP");
    web.env = vec![
        fact("POD_IPS", wire::Fact::PodIps),
        fact("HOST_IP", wire::Fact::HostIp),
    ];
    let network = runtime::Network {
        domain: "shop.example".to_owned(),
        dns_servers: vec!["192.0.2.53".to_owned()],
        ..published(vec![port(8080, 80)])
    };
    wire::PodSpec {
        host_aliases: vec![wire::HostAlias {
            ip: "192.0.2.7".to_owned(),
            names: vec!["db.test".to_owned()],
        }],
        ..pod(
            vec![web, container("side", "exec busybox sleep 900")],
            network,
        )
    }
}

#[tokio::test]
async fn a_pod_has_addresses_and_a_port_that_outlive_the_daemon_twice() {
    let Some(mut bed) = bed().await else {
        return;
    };
    let spec = told_its_facts();
    let before = run(&bed.ann, "web", spec, WaitFor::Ready).await.unwrap();
    let [six, four] = &addresses(&before)[..] else {
        panic!("{before:?}");
    };
    assert!(
        six.starts_with("fd") && four.starts_with("10.213."),
        "{before:?}"
    );
    assert_eq!(before.host_addresses, [NODE6, NODE4]);
    let said = format!("{six},{four} of {NODE6}\n");
    for host in [NODE4, NODE6] {
        assert!(bed.world.get(host, 8080).ends_with(&said), "{said}");
    }
    // Each container knows the pod's names, and is in its network.
    let knows = format!(
        "busybox grep -q '{four}.web.shop.example web' /etc/hosts && \
         busybox grep -q '192.0.2.7.db.test' /etc/hosts && \
         busybox grep -q 'nameserver 192.0.2.53' /etc/resolv.conf && {}",
        gets("127.0.0.1", six)
    );
    assert_eq!(
        crate::pods::exec(&bed.ann, "web/side", &knows).await,
        Some(WELL)
    );
    // The tenant's own reaches it, and no other tenant's.
    let sam = stranger(&bed).await;
    for host in [six, four] {
        let friend = gets(host, six);
        assert_eq!(
            run_cell(&bed.ann, "friend", cell_of(cell_container()), &friend).await,
            WELL
        );
        let foe = format!("{} && exit 7; exit 0", gets(host, six));
        assert_eq!(
            run_cell(&sam, "foe", cell_of(cell_container()), &foe).await,
            WELL
        );
    }
    for _ in 0..2 {
        bed.node.kill_daemon();
        assert!(bed.world.get(NODE4, 8080).ends_with(&said));
    }
    bed.administrator = bed.node.administrator().await;
    let bea = bed.administrator.introduce(&bed.node, "acme", "bea", None);
    bed.ann = bea.await;
    let after = get(&bed.ann, "web").await;
    assert_eq!(after.network, before.network);
    assert!(bed.world.get(NODE4, 8080).ends_with(&said));
    remove(&bed.ann, "web", true).await.unwrap();
    nothing_is_left(&bed);
    bed.node.stop();
}

#[tokio::test]
async fn two_pods_of_a_tenant_talk_and_two_of_different_ones_dont() {
    let Some(bed) = bed().await else {
        return;
    };
    let none = runtime::Network::default;
    let one = pod(vec![server("one")], none());
    let one = run(&bed.ann, "one", one, WaitFor::Ready).await.unwrap();
    let sam = stranger(&bed).await;
    for host in addresses(&one) {
        for (person, reaches) in [(&bed.ann, true), (&sam, false)] {
            let mut asks = pod(vec![container("ask", &gets(&host, "one"))], none());
            asks.restart_policy = wire::RestartPolicy::Never.into();
            let ended = run(person, "asks", asks, WaitFor::Ended).await.unwrap();
            assert_eq!(
                ended.phase() == Phase::Succeeded,
                reaches,
                "{host}: {ended:?}"
            );
            remove(person, "asks", true).await.unwrap();
        }
    }
    // One that is to have no network has none, and its containers' probes work all the same.
    let mut alone = none();
    alone.mode = runtime::network::Mode::None.into();
    let alone = pod(vec![server("alone")], alone);
    let alone = run(&bed.ann, "alone", alone, WaitFor::Ready).await.unwrap();
    assert_eq!(alone.network, None);
    bed.node.stop();
}

/// The pod's address is where many servers listen since `status.podIP` is there.
#[tokio::test]
async fn a_server_that_listens_at_the_pods_address_alone_is_probed_and_dialed() {
    let Some(bed) = bed().await else {
        return;
    };
    let script = "busybox echo here > /srv/index.html; \
                  exec busybox httpd -f -p ${IPS#*,}:80 -h /srv";
    let mut web = container("web", script);
    web.readiness = ready(80);
    web.env = vec![fact("IPS", wire::Fact::PodIps)];
    let spec = pod(vec![web], runtime::Network::default());
    let status = run(&bed.ann, "web", spec, WaitFor::Ready).await.unwrap();
    assert!(status.ready, "{status:?}");
    let start = wire::DialRequest {
        message: Some(wire::dial_request::Message::Start(wire::DialStart {
            r#ref: crate::pods::at("web"),
            port: 80,
        })),
    };
    let ask = wire::DialRequest {
        message: Some(wire::dial_request::Message::Data(
            b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        )),
    };
    let asked = tokio_stream::iter([start, ask]);
    let dialed = crate::pods::pods(&bed.ann).dial(asked).await;
    let mut answers = dialed.unwrap().into_inner();
    let mut text = Vec::new();
    while let Ok(Some(answer)) = answers.message().await {
        text.extend(answer.data);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.ends_with("here\n"), "{text}");
    bed.node.stop();
}

#[tokio::test]
async fn what_is_the_nodes_own_is_an_administrators_in_pods_too() {
    let Some(bed) = bed().await else {
        return;
    };
    let host = wire::PodSpec {
        host_network: true,
        ..pod(vec![server("host")], runtime::Network::default())
    };
    let loopback = runtime::PublishedPort {
        address: "127.0.0.1".to_owned(),
        ..port(8080, 80)
    };
    let mut refused = vec![(host.clone(), "pod.spec.host_network")];
    for own in [port(80, 80), port(9443, 80), loopback] {
        let spec = pod(vec![server("x")], published(vec![own]));
        refused.push((spec, "pod.spec.network.ports[0]"));
    }
    for (spec, field) in refused {
        let denied = run(&bed.ann, "web", spec, WaitFor::Created).await;
        let denied = from_status(&denied.unwrap_err());
        assert_eq!(denied.reason, Some(Reason::PermissionDenied), "{denied:?}");
        assert_eq!(denied.field.as_deref(), Some(field));
    }
    // The node makes the pod's cell; its port is a member's all the same, and answers for nothing
    // that is sent to the node's own loopback.
    let spec = pod(vec![server("ann")], published(vec![port(8080, 80)]));
    run(&bed.ann, "web", spec.clone(), WaitFor::Ready)
        .await
        .unwrap();
    assert!(bed.world.get(NODE4, 8080).ends_with("ann\n"));
    let itself = SocketAddr::from(([127, 0, 0, 1], 8080));
    let asked = bed
        .ns
        .run(|| TcpStream::connect_timeout(&itself, SOON).map(drop));
    let kind = asked.unwrap_err().kind();
    assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
    let sam = stranger(&bed).await;
    let taken = run(&sam, "web", spec, WaitFor::Created).await;
    let taken = from_status(&taken.unwrap_err());
    assert_eq!(taken.reason, Some(Reason::Conflict), "{taken:?}");
    assert_eq!(taken.field.as_deref(), Some("pod.spec.network.ports"));
    assert!(!format!("{taken:?}").contains("acme"), "{taken:?}");

    with_image(&bed.administrator).await;
    let mut host = host;
    let script = "busybox echo $IP > /srv/index.html; exec busybox httpd -f -p 8099 -h /srv";
    host.containers = vec![wire::Container {
        readiness: ready(8099),
        env: vec![fact("IP", wire::Fact::PodIp)],
        ..container("web", script)
    }];
    let status = run(&bed.administrator, "host", host.clone(), WaitFor::Ready).await;
    assert_eq!(status.unwrap().network, None);
    let mut stream = bed.ns.connect("127.0.0.1", 8099);
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with(&format!("{NODE6}\n")), "{text}");
    // Within another cell that would be that one's network.
    let inner = run(&bed.administrator, "host/inner", host, WaitFor::Created).await;
    let inner = from_status(&inner.unwrap_err());
    assert_eq!(
        inner.field.as_deref(),
        Some("pod.spec.host_network"),
        "{inner:?}"
    );
    bed.node.stop();
}
