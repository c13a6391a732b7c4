// SPDX-License-Identifier: Apache-2.0
//! Paths of an image, made and opened inside of its root.
//!
//! An image's links count as hostile. The kernel follows them here as if the root were the only
//! tree there is, and none of the kind that `/proc/PID/fd` has, which lead to whatever a process
//! holds open (runc's CVE-2024-21626). It is done with the rights of the cell, in the cell, so what
//! remains is what the cell's root can do anyway.

use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use kernel::fsutil::{self, OpenFlags, Resolve};
use kernel::{Context, Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A folder, as a place and no more.
const FOLDER: OpenFlags = OpenFlags::PATH.union(OpenFlags::DIRECTORY);

/// This process's root.
pub(super) fn root() -> Result<OwnedFd> {
    let path = Path::new("/");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
}

/// Opens a path below this process's root; links are followed inside of it.
pub(super) fn open(path: &Path, flags: OpenFlags) -> Result<OwnedFd> {
    fsutil::open_below(root()?, path, flags, 0, Resolve::InRoot)
}

/// The same for a file that may be made with this mode, where `flags` say so.
pub(super) fn open_or_make(path: &Path, flags: OpenFlags, mode: u32) -> Result<OwnedFd> {
    fsutil::open_below(root()?, path, flags, mode, Resolve::InRoot)
}

/// Opens a folder, as a place.
pub(super) fn folder(path: &Path) -> Result<OwnedFd> {
    open(path, FOLDER)
}

/// Opens a file or folder that no link leads to, as a place.
pub(super) fn plainly(path: &Path) -> Result<OwnedFd> {
    let path = path.strip_prefix("/").unwrap_or(path);
    fsutil::open_below(
        root()?,
        path,
        OpenFlags::PATH,
        0,
        Resolve::BeneathNoSymlinks,
    )
}

/// Opens a folder, made (0755) where it isn't there, with the folders above it.
///
/// # Errors
/// `ENOENT`: a link on the way leads nowhere. `ENOTDIR`: a part of the path is a file. `EROFS`: the
/// root can't be written.
pub(super) fn make_folder(path: &Path) -> Result<OwnedFd> {
    match folder(path) {
        Err(error) if error.is_not_found() => {}
        other => return other,
    }
    let mut above = root()?;
    let mut so_far = PathBuf::from("/");
    for part in path.components() {
        so_far.push(part);
        above = match (folder(&so_far), part) {
            (Err(error), Component::Normal(name)) if error.is_not_found() => {
                match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => folder(&so_far)?,
                    Err(errno) => return Err(Error::new("mkdir", errno).on(path)),
                }
            }
            (other, _) => other?,
        };
    }
    Ok(above)
}

/// Opens a file, as a place, made (0644) where nothing is there.
///
/// # Errors
/// Those of [`make_folder`].
pub(super) fn make_file(path: &Path) -> Result<OwnedFd> {
    match open(path, OpenFlags::PATH) {
        Err(error) if error.is_not_found() => {}
        other => return other,
    }
    let above = make_folder(path.parent().unwrap_or(Path::new("/")))?;
    let name = path.file_name().unwrap_or_default();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(&above, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(_) | Err(Errno::EXIST) => open(path, OpenFlags::PATH),
        Err(errno) => Err(Error::new("open", errno).on(path)),
    }
}
