// SPDX-License-Identifier: Apache-2.0
//! A container's root: put together, and gone into.
//!
//! ```text
//! runtime     Root::plan       the root folder and all bind mounts, as detached mounts
//! container   Root::build      its own file systems; the root attached; everything attached in it
//!             (hooks)
//!             Root::enter      pivot; read-only and masked paths
//! ```
//!
//! It is a neighbour of `init`'s `cell/image`, which does the same for Aurae's own containers with
//! a stage that the node's spawner has set. Here no such process stands by: the caller of
//! the runtime is trusted with the mounts that it asks for, so they are taken with its rights.

mod copy_up;
pub(crate) mod devices;
pub(crate) mod mounts;
pub(crate) mod options;
pub(crate) mod restrict;
pub(crate) mod tree;

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::mount::{self, Attributes, Change, Propagation};
use kernel::namespace::Namespaces;
use rustix::io::Errno;

use crate::config::Spec;
use crate::container::namespaces::Plan;
use crate::container::talk::End;
use crate::error::{Doing, Result};
use mounts::Planned;
use tree::Tree;

/// What a container's root is made of.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    propagation: (Propagation, bool),
    /// The root folder, as a mount; `None` until it can be made.
    made: Option<OwnedFd>,
    mounts: Vec<Planned>,
    no_pivot: bool,
}

/// A root that is put together and not gone into yet.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) tree: Tree,
    mount: OwnedFd,
    masks: Option<restrict::Masks>,
    /// Where it is attached in the container's mount namespace.
    place: PathBuf,
}

impl Root {
    /// Takes what the runtime may take. The folder's path is absolute.
    pub(crate) fn plan(spec: &Spec, path: &Path, no_pivot: bool) -> Result<Root> {
        let mut root = Root {
            path: path.to_owned(),
            propagation: mounts::root_propagation(spec)?,
            made: None,
            mounts: mounts::plan(spec, path)?,
            no_pivot,
        };
        match root.take() {
            // Without the rights over this mount namespace: the container's process will do it.
            Err(error) if error.is(Errno::PERM.raw_os_error()) => Ok(root),
            Err(error) => Err(error),
            Ok(()) => Ok(root),
        }
    }

    fn take(&mut self) -> Result<()> {
        if self.made.is_none() {
            let copy = mount::copy_tree(&self.path, true).doing_on("root.path:", &self.path)?;
            let own = match self.propagation.0 {
                Propagation::Private | Propagation::Unbindable => Propagation::Private,
                Propagation::Slave | Propagation::Shared => Propagation::Slave,
            };
            mounts::set_propagation(&copy, own, true).doing("root.path")?;
            self.made = Some(copy);
        }
        let base = self.propagation;
        let outside = self
            .mounts
            .iter_mut()
            .filter(|mount| !mount.is_of(&self.path));
        outside.into_iter().try_for_each(|mount| mount.bind(base))
    }

    /// Puts the root together, in the container's process and its mount namespace. At `end` is who
    /// maps owners.
    pub(crate) fn build(mut self, spec: &Spec, plan: &Plan, end: &End) -> Result<(Built, Root)> {
        // Nothing of what follows is seen outside; what comes from outside is seen.
        mount::set_propagation(Path::new("/"), Propagation::Slave, true)?;
        self.take()?;
        for mount in &mut self.mounts {
            mount.make()?;
        }
        let masks = restrict::Masks::take(spec)?;
        let bind = plan.has(Namespaces::USER) || !may_make_nodes();
        let own_dev = self.has_own_dev();
        let nodes = match own_dev {
            true => devices::plan(spec, bind)?,
            false => Vec::new(),
        };
        let Some(made) = self.made.take() else {
            return crate::error::refuse("root.path: no root was made");
        };
        let place = attach(&made, &self.path)?;
        let tree = Tree::new(made.try_clone().doing("dup")?);
        for mount in &mut self.mounts {
            mount.bind_own(&tree, &self.path, self.propagation, end)?;
            mount.attach(&tree)?;
        }
        if own_dev {
            devices::put(&nodes, &tree)?;
        }
        let built = Built {
            tree,
            mount: made,
            masks,
            place,
        };
        Ok((built, self))
    }

    /// Whether `/dev` is the container's own, to be furnished: not where the node's is shown.
    fn has_own_dev(&self) -> bool {
        let dev = self.mounts.iter().rev();
        let mut dev = dev.filter(|mount| mount.destination == Path::new("/dev"));
        dev.next().is_none_or(|mount| !mount.is_bind())
    }

    /// Goes into it. Nothing of the old root can be reached afterwards.
    pub(crate) fn enter(self, built: &Built, spec: &Spec) -> Result<()> {
        match self.no_pivot {
            false => mount::pivot_root(&built.mount).doing("go into the root")?,
            true => {
                hide_kernel(&built.place)?;
                mount::leave_initramfs(&built.place).doing("go into the root")?;
            }
        }
        restrict::apply(spec, built.masks.as_ref(), &built.tree)?;
        for mount in &self.mounts {
            mount.close(&built.tree)?;
        }
        if spec.root.as_ref().is_some_and(|root| root.readonly) {
            let change = Change {
                set: Attributes::READ_ONLY,
                ..Change::default()
            };
            mount::set_attributes(&built.mount, &change).doing("root.readonly")?;
        }
        if !spec.linux.rootfs_propagation.is_empty() {
            let (propagation, all) = self.propagation;
            mount::set_propagation(Path::new("/"), propagation, all)
                .doing("linux.rootfsPropagation")?;
        }
        Ok(())
    }
}

/// Attaches the root where its folder is, so that hooks find it there; over `/` where a process of
/// another user namespace can't reach that folder.
fn attach(root: &OwnedFd, path: &Path) -> Result<PathBuf> {
    match mount::attach(root.as_fd(), path) {
        Ok(()) => Ok(path.to_owned()),
        Err(error) if error.is(Errno::ACCESS.raw_os_error()) => {
            mount::attach(root.as_fd(), Path::new("/")).doing("attach the root")?;
            Ok(PathBuf::from("/"))
        }
        Err(error) => Err(error).doing("attach the root"),
    }
}

/// Without a pivot the old root stays beneath. A whole proc or sysfs there would be leave for a
/// user namespace in the container to mount its own, unmasked.
fn hide_kernel(root: &Path) -> Result<()> {
    let mounts = mount::info::read().doing("the table of mounts")?;
    let kernels = mounts.iter().rev().filter(|mount| {
        let kind = mount.fs_type == "proc" || mount.fs_type == "sysfs";
        kind && !mount.target.starts_with(root)
    });
    for old in kernels {
        // Below one that is gone already, it is gone, too.
        match mount::unmount(&old.target, true) {
            Err(error) if error.is_not_found() => {}
            Err(error) if error.is(Errno::INVAL.raw_os_error()) => {
                let empty = mount::tmpfs(4096, 0o555, Attributes::READ_ONLY)?;
                mount::attach(&empty, &old.target).doing_on("cover", &old.target)?;
            }
            other => other.doing_on("unmount", &old.target)?,
        }
    }
    Ok(())
}

/// Whether the kernel lets this process make devices: not in a user namespace other than the first.
fn may_make_nodes() -> bool {
    let first = [0, 0, u64::from(u32::MAX)];
    let text = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    numbers == first
}
