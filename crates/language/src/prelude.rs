// SPDX-License-Identifier: Apache-2.0
//! The friendly layer, which is written in the language itself (`prelude/*.ts`): its text for the
//! evaluator, its types for the declarations.
//!
//! The evaluator gets one module: a first line that puts the API's table on the global `__aurae`,
//! then the files of the layer without types. What the two expect of each other is said in
//! `prelude/internal.d.ts`. This module runs nothing; `script` does.

mod exported;
mod table;

use oxc::allocator::Allocator;
use oxc::ast::ast::Statement;
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType};

use crate::compile::{self, Compiled};
use crate::finding::Finding;
use crate::schema::Schema;
use crate::source::Source;

pub(crate) use exported::{Exported, Friendly, exported, without_header};
pub use table::table;

/// The host's surface, as `aurae.d.ts` has it.
pub(crate) const HOST: &str = include_str!("../prelude/host.d.ts");

/// In the order in which they need each other.
const FILES: [(&str, &str); 12] = [
    ("error.ts", include_str!("../prelude/error.ts")),
    ("table.ts", include_str!("../prelude/table.ts")),
    ("data.ts", include_str!("../prelude/data.ts")),
    ("workload.ts", include_str!("../prelude/workload.ts")),
    ("target.ts", include_str!("../prelude/target.ts")),
    ("call.ts", include_str!("../prelude/call.ts")),
    ("runtime.ts", include_str!("../prelude/runtime.ts")),
    ("observe.ts", include_str!("../prelude/observe.ts")),
    ("identity.ts", include_str!("../prelude/identity.ts")),
    ("node.ts", include_str!("../prelude/node.ts")),
    ("subsystems.ts", include_str!("../prelude/subsystems.ts")),
    ("main.ts", include_str!("../prelude/main.ts")),
];

/// What the layer's module is called in stacks.
pub const NAME: &str = "aurae:prelude";

/// Why there is no layer; a test excludes all of it.
#[derive(Debug, thiserror::Error)]
pub enum PreludeError {
    /// The API's descriptors are broken.
    #[error("the friendly layer has no API to stand on")]
    Descriptors(#[source] &'static prost_reflect::DescriptorError),
    /// The layer's own text is.
    #[error("the friendly layer doesn't compile: {}", first(.0))]
    Compile(Vec<Finding>),
}

fn first(findings: &[Finding]) -> &str {
    findings.first().map_or("", |finding| &finding.message)
}

/// The layer over the API that this binary was built with, as the evaluator takes it: one module,
/// called [`NAME`]. Made anew at each call.
///
/// # Errors
/// Only where what is built in is broken.
pub fn compiled() -> Result<Compiled, PreludeError> {
    // Nobody reads comments here, and every call of the command line would have to read past them.
    let pool = api::descriptor_pool().map_err(PreludeError::Descriptors)?;
    let source = Source::new(NAME, typescript(&Schema::new(pool)));
    compile::compile(&source, compile::Options::default()).map_err(PreludeError::Compile)
}

/// The layer as one TypeScript module: the files after each other, without imports and exports.
pub fn typescript(schema: &Schema) -> String {
    let mut text = format!("__aurae.table = {};\n", table(schema));
    for (_, source) in FILES {
        text.push_str(&flat(source));
    }
    text
}

/// A file without its imports and without `export`: the rest of the layer is around it.
fn flat(source: &str) -> String {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts().with_module(true)).parse();
    let mut text = String::with_capacity(source.len());
    let mut from = 0;
    for (start, end) in parsed.program.body.iter().filter_map(cut) {
        text.push_str(source.get(from..start).unwrap_or_default());
        from = end;
    }
    text.push_str(source.get(from..).unwrap_or_default());
    text
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

#[cfg(test)]
mod tests;
