// SPDX-License-Identifier: Apache-2.0
//! The network against a real dnsmasq, in network namespaces of the test's own. Needs root, `ip` and `dnsmasq`.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// A server at the other end of a cable: a process in a namespace of its own.
struct Server(Child);

const SERVE: &str = "read go && ip link set lo up && ip link set srv0 up \
    && ip addr add 192.0.2.1/24 dev srv0 && ip -6 addr add 2001:db8::1/64 dev srv0 nodad \
    && exec dnsmasq --conf-file=/dev/null --keep-in-foreground --port=0 --interface=srv0 \
    --bind-dynamic --log-facility=\"$LOG\" --user=root --no-ping --leasefile-ro --pid-file= --enable-ra \
    --dhcp-range=192.0.2.50,192.0.2.60,1h --dhcp-range=2001:db8::100,2001:db8::1ff,slaac,64,1h \
    --dhcp-option=option:router,192.0.2.1 --dhcp-option=option:dns-server,192.0.2.53 \
    --dhcp-option=option6:dns-server,[2001:db8::53] \
    --dhcp-option=option6:domain-search,example.org --domain=example.org";

impl Server {
    /// Lays a cable from `eth0` here to `srv0` there, and serves.
    fn start(log: &Path) -> Self {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", SERVE])
            .env("LOG", log)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        ip("link add eth0 type veth peer name srv0");
        let mine = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", child.id());
        wait_for("the server's namespace", || {
            std::fs::read_link(&theirs).is_ok_and(|ns| ns != mine)
        });
        ip(&format!("link set srv0 netns {}", child.id()));
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        Self(child)
    }

    fn ip(&self, arguments: &str) {
        let status = Command::new("nsenter")
            .args(["--net", "--target", &self.0.id().to_string(), "ip"])
            .args(arguments.split(' '))
            .status()
            .unwrap();
        assert!(status.success(), "ip {arguments}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
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

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(
            Instant::now() < deadline,
            "{what} did not happen in 30 s\n{}",
            ip("addr")
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a story in a fresh network namespace, with the network managed as `config` says.
fn story(config: &str, tell: impl FnOnce(&Path) -> Option<Server>) {
    kernel::namespace::unshare(kernel::namespace::Namespaces::NET).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let resolv_conf = dir.path().join("resolv.conf");
    let options = Options {
        config: toml::from_str(config).unwrap(),
        host_name: "alice".to_owned(),
        resolv_conf: resolv_conf.clone(),
    };
    // The manager's thread starts in this thread's namespace.
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let manager = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let shutdown = async move {
            let _dropped = stopped.await;
        };
        runtime.block_on(run(options, shutdown)).unwrap();
    });
    let server = tell(&resolv_conf);
    drop(stop);
    manager.join().unwrap();
    if let Some(_server) = server {
        let log = dir.path().join("dnsmasq.log");
        wait_for("the leases given back", || {
            let text = std::fs::read_to_string(&log).unwrap();
            let released: Vec<_> = text.lines().filter(|l| l.contains("DHCPRELEASE")).collect();
            released.len() == 2 && released.iter().any(|line| line.contains("192.0.2.5"))
        });
    }
}

fn is_root() -> bool {
    let root =
        std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

#[test]
fn a_node_comes_up_by_dhcp_and_advertisements_and_survives_a_pulled_cable() {
    if !is_root() {
        return;
    }
    story("", |resolv_conf| {
        wait_for("loopback up", || {
            ip("addr show dev lo").contains("127.0.0.1")
        });
        let server = Server::start(&resolv_conf.with_file_name("dnsmasq.log"));
        wait_for("a DHCPv4 address", || {
            ip("-4 addr show dev eth0").contains("192.0.2.5")
        });
        wait_for("a route", || {
            ip("-4 route").contains("default via 192.0.2.1 dev eth0")
        });
        wait_for("SLAAC", || {
            ip("-6 addr show dev eth0").contains("/64 scope global")
        });
        wait_for("a DHCPv6 address", || {
            ip("-6 addr show dev eth0").contains("2001:db8::1")
        });
        wait_for("name servers", || {
            let text = std::fs::read_to_string(resolv_conf).unwrap_or_default();
            text.contains("192.0.2.53")
                && text.contains("2001:db8::53")
                && text.contains("example.org")
        });
        server.ip("link set srv0 down");
        wait_for("the lease withdrawn", || {
            !ip("-4 addr show dev eth0").contains("192.0.2.5")
        });
        server.ip("link set srv0 up");
        // It lost it with the link.
        server.ip("-6 addr add 2001:db8::1/64 dev srv0 nodad");
        wait_for("the leases back", || {
            let text = ip("addr show dev eth0");
            text.contains("192.0.2.5") && text.contains("2001:db8::1")
        });
        Some(server)
    });
}

#[test]
fn advertised_name_servers_are_enough_where_there_is_no_dhcp() {
    if !is_root() {
        return;
    }
    let config = "[[link]]\ndhcp4 = false\ndhcp6 = false\n";
    story(config, |resolv_conf| {
        let _server = Server::start(&resolv_conf.with_file_name("dnsmasq.log"));
        wait_for("an advertised name server", || {
            let text = std::fs::read_to_string(resolv_conf).unwrap_or_default();
            text.contains("nameserver 2001:db8::53") && text.contains("search example.org")
        });
        assert!(!ip("-4 addr show dev eth0").contains("inet"));
        None
    });
}

#[test]
fn a_static_table_is_applied_when_the_cable_is_there() {
    if !is_root() {
        return;
    }
    let config = "dns = ['192.0.2.99']\n[[link]]\nname = 'eth*'\ndhcp4 = false\ndhcp6 = false\n\
                  slaac = false\naddress = ['192.0.2.7/24', '2001:db8::7/64']\ngateway = ['192.0.2.1']\n\
                  route = [{ to = '198.51.100.0/24', via = '192.0.2.9' }]\nmtu = 1400\n";
    story(config, |resolv_conf| {
        let _server = Server::start(&resolv_conf.with_file_name("dnsmasq.log"));
        wait_for("addresses", || {
            let text = ip("addr show dev eth0");
            text.contains("192.0.2.7/24")
                && text.contains("2001:db8::7/64")
                && text.contains("mtu 1400")
        });
        wait_for("routes", || {
            let text = ip("-4 route");
            text.contains("default via 192.0.2.1") && text.contains("198.51.100.0/24 via 192.0.2.9")
        });
        let text = std::fs::read_to_string(resolv_conf).unwrap();
        assert!(text.contains("nameserver 192.0.2.99"), "{text}");
        assert!(!ip("-6 addr show dev eth0").contains("dynamic"));
        None
    });
}
