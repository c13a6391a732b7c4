// SPDX-License-Identifier: Apache-2.0
//! The rows of the sections of single types: `[Service]`, `[Socket]`, `[Timer]`, `[Path]`,
//! `[Mount]`, `[Automount]`, `[Swap]`, `[Scope]`.

use super::unit::ACTIONS;
use super::{Directive, row};
use crate::value::Kind::{
    Calendar, Clock, Commands, Flag, FlagOr, Listen, Mode, Number, Path as Absolute, Shaped,
    ShapedList, Size, Span, SpanOrEmpty, SpanOrNone, Statuses, Text, Unit, Units, Watch, Word,
};
use crate::value::shape::Shape::{
    Account, BusName, Descriptor, Interface, Path as OfPath, Service,
};

const COUNT: crate::value::Kind = Number(0, u32::MAX as i64);
const ANY: crate::value::Kind = Number(i32::MIN as i64, i32::MAX as i64);
const FAILURE_MODES: &[&str] = &["terminate", "abort", "kill"];

pub(super) const SERVICE: &[Directive] = &[
    row(
        "Type",
        Word(&[
            "simple",
            "exec",
            "forking",
            "oneshot",
            "dbus",
            "notify",
            "notify-reload",
            "idle",
        ]),
    ),
    row("ExitType", Word(&["main", "cgroup"])),
    row("PIDFile", Text),
    row("BusName", Shaped(BusName)),
    row("ExecCondition", Commands),
    row("ExecStartPre", Commands),
    row("ExecStart", Commands),
    row("ExecStartPost", Commands),
    row("ExecReload", Commands),
    row("ExecStop", Commands),
    row("ExecStopPost", Commands),
    row("RestartSec", Span),
    row("TimeoutSec", SpanOrNone),
    row("TimeoutStartSec", SpanOrNone),
    row("TimeoutStopSec", SpanOrNone),
    row("TimeoutAbortSec", SpanOrEmpty),
    row("TimeoutStartFailureMode", Word(FAILURE_MODES)),
    row("TimeoutStopFailureMode", Word(FAILURE_MODES)),
    row("RuntimeMaxSec", Span),
    row("RuntimeRandomizedExtraSec", Span),
    row("WatchdogSec", Span),
    row("StartLimitInterval", Span).of("StartLimitIntervalSec"),
    row("StartLimitBurst", COUNT),
    row("StartLimitAction", Word(ACTIONS)),
    row("FailureAction", Word(ACTIONS)),
    row("RebootArgument", Text),
    row(
        "Restart",
        Word(&[
            "no",
            "on-success",
            "on-failure",
            "on-abnormal",
            "on-watchdog",
            "on-abort",
            "always",
        ]),
    ),
    row("PermissionsStartOnly", Flag),
    row("RootDirectoryStartOnly", Flag),
    row("RemainAfterExit", Flag),
    row("GuessMainPID", Flag),
    row("RestartPreventExitStatus", Statuses),
    row("RestartForceExitStatus", Statuses),
    row("SuccessExitStatus", Statuses),
    row("NonBlocking", Flag),
    row("FileDescriptorStoreMax", COUNT),
    row("NotifyAccess", Word(&["none", "main", "exec", "all"])),
    row("Sockets", Units),
    row("USBFunctionDescriptors", Absolute),
    row("USBFunctionStrings", Absolute),
    row("OOMPolicy", Word(&["continue", "stop", "kill"])),
];

/// What is listened on is one list.
const fn listen(name: &'static str) -> Directive {
    row(name, Listen).of("Listen")
}

pub(super) const SOCKET: &[Directive] = &[
    listen("ListenStream"),
    listen("ListenDatagram"),
    listen("ListenSequentialPacket"),
    listen("ListenFIFO"),
    listen("ListenNetlink"),
    listen("ListenSpecial"),
    listen("ListenMessageQueue"),
    listen("ListenUSBFunction"),
    row("SocketProtocol", Word(&["udplite", "sctp", "mptcp"])),
    row("BindIPv6Only", FlagOr(&["default", "both", "ipv6-only"])),
    row("Backlog", COUNT),
    row("BindToDevice", Shaped(Interface)).guards(),
    row("ExecStartPre", Commands),
    row("ExecStartPost", Commands),
    row("ExecStopPre", Commands),
    row("ExecStopPost", Commands),
    row("TimeoutSec", SpanOrNone),
    row("SocketUser", Shaped(Account)).guards(),
    row("SocketGroup", Shaped(Account)).guards(),
    row("SocketMode", Mode).guards(),
    row("DirectoryMode", Mode).guards(),
    row("Accept", Flag),
    row("FlushPending", Flag),
    row("Writable", Flag),
    row("MaxConnections", COUNT),
    row("MaxConnectionsPerSource", COUNT),
    row("KeepAlive", Flag),
    row("KeepAliveTimeSec", Span),
    row("KeepAliveIntervalSec", Span),
    row("KeepAliveProbes", COUNT),
    row("DeferAcceptSec", Span),
    row("NoDelay", Flag),
    row("Priority", ANY),
    row("ReceiveBuffer", Size),
    row("SendBuffer", Size),
    row("IPTOS", Shaped(Service)),
    row("IPTTL", ANY),
    row("Mark", ANY),
    row("PipeSize", Size),
    row("FreeBind", Flag),
    row("Transparent", Flag),
    row("Broadcast", Flag),
    row("PassCredentials", Flag),
    row("PassSecurity", Flag),
    row("PassPacketInfo", Flag),
    row(
        "Timestamping",
        FlagOr(&["off", "us", "usec", "µs", "ns", "nsec"]),
    ),
    row("TCPCongestion", Text),
    row("ReusePort", Flag),
    row("MessageQueueMaxMessages", Number(1, i64::MAX)),
    row("MessageQueueMessageSize", Number(1, i64::MAX)),
    row("RemoveOnStop", Flag),
    row("Symlinks", ShapedList(OfPath)),
    row("FileDescriptorName", Shaped(Descriptor)),
    row("Service", Unit("service")),
    row("TriggerLimitIntervalSec", Span),
    row("TriggerLimitBurst", COUNT),
    row("SmackLabel", Text).guards(),
    row("SmackLabelIPIn", Text).guards(),
    row("SmackLabelIPOut", Text).guards(),
    row("SELinuxContextFromNet", Flag).guards(),
];

pub(super) const TIMER: &[Directive] = &[
    row("OnCalendar", Calendar).of("Clocks"),
    row("OnActiveSec", Clock).of("Clocks"),
    row("OnBootSec", Clock).of("Clocks"),
    row("OnStartupSec", Clock).of("Clocks"),
    row("OnUnitActiveSec", Clock).of("Clocks"),
    row("OnUnitInactiveSec", Clock).of("Clocks"),
    row("OnClockChange", Flag),
    row("OnTimezoneChange", Flag),
    row("Persistent", Flag),
    row("WakeSystem", Flag),
    row("RemainAfterElapse", Flag),
    row("FixedRandomDelay", Flag),
    row("AccuracySec", Span),
    row("RandomizedDelaySec", Span),
    row("Unit", Unit("")),
];

pub(super) const PATH: &[Directive] = &[
    row("PathExists", Watch).of("Watches"),
    row("PathExistsGlob", Watch).of("Watches"),
    row("PathChanged", Watch).of("Watches"),
    row("PathModified", Watch).of("Watches"),
    row("DirectoryNotEmpty", Watch).of("Watches"),
    row("Unit", Unit("")),
    row("MakeDirectory", Flag),
    row("DirectoryMode", Mode),
    row("TriggerLimitIntervalSec", Span),
    row("TriggerLimitBurst", COUNT),
];

pub(super) const MOUNT: &[Directive] = &[
    row("What", Text),
    row("Where", Absolute),
    row("Type", Text),
    row("Options", Text).guards(),
    row("SloppyOptions", Flag),
    row("LazyUnmount", Flag),
    row("ReadWriteOnly", Flag),
    row("ForceUnmount", Flag),
    row("DirectoryMode", Mode),
    row("TimeoutSec", SpanOrNone),
];

pub(super) const AUTOMOUNT: &[Directive] = &[
    row("Where", Absolute),
    row("ExtraOptions", Text),
    row("DirectoryMode", Mode),
    row("TimeoutIdleSec", Span),
];

pub(super) const SWAP: &[Directive] = &[
    row("What", Text),
    row("Priority", Number(-1, 32_767)),
    row("Options", Text),
    row("TimeoutSec", SpanOrNone),
];

pub(super) const SCOPE: &[Directive] = &[
    row("OOMPolicy", FlagOr(&["continue", "stop", "kill"])),
    row("RuntimeMaxSec", Span),
    row("RuntimeRandomizedExtraSec", Span),
    row("TimeoutStopSec", SpanOrNone),
];
