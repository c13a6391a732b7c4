// SPDX-License-Identifier: Apache-2.0
//! Volumes in memory that cells share and that outlive each of them: a tmpfs at a folder of the
//! node, and its place in the tenant's quota. Its pages are charged to the cells that write them. A
//! subsystem above makes, keeps and removes them (`pod`); it brings them to cells by mounts. A
//! cell's own volumes are its init's and end with it.
//!
//! The mount is in the mount namespace of node-init and the daemon: so a killed daemon loses none.

use std::path::Path;
use std::sync::Arc;

use kernel::mount::{self, Attributes};
use kernel::{Context, Result as KernelResult};
use model::error::{Error, Reason};
use model::name::Tenant;
use rustix::fs::{AtFlags, Gid, Uid};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::Runtime;
use crate::index::Index;

/// Bytes that count in a tenant's quota `tmpfs` until this goes.
pub struct Held {
    index: Arc<Index>,
    tenant: Tenant,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.index.give_tmpfs(&self.tenant, self.bytes);
    }
}

impl Runtime {
    /// Takes so many bytes of what a tenant's volumes may hold.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED`, unless they are `there` already, made by an earlier daemon.
    pub fn hold_tmpfs(&self, tenant: &Tenant, bytes: u64, there: bool) -> Result<Held, Error> {
        let index = self.shared.index.clone();
        index.take_tmpfs(tenant, bytes, there)?;
        Ok(Held {
            index,
            tenant: tenant.clone(),
            bytes,
        })
    }
}

/// Mounts a tmpfs of that size at a folder of the node, unless something is mounted there. It has
/// that mode and owner (user and group of the node) from the beginning, and its files SELinux's
/// `label`, where it isn't empty.
///
/// # Errors
/// `INTERNAL` with the kernel's number.
pub fn mount(
    folder: &Path,
    bytes: u64,
    mode: u32,
    owner: (u32, u32),
    label: &str,
) -> Result<(), Error> {
    mount_new(folder, bytes, mode, owner, label).map_err(|error| {
        let message = format!("a volume of {bytes} bytes can't be mounted: {error}");
        Error::new(Reason::Internal, message).errno(error.errno())
    })
}

fn mount_new(
    folder: &Path,
    bytes: u64,
    mode: u32,
    owner: (u32, u32),
    label: &str,
) -> KernelResult<()> {
    if mount::is_mount_point(folder)? {
        return Ok(());
    }
    let quiet = Attributes::NO_SUID | Attributes::NO_DEV;
    let tmpfs = mount::labelled_tmpfs(bytes, mode, label, quiet)?;
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    rustix::fs::chownat(&tmpfs, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
        .call_on("chown", folder)?;
    mount::attach(&tmpfs, folder)
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
