// SPDX-License-Identifier: Apache-2.0
//! A folder for temporary files that doesn't outlive its server for long. A server that ends by
//! itself removes it. One that is killed can't, so the next server does: each holds a lock on its
//! folder, which the kernel drops with the process.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PREFIX: &str = "aurae-lsp-";

/// How often a new folder is made where another server took it for one that was left, between its
/// making and its lock.
const ATTEMPTS: u32 = 8;

/// A folder that this process holds the lock of; removed when dropped.
pub(super) struct OwnFolder {
    folder: tempfile::TempDir,
    /// Open for as long as the folder is in use.
    _locked: File,
}

impl OwnFolder {
    /// A new folder in `base`. Folders of servers that were killed are removed there.
    ///
    /// # Errors
    /// Of the file system, where the folder can't be made.
    pub(super) fn new(base: &Path) -> io::Result<Self> {
        let mut attempt = 1;
        let own = loop {
            match Self::locked(base) {
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
                Ok(own) => break own,
            }
        };
        let user = fs::metadata(own.path())?.uid();
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                // What can't be removed stays: the next server tries again.
                let _ = remove_if_left(&entry.path(), user);
            }
        }
        Ok(own)
    }

    fn locked(base: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(base)?;
        let locked = File::open(folder.path())?;
        locked.try_lock()?;
        if is_same(&locked.metadata()?, &fs::symlink_metadata(folder.path())?) {
            Ok(Self {
                folder,
                _locked: locked,
            })
        } else {
            Err(io::Error::other("another process has replaced the folder"))
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Removes a folder of this user whose lock no process holds.
fn remove_if_left(folder: &Path, user: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != user {
        return Ok(());
    }
    let locked = File::open(folder)?;
    // The lock is held until the folder is gone.
    locked.try_lock()?;
    if is_same(&found, &locked.metadata()?) {
        fs::remove_dir_all(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_a_server_that_was_killed_is_removed_by_the_next() {
        let base = tempfile::tempdir().unwrap();
        let living = OwnFolder::new(base.path()).unwrap();
        // A process that is killed drops its lock and removes nothing.
        let killed = OwnFolder::new(base.path()).unwrap();
        let left = killed.path().to_owned();
        fs::create_dir(left.join("0")).unwrap();
        fs::write(left.join("0/tsconfig.json"), "{}").unwrap();
        let OwnFolder { folder, _locked } = killed;
        let _stays = folder.keep();
        drop(_locked);
        let elsewhere = base.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let link = base.path().join("aurae-lsp-link");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();

        let next = OwnFolder::new(base.path()).unwrap();
        assert!(!left.exists());
        assert!(living.path().exists() && next.path().exists());
        assert!(elsewhere.exists() && link.is_symlink());
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
