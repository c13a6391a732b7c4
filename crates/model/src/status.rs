// SPDX-License-Identifier: Apache-2.0
//! The statuses of objects, as clients see them. Plain data with a revision; `runtime` changes
//! them.

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
    #[serde(default)]
    pub labels: Labels,
    /// Counts the changes of the spec; 1 when created.
    #[serde(default)]
    pub generation: u64,
    /// Counts every change that a watcher sees, over the whole node.
    #[serde(default)]
    pub revision: u64,
    /// When it was asked for.
    #[serde(default)]
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
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The main process's id in the node's pid namespace; `None` when it has ended.
    #[serde(default)]
    pub pid: Option<u32>,
    /// When the program was executed.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// Present once it has ended.
    #[serde(default)]
    pub exit: Option<Exit>,
    /// Bytes of output so far, dropped ones included.
    #[serde(default)]
    pub stdout_bytes: u64,
    /// Bytes of standard error so far, dropped ones included.
    #[serde(default)]
    pub stderr_bytes: u64,
    /// Resources that all its processes used; present once it has ended.
    #[serde(default)]
    pub final_usage: Option<FinalUsage>,
}

/// Resources that an object had used when it ended, from its cgroup. `None` is unknown on this
/// node, not zero; `unavailable` says why.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FinalUsage {
    /// CPU time, in microseconds.
    pub cpu_usage_us: Option<u64>,
    /// CPU time in user mode, in microseconds.
    pub cpu_user_us: Option<u64>,
    /// CPU time in the kernel, in microseconds.
    pub cpu_system_us: Option<u64>,
    /// How long it was throttled because it had used up its quota, in microseconds.
    pub cpu_throttled_us: Option<u64>,
    /// The most memory that it ever had, in bytes.
    pub memory_peak_bytes: Option<u64>,
    /// Processes killed by the OOM killer.
    pub oom_kills: Option<u64>,
    /// The most processes and threads at one time.
    pub pids_peak: Option<u64>,
    /// Bytes read from block devices.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to block devices.
    pub io_write_bytes: Option<u64>,
    /// Why the absent fields are absent.
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
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The cell's init, in the node's pid namespace; `None` when it has ended.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The first user id of the cell on the node; `None`: shares the parent's user namespace.
    #[serde(default)]
    pub first_uid: Option<u32>,
    /// When its init ran.
    #[serde(default)]
    pub started: Option<Timestamp>,
    /// When the cell had ended.
    #[serde(default)]
    pub finished: Option<Timestamp>,
    /// Objects directly in the cell that have not ended.
    #[serde(default)]
    pub running_children: u32,
    /// Its cgroup below the mount point of cgroup2.
    #[serde(default)]
    pub cgroup: String,
    /// Resources that all processes in the cell and in its nested cells used; present once it has
    /// ended.
    #[serde(default)]
    pub final_usage: Option<FinalUsage>,
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
