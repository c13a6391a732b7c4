// SPDX-License-Identifier: Apache-2.0
//! Whether two trees are the same in all that a layer says of its files: kinds, names, modes,
//! owners, times, links, device numbers, attributes and bytes. For finding out what a disk has made
//! of an unpacked layer. Both are the store's own folders, which no one else changes.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{ImageError, Result};

/// Bytes that are read of each of two files at once.
const BUFFER: usize = 128 << 10;
/// The kernel's bound of the names, and of a value, of a file's attributes.
const MAX_ATTRIBUTES: usize = 64 << 10;

/// The first path at which the trees differ, below their roots (`.` for the roots themselves).
pub(super) fn difference(one: &Path, other: &Path) -> Result<Option<PathBuf>> {
    let root = |path: &Path| {
        let metadata = std::fs::symlink_metadata(path);
        metadata.map_err(|error| ImageError::io("stat", path, error))
    };
    if !same(one, &root(one)?, other, &root(other)?)? {
        return Ok(Some(PathBuf::from(".")));
    }
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let (a, b) = (names(&one.join(&folder))?, names(&other.join(&folder))?);
        if let Some(name) = b.keys().find(|name| !a.contains_key(*name)) {
            return Ok(Some(folder.join(name)));
        }
        for (name, a) in &a {
            let path = folder.join(name);
            let same = match b.get(name) {
                Some(b) => same(&one.join(&path), a, &other.join(&path), b)?,
                None => false,
            };
            if !same {
                return Ok(Some(path));
            }
            if a.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(None)
}

fn names(folder: &Path) -> Result<BTreeMap<OsString, Metadata>> {
    let wrong = |error| ImageError::io("list", folder, error);
    let mut names = BTreeMap::new();
    for entry in folder.read_dir().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        names.insert(entry.file_name(), entry.metadata().map_err(wrong)?);
    }
    Ok(names)
}

fn same(one: &Path, a: &Metadata, other: &Path, b: &Metadata) -> Result<bool> {
    let said = |it: &Metadata| {
        let of_a_file = if it.is_dir() {
            (0, 0)
        } else {
            (it.size(), it.nlink())
        };
        let times = (it.mtime(), it.mtime_nsec());
        (it.mode(), it.uid(), it.gid(), it.rdev(), of_a_file, times)
    };
    if said(a) != said(b) || attributes(one)? != attributes(other)? {
        return Ok(false);
    }
    let kind = a.file_type();
    if kind.is_symlink() {
        let target = |path: &Path| {
            std::fs::read_link(path).map_err(|error| ImageError::io("read", path, error))
        };
        return Ok(target(one)? == target(other)?);
    }
    match kind.is_file() {
        true => same_bytes(one, other),
        false => Ok(true),
    }
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let open = |path: &Path| File::open(path).map_err(|e| ImageError::io("open", path, e));
    let (mut a, mut b) = (open(one)?, open(other)?);
    let (mut left, mut right) = (Vec::with_capacity(BUFFER), Vec::with_capacity(BUFFER));
    loop {
        for (file, path, bytes) in [(&mut a, one, &mut left), (&mut b, other, &mut right)] {
            bytes.clear();
            let read = file.take(BUFFER as u64).read_to_end(bytes);
            read.map_err(|error| ImageError::io("read", path, error))?;
        }
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

/// A file's extended attributes, of all that root sees.
fn attributes(path: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let wrong = |errno: rustix::io::Errno| ImageError::io("read the attributes of", path, errno);
    let mut buffer = vec![0; MAX_ATTRIBUTES];
    let length = match rustix::fs::llistxattr(path, &mut buffer[..]) {
        Ok(length) => length,
        // A file system without any.
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(errno) => return Err(wrong(errno)),
    };
    let names = buffer.get(..length).unwrap_or_default().to_vec();
    let mut all = BTreeMap::new();
    for name in names.split(|byte| *byte == 0).filter(|it| !it.is_empty()) {
        let Ok(called) = CString::new(name) else {
            continue;
        };
        let length = rustix::fs::lgetxattr(path, &called, &mut buffer[..]).map_err(wrong)?;
        let value = buffer.get(..length).unwrap_or_default().to_vec();
        all.insert(name.to_vec(), value);
    }
    Ok(all)
}
