// SPDX-License-Identifier: Apache-2.0
//! What one value of a field is, in the language's terms: the types of the wire, with Google's
//! well-known messages as what they stand for.

use prost_reflect::{FieldDescriptor, Kind as Proto};

/// The kind of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `boolean`.
    Bool,
    /// `number`, an integer of 32 bits with a sign.
    Int32,
    /// `number`, an integer of 32 bits without one.
    Uint32,
    /// `bigint` (or a safe `number`, on its way in), 64 bits with a sign.
    Int64,
    /// The same without one.
    Uint64,
    /// `number`, of single precision.
    Float,
    /// `number`.
    Double,
    /// `string`.
    String,
    /// `Uint8Array`.
    Bytes,
    /// A string such as `1m30s`.
    Duration,
    /// A string as of RFC 3339.
    Timestamp,
    /// An array of the protos' paths.
    FieldMask,
    /// A plain object; the message's full name.
    Message(String),
    /// A string out of a few; the enum's full name.
    Enum(String),
}

/// The kind of a map's keys; all are strings in the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKey {
    /// `true` or `false`.
    Bool,
    /// 32 bits with a sign, in decimal.
    Int32,
    /// 32 bits without.
    Uint32,
    /// 64 bits with a sign.
    Int64,
    /// 64 bits without.
    Uint64,
    /// Any text.
    String,
}

impl Kind {
    /// Of one value of the field; of a map's values where it is a map.
    pub fn of(field: &FieldDescriptor) -> Self {
        match entry(field) {
            Some((_, value)) => Self::of_proto(&value),
            None => Self::of_proto(&field.kind()),
        }
    }

    fn of_proto(kind: &Proto) -> Self {
        match kind {
            Proto::Bool => Self::Bool,
            Proto::Int32 | Proto::Sint32 | Proto::Sfixed32 => Self::Int32,
            Proto::Uint32 | Proto::Fixed32 => Self::Uint32,
            Proto::Int64 | Proto::Sint64 | Proto::Sfixed64 => Self::Int64,
            Proto::Uint64 | Proto::Fixed64 => Self::Uint64,
            Proto::Float => Self::Float,
            Proto::Double => Self::Double,
            Proto::String => Self::String,
            Proto::Bytes => Self::Bytes,
            Proto::Enum(found) => Self::Enum(found.full_name().to_owned()),
            Proto::Message(found) => match found.full_name() {
                "google.protobuf.Duration" => Self::Duration,
                "google.protobuf.Timestamp" => Self::Timestamp,
                "google.protobuf.FieldMask" => Self::FieldMask,
                other => Self::Message(other.to_owned()),
            },
        }
    }

    /// 64 bits: `bigint` in answers, `bigint` or `number` in requests.
    pub fn is_wide(&self) -> bool {
        matches!(self, Self::Int64 | Self::Uint64)
    }
}

impl MapKey {
    /// Of a map field; none for others.
    pub fn of(field: &FieldDescriptor) -> Option<Self> {
        let (key, _) = entry(field)?;
        Some(match Kind::of_proto(&key) {
            Kind::Bool => Self::Bool,
            Kind::Int32 => Self::Int32,
            Kind::Uint32 => Self::Uint32,
            Kind::Int64 => Self::Int64,
            Kind::Uint64 => Self::Uint64,
            // Protobuf has no other kinds of keys.
            _ => Self::String,
        })
    }
}

/// Kinds of a map's keys and values.
fn entry(field: &FieldDescriptor) -> Option<(Proto, Proto)> {
    let message = field.is_map().then(|| field.kind())?;
    let message = message.as_message()?;
    let key = message.map_entry_key_field().kind();
    Some((key, message.map_entry_value_field().kind()))
}
