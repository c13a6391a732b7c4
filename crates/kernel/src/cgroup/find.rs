// SPDX-License-Identifier: Apache-2.0
//! Where cgroup2 is, and which group a process is in.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;

use crate::fsutil::read_pseudo;
use crate::mount::info::{self, MountInfo};
use crate::{Error, Result};

/// What [`mount`] has found last. Finding one line means reading the whole table, which took longer
/// than all other steps of adopting a cell.
static FOUND: Mutex<Option<MountInfo>> = Mutex::new(None);

/// Where cgroup2 is mounted (`/sys/fs/cgroup`, or `/sys/fs/cgroup/unified` on a hybrid system), and
/// which group is its root. `ENOENT` where it isn't mounted.
fn mount() -> Result<MountInfo> {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mount) = found.as_ref().filter(|mount| is_there(mount)) {
        return Ok(mount.clone());
    }
    let mount = pick(info::read()?).ok_or_else(|| {
        Error::new("find cgroup2", Errno::NOENT)
            .about("no cgroup2 in /proc/self/mountinfo: mount -t cgroup2 none /sys/fs/cgroup")
    })?;
    *found = Some(mount.clone());
    Ok(mount)
}

/// Whether this very mount is what the caller sees in its place. Ids are unique among all mounts of
/// the machine; before Linux 5.8 there is none, and the table is read each time.
fn is_there(mount: &MountInfo) -> bool {
    let flags = AtFlags::NO_AUTOMOUNT;
    statx(CWD, &mount.target, flags, StatxFlags::MNT_ID).is_ok_and(|seen| {
        let has_id = StatxFlags::from_bits_retain(seen.stx_mask).contains(StatxFlags::MNT_ID);
        has_id && seen.stx_mnt_id == u64::from(mount.id)
    })
}

/// The mount to use: the first of cgroup2 that isn't hidden by a later mount at the same path.
fn pick(mounts: Vec<MountInfo>) -> Option<MountInfo> {
    let last = |m: &MountInfo| {
        mounts
            .iter()
            .rev()
            .find(|o| o.target == m.target)
            .map(|o| o.id)
    };
    let visible: Vec<u32> = mounts
        .iter()
        .filter(|m| last(m) == Some(m.id))
        .map(|m| m.id)
        .collect();
    let mut all = mounts.into_iter();
    all.find(|m| m.fs_type == "cgroup2" && visible.contains(&m.id))
}

/// Where cgroup2 is mounted.
///
/// # Errors
/// `ENOENT`: it isn't mounted, or `/proc` isn't. `EINVAL`: the mount table has a line that can't be
/// read.
pub fn mount_point() -> Result<PathBuf> {
    mount().map(|m| m.target)
}

/// The folder of the group that the caller is in.
///
/// # Errors
/// `ENOENT`: cgroup2 is not mounted. `EXDEV`: the group is not below the group that is mounted, as
/// in a container that mounts a part of the hierarchy.
pub fn own_path() -> Result<PathBuf> {
    path_of("/proc/self/cgroup")
}

/// The folder of the group that a process is in.
///
/// # Errors
/// `ENOENT`, `ESRCH`: there is no such process, or cgroup2 is not mounted. `EXDEV`: the group is
/// not below the group that is mounted.
pub fn path_of_process(pid: i32) -> Result<PathBuf> {
    path_of(&format!("/proc/{pid}/cgroup"))
}

/// The name of the group that a process is in, from the root of the hierarchy as the caller sees
/// it: `/aurae/web`. Where that is mounted doesn't matter, nor is it looked up.
///
/// # Errors
/// `ENOENT`, `ESRCH`: there is no such process, or the kernel has no unified hierarchy.
pub fn group_of_process(pid: i32) -> Result<String> {
    let file = format!("/proc/{pid}/cgroup");
    let text = read_pseudo(Path::new(&file))?;
    unified(&text)
        .map(str::to_owned)
        .ok_or_else(|| not_unified(&file))
}

/// The name, as of [`group_of_process`], of the group whose folder this is.
///
/// # Errors
/// `EXDEV`: `path` is not below the mount point of cgroup2. `ENOENT`: cgroup2 is not mounted.
pub fn group_of_path(path: &Path) -> Result<String> {
    let mount = mount()?;
    let below = path.strip_prefix(&mount.target).map_err(|_| {
        Error::new("find cgroup", Errno::XDEV)
            .on(path)
            .about("it is not below the mount point of cgroup2")
    })?;
    let name = mount.root.join(below);
    Ok(name.to_string_lossy().trim_end_matches('/').to_owned())
}

fn not_unified(file: &str) -> Error {
    Error::new("find cgroup", Errno::NOENT).about(format!("no line 0:: in {file}"))
}

fn path_of(file: &str) -> Result<PathBuf> {
    let text = read_pseudo(Path::new(file))?;
    let group = unified(&text).ok_or_else(|| not_unified(file))?;
    let mount = mount()?;
    below(&mount, group).ok_or_else(|| {
        let root = mount.root.display();
        Error::new("find cgroup", Errno::XDEV).about(format!(
            "group {group} is not below the mounted root {root}"
        ))
    })
}

/// The path in the unified hierarchy's line, `0::/PATH`.
fn unified(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

fn below(mount: &MountInfo, group: &str) -> Option<PathBuf> {
    let relative = Path::new(group).strip_prefix(&mount.root).ok()?;
    if relative
        .components()
        .any(|c| c == std::path::Component::ParentDir)
    {
        return None;
    }
    Some(if relative == Path::new("") {
        mount.target.clone()
    } else {
        mount.target.join(relative)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Vec<MountInfo> {
        info::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_mount_is_there_as_long_as_its_id_is() {
        let mounts = info::read().unwrap();
        let proc = mounts.iter().rev().find(|m| m.target == Path::new("/proc"));
        let proc = proc.unwrap().clone();
        assert!(is_there(&proc));
        let other = MountInfo {
            id: proc.id + 1,
            ..proc
        };
        assert!(!is_there(&other));
    }

    #[test]
    fn a_hybrid_system_s_own_place_is_found() {
        let mounts = table(
            "1 0 0:1 / / rw - ext4 /dev/vda rw\n\
             2 1 0:2 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             3 2 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             4 2 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let mount = pick(mounts).unwrap();
        assert_eq!(mount.target, Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(
            below(&mount, "/").unwrap(),
            Path::new("/sys/fs/cgroup/unified")
        );
        assert_eq!(
            below(&mount, "/a/b").unwrap(),
            Path::new("/sys/fs/cgroup/unified/a/b")
        );
    }

    #[test]
    fn a_mount_covered_by_another_is_passed_over() {
        let mounts = table(
            "1 0 0:4 / /cg rw - cgroup2 none rw\n\
             2 1 0:5 / /cg rw - tmpfs none rw\n\
             3 0 0:4 / /other rw - cgroup2 none rw\n",
        );
        assert_eq!(pick(mounts).unwrap().target, Path::new("/other"));
        assert!(pick(table("1 0 0:1 / / rw - ext4 /dev/vda rw\n")).is_none());
    }

    #[test]
    fn a_bound_subtree_is_the_root_of_what_is_seen() {
        let mount = pick(table(
            "4 2 0:4 /kube/pod /sys/fs/cgroup rw - cgroup2 none rw\n",
        ))
        .unwrap();
        assert_eq!(
            below(&mount, "/kube/pod/x").unwrap(),
            Path::new("/sys/fs/cgroup/x")
        );
        assert_eq!(below(&mount, "/elsewhere"), None);
        assert_eq!(below(&mount, "/kube/pod/../x"), None);
    }

    #[test]
    fn a_group_s_name_and_its_folder_are_the_same_thing() {
        let own = own_path().unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(path_of_process(pid).unwrap(), own);
        let name = group_of_process(pid).unwrap();
        assert_eq!(group_of_path(&own).unwrap(), name.trim_end_matches('/'));
        assert!(group_of_path(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn the_unified_line_is_found_among_the_old_ones() {
        assert_eq!(unified("12:pids:/a\n0::/b\n"), Some("/b"));
        assert_eq!(unified("12:pids:/a\n"), None);
    }
}
