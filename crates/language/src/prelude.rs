// SPDX-License-Identifier: Apache-2.0
//! The friendly layer, which is written in the language itself (`prelude/*.ts`): its text for the
//! evaluator, its types for the declarations.
//!
//! The evaluator gets one module: a first line that puts the API's table on the global `__aurae`,
//! then the files of the layer without types. What the two expect of each other is said in
//! `prelude/internal.d.ts`. This module runs nothing; `script` does.

mod exported;
mod table;

use crate::schema::Schema;

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

/// The layer's files as JavaScript, all in one. Generated, and kept true by a test: every start of
/// a program would spend milliseconds on it.
const JAVASCRIPT: &str = include_str!("../prelude/prelude.js");

/// Why there is no layer; a test excludes all of it.
#[derive(Debug, thiserror::Error)]
pub enum PreludeError {
    /// The API's descriptors are broken.
    #[error("the friendly layer has no API to stand on")]
    Descriptors(#[source] &'static prost_reflect::DescriptorError),
}

/// The layer as the evaluator takes it.
#[derive(Clone, Debug)]
pub struct Layer {
    /// One ECMAScript module, called [`NAME`].
    pub code: String,
}

/// The layer over the API that this binary was built with.
///
/// # Errors
/// Only where what is built in is broken.
pub fn compiled() -> Result<Layer, PreludeError> {
    // Nobody reads comments here, and every call of the command line would have to read past them.
    let pool = api::descriptor_pool().map_err(PreludeError::Descriptors)?;
    let table = table(&Schema::new(pool));
    Ok(Layer {
        code: format!("__aurae.table = {table};\n{JAVASCRIPT}"),
    })
}

#[cfg(test)]
mod tests;
