// SPDX-License-Identifier: Apache-2.0
//! The container's root as a descriptor, and what is opened and made below it.
//!
//! Everything in there may be the image's, so every link counts as hostile. The kernel follows
//! paths as if this folder were the root (`openat2`), and never links of the kind of
//! `/proc/PID/fd`; what was found is a descriptor, and mounts go on that, not on its path.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use kernel::fsutil::{self, OpenFlags, Resolve};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Doing, Result, refuse};

/// Numbers of statfs(2).
pub(crate) const PROC: u32 = kernel::procfs::MAGIC;
pub(crate) const DEVPTS: u32 = 0x1cd1;

/// The root of a container, or a folder in it.
#[derive(Debug)]
pub(crate) struct Tree(OwnedFd);

impl Tree {
    pub(crate) fn new(root: OwnedFd) -> Tree {
        Tree(root)
    }

    /// Opens what is there.
    pub(crate) fn open(&self, path: &Path, flags: OpenFlags) -> Result<OwnedFd> {
        Ok(fsutil::open_below(
            &self.0,
            path,
            flags,
            0,
            Resolve::InRoot,
        )?)
    }

    /// A file or folder as a place; `None` where there is none.
    pub(crate) fn find(&self, path: &Path) -> Result<Option<OwnedFd>> {
        match self.open(path, OpenFlags::PATH) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is(NOT_FOUND) || error.is(NO_FOLDER) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A folder as a place, made (0755) where it isn't there, with those above it.
    pub(crate) fn folder(&self, path: &Path) -> Result<OwnedFd> {
        let flags = OpenFlags::PATH | OpenFlags::DIRECTORY;
        match self.open(path, flags) {
            Err(error) if error.is(NOT_FOUND) => self.make(path, None).doing_on("mkdir", path),
            other => other.doing_on("open", path),
        }
    }

    /// A file as a place, made (empty, `mode`) where nothing is there.
    pub(crate) fn file(&self, path: &Path, mode: u32) -> Result<OwnedFd> {
        match self.find(path)? {
            Some(found) => Ok(found),
            None => self.make(path, Some(mode)).doing_on("make", path),
        }
    }

    /// A file as a place for a device, made (empty, `mode`) where nothing is there. It has to be
    /// there itself: a link of the image's could lead to a file of proc that confines the
    /// container, and the device would stand for it (runc's CVE-2025-52565).
    pub(crate) fn place_of_device(&self, path: &Path, mode: u32) -> Result<OwnedFd> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return refuse("a device needs a name");
        };
        let folder = self.folder(folder)?;
        let place = open_or_make(&folder, Path::new(name), Some(mode)).doing_on("make", path)?;
        let stat = rustix::fs::fstat(&place).doing("fstat")?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => refuse("a link is in its place: take it out of the image"),
            _ if is_of(&place, PROC)? => refuse("its folder is one of proc"),
            _ => Ok(place),
        }
    }

    /// Makes what is missing of a path; the last part as a file of this mode, else as a folder. A
    /// link that leads nowhere leads to what is made, in this tree. Each part is opened in the one
    /// before, links are read and never followed by the kernel, and `..` goes back to a folder that
    /// is open: whatever is moved meanwhile, this doesn't leave the tree.
    fn make(&self, path: &Path, mode: Option<u32>) -> Result<OwnedFd> {
        const MOST_LINKS: usize = 40;
        let mut above: Vec<OwnedFd> = Vec::new();
        let mut at = self.0.try_clone().doing("dup")?;
        let mut rest: Vec<PathBuf> = parts(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                at = above.pop().unwrap_or(at);
                continue;
            }
            if is_of(&at, PROC)? {
                // Nothing can be made there, and its links aren't what they read as.
                return Err(Errno::NOENT.into());
            }
            let mode = mode.filter(|_| rest.is_empty());
            let next = open_or_make(&at, &part, mode)?;
            let stat = rustix::fs::fstat(&next)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                above.push(std::mem::replace(&mut at, next));
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
            let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
            if target.is_absolute() {
                above.clear();
                at = self.0.try_clone().doing("dup")?;
            }
            rest.extend(parts(&target));
        }
        Ok(at)
    }

    /// A second handle.
    pub(crate) fn try_clone(&self) -> Result<Tree> {
        self.0.try_clone().map(Tree).doing("dup")
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The names of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

/// A file, folder or link directly below, as a place.
fn open_or_make(at: &OwnedFd, name: &Path, mode: Option<u32>) -> Result<OwnedFd> {
    let place = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(at, name, place, Mode::empty());
    match open() {
        Err(Errno::NOENT) => {}
        other => return Ok(other?),
    }
    let made = match mode {
        None => rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o755)),
        Some(mode) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::openat(at, name, flags, mode).map(|_| ())
        }
    };
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(open()?),
        Err(errno) => Err(errno.into()),
    }
}

const NOT_FOUND: i32 = Errno::NOENT.raw_os_error();
const NO_FOLDER: i32 = Errno::NOTDIR.raw_os_error();

/// Whether a file is a folder.
pub(crate) fn is_folder(file: impl AsFd) -> Result<bool> {
    let stat = rustix::fs::fstat(file).doing("fstat")?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Whether a file is in a file system of this kind.
pub(crate) fn is_of(file: impl AsFd, kind: u32) -> Result<bool> {
    let stat = rustix::fs::fstatfs(file).doing("fstatfs")?;
    Ok(stat.f_type == rustix::fs::FsWord::from(kind))
}

/// The node's `/proc`, as the caller sees it, checked to be one: to be asked for before the root is
/// changed, and used for what is written afterwards. So nothing that a container has mounted over
/// its own `/proc` is written to instead (runc's CVE-2025-52881).
pub(crate) fn node_proc() -> Result<Tree> {
    Ok(Tree(kernel::procfs::open()?))
}

/// Writes to a file of a proc that [`node_proc`] gave. What is below a mount in it is refused.
pub(crate) fn write_proc(proc: &Tree, path: &str, value: &[u8]) -> Result<()> {
    Ok(kernel::procfs::write(&proc.0, path, value)?)
}
