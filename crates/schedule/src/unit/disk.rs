// SPDX-License-Identifier: Apache-2.0
//! The machine's files, as `units` reads them, with units of our own behind all folders: the
//! targets that systemd's package would bring (systemd.special(7)), so that a machine without it
//! has `basic.target` and what waits for it.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use kernel::time::realtime_ns;
use units::files::{Entry, Files, Kind, Stamp, Unreadable};

use super::rows;

/// The name of the folder of our own units. It is no folder of the machine.
pub(crate) const OWN: &str = "/@aurae";
/// No unit's file is larger, in bytes.
const LARGEST: u64 = 1 << 20;

/// Target, description, more lines of `[Unit]`.
const TARGETS: [(&str, &str, &str); 24] = [
    (
        "default",
        "Default",
        "Requires=multi-user.target\nAfter=multi-user.target\nAllowIsolate=yes\n",
    ),
    (
        "multi-user",
        "Multi-User System",
        "Requires=basic.target\nAfter=basic.target\nConflicts=rescue.target\n\
         AllowIsolate=yes\n",
    ),
    (
        "rescue",
        "Rescue Mode",
        "Requires=sysinit.target\nAfter=sysinit.target\nAllowIsolate=yes\n",
    ),
    (
        "basic",
        "Basic System",
        "Requires=sysinit.target\n\
         Wants=sockets.target timers.target paths.target slices.target\n\
         After=sysinit.target sockets.target paths.target slices.target\n",
    ),
    (
        "sysinit",
        "System Initialization",
        "DefaultDependencies=no\nWants=local-fs.target swap.target\n\
         After=local-fs.target swap.target\nConflicts=shutdown.target\nBefore=shutdown.target\n",
    ),
    ("sockets", "Socket Units", ""),
    ("timers", "Timer Units", ""),
    ("paths", "Path Units", ""),
    (
        "slices",
        "Slice Units",
        "DefaultDependencies=no\nConflicts=shutdown.target\nBefore=shutdown.target\n",
    ),
    (
        "local-fs-pre",
        "Preparation for Local File Systems",
        "DefaultDependencies=no\n",
    ),
    (
        "local-fs",
        "Local File Systems",
        "DefaultDependencies=no\nConflicts=shutdown.target\n",
    ),
    (
        "remote-fs-pre",
        "Preparation for Remote File Systems",
        "DefaultDependencies=no\n",
    ),
    ("remote-fs", "Remote File Systems", ""),
    (
        "swap",
        "Swaps",
        "DefaultDependencies=no\nConflicts=shutdown.target\n",
    ),
    (
        "network-pre",
        "Preparation for Network",
        "DefaultDependencies=no\n",
    ),
    ("network", "Network", ""),
    (
        "network-online",
        "Network is Online",
        "After=network.target\n",
    ),
    ("nss-lookup", "Host and Network Name Lookups", ""),
    (
        "nss-user-lookup",
        "User and Group Name Lookups",
        "DefaultDependencies=no\n",
    ),
    ("time-set", "System Time Set", "DefaultDependencies=no\n"),
    (
        "time-sync",
        "System Time Synchronized",
        "DefaultDependencies=no\n",
    ),
    (
        "umount",
        "Unmount All Filesystems",
        "DefaultDependencies=no\nRefuseManualStart=yes\n",
    ),
    (
        "shutdown",
        "System Shutdown",
        "DefaultDependencies=no\nRefuseManualStart=yes\n",
    ),
    (
        "final",
        "Late Shutdown Services",
        "DefaultDependencies=no\nRefuseManualStart=yes\n",
    ),
];

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disk;

fn own(path: &str) -> Option<String> {
    if path.starts_with(rows::ROWS) {
        return rows::read(path);
    }
    let name = path.strip_prefix(OWN)?.strip_prefix('/')?;
    let stem = name.strip_suffix(".target")?;
    let (_, description, more) = TARGETS.iter().find(|(name, ..)| *name == stem)?;
    Some(format!("[Unit]\nDescription={description}\n{more}"))
}

impl Files for Disk {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Unreadable> {
        if let Some(text) = own(path) {
            return Ok(Some(text.into_bytes()));
        }
        let wrong = |error: std::io::Error| Err(Unreadable(format!("can't be read: {error}")));
        match std::fs::metadata(path) {
            Ok(meta) if meta.file_type().is_char_device() => return Ok(Some(Vec::new())),
            // A FIFO would hold up the reader.
            Ok(meta) if !meta.is_file() => {
                return Err(Unreadable("is no ordinary file".to_owned()));
            }
            Ok(meta) if meta.len() > LARGEST => {
                return Err(Unreadable(format!("is larger than {LARGEST} bytes")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return wrong(error),
        }
        match std::fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => wrong(error),
        }
    }

    fn list(&self, folder: &str) -> Vec<Entry> {
        if folder == OWN {
            let entry = |(name, ..): &(&str, &str, &str)| Entry {
                name: format!("{name}.target"),
                kind: Kind::File,
            };
            return TARGETS.iter().map(entry).collect();
        }
        if let Some(entries) = rows::list(folder) {
            return entries;
        }
        let Ok(entries) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        // The folder says what is in it: no file is looked at for that.
        let entry = |entry: std::fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let kind = match entry.file_type().ok()? {
                it if it.is_symlink() => kind(&entry.path())?,
                it if it.is_dir() => Kind::Folder,
                _ => Kind::File,
            };
            Some(Entry { name, kind })
        };
        entries.flatten().filter_map(entry).collect()
    }

    fn is_empty(&self, path: &str) -> bool {
        // Unlike a file of the kernel's, whose size is 0, one of a unit's has what it says.
        let empty = |it: &std::fs::Metadata| it.file_type().is_char_device() || it.len() == 0;
        match own(path) {
            Some(text) => text.is_empty(),
            None => std::fs::metadata(path).is_ok_and(|it| !it.is_dir() && empty(&it)),
        }
    }

    fn stamp(&self, path: &str) -> Option<Stamp> {
        if path == OWN || path == rows::ROWS || own(path).is_some() {
            // It is as old as the daemon.
            return Some(Stamp {
                file: (0, 0),
                size: 0,
                changed: (0, 0),
                looked: i128::MAX,
            });
        }
        let meta = std::fs::metadata(path).ok()?;
        let time =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Some(Stamp {
            file: (meta.dev(), meta.ino()),
            size: meta.len(),
            changed: (
                time(meta.mtime(), meta.mtime_nsec()),
                time(meta.ctime(), meta.ctime_nsec()),
            ),
            looked: realtime_ns().into(),
        })
    }

    fn kind(&self, path: &str) -> Option<Kind> {
        match own(path) {
            Some(_) => Some(Kind::File),
            None => kind(Path::new(path)),
        }
    }
}

/// Forces the names in a folder to disk, and its own in the one around it: it may be new.
///
/// # Errors
/// The kernel's.
pub(crate) fn settle(folder: &Path) -> std::io::Result<()> {
    let around = folder.parent();
    let mut both = std::iter::once(folder).chain(around);
    both.try_for_each(|it| File::open(it)?.sync_all())
}

fn kind(path: &Path) -> Option<Kind> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some(if meta.is_symlink() {
        let target = std::fs::read_link(path).ok()?;
        Kind::Link(target.to_str()?.to_owned())
    } else if meta.is_dir() {
        Kind::Folder
    } else {
        Kind::File
    })
}
