// SPDX-License-Identifier: Apache-2.0
//! The directives that are filters of system calls (systemd.exec(5)), as programs for each
//! architecture whose calls the kernel takes. Pure.

use std::collections::BTreeMap;

use kernel::seccomp::{
    Action, Arch, Comparison, Condition, Profile, ProfileError, Rule, compile_all, no_set_id_on,
};
use units::unit::Settings;
use units::value::{Filter, Syscalls, Value};

use super::groups;
use super::wants::Wants;

const EPERM: Action = Action::Errno(1);
const ENOSYS: Action = Action::Errno(38);
const EAFNOSUPPORT: Action = Action::Errno(97);

/// The architectures whose calls this machine takes.
fn machine() -> Vec<Arch> {
    match Arch::NATIVE {
        Arch::Aarch64 => vec![Arch::Aarch64],
        Arch::X86_64 | Arch::X86 | Arch::X32 => vec![Arch::X86_64, Arch::X86, Arch::X32],
    }
}

/// All filters of a unit: its restrictions in one, its list of calls, what is logged.
///
/// # Errors
/// A program would be too long for the kernel.
pub(super) fn filters(settings: &Settings, wants: &Wants) -> Result<Vec<Vec<u8>>, ProfileError> {
    let mut programs = Vec::new();
    let allowed = architectures(settings);
    if let Some(allowed) = &allowed {
        let nothing = |arch: &Arch| (*arch, Profile::deny_list::<&str>([], EPERM));
        programs.push(allowed.iter().map(nothing).collect::<Vec<_>>());
    }
    let of = |arch: Arch| Profile {
        default: Action::Allow,
        rules: restrictions(settings, wants, arch),
    };
    let restricted: Vec<(Arch, Profile)> = machine().into_iter().map(|it| (it, of(it))).collect();
    if restricted
        .iter()
        .any(|(_, profile)| !profile.rules.is_empty())
    {
        programs.push(restricted);
    }
    let action = match settings.text("SystemCallErrorNumber") {
        Some(text) => errno(text),
        None => Action::Kill,
    };
    if let Some(Value::Syscalls(list)) = settings.get("SystemCallFilter") {
        let of = |arch: Arch| (arch, listed(list, action, arch));
        programs.push(machine().into_iter().map(of).collect());
    }
    if let Some(Value::Syscalls(list)) = settings.get("SystemCallLog") {
        let of = |arch: Arch| (arch, logged(list, arch));
        programs.push(machine().into_iter().map(of).collect());
    }
    let compiled = programs.iter().map(|profiles| {
        let filter = compile_all(profiles, None)?;
        Ok(filter.to_bytes())
    });
    compiled.collect()
}

/// `SystemCallArchitectures=`: `None` where it isn't set.
fn architectures(settings: &Settings) -> Option<Vec<Arch>> {
    let words = settings.texts("SystemCallArchitectures");
    if words.is_empty() {
        return None;
    }
    let mut all = vec![Arch::NATIVE];
    for word in words {
        let arch = match word.as_str() {
            "x86-64" => Arch::X86_64,
            "x86" => Arch::X86,
            "x32" => Arch::X32,
            "arm64" => Arch::Aarch64,
            // The machine's own, which is always among them; and those of other machines.
            _ => continue,
        };
        if machine().contains(&arch) && !all.contains(&arch) {
            all.push(arch);
        }
    }
    Some(all)
}

/// `kill`, a name, or a number.
fn errno(text: &str) -> Action {
    let number = model::errno::parse_any(text);
    match number {
        Some(number) if text != "kill" => Action::Errno(number),
        _ => Action::Kill,
    }
}

/// The calls of a word, as far as an architecture has them.
fn calls(word: &str, arch: Arch) -> Vec<String> {
    let all = match word.starts_with('@') {
        true => groups::calls(word).unwrap_or_default(),
        false => vec![word],
    };
    let known = all.into_iter().filter(|it| arch.number(it).is_some());
    known.map(str::to_owned).collect()
}

/// What the assignments come to: calls, and what is done instead of one.
fn members(list: &Syscalls, arch: Arch) -> BTreeMap<String, Option<Action>> {
    let mut members = BTreeMap::new();
    let starts = match list.allow {
        // What no program can begin or end without.
        true => calls("@default", arch),
        false => Vec::new(),
    };
    members.extend(starts.into_iter().map(|call| (call, None)));
    for (inverted, word, instead) in &list.steps {
        // A call that is allowed has no errno.
        let instead = instead.as_deref().filter(|_| *inverted).map(errno);
        let adds = *inverted != list.allow || instead.is_some();
        for call in calls(word, arch) {
            match adds {
                true => members.insert(call, instead),
                false => members.remove(&call),
            };
        }
    }
    members
}

fn listed(list: &Syscalls, action: Action, arch: Arch) -> Profile {
    let (default, usual) = match list.allow {
        true => (action, Action::Allow),
        false => (Action::Allow, action),
    };
    let rule =
        |(call, instead): (String, Option<Action>)| Rule::new(instead.unwrap_or(usual), [call]);
    Profile {
        default,
        rules: members(list, arch).into_iter().map(rule).collect(),
    }
}

fn logged(list: &Syscalls, arch: Arch) -> Profile {
    let (default, usual) = match list.allow {
        true => (Action::Allow, Action::Log),
        false => (Action::Log, Action::Allow),
    };
    // Here the list is of what is logged: nothing is added to it.
    let mut named = Vec::new();
    for (inverted, word, _) in &list.steps {
        let calls = calls(word, arch);
        match *inverted != list.allow {
            true => named.extend(calls),
            false => named.retain(|call| !calls.contains(call)),
        }
    }
    Profile {
        default,
        rules: vec![Rule::new(usual, named)],
    }
}

fn equals(argument: u8, value: u32) -> Condition {
    Condition::on_u32(argument, Comparison::Equal, value)
}

/// Whether all these bits are set.
fn bits(argument: u8, bits: u32) -> Condition {
    Condition {
        argument,
        mask: bits.into(),
        comparison: Comparison::Equal,
        value: bits.into(),
    }
}

/// What is refused by other directives than lists of calls.
fn restrictions(settings: &Settings, wants: &Wants, arch: Arch) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut refuse = |names: Vec<String>| {
        if !names.is_empty() {
            rules.push(Rule::new(EPERM, names));
        }
    };
    for (wanted, word) in [
        (wants.private_devices, "@raw-io"),
        (wants.protect_kernel_modules, "@module"),
        (wants.protect_kernel_logs, "syslog"),
        (wants.protect_kernel_tunables, "_sysctl"),
        (wants.protect_clock, "@clock"),
        (wants.protect_hostname, "sethostname"),
        (wants.protect_hostname, "setdomainname"),
    ] {
        if wanted {
            refuse(calls(word, arch));
        }
    }
    let flag = |field: &str| settings.flag(field) == Some(true);
    if wants.restrict_suid_sgid {
        rules.extend(no_set_id_on(arch));
    }
    if flag("LockPersonality") {
        let own = match settings.text("Personality") {
            Some("x86") => 8,
            _ => 0,
        };
        let other = Condition::on_u32(0, Comparison::NotEqual, own);
        rules.push(Rule::new(EPERM, calls("personality", arch)).when(other));
    }
    if flag("RestrictRealtime") {
        rules.extend(realtime(arch));
    }
    if flag("MemoryDenyWriteExecute") {
        rules.extend(write_execute(arch));
    }
    if let Some(Value::Filter(filter)) = settings.get("RestrictNamespaces") {
        rules.extend(namespaces(filter, arch));
    }
    if let Some(Value::Filter(filter)) = settings.get("RestrictAddressFamilies") {
        rules.extend(families(filter, arch));
    }
    rules.retain(|rule| !rule.names.is_empty());
    rules
}

/// FIFO, RR, ISO, DEADLINE, and what comes after them, flags among it.
fn realtime(arch: Arch) -> Vec<Rule> {
    let rule = |condition| Rule::new(EPERM, calls("sched_setscheduler", arch)).when(condition);
    let mut rules: Vec<Rule> = [1, 2, 4].map(|it| rule(equals(1, it))).into();
    rules.push(rule(Condition::on_u32(1, Comparison::Greater, 5)));
    rules
}

/// Memory that is written and executed, at once or one after the other.
fn write_execute(arch: Arch) -> Vec<Rule> {
    const WRITE: u32 = 2;
    const EXECUTE: u32 = 4;
    const SHM_EXEC: u32 = 0o100_000;
    let both = WRITE | EXECUTE;
    let maps = match arch {
        // There it takes a structure, which no filter sees.
        Arch::X86 => "mmap2",
        Arch::X86_64 | Arch::X32 | Arch::Aarch64 => "mmap",
    };
    let rule = |name, condition| Rule::new(EPERM, calls(name, arch)).when(condition);
    let mut rules = vec![
        rule(maps, bits(2, both)),
        rule("mprotect", bits(2, EXECUTE)),
        rule("pkey_mprotect", bits(2, EXECUTE)),
        rule("shmat", bits(2, SHM_EXEC)),
    ];
    if arch == Arch::X86 {
        rules.push(Rule::new(EPERM, calls("mmap", arch)));
    }
    rules
}

const NAMESPACES: [(&str, u32); 7] = [
    ("cgroup", 0x0200_0000),
    ("ipc", 0x0800_0000),
    ("net", 0x4000_0000),
    ("mnt", 0x0002_0000),
    ("pid", 0x2000_0000),
    ("user", 0x1000_0000),
    ("uts", 0x0400_0000),
];

fn namespaces(filter: &Filter, arch: Arch) -> Vec<Rule> {
    let denied = NAMESPACES.iter();
    let denied = denied.filter(|(name, _)| filter.names.contains(*name) != filter.allow);
    let denied: Vec<u32> = denied.map(|(_, flag)| *flag).collect();
    if denied.is_empty() {
        return Vec::new();
    }
    let rule = |name, condition| Rule::new(EPERM, calls(name, arch)).when(condition);
    // Its flags are in memory, which no filter sees: libraries take `clone` instead.
    let mut rules = vec![
        Rule::new(ENOSYS, calls("clone3", arch)),
        rule("setns", equals(1, 0)),
    ];
    for flag in denied {
        rules.push(rule("unshare", bits(0, flag)));
        rules.push(rule("clone", bits(0, flag)));
        rules.push(rule("setns", bits(1, flag)));
    }
    rules
}

fn families(filter: &Filter, arch: Arch) -> Vec<Rule> {
    let socket = || calls("socket", arch);
    let numbers = filter.names.iter().filter_map(|name| family(name));
    let action = match filter.allow {
        true => Action::Allow,
        false => EAFNOSUPPORT,
    };
    let rule = |number| Rule::new(action, socket()).when(equals(0, number));
    let mut rules: Vec<Rule> = numbers.map(rule).collect();
    if filter.allow {
        rules.push(Rule::new(EAFNOSUPPORT, socket()));
    }
    rules
}

/// socket(2); `linux/socket.h`.
const FAMILIES: [(&str, u32); 47] = [
    ("AF_UNIX", 1),
    ("AF_LOCAL", 1),
    ("AF_FILE", 1),
    ("AF_INET", 2),
    ("AF_AX25", 3),
    ("AF_IPX", 4),
    ("AF_APPLETALK", 5),
    ("AF_NETROM", 6),
    ("AF_BRIDGE", 7),
    ("AF_ATMPVC", 8),
    ("AF_X25", 9),
    ("AF_INET6", 10),
    ("AF_ROSE", 11),
    ("AF_DECnet", 12),
    ("AF_NETBEUI", 13),
    ("AF_SECURITY", 14),
    ("AF_KEY", 15),
    ("AF_NETLINK", 16),
    ("AF_ROUTE", 16),
    ("AF_PACKET", 17),
    ("AF_ASH", 18),
    ("AF_ECONET", 19),
    ("AF_ATMSVC", 20),
    ("AF_RDS", 21),
    ("AF_SNA", 22),
    ("AF_IRDA", 23),
    ("AF_PPPOX", 24),
    ("AF_WANPIPE", 25),
    ("AF_LLC", 26),
    ("AF_IB", 27),
    ("AF_MPLS", 28),
    ("AF_CAN", 29),
    ("AF_TIPC", 30),
    ("AF_BLUETOOTH", 31),
    ("AF_IUCV", 32),
    ("AF_RXRPC", 33),
    ("AF_ISDN", 34),
    ("AF_PHONET", 35),
    ("AF_IEEE802154", 36),
    ("AF_CAIF", 37),
    ("AF_ALG", 38),
    ("AF_NFC", 39),
    ("AF_VSOCK", 40),
    ("AF_KCM", 41),
    ("AF_QIPCRTR", 42),
    ("AF_SMC", 43),
    ("AF_XDP", 44),
];

fn family(name: &str) -> Option<u32> {
    let known = FAMILIES.iter().find(|(family, _)| *family == name);
    known.map(|(_, number)| *number)
}
