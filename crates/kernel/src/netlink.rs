// SPDX-License-Identifier: Apache-2.0
//! Netlink: the loopback of a new network namespace, events of devices, and the options of router
//! advertisements that are for programs.
//!
//! It configures no addresses and no routes: the daemon has a library for that. This module is for
//! cell-init, which must stay small, and for the one message that the library doesn't read.

use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use crate::{Context, Error, Result};

const RTM_NEWLINK: u16 = 16;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const IFLA_IFNAME: u16 = 3;
const IFF_UP: u32 = 1;

fn socket(protocol: Option<rustix::net::Protocol>, flags: SocketFlags) -> Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)
        .call("socket(AF_NETLINK)")
}

/// Brings `lo` up in the caller's network namespace: the kernel then gives it 127.0.0.1 and ::1.
///
/// # Errors
/// `EPERM`: without `CAP_NET_ADMIN` in the namespace. `EPROTO`: the kernel's answer isn't an
/// acknowledgement.
pub fn bring_loopback_up() -> Result<()> {
    // No protocol is NETLINK_ROUTE.
    let socket = socket(None, SocketFlags::empty())?;
    let request = link_up_request(b"lo\0");
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&socket, &request, SendFlags::empty(), &kernel)
        .call("sendto(RTM_NEWLINK)")?;
    let mut reply = [0u8; 256];
    let length = rustix::io::retry_on_intr(|| {
        rustix::net::recv(&socket, &mut reply[..], RecvFlags::empty()).map(|(_, length)| length)
    })
    .call("recv(RTM_NEWLINK)")?;
    match ack_errno(reply.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(errno) => Err(Error::from_raw("netlink(RTM_NEWLINK)", errno).about("lo")),
        None => Err(Error::new("netlink(RTM_NEWLINK)", Errno::PROTO).about("no acknowledgement")),
    }
}

/// `nlmsghdr`, `ifinfomsg` with `IFF_UP` set and changed, and the name as the attribute that
/// selects it.
fn link_up_request(name: &[u8]) -> Vec<u8> {
    let padded = name.len().next_multiple_of(4);
    let mut out = Vec::with_capacity(64);
    let total = u32::try_from(16 + 16 + 4 + padded).unwrap_or(0);
    out.extend(total.to_ne_bytes());
    out.extend(RTM_NEWLINK.to_ne_bytes());
    out.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    out.extend(1u32.to_ne_bytes());
    out.extend(0u32.to_ne_bytes());
    // family and padding, type, index: found by name.
    out.extend([0; 8]);
    out.extend(IFF_UP.to_ne_bytes());
    out.extend(IFF_UP.to_ne_bytes());
    out.extend(u16::try_from(4 + name.len()).unwrap_or(0).to_ne_bytes());
    out.extend(IFLA_IFNAME.to_ne_bytes());
    out.extend(name);
    out.resize(out.len() + padded - name.len(), 0);
    out
}

/// The errno of an `NLMSG_ERROR`, 0 for success.
fn ack_errno(reply: &[u8]) -> Option<i32> {
    let kind = reply
        .get(4..6)
        .and_then(|b| b.try_into().ok())
        .map(u16::from_ne_bytes)?;
    let error = reply
        .get(16..20)
        .and_then(|b| b.try_into().ok())
        .map(i32::from_ne_bytes)?;
    (kind == NLMSG_ERROR).then(|| error.saturating_neg())
}

/// An event of a device, as the kernel sends it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uevent {
    /// `add`, `remove`, `change`, `bind` and others.
    pub action: String,
    /// Its folder below `/sys`.
    pub path: String,
    /// `SUBSYSTEM`, `DEVNAME` and others.
    pub properties: Vec<(String, String)>,
}

impl Uevent {
    /// The value of the property `name`, if the event has it.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Events of devices, from when it was opened. To wait for a device: open this first, then look
/// whether the device is there, then wait.
#[derive(Debug)]
pub struct Uevents(OwnedFd);

impl Uevents {
    /// Starts listening; non-blocking. The kernel sends events to the initial network namespace
    /// alone; those of a network device to its own.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left. `EPROTONOSUPPORT`:
    /// the kernel has no such messages.
    pub fn open() -> Result<Uevents> {
        let socket = socket(Some(netlink::KOBJECT_UEVENT), SocketFlags::NONBLOCK)?;
        // A cold boot sends thousands; without room the kernel drops them and says ENOBUFS.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20);
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 1)).call("bind(KOBJECT_UEVENT)")?;
        Ok(Uevents(socket))
    }

    /// The next; `None` when there is none now.
    ///
    /// # Errors
    /// `ENOBUFS`: the kernel had to drop some; look at `/sys` again, and go on reading.
    pub fn next(&self) -> Result<Option<Uevent>> {
        loop {
            match receive_from_kernel::<8192>(&self.0) {
                Ok(bytes) => {
                    if let Some(event) = parse_uevent(&bytes) {
                        return Ok(Some(event));
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(Error::new("recvfrom(KOBJECT_UEVENT)", errno)),
            }
        }
    }
}

impl AsRawFd for Uevents {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for Uevents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `ACTION@PATH`, then `KEY=VALUE`, each ended by NUL.
fn parse_uevent(bytes: &[u8]) -> Option<Uevent> {
    let mut parts = bytes.split(|b| *b == 0).filter(|p| !p.is_empty());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let first = text(parts.next()?);
    let (action, path) = first.split_once('@')?;
    let pair = |part: &[u8]| {
        let part = text(part);
        part.split_once('=')
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    let properties = parts.filter_map(pair).collect();
    Some(Uevent {
        action: action.to_owned(),
        path: path.to_owned(),
        properties,
    })
}

/// The largest message of the neighbour discovery that is read, in bytes.
const MAX_ADVERTISEMENT: usize = 4096;

/// An option of a router advertisement that is for programs: of the others the kernel itself makes
/// addresses and routes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advertisement {
    /// The index of the link that the advertisement came by.
    pub link: u32,
    /// For how long it holds, in seconds from now. 0: it is withdrawn. `u32::MAX`: for ever.
    pub lifetime_s: u32,
    /// Name servers or search domains.
    pub says: Advertised,
}

/// The options of router advertisements that are for programs (RFC 8106).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Advertised {
    /// Recursive name servers. Link-local ones are of the link.
    NameServers(Vec<Ipv6Addr>),
    /// Search domains, as they came: nothing is promised of their bytes but UTF-8.
    SearchDomains(Vec<String>),
}

/// Listens to router advertisements, as the kernel passes them on; in the caller's network
/// namespace.
#[derive(Debug)]
pub struct Advertisements {
    socket: OwnedFd,
    waiting: VecDeque<Advertisement>,
}

impl Advertisements {
    /// Starts listening; non-blocking.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left.
    pub fn open() -> Result<Advertisements> {
        const RTNLGRP_ND_USEROPT: u32 = 20;
        let socket = socket(None, SocketFlags::NONBLOCK)?;
        let address = SocketAddrNetlink::new(0, 1 << (RTNLGRP_ND_USEROPT - 1));
        rustix::net::bind(&socket, &address).call("bind(RTNLGRP_ND_USEROPT)")?;
        Ok(Advertisements {
            socket,
            waiting: VecDeque::new(),
        })
    }

    /// The next; `None` when there is none now. Those that the kernel had to drop come again.
    ///
    /// # Errors
    /// What `recvfrom` answers but `EAGAIN`, `EINTR` and `ENOBUFS`: `ENOMEM`, where the kernel has
    /// no memory.
    pub fn receive(&mut self) -> Result<Option<Advertisement>> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return Ok(Some(next));
            }
            match receive_from_kernel::<MAX_ADVERTISEMENT>(&self.socket) {
                Ok(bytes) => self.waiting.extend(parse_advertisements(&bytes)),
                Err(Errno::NOBUFS) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(Error::new("recvfrom(RTNLGRP_ND_USEROPT)", errno)),
            }
        }
    }
}

impl AsRawFd for Advertisements {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for Advertisements {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A message from the kernel; empty where another process sent it: any process may send to a group,
/// only the kernel is believed.
fn receive_from_kernel<const SIZE: usize>(socket: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); SIZE];
    rustix::io::retry_on_intr(|| {
        let received = rustix::net::recvfrom(socket, &mut buffer, RecvFlags::empty());
        received.map(|((bytes, _), _, from)| {
            let from = from.and_then(|address| SocketAddrNetlink::try_from(address).ok());
            if from.is_some_and(|address| address.pid() == 0) {
                bytes.to_vec()
            } else {
                Vec::new()
            }
        })
    })
}

/// `nlmsghdr`, `nduseroptmsg`, then options of neighbour discovery as they were in the packet.
fn parse_advertisements(bytes: &[u8]) -> Vec<Advertisement> {
    const RTM_NEWNDUSEROPT: u16 = 68;
    const ROUTER_ADVERTISEMENT: u8 = 134;
    let u16_at = |at: usize| Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (Some(kind), Some(length), Some(link)) = (u16_at(4), u16_at(18), u32_at(20)) else {
        return Vec::new();
    };
    if kind != RTM_NEWNDUSEROPT || bytes.get(24) != Some(&ROUTER_ADVERTISEMENT) {
        return Vec::new();
    }
    let mut rest = bytes.get(32..32 + usize::from(length)).unwrap_or_default();
    let mut out = Vec::new();
    // An option says its length in units of 8 bytes; one of length 0 would never end.
    while let [kind, units, ..] = rest {
        let size = usize::from(*units) * 8;
        let Some((option, behind)) = rest.split_at_checked(size).filter(|_| size > 0) else {
            break;
        };
        out.extend(parse_option(link, *kind, option));
        rest = behind;
    }
    out
}

fn parse_option(link: u32, kind: u8, option: &[u8]) -> Option<Advertisement> {
    const RDNSS: u8 = 25;
    const DNSSL: u8 = 31;
    let lifetime_s = u32::from_be_bytes(option.get(4..8)?.try_into().ok()?);
    let body = option.get(8..)?;
    let says = match kind {
        RDNSS => {
            let address = |chunk: &[u8]| <[u8; 16]>::try_from(chunk).ok().map(Ipv6Addr::from);
            Advertised::NameServers(body.chunks_exact(16).filter_map(address).collect())
        }
        DNSSL => Advertised::SearchDomains(parse_domains(body)),
        _ => return None,
    };
    Some(Advertisement {
        link,
        lifetime_s,
        says,
    })
}

/// Domains as in DNS, uncompressed: labels with their lengths, each domain ended by an empty one;
/// the rest is padding of zeros.
fn parse_domains(mut rest: &[u8]) -> Vec<String> {
    let (mut domains, mut labels) = (Vec::new(), Vec::<String>::new());
    while let [length, behind @ ..] = rest {
        if *length == 0 {
            if !labels.is_empty() {
                domains.push(labels.join("."));
                labels.clear();
            }
            rest = behind;
            continue;
        }
        let Some((label, behind)) = behind.split_at_checked(usize::from(*length)) else {
            break;
        };
        let Ok(label) = std::str::from_utf8(label) else {
            break;
        };
        labels.push(label.to_owned());
        rest = behind;
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_device_s_news_are_read() {
        let text = b"add@/devices/vda\0ACTION=add\0SUBSYSTEM=block\0DEVNAME=vda\0broken\0";
        let event = parse_uevent(text).unwrap();
        assert_eq!(
            (event.action.as_str(), event.path.as_str()),
            ("add", "/devices/vda")
        );
        assert_eq!(event.property("SUBSYSTEM"), Some("block"));
        assert_eq!(event.property("broken"), None);
        assert_eq!(parse_uevent(b"libudev\0x"), None);
    }

    /// A kernel's message about link 7 with these options.
    fn message(options: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 32];
        out[4..6].copy_from_slice(&68u16.to_ne_bytes());
        out[18..20].copy_from_slice(&u16::try_from(options.len()).unwrap().to_ne_bytes());
        out[20..24].copy_from_slice(&7u32.to_ne_bytes());
        out[24] = 134;
        out.extend(options);
        out
    }

    #[test]
    fn a_router_s_name_servers_and_domains_are_read() {
        let server: Ipv6Addr = "2001:db8::53".parse().unwrap();
        let mut options = vec![25, 3, 0, 0, 0, 0, 0, 60];
        options.extend(server.octets());
        options.extend([99, 1, 0, 0, 0, 0, 0, 0]);
        options.extend([31, 3, 0, 0, 0, 0, 0, 0]);
        options.extend(b"\x07example\x03org\0\x01x\0\0");
        let read = parse_advertisements(&message(&options));
        assert_eq!(read.len(), 2, "{read:?}");
        assert_eq!((read[0].link, read[0].lifetime_s), (7, 60));
        assert_eq!(read[0].says, Advertised::NameServers(vec![server]));
        let domains = vec!["example.org".to_owned(), "x".to_owned()];
        assert_eq!(
            (read[1].lifetime_s, &read[1].says),
            (0, &Advertised::SearchDomains(domains))
        );
        assert_eq!(
            parse_advertisements(&message(&[25, 0, 0, 0, 0, 0, 0, 0])),
            []
        );
    }

    #[test]
    fn a_request_s_length_is_its_own() {
        let request = link_up_request(b"lo\0");
        assert_eq!(
            u32::from_ne_bytes(request[..4].try_into().unwrap()) as usize,
            request.len()
        );
        assert_eq!(request.len() % 4, 0);
    }

    proptest! {
        #[test]
        fn nothing_is_too_odd_for_the_parsers(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = (parse_uevent(&bytes), ack_errno(&bytes), parse_advertisements(&bytes));
            let _ = (parse_advertisements(&message(&bytes)), parse_domains(&bytes));
        }
    }
}
