// SPDX-License-Identifier: Apache-2.0
//! Which fields of a unit are honoured where it runs as a schedule on a node, which is what `aurae
//! import` makes of it. `verify` tells the others. One list, so that what is told and what is made
//! are the same.

/// What a schedule has a field for, or what the importer follows.
const TAKEN: &[&str] = &[
    "AccuracySec",
    "AmbientCapabilities",
    "CPUAffinity",
    "CPUQuota",
    "CPUWeight",
    "CapabilityBoundingSet",
    "Clocks",
    "Description",
    "Documentation",
    "Environment",
    "EnvironmentFile",
    "ExecStart",
    "Group",
    "IOWeight",
    "KillSignal",
    "LimitAS",
    "LimitCORE",
    "LimitCPU",
    "LimitDATA",
    "LimitFSIZE",
    "LimitMEMLOCK",
    "LimitNOFILE",
    "LimitNPROC",
    "LimitRTPRIO",
    "LimitSTACK",
    "MemoryHigh",
    "MemoryLow",
    "MemoryMax",
    "MemoryMin",
    "Nice",
    "NoNewPrivileges",
    "OOMScoreAdjust",
    "Persistent",
    "Restart",
    "RestartSec",
    "StartLimitBurst",
    "StartLimitIntervalSec",
    "SupplementaryGroups",
    "TasksMax",
    "TimeoutStopSec",
    "Type",
    "UMask",
    "Unit",
    "User",
    "WorkingDirectory",
];

/// What holds of every cell, asked for or not (`docs/guide/cells.md`).
const OF_EVERY_CELL: &[&str] = &[
    "CPUAccounting",
    "DefaultDependencies",
    "IOAccounting",
    "MemoryAccounting",
    "PrivateDevices",
    "PrivateIPC",
    "PrivateMounts",
    "PrivateNetwork",
    "PrivateTmp",
    "PrivateUsers",
    "ProtectClock",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProtectSystem",
    "SendSIGKILL",
    "TasksAccounting",
];

/// What is for the installing tool, and means nothing while a unit runs.
const OF_INSTALLING: &[&str] = &["Alias", "Also", "DefaultInstance", "RequiredBy", "WantedBy"];

/// Whether a schedule that was made of a unit honours what the field says.
pub fn by_schedules(field: &str) -> bool {
    [TAKEN, OF_EVERY_CELL, OF_INSTALLING]
        .into_iter()
        .any(|list| list.binary_search(&field).is_ok())
}

/// Whether every cell is as the field asks for, so that nothing has to be said.
pub fn by_every_cell(field: &str) -> bool {
    OF_EVERY_CELL.binary_search(&field).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order_and_name_fields() {
        for list in [TAKEN, OF_EVERY_CELL, OF_INSTALLING] {
            assert!(list.is_sorted(), "{list:?}");
            for field in list {
                assert!(
                    crate::table::all().any(|(_, row)| row.field == *field),
                    "{field}"
                );
            }
        }
        assert!(by_schedules("ExecStart") && !by_schedules("SystemCallFilter"));
    }
}
