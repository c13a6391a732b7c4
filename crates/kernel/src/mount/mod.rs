// SPDX-License-Identifier: Apache-2.0
//! Mounts, by the descriptors of Linux's newer calls: copy, make, change, attach.
//!
//! A mount is first a descriptor, visible in no namespace: a copy of a folder ([`copy_tree`]) or a
//! new file system ([`NewFileSystem`]). It gets its attributes there ([`set_attributes`]) and is
//! then attached in one step ([`attach`]): it is never visible with the wrong attributes. The
//! descriptor can also be sent to another process, which attaches it in its own namespace.
//!
//! * [`info`]: what is mounted. * [`overlay`]: folders as one. * [`userns`]: a user namespace as a
//!   map of ids, for [`Change::id_map`].

pub mod info;
mod make;
pub mod overlay;
pub mod stage;
pub mod userns;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use crate::error::check;
use crate::{Context, Error, Result};

pub use make::{NewFileSystem, cgroup2, devpts, ext4, labelled_tmpfs, mqueue, proc, sysfs, tmpfs};

/// Attributes of a mount, as a set (`MOUNT_ATTR_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes(u64);

impl Attributes {
    /// No attribute.
    pub const NONE: Attributes = Attributes(0);
    /// No file can be written through the mount.
    pub const READ_ONLY: Attributes = Attributes(libc::MOUNT_ATTR_RDONLY);
    /// Set-id bits and file capabilities do nothing.
    pub const NO_SUID: Attributes = Attributes(libc::MOUNT_ATTR_NOSUID);
    /// Device files do nothing.
    pub const NO_DEV: Attributes = Attributes(libc::MOUNT_ATTR_NODEV);
    /// No program can be executed from the mount.
    pub const NO_EXEC: Attributes = Attributes(libc::MOUNT_ATTR_NOEXEC);
    /// Symbolic links are not followed.
    pub const NO_SYMLINKS: Attributes = Attributes(libc::MOUNT_ATTR_NOSYMFOLLOW);

    /// Access times are not kept.
    pub const NO_ACCESS_TIME: Attributes = Attributes(libc::MOUNT_ATTR_NOATIME);
    /// Access times are always kept.
    pub const STRICT_ACCESS_TIME: Attributes = Attributes(libc::MOUNT_ATTR_STRICTATIME);
    /// Access times of folders are not kept.
    pub const NO_FOLDER_ACCESS_TIME: Attributes = Attributes(libc::MOUNT_ATTR_NODIRATIME);
    /// How access times are kept, to be cleared whenever one of them is set: none of its bits means
    /// `relatime`.
    pub const ACCESS_TIME: Attributes = Attributes(libc::MOUNT_ATTR__ATIME);

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: Attributes) -> Attributes {
        Attributes(self.0 | other.0)
    }

    /// This set less `other`.
    #[must_use]
    pub const fn without(self, other: Attributes) -> Attributes {
        Attributes(self.0 & !other.0)
    }

    /// Whether all of these are in it.
    pub const fn has(self, other: Attributes) -> bool {
        self.0 & other.0 == other.0
    }

    /// As a number, `MOUNT_ATTR_*`.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// From that number.
    pub const fn of(bits: u32) -> Attributes {
        Attributes(bits as u64)
    }
}

impl std::ops::BitOr for Attributes {
    type Output = Attributes;

    fn bitor(self, other: Attributes) -> Attributes {
        self.and(other)
    }
}

/// Whether mounts made in one namespace show in another (mount_namespaces(7)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Propagation {
    /// Mounts show in neither direction.
    Private,
    /// From the master only.
    Slave,
    /// Mounts show in both directions.
    Shared,
    /// Private, and the mount can't be copied.
    Unbindable,
}

/// A change of a mount's attributes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// Attributes to be set.
    pub set: Attributes,
    /// Attributes to be cleared.
    pub clear: Attributes,
    /// The mounts below are changed too.
    pub recursive: bool,
    /// The user namespace whose map turns ids of the file system into the mount's. Only on a
    /// detached copy that has none yet, by `CAP_SYS_ADMIN` of the file system's own user namespace;
    /// `EINVAL` where the file system can't (on Linux 6.1 tmpfs, overlay, proc, sysfs, cgroup2,
    /// devtmpfs, hugetlbfs).
    pub id_map: Option<BorrowedFd<'a>>,
    /// The propagation to be set; `None` leaves it as it is.
    pub propagation: Option<Propagation>,
}

/// A detached copy of what is mounted at `path`: `recursive` also what is mounted below.
///
/// # Errors
/// `ENOENT`: there is no such path. `EPERM`: without `CAP_SYS_ADMIN`. `EINVAL`: the mount is
/// unbindable or of another namespace, or a copy that is not recursive would show what locked
/// mounts hide.
pub fn copy_tree(path: &Path, recursive: bool) -> Result<OwnedFd> {
    copy_tree_at(CWD, path, recursive)
}

/// [`copy_tree`] of a path below a directory; of the descriptor's own file where `path` is empty.
///
/// # Errors
/// Those of [`copy_tree`].
pub fn copy_tree_at(directory: impl AsFd, path: &Path, recursive: bool) -> Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    if path.as_os_str().is_empty() {
        flags |= OpenTreeFlags::AT_EMPTY_PATH;
    }
    rustix::mount::open_tree(directory, path, flags).call_on("open_tree", path)
}

/// Changes the mount whose root the descriptor is.
///
/// # Errors
/// `EINVAL`: the descriptor is no mount's root, or [`Change::id_map`] can't be applied to it.
/// `EPERM`: without `CAP_SYS_ADMIN`, or an attribute is locked by a more privileged namespace.
/// `EBUSY`: made read-only while a file of it is open for writing.
pub fn set_attributes(mount: impl AsFd, change: &Change<'_>) -> Result<()> {
    set_attributes_at(mount.as_fd(), c"", libc::AT_EMPTY_PATH, change)
}

/// Changes the mount at `path`.
///
/// # Errors
/// `ENOENT`: there is no such path. Else those of [`set_attributes`].
pub fn set_attributes_of(path: &Path, change: &Change<'_>) -> Result<()> {
    let root = open_path(path)?;
    set_attributes(&root, change).map_err(|e| e.on(path))
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

fn set_attributes_at(
    directory: BorrowedFd<'_>,
    path: &std::ffi::CStr,
    flags: libc::c_int,
    change: &Change<'_>,
) -> Result<()> {
    let mut attr = MountAttr {
        set: change.set.0,
        clear: change.clear.0,
        propagation: change.propagation.map_or(0, Propagation::flag),
        userns_fd: 0,
    };
    if let Some(namespace) = change.id_map {
        attr.set |= libc::MOUNT_ATTR_IDMAP;
        attr.userns_fd = namespace.as_raw_fd().unsigned_abs().into();
    }
    let flags = if change.recursive {
        flags | libc::AT_RECURSIVE
    } else {
        flags
    };
    // SAFETY: a C string and a structure of the kernel's layout and size, both alive during the
    // call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    check("mount_setattr", result).map(|_| ())
}

impl Propagation {
    const fn flag(self) -> u64 {
        match self {
            Propagation::Private => libc::MS_PRIVATE,
            Propagation::Slave => libc::MS_SLAVE,
            Propagation::Shared => libc::MS_SHARED,
            Propagation::Unbindable => libc::MS_UNBINDABLE,
        }
    }

    const fn flags(self) -> MountPropagationFlags {
        match self {
            Propagation::Private => MountPropagationFlags::PRIVATE,
            Propagation::Slave => MountPropagationFlags::DOWNSTREAM,
            Propagation::Shared => MountPropagationFlags::SHARED,
            Propagation::Unbindable => MountPropagationFlags::UNBINDABLE,
        }
    }
}

/// Attaches a detached mount at `target`.
///
/// # Errors
/// `ENOENT`: there is no `target`. `EINVAL`: one is a folder and the other a file, or the mount
/// isn't detached. `EPERM`: without `CAP_SYS_ADMIN`. `ENOSPC`: past `fs.mount-max`.
pub fn attach(mount: impl AsFd, target: &Path) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount, c"", CWD, target, flags).call_on("move_mount", target)
}

/// Attaches a detached mount on the very file or folder of a descriptor (`O_PATH` will do): no path
/// is looked up, so no process can put a symbolic link in between.
///
/// # Errors
/// Those of [`attach`].
pub fn attach_on(mount: impl AsFd, target: impl AsFd) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, c"", target, c"", flags).call("move_mount")
}

/// Shows `source` at `target` too, with `set` attributes on the new mount alone.
///
/// # Errors
/// Those of [`copy_tree`], [`set_attributes`] and [`attach`]; nothing is attached then.
pub fn bind(source: &Path, target: &Path, recursive: bool, set: Attributes) -> Result<()> {
    let copy = copy_tree(source, recursive)?;
    set_attributes(
        &copy,
        &Change {
            set,
            recursive,
            ..Change::default()
        },
    )
    .map_err(|e| e.on(source))?;
    attach(&copy, target)
}

/// Sets how mounts at and, where `recursive`, below `path` propagate.
///
/// # Errors
/// `EINVAL`: `path` is no mount point. `ENOENT`: there is no such path. `EPERM`: without
/// `CAP_SYS_ADMIN`.
pub fn set_propagation(path: &Path, propagation: Propagation, recursive: bool) -> Result<()> {
    let mut flags = propagation.flags();
    if recursive {
        flags |= MountPropagationFlags::REC;
    }
    rustix::mount::mount_change(path, flags).call_on("mount", path)
}

/// Moves the mount at `from` to `to`.
///
/// # Errors
/// `EINVAL`: `from` is no mount point, is locked, or sits on a shared mount; or one is a folder and
/// the other a file. `ELOOP`: `to` is below `from`. `ENOENT`: one of them isn't there. `EPERM`:
/// without `CAP_SYS_ADMIN`.
pub fn move_to(from: &Path, to: &Path) -> Result<()> {
    rustix::mount::move_mount(CWD, from, CWD, to, MoveMountFlags::empty()).call_on("move_mount", to)
}

/// Takes the mount at `path` away. With `lazy` (`MNT_DETACH`) it is out of sight at once and gone
/// with its last use. Follows no symbolic link.
///
/// # Errors
/// `EBUSY`: it is in use, and not `lazy`. `EINVAL`: it is locked, or no mount point. `ENOENT`:
/// there is no such path. `EPERM`: without `CAP_SYS_ADMIN`.
pub fn unmount(path: &Path, lazy: bool) -> Result<()> {
    let mut flags = UnmountFlags::NOFOLLOW;
    if lazy {
        flags |= UnmountFlags::DETACH;
    }
    rustix::mount::unmount(path, flags).call_on("umount2", path)
}

/// Makes the mount of a descriptor the root of the mount namespace and of this process, and takes
/// the old root away.
///
/// # Errors
/// `EINVAL`: the old root is the initramfs (see [`leave_initramfs`]), one of the mounts is shared,
/// or the descriptor is no mount's root. `EBUSY`: it is the root already. `EPERM`: without
/// `CAP_SYS_ADMIN`.
pub fn pivot_root(new_root: impl AsFd) -> Result<()> {
    rustix::process::fchdir(new_root).call("fchdir")?;
    // The old root lands on top of the new one, in the same place, and is unmounted from there.
    rustix::process::pivot_root(c".", c".").call("pivot_root")?;
    rustix::mount::unmount(c".", UnmountFlags::DETACH)
        .call("umount2")
        .map_err(|e| e.about("old root"))?;
    rustix::process::chdir(c"/").call_on("chdir", Path::new("/"))
}

/// Makes the mount at `new_root` the root where the root is an initramfs, which can be covered but
/// not left: moves it over `/` and changes root. The initramfs's files keep their memory: remove
/// them before.
///
/// # Errors
/// `ENOENT`: there is no `new_root`. `EINVAL`: it is no mount point. `EPERM`: without
/// `CAP_SYS_ADMIN`.
pub fn leave_initramfs(new_root: &Path) -> Result<()> {
    rustix::process::chdir(new_root).call_on("chdir", new_root)?;
    rustix::mount::mount_move(c".", c"/").call_on("mount(MS_MOVE)", new_root)?;
    rustix::process::chroot(c".").call_on("chroot", new_root)?;
    rustix::process::chdir(c"/").call_on("chdir", Path::new("/"))
}

/// A descriptor of a file or folder that can't be read by it (`O_PATH`). A symbolic link as the
/// last component is not followed: the descriptor is of the link.
///
/// # Errors
/// `ENOENT`: there is no such path. `EACCES`: a folder on the way may not be searched.
pub fn open_path(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
}

/// Whether something is mounted at exactly this path.
///
/// # Errors
/// `ENOENT`: there is no such path. `ENOSYS`: the kernel doesn't say so (before Linux 5.8).
pub fn is_mount_point(path: &Path) -> Result<bool> {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = rustix::fs::statx(CWD, path, flags, StatxFlags::TYPE).call_on("statx", path)?;
    if !stat
        .stx_attributes_mask
        .contains(StatxAttributes::MOUNT_ROOT)
    {
        return Err(Error::new("statx", rustix::io::Errno::NOSYS).about("no STATX_ATTR_MOUNT_ROOT"));
    }
    Ok(stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
