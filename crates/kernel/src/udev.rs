// SPDX-License-Identifier: Apache-2.0
//! Events of devices that udev's daemon has worked on, as it tells everybody: what its rules have
//! set is in them. The kernel's own are [`crate::netlink::Uevents`].

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::netlink::Uevent;
use crate::seqpacket::{ReceiveError, pass_credentials, receive};
use crate::{Context, Error, Result};

/// The group of udev's events.
const GROUP: u32 = 2;
/// What a message of udev's begins with, and a number behind it, in the network's order.
const PREFIX: &[u8] = b"libudev\0";
const MAGIC: u32 = 0xfeed_cafe;
/// The longest event that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// Events, from when it was opened.
#[derive(Debug)]
pub struct Events(OwnedFd);

impl Events {
    /// Starts listening; non-blocking.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: the process or the machine has no descriptor left. `EPROTONOSUPPORT`:
    /// the kernel has no such messages.
    pub fn open() -> Result<Events> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            flags,
            Some(netlink::KOBJECT_UEVENT),
        )
        .call("socket(NETLINK_KOBJECT_UEVENT)")?;
        // A cold boot sends thousands; without room the kernel drops them and says ENOBUFS.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20);
        pass_credentials(&socket)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUP)).call("bind(udev)")?;
        Ok(Events(socket))
    }

    /// The next of root's; `None` when there is none now.
    ///
    /// # Errors
    /// `ENOBUFS`: some were dropped; look at udev's database again, and go on reading.
    pub fn next(&self) -> Result<Option<Uevent>> {
        loop {
            let mut buffer = [0; LONGEST];
            match receive(&self.0, &mut buffer) {
                Ok(Some(packet)) => {
                    let is_root = packet.credentials.is_some_and(|it| it.uid == 0);
                    let bytes = buffer.get(..packet.length).filter(|_| is_root);
                    if let Some(event) = bytes.and_then(parse) {
                        return Ok(Some(event));
                    }
                }
                Err(error) if error.is_would_block() => return Ok(None),
                Err(ReceiveError::Os(error)) => return Err(error),
                // Of no sender, empty, or too long to be one of udev's.
                Ok(None) | Err(_) => {}
            }
        }
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether the error says that events were dropped.
pub fn were_dropped(error: &Error) -> bool {
    error.is(Errno::NOBUFS.raw_os_error())
}

/// A header with the place of the properties, then these, each ended by NUL.
fn parse(bytes: &[u8]) -> Option<Uevent> {
    let number = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
    let native = |at: usize| usize::try_from(u32::from_ne_bytes(number(at)?)).ok();
    if !bytes.starts_with(PREFIX) || u32::from_be_bytes(number(8)?) != MAGIC {
        return None;
    }
    let (begin, length) = (native(16)?, native(20)?);
    let properties = bytes.get(begin..begin.checked_add(length)?)?;
    let pair = |part: &[u8]| {
        let part = String::from_utf8_lossy(part).into_owned();
        let (key, value) = part.split_once('=')?;
        Some((key.to_owned(), value.to_owned()))
    };
    let properties = properties.split(|byte| *byte == 0).filter_map(pair);
    let mut event = Uevent {
        action: String::new(),
        path: String::new(),
        properties: properties.collect(),
    };
    event.action = event.property("ACTION")?.to_owned();
    event.path = event.property("DEVPATH")?.to_owned();
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(properties: &[u8]) -> Vec<u8> {
        let mut bytes = PREFIX.to_vec();
        bytes.extend(MAGIC.to_be_bytes());
        for number in [40, 40, u32::try_from(properties.len()).unwrap(), 0, 0, 0, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(properties);
        bytes
    }

    #[test]
    fn an_event_of_udevs_is_read() {
        let text = b"ACTION=add\0DEVPATH=/devices/virtual/block/loop0\0TAGS=:systemd:\0A=b=c\0x\0";
        let event = parse(&message(text)).unwrap();
        assert_eq!(event.action, "add");
        assert_eq!(event.path, "/devices/virtual/block/loop0");
        assert_eq!(event.property("TAGS"), Some(":systemd:"));
        assert_eq!(event.property("A"), Some("b=c"));
        assert_eq!(parse(&message(b"ACTION=add\0")), None);
        let whole = message(text);
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None);
        }
        let mut kernel = b"add@/devices/x\0ACTION=add\0".to_vec();
        assert_eq!(parse(&kernel), None);
        kernel.splice(..0, whole);
        assert!(parse(&kernel).is_some());
        Events::open().unwrap();
    }
}
