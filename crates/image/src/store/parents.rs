// SPDX-License-Identifier: Apache-2.0
//! Folders that a layer has only as parents of others. Each layer is unpacked by itself, so such a
//! folder is root's with mode 0755 there, and in an overlay the uppermost layer's folder counts:
//! `/tmp` of an image would lose its mode to a layer that adds `/tmp/file`. Engines that unpack one
//! layer onto the other give such a folder what lower layers say of it. Here an image gets one more
//! layer above its own, with nothing but those folders; what an image has in them stays below it.
//!
//! Layers are the store's own folders, which no one changes; a link of one is never followed.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::{ImageError, Layer, Result, Store};
use crate::digest::Digest;
use crate::unpack::Summary;

/// The kernel's bound of the names, and of a value, of a file's attributes.
const MAX_ATTRIBUTES: usize = 64 << 10;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What one layer has at a path.
enum Has {
    /// The folder. Lower layers are seen through it, or aren't.
    Folder { open: OwnedFd, through: bool },
    /// Nothing, and lower layers are seen.
    Nothing,
    /// Something else, or nothing and no lower layer is seen.
    Hidden,
}

impl Store {
    /// The layer that gives implied folders of these layers, uppermost first, what lower ones say
    /// of them. `None`: there is nothing to give.
    ///
    /// # Errors
    /// [`ImageError::Io`], [`ImageError::DiskFull`].
    pub fn parents(&self, layers: &[Layer]) -> Result<Option<Layer>> {
        let mut paths = BTreeSet::new();
        for layer in layers {
            for path in layer.summary.implied.iter().map(Path::new) {
                if !paths.contains(path) && differs(layers, path)? {
                    // All above it: the layer of them is uppermost, so it says what they are, too.
                    let above = path.ancestors().filter(|it| *it != Path::new(""));
                    paths.extend(above.map(Path::to_owned));
                }
            }
        }
        if paths.is_empty() {
            return Ok(None);
        }
        let diff_id = name(layers);
        if let Some(layer) = self.layer(&diff_id) {
            return Ok(Some(layer));
        }
        let making = self.make_layer(&diff_id)?;
        for path in &paths {
            make(&making.root().join(path), said(layers, path)?.as_ref())?;
        }
        // What is made in a folder changes its time, so that is set last, from the deepest on.
        for path in paths.iter().rev() {
            let from = said(layers, path)?;
            time(&making.root().join(path), from.as_ref())?;
        }
        let entries = paths.len() as u64;
        making
            .commit(Summary {
                entries,
                ..Summary::default()
            })
            .map(Some)
    }
}

/// It is derived from these layers, so their diff ids are its name. No tar stream has it.
fn name(layers: &[Layer]) -> Digest {
    let ids = layers.iter().map(|layer| layer.diff_id.to_string());
    let text = ids.fold("aurae.parents/1".to_owned(), |text, id| text + "\n" + &id);
    Digest::of(text.as_bytes())
}

/// Whether the folder isn't what its uppermost layer made of it.
fn differs(layers: &[Layer], path: &Path) -> Result<bool> {
    let Some(folder) = said(layers, path)? else {
        return Ok(false);
    };
    let stat = fs::fstat(&folder).map_err(|errno| ImageError::io("stat", path, errno))?;
    let plain = (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid) == (0o755, 0, 0);
    Ok(!plain || !attributes(&folder, path)?.is_empty())
}

/// The folder of the uppermost layer that has an entry for it. `None` where none of those that are
/// seen has one.
fn said(layers: &[Layer], path: &Path) -> Result<Option<OwnedFd>> {
    for layer in layers {
        let implied = layer.summary.implied.iter().any(|it| Path::new(it) == path);
        match has(layer, path)? {
            Has::Folder { open, .. } if !implied => return Ok(Some(open)),
            Has::Folder { through: true, .. } | Has::Nothing => {}
            Has::Folder { through: false, .. } | Has::Hidden => return Ok(None),
        }
    }
    Ok(None)
}

fn has(layer: &Layer, path: &Path) -> Result<Has> {
    let wrong = |errno| ImageError::io("open", &layer.root.join(path), errno);
    let mut at = fs::open(&layer.root, FOLDER, Mode::empty()).map_err(wrong)?;
    let mut through = true;
    for part in path {
        at = match fs::openat(&at, part, FOLDER, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) if through => return Ok(Has::Nothing),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Has::Hidden),
            Err(errno) => return Err(wrong(errno)),
        };
        through &= !is_opaque(&at);
    }
    Ok(Has::Folder { open: at, through })
}

fn is_opaque(folder: impl AsFd) -> bool {
    ["trusted.overlay.opaque", "user.overlay.opaque"]
        .into_iter()
        .any(|name| fs::fgetxattr(&folder, name, &mut [0_u8; 8][..]).is_ok())
}

/// Attributes of a folder that are its own: not the node's, not a security module's.
fn attributes(folder: impl AsFd, path: &Path) -> Result<Vec<(CString, Vec<u8>)>> {
    let wrong = |errno| ImageError::io("read the attributes of", path, errno);
    let mut buffer = vec![0; MAX_ATTRIBUTES];
    let length = match fs::flistxattr(&folder, &mut buffer[..]) {
        Ok(length) => length,
        // A file system without any.
        Err(Errno::OPNOTSUPP) => 0,
        Err(errno) => return Err(wrong(errno)),
    };
    let names = buffer.get(..length).unwrap_or_default().to_vec();
    let mut all = Vec::new();
    for name in names.split(|byte| *byte == 0) {
        let own = name.starts_with(b"user.") && !name.starts_with(b"user.overlay.");
        let Ok(called) = CString::new(name) else {
            continue;
        };
        if own || name.starts_with(b"system.posix_acl_") {
            let length = fs::fgetxattr(&folder, &called, &mut buffer[..]).map_err(wrong)?;
            all.push((called, buffer.get(..length).unwrap_or_default().to_vec()));
        }
    }
    Ok(all)
}

/// Makes a folder as another one is; root's with mode 0755 where there is none.
fn make(path: &Path, from: Option<&OwnedFd>) -> Result<()> {
    let wrong = |doing| move |errno| ImageError::io(doing, path, errno);
    fs::mkdir(path, Mode::RWXU).map_err(wrong("make"))?;
    let folder = fs::open(path, FOLDER, Mode::empty()).map_err(wrong("open"))?;
    let Some(from) = from else {
        let mode = Mode::from_raw_mode(0o755);
        return fs::fchmod(&folder, mode).map_err(wrong("set the mode of"));
    };
    let stat = fs::fstat(from).map_err(wrong("stat"))?;
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    fs::fchown(&folder, Some(uid), Some(gid)).map_err(wrong("set the owner of"))?;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    fs::fchmod(&folder, mode).map_err(wrong("set the mode of"))?;
    for (name, value) in attributes(from, path)? {
        fs::fsetxattr(&folder, &name, &value, XattrFlags::empty())
            .map_err(wrong("set an attribute of"))?;
    }
    Ok(())
}

/// Sets the time of a folder to another one's, or to the epoch: the same layers make the same tree.
fn time(path: &Path, from: Option<&OwnedFd>) -> Result<()> {
    let wrong = |errno| ImageError::io("set the time of", path, errno);
    let mut at = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if let Some(from) = from {
        let stat = fs::fstat(from).map_err(wrong)?;
        at.tv_sec = stat.st_mtime;
        at.tv_nsec = stat.st_mtime_nsec.try_into().unwrap_or_default();
    }
    let folder = fs::open(path, FOLDER, Mode::empty()).map_err(wrong)?;
    let times = Timestamps {
        last_access: at,
        last_modification: at,
    };
    fs::futimens(&folder, &times).map_err(wrong)
}
