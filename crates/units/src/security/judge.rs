// SPDX-License-Identifier: Apache-2.0
//! How bad the answers are: each function is one question's, from 0 (nothing to say) to the row's
//! range. Settings that others imply are taken as they come to work (systemd.exec(5)).

use std::net::IpAddr;

use model::capability::NAMES;

use super::calls::Resolved;
use super::rows::Test;
use crate::unit::Settings;
use crate::value::scalar::boolean;
use crate::value::{Device, Value};

/// A service's settings with what they imply.
pub(super) struct Effective<'a> {
    settings: &'a Settings,
    /// An early boot service isn't asked for folders that aren't mounted yet.
    early: bool,
    capabilities: u64,
    calls: Option<Resolved>,
}

impl<'a> Effective<'a> {
    pub(super) fn of(settings: &'a Settings) -> Effective<'a> {
        let on = |field: &str| settings.flag(field) == Some(true);
        let mut capabilities = match settings.get("CapabilityBoundingSet") {
            Some(Value::Capabilities(bits)) => *bits,
            _ => u64::MAX,
        };
        for (field, names) in [
            ("PrivateDevices", "CAP_SYS_RAWIO CAP_MKNOD"),
            ("ProtectKernelModules", "CAP_SYS_MODULE"),
            ("ProtectKernelLogs", "CAP_SYSLOG"),
            ("ProtectClock", "CAP_SYS_TIME CAP_WAKE_ALARM"),
        ] {
            if on(field) {
                capabilities &= !bits(names);
            }
        }
        let calls = match settings.get("SystemCallFilter") {
            Some(Value::Syscalls(syscalls)) => Some(Resolved::of(syscalls)),
            _ => None,
        };
        Effective {
            settings,
            early: settings.flag("DefaultDependencies") == Some(false),
            capabilities,
            calls: calls.filter(|it| !it.is_open()),
        }
    }

    /// How bad it is, and what is left open, where that has a name.
    pub(super) fn bad(&self, test: &Test) -> (Option<u64>, Option<&'static str>) {
        let plain = |bad: bool| (Some(u64::from(bad)), None);
        match test {
            Test::Flag(field) => plain(!self.on(field)),
            Test::Capabilities(_, names) => plain(self.capabilities & bits(names) != 0),
            Test::Namespace(name) => plain(match self.settings.get("RestrictNamespaces") {
                Some(Value::Filter(filter)) => filter.names.contains(*name),
                _ => true,
            }),
            Test::Families(_, names) => plain(self.makes_sockets(names)),
            Test::Calls(group) => match &self.calls {
                None => (Some(10), None),
                Some(calls) => match calls.left_of(group) {
                    None => (Some(0), None),
                    call if calls.allows() => (Some(9), call),
                    call => (Some(10), call),
                },
            },
            Test::Own(_, bad) => (bad(self), None),
        }
    }

    fn on(&self, field: &str) -> bool {
        self.settings.flag(field) == Some(true)
    }

    fn is_dynamic(&self) -> bool {
        self.on("DynamicUser")
    }

    fn user(&self) -> &str {
        self.settings.text("User").unwrap_or("")
    }

    fn is_root(&self) -> bool {
        match self.user() {
            "root" | "0" => true,
            "" => !self.is_dynamic(),
            _ => false,
        }
    }

    /// What a dynamic user switches on, whatever is written.
    fn on_or_dynamic(&self, field: &str) -> bool {
        self.on(field) || self.is_dynamic()
    }

    fn makes_sockets(&self, families: &[&str]) -> bool {
        const ASKED: [&str; 5] = ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET"];
        let Some(Value::Filter(filter)) = self.settings.get("RestrictAddressFamilies") else {
            return true;
        };
        let named = match families {
            [] => filter.names.iter().any(|name| !ASKED.contains(&&**name)),
            names => names.iter().any(|name| filter.names.contains(*name)),
        };
        named == filter.allow
    }
}

/// Capabilities by their names, as bits.
fn bits(names: &str) -> u64 {
    let of = |name: &str| {
        let name = name.trim_start_matches("CAP_");
        NAMES.iter().position(|it| *it == name)
    };
    let numbers = names.split(' ').filter_map(of);
    numbers.fold(0, |bits, number| bits | 1 << number)
}

pub(super) fn user(of: &Effective<'_>) -> Option<u64> {
    Some(match of.user() {
        "nobody" => 9,
        _ if of.is_root() => 10,
        _ => 0,
    })
}

pub(super) fn groups(of: &Effective<'_>) -> Option<u64> {
    let any =
        matches!(of.settings.get("SupplementaryGroups"), Some(Value::Texts(it)) if !it.is_empty());
    (!of.is_root()).then_some(u64::from(any))
}

pub(super) fn ipc(of: &Effective<'_>) -> Option<u64> {
    (!of.is_root()).then_some(u64::from(!of.on_or_dynamic("RemoveIPC")))
}

pub(super) fn tmp(of: &Effective<'_>) -> Option<u64> {
    (!of.early).then_some(u64::from(!of.on_or_dynamic("PrivateTmp")))
}

pub(super) fn privileges(of: &Effective<'_>) -> Option<u64> {
    Some(u64::from(!of.on_or_dynamic("NoNewPrivileges")))
}

pub(super) fn set_id(of: &Effective<'_>) -> Option<u64> {
    Some(u64::from(!of.on_or_dynamic("RestrictSUIDSGID")))
}

pub(super) fn home(of: &Effective<'_>) -> Option<u64> {
    let bad = match of.settings.get("ProtectHome") {
        Some(Value::Flag(true)) => 0,
        Some(Value::Word("tmpfs")) => 1,
        Some(Value::Word("read-only")) => 5,
        _ if of.is_dynamic() => 5,
        _ => 10,
    };
    (!of.early).then_some(bad)
}

pub(super) fn system(of: &Effective<'_>) -> Option<u64> {
    let bad = match of.settings.get("ProtectSystem") {
        _ if of.is_dynamic() => 0,
        Some(Value::Word("strict")) => 0,
        Some(Value::Word("full")) => 3,
        Some(Value::Flag(true)) => 5,
        _ => 10,
    };
    (!of.early).then_some(bad)
}

pub(super) fn root(of: &Effective<'_>) -> Option<u64> {
    let own = |field: &str| {
        of.settings
            .text(field)
            .is_some_and(|it| !matches!(it, "" | "/"))
    };
    let has = own("RootDirectory") || own("RootImage");
    (!of.early).then_some(u64::from(!has))
}

pub(super) fn umask(of: &Effective<'_>) -> Option<u64> {
    let mask = match of.settings.get("UMask") {
        Some(Value::Mode(mask)) => *mask,
        _ => 0o022,
    };
    let steps = [(0o002, 10), (0o004, 5), (0o020, 2), (0o040, 1)];
    let open = steps.into_iter().find(|(bit, _)| mask & bit == 0);
    Some(open.map_or(0, |(_, bad)| bad))
}

pub(super) fn keyring(of: &Effective<'_>) -> Option<u64> {
    let word = of.settings.word("KeyringMode");
    Some(u64::from(word.is_some_and(|it| it != "private")))
}

pub(super) fn proc(of: &Effective<'_>) -> Option<u64> {
    Some(match of.settings.word("ProtectProc") {
        Some("invisible" | "ptraceable") => 0,
        Some("noaccess") => 1,
        _ => 3,
    })
}

pub(super) fn subset(of: &Effective<'_>) -> Option<u64> {
    Some(u64::from(of.settings.word("ProcSubset") != Some("pid")))
}

pub(super) fn notify(of: &Effective<'_>) -> Option<u64> {
    Some(u64::from(of.settings.word("NotifyAccess") == Some("all")))
}

pub(super) fn delegate(of: &Effective<'_>) -> Option<u64> {
    // The last yes or no counts; a controller is a yes.
    let words = of.settings.texts("Delegate").iter();
    let any = words.fold(false, |_, word| boolean(word).unwrap_or(true));
    Some(u64::from(any))
}

pub(super) fn architectures(of: &Effective<'_>) -> Option<u64> {
    Some(match of.settings.texts("SystemCallArchitectures") {
        [] => 10,
        words if words.iter().all(|it| it == "native") => 0,
        _ => 8,
    })
}

pub(super) fn ambient(of: &Effective<'_>) -> Option<u64> {
    let bits = match of.settings.get("AmbientCapabilities") {
        Some(Value::Capabilities(bits)) => *bits,
        _ => 0,
    };
    Some(u64::from(bits != 0))
}

pub(super) fn addresses(of: &Effective<'_>) -> Option<u64> {
    let own = |field: &str| of.settings.get(field).is_some();
    if own("IPIngressFilterPath") || own("IPEgressFilterPath") {
        return Some(0);
    }
    let networks = |field: &str| match of.settings.get(field) {
        Some(Value::Networks(networks)) => networks.clone(),
        _ => Vec::new(),
    };
    let denied = networks("IPAddressDeny");
    let all = |v4: bool| {
        let any = |(address, length): &(IpAddr, u8)| *length == 0 && address.is_ipv4() == v4;
        denied.iter().any(any)
    };
    if !(all(true) && all(false)) {
        return Some(10);
    }
    let allowed = networks("IPAddressAllow");
    let local = |(address, length): &(IpAddr, u8)| match address {
        IpAddr::V4(address) => *length >= 8 && address.is_loopback(),
        IpAddr::V6(address) => *length == 128 && address.is_loopback(),
    };
    Some(match &allowed[..] {
        [] => 0,
        allowed if allowed.iter().all(local) => 2,
        _ => 5,
    })
}

pub(super) fn devices(of: &Effective<'_>) -> Option<u64> {
    let named = match of.settings.get("DevicePolicy") {
        Some(Value::Word(word)) => *word,
        _ => "auto",
    };
    if named == "auto" && !of.on("PrivateDevices") {
        return Some(10);
    }
    let devices: &[Device] = match of.settings.get("DeviceAllow") {
        Some(Value::Devices(devices)) => devices,
        _ => &[],
    };
    // The clock of an otherwise closed service, and the loop devices of an image, are devices, too.
    let implied = of.on("ProtectClock") || of.settings.text("RootImage").is_some();
    Some(if devices.is_empty() && !implied { 0 } else { 5 })
}
