// SPDX-License-Identifier: Apache-2.0
//! What every part of the store does to files: private folders, a lock, and replacing a file so
//! that a crash leaves the old or the new one.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::{ImageError, Result};

/// Makes a folder for root alone, with those above it.
pub(super) fn create_private(folder: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(folder)
        .map_err(|error| ImageError::io("create", folder, error))
}

/// Takes the lock of the store, for as long as the file lives.
pub(super) fn lock(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options
        .open(path)
        .map_err(|error| ImageError::io("open", path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(ImageError::Busy {
            what: path.display().to_string(),
            by: "another daemon has this store open; give each its own state directory".to_owned(),
        }),
        Err(std::fs::TryLockError::Error(error)) => Err(ImageError::io("lock", path, error)),
    }
}

/// Writes or checks the file that makes a folder an OCI layout.
pub(super) fn check_layout(path: &Path) -> Result<()> {
    const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
    match std::fs::read_to_string(path) {
        Ok(text) => layout_version(&text).map_err(|problem| ImageError::Corrupt {
            path: path.to_path_buf(),
            problem,
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => replace(path, LAYOUT.as_bytes()),
        Err(error) => Err(ImageError::io("read", path, error)),
    }
}

/// Whether this is the text of an `oci-layout` of the version that is known here.
pub(crate) fn layout_version(text: &str) -> std::result::Result<(), String> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Layout {
        image_layout_version: String,
    }
    let layout: Layout =
        serde_json::from_str(text).map_err(|error| format!("it is no oci-layout: {error}"))?;
    match layout.image_layout_version.as_str() {
        "1.0.0" => Ok(()),
        other => Err(format!("imageLayoutVersion {other:?} isn't 1.0.0")),
    }
}

/// Puts `bytes` in the place of a file: whole and on disk, or not at all.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    let written = write_synced(&new, bytes).and_then(|()| rename(&new, path));
    if written.is_err() {
        // The error that is returned says more than one of this would.
        let _ = std::fs::remove_file(&new);
    }
    written
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    let write = || {
        let mut file = options.open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| ImageError::io("write", path, error))
}

/// Renames, and puts the new name on disk.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).map_err(|error| ImageError::io("rename", from, error))?;
    match to.parent() {
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Puts a folder's names on disk.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    let sync = || File::open(folder)?.sync_all();
    sync().map_err(|error| ImageError::io("sync", folder, error))
}

/// Removes a file; one that is gone already is fine.
pub(super) fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(ImageError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}
