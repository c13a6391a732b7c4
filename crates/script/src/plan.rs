// SPDX-License-Identifier: Apache-2.0
//! A plan: a program runs, but what it would change is recorded instead of sent, and compared with
//! what the node has. It sends only methods that the contract marks as having no side effects, so
//! read grants are enough.
//!
//! What a recorded call would answer is predicted (`predict`); what can't be is *unknown*, and a
//! program whose way depends on it has no plan. `apply` does what is told here, by the same
//! decisions (`declared`, `settled`, `sweep`).

pub(crate) mod asking;
pub mod change;
pub(crate) mod declared;
pub mod difference;
pub(crate) mod journal;
pub(crate) mod predict;
pub(crate) mod settled;
pub(crate) mod sweep;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::runtime::v0::ObjectRef;
use prost_reflect::{DynamicMessage, ReflectMessage, Value as Field};

use crate::host::Question;
use crate::host::failure::UNKNOWN_IN_PLAN;
use crate::host::nodes::Nodes;
use crate::protocol::Failure;
use crate::value::Value;
use crate::wire;
use asking::{Current, get};
use change::{Action, Change, Report};
use declared::{Declared, child, text};
pub use declared::{SET_LABEL, check_set};
use difference::Difference;
use journal::{Journal, Key, change};
use predict::{Unknowns, called, subject, take_unknowns};

/// What a program sees of an object that a recorded call was about.
#[derive(Clone, Debug)]
enum Seen {
    /// Its status, under its kind; `new` is a run that isn't there yet.
    Status {
        kind: String,
        status: Value,
        new: bool,
    },
    Removed,
}

/// A plan in the making.
#[derive(Debug)]
pub struct Plan {
    journal: Journal,
    seen: Mutex<BTreeMap<Key, Seen>>,
}

impl Plan {
    /// For a set; see [`check_set`] for its name.
    pub fn new(set: String) -> Self {
        Self {
            journal: Journal::new(set),
            seen: Mutex::default(),
        }
    }

    /// What would change, with what isn't declared any more.
    ///
    /// # Errors
    /// A node can't be asked.
    pub async fn finish(&self, nodes: &Nodes) -> Result<Report, Failure> {
        for leftover in sweep::leftovers(nodes, &self.journal).await? {
            self.journal.note(leftover.change());
        }
        Ok(self.journal.report())
    }

    /// A unary call: what reads is sent, unless it is about what was recorded; the rest is
    /// recorded.
    pub(crate) async fn unary(&self, nodes: &Nodes, asked: Question<'_>) -> Result<Value, Failure> {
        let mut request = asked.call.request.clone();
        let unknowns = take_unknowns(&mut request);
        let message = wire::to_message(&asked.found.descriptor.input(), &request)?;
        if !asked.found.method.mutating {
            return self.read(nodes, &asked, message, &unknowns).await;
        }
        if let Some((path, what)) = unknowns.iter().find(|(path, _)| names_object(path)) {
            return Err(unknown(&format!("{path} is {what}")));
        }
        if let Some(declared) = Declared::of(
            asked.found,
            &message,
            self.journal.set(),
            unknowns.is_empty(),
        )? {
            return self.declare(nodes, &asked, declared, unknowns).await;
        }
        self.record(nodes, &asked, message).await
    }

    /// Whether a stream may be opened: one that changes something can't be predicted, and neither
    /// can what an object will say that isn't there yet.
    pub(crate) fn may_stream(&self, asked: &Question<'_>) -> Result<(), Failure> {
        if asked.found.method.mutating {
            let what = format!(
                "{} can't be planned: it is a conversation",
                asked.call.method
            );
            return Err(unknown(&what));
        }
        let mut request = asked.call.request.clone();
        take_unknowns(&mut request);
        let message = wire::to_message(&asked.found.descriptor.input(), &request)?;
        match self.new_object_in(&asked.call.node, &message) {
            Some(path) => Err(unknown(&called(&asked.call.method, &path))),
            None => Ok(()),
        }
    }

    async fn read(
        &self,
        nodes: &Nodes,
        asked: &Question<'_>,
        message: DynamicMessage,
        unknowns: &Unknowns,
    ) -> Result<Value, Failure> {
        let action = &asked.call.method;
        if let Some((_, what)) = unknowns.first() {
            return Ok(Value::Unknown(called(action, what)));
        }
        if action == "runtime.Get"
            && let Some(reference) = child(&message, "ref")
            && let Some(seen) = self.seen(&key_of(&asked.call.node, &reference))
        {
            return match seen {
                Seen::Status { kind, status, .. } => Ok(predict::object([(&kind, status)])),
                Seen::Removed => Err(not_found(&text(&reference, "path"))),
            };
        }
        if let Some(path) = self.new_object_in(&asked.call.node, &message) {
            return Ok(Value::Unknown(called(action, &path)));
        }
        let answer = nodes.unary(asked.ask(message)).await?;
        Ok(wire::from_message(&answer)?)
    }

    async fn declare(
        &self,
        nodes: &Nodes,
        asked: &Question<'_>,
        declared: Declared,
        unknowns: Unknowns,
    ) -> Result<Value, Failure> {
        let node = &asked.call.node;
        let key: Key = (node.clone(), declared.tenant.clone(), declared.path.clone());
        let again = self.journal.declare(&key, &declared)?;
        if again && let Some(Seen::Status { status, .. }) = self.seen(&key) {
            return Ok(status);
        }
        let (current, own) = self.present(nodes, node, &declared).await?;
        let mut verdict = declared.verdict(self.journal.set(), current.as_ref(), own.as_ref())?;
        let workload = format!("{}.", declared.kind);
        for (path, _) in unknowns {
            let field = path.strip_prefix(&workload).unwrap_or(&path).to_owned();
            add_unknown(&mut verdict.differences, field);
            if verdict.action == Action::Unchanged {
                verdict.action = Action::Replace;
            }
        }
        if verdict.action == Action::Replace
            && let Some(going) = own.as_ref().or(current.as_ref())
        {
            refuse_foreign(nodes, node.as_deref(), going, self.journal.set()).await?;
        }
        let output = asked.found.descriptor.output();
        let action = verdict.action;
        let status = match (action, &current) {
            (Action::Unchanged, Some(current)) => wire::from_message(&current.status)?,
            _ => predict::status(&asked.call.method, &declared, &output)?,
        };
        let new = !matches!(action, Action::Unchanged | Action::Update);
        if new || action == Action::Update {
            self.check_parent(nodes, node, &declared).await?;
        }
        let kind = declared.kind.clone();
        self.see(
            key,
            Seen::Status {
                kind,
                status: status.clone(),
                new,
            },
        );
        self.journal
            .note(change(&declared, verdict, node.clone(), asked.at.clone()));
        Ok(status)
    }

    /// What the node has of it; nothing where the cell around it would be made anew.
    async fn present(
        &self,
        nodes: &Nodes,
        node: &Option<String>,
        declared: &Declared,
    ) -> Result<(Option<Current>, Option<Current>), Failure> {
        if self.is_in_new_cell(node, declared) {
            return Ok((None, None));
        }
        let name = node.as_deref();
        let current = get(nodes, name, &declared.tenant, &declared.path).await?;
        let own = match declared.own_cell().and(declared.parent()) {
            Some(parent) => get(nodes, name, &declared.tenant, parent).await?,
            None => None,
        };
        Ok((current, own))
    }

    /// A real call would be refused without the cell that it names.
    async fn check_parent(
        &self,
        nodes: &Nodes,
        node: &Option<String>,
        declared: &Declared,
    ) -> Result<(), Failure> {
        let Some(parent) = declared.parent().filter(|_| declared.own_cell().is_none()) else {
            return Ok(());
        };
        let key: Key = (node.clone(), declared.tenant.clone(), parent.to_owned());
        let there = match self.seen(&key) {
            Some(Seen::Status { .. }) => true,
            Some(Seen::Removed) => false,
            None => {
                let found = get(nodes, node.as_deref(), &declared.tenant, parent).await?;
                found.is_some()
            }
        };
        if there {
            Ok(())
        } else {
            Err(not_found(parent))
        }
    }

    async fn record(
        &self,
        nodes: &Nodes,
        asked: &Question<'_>,
        message: DynamicMessage,
    ) -> Result<Value, Failure> {
        let node = &asked.call.node;
        let action = &asked.call.method;
        let name = subject(&message);
        let noted = |what: Action, kind: &str| Change {
            action: what,
            kind: kind.to_owned(),
            name: name.clone(),
            tenant: text(&message, "tenant"),
            node: node.clone(),
            reason: None,
            differences: Vec::new(),
            at: asked.at.clone(),
            error: None,
        };
        let output = asked.found.descriptor.output();
        let Some(reference) = child(&message, "ref") else {
            let settled = settled::settled(nodes, node.as_deref(), asked.found, &message).await?;
            if let Some(answer) = settled {
                self.journal.note(noted(Action::Unchanged, action));
                return Ok(wire::from_message(&answer)?);
            }
            self.journal.note(noted(Action::Call, action));
            return predict::answer(action, &name, &message, &output);
        };
        let key = key_of(node, &reference);
        let (kind, status, known) = match self.seen(&key) {
            Some(Seen::Removed) => return Err(not_found(&name)),
            Some(Seen::Status { kind, status, .. }) => (kind, status, true),
            None => {
                let found = get(nodes, node.as_deref(), &key.1, &key.2).await?;
                let current = found.ok_or_else(|| not_found(&name))?;
                let status = wire::from_message(&current.status)?;
                (current.kind.to_owned(), status, false)
            }
        };
        let settled = match known {
            true => None,
            false => settled::settled(nodes, node.as_deref(), asked.found, &message).await?,
        };
        if let Some(answer) = settled {
            self.journal.note(noted(Action::Unchanged, &kind));
            return Ok(wire::from_message(&answer)?);
        }
        let what = match asked.found.method.name.as_str() {
            "Stop" => Action::Stop,
            "Remove" => Action::Remove,
            _ => Action::Call,
        };
        let shown = if what == Action::Call { action } else { &kind };
        self.journal.note(noted(what, shown));
        let label = called(action, &name);
        match what {
            Action::Remove => self.see(key, Seen::Removed),
            Action::Stop => {
                let status = predict::stopped(&label, status);
                let seen = Seen::Status {
                    kind: kind.clone(),
                    status: status.clone(),
                    new: false,
                };
                self.see(key, seen);
                return Ok(predict::object([(&kind, status)]));
            }
            _ => {}
        }
        predict::answer(action, &name, &message, &output)
    }

    fn seen(&self, key: &Key) -> Option<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(key).cloned()
    }

    fn see(&self, key: Key, what: Seen) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(key, what);
    }

    fn is_in_new_cell(&self, node: &Option<String>, declared: &Declared) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The path of an object in a request that isn't there yet.
    fn new_object_in(&self, node: &Option<String>, message: &DynamicMessage) -> Option<String> {
        let mut found = Vec::new();
        references(message, &mut found);
        found
            .iter()
            .map(|reference| key_of(node, reference))
            .find(|key| matches!(self.seen(key), Some(Seen::Status { new: true, .. })))
            .map(|(_, _, path)| path)
    }
}

/// A cell can't be made anew with somebody else's objects in it.
pub(crate) async fn refuse_foreign(
    nodes: &Nodes,
    node: Option<&str>,
    current: &Current,
    set: &str,
) -> Result<(), Failure> {
    let reference: ObjectRef = current.reference();
    let Some(other) = sweep::foreign(nodes, node, &reference, set).await? else {
        return Ok(());
    };
    let path = &reference.path;
    let message = format!(
        "{path} would have to be made anew, but {other} runs in it and isn't of the set {set}"
    );
    let mut failure = Failure::new("CONFLICT", message).hint(format!(
        "stop {other} first, or leave those fields of {path} as they are"
    ));
    failure.object = Some(path.clone());
    Err(failure)
}

fn names_object(path: &str) -> bool {
    path.split('.').any(|part| part == "ref")
}

fn add_unknown(differences: &mut Vec<Difference>, field: String) {
    differences.retain(|one| one.field != field);
    differences.push(Difference {
        field,
        from: None,
        to: None,
        unknown: true,
    });
}

fn key_of(node: &Option<String>, reference: &DynamicMessage) -> Key {
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

fn unknown(what: &str) -> Failure {
    let message = format!("a plan can't know this: {what}");
    Failure::new(UNKNOWN_IN_PLAN, message)
        .hint("a program that depends on it can be run or applied, not planned")
}

fn not_found(path: &str) -> Failure {
    let mut failure = Failure::new("NOT_FOUND", format!("there is no object {path}"));
    failure.object = Some(path.to_owned());
    failure
}
