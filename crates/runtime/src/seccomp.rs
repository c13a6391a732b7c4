// SPDX-License-Identifier: Apache-2.0
//! Compiled system call filters, one per distinct profile: compiling takes longer than starting a
//! process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kernel::caps::CapabilitySet;
use kernel::seccomp::{Action, Arch, Profile, Rule, container, no_set_id};
use model::error::Error;
use model::executable::Effective;

/// How many distinct filters are kept; a node has a handful.
const KEPT: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Filters {
    compiled: Mutex<HashMap<String, Vec<u8>>>,
}

impl Filters {
    /// The filter for an executable, as `struct sock_filter[]`. Empty for one that is unconfined
    /// among the node's own mounts (`node_mounts`): anywhere else no program may set a set-id bit,
    /// because files of the node that a cell may write are, or may later be, mounted there.
    pub(crate) fn compile(
        &self,
        effective: &Effective,
        node_mounts: bool,
    ) -> Result<Vec<u8>, Error> {
        let name = format!(
            "{:?} {} {:x} {node_mounts}",
            effective.seccomp,
            effective.seccomp_errno,
            effective.bounding.bits()
        );
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(filter) = compiled.get(&name) {
            return Ok(filter.clone());
        }
        let filter = compile(effective, node_mounts)?;
        if compiled.len() >= KEPT {
            compiled.clear();
        }
        compiled.insert(name, filter.clone());
        Ok(filter)
    }
}

fn compile(effective: &Effective, node_mounts: bool) -> Result<Vec<u8>, Error> {
    let wanted = &effective.seccomp;
    let unconfined = wanted.profile == model::seccomp::Profile::Unconfined;
    if node_mounts && unconfined && wanted.deny.is_empty() {
        return Ok(Vec::new());
    }
    let refusal = match wanted.action {
        model::seccomp::Action::Errno => Action::Errno(effective.seccomp_errno),
        model::seccomp::Action::Kill => Action::Kill,
        model::seccomp::Action::Log => Action::Log,
    };
    let mut profile = match wanted.profile {
        model::seccomp::Profile::Default => {
            let capabilities = CapabilitySet(effective.bounding.bits());
            let container = container(capabilities);
            Profile {
                default: refusal,
                ..container
            }
        }
        model::seccomp::Profile::Strict => Profile {
            default: refusal,
            rules: Vec::new(),
        },
        model::seccomp::Profile::Unconfined => Profile {
            default: Action::Allow,
            rules: Vec::new(),
        },
    };
    // The first rule that is about a call counts: what is denied stays so whatever is allowed.
    if !wanted.allow.is_empty() {
        profile
            .rules
            .insert(0, Rule::new(Action::Allow, wanted.allow.iter().cloned()));
    }
    if !wanted.deny.is_empty() {
        profile
            .rules
            .insert(0, Rule::new(refusal, wanted.deny.iter().cloned()));
    }
    if !node_mounts {
        profile.rules.splice(0..0, no_set_id());
    }
    let filter = profile.compile(Arch::NATIVE).map_err(|error| {
        Error::invalid("executable.spec.seccomp", error.to_string())
            .hint("give names of system calls, or groups such as @mount")
    })?;
    Ok(filter.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::executable::{Draft, ExecutableSpec, LogPolicy};
    use model::seccomp::{Profile as Wanted, Seccomp};

    fn effective(seccomp: Seccomp) -> Effective {
        let draft = Draft {
            argv: vec!["/bin/true".into()],
            seccomp,
            ..Draft::default()
        };
        ExecutableSpec::try_from(draft)
            .unwrap()
            .effective(LogPolicy::default())
    }

    #[test]
    fn only_the_unconfined_among_the_nodes_mounts_have_no_filter() {
        let filters = Filters::default();
        assert!(
            !filters
                .compile(&effective(Seccomp::default()), true)
                .unwrap()
                .is_empty()
        );
        let unconfined = Seccomp {
            profile: Wanted::Unconfined,
            ..Seccomp::default()
        };
        let unconfined = effective(unconfined);
        assert!(filters.compile(&unconfined, true).unwrap().is_empty());
        assert!(!filters.compile(&unconfined, false).unwrap().is_empty());
    }

    #[test]
    fn a_call_that_is_none_is_named() {
        let unknown = Seccomp {
            deny: vec!["open_sesame".into()],
            ..Seccomp::default()
        };
        let error = Filters::default()
            .compile(&effective(unknown), false)
            .unwrap_err();
        assert!(error.message.contains("open_sesame"), "{error}");
    }
}
