// SPDX-License-Identifier: Apache-2.0
//! The mounts of a cell: the folders that are its own, those that are empty, and the targets of
//! mounts and volumes.
//!
//! The root of a cell is read-only, so a target can be created only below a writable mount: in the
//! private folders, and in the empty ones of the root, which get a tmpfs of the cell's own when the
//! first mount or volume is attached below them. In the root of an image a target is created as any
//! file of the cell ([`super::follow`]).

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use kernel::Context;
use kernel::mount::{self, Attributes};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::follow;
use super::setup::STAGE;
use crate::failure::InStep;
use crate::protocol::{Failure, MountTarget, Root, Step, Volume};

/// Folders that each cell has for itself, with their modes; empty in the template.
pub(crate) const PRIVATE: [(&str, u32); 3] =
    [("/tmp", 0o1777), ("/run", 0o755), ("/var/tmp", 0o1777)];

/// One more, which the template's `/dev` has.
const SHARED_MEMORY: (&str, u32) = ("/dev/shm", 0o1777);

/// Mounts the folders of a cell's own, all of one tmpfs: each tmpfs more takes a multiple of the
/// time of a folder's mount, when it is created and when it ends, and some room in every cgroup of
/// the node that accounts memory. The tmpfs lies at the first of them, under that.
pub(super) fn mount_folders() -> kernel::Result<()> {
    let folders = std::iter::once(SHARED_MEMORY).chain(PRIVATE);
    let root = Path::new(SHARED_MEMORY.0);
    mount_tmpfs(root, 0o700, 0)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty()).call_on("open", root)?;
    for (number, (target, mode)) in folders.enumerate() {
        let (name, target) = (number.to_string(), Path::new(target));
        let name = Path::new(&name);
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::mkdirat(&root, name, mode).call_on("mkdir", target)?;
        // The umask has taken something away.
        rustix::fs::chmodat(&root, name, mode, AtFlags::empty()).call_on("chmod", target)?;
        let folder = mount::copy_tree_at(&root, name, false)?;
        match mount::attach(&folder, target) {
            // A node without a /var/tmp.
            Err(error) if error.is_not_found() => {}
            other => other?,
        }
    }
    Ok(())
}

/// Mounts a private tmpfs. `ENOENT` where the node's root has no such folder.
pub(crate) fn mount_tmpfs(target: &Path, mode: u32, size_bytes: u64) -> kernel::Result<()> {
    let size = if size_bytes == 0 {
        String::new()
    } else {
        format!(",size={size_bytes}")
    };
    let options = format!("mode={mode:o}{size}");
    let options = std::ffi::CString::new(options).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(c"tmpfs", target, c"tmpfs", flags, options.as_c_str())
        .call_on("mount tmpfs", target)
}

/// Mounts a tmpfs of the volume's size and mode at its target.
pub(super) fn attach_volume(root: &Root, volume: &Volume) -> Result<(), Failure> {
    let target = checked(&volume.target)?;
    let memory = memory(volume).step(Step::Attach)?;
    if let Root::Image(_) = root {
        return in_image(&memory, target, true);
    }
    make(target, true)?;
    mount::attach(&memory, target).step(Step::Attach)
}

/// The volume's tmpfs, attached nowhere.
fn memory(volume: &Volume) -> kernel::Result<OwnedFd> {
    let mut flags = Attributes::NO_SUID | Attributes::NO_DEV;
    if volume.no_exec {
        flags = flags | Attributes::NO_EXEC;
    }
    let mut new = mount::NewFileSystem::open("tmpfs")?
        .set("source", "tmpfs")?
        .set("mode", &format!("{:o}", volume.mode & 0o7777))?
        .set("uid", &volume.uid.to_string())?
        .set("gid", &volume.gid.to_string())?;
    if volume.size_bytes > 0 {
        new = new.set("size", &volume.size_bytes.to_string())?;
    }
    new.mount(flags)
}

/// Attaches the staging folder, in place of an earlier daemon's.
pub(super) fn attach_stage(folder: &impl AsFd) -> Result<(), Failure> {
    detach_stage();
    mount::attach(folder, Path::new(STAGE)).step(Step::Attach)
}

/// Detaches the staging folder, with all that an earlier daemon left in it.
pub(super) fn detach_stage() {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    // Mostly there is none. What the cell's root has mounted over it concerns that cell alone.
    let _ = rustix::mount::unmount(STAGE, flags);
}

/// Attaches a copy of a mount of the staging folder at its target. The flags of the copy are locked
/// as the mount's are.
pub(super) fn attach(root: &Root, from: u32, to: &MountTarget) -> Result<(), Failure> {
    let target = checked(&to.target)?;
    let come = Path::new(STAGE).join(from.to_string());
    // With what is mounted below it on the node: none, unless it was asked for.
    let copy = || mount::copy_tree(&come, true).step(Step::Attach);
    if let Root::Image(_) = root {
        return in_image(&copy()?, target, to.directory);
    }
    make(target, to.directory)?;
    mount::attach(copy()?, target).step(Step::Attach)
}

/// Attaches at a path of an image, which is made where it isn't there.
fn in_image(mount: &impl AsFd, target: &Path, directory: bool) -> Result<(), Failure> {
    let place = match directory {
        true => follow::make_folder(target),
        false => follow::make_file(target),
    };
    let attached = place.and_then(|place| mount::attach_on(mount, place));
    attached.map_err(|error| match error.is(Errno::ROFS.raw_os_error()) {
        true => {
            let target = target.display();
            let detail = format!(
                "{target} isn't in the image, and can't be made in a read-only root: name a path \
                 that is there"
            );
            Failure::new(Step::Attach, error.errno(), detail)
        }
        false => Failure::of(Step::Attach, &error.on(target)),
    })
}

/// Detaches what is mounted at a target; open files keep it alive.
pub(super) fn detach(root: &Root, target: &[u8]) -> Result<(), Failure> {
    let target = checked(target)?;
    let flags = match root {
        // Where a link of the image led the mount to.
        Root::Image(_) => UnmountFlags::DETACH,
        Root::Node | Root::Bare => UnmountFlags::DETACH | UnmountFlags::NOFOLLOW,
    };
    rustix::mount::unmount(target, flags)
        .call_on("umount", target)
        .step(Step::Attach)
}

/// An absolute path without `..`.
fn checked(target: &[u8]) -> Result<&Path, Failure> {
    let path = Path::new(std::ffi::OsStr::from_bytes(target));
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(plain) && path.parent().is_some() {
        return Ok(path);
    }
    let detail = format!("`{}` is not an absolute path without `..`", path.display());
    Err(Failure::new(
        Step::Attach,
        Errno::INVAL.raw_os_error(),
        detail,
    ))
}

/// Makes the target and the folders above it where they aren't there.
fn make(target: &Path, directory: bool) -> Result<(), Failure> {
    match try_make(target, directory) {
        Err(error) if error.is(Errno::ROFS.raw_os_error()) => {
            cover(target).and_then(|()| try_make(target, directory))
        }
        other => other,
    }
    .map_err(|error| match error.is(Errno::ROFS.raw_os_error()) {
        // The whole sentence: the runtime says it as it is.
        true => {
            let target = target.display();
            let detail =
                format!("{target} can't be made in a cell: mount below /mnt, /srv or /tmp");
            Failure::new(Step::Attach, error.errno(), detail)
        }
        false => Failure::of(Step::Attach, &error),
    })
}

fn try_make(target: &Path, directory: bool) -> kernel::Result<()> {
    if rustix::fs::stat(target).is_ok() {
        return Ok(());
    }
    let above = target.parent().unwrap_or(Path::new("/"));
    let folders = if directory { target } else { above };
    let mut path = std::path::PathBuf::new();
    for part in folders.components() {
        path.push(part);
        match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            // A folder that is there on a read-only root.
            Err(Errno::ROFS) if rustix::fs::stat(&path).is_ok() => {}
            Err(errno) => return Err(kernel::Error::new("mkdir", errno).on(&path)),
        }
    }
    if !directory {
        // Only what isn't there is opened: a workload may have put a pipe in its place meanwhile,
        // and opening that would wait for its other end.
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, target, flags, Mode::from_raw_mode(0o644)) {
            // Whatever it is, the mount lies over it.
            Err(Errno::EXIST) if rustix::fs::stat(target).is_ok() => {}
            result => drop(result.call_on("open", target)?),
        }
    }
    Ok(())
}

/// Puts a tmpfs of the cell's own over the empty folder of the root that the target is to lie in.
fn cover(target: &Path) -> kernel::Result<()> {
    let refused = || kernel::Error::new("mkdir", Errno::ROFS).on(target);
    let there = |path: &&Path| rustix::fs::stat(*path).is_ok();
    let folder = target.ancestors().skip(1).find(there).ok_or_else(refused)?;
    let on = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
    let root = Path::new("/");
    let of_root = on(folder).is_ok_and(|device| Ok(device) == on(root));
    let empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    match of_root && empty && folder != root {
        true => mount_tmpfs(folder, 0o755, 0),
        false => Err(refused()),
    }
}
