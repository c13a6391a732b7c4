// SPDX-License-Identifier: Apache-2.0
//! What is asked of a service, with the weight of each question. Weights and ranges are those of
//! systemd 252, measured with its `--security-policy=`; the words are ours.

use super::judge::{self, Effective};

/// A question.
pub(super) struct Row {
    pub(super) test: Test,
    /// How much it counts.
    pub(super) weight: u64,
    /// What its badness is a part of.
    pub(super) range: u64,
    /// What the service may do where the answer is bad.
    pub(super) risk: &'static str,
}

/// How it is answered.
pub(super) enum Test {
    /// A switch that should be on.
    Flag(&'static str),
    /// Capabilities, all of which should be gone; and what systemd calls them.
    Capabilities(&'static str, &'static str),
    /// A namespace that should not be made.
    Namespace(&'static str),
    /// Families of sockets that should not be made, and what systemd calls them. None are the
    /// others.
    Families(&'static str, &'static [&'static str]),
    /// A group of system calls, all of which should be refused.
    Calls(&'static str),
    /// Its own way: the directive, and how bad it is; `None` where the question has no meaning.
    Own(&'static str, fn(&Effective<'_>) -> Option<u64>),
}

impl Row {
    /// What systemd calls it in its JSON and in its policies.
    pub(super) fn id(&self) -> String {
        match self.test {
            Test::Flag(field) | Test::Own(field, _) => field.to_owned(),
            Test::Capabilities(id, _) => format!("CapabilityBoundingSet_{id}"),
            Test::Namespace(name) => format!("RestrictNamespaces_{name}"),
            Test::Families(id, _) => format!("RestrictAddressFamilies_{id}"),
            Test::Calls(group) => {
                let group = group.trim_start_matches('@').replace('-', "_");
                format!("SystemCallFilter_{group}")
            }
        }
    }

    /// What would be written to close it.
    pub(super) fn name(&self) -> String {
        match self.test {
            Test::Own("UserOrDynamicUser", _) => "User=, DynamicUser=".to_owned(),
            Test::Own("RootDirectoryOrRootImage", _) => "RootDirectory=, RootImage=".to_owned(),
            Test::Flag(field) | Test::Own(field, _) => format!("{field}="),
            Test::Capabilities(_, names) => format!("CapabilityBoundingSet=~{names}"),
            Test::Namespace(name) => format!("RestrictNamespaces=~{name}"),
            Test::Families(_, []) => "RestrictAddressFamilies=~…".to_owned(),
            Test::Families(_, names) => format!("RestrictAddressFamilies=~{}", names.join(" ")),
            Test::Calls(group) => format!("SystemCallFilter=~{group}"),
        }
    }
}

const fn row(test: Test, weight: u64, range: u64, risk: &'static str) -> Row {
    Row {
        test,
        weight,
        range,
        risk,
    }
}

const fn flag(field: &'static str, weight: u64, risk: &'static str) -> Row {
    row(Test::Flag(field), weight, 1, risk)
}

const fn caps(id: &'static str, names: &'static str, weight: u64, risk: &'static str) -> Row {
    row(Test::Capabilities(id, names), weight, 1, risk)
}

const fn namespace(name: &'static str, weight: u64, risk: &'static str) -> Row {
    row(Test::Namespace(name), weight, 1, risk)
}

const fn families(
    id: &'static str,
    names: &'static [&'static str],
    weight: u64,
    risk: &'static str,
) -> Row {
    row(Test::Families(id, names), weight, 1, risk)
}

const fn calls(group: &'static str, weight: u64, risk: &'static str) -> Row {
    row(Test::Calls(group), weight, 10, risk)
}

const fn own(
    field: &'static str,
    weight: u64,
    range: u64,
    bad: fn(&Effective<'_>) -> Option<u64>,
    risk: &'static str,
) -> Row {
    row(Test::Own(field, bad), weight, range, risk)
}

/// Every question.
pub(super) const ROWS: &[Row] = &[
    own(
        "UserOrDynamicUser",
        2000,
        10,
        judge::user,
        "it runs as root",
    ),
    own(
        "SupplementaryGroups",
        200,
        1,
        judge::groups,
        "it is in groups beside its own",
    ),
    flag("PrivateDevices", 1000, "it sees the machine's devices"),
    flag("PrivateMounts", 1000, "what it mounts is the machine's"),
    flag("PrivateNetwork", 2500, "it is on the machine's network"),
    own(
        "PrivateTmp",
        1000,
        1,
        judge::tmp,
        "it shares /tmp with others",
    ),
    flag("PrivateUsers", 1000, "its users are the machine's"),
    flag("ProtectControlGroups", 1000, "it may write to cgroups"),
    flag("ProtectKernelModules", 1000, "it may load kernel modules"),
    flag(
        "ProtectKernelTunables",
        1000,
        "it may set the kernel's parameters",
    ),
    flag(
        "ProtectKernelLogs",
        1000,
        "it may read and write the kernel's log",
    ),
    flag("ProtectClock", 1000, "it may set the clock"),
    own(
        "ProtectHome",
        1000,
        10,
        judge::home,
        "it reaches the users' folders",
    ),
    flag("ProtectHostname", 50, "it may change the host's name"),
    own(
        "ProtectSystem",
        1000,
        10,
        judge::system,
        "it may write to the system's folders",
    ),
    own(
        "RootDirectoryOrRootImage",
        200,
        1,
        judge::root,
        "its root is the machine's",
    ),
    flag(
        "LockPersonality",
        100,
        "it may change how the kernel runs it",
    ),
    flag(
        "MemoryDenyWriteExecute",
        100,
        "it may execute memory that it has written",
    ),
    own(
        "NoNewPrivileges",
        1000,
        1,
        judge::privileges,
        "its programs may gain privileges",
    ),
    caps(
        "CAP_SYS_ADMIN",
        "CAP_SYS_ADMIN",
        1500,
        "it may administrate the kernel",
    ),
    caps(
        "CAP_SET_UID_GID_PCAP",
        "CAP_SETUID CAP_SETGID CAP_SETPCAP",
        1500,
        "it may become any user",
    ),
    caps(
        "CAP_SYS_PTRACE",
        "CAP_SYS_PTRACE",
        1500,
        "it may look into any process",
    ),
    caps("CAP_SYS_TIME", "CAP_SYS_TIME", 1000, "it may set the clock"),
    caps(
        "CAP_NET_ADMIN",
        "CAP_NET_ADMIN",
        1000,
        "it may configure the network",
    ),
    caps(
        "CAP_SYS_RAWIO",
        "CAP_SYS_RAWIO",
        1000,
        "it may use I/O ports",
    ),
    caps(
        "CAP_SYS_MODULE",
        "CAP_SYS_MODULE",
        1000,
        "it may load kernel modules",
    ),
    caps(
        "CAP_AUDIT",
        "CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_AUDIT_WRITE",
        500,
        "it may use the kernel's audit",
    ),
    caps(
        "CAP_SYSLOG",
        "CAP_SYSLOG",
        500,
        "it may use the kernel's log",
    ),
    caps(
        "CAP_SYS_NICE_RESOURCE",
        "CAP_SYS_NICE CAP_SYS_RESOURCE",
        500,
        "it may pass priorities and limits",
    ),
    caps("CAP_MKNOD", "CAP_MKNOD", 500, "it may make device nodes"),
    caps(
        "CAP_CHOWN_FSETID_SETFCAP",
        "CAP_CHOWN CAP_FSETID CAP_SETFCAP",
        1000,
        "it may give files other owners and rights",
    ),
    caps(
        "CAP_DAC_FOWNER_IPC_OWNER",
        "CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_IPC_OWNER",
        1000,
        "it may pass over the rights of files",
    ),
    caps("CAP_KILL", "CAP_KILL", 500, "it may signal any process"),
    caps(
        "CAP_NET_BIND_SERVICE_BROADCAST_RAW",
        "CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_RAW",
        500,
        "it has more of the network than a user",
    ),
    caps("CAP_SYS_BOOT", "CAP_SYS_BOOT", 100, "it may reboot"),
    caps(
        "CAP_MAC",
        "CAP_MAC_ADMIN CAP_MAC_OVERRIDE",
        100,
        "it may change the security module's policy",
    ),
    caps(
        "CAP_LINUX_IMMUTABLE",
        "CAP_LINUX_IMMUTABLE",
        75,
        "it may mark files immutable",
    ),
    caps("CAP_IPC_LOCK", "CAP_IPC_LOCK", 50, "it may lock memory"),
    caps("CAP_SYS_CHROOT", "CAP_SYS_CHROOT", 50, "it may call chroot"),
    caps(
        "CAP_BLOCK_SUSPEND",
        "CAP_BLOCK_SUSPEND",
        25,
        "it may keep the machine awake",
    ),
    caps(
        "CAP_WAKE_ALARM",
        "CAP_WAKE_ALARM",
        25,
        "it may wake the machine",
    ),
    caps("CAP_LEASE", "CAP_LEASE", 25, "it may take leases of files"),
    caps(
        "CAP_SYS_TTY_CONFIG",
        "CAP_SYS_TTY_CONFIG",
        25,
        "it may hang up terminals",
    ),
    caps("CAP_BPF", "CAP_BPF", 25, "it may load BPF programs"),
    caps(
        "CAP_SYS_PACCT",
        "CAP_SYS_PACCT",
        25,
        "it may account processes",
    ),
    own(
        "UMask",
        100,
        10,
        judge::umask,
        "others may reach the files that it makes",
    ),
    own(
        "KeyringMode",
        1000,
        1,
        judge::keyring,
        "it shares the kernel's keys with others",
    ),
    own(
        "ProtectProc",
        1000,
        3,
        judge::proc,
        "it sees the processes of others",
    ),
    own("ProcSubset", 10, 1, judge::subset, "it sees all of /proc"),
    own(
        "NotifyAccess",
        1000,
        1,
        judge::notify,
        "any of its processes may speak for it",
    ),
    own(
        "RemoveIPC",
        100,
        1,
        judge::ipc,
        "what it shares by System V's IPC stays",
    ),
    own(
        "Delegate",
        100,
        1,
        judge::delegate,
        "it has cgroups of its own",
    ),
    flag(
        "RestrictRealtime",
        500,
        "it may take a processor for itself",
    ),
    own(
        "RestrictSUIDSGID",
        1000,
        1,
        judge::set_id,
        "it may make set-id files",
    ),
    namespace("user", 1500, "it may make user namespaces"),
    namespace("mnt", 500, "it may make mount namespaces"),
    namespace("ipc", 500, "it may make IPC namespaces"),
    namespace("pid", 500, "it may make pid namespaces"),
    namespace("cgroup", 500, "it may make cgroup namespaces"),
    namespace("net", 500, "it may make network namespaces"),
    namespace("uts", 100, "it may make host name namespaces"),
    families(
        "AF_INET_INET6",
        &["AF_INET", "AF_INET6"],
        1500,
        "it may make sockets of the Internet",
    ),
    families("AF_UNIX", &["AF_UNIX"], 25, "it may make local sockets"),
    families(
        "AF_NETLINK",
        &["AF_NETLINK"],
        200,
        "it may make netlink sockets",
    ),
    families(
        "AF_PACKET",
        &["AF_PACKET"],
        1000,
        "it may make packet sockets",
    ),
    families("OTHER", &[], 1250, "it may make sockets of other families"),
    own(
        "SystemCallArchitectures",
        1000,
        10,
        judge::architectures,
        "it may call the kernel in other ways",
    ),
    calls("@swap", 1000, "it may use swap"),
    calls("@obsolete", 250, "it may make obsolete calls"),
    calls("@clock", 1000, "it may call what sets the clock"),
    calls(
        "@cpu-emulation",
        250,
        "it may call what emulates processors",
    ),
    calls("@debug", 1000, "it may call what debuggers call"),
    calls("@mount", 1000, "it may call what mounts"),
    calls("@module", 1000, "it may call what loads modules"),
    calls("@raw-io", 1000, "it may call what opens I/O ports"),
    calls("@reboot", 1000, "it may call what reboots"),
    calls("@privileged", 700, "it may make calls of administrators"),
    calls("@resources", 700, "it may call what sets resources"),
    own(
        "IPAddressDeny",
        1000,
        10,
        judge::addresses,
        "it may speak with any address",
    ),
    own(
        "DeviceAllow",
        1000,
        10,
        judge::devices,
        "it may open any device",
    ),
    own(
        "AmbientCapabilities",
        500,
        1,
        judge::ambient,
        "its programs have capabilities from the start",
    ),
];
