// SPDX-License-Identifier: Apache-2.0
//! What a program hands over, as a message. Every error names the field as it was written.

use std::collections::HashMap;

use language::schema::{name, nearest};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind as Proto, MapKey, MessageDescriptor,
    Value as Wire,
};

use super::duration::{self, NoDuration};
use super::timestamp::{self, NoTimestamp};
use super::{Path, WireError, WireErrorKind, bounds};
use crate::value::Value;

/// Messages within messages; what is deeper no decoder would take.
const MAX_DEPTH: usize = 200;

/// A value as a message of that type. `undefined` is the empty message.
///
/// # Errors
/// The first thing that doesn't fit, with its place.
pub fn to_message(kind: &MessageDescriptor, value: &Value) -> Result<DynamicMessage, WireError> {
    match value {
        Value::Undefined => Ok(DynamicMessage::new(kind.clone())),
        value => message(&Path::Root, kind, value),
    }
}

fn message(
    path: &Path<'_>,
    kind: &MessageDescriptor,
    value: &Value,
) -> Result<DynamicMessage, WireError> {
    let Value::Object(entries) = value else {
        return Err(wrong_type(path, "an object", value));
    };
    if path.depth() > MAX_DEPTH {
        let message = "the request is nested too deep";
        return Err(WireError::new(WireErrorKind::OutOfRange, path, message));
    }
    let mut made = DynamicMessage::new(kind.clone());
    let mut chosen: HashMap<String, &str> = HashMap::new();
    for (key, value) in entries {
        let Some(field) = kind.get_field_by_json_name(key) else {
            return Err(unknown_field(path, kind, key));
        };
        if matches!(value, Value::Undefined) {
            continue;
        }
        let here = Path::Field(path, key);
        if let Some(oneof) = field.containing_oneof()
            && let Some(other) = chosen.insert(oneof.name().to_owned(), key)
        {
            let text = format!("{other} is set as well, and only one of them may be");
            return Err(WireError::new(WireErrorKind::TwoOfOneof, &here, text));
        }
        let value = field_value(&here, &field, value)?;
        made.set_field(&field, value);
    }
    Ok(made)
}

fn field_value(path: &Path<'_>, field: &FieldDescriptor, value: &Value) -> Result<Wire, WireError> {
    if field.is_map() {
        return map(path, field, value);
    }
    if !field.is_list() {
        return one(path, &field.kind(), value);
    }
    let Value::Array(items) = value else {
        return Err(wrong_type(path, "an array", value));
    };
    let items = items
        .iter()
        .enumerate()
        .map(|(index, item)| one(&Path::Index(path, index), &field.kind(), item));
    Ok(Wire::List(items.collect::<Result<_, _>>()?))
}

fn map(path: &Path<'_>, field: &FieldDescriptor, value: &Value) -> Result<Wire, WireError> {
    let Value::Object(entries) = value else {
        return Err(wrong_type(path, "an object", value));
    };
    let kind = field.kind();
    let Some(entry) = kind.as_message() else {
        return Err(wrong_type(path, "a map", value));
    };
    let (key_kind, value_kind) = (
        entry.map_entry_key_field().kind(),
        entry.map_entry_value_field().kind(),
    );
    let mut made = HashMap::with_capacity(entries.len());
    for (key, value) in entries
        .iter()
        .filter(|(_, value)| *value != Value::Undefined)
    {
        let here = Path::Key(path, key);
        made.insert(
            map_key(&here, &key_kind, key)?,
            one(&here, &value_kind, value)?,
        );
    }
    Ok(Wire::Map(made))
}

/// Keys are written as JavaScript would write them: anything else would come back otherwise.
fn map_key(path: &Path<'_>, kind: &Proto, key: &str) -> Result<MapKey, WireError> {
    let canonical = |made: Option<MapKey>, text: Option<String>| {
        made.filter(|_| text.as_deref() == Some(key))
            .ok_or_else(|| {
                let message = format!("the key {key:?} is no {}", scalar_name(kind));
                WireError::new(WireErrorKind::WrongType, path, message)
            })
    };
    macro_rules! parsed {
        ($type:ty, $make:path) => {{
            let number = key.parse::<$type>().ok();
            canonical(number.map($make), number.map(|number| number.to_string()))
        }};
    }
    match kind {
        Proto::Bool => parsed!(bool, MapKey::Bool),
        Proto::Int32 | Proto::Sint32 | Proto::Sfixed32 => parsed!(i32, MapKey::I32),
        Proto::Uint32 | Proto::Fixed32 => parsed!(u32, MapKey::U32),
        Proto::Int64 | Proto::Sint64 | Proto::Sfixed64 => parsed!(i64, MapKey::I64),
        Proto::Uint64 | Proto::Fixed64 => parsed!(u64, MapKey::U64),
        _ => Ok(MapKey::String(key.to_owned())),
    }
}

fn one(path: &Path<'_>, kind: &Proto, value: &Value) -> Result<Wire, WireError> {
    Ok(match (kind, value) {
        (_, Value::Unknown(what)) => return Err(unknown(path, what)),
        (Proto::Bool, Value::Bool(value)) => Wire::Bool(*value),
        (Proto::String, Value::String(text)) => Wire::String(text.clone()),
        (Proto::Bytes, Value::Bytes(bytes)) => Wire::Bytes(bytes.clone().into()),
        (Proto::Int32 | Proto::Sint32 | Proto::Sfixed32, value) => {
            Wire::I32(bounds::integer(path, value, "a signed number of 32 bits")?)
        }
        (Proto::Uint32 | Proto::Fixed32, value) => Wire::U32(bounds::integer(
            path,
            value,
            "an unsigned number of 32 bits",
        )?),
        (Proto::Int64 | Proto::Sint64 | Proto::Sfixed64, value) => {
            Wire::I64(bounds::integer(path, value, "a signed number of 64 bits")?)
        }
        (Proto::Uint64 | Proto::Fixed64, value) => Wire::U64(bounds::integer(
            path,
            value,
            "an unsigned number of 64 bits",
        )?),
        (Proto::Float, Value::Number(number)) => Wire::F32(bounds::float(path, *number)?),
        (Proto::Double, Value::Number(number)) => Wire::F64(*number),
        (Proto::Enum(kind), value) => Wire::EnumNumber(enumeration(path, kind, value)?),
        (Proto::Message(kind), value) => Wire::Message(inner(path, kind, value)?),
        (kind, value) => return Err(wrong_type(path, scalar_name(kind), value)),
    })
}

fn inner(
    path: &Path<'_>,
    kind: &MessageDescriptor,
    value: &Value,
) -> Result<DynamicMessage, WireError> {
    match kind.full_name() {
        "google.protobuf.Duration" => {
            let Value::String(text) = value else {
                return Err(wrong_type(path, "a duration such as \"1m30s\"", value));
            };
            let parsed = duration::parse(text).map_err(|why| no_duration(path, text, why))?;
            Ok(seconds_and_nanos(kind, parsed))
        }
        "google.protobuf.Timestamp" => {
            let expected = "a timestamp such as \"2026-01-31T08:00:00Z\"";
            let Value::String(text) = value else {
                return Err(wrong_type(path, expected, value));
            };
            let parsed = timestamp::parse(text).map_err(|why| no_timestamp(path, text, why))?;
            Ok(seconds_and_nanos(kind, parsed))
        }
        "google.protobuf.FieldMask" => {
            let field = kind.get_field(1).filter(FieldDescriptor::is_list);
            let mut made = DynamicMessage::new(kind.clone());
            if let Some(field) = field {
                made.set_field(&field, field_value(path, &field, value)?);
            }
            Ok(made)
        }
        _ => message(path, kind, value),
    }
}

/// Both of Google's times are seconds in field 1 and nanoseconds in field 2.
fn seconds_and_nanos(kind: &MessageDescriptor, (seconds, nanos): (i64, i32)) -> DynamicMessage {
    let mut made = DynamicMessage::new(kind.clone());
    made.set_field_by_number(1, Wire::I64(seconds));
    made.set_field_by_number(2, Wire::I32(nanos));
    made
}

fn enumeration(path: &Path<'_>, kind: &EnumDescriptor, value: &Value) -> Result<i32, WireError> {
    let text = match value {
        Value::String(text) => text,
        Value::Number(_) => return bounds::integer(path, value, "an enum's number"),
        other => return Err(wrong_type(path, "a string", other)),
    };
    super::enum_number(kind, text).ok_or_else(|| {
        let names: Vec<_> = kind
            .values()
            .map(|value| name::enum_value(&value))
            .collect();
        let all: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        let message = format!("expected one of {}, got {text:?}", all.join(", "));
        let near = nearest(text, names.iter().map(String::as_str));
        let error = WireError::new(WireErrorKind::WrongEnum, path, message);
        error.hint(near.map(|near| format!("did you mean {near:?}?")))
    })
}

pub(super) fn wrong_type(path: &Path<'_>, expected: &str, value: &Value) -> WireError {
    if let Value::Unknown(what) = value {
        return unknown(path, what);
    }
    let message = format!("expected {expected}, got {}", type_name(value));
    let hint = match value {
        Value::Null => Some("leave the field out, or give undefined".to_owned()),
        _ => None,
    };
    WireError::new(WireErrorKind::WrongType, path, message).hint(hint)
}

fn unknown(path: &Path<'_>, what: &str) -> WireError {
    let message = format!("a plan can't know {what} before the call is made");
    WireError::new(WireErrorKind::Unknown, path, message)
}

fn unknown_field(path: &Path<'_>, kind: &MessageDescriptor, key: &str) -> WireError {
    let names: Vec<_> = kind
        .fields()
        .map(|field| name::field(&field).to_owned())
        .collect();
    let here = Path::Field(path, key);
    let near = nearest(key, names.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("did you mean {near:?}?"),
        None if names.is_empty() => format!("{} has no fields", kind.name()),
        None => format!("{} has {}", kind.name(), names.join(", ")),
    };
    let message = format!("{} has no such field", kind.name());
    WireError::new(WireErrorKind::UnknownField, &here, message).hint(Some(hint))
}

fn no_duration(path: &Path<'_>, text: &str, why: NoDuration) -> WireError {
    match why {
        NoDuration::Form => {
            let message = format!("{text:?} is no duration");
            let hint =
                "write numbers with units (ns us ms s m h d), such as \"1m30s\" or \"500ms\"";
            WireError::new(WireErrorKind::WrongType, path, message).hint(Some(hint.to_owned()))
        }
        NoDuration::Range => {
            let message = format!("{text:?} is over 10,000 years, or finer than a nanosecond");
            WireError::new(WireErrorKind::OutOfRange, path, message)
        }
    }
}

fn no_timestamp(path: &Path<'_>, text: &str, why: NoTimestamp) -> WireError {
    match why {
        NoTimestamp::Form(why) => {
            let message = format!("{text:?} is no timestamp: {why}");
            let hint = "write it as of RFC 3339, such as \"2026-01-31T08:00:00Z\"";
            WireError::new(WireErrorKind::WrongType, path, message).hint(Some(hint.to_owned()))
        }
        NoTimestamp::Range => {
            let message = format!("{text:?} is not of the years 1 to 9999");
            WireError::new(WireErrorKind::OutOfRange, path, message)
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Undefined => "undefined",
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::BigInt(_) => "a bigint",
        Value::String(_) => "a string",
        Value::Bytes(_) => "a Uint8Array",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
        Value::Unknown(_) => "something unknown",
    }
}

fn scalar_name(kind: &Proto) -> &'static str {
    match kind {
        Proto::Bool => "a boolean",
        Proto::String => "a string",
        Proto::Bytes => "a Uint8Array",
        Proto::Message(_) => "an object",
        _ => "a number",
    }
}
