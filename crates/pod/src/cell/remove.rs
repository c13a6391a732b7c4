// SPDX-License-Identifier: Apache-2.0
//! Removes a folder with all that workloads have left in it, however deep: with two descriptors, no
//! recursion, and no path that is looked up twice. What is mounted directly in it is unmounted
//! first.
//!
//! ```text
//! top/volume/a/b/c/…   each folder that is found is moved to the top,
//! top/.gone-0          where the next pass finds it: nothing is ever deeper than two
//! ```

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes the folder; one that isn't there is removed.
///
/// # Errors
/// The kernel's. What is left can be removed by another call.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let top = match rustix::fs::open(folder, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut moved = 0;
    loop {
        let mut is_empty = true;
        for entry in Dir::read_from(&top)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_link_of_folders(name) {
                continue;
            }
            is_empty = false;
            runtime::volume::unmount(&folder.join(std::ffi::OsStr::from_bytes(name.to_bytes())))?;
            match rustix::fs::unlinkat(&top, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => empty(&top, name, &mut moved)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        if is_empty {
            return Ok(rustix::fs::rmdir(folder)?);
        }
    }
}

fn is_link_of_folders(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Empties a folder of the top: its files go, its folders move to the top. It goes itself, unless
/// the kernel has left out a name while others went; then the next pass finds it.
fn empty(top: &OwnedFd, name: &CStr, moved: &mut u64) -> io::Result<()> {
    let folder = rustix::fs::openat(top, name, FOLDER, Mode::empty())?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_link_of_folders(name) {
            continue;
        }
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => move_up(&folder, name, top, moved)?,
            Err(errno) => return Err(errno.into()),
        }
    }
    match rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Moves a folder to the top, under a name that nothing has there: a removal that was cut short may
/// have left some.
fn move_up(from: impl AsFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        let free = format!(".gone-{moved}");
        *moved += 1;
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&from, name, top, free.as_str(), flags) {
            Err(Errno::EXIST) => {}
            moved => return Ok(moved?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deeper than a path can be, and than there are descriptors.
    const DEPTH: usize = 5_000;

    #[test]
    fn a_tree_of_any_depth_goes() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("pod");
        std::fs::create_dir_all(folder.join("data")).unwrap();
        let mut at = rustix::fs::open(folder.join("data"), FOLDER, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            drop(rustix::fs::openat(&at, "f", flags, Mode::RUSR).unwrap());
            at = rustix::fs::openat(&at, "d", FOLDER, Mode::empty()).unwrap();
        }
        std::os::unix::fs::symlink("/", folder.join("data/root")).unwrap();
        std::fs::create_dir(folder.join(".gone-0")).unwrap();
        std::fs::write(folder.join(".gone-0/left"), "").unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists());
        remove(&folder).unwrap();
    }
}
