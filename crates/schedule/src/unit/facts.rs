// SPDX-License-Identifier: Apache-2.0
//! What the machine says of itself, for conditions and specifiers. Read when it is asked for: a
//! condition holds at the moment at which its unit is started. What isn't known is `None`, and the
//! condition doesn't hold then.

use std::fs;
use std::path::Path;

use rustix::fs::{Access, StatVfsMountFlags};
use units::condition::{Facts, PathTest, Virtualization};
use units::glob;
use units::specifier::{Fact, Host};

use super::accounts;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Machine;

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim_end().to_owned())
}

/// A field of a file of `NAME=value` lines; empty where it isn't there.
fn field(path: &str, name: &str) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let file = units::exec::environment::parse_file(&bytes);
    let found = file
        .variables
        .into_iter()
        .rev()
        .find(|(key, _)| key == name);
    found.map(|(_, value)| value).unwrap_or_default()
}

/// os-release(5).
fn os_release(name: &str) -> String {
    let first = Path::new("/etc/os-release");
    match first.exists() {
        true => field("/etc/os-release", name),
        false => field("/usr/lib/os-release", name),
    }
}

pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86-64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Host for Machine {
    fn fact(&self, fact: Fact) -> Option<String> {
        let hex = |text: String| text.replace('-', "");
        Some(match fact {
            Fact::Architecture => architecture().to_owned(),
            Fact::ImageVersion => os_release("IMAGE_VERSION"),
            Fact::BootId => hex(line("/proc/sys/kernel/random/boot_id")?),
            Fact::BuildId => os_release("BUILD_ID"),
            Fact::HostName => line("/proc/sys/kernel/hostname")?,
            Fact::MachineId => line("/etc/machine-id").filter(|it| it.len() == 32)?,
            Fact::ImageId => os_release("IMAGE_ID"),
            Fact::OsId => os_release("ID"),
            Fact::PrettyHostName => field("/etc/machine-info", "PRETTY_HOSTNAME"),
            Fact::KernelRelease => line("/proc/sys/kernel/osrelease")?,
            Fact::OsVersion => os_release("VERSION_ID"),
            Fact::OsVariant => os_release("VARIANT_ID"),
        })
    }
}

impl Facts for Machine {
    fn path(&self, test: PathTest, path: &str) -> Option<bool> {
        let meta = || fs::metadata(path);
        Some(match test {
            PathTest::Exists => Path::new(path).exists(),
            PathTest::GlobExists => globbed(path),
            PathTest::IsDirectory => meta().is_ok_and(|it| it.is_dir()),
            PathTest::IsSymbolicLink => fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink()),
            PathTest::IsMountPoint => is_mount_point(path),
            PathTest::IsReadWrite => {
                let flags = rustix::fs::statvfs(path).ok()?.f_flag;
                !flags.contains(StatVfsMountFlags::RDONLY)
            }
            PathTest::IsEncrypted => return None,
            PathTest::DirectoryNotEmpty => {
                fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
            }
            PathTest::FileNotEmpty => meta().is_ok_and(|it| it.is_file() && it.len() > 0),
            PathTest::FileIsExecutable => {
                let runs = rustix::fs::access(path, Access::EXEC_OK).is_ok();
                runs && meta().is_ok_and(|it| it.is_file())
            }
            PathTest::NeedsUpdate => return needs_update(path),
        })
    }

    fn text(&self, what: &str) -> Option<String> {
        match what {
            "architecture" => Some(architecture().to_owned()),
            "kernel-release" => line("/proc/sys/kernel/osrelease"),
            "machine-id" => line("/etc/machine-id"),
            "host-name" => line("/proc/sys/kernel/hostname"),
            "firmware" => Some(match Path::new("/sys/firmware/efi").exists() {
                true => "uefi".to_owned(),
                false => String::new(),
            }),
            "user" | "group" => Some("0".to_owned()),
            _ => None,
        }
    }

    fn number(&self, what: &str) -> Option<u64> {
        match what {
            "memory" => {
                let text = fs::read_to_string("/proc/meminfo").ok()?;
                let total = text.lines().find_map(|it| it.strip_prefix("MemTotal:"))?;
                let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
                kib.checked_mul(1024)
            }
            "cpus" => u64::try_from(std::thread::available_parallelism().ok()?.get()).ok(),
            _ => None,
        }
    }

    fn has(&self, what: &str, word: &str) -> Option<bool> {
        match what {
            "security" => match word {
                "apparmor" => Some(flag("/sys/module/apparmor/parameters/enabled")),
                "selinux" => Some(Path::new("/sys/fs/selinux/enforce").exists()),
                "smack" => Some(Path::new("/sys/fs/smackfs").exists()),
                "ima" => Some(Path::new("/sys/kernel/security/ima").exists()),
                "tomoyo" => Some(Path::new("/sys/kernel/security/tomoyo").exists()),
                "uefi-secureboot" => Some(secure_boot()),
                "private-users" => Some(has_private_users(&line("/proc/self/uid_map")?)),
                _ => None,
            },
            "capability" => {
                let set: model::capability::CapabilitySet = word.parse().ok()?;
                let status = fs::read_to_string("/proc/self/status").ok()?;
                let bounding = status.lines().find_map(|it| it.strip_prefix("CapBnd:"))?;
                let own = u64::from_str_radix(bounding.trim(), 16).ok()?;
                Some(set.bits() & own == set.bits())
            }
            "cpu-feature" => {
                let text = fs::read_to_string("/proc/cpuinfo").ok()?;
                let is_list = |it: &&str| it.starts_with("flags") || it.starts_with("Features");
                let list = text.lines().find(is_list)?;
                Some(list.split_whitespace().any(|it| it == word))
            }
            "controller" => match word {
                "v2" => Some(Path::new("/sys/fs/cgroup/cgroup.controllers").exists()),
                "v1" => Some(!Path::new("/sys/fs/cgroup/cgroup.controllers").exists()),
                _ => {
                    let list = line("/sys/fs/cgroup/cgroup.controllers")?;
                    Some(list.split_whitespace().any(|it| it == word))
                }
            },
            // The node takes no credentials from around it.
            "credential" => Some(false),
            "users-name" | "groups-name" => Some(matches!(word, "root" | "0")),
            _ => None,
        }
    }

    fn virtualization(&self) -> Option<Option<Virtualization>> {
        let of = |name: &str, container| Virtualization {
            name: name.to_owned(),
            container,
        };
        let environment = fs::read("/proc/1/environ").unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        if let Some(name) = variables.find_map(|it| it.strip_prefix(b"container=")) {
            return Some(Some(of(&String::from_utf8_lossy(name), true)));
        }
        for (file, name) in [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")] {
            if Path::new(file).exists() {
                return Some(Some(of(name, true)));
            }
        }
        let vendor = line("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
        let product = line("/sys/class/dmi/id/product_name").unwrap_or_default();
        let known = [
            ("QEMU", "qemu"),
            ("KVM", "kvm"),
            ("Amazon EC2", "amazon"),
            ("VMware", "vmware"),
            ("innotek GmbH", "oracle"),
            ("Microsoft Corporation", "microsoft"),
            ("Bochs", "bochs"),
            ("Xen", "xen"),
        ];
        let text = format!("{vendor} {product}");
        let found = known.iter().find(|(part, _)| text.contains(part));
        let hypervisor = self.has("cpu-feature", "hypervisor") == Some(true);
        Some(match (found, hypervisor) {
            (Some((_, name)), true) => Some(of(name, false)),
            (None, true) => Some(of("vm-other", false)),
            (_, false) => None,
        })
    }

    fn command_line(&self) -> Option<Vec<String>> {
        let text = line("/proc/cmdline")?;
        Some(text.split_whitespace().map(str::to_owned).collect())
    }

    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn os_release(&self, name: &str) -> Option<String> {
        Some(os_release(name)).filter(|it| !it.is_empty())
    }

    fn on_mains(&self) -> Option<bool> {
        let supplies = fs::read_dir("/sys/class/power_supply")
            .into_iter()
            .flatten();
        let online = |entry: fs::DirEntry| {
            let of = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            (of("type").trim() == "Mains").then(|| of("online").trim() == "1")
        };
        let mains: Vec<bool> = supplies.flatten().filter_map(online).collect();
        // A machine without a supply to ask is on mains.
        Some(mains.is_empty() || mains.contains(&true))
    }

    fn first_boot(&self) -> Option<bool> {
        let id = line("/etc/machine-id").unwrap_or_default();
        Some(id.is_empty() || id == "uninitialized")
    }

    fn pressure(&self, resource: &str, slice: Option<&str>) -> Option<u64> {
        if slice.is_some() {
            return None;
        }
        let text = fs::read_to_string(format!("/proc/pressure/{resource}")).ok()?;
        let line = text.lines().next()?;
        let share = line
            .split_whitespace()
            .find_map(|it| it.strip_prefix("avg300="))?;
        let (whole, part) = share.split_once('.')?;
        let (whole, part): (u64, u64) = (whole.parse().ok()?, part.parse().ok()?);
        Some(whole * 100 + part)
    }
}

/// Whether users are others than the machine's: the map isn't that of all numbers to themselves.
fn has_private_users(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    words != ["0", "0", "4294967295"]
}

/// systemd.unit(5), ConditionNeedsUpdate=: /usr was changed after what is made from it.
fn needs_update(path: &str) -> Option<bool> {
    let flags = rustix::fs::statvfs(path).ok()?.f_flag;
    if flags.contains(StatVfsMountFlags::RDONLY) {
        return Some(false);
    }
    let usr = fs::metadata("/usr").ok()?.modified().ok()?;
    let done = fs::symlink_metadata(Path::new(path).join(".updated"));
    Some(
        done.and_then(|it| it.modified())
            .map_or(true, |it| usr > it),
    )
}

fn flag(path: &str) -> bool {
    line(path).is_some_and(|it| it == "Y" || it == "1")
}

fn secure_boot() -> bool {
    let path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    fs::read(path).is_ok_and(|bytes| bytes.last() == Some(&1))
}

/// Whether something is mounted at a path, by the kernel's own table.
pub(crate) fn is_mount_point(path: &str) -> bool {
    let path = units::files::normal(path);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut points = table.lines().filter_map(|it| it.split(' ').nth(4));
    points.any(|it| accounts::unescape_octal(it) == path)
}

/// Whether anything is at a path with patterns in its parts.
pub(crate) fn globbed(pattern: &str) -> bool {
    !matching(pattern).is_empty()
}

/// The files that a pattern names, in their order (glob(7)).
pub(crate) fn matching(pattern: &str) -> Vec<String> {
    let mut found = vec![String::from("/")];
    for part in pattern.split('/').filter(|it| !it.is_empty()) {
        let mut next = Vec::new();
        for folder in &found {
            let base = folder.trim_end_matches('/');
            if !glob::is_pattern(part) {
                let path = format!("{base}/{part}");
                if fs::symlink_metadata(&path).is_ok() {
                    next.push(path);
                }
                continue;
            }
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().into_string() else {
                    continue;
                };
                let hidden = name.starts_with('.') && !part.starts_with('.');
                if !hidden && glob::matches(part, &name) {
                    next.push(format!("{base}/{name}"));
                }
            }
        }
        next.sort();
        found = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::condition::{Verdict, evaluate};
    use units::name::UnitName;
    use units::specifier::NoHost;

    #[test]
    fn users_are_private_where_their_numbers_are_others() {
        assert!(!has_private_users("         0          0 4294967295"));
        assert!(has_private_users("         0     100000      65536"));
        let map = line("/proc/self/uid_map").unwrap();
        let holds = |text: &str| {
            let name = UnitName::parse("a.service").unwrap();
            let text = format!("[Unit]\n{text}\n");
            let zones = units::calendar::zones::UtcOnly;
            let files = [("/x", text.as_bytes())];
            let unit = units::unit::from_texts(&name, &files, &NoHost, &zones);
            evaluate(unit.settings.conditions("Conditions"), &Machine) == Verdict::Holds
        };
        let private = has_private_users(&map);
        assert_eq!(holds("ConditionVirtualization=private-users"), private);
        assert_eq!(holds("ConditionVirtualization=!private-users"), !private);
    }

    #[test]
    fn what_is_made_from_usr_is_made_anew_when_that_has_changed() {
        let folder = std::env::temp_dir().join(format!("aurae-needs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.to_str().unwrap();
        assert_eq!(needs_update(path), Some(true));
        fs::write(folder.join(".updated"), "").unwrap();
        assert_eq!(needs_update(path), Some(false));
        fs::remove_dir_all(folder).unwrap();
    }
}
