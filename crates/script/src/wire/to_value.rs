// SPDX-License-Identifier: Apache-2.0
//! What a node answered, as a value. Fields with implicit presence are always there; others only
//! where they were set. Keys of maps are sorted, so that the same answer prints the same.

use std::collections::HashMap;

use language::schema::name;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind as Proto, MapKey, ReflectMessage, Value as Wire,
};

use super::{Path, WireError, WireErrorKind, duration, timestamp};
use crate::value::Value;

/// A message as a value. Fields that this API doesn't know are left out.
///
/// # Errors
/// A time or a duration that is none: the node is at fault.
pub fn from_message(message: &DynamicMessage) -> Result<Value, WireError> {
    object(&Path::Root, message)
}

fn object(path: &Path<'_>, message: &DynamicMessage) -> Result<Value, WireError> {
    let kind = message.descriptor();
    let declared = &kind.descriptor_proto().field;
    let mut entries = Vec::with_capacity(declared.len());
    for field in declared
        .iter()
        .filter_map(|field| kind.get_field_by_name(field.name()))
    {
        if field.supports_presence() && !message.has_field(&field) {
            continue;
        }
        let key = name::field(&field);
        let here = Path::Field(path, key);
        let value = field_value(&here, &field, &message.get_field(&field))?;
        entries.push((key.to_owned(), value));
    }
    Ok(Value::Object(entries))
}

fn field_value(path: &Path<'_>, field: &FieldDescriptor, value: &Wire) -> Result<Value, WireError> {
    let kind = field.kind();
    match (value, kind.as_message()) {
        (Wire::List(items), _) => {
            let items = items.iter().enumerate();
            let items = items.map(|(index, item)| one(&Path::Index(path, index), &kind, item));
            Ok(Value::Array(items.collect::<Result<_, _>>()?))
        }
        (Wire::Map(entries), Some(entry)) => {
            map(path, &entry.map_entry_value_field().kind(), entries)
        }
        (value, _) => one(path, &kind, value),
    }
}

fn map(path: &Path<'_>, kind: &Proto, entries: &HashMap<MapKey, Wire>) -> Result<Value, WireError> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    let made = sorted.into_iter().map(|(key, value)| {
        let key = key_text(key);
        let value = one(&Path::Key(path, &key), kind, value)?;
        Ok((key, value))
    });
    Ok(Value::Object(made.collect::<Result<_, _>>()?))
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(value) => value.to_string(),
        MapKey::I32(value) => value.to_string(),
        MapKey::I64(value) => value.to_string(),
        MapKey::U32(value) => value.to_string(),
        MapKey::U64(value) => value.to_string(),
        MapKey::String(text) => text.clone(),
    }
}

fn one(path: &Path<'_>, kind: &Proto, value: &Wire) -> Result<Value, WireError> {
    Ok(match value {
        Wire::Bool(value) => Value::Bool(*value),
        Wire::I32(number) => Value::Number((*number).into()),
        Wire::U32(number) => Value::Number((*number).into()),
        Wire::I64(number) => Value::BigInt((*number).into()),
        Wire::U64(number) => Value::BigInt((*number).into()),
        Wire::F32(number) => Value::Number((*number).into()),
        Wire::F64(number) => Value::Number(*number),
        Wire::String(text) => Value::String(text.clone()),
        Wire::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        Wire::EnumNumber(number) => enumeration(kind, *number),
        Wire::Message(inner) => message(path, inner)?,
        // Lists and maps are a field's, never a value's within one.
        Wire::List(_) | Wire::Map(_) => {
            let text = "a list where one value is expected";
            return Err(WireError::new(WireErrorKind::Answer, path, text));
        }
    })
}

/// The first name of the number; without one it stays a number.
fn enumeration(kind: &Proto, number: i32) -> Value {
    let known = kind.as_enum().and_then(|kind| kind.get_value(number));
    known.map_or_else(
        || Value::Number(number.into()),
        |value| Value::String(name::enum_value(&value)),
    )
}

fn message(path: &Path<'_>, inner: &DynamicMessage) -> Result<Value, WireError> {
    let kind = inner.descriptor();
    let (what, text) = match kind.full_name() {
        "google.protobuf.Duration" => ("duration", time(inner, duration::format)),
        "google.protobuf.Timestamp" => ("timestamp", time(inner, timestamp::format)),
        "google.protobuf.FieldMask" => {
            let Some(field) = kind.get_field(1) else {
                return object(path, inner);
            };
            return field_value(path, &field, &inner.get_field(&field));
        }
        _ => return object(path, inner),
    };
    text.map(Value::String).ok_or_else(|| {
        let part = |number| {
            inner
                .get_field_by_number(number)
                .map(|part| part.to_string())
        };
        let (seconds, nanos) = (part(1).unwrap_or_default(), part(2).unwrap_or_default());
        let text = format!("the node answered {seconds} s and {nanos} ns, which is no {what}");
        WireError::new(WireErrorKind::Answer, path, text)
    })
}

fn time(message: &DynamicMessage, format: fn(i64, i32) -> Option<String>) -> Option<String> {
    let seconds = message.get_field_by_number(1)?.as_i64()?;
    format(seconds, message.get_field_by_number(2)?.as_i32()?)
}
