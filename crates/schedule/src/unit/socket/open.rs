// SPDX-License-Identifier: Apache-2.0
//! Makes what a socket unit listens on: sockets, FIFOs, queues (systemd.socket(5)). Blocks, and
//! needs root. Nothing here waits for a peer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};

use kernel::socket::{self as options, SocketOption};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use units::time::Span;
use units::unit::Settings;
use units::value::Address;

use super::place;
use super::rules::{OnlyV6, Rules, Wanted, size};
use super::taken;

/// Numbers of protocols, as in /etc/protocols.
const PROTOCOLS: [(&str, u32); 3] = [("mptcp", 262), ("udplite", 136), ("sctp", 132)];

/// The netlink families by name (netlink(7)).
const NETLINK: [(&str, u32); 18] = [
    ("route", 0),
    ("firewall", 3),
    ("inet-diag", 4),
    ("nflog", 5),
    ("xfrm", 6),
    ("selinux", 7),
    ("iscsi", 8),
    ("audit", 9),
    ("fib-lookup", 10),
    ("connector", 11),
    ("netfilter", 12),
    ("ip6-fw", 13),
    ("dnrtmsg", 14),
    ("kobject-uevent", 15),
    ("generic", 16),
    ("scsitransport", 18),
    ("ecryptfs", 19),
    ("rdma", 20),
];

/// Opens one of what a unit listens on.
///
/// # Errors
/// Words: what was to be opened, what failed, and who has the address where it is taken.
pub(crate) fn open(rules: &Rules, settings: &Settings, wanted: &Wanted) -> Result<OwnedFd, String> {
    let told = |words: String| format!("{}: {words}", wanted.shown());
    let opened = match (wanted.directive, &wanted.address) {
        ("ListenFIFO", Address::Path(path)) => place::fifo(rules, path),
        ("ListenSpecial", Address::Path(path)) => special(rules, path),
        ("ListenMessageQueue", Address::Path(path)) => {
            options::message_queue(path, rules.mode, rules.queue).map_err(|it| it.to_string())
        }
        _ => of_network(rules, wanted),
    };
    let fd = opened.map_err(told)?;
    if wanted.directive == "ListenFIFO"
        && let Some(bytes) = rules.pipe_size
    {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Err(error) = rustix::pipe::fcntl_setpipe_size(&fd, bytes) {
            tracing::warn!(%error, "PipeSize= of {}", wanted.shown());
        }
    }
    if is_socket(wanted) {
        apply(&fd, settings, &wanted.address);
    }
    Ok(fd)
}

fn is_socket(wanted: &Wanted) -> bool {
    !matches!(
        wanted.directive,
        "ListenFIFO" | "ListenSpecial" | "ListenMessageQueue"
    )
}

fn special(rules: &Rules, path: &str) -> Result<OwnedFd, String> {
    let flags = match rules.writable {
        true => OFlags::RDWR,
        false => OFlags::RDONLY,
    } | OFlags::CLOEXEC
        | OFlags::NOCTTY
        | OFlags::NONBLOCK
        | OFlags::NOFOLLOW;
    let fd = openat(CWD, path, flags, Mode::empty()).map_err(|it| it.to_string())?;
    let status = rustix::fs::fstat(&fd).map_err(|it| it.to_string())?;
    use rustix::fs::FileType;
    match FileType::from_raw_mode(status.st_mode) {
        // systemd.socket(5), ListenSpecial=: character devices, and files of /proc and /sys.
        FileType::RegularFile | FileType::CharacterDevice => Ok(fd),
        _ => Err("it is neither a character device nor a file".to_owned()),
    }
}

fn kind_of(wanted: &Wanted) -> SocketType {
    match wanted.directive {
        "ListenDatagram" => SocketType::DGRAM,
        "ListenSequentialPacket" => SocketType::SEQPACKET,
        "ListenNetlink" => SocketType::RAW,
        _ => SocketType::STREAM,
    }
}

fn made(
    rules: &Rules,
    wanted: &Wanted,
    family: AddressFamily,
    protocol: Option<u32>,
) -> Result<OwnedFd, String> {
    // A connection that went away again must not hold up who accepts it.
    let flags = match rules.accept {
        true => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        false => SocketFlags::CLOEXEC,
    };
    let protocol = protocol.and_then(NonZeroU32::new);
    let protocol = protocol.map(Protocol::from_raw);
    let made = socket_with(family, kind_of(wanted), flags, protocol);
    made.map_err(|error| match error {
        Errno::AFNOSUPPORT => "the kernel has no sockets of that family".to_owned(),
        Errno::PROTONOSUPPORT => "the kernel hasn't got that protocol".to_owned(),
        error => format!("socket: {error}"),
    })
}

fn of_network(rules: &Rules, wanted: &Wanted) -> Result<OwnedFd, String> {
    match &wanted.address {
        Address::Path(path) => of_file(rules, wanted, path),
        Address::Abstract(name) => {
            let fd = made(rules, wanted, AddressFamily::UNIX, None)?;
            let address = SocketAddrUnix::new_abstract_name(name.as_bytes());
            let address = address.map_err(|it| it.to_string())?;
            reuse(&fd);
            bind(&fd, &address).map_err(|error| match error {
                Errno::ADDRINUSE => taken::words(taken::of_abstract(name)),
                error => format!("bind: {error}"),
            })?;
            listening(rules, wanted, fd)
        }
        Address::Port(port) => {
            let any = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), *port);
            let protocol = number_of(rules.protocol);
            // systemd.socket(5), ListenStream=: IPv4 where the kernel has no IPv6.
            match made(rules, wanted, AddressFamily::INET6, protocol) {
                Ok(fd) => of_inet(rules, wanted, fd, any),
                Err(_) => {
                    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), *port);
                    let fd = made(rules, wanted, AddressFamily::INET, protocol)?;
                    of_inet(rules, wanted, fd, any)
                }
            }
        }
        Address::Inet(address, port, interface) => {
            let protocol = number_of(rules.protocol);
            let family = match address {
                IpAddr::V4(_) => AddressFamily::INET,
                IpAddr::V6(_) => AddressFamily::INET6,
            };
            let fd = made(rules, wanted, family, protocol)?;
            let address = match (address, interface) {
                (IpAddr::V6(address), Some(interface)) => {
                    let index = rustix::net::netdevice::name_to_index(&fd, interface);
                    let index = index.map_err(|it| format!("the interface {interface}: {it}"))?;
                    SocketAddr::V6(SocketAddrV6::new(*address, *port, 0, index))
                }
                (address, _) => SocketAddr::new(*address, *port),
            };
            of_inet(rules, wanted, fd, address)
        }
        Address::Vsock(context, port) => {
            let fd = made(rules, wanted, AddressFamily::VSOCK, None)?;
            options::bind_vsock(&fd, *context, *port).map_err(|it| it.to_string())?;
            listening(rules, wanted, fd)
        }
        Address::Netlink(family, groups) => {
            let known = NETLINK.iter().find(|(name, _)| name == family);
            let number = known.map(|(_, number)| *number).or(family.parse().ok());
            let fd = made(rules, wanted, AddressFamily::NETLINK, number)?;
            reuse(&fd);
            bind(&fd, &SocketAddrNetlink::new(0, *groups)).map_err(|it| format!("bind: {it}"))?;
            Ok(fd)
        }
    }
}

fn number_of(protocol: Option<&str>) -> Option<u32> {
    let found = PROTOCOLS.iter().find(|(name, _)| Some(*name) == protocol);
    found.map(|(_, number)| *number)
}

/// As systemd sets it on all.
fn reuse(fd: &OwnedFd) {
    let _ = options::set(fd, options::REUSE_ADDRESS, 1);
}

fn of_file(rules: &Rules, wanted: &Wanted, path: &str) -> Result<OwnedFd, String> {
    place::parents(path, rules.directory_mode)?;
    let fd = made(rules, wanted, AddressFamily::UNIX, None)?;
    let address = SocketAddrUnix::new(path).map_err(|it| it.to_string())?;
    reuse(&fd);
    match bind(&fd, &address) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            place::make_way(path, kind_of(wanted))?;
            bind(&fd, &address).map_err(|it| format!("bind: {it}"))?;
        }
        Err(error) => return Err(format!("bind: {error}")),
    }
    place::give(rules, path)?;
    listening(rules, wanted, fd)
}

fn of_inet(
    rules: &Rules,
    wanted: &Wanted,
    fd: OwnedFd,
    address: SocketAddr,
) -> Result<OwnedFd, String> {
    let failed = |error: kernel::Error| error.to_string();
    if address.is_ipv6() {
        match rules.only_v6 {
            OnlyV6::Default => {}
            OnlyV6::Yes => options::set(&fd, options::ONLY_V6, 1).map_err(failed)?,
            OnlyV6::No => options::set(&fd, options::ONLY_V6, 0).map_err(failed)?,
        }
    }
    if let Some(device) = &rules.device {
        options::set_text(&fd, options::BIND_TO_DEVICE, device).map_err(failed)?;
    }
    bind_options(&fd, rules, &address);
    reuse(&fd);
    bind(&fd, &address).map_err(|error| match error {
        Errno::ADDRINUSE => taken::words(taken::of_port(address.port(), wanted.directive)),
        Errno::ADDRNOTAVAIL => format!(
            "{} is no address of this node (FreeBind=yes takes it all the same)",
            address.ip()
        ),
        error => format!("bind: {error}"),
    })?;
    listening(rules, wanted, fd)
}

/// What must be there before bind(2).
fn bind_options(fd: &OwnedFd, rules: &Rules, address: &SocketAddr) {
    let of_family = |v4: SocketOption, v6: SocketOption| match address {
        SocketAddr::V4(_) => v4,
        SocketAddr::V6(_) => v6,
    };
    let wanted = [
        (rules.reuse_port, options::REUSE_PORT, "ReusePort="),
        (
            rules.free_bind,
            of_family(options::FREE_BIND, options::FREE_BIND_6),
            "FreeBind=",
        ),
        (
            rules.transparent,
            of_family(options::TRANSPARENT, options::TRANSPARENT_6),
            "Transparent=",
        ),
    ];
    for (on, option, directive) in wanted {
        if on && let Err(error) = options::set(fd, option, 1) {
            tracing::warn!(directive, %error, "an option of a socket is not set");
        }
    }
}

fn listening(rules: &Rules, wanted: &Wanted, fd: OwnedFd) -> Result<OwnedFd, String> {
    if wanted.accepts() {
        listen(&fd, rules.backlog).map_err(|error| match error {
            // Who listens by SO_REUSEADDR is found here, and not by bind.
            Errno::ADDRINUSE => taken::words(None),
            error => format!("listen: {error}"),
        })?;
    }
    Ok(fd)
}

fn seconds(span: Span) -> i32 {
    let micros = span.micros().unwrap_or(u64::MAX);
    i32::try_from(micros.div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// Sets the options of a socket, or of a connection to it. What its kind hasn't got, or the node
/// may not set, is a warning, as systemd has it.
pub(crate) fn apply(fd: impl AsFd, settings: &Settings, address: &Address) {
    let fd = fd.as_fd();
    let set = |field: &str, option: SocketOption, value: i32| {
        if let Err(error) = options::set(fd, option, value) {
            tracing::warn!(field, %error, "an option of a socket is not set");
        }
    };
    let is_inet = matches!(address, Address::Port(_) | Address::Inet(..));
    let is_v4 = matches!(address, Address::Inet(IpAddr::V4(_), ..));
    for (field, option) in [
        ("KeepAlive", options::KEEP_ALIVE),
        ("Broadcast", options::BROADCAST),
        ("PassCredentials", options::PASS_CREDENTIALS),
        ("PassSecurity", options::PASS_SECURITY),
        ("NoDelay", options::NO_DELAY),
    ] {
        if settings.flag(field) == Some(true) {
            set(field, option, 1);
        }
    }
    if settings.flag("PassPacketInfo") == Some(true) {
        let option = match address {
            Address::Netlink(..) => options::PACKET_INFO_NETLINK,
            _ if is_v4 => options::PACKET_INFO,
            _ => options::PACKET_INFO_6,
        };
        set("PassPacketInfo", option, 1);
    }
    for (field, option) in [
        ("KeepAliveTimeSec", options::KEEP_ALIVE_TIME),
        ("KeepAliveIntervalSec", options::KEEP_ALIVE_INTERVAL),
        ("DeferAcceptSec", options::DEFER_ACCEPT),
    ] {
        if let Some(span) = settings.span(field).filter(|it| *it != Span::ZERO) {
            set(field, option, seconds(span));
        }
    }
    let mut numbers = vec![
        ("KeepAliveProbes", options::KEEP_ALIVE_PROBES),
        ("Priority", options::PRIORITY),
        ("Mark", options::MARK),
    ];
    if is_inet {
        let ttl = if is_v4 {
            options::TIME_TO_LIVE
        } else {
            options::HOPS_6
        };
        numbers.push(("IPTTL", ttl));
    }
    for (field, option) in numbers {
        let number = settings.number(field).filter(|it| *it >= 0);
        if let Some(number) = number {
            // A mark has all 32 bits.
            let value = u32::try_from(number).map_or(i32::MAX, u32::cast_signed);
            set(field, option, value);
        }
    }
    buffers(fd, settings);
    texts(fd, settings);
}

fn buffers(fd: std::os::fd::BorrowedFd<'_>, settings: &Settings) {
    let both = [
        (
            "ReceiveBuffer",
            options::RECEIVE_BUFFER,
            options::RECEIVE_BUFFER_WITHIN,
        ),
        (
            "SendBuffer",
            options::SEND_BUFFER,
            options::SEND_BUFFER_WITHIN,
        ),
    ];
    for (field, forced, within) in both {
        let Some(bytes) = size(settings, field) else {
            continue;
        };
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let done = options::set(fd, forced, bytes).or_else(|_| options::set(fd, within, bytes));
        if let Err(error) = done {
            tracing::warn!(field, %error, "an option of a socket is not set");
        }
    }
}

fn texts(fd: std::os::fd::BorrowedFd<'_>, settings: &Settings) {
    let warn = |field: &str, done: kernel::Result<()>| {
        if let Err(error) = done {
            tracing::warn!(field, %error, "an option of a socket is not set");
        }
    };
    if let Some(algorithm) = settings.text("TCPCongestion") {
        let done = options::set_text(fd, options::CONGESTION, algorithm);
        warn("TCPCongestion", done);
    }
    if let Some(service) = settings.text("IPTOS") {
        let value = match service {
            // ip(7).
            "low-delay" => 0x10,
            "throughput" => 0x08,
            "reliability" => 0x04,
            "low-cost" => 0x02,
            number => number.parse().unwrap_or(0),
        };
        warn("IPTOS", options::set(fd, options::TYPE_OF_SERVICE, value));
    }
    let option = match settings.word("Timestamping") {
        Some("us" | "usec" | "µs") => Some(options::TIMESTAMP),
        Some("ns" | "nsec") => Some(options::TIMESTAMP_NS),
        _ if settings.flag("Timestamping") == Some(true) => Some(options::TIMESTAMP),
        _ => None,
    };
    if let Some(option) = option {
        warn("Timestamping", options::set(fd, option, 1));
    }
}
