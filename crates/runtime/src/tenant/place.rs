// SPDX-License-Identifier: Apache-2.0
//! Which group a tenant's group is in. Ordinary tenants' are in the group of all tenants, which has
//! the node's memory and processes less the reserve. That of the administrators' tenant, in which
//! systemd's units are, too, is beside it: what all others take together leaves it the reserve (ADR
//! 24).
//!
//! ```text
//!   BASE/system/CELL/…           the administrators'
//!   BASE/tenants/TENANT/CELL/…   all others'
//! ```
//! A daemon of before made `BASE/tenants/system`. Cells that live there stay there, and as long as
//! one of them did when the daemon started, new ones are made there, too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::cgroup::Cgroup;
use model::quota::ADMINISTRATORS;

use crate::Shared;
use crate::index::Key;

/// The node's own group, where that of the administrators' tenant is in it.
pub(crate) struct Beside {
    base: Cgroup,
    /// What the kernel calls it.
    name: String,
    /// Where it is below the mount point of cgroup2.
    below: PathBuf,
}

/// Finds out where the administrators' group is to be. `root`: the group of all tenants; `name`,
/// `below`: what it is called, and where it is. `None`: among all others.
pub(crate) fn open(root: &Cgroup, name: &str, below: &Path) -> Option<Beside> {
    if stays_among_all(root) {
        tracing::info!(
            "cells of administrators are in the group of all tenants still, and have no reserve \
             of memory and processes there; they have one from the next boot on"
        );
        return None;
    }
    Some(Beside {
        base: Cgroup::open(root.path().parent()?).ok()?,
        name: name.rsplit_once('/')?.0.to_owned(),
        below: below.parent()?.to_owned(),
    })
}

/// Whether something of the administrators lives where a daemon of before had it. What is empty
/// goes.
fn stays_among_all(root: &Cgroup) -> bool {
    let Ok(before) = root.child(ADMINISTRATORS) else {
        return false;
    };
    let names = before.children().unwrap_or_default();
    let mut names = names.iter().map(|it| it.as_encoded_bytes());
    // A cell that is idle has no process in its group, and lives all the same.
    let has_cells = names.any(|name| !name.starts_with(b"_"));
    has_cells || root.remove(ADMINISTRATORS, Duration::ZERO).is_err()
}

impl Shared {
    fn beside(&self, tenant: &str) -> Option<&Beside> {
        let beside = self.beside.as_ref();
        beside.filter(|_| tenant == ADMINISTRATORS)
    }

    /// The group in which the tenant's is.
    pub(crate) fn around(&self, tenant: &str) -> &Cgroup {
        self.beside(tenant).map_or(&self.root, |it| &it.base)
    }

    /// Where the group of a cell or executable is below the mount point of cgroup2.
    pub(crate) fn below_mount(&self, key: &Key) -> PathBuf {
        let beside = self.beside(key.tenant.as_str());
        let around = beside.map_or(&self.root_below, |it| &it.below);
        around.join(self.group_below(key))
    }

    /// What the kernel calls the group of a cell.
    pub(crate) fn kernels_name(&self, key: &Key) -> String {
        let beside = self.beside(key.tenant.as_str());
        let around = beside.map_or(&self.root_name, |it| &it.name);
        format!("{around}/{}", self.group_below(key).display())
    }

    /// The groups of all tenants that have one, with their names.
    pub(crate) fn tenant_groups(&self) -> Vec<(String, Cgroup)> {
        let beside = self.beside.as_ref().and_then(|it| {
            let group = it.base.child(ADMINISTRATORS).ok()?;
            Some((ADMINISTRATORS.to_owned(), group))
        });
        // No tenant's begins so.
        let others = self.root.groups().into_iter();
        let others = others.filter(|(name, _)| !name.starts_with('_'));
        others.chain(beside).collect()
    }

    /// A path below the mount point's, from the tenant's name on: `TENANT/CELL/…`.
    pub(crate) fn behind_tenants<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let base = self.beside.as_ref().map(|it| it.base.path());
        behind_tenants(self.root.path(), base, path)
    }

    /// The same of a path as `/proc/PID/cgroup` has it.
    pub(crate) fn behind_tenants_of_process<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let base = self.beside.as_ref().map(|it| it.base.path());
        behind_tenants_of_process(self.root.path(), base, path)
    }
}

fn behind_tenants<'a>(root: &Path, base: Option<&Path>, path: &'a Path) -> Option<&'a Path> {
    if let Ok(below) = path.strip_prefix(root) {
        return Some(below);
    }
    let below = path.strip_prefix(base?).ok()?;
    below.starts_with(ADMINISTRATORS).then_some(below)
}

fn behind_tenants_of_process<'a>(
    root: &Path,
    base: Option<&Path>,
    path: &'a Path,
) -> Option<&'a Path> {
    // A group is named from the mount point on there, and from `/` here.
    let path = path.strip_prefix("/").ok()?;
    let behind = |group: &Path| {
        let mut prefixes = path.ancestors();
        let prefix = prefixes.find(|it| !it.as_os_str().is_empty() && group.ends_with(it))?;
        path.strip_prefix(prefix).ok()
    };
    behind(root).or_else(|| behind(base?).filter(|it| it.starts_with(ADMINISTRATORS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder stands for the group: it has names as well.
    fn folder(path: &Path) -> Cgroup {
        let opened = kernel::fsutil::open_directory(path).unwrap();
        Cgroup::from_fd(opened, path)
    }

    #[test]
    fn a_group_is_known_from_its_tenant_on_in_either_place() {
        let (root, base) = (Path::new("/c/aurae/tenants"), Path::new("/c/aurae"));
        let of = |path: &'static str| behind_tenants(root, Some(base), Path::new(path));
        let is = |path: &'static str| Some(Path::new(path));
        assert_eq!(of("/c/aurae/tenants/blue/web"), is("blue/web"));
        assert_eq!(of("/c/aurae/system/web/app"), is("system/web/app"));
        assert_eq!(of("/c/aurae/_init"), None);
        assert_eq!(of("/c/aurae/systems/web"), None);
        assert_eq!(of("/c/other/system/web"), None);
        let before = Path::new("/c/aurae/system/web");
        assert_eq!(behind_tenants(root, None, before), None);

        let of = |path: &'static str| behind_tenants_of_process(root, Some(base), Path::new(path));
        assert_eq!(of("/aurae/tenants/blue/web"), is("blue/web"));
        assert_eq!(of("/aurae/system/web/app"), is("system/web/app"));
        for another in ["/aurae/_daemon", "/aurae/tenants2/web", "/system/web", "/"] {
            assert_eq!(of(another), None, "{another}");
        }
    }

    #[test]
    fn administrators_are_beside_all_tenants_unless_cells_of_before_are_among_them() {
        let folder_of_all = tempfile::tempdir().unwrap();
        let base = folder(folder_of_all.path());
        let root = base.ensure("tenants").unwrap();
        assert!(!stays_among_all(&root));
        // Without cells it is gone, and nothing keeps the new one from its place.
        root.ensure(ADMINISTRATORS).unwrap();
        assert!(!stays_among_all(&root));
        assert!(root.child(ADMINISTRATORS).is_err());
        let before = root.ensure(ADMINISTRATORS).unwrap();
        before.ensure("web").unwrap();
        assert!(stays_among_all(&root));
        assert!(before.child("web").is_ok());
    }
}
