// SPDX-License-Identifier: Apache-2.0
//! A value of a program on its way between the evaluator and us: what JSON knows, and bytes, 64-bit
//! integers and `undefined`. It knows nothing of the API's types; those are put on it by `wire`.

use std::cell::Cell;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Arrays and objects in one another; a program's value that is deeper is refused where it is
/// made, a frame's where it is read.
pub const MAX_DEPTH: u16 = 200;

/// Values in one value.
pub const MAX_PARTS: usize = 1 << 20;

/// A tree, never a graph: cycles are refused where it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// `undefined`, as absent as no field.
    Undefined,
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, also one without a fraction.
    Number(f64),
    /// A `bigint` within 128 bits; what is larger is refused where it is made.
    BigInt(i128),
    /// A string, well-formed Unicode.
    String(String),
    /// A `Uint8Array`.
    Bytes(#[serde(with = "bytes")] Vec<u8>),
    /// An array.
    Array(#[serde(deserialize_with = "nested")] Vec<Value>),
    /// A plain object, its own enumerable string keys in their order.
    Object(#[serde(deserialize_with = "nested")] Vec<(String, Value)>),
    /// A plan's value that only a real call would give; the text says which:
    /// `runtime.RunCell(web).pid`.
    Unknown(String),
}

thread_local! {
    /// How deep the value being read is, and how many parts it may still have.
    static READING: Cell<(u16, usize)> = const { Cell::new((0, MAX_PARTS)) };
}

/// Reads values with a fresh count of their parts.
pub(crate) fn counted<T>(read: impl FnOnce() -> T) -> T {
    READING.set((0, MAX_PARTS));
    read()
}

/// Reads what an array or an object holds, one level deeper, unless that is too deep.
fn nested<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let (depth, left) = READING.get();
    if depth >= MAX_DEPTH {
        return Err(de::Error::custom("a value that is nested too deep"));
    }
    READING.set((depth + 1, left));
    let parts = from.deserialize_seq(Parts(std::marker::PhantomData));
    READING.set((depth, READING.get().1));
    parts
}

/// Counts what it collects.
struct Parts<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Parts<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut parts: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(part) = parts.next_element()? {
            let (depth, left) = READING.get();
            let left = left
                .checked_sub(1)
                .ok_or_else(|| de::Error::custom("a value of too many parts"))?;
            READING.set((depth, left));
            all.push(part);
        }
        Ok(all)
    }
}

/// Bytes as bytes, not as a sequence of numbers.
mod bytes {
    use serde::{Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Owned;
        impl de::Visitor<'_> for Owned {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }
        from.deserialize_bytes(Owned)
    }
}
