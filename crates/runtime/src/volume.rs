// SPDX-License-Identifier: Apache-2.0
//! Volumes that cells share and that outlive each of them: a tmpfs, or a disk of its own, at a
//! folder of the node, and its place in the tenant's quota. Its pages are charged to the cells that
//! write them. A subsystem above makes, keeps and removes them (`pod`); it brings them to cells by
//! mounts. A cell's own volumes are its init's and end with it.
//!
//! The mount is in the mount namespace of node-init and the daemon: so a killed daemon loses none.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use kernel::mount::{self, Attributes};
use kernel::{Context, Result as KernelResult};
use model::error::{Error, Reason};
use model::name::Tenant;
use model::quota::Storage;
use rustix::fs::{AtFlags, Gid, Mode, Uid};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::Runtime;
use crate::disk;
use crate::index::Index;

/// What counts in a tenant's quotas `tmpfs` and `disk` until this goes.
pub struct Held {
    index: Arc<Index>,
    tenant: Tenant,
    storage: Storage,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.index.give_storage(&self.tenant, self.storage);
    }
}

impl Runtime {
    /// Takes so much of what a tenant's volumes may hold.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, unless it is `there` already, made by an earlier daemon.
    pub fn hold_storage(
        &self,
        tenant: &Tenant,
        storage: Storage,
        there: bool,
    ) -> Result<Held, Error> {
        let index = self.shared.index.clone();
        index.take_storage(tenant, storage, there)?;
        Ok(Held {
            index,
            tenant: tenant.clone(),
            storage,
        })
    }
}

/// Mounts a file system of that size at a folder of the node, unless something is mounted there: a
/// tmpfs, or one on the disk that the folder is on. It has that mode and owner (user and group of
/// the node) from the beginning, and its files SELinux's `label`, where it isn't empty.
///
/// # Errors
/// `INTERNAL` with the kernel's number; of a disk also those of its making (`LIMIT_EXCEEDED`,
/// `UNSUPPORTED`).
pub fn mount(
    folder: &Path,
    storage: Storage,
    mode: u32,
    owner: (u32, u32),
    label: &str,
) -> Result<(), Error> {
    let failed = |error: kernel::Error| {
        let message = format!("a volume can't be mounted: {error}");
        Error::new(Reason::Internal, message).errno(error.errno())
    };
    if mount::is_mount_point(folder).map_err(failed)? {
        return Ok(());
    }
    let made = match storage.disk {
        0 => {
            let quiet = Attributes::NO_SUID | Attributes::NO_DEV;
            mount::labelled_tmpfs(storage.memory, mode, label, quiet).map_err(failed)?
        }
        bytes => disk::make(folder, bytes, label)?,
    };
    give(&made, folder, mode, owner).map_err(failed)?;
    mount::attach(&made, folder).map_err(failed)
}

/// The owner and the mode of its root: an ext4 has none of a mount's options.
fn give(made: &OwnedFd, folder: &Path, mode: u32, owner: (u32, u32)) -> KernelResult<()> {
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    rustix::fs::chownat(made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
        .call_on("chown", folder)?;
    // A descriptor of a mount is open by its path alone, which fchmod(2) doesn't take.
    let mode = Mode::from_raw_mode(mode);
    rustix::fs::chmodat(made, ".", mode, AtFlags::empty()).call_on("chmod", folder)
}

/// Unmounts what is mounted at a folder of the node, if anything is. Cells that have it keep it.
///
/// # Errors
/// The kernel's, but for a folder that is none or has nothing mounted.
pub fn unmount(folder: &Path) -> std::io::Result<()> {
    loop {
        match rustix::mount::unmount(folder, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}
