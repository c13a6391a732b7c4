// SPDX-License-Identifier: Apache-2.0
//! The bare template: a second mount namespace of the spawner's, without any file of the node.
//!
//! It has the proc, the sysfs and the `/dev` of the first ([`super::template`]), and the folders of
//! every cell, empty. A cell with a bare root is cloned from it; one with the root of an image from
//! a copy of it, in which [`super::stage`] has put that root.

use std::path::Path;

use kernel::Result;
use kernel::mount;
use kernel::namespace::{self, Namespaces};

use super::root;

/// What it has of the first template.
const SHARED: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Moves this process, which is in the first template, into the bare one.
///
/// # Errors
/// `ENOSPC`: past `user.max_mnt_namespaces`. Those of copying and attaching mounts.
pub(super) fn enter() -> Result<()> {
    namespace::unshare(Namespaces::MOUNT)?;
    let shared = SHARED.map(|path| (path, mount::copy_tree(Path::new(path), true)));
    let root = root::empty()?;
    mount::attach(&root, Path::new("/"))?;
    mount::pivot_root(root)?;
    root::make_folders()?;
    for (path, copy) in shared {
        mount::attach(copy?, Path::new(path))?;
    }
    root::seal()
}
