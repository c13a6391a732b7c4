// SPDX-License-Identifier: Apache-2.0
//! Schedules that wait for each other. What needs itself, also through others, never begins; what
//! follows itself never ends.

use std::collections::BTreeMap;

use super::spec::{NeedOf, Spec, When};
use crate::error::{Error, Result};
use crate::name::Label;

/// What a schedule waits for, with the field that says so.
fn waits_for(spec: &Spec) -> Vec<(String, Label)> {
    let follows = match &spec.when {
        When::After { schedule, .. } => Some(("when.after.schedule".to_owned(), schedule.clone())),
        _ => None,
    };
    let needs = spec.needs.iter().enumerate();
    let needs = needs.filter_map(|(i, need)| match &need.of {
        NeedOf::Schedule(name) => Some((format!("needs[{i}].schedule"), name.clone())),
        // No unit waits for a schedule.
        NeedOf::Unit(_) => None,
    });
    follows.into_iter().chain(needs).collect()
}

/// Refuses a spec that would wait for itself. `other`: the specs of the tenant's other schedules.
///
/// # Errors
/// `INVALID_FIELD`, below the spec, with the way that leads back.
pub fn check<S: AsRef<Spec>>(
    name: &Label,
    spec: &Spec,
    other: impl Fn(&Label) -> Option<S>,
) -> Result<()> {
    for (field, first) in waits_for(spec) {
        // Whence each was reached.
        let mut from: BTreeMap<Label, Label> = BTreeMap::new();
        let mut next = vec![first.clone()];
        from.insert(first, name.clone());
        while let Some(at) = next.pop() {
            if at == *name {
                let way = way_back(name, &from);
                let problem = format!("leads back to this schedule: {way}");
                let error = Error::invalid(field, problem);
                return Err(error.hint("have one of them wait for no other one"));
            }
            let further = other(&at).map(|it| waits_for(it.as_ref()));
            for (_, further) in further.unwrap_or_default() {
                if !from.contains_key(&further) {
                    from.insert(further.clone(), at.clone());
                    next.push(further);
                }
            }
        }
    }
    Ok(())
}

/// The way around, from a schedule back to it.
fn way_back(name: &Label, from: &BTreeMap<Label, Label>) -> String {
    let mut way = vec![name.to_string()];
    let mut at = from.get(name);
    while let Some(before) = at {
        way.push(before.to_string());
        if before == name || way.len() > from.len() + 1 {
            break;
        }
        at = from.get(before);
    }
    way.reverse();
    way.join(" → ")
}
