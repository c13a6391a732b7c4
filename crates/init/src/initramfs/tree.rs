// SPDX-License-Identifier: Apache-2.0
//! Moves the files of the initramfs to a tmpfs, or removes them: files that stay keep their memory.
//!
//! Only files of the initramfs itself are touched, none of a file system that is mounted on it.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use kernel::{Context, Result};
use rustix::fs::{CWD, FileType, Mode};

/// Moves everything into `target`, file by file: there is never more than one of them twice.
pub(super) fn move_to(target: &Path) -> Result<()> {
    let root = Path::new("/");
    let device = fs::symlink_metadata(root).call_on("stat", root)?.dev();
    move_folder(root, target, device)
}

fn move_folder(from: &Path, to: &Path, device: u64) -> Result<()> {
    for entry in fs::read_dir(from).call_on("read", from)?.flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let about = fs::symlink_metadata(&source).call_on("stat", &source)?;
        if about.is_dir() {
            let _ = fs::create_dir(&target);
            // A mount point stays as a folder; the mount itself is moved.
            if about.dev() == device {
                move_folder(&source, &target, device)?;
            }
            copy_mode(&about, &target)?;
        } else {
            move_file(&source, &target, &about)?;
        }
    }
    Ok(())
}

fn move_file(source: &Path, target: &Path, about: &Metadata) -> Result<()> {
    let kind = about.file_type();
    if kind.is_symlink() {
        let points_to = fs::read_link(source).call_on("readlink", source)?;
        std::os::unix::fs::symlink(points_to, target).call_on("symlink", target)?;
    } else if kind.is_file() {
        fs::copy(source, target).call_on("copy", source)?;
        copy_mode(about, target)?;
    } else if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() {
        let mode = Mode::from_raw_mode(about.mode());
        let kind = FileType::from_raw_mode(about.mode());
        rustix::fs::mknodat(CWD, target, kind, mode, about.rdev()).call_on("mknod", target)?;
    }
    fs::remove_file(source).call_on("unlink", source)
}

fn copy_mode(about: &Metadata, target: &Path) -> Result<()> {
    std::os::unix::fs::lchown(target, Some(about.uid()), Some(about.gid()))
        .call_on("chown", target)?;
    fs::set_permissions(target, fs::Permissions::from_mode(about.mode() & 0o7777))
        .call_on("chmod", target)
}

/// Removes everything. What can't be removed keeps its memory, no more.
pub(super) fn remove_all() {
    let root = Path::new("/");
    if let Ok(about) = fs::symlink_metadata(root) {
        remove_folder(root, about.dev());
    }
}

fn remove_folder(folder: &Path, device: u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match fs::symlink_metadata(&path) {
            Ok(about) if about.dev() != device => {}
            Ok(about) if about.is_dir() => {
                remove_folder(&path, device);
                let _ = fs::remove_dir(&path);
            }
            _ => drop(fs::remove_file(&path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_moved_with_its_modes_and_links() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| from.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/program"), "x").unwrap();
        fs::set_permissions(at("folder/program"), fs::Permissions::from_mode(0o4755)).unwrap();
        std::os::unix::fs::symlink("folder/program", at("link")).unwrap();
        let device = fs::symlink_metadata(from.path()).unwrap().dev();
        move_folder(from.path(), to.path(), device).unwrap();
        let program = fs::metadata(to.path().join("link")).unwrap();
        assert_eq!(program.mode() & 0o7777, 0o4755);
        assert!(!at("folder/program").exists() && !at("link").exists());
        remove_folder(to.path(), device);
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
    }
}
