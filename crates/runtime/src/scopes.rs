// SPDX-License-Identifier: Apache-2.0
//! Groups of processes that the node has not started and looks after: a login's, a container's of
//! another engine (systemd.scope(5)). They are the one case in which a process of another's is
//! moved from a cgroup to another one (ADR 70). Their groups are where systemd has them,
//! `user.slice/user-1000.slice/session-4.scope`, since logind and engines read the names. No cell
//! and no record: whose they are is the unit manager's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kernel::cgroup::{Cgroup, find};
use kernel::signal::Signal;
use model::error::{Error, Reason};
use model::quota::ADMINISTRATORS;
use model::resources::Resources;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::watch;

use super::Runtime;
use super::cell::{leaf, limits};
use super::slices;

/// Limits that a topmost slice has from the group of all tenants: what the node keeps for itself is
/// kept from logins, too.
const HELD: [&str; 2] = ["memory.max", "pids.max"];
/// How long a group that is empty may take to go.
const GONE: Duration = Duration::from_secs(2);
/// So many processes of one group are signalled.
const MOST: usize = 32_768;

/// Where the groups are.
#[derive(Clone, Debug)]
pub struct Scopes {
    /// Slices are below it.
    root: PathBuf,
    /// The node's own group.
    node: PathBuf,
    /// The group of all tenants.
    tenants: PathBuf,
    /// The group of the administrators' tenant.
    administrators: PathBuf,
    controllers: Vec<String>,
}

/// A group that is to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// The slices on the way, the topmost first, and what all in each may use together.
    pub slices: Vec<(String, Resources)>,
    /// The group's name.
    pub name: String,
    /// What all of its processes may use.
    pub resources: Resources,
    /// The processes that it begins with.
    pub processes: Vec<i32>,
}

fn failed(error: kernel::Error) -> Error {
    let errno = error.errno();
    Error::new(Reason::WrongState, error.to_string()).errno(errno)
}

impl Runtime {
    /// Where groups of others' processes are: at the top of the machine's hierarchy where the
    /// machine is the node's, below the node's own group otherwise.
    ///
    /// # Errors
    /// `WRONG_STATE`: cgroup2 isn't mounted.
    pub fn scopes(&self, is_machine: bool) -> Result<Scopes, Error> {
        let tenants = self.shared.root.path().to_owned();
        let node = tenants.parent().unwrap_or(&tenants).to_owned();
        let root = match is_machine {
            true => find::mount_point().map_err(failed)?,
            false => node.clone(),
        };
        let administrators = self.shared.around(ADMINISTRATORS).path();
        Ok(Scopes {
            root,
            node,
            tenants,
            administrators: administrators.join(ADMINISTRATORS),
            controllers: self.shared.controllers.clone(),
        })
    }
}

impl Scopes {
    /// The folder of a group.
    pub fn folder(&self, slices: &[String], name: &str) -> PathBuf {
        let mut folder = self.root.clone();
        folder.extend(slices);
        folder.push(name);
        folder
    }

    /// Makes a group and moves its first processes there; all of them, or none stays.
    ///
    /// # Errors
    /// `WRONG_STATE`: something lives in a group of that name, a process has gone, or is one of a
    /// cell, of the node or of the kernel.
    pub fn make(&self, draft: &Draft) -> Result<PathBuf, Error> {
        for pid in &draft.processes {
            self.may_move(*pid)?;
        }
        let mut above = Cgroup::open(&self.root).map_err(failed)?;
        for (depth, (slice, resources)) in draft.slices.iter().enumerate() {
            self.hand_on(&above);
            above = above.ensure(slice).map_err(failed)?;
            limit(&above, resources);
            if depth == 0 {
                self.hold(&above);
            }
        }
        self.hand_on(&above);
        let group = above.ensure(&draft.name).map_err(failed)?;
        if leaf::populated(&group) {
            let words = format!("processes live in {}", group.path().display());
            return Err(Error::new(Reason::WrongState, words));
        }
        let limits = limits::of(&draft.resources)?;
        let filled = group.set_limits(&limits).map_err(failed);
        let filled = filled.and_then(|()| self.fill(&group, &draft.processes));
        if let Err(error) = filled {
            self.remove(group.path());
            return Err(error);
        }
        Ok(group.path().to_owned())
    }

    fn fill(&self, group: &Cgroup, processes: &[i32]) -> Result<(), Error> {
        let mut moved = Vec::new();
        for pid in processes {
            // Its place may have changed since: who asks is root, and this is the last look.
            let from = self.may_move(*pid).and_then(|from| {
                let entered = group.write("cgroup.procs", &pid.to_string());
                entered.map_err(failed).map(|()| from)
            });
            match from {
                Ok(from) => moved.push((*pid, from)),
                Err(error) => {
                    moved.into_iter().for_each(back);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives the innermost of these slices what its files say now, where its group is there. Blocks
    /// for a few system calls.
    pub fn limit_slice(&self, slices: &[String], resources: &Resources) {
        let mut folder = self.root.clone();
        folder.extend(slices);
        let Ok(group) = Cgroup::open(&folder) else {
            return;
        };
        limit(&group, resources);
        if slices.len() == 1 {
            self.hold(&group);
        }
    }

    /// Moves more processes into a group that is there.
    ///
    /// # Errors
    /// As [`Scopes::make`].
    pub fn add(&self, folder: &Path, processes: &[i32]) -> Result<(), Error> {
        let group = Cgroup::open(folder).map_err(failed)?;
        self.fill(&group, processes)
    }

    /// A process of a cell has its owner, its limits and its record; the node's own hold the node.
    /// Units' commands, and what is in no group of the node's, may go.
    ///
    /// The folder of the group that it is in.
    fn may_move(&self, pid: i32) -> Result<PathBuf, Error> {
        let refused = |why: &str| {
            let words = format!("process {pid} {why}");
            Err(Error::new(Reason::WrongState, words))
        };
        if pid <= 1 {
            return refused("can't be moved");
        }
        let Ok(at) = find::path_of_process(pid) else {
            return refused("has gone");
        };
        if std::fs::read_link(format!("/proc/{pid}/exe")).is_err() {
            return refused("has gone, or is the kernel's");
        }
        let units = self.administrators.join("system");
        let is_scope = at.strip_prefix(&self.root).is_ok_and(|below| {
            let top = below.iter().next().and_then(|it| it.to_str());
            top.is_some_and(|it| it.ends_with(".slice") || it.ends_with(".scope"))
        });
        match at.starts_with(&self.node) && !at.starts_with(&units) && !is_scope {
            true => refused("is one of a cell or of the node itself: it stays where it is"),
            false => Ok(at),
        }
    }

    /// What is below a group may be limited. A controller that isn't there is said where a limit
    /// needs it.
    fn hand_on(&self, group: &Cgroup) {
        if let Err(error) = group.enable(&self.controllers) {
            tracing::debug!(group = %group.path().display(), %error, "controllers stay off");
        }
    }

    fn hold(&self, slice: &Cgroup) {
        let Ok(tenants) = Cgroup::open(&self.tenants) else {
            return;
        };
        for file in HELD {
            let Ok(bound) = tenants.read(file) else {
                continue;
            };
            // A slice's own limit counts where it is the lower one.
            let own = slice.read(file).unwrap_or_default();
            if is_lower(own.trim(), bound.trim()) {
                continue;
            }
            if let Err(error) = slice.write(file, bound.trim()) {
                tracing::warn!(%error, "a slice isn't bounded as tenants are");
            }
        }
    }

    /// Resolves when no process lives in a group, nor below it; at once where it isn't there.
    pub async fn emptied(&self, folder: &Path) {
        if let Ok(group) = Cgroup::open(folder) {
            let (_never, kill_at) = watch::channel(None);
            leaf::emptied(Arc::new(group), Signal::KILL, kill_at).await;
        }
    }

    /// The processes of a group and below it.
    pub fn processes(&self, folder: &Path) -> Vec<i32> {
        let mut found = Vec::new();
        let mut todo: Vec<Cgroup> = Cgroup::open(folder).into_iter().collect();
        while let Some(group) = todo.pop() {
            found.extend(group.processes().unwrap_or_default());
            if found.len() >= MOST {
                break;
            }
            todo.extend(group.groups().into_iter().map(|(_, below)| below));
        }
        found.truncate(MOST);
        found
    }

    /// Signals what lives in a group and below it. Whether there was a process.
    pub fn signal(&self, folder: &Path, signal: model::signal::Signal) -> bool {
        let Some(signal) = Signal::from_number(i32::from(signal.number())) else {
            return false;
        };
        if signal == Signal::KILL {
            let group = Cgroup::open(folder);
            return group.is_ok_and(|it| leaf::populated(&it) && it.kill().is_ok());
        }
        let mut reached = false;
        for pid in self.processes(folder) {
            reached |= one(folder, pid, signal).is_ok();
        }
        reached
    }

    /// Removes a group that is empty, with what is below it.
    pub fn remove(&self, folder: &Path) {
        let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
            return;
        };
        let removed = Cgroup::open(above).and_then(|above| {
            let name = name.to_str().unwrap_or_default();
            above.remove(name, GONE)
        });
        match removed {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => tracing::warn!(group = %folder.display(), %error, "a group stays"),
        }
    }
}

/// What a slice's files say, and no more. A login isn't refused for a limit that can't be set.
fn limit(slice: &Cgroup, resources: &Resources) {
    if let Err(error) = slices::limit(slice, resources) {
        tracing::warn!(group = %slice.path().display(), %error, "a slice isn't limited");
    }
}

/// Whether a limit is lower than another one; `max` is none.
fn is_lower(limit: &str, other: &str) -> bool {
    let number = |it: &str| it.parse().unwrap_or(u64::MAX);
    number(limit) < number(other)
}

/// Takes a process back to where it was.
fn back((pid, from): (i32, PathBuf)) {
    let moved = Cgroup::open(&from).and_then(|group| group.write("cgroup.procs", &pid.to_string()));
    if let Err(error) = moved {
        tracing::warn!(pid, %error, "a process stays in a group that isn't made");
    }
}

/// The descriptor names the process whose place was looked at, and no later one of its number.
fn one(folder: &Path, pid: i32, signal: Signal) -> Result<(), kernel::Error> {
    let process = Pid::from_raw(pid).ok_or(kernel::Error::from_raw("pidfd_open", 22))?;
    let process = pidfd_open(process, PidfdFlags::empty());
    let process = process.map_err(|e| kernel::Error::from_raw("pidfd_open", e.raw_os_error()))?;
    let at = find::path_of_process(pid)?;
    if !at.starts_with(folder) {
        return Ok(());
    }
    kernel::pidfd::send_signal(process, signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_is_the_highest_one() {
        assert!(is_lower("100", "max") && is_lower("1", "2"));
        assert!(!is_lower("max", "100") && !is_lower("max", "max") && !is_lower("", "5"));
        assert!(!is_lower("5", "5"));
    }
}
