// SPDX-License-Identifier: Apache-2.0
//! What the settings of a socket unit say, with systemd's defaults (systemd.socket(5)). Options
//! that a kind of socket hasn't got are left out when it is made, as systemd does.

use std::time::Duration;

use units::time::Span;
use units::unit::{Settings, Unit};
use units::value::{Address, Listen, Value};

/// How many connections may wait: systemd's SOMAXCONN.
const BACKLOG: i32 = 4096;
/// `MaxConnections=`.
const CONNECTIONS: usize = 64;
/// More connections of a socket than that are refused, whatever its file says.
const MOST_CONNECTIONS: usize = 2048;
/// `TriggerLimitIntervalSec=`, in microseconds.
const TRIGGER_INTERVAL: u64 = 2_000_000;
/// `TriggerLimitBurst=`, without and with `Accept=`.
const TRIGGER_BURST: (u32, u32) = (20, 200);
/// `TimeoutSec=`, in microseconds.
const TIMEOUT: u64 = 90_000_000;

/// What is to be made for one `Listen…=`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) directive: &'static str,
    pub(crate) address: Address,
}

impl Wanted {
    /// As the unit's file has it, for people.
    pub(crate) fn shown(&self) -> String {
        let address = match &self.address {
            Address::Path(path) => path.clone(),
            Address::Abstract(name) => format!("@{name}"),
            Address::Port(port) => port.to_string(),
            Address::Inet(std::net::IpAddr::V6(address), port, _) => format!("[{address}]:{port}"),
            Address::Inet(address, port, _) => format!("{address}:{port}"),
            Address::Vsock(Some(context), port) => format!("vsock:{context}:{port}"),
            Address::Vsock(None, port) => format!("vsock::{port}"),
            Address::Netlink(family, group) => format!("{family} {group}"),
        };
        format!("{}={address}", self.directive)
    }

    /// The file of it, where it has one.
    pub(crate) fn path(&self) -> Option<&str> {
        match (&self.address, self.directive) {
            (Address::Path(path), directive) if directive != "ListenMessageQueue" => Some(path),
            _ => None,
        }
    }

    /// Whether connections come over it.
    pub(crate) fn accepts(&self) -> bool {
        matches!(self.directive, "ListenStream" | "ListenSequentialPacket")
    }
}

/// `BindIPv6Only=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnlyV6 {
    /// As the kernel has it.
    Default,
    Yes,
    No,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub(crate) listens: Vec<Wanted>,
    pub(crate) accept: bool,
    pub(crate) only_v6: OnlyV6,
    pub(crate) protocol: Option<&'static str>,
    pub(crate) backlog: i32,
    pub(crate) device: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) mode: u32,
    pub(crate) directory_mode: u32,
    pub(crate) writable: bool,
    pub(crate) flush: bool,
    pub(crate) remove: bool,
    pub(crate) symlinks: Vec<String>,
    pub(crate) name: String,
    pub(crate) most: usize,
    /// 0: no bound.
    pub(crate) most_per_source: usize,
    pub(crate) trigger_interval: Span,
    pub(crate) trigger_burst: u32,
    pub(crate) timeout: Span,
    pub(crate) free_bind: bool,
    pub(crate) reuse_port: bool,
    pub(crate) transparent: bool,
    pub(crate) pipe_size: Option<u64>,
    pub(crate) queue: Option<(i64, i64)>,
}

fn mode(settings: &Settings, field: &str, default: u32) -> u32 {
    match settings.get(field) {
        Some(Value::Mode(mode)) => *mode,
        _ => default,
    }
}

impl Rules {
    /// How long its commands have to end once they are asked to.
    pub(crate) fn grace(&self) -> Duration {
        let most = model::executable::MAX_STOP_GRACE;
        let micros = self.timeout.micros();
        micros.map_or(most, |it| Duration::from_micros(it).min(most))
    }

    pub(crate) fn of(unit: &Unit) -> Rules {
        let settings = &unit.settings;
        let flag = |field: &str| settings.flag(field) == Some(true);
        let count = |field: &str| {
            let number = settings.number(field)?;
            usize::try_from(number).ok()
        };
        let accept = flag("Accept");
        let owned = |field: &str| settings.text(field).map(str::to_owned);
        let burst = settings.number("TriggerLimitBurst");
        let burst = burst.and_then(|it| u32::try_from(it).ok());
        // systemd.socket(5), MessageQueueMaxMessages=: only both together count.
        let number = |field: &str| settings.number(field);
        let queue = number("MessageQueueMaxMessages").zip(number("MessageQueueMessageSize"));
        let listen = |it: &Listen| Wanted {
            directive: it.directive,
            address: it.address.clone(),
        };
        let backlog = settings.number("Backlog");
        let per_source = count("MaxConnectionsPerSource").unwrap_or(0);
        Rules {
            listens: settings.listens("Listen").iter().map(listen).collect(),
            accept,
            only_v6: match (settings.flag("BindIPv6Only"), settings.word("BindIPv6Only")) {
                (Some(true), _) | (_, Some("ipv6-only")) => OnlyV6::Yes,
                (Some(false), _) | (_, Some("both")) => OnlyV6::No,
                _ => OnlyV6::Default,
            },
            protocol: settings.word("SocketProtocol"),
            backlog: backlog.map_or(BACKLOG, |it| i32::try_from(it).unwrap_or(i32::MAX)),
            device: owned("BindToDevice"),
            user: owned("SocketUser"),
            group: owned("SocketGroup"),
            mode: mode(settings, "SocketMode", 0o666),
            directory_mode: mode(settings, "DirectoryMode", 0o755),
            writable: flag("Writable"),
            flush: flag("FlushPending"),
            remove: flag("RemoveOnStop"),
            symlinks: settings.texts("Symlinks").to_vec(),
            name: owned("FileDescriptorName").unwrap_or_else(|| match accept {
                // systemd.socket(5), FileDescriptorName=.
                true => "connection".to_owned(),
                false => unit.id.as_str().to_owned(),
            }),
            most: count("MaxConnections")
                .unwrap_or(CONNECTIONS)
                .min(MOST_CONNECTIONS),
            most_per_source: per_source,
            trigger_interval: settings
                .span("TriggerLimitIntervalSec")
                .unwrap_or(Span::from_micros(TRIGGER_INTERVAL)),
            trigger_burst: burst.unwrap_or(match accept {
                false => TRIGGER_BURST.0,
                true => TRIGGER_BURST.1,
            }),
            timeout: settings
                .span("TimeoutSec")
                .unwrap_or(Span::from_micros(TIMEOUT)),
            free_bind: flag("FreeBind"),
            reuse_port: flag("ReusePort"),
            transparent: flag("Transparent"),
            pipe_size: size(settings, "PipeSize"),
            queue,
        }
    }

    /// The path to which symlinks lead: that of the only file that the unit makes.
    pub(crate) fn only_path(&self) -> Option<&str> {
        let is_made = |it: &&Wanted| it.directive != "ListenSpecial";
        let made = self.listens.iter().filter(is_made);
        let mut paths = made.filter_map(Wanted::path);
        let first = paths.next()?;
        paths.next().is_none().then_some(first)
    }
}

/// Bytes of a setting.
pub(crate) fn size(settings: &Settings, field: &str) -> Option<u64> {
    match settings.get(field) {
        Some(Value::Size(bytes)) => Some(*bytes),
        _ => None,
    }
}

/// Why a unit can't be used as it is written (systemd.socket(5)).
pub(crate) fn wrong(unit: &Unit) -> Option<(&'static str, String)> {
    let rules = Rules::of(unit);
    if rules.listens.is_empty() {
        let words = "nothing to listen on: write at least one Listen…= directive";
        return Some(("", words.to_owned()));
    }
    let gadget = |it: &&Wanted| it.directive == "ListenUSBFunction";
    if rules.listens.iter().any(|it| gadget(&it)) {
        let words = "USB gadgets are not honoured; the unit is not started".to_owned();
        return Some(("ListenUSBFunction", words));
    }
    if rules.accept && !rules.listens.iter().all(Wanted::accepts) {
        let words = "Accept=yes takes streams and packets in sequence alone".to_owned();
        return Some(("Accept", words));
    }
    if rules.accept && rules.most == 0 {
        let words = "must be at least 1 with Accept=yes".to_owned();
        return Some(("MaxConnections", words));
    }
    if rules.accept && !unit.settings.units("Service").is_empty() {
        let words = "Accept=yes starts instances of a template, which Service= can't name";
        return Some(("Service", words.to_owned()));
    }
    if !rules.symlinks.is_empty() && rules.only_path().is_none() {
        let words = "needs exactly one socket of the file system or FIFO".to_owned();
        return Some(("Symlinks", words));
    }
    None
}
