// SPDX-License-Identifier: Apache-2.0
//! Whether the machine is on a network: what `network-online.target` waits for
//! (systemd.special(7)). It is where an interface of a device has an address that isn't of the link
//! alone. The kernel tells of addresses (rtnetlink(7)); nothing looks again and again.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use tokio::io::Interest;

/// How long it is waited for. Without a network the machine goes on.
const LONGEST: Duration = Duration::from_secs(90);
/// Changes of links, and of addresses of both families.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;
/// `169.254.0.0`, as `/proc/net/route` writes it.
const LINK_LOCAL: &str = "0000FEA9";

/// Resolves when the machine is on a network, has no device for one, or the time has passed: then
/// there are words.
pub(crate) async fn wait() -> Option<String> {
    let told = match listen() {
        Ok(told) => told,
        Err(error) => return Some(format!("the network can't be waited for: {error}")),
    };
    let comes = async {
        while !is_enough() {
            let Ok(mut ready) = told.readable().await else {
                return;
            };
            drain(told.get_ref());
            ready.clear_ready();
        }
    };
    let came = tokio::time::timeout(LONGEST, comes).await;
    let words = || format!("no interface has an address after {} s", LONGEST.as_secs());
    came.is_err().then(words)
}

fn listen() -> std::io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let kind = SocketType::RAW;
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
    runtime::watched::watch(socket, Interest::READABLE)
}

/// What is said doesn't matter: that something has changed is enough. So may it be lost.
fn drain(socket: &OwnedFd) {
    let mut buffer = [0_u8; 8192];
    loop {
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok(_) | Err(Errno::INTR | Errno::NOBUFS) => {}
            Err(_) => return,
        }
    }
}

fn is_enough() -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let devices = devices();
    let is_device = |name: &str| devices.iter().any(|it| it == name);
    devices.is_empty()
        || has_address(
            &read("/proc/net/route"),
            &read("/proc/net/if_inet6"),
            &is_device,
        )
}

/// The interfaces that stand for a device, a virtual machine's too; those of bridges and tunnels
/// are a program's doing.
fn devices() -> Vec<String> {
    let all = fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let all = all.filter(|it| Path::new(&it.path()).join("device").exists());
    all.filter_map(|it| it.file_name().into_string().ok())
        .collect()
}

/// Whether one of these interfaces has an address by the kernel's tables of routes and of IPv6
/// addresses (proc(5)).
fn has_address(routes: &str, addresses: &str, is_device: &dyn Fn(&str) -> bool) -> bool {
    let four = routes.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace();
        let (name, network) = (words.next(), words.next());
        name.is_some_and(is_device) && network != Some(LINK_LOCAL)
    });
    let six = addresses.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Address, interface, prefix, scope (00: everywhere), flags (40: it is being tried).
        let [_, _, _, "00", flags, name] = words[..] else {
            return false;
        };
        let flags = u32::from_str_radix(flags, 16).unwrap_or(0x40);
        is_device(name) && flags & 0x40 == 0
    });
    four || six
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_the_link_alone_is_no_network() {
        let head = "Iface\tDestination\tGateway\n";
        let link = "fe800000000000005054 02 40 20 80 eth0\n";
        let global = "20010db8000000000001 02 40 00 80 eth0\n";
        let tried = "20010db8000000000001 02 40 00 40 eth0\n";
        let bridge = "aurae0\t0000580A\t00000000\n";
        for (routes, addresses, expected) in [
            ("", "", false),
            ("eth0\t0000A8C0\t00000000\n", "", true),
            ("eth0\t00000000\t0100A8C0\n", "", true),
            ("eth0\t0000FEA9\t00000000\n", link, false),
            (bridge, "", false),
            ("", tried, false),
            ("", global, true),
        ] {
            let routes = format!("{head}{routes}");
            let found = has_address(&routes, addresses, &|name| name == "eth0");
            assert_eq!(found, expected, "{routes} {addresses}");
        }
    }

    #[tokio::test]
    async fn without_a_device_nothing_is_waited_for() {
        if devices().is_empty() || is_enough() {
            assert_eq!(wait().await, None);
        }
        listen().unwrap();
    }
}
