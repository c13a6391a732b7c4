// SPDX-License-Identifier: Apache-2.0
//! Why fields of a unit can't be taken, in words.

const OTHER: &str = "a schedule has no such thing";
const NEEDS: &str = "a schedule waits for other schedules, and for units, by `needs`";
const ONE: &str = "a run is one program; make it part of that program";
const FILES: &str = "a cell sees of the node's files what `mounts` of its cell names, and writes \
    where that says whose files they are";
const OUTPUT: &str = "what it prints is in its log: `aurae schedule logs`";
const CALLS: &str = "the profile of system calls that every cell has holds; `seccomp` may say more";
const LISTEN: &str = "what it says of itself isn't heard; it counts as started once it runs";
const ROOT: &str = "the root of a cell is the node's, or an image's";
const TESTS: &str = "nothing is tested before a run; let the program do it";

/// Fields, by their names, and the reason that they share.
const REASONS: &[(&str, &[&str])] = &[
    (
        NEEDS,
        &[
            "After",
            "Before",
            "BindsTo",
            "Conflicts",
            "OnFailure",
            "OnSuccess",
            "PartOf",
            "PropagatesReloadTo",
            "PropagatesStopTo",
            "ReloadPropagatedFrom",
            "Requires",
            "RequiresMountsFor",
            "Requisite",
            "StopPropagatedFrom",
            "Upholds",
            "Wants",
        ],
    ),
    (TESTS, &["Asserts", "Conditions", "ExecCondition"]),
    (ONE, &["ExecStartPost", "ExecStartPre", "ExecStopPost"]),
    (
        "it is ended by its stop signal, and after `stopGrace` by SIGKILL",
        &[
            "ExecStop",
            "FinalKillSignal",
            "KillMode",
            "RestartKillSignal",
            "SendSIGHUP",
        ],
    ),
    (
        "send its signal by `aurae kill`",
        &["ExecReload", "ReloadSignal"],
    ),
    (
        FILES,
        &[
            "BindPaths",
            "BindReadOnlyPaths",
            "CacheDirectory",
            "ConfigurationDirectory",
            "InaccessiblePaths",
            "LogsDirectory",
            "ReadOnlyPaths",
            "ReadWritePaths",
            "RuntimeDirectory",
            "StateDirectory",
            "TemporaryFileSystem",
        ],
    ),
    (
        OUTPUT,
        &[
            "LogExtraFields",
            "LogLevelMax",
            "LogNamespace",
            "LogRateLimitBurst",
            "LogRateLimitIntervalSec",
            "StandardError",
            "StandardOutput",
            "SyslogFacility",
            "SyslogIdentifier",
            "SyslogLevel",
            "SyslogLevelPrefix",
        ],
    ),
    (
        CALLS,
        &[
            "LockPersonality",
            "MemoryDenyWriteExecute",
            "RestrictAddressFamilies",
            "RestrictNamespaces",
            "RestrictRealtime",
            "RestrictSUIDSGID",
            "SystemCallArchitectures",
            "SystemCallErrorNumber",
            "SystemCallFilter",
            "SystemCallLog",
        ],
    ),
    (
        LISTEN,
        &[
            "BusName",
            "FileDescriptorStoreMax",
            "NotifyAccess",
            "WatchdogSec",
        ],
    ),
    (
        "what is started is the main process",
        &["ExitType", "GuessMainPID", "PIDFile"],
    ),
    (
        ROOT,
        &[
            "MountAPIVFS",
            "MountFlags",
            "RootDirectory",
            "RootDirectoryStartOnly",
            "RootImage",
        ],
    ),
    (
        "its descriptors are three; it listens itself",
        &["NonBlocking", "Sockets"],
    ),
    (
        "each cell has users of its own; `user` may name one of /etc/passwd",
        &["DynamicUser", "PAMName"],
    ),
    ("a run that has ended has ended", &["RemainAfterExit"]),
    (
        "a start has no time-out; a run has no end but its own",
        &["RuntimeMaxSec", "TimeoutStartSec"],
    ),
    (
        "read them, and give them as `env`",
        &["PassEnvironment", "UnsetEnvironment"],
    ),
    (
        "a time is a time",
        &[
            "FixedRandomDelay",
            "OnClockChange",
            "OnTimezoneChange",
            "RandomizedDelaySec",
            "WakeSystem",
        ],
    ),
    (
        "the node decides where its groups are",
        &["Delegate", "Slice"],
    ),
];

/// Why a field isn't taken.
pub(super) fn reason(field: &str) -> &'static str {
    let found = REASONS.iter().find(|(_, fields)| fields.contains(&field));
    found.map_or(OTHER, |(reason, _)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_for_fields_that_are_not_taken() {
        for field in REASONS.iter().flat_map(|(_, fields)| *fields) {
            let known = units::table::all().any(|(_, row)| row.field == *field);
            // Of systemd 253.
            assert!(known || *field == "ReloadSignal", "{field}");
            assert!(!units::honoured::by_schedules(field), "{field}");
        }
    }
}
