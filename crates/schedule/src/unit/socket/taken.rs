// SPDX-License-Identifier: Apache-2.0
//! Who has an address that a unit is to listen on, in words. By the kernel's tables and the files
//! that processes have open; a guess is never made.

use std::fs;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// So many processes are looked at.
const MOST: usize = 20_000;

/// What is said of an address that is taken.
pub(crate) fn words(who: Option<String>) -> String {
    match who {
        Some(who) => format!("the address is taken: {who} listens there"),
        None => "the address is taken by another socket".to_owned(),
    }
}

/// A process for people.
fn process(pid: u32) -> String {
    if pid == std::process::id() {
        return "another unit of this node".to_owned();
    }
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim_end() {
        "" => format!("the process {pid}"),
        name => format!("{name} (pid {pid})"),
    }
}

/// Who listens at the other end of a connected Unix socket.
pub(crate) fn peer(socket: impl AsFd) -> Option<String> {
    let peer = rustix::net::sockopt::socket_peercred(socket).ok()?;
    let pid = peer.pid.as_raw_nonzero().get();
    u32::try_from(pid).ok().map(process)
}

/// Who listens at an abstract name.
pub(crate) fn of_abstract(name: &str) -> Option<String> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    connect(&socket, &address).ok()?;
    peer(&socket)
}

/// Who has a port.
pub(crate) fn of_port(port: u16, directive: &str) -> Option<String> {
    let tables = match directive {
        "ListenDatagram" => ["/proc/net/udp", "/proc/net/udp6"],
        _ => ["/proc/net/tcp", "/proc/net/tcp6"],
    };
    let listening = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (_, number) = words.next()?.rsplit_once(':')?;
        let state = words.nth(1)?;
        let inode = words.nth(5)?;
        let is_it = u16::from_str_radix(number, 16) == Ok(port);
        // Of tcp 0A: it listens; of udp 07: it is bound.
        (is_it && matches!(state, "0A" | "07")).then(|| inode.to_owned())
    };
    let read = |path: &&str| fs::read_to_string(path).unwrap_or_default();
    let texts: Vec<String> = tables.iter().map(read).collect();
    let inode = texts.iter().flat_map(|it| it.lines()).find_map(listening)?;
    holder(&format!("socket:[{inode}]"))
}

/// Which process has a file open. The daemon comes last: whatever init keeps, it has.
fn holder(wanted: &str) -> Option<String> {
    let all = fs::read_dir("/proc").ok()?.flatten().take(MOST);
    let pids = all.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut links = open
            .flatten()
            .filter_map(|it| fs::read_link(it.path()).ok());
        links.any(|it| it.as_os_str() == wanted)
    };
    let all: Vec<u32> = pids.filter(has).collect();
    let own = std::process::id();
    if all.contains(&own) {
        return Some(process(own));
    }
    all.first().copied().map(process)
}
