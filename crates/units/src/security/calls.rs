// SPDX-License-Identifier: Apache-2.0
//! System calls as the score sees them: whether a filter leaves one of a group. Not what a filter
//! is made of when it is applied; that is the kernel's crate.

use std::collections::BTreeSet;

use crate::value::Syscalls;

/// systemd 252's groups, with those of their calls of x86-64 that are in a group that the score
/// asks for. A group that isn't here has none of them.
const GROUPS: &[(&str, &str)] = &[
    ("@chown", "chown fchown fchownat lchown"),
    (
        "@clock",
        "adjtimex clock_adjtime clock_settime settimeofday",
    ),
    ("@cpu-emulation", "modify_ldt"),
    (
        "@debug",
        "lookup_dcookie perf_event_open pidfd_getfd ptrace",
    ),
    ("@module", "delete_module finit_module init_module"),
    (
        "@mount",
        "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree \
         pivot_root umount2",
    ),
    (
        "@obsolete",
        "_sysctl afs_syscall create_module get_kernel_syms getpmsg putpmsg query_module \
         security sysfs tuxcall uselib ustat vserver",
    ),
    (
        "@privileged",
        "_sysctl acct adjtimex bpf capset chown chroot clock_adjtime clock_settime \
         delete_module fanotify_init fanotify_mark fchown fchownat finit_module \
         init_module ioperm iopl kexec_file_load kexec_load lchown nfsservctl \
         open_by_handle_at pivot_root quotactl quotactl_fd reboot setdomainname setfsuid \
         setgroups sethostname setresuid setreuid settimeofday setuid swapoff swapon \
         vhangup",
    ),
    ("@raw-io", "ioperm iopl"),
    ("@reboot", "kexec_file_load kexec_load reboot"),
    (
        "@resources",
        "ioprio_set mbind migrate_pages move_pages sched_setaffinity sched_setattr \
         sched_setparam sched_setscheduler set_mempolicy set_mempolicy_home_node \
         setpriority setrlimit",
    ),
    ("@setuid", "setgroups setresuid setreuid setuid"),
    ("@swap", "swapoff swapon"),
    (
        "@system-service",
        "capset chown fchown fchownat ioprio_set lchown mbind migrate_pages move_pages \
         sched_setaffinity sched_setattr sched_setparam sched_setscheduler set_mempolicy \
         set_mempolicy_home_node setfsuid setgroups setpriority setresuid setreuid \
         setrlimit setuid",
    ),
];

/// The calls of a group that count.
pub(super) fn members(group: &str) -> impl Iterator<Item = &'static str> {
    let found = GROUPS.iter().find(|(name, _)| *name == group);
    found.into_iter().flat_map(|(_, calls)| calls.split(' '))
}

/// What a filter comes to: the calls that it names, and whether they are the allowed ones.
pub(super) struct Resolved {
    allow: bool,
    named: BTreeSet<String>,
}

impl Resolved {
    /// Puts the lines together: a later word of the other kind takes calls out again.
    pub(super) fn of(syscalls: &Syscalls) -> Resolved {
        let mut named = BTreeSet::new();
        for (inverted, word, action) in &syscalls.steps {
            // What is allowed takes no error: systemd passes over such a word.
            if !inverted && action.is_some() {
                continue;
            }
            let calls: Vec<&str> = match word.starts_with('@') {
                true => members(word).collect(),
                false => vec![word],
            };
            let adds = syscalls.allow != *inverted;
            for call in calls {
                match adds {
                    true => _ = named.insert(call.to_owned()),
                    false => _ = named.remove(call),
                }
            }
        }
        Resolved {
            allow: syscalls.allow,
            named,
        }
    }

    /// Whether nothing is refused: a list of refused calls with nothing in it.
    pub(super) fn is_open(&self) -> bool {
        !self.allow && self.named.is_empty()
    }

    /// Whether it is a list of allowed calls.
    pub(super) fn allows(&self) -> bool {
        self.allow
    }

    /// A call of the group that may be made.
    pub(super) fn left_of(&self, group: &str) -> Option<&'static str> {
        members(group).find(|call| self.allow == self.named.contains(*call))
    }
}
