// SPDX-License-Identifier: Apache-2.0
//! A `/dev` of a program's own: devices that do no harm, terminals, shared memory
//! (systemd.exec(5), `PrivateDevices=`). Their number and rights are the node's.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use kernel::mount::{self, Attributes, Change};
use kernel::{Context, Result};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

/// Enough for names: nothing is to be stored here.
const ROOM: u64 = 4 * 1024 * 1024;
const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// What is mounted in the node's own.
const FOLDERS: [&str; 4] = ["pts", "shm", "mqueue", "hugepages"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("core", "/proc/kcore"),
];

/// What is taken of the node's folder, before something covers it.
pub(super) struct Taken {
    new: OwnedFd,
    /// Folders and files by their names, and whether it is a folder.
    mounts: Vec<(&'static str, OwnedFd, bool)>,
    /// Where `/dev/log` leads.
    log: Option<std::ffi::CString>,
}

/// Makes the file system and takes what goes into it.
pub(super) fn take() -> Result<Taken> {
    let new = mount::tmpfs(
        ROOM,
        0o755,
        Attributes::NO_SUID | Attributes::NO_EXEC | Attributes::STRICT_ACCESS_TIME,
    )?;
    let mut mounts = Vec::new();
    for name in NODES {
        if let Some(bound) = node(&new, name)? {
            mounts.push((name, bound, false));
        }
    }
    for name in FOLDERS {
        let path = Path::new("/dev").join(name);
        match rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                mounts.push((name, mount::copy_tree(&path, true)?, true));
            }
            _ => {}
        }
    }
    let mut log = None;
    match rustix::fs::readlink("/dev/log", Vec::new()) {
        Ok(target) => log = Some(target),
        Err(Errno::INVAL) => {
            mounts.push((
                "log",
                mount::copy_tree(Path::new("/dev/log"), false)?,
                false,
            ));
        }
        Err(_) => {}
    }
    Ok(Taken { new, mounts, log })
}

/// Makes a device, or takes the node's own where none may be made.
fn node(new: &OwnedFd, name: &'static str) -> Result<Option<OwnedFd>> {
    let path = Path::new("/dev").join(name);
    let Ok(stat) = rustix::fs::stat(&path) else {
        return Ok(None);
    };
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::CharacterDevice {
        return Ok(None);
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    match rustix::fs::mknodat(new, name, kind, mode, stat.st_rdev) {
        Ok(()) => {
            let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(new, name, Some(uid), Some(gid), flags).call_on("chown", &path)?;
            Ok(None)
        }
        Err(Errno::PERM | Errno::ACCESS) => mount::copy_tree(&path, false).map(Some),
        Err(errno) => Err(errno).call_on("mknod", &path),
    }
}

impl Taken {
    /// Puts it in its place; answers the folder as it is mounted there. The folder itself can't be
    /// written then.
    pub(super) fn put(self, target: impl AsFd) -> Result<OwnedFd> {
        let new = self.new;
        for (name, _, folder) in &self.mounts {
            let mode = Mode::from_raw_mode(0o755);
            match folder {
                true => rustix::fs::mkdirat(&new, *name, mode).call("mkdir")?,
                false => {
                    let kind = FileType::RegularFile;
                    rustix::fs::mknodat(&new, *name, kind, mode, 0).call("mknod")?;
                }
            }
        }
        for (name, to) in LINKS {
            rustix::fs::symlinkat(to, &new, name).call("symlink")?;
        }
        rustix::fs::symlinkat("pts/ptmx", &new, "ptmx").call("symlink")?;
        if let Some(log) = &self.log {
            rustix::fs::symlinkat(log.as_c_str(), &new, "log").call("symlink")?;
        }
        mount::attach_on(&new, target)?;
        for (name, mounted, _) in &self.mounts {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = rustix::fs::openat(&new, *name, flags, Mode::empty()).call("open")?;
            mount::attach_on(mounted, place)?;
        }
        let change = Change {
            set: Attributes::READ_ONLY,
            ..Change::default()
        };
        mount::set_attributes(&new, &change)?;
        Ok(new)
    }
}
