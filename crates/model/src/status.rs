// SPDX-License-Identifier: Apache-2.0
//! The statuses of objects, as clients see them. Plain data with a revision; `runtime` changes
//! them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cell::{self, CellSpec};
use crate::executable::{self, ExecutableSpec};
use crate::exit::Exit;
use crate::label::Labels;
use crate::lifecycle::State;
use crate::name::{ObjectPath, Tenant, Uid};
use crate::object::{Kind, ObjectRef};
use crate::time::Timestamp;

/// The facts of every object, of any kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// The tenant that the object belongs to.
    pub tenant: Tenant,
    /// The path in the tenant.
    pub path: ObjectPath,
    /// The run that this status is of.
    pub uid: Uid,
    /// Cell or executable.
    pub kind: Kind,
    /// Labels that selectors find it by.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub labels: Labels,
    /// Counts the changes of the spec; 1 when created.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub generation: u64,
    /// Counts every change that a watcher sees, over the whole node.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub revision: u64,
    /// When it was asked for.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub created: Timestamp,
}

impl Meta {
    /// A reference to exactly this run.
    pub fn to_ref(&self) -> ObjectRef {
        ObjectRef {
            tenant: self.tenant.clone(),
            path: self.path.clone(),
            uid: Some(self.uid),
            kind: Some(self.kind),
        }
    }
}

/// An observation about an object, as in Kubernetes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// The condition's name in CamelCase, e.g. `ResourcesUnavailable`.
    pub kind: String,
    /// Whether the condition holds.
    pub status: bool,
    /// CamelCase, stable: programs may switch on it.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// When `status` last changed, by the node's clock.
    pub since: Timestamp,
}

/// The status of an executable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExecutableStatus {
    /// Names, revision and times.
    pub meta: Meta,
    /// The spec as the client sent it.
    pub spec: ExecutableSpec,
    /// With every default filled in: `Effective::to_draft`.
    pub effective: executable::Draft,
    /// The state of the object.
    pub state: State,
    /// Observations beside the state, such as a limit that can't be applied.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub conditions: Vec<Condition>,
    /// The main process's id in the node's pid namespace; `None` when it has ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub pid: Option<u32>,
    /// When the program was executed.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub started: Option<Timestamp>,
    /// Present once it has ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub exit: Option<Exit>,
    /// Bytes of output so far, dropped ones included.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub stdout_bytes: u64,
    /// Bytes of standard error so far, dropped ones included.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub stderr_bytes: u64,
    /// Resources that all its processes used; present once it has ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub final_usage: Option<FinalUsage>,
}

/// Resources that an object had used when it ended, from its cgroup. `None` is unknown on this
/// node, not zero; `unavailable` says why.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FinalUsage {
    /// CPU time, in microseconds.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cpu_usage_us: Option<u64>,
    /// CPU time in user mode, in microseconds.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cpu_user_us: Option<u64>,
    /// CPU time in the kernel, in microseconds.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cpu_system_us: Option<u64>,
    /// How long it was throttled because it had used up its quota, in microseconds.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cpu_throttled_us: Option<u64>,
    /// The most memory that it ever had, in bytes.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub memory_peak_bytes: Option<u64>,
    /// Processes killed by the OOM killer.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub oom_kills: Option<u64>,
    /// The most processes and threads at one time.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub pids_peak: Option<u64>,
    /// Bytes read from block devices.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub io_read_bytes: Option<u64>,
    /// Bytes written to block devices.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub io_write_bytes: Option<u64>,
    /// Why the absent fields are absent.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unavailable: Vec<String>,
}

/// The status of a cell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CellStatus {
    /// Names, revision and times.
    pub meta: Meta,
    /// The spec as the client sent it, with later updates.
    pub spec: CellSpec,
    /// With every default filled in: `CellSpec::effective`.
    pub effective: cell::Draft,
    /// The state of the object.
    pub state: State,
    /// Observations beside the state, such as a limit that can't be applied.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub conditions: Vec<Condition>,
    /// The cell's init, in the node's pid namespace; `None` when it has ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub pid: Option<u32>,
    /// The first user id of the cell on the node; `None`: shares the parent's user namespace.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub first_uid: Option<u32>,
    /// When its init ran.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub started: Option<Timestamp>,
    /// When the cell had ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub finished: Option<Timestamp>,
    /// Objects directly in the cell that have not ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub running_children: u32,
    /// Its cgroup below the mount point of cgroup2.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cgroup: String,
    /// Resources that all processes in the cell and in its nested cells used; present once it has
    /// ended.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub final_usage: Option<FinalUsage>,
    /// The digest of the manifest of the image that its root was made of.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub image_digest: String,
    /// Its interfaces and the ports of the node that lead to it. `None`: no network of its own.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub network: Option<crate::network::Attached>,
    /// What a subsystem above keeps with the cell, as long as that lives. No client sees it.
    #[serde(skip)]
    pub annex: Option<Annex>,
}

/// A document of a subsystem above, which the runtime keeps and doesn't read. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annex(pub Arc<serde_json::Value>);

impl Serialize for Annex {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Annex {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        serde_json::Value::deserialize(from).map(|value| Self(Arc::new(value)))
    }
}

/// The status of an object of any kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// The object is a cell.
    Cell(CellStatus),
    /// The object is an executable.
    Executable(ExecutableStatus),
}

impl Object {
    /// Names, revision and times, of either kind.
    pub fn meta(&self) -> &Meta {
        match self {
            Object::Cell(cell) => &cell.meta,
            Object::Executable(executable) => &executable.meta,
        }
    }

    /// Resources that it had used when it ended.
    pub fn final_usage(&self) -> Option<&FinalUsage> {
        match self {
            Object::Cell(cell) => cell.final_usage.as_ref(),
            Object::Executable(executable) => executable.final_usage.as_ref(),
        }
    }

    /// Names and counters, to be changed.
    pub fn meta_mut(&mut self) -> &mut Meta {
        match self {
            Object::Cell(cell) => &mut cell.meta,
            Object::Executable(executable) => &mut executable.meta,
        }
    }

    /// The state of the object.
    pub fn state(&self) -> State {
        match self {
            Object::Cell(cell) => cell.state,
            Object::Executable(executable) => executable.state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A finished run as it was kept when every field was written.
    const IN_FULL: &str = r#"{"executable":{"meta":{"tenant":"system","path":"web/one",
        "uid":"22e0acd67e8b51202f1788915024be34","kind":"executable","labels":{},"generation":1,
        "revision":0,"created":1795368482408472335},
        "spec":{"argv":["true"],"env":{},"cwd":"","user":"","group":"","groups":[],"umask":null,
        "rlimits":[],"nice":null,"oom_score_adj":null,"cpu_affinity":[],"capabilities":null,
        "no_new_privileges":null,"seccomp":{"profile":"default","allow":[],"deny":[],
        "action":"errno","errno":""},"terminal":null,"stdin":false,"stop_signal":"",
        "stop_grace":null,"resources":{"cpu":{"quota":null,"period":null,"weight":null,"cpus":"",
        "mems":""},"memory":{"min":null,"low":null,"high":null,"max":null,"swap_max":null},
        "pids_max":null,"io":{"weight":null,"max":[]},"hugetlb":[]},"auto_remove":false,
        "logs":{"max_bytes":null,"max_age":null}},
        "effective":{"argv":["true"],"env":{"PATH":"/usr/local/sbin:/usr/local/bin"},"cwd":"/",
        "user":"0","group":"","groups":[],"umask":0,"rlimits":[],"nice":0,"oom_score_adj":0,
        "cpu_affinity":[],"capabilities":{"bounding":["CAP_CHOWN"],"ambient":[]},
        "no_new_privileges":false,"seccomp":{"profile":"unconfined","allow":[],"deny":[],
        "action":"errno","errno":"EPERM"},"terminal":null,"stdin":false,"stop_signal":"SIGTERM",
        "stop_grace":{"secs":0,"nanos":0},"resources":{"cpu":{"quota":null,"period":null,
        "weight":null,"cpus":"","mems":""},"memory":{"min":0,"low":null,"high":null,"max":1048576,
        "swap_max":0},"pids_max":null,"io":{"weight":null,"max":[]},"hugetlb":[]},
        "auto_remove":false,"logs":{"max_bytes":0,"max_age":null}},
        "state":"exited","conditions":[],"pid":null,"started":1795368482420398607,
        "exit":{"how":{"code":0},"oom_killed":false,"oom_kills":null,"core_dumped":false,
        "started":1795368482420398607,"finished":1795368482444199339,"rusage":null},
        "stdout_bytes":0,"stderr_bytes":0,"final_usage":{"cpu_usage_us":0,"cpu_user_us":null,
        "cpu_system_us":null,"cpu_throttled_us":null,"memory_peak_bytes":null,"oom_kills":0,
        "pids_peak":null,"io_read_bytes":null,"io_write_bytes":null,"unavailable":[]}}}"#;

    #[test]
    fn a_record_leaves_defaults_out_and_reads_as_one_that_has_them() {
        let full: Object = serde_json::from_str(IN_FULL).unwrap();
        let kept = serde_json::to_string(&full).unwrap();
        let again: Object = serde_json::from_str(&kept).unwrap();
        assert_eq!(again, full);
        let Object::Executable(run) = again else {
            panic!("{kept}")
        };
        // What was said is kept, also where it says nothing, or no.
        assert_eq!(run.effective.no_new_privileges, Some(false));
        assert_eq!(run.effective.nice, Some(0));
        assert_eq!(run.effective.resources.memory.swap_max, Some(0));
        assert_eq!(run.final_usage.unwrap().oom_kills, Some(0));
        assert!(!kept.contains("null") && !kept.contains("[]"), "{kept}");
        assert!(kept.contains(r#""spec":{"argv":["true"]}"#), "{kept}");
    }
}
