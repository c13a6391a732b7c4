// SPDX-License-Identifier: Apache-2.0
//! A value of a program on its way between the evaluator and us: what JSON knows, and bytes, 64-bit
//! integers and `undefined`. It knows nothing of the API's types; those are put on it by `wire`.

use serde::{Deserialize, Serialize};

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
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Value>),
    /// A plain object, its own enumerable string keys in their order.
    Object(Vec<(String, Value)>),
    /// A plan's value that only a real call would give; the text says which:
    /// `runtime.RunCell(web).pid`.
    Unknown(String),
}
