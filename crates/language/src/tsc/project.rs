// SPDX-License-Identifier: Apache-2.0
//! A folder for the compiler with our declarations and a configuration of ours. What lies beside a
//! program (its `tsconfig.json`, its `@types`) has no say: a program means the same everywhere.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::AskError;
use crate::declare::{TSCONFIG, aurae_d_ts};

/// What the compiler is to look at.
pub(crate) enum Files {
    /// These, wherever they are.
    These(Vec<PathBuf>),
    /// All modules in the folder.
    InFolder,
}

/// Writes `aurae.d.ts` and `tsconfig.json` into a folder.
///
/// # Errors
/// They can't be written.
pub(crate) fn write_project(folder: &Path, files: Files) -> Result<(), AskError> {
    let written = |source| AskError::System {
        what: "can't write the types for the compiler",
        source,
    };
    let types = folder.join("aurae.d.ts");
    let text = aurae_d_ts().map_err(|problem| AskError::Types(problem.to_string()))?;
    std::fs::write(&types, text).map_err(written)?;
    let config = serde_json::from_str(TSCONFIG);
    let mut config: Value = config.map_err(|problem| AskError::Types(problem.to_string()))?;
    if let (Files::These(mut files), Some(fields)) = (files, config.as_object_mut()) {
        files.push(types);
        fields.remove("include");
        fields.insert("files".to_owned(), json!(files));
    }
    std::fs::write(folder.join("tsconfig.json"), config.to_string()).map_err(written)
}
