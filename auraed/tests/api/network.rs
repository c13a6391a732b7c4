// SPDX-License-Identifier: Apache-2.0
//! The network of cells on a real node, which runs in a network namespace of its own with a cable
//! to a world that knows no way to the cells. Packets decide: a server is reached or isn't.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use api::runtime::v0 as wire;
use api::status::Reason;
use api::tenant::v0 as tenant;
use kernel::namespace::{Namespaces, join, open, unshare};
use tonic::Status;

use crate::caller::Person;
use crate::containers::{WELL, at, cell_of, container, refused, request, script, with_image};
use crate::node::TestNode;

/// Longer than a server takes to listen.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// For what is to bring no answer.
const SHORT: Duration = Duration::from_millis(700);
/// The node's addresses, and one behind its router.
pub(crate) const NODE4: &str = "192.0.2.2";
pub(crate) const NODE6: &str = "2001:db8:1::2";
pub(crate) const WORLD4: &str = "198.51.100.1";

/// A network namespace; it ends with its descriptor and what runs in it.
pub(crate) struct Ns(OwnedFd);

impl Ns {
    fn new() -> Self {
        let made = std::thread::spawn(|| {
            unshare(Namespaces::NET).unwrap();
            ip("link set lo up");
            open(Path::new("/proc/thread-self/ns/net")).unwrap()
        });
        Self(made.join().unwrap())
    }

    /// Runs something on a thread in the namespace.
    pub(crate) fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                join(&self.0, Namespaces::NET).unwrap();
                body()
            });
            match thread.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Runs `ip` in the namespace; several commands are divided by `;`.
    pub(crate) fn ip(&self, commands: &str) -> String {
        self.run(|| commands.split(';').map(|one| ip(one.trim())).collect())
    }

    /// Connects, and again until something listens.
    pub(crate) fn connect(&self, host: &str, port: u16) -> TcpStream {
        let to = SocketAddr::new(host.parse().unwrap(), port);
        let begun = Instant::now();
        self.run(|| {
            loop {
                match TcpStream::connect_timeout(&to, SOON) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(SOON)).unwrap();
                        return stream;
                    }
                    Err(error) if begun.elapsed() > SOON => panic!("{to}: {error}"),
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        })
    }

    /// What the web server there says.
    pub(crate) fn get(&self, host: &str, port: u16) -> String {
        let mut stream = self.connect(host, port);
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

fn ip(command: &str) -> String {
    let mut ip = Command::new("ip");
    let output = ip.args(command.split_whitespace()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {command}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) struct Bed {
    pub(crate) ns: Ns,
    pub(crate) world: Ns,
    pub(crate) node: TestNode,
    pub(crate) administrator: Person,
    pub(crate) ann: Person,
}

/// A node with its cable, and a member of the tenant `acme` who has an image.
pub(crate) async fn bed() -> Option<Bed> {
    bed_with(&[]).await
}

/// The same, of a node with more settings.
pub(crate) async fn bed_with(settings: &[&str]) -> Option<Bed> {
    if Command::new("ip").arg("-V").output().is_err() {
        testkit::skip("networks need ip(8)");
        return None;
    }
    let (ns, world) = (Ns::new(), Ns::new());
    ns.ip("link add up0 type veth peer name w0");
    ns.run(|| {
        // `ip` takes a namespace by the number of a process in it.
        let mut sleeper = world.run(|| Command::new("sleep").arg("60").spawn().unwrap());
        ip(&format!("link set w0 netns {}", sleeper.id()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    });
    ns.ip(&format!(
        "addr add {NODE4}/24 dev up0; -6 addr add {NODE6}/64 dev up0 nodad; link set up0 up; \
         route add default via 192.0.2.1; -6 route add default via 2001:db8:1::1"
    ));
    world.ip(&format!(
        "addr add 192.0.2.1/24 dev w0; -6 addr add 2001:db8:1::1/64 dev w0 nodad; \
         addr add {WORLD4}/32 dev lo; link set w0 up"
    ));
    let reserved = "cell_network.reserved_ports=[\"9443/tcp\"]";
    let settings = [&[reserved], settings].concat();
    let node = ns.run(|| TestNode::start_with(&settings))?;
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    with_image(&ann).await;
    Some(Bed {
        ns,
        world,
        node,
        administrator,
        ann,
    })
}

pub(crate) fn port(host_port: u32, port: u32) -> wire::PublishedPort {
    wire::PublishedPort {
        host_port,
        port,
        ..Default::default()
    }
}

pub(crate) fn published(ports: Vec<wire::PublishedPort>) -> wire::CellSpec {
    wire::CellSpec {
        network: Some(wire::Network {
            ports,
            ..Default::default()
        }),
        ..cell_of(container())
    }
}

pub(crate) fn web(text: &str) -> wire::ExecutableSpec {
    script(&format!(
        "busybox echo {text} > /srv/index.html; exec busybox httpd -f -p 80 -h /srv"
    ))
}

pub(crate) async fn start(
    person: &Person,
    name: &str,
    cell: wire::CellSpec,
    spec: wire::ExecutableSpec,
) -> Result<wire::CellStatus, Status> {
    let mut request = request(&format!("{name}/main"), spec);
    request.own_cell = Some(cell);
    request.wait_for = wire::WaitFor::Started.into();
    let mut runtime = person.node.runtime();
    runtime.run_executable(request).await?;
    Ok(cell_of_name(person, name).await)
}

pub(crate) async fn cell_of_name(person: &Person, name: &str) -> wire::CellStatus {
    let get = wire::GetRequest { r#ref: at(name) };
    let object = person.node.runtime().get(get).await.unwrap().into_inner();
    match object.object.unwrap() {
        wire::object::Object::Cell(cell) => cell,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn run(
    person: &Person,
    name: &str,
    cell: wire::CellSpec,
    text: &str,
) -> wire::exit::How {
    let mut request = request(&format!("{name}/main"), script(text));
    request.own_cell = Some(cell);
    let mut runtime = person.node.runtime();
    let ended = runtime.run_executable(request).await.unwrap().into_inner();
    remove(person, name).await;
    ended.exit.unwrap().how.unwrap()
}

pub(crate) async fn remove(person: &Person, name: &str) {
    let remove = wire::RemoveRequest {
        r#ref: at(name),
        recursive: true,
        force: true,
    };
    let _gone_already = person.node.runtime().remove(remove).await;
}

pub(crate) fn address(cell: &wire::CellStatus, six: bool) -> String {
    let interfaces = &cell.network.as_ref().unwrap().interfaces;
    let interface = interfaces.first().unwrap();
    let mut all = interface.addresses.iter();
    all.find(|it| it.contains(':') == six).unwrap().clone()
}

#[tokio::test]
async fn a_server_in_a_container_is_reached_by_its_port_and_knows_its_name() {
    let Some(bed) = bed().await else {
        return;
    };
    let cell = start(
        &bed.ann,
        "web",
        published(vec![port(8080, 80)]),
        web("hello"),
    )
    .await;
    let cell = cell.unwrap();
    for host in [NODE4, NODE6] {
        let said = bed.world.get(host, 8080);
        assert!(said.ends_with("hello\n"), "{host}: {said}");
    }
    let network = cell.network.clone().unwrap();
    assert_eq!(network.ports, [port(8080, 80)]);
    assert_eq!(network.interfaces[0].name, "eth0");
    assert!(
        network.interfaces[0].addresses[0].starts_with("fd"),
        "{network:?}"
    );
    let mode = cell.effective.clone().unwrap().network.unwrap().mode();
    assert_eq!(mode, wire::network::Mode::Bridge);
    // What runs there knows itself by its name and its addresses, and can't change that.
    let (four, six) = (address(&cell, false), address(&cell, true));
    let sees = format!(
        "busybox grep -q '{six}.web' /etc/hosts && busybox grep -q '{four}.web' /etc/hosts && \
         [ $(busybox cat /etc/hostname) = web ] && ! busybox touch /etc/hosts && \
         [ -f /etc/resolv.conf ]"
    );
    let argv = ["/bin/busybox", "sh", "-c", &sees].map(str::to_owned);
    let beside = wire::ExecutableSpec {
        argv: argv.to_vec(),
        ..Default::default()
    };
    let mut runtime = bed.ann.node.runtime();
    let seen = runtime.run_executable(request("web/beside", beside)).await;
    assert_eq!(seen.unwrap().into_inner().exit.unwrap().how, Some(WELL));
    // The world can't go around the port.
    bed.world.ip("route add 10.213.0.0/16 via 192.0.2.2");
    let to = SocketAddr::new(four.parse().unwrap(), 80);
    let around = bed.world.run(|| TcpStream::connect_timeout(&to, SHORT));
    assert!(around.is_err());
    bed.node.stop();
}

#[tokio::test]
async fn a_container_reaches_the_world_by_the_nodes_address_and_its_tenants_cells() {
    let Some(bed) = bed().await else {
        return;
    };
    let world = bed.world.run(|| TcpListener::bind((WORLD4, 7000)).unwrap());
    let seen = std::thread::spawn(move || {
        let (mut stream, from) = world.accept().unwrap();
        stream.write_all(b"welcome\n").unwrap();
        from.ip().to_string()
    });
    let out = format!("[ \"$(busybox nc {WORLD4} 7000 </dev/null)\" = welcome ]");
    assert_eq!(run(&bed.ann, "out", cell_of(container()), &out).await, WELL);
    assert_eq!(seen.join().unwrap(), NODE4);

    let web = start(&bed.ann, "web", cell_of(container()), web("hello"))
        .await
        .unwrap();
    let sam = bed
        .administrator
        .introduce(&bed.node, "other", "sam", None)
        .await;
    with_image(&sam).await;
    let get = |host: &str| {
        let ask = "busybox printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 9 HOST 80";
        ask.replace("HOST", host) + " | busybox grep -q hello"
    };
    for host in [address(&web, false), address(&web, true)] {
        // It may not listen yet.
        let friend = format!(
            "for i in 1 2 3 4 5 6 7 8 9; do {} && exit; busybox sleep 0.2; done; exit 7",
            get(&host)
        );
        let how = run(&bed.ann, "friend", cell_of(container()), &friend).await;
        assert_eq!(how, WELL, "{host}");
        // Another tenant's is out of reach.
        let foe = format!("{} || exit 7", get(&host));
        let how = run(&sam, "foe", cell_of(container()), &foe).await;
        assert_eq!(how, wire::exit::How::Code(7), "{host}");
    }
    bed.node.stop();
}

#[tokio::test]
async fn who_asks_for_nothing_has_nothing_and_what_is_refused_is_named() {
    let Some(bed) = bed().await else {
        return;
    };
    // Nothing is made on the node before a cell wants it.
    assert!(!bed.ns.ip("-o link").contains("aurae0"));
    let mut none = cell_of(container());
    none.network = Some(wire::Network {
        mode: wire::network::Mode::None.into(),
        ..Default::default()
    });
    let only = "[ \"$(busybox ls /sys/class/net)\" = lo ]";
    assert_eq!(run(&bed.ann, "none", none, only).await, WELL);
    assert!(!bed.ns.ip("-o link").contains("aurae0"));

    let cell = published(vec![port(80, 80)]);
    let low = start(&bed.ann, "low", cell.clone(), web("x"))
        .await
        .unwrap_err();
    assert_eq!(refused(&low).0, Some(Reason::PermissionDenied), "{low:?}");
    with_image(&bed.administrator).await;
    start(&bed.administrator, "low", cell, web("x"))
        .await
        .unwrap();

    let sam = bed
        .administrator
        .introduce(&bed.node, "other", "sam", None)
        .await;
    with_image(&sam).await;
    let cell = published(vec![port(8080, 80)]);
    start(&bed.ann, "web", cell.clone(), web("ann"))
        .await
        .unwrap();
    let twice = start(&sam, "web", cell.clone(), web("sam"))
        .await
        .unwrap_err();
    assert_eq!(refused(&twice).0, Some(Reason::Conflict), "{twice:?}");
    assert!(bed.world.get(NODE4, 8080).ends_with("ann\n"));
    // A program of the node's keeps its port, and a stopped cell's is free.
    let _listener = bed.ns.run(|| TcpListener::bind("0.0.0.0:9090").unwrap());
    let used = published(vec![port(9090, 80)]);
    let used = start(&sam, "web", used, web("sam")).await.unwrap_err();
    assert_eq!(refused(&used).0, Some(Reason::Conflict), "{used:?}");
    remove(&bed.ann, "web").await;
    start(&sam, "web", cell, web("sam")).await.unwrap();
    assert!(bed.world.get(NODE4, 8080).ends_with("sam\n"));

    let quotas = tenant::Quotas {
        addresses: Some("1".to_owned()),
        ports: Some("2".to_owned()),
        ..Default::default()
    };
    let set = tenant::SetRequest {
        name: "acme".to_owned(),
        quotas: Some(quotas),
    };
    bed.administrator.node.tenant().set(set).await.unwrap();
    let many = published(vec![port(2001, 1), port(2002, 1), port(2003, 1)]);
    let many = start(&bed.ann, "many", many, web("x")).await.unwrap_err();
    assert_eq!(refused(&many).0, Some(Reason::LimitExceeded), "{many:?}");
    start(&bed.ann, "one", cell_of(container()), web("x"))
        .await
        .unwrap();
    let two = start(&bed.ann, "two", cell_of(container()), web("x"))
        .await
        .unwrap_err();
    assert_eq!(refused(&two).0, Some(Reason::LimitExceeded), "{two:?}");
    bed.node.stop();
}

#[tokio::test]
async fn a_killed_daemon_breaks_no_connection_and_gives_no_address_twice() {
    let Some(mut bed) = bed().await else {
        return;
    };
    let echo = script("exec busybox nc -ll -p 7 -e /bin/busybox cat");
    let before = start(&bed.ann, "echo", published(vec![port(7007, 7)]), echo)
        .await
        .unwrap();
    let mut stream = bed.world.connect(NODE4, 7007);
    let mut say = |text: &[u8; 4]| {
        stream.write_all(text).unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, text);
    };
    say(b"one\n");
    for text in [b"two\n", b"thr\n"] {
        bed.node.kill_daemon();
        say(text);
    }
    bed.administrator = bed.node.administrator().await;
    bed.ann = bed
        .administrator
        .introduce(&bed.node, "acme", "bea", None)
        .await;
    let after = cell_of_name(&bed.ann, "echo").await;
    assert_eq!(after.network, before.network);
    drop(bed.world.connect(NODE4, 7007));
    let other = start(&bed.ann, "web", published(vec![port(7007, 80)]), web("x")).await;
    assert_eq!(refused(&other.unwrap_err()).0, Some(Reason::Conflict));
    let other = start(&bed.ann, "web", cell_of(container()), web("x"))
        .await
        .unwrap();
    assert_ne!(address(&other, true), address(&before, true));
    // What ends while no daemon is there is removed by the next.
    remove(&bed.ann, "web").await;
    remove(&bed.ann, "echo").await;
    nothing_is_left(&bed);
    bed.node.stop();
}

/// No port of the bridge, no file, no rule of a cell.
pub(crate) fn nothing_is_left(bed: &Bed) {
    let begun = Instant::now();
    let files = || {
        std::fs::read_dir(bed.node.folder().join("run/networks"))
            .unwrap()
            .count()
    };
    loop {
        let links = bed.ns.ip("-o link");
        if !links.contains("aurae0-") && files() == 0 {
            return;
        }
        assert!(begun.elapsed() < SOON, "{} files\n{links}", files());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn a_hundred_cells_leave_nothing_on_the_node() {
    let Some(bed) = bed().await else {
        return;
    };
    for round in 0..10 {
        let cells = (0..10).map(|number| {
            let name = format!("c{round}-{number}");
            let cell = published(vec![port(3000 + number, 80)]);
            let person = &bed.ann;
            async move {
                let up = "[ \"$(busybox cat /sys/class/net/eth0/operstate)\" = up ]";
                run(person, &name, cell, up).await
            }
        });
        let ended = futures_util::future::join_all(cells).await;
        assert!(ended.iter().all(|how| *how == WELL), "{ended:?}");
        nothing_is_left(&bed);
    }
    bed.node.stop();
}

#[tokio::test]
async fn a_node_without_a_network_says_so_and_serves() {
    let Some(node) = TestNode::start() else {
        return;
    };
    let administrator = node.administrator().await;
    let ann = administrator.introduce(&node, "acme", "ann", None).await;
    with_image(&ann).await;
    let asked = start(&ann, "web", published(vec![port(8080, 80)]), web("x")).await;
    let (reason, message) = refused(&asked.unwrap_err());
    assert_eq!(reason, Some(Reason::Unsupported));
    assert!(message.contains("cell_network.enabled"), "{message}");
    let only = "[ \"$(busybox ls /sys/class/net)\" = lo ]";
    assert_eq!(run(&ann, "box", cell_of(container()), only).await, WELL);
    node.stop();
}
