// SPDX-License-Identifier: Apache-2.0
//! `tmpcopyup`: a new tmpfs gets what is in the folder that it is about to cover. Folder by folder,
//! by descriptors; links are copied as links.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Uid};

use super::mounts::open_root;
use crate::error::{Doing, Result};

/// How deep folders may be.
const MOST_DEPTH: usize = 128;

pub(super) fn copy(from: &OwnedFd, mount: &OwnedFd) -> Result<()> {
    folder(from, &open_root(mount)?, MOST_DEPTH)
}

fn folder(from: &OwnedFd, to: &OwnedFd, depth: usize) -> Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        return crate::error::refuse("tmpcopyup: folders too deep to be copied");
    };
    for entry in Dir::read_from(from).doing("readdir")? {
        let entry = entry.doing("readdir")?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW).doing("stat")?;
        one(from, to, name, &stat, depth)
            .doing(format_args!("tmpcopyup: {}", name.to_string_lossy()))?;
    }
    Ok(())
}

fn one(from: &OwnedFd, to: &OwnedFd, name: &CStr, stat: &Stat, depth: usize) -> Result<()> {
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let kind = FileType::from_raw_mode(stat.st_mode);
    match kind {
        FileType::Directory => {
            rustix::fs::mkdirat(to, name, mode)?;
            let below = open_folder(to, name)?;
            folder(&open_folder(from, name)?, &below, depth)?;
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(&target, to, name)?;
        }
        FileType::RegularFile => {
            let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let source = rustix::fs::openat(from, name, read, Mode::empty())?;
            let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let copy = rustix::fs::openat(to, name, write, mode)?;
            std::io::copy(
                &mut std::fs::File::from(source),
                &mut std::fs::File::from(copy),
            )?;
        }
        _ => rustix::fs::mknodat(to, name, kind, mode, stat.st_rdev)?,
    }
    let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(to, name, Some(owner), Some(group), flags)?;
    if kind != FileType::Symlink {
        rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
    }
    Ok(())
}

fn open_folder(at: &OwnedFd, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}
