// SPDX-License-Identifier: Apache-2.0
//! Imports that follow modules to other paths: what is to be written in the modules that import
//! one, and in the one that is moved, before its file is. Called by `more`, where TypeScript's
//! service hasn't answered.

use std::collections::HashMap;

use super::complete::relative;
use super::project::Project;
use super::rename::Edits;
use crate::root;
use crate::source::Span;

/// What changes where modules have other paths, each given relative to the root, the old one first.
/// A module that doesn't parse keeps what it imports.
pub(super) fn follow(project: &mut Project, moves: &HashMap<String, String>) -> Edits {
    project.enter_all();
    let mut edits = Edits::new();
    for (id, entry) in project.entries() {
        let own = moves.get(&entry.path);
        for import in &entry.outline.imports {
            let Some(target) = root::join(&entry.path, &import.specifier) else {
                continue;
            };
            let moved = moves.get(&target);
            let is_module = import.specifier.starts_with('.') && import.specifier.ends_with(".ts");
            if !is_module || (own.is_none() && moved.is_none()) {
                continue;
            }
            let specifier = relative(own.unwrap_or(&entry.path), moved.unwrap_or(&target));
            if specifier != import.specifier {
                // Its quotes stay as they are.
                let within = Span::new(import.span.start + 1, import.span.end.saturating_sub(1));
                edits.entry(id).or_default().push((within, specifier));
            }
        }
    }
    edits
}
