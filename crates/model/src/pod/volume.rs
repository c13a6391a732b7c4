// SPDX-License-Identifier: Apache-2.0
//! The volumes of a pod, and where containers have them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::told::FileFact;
use crate::cell::Propagation;
use crate::quota::Storage;

/// A folder that containers share.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Volume {
    /// A DNS label, unique in the pod.
    pub name: String,
    /// What is in it.
    pub source: Source,
}

/// Whether the volume of that name is a part of the node's file system.
pub(super) fn is_of_node(volumes: &[Volume], name: &str) -> bool {
    let mut named = volumes.iter().filter(|volume| volume.name == name);
    named.any(|volume| matches!(volume.source, Source::Host(_)))
}

/// What is in a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nothing, when the pod begins. It goes with the pod.
    Empty(Empty),
    /// Files with the given content; they can't be written.
    Files(Files),
    /// A file or folder of the node.
    Host(Host),
}

/// The size of an empty volume in memory whose spec has none, in bytes.
pub const DEFAULT_EMPTY_BYTES: u64 = crate::cell::DEFAULT_VOLUME_BYTES;

/// A folder with nothing in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Empty {
    /// Where its files are.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub medium: Medium,
    /// The most that it holds, in bytes. `None`: in memory [`DEFAULT_EMPTY_BYTES`], on the disk
    /// what there is.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub size_bytes: Option<u64>,
}

impl Empty {
    /// The file system of its own that it has; `None`: it is a folder of the node's disk, without a
    /// bound.
    pub fn storage(&self) -> Option<Storage> {
        match self.medium {
            Medium::Memory => {
                let size = self.size_bytes.unwrap_or(DEFAULT_EMPTY_BYTES);
                Some(Storage::in_memory(size))
            }
            Medium::Disk => self.size_bytes.map(Storage::on_disk),
        }
    }
}

/// Where the files of an empty volume are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// In a tmpfs of that size: it counts in the tenant's quota, its pages for who writes them.
    #[default]
    Memory,
    /// On the node's disk: with a size in a file system of its own, all of whose bytes are
    /// allocated, otherwise in a folder that nothing bounds.
    Disk,
}

/// Files that the spec brings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Files {
    /// Relative paths, and what is in the files.
    pub files: BTreeMap<String, String>,
    /// `None`: 0o644.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub mode: Option<u32>,
    /// What is in them is never shown.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub secret: bool,
    /// Files that tell something of the pod, as it is now.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub facts: Vec<FileFact>,
    /// The modes of some of them, by path.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub modes: BTreeMap<String, u32>,
}

impl Files {
    /// Their mode, with the default.
    pub fn effective_mode(&self) -> u32 {
        self.mode.unwrap_or(0o644)
    }

    /// The mode of one of them.
    pub fn mode_of(&self, path: &str) -> u32 {
        let own = self.modes.get(path).copied();
        own.unwrap_or_else(|| self.effective_mode())
    }
}

/// A file or folder of the node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Its absolute path on the node.
    pub path: String,
    /// What must be there.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub kind: HostKind,
    /// Writing: the on-disk user that the pod's root acts as. `None`: read-only.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub owner_uid: Option<u32>,
    /// `None`: the same number as `owner_uid`.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub owner_gid: Option<u32>,
}

/// What must be at a path of the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKind {
    /// Nothing is checked.
    #[default]
    Any,
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A Unix socket.
    Socket,
    /// A folder, which is made where nothing is.
    FolderOrCreate,
    /// A regular file, which is made where nothing is; its folder must be there.
    FileOrCreate,
}

/// Where a container has a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeMount {
    /// The volume's name.
    pub volume: String,
    /// The absolute path in the container.
    pub path: String,
    /// A part of the volume; empty: all of it.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub sub_path: String,
    /// The same, made of variables of the container when it is made (`sub_path`); empty: none.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub sub_path_expr: String,
    /// It can't be written.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub read_only: bool,
    /// Of a volume of the node: what is mounted below it.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub propagation: Propagation,
}
