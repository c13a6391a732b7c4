// SPDX-License-Identifier: Apache-2.0
//! Texts that have a form of their own: names of users, interfaces, buses, families. The text is
//! kept as it is; only what can't be one is told.

use super::scalar::{boolean, share};
use crate::exec::environment;
use crate::finding::shown;

/// A form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A user's or group's name or number. A wrong one fails the unit.
    Account,
    /// An absolute path.
    Path,
    /// Absolute paths with colons between.
    SearchPath,
    /// A link for people.
    Url,
    /// A well-known name on the bus.
    BusName,
    /// A network interface.
    Interface,
    /// A cgroup controller, yes or no where it stands alone.
    Controller,
    /// A family of sockets.
    Family,
    /// An architecture.
    Architecture,
    /// How mounts spread.
    Propagation,
    /// What a kernel pretends to be.
    Personality,
    /// A variable's name.
    Variable,
    /// A variable's name, or one with its value.
    Unset,
    /// A name of a kept descriptor.
    Descriptor,
    /// A share.
    Share,
    /// A part of the journal.
    Namespace,
    /// `FIELD=text` of the journal.
    Field,
    /// A part of a core dump, or a mask.
    Dump,
    /// What a socket's packets ask for.
    Service,
    /// A port or ports, with a family and a protocol.
    Port,
    /// `TYPE:/PATH`.
    Program,
}

const CONTROLLERS: [&str; 11] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "io",
    "blkio",
    "memory",
    "devices",
    "pids",
    "bpf-firewall",
    "bpf-devices",
    "bpf-foreign",
];

const ARCHITECTURES: [&str; 34] = [
    "native",
    "x86",
    "x86-64",
    "x32",
    "arm",
    "arm64",
    "mips",
    "mips64",
    "mips64-n32",
    "mips-le",
    "mips64-le",
    "mips64-le-n32",
    "ppc",
    "ppc64",
    "ppc64-le",
    "riscv32",
    "riscv64",
    "s390",
    "s390x",
    "loongarch64",
    "parisc",
    "parisc64",
    "alpha",
    "arc",
    "arc-be",
    "arm-be",
    "arm64-be",
    "cris",
    "ia64",
    "m68k",
    "nios2",
    "sh",
    "sh64",
    "sparc",
];

/// The families of socket(2), without `AF_`.
const FAMILIES: [&str; 44] = [
    "UNIX",
    "LOCAL",
    "FILE",
    "INET",
    "AX25",
    "IPX",
    "APPLETALK",
    "NETROM",
    "BRIDGE",
    "ATMPVC",
    "X25",
    "INET6",
    "ROSE",
    "DECnet",
    "NETBEUI",
    "SECURITY",
    "KEY",
    "NETLINK",
    "ROUTE",
    "PACKET",
    "ASH",
    "ECONET",
    "ATMSVC",
    "RDS",
    "SNA",
    "IRDA",
    "PPPOX",
    "WANPIPE",
    "LLC",
    "IB",
    "MPLS",
    "CAN",
    "TIPC",
    "BLUETOOTH",
    "IUCV",
    "RXRPC",
    "ISDN",
    "PHONET",
    "IEEE802154",
    "CAIF",
    "ALG",
    "NFC",
    "VSOCK",
    "XDP",
];

const MORE_FAMILIES: [&str; 5] = ["KCM", "QIPCRTR", "SMC", "MCTP", "NONE"];

const DUMPS: [&str; 9] = [
    "private-anonymous",
    "shared-anonymous",
    "private-file-backed",
    "shared-file-backed",
    "elf-headers",
    "private-huge",
    "shared-huge",
    "private-dax",
    "shared-dax",
];

/// Whether a text has that form.
///
/// # Errors
/// It hasn't; what one looks like.
pub fn check(shape: Shape, text: &str) -> Result<(), String> {
    if fits(shape, text) {
        return Ok(());
    }
    Err(format!("{} is no {}", shown(text), form(shape)))
}

fn fits(shape: Shape, text: &str) -> bool {
    match shape {
        Shape::Account => account(text),
        Shape::Path => path(text),
        Shape::SearchPath => text.split(':').all(path),
        Shape::Url => url(text),
        Shape::BusName => bus_name(text),
        Shape::Interface => interface(text),
        Shape::Controller => CONTROLLERS.contains(&text) || boolean(text).is_ok(),
        Shape::Family => family(text),
        Shape::Architecture => ARCHITECTURES.contains(&text),
        Shape::Propagation => ["shared", "slave", "private"].contains(&text),
        Shape::Personality => PERSONALITIES.contains(&text),
        Shape::Variable => environment::is_name(text),
        Shape::Unset => environment::is_name(text) || environment::assignment(text).is_some(),
        Shape::Descriptor => {
            text.len() <= 255 && !text.contains(|c: char| c == ':' || c.is_control())
        }
        Shape::Share => share(text).is_ok_and(|it| it <= 10_000),
        Shape::Namespace => namespace(text),
        Shape::Field => field(text),
        Shape::Dump => dump(text),
        Shape::Service => SERVICES.contains(&text) || text.parse::<u8>().is_ok(),
        Shape::Port => ports(text),
        Shape::Program => text
            .split_once(':')
            .is_some_and(|(kind, rest)| !number(kind) && path(rest)),
    }
}

const fn form(shape: Shape) -> &'static str {
    match shape {
        Shape::Account => "name or number of a user or group",
        Shape::Path => "absolute path",
        Shape::SearchPath => "list of absolute paths",
        Shape::Url => "link: `https://…`, `http://…`, `file:/…`, `info:…`, `man:…`",
        Shape::BusName => "well-known name such as `org.example.App`",
        Shape::Interface => "name of a network interface",
        Shape::Controller => "controller of cgroups",
        Shape::Family => "family of sockets such as `AF_INET`",
        Shape::Architecture => "architecture such as `native`",
        Shape::Propagation => "propagation: `shared`, `slave` or `private`",
        Shape::Personality => "personality such as `x86-64`",
        Shape::Variable | Shape::Unset => "name of a variable",
        Shape::Descriptor => "name of a descriptor",
        Shape::Share => "share such as `60%`",
        Shape::Namespace => "name of a namespace",
        Shape::Field => "field such as `NAME=text`, its name in capitals",
        Shape::Dump => "part of a dump, or a mask",
        Shape::Service => "number, nor `low-delay`, `throughput`, `reliability`, `low-cost`",
        Shape::Port => "port: `any`, `80`, `ipv4:tcp:80-90`",
        Shape::Program => "program: `TYPE:/PATH`",
    }
}

const PERSONALITIES: [&str; 9] = [
    "x86", "x86-64", "arm64", "arm", "ppc", "ppc64", "ppc64-le", "s390", "s390x",
];

const SERVICES: [&str; 4] = ["low-delay", "throughput", "reliability", "low-cost"];

fn number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn namespace(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:".contains(c);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(plain)
}

fn dump(text: &str) -> bool {
    let mask = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    mask || DUMPS.contains(&text) || matches!(text, "all" | "default")
}

fn path(text: &str) -> bool {
    text.starts_with('/') && !text.split('/').any(|part| part == "..")
}

fn url(text: &str) -> bool {
    let known = ["http://", "https://", "file:/", "info:", "man:"];
    known
        .iter()
        .any(|it| text.strip_prefix(it).is_some_and(|rest| !rest.is_empty()))
}

/// Not as strict as useradd(8), but nothing that a file or a path would take for something else.
/// The numbers -1 of 16 and of 32 bits stand for no account at all.
fn account(text: &str) -> bool {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let plain = text == "0" || !text.starts_with('0');
        return plain
            && text
                .parse::<u32>()
                .is_ok_and(|it| it != u32::MAX && it != 65_535);
    }
    let bad = |c: char| c.is_control() || c == ':' || c == '/';
    !text.is_empty()
        && text.trim() == text
        && !text.starts_with(['-', '+'])
        && !text.contains(bad)
        && !matches!(text, "." | "..")
        && text.len() <= 255
}

fn bus_name(text: &str) -> bool {
    let part = |part: &str| {
        let mut chars = part.chars();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        chars
            .next()
            .is_some_and(|c| plain(c) && !c.is_ascii_digit())
            && chars.all(plain)
    };
    text.contains('.') && text.len() <= 255 && text.split('.').all(part)
}

fn interface(text: &str) -> bool {
    let bad =
        |c: char| c.is_control() || c.is_whitespace() || matches!(c, ':' | '/' | '%' | '"' | '\'');
    let number = text.bytes().all(|b| b.is_ascii_digit());
    (1..=15).contains(&text.len())
        && !text.contains(bad)
        && !number
        && !matches!(text, "." | ".." | "all" | "default")
}

fn family(text: &str) -> bool {
    text == "none"
        || text
            .strip_prefix("AF_")
            .is_some_and(|it| FAMILIES.contains(&it) || MORE_FAMILIES.contains(&it))
}

fn field(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(plain)
            && name.len() <= 64
    })
}

/// `[FAMILY:][PROTOCOL:]PORTS`.
fn ports(text: &str) -> bool {
    let mut rest = text;
    for known in [["ipv4:", "ipv6:"], ["tcp:", "udp:"]] {
        rest = known
            .iter()
            .find_map(|it| rest.strip_prefix(it))
            .unwrap_or(rest);
    }
    if matches!(rest, "any" | "ipv4" | "ipv6" | "tcp" | "udp") {
        return true;
    }
    let (low, high) = rest.split_once('-').unwrap_or((rest, rest));
    let port = |text: &str| text.parse::<u16>().ok().filter(|it| *it > 0);
    port(low)
        .zip(port(high))
        .is_some_and(|(low, high)| low <= high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_its_own() {
        for (shape, good, bad) in [
            (
                Shape::Account,
                "www-data 0 _x 1000 2nd",
                "-x a:b 0755 65535 4294967295 /x",
            ),
            (
                Shape::Url,
                "man:ssh(8) https://a.b file:/x",
                "ssh.com https:// ftp://x",
            ),
            (Shape::BusName, "org.a.B org.x-y.z", "org .a a.1b a..b"),
            (Shape::Interface, "eth0 br-1", "80 a/b aaaaaaaaaaaaaaaa all"),
            (Shape::Controller, "cpu memory yes", "all disk"),
            (Shape::Family, "AF_UNIX AF_VSOCK none", "UNIX AF_FOO"),
            (Shape::SearchPath, "/bin:/usr/bin", "bin /bin: /bin:x"),
            (Shape::Port, "any 80 80-90 ipv4:tcp:80 udp", "0 90-80 tcp:x"),
            (Shape::Field, "A=b A_1=", "a=b =x A"),
            (Shape::Program, "egress:/x", "x :x"),
        ] {
            for text in good.split(' ') {
                assert_eq!(check(shape, text), Ok(()), "{shape:?}");
            }
            for text in bad.split(' ') {
                assert!(check(shape, text).is_err(), "{shape:?} {text}");
            }
        }
    }
}
