// SPDX-License-Identifier: Apache-2.0
//! `config.json` of a bundle, as the OCI runtime specification 1.2 has it, read.
//!
//! Types and nothing else: what a value means is said where it is used, and [`check`] refuses what
//! can't work together. The reading is as lenient as runc's: fields that aren't known are passed
//! over, and words (of capabilities, of namespaces) stay words until they are used, so that each
//! has an error, or a warning, of its own.
//!
//! Beside these types serde's names say which field of the specification each one is.

pub(crate) mod check;
pub(crate) mod linux;
pub(crate) mod resources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error, Result};

pub(crate) use linux::Linux;

/// The whole document.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    #[serde(default)]
    pub(crate) oci_version: String,
    pub(crate) process: Option<Process>,
    pub(crate) root: Option<Root>,
    #[serde(default)]
    pub(crate) hostname: String,
    #[serde(default)]
    pub(crate) domainname: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) mounts: Vec<Mount>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) hooks: Hooks,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) linux: Linux,
}

/// The process of a container, or one executed beside it.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Process {
    pub(crate) terminal: bool,
    pub(crate) console_size: Option<ConsoleSize>,
    pub(crate) user: User,
    #[serde(deserialize_with = "or_default")]
    pub(crate) args: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) env: Vec<String>,
    pub(crate) cwd: String,
    pub(crate) capabilities: Option<Capabilities>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) rlimits: Vec<Rlimit>,
    pub(crate) no_new_privileges: bool,
    pub(crate) apparmor_profile: String,
    pub(crate) oom_score_adj: Option<i32>,
    pub(crate) selinux_label: String,
    pub(crate) scheduler: Option<Scheduler>,
    #[serde(rename = "ioPriority")]
    pub(crate) io_priority: Option<IoPriority>,
    #[serde(rename = "execCPUAffinity")]
    pub(crate) exec_cpu_affinity: Option<CpuAffinity>,
}

/// A terminal's size, in characters.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct ConsoleSize {
    pub(crate) height: u16,
    pub(crate) width: u16,
}

/// Ids in the container.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) umask: Option<u32>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) additional_gids: Vec<u32>,
}

/// The five sets; words as `CAP_CHOWN`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Capabilities {
    #[serde(deserialize_with = "or_default")]
    pub(crate) bounding: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) effective: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) inheritable: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) permitted: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ambient: Vec<String>,
}

/// A resource limit, as setrlimit(2) takes it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Rlimit {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) hard: u64,
    pub(crate) soft: u64,
}

/// `sched_setattr`, in words.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Scheduler {
    pub(crate) policy: String,
    pub(crate) nice: i32,
    pub(crate) priority: i32,
    #[serde(deserialize_with = "or_default")]
    pub(crate) flags: Vec<String>,
    pub(crate) runtime: u64,
    pub(crate) deadline: u64,
    pub(crate) period: u64,
}

/// `ioprio_set`, in words.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct IoPriority {
    pub(crate) class: String,
    pub(crate) priority: u32,
}

/// The CPUs of an executed process, before it enters the container's cgroup and at its end.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct CpuAffinity {
    pub(crate) initial: String,
    #[serde(rename = "final")]
    pub(crate) last: String,
}

/// The container's root folder.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) readonly: bool,
}

/// A mount in the container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Mount {
    pub(crate) destination: PathBuf,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) source: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) options: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) uid_mappings: Vec<linux::IdMapping>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) gid_mappings: Vec<linux::IdMapping>,
}

/// Programs that are run when something happens to the container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Hooks {
    #[serde(deserialize_with = "or_default")]
    pub(crate) prestart: Vec<Hook>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) create_runtime: Vec<Hook>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) create_container: Vec<Hook>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) start_container: Vec<Hook>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) poststart: Vec<Hook>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) poststop: Vec<Hook>,
}

/// One such program.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Hook {
    pub(crate) path: PathBuf,
    #[serde(deserialize_with = "or_default")]
    pub(crate) args: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) env: Vec<String>,
    /// The time that it may take, in seconds.
    pub(crate) timeout: Option<i64>,
}

/// `null` is what a missing value is.
pub(crate) fn or_default<'de, D, T>(from: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

impl Spec {
    /// Reads a document's bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Spec> {
        serde_json::from_slice(bytes).doing("read config.json")
    }
}

impl Process {
    /// Reads the document of `exec --process`.
    pub(crate) fn load(path: &Path) -> Result<Process> {
        let bytes = std::fs::read(path).doing_on("read", path)?;
        serde_json::from_slice(&bytes).doing_on("read", path)
    }
}

/// The bytes of a bundle's document.
pub(crate) fn load(bundle: &Path) -> Result<Vec<u8>> {
    let path = bundle.join("config.json");
    match std::fs::read(&path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::new(format!(
            "JSON specification file {} not found",
            path.display()
        ))),
        Err(error) => Err(error).doing_on("read", &path),
    }
}
