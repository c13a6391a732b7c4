// SPDX-License-Identifier: Apache-2.0
//! What each cell was attached by, a file each in the run directory: the daemon's own, because a
//! cell-init counts as hostile, and must neither choose its addresses and ports at a restart nor
//! lose them by being silent. The files go with the boot, as interfaces do.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ::net::Attached;
use model::name::{Tenant, Uid};
use model::network::{Interface, PublishedPort};
use serde::{Deserialize, Serialize};

/// What a cell has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Has {
    pub(super) tenant: Tenant,
    /// None where it has none of the bridge's, or that was lost.
    pub(super) bridge: Option<Attached>,
    /// Of networks of CNI. What their plugins were told is in the folder of crate `net`.
    pub(super) cni: Vec<Plugged>,
}

/// An interface that plugins have made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plugged {
    pub(super) interface: Interface,
    /// Of the node, which the plugins lead to it.
    pub(super) ports: Vec<PublishedPort>,
}

impl Has {
    pub(super) fn ports(&self) -> Vec<PublishedPort> {
        super::words::shown(self).ports
    }
}

/// A file as it may be: an earlier daemon knew the bridge alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Found {
    Has(Has),
    Bridge(Attached),
    Lost(()),
}

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

    /// Whether a cell was attached to anything since the boot.
    pub(super) fn is_begun(&self) -> bool {
        self.folder.is_dir()
    }

    /// Whether the bridge was begun since the boot: there may be something of it in the kernel.
    pub(super) fn bridge_is_begun(&self) -> bool {
        self.mark().exists()
    }

    /// Before the first thing of a cell is made.
    pub(super) fn begin(&self) -> std::io::Result<()> {
        let mut folder = std::fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.folder)
    }

    /// Before the first thing of the bridge is made in the kernel.
    pub(super) fn begin_bridge(&self) -> std::io::Result<()> {
        self.begin()?;
        std::fs::write(self.mark(), "")
    }

    /// A file beside the folder. Plugins alone need none.
    fn mark(&self) -> PathBuf {
        self.folder.with_extension("bridge")
    }

    /// What the cells have whose sockets are there. The files of others go: their cells have ended
    /// without this daemon, or were never made.
    pub(super) fn living(&self) -> anyhow::Result<Vec<(Uid, Has)>> {
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
    fn read(&self, path: &Path) -> Option<(Uid, Has)> {
        let name = path.file_name()?.to_str()?;
        let uid: Uid = name.parse().ok()?;
        if !self.sockets.join(format!("{uid}.sock")).exists() {
            return None;
        }
        let bytes = std::fs::read(path).ok()?;
        let read = serde_json::from_slice(&bytes);
        let read = read.inspect_err(|error| tracing::error!(%uid, %error, "a cell's network"));
        let has = match read.ok()? {
            Found::Has(has) => has,
            Found::Bridge(attached) => Has {
                tenant: attached.tenant.clone(),
                bridge: Some(attached),
                cni: Vec::new(),
            },
            Found::Lost(()) => Has {
                tenant: Tenant::system(),
                bridge: None,
                cni: Vec::new(),
            },
        };
        Some((uid, has))
    }

    /// Written beside and renamed.
    pub(super) fn put(&self, uid: Uid, has: &Has) -> std::io::Result<()> {
        let beside = self.folder.join(format!(".{uid}"));
        std::fs::write(&beside, serde_json::to_vec(has)?)?;
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
