// SPDX-License-Identifier: Apache-2.0
//! What a call would answer, as far as its request says: everything else is *unknown* by name, and
//! a program that branches on it is told so by its line. Pure.

use api::runtime::v0::Kind;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage};

use super::desired::{Declared, Wait, child, text};
use crate::protocol::Failure;
use crate::value::Value;
use crate::wire;

/// What is unknown in a request: where, and what it would be.
pub(crate) type Unknowns = Vec<(String, String)>;

/// Takes what is unknown out of a request, so that the rest can be checked.
pub(crate) fn take_unknowns(request: &mut Value) -> Unknowns {
    let mut found = Vec::new();
    take(request, "", &mut found);
    found
}

fn take(value: &mut Value, at: &str, found: &mut Unknowns) {
    match value {
        Value::Unknown(what) => {
            found.push((at.to_owned(), what.clone()));
            *value = Value::Undefined;
        }
        Value::Array(items) => {
            let before = found.len();
            for (index, item) in items.iter_mut().enumerate() {
                take(item, &format!("{at}[{index}]"), found);
            }
            // An array has no holes: what is known of it is told, the whole of it is unknown.
            if found.len() > before {
                items.retain(|item| *item != Value::Undefined);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let path = match at {
                    "" => name.clone(),
                    at => format!("{at}.{name}"),
                };
                take(member, &path, found);
            }
        }
        _ => {}
    }
}

/// `runtime.RunCell(web)`: what unknown values are called by.
pub(crate) fn called(action: &str, name: &str) -> String {
    format!("{action}({name})")
}

/// The status of a workload that would run.
pub(crate) fn status(
    action: &str,
    declared: &Declared,
    of: &MessageDescriptor,
) -> Result<Value, Failure> {
    let label = called(action, &declared.path);
    let waits = declared.waits_for();
    let state = match waits {
        Wait::End => "exited",
        Wait::Start | Wait::Ready => "running",
    };
    let workload = wire::from_message(&declared.workload)?;
    let members = of.fields().map(|field| {
        let name = field.json_name().to_owned();
        let value = match name.as_str() {
            "meta" => meta(&label, declared, &workload),
            "spec" => member(&workload, "spec"),
            "state" => Value::String(state.to_owned()),
            "ready" if waits == Wait::Ready => Value::Bool(true),
            _ => Value::Unknown(format!("{label}.{name}")),
        };
        (name, value)
    });
    Ok(Value::Object(members.collect()))
}

fn meta(label: &str, declared: &Declared, workload: &Value) -> Value {
    let unknown = |name: &str| Value::Unknown(format!("{label}.meta.{name}"));
    let tenant = match declared.tenant.as_str() {
        "" => unknown("ref.tenant"),
        tenant => Value::String(tenant.to_owned()),
    };
    let kind = Kind::from_str_name(&format!("KIND_{}", declared.kind.to_ascii_uppercase()));
    let reference = [
        ("tenant", tenant),
        ("path", Value::String(declared.path.clone())),
        ("uid", unknown("ref.uid")),
        (
            "kind",
            kind.map_or_else(
                || unknown("ref.kind"),
                |_| Value::String(declared.kind.clone()),
            ),
        ),
    ];
    let labels = member(workload, "labels");
    object([
        ("ref", object(reference)),
        ("labels", labels),
        ("generation", unknown("generation")),
        ("revision", unknown("revision")),
        ("created", unknown("created")),
    ])
}

/// The answer of any other call: a field that the request has under the same name is known.
pub(crate) fn answer(
    action: &str,
    name: &str,
    request: &DynamicMessage,
    of: &MessageDescriptor,
) -> Result<Value, Failure> {
    let label = called(action, name);
    let sent = wire::from_message(request)?;
    let members = of.fields().map(|field| {
        let name = field.json_name().to_owned();
        let same = request.descriptor().get_field_by_name(field.name());
        let known = same.is_some_and(|same| {
            same.kind() == field.kind()
                && same.cardinality() == field.cardinality()
                && request.has_field(&same)
        });
        let value = match known {
            true => member(&sent, &name),
            false => Value::Unknown(format!("{label}.{name}")),
        };
        (name, value)
    });
    Ok(Value::Object(members.collect()))
}

/// The fields of a request that name what it is about, where it has no reference.
pub(crate) const SUBJECTS: [&str; 4] = ["name", "user", "id", "serial"];

/// The object of a request, for people: its reference's path, its user, its name.
pub(crate) fn subject(request: &DynamicMessage) -> String {
    if let Some(reference) = child(request, "ref") {
        return text(&reference, "path");
    }
    let found = SUBJECTS.iter().map(|name| text(request, name));
    found
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or_default()
}

/// A status with another state, and nothing known of how it ended.
pub(crate) fn stopped(label: &str, status: Value) -> Value {
    let Value::Object(members) = status else {
        return status;
    };
    let members = members
        .into_iter()
        .map(|(name, value)| match name.as_str() {
            "state" => (name, Value::String("exited".to_owned())),
            "exit" | "finished" | "pid" | "phase" | "ready" | "containers" | "initContainers" => {
                let what = format!("{label}.{name}");
                (name, Value::Unknown(what))
            }
            _ => (name, value),
        });
    Value::Object(members.collect())
}

/// A member of an object; undefined where there is none.
pub(crate) fn member(value: &Value, name: &str) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .find(|(member, _)| member == name)
            .map_or(Value::Undefined, |(_, value)| value.clone()),
        _ => Value::Undefined,
    }
}

/// An object of these members.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let members = members.into_iter();
    Value::Object(
        members
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_taken_out_by_its_path() {
        let unknown = |what: &str| Value::Unknown(what.to_owned());
        let mut request = object([(
            "spec",
            object([
                ("cwd", unknown("a.b")),
                ("argv", Value::Array(vec![unknown("c"), Value::Bool(true)])),
            ]),
        )]);
        let found = take_unknowns(&mut request);
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["spec.cwd", "spec.argv[0]"]);
        let argv = member(&member(&request, "spec"), "argv");
        assert_eq!(argv, Value::Array(vec![Value::Bool(true)]));
    }
}
