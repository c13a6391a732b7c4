// SPDX-License-Identifier: Apache-2.0
//! Mounts for a less privileged mount namespace, whose flags are locked there.
//!
//! The root of a user namespace can change a mount that it attached itself: read-only becomes
//! writable. The flags of a mount that propagates into its mount namespace from a more privileged
//! one are locked, and so are those of every copy (mount_namespaces(7)). So a thread of the
//! privileged side has a mount namespace of its own ([`enter`]). In it there is, for each less
//! privileged namespace, a shared folder ([`open`]), which the other namespace has as a slave. A
//! mount that is attached in the folder ([`attach`]) shows in the slave, locked. The other side
//! copies it to its target, and the folder is closed ([`close`]).

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};

use super::{Attributes, Change, Propagation};
use crate::namespace::{self, Namespaces};
use crate::{Context, Result, mount};

/// The size of each tmpfs here, in bytes: it holds a few empty files and folders.
const ROOM: u64 = 64 * 1024;

/// Gives the calling thread a mount namespace of its own with an empty root. Other threads of the
/// process stay where they are. Use this thread for nothing but this module afterwards.
///
/// # Errors
/// `EPERM` without `CAP_SYS_ADMIN`.
pub fn enter() -> Result<()> {
    namespace::unshare(Namespaces::MOUNT)?;
    mount::set_propagation(Path::new("/"), Propagation::Private, true)?;
    let root = mount::tmpfs(ROOM, 0o700, quiet())?;
    mount::attach(&root, Path::new("/"))?;
    mount::pivot_root(&root)
}

fn quiet() -> Attributes {
    Attributes::NO_SUID | Attributes::NO_DEV | Attributes::NO_EXEC
}

/// Makes a shared folder of this name, with a mount point for each mount: a folder (`true`) or a
/// file (`false`), named `0`, `1` and on. Returns it as a detached slave, for the other namespace
/// to attach.
///
/// # Errors
/// `EEXIST` where there is one of that name.
pub fn open(name: &str, directories: &[bool]) -> Result<OwnedFd> {
    let path = path_of(name);
    rustix::fs::mkdir(&path, Mode::from_raw_mode(0o700)).call_on("mkdir", &path)?;
    let folder = mount::tmpfs(ROOM, 0o755, quiet())?;
    for (number, directory) in directories.iter().enumerate() {
        let (place, mode) = (number.to_string(), Mode::from_raw_mode(0o755));
        match directory {
            true => rustix::fs::mkdirat(&folder, place.as_str(), mode),
            false => rustix::fs::mknodat(&folder, place.as_str(), FileType::RegularFile, mode, 0),
        }
        .call_on("make a place", &path)?;
    }
    mount::attach(&folder, &path)?;
    mount::set_propagation(&path, Propagation::Shared, false)?;
    let slave = mount::copy_tree(&path, false)?;
    let change = Change {
        propagation: Some(Propagation::Slave),
        ..Change::default()
    };
    mount::set_attributes(&slave, &change)?;
    Ok(slave)
}

/// Attaches a detached mount at mount point `number` of the folder `name`. It shows in every
/// namespace where the slave is attached.
///
/// # Errors
/// `ENOENT`: there is no such folder, or it has no such number. Else those of [`mount::attach`].
pub fn attach(name: &str, number: usize, mount: impl AsFd) -> Result<()> {
    mount::attach(mount, &path_of(name).join(number.to_string()))
}

/// Attaches a file of a detached mount, by its name there, at mount point `number` of the folder
/// `name`, as [`attach`] does. Linux copies a part of a mount only where that is attached: the
/// mount is, for as long as this takes, in this thread's own namespace.
///
/// # Errors
/// `ENOENT`: the mount has no such file. Else those of [`attach`].
pub fn attach_file(name: &str, number: usize, mount: impl AsFd, file: &str) -> Result<()> {
    let whole = Path::new("/whole");
    match rustix::fs::mkdir(whole, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(crate::Error::new("mkdir", errno).on(whole)),
    }
    mount::attach(mount, whole)?;
    let part = mount::copy_tree(&whole.join(file), false);
    mount::unmount(whole, true)?;
    attach(name, number, part?)
}

/// Unmounts the folder `name` with what is attached in it, here and in the slave; copies stay.
///
/// # Errors
/// `ENOENT`: there is no such folder.
pub fn close(name: &str) -> Result<()> {
    let path = path_of(name);
    mount::unmount(&path, true)?;
    rustix::fs::rmdir(&path).call_on("rmdir", &path)
}

fn path_of(name: &str) -> PathBuf {
    Path::new("/").join(name)
}
