// SPDX-License-Identifier: Apache-2.0
//! What a program has declared so far, and the changes that go with it. Shared by the plan and the
//! apply, which see the same calls. A change that an apply has begun is noted before it is sent, so
//! that an apply which ends in the middle of it can say so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prost_reflect::DynamicMessage;

use super::change::{BEGUN, Change, Report};
use super::desired::{Declared, Verdict};
use super::manifest::Manifests;
use super::set::Claim;
use crate::protocol::{Failure, Moved};

/// Objects that a program may give other paths.
const MAX_MOVED: usize = 1000;

/// Which object: the context, the tenant as the program said it, the path.
pub(crate) type Key = (Option<String>, String, String);

/// Who hears of each change when it has begun (`Change::is_open`) and when it has ended, well or
/// not.
pub(crate) struct Listener(Box<dyn Fn(&Change) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl Listener {
    pub(crate) fn new(hear: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        Self(Box::new(hear))
    }
}

/// A change on its way: where it is noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(usize);

/// The set's name, its objects and its changes.
#[derive(Debug)]
pub(crate) struct Journal {
    set: Manifests,
    changes: Mutex<Vec<Change>>,
    declared: Mutex<BTreeMap<Key, DynamicMessage>>,
    moved: Mutex<Vec<Moved>>,
    listener: Option<Listener>,
}

impl Journal {
    pub(crate) fn new(claim: Claim) -> Self {
        Self {
            set: Manifests::new(claim),
            changes: Mutex::default(),
            declared: Mutex::default(),
            moved: Mutex::default(),
            listener: None,
        }
    }

    pub(crate) fn listened_by(self, listener: Listener) -> Self {
        Self {
            listener: Some(listener),
            ..self
        }
    }

    /// The set as the nodes keep it.
    pub(crate) fn set(&self) -> &Manifests {
        &self.set
    }

    pub(crate) fn claim(&self) -> &Claim {
        self.set.claim()
    }

    /// Notes that an object is declared; whether it was before, in the same words. `node` is the
    /// context's name, and `own` whose it is where the program doesn't say: a context and a tenant
    /// may be said or left out, and are the same.
    ///
    /// # Errors
    /// It was declared before, in other words.
    pub(crate) fn declare(
        &self,
        node: &str,
        own: &str,
        declared: &Declared,
    ) -> Result<bool, Failure> {
        let tenant = match declared.tenant.as_str() {
            "" => own,
            tenant => tenant,
        };
        let key = (
            Some(node.to_owned()),
            tenant.to_owned(),
            declared.path.clone(),
        );
        // Whose it is, is in the key.
        let mut words = declared.workload.clone();
        words.clear_field_by_name("ref");
        let mut all = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(&key) {
            Some(before) if *before == words => Ok(true),
            Some(_) => {
                let path = &declared.path;
                let message = format!("{path} is declared twice, and not alike");
                let mut failure = Failure::new("CONFLICT", message)
                    .hint("declare it once, or give one of the two another name");
                failure.object = Some(path.clone());
                Err(failure)
            }
            None => {
                all.insert(key, words);
                Ok(false)
            }
        }
    }

    /// Notes that a path was given up for another.
    ///
    /// # Errors
    /// More than [`MAX_MOVED`].
    pub(crate) fn moved(&self, moved: Moved) -> Result<(), String> {
        let mut all = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_MOVED {
            return Err(format!("moved: a program may say {MAX_MOVED} of them"));
        }
        all.push(moved);
        Ok(())
    }

    /// What a path was before, if the program says so.
    pub(crate) fn before(&self, path: &str) -> Option<String> {
        let all = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find_map(|Moved { from, to }| {
            let rest = path.strip_prefix(to.as_str())?;
            let within = rest.is_empty() || rest.starts_with('/');
            within.then(|| format!("{from}{rest}"))
        })
    }

    /// Notes a change that is done, or planned.
    pub(crate) fn note(&self, change: Change) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell(&change);
        changes.push(change);
    }

    /// Notes a change before it is sent.
    pub(crate) fn begin(&self, change: Change) -> Begun {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let change = Change {
            error: Some(BEGUN.to_owned()),
            ..change
        };
        self.tell(&change);
        changes.push(change);
        Begun(changes.len().saturating_sub(1))
    }

    /// Notes how it went; its result, for who goes on.
    pub(crate) fn end<T>(&self, begun: Begun, result: Result<T, Failure>) -> Result<T, Failure> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(change) = changes.get_mut(begun.0) {
            change.error = result.as_ref().err().map(|failure| failure.message.clone());
            self.tell(change);
        }
        result
    }

    fn tell(&self, change: &Change) {
        if let Some(Listener(hear)) = &self.listener {
            hear(change);
        }
    }

    /// What is noted so far.
    pub(crate) fn report(&self) -> Report {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        Report {
            set: self.claim().set.clone(),
            changes: changes.clone(),
            ..Report::default()
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
        tenant: declared.tenant.clone(),
        node,
        reason: verdict.reason,
        differences: verdict.differences,
        at,
        ..Change::new(verdict.action, &declared.kind, &declared.path)
    }
}
