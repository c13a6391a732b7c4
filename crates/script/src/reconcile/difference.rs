// SPDX-License-Identifier: Apache-2.0
//! In which fields two messages differ, under the language's names: what a program declares beside
//! the `spec` that the node was sent. Lists are compared whole, but those of things with names by
//! name, as maps by key; of what the contract marks as sensitive only is told that it differs.
//! Pure.

use std::collections::BTreeSet;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value as Field,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::value::Value;
use crate::wire;

/// One field that isn't as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The language's name: `spec.resources.memory.max`, `labels.app`.
    pub field: String,
    /// What the node has; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Json>,
    /// What is declared; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Json>,
    /// Its value isn't shown here: `from` and `to` only say that there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// What is declared will be known only once it is applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// Messages that say nothing when they are empty: a node doesn't keep them.
const SAYS_NOTHING: [&str; 6] = [
    "aurae.runtime.v0.Resources",
    "aurae.runtime.v0.Cpu",
    "aurae.runtime.v0.Memory",
    "aurae.runtime.v0.Io",
    "aurae.runtime.v0.LogPolicy",
    "aurae.runtime.v0.Seccomp",
];

/// Stands for a value that isn't shown.
const HIDDEN: &str = "(hidden)";

/// Whether a field's values aren't to be shown: `[debug_redact = true]` in the contract.
fn is_sensitive(field: &FieldDescriptor) -> bool {
    let value = field
        .options()
        .get_field_by_name("debug_redact")
        .map(|value| value.into_owned());
    value.is_some_and(|value| value.as_bool() == Some(true))
}

/// The differences of two messages of one type, where either may be absent.
pub(crate) fn differences(
    at: &str,
    from: Option<&DynamicMessage>,
    to: Option<&DynamicMessage>,
) -> Vec<Difference> {
    let mut found = Vec::new();
    if let Some(of) = from.or(to).map(ReflectMessage::descriptor) {
        compare(&of, at, from, to, &mut found);
    }
    found
}

fn compare(
    of: &MessageDescriptor,
    at: &str,
    from: Option<&DynamicMessage>,
    to: Option<&DynamicMessage>,
    found: &mut Vec<Difference>,
) {
    for field in of.fields() {
        let path = match at {
            "" => field.json_name().to_owned(),
            at => format!("{at}.{}", field.json_name()),
        };
        let held = |message: Option<&DynamicMessage>| {
            let message = message.filter(|message| message.has_field(&field))?;
            Some(message.get_field(&field).into_owned())
        };
        let (old, new) = (held(from), held(to));
        if old == new {
            continue;
        }
        if field.is_map() {
            by_key(&field, &path, (from, old), (to, new), found);
        } else if let Some(inner) = walked(&field) {
            inside(&inner, &path, old.as_ref(), new.as_ref(), found);
        } else if let Some(lists) = Lists::of(&field, old.as_ref(), new.as_ref()) {
            lists.compare(&path, found);
        } else {
            found.push(Difference {
                from: old.and_then(|_| shown(from, &field, None)),
                to: new.and_then(|_| shown(to, &field, None)),
                field: path,
                sensitive: is_sensitive(&field),
                unknown: false,
            });
        }
    }
}

/// The type of a field that is compared field by field.
fn walked(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(inner)
            if !field.is_list() && !inner.full_name().starts_with("google.protobuf.") =>
        {
            Some(inner)
        }
        _ => None,
    }
}

fn inside(
    of: &MessageDescriptor,
    path: &str,
    old: Option<&Field>,
    new: Option<&Field>,
    found: &mut Vec<Difference>,
) {
    let before = found.len();
    let message = |value: Option<&'_ Field>| value.and_then(Field::as_message).cloned();
    compare(
        of,
        path,
        message(old).as_ref(),
        message(new).as_ref(),
        found,
    );
    let same_but_for_presence = found.len() == before && old.is_some() != new.is_some();
    if same_but_for_presence && !SAYS_NOTHING.contains(&of.full_name()) {
        let empty = || Json::Object(serde_json::Map::new());
        found.push(Difference {
            field: path.to_owned(),
            from: old.map(|_| empty()),
            to: new.map(|_| empty()),
            sensitive: false,
            unknown: false,
        });
    }
}

fn by_key(
    field: &FieldDescriptor,
    path: &str,
    (from, old): (Option<&DynamicMessage>, Option<Field>),
    (to, new): (Option<&DynamicMessage>, Option<Field>),
    found: &mut Vec<Difference>,
) {
    let entries = |value: &Option<Field>| {
        let map = value.as_ref().and_then(Field::as_map);
        map.cloned().unwrap_or_default()
    };
    let (old, new) = (entries(&old), entries(&new));
    let keys: BTreeSet<String> = old.keys().chain(new.keys()).filter_map(key).collect();
    for key in keys {
        let typed = MapKey::String(key.clone());
        let (before, after) = (old.get(&typed), new.get(&typed));
        if before != after {
            found.push(Difference {
                from: before.and_then(|_| shown(from, field, Some(&key))),
                to: after.and_then(|_| shown(to, field, Some(&key))),
                field: format!("{path}.{key}"),
                sensitive: is_sensitive(field),
                unknown: false,
            });
        }
    }
}

fn key(key: &MapKey) -> Option<String> {
    key.as_str().map(str::to_owned)
}

/// Two lists of messages that have names, each unique: a pod's containers.
struct Lists {
    of: MessageDescriptor,
    old: Named,
    new: Named,
}

type Named = Vec<(String, DynamicMessage)>;

impl Lists {
    fn of(field: &FieldDescriptor, old: Option<&Field>, new: Option<&Field>) -> Option<Self> {
        let of = field
            .kind()
            .as_message()
            .filter(|_| field.is_list())?
            .clone();
        let name = of.get_field_by_name("name")?;
        (name.kind() == Kind::String && !name.is_list()).then_some(())?;
        let named = |list: Option<&Field>| {
            let items = list.and_then(Field::as_list).unwrap_or_default();
            let named = items.iter().map(|item| {
                let item = item.as_message()?.clone();
                let name = item.get_field(&name).as_str()?.to_owned();
                (!name.is_empty()).then_some((name, item))
            });
            let named: Named = named.collect::<Option<_>>()?;
            let names: BTreeSet<_> = named.iter().map(|(name, _)| name).collect();
            (names.len() == named.len()).then_some(named)
        };
        let (old, new) = (named(old)?, named(new)?);
        Some(Self { of, old, new })
    }

    fn compare(&self, path: &str, found: &mut Vec<Difference>) {
        let before = found.len();
        let names = |list: &Named| {
            list.iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        let (old, new) = (names(&self.old), names(&self.new));
        let added = new.iter().filter(|name| !old.contains(name));
        for name in old.iter().chain(added) {
            let item = |list: &Named| {
                let found = list.iter().find(|(other, _)| other == name);
                found.map(|(_, item)| Field::Message(item.clone()))
            };
            let at = format!("{path}.{name}");
            inside(
                &self.of,
                &at,
                item(&self.old).as_ref(),
                item(&self.new).as_ref(),
                found,
            );
            let said = format!("{at}.name");
            found.retain(|one| one.field != said || one.from.is_some() && one.to.is_some());
            let told = found.iter().any(|one| {
                let rest = one.field.strip_prefix(&at);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            if !told && old.contains(name) != new.contains(name) {
                let empty = || Json::Object(serde_json::Map::new());
                found.push(Difference {
                    field: at,
                    from: old.contains(name).then(empty),
                    to: new.contains(name).then(empty),
                    sensitive: false,
                    unknown: false,
                });
            }
        }
        if found.len() == before && old != new {
            found.push(Difference {
                field: path.to_owned(),
                from: Some(Json::from(old)),
                to: Some(Json::from(new)),
                sensitive: false,
                unknown: false,
            });
        }
    }
}

/// Puts a word in the place of every value that isn't to be shown, however deep.
fn hide(message: &mut DynamicMessage) {
    for (field, value) in message.fields_mut() {
        match value {
            Field::Message(inner) => hide(inner),
            Field::List(items) => {
                let inner = items.iter_mut().filter_map(Field::as_message_mut);
                inner.for_each(hide);
            }
            Field::Map(entries) => {
                for (_, value) in entries.iter_mut() {
                    match value {
                        Field::Message(inner) => hide(inner),
                        Field::String(text) if is_sensitive(&field) => HIDDEN.clone_into(text),
                        _ => {}
                    }
                }
            }
            Field::String(text) if is_sensitive(&field) => HIDDEN.clone_into(text),
            Field::Bytes(bytes) if is_sensitive(&field) => *bytes = HIDDEN.into(),
            _ => {}
        }
    }
}

/// A field's value as the language shows it.
fn shown(
    message: Option<&DynamicMessage>,
    field: &FieldDescriptor,
    key: Option<&str>,
) -> Option<Json> {
    if is_sensitive(field) {
        return Some(Json::String(HIDDEN.to_owned()));
    }
    let mut message = message?.clone();
    hide(&mut message);
    // What came from a request or from a node has been a value before.
    let mut value = wire::from_message(&message).ok()?;
    for name in [Some(field.json_name()), key].into_iter().flatten() {
        value = take(value, name)?;
    }
    Some(json(&value))
}

fn take(value: Value, name: &str) -> Option<Value> {
    let Value::Object(members) = value else {
        return None;
    };
    let mut members = members.into_iter();
    members
        .find(|(member, _)| member == name)
        .map(|(_, value)| value)
}

/// A value for people and programs; what JSON lacks becomes text.
pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::Undefined | Value::Null => Json::Null,
        Value::Bool(it) => Json::Bool(*it),
        Value::Number(it) if it.fract() == 0.0 && it.abs() < 9e15 => {
            #[allow(clippy::cast_possible_truncation, reason = "checked: whole and safe")]
            let whole = *it as i64;
            Json::from(whole)
        }
        Value::Number(it) => Json::from(*it),
        Value::BigInt(it) => match i64::try_from(*it) {
            Ok(it) if it.unsigned_abs() < 1 << 53 => Json::from(it),
            _ => Json::String(it.to_string()),
        },
        Value::String(it) => Json::String(it.clone()),
        Value::Bytes(it) => Json::String(format!("{} bytes", it.len())),
        Value::Array(items) => Json::Array(items.iter().map(json).collect()),
        Value::Object(members) => Json::Object(
            members
                .iter()
                .map(|(name, value)| (name.clone(), json(value)))
                .collect(),
        ),
        Value::Unknown(what) => Json::String(format!("(unknown: {what})")),
    }
}

/// `spec.resources.memory.swapMax` → `spec.resources.memory.swap_max`, as field masks say it.
pub(crate) fn mask_path(field: &str) -> String {
    let mut path = String::with_capacity(field.len() + 4);
    for c in field.chars() {
        if c.is_ascii_uppercase() {
            path.push('_');
        }
        path.push(c.to_ascii_lowercase());
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: Value) -> DynamicMessage {
        let pool = api::descriptor_pool().unwrap();
        let of = pool.get_message_by_name("aurae.runtime.v0.Cell").unwrap();
        wire::to_message(&of, &value).unwrap()
    }

    fn object(members: &[(&str, Value)]) -> Value {
        let members = members.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
        Value::Object(members.collect())
    }

    fn limited(max: i128) -> DynamicMessage {
        let memory = object(&[("max", Value::BigInt(max))]);
        let resources = object(&[("memory", memory)]);
        let labels = object(&[("app", Value::String(max.to_string()))]);
        cell(object(&[
            ("labels", labels),
            ("spec", object(&[("resources", resources)])),
        ]))
    }

    #[test]
    fn each_field_is_told_under_its_own_name() {
        let found = differences("", Some(&limited(1)), Some(&limited(2)));
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.field.as_str(), one.from.clone(), one.to.clone()))
            .collect();
        let text = |text: &str| Some(Json::String(text.to_owned()));
        assert_eq!(
            told,
            [
                ("labels.app", text("1"), text("2")),
                (
                    "spec.resources.memory.max",
                    Some(Json::from(1)),
                    Some(Json::from(2))
                ),
            ]
        );
        assert!(differences("", Some(&limited(1)), Some(&limited(1))).is_empty());
    }

    #[test]
    fn an_empty_message_that_says_nothing_is_no_difference() {
        let none = cell(object(&[("spec", object(&[]))]));
        let empty = object(&[("resources", object(&[("memory", object(&[]))]))]);
        let empty = cell(object(&[("spec", empty)]));
        assert_eq!(differences("", Some(&none), Some(&empty)), []);
        let gone = differences("", Some(&limited(1)), Some(&none));
        assert!(gone.iter().any(|one| one.to.is_none()), "{gone:?}");
    }

    fn pod(image: &str, names: [&str; 2]) -> DynamicMessage {
        let pool = api::descriptor_pool().unwrap();
        let of = pool.get_message_by_name("aurae.pod.v0.Pod").unwrap();
        let text = |text: &str| Value::String(text.to_owned());
        let env = object(&[("name", text("KEY")), ("value", text(image))]);
        let container = |name: &str| {
            let env = Value::Array(vec![env.clone()]);
            object(&[("name", text(name)), ("image", text(image)), ("env", env)])
        };
        let containers = Value::Array(names.map(container).into());
        let spec = object(&[("containers", containers)]);
        wire::to_message(&of, &object(&[("spec", spec)])).unwrap()
    }

    #[test]
    fn things_with_names_are_compared_by_name_and_secrets_in_them_are_hidden() {
        let (one, two) = (pod("secret:1", ["a", "b"]), pod("secret:2", ["a", "b"]));
        let found = differences("", Some(&one), Some(&two));
        let fields: Vec<_> = found.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.containers.a.image",
                "spec.containers.a.env.KEY.value",
                "spec.containers.b.image",
                "spec.containers.b.env.KEY.value",
            ]
        );
        assert!(found[1].sensitive && found[1].to == Some(Json::from(HIDDEN)));
        // Another order is a difference: containers begin in it.
        let turned = differences("", Some(&one), Some(&pod("secret:1", ["b", "a"])));
        assert_eq!(turned.len(), 1, "{turned:?}");
        assert_eq!(turned[0].to, Some(serde_json::json!(["b", "a"])));
        // Where names don't tell them apart the whole list is shown, without what is hidden.
        let twice = differences("", Some(&one), Some(&pod("secret:2", ["a", "a"])));
        let shown = format!("{twice:?}");
        assert_eq!(twice.len(), 1, "{shown}");
        assert!(
            shown.contains(HIDDEN) && shown.matches("secret:2").count() == 2,
            "{shown}"
        );
        let made = differences("", None, Some(&one));
        assert!(
            made.iter().all(|one| !one.field.ends_with(".name")),
            "{made:?}"
        );
    }

    #[test]
    fn masks_have_the_protos_names() {
        assert_eq!(
            mask_path("spec.resources.memory.swapMax"),
            "spec.resources.memory.swap_max"
        );
        assert_eq!(
            mask_path("spec.resources.pidsMax"),
            "spec.resources.pids_max"
        );
    }
}
