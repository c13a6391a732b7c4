// SPDX-License-Identifier: Apache-2.0
//! The actions of policies, one per method of the API. The daemon passes the list in; here it is
//! only looked up.

use std::collections::HashMap;

/// The users that the built-in policies allow an action. Administrators may do every one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// Every user, on the objects of that user's tenant.
    Member,
    /// Administrators, and the users to whom it was granted.
    Administrator,
}

/// One action, which is one method of the API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActionDef {
    /// `subsystem.Method`; the subsystem is its group.
    pub name: &'static str,
    /// The users that the built-in policies allow it.
    pub audience: Audience,
    /// It changes something. Refused with the audit or the store broken, but for root with an
    /// administrator's certificate.
    pub mutating: bool,
    /// Its changes outlive a power loss, so its audit line must be on disk before it is done (the
    /// others' lines are in the kernel before, on disk within 5 ms).
    pub durable: bool,
}

impl ActionDef {
    /// The subsystem: the name up to its dot.
    pub fn group(&self) -> &'static str {
        self.name
            .split_once('.')
            .map_or(self.name, |(group, _)| group)
    }
}

/// The actions of a node, by name.
#[derive(Debug)]
pub(crate) struct Actions {
    all: Vec<ActionDef>,
    by_name: HashMap<&'static str, usize>,
}

impl Actions {
    pub(crate) fn new(all: Vec<ActionDef>) -> Self {
        let by_name = all.iter().enumerate().map(|(i, a)| (a.name, i)).collect();
        Self { all, by_name }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ActionDef> {
        self.all.iter()
    }

    /// The action's index, which is its number in `policy` too.
    pub(crate) fn find(&self, name: &str) -> Option<(usize, &ActionDef)> {
        let index = *self.by_name.get(name)?;
        self.all.get(index).map(|a| (index, a))
    }

    pub(crate) fn is_group(&self, name: &str) -> bool {
        self.all.iter().any(|a| a.group() == name)
    }

    /// Whether a grant of this action or group gives more than a member of a tenant has.
    pub(crate) fn is_privileged(&self, name: &str) -> bool {
        self.all
            .iter()
            .filter(|a| a.name == name || a.group() == name)
            .any(|a| a.audience == Audience::Administrator)
    }
}
