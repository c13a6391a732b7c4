// SPDX-License-Identifier: Apache-2.0
//! The node's own cgroups: a base that all cells are below, the leaves of node-init and of the
//! daemon, and the group of all cell-inits. The cells themselves are in groups that the daemon
//! creates.
//!
//! They are set up once, before anything runs: node-init and the processes beside it in the base's
//! group (in a container, in the one above) move to `_init`, because a group with controllers
//! enabled may hold no process itself. A service whose base is in another unit's group stays where
//! its manager has put it, and can be started there again. No process is moved afterwards.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::cgroup::{Cgroup, find};
use kernel::fsutil::read_pseudo;
use kernel::{Error, Result};
use rustix::io::Errno;

use super::console::Console;
use crate::again::again;
use crate::protocol::{CLONERS, Role};

/// The group of all cell-inits, with a group for each tenant's, beside the group of all tenants. In
/// a node of before it was a tenant's, beside the groups of its cells.
pub(super) const INITS: &str = "_inits";
/// The group of all tenants, as the daemon names it.
const TENANTS: &str = "tenants";
/// The group of the administrators' tenant, as the daemon names it: beside that of all others.
const SYSTEM: &str = "system";
/// The leaf of node-init and the spawner.
pub(super) const INIT: &str = "_init";
/// How often a group is emptied, where processes come into it meanwhile.
const TRIES: usize = 16;
/// The leaf of the daemon.
pub(super) const DAEMON: &str = "_daemon";

/// The node's cgroups; without cgroup2 there are none, and no cell can be created.
#[derive(Default)]
pub(super) struct Groups {
    base: Option<Cgroup>,
    daemon: Option<OwnedFd>,
}

impl Groups {
    /// Makes them and moves node-init to its leaf.
    ///
    /// # Errors
    /// The groups can't be created, and this isn't PID 1 of a machine: it ends with the error. A
    /// machine writes the error to its console and boots as far as it can.
    pub(super) fn settle(wanted: Option<&Path>, role: Role, console: &Console) -> Result<Groups> {
        again(|| Groups::try_settle(wanted, role)).or_else(|error| {
            let hint = match role {
                Role::Machine => {
                    console.say(&format!("no cgroups: {error}; cells can't be made"));
                    return Ok(Groups::default());
                }
                Role::Container => {
                    "give the container a cgroup namespace and its own cgroup2 writable at \
                     /sys/fs/cgroup, e.g. by `--privileged --cgroupns=private`"
                }
                Role::Service => "mount cgroup2, or name a group that may be written: paths.cgroup",
            };
            let errno = Errno::from_raw_os_error(error.errno());
            Err(Error::new("no cgroup of our own", errno).about(format!("{error}; {hint}")))
        })
    }

    fn try_settle(wanted: Option<&Path>, role: Role) -> Result<Groups> {
        let (root, own) = (find::mount_point()?, find::own_path()?);
        let base = match wanted {
            Some(path) if path.starts_with(&root) => path.to_owned(),
            Some(path) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => base_path(&root, &own, role),
        };
        let above = base.parent().filter(|above| above.starts_with(&root));
        let name = base.file_name().and_then(|name| name.to_str());
        let (above, group) = match (above, name) {
            (Some(above), Some(name)) if base != root => {
                let above = Cgroup::open(above)?;
                let group = above.ensure(name)?;
                (Some(above), group)
            }
            _ => (None, Cgroup::open(&base)?),
        };
        let (init, daemon) = (group.ensure(INIT)?, group.ensure(DAEMON)?);
        // Its members clone executables from there into the groups of cells: this group is the
        // common ancestor. Where the right can't be given (a container without that id), there is
        // no such group, and creating a cell says why.
        if group.let_group_clone(CLONERS).is_ok() {
            group.ensure(INITS)?;
        }
        let anothers = !base.starts_with(&own) && !own.starts_with(&base);
        if role != Role::Service || !anothers {
            init.enter()?;
        }
        let above = above.filter(|above| above.path() == root);
        if let Some(above) = &above {
            match role {
                Role::Container => empty_and_enable(above, &init),
                // Whose processes they are isn't known: who has put them there keeps them.
                _ => _ = enable_all(above),
            }
        }
        // The group of a delegated service may hold the process that started node-init, too.
        empty_and_enable(&group, &init);
        let groups = Groups {
            base: Some(group),
            daemon: Some(daemon.into_fd()),
        };
        groups.remove_old_inits();
        Ok(groups)
    }

    /// Removes the groups of cell-inits that an earlier node-init has left, where nothing runs in
    /// them. Its shutdown killed them with all other groups, and newer kernels (seen on 6.18) kill
    /// at once what is cloned into a group that was killed before: no cell could be made there.
    fn remove_old_inits(&self) {
        // One that a surviving cell-init is in stays: it wasn't killed.
        for (_, tenant) in self.below(TENANTS) {
            let _in_use = tenant.remove(INITS, Duration::ZERO);
        }
        let all = self.base.as_ref().and_then(|base| base.child(INITS).ok());
        let Some(all) = all else { return };
        for (name, _) in all.groups() {
            let _in_use = all.remove(&name, Duration::ZERO);
        }
    }

    /// Removes the groups that this node has made for tenants, where no cell is left: a service
    /// that has stopped in order leaves nothing of them behind.
    pub(super) fn remove_empty(&self) {
        self.remove_old_inits();
        let Some(base) = &self.base else { return };
        // An idle cell's group has no process. Its init's has.
        if self.inits().is_empty() {
            for name in [TENANTS, SYSTEM, INITS] {
                let _in_use = base.remove(name, Duration::ZERO);
            }
        }
    }

    /// Where the daemon is cloned into.
    pub(super) fn daemon(&self) -> Option<BorrowedFd<'_>> {
        self.daemon.as_ref().map(AsFd::as_fd)
    }

    /// Whether a process is in a cell of the administrators' tenant.
    pub(super) fn is_administrators(&self, pid: i32) -> bool {
        let own = self.base.as_ref().map(|base| base.path().join(SYSTEM));
        own.is_some_and(|own| find::path_of_process(pid).is_ok_and(|path| path.starts_with(own)))
    }

    /// Kills every process of all cells.
    pub(super) fn kill_cells(&self) {
        let Some(base) = &self.base else { return };
        for name in base.children().unwrap_or_default() {
            let Some(name) = name.to_str().filter(|name| ![INIT, DAEMON].contains(name)) else {
                continue;
            };
            let _ = base.child(name).and_then(|group| group.kill());
        }
    }

    /// The cell-inits, from the tree: also those of cells that an earlier node-init created.
    pub(super) fn cell_inits(&self) -> Vec<CellInit> {
        let mut tenants: Vec<String> = Vec::new();
        let mut inits = Vec::new();
        for (name, group) in self.inits() {
            let tenant = tenants.iter().position(|known| *known == name);
            let tenant = tenant.unwrap_or_else(|| {
                tenants.push(name);
                tenants.len() - 1
            });
            let pids = group.processes().unwrap_or_default();
            let pids = pids.into_iter().filter(|pid| *pid > 0);
            inits.extend(pids.filter_map(|pid| CellInit::look_at(tenant, pid)));
        }
        inits
    }

    /// The groups that cell-inits are in, each with its tenant's name: a tenant of a node of before
    /// may have two.
    fn inits(&self) -> Vec<(String, Cgroup)> {
        let before = self.below(TENANTS).into_iter();
        let before = before.filter_map(|(name, tenant)| Some((name, tenant.child(INITS).ok()?)));
        before.chain(self.below(INITS)).collect()
    }

    /// The groups in one of the base's, with their names.
    fn below(&self, name: &str) -> Vec<(String, Cgroup)> {
        let all = self.base.as_ref().and_then(|base| base.child(name).ok());
        all.map(|all| all.groups()).unwrap_or_default()
    }
}

/// A cell's init, as the kernel shows it.
pub(super) struct CellInit {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    tenant: usize,
    /// How many pid namespaces are around it.
    depth: usize,
    /// It is PID 1 of the innermost: all other processes there end with it.
    first: bool,
}

impl CellInit {
    /// `None` where it has ended.
    fn look_at(tenant: usize, pid: i32) -> Option<CellInit> {
        let pidfd = kernel::pidfd::open(pid).ok()?;
        let status = read_pseudo(Path::new(&format!("/proc/{pid}/status"))).ok()?;
        let (depth, first) = namespaces(&status)?;
        Some(CellInit {
            pid,
            pidfd,
            tenant,
            depth,
            first,
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        kernel::pidfd::has_ended(&self.pidfd).unwrap_or(true)
    }

    /// Its tenant, by number.
    pub(super) fn tenant(&self) -> usize {
        self.tenant
    }

    /// How far inside it is. A cell whose init has a lower rank than another's of the same tenant
    /// may enclose that, which would end with it. (It may be inside of a third: all stop their
    /// workloads at the same time anyway.)
    pub(super) fn rank(&self) -> (usize, bool) {
        (self.depth, !self.first)
    }
}

/// From `/proc/PID/status`: in how many pid namespaces it is, and whether it is the first in the
/// innermost.
fn namespaces(status: &str) -> Option<(usize, bool)> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    let numbers = line.split_ascii_whitespace();
    let innermost = numbers.clone().next_back()?;
    Some((numbers.count(), innermost == "1"))
}

/// `aurae` below the root, unless this is a service in a group of its own.
fn base_path(root: &Path, own: &Path, role: Role) -> PathBuf {
    let own_leaf = own.file_name().is_some_and(|name| name == INIT);
    match role {
        // Executed again by itself, in its leaf already.
        _ if own_leaf => own.parent().unwrap_or(root).to_owned(),
        Role::Service if own != root => own.to_owned(),
        _ => root.join("aurae"),
    }
}

/// Moves the processes that are directly in the group to the leaf.
fn gather(group: &Cgroup, leaf: &Cgroup) {
    for pid in group.processes().unwrap_or_default() {
        let _ = leaf.write("cgroup.procs", &pid.to_string());
    }
}

/// Passes on every controller of a group that is empty first. A process may come between the two,
/// as one that a container's engine executes in it does: then both are done again.
fn empty_and_enable(group: &Cgroup, leaf: &Cgroup) {
    for _ in 0..TRIES {
        gather(group, leaf);
        if enable_all(group) {
            return;
        }
    }
}

/// Passes on every controller there is. One that can't be is missing below, where it is asked for
/// by name. `false`: one is, since a process is in the group.
fn enable_all(group: &Cgroup) -> bool {
    let mut is_free = true;
    for controller in group.controllers().unwrap_or_default() {
        if let Err(error) = group.enable(&[controller]) {
            is_free &= error.errno() != Errno::BUSY.raw_os_error();
        }
    }
    is_free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_of_a_process_is_that_of_its_pid_namespaces() {
        assert_eq!(namespaces("Name:\tx\nNSpid:\t812\n"), Some((1, false)));
        assert_eq!(namespaces("NSpid:\t812\t7\t1\n"), Some((3, true)));
        assert_eq!(namespaces("NSpid:\t812\t7\n"), Some((2, false)));
        assert_eq!(namespaces("Name:\tx\n"), None);
    }
}
