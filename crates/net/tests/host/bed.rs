// SPDX-License-Identifier: Apache-2.0
//! The test bed: namespaces, a node with its uplink to a world, cells, and what speaks in them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kernel::namespace::{Namespaces, join, open, unshare};
use model::name::Uid;
use net::{Attach, Attached, HostPort, Network, Protocol, Settings, Started};

/// The node on its uplink.
pub(crate) const NODE4: &str = "192.0.2.2";
pub(crate) const NODE6: &str = "2001:db8:1::2";
/// A host behind the router.
pub(crate) const WORLD4: &str = "198.51.100.1";
pub(crate) const WORLD6: &str = "2001:db8:2::1";

/// Longer than any packet takes here, on a slow machine, too; a refusal is known sooner.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often UDP asks in that time.
const TRIES: usize = 40;
/// For what is to bring no answer.
pub(crate) const SHORT: Duration = Duration::from_millis(700);

/// False, and said so, where the tests can't run.
pub(crate) fn can_run() -> bool {
    const WHY: &str = "networks need root and ip(8)";
    let ip = testkit::exec::is_there("ip");
    if !ip {
        testkit::skip(WHY);
    }
    ip && testkit::needs_root(WHY)
}

/// A network namespace; it ends with its descriptor and its sockets.
pub(crate) struct Ns(OwnedFd);

impl Ns {
    pub(crate) fn new() -> Self {
        let made = thread::spawn(|| {
            unshare(Namespaces::NET).unwrap();
            ip("link set lo up");
            open(Path::new("/proc/thread-self/ns/net")).unwrap()
        });
        Self(made.join().unwrap())
    }

    pub(crate) fn fd(&self) -> OwnedFd {
        self.0.try_clone().unwrap()
    }

    /// Runs something on a thread in the namespace.
    pub(crate) fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
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
    pub(crate) fn ip(&self, commands: &str) {
        self.run(|| commands.split(';').for_each(|one| ip(one.trim())));
    }

    pub(crate) fn write(&self, file: &str, value: &str) {
        self.run(|| std::fs::write(file, value).unwrap());
    }

    /// A server that tells each caller who it seems to be.
    pub(crate) fn serve(&self, at: &str) {
        let at: SocketAddr = at.parse().unwrap();
        let (tcp, udp) =
            self.run(|| (TcpListener::bind(at).unwrap(), UdpSocket::bind(at).unwrap()));
        // They wait in `accept` and `recv` until the test's process ends.
        thread::spawn(move || {
            while let Ok((mut stream, from)) = tcp.accept() {
                let _ = stream.write_all(from.ip().to_string().as_bytes());
            }
        });
        thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((_, from)) = udp.recv_from(&mut bytes) {
                let _ = udp.send_to(from.ip().to_string().as_bytes(), from);
            }
        });
    }

    /// Who a TCP server takes this namespace for; none where it can't be reached in that time.
    fn tcp(&self, to: SocketAddr, patience: Duration) -> Option<String> {
        self.run(|| {
            let mut stream = TcpStream::connect_timeout(&to, patience).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            Some(text)
        })
    }

    /// The same over UDP, which may have to ask again, each time by a socket of its own: the first
    /// `connect` fixes a socket's address, and where no other is ready yet, that is `::1`.
    fn udp(&self, to: SocketAddr, tries: usize) -> Option<String> {
        self.run(|| {
            (0..tries).find_map(|_| {
                let next = Instant::now() + SHORT;
                let answer = ask(to);
                if answer.is_none() {
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                answer
            })
        })
    }

    /// Who a server takes this namespace for, by both protocols, which must agree.
    pub(crate) fn who(&self, host: &str, port: u16) -> String {
        let to = SocketAddr::new(host.parse().unwrap(), port);
        // First what asks again: an address of IPv6 is used only once no other has shown up.
        let udp = self.udp(to, TRIES);
        let tcp = self.tcp(to, PATIENCE);
        assert_eq!(tcp, udp, "{to}");
        tcp.unwrap_or_else(|| panic!("{to} isn't reached"))
    }

    /// Whether a server is out of reach, by both protocols, which must agree.
    pub(crate) fn cut_off(&self, host: &str, port: u16) -> bool {
        let to = SocketAddr::new(host.parse().unwrap(), port);
        let (tcp, udp) = (self.tcp(to, SHORT), self.udp(to, 1));
        assert_eq!(tcp, udp, "{to}");
        tcp.is_none()
    }
}

/// Who a UDP server takes this thread's namespace for; none where nothing comes back.
fn ask(to: SocketAddr) -> Option<String> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.set_read_timeout(Some(SHORT)).unwrap();
    socket.connect(to).ok()?;
    socket.send(b"who am I?").ok()?;
    let mut bytes = [0; 64];
    let length = socket.recv(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

fn ip(command: &str) {
    let output = Command::new("ip")
        .args(command.split_whitespace())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {command}: {error}");
}

/// A node, its network, and the world behind its uplink, which knows no way to the cells.
pub(crate) struct Bed {
    pub(crate) node: Ns,
    pub(crate) world: Ns,
    pub(crate) net: Network,
    pub(crate) started: Started,
    pub(crate) settings: Settings,
    pub(crate) runtime: tokio::runtime::Runtime,
}

pub(crate) struct Cell {
    pub(crate) uid: Uid,
    pub(crate) ns: Ns,
    pub(crate) at: Attached,
}

impl Cell {
    pub(crate) fn six(&self) -> String {
        self.address(IpAddr::is_ipv6)
    }

    pub(crate) fn four(&self) -> String {
        self.address(IpAddr::is_ipv4)
    }

    fn address(&self, of: fn(&IpAddr) -> bool) -> String {
        self.at
            .addresses
            .iter()
            .find(|a| of(a))
            .unwrap()
            .to_string()
    }
}

pub(crate) fn settings() -> Settings {
    Settings::for_node(b"the test bed")
}

/// A node and a world with a cable between them.
pub(crate) fn uplink() -> (Ns, Ns) {
    let (node, world) = (Ns::new(), Ns::new());
    // A new namespace begins with what the machine's own has, which another program may have set.
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        node.write(&format!("/proc/sys/net/{file}"), "0");
    }
    node.ip("link add up0 type veth peer name w0");
    move_link(&node, "w0", &world);
    node.ip(&format!(
        "addr add {NODE4}/24 dev up0; -6 addr add {NODE6}/64 dev up0 nodad; link set up0 up"
    ));
    world.ip(&format!(
        "addr add 192.0.2.1/24 dev w0; -6 addr add 2001:db8:1::1/64 dev w0 nodad; \
         addr add {WORLD4}/32 dev lo; -6 addr add {WORLD6}/128 dev lo nodad; link set w0 up"
    ));
    node.ip("route add default via 192.0.2.1; -6 route add default via 2001:db8:1::1");
    await_link(&node, "up0");
    await_link(&world, "w0");
    let known = |ns: &Ns, there: &str| ns.ip(&format!("neigh replace {there}"));
    // So that the first packet isn't one that asks: a test of what is dropped has little patience.
    known(
        &node,
        &format!("192.0.2.1 lladdr {} dev up0", mac_of(&world, "w0")),
    );
    known(
        &node,
        &format!("2001:db8:1::1 lladdr {} dev up0", mac_of(&world, "w0")),
    );
    known(
        &world,
        &format!("{NODE4} lladdr {} dev w0", mac_of(&node, "up0")),
    );
    known(
        &world,
        &format!("{NODE6} lladdr {} dev w0", mac_of(&node, "up0")),
    );
    (node, world)
}

/// What is sent before the kernel has seen that a new link is up is lost.
fn await_link(ns: &Ns, link: &str) {
    let until = std::time::Instant::now() + PATIENCE;
    while show(ns, link).split_whitespace().nth(1) != Some("UP") {
        assert!(std::time::Instant::now() < until, "{link} isn't up");
        thread::sleep(Duration::from_millis(20));
    }
}

fn mac_of(ns: &Ns, link: &str) -> String {
    show(ns, link).split_whitespace().nth(2).unwrap().to_owned()
}

/// All that `ip` says of a link.
pub(crate) fn shows(ns: &Ns, link: &str) -> String {
    let shown = ns.run(|| Command::new("ip").args(["link", "show", link]).output());
    String::from_utf8(shown.unwrap().stdout).unwrap()
}

/// Name, state, hardware address.
fn show(ns: &Ns, link: &str) -> String {
    let shown = ns.run(|| {
        let mut command = Command::new("ip");
        command.args(["-br", "link", "show", link]).output()
    });
    String::from_utf8(shown.unwrap().stdout).unwrap()
}

/// `ip link set netns` takes a process: one that sleeps in the namespace for as long as it takes.
pub(crate) fn move_link(from: &Ns, name: &str, to: &Ns) {
    let mut child = to.run(|| Command::new("sleep").arg("60").spawn().unwrap());
    let pid = child.id();
    from.ip(&format!("link set {name} netns {pid}"));
    child.kill().unwrap();
    child.wait().unwrap();
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let (node, world) = uplink();
        Self::on(node, world, settings, Vec::new())
    }

    pub(crate) fn on(
        node: Ns,
        world: Ns,
        settings: Settings,
        living: Vec<(Uid, Attached)>,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let (net, started) = runtime
            .block_on(Network::start(settings.clone(), Some(node.fd()), living))
            .unwrap();
        Self {
            node,
            world,
            net,
            started,
            settings,
            runtime,
        }
    }

    pub(crate) fn attach(&self, attach: Attach) -> net::Result<Attached> {
        self.runtime.block_on(self.net.attach(attach))
    }

    pub(crate) fn detach(&self, uid: Uid) {
        self.runtime.block_on(self.net.detach(uid)).unwrap();
    }

    pub(crate) fn look(&self) -> net::Seen {
        self.runtime.block_on(self.net.look()).unwrap()
    }

    pub(crate) fn cell(&self, tenant: &str) -> Cell {
        self.cell_with(tenant, Vec::new())
    }

    /// A cell that serves on port 80 and has these ports of the node.
    pub(crate) fn cell_with(&self, tenant: &str, ports: Vec<HostPort>) -> Cell {
        let (uid, ns) = (new_uid(), Ns::new());
        let at = self.attach(request(uid, tenant, &ns, ports)).unwrap();
        let cell = Cell { uid, ns, at };
        for address in &cell.at.addresses {
            let at = SocketAddr::new(*address, 80).to_string();
            cell.ns.serve(&at);
        }
        cell
    }
}

pub(crate) fn request(uid: Uid, tenant: &str, ns: &Ns, host_ports: Vec<HostPort>) -> Attach {
    Attach {
        uid,
        tenant: tenant.parse().unwrap(),
        netns: ns.fd(),
        name: "eth0".to_owned(),
        default_route: true,
        addresses: Vec::new(),
        host_ports,
    }
}

pub(crate) fn new_uid() -> Uid {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    Uid([NEXT.fetch_add(1, Ordering::Relaxed); 16])
}

/// Both protocols of a port, as an administrator publishes it.
pub(crate) fn ports(address: Option<&str>, host_port: u16, port: u16) -> Vec<HostPort> {
    [Protocol::Tcp, Protocol::Udp]
        .map(|protocol| HostPort {
            protocol,
            address: address.map(|text| text.parse().unwrap()),
            host_port,
            port,
            on_loopback: true,
        })
        .to_vec()
}
