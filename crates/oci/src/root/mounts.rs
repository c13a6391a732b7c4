// SPDX-License-Identifier: Apache-2.0
//! The mounts of a container: each is made detached, with its attributes, and attached in one step
//! on a place that was found in the container's root ([`super::tree`]). So none is ever seen with
//! the wrong attributes, and no link of the image can lead one out.
//!
//! What binds a folder of the node is made by the runtime itself where it may ([`Planned::bind`]):
//! a process in a user namespace couldn't reach the source, nor map its owners. What shows a
//! namespace (proc, sysfs, mqueue, cgroup) is made by the container's own process.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::mount::{self, Attributes, Change, NewFileSystem, Propagation};
use kernel::{mount::userns, namespace};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::copy_up;
use super::options::{self, Options};
use super::tree::{self, Tree};
use crate::config::{Mount, Spec};
use crate::container::talk::End;
use crate::error::{Doing, Result, refuse};

/// File systems that are made with the newer calls, detached.
const DETACHED: [&str; 8] = [
    "tmpfs", "ramfs", "proc", "sysfs", "mqueue", "devpts", "cgroup", "cgroup2",
];

/// One mount of the configuration, on its way.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Which of the configuration's it is.
    number: usize,
    pub(crate) destination: PathBuf,
    kind: String,
    source: String,
    options: Options,
    /// SELinux's label of a new file system's files.
    label: String,
    maps: Option<OwnedFd>,
    /// The mount, once it is made.
    made: Option<OwnedFd>,
}

/// How the container's mounts and the node's see each other, where a mount says nothing itself.
pub(crate) fn root_propagation(spec: &Spec) -> Result<(Propagation, bool)> {
    match spec.linux.rootfs_propagation.as_str() {
        "" => Ok((Propagation::Slave, true)),
        word => match options::propagation(word) {
            Some(known) => Ok(known),
            None => refuse(format!(
                "linux.rootfsPropagation: {word:?} is no propagation"
            )),
        },
    }
}

/// All mounts of the configuration, none of them made.
pub(crate) fn plan(spec: &Spec, root: &Path) -> Result<Vec<Planned>> {
    let planned = spec.mounts.iter().enumerate().map(|(number, mount)| {
        let doing = format!("mount at {}", mount.destination.display());
        one(spec, number, mount, root).doing(doing)
    });
    planned.collect()
}

/// Maps the owners of a mount that the container's process has made, as the configuration's mount
/// of this number says.
pub(crate) fn map(spec: &Spec, number: usize, mount: &OwnedFd) -> Result<()> {
    let Some(wanted) = spec.mounts.get(number) else {
        return refuse("the container's process names a mount that isn't there");
    };
    let doing = format!("mount at {}", wanted.destination.display());
    let all = options::parse(&wanted.options).id_map == Some(true);
    map_ids(mount, &id_map(spec, wanted)?, all).doing(doing)
}

fn map_ids(mount: &OwnedFd, maps: &OwnedFd, recursive: bool) -> Result<()> {
    let change = Change {
        id_map: Some(maps.as_fd()),
        recursive,
        ..Change::default()
    };
    mount::set_attributes(mount, &change).doing("map ids")
}

fn one(spec: &Spec, number: usize, mount: &Mount, root: &Path) -> Result<Planned> {
    let mut options = options::parse(&mount.options);
    if mount.kind == "bind" && options.bind.is_none() {
        options.bind = Some(true);
    }
    let maps = match options.id_map.is_some() || !mount.uid_mappings.is_empty() {
        true => Some(id_map(spec, mount)?),
        false => None,
    };
    if maps.is_some() && options.bind.is_none() {
        return refuse("id mappings are for bind mounts");
    }
    // Some write the path of the node.
    let destination = &mount.destination;
    let destination = destination.strip_prefix(root).unwrap_or(destination);
    Ok(Planned {
        number,
        destination: Path::new("/").join(destination),
        kind: mount.kind.clone(),
        source: mount.source.clone(),
        options,
        label: spec.linux.mount_label.clone(),
        maps,
        made: None,
    })
}

/// The mount's own maps, or those of the container.
fn id_map(spec: &Spec, mount: &Mount) -> Result<OwnedFd> {
    let (uids, gids) = match mount.uid_mappings.is_empty() {
        false => (&mount.uid_mappings, &mount.gid_mappings),
        true => (&spec.linux.uid_mappings, &spec.linux.gid_mappings),
    };
    if uids.is_empty() || gids.is_empty() {
        let user = spec.linux.namespaces.iter().find(|n| n.kind == "user");
        return match user.filter(|user| !user.path.as_os_str().is_empty()) {
            Some(user) if mount.uid_mappings.is_empty() => Ok(namespace::open(&user.path)?),
            _ => refuse("id mappings: both uidMappings and gidMappings are needed"),
        };
    }
    let extents = |list: &[crate::config::linux::IdMapping]| {
        list.iter().map(|map| map.to_kernel()).collect::<Vec<_>>()
    };
    userns::with_maps(&extents(uids), &extents(gids)).doing("id mappings")
}

impl Planned {
    /// Makes a bind mount; `base` is how the root propagates. Other kinds stay as they are.
    pub(crate) fn bind(&mut self, base: (Propagation, bool)) -> Result<()> {
        let (Some(recursive), None) = (self.options.bind, &self.made) else {
            return Ok(());
        };
        let doing = format!("mount {} at {}", self.source, self.destination.display());
        let copy = mount::copy_tree(Path::new(&self.source), recursive).doing(&doing)?;
        self.take(copy, base, &doing)
    }

    /// Whether the source is in the container's own root, maybe in a mount that isn't there yet.
    pub(crate) fn is_of(&self, root: &Path) -> bool {
        self.options.bind.is_some() && Path::new(&self.source).starts_with(root)
    }

    /// [`Planned::bind`] of such a source: followed as what is in the container is.
    pub(crate) fn bind_own(
        &mut self,
        root: &Tree,
        path: &Path,
        base: (Propagation, bool),
        end: &End,
    ) -> Result<()> {
        let (Some(recursive), None) = (self.options.bind, &self.made) else {
            return Ok(());
        };
        let doing = format!("mount {} at {}", self.source, self.destination.display());
        let below = Path::new(&self.source)
            .strip_prefix(path)
            .unwrap_or(Path::new("."));
        let flags = kernel::fsutil::OpenFlags::PATH;
        let source = root
            .open(&Path::new("/").join(below), flags)
            .doing(&doing)?;
        let copy = mount::copy_tree_at(source, Path::new(""), recursive).doing(&doing)?;
        if self.maps.take().is_some() {
            end.map(self.number, copy.as_fd()).doing(&doing)?;
        }
        self.take(copy, base, &doing)
    }

    fn take(&mut self, copy: OwnedFd, base: (Propagation, bool), doing: &str) -> Result<()> {
        if let Some(maps) = self.maps.take() {
            map_ids(&copy, &maps, self.options.id_map == Some(true)).doing(doing)?;
        }
        // Towards the node only where the container's root was asked to be shared.
        if base.0 != Propagation::Shared {
            set_propagation(&copy, at_most_slave(base.0), true).doing(doing)?;
        }
        self.set(&copy).doing(doing)?;
        self.made = Some(copy);
        Ok(())
    }

    /// Makes what shows a namespace, in the container's process. `kind`s that only the old call
    /// makes are mounted by [`Planned::attach`].
    pub(crate) fn make(&mut self) -> Result<()> {
        // A tmpfs may have to know its place first.
        let later = self.kind == "tmpfs" || !DETACHED.contains(&self.kind.as_str());
        if self.made.is_some() || self.is_bind() || later {
            return Ok(());
        }
        let doing = format!("mount {} at {}", self.kind, self.destination.display());
        let made = match self.kind.as_str() {
            "cgroup" | "cgroup2" => self.groups(),
            _ => self.new_file_system(None),
        };
        self.keep(made.doing(&doing)?).doing(&doing)
    }

    fn keep(&mut self, made: OwnedFd) -> Result<()> {
        for (propagation, all) in &self.options.propagation {
            set_propagation(&made, *propagation, *all)?;
        }
        self.made = Some(made);
        Ok(())
    }

    /// `mode` is for one that says none itself.
    fn new_file_system(&self, mode: Option<u32>) -> Result<OwnedFd> {
        let source = match self.source.as_str() {
            "" => &self.kind,
            source => source,
        };
        let mut new = NewFileSystem::open(self.kind.clone())?.set("source", source)?;
        for option in self.options.data.iter().flat_map(|data| data.split(',')) {
            new = match option.split_once('=') {
                Some((key, value)) => new.set(key, value)?,
                None => new.flag(option)?,
            };
        }
        let labelled = ["tmpfs", "ramfs", "mqueue", "devpts"].contains(&self.kind.as_str());
        if labelled && !self.label.is_empty() {
            new = new.set("context", &self.label)?;
        }
        let says = |option: &String| option.split(',').any(|o| o.starts_with("mode="));
        if let Some(mode) = mode.filter(|_| !self.options.data.iter().any(says)) {
            new = new.set("mode", &format!("{mode:o}"))?;
        }
        let mut attributes = self.options.set | self.options.set_all;
        if self.kind == "tmpfs" {
            // Made read-only when it is furnished.
            attributes = attributes.without(Attributes::READ_ONLY);
        }
        Ok(new.mount(attributes)?)
    }

    /// The groups below the container's cgroup namespace; where that can't be mounted, the
    /// container's own group.
    fn groups(&self) -> Result<OwnedFd> {
        let attributes = self.options.set | self.options.set_all;
        match mount::cgroup2(&[], attributes) {
            Err(error) if error.is(PERM) || error.is(BUSY) => {}
            other => return Ok(other?),
        }
        let own = kernel::cgroup::find::own_path()?;
        let copy = mount::copy_tree(&own, true)?;
        let change = Change {
            set: attributes,
            ..Change::default()
        };
        mount::set_attributes(&copy, &change)?;
        Ok(copy)
    }

    /// Attaches it in the container's root.
    pub(crate) fn attach(&mut self, root: &Tree) -> Result<()> {
        let doing = format!("mount {} at {}", self.source, self.destination.display());
        let fresh = self.kind == "tmpfs" && !self.is_bind();
        let there = fresh && root.find(&self.destination)?.is_some();
        let target = self.target(root).doing(&doing)?;
        self.guard(&target).doing(&doing)?;
        if fresh {
            // One that says no mode has that of the folder it covers.
            let covered = rustix::fs::fstat(&target).doing("fstat")?.st_mode & 0o7777;
            let made = self
                .new_file_system(there.then_some(covered))
                .doing(&doing)?;
            self.keep(made).doing(&doing)?;
        }
        let Some(made) = &self.made else {
            return self.mount_by_name(&target).doing(&doing);
        };
        if fresh {
            if self.options.copy_up {
                let from = root.open(&self.destination, kernel::fsutil::OpenFlags::DIRECTORY)?;
                copy_up::copy(&from, made).doing(&doing)?;
            }
            let set = self.options.set | self.options.set_all;
            if set.has(Attributes::READ_ONLY) && !self.is_late() {
                read_only(made).doing(&doing)?;
            }
        }
        mount::attach_on(made, &target).doing(&doing)
    }

    /// Whether it shows a folder or file of the node.
    pub(crate) fn is_bind(&self) -> bool {
        self.options.bind.is_some()
    }

    /// A `/dev` that is to be read-only was furnished first.
    pub(crate) fn close(&self, root: &Tree) -> Result<()> {
        if !self.is_late() {
            return Ok(());
        }
        let target = root.folder(&self.destination)?;
        read_only(&target).doing("make /dev read-only")
    }

    fn is_late(&self) -> bool {
        let fresh = self.kind == "tmpfs" && self.destination == Path::new("/dev");
        fresh && (self.options.set | self.options.set_all).has(Attributes::READ_ONLY)
    }

    /// The place: made as what the source is.
    fn target(&self, root: &Tree) -> Result<OwnedFd> {
        let path = &self.destination;
        let of_kernel = matches!(self.kind.as_str(), "proc" | "sysfs");
        if of_kernel && self.options.bind.is_none() {
            // A link there would show another place's files under this name.
            let name = path.strip_prefix("/").unwrap_or(path);
            let resolve = kernel::fsutil::Resolve::BeneathNoSymlinks;
            let flags = kernel::fsutil::OpenFlags::PATH;
            let linked = kernel::fsutil::open_below(root, name, flags, 0, resolve);
            if linked.is_err_and(|error| error.is(Errno::LOOP.raw_os_error())) {
                return refuse("it must be mounted on ordinary directory, not on a link");
            }
        }
        let folder = match (&self.options.bind, &self.made) {
            (Some(_), Some(made)) => tree::is_folder(made)?,
            _ => true,
        };
        match folder {
            true => root.folder(path),
            false => root.file(path, 0o755),
        }
    }

    /// On files of a mounted proc only what container engines show there; else a bind mount could
    /// stand for the files that confine the container.
    fn guard(&self, target: &OwnedFd) -> Result<()> {
        const SHOWN: [&str; 10] = [
            "/proc/cpuinfo",
            "/proc/diskstats",
            "/proc/meminfo",
            "/proc/stat",
            "/proc/swaps",
            "/proc/uptime",
            "/proc/loadavg",
            "/proc/slabinfo",
            "/proc/sys/kernel/ns_last_pid",
            "/proc/sys/crypto/fips_enabled",
        ];
        let shown = SHOWN.iter().any(|path| self.destination == Path::new(path));
        let whole = self.destination == Path::new("/proc");
        if shown || whole || !tree::is_of(target, tree::PROC)? {
            return Ok(());
        }
        refuse("it is inside of proc, where nothing may be mounted")
    }

    /// A file system that only mount(2) makes, on the very folder of the descriptor.
    fn mount_by_name(&self, target: &OwnedFd) -> Result<()> {
        let place = format!("/proc/self/fd/{}", target.as_raw_fd());
        let data = CString::new(self.options.data.join(",")).unwrap_or_default();
        let data = (!data.is_empty()).then_some(data);
        let flags = old_flags(self.options.set);
        rustix::mount::mount(&self.source, &place, &self.kind, flags, data.as_deref())?;
        Ok(())
    }

    /// Attributes and propagation of a bind mount.
    fn set(&self, copy: &OwnedFd) -> Result<()> {
        let own = Change {
            set: self.options.set,
            clear: self.options.clear,
            ..Change::default()
        };
        let all = Change {
            set: self.options.set_all,
            clear: self.options.clear_all,
            recursive: true,
            ..Change::default()
        };
        for change in [all, own] {
            if change.set != Attributes::NONE || change.clear != Attributes::NONE {
                mount::set_attributes(copy, &change)?;
            }
        }
        for (propagation, all) in &self.options.propagation {
            set_propagation(copy, *propagation, *all)?;
        }
        Ok(())
    }
}

const PERM: i32 = Errno::PERM.raw_os_error();
const BUSY: i32 = Errno::BUSY.raw_os_error();

/// An ordinary descriptor of a mount's root.
pub(super) fn open_root(mount: &OwnedFd) -> Result<OwnedFd> {
    use rustix::fs::OFlags;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(mount, ".", flags, Mode::empty()).doing("open a mount")
}

/// Makes a mount read-only.
fn read_only(mount: &OwnedFd) -> Result<()> {
    let change = Change {
        set: Attributes::READ_ONLY,
        ..Change::default()
    };
    Ok(mount::set_attributes(mount, &change)?)
}

/// Sets how a mount propagates.
pub(crate) fn set_propagation(
    mount: impl AsFd,
    propagation: Propagation,
    recursive: bool,
) -> Result<()> {
    let change = Change {
        propagation: Some(propagation),
        recursive,
        ..Change::default()
    };
    Ok(mount::set_attributes(mount, &change)?)
}

fn old_flags(attributes: Attributes) -> MountFlags {
    let known = [
        (Attributes::READ_ONLY, MountFlags::RDONLY),
        (Attributes::NO_SUID, MountFlags::NOSUID),
        (Attributes::NO_DEV, MountFlags::NODEV),
        (Attributes::NO_EXEC, MountFlags::NOEXEC),
        (Attributes::NO_ACCESS_TIME, MountFlags::NOATIME),
    ];
    let set = known
        .iter()
        .filter(|(attribute, _)| attributes.has(*attribute));
    set.fold(MountFlags::empty(), |all, (_, flag)| all | *flag)
}

/// What a bind mount is unless it says otherwise.
fn at_most_slave(root: Propagation) -> Propagation {
    match root {
        Propagation::Private | Propagation::Unbindable => Propagation::Private,
        Propagation::Slave | Propagation::Shared => Propagation::Slave,
    }
}
