// SPDX-License-Identifier: Apache-2.0
//! An apply: a program runs, and what it declares is brought about: made where it isn't there, left
//! alone where it is as declared, changed while it runs where that can be, recreated otherwise.
//! What it makes carries its set's label; what carries the label and isn't declared any more is
//! stopped in the end, if the program came to its end.
//!
//! What is done to an object is done to the run, and to the generation, that was looked at: where
//! another client was quicker, the apply fails, says so, and changes nothing.
//!
//! The decisions are the plan's: both drive `reconcile`.

use std::time::Duration;

use api::runtime::v0::{
    ObjectRef, RemoveRequest, RemoveResponse, UpdateCellRequest, UpdateExecutableRequest,
    WaitRequest,
};
use prost_reflect::DynamicMessage;

use crate::nodes::{Nodes, Question};
use crate::protocol::{Failure, Moved};
use crate::reconcile::asking::{question, send};
use crate::reconcile::change::{Action, Change, Report};
use crate::reconcile::current::{self, Current};
use crate::reconcile::desired::{Declared, Verdict, Wait, apart, child, going, labels};
use crate::reconcile::difference::mask_path;
use crate::reconcile::journal::{Journal, Listener, change};
use crate::reconcile::keyed::{Compared, Keyed};
use crate::reconcile::manifest::Manifests;
use crate::reconcile::set::Claim;
use crate::reconcile::{call, guest, noop, prune};
use crate::value::Value;
use crate::wire;

/// An apply on its way.
#[derive(Debug)]
pub struct Apply {
    journal: Journal,
}

impl Apply {
    /// For a set.
    pub fn new(claim: Claim) -> Self {
        Self {
            journal: Journal::new(claim),
        }
    }

    /// The same, with a listener that is told of each change when it is begun (`Change::is_open`),
    /// and when it is done or has failed.
    pub fn heard_by(claim: Claim, hear: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        Self {
            journal: Journal::new(claim).listened_by(Listener::new(hear)),
        }
    }

    /// Notes that a path was given up for another.
    pub(crate) fn moved(&self, moved: Moved) -> Result<(), String> {
        self.journal.moved(moved)
    }

    /// What was done so far.
    pub fn report(&self) -> Report {
        self.journal.report()
    }

    /// Stops what isn't declared any more. Only after the program has come to its end. What can't
    /// be stopped is noted, and the others are stopped all the same.
    ///
    /// # Errors
    /// A node can't be asked, or refuses to stop something: the first such refusal.
    pub async fn finish(&self, nodes: &Nodes) -> Result<Report, Failure> {
        let set = self.journal.set();
        let mut found = prune::leftovers(nodes, set).await?;
        let mut failed = Ok(());
        for leftover in &mut found.all {
            let begun = self.journal.begin(leftover.change());
            let done = leftover.take_away(nodes).await;
            if let Err(failure) = &done {
                leftover.kept = Some(failure.message.clone());
            }
            failed = failed.and(self.journal.end(begun, done));
        }
        for (name, failure) in &found.away {
            self.journal.note(prune::out_of_reach(name, failure));
        }
        let (staying, away) = (found.staying(nodes), found.away());
        failed = failed.and(set.record(nodes, &staying, &away).await);
        failed.map(|()| self.report())
    }

    pub(crate) async fn unary(&self, nodes: &Nodes, asked: Question<'_>) -> Result<Value, Failure> {
        let input = asked.found.descriptor.input();
        let message = wire::to_message(&input, &asked.call.request)?;
        if !asked.found.method.mutating {
            let answer = nodes.unary(asked.ask(message)).await?;
            return Ok(wire::from_message(&answer)?);
        }
        match Declared::of(asked.found, &message, &self.journal.claim().set, true)? {
            Some(declared) => self.declare(nodes, &asked, declared).await,
            None if Keyed::is_declared_by(asked.found) => {
                self.declare_keyed(nodes, &asked, message).await
            }
            None => self.call(nodes, &asked, message).await,
        }
    }

    /// A call that declares nothing: sent, unless it would change nothing.
    async fn call(
        &self,
        nodes: &Nodes,
        asked: &Question<'_>,
        message: DynamicMessage,
    ) -> Result<Value, Failure> {
        let node = asked.call.node.as_deref();
        if call::is_left_out(self.journal.claim(), &message) {
            let (noted, nothing) = call::left_out(asked, &message);
            self.journal.note(noted);
            return Ok(wire::from_message(&nothing)?);
        }
        let unchanged = noop::noop(nodes, node, asked.found, &message).await?;
        let answer = match unchanged {
            Some(answer) => {
                let noted = call::noted(asked, &message, Action::Unchanged);
                self.journal.note(noted);
                answer
            }
            None => {
                call::unless_protected(nodes, node, asked.found, &message).await?;
                let noted = call::noted(asked, &message, Action::Call);
                let begun = self.journal.begin(noted);
                let answer = nodes.unary(asked.ask(message)).await;
                self.journal.end(begun, answer)?
            }
        };
        Ok(wire::from_message(&answer)?)
    }

    async fn declare_keyed(
        &self,
        nodes: &Nodes,
        asked: &Question<'_>,
        message: DynamicMessage,
    ) -> Result<Value, Failure> {
        let node = asked.call.node.as_deref();
        let set = self.journal.set();
        let Compared {
            keyed,
            current,
            ours,
            again,
            verdict,
        } = Keyed::compared(nodes, set, asked, &message).await?;
        let action = verdict.action;
        if ours || !matches!(action, Action::Unchanged) {
            let member = keyed.member();
            set.join(nodes, node, Some(&member)).await?;
            set.declare(nodes, node, member).await?;
        }
        let noted = keyed.change(verdict, asked);
        let answer = match action {
            Action::Unchanged | Action::Adopt => current.and_then(|current| keyed.answer(current)),
            _ => None,
        };
        // What the command line leaves out isn't made: a status that says nothing.
        let apart = !set.claim().is_about(&keyed.name());
        let answer = answer.or(apart.then(|| DynamicMessage::new(asked.found.descriptor.output())));
        if let Some(answer) = answer {
            if !again {
                self.journal.note(noted);
            }
            return Ok(wire::from_message(&answer)?);
        }
        let begun = self.journal.begin(noted);
        let done = async {
            if action == Action::Replace {
                prune::remove(nodes, node, &keyed).await?;
            }
            nodes.unary(asked.ask(message)).await
        };
        let answer = self.journal.end(begun, done.await)?;
        Ok(wire::from_message(&answer)?)
    }

    async fn declare(
        &self,
        nodes: &Nodes,
        asked: &Question<'_>,
        declared: Declared,
    ) -> Result<Value, Failure> {
        let node = asked.call.node.as_deref();
        let set = self.journal.set();
        let tenant = set.own_tenant(nodes, node).await?;
        let again = self
            .journal
            .declare(&nodes.name(node), &tenant, &declared)?;
        let member = declared.member(&asked.call.method, &tenant);
        set.declare(nodes, node, member.clone()).await?;
        let whose = declared.tenant.as_str();
        let by = declared.own.as_ref();
        let current = current::present(nodes, node, set, by, (whose, &declared.path)).await?;
        let own = match declared.own_cell().and(declared.parent()) {
            Some(parent) => current::find(nodes, node, None, (whose, parent)).await?,
            None => None,
        };
        let noted = |verdict| {
            let (node, at) = (asked.call.node.clone(), asked.at.clone());
            change(&declared, verdict, node, at)
        };
        if !set.claim().is_about(&declared.path) {
            self.journal.note(noted(apart()));
            return match &current {
                Some(current) => Ok(wire::from_message(&current.status)?),
                // It isn't there: a status that says nothing.
                None => Ok(wire::from_message(&DynamicMessage::new(
                    asked.found.descriptor.output(),
                ))?),
            };
        }
        let before = match (self.journal.before(&declared.path), &current, &own) {
            (Some(path), None, None) => {
                current::present(nodes, node, set, by, (whose, &path)).await?
            }
            _ => None,
        };
        let moved = before.as_ref().map(|it| declared.moved(set.claim(), it));
        let (verdict, before) = match moved.transpose()?.flatten() {
            Some(moved) => (moved, before),
            None => {
                let there = (current.as_ref(), own.as_ref());
                (declared.verdict(set.claim(), there.0, there.1)?, None)
            }
        };
        let going = going(before.as_ref(), own.as_ref(), current.as_ref());
        let current = current.or(before);
        if verdict.action != Action::Unchanged {
            // To the Runtime another subsystem's workload is a cell: only the set knows what it is.
            let member = by.map(|_| &member);
            set.join(nodes, node, member).await?;
        }
        let doing = Doing {
            nodes,
            asked,
            declared: &declared,
            set,
        };
        let status = match verdict.action {
            Action::Unchanged if again => doing.bring_about(&verdict, current, going).await?,
            _ => {
                let begun = self.journal.begin(noted(verdict.clone()));
                let status = doing.bring_about(&verdict, current, going).await;
                self.journal.end(begun, status)?
            }
        };
        Ok(wire::from_message(&status)?)
    }
}

/// One declared object, on its way to being so.
struct Doing<'a> {
    nodes: &'a Nodes,
    asked: &'a Question<'a>,
    declared: &'a Declared,
    set: &'a Manifests,
}

impl Doing<'_> {
    async fn bring_about(
        &self,
        verdict: &Verdict,
        current: Option<Current>,
        going: Option<ObjectRef>,
    ) -> Result<DynamicMessage, Failure> {
        let (Some(current), Some(going)) = (current, going) else {
            return self.run().await;
        };
        match verdict.action {
            Action::Unchanged => self.as_asked(current).await,
            Action::Update => self.update(verdict, &current).await,
            Action::Start if current.own.is_none() => {
                self.await_end(&current).await?;
                self.run().await
            }
            _ => {
                // With an executable's own cell goes the executable, and whatever else is in it.
                let going_whole = (&going, current.own.is_some());
                guest::refuse_guests(self.nodes, self.node(), going_whole, self.set).await?;
                self.clear(&current, going).await?;
                self.run().await.map_err(|failure| self.cleared(failure))
            }
        }
    }

    fn node(&self) -> Option<&str> {
        self.asked.call.node.as_deref()
    }

    async fn run(&self) -> Result<DynamicMessage, Failure> {
        let ask = self.asked.ask(self.declared.request.clone());
        self.nodes.unary(ask).await
    }

    /// What was stopped to be recreated, and could not be, isn't there now: the message says so.
    fn cleared(&self, mut failure: Failure) -> Failure {
        let path = &self.declared.path;
        failure.message.push_str(&format!(
            "; {path} was stopped to be recreated, and doesn't run now"
        ));
        failure
    }

    /// Its status, or where the program wants its end, that.
    async fn as_asked(&self, current: Current) -> Result<DynamicMessage, Failure> {
        let waits = self.declared.waits_for();
        if waits == Wait::Start || current.has_ended() {
            return Ok(current.status);
        }
        if current.own.is_some() {
            return self.watch(current, waits).await;
        }
        let status = self.wait(&current).await?;
        Ok(child(&status, &current.kind).unwrap_or(current.status))
    }

    /// Asks for a workload that has no method that waits, until it is as the program wants it:
    /// soon at first, then every two seconds. The program's own limit ends it.
    async fn watch(&self, mut current: Current, waits: Wait) -> Result<DynamicMessage, Failure> {
        const LONGEST: Duration = Duration::from_secs(2);
        let mut pause = Duration::from_millis(50);
        let uid = current.reference().uid;
        let is_ready = |current: &Current| {
            let ready = current.status.get_field_by_name("ready");
            waits == Wait::Ready && ready.is_some_and(|ready| ready.as_bool() == Some(true))
        };
        while !current.has_ended() && !is_ready(&current) {
            // The subsystem has no method that waits, and its events are of cells alone.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
            let name = (self.declared.tenant.as_str(), self.declared.path.as_str());
            let found = current::find(self.nodes, self.node(), current.own.as_ref(), name).await?;
            let found = found.filter(|found| found.reference().uid == uid);
            current = found.ok_or_else(|| self.gone())?;
        }
        Ok(current.status)
    }

    async fn wait(&self, current: &Current) -> Result<DynamicMessage, Failure> {
        let request = WaitRequest {
            r#ref: Some(current.reference()),
        };
        send(self.nodes, self.node(), "runtime.Wait", &request).await
    }

    /// What is being stopped holds its name until it has ended.
    async fn await_end(&self, current: &Current) -> Result<(), Failure> {
        match current.has_ended() {
            true => Ok(()),
            false => self.wait(current).await.map(drop),
        }
    }

    async fn update(
        &self,
        verdict: &Verdict,
        current: &Current,
    ) -> Result<DynamicMessage, Failure> {
        let sent = match current.kind.as_str() {
            "executable" => self.relabel(current).await,
            _ => self.update_cell(verdict, current).await,
        };
        let sent = sent.map_err(|failure| self.overtaken(failure))?;
        let Some(own) = &current.own else {
            return Ok(sent);
        };
        // The Runtime knows its cell, and has changed that one's labels: its own status has them.
        let name = (self.declared.tenant.as_str(), self.declared.path.as_str());
        let found = current::find(self.nodes, self.node(), Some(own), name).await?;
        found.map(|found| found.status).ok_or_else(|| self.gone())
    }

    fn gone(&self) -> Failure {
        let path = &self.declared.path;
        let message = format!("another client has removed {path} meanwhile");
        let mut failure = Failure::new("CONFLICT", message);
        failure.object = Some(path.clone());
        failure
    }

    /// Of a running executable only its labels can be changed.
    async fn relabel(&self, current: &Current) -> Result<DynamicMessage, Failure> {
        let wanted: api::runtime::v0::Executable = self
            .declared
            .workload
            .transcode_to()
            .map_err(|problem| Failure::new("INTERNAL", problem.to_string()))?;
        let request = UpdateExecutableRequest {
            r#ref: Some(current.reference()),
            labels: wanted.labels,
            expected_generation: current.generation(),
        };
        send(
            self.nodes,
            self.node(),
            "runtime.UpdateExecutable",
            &request,
        )
        .await
    }

    async fn update_cell(
        &self,
        verdict: &Verdict,
        current: &Current,
    ) -> Result<DynamicMessage, Failure> {
        let mut paths: Vec<String> = verdict
            .differences
            .iter()
            .map(|one| match one.field.starts_with("labels") {
                true => "labels".to_owned(),
                false => mask_path(&one.field),
            })
            .collect();
        paths.sort();
        paths.dedup();
        let workload = &self.declared.workload;
        // Of another subsystem's workload the Runtime knows the labels alone.
        let spec = child(workload, "spec").filter(|_| current.own.is_none());
        let spec = spec.map(|spec| spec.transcode_to()).transpose();
        let request = UpdateCellRequest {
            r#ref: Some(current.reference()),
            spec: spec.map_err(|problem| Failure::new("INTERNAL", problem.to_string()))?,
            labels: labels(workload),
            update_mask: Some(prost_types::FieldMask { paths }),
            expected_generation: current.generation(),
        };
        send(self.nodes, self.node(), "runtime.UpdateCell", &request).await
    }

    /// Another client has changed it since it was compared, or recreated it.
    fn overtaken(&self, mut failure: Failure) -> Failure {
        if matches!(failure.code.as_str(), "CONFLICT" | "NOT_FOUND") {
            let path = &self.declared.path;
            failure.code = "CONFLICT".to_owned();
            failure.message = format!("another client has changed {path} since it was compared");
            failure.hint = Some("apply once more: it compares with what is there then".to_owned());
            failure.object = Some(path.clone());
        }
        failure
    }

    /// Stops it and lets its record go, so that its name is free.
    async fn clear(&self, current: &Current, reference: ObjectRef) -> Result<(), Failure> {
        if let Some(own) = &current.own {
            return current::remove(self.nodes, self.node(), own, &reference).await;
        }
        prune::stop(self.nodes, self.node(), reference.clone()).await?;
        let request = RemoveRequest {
            r#ref: Some(reference),
            recursive: true,
            force: false,
        };
        let removed: Result<RemoveResponse, _> =
            question(self.nodes, self.node(), "runtime.Remove", &request).await;
        match removed {
            // It went by itself (`autoRemove`).
            Err(failure) if failure.code == "NOT_FOUND" => Ok(()),
            other => other.map(drop),
        }
    }
}
