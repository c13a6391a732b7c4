// SPDX-License-Identifier: Apache-2.0
//! What may stand at the cursor: members of a value, fields and strings that are asked for, names
//! in scope, modules to import and what they export.

use std::collections::HashSet;

use lsp_types::{
    CompletionItem, CompletionItemKind, Documentation, InsertTextFormat, MarkupContent, MarkupKind,
};
use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::NodeId;

use super::cursor::{node_at, wanted};
use super::imports;
use super::narrowed::narrowed;
use super::project::Project;
use super::repair::{self, MARK};
use crate::check::{Facts, Field, FileId, Type, doc_of, infer, readable, symbol_type};

/// The items at `offset` of a module.
pub(crate) fn complete(project: &Project, id: FileId, offset: u32) -> Vec<CompletionItem> {
    completed(project, id, offset, false)
}

/// The same, and what other modules export with the edit that imports it.
pub(super) fn complete_and_import(
    project: &Project,
    id: FileId,
    offset: u32,
) -> Vec<CompletionItem> {
    completed(project, id, offset, true)
}

fn completed(project: &Project, id: FileId, offset: u32, import: bool) -> Vec<CompletionItem> {
    let Some(entry) = project.entry(id) else {
        return Vec::new();
    };
    let repaired = repair::at_cursor(&entry.source, offset);
    let items = project.with(id, &repaired, |module, _| {
        let here = node_at(module, offset)?;
        let mut items = at_node(project, module, here)?;
        if import {
            items.extend(imports::items(project, module, here));
        }
        Some(items)
    });
    items.flatten().unwrap_or_default()
}

fn at_node(project: &Project, module: &Facts<'_, '_>, here: NodeId) -> Option<Vec<CompletionItem>> {
    let nodes = module.tree.nodes;
    let parent = nodes.parent_node(here);
    match (nodes.kind(here), parent.kind()) {
        (
            AstKind::StringLiteral(_),
            AstKind::ImportDeclaration(_) | AstKind::ExportFromDeclaration(_),
        ) => Some(paths(project, module)),
        (AstKind::StringLiteral(_), _) => Some(strings(module, &wanted(module, here)?)),
        (AstKind::IdentifierName(_), AstKind::StaticMemberExpression(member)) => {
            let object = match infer(module, &member.object) {
                // What the flow may have narrowed.
                ty @ (Type::Any | Type::Union(_)) => {
                    narrowed(module, &member.object, here).unwrap_or(ty)
                }
                known => known,
            };
            Some(members(module, &object.present()))
        }
        (
            AstKind::IdentifierName(_) | AstKind::BindingIdentifier(_),
            AstKind::BindingProperty(_),
        ) => taken_apart(module, here),
        (AstKind::IdentifierName(_), AstKind::ObjectProperty(_)) => {
            fields_wanted(module, nodes.parent_node(parent.id()).id())
        }
        (AstKind::IdentifierName(_), AstKind::ImportSpecifier(_))
        | (AstKind::BindingIdentifier(_), AstKind::ImportSpecifier(_)) => {
            let import = nodes.ancestor_kinds(here).find_map(|kind| match kind {
                AstKind::ImportDeclaration(import) => Some(import),
                _ => None,
            })?;
            let file = module.symbols.imports.get(import.source.value.as_str())?;
            Some(exports(module, *file))
        }
        (AstKind::IdentifierReference(_), AstKind::ObjectProperty(property))
            if property.shorthand =>
        {
            let mut items = fields_wanted(module, nodes.parent_node(parent.id()).id());
            if items.is_none() {
                items = Some(in_scope(module, here));
            }
            items
        }
        (AstKind::IdentifierReference(_), AstKind::TSTypeReference(_)) => Some(types(module, here)),
        (AstKind::IdentifierName(_), AstKind::TSQualifiedName(name)) => match &name.left {
            TSTypeName::IdentifierReference(space) => Some(types_within(module, &space.name)),
            _ => None,
        },
        (AstKind::IdentifierReference(_), _) => {
            let mut items = in_scope(module, here);
            if let Some(wanted) = wanted(module, here) {
                items.splice(0..0, quoted(module, &wanted));
            }
            Some(items)
        }
        _ => None,
    }
}

/// The members of what a pattern takes apart: `const { | } = value`.
fn taken_apart(module: &Facts<'_, '_>, here: NodeId) -> Option<Vec<CompletionItem>> {
    let mut above = module.tree.nodes.ancestor_kinds(here);
    let variable = above.find_map(|kind| match kind {
        AstKind::VariableDeclarator(variable) => Some(variable),
        _ => None,
    })?;
    let object = infer(module, variable.init.as_ref()?).present();
    Some(members(module, &object))
}

/// The types of a namespace of the API: `runtime.`.
fn types_within(module: &Facts<'_, '_>, space: &str) -> Vec<CompletionItem> {
    let types = module.world.environment.table.types.iter();
    let within = types.filter_map(|(whole, declared)| {
        let (of, name) = whole.split_once('.')?;
        (of == space).then(|| CompletionItem {
            label: name.to_owned(),
            kind: Some(CompletionItemKind::INTERFACE),
            documentation: docs(declared.doc.as_deref()),
            ..CompletionItem::default()
        })
    });
    let mut items: Vec<CompletionItem> = within.collect();
    items.sort_by(|a, b| a.label.cmp(&b.label));
    items
}

/// The members of a value.
fn members(module: &Facts<'_, '_>, object: &Type) -> Vec<CompletionItem> {
    let (fields, _) = module.world.fields(object);
    fields.iter().map(|field| member(module, field)).collect()
}

fn member(module: &Facts<'_, '_>, field: &Field) -> CompletionItem {
    let callable = module.world.signatures(&field.ty).is_some();
    CompletionItem {
        label: field.name.to_string(),
        kind: Some(match callable {
            true => CompletionItemKind::METHOD,
            false => CompletionItemKind::FIELD,
        }),
        detail: Some(detail(module, &field.ty)),
        documentation: docs(field_doc(module, field).as_deref()),
        ..CompletionItem::default()
    }
}

/// A field's documentation; of a method that has none, its first signature's.
pub(super) fn field_doc(module: &Facts<'_, '_>, field: &Field) -> Option<String> {
    let own = field.doc.as_deref().map(readable);
    own.or_else(|| {
        let signatures = module.world.signatures(&field.ty)?;
        signatures
            .iter()
            .find_map(|it| it.doc.as_deref().map(str::to_owned))
    })
}

/// A type as a line of an editor's list: a method's signatures rather than its interface's name.
pub(crate) fn detail(module: &Facts<'_, '_>, ty: &Type) -> String {
    match module.world.signatures(ty) {
        Some(signatures) => {
            let first = signatures.first().map(ToString::to_string);
            let more = signatures.len().saturating_sub(1);
            match more {
                0 => first.unwrap_or_default(),
                more => format!("{} (+{more} more)", first.unwrap_or_default()),
            }
        }
        None => ty.to_string(),
    }
}

pub(super) fn docs(text: Option<&str>) -> Option<Documentation> {
    let value = text.filter(|text| !text.is_empty())?.to_owned();
    Some(Documentation::MarkupContent(MarkupContent {
        kind: MarkupKind::Markdown,
        value,
    }))
}

/// The fields that the literal at `object` may have and hasn't.
fn fields_wanted(module: &Facts<'_, '_>, object: NodeId) -> Option<Vec<CompletionItem>> {
    let AstKind::ObjectExpression(literal) = module.tree.nodes.kind(object) else {
        return None;
    };
    let wanted = wanted(module, object)?.present();
    if wanted.is_any() {
        return None;
    }
    let given = literal
        .properties
        .iter()
        .filter_map(|property| match property {
            ObjectPropertyKind::ObjectProperty(it) => it.key.static_name(),
            ObjectPropertyKind::SpreadProperty(_) => None,
        });
    let given: HashSet<String> = given.map(|name| name.to_string()).collect();
    let objects = wanted
        .members()
        .iter()
        .map(|ty| module.world.resolve(ty))
        .filter(|ty| matches!(ty, Type::Object(_) | Type::Named(..)));
    let (fields, _) = module.world.fields(&Type::union(objects));
    let left = fields
        .iter()
        .filter(|field| !given.contains(field.name.as_ref()));
    let items = left.map(|field| CompletionItem {
        insert_text: Some(format!("{}: ", field.name)),
        insert_text_format: Some(InsertTextFormat::PLAIN_TEXT),
        // What is required comes first.
        sort_text: Some(format!("{}{}", u8::from(field.optional), field.name)),
        kind: Some(CompletionItemKind::FIELD),
        ..member(module, field)
    });
    Some(items.collect())
}

fn literals(module: &Facts<'_, '_>, wanted: &Type) -> Vec<String> {
    let wanted = module.world.resolve(wanted);
    let members = wanted.members().iter().map(|ty| module.world.resolve(ty));
    members
        .flat_map(|ty| ty.members().to_vec())
        .filter_map(|ty| match ty {
            Type::StringLiteral(value) => Some(value.to_string()),
            _ => None,
        })
        .collect()
}

/// The strings that are asked for, within quotes that are there already.
fn strings(module: &Facts<'_, '_>, wanted: &Type) -> Vec<CompletionItem> {
    let values = literals(module, wanted).into_iter();
    values
        .map(|value| item(value, CompletionItemKind::ENUM_MEMBER))
        .collect()
}

fn quoted(module: &Facts<'_, '_>, wanted: &Type) -> Vec<CompletionItem> {
    let values = literals(module, wanted).into_iter();
    values
        .map(|value| CompletionItem {
            sort_text: Some(format!("0{value}")),
            ..item(format!("{value:?}"), CompletionItemKind::ENUM_MEMBER)
        })
        .collect()
}

fn item(label: String, kind: CompletionItemKind) -> CompletionItem {
    CompletionItem {
        label,
        kind: Some(kind),
        ..CompletionItem::default()
    }
}

/// All names that mean something here.
fn in_scope(module: &Facts<'_, '_>, here: NodeId) -> Vec<CompletionItem> {
    let scoping = module.symbols.scoping();
    let node = module.tree.nodes.get_node(here);
    let mut items = Vec::new();
    let mut seen = HashSet::new();
    for scope in scoping.scope_ancestors(node.scope_id()) {
        for (name, symbol) in scoping.get_bindings(scope) {
            let flags = scoping.symbol_flags(*symbol);
            if !flags.is_value() && !flags.is_import() || name.as_str().contains(MARK) {
                continue;
            }
            if seen.insert(name.to_string()) {
                let ty = symbol_type(module, *symbol);
                items.push(CompletionItem {
                    detail: Some(detail(module, &ty)),
                    documentation: docs(doc_of(module, *symbol).as_deref()),
                    ..item(name.to_string(), value_kind(module, &ty))
                });
            }
        }
    }
    for (name, value) in &module.world.environment.table.values {
        if seen.insert(name.to_string()) {
            let rank = if value.api { "1" } else { "2" };
            items.push(CompletionItem {
                detail: Some(detail(module, &value.ty)),
                documentation: docs(value.doc.as_deref()),
                sort_text: Some(format!("{rank}{name}")),
                ..item(name.to_string(), value_kind(module, &value.ty))
            });
        }
    }
    items
}

fn value_kind(module: &Facts<'_, '_>, ty: &Type) -> CompletionItemKind {
    match ty {
        Type::ClassOf(_) => CompletionItemKind::CLASS,
        ty if module.world.signatures(ty).is_some() => CompletionItemKind::FUNCTION,
        _ => CompletionItemKind::VARIABLE,
    }
}

/// The types that have a name here.
fn types(module: &Facts<'_, '_>, here: NodeId) -> Vec<CompletionItem> {
    let scoping = module.symbols.scoping();
    let node = module.tree.nodes.get_node(here);
    let mut items = Vec::new();
    for scope in scoping.scope_ancestors(node.scope_id()) {
        for (name, symbol) in scoping.get_bindings(scope) {
            let flags = scoping.symbol_flags(*symbol);
            if flags.is_type() || flags.is_class() || flags.is_import() {
                items.push(item(name.to_string(), CompletionItemKind::INTERFACE));
            }
        }
    }
    for (name, declared) in &module.world.environment.table.types {
        items.push(CompletionItem {
            documentation: docs(declared.doc.as_deref()),
            ..item(name.to_string(), CompletionItemKind::INTERFACE)
        });
    }
    items
}

/// What a module exports.
fn exports(module: &Facts<'_, '_>, file: FileId) -> Vec<CompletionItem> {
    let Some(exports) = module.world.exports(file) else {
        return Vec::new();
    };
    let values = exports.values.iter().map(|(name, value)| CompletionItem {
        detail: Some(detail(module, &value.ty)),
        documentation: docs(value.doc.as_deref()),
        ..item(name.to_string(), value_kind(module, &value.ty))
    });
    let types = exports.exported_types.keys();
    let types = types.filter(|name| !exports.values.contains_key(*name));
    let types = types.map(|name| item(name.to_string(), CompletionItemKind::INTERFACE));
    values.chain(types).collect()
}

/// The modules below the root as this one would import them.
fn paths(project: &Project, module: &Facts<'_, '_>) -> Vec<CompletionItem> {
    let Some(own) = project.entry(module.file) else {
        return Vec::new();
    };
    let others = project.entries().filter(|(id, _)| *id != module.file);
    others
        .map(|(_, entry)| item(relative(&own.path, &entry.path), CompletionItemKind::FILE))
        .collect()
}

/// How the module at `from` names the one at `to`.
pub(super) fn relative(from: &str, to: &str) -> String {
    let from: Vec<&str> = from.split('/').collect();
    let to: Vec<&str> = to.split('/').collect();
    let folders = from.len().saturating_sub(1);
    let shared = from
        .iter()
        .take(folders)
        .zip(&to)
        .take_while(|(a, b)| a == b)
        .count();
    let up = "../".repeat(folders - shared);
    let up = if up.is_empty() { "./".to_owned() } else { up };
    let rest: Vec<&str> = to.into_iter().skip(shared).collect();
    format!("{up}{}", rest.join("/"))
}

#[cfg(test)]
mod tests {
    use super::relative;

    #[test]
    fn modules_are_named_from_where_they_are_imported() {
        assert_eq!(relative("main.ts", "apps/web.ts"), "./apps/web.ts");
        assert_eq!(relative("apps/web.ts", "apps/db.ts"), "./db.ts");
        assert_eq!(relative("apps/web.ts", "lib/x.ts"), "../lib/x.ts");
    }
}
