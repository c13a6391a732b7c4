// SPDX-License-Identifier: Apache-2.0
//! Mounts for a less privileged mount namespace, whose flags are locked there.
//!
//! What a user namespace's root attaches by itself it can change: read-only becomes writable. What
//! comes to it from the namespace of a more privileged one is locked, and so is every copy of it
//! (mount_namespaces(7)). So a thread of the privileged side has a mount namespace of its own
//! ([`enter`]) and in it, for each less privileged one, a shared folder ([`open`]) that the other
//! has as a slave: what is attached in the one ([`attach`]) shows in the other, locked. There it is
//! copied to its place, and the folder is closed again ([`close`]).

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode};

use super::{Attributes, Change, Propagation};
use crate::namespace::{self, Namespaces};
use crate::{Context, Result, mount};

/// More than names of places take, in bytes.
const ROOM: u64 = 64 * 1024;

/// Gives the calling thread a mount namespace of its own with an empty root. Other threads of the
/// process stay where they are; this one is of no use for anything but this module any more.
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

/// A shared folder of this name with a place for each mount: a folder, or a file (`false`). Answers
/// it as a detached slave, for the other namespace to attach.
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

/// Attaches a detached mount at its place in a folder; it shows wherever the slave is attached.
pub fn attach(name: &str, number: usize, mount: impl AsFd) -> Result<()> {
    mount::attach(mount, &path_of(name).join(number.to_string()))
}

/// Takes a folder away with what is attached in it, here and where the slave is; copies stay.
pub fn close(name: &str) -> Result<()> {
    let path = path_of(name);
    mount::unmount(&path, true)?;
    rustix::fs::rmdir(&path).call_on("rmdir", &path)
}

fn path_of(name: &str) -> PathBuf {
    Path::new("/").join(name)
}
