// SPDX-License-Identifier: Apache-2.0
//! How names of the protos are spelled in the language. Everything else (types, values on their
//! way, the reference) asks here.

use prost_reflect::{EnumDescriptor, EnumValueDescriptor, FieldDescriptor};

/// A package's subsystem: `aurae.runtime.v0` is `runtime`; none for packages that aren't ours.
pub fn subsystem(package: &str) -> Option<&str> {
    let mut parts = package.split('.');
    (parts.next() == Some("aurae")).then(|| parts.next())?
}

/// A message's or enum's name among its subsystem's types: nested ones joined.
/// `aurae.runtime.v0.Seccomp.Profile` is `SeccompProfile`.
pub fn of_type(package: &str, full_name: &str) -> String {
    let below = full_name.strip_prefix(package).unwrap_or(full_name);
    below.replace('.', "")
}

/// A field's property: `oom_score_adj` is `oomScoreAdj`.
pub fn field(field: &FieldDescriptor) -> &str {
    field.json_name()
}

/// An enum value's string: its name without the enum's, in lower case. `STATE_RUNNING` of `State`
/// is `running`; `ERROR_REASON_UNSPECIFIED` and `NOT_FOUND` of `ErrorReason` are `unspecified` and
/// `not_found`.
pub fn enum_value(value: &EnumValueDescriptor) -> String {
    enum_value_of(value.parent_enum().name(), value.name())
}

/// The value of that name in the language.
pub fn find_enum_value(kind: &EnumDescriptor, name: &str) -> Option<EnumValueDescriptor> {
    kind.values().find(|value| enum_value(value) == name)
}

pub(super) fn enum_value_of(kind: &str, value: &str) -> String {
    let mut prefix = String::new();
    for c in kind.chars() {
        // `WaitFor` is `WAIT_FOR_`: every capital begins a word.
        if c.is_ascii_uppercase() && !prefix.is_empty() {
            prefix.push('_');
        }
        prefix.push(c.to_ascii_uppercase());
    }
    prefix.push('_');
    let stripped = value.strip_prefix(&prefix).unwrap_or(value);
    stripped.to_ascii_lowercase()
}
