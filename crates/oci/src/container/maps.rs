// SPDX-License-Identifier: Apache-2.0
//! The maps of a new user namespace: written by the runtime where it may, else by `newuidmap` and
//! `newgidmap`, which look into `/etc/subuid` and `/etc/subgid`.

use std::process::Command;

use kernel::idmap::{self, IdMap};
use kernel::process;
use rustix::io::Errno;

use crate::config::linux::IdMapping;
use crate::config::{Linux, Spec};
use crate::error::{Doing, Result, refuse};

/// Writes both maps of the process, where its user namespace is a new one.
pub(crate) fn write_new(spec: &Spec, pid: i32) -> Result<()> {
    let own = spec.linux.namespaces.iter().find(|n| n.kind == "user");
    match own.is_some_and(|user| user.path.as_os_str().is_empty()) {
        true => write(&spec.linux, pid),
        false => Ok(()),
    }
}

fn write(linux: &Linux, pid: i32) -> Result<()> {
    let extents = |list: &[IdMapping]| list.iter().map(|map| map.to_kernel()).collect::<Vec<_>>();
    let (uids, gids) = (extents(&linux.uid_mappings), extents(&linux.gid_mappings));
    let folder = idmap::open_process(pid)?;
    let own = is_own(&uids, process::effective_uid()) && is_own(&gids, process::effective_gid());
    let user = process::effective_uid() != 0;
    if user && own {
        return idmap::deny_setgroups(&folder)
            .and_then(|()| idmap::write(&folder, &uids, &gids))
            .doing("linux.uidMappings, linux.gidMappings");
    }
    match idmap::write(&folder, &uids, &gids) {
        Err(error) if error.is(Errno::PERM.raw_os_error()) && user => {}
        other => return other.doing("linux.uidMappings, linux.gidMappings"),
    }
    by_helper("newuidmap", pid, &uids)?;
    by_helper("newgidmap", pid, &gids)
}

/// One extent of one id, the caller's own: what any user may map.
fn is_own(map: &[IdMap], id: u32) -> bool {
    matches!(map, [one] if one.count == 1 && one.outside == id)
}

fn by_helper(program: &str, pid: i32, map: &[IdMap]) -> Result<()> {
    let mut command = Command::new(program);
    command.arg(pid.to_string());
    for extent in map {
        for number in [extent.inside, extent.outside, extent.count] {
            command.arg(number.to_string());
        }
    }
    let output = command.output().doing(program)?;
    match output.status.success() {
        true => Ok(()),
        false => refuse(format!(
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
