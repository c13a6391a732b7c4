// SPDX-License-Identifier: Apache-2.0
//! What was added, a file each: with the configuration of that time, because a plugin must be told
//! to remove an interface in the words in which it was told to add it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
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
    /// No other user reads what plugins are told: secrets may be in it.
    pub(super) fn open(folder: PathBuf) -> Result<Self> {
        let make = || {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&folder)?;
            // An earlier daemon has made it with another mode.
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700))
        };
        make().map_err(Error::io(&folder, "making the folder"))?;
        Ok(Self(folder))
    }

    /// Written beside and renamed: a reader sees the old one or the new one.
    pub(super) fn write(&self, entry: &Entry) -> Result<()> {
        let path = self.0.join(entry.file_name());
        let beside = self.0.join(format!(".{}", entry.file_name()));
        let bytes = serde_json::to_vec(entry)
            .map_err(|error| Error::configuration(&entry.network.name, error.to_string()))?;
        let put = || {
            // One that a dead daemon has left has another mode, perhaps.
            let _ = std::fs::remove_file(&beside);
            let mut options = std::fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&beside, &path)
        };
        put().map_err(|error| {
            // Half of it is of no use, and the disk may be full.
            let _ = std::fs::remove_file(&beside);
            Error::io(&path, "writing")(error)
        })
    }

    /// Removes what writers that have died have left half. Only while no other writer writes.
    pub(super) fn remove_partial(&self) -> Result<()> {
        for name in self.names()? {
            if name.starts_with('.') {
                let path = self.0.join(name);
                std::fs::remove_file(&path).map_err(Error::io(&path, "removing"))?;
            }
        }
        Ok(())
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

    /// Of all that were added, of networks that aren't configured any more too: container and
    /// interface. By the files' names: one that can't be read is no other cell's affair.
    pub(super) fn list(&self) -> Result<BTreeSet<(String, String)>> {
        let names = self.names()?;
        let listed = names.iter().filter_map(|name| parts(name));
        Ok(listed
            .map(|(container, interface)| (container.to_owned(), interface.to_owned()))
            .collect())
    }

    /// What a cell has, each as it could be read.
    pub(super) fn of(&self, container: &str) -> Result<Vec<Result<Entry>>> {
        let names = self.names()?.into_iter();
        let own = names.filter(|name| parts(name).is_some_and(|(of, _)| of == container));
        let entries = own.map(|name| read(&self.0.join(name)));
        Ok(entries.filter_map(Result::transpose).collect())
    }

    fn names(&self) -> Result<Vec<String>> {
        let failed = |error| Error::io(&self.0, "listing what was added")(error);
        let mut names = Vec::new();
        for file in std::fs::read_dir(&self.0).map_err(failed)? {
            names.push(
                file.map_err(failed)?
                    .file_name()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
        Ok(names)
    }
}

/// Container and interface out of a file's name; none for one that is in the making.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (_network, rest) = name.split_once(':').filter(|_| !name.starts_with('.'))?;
    rest.split_once(':')
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(container: &str) -> Entry {
        let network = serde_json::json!({"name": "pods", "version": "1.0.0", "versions": [],
            "disable_check": false, "disable_gc": false, "plugins": []});
        Entry {
            container: container.to_owned(),
            interface: "eth0".to_owned(),
            arguments: Vec::new(),
            offers: Map::new(),
            network: serde_json::from_value(network).unwrap(),
            result: None,
        }
    }

    #[test]
    fn a_file_that_can_t_be_read_is_its_own_cells_affair() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cni")).unwrap();
        cache.write(&entry("one")).unwrap();
        cache.write(&entry("two")).unwrap();
        std::fs::write(folder.path().join("cni/pods:two:eth0"), "{").unwrap();
        let listed: Vec<String> = cache.list().unwrap().into_iter().map(|it| it.0).collect();
        assert_eq!(listed, ["one", "two"]);
        let one = cache.of("one").unwrap();
        assert!(one.len() == 1 && one[0].is_ok());
        assert!(cache.of("two").unwrap()[0].is_err());
    }

    #[test]
    fn nobody_else_reads_it_and_partial_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cni");
        std::fs::create_dir(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let cache = Cache::open(path.clone()).unwrap();
        std::fs::write(path.join(".pods:one:eth0"), "half").unwrap();
        cache.write(&entry("one")).unwrap();
        std::fs::write(path.join(".pods:two:eth0"), "half").unwrap();
        assert_eq!(
            (mode(&path), mode(&path.join("pods:one:eth0"))),
            (0o700, 0o600)
        );
        assert_eq!(cache.list().unwrap().len(), 1);
        cache.remove_partial().unwrap();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
    }
}
