// SPDX-License-Identifier: Apache-2.0
//! What a plan tells, and what an apply has done: one change per object or call, in the program's
//! order, for people (`aurae plan`) and programs (`-o json`).

use serde::{Deserialize, Serialize};

use super::difference::Difference;

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It isn't there.
    Create,
    /// It was there, has ended, and is started again.
    Start,
    /// It is changed while it runs.
    Update,
    /// What differs can't be changed while it runs: it is stopped, removed and recreated.
    Replace,
    /// It is stopped, by the program or because the program doesn't declare it any more.
    Stop,
    /// Its record goes, by the program's own call.
    Remove,
    /// It is there as declared, and becomes part of the set.
    Adopt,
    /// A call of the program that isn't about declaring an object.
    Call,
    /// It is as declared.
    Unchanged,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// What happens.
    pub action: Action,
    /// `cell`, `executable`, `user`, or the method's name for calls.
    pub kind: String,
    /// The object's path or name; empty where a call has none.
    pub name: String,
    /// Its tenant where the program or the node says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The context; none is the command line's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Why, where the differences don't say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In which fields it isn't as declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Where in the program: `apps/web.ts:12:3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Why an apply has not done it, or can't tell whether it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The message of a change whose end was not seen.
pub(crate) const BEGUN: &str = "it was begun, and its outcome is not known";

impl Change {
    /// A change that nothing more is said of.
    pub(crate) fn new(action: Action, kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            action,
            kind: kind.into(),
            name: name.into(),
            tenant: String::new(),
            node: None,
            reason: None,
            differences: Vec::new(),
            at: None,
            error: None,
        }
    }

    /// Whether it was begun and its outcome is not known.
    pub fn is_open(&self) -> bool {
        self.error.as_deref() == Some(BEGUN)
    }
}

/// Everything that a program changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The set's name.
    pub set: String,
    /// In order.
    pub changes: Vec<Change>,
    /// What a plan takes for granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// Something that a plan couldn't know and went on without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Where in the program: `apps/web.ts:12:3`.
    pub at: String,
    /// What it takes for granted.
    pub text: String,
}

impl Report {
    /// How many changes of a kind there are, without those that failed.
    pub fn count(&self, action: Action) -> usize {
        let changes = self.changes.iter().filter(|change| change.error.is_none());
        changes.filter(|change| change.action == action).count()
    }

    /// How many changes failed, or may have.
    pub fn failed(&self) -> usize {
        let changes = self.changes.iter();
        changes.filter(|change| change.error.is_some()).count()
    }

    /// Whether nothing is changed.
    pub fn is_noop(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.all(|change| change.action == Action::Unchanged && change.error.is_none())
    }
}
