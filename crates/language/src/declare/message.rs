// SPDX-License-Identifier: Apache-2.0
//! Messages and enums as types.

use super::{doc, line};
use crate::schema::{Cardinality, Enum, Field, Kind, Message, Presence, Schema};

/// Which way a value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A program writes it.
    In,
    /// A node answers it.
    Out,
}

/// One or both shapes of a message, after an empty line each.
pub(super) fn message(text: &mut String, schema: &Schema, message: &Message) {
    let ways = [(message.sent, Way::In), (message.received, Way::Out)];
    for (_, way) in ways.into_iter().filter(|(wanted, _)| *wanted) {
        if way == Way::Out && message.sent && !message.two_shapes() {
            continue;
        }
        text.push('\n');
        let mut docs = doc::of_message(message);
        if way == Way::Out && message.two_shapes() {
            docs = format!("{docs}\n\n`{}` as a node answers it.", message.name);
        }
        doc::write(text, "  ", &docs);
        shape(text, schema, message, way);
    }
}

fn shape(text: &mut String, schema: &Schema, message: &Message, way: Way) {
    let name = local_name(message, way);
    if message.fields.is_empty() {
        // `{}` would take anything.
        line(
            text,
            &format!("  interface {name} {{\n    [field: string]: never;\n  }}"),
        );
    } else if message.oneofs.is_empty() {
        line(text, &format!("  interface {name} {{"));
        fields(text, schema, message, way, &|_| Member::Free);
        line(text, "  }");
    } else {
        alternatives(text, schema, message, way, &name);
    }
}

/// What a field is within one alternative.
enum Member {
    /// Not in a oneof.
    Free,
    /// The one that is set.
    Chosen,
    /// One of the others.
    Excluded,
}

/// A message with oneofs is a union: one alternative for each choice, nothing chosen among them.
fn alternatives(text: &mut String, schema: &Schema, message: &Message, way: Way, name: &str) {
    line(text, &format!("  type {name} ="));
    let all = choices(message);
    for (index, chosen) in all.iter().enumerate() {
        line(text, "    | {");
        fields(text, schema, message, way, &|field| match field.oneof {
            None => Member::Free,
            Some(oneof) if chosen.get(oneof) == Some(&Some(field.number)) => Member::Chosen,
            Some(_) => Member::Excluded,
        });
        let end = if index + 1 == all.len() { ";" } else { "" };
        line(text, &format!("    }}{end}"));
    }
}

/// Every combination: per oneof the number of the member that is set, or none.
fn choices(message: &Message) -> Vec<Vec<Option<u32>>> {
    let mut all: Vec<Vec<Option<u32>>> = vec![Vec::new()];
    for oneof in 0..message.oneofs.len() {
        let members = message
            .fields
            .iter()
            .filter(|field| field.oneof == Some(oneof));
        let options: Vec<_> = members
            .map(|field| Some(field.number))
            .chain([None])
            .collect();
        all = all
            .iter()
            .flat_map(|before| {
                let extend = |choice: &Option<u32>| [before.as_slice(), &[*choice]].concat();
                options.iter().map(extend).collect::<Vec<_>>()
            })
            .collect();
    }
    all
}

fn fields(
    text: &mut String,
    schema: &Schema,
    message: &Message,
    way: Way,
    member: &dyn Fn(&Field) -> Member,
) {
    let indent = if message.oneofs.is_empty() {
        "    "
    } else {
        "        "
    };
    for field in &message.fields {
        let member = member(field);
        let name = &field.name;
        if matches!(member, Member::Excluded) {
            line(text, &format!("{indent}{name}?: undefined;"));
            continue;
        }
        doc::write(text, indent, &doc::of_field(schema, message, field));
        let required = match member {
            Member::Chosen => true,
            _ if way == Way::In => field.required,
            _ => way == Way::Out && field.presence == Presence::Implicit,
        };
        let mark = if required { "" } else { "?" };
        let written = of_field(schema, &message.subsystem, field, way);
        line(text, &format!("{indent}{name}{mark}: {written};"));
    }
}

/// The type of a field, as written in `namespace`.
pub(super) fn of_field(schema: &Schema, namespace: &str, field: &Field, way: Way) -> String {
    let one = of_kind(schema, namespace, &field.kind, way);
    match field.cardinality {
        Cardinality::Single => one,
        Cardinality::List if one.contains(' ') => format!("({one})[]"),
        Cardinality::List => format!("{one}[]"),
        Cardinality::Map(_) => format!("Record<string, {one}>"),
    }
}

fn of_kind(schema: &Schema, namespace: &str, kind: &Kind, way: Way) -> String {
    match kind {
        Kind::Bool => "boolean".into(),
        Kind::Int32 | Kind::Uint32 | Kind::Float | Kind::Double => "number".into(),
        Kind::Int64 | Kind::Uint64 => match way {
            Way::In => "bigint | number".into(),
            Way::Out => "bigint".into(),
        },
        Kind::String => "string".into(),
        Kind::Bytes => "Uint8Array".into(),
        Kind::Duration => "Duration".into(),
        Kind::Timestamp => "Timestamp".into(),
        Kind::FieldMask => "string[]".into(),
        Kind::Message(name) => schema.message(name).map_or_else(
            || "unknown".into(),
            |message| {
                let raw = name_in(namespace, message, way);
                // A declaration does as well as the message that it stands for.
                match way == Way::In && message.is_workload() {
                    true => format!("{raw} | {}", message.name),
                    false => raw,
                }
            },
        ),
        Kind::Enum(name) => schema.enumeration(name).map_or_else(
            || "unknown".into(),
            |kind| qualified(namespace, &kind.subsystem, &kind.name),
        ),
    }
}

/// A message's type as written in `namespace`.
pub(super) fn name_in(namespace: &str, message: &Message, way: Way) -> String {
    qualified(namespace, &message.subsystem, &local_name(message, way))
}

/// In its own namespace.
fn local_name(message: &Message, way: Way) -> String {
    let name = &message.name;
    if way == Way::Out && message.two_shapes() {
        format!("{name}Out")
    } else if message.is_workload() {
        // The plain name is the class's.
        format!("{name}Message")
    } else {
        name.clone()
    }
}

fn qualified(namespace: &str, subsystem: &str, name: &str) -> String {
    match namespace == subsystem {
        true => name.to_owned(),
        false => format!("{subsystem}.{name}"),
    }
}

/// A union of strings; a number is a value that came later.
pub(super) fn enumeration(text: &mut String, kind: &Enum) {
    text.push('\n');
    doc::write(text, "  ", &doc::of_enum(kind));
    line(text, &format!("  type {} =", kind.name));
    for value in &kind.values {
        line(text, &format!("    | \"{}\"", value.name));
    }
    line(text, "    | number;");
}
