// SPDX-License-Identifier: Apache-2.0
//! Files: opening below a folder without being led away, replacing whole files, space, locks.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::{Context, Error, Result};

pub use rustix::fs::OFlags as OpenFlags;

/// How far a path may lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolve {
    /// Not out of the folder (`EXDEV`); symbolic links inside are followed.
    Beneath,
    /// Not out of the folder, and through no symbolic link at all (`ELOOP`).
    BeneathNoSymlinks,
    /// As if the folder were the root: absolute paths and links start there.
    InRoot,
}

/// A folder, to open things below.
///
/// # Errors
/// `ENOENT`: there is no such folder. `ENOTDIR`: it is no folder. `EACCES`: the caller may not read
/// it.
pub fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
}

/// Reads a small file of a pseudo file system, `/proc` or a cgroup's: two calls and a close, where
/// the size of the file, which says nothing there, isn't asked for. Not UTF-8 is replaced.
///
/// # Errors
/// `ENOENT`: there is no such file. `EACCES`: the caller may not read it. `ESRCH`, `ENODEV`: the
/// process or the group that the file is about went away between opening and reading.
pub fn read_pseudo(path: &Path) -> Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)?;
    read_all_pseudo(&file).call_on("read", path)
}

/// Reads an open pseudo file, from its present offset.
pub(crate) fn read_all_pseudo(file: impl AsFd) -> std::result::Result<String, Errno> {
    const MOST: usize = 4 * 1024 * 1024;
    // The kernel fills a page of its own with whole lines and hands that over: what is shorter
    // than half a page was all there is.
    let (mut page, mut bytes) = ([0; 4096], Vec::new());
    loop {
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut page))?;
        bytes.extend_from_slice(page.get(..length).unwrap_or_default());
        if length < page.len() / 2 || bytes.len() >= MOST {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// Opens `path` below a folder; `mode` is for a file that is made (`OpenFlags::CREATE`). Always
/// close-on-exec, never a controlling terminal, never through `/proc/PID/fd`-like links.
///
/// # Errors
/// `EXDEV`, `ELOOP`: the path leads out, or through a link, against `resolve`. `ENOENT`: there is
/// no such file. `EEXIST`: there is one, with `OpenFlags::EXCL`. `EACCES`, `EROFS`: the caller may
/// not. `EAGAIN`: folders on the way were renamed during all of 64 attempts.
pub fn open_below(
    folder: impl AsFd,
    path: &Path,
    flags: OpenFlags,
    mode: u32,
    resolve: Resolve,
) -> Result<OwnedFd> {
    let rules = ResolveFlags::NO_MAGICLINKS
        | match resolve {
            Resolve::Beneath => ResolveFlags::BENEATH,
            Resolve::BeneathNoSymlinks => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            Resolve::InRoot => ResolveFlags::IN_ROOT,
        };
    let creates = flags.intersects(OFlags::CREATE | OFlags::TMPFILE);
    let mode = if creates {
        Mode::from(mode)
    } else {
        Mode::empty()
    };
    let flags = flags
        | OFlags::CLOEXEC
        | if flags.contains(OFlags::PATH) {
            OFlags::empty()
        } else {
            OFlags::NOCTTY
        };
    // EAGAIN: something was renamed meanwhile and the kernel could not be sure. Bounded, then an
    // error.
    for _ in 0..64 {
        match rustix::fs::openat2(&folder, path, flags, mode, rules) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other.call_on("openat2", path),
        }
    }
    Err(Error::new("openat2", Errno::AGAIN).on(path))
}

/// Makes the folders of a relative path below a folder, those that aren't there with `mode`, and
/// opens the last. Goes through no symbolic link.
///
/// # Errors
/// `EXDEV`: the path has a `..` in it. `ELOOP`, `ENOTDIR`: a part of it is a symbolic link or a
/// file. `EACCES`, `EROFS`, `ENOSPC`, `EDQUOT`: a folder can't be made; those before it stay.
pub fn make_folders_below(folder: impl AsFd, path: &Path, mode: u32) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let resolve = Resolve::BeneathNoSymlinks;
    let mut at = rustix::io::fcntl_dupfd_cloexec(folder, 3).call("fcntl")?;
    for component in path.components() {
        let name = match component {
            Component::Normal(name) => Path::new(name),
            Component::CurDir | Component::RootDir => continue,
            Component::ParentDir | Component::Prefix(_) => {
                return Err(Error::new("mkdirat", Errno::XDEV).on(path));
            }
        };
        match rustix::fs::mkdirat(&at, name, Mode::from(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(Error::new("mkdirat", errno).on(path)),
        }
        at = open_below(&at, name, flags, 0, resolve)?;
    }
    Ok(at)
}

/// Puts a whole file in place: written beside it, synced, renamed over it, the folder synced. After
/// a crash there is the old or the new, never a part. `name` is one name.
///
/// # Errors
/// `ENOSPC`, `EDQUOT`, `EIO`: the old file stays, unless the last sync failed: then the new one is
/// there, and a crash may lose it. `EISDIR`: `name` is a folder. `EACCES`, `EROFS`: the caller may
/// not write in the folder.
pub fn replace_file(folder: impl AsFd, name: &OsStr, bytes: &[u8], mode: u32) -> Result<()> {
    let folder = folder.as_fd();
    let shown = Path::new(name);
    let mut beside = name.to_owned();
    beside.push(format!(".new.{}", crate::process::id()));
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, &beside, flags, Mode::from(mode)).call_on("open", shown)?;
    let mut file = File::from(fd);
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .call_on("write", shown)
        .and_then(|()| rustix::fs::fchmod(&file, Mode::from(mode)).call_on("fchmod", shown))
        .and_then(|()| {
            rustix::fs::renameat(folder, &beside, folder, name).call_on("rename", shown)
        });
    if let Err(error) = written {
        // The error that matters is the first; what lies beside is overwritten next time.
        let _ = rustix::fs::unlinkat(folder, &beside, AtFlags::empty());
        return Err(error);
    }
    rustix::fs::fsync(folder).call_on("fsync", shown)
}

/// Space of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The file system's size, in bytes.
    pub total_bytes: u64,
    /// Free for the superuser, in bytes.
    pub free_bytes: u64,
    /// Free for others, in bytes.
    pub available_bytes: u64,
    /// Files it can hold; 0 where it doesn't count.
    pub total_files: u64,
    /// Files it can still hold.
    pub free_files: u64,
    /// Whether it is mounted read-only.
    pub read_only: bool,
}

/// The space of the file system that holds this file or folder.
///
/// # Errors
/// `ENOENT`: there is no such path. `EACCES`: a folder on the way may not be searched.
pub fn space(path: &Path) -> Result<Space> {
    let stat = rustix::fs::statvfs(path).call_on("statfs", path)?;
    Ok(Space {
        total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        free_bytes: stat.f_bfree.saturating_mul(stat.f_frsize),
        available_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        total_files: stat.f_files,
        free_files: stat.f_ffree,
        read_only: stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY),
    })
}

/// Takes the lock of an open file, for as long as any copy of the descriptor is open. Never waits.
///
/// # Errors
/// `EWOULDBLOCK`: another open file has it. `ENOLCK`: the kernel has no memory for locks.
pub fn try_lock(file: impl AsFd) -> Result<()> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).call("flock")
}

/// Writes everything of the descriptor's file system to its device.
///
/// # Errors
/// `EIO`: the device failed a write, of any file since this descriptor was opened. `ENOSPC`,
/// `EDQUOT`: space that was promised isn't there.
pub fn sync_file_system(fd: impl AsFd) -> Result<()> {
    rustix::fs::syncfs(fd).call("syncfs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn nothing_leads_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        std::fs::write(dir.path().join("in/file"), "x").unwrap();
        symlink("/etc", dir.path().join("out")).unwrap();
        symlink("in", dir.path().join("link")).unwrap();
        let folder = open_directory(dir.path()).unwrap();
        let open = |path: &str, resolve| {
            open_below(&folder, Path::new(path), OpenFlags::RDONLY, 0, resolve)
        };
        open("link/file", Resolve::Beneath).unwrap();
        for (path, resolve, errno) in [
            ("../x", Resolve::Beneath, libc::EXDEV),
            ("out/passwd", Resolve::Beneath, libc::EXDEV),
            ("/etc/passwd", Resolve::Beneath, libc::EXDEV),
            ("link/file", Resolve::BeneathNoSymlinks, libc::ELOOP),
            ("out/passwd", Resolve::InRoot, libc::ENOENT),
            ("none", Resolve::InRoot, libc::ENOENT),
        ] {
            assert_eq!(
                open(path, resolve).unwrap_err().errno(),
                errno,
                "{path} {resolve:?}"
            );
        }
        open("/../in/file", Resolve::InRoot).unwrap();
    }

    #[test]
    fn folders_are_made_but_not_through_links() {
        let dir = tempfile::tempdir().unwrap();
        symlink("/tmp", dir.path().join("out")).unwrap();
        let folder = open_directory(dir.path()).unwrap();
        make_folders_below(&folder, Path::new("/a/./b"), 0o700).unwrap();
        make_folders_below(&folder, Path::new("a/b/c"), 0o700).unwrap();
        assert!(dir.path().join("a/b/c").is_dir());
        for wrong in ["out/x", "a/../b"] {
            assert!(
                make_folders_below(&folder, Path::new(wrong), 0o700).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open_directory(dir.path()).unwrap();
        replace_file(&folder, OsStr::new("f"), b"one", 0o600).unwrap();
        replace_file(&folder, OsStr::new("f"), b"two", 0o644).unwrap();
        let path = dir.path().join("f");
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o644
        );
        std::fs::create_dir(dir.path().join("d")).unwrap();
        assert!(replace_file(&folder, OsStr::new("d"), b"x", 0o600).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_lock_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let one = File::create(&path).unwrap();
        try_lock(&one).unwrap();
        let two = File::open(&path).unwrap();
        assert!(try_lock(&two).unwrap_err().is_would_block());
        drop(one);
        try_lock(&two).unwrap();
        assert!(space(&path).unwrap().total_bytes > 0);
    }
}
