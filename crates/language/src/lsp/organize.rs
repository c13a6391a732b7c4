// SPDX-License-Identifier: Apache-2.0
//! Imports put in order: sorted, one for each module, without what isn't read. Groups that an empty
//! line, a comment or an `import "./x.ts"` parts are put in order each for itself, so that comments
//! stay where they are and what is imported for what it does keeps its place. An import of values
//! that nothing is left of becomes such an `import "./x.ts"`: without it the module wouldn't run.
//! Where TypeScript's service answers, its order is the one.

use std::collections::BTreeMap;

use oxc::ast::ast::*;

use super::project::Project;
use super::unused;
use crate::check::{Facts, FileId};
use crate::format;
use crate::source::{Source, Span};

/// The parts of a module that change where its imports are put in order, with what comes there.
pub(super) fn organize(project: &Project, id: FileId) -> Vec<(Span, String)> {
    let Some(entry) = project.entry(id).filter(|entry| entry.is_sound()) else {
        return Vec::new();
    };
    let text = entry.source.text();
    let changes = project.with(id, &entry.source, |module, _| {
        let groups = groups(module, text).into_iter();
        let changes = groups.filter_map(|group| {
            let (first, last) = (group.first()?, group.last()?);
            let span = Span::new(first.span.start, last.span.end);
            let new = written(module, &group);
            // The one form that all imports have.
            let formatted = format::format(&Source::new(entry.source.name(), new.as_str()));
            let new = formatted.map_or(new, |it| it.trim_end().to_owned());
            let old = text.get(span.start as usize..span.end as usize)?;
            // With nothing left its line goes.
            let line = new.is_empty() && text.as_bytes().get(span.end as usize) == Some(&b'\n');
            let whole = Span::new(span.start, span.end + u32::from(line));
            (old != new).then_some((whole, new))
        });
        changes.collect()
    });
    changes.unwrap_or_default()
}

/// Imports that may change places with each other.
fn groups<'a, 'm>(module: &'m Facts<'a, '_>, text: &str) -> Vec<Vec<&'m ImportDeclaration<'a>>> {
    let mut groups: Vec<Vec<&ImportDeclaration<'_>>> = Vec::new();
    let mut end: Option<u32> = None;
    for statement in &module.tree.program.body {
        let Statement::ImportDeclaration(import) = statement else {
            end = None;
            continue;
        };
        let plain = import.specifiers.is_some() && import.with_clause.is_none();
        let plain = plain && import.phase.is_none() && !has_comment(module, import.span);
        let line = text.get(import.span.end as usize..).unwrap_or_default();
        let line = line.split('\n').next().unwrap_or_default();
        let alone = line.trim_start_matches(';').trim().is_empty();
        if !plain || !alone {
            end = None;
            continue;
        }
        let between = end.and_then(|end| text.get(end as usize..import.span.start as usize));
        let joined = between.is_some_and(|it| it.trim().is_empty() && it.matches('\n').count() < 2);
        match groups.last_mut().filter(|_| joined) {
            Some(group) => group.push(import),
            None => groups.push(vec![import]),
        }
        end = Some(import.span.end);
    }
    groups
}

fn has_comment(module: &Facts<'_, '_>, span: oxc::span::Span) -> bool {
    let mut comments = module.tree.program.comments.iter();
    comments.any(|it| span.contains_inclusive(it.span))
}

/// What is taken from one module.
#[derive(Default)]
struct Taken {
    /// Each by its name: `import all from`.
    defaults: Vec<String>,
    /// `* as all`.
    spaces: Vec<String>,
    /// As they are written between braces.
    names: Vec<String>,
    /// It was imported for values.
    values: bool,
}

/// A group in order, a line each.
fn written(module: &Facts<'_, '_>, group: &[&ImportDeclaration<'_>]) -> String {
    // Of one module values come before types.
    let mut modules: BTreeMap<(&str, bool), Taken> = BTreeMap::new();
    for import in group {
        let is_type = import.import_kind.is_type();
        let key = (import.source.value.as_str(), is_type);
        let taken = modules.entry(key).or_default();
        taken.values |= !is_type;
        for specifier in import.specifiers.iter().flatten() {
            if unused::is_taken(module, specifier.local()) {
                taken.add(specifier);
            }
        }
    }
    let mut lines = Vec::new();
    for ((specifier, is_type), taken) in modules {
        taken.write(specifier, is_type, &mut lines);
    }
    lines.join("\n")
}

impl Taken {
    fn add(&mut self, specifier: &ImportDeclarationSpecifier<'_>) {
        match specifier {
            ImportDeclarationSpecifier::ImportSpecifier(it) => {
                let word = match it.import_kind.is_type() {
                    true => "type ",
                    false => "",
                };
                let local = it.local.name.as_str();
                let written = match &it.imported {
                    ModuleExportName::StringLiteral(name) => {
                        format!("{word}{:?} as {local}", name.value.as_str())
                    }
                    name if name.name() == local => format!("{word}{local}"),
                    name => format!("{word}{} as {local}", name.name()),
                };
                if !self.names.contains(&written) {
                    self.names.push(written);
                }
            }
            ImportDeclarationSpecifier::ImportDefaultSpecifier(it) => {
                self.defaults.push(it.local.name.to_string());
            }
            ImportDeclarationSpecifier::ImportNamespaceSpecifier(it) => {
                self.spaces.push(it.local.name.to_string());
            }
        }
    }

    fn write(mut self, specifier: &str, is_type: bool, lines: &mut Vec<String>) {
        let word = if is_type { "type " } else { "" };
        let mut line = |names: &str| {
            lines.push(format!("import {word}{names} from \"{specifier}\";"));
        };
        let bare = |name: &str| name.trim_start_matches("type ").to_owned();
        self.names
            .sort_by_cached_key(|name| (bare(name).to_lowercase(), bare(name)));
        let nothing = self.defaults.is_empty() && self.spaces.is_empty() && self.names.is_empty();
        for space in &self.spaces {
            line(&format!("* as {space}"));
        }
        let names = (!self.names.is_empty()).then(|| format!("{{ {} }}", self.names.join(", ")));
        // A type import takes a default or names, not both.
        let mut defaults = self.defaults.iter();
        let with_names = match is_type {
            true => None,
            false => defaults.next(),
        };
        match (with_names, names) {
            (Some(default), Some(names)) => line(&format!("{default}, {names}")),
            (Some(default), None) => line(default),
            (None, Some(names)) => line(&names),
            (None, None) => {}
        }
        for default in defaults {
            line(default);
        }
        if nothing && self.values {
            lines.push(format!("import \"{specifier}\";"));
        }
    }
}
