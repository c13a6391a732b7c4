// SPDX-License-Identifier: Apache-2.0
//! The Linux part of `config.json`. Types alone, as [`super`] says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::or_default;
use super::resources::Resources;

/// `linux`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Linux {
    #[serde(deserialize_with = "or_default")]
    pub(crate) uid_mappings: Vec<IdMapping>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) gid_mappings: Vec<IdMapping>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) sysctl: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) resources: Resources,
    pub(crate) cgroups_path: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) namespaces: Vec<Namespace>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) devices: Vec<Device>,
    pub(crate) seccomp: Option<Seccomp>,
    pub(crate) rootfs_propagation: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) masked_paths: Vec<PathBuf>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) readonly_paths: Vec<PathBuf>,
    pub(crate) mount_label: String,
    pub(crate) intel_rdt: Option<serde_json::Value>,
    pub(crate) personality: Option<Personality>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) time_offsets: BTreeMap<String, TimeOffset>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) net_devices: BTreeMap<String, NetDevice>,
    pub(crate) memory_policy: Option<MemoryPolicy>,
}

/// A device of the node's network that becomes the container's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NetDevice {
    /// Its name in the container; empty: the one that it has.
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
}

/// The NUMA nodes that memory comes from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MemoryPolicy {
    pub(crate) mode: String,
    pub(crate) nodes: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) flags: Vec<String>,
}

/// One extent of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct IdMapping {
    #[serde(rename = "containerID")]
    pub(crate) container: u32,
    #[serde(rename = "hostID")]
    pub(crate) host: u32,
    pub(crate) size: u32,
}

impl IdMapping {
    /// The same, as the kernel has it.
    pub(crate) fn to_kernel(self) -> kernel::idmap::IdMap {
        kernel::idmap::IdMap {
            inside: self.container,
            outside: self.host,
            count: self.size,
        }
    }
}

/// A namespace: new, or that of a path.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Namespace {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) path: PathBuf,
}

/// A device node to be made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Device {
    pub(crate) path: PathBuf,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) major: i64,
    pub(crate) minor: i64,
    pub(crate) file_mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

/// The execution domain.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Personality {
    pub(crate) domain: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) flags: Vec<String>,
}

/// The offset of a clock in a time namespace.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TimeOffset {
    pub(crate) secs: i64,
    pub(crate) nanosecs: u32,
}

/// A filter of system calls, as Docker's profiles have it after its engine has read them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Seccomp {
    pub(crate) default_action: String,
    pub(crate) default_errno_ret: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) architectures: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) flags: Option<Vec<String>>,
    pub(crate) listener_path: String,
    pub(crate) listener_metadata: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) syscalls: Vec<SeccompRule>,
}

/// A rule of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SeccompRule {
    #[serde(deserialize_with = "or_default")]
    pub(crate) names: Vec<String>,
    pub(crate) action: String,
    pub(crate) errno_ret: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) args: Vec<SeccompArgument>,
}

/// A condition of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SeccompArgument {
    pub(crate) index: u32,
    pub(crate) value: u64,
    pub(crate) value_two: u64,
    pub(crate) op: String,
}
