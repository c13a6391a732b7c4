// SPDX-License-Identifier: Apache-2.0
//! What a folder holds, for tests that something is kept, or is kept nowhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

/// Every file below a folder that has these bytes.
///
/// # Panics
/// Where the folder can't be read.
#[must_use]
pub fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with(&path, bytes));
        } else if kind.is_file() {
            let text = fs::read(&path).unwrap_or_default();
            if text.windows(bytes.len()).any(|it| it == bytes) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
