// SPDX-License-Identifier: Apache-2.0
//! Two small things over netlink: the loopback of a new network namespace, and news of devices.
//!
//! Not a network configurator: what needs addresses and routes has a library for it. This is for an init
//! that must not carry one.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

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

/// Brings `lo` up in the caller's network namespace: the kernel then gives it 127.0.0.1 and ::1. Needs
/// `CAP_NET_ADMIN` in the namespace.
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

/// `nlmsghdr`, `ifinfomsg` with `IFF_UP` set and changed, and the name as the attribute that selects it.
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

/// What the kernel says of a device.
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
    /// A property's value.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// News of devices, from when it was opened. Open it first, then look whether the device is there, then wait.
#[derive(Debug)]
pub struct Uevents(OwnedFd);

impl Uevents {
    /// Starts listening; non-blocking. Devices' news come to the initial network namespace alone (network
    /// devices' to their own).
    pub fn open() -> Result<Uevents> {
        let socket = socket(Some(netlink::KOBJECT_UEVENT), SocketFlags::NONBLOCK)?;
        // A cold boot sends thousands; without room the kernel drops them and says ENOBUFS.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, 4 << 20);
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 1)).call("bind(KOBJECT_UEVENT)")?;
        Ok(Uevents(socket))
    }

    /// The next; `None` when there is none now. `ENOBUFS`: some were lost, look at `/sys` again.
    pub fn next(&self) -> Result<Option<Uevent>> {
        loop {
            let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
            let flags = RecvFlags::empty();
            let received = rustix::io::retry_on_intr(|| {
                rustix::net::recvfrom(&self.0, &mut buffer, flags).map(|((b, _), _, from)| {
                    let kernel = from.and_then(|a| SocketAddrNetlink::try_from(a).ok());
                    (b.to_vec(), kernel.is_some_and(|a| a.pid() == 0))
                })
            });
            match received {
                // Any process may send to the group; only the kernel's are believed.
                Ok((_, false)) => {}
                Ok((bytes, true)) => {
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
        fn no_bytes_make_the_parsers_fall_over(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = (parse_uevent(&bytes), ack_errno(&bytes));
        }
    }
}
