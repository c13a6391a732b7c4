// SPDX-License-Identifier: Apache-2.0
//! The process of a cell's init, and how it is known whose it is.
//!
//! The inits of a tenant's cells live in one cgroup outside of the tenant's (`tenant::inits`): no
//! limit, freeze or OOM kill of a cell reaches its init. So the group of an init says its tenant
//! and no more. Which cell it is, the group of the cell says: it bears the cell's uid as a mark
//! that the node's root alone can write ([`mark`]), and the init listens on the socket of that uid.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kernel::cgroup::{Cgroup, find};
use kernel::namespace;
use kernel::pidfd;
use kernel::signal::Signal;
use model::error::Error;
use model::name::Uid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use super::leaf;
use crate::Shared;
use crate::slices;
use crate::tenant::inits;
use crate::watched::watch;

/// The name of the mark.
const MARK: &str = "aurae.cell";
/// The mark of a light cell's group, beside the other one.
const LIGHT: &str = "aurae.light";
/// Deeper than any cell that the kernel lets be made (32 user namespaces).
const DEEPEST: usize = 40;

/// A cell-init's process: another one, where the first has died and what it kept was adopted
/// ([`super::renewal`]).
#[derive(Debug)]
pub(crate) struct InitProcess {
    now: Mutex<Arc<Process>>,
    /// It is the one of the cell around a light one: not this cell's to kill or to wait for.
    is_lent: bool,
}

/// One process, for as long as something is to be done with it.
#[derive(Debug)]
pub(crate) struct Process {
    /// In the daemon's pid namespace.
    pid: i32,
    pidfd: OwnedFd,
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

impl InitProcess {
    /// The one of this descriptor, which node-init handed over.
    pub(crate) fn new(pid: i32, pidfd: OwnedFd) -> Self {
        Self {
            now: Mutex::new(Arc::new(Process { pid, pidfd })),
            is_lent: false,
        }
    }

    /// The same for a light cell in the cell that it is of.
    pub(crate) fn lent(&self) -> Self {
        Self {
            now: Mutex::new(self.process()),
            is_lent: true,
        }
    }

    /// The process that it is now.
    pub(crate) fn process(&self) -> Arc<Process> {
        self.lock().clone()
    }

    /// It is that one's process from now on.
    pub(super) fn become_that_of(&self, other: &Self) {
        let process = other.process();
        *self.lock() = process;
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Process>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a light cell, where it is said to be: see [`Self::lent`].
    pub(crate) fn lend(&mut self, is_lent: bool) {
        self.is_lent = is_lent;
    }

    /// The init of this number in one of the groups that the kernel calls `inits`. An error says
    /// that it is something else's number.
    pub(crate) fn find(pid: i32, inits: &[String]) -> Result<Self, String> {
        let pidfd = pidfd::open(pid).map_err(|e| e.to_string())?;
        let actual = find::group_of_process(pid).map_err(|e| e.to_string())?;
        if !inits.contains(&actual) {
            let inits = inits.join(" or ");
            return Err(format!("process {pid} is in {actual}, not in {inits}"));
        }
        Ok(Self::new(pid, pidfd))
    }

    /// Whether it is that of the cell around.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// In the daemon's pid namespace.
    pub(crate) fn pid(&self) -> i32 {
        self.lock().pid
    }

    /// One of its namespaces, by its name in proc. The process's number is its own as long as it
    /// lives, and that is looked at afterwards.
    pub(crate) fn namespace(&self, name: &str) -> Result<OwnedFd, Error> {
        let failed = |error: kernel::Error| {
            let message = format!("the namespace {name} of the cell: {error}");
            Error::internal(message).errno(error.errno())
        };
        let process = self.process();
        let path = PathBuf::from(format!("/proc/{}/ns/{name}", process.pid));
        let opened = namespace::open(&path).map_err(failed)?;
        match pidfd::has_ended(&*process).map_err(failed)? {
            false => Ok(opened),
            true => Err(Error::internal("the cell's init has ended")),
        }
    }

    /// SIGKILL. One that has ended needs none, one that is another cell's gets none.
    pub(crate) fn kill(&self) {
        if self.is_lent {
            return;
        }
        let _ = pidfd::send_signal(&*self.process(), Signal::KILL);
    }

    /// Resolves when it has ended. It is killed at `due`. Of a light cell it has ended as soon as
    /// it says no more of that cell.
    pub(crate) async fn ended(&self, due: Instant) {
        if self.is_lent {
            return;
        }
        let process = self.process();
        let kill = || _ = pidfd::send_signal(&*process, Signal::KILL);
        let copy = rustix::io::fcntl_dupfd_cloexec(&*process, 3);
        match copy.map(|pidfd| watch(pidfd, Interest::READABLE)) {
            Ok(Ok(watched)) => {
                if tokio::time::timeout_at(due, ready(&watched)).await.is_err() {
                    kill();
                    ready(&watched).await;
                }
            }
            // No descriptor is to be had: then it is killed now.
            _ => kill(),
        }
    }
}

/// A pidfd can be read, as `poll` has it, when its process has ended.
async fn ready(pidfd: &AsyncFd<OwnedFd>) {
    while let Ok(mut guard) = pidfd.readable().await {
        if pidfd::has_ended(pidfd.get_ref()).unwrap_or(true) {
            return;
        }
        guard.clear_ready();
    }
}

/// Marks the group of a cell as that cell's.
pub(crate) fn mark(cell: &Cgroup, uid: Uid) -> Result<(), kernel::Error> {
    cell.set_mark(MARK, &uid.0)
}

/// Whose group it is; `None` of an executable's.
pub(crate) fn marked(group: &Cgroup) -> Option<Uid> {
    let mark = group.mark(MARK).ok().flatten()?;
    mark.try_into().ok().map(Uid)
}

/// Marks the group of a light cell: what it is counts by this, and not by what an init says.
pub(crate) fn mark_light(cell: &Cgroup) -> Result<(), kernel::Error> {
    cell.set_mark(LIGHT, &[1])
}

/// Whether the group is a light cell's.
///
/// # Errors
/// Where the kernel doesn't say: then nothing may be taken for granted.
pub(crate) fn is_light(cell: &Cgroup) -> Result<bool, kernel::Error> {
    Ok(cell.mark(LIGHT)?.is_some())
}

/// Where the group of a cell is, below the one of its tenant.
pub(crate) fn find_marked(tenant: &Cgroup, uid: Uid) -> Option<PathBuf> {
    find_below(tenant, uid, 0)
}

fn find_below(group: &Cgroup, uid: Uid, depth: usize) -> Option<PathBuf> {
    let names = group.children().ok().filter(|_| depth < DEEPEST)?;
    names.iter().find_map(|name| {
        let child = group.child(name.to_str()?).ok()?;
        match marked(&child) {
            Some(found) if found == uid => Some(PathBuf::from(name)),
            None if !slices::is_slice(name.to_str()?) => None,
            // What is in a slice is in the cell around it.
            Some(_) | None => {
                find_below(&child, uid, depth + 1).map(|below| PathBuf::from(name).join(below))
            }
        }
    })
}

/// Kills a cell-init that nothing is known of but its number, and what is in its cell.
pub(crate) fn kill(shared: &Shared, pid: i32, uid: Uid) {
    let Some((pidfd, group)) = pidfd::open(pid).ok().zip(find::path_of_process(pid).ok()) else {
        return;
    };
    let Some(name) = inits::tenant_of(shared.root.path(), &group) else {
        return;
    };
    let _ = pidfd::send_signal(&pidfd, Signal::KILL);
    let Ok(tenant) = shared.around(name).child(name) else {
        return;
    };
    if let Some(Ok(cell)) = find_marked(&tenant, uid).map(|below| tenant.descendant(&below)) {
        leaf::kill(&cell);
    }
}
