// SPDX-License-Identifier: Apache-2.0
//! Values of programs as messages of the API and back, exactly. The descriptors say what is what;
//! no message is known by name but those of Google that stand for something of the language's own
//! (durations, timestamps, field masks).
//!
//! It knows the shape alone: whether a label is well-formed is the node's to say. Used by the host
//! of a session for every call.

mod bounds;
mod duration;
mod from_value;
mod path;
mod timestamp;
mod to_value;

use language::schema::name;
use prost_reflect::EnumDescriptor;

pub use from_value::to_message;
pub use path::Path;
pub use to_value::from_message;

use crate::protocol::Failure;

/// Why a value is no such message, or a message no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(path))]
pub struct WireError {
    /// The field as a program writes it: `executable.spec.argv[0]`. Empty: the whole.
    pub path: String,
    /// What was expected and what was there: `expected a string, got a number`.
    pub message: String,
    /// What was probably meant: `did you mean "argv"?`.
    pub hint: Option<String>,
    /// Of which kind it is.
    pub kind: WireErrorKind,
}

/// Kinds of errors, for who treats them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireErrorKind {
    /// No such field.
    UnknownField,
    /// A value of another type.
    WrongType,
    /// A number, a time or a duration that doesn't fit.
    OutOfRange,
    /// No such value of an enum.
    WrongEnum,
    /// Two members of a oneof.
    TwoOfOneof,
    /// A value that a plan can't know.
    Unknown,
    /// The node answered what the language has no value for.
    Answer,
}

impl WireError {
    fn new(kind: WireErrorKind, path: &Path<'_>, message: impl Into<String>) -> Self {
        Self {
            path: path.to_string(),
            message: message.into(),
            hint: None,
            kind,
        }
    }

    fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        let code = match error.kind {
            WireErrorKind::Unknown => "UNKNOWN_VALUE",
            WireErrorKind::Answer => "BAD_ANSWER",
            _ => "BAD_ARGUMENT",
        };
        Self {
            code: code.to_owned(),
            message: error.to_string(),
            hint: error.hint,
            field: Some(error.path).filter(|path| !path.is_empty()),
            object: None,
            method: None,
        }
    }
}

fn place(path: &str) -> String {
    match path {
        "" => "the request: ".to_owned(),
        path => format!("{path}: "),
    }
}

/// The number of an enum's value by its name in the language.
fn enum_number(kind: &EnumDescriptor, text: &str) -> Option<i32> {
    name::find_enum_value(kind, text).map(|value| value.number())
}

#[cfg(test)]
mod tests;
