// SPDX-License-Identifier: Apache-2.0
//! The workload that a program declares by a call, and what has to be done for it, given what is
//! there. The decision is pure; a plan prints it, an apply does it. That a method declares, and
//! which field of its request is the workload, is the contract's word.

use std::collections::BTreeMap;

use api::runtime::v0::{Kind, Meta, ObjectRef, State, exit};
use api::sets::v0::Member;
use prost::Message;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value as Field};

use super::change::Action;
use super::current::{Current, Own};
use super::difference::{Difference, differences};
use super::set::{Claim, PROTECT_LABEL, SET_LABEL};
use crate::nodes::Found;
use crate::nodes::failure::in_the_language;
use crate::protocol::Failure;

/// The label of an executable that brought the cell it is in: that cell goes with it.
const CELL_LABEL: &str = "aurae.io/cell";
const OWN: &str = "own";

/// What can be changed on a running cell; everything else means another cell.
const CHANGEABLE: [&str; 3] = ["labels", "spec.mounts", "spec.resources"];

/// A workload as a program declares it.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// `cell`, `executable`, `pod`: the request's field, the object's kind.
    pub(crate) kind: String,
    /// Who is asked about it where the Runtime isn't.
    pub(crate) own: Option<Own>,
    /// Of the reference; empty: the caller's own.
    pub(crate) tenant: String,
    /// Its path.
    pub(crate) path: String,
    /// The request with the set's label, and another where it brings its own cell.
    pub(crate) request: DynamicMessage,
    /// The workload in it.
    pub(crate) workload: DynamicMessage,
}

/// When a call that runs a workload answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It runs, or the node keeps it.
    Start,
    /// All that goes on running in it is ready, or it has ended.
    Ready,
    /// It has ended.
    End,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) action: Action,
    pub(crate) differences: Vec<Difference>,
    pub(crate) reason: Option<String>,
}

impl Declared {
    /// What a call declares; none for a call that runs nothing.
    ///
    /// A request that isn't `whole`, since something in it is unknown, is taken as it is.
    ///
    /// # Errors
    /// A workload without a path, or with a spec that no node takes.
    pub(crate) fn of(
        found: &Found,
        request: &DynamicMessage,
        set: &str,
        whole: bool,
    ) -> Result<Option<Self>, Failure> {
        let Some(said) = &found.method.declares else {
            return Ok(None);
        };
        let workload = said.workload();
        let workload = workload.and_then(|name| request.descriptor().get_field_by_name(name));
        let Some(field) = workload else {
            return Ok(None);
        };
        let mut request = request.clone();
        let reference = child(&request, field.name()).and_then(|inner| child(&inner, "ref"));
        let path = reference.as_ref().map(|it| text(it, "path"));
        let Some(path) = path.filter(|path| !path.is_empty()) else {
            let mut failure = Failure::new("INVALID_FIELD", "a workload needs a path");
            failure.field = Some(format!("{}.ref.path", field.json_name()));
            return Err(failure);
        };
        let brings_cell = request.has_field_by_name("own_cell");
        if let Some(inner) = request
            .get_field_by_name_mut(field.name())
            .and_then(Field::as_message_mut)
        {
            put_label(inner, SET_LABEL, set);
            if brings_cell {
                put_label(inner, CELL_LABEL, OWN);
            }
            let at = format!("{}.spec", field.json_name());
            if whole {
                normalize(inner, "spec", &at)?;
            }
        }
        if whole {
            normalize(&mut request, "own_cell", "ownCell")?;
        }
        Ok(Some(Self {
            kind: field.json_name().to_owned(),
            own: Own::of(found),
            tenant: reference.map(|it| text(&it, "tenant")).unwrap_or_default(),
            path,
            workload: child(&request, field.name()).unwrap_or_else(|| request.clone()),
            request,
        }))
    }

    /// The cell that the executable brings with it.
    pub(crate) fn own_cell(&self) -> Option<DynamicMessage> {
        child(&self.request, "own_cell")
    }

    /// The path of the cell that it is in, and has to be there.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.path.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// When the call answers.
    pub(crate) fn waits_for(&self) -> Wait {
        let field = self.request.descriptor().get_field_by_name("wait_for");
        let wait = field.and_then(|field| {
            let number = self.request.get_field(&field).as_enum_number()?;
            let value = field.kind().as_enum()?.get_value(number)?;
            Some(value.name().to_owned())
        });
        match wait.as_deref() {
            Some("WAIT_FOR_EXITED" | "WAIT_FOR_ENDED") => Wait::End,
            Some("WAIT_FOR_READY") => Wait::Ready,
            _ => Wait::Start,
        }
    }

    /// What has to be done, given what is there. `own` is the cell that an executable brought.
    ///
    /// A name is free once its run has ended, whichever set that was of: so an object that one set
    /// has let go of can be declared in another.
    ///
    /// # Errors
    /// What runs under the name isn't of this set, or is protected.
    pub(crate) fn verdict(
        &self,
        claim: &Claim,
        current: Option<&Current>,
        own: Option<&Current>,
    ) -> Result<Verdict, Failure> {
        let Some(current) = current else {
            if let Some(cell) = own.filter(|cell| ended(cell, false).is_none()) {
                return Err(self.cell_is_there(cell));
            }
            let differences = self.fields();
            return Ok(verdict(Action::Create, differences, None));
        };
        let differences = self.differences(current, own);
        let over = ended(current, differences.is_empty());
        if let Some(reason) = over.clone().filter(|_| current.own.is_none()) {
            return Ok(verdict(Action::Start, differences, Some(reason)));
        }
        let owner = current.label(SET_LABEL);
        if owner != claim.set && !claim.adopt {
            return Err(self.not_ours(&claim.set, owner));
        }
        let taken = (owner != claim.set).then(|| match owner {
            "" => "it was of no set, and becomes part of this one".to_owned(),
            owner => format!("it was of the set {owner}, and becomes part of this one"),
        });
        if current.kind != self.kind {
            let reason = format!("it is a {}", current.kind);
            self.unless_protected(current)?;
            return Ok(verdict(Action::Replace, Vec::new(), Some(reason)));
        }
        if let Some(reason) = over {
            // What it left has its name still, and goes before it is run again.
            self.unless_protected(current)?;
            return Ok(verdict(Action::Start, differences, Some(reason)));
        }
        let action = match differences.as_slice() {
            [] => Action::Unchanged,
            some if some.iter().all(|one| self.is_changeable(one)) => Action::Update,
            _ => Action::Replace,
        };
        if action == Action::Replace {
            self.unless_protected(current)?;
        }
        Ok(verdict(action, differences, taken))
    }

    /// What has to be done where the object isn't there, but runs under a path that the program has
    /// given up for this one. None where what runs there is of no concern.
    ///
    /// # Errors
    /// It is protected.
    pub(crate) fn moved(
        &self,
        claim: &Claim,
        before: &Current,
    ) -> Result<Option<Verdict>, Failure> {
        if before.label(SET_LABEL) != claim.set || ended(before, false).is_some() {
            return Ok(None);
        }
        self.unless_protected(before)?;
        let path = before.reference().path;
        let reason = format!("it was {path}, and a node can't rename what runs");
        Ok(Some(verdict(Action::Replace, Vec::new(), Some(reason))))
    }

    fn not_ours(&self, set: &str, owner: &str) -> Failure {
        let path = &self.path;
        let message = match owner {
            "" => format!("{path} runs, and isn't of the set {set}: something else has started it"),
            owner => format!("{path} belongs to the set {owner}"),
        };
        let mut failure = Failure::new("CONFLICT", message)
            .hint("give this one another name, or take the other over with --adopt");
        failure.object = Some(path.clone());
        failure
    }

    /// A node makes the cell that an executable brings, and takes none that is there.
    fn cell_is_there(&self, cell: &Current) -> Failure {
        let (path, cell) = (&self.path, cell.reference().path);
        let message = format!("{path} has `ownCell`, but the cell {cell} already runs");
        let mut failure = Failure::new("CONFLICT", message).hint(format!(
            "stop {cell} first, or declare {path} without `ownCell`: then it runs in that cell"
        ));
        failure.object = Some(cell);
        failure
    }

    fn unless_protected(&self, current: &Current) -> Result<(), Failure> {
        if current.label(PROTECT_LABEL).is_empty() {
            return Ok(());
        }
        let path = current.reference().path;
        let message = format!("{path} is protected, and would have to be stopped and recreated");
        let mut failure = Failure::new("PROTECTED", message).hint(
            "leave its fields as they are; or apply it without `protect` first, then change it",
        );
        failure.object = Some(path);
        Err(failure)
    }

    /// What can be changed while it runs; everything else means another run.
    fn is_changeable(&self, difference: &Difference) -> bool {
        let changeable: &[&str] = match self.kind.as_str() {
            "cell" => &CHANGEABLE,
            _ => &CHANGEABLE[..1],
        };
        changeable.iter().any(|prefix| {
            let rest = difference.field.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// Everything that a new one has.
    fn fields(&self) -> Vec<Difference> {
        let mut wanted = self.workload.clone();
        wanted.clear_field_by_name("ref");
        let mut found = differences("", None, Some(&wanted));
        if let Some(cell) = self.own_cell() {
            found.extend(differences("ownCell", None, Some(&cell)));
        }
        // What only says whose it is goes without saying.
        found.retain(|one| !one.field.starts_with("labels.aurae.io/"));
        found
    }

    /// As a manifest keeps it; `own` is whose it is where the program doesn't say.
    pub(crate) fn member(&self, method: &str, own: &str) -> Member {
        let tenant = match self.tenant.as_str() {
            "" => own,
            tenant => tenant,
        };
        Member {
            method: method.to_owned(),
            kind: self.kind.clone(),
            key: [
                ("tenant".to_owned(), tenant.to_owned()),
                ("path".to_owned(), self.path.clone()),
            ]
            .into(),
        }
    }

    fn differences(&self, current: &Current, own: Option<&Current>) -> Vec<Difference> {
        if current.kind != self.kind {
            return Vec::new();
        }
        let mut there = DynamicMessage::new(self.workload.descriptor());
        if let Some(labels) = child(&current.status, "meta").and_then(|meta| {
            let labels = meta.get_field_by_name("labels")?.into_owned();
            Some(labels)
        }) {
            there.set_field_by_name("labels", labels);
        }
        if let Some(spec) = child(&current.status, "spec") {
            there.set_field_by_name("spec", Field::Message(spec));
        }
        let mut wanted = self.workload.clone();
        wanted.clear_field_by_name("ref");
        // A spec that isn't there is one without a field.
        for message in [&mut there, &mut wanted] {
            if child(message, "spec").is_none() {
                let of = message.descriptor().get_field_by_name("spec");
                if let Some(of) = of.and_then(|field| field.kind().as_message().cloned()) {
                    message.set_field_by_name("spec", Field::Message(DynamicMessage::new(of)));
                }
            }
        }
        let mut found = differences("", Some(&there), Some(&wanted));
        if let Some(cell) = self.own_cell() {
            let there = own.and_then(|own| child(&own.status, "spec"));
            let empty = DynamicMessage::new(cell.descriptor());
            found.extend(differences(
                "ownCell",
                Some(there.as_ref().unwrap_or(&empty)),
                Some(&cell),
            ));
        }
        found
    }
}

/// What a replacement stops. With an executable that brought its own cell that cell goes, and
/// whatever else is in it. `before` is what runs under the path that the program has given up for
/// this one, and `own` the cell that this one brings, where it is there.
pub(crate) fn going(
    before: Option<&Current>,
    own: Option<&Current>,
    current: Option<&Current>,
) -> Option<ObjectRef> {
    match before {
        Some(before) => goes_with(before.meta()).or(Some(before.reference())),
        None => own.or(current).map(Current::reference),
    }
}

/// What is done about an object that the command line leaves out: nothing.
pub(crate) fn apart() -> Verdict {
    verdict(
        Action::Unchanged,
        Vec::new(),
        Some("it isn't a --target".to_owned()),
    )
}

fn verdict(action: Action, differences: Vec<Difference>, reason: Option<String>) -> Verdict {
    Verdict {
        action,
        differences,
        reason,
    }
}

/// Why it has to be started again, in words; none where it runs, or has done what it was for.
fn ended(current: &Current, as_declared: bool) -> Option<String> {
    match (current.state, current.exit) {
        (State::Stopping, _) => Some("it is being stopped".to_owned()),
        (State::Failed, _) => Some("it has failed".to_owned()),
        (State::Exited, Some(exit::How::Code(0))) if as_declared => None,
        (State::Exited, Some(exit::How::Code(code))) => Some(format!("it ended with {code}")),
        (State::Exited, Some(exit::How::Signal(signal))) => {
            Some(format!("it was ended by signal {signal}"))
        }
        (State::Exited, _) => Some("it has ended".to_owned()),
        _ => None,
    }
}

/// A message within a message, where it is set.
pub(crate) fn child(message: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    if !message.has_field_by_name(name) {
        return None;
    }
    message.get_field_by_name(name)?.as_message().cloned()
}

/// The labels of a workload.
pub(crate) fn labels(workload: &DynamicMessage) -> BTreeMap<String, String> {
    let labels = workload.get_field_by_name("labels");
    let entries = labels.as_ref().and_then(|labels| labels.as_map());
    let entries = entries.into_iter().flatten();
    let text = |(key, value): (&MapKey, &Field)| {
        Some((key.as_str()?.to_owned(), value.as_str()?.to_owned()))
    };
    entries.filter_map(text).collect()
}

/// A string of a message; empty where it isn't set.
pub(crate) fn text(message: &DynamicMessage, name: &str) -> String {
    let value = message.get_field_by_name(name);
    value
        .as_ref()
        .and_then(|value| value.as_str())
        .unwrap_or_default()
        .to_owned()
}

/// Puts a spec into the form that a node gives it back in: what says the same is the same. A node
/// does just this with what it is sent, by the same code.
fn normalize(holder: &mut DynamicMessage, name: &str, at: &str) -> Result<(), Failure> {
    let Some(spec) = child(holder, name) else {
        return Ok(());
    };
    let mut normal = DynamicMessage::new(spec.descriptor());
    let done = match spec.descriptor().name() {
        "CellSpec" => {
            let wire = typed(&spec)?;
            let checked = api::convert::cell::spec(wire).map_err(|e| malformed(at, &e))?;
            normal.transcode_from(&api::convert::cell::to_spec(&checked))
        }
        "ExecutableSpec" => {
            let wire = typed(&spec)?;
            let checked = api::convert::executable::spec(wire).map_err(|e| malformed(at, &e))?;
            normal.transcode_from(&api::convert::executable::to_spec(&checked))
        }
        "PodSpec" => {
            let wire = typed(&spec)?;
            let checked = api::convert::pod::spec(wire).map_err(|e| malformed(at, &e))?;
            normal.transcode_from(&api::convert::pod::to_spec(&checked))
        }
        // A kind of workload that is newer than this: compared as it was written.
        _ => return Ok(()),
    };
    done.map_err(|problem| Failure::new("INTERNAL", problem.to_string()))?;
    holder.set_field_by_name(name, Field::Message(normal));
    Ok(())
}

pub(crate) fn typed<M: Message + Default>(message: &DynamicMessage) -> Result<M, Failure> {
    message
        .transcode_to()
        .map_err(|problem| Failure::new("INTERNAL", problem.to_string()))
}

/// What a node would refuse, refused before anything is asked of it.
pub(crate) fn malformed(at: &str, problem: &api::convert::Error) -> Failure {
    let field = match problem.field.as_deref().map(in_the_language) {
        Some(field) if at.is_empty() => field,
        Some(field) => format!("{at}.{field}"),
        None => at.to_owned(),
    };
    let mut failure = Failure::new("INVALID_FIELD", format!("{field} {}", problem.message));
    failure.field = Some(field);
    failure.hint.clone_from(&problem.hint);
    failure
}

/// The cell that goes with an object which an apply has made, by what it has labelled it with.
pub(crate) fn goes_with(meta: &Meta) -> Option<ObjectRef> {
    let reference = meta.r#ref.as_ref()?;
    let brought = meta.labels.get(CELL_LABEL).is_some_and(|it| it == OWN);
    let (cell, _) = reference.path.rsplit_once('/').filter(|_| brought)?;
    Some(ObjectRef {
        tenant: reference.tenant.clone(),
        path: cell.to_owned(),
        uid: String::new(),
        kind: Kind::Cell.into(),
    })
}

fn put_label(workload: &mut DynamicMessage, name: &str, value: &str) {
    let labels = workload
        .get_field_by_name_mut("labels")
        .and_then(Field::as_map_mut);
    if let Some(labels) = labels {
        let key = MapKey::String(name.to_owned());
        labels.insert(key, Field::String(value.to_owned()));
    }
}
