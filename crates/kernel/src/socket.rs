// SPDX-License-Identifier: Apache-2.0
//! Options of sockets, addresses of the VM kind and message queues: what rustix does not wrap, as
//! thin as it can be. Which of them a socket gets is the caller's matter; sockets themselves are
//! made by rustix.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::{Error, Result};

/// An option of a socket: its level and its number, setsockopt(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketOption {
    level: libc::c_int,
    number: libc::c_int,
    name: &'static str,
}

const fn option(level: libc::c_int, number: libc::c_int, name: &'static str) -> SocketOption {
    SocketOption {
        level,
        number,
        name,
    }
}

/// socket(7): 0 to 6 without CAP_NET_ADMIN.
pub const PRIORITY: SocketOption = option(libc::SOL_SOCKET, libc::SO_PRIORITY, "SO_PRIORITY");
/// socket(7).
pub const MARK: SocketOption = option(libc::SOL_SOCKET, libc::SO_MARK, "SO_MARK");
/// socket(7); of a text.
pub const BIND_TO_DEVICE: SocketOption =
    option(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, "SO_BINDTODEVICE");
/// unix(7).
pub const PASS_CREDENTIALS: SocketOption =
    option(libc::SOL_SOCKET, libc::SO_PASSCRED, "SO_PASSCRED");
/// unix(7).
pub const PASS_SECURITY: SocketOption = option(libc::SOL_SOCKET, libc::SO_PASSSEC, "SO_PASSSEC");
/// socket(7): microseconds.
pub const TIMESTAMP: SocketOption = option(libc::SOL_SOCKET, libc::SO_TIMESTAMP, "SO_TIMESTAMP");
/// socket(7): nanoseconds.
pub const TIMESTAMP_NS: SocketOption =
    option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, "SO_TIMESTAMPNS");
/// socket(7).
pub const BROADCAST: SocketOption = option(libc::SOL_SOCKET, libc::SO_BROADCAST, "SO_BROADCAST");
/// socket(7).
pub const KEEP_ALIVE: SocketOption = option(libc::SOL_SOCKET, libc::SO_KEEPALIVE, "SO_KEEPALIVE");
/// socket(7).
pub const REUSE_PORT: SocketOption = option(libc::SOL_SOCKET, libc::SO_REUSEPORT, "SO_REUSEPORT");
/// socket(7).
pub const REUSE_ADDRESS: SocketOption =
    option(libc::SOL_SOCKET, libc::SO_REUSEADDR, "SO_REUSEADDR");
/// socket(7): bytes, also above the machine's bound.
pub const RECEIVE_BUFFER: SocketOption =
    option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, "SO_RCVBUFFORCE");
/// socket(7): bytes, also above the machine's bound.
pub const SEND_BUFFER: SocketOption =
    option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, "SO_SNDBUFFORCE");
/// socket(7): bytes, within the machine's bound.
pub const RECEIVE_BUFFER_WITHIN: SocketOption =
    option(libc::SOL_SOCKET, libc::SO_RCVBUF, "SO_RCVBUF");
/// socket(7): bytes, within the machine's bound.
pub const SEND_BUFFER_WITHIN: SocketOption = option(libc::SOL_SOCKET, libc::SO_SNDBUF, "SO_SNDBUF");
/// tcp(7): seconds.
pub const KEEP_ALIVE_TIME: SocketOption =
    option(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, "TCP_KEEPIDLE");
/// tcp(7): seconds.
pub const KEEP_ALIVE_INTERVAL: SocketOption =
    option(libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, "TCP_KEEPINTVL");
/// tcp(7).
pub const KEEP_ALIVE_PROBES: SocketOption =
    option(libc::IPPROTO_TCP, libc::TCP_KEEPCNT, "TCP_KEEPCNT");
/// tcp(7): seconds.
pub const DEFER_ACCEPT: SocketOption = option(
    libc::IPPROTO_TCP,
    libc::TCP_DEFER_ACCEPT,
    "TCP_DEFER_ACCEPT",
);
/// tcp(7).
pub const NO_DELAY: SocketOption = option(libc::IPPROTO_TCP, libc::TCP_NODELAY, "TCP_NODELAY");
/// tcp(7); of a text.
pub const CONGESTION: SocketOption =
    option(libc::IPPROTO_TCP, libc::TCP_CONGESTION, "TCP_CONGESTION");
/// ip(7).
pub const TYPE_OF_SERVICE: SocketOption = option(libc::IPPROTO_IP, libc::IP_TOS, "IP_TOS");
/// ip(7).
pub const TIME_TO_LIVE: SocketOption = option(libc::IPPROTO_IP, libc::IP_TTL, "IP_TTL");
/// ipv6(7).
pub const HOPS_6: SocketOption = option(
    libc::IPPROTO_IPV6,
    libc::IPV6_UNICAST_HOPS,
    "IPV6_UNICAST_HOPS",
);
/// ip(7).
pub const FREE_BIND: SocketOption = option(libc::IPPROTO_IP, libc::IP_FREEBIND, "IP_FREEBIND");
/// ipv6(7).
pub const FREE_BIND_6: SocketOption =
    option(libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, "IPV6_FREEBIND");
/// ip(7).
pub const TRANSPARENT: SocketOption =
    option(libc::IPPROTO_IP, libc::IP_TRANSPARENT, "IP_TRANSPARENT");
/// ipv6(7).
pub const TRANSPARENT_6: SocketOption = option(
    libc::IPPROTO_IPV6,
    libc::IPV6_TRANSPARENT,
    "IPV6_TRANSPARENT",
);
/// ip(7).
pub const PACKET_INFO: SocketOption = option(libc::IPPROTO_IP, libc::IP_PKTINFO, "IP_PKTINFO");
/// ipv6(7).
pub const PACKET_INFO_6: SocketOption = option(
    libc::IPPROTO_IPV6,
    libc::IPV6_RECVPKTINFO,
    "IPV6_RECVPKTINFO",
);
/// netlink(7).
pub const PACKET_INFO_NETLINK: SocketOption =
    option(libc::SOL_NETLINK, libc::NETLINK_PKTINFO, "NETLINK_PKTINFO");
/// ipv6(7).
pub const ONLY_V6: SocketOption = option(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, "IPV6_V6ONLY");

/// Sets an option of a number or a flag.
///
/// # Errors
/// `ENOPROTOOPT`, `EOPNOTSUPP`: the socket's kind hasn't got it; `EPERM`, `EINVAL`.
pub fn set(socket: impl AsFd, option: SocketOption, value: i32) -> Result<()> {
    set_bytes(socket, option, &value.to_ne_bytes())
}

/// Sets an option of a text.
///
/// # Errors
/// As [`set`]; `ENODEV`, `ENOENT`: there is no such device or algorithm.
pub fn set_text(socket: impl AsFd, option: SocketOption, value: &str) -> Result<()> {
    set_bytes(socket, option, value.as_bytes()).map_err(|it| it.about(value.to_owned()))
}

fn set_bytes(socket: impl AsFd, option: SocketOption, value: &[u8]) -> Result<()> {
    let length = libc::socklen_t::try_from(value.len())
        .map_err(|_| Error::invalid(option.name, "the value is too long"))?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `length` bytes of `value`, which lives as long as the call.
    let result = unsafe {
        libc::setsockopt(
            fd,
            option.level,
            option.number,
            value.as_ptr().cast(),
            length,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(Error::last(option.name)),
    }
}

/// Binds a socket of the family `AF_VSOCK`; `context` `None` is any, vsock(7).
///
/// # Errors
/// `EADDRINUSE`, `EADDRNOTAVAIL`, `EACCES`.
pub fn bind_vsock(socket: impl AsFd, context: Option<u32>, port: u32) -> Result<()> {
    // SAFETY: all-zero is a value of this plain structure.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::sa_family_t::try_from(libc::AF_VSOCK).unwrap_or_default();
    address.svm_cid = context.unwrap_or(libc::VMADDR_CID_ANY);
    address.svm_port = port;
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_vm>()).unwrap_or_default();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `length` bytes of `address`, which is that long.
    let result = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
    match result {
        0 => Ok(()),
        _ => Err(Error::last("bind").about(format!("vsock port {port}"))),
    }
}

/// Opens a POSIX message queue for reading and writing, made with `mode` where it isn't there,
/// mq_overview(7); non-blocking. `size`: the most messages, and bytes of each.
///
/// # Errors
/// `EINVAL`: the name has another slash than the first, or `size` is beyond the machine's bounds;
/// `ENOSPC`, `EACCES`.
pub fn message_queue(name: &str, mode: u32, size: Option<(i64, i64)>) -> Result<OwnedFd> {
    let text = CString::new(name).map_err(|_| Error::invalid("mq_open", "a NUL in the name"))?;
    // SAFETY: all-zero is a value of this plain structure.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    let pointer = match size {
        Some((messages, bytes)) => {
            attributes.mq_maxmsg = messages;
            attributes.mq_msgsize = bytes;
            &raw const attributes
        }
        None => std::ptr::null(),
    };
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_CREAT;
    // SAFETY: the name ends with NUL; the attributes are null or a structure that lives on.
    let queue = unsafe { libc::mq_open(text.as_ptr(), flags, mode, pointer) };
    if queue < 0 {
        return Err(Error::last("mq_open").about(name.to_owned()));
    }
    // SAFETY: on Linux a queue's descriptor is one of a file, and nothing else owns this one.
    Ok(unsafe { OwnedFd::from_raw_fd(queue) })
}

/// Removes the name of a message queue; one that isn't there is none to remove.
///
/// # Errors
/// `EACCES`.
pub fn remove_message_queue(name: &str) -> Result<()> {
    let text = CString::new(name).map_err(|_| Error::invalid("mq_unlink", "a NUL in the name"))?;
    // SAFETY: the name ends with NUL.
    let result = unsafe { libc::mq_unlink(text.as_ptr()) };
    match result {
        0 => Ok(()),
        _ => match Error::last("mq_unlink") {
            error if error.is(Errno::NOENT.raw_os_error()) => Ok(()),
            error => Err(error.about(name.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType, socket, sockopt};

    #[test]
    fn options_are_set_and_what_a_socket_has_not_is_an_error() {
        let tcp = socket(AddressFamily::INET6, SocketType::STREAM, None).unwrap();
        set(&tcp, KEEP_ALIVE_TIME, 77).unwrap();
        set(&tcp, ONLY_V6, 1).unwrap();
        set(&tcp, FREE_BIND, 1).unwrap();
        set_text(&tcp, CONGESTION, "reno").unwrap();
        assert_eq!(sockopt::tcp_keepidle(&tcp).unwrap().as_secs(), 77);
        assert!(sockopt::ipv6_v6only(&tcp).unwrap());
        assert_eq!(sockopt::tcp_congestion(&tcp).unwrap(), "reno");
        let none = set_text(&tcp, CONGESTION, "no-such-thing").unwrap_err();
        assert_eq!(none.errno(), libc::ENOENT, "{none}");
        let unix = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let none = set(&unix, NO_DELAY, 1).unwrap_err();
        assert_eq!(none.call(), "TCP_NODELAY");
        let wrong = message_queue("/a/b", 0o600, None).unwrap_err();
        assert_eq!(wrong.errno(), libc::EACCES, "{wrong}");
    }
}
