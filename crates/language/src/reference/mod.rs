// SPDX-License-Identifier: Apache-2.0
//! The reference of the API, a page of Markdown per subsystem, from the schema and the protos'
//! comments: `docs/language/reference/`. A test keeps the pages true; they aren't written by hand.

use std::fmt::Write;

use crate::declare::{self, doc};
use crate::prelude;
use crate::schema::{Cardinality, Enum, Field, Kind, Message, Method, Presence, Schema, Subsystem};

/// One file.
#[derive(Debug)]
pub struct Page {
    /// `runtime.md`
    pub name: String,
    /// The page as Markdown.
    pub text: String,
}

/// All pages, the index first.
pub fn pages(schema: &Schema) -> Vec<Page> {
    let subsystems = schema.subsystems.iter().map(|subsystem| Page {
        name: format!("{}.md", subsystem.name),
        text: page(schema, subsystem),
    });
    [index(schema), globals(schema)]
        .into_iter()
        .chain(subsystems)
        .collect()
}

/// The rest of what a program has: as it is declared, there is no shorter way to say it.
fn globals(schema: &Schema) -> Page {
    let exported = prelude::exported();
    let mut text =
        String::from("# Globals\n\nWhat a program has beside the subsystems and ECMAScript.\n");
    let declared = declare::globals(schema, &exported);
    put(
        &mut text,
        &format!("\n```typescript\n{}\n```", declared.trim_end()),
    );
    for subsystem in &schema.subsystems {
        let Some(friendly) = exported.friendly(&subsystem.name) else {
            continue;
        };
        put(
            &mut text,
            &format!(
                "\n## {} beside its methods\n\n```typescript",
                subsystem.name
            ),
        );
        let members: Vec<_> = friendly
            .members
            .iter()
            .map(|member| member.text.as_str())
            .collect();
        put(&mut text, &format!("{}\n```", members.join("\n")));
    }
    Page {
        name: "globals.md".into(),
        text,
    }
}

const HOW: &str = "\
Every method takes a request, a plain object, and a context `{ timeout?, signal? }`. Where a request names its
object by `ref`, the target may be given in its place: `runtime.Stop(\"web/nginx\", { grace: \"1s\" })`. Methods
that answer once give a promise; those that answer with a stream are read with `for await`.

Fields marked *always there* are in every answer, zero, empty or false where nothing was set; the others are
absent where they were not set. In a request every field may be left out but those marked *required*.
64-bit integers (`bigint`) may be written as a `number` up to 2^53 - 1 too.
";

fn index(schema: &Schema) -> Page {
    let mut text =
        String::from("# Reference\n\nThe API as the language has it, made from the protos.\n\n");
    for subsystem in &schema.subsystems {
        let name = &subsystem.name;
        put(
            &mut text,
            &format!("- [`{name}`]({name}.md): {}", subsystem.docs),
        );
    }
    put(
        &mut text,
        "- [Globals](globals.md): workloads, lines, users, and what isn't the API's",
    );
    put(&mut text, &format!("\n{HOW}"));
    Page {
        name: "README.md".into(),
        text: text.trim_end().to_owned() + "\n",
    }
}

fn page(schema: &Schema, subsystem: &Subsystem) -> String {
    let mut text = format!("# {}\n\n{}\n\n## Methods\n", subsystem.name, subsystem.docs);
    for found in &subsystem.methods {
        method(&mut text, schema, subsystem, found);
    }
    put(&mut text, "\n## Types");
    for found in subsystem
        .messages
        .iter()
        .filter_map(|name| schema.message(name))
    {
        message(&mut text, schema, found);
    }
    for found in subsystem
        .enums
        .iter()
        .filter_map(|name| schema.enumeration(name))
    {
        enumeration(&mut text, found);
    }
    text
}

fn method(text: &mut String, schema: &Schema, subsystem: &Subsystem, method: &Method) {
    let link = |name: &str| {
        let found = schema.message(name);
        found.map_or_else(|| name.to_owned(), |found| type_link(subsystem, found))
    };
    put(
        text,
        &format!(
            "\n### {}\n\n{}\n",
            method.action,
            doc::spelled(&method.docs)
        ),
    );
    let (many, one) = ("a stream of ", "");
    let (asks, answers) = (method.client_streams, method.server_streams);
    put(
        text,
        &format!(
            "- takes {}{}",
            if asks { many } else { one },
            link(&method.request)
        ),
    );
    put(
        text,
        &format!(
            "- gives {}{}",
            if answers { many } else { one },
            link(&method.response)
        ),
    );
    let effect = match method.mutating {
        true => "may change something: a plan records it",
        false => "reads: a plan sends it",
    };
    put(text, &format!("- {effect}"));
}

fn message(text: &mut String, schema: &Schema, message: &Message) {
    put(text, &format!("\n### {}\n", message.name));
    if !message.docs.is_empty() {
        put(text, &format!("{}\n", doc::spelled(&message.docs)));
    }
    if message.fields.is_empty() {
        return put(text, "No fields.");
    }
    for oneof in 0..message.oneofs.len() {
        let members = message
            .fields
            .iter()
            .filter(|field| field.oneof == Some(oneof));
        let members: Vec<_> = members.map(|field| format!("`{}`", field.name)).collect();
        put(text, &format!("At most one of {}.\n", members.join(", ")));
    }
    put(text, "| field | type | |\n|---|---|---|");
    for found in &message.fields {
        field(text, schema, message, found);
    }
}

fn field(text: &mut String, schema: &Schema, message: &Message, field: &Field) {
    let one = of_kind(schema, message, &field.kind);
    let written = match field.cardinality {
        Cardinality::Single => one,
        Cardinality::List => format!("list of {one}"),
        Cardinality::Map(_) => format!("map of {one}"),
    };
    let single = field.cardinality == Cardinality::Single;
    let there = field.presence == Presence::Implicit && message.received && single;
    let docs = doc::spelled(schema.field_docs(field))
        .replace('\n', " ")
        .replace('|', "\\|");
    let required = if field.required { "*required* " } else { "" };
    let there = if there { "*always there* " } else { "" };
    put(
        text,
        format!("| `{}` | {written} | {required}{there}{docs}", field.name).trim_end(),
    );
    // The row's end, behind whatever it says.
    text.truncate(text.trim_end().len());
    put(text, " |");
}

fn of_kind(schema: &Schema, message: &Message, kind: &Kind) -> String {
    let link = |subsystem: &str, name: &str| {
        let page = match subsystem == message.subsystem {
            true => String::new(),
            false => format!("{subsystem}.md"),
        };
        format!("[{name}]({page}#{})", name.to_ascii_lowercase())
    };
    match kind {
        Kind::Bool => "boolean".into(),
        Kind::Int32 | Kind::Uint32 | Kind::Float | Kind::Double => "number".into(),
        Kind::Int64 | Kind::Uint64 => "bigint".into(),
        Kind::String => "string".into(),
        Kind::Bytes => "Uint8Array".into(),
        Kind::Duration => "duration, `\"1m30s\"`".into(),
        Kind::Timestamp => "timestamp, `\"2026-01-31T08:00:00Z\"`".into(),
        Kind::FieldMask => "paths, `[\"spec.resources\"]`".into(),
        Kind::Message(name) => {
            let found = schema.message(name);
            found.map_or_else(|| name.clone(), |found| link(&found.subsystem, &found.name))
        }
        Kind::Enum(name) => {
            let found = schema.enumeration(name);
            found.map_or_else(|| name.clone(), |found| link(&found.subsystem, &found.name))
        }
    }
}

fn enumeration(text: &mut String, kind: &Enum) {
    put(text, &format!("\n### {}\n", kind.name));
    if !kind.docs.is_empty() {
        put(text, &format!("{}\n", doc::spelled(&kind.docs)));
    }
    put(text, "| value | |\n|---|---|");
    for value in &kind.values {
        let docs = doc::spelled(&value.docs)
            .replace('\n', " ")
            .replace('|', "\\|");
        put(text, &format!("| `\"{}\"` | {docs} |", value.name));
    }
}

fn type_link(subsystem: &Subsystem, message: &Message) -> String {
    let page = match message.subsystem == subsystem.name {
        true => String::new(),
        false => format!("{}.md", message.subsystem),
    };
    format!(
        "[{}]({page}#{})",
        message.name,
        message.name.to_ascii_lowercase()
    )
}

fn put(text: &mut String, line: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests;
