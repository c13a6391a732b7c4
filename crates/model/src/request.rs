// SPDX-License-Identifier: Apache-2.0
//! What can be asked of the runtime: the messages of `Runtime`, checked, with the caller's tenant
//! filled in. Not the permission to do it, which is `identity`'s to give.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cell::CellSpec;
use crate::executable::ExecutableSpec;
use crate::label::Labels;
use crate::name::{ObjectPath, RequestId, Tenant};
use crate::object::{Kind, ObjectRef};
use crate::selector::Selector;
use crate::signal::Signal;
use crate::update::Mask;

/// When a Run call answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitFor {
    /// When it runs.
    #[default]
    Started,
    /// When it has ended.
    Exited,
}

/// `Runtime.RunExecutable`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunExecutable {
    /// Whose.
    pub tenant: Tenant,
    /// Where; the parent is the cell that it runs in.
    pub path: ObjectPath,
    /// For selectors.
    pub labels: Labels,
    /// What.
    pub spec: ExecutableSpec,
    /// So that a retry is known as one.
    pub request_id: Option<RequestId>,
    /// When to answer.
    pub wait_for: WaitFor,
    /// Also make the cell around it, and let that end and go with it.
    pub own_cell: Option<CellSpec>,
    /// The caller attaches to it; until then it does not remove itself.
    pub attach_follows: bool,
}

/// `Runtime.RunCell`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunCell {
    /// Whose.
    pub tenant: Tenant,
    /// Where.
    pub path: ObjectPath,
    /// For selectors.
    pub labels: Labels,
    /// What.
    pub spec: CellSpec,
    /// So that a retry is known as one.
    pub request_id: Option<RequestId>,
    /// When to answer.
    pub wait_for: WaitFor,
}

/// `Runtime.UpdateCell`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateCell {
    /// Which cell.
    pub target: ObjectRef,
    /// Its new values, where the mask says so.
    pub spec: CellSpec,
    /// The same.
    pub labels: Labels,
    /// What changes.
    pub mask: Mask,
    /// Refused where the cell has another generation.
    pub expected_generation: Option<u64>,
}

/// `Runtime.UpdateExecutable`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateExecutable {
    /// Which executable.
    pub target: ObjectRef,
    /// All its labels from now on.
    pub labels: Labels,
    /// Refused where the executable has another generation.
    pub expected_generation: Option<u64>,
}

/// Whose objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// One tenant's.
    Tenant(Tenant),
    /// Everybody's (administrators).
    Every,
}

/// Which objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// Whose.
    pub scope: Scope,
    /// With which labels.
    pub selector: Selector,
    /// Of which kinds; empty: all.
    pub kinds: BTreeSet<Kind>,
    /// Only those below this cell.
    pub below: Option<ObjectPath>,
}

/// `Runtime.List`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListQuery {
    /// Which objects.
    pub filter: Filter,
    /// Leave out what has ended.
    pub running_only: bool,
    /// With `running_only`: also executables that failed within this time.
    pub failed_within: Option<Duration>,
    /// 1 to 1,000.
    pub page_size: usize,
    /// From the previous page.
    pub page_token: Option<String>,
}

/// `Runtime.Watch`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchQuery {
    /// Which objects.
    pub filter: Filter,
    /// Of the last event seen.
    pub resume_token: Option<String>,
}

/// `Runtime.Signal`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendSignal {
    /// Which executable.
    pub target: ObjectRef,
    /// What.
    pub signal: Signal,
    /// Every process of it, not the main one alone.
    pub all_processes: bool,
}

/// `Runtime.Stop`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// Which object.
    pub target: ObjectRef,
    /// `None`: the executable's own. Zero: SIGKILL at once.
    pub grace: Option<Duration>,
}

/// `Runtime.Remove`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remove {
    /// Which object.
    pub target: ObjectRef,
    /// With everything in it.
    pub recursive: bool,
    /// Stop it first.
    pub force: bool,
}

/// The first message of `Runtime.Attach`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachStart {
    /// Which executable.
    pub target: ObjectRef,
    /// Take standard input.
    pub stdin: bool,
    /// Where in the output to begin.
    pub from: AttachFrom,
}

/// Where in the output an attachment begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachFrom {
    /// The beginning is 0.
    Offset(u64),
    /// What comes from now on.
    Now,
}
