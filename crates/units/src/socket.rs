// SPDX-License-Identifier: Apache-2.0
//! Addresses of socket units (systemd.socket(5), `ListenStream=` and the others). Nothing listens
//! here.

use std::net::{IpAddr, Ipv6Addr};

use crate::finding::shown;
use crate::value::Address;
use crate::value::scalar::number;

/// The netlink families by name (netlink(7)).
const NETLINK: [&str; 18] = [
    "route",
    "firewall",
    "inet-diag",
    "nflog",
    "xfrm",
    "selinux",
    "iscsi",
    "audit",
    "fib-lookup",
    "connector",
    "netfilter",
    "ip6-fw",
    "dnrtmsg",
    "kobject-uevent",
    "generic",
    "scsitransport",
    "ecryptfs",
    "rdma",
];

/// The longest path or abstract name of a socket (unix(7)).
const LONGEST: usize = 107;

/// Reads the address of a directive.
///
/// # Errors
/// It is no address of that kind.
pub fn address(directive: &str, text: &str) -> Result<Address, String> {
    match directive {
        "ListenNetlink" => netlink(text),
        "ListenFIFO" | "ListenSpecial" | "ListenUSBFunction" => path(text, usize::MAX),
        "ListenMessageQueue" => path(text, usize::MAX),
        "ListenSequentialPacket" => match socket(text)? {
            Address::Port(_) | Address::Inet(..) => Err(format!(
                "{} is no address of packets in sequence: write a path or `@NAME`",
                shown(text)
            )),
            address => Ok(address),
        },
        _ => socket(text),
    }
}

fn path(text: &str, longest: usize) -> Result<Address, String> {
    if !text.starts_with('/') {
        return Err(format!("{} is no absolute path", shown(text)));
    }
    if text.len() > longest {
        return Err(format!("{} is longer than {longest} bytes", shown(text)));
    }
    Ok(Address::Path(crate::files::normal(text)))
}

fn netlink(text: &str) -> Result<Address, String> {
    let mut words = text.split_ascii_whitespace();
    let family = words.next().unwrap_or("");
    if !NETLINK.contains(&family) && number(family, 0, i64::from(u16::MAX)).is_err() {
        return Err(format!(
            "{} is no netlink family: {}",
            shown(family),
            NETLINK.join(", ")
        ));
    }
    let group = match words.next() {
        Some(group) => number(group, 0, i64::from(u32::MAX))?,
        None => 0,
    };
    Ok(Address::Netlink(
        family.to_owned(),
        u32::try_from(group).unwrap_or(0),
    ))
}

fn socket(text: &str) -> Result<Address, String> {
    let wrong = || {
        let shown = shown(text);
        format!(
            "{shown} is no address: write `/PATH`, `@NAME`, `PORT`, `ADDRESS:PORT`, `[ADDRESS]:PORT`"
        )
    };
    if text.starts_with('/') {
        return path(text, LONGEST);
    }
    if let Some(name) = text.strip_prefix('@') {
        let fits = !name.is_empty() && name.len() <= LONGEST;
        return fits
            .then(|| Address::Abstract(name.to_owned()))
            .ok_or_else(wrong);
    }
    if let Some(rest) = text.strip_prefix("vsock:") {
        let (cid, port) = rest.split_once(':').ok_or_else(wrong)?;
        let one = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let cid = if cid.is_empty() {
            None
        } else {
            Some(one(cid)?)
        };
        return Ok(Address::Vsock(cid, one(port)?));
    }
    let port = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let port = digits.then(|| text.parse::<u16>().ok()).flatten();
        port.filter(|port| *port > 0).ok_or_else(wrong)
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, rest) = rest.split_once(']').ok_or_else(wrong)?;
        let (number, interface) = match rest.strip_prefix(':').ok_or_else(wrong)?.split_once('%') {
            Some((number, interface)) => (number, Some(interface.to_owned())),
            None => (rest.strip_prefix(':').unwrap_or(""), None),
        };
        let address: Ipv6Addr = inside.parse().map_err(|_| wrong())?;
        return Ok(Address::Inet(IpAddr::V6(address), port(number)?, interface));
    }
    match text.rsplit_once(':') {
        Some((address, number)) => {
            let address: std::net::Ipv4Addr = address.parse().map_err(|_| wrong())?;
            Ok(Address::Inet(IpAddr::V4(address), port(number)?, None))
        }
        None => Ok(Address::Port(port(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_manual() {
        // systemd.socket(5), ListenStream= and ListenNetlink=.
        for (directive, text, expected) in [
            (
                "ListenStream",
                "/run/a.sock",
                Some(Address::Path("/run/a.sock".into())),
            ),
            (
                "ListenStream",
                "@name",
                Some(Address::Abstract("name".into())),
            ),
            ("ListenStream", "80", Some(Address::Port(80))),
            (
                "ListenDatagram",
                "127.0.0.1:53",
                Some(Address::Inet("127.0.0.1".parse().unwrap(), 53, None)),
            ),
            (
                "ListenStream",
                "[::]:22",
                Some(Address::Inet("::".parse().unwrap(), 22, None)),
            ),
            (
                "ListenStream",
                "[fe80::1]:22%eth0",
                Some(Address::Inet(
                    "fe80::1".parse().unwrap(),
                    22,
                    Some("eth0".into()),
                )),
            ),
            (
                "ListenStream",
                "vsock:2:99",
                Some(Address::Vsock(Some(2), 99)),
            ),
            ("ListenStream", "vsock::99", Some(Address::Vsock(None, 99))),
            (
                "ListenNetlink",
                "kobject-uevent 1",
                Some(Address::Netlink("kobject-uevent".into(), 1)),
            ),
            (
                "ListenFIFO",
                "/run/fifo",
                Some(Address::Path("/run/fifo".into())),
            ),
            (
                "ListenMessageQueue",
                "/queue",
                Some(Address::Path("/queue".into())),
            ),
            ("ListenStream", "0", None),
            ("ListenStream", "70000", None),
            ("ListenStream", "host:80", None),
            ("ListenStream", "@", None),
            ("ListenNetlink", "nothing", None),
            ("ListenFIFO", "fifo", None),
        ] {
            assert_eq!(address(directive, text).ok(), expected, "{text}");
        }
    }
}
