// SPDX-License-Identifier: Apache-2.0
//! Which service waits for which: those that others wait for begin before them, one after the
//! other, as a pod's init containers do.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::{Fields, Notes};
use crate::import::NotImported;

/// What a service is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waited {
    /// Until it has ended well.
    pub(super) ended: bool,
    /// Until it is healthy.
    pub(super) healthy: bool,
}

/// The services' order.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Whom a service waits for.
    on: BTreeMap<String, BTreeSet<String>>,
    waited: BTreeMap<String, Waited>,
}

impl Order {
    /// Takes `depends_on` of a service.
    pub(super) fn take(
        &mut self,
        name: &str,
        service: &mut Fields,
        notes: &mut Notes,
    ) -> Result<(), NotImported> {
        let path = service.path("depends_on");
        let conditions: Vec<(String, Value)> = match service.take("depends_on") {
            Some(Value::Array(names)) => {
                let names = names.into_iter();
                let named = names.filter_map(|it| Some((it.as_str()?.to_owned(), Value::Null)));
                named.collect()
            }
            Some(of) => Fields::of(of, &path)?.entries().collect(),
            None => Vec::new(),
        };
        for (other, said) in conditions {
            let mut said = Fields::of(said, &path)?;
            let condition = said.plain("condition", notes)?;
            said.known(&["required"]);
            said.end(&format!("depends_on.{other}."), notes);
            let waited = self.waited.entry(other.clone()).or_default();
            match condition.as_deref() {
                Some("service_completed_successfully") => waited.ended = true,
                Some("service_healthy") => waited.healthy = true,
                _ => {}
            }
            self.on.entry(name.to_owned()).or_default().insert(other);
        }
        Ok(())
    }

    /// What the service is waited for; none: no other service waits for it.
    pub(super) fn waited(&self, name: &str) -> Option<Waited> {
        self.waited.get(name).copied()
    }

    /// The names, each behind those that it waits for, else in the order given. A service that
    /// waits for itself by others waits for nothing, which is noted.
    pub(super) fn sorted(&self, names: &[String], notes: &mut Notes) -> Vec<String> {
        let mut sorted: Vec<String> = Vec::new();
        let mut left: Vec<&String> = names.iter().collect();
        while !left.is_empty() {
            let is_free = |name: &&String| {
                let mut on = self.on.get(*name).into_iter().flatten();
                on.all(|other| sorted.contains(other) || !names.contains(other))
            };
            let at = left.iter().position(is_free).unwrap_or_else(|| {
                let circle: Vec<_> = left.iter().map(|name| name.as_str()).collect();
                let circle = circle.join(", ");
                notes.add(format!(
                    "depends_on: {circle} wait for each other: the first begins"
                ));
                0
            });
            sorted.push(left.remove(at).clone());
        }
        sorted
    }
}
