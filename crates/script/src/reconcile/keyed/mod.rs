// SPDX-License-Identifier: Apache-2.0
//! Declared objects that aren't workloads: users, grants, and whatever the contract marks next. How
//! one is named, found, compared and taken away is read from the method's `declares` option; no
//! method is known by name here.

mod compared;

use std::collections::BTreeMap;

use api::sets::v0::Member;
use language::schema::{Declares, name};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value as Field};
use serde_json::Value as Json;

use super::change::{Action, Change};
use super::desired::Verdict;
use super::difference::{Difference, differences};
use super::set::Claim;
use crate::nodes::{Ask, Found, Nodes, Question};
use crate::protocol::Failure;

pub(crate) use compared::Compared;

/// One declared object.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    found: Found,
    said: &'static Declares,
    /// What names it, by the field's path; the tenant is said.
    key: BTreeMap<String, String>,
    /// The program's request; empty for one that a manifest remembers.
    pub(crate) request: DynamicMessage,
}

impl Keyed {
    /// Whether a method declares one.
    pub(crate) fn is_declared_by(found: &Found) -> bool {
        said(found).is_some()
    }

    /// What a call declares; none for a call that declares nothing, or a workload. `own` is whose
    /// it is where the request doesn't say.
    pub(crate) fn of(found: &Found, request: &DynamicMessage, own: &str) -> Option<Self> {
        let said = said(found)?;
        let mut key = BTreeMap::new();
        for path in &said.key {
            let text = text_of(request, path);
            let text = match path.as_str() {
                "tenant" if text.is_empty() => own.to_owned(),
                _ => text,
            };
            key.insert(path.clone(), text);
        }
        for (field, from) in &said.default {
            let value = key.get(from).cloned().unwrap_or_default();
            if let Some(empty) = key.get_mut(field).filter(|text| text.is_empty()) {
                *empty = value;
            }
        }
        Some(Self {
            found: found.clone(),
            said,
            key,
            request: request.clone(),
        })
    }

    /// An object that a manifest remembers; none where this client doesn't know its method.
    pub(crate) fn remembered(nodes: &Nodes, member: &Member) -> Option<Self> {
        let found = nodes.find(&member.method).ok()?;
        let said = said(&found)?;
        Some(Self {
            request: DynamicMessage::new(found.descriptor.input()),
            said,
            key: member.key.clone().into_iter().collect(),
            found,
        })
    }

    /// `grant`.
    pub(crate) fn kind(&self) -> &str {
        &self.said.kind
    }

    /// As people call it: its key without the tenant and what the node fills in.
    pub(crate) fn name(&self) -> String {
        let filled = |path: &str| self.said.default.iter().any(|(field, _)| field == path);
        let parts = self
            .said
            .key
            .iter()
            .filter(|path| path.as_str() != "tenant" && !filled(path));
        let parts: Vec<_> = parts
            .filter_map(|path| self.part(path))
            .filter(|text| !text.is_empty())
            .collect();
        parts.join(" ")
    }

    /// A part of the key as a program writes it: the values of enums are words.
    fn part(&self, path: &str) -> Option<String> {
        let text = self.key.get(path)?;
        let of = at(&self.request, path).map(|(field, _)| field.kind());
        let of = of.as_ref().and_then(Kind::as_enum);
        let value = of.and_then(|of| of.get_value_by_name(text));
        Some(value.map_or_else(|| text.clone(), |value| name::enum_value(&value)))
    }

    /// Whose it is, where its key says so.
    pub(crate) fn tenant(&self) -> String {
        self.key.get("tenant").cloned().unwrap_or_default()
    }

    /// As a manifest keeps it.
    pub(crate) fn member(&self) -> Member {
        Member {
            method: self.found.method.action.clone(),
            kind: self.said.kind.clone(),
            key: self.key.clone(),
        }
    }

    /// Whether nothing takes it away.
    pub(crate) fn stays(&self) -> bool {
        self.said.removed_by.is_empty()
    }

    /// What the node has of it.
    ///
    /// # Errors
    /// The node can't be asked.
    pub(crate) async fn current(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
    ) -> Result<Option<DynamicMessage>, Failure> {
        let mut ask = self.ask(nodes, node, &self.said.found_by)?;
        for field in ask.descriptor.input().fields() {
            let value = self.key.get(field.name()).and_then(|it| parsed(&field, it));
            if let Some(value) = value.or_else(|| self.declared(field.name())) {
                // A field of that name and another type asks for something else.
                let _ = ask.request.try_set_field_by_name(field.name(), value);
            }
        }
        let answer = match nodes.unary(ask).await {
            Err(failure) if failure.code == "NOT_FOUND" => return Ok(None),
            other => other?,
        };
        let mut objects = vec![answer];
        for part in self.said.among.split('.').filter(|part| !part.is_empty()) {
            objects = objects.iter().flat_map(|one| inside(one, part)).collect();
        }
        Ok(objects.into_iter().find(|object| self.is(object)))
    }

    /// What the program declares of a compared field.
    fn declared(&self, name: &str) -> Option<Field> {
        let is_compared = self.said.compared.iter().any(|path| path == name);
        let of = self.request.descriptor().get_field_by_name(name)?;
        let is_said = is_compared && self.request.has_field(&of);
        is_said.then(|| self.request.get_field(&of).into_owned())
    }

    /// Whether an object is the one that the key names.
    fn is(&self, object: &DynamicMessage) -> bool {
        let having = self.said.having.iter();
        let mut having = having.map(|(field, value)| (field.as_str(), value.as_str()));
        having.all(|(field, value)| text_of(object, field) == value)
            && self.key.iter().all(|(path, value)| {
                let field = last(path);
                let there = text_of(object, field);
                let from = self.said.default.iter().find(|(of, _)| of == field);
                let there = match from.filter(|_| there.is_empty()) {
                    Some((_, from)) => text_of(object, from),
                    None => there,
                };
                there == *value
            })
    }

    /// The change that a verdict is.
    pub(crate) fn change(&self, verdict: Verdict, asked: &Question<'_>) -> Change {
        Change {
            tenant: self.tenant(),
            node: asked.call.node.clone(),
            reason: verdict.reason,
            differences: verdict.differences,
            at: asked.at.clone(),
            ..Change::new(verdict.action, self.kind(), self.name())
        }
    }

    /// What has to be done, given what is there and whether that is of the set.
    ///
    /// # Errors
    /// It isn't of the set.
    pub(crate) fn verdict(
        &self,
        current: Option<&DynamicMessage>,
        ours: bool,
        claim: &Claim,
    ) -> Result<Verdict, Failure> {
        if !claim.is_about(&self.name()) {
            let reason = Some("it isn't a --target".to_owned());
            return Ok(verdict(Action::Unchanged, Vec::new(), reason));
        }
        let adopt = claim.adopt;
        let Some(current) = current else {
            return Ok(verdict(Action::Create, self.fields(), None));
        };
        let found = self.differences(current);
        match (found.is_empty(), ours || adopt) {
            (true, true) if !ours => Ok(verdict(
                Action::Adopt,
                found,
                Some("it is there as declared, and becomes part of the set".to_owned()),
            )),
            (true, true) => Ok(verdict(Action::Unchanged, found, None)),
            // Taking it over would mean nothing: it stays either way.
            (true, false) if self.stays() => Ok(verdict(
                Action::Unchanged,
                found,
                Some("it was there before, and isn't of this set".to_owned()),
            )),
            (false, true) if self.is_changed_by_a_call(current) => {
                Ok(verdict(Action::Update, found, None))
            }
            (false, true) => Ok(verdict(Action::Replace, found, None)),
            (as_declared, false) => Err(self.not_ours(as_declared)),
        }
    }

    /// Whether the method, called once more, changes what is there.
    fn is_changed_by_a_call(&self, current: &DynamicMessage) -> bool {
        let fixed = current.get_field_by_name(&self.said.fixed);
        let fixed = fixed.is_some_and(|value| value.as_bool() == Some(true));
        self.said.replaces && !fixed
    }

    fn not_ours(&self, as_declared: bool) -> Failure {
        let name = self.name();
        let differs = match as_declared {
            true => "something else has made it",
            false => "it isn't as declared",
        };
        let message = format!(
            "there is a {} {name} already, which isn't of this set: {differs}",
            self.kind()
        );
        let mut failure = Failure::new("CONFLICT", message)
            .hint("declare another one, or take that over with --adopt");
        failure.object = Some(name);
        failure
    }

    /// Everything that a new one has: what its method stands for, and what the request says.
    fn fields(&self) -> Vec<Difference> {
        let having = self.said.having.iter().map(|(field, value)| {
            let short = value.rsplit('_').next().unwrap_or(value);
            Difference {
                field: field.clone(),
                from: None,
                to: Some(Json::String(short.to_ascii_lowercase())),
                sensitive: false,
                unknown: false,
            }
        });
        let mut found: Vec<_> = having.collect();
        found.extend(differences("", None, Some(&self.request)));
        found
    }

    fn differences(&self, current: &DynamicMessage) -> Vec<Difference> {
        let mut found = Vec::new();
        for path in &self.said.compared {
            let wanted = only(&self.request, path);
            let there = only(current, last(path));
            // Both as the request's type, so that the same field has the same name and type.
            let mut same = DynamicMessage::new(self.request.descriptor());
            if let Some(value) =
                there.and_then(|there| there.get_field_by_name(last(path)).map(|v| v.into_owned()))
            {
                let _ = same.try_set_field_by_name(path, value);
            }
            found.extend(differences("", Some(&same), wanted.as_ref()));
        }
        found
    }

    /// The request that takes it away, filled from what is there.
    ///
    /// # Errors
    /// The contract names no such method.
    pub(crate) fn removal(
        &self,
        nodes: &Nodes,
        node: Option<&str>,
        current: &DynamicMessage,
    ) -> Result<Ask, Failure> {
        let mut ask = self.ask(nodes, node, &self.said.removed_by)?;
        for field in ask.descriptor.input().fields() {
            let value = parsed(&field, &text_of(current, field.name()));
            if let Some(value) = value {
                ask.request.set_field(&field, value);
            }
        }
        Ok(ask)
    }

    /// The object as the method would have answered, where it answers with the object.
    pub(crate) fn answer(&self, current: DynamicMessage) -> Option<DynamicMessage> {
        let of = self.found.descriptor.output();
        (current.descriptor().full_name() == of.full_name()).then_some(current)
    }

    fn ask(&self, nodes: &Nodes, node: Option<&str>, name: &str) -> Result<Ask, Failure> {
        let action = &self.found.method.action;
        let subsystem = action.split('.').next().unwrap_or_default();
        let Found { method, descriptor } = nodes.find(&format!("{subsystem}.{name}"))?;
        Ok(Ask {
            node: node.map(str::to_owned),
            method,
            request: DynamicMessage::new(descriptor.input()),
            descriptor,
            timeout: None,
        })
    }
}

fn said(found: &Found) -> Option<&'static Declares> {
    let said = found.method.declares.as_ref()?;
    let keyed = !said.found_by.is_empty() && said.workload().is_none();
    keyed.then_some(said)
}

fn verdict(action: Action, differences: Vec<Difference>, reason: Option<String>) -> Verdict {
    Verdict {
        action,
        differences,
        reason,
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// A field by its path, as text.
fn at(message: &DynamicMessage, path: &str) -> Option<(FieldDescriptor, String)> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    let field = message.descriptor().get_field_by_name(first)?;
    let value = message.get_field(&field);
    match rest {
        Some(rest) => at(value.as_message()?, rest),
        None => {
            let text = text(&field, &value);
            Some((field, text))
        }
    }
}

fn text_of(message: &DynamicMessage, field: &str) -> String {
    at(message, field).map(|(_, text)| text).unwrap_or_default()
}

/// A scalar as its JSON form says it, without quotes.
fn text(field: &FieldDescriptor, value: &Field) -> String {
    match (value, field.kind()) {
        (Field::String(text), _) => text.clone(),
        (Field::Bool(it), _) => it.to_string(),
        (Field::I32(it), _) => it.to_string(),
        (Field::I64(it), _) => it.to_string(),
        (Field::U32(it), _) => it.to_string(),
        (Field::U64(it), _) => it.to_string(),
        (Field::EnumNumber(number), Kind::Enum(of)) => of
            .get_value(*number)
            .map_or_else(|| number.to_string(), |value| value.name().to_owned()),
        _ => String::new(),
    }
}

/// The way back; none where the field can't hold it, or isn't a scalar.
fn parsed(field: &FieldDescriptor, text: &str) -> Option<Field> {
    if field.is_list() || field.is_map() || text.is_empty() {
        return None;
    }
    match field.kind() {
        Kind::String => Some(Field::String(text.to_owned())),
        Kind::Bool => text.parse().ok().map(Field::Bool),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => text.parse().ok().map(Field::I32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => text.parse().ok().map(Field::I64),
        Kind::Uint32 | Kind::Fixed32 => text.parse().ok().map(Field::U32),
        Kind::Uint64 | Kind::Fixed64 => text.parse().ok().map(Field::U64),
        Kind::Enum(of) => {
            let value = of.get_value_by_name(text)?;
            Some(Field::EnumNumber(value.number()))
        }
        _ => None,
    }
}

/// The messages of a field, be it one or a list.
fn inside(message: &DynamicMessage, part: &str) -> Vec<DynamicMessage> {
    let Some(value) = message.get_field_by_name(part) else {
        return Vec::new();
    };
    match value.as_ref() {
        Field::Message(one) if message.has_field_by_name(part) => vec![one.clone()],
        Field::List(items) => {
            let items = items.iter().filter_map(Field::as_message);
            items.cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// The message with that field alone.
fn only(message: &DynamicMessage, field: &str) -> Option<DynamicMessage> {
    let of = message.descriptor().get_field_by_name(field)?;
    let mut alone = DynamicMessage::new(message.descriptor());
    if message.has_field(&of) {
        alone.set_field(&of, message.get_field(&of).into_owned());
    }
    Some(alone)
}

#[cfg(test)]
mod tests;
