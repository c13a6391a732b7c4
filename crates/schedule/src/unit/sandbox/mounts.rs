// SPDX-License-Identifier: Apache-2.0
//! The directives that are mounts, as places of a namespace (systemd.exec(5)). Pure: what is there
//! is looked at when the namespace is made.

use runtime::sandbox::{Entry, Kind, MountOption, Mounts, Spread};
use units::unit::Settings;
use units::value::{Bind, Value};

use super::shared::Shared;
use super::wants::{Home, System, Wants};
use super::{Own, why};
use crate::unit::credentials::FOLDER;

// `MOUNT_ATTR_*`.
const READ_ONLY: u32 = 0x1;
const NO_SUID: u32 = 0x2;
const NO_DEV: u32 = 0x4;
const NO_EXEC: u32 = 0x8;
const STRICT_ACCESS_TIME: u32 = 0x20;
const NO_ACCESS_TIME: u32 = 0x10;

/// What the kernel's variables are (`ProtectKernelTunables=`).
const TUNABLES: [&str; 13] = [
    "/proc/acpi",
    "/proc/apm",
    "/proc/asound",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/latency_stats",
    "/proc/mttr",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/timer_stats",
    "/sys",
];

/// A folder that was made for the unit, and where its programs see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Folder {
    /// Where it is.
    pub(crate) source: String,
    /// Where it is seen.
    pub(crate) target: String,
    /// The directive.
    pub(crate) field: &'static str,
}

struct Plan<'a> {
    settings: &'a Settings,
    entries: Vec<Entry>,
}

/// The namespace of a unit; `None` where it needs none.
pub(super) fn mounts(
    settings: &Settings,
    wants: &Wants,
    own: &Own<'_>,
    (shared, accounts): (&Shared, Option<&[String; 2]>),
) -> Option<Mounts> {
    let mut plan = Plan {
        settings,
        entries: Vec::new(),
    };
    plan.lists();
    plan.binds();
    if let Some(tmp) = shared.tmp.as_ref().filter(|_| wants.private_tmp) {
        plan.bind("PrivateTmp", "/tmp", &tmp.tmp);
        plan.bind("PrivateTmp", "/var/tmp", &tmp.var_tmp);
    }
    plan.kernel(wants);
    plan.home(wants.home);
    plan.system(wants.system);
    plan.api(wants);
    let spread = match settings.text("MountFlags") {
        Some("slave") => Spread::Slave,
        Some("private") => Spread::Private,
        _ => Spread::Shared,
    };
    let needed = !plan.entries.is_empty()
        || wants.root.is_some()
        || wants.private_mounts
        || settings.text("MountFlags").is_some();
    // Folders of the unit are exceptions to what is there; alone they are nothing.
    plan.folders(wants, own.folders);
    if needed || accounts.is_some() {
        plan.credentials(own.credentials);
    }
    for (target, source) in ["/etc/passwd", "/etc/group"]
        .iter()
        .zip(accounts.into_iter().flatten())
    {
        let kind = bind_of(source, false, true);
        plan.add("DynamicUser", target, false, kind);
    }
    let hidden = plan
        .entries
        .iter()
        .any(|it| matches!(it.kind, Kind::Temporary { .. }));
    (needed || hidden || accounts.is_some()).then(|| Mounts {
        root: wants.root.as_ref().map(|it| it.clone().into_bytes()),
        propagation: spread,
        no_suid: settings.flag("NoNewPrivileges") == Some(true),
        entries: plan.entries,
    })
}

fn bind_of(source: &str, recursive: bool, read_only: bool) -> Kind {
    Kind::Bind {
        source: source.as_bytes().to_vec(),
        recursive,
        read_only,
    }
}

impl Plan<'_> {
    fn add(&mut self, field: &str, target: &str, optional: bool, kind: Kind) {
        self.entries.push(Entry {
            target: target.as_bytes().to_vec(),
            in_root: true,
            optional,
            kind,
            why: why(self.settings, field, target),
        });
    }

    fn bind(&mut self, field: &str, target: &str, source: &str) {
        self.add(field, target, false, bind_of(source, true, false));
    }

    /// What is implied may be absent.
    fn implied(&mut self, field: &str, targets: &[&str], kind: Kind) {
        for target in targets {
            self.add(field, target, true, kind.clone());
        }
    }

    fn lists(&mut self) {
        for (field, kind) in [
            ("InaccessiblePaths", Kind::Inaccessible),
            ("ReadOnlyPaths", Kind::ReadOnly),
            ("ReadWritePaths", Kind::ReadWrite),
            ("NoExecPaths", Kind::NoExec),
            ("ExecPaths", Kind::Exec),
        ] {
            for path in self.settings.paths(field) {
                self.add(field, &path.path, path.optional, kind.clone());
                if let Some(entry) = self.entries.last_mut() {
                    entry.in_root = path.in_root;
                }
            }
        }
    }

    fn binds(&mut self) {
        let of = |field: &str| match self.settings.get(field) {
            Some(Value::Binds(binds)) => binds.clone(),
            _ => Vec::new(),
        };
        let (plain, read_only) = (of("BindPaths"), of("BindReadOnlyPaths"));
        let temporary = of("TemporaryFileSystem");
        for (field, binds, read_only) in [
            ("BindPaths", plain, false),
            ("BindReadOnlyPaths", read_only, true),
        ] {
            for bind in binds {
                let recursive = bind.options != "norbind";
                let target = match bind.target.as_str() {
                    "" => &bind.source,
                    target => target,
                };
                let kind = bind_of(&bind.source, recursive, read_only);
                self.add(field, target, bind.optional, kind);
            }
        }
        for bind in temporary {
            let kind = temporary_of(&bind);
            self.add("TemporaryFileSystem", &bind.target, false, kind);
        }
    }

    fn kernel(&mut self, wants: &Wants) {
        if wants.private_devices {
            self.add("PrivateDevices", "/dev", false, Kind::Devices);
        }
        if wants.protect_kernel_tunables {
            let field = "ProtectKernelTunables";
            self.implied(field, &TUNABLES, Kind::ReadOnly);
            self.implied(
                field,
                &["/proc/kallsyms", "/proc/kcore"],
                Kind::Inaccessible,
            );
            // Another directive's.
            let others = ["/sys/fs/cgroup", "/sys/fs/selinux"];
            self.implied(field, &others, Kind::ReadWrite);
        }
        if wants.protect_kernel_modules {
            let folders = ["/lib/modules", "/usr/lib/modules"];
            self.implied("ProtectKernelModules", &folders, Kind::Inaccessible);
        }
        if wants.protect_kernel_logs {
            let files = ["/proc/kmsg", "/dev/kmsg"];
            self.implied("ProtectKernelLogs", &files, Kind::Inaccessible);
        }
        if wants.protect_control_groups {
            let tree = ["/sys/fs/cgroup"];
            self.implied("ProtectControlGroups", &tree, Kind::ReadOnly);
        }
        if wants.private_ipc && !wants.private_devices {
            self.add("PrivateIPC", "/dev/mqueue", true, Kind::Queues);
        }
    }

    fn home(&mut self, home: Home) {
        const FOLDERS: [&str; 3] = ["/home", "/root", "/run/user"];
        let kind = match home {
            Home::No => return,
            Home::Yes => Kind::Inaccessible,
            Home::ReadOnly => Kind::ReadOnly,
            Home::Temporary => Kind::Temporary {
                options: options_of("mode=0755"),
                attributes: READ_ONLY | NO_DEV | STRICT_ACCESS_TIME,
            },
        };
        self.implied("ProtectHome", &FOLDERS, kind);
    }

    fn system(&mut self, system: System) {
        let field = "ProtectSystem";
        if system == System::Strict {
            self.implied(field, &["/"], Kind::ReadOnly);
            // Other directives' all of them.
            let others = ["/proc", "/sys", "/dev", "/home", "/root", "/run/user"];
            return self.implied(field, &others, Kind::ReadWrite);
        }
        if system >= System::Yes {
            self.implied(field, &["/usr", "/boot", "/efi"], Kind::ReadOnly);
        }
        if system >= System::Full {
            self.implied(field, &["/etc"], Kind::ReadOnly);
        }
    }

    fn api(&mut self, wants: &Wants) {
        let own_proc = !wants.protect_proc.is_empty() || wants.proc_only;
        let in_root = wants.mount_api && wants.root.is_some();
        if own_proc || in_root {
            let field = match own_proc {
                true => "ProtectProc",
                false => "MountAPIVFS",
            };
            let kind = Kind::Processes {
                hide: wants.protect_proc.to_owned(),
                only: wants.proc_only,
            };
            self.add(field, "/proc", false, kind);
        }
        if in_root {
            self.bind("MountAPIVFS", "/sys", "/sys");
            if !wants.private_devices {
                self.bind("MountAPIVFS", "/dev", "/dev");
            }
            let kind = Kind::Temporary {
                options: options_of("mode=0755,size=20%"),
                attributes: NO_SUID | NO_DEV | STRICT_ACCESS_TIME,
            };
            self.add("MountAPIVFS", "/run", false, kind);
        }
    }

    /// A unit's own folders can be written whatever is read-only, and are there whatever is hidden.
    fn folders(&mut self, wants: &Wants, folders: &[Folder]) {
        for folder in folders {
            let moved = folder.source != folder.target || wants.root.is_some();
            if folder.source != folder.target
                && let Some((private, _)) = folder.source.rsplit_once("/private/")
            {
                // Only root may enter the node's own.
                let private = format!("{private}/private");
                let kind = Kind::Temporary {
                    options: options_of("mode=0755"),
                    attributes: NO_SUID | NO_DEV | NO_EXEC,
                };
                let link_is_hidden = self.is_hidden(&folder.target);
                self.add(folder.field, &private, false, kind);
                self.bind(folder.field, &folder.source, &folder.source);
                if link_is_hidden {
                    self.bind(folder.field, &folder.target, &folder.source);
                }
            } else if moved || self.is_hidden(&folder.target) {
                self.bind(folder.field, &folder.target, &folder.source);
            } else {
                self.add(folder.field, &folder.target, true, Kind::ReadWrite);
            }
        }
    }

    /// A unit doesn't see another unit's credentials, where it has a view of its own.
    fn credentials(&mut self, own: Option<&str>) {
        let field = "LoadCredential";
        match own {
            None => self.implied(field, &[FOLDER], Kind::Inaccessible),
            Some(folder) => {
                let kind = Kind::Temporary {
                    options: options_of("mode=0755"),
                    attributes: READ_ONLY | NO_SUID | NO_DEV | NO_EXEC,
                };
                self.add(field, FOLDER, false, kind);
                self.add(field, folder, false, bind_of(folder, false, true));
            }
        }
    }

    /// Whether an empty file system is mounted above it.
    fn is_hidden(&self, target: &str) -> bool {
        let target = std::path::Path::new(target);
        let mut new = self.entries.iter();
        new.any(|it| {
            let at = String::from_utf8_lossy(&it.target);
            matches!(it.kind, Kind::Temporary { .. }) && target.starts_with(&*at)
        })
    }
}

/// `TemporaryFileSystem=`: options of mount(8) and of tmpfs.
fn temporary_of(bind: &Bind) -> Kind {
    let mut attributes = NO_DEV | STRICT_ACCESS_TIME;
    let mut options = options_of("mode=0755,size=10%,nr_inodes=400k");
    for word in bind.options.split(',').filter(|it| !it.is_empty()) {
        match word {
            "ro" => attributes |= READ_ONLY,
            "rw" => attributes &= !READ_ONLY,
            "nosuid" => attributes |= NO_SUID,
            "suid" => attributes &= !NO_SUID,
            "nodev" => attributes |= NO_DEV,
            "dev" => attributes &= !NO_DEV,
            "noexec" => attributes |= NO_EXEC,
            "exec" => attributes &= !NO_EXEC,
            "strictatime" => attributes |= STRICT_ACCESS_TIME,
            "relatime" | "nostrictatime" => attributes &= !STRICT_ACCESS_TIME,
            "noatime" => attributes = attributes & !STRICT_ACCESS_TIME | NO_ACCESS_TIME,
            _ => {
                for option in options_of(word) {
                    options.retain(|it| it.name != option.name);
                    options.push(option);
                }
            }
        }
    }
    Kind::Temporary {
        options,
        attributes,
    }
}

/// Options with commas between.
fn options_of(text: &str) -> Vec<MountOption> {
    let option = |word: &str| {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        MountOption {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    };
    text.split(',')
        .filter(|it| !it.is_empty())
        .map(option)
        .collect()
}
