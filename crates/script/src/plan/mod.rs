// SPDX-License-Identifier: Apache-2.0
//! A plan: a program runs, but what it would change is recorded instead of sent, and compared with
//! what the node has. It sends only methods that the contract marks as having no side effects, so
//! read grants are enough.
//!
//! What a recorded call would answer is predicted (`predict`); what can't be is *unknown*, and a
//! program whose way depends on it has no plan. `apply` does what is told here, by the same
//! decisions (`reconcile`).

mod limits;
mod seen;
mod unknown;

use api::sets::v0::Member;
use prost_reflect::DynamicMessage;

use crate::nodes::{Nodes, Question};
use crate::protocol::{Assumed, Failure, Moved};
use crate::reconcile::change::{Action, Change, Report};
use crate::reconcile::current::{self, Current, Own};
use crate::reconcile::desired::{Declared, apart, child, going, text};
use crate::reconcile::journal::{Journal, Key, change};
use crate::reconcile::keyed::{Compared, Keyed};
use crate::reconcile::predict::{self, Unknowns, called, subject, take_unknowns};
use crate::reconcile::prune::{Leftover, What};
use crate::reconcile::set::Claim;
use crate::reconcile::{call, guest, noop, prune};
use crate::value::Value;
use crate::wire;
use limits::Limits;
use seen::{Objects, Seen, key_of};
use unknown::{mark_unknown, names_object, not_found, unknown, without_cell};

/// A plan in the making.
#[derive(Debug)]
pub struct Plan {
    journal: Journal,
    seen: Objects,
    limits: Limits,
}

impl Plan {
    /// For a set.
    pub fn new(claim: Claim) -> Self {
        Self {
            journal: Journal::new(claim),
            seen: Objects::default(),
            limits: Limits::default(),
        }
    }

    /// The first call that couldn't be planned, with its place.
    pub fn refused(&self) -> Option<Failure> {
        self.limits.refused()
    }

    /// Notes what the plan takes for granted.
    pub(crate) fn assume(&self, assumed: Assumed) {
        self.limits.assume(assumed);
    }

    /// What would change, with what isn't declared any more.
    ///
    /// # Errors
    /// A node can't be asked.
    pub async fn finish(&self, nodes: &Nodes) -> Result<Report, Failure> {
        if self.journal.claim().refresh {
            return Ok(self.journal.report());
        }
        let found = prune::leftovers(nodes, self.journal.set()).await?;
        for leftover in &found.all {
            if !self.goes_already(nodes, leftover).await? {
                self.journal.note(leftover.change());
            }
        }
        for (name, failure) in found.away {
            self.journal.note(prune::out_of_reach(&name, &failure));
        }
        Ok(Report {
            notes: self.limits.notes(),
            ..self.journal.report()
        })
    }

    /// Whether what isn't declared any more goes by a change that is told already.
    async fn goes_already(&self, nodes: &Nodes, left: &Leftover) -> Result<bool, Failure> {
        let What::Workload(it) = &left.what else {
            return Ok(false);
        };
        let it = &it.reference;
        let set = self.journal.set();
        let own = set.own_tenant(nodes, left.node.as_deref()).await?;
        let whose = [
            it.tenant.as_str(),
            if it.tenant == own { "" } else { &it.tenant },
        ];
        Ok(whose
            .iter()
            .any(|whose| self.seen.is_removed(&left.node, whose, &it.path)))
    }

    /// A unary call: what reads is sent, unless it is about what was recorded; the rest is
    /// recorded.
    pub(crate) async fn unary(&self, nodes: &Nodes, asked: Question<'_>) -> Result<Value, Failure> {
        let result = self.unary_now(nodes, &asked).await;
        self.limits.keep(&asked, result)
    }

    async fn unary_now(&self, nodes: &Nodes, asked: &Question<'_>) -> Result<Value, Failure> {
        let mut request = asked.call.request.clone();
        let unknowns = take_unknowns(&mut request);
        let message = wire::to_message(&asked.found.descriptor.input(), &request)?;
        if !asked.found.method.mutating {
            return self.read(nodes, asked, message, &unknowns).await;
        }
        if let Some((path, what)) = unknowns.iter().find(|(path, _)| names_object(path)) {
            return Err(unknown(&format!("{path} is {what}")));
        }
        if let Some(declared) = Declared::of(
            asked.found,
            &message,
            &self.journal.claim().set,
            unknowns.is_empty(),
        )? {
            return self.declare(nodes, asked, declared, unknowns).await;
        }
        if Keyed::is_declared_by(asked.found) {
            return self.declare_keyed(nodes, asked, message, &unknowns).await;
        }
        if call::is_left_out(self.journal.claim(), &message) {
            let (noted, nothing) = call::left_out(asked, &message);
            self.note_call(noted);
            return Ok(wire::from_message(&nothing)?);
        }
        self.record(nodes, asked, message).await
    }

    /// Whether a stream may be opened: one that changes something can't be predicted, and neither
    /// can what an object will say that isn't there yet.
    pub(crate) fn may_stream(&self, asked: &Question<'_>) -> Result<(), Failure> {
        self.limits.keep(asked, self.can_stream(asked))
    }

    fn can_stream(&self, asked: &Question<'_>) -> Result<(), Failure> {
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
        match self.seen.new_object_in(&asked.call.node, &message) {
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
        let own = Own::of_subsystem(nodes, action).filter(|own| own.found_by == *action);
        if (own.is_some() || action == "runtime.Get")
            && let Some(reference) = child(&message, "ref")
            && let Some(seen) = self.seen.of(&key_of(&asked.call.node, &reference))
        {
            return match seen {
                Seen::Status { status, .. } if own.is_some() => Ok(status),
                Seen::Status { kind, status, .. } => Ok(predict::object([(&kind, status)])),
                Seen::Removed => Err(not_found(&text(&reference, "path"))),
            };
        }
        if let Some(path) = self.seen.new_object_in(&asked.call.node, &message) {
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
        let set = self.journal.set();
        let tenant = set.own_tenant(nodes, node.as_deref()).await?;
        let name = nodes.name(node.as_deref());
        let again = self.journal.declare(&name, &tenant, &declared)?;
        if again && let Some(Seen::Status { status, .. }) = self.seen.of(&key) {
            return Ok(status);
        }
        let member = declared.member(&asked.call.method, &tenant);
        let told = self.is_told(nodes, node, &member).await?;
        set.declare(nodes, node.as_deref(), member).await?;
        let (current, own) = self.present(nodes, node, &declared).await?;
        if !set.claim().is_about(&declared.path) {
            let noted = change(&declared, apart(), node.clone(), asked.at.clone());
            self.journal.note(noted);
            return match &current {
                Some(current) => Ok(wire::from_message(&current.status)?),
                // It isn't there: a status that says nothing.
                None => Ok(wire::from_message(&DynamicMessage::new(
                    asked.found.descriptor.output(),
                ))?),
            };
        }
        let before = match (&current, &own) {
            (None, None) => self.before(nodes, node, &declared).await?,
            _ => None,
        };
        let moved = before.as_ref().map(|it| declared.moved(set.claim(), it));
        let mut verdict = match moved.transpose()?.flatten() {
            Some(moved) => moved,
            None => declared.verdict(set.claim(), current.as_ref(), own.as_ref())?,
        };
        mark_unknown(&mut verdict, &declared.kind, unknowns);
        if verdict.action == Action::Replace
            && let Some(reference) = going(before.as_ref(), own.as_ref(), current.as_ref())
        {
            let own = before.as_ref().or(current.as_ref());
            let going = (&reference, own.is_some_and(|it| it.own.is_some()));
            guest::refuse_guests(nodes, node.as_deref(), going, set).await?;
            if before.is_some() {
                let key = (node.clone(), declared.tenant.clone(), reference.path);
                self.seen.put(key, Seen::Removed);
            }
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
        self.seen.put(
            key,
            Seen::Status {
                kind,
                status: status.clone(),
                new,
            },
        );
        if told {
            self.journal
                .note(change(&declared, verdict, node.clone(), asked.at.clone()));
        }
        Ok(status)
    }

    /// What runs under the path that the program has given up for this one.
    async fn before(
        &self,
        nodes: &Nodes,
        node: &Option<String>,
        declared: &Declared,
    ) -> Result<Option<Current>, Failure> {
        match self.journal.before(&declared.path) {
            Some(path) if !self.seen.is_removed(node, &declared.tenant, &path) => {
                let name = (declared.tenant.as_str(), path.as_str());
                let by = declared.own.as_ref();
                let set = self.journal.set();
                current::present(nodes, node.as_deref(), set, by, name).await
            }
            _ => Ok(None),
        }
    }

    /// Notes that a path was given up for another.
    pub(crate) fn moved(&self, moved: Moved) -> Result<(), String> {
        self.journal.moved(moved)
    }

    /// Whether a plan tells of a declared object. One of drift tells only of what was applied.
    async fn is_told(
        &self,
        nodes: &Nodes,
        node: &Option<String>,
        member: &Member,
    ) -> Result<bool, Failure> {
        let set = self.journal.set();
        Ok(!set.claim().refresh || set.holds(nodes, node.as_deref(), member).await?)
    }

    /// Notes a call that declares nothing; that is no drift.
    fn note_call(&self, change: Change) {
        if !self.journal.claim().refresh {
            self.journal.note(change);
        }
    }

    async fn declare_keyed(
        &self,
        nodes: &Nodes,
        asked: &Question<'_>,
        message: DynamicMessage,
        unknowns: &Unknowns,
    ) -> Result<Value, Failure> {
        let node = asked.call.node.as_deref();
        if let Some((path, what)) = unknowns.first() {
            return Err(unknown(&format!("{path} is {what}")));
        }
        let set = self.journal.set();
        let Compared {
            keyed,
            current,
            ours,
            again,
            verdict,
        } = Keyed::compared(nodes, set, asked, &message).await?;
        let output = asked.found.descriptor.output();
        let name = keyed.name();
        if again {
            return predict::answer(&asked.call.method, &name, &message, &output);
        }
        set.declare(nodes, node, keyed.member()).await?;
        let unchanged = matches!(verdict.action, Action::Unchanged | Action::Adopt);
        if ours || !set.claim().refresh {
            self.journal.note(keyed.change(verdict, asked));
        }
        match current.and_then(|current| keyed.answer(current)) {
            Some(answer) if unchanged => Ok(wire::from_message(&answer)?),
            _ => predict::answer(&asked.call.method, &name, &message, &output),
        }
    }

    /// What the node has of it; nothing where the cell around it would be recreated.
    async fn present(
        &self,
        nodes: &Nodes,
        node: &Option<String>,
        declared: &Declared,
    ) -> Result<(Option<Current>, Option<Current>), Failure> {
        if self.seen.is_in_new_cell(node, declared)
            || self.seen.is_removed(node, &declared.tenant, &declared.path)
        {
            return Ok((None, None));
        }
        let node = node.as_deref();
        let (set, by) = (self.journal.set(), declared.own.as_ref());
        let whose = declared.tenant.as_str();
        let current = current::present(nodes, node, set, by, (whose, &declared.path)).await?;
        let own = match declared.own_cell().and(declared.parent()) {
            Some(parent) => current::find(nodes, node, None, (whose, parent)).await?,
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
        if declared.kind == "executable" && declared.parent().is_none() {
            return Err(without_cell(&declared.path));
        }
        let Some(parent) = declared.parent().filter(|_| declared.own_cell().is_none()) else {
            return Ok(());
        };
        let key: Key = (node.clone(), declared.tenant.clone(), parent.to_owned());
        let there = match self.seen.of(&key) {
            Some(Seen::Status { .. }) => true,
            Some(Seen::Removed) => false,
            None => {
                let name = (declared.tenant.as_str(), parent);
                let found = current::find(nodes, node.as_deref(), None, name).await?;
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
        let noted = |what: Action| call::noted(asked, &message, what);
        let output = asked.found.descriptor.output();
        let Some(reference) = child(&message, "ref") else {
            let unchanged = noop::noop(nodes, node.as_deref(), asked.found, &message).await?;
            if let Some(answer) = unchanged {
                self.note_call(noted(Action::Unchanged));
                return Ok(wire::from_message(&answer)?);
            }
            self.note_call(noted(Action::Call));
            return predict::answer(action, &name, &message, &output);
        };
        let key = key_of(node, &reference);
        let own = Own::of_subsystem(nodes, action);
        let (kind, status, known) = match self.seen.of(&key) {
            Some(Seen::Removed) => return Err(not_found(&name)),
            Some(Seen::Status { kind, status, .. }) => (kind, status, true),
            None => {
                let at = (key.1.as_str(), key.2.as_str());
                let found = current::find(nodes, node.as_deref(), own.as_ref(), at).await?;
                let current = found.ok_or_else(|| not_found(&name))?;
                let status = wire::from_message(&current.status)?;
                (current.kind, status, false)
            }
        };
        let unchanged = match known {
            true => None,
            false => noop::noop(nodes, node.as_deref(), asked.found, &message).await?,
        };
        if let Some(answer) = unchanged {
            self.note_call(Change {
                kind,
                ..noted(Action::Unchanged)
            });
            return Ok(wire::from_message(&answer)?);
        }
        call::unless_protected(nodes, node.as_deref(), asked.found, &message).await?;
        let what = match asked.found.method.name.as_str() {
            "Stop" => Action::Stop,
            "Remove" => Action::Remove,
            _ => Action::Call,
        };
        let mut told = noted(what);
        if what != Action::Call {
            told.kind.clone_from(&kind);
        }
        self.note_call(told);
        let label = called(action, &name);
        match what {
            Action::Remove => self.seen.put(key, Seen::Removed),
            Action::Stop => {
                let status = predict::stopped(&label, status);
                let seen = Seen::Status {
                    kind: kind.clone(),
                    status: status.clone(),
                    new: false,
                };
                self.seen.put(key, seen);
                return Ok(match own {
                    Some(_) => status,
                    None => predict::object([(&kind, status)]),
                });
            }
            _ => {}
        }
        predict::answer(action, &name, &message, &output)
    }
}
