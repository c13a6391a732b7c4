// SPDX-License-Identifier: Apache-2.0
//! The folder that a layer is unpacked into: finding the folder of an entry, making room for what
//! replaces something, whiteouts as overlayfs has them.
//!
//! Every folder is reached from the root's descriptor without following a link (openat2(2) with
//! `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, or one component after the other with `O_NOFOLLOW`),
//! and everything else is done by a descriptor and one name. So no link of the layer leads out of
//! it, or elsewhere within it.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{
    self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Timestamps, XattrFlags,
};
use rustix::io::Errno;

use super::Overlay;
use super::error::UnpackError;

/// What a name is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum There {
    Nothing,
    Folder,
    Symlink,
    /// A character device 0/0: to overlayfs, that lower layers have nothing here.
    Whiteout,
    Other,
}

/// The folder, and where it was last.
#[derive(Debug)]
pub(super) struct Tree {
    root: Rc<OwnedFd>,
    overlay: Overlay,
    last: Option<(Vec<u8>, Rc<OwnedFd>)>,
    /// How many more things may be made.
    room: u64,
    max: u64,
    /// Folders that the layer names only as parents, as long as there are few.
    implied: BTreeSet<String>,
    /// Those that were made since the last [`Tree::take_fresh`].
    fresh: Vec<Vec<u8>>,
}

/// The most implied folders that are told of.
const MAX_IMPLIED: usize = 1000;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Tree {
    /// In `root`, which is empty, at most `max` things may be made.
    pub(super) fn new(root: OwnedFd, overlay: Overlay, max: u64) -> Self {
        Self {
            root: Rc::new(root),
            overlay,
            last: None,
            room: max,
            max,
            implied: BTreeSet::new(),
            fresh: Vec::new(),
        }
    }

    /// Folders whose attributes no entry gave.
    pub(super) fn implied(self) -> Vec<String> {
        self.implied.into_iter().collect()
    }

    /// An entry gives the attributes of this folder.
    pub(super) fn told(&mut self, path: &[u8]) {
        if !self.implied.is_empty() {
            self.implied.remove(&*String::from_utf8_lossy(path));
        }
    }

    /// The paths of folders that the last entries have implied.
    pub(super) fn take_fresh(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.fresh)
    }

    /// Counts a thing that is about to be made.
    pub(super) fn count(&mut self) -> Result<(), UnpackError> {
        let more = self.room.checked_sub(1);
        self.room = more.ok_or_else(|| {
            UnpackError::too_much("the number of its files and folders", self.max.to_string())
        })?;
        Ok(())
    }

    /// Opens the folder of these components, and makes what is missing of it.
    pub(super) fn folder(&mut self, parts: &[&[u8]]) -> Result<Rc<OwnedFd>, UnpackError> {
        if parts.is_empty() {
            return Ok(Rc::clone(&self.root));
        }
        let path = parts.join(&b'/');
        if let Some((last, folder)) = &self.last
            && *last == path
        {
            return Ok(Rc::clone(folder));
        }
        let folder = match self.open(&path) {
            Ok(folder) => folder,
            // Whatever it is, the slow way finds its name.
            Err(_) => self.walk(parts, &path)?,
        };
        let folder = Rc::new(folder);
        self.last = Some((path, Rc::clone(&folder)));
        Ok(folder)
    }

    /// Opens a folder that is there.
    pub(super) fn open(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        fs::openat2(&*self.root, path, FOLDER, Mode::empty(), resolve)
    }

    fn walk(&mut self, parts: &[&[u8]], path: &[u8]) -> Result<OwnedFd, UnpackError> {
        let mut folder = Rc::clone(&self.root);
        for (index, part) in parts.iter().enumerate() {
            let above = || parts.get(..=index).unwrap_or_default().join(&b'/');
            let next = match fs::openat(&*folder, *part, FOLDER, Mode::empty()) {
                Ok(next) => next,
                Err(_) => self.step(folder.as_fd(), part, &above(), path)?,
            };
            folder = Rc::new(next);
        }
        Rc::try_unwrap(folder).map_err(|_| UnpackError::entry(path, "it has no folder"))
    }

    /// Makes a folder that the layer has named only as a parent.
    fn step(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        above: &[u8],
        path: &[u8],
    ) -> Result<OwnedFd, UnpackError> {
        let through = |what: &str| {
            let above = String::from_utf8_lossy(above);
            UnpackError::entry(path, format!("it goes through {above:?}, which is {what}"))
        };
        let there = self
            .there(parent, name)
            .map_err(|e| UnpackError::kernel("stat", above, e))?;
        match there {
            There::Symlink => return Err(through("a link")),
            There::Other => return Err(through("no folder")),
            There::Nothing | There::Whiteout | There::Folder => {}
        }
        if self.implied.len() < MAX_IMPLIED {
            self.implied
                .insert(String::from_utf8_lossy(above).into_owned());
        }
        self.fresh.push(above.to_vec());
        self.make_folder(parent, name, above)
    }

    /// Makes a folder, or opens the one that is there. One in the place of a whiteout is opaque.
    pub(super) fn make_folder(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
    ) -> Result<OwnedFd, UnpackError> {
        let wrong = |doing| move |errno| UnpackError::kernel(doing, path, errno);
        let mode = Mode::from_raw_mode(0o755);
        self.count()?;
        let opaque = match fs::mkdirat(parent, name, mode) {
            Ok(()) => false,
            Err(Errno::EXIST) => {
                let there = self.there(parent, name).map_err(wrong("stat"))?;
                if there != There::Folder {
                    fs::unlinkat(parent, name, AtFlags::empty()).map_err(wrong("replace"))?;
                    fs::mkdirat(parent, name, mode).map_err(wrong("make"))?;
                }
                there == There::Whiteout
            }
            Err(errno) => return Err(UnpackError::kernel("make", path, errno)),
        };
        let folder = fs::openat(parent, name, FOLDER, Mode::empty()).map_err(wrong("open"))?;
        if opaque {
            self.make_opaque(folder.as_fd(), path)?;
        }
        Ok(folder)
    }

    /// What is there of this name.
    pub(super) fn there(&self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<There, Errno> {
        let stat = match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(There::Nothing),
            Err(errno) => return Err(errno),
        };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => There::Folder,
            FileType::Symlink => There::Symlink,
            FileType::CharacterDevice if stat.st_rdev == 0 => There::Whiteout,
            _ => There::Other,
        })
    }

    /// Does `make`; where something is in its way, removes that and does it again.
    pub(super) fn in_place_of<T>(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        mut make: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, UnpackError> {
        self.count()?;
        match make() {
            Err(Errno::EXIST) => {
                self.remove(parent, name)
                    .map_err(|e| UnpackError::kernel("replace", path, e))?;
                make().map_err(|errno| UnpackError::kernel("make", path, errno))
            }
            made => made.map_err(|errno| UnpackError::kernel("make", path, errno)),
        }
    }

    /// Removes whatever has this name.
    fn remove(&mut self, parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        match fs::unlinkat(parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {
                // It may be in there.
                self.last = None;
                remove_folder(parent, name)
            }
            other => other,
        }
    }

    /// Says that lower layers have nothing of this name. What this layer has there stays: a folder
    /// hides what is below it.
    pub(super) fn whiteout(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &[u8],
        path: &[u8],
        times: &Timestamps,
    ) -> Result<(), UnpackError> {
        self.count()?;
        let made = fs::mknodat(
            parent,
            name,
            FileType::CharacterDevice,
            Mode::empty(),
            fs::makedev(0, 0),
        );
        match made {
            Ok(()) => {
                let set = fs::utimensat(parent, name, times, AtFlags::SYMLINK_NOFOLLOW);
                return set.map_err(|e| UnpackError::kernel("set the time of", path, e));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(UnpackError::kernel("make", path, errno)),
        }
        let there = self
            .there(parent, name)
            .map_err(|e| UnpackError::kernel("stat", path, e))?;
        if there == There::Folder {
            let folder = fs::openat(parent, name, FOLDER, Mode::empty());
            let folder = folder.map_err(|errno| UnpackError::kernel("open", path, errno))?;
            self.make_opaque(folder.as_fd(), path)?;
        }
        Ok(())
    }

    /// Says that lower layers have nothing in this folder.
    pub(super) fn make_opaque(
        &self,
        folder: BorrowedFd<'_>,
        path: &[u8],
    ) -> Result<(), UnpackError> {
        let name = match self.overlay {
            Overlay::Trusted => "trusted.overlay.opaque",
            Overlay::User => "user.overlay.opaque",
        };
        fs::fsetxattr(folder, name, b"y", XattrFlags::empty())
            .map_err(|errno| UnpackError::kernel("make opaque", path, errno))
    }
}

/// Removes a folder with all that is in it. Its depth is that of paths, which is bounded.
fn remove_folder(parent: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    let folder = fs::openat(parent, name, FOLDER, Mode::empty())?;
    for name in names(&folder)? {
        match fs::unlinkat(&folder, &*name, AtFlags::empty()) {
            Err(Errno::ISDIR) => remove_folder(folder.as_fd(), name.to_bytes())?,
            other => other?,
        }
    }
    fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
