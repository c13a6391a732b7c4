// SPDX-License-Identifier: Apache-2.0
//! What each cell was attached by, a file each in the run directory: the daemon's own, because a
//! cell-init counts as hostile, and must neither choose its addresses and ports at a restart nor
//! lose them by being silent. The files go with the boot, as interfaces do.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ::net::Attached;
use model::name::Uid;

/// The folder of the files, and that of the cells' sockets.
pub(super) struct Kept {
    folder: PathBuf,
    sockets: PathBuf,
}

impl Kept {
    pub(super) fn new(folder: PathBuf, sockets: PathBuf) -> Self {
        Self { folder, sockets }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a network was begun since the boot: there may be something in the kernel.
    pub(super) fn is_begun(&self) -> bool {
        self.folder.is_dir()
    }

    /// Before the first thing is made in the kernel.
    pub(super) fn begin(&self) -> std::io::Result<()> {
        let mut folder = std::fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.folder)
    }

    /// What the cells have whose sockets are there. The files of others go: their cells have ended
    /// without this daemon, or were never made.
    pub(super) fn living(&self) -> anyhow::Result<Vec<(Uid, Option<Attached>)>> {
        let mut living = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            match self.read(&path) {
                Some(found) => living.push(found),
                None => std::fs::remove_file(&path)?,
            }
        }
        Ok(living)
    }

    /// A file of a cell that may live. One that can't be read is as good as none.
    fn read(&self, path: &Path) -> Option<(Uid, Option<Attached>)> {
        let name = path.file_name()?.to_str()?;
        let uid: Uid = name.parse().ok()?;
        if !self.sockets.join(format!("{uid}.sock")).exists() {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let read = serde_json::from_slice(&bytes);
        let read = read.inspect_err(|error| tracing::error!(%uid, %error, "a cell's network"));
        Some((uid, read.ok()?))
    }

    /// Written beside and renamed. `None`: its interface is lost.
    pub(super) fn put(&self, uid: Uid, attached: Option<&Attached>) -> std::io::Result<()> {
        let beside = self.folder.join(format!(".{uid}"));
        std::fs::write(&beside, serde_json::to_vec(&attached)?)?;
        std::fs::rename(&beside, self.folder.join(uid.to_string()))
    }

    pub(super) fn remove(&self, uid: Uid) {
        match std::fs::remove_file(self.folder.join(uid.to_string())) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%uid, %error, "the file of a cell's network stays behind");
            }
            _ => {}
        }
    }
}
