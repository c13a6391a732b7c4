// SPDX-License-Identifier: Apache-2.0
//! The profile that the container world has settled on (the default of Docker and containerd),
//! written here: the calls that ordinary programs need are allowed; calls that need a
//! capability are allowed where the program has that capability; all others answer `EPERM`.
//!
//! Differences from theirs: `TIOCSTI` and `TIOCLINUX` are refused (a workload could type into the
//! terminal of the user who attached); 32-bit and x32 programs don't run; `process_vm_*` and
//! `ptrace` are allowed as theirs are since Linux 4.8.

use super::{Action, Comparison, Condition, Profile, Rule, groups};
use crate::caps::{Capability, CapabilitySet};
use crate::namespace::Namespaces;

/// `EPERM` for all that isn't allowed.
const REFUSED: Action = Action::Errno(libc::EPERM as u16);

/// Groups allowed whole, less [`NOT_OF_GROUPS`].
const GROUPS: &[&str] = &[
    "@default",
    "@aio",
    "@basic-io",
    "@chown",
    "@file-system",
    "@io-event",
    "@ipc",
    "@memlock",
    "@network-io",
    "@pkey",
    "@process",
    "@sandbox",
    "@setuid",
    "@signal",
    "@sync",
    "@timer",
];

/// The calls of those groups that have rules of their own below, or are refused.
const NOT_OF_GROUPS: &[&str] = &[
    "clone",
    "clone3",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "process_madvise",
    "setns",
    "socket",
    "unshare",
    "file_setattr",
    "file_getattr",
];

/// Allowed beside the groups.
const OTHERS: &str = "adjtimex capset clock_adjtime copy_file_range fadvise64 fanotify_mark \
    flock getcpu getpriority ioctl ioprio_get ioprio_set madvise memfd_secret mincore modify_ldt \
    mremap name_to_handle_at prctl ptrace readahead remap_file_pages sched_get_priority_max \
    sched_get_priority_min sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval \
    sched_setaffinity sched_setattr sched_setparam sched_setscheduler sendfile setfsgid setfsuid \
    setpgid setpriority setrlimit setsid splice sysinfo tee umask uname vmsplice";

/// The calls that a capability allows in addition.
const BY_CAPABILITY: &[(&str, &str)] = &[
    ("CAP_BPF", "bpf"),
    ("CAP_DAC_READ_SEARCH", "open_by_handle_at"),
    ("CAP_PERFMON", "perf_event_open"),
    (
        "CAP_SYS_ADMIN",
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie \
         lsm_get_self_attr lsm_list_modules lsm_set_self_attr mount mount_setattr move_mount \
         open_tree open_tree_attr perf_event_open pivot_root quotactl quotactl_fd setdomainname \
         sethostname setns syslog umount2 unshare",
    ),
    ("CAP_SYS_BOOT", "reboot"),
    ("CAP_SYS_CHROOT", "chroot"),
    ("CAP_SYS_MODULE", "delete_module finit_module init_module"),
    (
        "CAP_SYS_NICE",
        "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
    ),
    ("CAP_SYS_PACCT", "acct"),
    ("CAP_SYS_PTRACE", "kcmp pidfd_getfd process_madvise"),
    ("CAP_SYS_RAWIO", "ioperm iopl"),
    ("CAP_SYS_TIME", "clock_settime settimeofday"),
    ("CAP_SYS_TTY_CONFIG", "vhangup"),
    ("CAP_SYSLOG", "syslog"),
];

/// The personalities that programs ask for: Linux, and Linux with addresses not randomised or with
/// the old layout; `0xffffffff` asks which it is.
const PERSONALITIES: [u32; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// The container profile for a process that is left these capabilities.
pub fn container(capabilities: CapabilitySet) -> Profile {
    let has = |name: &str| {
        name.parse::<Capability>()
            .is_ok_and(|c| capabilities.has(c))
    };
    let mut rules = vec![];
    for (capability, calls) in BY_CAPABILITY {
        if has(capability) {
            rules.push(known(Action::Allow, calls.split_whitespace()));
        }
    }
    rules.extend(terminal_injection());
    rules.extend(namespaces());
    rules.extend(arguments());
    let grouped = GROUPS
        .iter()
        .filter_map(|group| groups::calls(group))
        .flatten();
    let grouped = grouped.filter(|call| !NOT_OF_GROUPS.contains(call));
    rules.push(known(
        Action::Allow,
        grouped.chain(OTHERS.split_whitespace()),
    ));
    Profile {
        default: REFUSED,
        rules,
    }
}

/// A rule for those of the calls that an architecture has: the tables are for all.
fn known<'a>(action: Action, calls: impl Iterator<Item = &'a str>) -> Rule {
    let native = super::Arch::NATIVE;
    Rule::new(action, calls.filter(|call| native.number(call).is_some()))
}

/// `TIOCSTI` and `TIOCLINUX` put characters into a terminal's input as if they had been typed. The
/// kernel reads the request as 32 bits.
fn terminal_injection() -> [Rule; 2] {
    [libc::TIOCSTI as u32, libc::TIOCLINUX as u32].map(|request| {
        Rule::new(REFUSED, ["ioctl"]).when(Condition::on_u32(1, Comparison::Equal, request))
    })
}

/// `clone` without new namespaces. `clone3` hides its flags behind a pointer: `ENOSYS` has
/// libraries fall back to `clone`.
fn namespaces() -> [Rule; 2] {
    let flags = Condition {
        argument: 0,
        mask: Namespaces::ALL.bits(),
        comparison: Comparison::Equal,
        value: 0,
    };
    [
        Rule::new(Action::Allow, ["clone"]).when(flags),
        Rule::new(Action::Errno(libc::ENOSYS as u16), ["clone3"]),
    ]
}

fn arguments() -> Vec<Rule> {
    let vsock = libc::AF_VSOCK.unsigned_abs();
    // A vsock reaches the host of a microVM past all network namespaces.
    let mut rules = vec![
        Rule::new(REFUSED, ["socket"]).when(Condition::on_u32(0, Comparison::Equal, vsock)),
        Rule::new(Action::Allow, ["socket"]),
    ];
    rules.extend(PERSONALITIES.map(|value| {
        Rule::new(Action::Allow, ["personality"]).when(Condition::on_u32(
            0,
            Comparison::Equal,
            value,
        ))
    }));
    rules
}
