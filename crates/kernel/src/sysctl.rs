// SPDX-License-Identifier: Apache-2.0
//! Parameters of the kernel (`/proc/sys`) by name: which of them belong to a namespace, and where
//! they are. All others are the machine's. Pure; [`crate::procfs`] writes them.

use crate::namespace::Namespaces;

/// Those of an IPC namespace beside `fs.mqueue.`.
const IPC: [&str; 8] = [
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
];

/// The namespace that a parameter belongs to; `None` where it is the machine's.
pub fn namespace(name: &str) -> Option<Namespaces> {
    let dotted = dotted(name);
    if IPC.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.") {
        Some(Namespaces::IPC)
    } else if dotted.starts_with("net.") {
        Some(Namespaces::NET)
    } else if dotted == "kernel.domainname" || dotted == "kernel.hostname" {
        Some(Namespaces::UTS)
    } else if dotted.starts_with("user.") {
        Some(Namespaces::USER)
    } else {
        None
    }
}

/// The name with dots. Both forms are in use: `net.ipv4.conf.eth0/1.x` and
/// `net/ipv4/conf/eth0.1/x`. Whichever sign comes first is the separator.
pub fn dotted(name: &str) -> String {
    match (name.find('.'), name.find('/')) {
        (Some(dot), Some(slash)) if dot < slash => name.to_owned(),
        (_, Some(_)) => swap(name),
        _ => name.to_owned(),
    }
}

/// The path below `/proc/sys`.
pub fn path(name: &str) -> String {
    swap(&dotted(name))
}

fn swap(name: &str) -> String {
    let swapped = name.chars().map(|letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    });
    swapped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_sysctl_are_one_path() {
        for (name, at) in [
            ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
            ("net/ipv4/ip_forward", "net/ipv4/ip_forward"),
            (
                "net.ipv4.conf.eth0/1.rp_filter",
                "net/ipv4/conf/eth0.1/rp_filter",
            ),
            (
                "net/ipv4/conf/eth0.1/rp_filter",
                "net/ipv4/conf/eth0.1/rp_filter",
            ),
        ] {
            assert_eq!(path(name), at);
        }
    }

    #[test]
    fn what_belongs_to_no_namespace_is_the_machines() {
        for name in ["net.core.somaxconn", "net/ipv4/ip_forward"] {
            assert_eq!(namespace(name), Some(Namespaces::NET), "{name}");
        }
        for name in ["kernel.sem", "fs.mqueue.msg_max", "kernel/shmmax"] {
            assert_eq!(namespace(name), Some(Namespaces::IPC), "{name}");
        }
        for name in [
            "kernel.core_pattern",
            "vm.swappiness",
            "kernel.shmmaxi",
            "net",
        ] {
            assert_eq!(namespace(name), None, "{name}");
        }
    }
}
