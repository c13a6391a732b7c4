// SPDX-License-Identifier: Apache-2.0
//! What calls do to objects, in the words of the policies: the effects that a permit must cover
//! before each is done, and what `auraed/rpc` must know of an object to name them. It decides
//! nothing; `identity` does.

use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};
use model::object::{Kind, ObjectRef};
use model::status::Object;

use super::Runtime;
use super::index::{Index, Key};
use identity::permit::Permit;
use identity::{Effect, Reach};

pub(crate) const RUN_EXECUTABLE: &str = "runtime.RunExecutable";
pub(crate) const RUN_CELL: &str = "runtime.RunCell";
pub(crate) const REMOVE: &str = "runtime.Remove";
pub(crate) const STOP: &str = "runtime.Stop";

/// What stands at a name, as far as it decides which effects a call has. For the handler, before
/// the call is authorized: nothing of it may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Cell or executable.
    pub kind: Kind,
    /// Only its record is left.
    pub ended: bool,
}

impl Runtime {
    /// What stands at that name now.
    pub fn standing(&self, tenant: &Tenant, path: &ObjectPath) -> Option<Standing> {
        let key = Key {
            tenant: tenant.clone(),
            path: path.clone(),
        };
        let object = self.shared.index.at(&key)?;
        Some(Standing {
            kind: object.meta().kind,
            ended: object.state().is_final(),
        })
    }
}

/// Demands permission to end what is at a target, with everything in it.
pub(crate) fn demand_stop(permit: &Permit, target: &ObjectRef) -> Result<(), Error> {
    permit.demand(&target.tenant, &Effect::below(STOP, &target.path))
}

/// Demands permission to remove a target, with everything in it where it is `recursive`.
pub(crate) fn demand_remove(
    permit: &Permit,
    target: &ObjectRef,
    recursive: bool,
) -> Result<(), Error> {
    let mut effect = Effect::on(REMOVE, &target.path);
    if recursive {
        effect.reach = Reach::Subtree;
    }
    permit.demand(&target.tenant, &effect)
}

/// Whether a permit lets a listing show an object.
pub(crate) fn shows(permit: &Permit, object: &Object) -> bool {
    let meta = object.meta();
    permit.shows(&meta.tenant, &meta.path)
}

/// Whether a call may take a name from a finished object, whose record and log go then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MayReplace(bool);

impl MayReplace {
    /// As the permit covers the removal of what is at that name.
    pub(crate) fn of(permit: &Permit, tenant: &Tenant, path: &ObjectPath) -> Self {
        Self(permit.covers(tenant, &Effect::on(REMOVE, path)))
    }

    /// Checks a name that was just reserved: what is there now has ended, and stays.
    pub(crate) fn check(self, index: &Index, key: &Key) -> Result<(), Error> {
        if self.0 || index.at(key).is_none() {
            return Ok(());
        }
        let path = key.path.to_string();
        let message = format!("{path} has ended: to run it again replaces its record and its log");
        Err(Error::new(Reason::PermissionDenied, message)
            .about("action", REMOVE)
            .hint("ask again, with permission for runtime.Remove, or choose another name"))
    }
}
