// SPDX-License-Identifier: Apache-2.0
//! The volumes of a pod, and where containers have them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A folder that containers share.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Volume {
    /// A DNS label, unique in the pod.
    pub name: String,
    /// What is in it.
    pub source: Source,
}

/// What is in a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nothing, when the pod begins. It goes with the pod.
    Empty,
    /// Files with the given content; they can't be written.
    Files(Files),
    /// A file or folder of the node.
    Host(Host),
}

/// Files that the spec brings.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Files {
    /// Relative paths, and what is in the files.
    pub files: BTreeMap<String, String>,
    /// `None`: 0o644.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub mode: Option<u32>,
}

impl Files {
    /// Their mode, with the default.
    pub fn effective_mode(&self) -> u32 {
        self.mode.unwrap_or(0o644)
    }
}

/// A file or folder of the node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Absolute.
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
    /// Anything.
    #[default]
    Any,
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A Unix socket.
    Socket,
}

/// Where a container has a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeMount {
    /// The volume's name.
    pub volume: String,
    /// Absolute.
    pub path: String,
    /// A part of the volume; empty: all of it.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub sub_path: String,
    /// It can't be written.
    #[serde(skip_serializing_if = "crate::is_default")]
    pub read_only: bool,
}
