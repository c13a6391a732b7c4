// SPDX-License-Identifier: Apache-2.0
//! Sets that may be written as their opposite: capabilities, families, namespaces, system calls;
//! and sets of numbers, networks and exit statuses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::capability::CapabilitySet;

use super::lists::strip;
use super::scalar::{number, signal};
use super::shape::{self, Shape};
use super::{Filter, Outcome, Parsed, Statuses, Syscalls, Value};
use crate::finding::shown;
use crate::syntax::words::plain;

/// Capabilities: each line adds, with `~` takes away; the first one replaces what is there by
/// default. An empty line is the empty set, `~` alone all (systemd.exec(5)).
pub(super) fn capabilities(text: &str, bounding: bool, old: Option<&Value>) -> Parsed {
    let (inverted, rest) = strip(text, '~');
    let mut bits = 0;
    let mut notes = Vec::new();
    for word in plain(rest) {
        match word.text.parse::<CapabilitySet>() {
            Ok(set) if !word.text.eq_ignore_ascii_case("all") => bits |= set.bits(),
            _ => {
                let message = format!("{} is no capability; it is left out", shown(&word.text));
                notes.push((word.offset + text.len() - rest.len(), message));
            }
        }
    }
    let all = CapabilitySet::ALL.bits();
    let initial = if bounding { all } else { 0 };
    let before = match old {
        Some(Value::Capabilities(bits)) => *bits,
        _ => initial,
    };
    let bits = match (bits == 0 || before == initial, inverted) {
        (true, true) => all & !bits,
        (true, false) => bits,
        (false, true) => before & !bits,
        (false, false) => before | bits,
    };
    Parsed {
        outcome: Outcome::Set(Value::Capabilities(bits)),
        notes,
    }
}

/// The capabilities whose bits are set, by their names.
pub fn capability_names(bits: u64) -> Vec<String> {
    let names = model::capability::NAMES.iter().enumerate();
    let set = names.filter(|(number, _)| bits & (1 << number) != 0);
    set.map(|(_, name)| format!("CAP_{name}")).collect()
}

/// Names, allowed or not: the first line decides which. Later ones add to the list, or take from it
/// where they are written the other way round.
pub(super) fn filter(text: &str, old: Option<&Value>, form: Option<Shape>) -> Parsed {
    let (inverted, rest) = strip(text, '~');
    // After `none` systemd begins anew: what follows may be a list of those that aren't allowed.
    let is_none = |filter: &Filter| filter.allow && filter.names.is_empty();
    let mut filter = match old {
        Some(Value::Filter(filter)) if form.is_none() || !is_none(filter) => filter.clone(),
        _ => Filter {
            allow: !inverted,
            names: BTreeSet::new(),
        },
    };
    let mut notes = Vec::new();
    for word in plain(rest) {
        if let Some(Err(problem)) = form.map(|form| shape::check(form, &word.text)) {
            let at = word.offset + text.len() - rest.len();
            notes.push((at, format!("{problem}; it is left out")));
        } else if word.text == "none" && !inverted {
            filter = Filter {
                allow: true,
                names: BTreeSet::new(),
            };
        } else if filter.allow != inverted {
            filter.names.insert(word.text);
        } else {
            filter.names.remove(&word.text);
        }
    }
    Parsed {
        outcome: Outcome::Set(Value::Filter(filter)),
        notes,
    }
}

/// The namespaces that a filter can name.
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "net", "mnt", "pid", "user", "uts"];

/// `yes` allows none, `no` all.
pub(super) fn namespaces(text: &str, old: Option<&Value>) -> Parsed {
    let all = || {
        NAMESPACES
            .iter()
            .map(|it| (*it).to_owned())
            .collect::<BTreeSet<String>>()
    };
    match super::scalar::boolean(text) {
        Ok(true) => return Parsed::set(allowed(BTreeSet::new())),
        Ok(false) => return Parsed::set(allowed(all())),
        Err(_) => {}
    }
    let (inverted, rest) = strip(text, '~');
    let mut named = BTreeSet::new();
    let mut notes = Vec::new();
    for word in plain(rest) {
        if NAMESPACES.contains(&&*word.text) {
            named.insert(word.text);
        } else {
            let message = format!("{} is none of {}", shown(&word.text), NAMESPACES.join(", "));
            notes.push((word.offset + text.len() - rest.len(), message));
        }
    }
    let before = match old {
        Some(Value::Filter(filter)) => Some(filter.names.clone()),
        _ => None,
    };
    let names = match (inverted, before) {
        (true, before) => before
            .unwrap_or_else(all)
            .difference(&named)
            .cloned()
            .collect(),
        (false, Some(before)) => before.union(&named).cloned().collect(),
        (false, None) => named,
    };
    Parsed {
        outcome: Outcome::Set(allowed(names)),
        notes,
    }
}

fn allowed(names: BTreeSet<String>) -> Value {
    Value::Filter(Filter { allow: true, names })
}

/// System calls, groups, and what is done instead of one.
pub(super) fn syscalls(text: &str, old: Option<&Value>) -> Parsed {
    let (inverted, rest) = strip(text, '~');
    let mut syscalls = match old {
        Some(Value::Syscalls(syscalls)) => syscalls.clone(),
        _ => Syscalls {
            allow: !inverted,
            steps: Vec::new(),
        },
    };
    let mut notes = Vec::new();
    for word in plain(rest) {
        let (name, action) = match word.text.split_once(':') {
            Some((name, action)) => (name, Some(action)),
            None => (&*word.text, None),
        };
        let name_ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '-');
        let problem = match action.map(errno) {
            Some(Err(problem)) => Some(problem),
            _ if name.is_empty() || !name.chars().all(name_ok) => {
                Some(format!("{} is no system call", shown(name)))
            }
            _ => None,
        };
        match problem {
            None => syscalls
                .steps
                .push((inverted, name.to_owned(), action.map(str::to_owned))),
            Some(problem) => {
                let at = word.offset + text.len() - rest.len();
                notes.push((at, format!("{problem}; it is left out")));
            }
        }
    }
    Parsed {
        outcome: Outcome::Set(Value::Syscalls(syscalls)),
        notes,
    }
}

/// The name or number of an error, or `kill`.
pub(super) fn errno(text: &str) -> Result<String, String> {
    let known = text == "kill" || model::errno::parse_any(text).is_some() || text == "0";
    known
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{} is no errno such as `EPERM`, nor `kill`", shown(text)))
}

/// The names of exit statuses (systemd.exec(5), "Process exit codes").
const STATUSES: [(&str, u8); 62] = [
    ("SUCCESS", 0),
    ("FAILURE", 1),
    ("INVALIDARGUMENT", 2),
    ("NOTIMPLEMENTED", 3),
    ("NOPERMISSION", 4),
    ("NOTINSTALLED", 5),
    ("NOTCONFIGURED", 6),
    ("NOTRUNNING", 7),
    ("USAGE", 64),
    ("DATAERR", 65),
    ("NOINPUT", 66),
    ("NOUSER", 67),
    ("NOHOST", 68),
    ("UNAVAILABLE", 69),
    ("SOFTWARE", 70),
    ("OSERR", 71),
    ("OSFILE", 72),
    ("CANTCREAT", 73),
    ("IOERR", 74),
    ("TEMPFAIL", 75),
    ("PROTOCOL", 76),
    ("NOPERM", 77),
    ("CONFIG", 78),
    ("CHDIR", 200),
    ("NICE", 201),
    ("FDS", 202),
    ("EXEC", 203),
    ("MEMORY", 204),
    ("LIMITS", 205),
    ("OOM_ADJUST", 206),
    ("SIGNAL_MASK", 207),
    ("STDIN", 208),
    ("STDOUT", 209),
    ("CHROOT", 210),
    ("IOPRIO", 211),
    ("TIMERSLACK", 212),
    ("SECUREBITS", 213),
    ("SETSCHEDULER", 214),
    ("CPUAFFINITY", 215),
    ("GROUP", 216),
    ("USER", 217),
    ("CAPABILITIES", 218),
    ("CGROUP", 219),
    ("SETSID", 220),
    ("CONFIRM", 221),
    ("STDERR", 222),
    ("PAM", 224),
    ("NETWORK", 225),
    ("NAMESPACE", 226),
    ("NO_NEW_PRIVILEGES", 227),
    ("SECCOMP", 228),
    ("SELINUX_CONTEXT", 229),
    ("PERSONALITY", 230),
    ("APPARMOR_PROFILE", 231),
    ("ADDRESS_FAMILIES", 232),
    ("RUNTIME_DIRECTORY", 233),
    ("CHOWN", 235),
    ("SMACK_PROCESS_LABEL", 236),
    ("KEYRING", 237),
    ("STATE_DIRECTORY", 238),
    ("CACHE_DIRECTORY", 239),
    ("LOGS_DIRECTORY", 240),
];

/// The others of that table.
const MORE_STATUSES: [(&str, u8); 5] = [
    ("CONFIGURATION_DIRECTORY", 241),
    ("NUMA_POLICY", 242),
    ("CREDENTIALS", 243),
    ("BPF", 245),
    ("EXCEPTION", 255),
];

/// Adds statuses (by name or number) and signals (by name).
pub(super) fn statuses(text: &str, old: Option<&Value>) -> Parsed {
    let mut statuses = match old {
        Some(Value::Statuses(statuses)) => statuses.clone(),
        _ => Statuses::default(),
    };
    let mut notes = Vec::new();
    for word in plain(text) {
        let named = STATUSES
            .iter()
            .chain(&MORE_STATUSES)
            .find(|(name, _)| *name == word.text);
        let number = number(&word.text, 0, 255)
            .ok()
            .and_then(|it| u8::try_from(it).ok());
        if let Some(code) = named.map(|(_, code)| *code).or(number) {
            statuses.codes.insert(code);
        } else if let Ok(signal) = signal(&word.text) {
            statuses.signals.insert(signal);
        } else {
            let shown = shown(&word.text);
            let message = format!("{shown} is no exit status and no signal; it is left out");
            notes.push((word.offset, message));
        }
    }
    Parsed {
        outcome: Outcome::Set(Value::Statuses(statuses)),
        notes,
    }
}

/// Numbers and ranges, `0 2-5,7`, added to those before.
pub(super) fn indices(text: &str, old: Option<&Value>) -> Result<Value, String> {
    let mut set = match old {
        Some(Value::Indices(set)) => set.clone(),
        _ => BTreeSet::new(),
    };
    for part in text.split([' ', '\t', ',']).filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let one = |text: &str| u32::try_from(number(text, 0, 8191)?).map_err(|e| e.to_string());
        let (low, high) = (one(low)?, one(high)?);
        set.extend(low..=high);
    }
    Ok(Value::Indices(set))
}

/// A network, or one of the words for some.
pub(super) fn networks(text: &str) -> Result<Vec<(IpAddr, u8)>, String> {
    let v4 = |a, b, c, d, length| (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length);
    let v6 = |first, last, length| {
        (
            IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last)),
            length,
        )
    };
    Ok(match text {
        "any" => vec![v4(0, 0, 0, 0, 0), v6(0, 0, 0)],
        "localhost" => vec![v4(127, 0, 0, 0, 8), v6(0, 1, 128)],
        "link-local" => vec![v4(169, 254, 0, 0, 16), v6(0xfe80, 0, 64)],
        "multicast" => vec![v4(224, 0, 0, 0, 4), v6(0xff00, 0, 8)],
        _ => {
            let wrong = || format!("{} is no network: write it as in `10.0.0.0/8`", shown(text));
            let (address, length) = match text.split_once('/') {
                Some((address, length)) => (address, Some(length)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let length = match length {
                Some(length) => number(length, 0, most).map_err(|_| wrong())?,
                None => most,
            };
            vec![(address, u8::try_from(length).map_err(|_| wrong())?)]
        }
    })
}
