// SPDX-License-Identifier: Apache-2.0
//! What the manager honours, directive by directive. What isn't here is a warning of the unit, or
//! keeps it from being started where it would leave rights (`units::verify` decides which). A row
//! here is a promise: there is a test for it.

use std::collections::HashSet;
use std::sync::LazyLock;

use units::exec::Privileges;
use units::finding::{Finding, Position, Severity};
use units::name::{UnitName, UnitType};
use units::unit::Unit;
use units::verify;

use super::{printed, program};

/// The fields under which `units::table` keeps what is honoured whatever its value.
const HONOURED: &[&str] = &[
    // [Unit]
    "Description",
    "Documentation",
    "SourcePath",
    "Requires",
    "Requisite",
    "Wants",
    "BindsTo",
    "PartOf",
    "Conflicts",
    "Before",
    "After",
    "OnFailure",
    "OnSuccess",
    "OnFailureJobMode",
    "OnSuccessJobMode",
    "PropagatesReloadTo",
    "ReloadPropagatedFrom",
    "PropagatesStopTo",
    "StopPropagatedFrom",
    "RequiresMountsFor",
    "Upholds",
    "StopWhenUnneeded",
    "JobTimeoutSec",
    "JobRunningTimeoutSec",
    "JobTimeoutAction",
    "StartLimitAction",
    "FailureAction",
    "SuccessAction",
    "RefuseManualStart",
    "RefuseManualStop",
    "AllowIsolate",
    "IgnoreOnIsolate",
    "DefaultDependencies",
    "StartLimitIntervalSec",
    "StartLimitBurst",
    "Conditions",
    "Asserts",
    // [Install]
    "Alias",
    "WantedBy",
    "RequiredBy",
    "UpheldBy",
    "Also",
    "DefaultInstance",
    // [Service]
    "Type",
    "BusName",
    "ExecCondition",
    "ExecStartPre",
    "ExecStart",
    "ExecStartPost",
    "ExecReload",
    "ExecStop",
    "ExecStopPost",
    "RestartSec",
    "TimeoutSec",
    "TimeoutStartSec",
    "TimeoutStopSec",
    "RuntimeMaxSec",
    "Restart",
    "PermissionsStartOnly",
    "RemainAfterExit",
    "RestartPreventExitStatus",
    "RestartForceExitStatus",
    "SuccessExitStatus",
    "PIDFile",
    "FileDescriptorStoreMax",
    "GuessMainPID",
    "ExitType",
    "NotifyAccess",
    "WatchdogSec",
    "TimeoutAbortSec",
    "OOMPolicy",
    // [Timer]
    "Clocks",
    "OnClockChange",
    "OnTimezoneChange",
    "Persistent",
    "Unit",
    "RandomizedDelaySec",
    "FixedRandomDelay",
    "AccuracySec",
    // [Socket]
    "Listen",
    "SocketProtocol",
    "BindIPv6Only",
    "Backlog",
    "BindToDevice",
    "ExecStopPre",
    "SocketUser",
    "SocketGroup",
    "SocketMode",
    "DirectoryMode",
    "Accept",
    "FlushPending",
    "Writable",
    "MaxConnections",
    "MaxConnectionsPerSource",
    "KeepAlive",
    "KeepAliveTimeSec",
    "KeepAliveIntervalSec",
    "KeepAliveProbes",
    "DeferAcceptSec",
    "NoDelay",
    "Priority",
    "ReceiveBuffer",
    "SendBuffer",
    "IPTOS",
    "IPTTL",
    "Mark",
    "PipeSize",
    "FreeBind",
    "Transparent",
    "Broadcast",
    "PassCredentials",
    "PassSecurity",
    "PassPacketInfo",
    "Timestamping",
    "TCPCongestion",
    "ReusePort",
    "MessageQueueMaxMessages",
    "MessageQueueMessageSize",
    "RemoveOnStop",
    "Symlinks",
    "FileDescriptorName",
    "Service",
    "TriggerLimitIntervalSec",
    "TriggerLimitBurst",
    "Sockets",
    "NonBlocking",
    // [Path]
    "Watches",
    "MakeDirectory",
    // [Mount], [Swap], [Automount]
    "TimeoutIdleSec",
    "What",
    "Where",
    "Options",
    "SloppyOptions",
    "LazyUnmount",
    "ReadWriteOnly",
    "ForceUnmount",
    // systemd.exec(5)
    "WorkingDirectory",
    "User",
    "Group",
    "SupplementaryGroups",
    "Nice",
    "OOMScoreAdjust",
    "UMask",
    "Environment",
    "EnvironmentFile",
    "UnsetEnvironment",
    "PassEnvironment",
    "ExecSearchPath",
    "NoNewPrivileges",
    "IgnoreSIGPIPE",
    "KeyringMode",
    "IOSchedulingClass",
    "IOSchedulingPriority",
    "CPUSchedulingPolicy",
    "CPUSchedulingPriority",
    "CPUSchedulingResetOnFork",
    "TimerSlackNSec",
    "StandardInputData",
    "TTYPath",
    "TTYReset",
    "TTYVHangup",
    "TTYVTDisallocate",
    "DynamicUser",
    "RemoveIPC",
    "SyslogFacility",
    "SyslogLevel",
    "SyslogLevelPrefix",
    "SetCredential",
    "LoadCredential",
    "ImportCredential",
    "CPUAffinity",
    "CapabilityBoundingSet",
    "AmbientCapabilities",
    "LimitCPU",
    "LimitFSIZE",
    "LimitDATA",
    "LimitSTACK",
    "LimitCORE",
    "LimitRSS",
    "LimitNOFILE",
    "LimitAS",
    "LimitNPROC",
    "LimitMEMLOCK",
    "LimitLOCKS",
    "LimitSIGPENDING",
    "LimitMSGQUEUE",
    "LimitNICE",
    "LimitRTPRIO",
    "LimitRTTIME",
    "RuntimeDirectory",
    "RuntimeDirectoryMode",
    "RuntimeDirectoryPreserve",
    "StateDirectory",
    "StateDirectoryMode",
    "CacheDirectory",
    "CacheDirectoryMode",
    "LogsDirectory",
    "LogsDirectoryMode",
    "ConfigurationDirectory",
    "ConfigurationDirectoryMode",
    // systemd.exec(5), the sandbox: `super::sandbox`
    "RootDirectory",
    "MountAPIVFS",
    "ReadWritePaths",
    "ReadOnlyPaths",
    "InaccessiblePaths",
    "ExecPaths",
    "NoExecPaths",
    "BindPaths",
    "BindReadOnlyPaths",
    "TemporaryFileSystem",
    "PrivateTmp",
    "PrivateDevices",
    "PrivateNetwork",
    "PrivateUsers",
    "PrivateMounts",
    "PrivateIPC",
    "ProtectKernelTunables",
    "ProtectKernelModules",
    "ProtectKernelLogs",
    "ProtectClock",
    "ProtectControlGroups",
    "ProtectHostname",
    "ProtectSystem",
    "ProtectHome",
    "ProtectProc",
    "ProcSubset",
    "NetworkNamespacePath",
    "IPCNamespacePath",
    "JoinsNamespaceOf",
    "MountFlags",
    "SystemCallFilter",
    "SystemCallArchitectures",
    "SystemCallErrorNumber",
    "SystemCallLog",
    "MemoryDenyWriteExecute",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "RestrictAddressFamilies",
    "LockPersonality",
    "SecureBits",
    "NUMAPolicy",
    "NUMAMask",
    "AppArmorProfile",
    "SELinuxContext",
    "SmackProcessLabel",
    "DevicePolicy",
    "DeviceAllow",
    // systemd.kill(5), systemd.resource-control(5)
    "KillMode",
    "KillSignal",
    "RestartKillSignal",
    "FinalKillSignal",
    "WatchdogSignal",
    "SendSIGHUP",
    "SendSIGKILL",
    "MemoryMin",
    "MemoryLow",
    "MemorySwapMax",
    "MemoryLimit",
    "IOWeight",
    "IOReadBandwidthMax",
    "IOWriteBandwidthMax",
    "IOReadIOPSMax",
    "IOWriteIOPSMax",
    "AllowedCPUs",
    "AllowedMemoryNodes",
    "MemoryMax",
    "MemoryHigh",
    "TasksMax",
    "CPUWeight",
    "CPUQuota",
];

/// The same, to look up: each unit has a few dozen.
static INDEX: LazyLock<HashSet<&str>> = LazyLock::new(|| HONOURED.iter().copied().collect());

/// Fields of which some values are what happens anyway.
fn is_as_it_is(unit: &Unit, field: &str) -> bool {
    let settings = &unit.settings;
    match field {
        "StandardInput" | "StandardOutput" | "StandardError" => {
            program::is_known_stream(settings, field)
        }
        "Personality" => program::is_native(settings),
        "SyslogIdentifier" => printed::has_known_identifier(settings),
        "Delegate" => unit.kind() == UnitType::Service,
        "MemoryAccounting" | "TasksAccounting" | "CPUAccounting" | "IOAccounting" => true,
        // A socket is made by the daemon, in whose group it counts.
        "IPAddressAllow" | "IPAddressDeny" => {
            matches!(
                unit.kind(),
                UnitType::Service | UnitType::Mount | UnitType::Swap
            )
        }
        // What it isn't is told by `unsupported`.
        "Slice" => true,
        _ => false,
    }
}

/// What is to be said of a unit before it runs: its files' findings, and what isn't honoured.
pub(crate) fn report(unit: &Unit, exists: &dyn Fn(&UnitName) -> bool) -> Vec<Finding> {
    let honours = |field: &str| INDEX.contains(field) || is_as_it_is(unit, field);
    let mut findings = verify::findings(unit, &honours, exists);
    findings.extend(unsupported(unit));
    findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
    findings
}

/// Why a unit can't be used; `None`: it can.
pub(crate) fn refusal(findings: &[Finding]) -> Option<String> {
    let worst = findings.iter().find(|it| it.severity == Severity::Error)?;
    Some(worst.to_string())
}

/// What can't be told by directives alone.
fn unsupported(unit: &Unit) -> Vec<Finding> {
    let finding = |severity, subject: &str, message: String| Finding {
        severity,
        path: unit.fragment.clone().unwrap_or_else(|| unit.id.to_string()),
        at: Position::default(),
        subject: subject.to_owned(),
        message,
    };
    let mut found = Vec::new();
    if unit.masked.is_some() {
        return found;
    }
    let kind = unit.kind();
    if kind == UnitType::Socket
        && let Some((directive, message)) = super::socket::rules::wrong(unit)
    {
        found.push(finding(Severity::Error, directive, message));
    }
    found
}

/// Whether a command runs as the unit's user (systemd.service(5), table 1).
pub(crate) const fn as_user(privileges: Privileges) -> bool {
    !matches!(privileges, Privileges::Full | Privileges::KeepUser)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::calendar::zones::UtcOnly;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    fn said(text: &str) -> Vec<String> {
        let name = UnitName::parse("a.service").unwrap();
        let text = format!("[Service]\nExecStart=/bin/x\n{text}\n");
        let unit = from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly);
        let found = report(&unit, &|_| true);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_field_that_is_honoured_is_one() {
        for field in HONOURED.iter().copied() {
            let known = units::table::all().any(|(_, row)| row.field == field);
            assert!(known, "{field} is in no row of the table");
        }
    }

    #[test]
    fn what_would_leave_rights_stops_a_unit_and_other_things_are_told() {
        for (text, part) in [
            ("RootImage=/x", "error: RootImage: is not honoured"),
            (
                "SetCredentialEncrypted=x:y",
                "error: SetCredentialEncrypted",
            ),
            (
                "LoadCredentialEncrypted=x",
                "error: LoadCredentialEncrypted",
            ),
            ("Personality=s390", "error: Personality"),
            ("LogLevelMax=err", "warning: LogLevelMax"),
            ("SyslogIdentifier=a b", "warning: SyslogIdentifier"),
            ("StandardOutput=kmsg", "warning: StandardOutput"),
            ("StandardInput=fd:x", "warning: StandardInput"),
        ] {
            let said = said(text);
            assert!(said.iter().any(|it| it.contains(part)), "{text}: {said:?}");
        }
        for text in [
            "KillMode=control-group",
            "KillMode=process\nSendSIGKILL=no\nSendSIGHUP=yes\nFinalKillSignal=SIGQUIT",
            "Type=dbus\nBusName=org.x.y",
            "Type=forking\nPIDFile=/run/x.pid\nGuessMainPID=no",
            "Type=notify\nWatchdogSec=5\nNotifyAccess=all\nTimeoutStopSec=infinity",
            "ExecStartPre=@/bin/x y",
            "StandardOutput=journal",
            "StandardInput=data\nStandardInputText=x\nStandardOutput=append:/x\nStandardError=null",
            "DynamicUser=yes\nStateDirectory=x\nCacheDirectoryMode=0700",
            "LoadCredential=x\nSetCredential=y:z\nImportCredential=w.*",
            "OOMPolicy=kill\nExecSearchPath=/opt/bin\nPassEnvironment=A",
            "IOSchedulingClass=idle\nCPUSchedulingPolicy=batch\nKeyringMode=shared",
            "PrivateTmp=yes",
            "User=www\nRemoveIPC=yes\nDelegate=cpu memory",
            "SyslogIdentifier=web\nSyslogFacility=mail\nSyslogLevel=err\nSyslogLevelPrefix=no",
            "ProtectSystem=strict",
            "Slice=web.slice",
            "Nice=5",
        ] {
            assert_eq!(said(text), Vec::<String>::new(), "{text}");
        }
    }
}
