// SPDX-License-Identifier: Apache-2.0
//! What a program sees of the objects that its plan has recorded something of: a later call that is
//! about one of them is answered from here, since the node knows nothing of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use prost_reflect::{DynamicMessage, ReflectMessage, Value as Field};

use crate::reconcile::desired::{Declared, text};
use crate::reconcile::journal::Key;
use crate::value::Value;

/// What a program sees of an object that a recorded call was about.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// Its status, under its kind; `new` is a run that isn't there yet.
    Status {
        kind: String,
        status: Value,
        new: bool,
    },
    Removed,
}

/// The objects by their keys.
#[derive(Debug, Default)]
pub(super) struct Objects(Mutex<BTreeMap<Key, Seen>>);

impl Objects {
    pub(super) fn of(&self, key: &Key) -> Option<Seen> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(key).cloned()
    }

    pub(super) fn put(&self, key: Key, what: Seen) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(key, what);
    }

    pub(super) fn is_in_new_cell(&self, node: &Option<String>, declared: &Declared) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().any(|((of, tenant, path), what)| {
            of == node
                && *tenant == declared.tenant
                && matches!(what, Seen::Status { new: true, .. })
                && declared
                    .path
                    .strip_prefix(path.as_str())
                    .is_some_and(|rest| rest.starts_with('/'))
        })
    }

    /// Whether it, or what it is in, goes by the program's own call, or by another object's change.
    pub(super) fn is_removed(&self, node: &Option<String>, tenant: &str, path: &str) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().any(|((of, whose, removed), what)| {
            let rest = path.strip_prefix(removed.as_str());
            of == node
                && whose == tenant
                && matches!(what, Seen::Removed)
                && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// The path of an object in a request that isn't there yet.
    pub(super) fn new_object_in(
        &self,
        node: &Option<String>,
        message: &DynamicMessage,
    ) -> Option<String> {
        let mut found = Vec::new();
        references(message, &mut found);
        found
            .iter()
            .map(|reference| key_of(node, reference))
            .find(|key| matches!(self.of(key), Some(Seen::Status { new: true, .. })))
            .map(|(_, _, path)| path)
    }
}

pub(super) fn key_of(node: &Option<String>, reference: &DynamicMessage) -> Key {
    (
        node.clone(),
        text(reference, "tenant"),
        text(reference, "path"),
    )
}

fn references(message: &DynamicMessage, found: &mut Vec<DynamicMessage>) {
    if message.descriptor().full_name() == "aurae.runtime.v0.ObjectRef" {
        found.push(message.clone());
        return;
    }
    for (_, value) in message.fields() {
        match value {
            Field::Message(inner) => references(inner, found),
            Field::List(items) => {
                let inner = items.iter().filter_map(Field::as_message);
                inner.for_each(|inner| references(inner, found));
            }
            _ => {}
        }
    }
}
