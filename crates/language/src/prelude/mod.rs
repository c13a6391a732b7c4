// SPDX-License-Identifier: Apache-2.0
//! The friendly layer, which is written in the language itself (`prelude/*.ts`): its text for the
//! evaluator, its types for the declarations.
//!
//! The evaluator gets one module, `prelude/prelude.js`: it puts the API's table on the global
//! `__aurae`, and then there are the files of the layer without types. What the two expect of each
//! other is said in `prelude/internal.d.ts`. This module runs nothing; `script` does.

mod exported;
mod table;

pub(crate) use exported::{Exported, Friendly, exported, without_header};
pub use table::table;

/// The host's surface, as `aurae.d.ts` has it.
pub(crate) const HOST: &str = include_str!("../../prelude/host.d.ts");

/// In the order in which they need each other.
const FILES: [(&str, &str); 15] = [
    ("error.ts", include_str!("../../prelude/error.ts")),
    ("table.ts", include_str!("../../prelude/table.ts")),
    ("data.ts", include_str!("../../prelude/data.ts")),
    ("nearest.ts", include_str!("../../prelude/nearest.ts")),
    ("workload.ts", include_str!("../../prelude/workload.ts")),
    ("image.ts", include_str!("../../prelude/image.ts")),
    ("target.ts", include_str!("../../prelude/target.ts")),
    ("call.ts", include_str!("../../prelude/call.ts")),
    ("runtime.ts", include_str!("../../prelude/runtime.ts")),
    ("observe.ts", include_str!("../../prelude/observe.ts")),
    ("identity.ts", include_str!("../../prelude/identity.ts")),
    ("schedule.ts", include_str!("../../prelude/schedule.ts")),
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

/// The API's names. Generated, and kept true by a test: reading the descriptors takes as long as
/// all else that a short program waits for, and it is read and compiled without them.
const NAMES: &str = include_str!("../../prelude/names.txt");

/// Globals that the layer's `main.ts` makes beside the API's own.
const MADE: [&str; 3] = ["AuraeError", "Workload", "Image"];

/// Every name that a program has without importing it: the values that `aurae.d.ts` declares, found
/// without writing it and without the API's descriptors.
pub fn globals() -> Vec<&'static str> {
    let of_api = MADE.into_iter().chain(subsystems()).chain(workloads());
    declared(HOST).chain(of_api).collect()
}

/// The globals by which a program calls a node.
pub fn subsystems() -> impl Iterator<Item = &'static str> {
    named("subsystem ")
}

/// The API's workloads, of which each is a class.
pub(crate) fn workloads() -> impl Iterator<Item = &'static str> {
    named("workload ")
}

fn named(kind: &'static str) -> impl Iterator<Item = &'static str> {
    NAMES
        .lines()
        .filter_map(move |line| line.strip_prefix(kind))
}

/// The values that a text of declarations declares at its outermost level.
fn declared(text: &str) -> impl Iterator<Item = &str> {
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
        rest.get(..end.unwrap_or(rest.len()))
    })
}

#[cfg(test)]
mod tests;
