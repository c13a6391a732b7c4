// SPDX-License-Identifier: Apache-2.0
//! Which processes of the machine belong to no object: each process is a unit's, a cell's, a
//! login's, the node's own or the kernel's, and one that is none of these is named. Called by
//! `daemon` for `Node.ListUnowned`. Not which object a process is of: that is the runtime's and
//! the unit manager's word.

use std::collections::HashMap;
use std::path::Path;

use identity::Permit;
use kernel::cgroup::find;
use kernel::procfs::command_line;
use model::error::Error;
use runtime::Runtime;
use schedule::unit::Units;

use crate::rpc::node::{Unowned, UnownedProcess};

/// Processes of one answer.
const MOST: usize = 1_024;

/// The processes that belong to no object, by number.
///
/// # Errors
/// `INTERNAL`: /proc can't be read.
pub(crate) async fn list(
    runtime: &Runtime,
    units: &Units,
    permit: &Permit,
) -> Result<Unowned, Error> {
    let found = tokio::task::spawn_blocking(processes);
    let found = found.await.map_err(|e| Error::internal(e.to_string()))??;
    let mut owned = HashMap::new();
    let mut unowned = Unowned::default();
    for (pid, cgroup) in found {
        let is_owned = match owned.get(&cgroup) {
            Some(known) => *known,
            None => {
                let is_owned = is_owned(runtime, units, permit, pid, &cgroup).await;
                owned.insert(cgroup.clone(), is_owned);
                is_owned
            }
        };
        // One that has ended meanwhile is left out.
        let Some(command) = (!is_owned).then(|| command_line(pid)).flatten() else {
            continue;
        };
        if unowned.processes.len() == MOST {
            unowned.truncated = true;
            break;
        }
        unowned.processes.push(UnownedProcess {
            pid: u32::try_from(pid).unwrap_or_default(),
            cgroup,
            command,
        });
    }
    Ok(unowned)
}

/// Whether what is in this group belongs to an object or to the node; `pid` is in it.
async fn is_owned(
    runtime: &Runtime,
    units: &Units,
    permit: &Permit,
    pid: i32,
    cgroup: &str,
) -> bool {
    let group = Path::new(cgroup);
    if runtime.is_nodes_own(group) || runtime.object_of_group(group).is_some() {
        return true;
    }
    units.are_run() && matches!(units.of_process(permit, pid).await, Ok(Some(_)))
}

/// All processes that aren't the kernel's, with their groups.
fn processes() -> Result<Vec<(i32, String)>, Error> {
    let failed = |error: std::io::Error| Error::internal(format!("/proc: {error}"));
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.parse::<i32>().ok()) else {
            continue;
        };
        // The kernel's threads execute no file; nor does what has ended and wasn't waited for.
        if std::fs::read_link(format!("/proc/{pid}/exe")).is_err() {
            continue;
        }
        if let Ok(group) = find::group_of_process(pid) {
            found.push((pid, group));
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there_with_its_command_and_the_kernels_are_not() {
        let own = i32::try_from(std::process::id()).unwrap();
        let all = processes().unwrap();
        assert!(all.iter().any(|(pid, _)| *pid == own), "{all:?}");
        // kthreadd, where this is no namespace of its own.
        let second = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
        if second.trim() == "kthreadd" {
            assert!(all.iter().all(|(pid, _)| *pid != 2));
        }
        let first = std::env::args().next().unwrap();
        assert!(command_line(own).unwrap().starts_with(&first));
        assert_eq!(command_line(i32::MAX), None);
    }
}
