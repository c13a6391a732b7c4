// SPDX-License-Identifier: Apache-2.0
//! Random messages of every type, of our API and of a file that has every kind of field there is:
//! message → value → frame → value → message, bit by bit the same.

use std::collections::HashMap;

use proptest::prelude::*;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind as Proto, MapKey, MessageDescriptor,
    ReflectMessage, Value as Wire,
};

use crate::protocol::codec;
use crate::value::Value;
use crate::wire::{from_message, to_message};

const LIMIT: usize = 64 << 20;

/// Bytes to decide by. Used up, it decides for nothing: what proptest cuts off makes less.
struct Dice {
    bytes: std::vec::IntoIter<u8>,
}

impl Dice {
    fn byte(&mut self) -> u8 {
        self.bytes.next().unwrap_or_default()
    }

    fn wide(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn signed(&mut self) -> i64 {
        let edges = [
            0,
            -1,
            i64::MIN,
            i64::MAX,
            1 << 53,
            (1 << 53) + 1,
            i64::from(i32::MIN),
        ];
        match self.below(3) {
            0 => self.one(&edges),
            _ => self.wide().cast_signed(),
        }
    }

    fn unsigned(&mut self) -> u64 {
        match self.below(3) {
            0 => self.one(&[0, 1, u64::MAX, (1 << 53) + 1, u64::from(u32::MAX)]),
            _ => self.wide(),
        }
    }

    fn double(&mut self) -> f64 {
        let edges = [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::MIN_POSITIVE / 2.0,
            f64::MAX,
        ];
        match self.below(2) {
            0 => self.one(&edges),
            _ => self.signed() as f64 / 1e3,
        }
    }

    fn text(&mut self) -> String {
        let edges = [
            "",
            "__proto__",
            "constructor",
            "\0",
            "\u{10ffff}\u{feff}",
            "a\"b\\c\n",
        ];
        match self.below(2) {
            0 => self.one(&edges).to_owned(),
            _ => (0..self.below(9))
                .filter_map(|_| char::from_u32(self.wide() as u32 >> 11))
                .collect(),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => Vec::new(),
            1 => vec![self.byte(); 100_000],
            count => (0..count).map(|_| self.byte()).collect(),
        }
    }
}

fn message(dice: &mut Dice, kind: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut made = DynamicMessage::new(kind.clone());
    match kind.full_name() {
        "google.protobuf.Duration" => {
            let seconds = dice.signed() % 315_576_000_000;
            let nanos = (dice.wide() % 1_000_000_000).cast_signed() as i32;
            made.set_field_by_number(1, Wire::I64(seconds));
            let nanos = if seconds < 0 { -nanos } else { nanos };
            made.set_field_by_number(2, Wire::I32(nanos));
        }
        "google.protobuf.Timestamp" => {
            let span = 253_402_300_800 + 62_135_596_800;
            let seconds = dice.signed().rem_euclid(span) - 62_135_596_800;
            made.set_field_by_number(1, Wire::I64(seconds));
            let nanos = (dice.wide() % 1_000_000_000) as i32;
            made.set_field_by_number(2, Wire::I32(nanos));
        }
        _ => {
            for field in kind.fields() {
                // Later members of a oneof take the place of earlier ones.
                if dice.below(3) > 0
                    && let Some(value) = field_value(dice, &field, depth)
                {
                    made.set_field(&field, value);
                }
            }
        }
    }
    made
}

fn field_value(dice: &mut Dice, field: &FieldDescriptor, depth: usize) -> Option<Wire> {
    let kind = field.kind();
    if field.is_map() {
        let entry = kind.as_message()?;
        let (key, value) = (
            entry.map_entry_key_field().kind(),
            entry.map_entry_value_field().kind(),
        );
        let mut made = HashMap::new();
        for _ in 0..dice.below(4) {
            made.insert(
                one(dice, &key, depth)?.into_map_key()?,
                one(dice, &value, depth)?,
            );
        }
        Some(Wire::Map(made))
    } else if field.is_list() {
        let items = (0..dice.below(4)).map(|_| one(dice, &kind, depth));
        Some(Wire::List(items.collect::<Option<_>>()?))
    } else {
        one(dice, &kind, depth)
    }
}

/// None where it would go on for ever.
fn one(dice: &mut Dice, kind: &Proto, depth: usize) -> Option<Wire> {
    Some(match kind {
        Proto::Bool => Wire::Bool(dice.below(2) == 1),
        Proto::Int32 | Proto::Sint32 | Proto::Sfixed32 => Wire::I32(dice.signed() as i32),
        Proto::Uint32 | Proto::Fixed32 => Wire::U32(dice.unsigned() as u32),
        Proto::Int64 | Proto::Sint64 | Proto::Sfixed64 => Wire::I64(dice.signed()),
        Proto::Uint64 | Proto::Fixed64 => Wire::U64(dice.unsigned()),
        Proto::Float => Wire::F32(dice.double() as f32),
        Proto::Double => Wire::F64(dice.double()),
        Proto::String => Wire::String(dice.text()),
        Proto::Bytes => Wire::Bytes(dice.bytes().into()),
        Proto::Enum(kind) => {
            let known: Vec<_> = kind.values().map(|value| value.number()).collect();
            match dice.below(4) {
                0 => Wire::EnumNumber(dice.signed() as i32),
                _ => Wire::EnumNumber(dice.one(&known)),
            }
        }
        Proto::Message(_) if depth == 0 => return None,
        Proto::Message(kind) => Wire::Message(message(dice, kind, depth - 1)),
    })
}

/// Equal to the last bit: `==` takes `-0` for `0`, and no NaN for another.
fn same(a: &Wire, b: &Wire) -> bool {
    match (a, b) {
        (Wire::F32(a), Wire::F32(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
        (Wire::F64(a), Wire::F64(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
        (Wire::List(a), Wire::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Wire::Map(a), Wire::Map(b)) => {
            let there = |key: &MapKey, a: &Wire| b.get(key).is_some_and(|b| same(a, b));
            a.len() == b.len() && a.iter().all(|(key, a)| there(key, a))
        }
        (Wire::Message(a), Wire::Message(b)) => same_message(a, b),
        (a, b) => a == b,
    }
}

fn same_message(a: &DynamicMessage, b: &DynamicMessage) -> bool {
    a.descriptor().fields().all(|field| {
        let (in_a, in_b) = (a.has_field(&field), b.has_field(&field));
        match field.supports_presence() {
            true if !in_a && !in_b => true,
            true if in_a != in_b => false,
            _ => same(&a.get_field(&field), &b.get_field(&field)),
        }
    })
}

fn there_and_back(original: &DynamicMessage) {
    let value = from_message(original).unwrap();
    let frame = codec::encode(&value, LIMIT).unwrap();
    let value: Value = codec::decode(&frame[codec::HEADER..]).unwrap();
    let back = to_message(&original.descriptor(), &value).unwrap();
    assert!(
        same_message(original, &back),
        "{original:?}\n{value:?}\n{back:?}"
    );
}

fn every_kind() -> DescriptorPool {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/wire/tests");
    let files = protox::compile(["kinds.proto"], [folder]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

/// Any value at all, with names of fields among its keys.
fn anything() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("kinds".to_owned()),
        Just("allKinds".to_owned()),
        Just("duration".to_owned()),
        Just("timestamp".to_owned()),
        Just("byUint32".to_owned()),
        Just("aFloat".to_owned()),
        Just("__proto__".to_owned()),
        ".{0,4}",
    ];
    let leaf = prop_oneof![
        Just(Value::Undefined),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_map(Value::Number),
        any::<i128>().prop_map(Value::BigInt),
        ".{0,12}".prop_map(Value::String),
        "-?[0-9.]{0,30}(ns|us|ms|s|m|h|d)?".prop_map(Value::String),
        "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:00:00(Z|\\+23:59)".prop_map(Value::String),
        proptest::collection::vec(any::<u8>(), 0..4).prop_map(Value::Bytes),
        Just(Value::Unknown("a.B(c)".to_owned())),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::vec((key.clone(), inner), 0..5).prop_map(Value::Object),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A message, or an error; and a message that was made comes back as a value.
    #[test]
    fn no_value_is_fatal(value in anything()) {
        let kind = every_kind().get_message_by_name("aurae.kinds.v0.Kinds").unwrap();
        match to_message(&kind, &value) {
            Ok(made) => there_and_back(&made),
            Err(why) => prop_assert!(!why.message.is_empty()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_message_of_the_api_comes_back_as_it_was(
        bytes in proptest::collection::vec(any::<u8>(), 0..1500),
    ) {
        let pool = ::api::descriptor_pool().unwrap();
        let ours = |kind: &MessageDescriptor| {
            kind.full_name().starts_with("aurae.") && !kind.is_map_entry()
        };
        for kind in pool.all_messages().filter(ours) {
            let mut dice = Dice { bytes: bytes.clone().into_iter() };
            there_and_back(&message(&mut dice, &kind, 5));
        }
    }

    #[test]
    fn every_kind_of_field_comes_back_as_it_was(
        bytes in proptest::collection::vec(any::<u8>(), 0..6000),
    ) {
        let kind = every_kind().get_message_by_name("aurae.kinds.v0.Kinds").unwrap();
        let mut dice = Dice { bytes: bytes.into_iter() };
        there_and_back(&message(&mut dice, &kind, 3));
    }
}
