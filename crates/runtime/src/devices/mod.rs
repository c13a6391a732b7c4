// SPDX-License-Identifier: Apache-2.0
//! Devices of containers (ADR 40): the rules of a container's group, which hold whatever nodes its
//! image brings, and the nodes of those devices that were asked for, prepared as detached mounts.
//!
//! The kernel keeps the rules with the group, so a daemon that comes back finds them there.

mod every;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use init::protocol::MountTarget;
use kernel::cgroup::Cgroup;
use kernel::cgroup::devices::{Access, Kind, Program, Rule, harmless};
use kernel::fsutil::{self, OpenFlags, Resolve};
use kernel::mount::{self, Attributes};
use model::cell::{CellSpec, Mount};
use model::device::Device;
use model::error::{Error, Reason};
use model::hook::Hook;
use model::status::{Condition, Object};
use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid};

use crate::cdi;
use crate::index::{Index, Key};
use crate::mounts::Prepared;

/// The condition of a container whose group has no rules of devices.
const NO_RULES: &str = "DevicesNotRestricted";
/// The name of the node in its tmpfs.
const NODE: &str = "node";
/// The size of that tmpfs, in bytes.
const ROOM: u64 = 4096;

/// A device that a container asks for, as it is on the node.
pub(crate) struct Found {
    kind: FileType,
    major: u32,
    minor: u32,
    /// Permission bits of the node's own file.
    mode: u32,
    access: Access,
    target: String,
}

/// The rules of containers that ask for no device are the same for all.
static HARMLESS: OnceLock<Arc<Program>> = OnceLock::new();

/// The devices that a cell asks for, with what those bring that have a name.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) found: Vec<Found>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) hooks: Vec<Hook>,
}

/// Looks at the devices that a cell asks for. `folders`: where names of devices are explained.
///
/// # Errors
/// `INVALID_FIELD`: there is no such device, or a container around it hasn't got it. What
/// [`cdi::resolve`] says of a name.
pub(crate) fn find(
    index: &Index,
    key: &Key,
    spec: &CellSpec,
    folders: &[PathBuf],
) -> Result<Asked, Error> {
    let mut asked = Asked::default();
    let devices = spec.container.iter().flat_map(|it| &it.devices);
    for (at, device) in devices.enumerate() {
        let field = format!("cell.spec.container.devices[{at}]");
        check_around(index, key, &device.path).map_err(|error| error.field(field.clone()))?;
        let within = |error: Error| error.field(format!("{field}.path"));
        if !device.is_named() {
            asked.found.push(look_at(device).map_err(within)?);
            continue;
        }
        let edits = cdi::resolve(folders, &device.path).map_err(within)?;
        for device in &edits.devices {
            asked.found.push(look_at(device).map_err(within)?);
        }
        asked.mounts.extend(edits.mounts);
        asked.env.extend(edits.env);
        asked.hooks.extend(edits.hooks);
    }
    if spec.container.as_ref().is_some_and(|it| it.all_devices) {
        let field = "cell.spec.container.all_devices";
        check_around(index, key, ALL).map_err(|error| error.field(field))?;
        let taken: BTreeSet<_> = asked.found.iter().map(|it| it.target.clone()).collect();
        let every = every::find(&taken).map_err(|error| error.field(field))?;
        asked.found.extend(every);
    }
    Ok(asked)
}

/// What a container asks for that asks for all.
const ALL: &str = "every device of the node";

/// What the rules of a group around refuse stays refused.
fn check_around(index: &Index, key: &Key, asked: &str) -> Result<(), Error> {
    for around in std::iter::successors(key.parent(), Key::parent) {
        let object = index.at(&around);
        let Some(Object::Cell(cell)) = object.as_deref() else {
            continue;
        };
        let Some(container) = &cell.spec.container else {
            continue;
        };
        let has = container.devices.iter().any(|has| has.path == asked);
        if !has && !container.all_devices {
            let problem = format!("{asked} isn't a device of the container {}", around.path);
            return Err(Error::invalid("", problem).hint("give that container the device as well"));
        }
    }
    Ok(())
}

fn look_at(device: &Device) -> Result<Found, Error> {
    let bad = |problem: String| {
        Error::invalid("", format!("{} {problem}", device.path))
            .hint("name a device of the node by its real path, such as /dev/fuse")
    };
    let root = fsutil::open_directory(Path::new("/")).map_err(|e| bad(e.to_string()))?;
    let below = device.path.trim_start_matches('/');
    let resolve = Resolve::BeneathNoSymlinks;
    let file = fsutil::open_below(root, Path::new(below), OpenFlags::PATH, 0, resolve);
    let file = file.map_err(|e| bad(format!("can't be looked at: {e}")))?;
    let stat = rustix::fs::fstat(&file).map_err(|e| bad(format!("can't be looked at: {e}")))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
        return Err(bad("is no device".to_owned()));
    }
    Ok(Found::of(device, &stat))
}

impl Found {
    fn of(device: &Device, stat: &rustix::fs::Stat) -> Found {
        Found {
            kind: FileType::from_raw_mode(stat.st_mode),
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
            mode: stat.st_mode & 0o777,
            access: Access::parse(device.effective_access()).unwrap_or_default(),
            target: device.effective_target().to_owned(),
        }
    }

    fn rule(&self) -> Rule {
        Rule {
            allow: true,
            kind: match self.kind {
                FileType::BlockDevice => Kind::Block,
                _ => Kind::Character,
            },
            major: Some(self.major),
            minor: Some(self.minor),
            access: self.access,
        }
    }

    /// A node of it that belongs to the cell's root, in a file system of its own: the node's has
    /// owners that no cell has. Where the node may make no device, there is nothing to give.
    fn prepare(&self, root_id: u32) -> Result<Prepared, kernel::Error> {
        use kernel::Context;
        let tmpfs = mount::tmpfs(ROOM, 0o755, Attributes::NO_SUID | Attributes::NO_EXEC)?;
        let name = Path::new(NODE);
        let mode = Mode::from_raw_mode(self.mode);
        let number = rustix::fs::makedev(self.major, self.minor);
        rustix::fs::mknodat(&tmpfs, name, self.kind, mode, number).call_on("mknod", name)?;
        // The umask has taken something away.
        rustix::fs::chmodat(&tmpfs, name, mode, AtFlags::empty()).call_on("chmod", name)?;
        let (uid, gid) = (Uid::from_raw(root_id), Gid::from_raw(root_id));
        rustix::fs::chownat(&tmpfs, name, Some(uid), Some(gid), AtFlags::empty())
            .call_on("chown", name)?;
        Ok(Prepared {
            mount: tmpfs,
            file: Some(NODE),
            target: MountTarget {
                target: self.target.clone().into_bytes(),
                directory: false,
            },
        })
    }
}

/// The nodes of the devices, for the container's `/dev`. `root_id`: the node's id of its root.
pub(crate) fn prepare<'a>(
    found: impl Iterator<Item = &'a Found>,
    root_id: u32,
) -> impl Iterator<Item = Result<Prepared, Error>> {
    found.map(move |device| {
        device.prepare(root_id).map_err(|error| {
            let message = format!("a device of the container can't be made: {error}");
            let hint =
                "the node itself may make no devices, as in a container: run auraed on a host";
            Error::new(Reason::Unsupported, message)
                .errno(error.errno())
                .field("cell.spec.container.devices")
                .hint(hint)
        })
    })
}

/// Restricts a container's group to the devices that it may use. Without rules at all the mounts
/// of a container still have no devices but its own: that is a condition of the cell
/// ([`conditions`]), and a refusal where devices are asked for.
///
/// # Errors
/// `UNSUPPORTED`: devices are asked for, and the node may have no rules; or it may have some, and
/// not for this group. Any other failure of the kernel's.
pub(crate) fn restrict(group: &Cgroup, spec: &CellSpec, found: &[Found]) -> Result<(), Error> {
    let Some(container) = &spec.container else {
        return Ok(());
    };
    let rules = match container.all_devices {
        true => Rules::All,
        false => Rules::Of(found),
    };
    let program = match program(rules) {
        Ok(program) => program,
        Err(error) if found.is_empty() && has_no_rules(&error) => {
            tracing::warn!(%error, "a container has no rules of devices");
            return Ok(());
        }
        Err(error) => return Err(unrestricted(&error)),
    };
    // A node that takes rules takes them for every group: one that is refused them is no node
    // without them.
    let attached = group.restrict_devices(&program);
    attached.map_err(|error| unrestricted(&error))
}

fn unrestricted(error: &kernel::Error) -> Error {
    let message = format!("the container's devices can't be restricted: {error}");
    Error::new(Reason::Unsupported, message)
        .errno(error.errno())
        .field("cell.spec.container.devices")
        .hint("auraed needs CAP_BPF and CAP_NET_ADMIN, and a kernel with CONFIG_CGROUP_BPF")
}

/// Whether the node may have no rules, whatever they are: loading them is refused so.
fn has_no_rules(error: &kernel::Error) -> bool {
    use rustix::io::Errno;
    let never = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL];
    never.iter().any(|errno| error.is(errno.raw_os_error()))
}

/// The rules of a container with these devices, loaded.
fn program(rules: Rules<'_>) -> Result<Arc<Program>, kernel::Error> {
    let rules = match rules {
        Rules::All => vec![EVERY],
        Rules::Of([]) => {
            if let Some(program) = HARMLESS.get() {
                return Ok(program.clone());
            }
            let program = Arc::new(Program::load(&harmless())?);
            return Ok(HARMLESS.get_or_init(|| program).clone());
        }
        Rules::Of(found) => {
            let mut rules = harmless();
            rules.extend(found.iter().map(Found::rule));
            rules
        }
    };
    Program::load(&rules).map(Arc::new)
}

/// What a container may use.
enum Rules<'a> {
    /// Also what comes later: of that it can make no node, and an administrator can.
    All,
    Of(&'a [Found]),
}

const EVERY: Rule = Rule {
    allow: true,
    kind: Kind::All,
    major: None,
    minor: None,
    access: Access::ALL,
};

/// What is to be said of a cell's devices: nothing where the kernel has their rules.
pub(crate) fn conditions(spec: &CellSpec, group: &Cgroup) -> Vec<Condition> {
    if spec.container.is_none() || group.has_device_rules().is_ok_and(|has| has) {
        return Vec::new();
    }
    let message = "the kernel doesn't allow device rules (eBPF) here: only nodev mounts restrict \
                   devices in this container";
    vec![crate::cell::executable::condition(
        NO_RULES,
        "NoRules",
        message.to_owned(),
    )]
}

/// A mount that is attached by the name of a file in it.
pub(crate) type InFile = (OwnedFd, Option<&'static str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn device(path: &str) -> Device {
        Device {
            path: path.to_owned(),
            ..Device::default()
        }
    }

    #[test]
    fn a_device_is_what_the_node_has_by_that_path() {
        let null = look_at(&device("/dev/null")).unwrap();
        assert_eq!((null.major, null.minor), (1, 3));
        assert_eq!(null.rule().kind, Kind::Character);
        for wrong in ["/dev", "/etc/passwd", "/dev/nosuch", "/dev/stdin"] {
            let error = look_at(&device(wrong)).err().unwrap();
            assert_eq!(error.reason, Reason::InvalidField, "{error}");
            assert!(error.message.contains(wrong), "{error}");
        }
    }
}
