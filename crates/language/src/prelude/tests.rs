// SPDX-License-Identifier: Apache-2.0
//! The layer's text; what it does is shown where it can be run (`script`).

use std::fs;
use std::path::Path;

use oxc::allocator::Allocator;
use oxc::ast::ast::Statement;
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType};

use super::*;
use crate::compile::{self, Options};
use crate::declare::workload;
use crate::schema::Schema;
use crate::source::Source;

/// Run with `AURAE_UPDATE=1` to write the file.
#[test]
fn the_layers_javascript_is_what_its_files_say() {
    let wanted = javascript();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("prelude/prelude.js");
    if std::env::var_os("AURAE_UPDATE").is_some() {
        fs::write(&file, &wanted).unwrap();
    }
    assert!(
        fs::read_to_string(&file).unwrap() == wanted,
        "write it anew: AURAE_UPDATE=1 cargo test -p language prelude"
    );
}

#[test]
fn the_layer_is_one_module_after_its_table() {
    let begins = |line: &str| JAVASCRIPT.lines().position(|found| found.starts_with(line));
    assert!(begins("__aurae.table = {").unwrap() < begins("class AuraeError").unwrap());
    for gone in ["import ", "export ", "interface "] {
        assert_eq!(begins(gone), None);
    }
}

#[test]
fn the_globals_are_those_that_the_declarations_have() {
    let mut names = globals();
    names.sort_unstable();
    let mut wanted: Vec<_> = declared(crate::declare::aurae_d_ts().unwrap()).collect();
    wanted.sort_unstable();
    assert_eq!(names, wanted);
}

/// Run with `AURAE_UPDATE=1` to write the file.
#[test]
fn the_names_that_a_program_begins_with_are_the_apis() {
    let schema = Schema::bare().unwrap();
    let subsystems = schema.subsystems.iter().map(|one| one.name.as_str());
    let workloads = workload::all(schema).map(|one| one.name.as_str());
    let lines = subsystems.map(|name| format!("subsystem {name}\n"));
    let lines = lines.chain(workloads.map(|name| format!("workload {name}\n")));
    let wanted = format!(
        "# SPDX-License-Identifier: Apache-2.0\n\
         # The API's names without its descriptors. Generated:\n\
         # AURAE_UPDATE=1 cargo test -p language prelude\n{}",
        lines.collect::<String>()
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("prelude/names.txt");
    if std::env::var_os("AURAE_UPDATE").is_some() {
        fs::write(&file, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), wanted);
}

/// The table, and the files after each other, without types.
fn javascript() -> String {
    let text: String = FILES.iter().map(|(_, source)| flat(source)).collect();
    let compiled = compile::compile(&Source::new(NAME, text), Options::default()).unwrap();
    let table = sorted(table(Schema::bare().unwrap()).parse().unwrap());
    format!(
        "// SPDX-License-Identifier: Apache-2.0\n\
         // Generated from the other files here and the API: \
         AURAE_UPDATE=1 cargo test -p language prelude\n\
         __aurae.table = {table:#};\n{}",
        compiled.code
    )
}

/// In the same order whatever features serde_json is built with.
fn sorted(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|(name, _), (other, _)| name.cmp(other));
            let fields = fields.into_iter();
            Value::Object(fields.map(|(name, value)| (name, sorted(value))).collect())
        }
        value => value,
    }
}

/// A file without its imports and without `export`: the rest of the layer is around it.
fn flat(source: &str) -> String {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts().with_module(true)).parse();
    let mut text = String::new();
    let mut from = 0;
    for (start, end) in parsed.program.body.iter().filter_map(cut) {
        text.push_str(&source[from..start]);
        from = end;
    }
    text + &source[from..]
}

/// What of a statement is only there because it is a module.
fn cut(statement: &Statement<'_>) -> Option<(usize, usize)> {
    let span = statement.span();
    let (start, end) = match statement {
        Statement::ImportDeclaration(_) => (span.start, span.end),
        Statement::ExportDeclaration(export) => (span.start, export.declaration.span().start),
        _ => return None,
    };
    Some((start as usize, end as usize))
}
