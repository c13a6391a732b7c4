// SPDX-License-Identifier: Apache-2.0
//! The requests of `Runtime`, checked, with the caller's tenant filled in. `identity` decides
//! whether the caller has permission.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cell::CellSpec;
use crate::executable::ExecutableSpec;
use crate::label::Labels;
use crate::name::{ObjectPath, RequestId, Tenant, Uid};
use crate::object::{Kind, ObjectRef};
use crate::selector::Selector;
use crate::signal::Signal;
use crate::status::Annex;
use crate::update::Mask;

/// When a Run call answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitFor {
    /// When the process runs: after its `execve` succeeded.
    #[default]
    Started,
    /// When it has ended.
    Exited,
}

/// The checked request of `Runtime.RunExecutable`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunExecutable {
    /// The tenant that the executable will belong to.
    pub tenant: Tenant,
    /// The path; its parent is the cell that the executable runs in.
    pub path: ObjectPath,
    /// Labels that selectors find it by.
    pub labels: Labels,
    /// The spec, checked; defaults not filled in.
    pub spec: ExecutableSpec,
    /// The client's id of this request: a second request with the same id is a retry, and is
    /// answered as the first.
    pub request_id: Option<RequestId>,
    /// When the call answers.
    pub wait_for: WaitFor,
    /// Also create the enclosing cell, with this spec; it ends and is removed with the executable.
    pub own_cell: Option<CellSpec>,
    /// The caller attaches to it; until then it does not remove itself.
    pub attach_follows: bool,
}

/// The checked request of `Runtime.RunCell`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunCell {
    /// The tenant that the cell will belong to.
    pub tenant: Tenant,
    /// The path in the tenant, enclosing cells first.
    pub path: ObjectPath,
    /// Labels that selectors find it by.
    pub labels: Labels,
    /// The spec, checked; defaults not filled in.
    pub spec: CellSpec,
    /// The client's id of this request: a second request with the same id is a retry, and is
    /// answered as the first.
    pub request_id: Option<RequestId>,
    /// When the call answers.
    pub wait_for: WaitFor,
    /// Of a subsystem of the node that makes the cell, and the uid that the cell gets with it.
    pub annex: Option<(Uid, Annex)>,
    /// The permit is the node's, and who asked the node for it is no administrator: its ports are
    /// none of the node's loopback addresses, for one.
    pub for_a_member: bool,
}

/// The checked request of `Runtime.UpdateCell`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateCell {
    /// The cell, by path or uid.
    pub target: ObjectRef,
    /// Its new values, of which the mask names those that count.
    pub spec: CellSpec,
    /// Its new labels, where the mask has `labels`.
    pub labels: Labels,
    /// The fields to change; at least one.
    pub mask: Mask,
    /// The call is refused where the cell has another generation.
    pub expected_generation: Option<u64>,
}

/// The checked request of `Runtime.UpdateExecutable`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateExecutable {
    /// The executable, by path or uid.
    pub target: ObjectRef,
    /// All its labels from now on.
    pub labels: Labels,
    /// The call is refused where the executable has another generation.
    pub expected_generation: Option<u64>,
}

/// The tenants that a request is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The objects of one tenant.
    Tenant(Tenant),
    /// Every tenant; for administrators.
    Every,
}

impl Scope {
    /// Whether what belongs to this tenant is meant. Whether the caller may see it is the permit's
    /// word.
    pub fn includes(&self, tenant: &Tenant) -> bool {
        match self {
            Self::Tenant(asked) => asked == tenant,
            Self::Every => true,
        }
    }
}

/// Which objects a request selects: those for which all fields hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The tenants of the objects.
    pub scope: Scope,
    /// A label selector; an empty one matches every object.
    pub selector: Selector,
    /// The kinds; empty: all.
    pub kinds: BTreeSet<Kind>,
    /// Only objects below this cell.
    pub below: Option<ObjectPath>,
}

/// The checked request of `Runtime.List`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListQuery {
    /// The objects to list.
    pub filter: Filter,
    /// Leave out what has ended.
    pub running_only: bool,
    /// With `running_only`: also executables that failed within this time.
    pub failed_within: Option<Duration>,
    /// The most objects of the answer, 1 to 1,000.
    pub page_size: usize,
    /// The token of the previous page.
    pub page_token: Option<String>,
}

/// The checked request of `Runtime.Watch`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchQuery {
    /// The objects to watch.
    pub filter: Filter,
    /// The token of the last event that the client has seen.
    pub resume_token: Option<String>,
}

/// The checked request of `Runtime.Signal`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SendSignal {
    /// The executable, by path or uid.
    pub target: ObjectRef,
    /// The signal to send.
    pub signal: Signal,
    /// Every process of it, not the main one alone.
    pub all_processes: bool,
}

/// The checked request of `Runtime.Stop`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The executable or cell, by path or uid.
    pub target: ObjectRef,
    /// `None`: the executable's own. Zero: SIGKILL at once.
    pub grace: Option<Duration>,
}

/// The checked request of `Runtime.Remove`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remove {
    /// The executable or cell, by path or uid.
    pub target: ObjectRef,
    /// Remove everything in the cell too.
    pub recursive: bool,
    /// Stop it first where it runs.
    pub force: bool,
}

/// The first message of `Runtime.Attach`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachStart {
    /// The executable, by path or uid.
    pub target: ObjectRef,
    /// Take standard input, which one attachment at a time may have.
    pub stdin: bool,
    /// Where in the output to begin.
    pub from: AttachFrom,
}

/// Where in the output an attachment begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachFrom {
    /// The beginning is 0.
    Offset(u64),
    /// Only output from now on.
    Now,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_includes_its_own_tenant_or_every_one() {
        let [acme, other] = ["acme", "other"].map(|it| it.parse::<Tenant>().unwrap());
        let own = Scope::Tenant(acme.clone());
        assert!(own.includes(&acme) && !own.includes(&other));
        assert!(Scope::Every.includes(&acme) && Scope::Every.includes(&other));
    }
}
