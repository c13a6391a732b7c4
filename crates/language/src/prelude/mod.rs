// SPDX-License-Identifier: Apache-2.0
//! The friendly layer, which is written in the language itself (`prelude/*.ts`): its text for the
//! evaluator, its types for the declarations.
//!
//! The evaluator gets one module, `prelude/prelude.js`: it puts the API's table on the global
//! `__aurae`, and then there are the files of the layer without types. What the two expect of each
//! other is said in `prelude/internal.d.ts`. This module runs nothing; `script` does.

mod exported;
mod table;

use crate::declare::workload;
use crate::schema::Schema;

pub(crate) use exported::{Exported, Friendly, exported, without_header};
pub use table::table;

/// The host's surface, as `aurae.d.ts` has it.
pub(crate) const HOST: &str = include_str!("../../prelude/host.d.ts");

/// In the order in which they need each other.
const FILES: [(&str, &str); 13] = [
    ("error.ts", include_str!("../../prelude/error.ts")),
    ("table.ts", include_str!("../../prelude/table.ts")),
    ("data.ts", include_str!("../../prelude/data.ts")),
    ("nearest.ts", include_str!("../../prelude/nearest.ts")),
    ("workload.ts", include_str!("../../prelude/workload.ts")),
    ("target.ts", include_str!("../../prelude/target.ts")),
    ("call.ts", include_str!("../../prelude/call.ts")),
    ("runtime.ts", include_str!("../../prelude/runtime.ts")),
    ("observe.ts", include_str!("../../prelude/observe.ts")),
    ("identity.ts", include_str!("../../prelude/identity.ts")),
    ("node.ts", include_str!("../../prelude/node.ts")),
    ("subsystems.ts", include_str!("../../prelude/subsystems.ts")),
    ("main.ts", include_str!("../../prelude/main.ts")),
];

/// What the layer's module is called in stacks.
pub const NAME: &str = "aurae:prelude";

/// The layer over the API that this binary was built with: the table and the files as JavaScript,
/// all in one. Generated, and kept true by a test: every start of a program would spend
/// milliseconds on it. `script` compiles it into the engine's bytecode.
pub const JAVASCRIPT: &str = include_str!("../../prelude/prelude.js");

/// Why the names of the globals aren't known; a test excludes all of it.
#[derive(Debug, thiserror::Error)]
pub enum PreludeError {
    /// The API's descriptors are broken.
    #[error("the friendly layer has no API to stand on")]
    Descriptors(#[source] &'static prost_reflect::DescriptorError),
}

/// Globals that the layer's `main.ts` makes beside the API's own.
const MADE: [&str; 2] = ["AuraeError", "Workload"];

/// Every name that a program has without importing it: the values that `aurae.d.ts` declares, found
/// without writing it.
///
/// # Errors
/// Only where what is built in is broken.
pub fn globals() -> Result<Vec<String>, PreludeError> {
    let schema = Schema::bare().map_err(PreludeError::Descriptors)?;
    let subsystems = schema.subsystems.iter().map(|found| found.name.clone());
    let workloads = workload::all(schema).map(|found| found.name.clone());
    let made = MADE.into_iter().map(str::to_owned);
    let mut names: Vec<String> = declared(HOST).collect();
    names.extend(made.chain(subsystems).chain(workloads));
    Ok(names)
}

/// The values that a text of declarations declares at its outermost level.
fn declared(text: &str) -> impl Iterator<Item = String> {
    const WORDS: [&str; 6] = [
        "const ",
        "function ",
        "class ",
        "abstract class ",
        "var ",
        "let ",
    ];
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix("declare ")?;
        let rest = WORDS.iter().find_map(|word| rest.strip_prefix(word))?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
        rest.get(..end.unwrap_or(rest.len())).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests;
