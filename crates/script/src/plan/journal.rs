// SPDX-License-Identifier: Apache-2.0
//! What a program has declared so far, and the changes that go with it. Shared by the plan and the
//! apply, which see the same calls.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use prost_reflect::DynamicMessage;

use super::change::{Change, Report};
use super::declared::{Declared, Verdict};
use crate::protocol::Failure;

/// Which object: the context, the tenant as the program said it, the path.
pub(crate) type Key = (Option<String>, String, String);

/// The set's name, its objects and its changes.
#[derive(Debug)]
pub(crate) struct Journal {
    set: String,
    changes: Mutex<Vec<Change>>,
    declared: Mutex<BTreeMap<Key, DynamicMessage>>,
}

impl Journal {
    pub(crate) fn new(set: String) -> Self {
        Self {
            set,
            changes: Mutex::default(),
            declared: Mutex::default(),
        }
    }

    pub(crate) fn set(&self) -> &str {
        &self.set
    }

    /// Notes that an object is declared; whether it was before, in the same words.
    ///
    /// # Errors
    /// It was declared before, in other words.
    pub(crate) fn declare(&self, key: &Key, declared: &Declared) -> Result<bool, Failure> {
        let mut all = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(key) {
            Some(before) if *before == declared.workload => Ok(true),
            Some(_) => {
                let path = &declared.path;
                let message = format!("{path} is declared twice, and not alike");
                let mut failure = Failure::new("CONFLICT", message)
                    .hint("declare it once, or give one of the two another name");
                failure.object = Some(path.clone());
                Err(failure)
            }
            None => {
                all.insert(key.clone(), declared.workload.clone());
                Ok(false)
            }
        }
    }

    /// Everything that is declared.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let all = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        all.keys().cloned().collect()
    }

    pub(crate) fn note(&self, change: Change) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push(change);
    }

    /// What is noted so far.
    pub(crate) fn report(&self) -> Report {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        Report {
            set: self.set.clone(),
            changes: changes.clone(),
        }
    }
}

/// The change of a declared object.
pub(crate) fn change(
    declared: &Declared,
    verdict: Verdict,
    node: Option<String>,
    at: Option<String>,
) -> Change {
    Change {
        action: verdict.action,
        kind: declared.kind.clone(),
        name: declared.path.clone(),
        tenant: declared.tenant.clone(),
        node,
        reason: verdict.reason,
        differences: verdict.differences,
        at,
    }
}
