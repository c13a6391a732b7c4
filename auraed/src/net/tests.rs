// SPDX-License-Identifier: Apache-2.0
//! The network against a real dnsmasq, and a real udhcpd whose leases are short, in network
//! namespaces of the test's own. Needs root, `ip`, `dnsmasq` and `busybox`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use kernel::poll::{self, Deadline, Interest};

use super::*;

/// A server at the other end of a cable: a process in a namespace of its own.
struct Server {
    child: Child,
    stdin: ChildStdin,
}

/// Both families, for an hour. It ends with its shell.
const SERVE: &str = "read go && ip link set lo up && ip link set srv0 up \
    && ip addr add 192.0.2.1/24 dev srv0 && ip -6 addr add 2001:db8::1/64 dev srv0 nodad \
    && exec dnsmasq --conf-file=/dev/null --keep-in-foreground --port=0 --interface=srv0 \
    --bind-dynamic --log-facility=\"$LOG\" --user=root --no-ping --leasefile-ro --pid-file= \
    --enable-ra \
    --dhcp-range=192.0.2.50,192.0.2.59,1h --dhcp-range=2001:db8::100,2001:db8::1ff,slaac,64,1h \
    --dhcp-option=option:router,192.0.2.1 --dhcp-option=option:dns-server,192.0.2.53 \
    --dhcp-option=option6:dns-server,[2001:db8::53] \
    --dhcp-option=option6:domain-search,example.org --domain=example.org";

/// DHCPv6 alone, for two minutes: less dnsmasq doesn't give.
const SERVE_V6: &str = "read go && ip link set lo up && ip link set srv0 up \
    && ip -6 addr add 2001:db8::1/64 dev srv0 nodad \
    && exec dnsmasq --conf-file=/dev/null --keep-in-foreground --port=0 --interface=srv0 \
    --bind-dynamic --log-facility=\"$LOG\" --user=root --leasefile-ro --pid-file= --enable-ra \
    --dhcp-range=2001:db8::100,2001:db8::1ff,64,2m";

/// A DHCPv4 server with leases of twelve seconds: `serve ADDRESS` starts it, `stop` ends it.
const SERVE_SHORT: &str = "read go && ip link set lo up && ip link set srv0 up
    printf '%s\n' 'start 192.0.2.50' 'end 192.0.2.59' 'interface srv0' 'min_lease 2' \
        \"lease_file $LOG.leases\" \"pidfile $LOG.pid\" 'option subnet 255.255.255.0' \
        'option router 192.0.2.254' 'option dns 192.0.2.53' 'option lease 12' >\"$LOG.conf\"
    touch \"$LOG.leases\"
    while read what address; do
        case $what in
        serve)
            ip addr add \"$address/24\" dev srv0
            busybox udhcpd -f \"$LOG.conf\" >>\"$LOG\" 2>&1 & ;;
        stop)
            kill $!; wait $!
            ip addr flush dev srv0 ;;
        esac
    done";

impl Server {
    /// Lays a cable from `eth0` here to `srv0` there, and serves.
    fn start(bed: &Bed) -> Self {
        Self::start_with(bed, SERVE)
    }

    fn start_with(bed: &Bed, script: &str) -> Self {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", script])
            .env("LOG", bed.server_log())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        ip("link add eth0 type veth peer name srv0");
        let mine = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", child.id());
        bed.wait_for("the server's namespace", || {
            std::fs::read_link(&theirs).is_ok_and(|ns| ns != mine)
        });
        ip(&format!("link set srv0 netns {}", child.id()));
        let stdin = child.stdin.take().unwrap();
        let mut server = Self { child, stdin };
        server.tell("go");
        server
    }

    /// Says a line to its script.
    fn tell(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    fn ip(&self, arguments: &str) {
        let status = Command::new("nsenter")
            .args(["--net", "--target", &self.child.id().to_string(), "ip"])
            .args(arguments.split(' '))
            .status()
            .unwrap();
        assert!(status.success(), "ip {arguments}");
    }
}

impl Server {
    /// The server writes of both leases that they were given back.
    fn wait_for_releases(&self, log: &Path) {
        let pidfd = kernel::pidfd::open(i32::try_from(self.child.id()).unwrap()).unwrap();
        let deadline = Deadline::after(Duration::from_secs(30));
        loop {
            let text = std::fs::read_to_string(log).unwrap();
            let released: Vec<_> = text.lines().filter(|l| l.contains("DHCPRELEASE")).collect();
            if released.len() == 2 && released.iter().any(|line| line.contains("192.0.2.5")) {
                return;
            }
            assert!(!deadline.passed(), "{text}");
            let pause = Deadline::after(Duration::from_millis(20));
            let ended = poll::wait(&pidfd, Interest::Readable, pause).unwrap();
            assert!(!ended, "the server ended: {text}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .unwrap();
    assert!(output.status.success(), "ip {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A managed network and its manager, in a fresh network namespace.
struct Bed {
    folder: tempfile::TempDir,
    /// Disconnected when the manager has ended.
    manager_ended: std::sync::mpsc::Receiver<()>,
}

impl Bed {
    fn resolv_conf(&self) -> PathBuf {
        self.folder.path().join("resolv.conf")
    }

    fn server_log(&self) -> PathBuf {
        self.folder.path().join("dnsmasq.log")
    }

    fn server_said(&self) -> String {
        std::fs::read_to_string(self.server_log()).unwrap_or_default()
    }

    /// Asks again and again, unless the manager ends.
    fn wait_for(&self, what: &str, happened: impl FnMut() -> bool) {
        self.wait_long_for(what, Duration::from_secs(30), happened);
    }

    fn wait_long_for(&self, what: &str, bound: Duration, mut happened: impl FnMut() -> bool) {
        let deadline = Instant::now() + bound;
        while !happened() {
            let now = ip("addr");
            let log = self.server_said();
            assert!(
                Instant::now() < deadline,
                "{what} did not happen in {bound:?}\n{now}\n{log}"
            );
            let pause = self.manager_ended.recv_timeout(Duration::from_millis(20));
            assert_eq!(pause, Err(RecvTimeoutError::Timeout), "the manager ended");
        }
    }
}

/// Tells a story with the network managed as `config` says. Where it gives its server back, the
/// leases must be given back to that when the machine goes down.
fn story(config: &str, tell: impl FnOnce(&Bed) -> Option<Server>) {
    kernel::namespace::unshare(kernel::namespace::Namespaces::NET).unwrap();
    managed(tempfile::tempdir().unwrap(), config, tell);
}

/// [`story`] in the namespace as it is. Answers the folder, for the next.
fn managed(
    folder: tempfile::TempDir,
    config: &str,
    tell: impl FnOnce(&Bed) -> Option<Server>,
) -> tempfile::TempDir {
    let (ended, manager_ended) = std::sync::mpsc::channel();
    let bed = Bed {
        folder,
        manager_ended,
    };
    let options = Options {
        config: toml::from_str(config).unwrap(),
        host_name: "alice".to_owned(),
        resolv_conf: bed.resolv_conf(),
        run: bed.folder.path().to_owned(),
        taken: bed.folder.path().join("links"),
    };
    // The manager's thread starts in this thread's namespace.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let manager = std::thread::spawn(move || {
        let _ended = ended;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let shutdown = async move {
            let _dropped = stopped.await;
        };
        runtime.block_on(run(options, shutdown)).unwrap();
    });
    let server = tell(&bed);
    drop(stop);
    manager.join().unwrap();
    if let Some(server) = server {
        server.wait_for_releases(&bed.server_log());
    }
    bed.folder
}

fn is_root() -> bool {
    testkit::needs_root("a network namespace needs root")
}

#[test]
fn a_node_comes_up_by_dhcp_and_advertisements_and_survives_a_pulled_cable() {
    if !is_root() {
        return;
    }
    story("", |bed| {
        bed.wait_for("loopback up", || {
            ip("addr show dev lo").contains("127.0.0.1")
        });
        let server = Server::start(bed);
        bed.wait_for("a DHCPv4 address", || {
            ip("-4 addr show dev eth0").contains("192.0.2.5")
        });
        bed.wait_for("a route", || {
            ip("-4 route").contains("default via 192.0.2.1 dev eth0")
        });
        bed.wait_for("SLAAC", || {
            ip("-6 addr show dev eth0").contains("/64 scope global")
        });
        bed.wait_for("a DHCPv6 address", || {
            is_leased_v6(&ip("-6 addr show dev eth0"))
        });
        bed.wait_for("name servers", || {
            let text = std::fs::read_to_string(bed.resolv_conf()).unwrap_or_default();
            text.contains("192.0.2.53")
                && text.contains("2001:db8::53")
                && text.contains("example.org")
        });
        server.ip("link set srv0 down");
        bed.wait_for("the lease withdrawn", || {
            !ip("-4 addr show dev eth0").contains("192.0.2.5")
        });
        server.ip("link set srv0 up");
        // It lost it with the link.
        server.ip("-6 addr add 2001:db8::1/64 dev srv0 nodad");
        bed.wait_for("the leases back", || {
            let text = ip("addr show dev eth0");
            text.contains("192.0.2.5") && is_leased_v6(&text)
        });
        Some(server)
    });
}

/// Has an address of DHCPv6's range. One of SLAAC may begin like those, but is a /64.
fn is_leased_v6(addresses: &str) -> bool {
    let words = addresses.split_whitespace();
    let mut leased = words.filter(|word| word.starts_with("2001:db8::1"));
    leased.any(|word| word.ends_with("/128"))
}

fn has_v4() -> bool {
    ip("-4 addr show dev eth0").contains("192.0.2.5")
}

/// As long as its server answers there is no moment without the address; without one it goes when
/// the lease runs out, with its route; then the client asks the server that answers.
#[test]
fn a_dhcpv4_lease_is_renewed_and_given_up_when_it_runs_out() {
    if !is_root() {
        return;
    }
    story("[[link]]\ndhcp6 = false\nslaac = false\n", |bed| {
        let mut server = Server::start_with(bed, SERVE_SHORT);
        server.tell("serve 192.0.2.1");
        bed.wait_for("an address", has_v4);
        let acknowledged = || bed.server_said().matches("sending ACK to").count();
        bed.wait_for("three renewals", || {
            assert!(has_v4(), "{}", bed.server_said());
            acknowledged() > 3
        });
        server.tell("stop");
        bed.wait_for("the end of the lease", || {
            !has_v4() && !ip("-4 route").contains("default")
        });
        server.tell("serve 192.0.2.2");
        bed.wait_for("another server's lease", || {
            has_v4() && ip("-4 route").contains("default via 192.0.2.254")
        });
        None
    });
}

#[test]
fn a_dhcpv6_lease_is_renewed() {
    if !is_root() {
        return;
    }
    story("[[link]]\ndhcp4 = false\n", |bed| {
        let _server = Server::start_with(bed, SERVE_V6);
        let has_v6 = || ip("-6 addr show dev eth0").contains("2001:db8::1");
        bed.wait_for("an address", has_v6);
        // The half of two minutes.
        bed.wait_long_for("a renewal", Duration::from_secs(100), || {
            assert!(has_v6(), "{}", bed.server_said());
            let said = bed.server_said();
            let renewal = said.split_once("DHCPRENEW");
            renewal.is_some_and(|(_, after)| after.contains("DHCPREPLY"))
        });
        bed.wait_for("its time set anew", || {
            let shown = ip("-6 addr show dev eth0");
            let leased = shown.split("2001:db8::1").nth(1).unwrap_or_default();
            let valid = leased.split("valid_lft ").nth(1).unwrap_or_default();
            let seconds = valid.split("sec").next().unwrap_or_default();
            seconds.parse().is_ok_and(|left: u32| left > 90)
        });
        None
    });
}

#[test]
fn advertised_name_servers_are_enough_where_there_is_no_dhcp() {
    if !is_root() {
        return;
    }
    let config = "[[link]]\ndhcp4 = false\ndhcp6 = false\n";
    story(config, |bed| {
        let _server = Server::start(bed);
        bed.wait_for("an advertised name server", || {
            let text = std::fs::read_to_string(bed.resolv_conf()).unwrap_or_default();
            text.contains("nameserver 2001:db8::53") && text.contains("search example.org")
        });
        assert!(!ip("-4 addr show dev eth0").contains("inet"));
        None
    });
}

/// Makes a cable, one end of this name, and answers the index of that.
fn cable(name: &str) -> u32 {
    ip(&format!("link add {name} type veth peer name {name}-end"));
    let shown = ip(&format!("-o link show {name}"));
    shown.split(':').next().unwrap().parse().unwrap()
}

fn is_up(name: &str) -> bool {
    ip(&format!("-o link show {name}")).contains(",UP")
}

#[test]
fn a_link_that_another_manager_has_is_left_alone() {
    if !is_root() {
        return;
    }
    kernel::namespace::unshare(kernel::namespace::Namespaces::NET).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let networkd = cable("networkd");
    state(
        &format!("systemd/netif/links/{networkd}"),
        "ADMIN_STATE=configured\n",
    );
    let nm = cable("nm");
    state(
        &format!("NetworkManager/devices/{nm}"),
        "[device]\nmanaged=true\n",
    );
    cable("ifup");
    state("network/ifstate", "lo=lo\nifup=ifup\n");
    cable("address4");
    ip("addr add 192.0.2.9/24 dev address4");
    cable("address6");
    ip("addr add 2001:db8::9/64 dev address6");
    cable("configured");
    ip("addr add 192.0.2.10/24 dev configured");
    let unmanaged = cable("unmanaged");
    state(
        &format!("systemd/netif/links/{unmanaged}"),
        "ADMIN_STATE=unmanaged\n",
    );
    // The last that the manager sees.
    cable("free");
    let others = ["networkd", "nm", "ifup", "address4", "address6"];
    let left = || others.iter().all(|name| !is_up(name));
    let config = "[[link]]\nname = 'configured'\ndhcp4 = false\n";
    let folder = managed(folder, config, |bed| {
        bed.wait_for("the free links", || is_up("free") && is_up("unmanaged"));
        assert!(is_up("configured") && left(), "{}", ip("addr"));
        None
    });
    // What was ours stays ours, whatever it has by now; and a link that comes later is looked at.
    ip("link set free down");
    ip("addr add 192.0.2.11/24 dev free");
    let folder = managed(folder, config, |bed| {
        bed.wait_for("what was ours", || is_up("free"));
        cable("later");
        bed.wait_for("a link that comes later", || is_up("later"));
        assert!(left(), "{}", ip("addr"));
        None
    });
    cable("unnamed");
    ip("link set configured down");
    let folder = managed(folder, &format!("links = 'configured'\n{config}"), |bed| {
        bed.wait_for("the configured link", || is_up("configured"));
        None
    });
    assert!(!is_up("unnamed") && left());
    managed(folder, &format!("links = 'all'\n{config}"), |bed| {
        bed.wait_for("all", || others.iter().all(|name| is_up(name)));
        None
    });
}

#[test]
fn a_static_table_is_applied_when_the_cable_is_there() {
    if !is_root() {
        return;
    }
    let config = "dns = ['192.0.2.99']\n[[link]]\nname = 'eth*'\ndhcp4 = false\ndhcp6 = false\n\
                  slaac = false\naddress = ['192.0.2.7/24', '2001:db8::7/64']\n\
                  gateway = ['192.0.2.1']\n\
                  route = [{ to = '198.51.100.0/24', via = '192.0.2.9' }]\nmtu = 1400\n";
    story(config, |bed| {
        let _server = Server::start(bed);
        bed.wait_for("addresses", || {
            let text = ip("addr show dev eth0");
            text.contains("192.0.2.7/24")
                && text.contains("2001:db8::7/64")
                && text.contains("mtu 1400")
        });
        bed.wait_for("routes", || {
            let text = ip("-4 route");
            text.contains("default via 192.0.2.1") && text.contains("198.51.100.0/24 via 192.0.2.9")
        });
        let text = std::fs::read_to_string(bed.resolv_conf()).unwrap();
        assert!(text.contains("nameserver 192.0.2.99"), "{text}");
        assert!(!ip("-6 addr show dev eth0").contains("dynamic"));
        None
    });
}
