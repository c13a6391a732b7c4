// SPDX-License-Identifier: Apache-2.0
//! What was added, a file each: with the configuration of that time, because a plugin must be told
//! to remove an interface in the words in which it was told to add it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Attachment;
use super::config::Network;
use super::error::{Error, Result};

/// One interface of one cell in one network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) container: String,
    pub(super) interface: String,
    pub(super) arguments: Vec<(String, String)>,
    /// `runtimeConfig` for plugins that ask for it.
    pub(super) offers: Map<String, Value>,
    pub(super) network: Network,
    /// Of the last plugin; none while the interface is in the making.
    pub(super) result: Option<Value>,
}

impl Entry {
    pub(super) fn new(network: &Network, attachment: &Attachment) -> Self {
        Self {
            container: attachment.container.clone(),
            interface: attachment.interface.clone(),
            arguments: attachment.arguments.clone(),
            offers: attachment.offers(),
            network: network.clone(),
            result: None,
        }
    }

    fn file_name(&self) -> String {
        file_name(&self.network.name, &self.container, &self.interface)
    }
}

/// None of the three has a slash, and `:` is in none of them.
fn file_name(network: &str, container: &str, interface: &str) -> String {
    format!("{network}:{container}:{interface}")
}

#[derive(Debug)]
pub(super) struct Cache(PathBuf);

impl Cache {
    pub(super) fn open(folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder).map_err(Error::io(&folder, "making the folder"))?;
        Ok(Self(folder))
    }

    /// Written beside and renamed: a reader sees the old one or the new one.
    pub(super) fn write(&self, entry: &Entry) -> Result<()> {
        let path = self.0.join(entry.file_name());
        let beside = self.0.join(format!(".{}", entry.file_name()));
        let bytes = serde_json::to_vec(entry)
            .map_err(|error| Error::configuration(&entry.network.name, error.to_string()))?;
        let put = || {
            std::fs::write(&beside, bytes)?;
            std::fs::File::open(&beside)?.sync_all()?;
            std::fs::rename(&beside, &path)
        };
        put().map_err(Error::io(&path, "writing"))
    }

    pub(super) fn read(&self, attachment: &Attachment, network: &str) -> Result<Option<Entry>> {
        let name = file_name(network, &attachment.container, &attachment.interface);
        read(&self.0.join(name))
    }

    pub(super) fn remove(&self, entry: &Entry) -> Result<()> {
        let path = self.0.join(entry.file_name());
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io(&path, "removing")(error))
            }
            _ => Ok(()),
        }
    }

    /// All that were added, of networks that aren't configured any more too.
    pub(super) fn list(&self) -> Result<Vec<Entry>> {
        let listing = "listing what was added";
        let mut entries = Vec::new();
        for file in std::fs::read_dir(&self.0).map_err(Error::io(&self.0, listing))? {
            let path = file.map_err(Error::io(&self.0, listing))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with('.') {
                entries.extend(read(&path)?);
            }
        }
        Ok(entries)
    }
}

fn read(path: &Path) -> Result<Option<Entry>> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(Error::io(path, "reading"))?,
    };
    let name = path.display().to_string();
    let entry = serde_json::from_slice(&bytes);
    entry
        .map(Some)
        .map_err(|error| Error::configuration(&name, error.to_string()))
}
