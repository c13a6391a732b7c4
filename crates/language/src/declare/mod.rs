// SPDX-License-Identifier: Apache-2.0
//! The API in TypeScript: `aurae.d.ts`, the one text of types that the checker, the editors'
//! server, `aurae types` and real TypeScript read. Written from the schema, with the protos'
//! comments as documentation, the host's surface (`prelude/host.d.ts`) and the types of the
//! friendly layer (`prelude/*.ts`). Deterministic: the same descriptors give the same text.
//!
//! How it reads. Each subsystem is a namespace of types and a constant object. A message that is
//! only sent or only answered is one interface. One that goes both ways has two: `CellSpec`, as a
//! program writes it (everything optional, `bigint | number`), and `CellSpecOut`, as a node answers
//! it (what is always there is required, `bigint`); the second fits wherever the first is asked
//! for. A method is an interface that can be called and has an `action`.

pub(crate) mod doc;
mod message;
pub(crate) mod method;
pub(crate) mod workload;

use std::fmt::Write;
use std::sync::LazyLock;

use crate::prelude::{self, Exported};
use crate::schema::{Schema, SchemaError, Subsystem};

/// The `tsconfig.json` that stands beside `aurae.d.ts`.
pub const TSCONFIG: &str = include_str!("tsconfig.json");

static API: LazyLock<Result<String, &'static SchemaError>> =
    LazyLock::new(|| Schema::of_api().map(declarations));

/// `aurae.d.ts` of the API that this binary was built with. Made at the first call.
///
/// # Errors
/// Only where the built-in descriptors are broken.
pub fn aurae_d_ts() -> Result<&'static str, &'static SchemaError> {
    match &*API {
        Ok(text) => Ok(text),
        Err(error) => Err(error),
    }
}

/// The declarations of any schema.
pub fn declarations(schema: &Schema) -> String {
    let exported = prelude::exported();
    let mut text = String::from(
        "// SPDX-License-Identifier: Apache-2.0\n\
         // The types of Aurae's language: the API, and what a program has beside it.\n\
         // Written by `aurae types`; changes are lost.\n\n",
    );
    text.push_str(&globals(schema, &exported));
    subsystems(&mut text, schema);
    for subsystem in &schema.subsystems {
        namespace(&mut text, schema, subsystem, &exported);
    }
    text
}

/// What isn't a subsystem's: the host's surface, the friendly layer's types, the workloads.
pub(crate) fn globals(schema: &Schema, exported: &Exported) -> String {
    let mut text = prelude::without_header(prelude::HOST);
    for declaration in &exported.global {
        text.push_str(&format!("\n{declaration}\n"));
    }
    workload::classes(&mut text, schema);
    text
}

/// All subsystems together.
fn subsystems(text: &mut String, schema: &Schema) {
    text.push_str("\n/** What a node offers. */\ninterface Subsystems {\n");
    for subsystem in &schema.subsystems {
        let name = &subsystem.name;
        doc::write(text, "  ", &doc::of_service(subsystem));
        line(
            text,
            &format!("  readonly {name}: {name}.{};", interface(subsystem)),
        );
    }
    text.push_str("}\n");
}

fn namespace(text: &mut String, schema: &Schema, subsystem: &Subsystem, exported: &Exported) {
    let name = &subsystem.name;
    text.push('\n');
    doc::write(text, "", &doc::of_service(subsystem));
    line(
        text,
        &format!("declare const {name}: {name}.{};", interface(subsystem)),
    );
    line(text, &format!("\ndeclare namespace {name} {{"));
    let friendly = exported.friendly(name);
    method::subsystem(text, schema, subsystem, friendly);
    for method in &subsystem.methods {
        text.push('\n');
        method::interface(text, schema, method, friendly);
    }
    for message in subsystem
        .messages
        .iter()
        .filter_map(|name| schema.message(name))
    {
        message::message(text, schema, message);
    }
    for kind in subsystem
        .enums
        .iter()
        .filter_map(|name| schema.enumeration(name))
    {
        message::enumeration(text, kind);
    }
    text.push_str("}\n");
}

/// The name of a subsystem's own interface in its namespace: its service's, `Runtime`.
fn interface(subsystem: &Subsystem) -> &str {
    let service = subsystem.service.rsplit('.').next();
    service.unwrap_or(&subsystem.service)
}

fn line(text: &mut String, line: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests;
