// SPDX-License-Identifier: Apache-2.0
//! Names that other modules below the root export, for a module that doesn't import them yet: as
//! items of a completion and as repairs of names that mean nothing, each with the edit that imports
//! it. Modules whose own imports lead here aren't offered: importing them would close a circle.
//! Where TypeScript's service answers, its imports are offered instead.

use std::collections::HashSet;

use lsp_types::{CompletionItem, CompletionItemKind, CompletionItemLabelDetails, Range, TextEdit};
use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;
use oxc::span::GetSpan;
use oxc::syntax::identifier::is_identifier_name;
use oxc::syntax::keyword::is_reserved_keyword_or_global_object;

use super::complete::relative;
use super::place;
use super::project::Project;
use super::repair::MARK;
use crate::check::{Facts, FileId};
use crate::program::Export;
use crate::source::{Source, Span};

/// At most so many are offered; who wants others writes more of the name.
const OFFERED: usize = 500;

/// A name that can be imported.
struct Offer {
    /// As it is called here.
    name: String,
    type_only: bool,
    /// It is the module's default, which has no name of its own.
    default: bool,
    /// The module, as this one names it.
    specifier: String,
}

/// The names that other modules export, nearest modules first.
fn offers(project: &Project, id: FileId, fits: impl Fn(&str) -> bool) -> Vec<Offer> {
    let Some(own) = project.entry(id) else {
        return Vec::new();
    };
    let circle: HashSet<FileId> = project.reached_by(&[id]).into_iter().collect();
    let mut offers = Vec::new();
    for (_, entry) in project.entries().filter(|(id, _)| !circle.contains(id)) {
        let exports = &entry.outline.exports;
        for export in exports {
            let default = export.name == "default";
            let name = match default {
                true => default_name(export, exports, &entry.path),
                false => Some(export.name.clone()),
            };
            if let Some(name) = name.filter(|name| fits(name)) {
                offers.push(Offer {
                    name,
                    type_only: export.type_only,
                    default,
                    specifier: relative(&own.path, &entry.path),
                });
            }
        }
    }
    let far = |offer: &Offer| offer.specifier.matches('/').count();
    offers.sort_by(|a, b| (&a.name, far(a), &a.specifier).cmp(&(&b.name, far(b), &b.specifier)));
    offers.truncate(OFFERED);
    offers
}

/// What a module's default is called elsewhere: as inside, else as its file. None where that is no
/// name, and where the module exports it by its name, too.
fn default_name(export: &Export, all: &[Export], path: &str) -> Option<String> {
    if let Some(local) = &export.local {
        let named = all.iter().any(|other| {
            other.name != "default" && other.local.as_ref().unwrap_or(&other.name) == local
        });
        return (!named && is_name(local)).then(|| local.clone());
    }
    let file = path.rsplit('/').next()?;
    let stem = file.split('.').next()?;
    let mut words = stem.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
    let first = words.next()?.to_owned();
    let name = words.fold(first, |name, word| {
        let mut letters = word.chars();
        let upper = letters.next().map(|it| it.to_uppercase().to_string());
        name + upper.unwrap_or_default().as_str() + letters.as_str()
    });
    is_name(&name).then_some(name)
}

/// Whether a variable can be called so.
fn is_name(text: &str) -> bool {
    is_identifier_name(text) && !is_reserved_keyword_or_global_object(text)
}

/// What may be completed at a name by importing it.
pub(super) fn items(
    project: &Project,
    module: &Facts<'_, '_>,
    here: NodeId,
) -> Vec<CompletionItem> {
    let nodes = module.tree.nodes;
    let AstKind::IdentifierReference(name) = nodes.kind(here) else {
        return Vec::new();
    };
    let is_type = matches!(nodes.parent_kind(here), AstKind::TSTypeReference(_));
    let typed = name.name.replace(MARK, "").to_lowercase();
    let scoping = module.symbols.scoping();
    let scope = nodes.get_node(here).scope_id();
    let known = |text: &str| {
        let mut scopes = scoping.scope_ancestors(scope);
        scopes.any(|scope| scoping.get_binding(scope, text.into()).is_some())
    };
    let Some(entry) = project.entry(module.file) else {
        return Vec::new();
    };
    let fits = |text: &str| text.to_lowercase().starts_with(&typed) && !known(text);
    let written = imports(module, &entry.source);
    let offers = offers(project, module.file, fits).into_iter();
    let offers = offers.filter(|offer| is_type || !offer.type_only);
    let items = offers.map(|offer| CompletionItem {
        label: offer.name.clone(),
        label_details: Some(CompletionItemLabelDetails {
            detail: None,
            description: Some(offer.specifier.clone()),
        }),
        detail: Some(format!("import from \"{}\"", offer.specifier)),
        kind: Some(match offer.type_only {
            true => CompletionItemKind::INTERFACE,
            false => CompletionItemKind::VARIABLE,
        }),
        // After what needs no import.
        sort_text: Some(format!("3{}", offer.name)),
        additional_text_edits: Some(vec![edit(&written, &entry.source, &offer)]),
        ..CompletionItem::default()
    });
    items.collect()
}

/// A repair: what it says, the name's place, and the edit.
pub(super) type Repair = (String, Span, TextEdit);

/// Imports of the names within a part of a module that mean nothing.
pub(super) fn repairs(project: &mut Project, id: FileId, within: Span) -> Vec<Repair> {
    let Some(entry) = project.entry(id).filter(|entry| entry.is_sound()) else {
        return Vec::new();
    };
    let source = entry.source.clone();
    let unknown = project.with(id, &source, |module, _| unknown(module, within));
    let unknown = unknown.unwrap_or_default();
    if unknown.is_empty() {
        return Vec::new();
    }
    project.enter_all();
    let project = &*project;
    let repairs = project.with(id, &source, |module, _| {
        let written = imports(module, &source);
        let of = |(name, at, is_type): &(String, Span, bool)| {
            let offers = offers(project, id, |text| text == name).into_iter();
            let offers = offers.filter(|offer| *is_type || !offer.type_only);
            let repairs = offers.map(|offer| {
                let title = format!("Import `{name}` from \"{}\"", offer.specifier);
                (title, *at, edit(&written, &source, &offer))
            });
            repairs.collect::<Vec<_>>()
        };
        unknown.iter().flat_map(of).collect()
    });
    repairs.unwrap_or_default()
}

/// The names that mean nothing, each once, with whether a type is named.
fn unknown(module: &Facts<'_, '_>, within: Span) -> Vec<(String, Span, bool)> {
    let nodes = module.tree.nodes;
    let mut seen = HashSet::new();
    let found = nodes.iter().filter_map(|node| {
        let AstKind::IdentifierReference(name) = node.kind() else {
            return None;
        };
        let span = Span::new(name.span.start, name.span.end);
        let outside = span.end < within.start || within.end < span.start;
        let environment = &module.world.environment;
        let is_known = module.symbols.of(name).is_some()
            || environment.has(&name.name)
            || environment.table.types.contains_key(name.name.as_str());
        if outside || is_known || !seen.insert(name.name.to_string()) {
            return None;
        }
        let is_type = matches!(nodes.parent_kind(node.id()), AstKind::TSTypeReference(_));
        Some((name.name.to_string(), span, is_type))
    });
    found.collect()
}

/// The edit that imports something: into an import of the same module where there is one, else a
/// line after the last import.
fn edit(imports: &[&ImportDeclaration<'_>], source: &Source, offer: &Offer) -> TextEdit {
    let same = imports
        .iter()
        .find_map(|import| joined(import, source, offer));
    let (at, new_text) = same.unwrap_or_else(|| {
        let word = if offer.type_only { "type " } else { "" };
        let (name, specifier) = (&offer.name, &offer.specifier);
        let taken = match offer.default {
            true => name.clone(),
            false => format!("{{ {name} }}"),
        };
        let line = format!("import {word}{taken} from \"{specifier}\";");
        match imports.last() {
            Some(last) => (last.span.end, format!("\n{line}")),
            None => (head(source.text()), format!("{line}\n")),
        }
    });
    let at = place::position(source, at);
    TextEdit {
        range: Range::new(at, at),
        new_text,
    }
}

/// Where an import takes one name more, and what is written there.
fn joined(import: &ImportDeclaration<'_>, source: &Source, offer: &Offer) -> Option<(u32, String)> {
    let is_type = import.import_kind.is_type();
    let named = import.specifiers.as_ref()?;
    let (first, last) = (named.first()?, named.last()?);
    let is_named = |one: &ImportDeclarationSpecifier<'_>| {
        matches!(one, ImportDeclarationSpecifier::ImportSpecifier(_))
    };
    let fits = import.source.value == offer.specifier.as_str()
        && (!is_type || offer.type_only)
        && import.with_clause.is_none()
        && is_named(last);
    if !fits {
        return None;
    }
    if offer.default {
        // A default stands before the names, of which a type's import has either or.
        let all = !is_type && !offer.type_only && is_named(first);
        let from = import.span.start;
        let text = source
            .text()
            .get(from as usize..first.span().start as usize)?;
        let brace = u32::try_from(text.find('{')?).ok()?;
        return all.then(|| (from + brace, format!("{}, ", offer.name)));
    }
    let word = match offer.type_only && !is_type {
        true => "type ",
        false => "",
    };
    Some((last.span().end, format!(", {word}{}", offer.name)))
}

/// The imports at the top of a module that stand in the text as they do in the tree: one that was
/// mended around the cursor is another behind it.
fn imports<'a, 'm>(module: &'m Facts<'a, '_>, source: &Source) -> Vec<&'m ImportDeclaration<'a>> {
    let looked_at = module.tree.program.source_text;
    let imports = module.tree.program.body.iter().map_while(|statement| {
        let Statement::ImportDeclaration(import) = statement else {
            return None;
        };
        let end = import.span.end as usize;
        (looked_at.get(..end)? == source.text().get(..end)?).then_some(&**import)
    });
    imports.collect()
}

/// Where a module's first line goes: behind its `#!` and what is said of the file as a whole,
/// which an empty line ends.
fn head(text: &str) -> u32 {
    let mut at = 0;
    if text.starts_with("#!") {
        at = text.find('\n').map_or(text.len(), |it| it + 1);
    }
    let mut end = at;
    for line in text.get(at..).unwrap_or_default().split_inclusive('\n') {
        let words = line.trim();
        end += line.len();
        if words.is_empty() {
            at = end;
            break;
        }
        let is_comment = ["//", "/*", "*"].iter().any(|it| words.starts_with(it));
        if !is_comment {
            break;
        }
    }
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn an_import_comes_behind_what_is_said_of_the_file() {
        assert_eq!(head("print(1);\n"), 0);
        assert_eq!(head("// aurae: protect\nprint(1);\n"), 0);
        assert_eq!(head("#!/usr/bin/env aurae\nprint(1);\n"), 21);
        assert_eq!(head("// Ours.\n\nprint(1);\n"), 10);
        assert_eq!(head("/*\n * Ours.\n */\n\nprint(1);\n"), 17);
        assert_eq!(head("print(1);\n\nprint(2);\n"), 0);
    }
}
