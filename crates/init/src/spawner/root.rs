// SPDX-License-Identifier: Apache-2.0
//! The root of the template: the parts of the node's root file system that a cell sees, by an
//! allow-list (ADR 27).
//!
//! It is a read-only tmpfs. An allowed folder or file is a read-only mount of the node's, that one
//! file system and those of other disks that are mounted below; an allowed link is the same link.
//! Every other folder of the node's `/` and `/var` is there and empty, so that mounts can be
//! attached below it; nothing else of the node's root is there.
//!
//! An allowed mount maps no owner at all, where its file system can do that: the kernel lets no
//! process write to an inode whose owner a mount doesn't map. That stops connecting to a socket and
//! opening a FIFO for writing, which need the right to write. (A read-only mount alone doesn't stop
//! them.)

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::idmap::IdMap;
use kernel::mount::info::{self, MountInfo};
use kernel::mount::{self, Attributes, Change};
use kernel::{Context, Error, Result};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::cell::mounts::PRIVATE;

/// Folders of every root, whatever the node has: those of the kernel's file systems, and those that
/// programs and mounts expect.
const FOLDERS: [&str; 17] = [
    "/proc",
    "/sys",
    "/dev",
    "/boot",
    "/home",
    "/media",
    "/mnt",
    "/root",
    "/srv",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/local",
    "/var/log",
    "/var/mail",
    "/var/opt",
    "/var/spool",
];
/// Folders of the node whose own folders are there and empty, and whose links are there.
const LISTED: [&str; 2] = ["/", "/var"];
/// The most entries that are taken of each [`LISTED`] folder.
const MOST_LISTED: usize = 500;
/// An id that nothing on disk belongs to: the only one that an allowed mount maps.
const NOBODY: u32 = u32::MAX - 1;
/// The most file systems of disks that are shown below allowed folders.
const MOST_BELOW: usize = 64;
/// The size of the tmpfs in bytes: it holds names of folders and links.
const ROOM: u64 = 4 << 20;

/// The parts of the node's root and their targets, opened before the spawner leaves that root.
pub(super) struct Plan {
    folders: Vec<PathBuf>,
    links: Vec<(PathBuf, PathBuf)>,
    mounts: Vec<Allowed>,
    /// Folders to cover, by their real paths.
    hide: Vec<PathBuf>,
}

/// A detached mount of the node's folder or file at `path`.
struct Allowed {
    path: PathBuf,
    directory: bool,
    mount: OwnedFd,
}

/// A new root: an empty, writable tmpfs.
pub(super) fn empty() -> Result<OwnedFd> {
    mount::tmpfs(ROOM, 0o755, Attributes::NO_SUID | Attributes::NO_DEV)
}

/// Opens the allowed parts of the node's root. Paths of `allowed` that the node doesn't have are
/// left out.
///
/// # Errors
/// `EINVAL` for an allowed path that is `/`, not absolute, has `..` or is neither folder, file nor
/// link.
pub(super) fn plan(hide: &[PathBuf], allowed: &[PathBuf]) -> Result<Plan> {
    let mut plan = Plan {
        folders: FOLDERS.map(PathBuf::from).to_vec(),
        links: Vec::new(),
        mounts: Vec::new(),
        hide: hide
            .iter()
            .filter_map(|path| std::fs::canonicalize(path).ok())
            .collect(),
    };
    let private = PRIVATE.iter().map(|(path, _)| PathBuf::from(path));
    plan.folders.extend(private);
    let mut allowed = allowed.to_vec();
    // A path below another comes after it, and is attached in it.
    allowed.sort();
    allowed.dedup();
    for path in &allowed {
        plan.allow(path)?;
    }
    plan.add_below(&info::read().unwrap_or_default(), &allowed);
    for folder in LISTED {
        plan.list(Path::new(folder), &allowed);
    }
    Ok(plan)
}

impl Plan {
    fn allow(&mut self, path: &Path) -> Result<()> {
        let invalid = |why: &'static str| Err(Error::invalid("allow", why).on(path));
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        if !path.is_absolute() || !path.components().skip(1).all(plain) || path.parent().is_none() {
            return invalid("the cells' root takes absolute paths below / and without ..");
        }
        let kind = match std::fs::symlink_metadata(path) {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).call_on("stat", path),
        };
        if kind.is_symlink() {
            let target = std::fs::read_link(path).call_on("readlink", path)?;
            self.links.push((path.to_owned(), target));
            return Ok(());
        }
        if !kind.is_dir() && !kind.is_file() {
            return invalid("the cells' root takes folders, files and links");
        }
        self.mounts.push(Allowed {
            path: path.to_owned(),
            directory: kind.is_dir(),
            mount: read_only(path)?,
        });
        Ok(())
    }

    /// Adds file systems of disks that are mounted below allowed folders (a `/usr/local` of its
    /// own), outermost first. One that can't be shown is left out, as its folder is there.
    fn add_below(&mut self, mounted: &[MountInfo], allowed: &[PathBuf]) {
        for path in below(mounted, allowed).into_iter().take(MOST_BELOW) {
            if let Ok(mount) = read_only(&path) {
                self.mounts.push(Allowed {
                    path,
                    directory: true,
                    mount,
                });
            }
        }
    }

    /// Adds the folders and links of a folder of the node that aren't allowed.
    fn list(&mut self, folder: &Path, allowed: &[PathBuf]) {
        // A node without a /var has nothing there.
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        for entry in entries.take(MOST_LISTED).flatten() {
            let path = entry.path();
            if allowed.contains(&path) {
                continue;
            }
            match (entry.file_type(), std::fs::read_link(&path)) {
                (Ok(kind), _) if kind.is_dir() => self.folders.push(path),
                (Ok(kind), Ok(target)) if kind.is_symlink() => self.links.push((path, target)),
                _ => {}
            }
        }
    }

    /// Creates and attaches all of it in the empty root, which is this process's root by now.
    pub(super) fn carry_out(self) -> Result<()> {
        // Links first: `/var` may be one of the node's.
        for (path, target) in &self.links {
            make_above(path)?;
            match rustix::fs::symlink(target, path) {
                // Below an allowed folder it is there already.
                Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
                other => other.call_on("symlink", path)?,
            }
        }
        for path in &self.folders {
            make_folder(path)?;
        }
        for Allowed {
            path,
            directory,
            mount,
        } in &self.mounts
        {
            make_above(path)?;
            match directory {
                true => make_folder(path)?,
                false => make_file(path)?,
            }
            mount::attach(mount, path)?;
        }
        self.hide.iter().try_for_each(|path| cover(path))
    }
}

/// Makes the folders of every root in the empty root, which is this process's root by now.
pub(super) fn make_folders() -> Result<()> {
    let private = PRIVATE.iter().map(|(path, _)| *path);
    let mut folders = FOLDERS.into_iter().chain(private);
    folders.try_for_each(|path| make_folder(Path::new(path)))
}

/// Makes the root read-only.
pub(super) fn seal() -> Result<()> {
    let change = Change {
        set: Attributes::READ_ONLY,
        ..Change::default()
    };
    mount::set_attributes_of(Path::new("/"), &change)
}

/// The folders below allowed ones on which a disk's file system is mounted.
fn below(mounted: &[MountInfo], allowed: &[PathBuf]) -> Vec<PathBuf> {
    let is_shown = |it: &&MountInfo| {
        let is_below = |folder: &PathBuf| it.target.starts_with(folder) && it.target != *folder;
        Path::new(&it.source).starts_with("/dev")
            && allowed.iter().any(is_below)
            && !allowed.contains(&it.target)
            && it.target.is_dir()
    };
    let mut paths: Vec<PathBuf> = mounted
        .iter()
        .filter(is_shown)
        .map(|it| it.target.clone())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn read_only(path: &Path) -> Result<OwnedFd> {
    let mount = mount::copy_tree(path, false)?;
    let change = Change {
        set: Attributes::READ_ONLY | Attributes::NO_SUID | Attributes::NO_DEV,
        ..Change::default()
    };
    mount::set_attributes(&mount, &change)?;
    let nobody = [IdMap {
        inside: NOBODY,
        outside: NOBODY,
        count: 1,
    }];
    let namespace = mount::userns::with_maps(&nobody, &nobody)?;
    let change = Change {
        id_map: Some(namespace.as_fd()),
        ..Change::default()
    };
    match mount::set_attributes(&mount, &change) {
        // A file system without idmapped mounts; SECURITY.md says what holds then.
        Err(error) if error.is(Errno::INVAL.raw_os_error()) => Ok(mount),
        other => other.map(|()| mount).map_err(|error| error.on(path)),
    }
}

/// Creates the folders above a path.
fn make_above(path: &Path) -> Result<()> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    above.into_iter().skip(1).try_for_each(make_folder)
}

fn make_folder(path: &Path) -> Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        // A link to a folder that isn't shown dangles, as the names below it do.
        Ok(()) | Err(Errno::EXIST | Errno::NOENT) => Ok(()),
        Err(Errno::ROFS) if path.is_dir() => Ok(()),
        Err(errno) => Err(Error::new("mkdir", errno).on(path)),
    }
}

fn make_file(path: &Path) -> Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let made = rustix::fs::openat(CWD, path, flags, Mode::from_raw_mode(0o444));
    made.map(drop).call_on("open", path)
}

/// Mounts an empty read-only tmpfs over a folder, where the root has it.
fn cover(path: &Path) -> Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    let quiet = Attributes::READ_ONLY | Attributes::NO_SUID | Attributes::NO_DEV;
    mount::attach(mount::tmpfs(4096, 0o755, quiet)?, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders that every machine has, as if disks were mounted there.
    #[test]
    fn disks_below_allowed_folders_are_shown_and_nothing_else_that_is_mounted() {
        let text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 8:2 / /usr/lib rw - ext4 /dev/sda2 rw\n\
            3 1 8:3 / /usr rw - ext4 /dev/sda3 rw\n\
            4 3 8:4 / /usr/bin rw - ext4 /dev/sda4 rw\n\
            5 3 0:9 / /usr/share rw - tmpfs tmpfs rw\n\
            6 1 8:5 / /var/lib rw - ext4 /dev/sda5 rw\n\
            7 1 8:5 /x /usr/not-there rw - ext4 /dev/sda5 rw\n\
            8 4 8:6 / /usr/bin rw - ext4 /dev/sda6 rw\n";
        let mounted = info::parse(text.as_bytes()).unwrap();
        let allowed = ["/usr", "/usr/lib", "/etc"].map(PathBuf::from);
        assert_eq!(below(&mounted, &allowed), [PathBuf::from("/usr/bin")]);
    }
}
