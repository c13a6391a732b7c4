// SPDX-License-Identifier: Apache-2.0
//! A place of the node in the mount namespace of a process that runs already. The mount is taken in
//! the node's namespace and put in its place by a thread that has joined the other one and ends
//! then. The place is reached by no symbolic link: what the unit's own programs have put there
//! can't lead to another one, which is the node's as often as not.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use kernel::mount::{self, Attributes, Change};
use kernel::namespace::{self, Namespaces};
use kernel::pidfd;
use rustix::fs::{FileType, Mode, OFlags, fstat, mknodat, openat};
use rustix::io::Errno;

use crate::unit::program::opened;

/// What is shown where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// An absolute path of the node.
    pub source: PathBuf,
    /// An absolute path, as the unit's programs see it.
    pub target: PathBuf,
    /// They can't write there.
    pub read_only: bool,
    /// Make the place where it isn't there.
    pub make: bool,
}

impl Bind {
    /// The path that is none: both are absolute, and name no way up.
    pub(crate) fn wrong_path(&self) -> Option<&Path> {
        let is_plain = |path: &&Path| {
            let mut parts = path.components();
            let named = |part| matches!(part, Component::Normal(_));
            parts.next() == Some(Component::RootDir) && parts.all(named) && path.parent().is_some()
        };
        let mut paths = [self.source.as_path(), self.target.as_path()].into_iter();
        paths.find(|path| !is_plain(path))
    }
}

/// Whether a process has mounts of its own.
pub(crate) fn has_own_mounts(pid: u32) -> kernel::Result<bool> {
    let of = |process: String| {
        let file = namespace::open(Path::new(&format!("/proc/{process}/ns/mnt")))?;
        namespace::identity(file)
    };
    Ok(of("self".to_owned())? != of(pid.to_string())?)
}

/// Shows it to a process. Blocks.
///
/// # Errors
/// The source isn't there, the place isn't or is behind a link, the process has ended.
pub(crate) fn bind(process: OwnedFd, bind: Bind) -> io::Result<()> {
    let copy = mount::copy_tree(&bind.source, true)?;
    if bind.read_only {
        let change = Change {
            set: Attributes::READ_ONLY,
            recursive: true,
            ..Change::default()
        };
        mount::set_attributes(&copy, &change)?;
    }
    let put = move || {
        if pidfd::has_ended(&process)? {
            return Err(io::Error::from(Errno::SRCH));
        }
        // A thread that shares its root with others can't join one.
        namespace::unshare(Namespaces::MOUNT)?;
        namespace::join(&process, Namespaces::MOUNT)?;
        let place = place(&bind.target, is_folder(&copy)?, bind.make)?;
        Ok(mount::attach_on(&copy, place)?)
    };
    let thread = std::thread::Builder::new().spawn(put)?;
    let ended = thread.join();
    ended.map_err(|_| io::Error::other("its thread has failed"))?
}

fn is_folder(fd: impl AsFd) -> io::Result<bool> {
    let mode = fstat(fd)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Directory)
}

/// Where a folder or a file is mounted.
fn place(target: &Path, folder: bool, make: bool) -> io::Result<OwnedFd> {
    if folder {
        return opened(target, make);
    }
    let (Some(above), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(io::Error::other("names no file"));
    };
    let above = opened(above, make)?;
    if make {
        let (kind, mode) = (FileType::RegularFile, Mode::from_raw_mode(0o644));
        match mknodat(&above, name, kind, mode, 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(&above, name, flags, Mode::empty())?;
    let mode = fstat(&place)?.st_mode;
    match FileType::from_raw_mode(mode) {
        FileType::Symlink => Err(io::Error::other("leads to another place")),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Ok(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_name_no_way_up() {
        let of = |source: &str, target: &str| Bind {
            source: source.into(),
            target: target.into(),
            read_only: false,
            make: false,
        };
        assert_eq!(of("/a", "/b/c").wrong_path(), None);
        for (source, target) in [("a", "/b"), ("/a", "b"), ("/a/../x", "/b"), ("/a", "/")] {
            assert!(
                of(source, target).wrong_path().is_some(),
                "{source} {target}"
            );
        }
    }

    #[test]
    fn a_place_is_reached_by_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("file"), at("alias")).unwrap();
        for (name, is_folder) in [("link", true), ("link/new", true), ("alias", false)] {
            for make in [false, true] {
                place(&at(name), is_folder, make).unwrap_err();
            }
        }
        assert!(!at("real/new").exists());
        place(&at("new/in"), true, false).unwrap_err();
        place(&at("new/in"), true, true).unwrap();
        place(&at("new/in/file"), false, true).unwrap();
        assert!(at("new/in/file").is_file());
        place(&at("new/in"), false, true).unwrap_err();
    }
}
