// SPDX-License-Identifier: Apache-2.0
//! What lives in a cell, whichever executable it was once of: for a subsystem of the node that
//! keeps a cell for what main processes leave behind in it, as the unit manager does. It looks and
//! waits; nothing is signalled here.

use std::sync::Arc;

use kernel::cgroup::{Cgroup, find};
use kernel::signal::Signal;
use model::name::{ObjectPath, Tenant};
use tokio::io::Interest;
use tokio::sync::watch;

use super::cell::leaf;
use super::index::Key;
use super::layout::group_path;
use super::{Runtime, Shared};

/// No more processes of a cell are named.
const MOST: usize = 1_000;

fn group(shared: &Shared, tenant: &Tenant, path: &ObjectPath) -> Option<Cgroup> {
    let key = Key {
        tenant: tenant.clone(),
        path: path.clone(),
    };
    Cgroup::open(&group_path(shared, &key)).ok()
}

fn take(group: &Cgroup, found: &mut Vec<i32>) {
    found.extend(group.processes().unwrap_or_default());
    for (_, below) in group.groups() {
        if found.len() >= MOST {
            return;
        }
        take(&below, found);
    }
}

impl Runtime {
    /// The processes of a cell and of those in it by the node's numbers, at most 1,000 or so; none
    /// where there is no such cell. Blocks for a few system calls.
    pub fn processes_in(&self, tenant: &Tenant, path: &ObjectPath) -> Vec<i32> {
        let mut found = Vec::new();
        if let Some(group) = group(&self.shared, tenant, path) {
            take(&group, &mut found);
        }
        found.truncate(MOST);
        found
    }

    /// The folder of a cell's group, whether or not it is there.
    pub fn folder_of(&self, tenant: &Tenant, path: &ObjectPath) -> std::path::PathBuf {
        let key = Key {
            tenant: tenant.clone(),
            path: path.clone(),
        };
        group_path(&self.shared, &key)
    }

    /// Whether a process lives in a cell or in those in it.
    pub fn is_populated(&self, tenant: &Tenant, path: &ObjectPath) -> bool {
        group(&self.shared, tenant, path).is_some_and(|group| leaf::populated(&group))
    }

    /// Whether a process is in a cell, or in one in it, at this moment.
    pub fn is_process_in(&self, tenant: &Tenant, path: &ObjectPath, pid: i32) -> bool {
        let key = Key {
            tenant: tenant.clone(),
            path: path.clone(),
        };
        let folder = group_path(&self.shared, &key);
        find::path_of_process(pid).is_ok_and(|path| path.starts_with(&folder))
    }

    /// Resolves when no process lives in a cell, nor in those in it; at once where there is no such
    /// cell.
    pub async fn emptied(&self, tenant: &Tenant, path: &ObjectPath) {
        if let Some(group) = group(&self.shared, tenant, path) {
            let (_never, kill_at) = watch::channel(None);
            leaf::emptied(Arc::new(group), Signal::KILL, kill_at).await;
        }
    }

    /// How often the kernel has ended a process of a cell, or of one in it, for want of memory; 0
    /// where the kernel doesn't count that.
    pub fn oom_kills(&self, tenant: &Tenant, path: &ObjectPath) -> u64 {
        let group = group(&self.shared, tenant, path);
        let events = group.and_then(|group| group.memory_events().ok().flatten());
        events.map_or(0, |it| it.oom_kill)
    }

    /// Resolves when the kernel has ended a process of a cell, or of one in it, for want of memory
    /// more often than `seen`. Never resolves where the kernel doesn't count that: there
    /// is no such cell, or the node lacks the controller.
    pub async fn out_of_memory(&self, tenant: &Tenant, path: &ObjectPath, seen: u64) {
        let group = group(&self.shared, tenant, path);
        let Some(events) = group.and_then(|group| leaf::watch(&group, "memory.events").ok()) else {
            return std::future::pending().await;
        };
        loop {
            match leaf::oom_kills(&events) {
                Some(kills) if kills > seen => return,
                Some(_) => {}
                None => return std::future::pending().await,
            }
            match events.ready(Interest::PRIORITY).await {
                Ok(mut guard) => guard.clear_ready(),
                Err(_) => return std::future::pending().await,
            }
        }
    }
}
