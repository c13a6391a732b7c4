// SPDX-License-Identifier: Apache-2.0
//! What a unit's sandbox directives say, with what they imply of each other. Pure.

use units::unit::Settings;

/// `ProtectSystem=`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum System {
    #[default]
    No,
    Yes,
    Full,
    Strict,
}

/// `ProtectHome=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Home {
    #[default]
    No,
    Yes,
    ReadOnly,
    Temporary,
}

/// See the module. The fields are the directives of these names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wants {
    pub(super) dynamic_user: bool,
    pub(super) private_tmp: bool,
    pub(super) private_devices: bool,
    pub(super) private_network: bool,
    pub(super) private_users: bool,
    pub(super) private_ipc: bool,
    pub(super) private_mounts: bool,
    pub(super) protect_kernel_tunables: bool,
    pub(super) protect_kernel_modules: bool,
    pub(super) protect_kernel_logs: bool,
    pub(super) protect_control_groups: bool,
    pub(super) protect_clock: bool,
    pub(super) protect_hostname: bool,
    pub(super) restrict_suid_sgid: bool,
    pub(super) system: System,
    pub(super) home: Home,
    /// `hidepid=` of proc; empty: as it is.
    pub(super) protect_proc: &'static str,
    pub(super) proc_only: bool,
    pub(super) root: Option<String>,
    pub(super) mount_api: bool,
}

impl Wants {
    pub(super) fn of(settings: &Settings) -> Wants {
        let flag = |field: &str| settings.flag(field) == Some(true);
        let dynamic_user = flag("DynamicUser");
        let system = match (settings.word("ProtectSystem"), flag("ProtectSystem")) {
            (Some("strict"), _) => System::Strict,
            (Some("full"), _) => System::Full,
            (_, true) => System::Yes,
            _ => System::No,
        };
        let home = match (settings.word("ProtectHome"), flag("ProtectHome")) {
            (Some("read-only"), _) => Home::ReadOnly,
            (Some("tmpfs"), _) => Home::Temporary,
            (_, true) => Home::Yes,
            // systemd.exec(5), DynamicUser=.
            _ if dynamic_user => Home::ReadOnly,
            _ => Home::No,
        };
        let root = settings.text("RootDirectory").filter(|it| *it != "/");
        Wants {
            dynamic_user,
            private_tmp: dynamic_user || flag("PrivateTmp"),
            private_devices: flag("PrivateDevices"),
            private_network: flag("PrivateNetwork"),
            private_users: flag("PrivateUsers"),
            private_ipc: flag("PrivateIPC"),
            private_mounts: flag("PrivateMounts"),
            protect_kernel_tunables: flag("ProtectKernelTunables"),
            protect_kernel_modules: flag("ProtectKernelModules"),
            protect_kernel_logs: flag("ProtectKernelLogs"),
            protect_control_groups: flag("ProtectControlGroups"),
            protect_clock: flag("ProtectClock"),
            protect_hostname: flag("ProtectHostname"),
            restrict_suid_sgid: dynamic_user || flag("RestrictSUIDSGID"),
            system: match dynamic_user {
                true => System::Strict,
                false => system,
            },
            home,
            protect_proc: settings
                .word("ProtectProc")
                .filter(|it| *it != "default")
                .unwrap_or_default(),
            proc_only: settings.word("ProcSubset") == Some("pid"),
            mount_api: settings.flag("MountAPIVFS").unwrap_or(root.is_some()),
            root: root.map(str::to_owned),
        }
    }

    /// Capabilities that are taken away, by their numbers' bits.
    pub(super) fn lost_capabilities(&self) -> u64 {
        let mut lost = 0;
        for (wanted, numbers) in [
            // MKNOD, SYS_RAWIO.
            (self.private_devices, &[27, 17][..]),
            // SYS_MODULE.
            (self.protect_kernel_modules, &[16]),
            // SYSLOG.
            (self.protect_kernel_logs, &[34]),
            // SYS_TIME, WAKE_ALARM.
            (self.protect_clock, &[25, 35]),
        ] {
            if wanted {
                lost |= numbers.iter().fold(0, |all, number| all | 1_u64 << number);
            }
        }
        lost
    }
}
