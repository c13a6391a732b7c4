// SPDX-License-Identifier: Apache-2.0
//! Puts entries into the tree: data, links, nodes, and then owner, mode, extended attributes and
//! time, in this order, because a change of owner takes set-id bits and capabilities away.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::error::UnpackError;
use super::names::{Meaning, Place, meaning, place};
use super::reader::{Data, Entry, Kind, Reader};
use super::tree::{There, Tree};
use super::{Options, Summary};

/// The most bytes of paths that are kept to set the times of folders at the end.
const MAX_TIMES: usize = 32 << 20;

/// Bytes of data that are written at once.
const BUFFER: usize = 128 << 10;

/// The time of folders that no entry gives one: the same layer makes the same tree.
const EPOCH: Timestamps = Timestamps {
    last_access: Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    },
    last_modification: Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    },
};

/// What is done with an extended attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Xattr {
    Keep,
    Skip,
    Refuse,
}

/// Unpacks entries, one after the other.
pub(super) struct Apply {
    tree: Tree,
    /// Times of folders: what is put into one changes it, so they are set last.
    times: Vec<(Vec<u8>, Timestamps)>,
    times_bytes: usize,
    summary: Summary,
    buffer: Vec<u8>,
}

impl Apply {
    /// Into this tree.
    pub(super) fn new(tree: Tree) -> Self {
        Self {
            tree,
            times: Vec::new(),
            times_bytes: 0,
            summary: Summary::default(),
            buffer: vec![0; BUFFER],
        }
    }

    /// Unpacks all entries.
    pub(super) fn all(
        mut self,
        reader: &mut Reader<'_>,
        options: &Options,
    ) -> Result<Summary, UnpackError> {
        // Without an entry of its own the root has a time that is the same everywhere, too.
        self.later(Vec::new(), EPOCH)?;
        while let Some(entry) = reader.next()? {
            self.one(&entry, reader, options)?;
            for path in self.tree.take_fresh() {
                self.later(path, EPOCH)?;
            }
        }
        // In their order: of several entries for a folder the last one holds.
        for (path, times) in &std::mem::take(&mut self.times) {
            self.time(path, times)?;
        }
        self.summary.entries = reader.entries();
        self.summary.implied = self.tree.implied();
        Ok(self.summary)
    }

    fn one(
        &mut self,
        entry: &Entry,
        reader: &mut Reader<'_>,
        options: &Options,
    ) -> Result<(), UnpackError> {
        match meaning(&entry.path)? {
            Meaning::Entry(place) => self.entry(entry, &place, reader, options),
            Meaning::Whiteout(place) => {
                let parent = self.tree.folder(&place.parents)?;
                let name = place.name.unwrap_or_default();
                self.tree
                    .whiteout(parent.as_fd(), name, &entry.path, &times(entry))
            }
            Meaning::Opaque(parts) if parts.is_empty() => {
                self.summary.opaque_root = true;
                Ok(())
            }
            Meaning::Opaque(parts) => {
                let folder = self.tree.folder(&parts)?;
                self.tree.make_opaque(folder.as_fd(), &entry.path)
            }
            Meaning::Nothing => Ok(()),
        }
    }

    fn entry(
        &mut self,
        entry: &Entry,
        place: &Place<'_>,
        reader: &mut Reader<'_>,
        options: &Options,
    ) -> Result<(), UnpackError> {
        for (name, _) in &entry.xattrs {
            if policy(name) == Xattr::Refuse {
                let name = String::from_utf8_lossy(name);
                let problem = format!("its attribute {name:?} belongs to the node");
                return Err(UnpackError::entry(&entry.path, problem));
            }
        }
        let Some(name) = place.name else {
            return self.root(entry);
        };
        let parent = self.tree.folder(&place.parents)?;
        let parent = parent.as_fd();
        match &entry.kind {
            Kind::Folder => self.folder(entry, place, parent, name),
            Kind::File(data) => self.file(entry, data, parent, name, reader),
            Kind::HardLink => self.hard_link(entry, place, parent, name),
            Kind::Symlink => self.symlink(entry, parent, name),
            Kind::Character => self.node(entry, parent, name, FileType::CharacterDevice, options),
            Kind::Block => self.node(entry, parent, name, FileType::BlockDevice, options),
            Kind::Fifo => self.node(entry, parent, name, FileType::Fifo, options),
        }
    }

    /// The layer's own root: its attributes alone.
    fn root(&mut self, entry: &Entry) -> Result<(), UnpackError> {
        if entry.kind != Kind::Folder {
            return Err(UnpackError::entry(&entry.path, "the root must be a folder"));
        }
        let root = self.tree.folder(&[])?;
        self.attributes(entry, root.as_fd())?;
        self.later(Vec::new(), times(entry))
    }

    fn folder(
        &mut self,
        entry: &Entry,
        place: &Place<'_>,
        parent: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<(), UnpackError> {
        let folder = self.tree.make_folder(parent, name, &entry.path)?;
        self.attributes(entry, folder.as_fd())?;
        let parts: Vec<&[u8]> = place.parents.iter().copied().chain([name]).collect();
        let path = parts.join(&b'/');
        self.tree.told(&path);
        self.later(path, times(entry))
    }

    fn later(&mut self, path: Vec<u8>, times: Timestamps) -> Result<(), UnpackError> {
        // The vector's own share of each.
        self.times_bytes += path.len() + 64;
        if self.times_bytes > MAX_TIMES {
            return Err(UnpackError::too_much("the paths of its folders", "32 MiB"));
        }
        self.times.push((path, times));
        Ok(())
    }

    fn time(&self, path: &[u8], times: &Timestamps) -> Result<(), UnpackError> {
        let path = if path.is_empty() { b"." } else { path };
        let set = match self.tree.open(path) {
            Ok(folder) => fs::futimens(folder, times),
            // A later entry has put something else there.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => Err(errno),
        };
        set.map_err(|errno| UnpackError::kernel("set the time of", path, errno))
    }

    fn file(
        &mut self,
        entry: &Entry,
        data: &Data,
        parent: BorrowedFd<'_>,
        name: &[u8],
        reader: &mut Reader<'_>,
    ) -> Result<(), UnpackError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = || fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR);
        let file = self.tree.in_place_of(parent, name, &entry.path, make)?;
        let file = file.as_fd();
        match data {
            Data::Plain(_) => while self.piece(entry, file, None, u64::MAX, reader)? > 0 {},
            Data::Sparse(map) => {
                for (offset, length) in &map.pieces {
                    let (mut at, mut left) = (*offset, *length);
                    while left > 0 {
                        let written = self.piece(entry, file, Some(at), left, reader)?;
                        (at, left) = (at + written, left.saturating_sub(written.max(1)));
                    }
                }
                fs::ftruncate(file, map.size)
                    .map_err(|errno| UnpackError::kernel("write", &entry.path, errno))?;
            }
        }
        self.attributes(entry, file)?;
        fs::futimens(file, &times(entry))
            .map_err(|errno| UnpackError::kernel("set the time of", &entry.path, errno))
    }

    /// Moves at most `most` bytes of data into the file, at its end or at an offset; 0 when there
    /// are no more.
    fn piece(
        &mut self,
        entry: &Entry,
        file: BorrowedFd<'_>,
        offset: Option<u64>,
        most: u64,
        reader: &mut Reader<'_>,
    ) -> Result<u64, UnpackError> {
        let most = usize::try_from(most)
            .unwrap_or(usize::MAX)
            .min(self.buffer.len());
        let read = reader.data(self.buffer.get_mut(..most).unwrap_or_default())?;
        let mut rest = self.buffer.get(..read).unwrap_or_default();
        let mut at = offset;
        while !rest.is_empty() {
            let written = match at {
                Some(at) => rustix::io::pwrite(file, rest, at),
                None => rustix::io::write(file, rest),
            };
            let written = match written {
                Err(Errno::INTR) => 0,
                other => other.map_err(|e| UnpackError::kernel("write", &entry.path, e))?,
            };
            rest = rest.get(written..).unwrap_or_default();
            at = at.map(|at| at + written as u64);
        }
        Ok(read as u64)
    }

    /// A link to something of this layer. The link itself is linked, where the target is one.
    fn hard_link(
        &mut self,
        entry: &Entry,
        at: &Place<'_>,
        parent: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<(), UnpackError> {
        let refuse = |problem: &str| {
            let link = String::from_utf8_lossy(&entry.link);
            UnpackError::entry(&entry.path, format!("its hard link to {link:?} {problem}"))
        };
        let target = place(&entry.link).map_err(|_| refuse("leads nowhere"))?;
        if target == *at {
            return Err(refuse("is to itself"));
        }
        let Some(target_name) = target.name else {
            return Err(refuse("is to the root"));
        };
        let folder = match target.parents.is_empty() {
            true => None,
            false => Some(self.tree.open(&target.parents.join(&b'/'))),
        };
        let root = self.tree.folder(&[])?;
        let folder = match &folder {
            None => root.as_fd(),
            Some(Ok(folder)) => folder.as_fd(),
            Some(Err(_)) => return Err(refuse("is to nothing of this layer")),
        };
        let there = self.tree.there(folder, target_name);
        match there.map_err(|errno| UnpackError::kernel("stat", &entry.link, errno))? {
            There::Nothing => return Err(refuse("is to nothing of this layer")),
            There::Folder => return Err(refuse("is to a folder")),
            There::Symlink | There::Whiteout | There::Other => {}
        }
        let make = || fs::linkat(folder, target_name, parent, name, AtFlags::empty());
        self.tree.in_place_of(parent, name, &entry.path, make)
    }

    fn symlink(
        &mut self,
        entry: &Entry,
        parent: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<(), UnpackError> {
        if entry.link.is_empty() || entry.link.len() > 4095 {
            return Err(UnpackError::entry(
                &entry.path,
                "its target has 0 or more than 4095 bytes",
            ));
        }
        let make = || fs::symlinkat(entry.link.as_slice(), parent, name);
        self.tree.in_place_of(parent, name, &entry.path, make)?;
        self.attributes_at(entry, parent, name)
    }

    fn node(
        &mut self,
        entry: &Entry,
        parent: BorrowedFd<'_>,
        name: &[u8],
        kind: FileType,
        options: &Options,
    ) -> Result<(), UnpackError> {
        if !options.devices && kind != FileType::Fifo {
            return Err(UnpackError::entry(
                &entry.path,
                "devices can't be made without privileges",
            ));
        }
        let device = fs::makedev(entry.device.0, entry.device.1);
        let make = || fs::mknodat(parent, name, kind, Mode::empty(), device);
        self.tree.in_place_of(parent, name, &entry.path, make)?;
        self.attributes_at(entry, parent, name)
    }

    /// Owner, mode and extended attributes of what is open.
    fn attributes(&mut self, entry: &Entry, fd: BorrowedFd<'_>) -> Result<(), UnpackError> {
        let wrong = |doing| move |errno| UnpackError::kernel(doing, &entry.path, errno);
        let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
        fs::fchown(fd, Some(uid), Some(gid)).map_err(wrong("set the owner of"))?;
        let mode = Mode::from_raw_mode(entry.mode);
        fs::fchmod(fd, mode).map_err(wrong("set the mode of"))?;
        for (name, value) in &entry.xattrs {
            match policy(name) {
                Xattr::Keep => fs::fsetxattr(fd, name.as_slice(), value, XattrFlags::empty())
                    .map_err(wrong("set an extended attribute of"))?,
                Xattr::Skip | Xattr::Refuse => self.summary.skipped_xattrs += 1,
            }
        }
        Ok(())
    }

    /// Owner, mode and time of what can't be opened. The kernel takes no `user.` attributes there;
    /// others would need a path.
    fn attributes_at(
        &mut self,
        entry: &Entry,
        parent: BorrowedFd<'_>,
        name: &[u8],
    ) -> Result<(), UnpackError> {
        let wrong = |doing| move |errno| UnpackError::kernel(doing, &entry.path, errno);
        let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        fs::chownat(parent, name, Some(uid), Some(gid), nofollow)
            .map_err(wrong("set the owner of"))?;
        if entry.kind != Kind::Symlink {
            let mode = Mode::from_raw_mode(entry.mode);
            fs::chmodat(parent, name, mode, AtFlags::empty()).map_err(wrong("set the mode of"))?;
        }
        self.summary.skipped_xattrs += entry.xattrs.len() as u64;
        fs::utimensat(parent, name, &times(entry), nofollow).map_err(wrong("set the time of"))
    }
}

/// `user.*`, file capabilities and POSIX ACLs are a file's own. `trusted.*` and overlayfs' names
/// below `user.` say what the node does with a layer. Labels of security modules are the node's
/// policy, so an image's are left out, as every other engine leaves them out.
fn policy(name: &[u8]) -> Xattr {
    match name {
        _ if name.starts_with(b"trusted.") || name.starts_with(b"user.overlay.") => Xattr::Refuse,
        b"security.capability" => Xattr::Keep,
        b"system.posix_acl_access" | b"system.posix_acl_default" => Xattr::Keep,
        _ if name.starts_with(b"user.") => Xattr::Keep,
        _ => Xattr::Skip,
    }
}

fn times(entry: &Entry) -> Timestamps {
    let time = Timespec {
        tv_sec: entry.mtime.0,
        tv_nsec: entry.mtime.1.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
