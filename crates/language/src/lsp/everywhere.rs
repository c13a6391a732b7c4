// SPDX-License-Identifier: Apache-2.0
//! Where things are, for an editor: a name's other places in its module, the declaration of a
//! value's type, what implements a type, and what all modules declare under a name. Uses for
//! renames are `navigate`'s. Called by `more`.

use std::collections::HashSet;

use lsp_types::DocumentSymbol;
use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::cursor::{Named, declared, named_at};
use super::navigate::{At, definition};
use super::outline;
use super::project::Project;
use crate::check::{Facts, FileId, Type, symbol_type};
use crate::source::Span;

fn own(span: oxc::span::Span) -> Span {
    Span::new(span.start, span.end)
}

/// The places in the module where the name at `offset` stands, its declaration among them.
pub(super) fn highlights(project: &Project, id: FileId, offset: u32) -> Option<Vec<Span>> {
    let readable = project.readable(id)?;
    let offset = readable.then(offset)?;
    let found = project.with(id, &readable.source, |module, _| {
        Some(places(module, named_at(module, offset)?))
    })??;
    let mut found: Vec<Span> = found
        .into_iter()
        .filter_map(|it| readable.now(it))
        .collect();
    found.sort();
    found.dedup();
    Some(found)
}

fn places(module: &Facts<'_, '_>, named: Named) -> Vec<Span> {
    let nodes = module.tree.nodes;
    let scoping = module.symbols.scoping();
    match named {
        Named::Symbol(symbol, _) => {
            let uses = scoping.get_resolved_references(symbol);
            let uses = uses.map(|it| own(nodes.kind(it.node_id()).span()));
            uses.chain([own(scoping.symbol_span(symbol))]).collect()
        }
        Named::Global(name, _) => {
            let uses = nodes.iter().filter_map(|node| match node.kind() {
                AstKind::IdentifierReference(it) if it.name == name.as_str() => {
                    module.symbols.of(it).is_none().then(|| own(it.span))
                }
                _ => None,
            });
            uses.collect()
        }
        Named::Member(field, _) => {
            let uses = nodes.iter().filter_map(|node| {
                let AstKind::IdentifierName(it) = node.kind() else {
                    return None;
                };
                if it.name != field.name.as_ref() {
                    return None;
                }
                let is_declaration = field.file == module.file && field.at == own(it.span);
                let is_use = || match named_at(module, it.span.start) {
                    Some(Named::Member(other, _)) => {
                        (other.file, other.at) == (field.file, field.at)
                    }
                    _ => false,
                };
                (is_declaration || is_use()).then(|| own(it.span))
            });
            uses.collect()
        }
        Named::Module(_, at) => vec![at],
    }
}

/// Where the type of the name at `offset` is declared.
pub(super) fn type_definition(project: &Project, id: FileId, offset: u32) -> Option<At> {
    let readable = project.readable(id)?;
    let offset = readable.then(offset)?;
    let (file, at) = project.with(id, &readable.source, |module, _| {
        let ty = match named_at(module, offset)? {
            Named::Symbol(symbol, _) => symbol_type(module, symbol),
            Named::Member(field, _) => field.ty,
            Named::Global(name, _) => {
                let values = &module.world.environment.table.values;
                values.get(name.as_str())?.ty.clone()
            }
            Named::Module(..) => return None,
        };
        declaration_of(module, &ty)
    })??;
    match file == id {
        true => readable.now(at).map(|at| (file, at)),
        false => Some((file, at)),
    }
}

/// Where a type's name is declared: of a promise, a list, a union the first that has one.
fn declaration_of(module: &Facts<'_, '_>, ty: &Type) -> Option<At> {
    match ty.present().awaited() {
        Type::Array(element) => declaration_of(module, &element),
        Type::Union(members) => members.iter().find_map(|it| declaration_of(module, it)),
        Type::Named(name, _) | Type::ClassOf(name) => {
            let declared = module.world.type_declaration(&name)?;
            Some((declared.file, declared.at))
        }
        _ => None,
    }
}

/// The classes that extend or implement the type whose name stands at `offset`, in all modules
/// below the root; of a member, theirs of its name.
pub(super) fn implementations(project: &mut Project, id: FileId, offset: u32) -> Option<Vec<At>> {
    project.enter_all();
    let at = definition(project, id, offset)?;
    let member = owner(project, at);
    let first = member.as_ref().map_or(at, |(owner, _)| *owner);
    let member = member.map(|(_, name)| name);
    let mut targets = vec![first];
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while let Some(target) = targets.pop() {
        if !seen.insert(target) {
            continue;
        }
        for (file, _) in project.entries() {
            let Some(readable) = project.readable(file) else {
                continue;
            };
            let classes = project.with(file, &readable.source, |module, _| {
                of_target(module, target, member.as_deref())
            });
            for (class, place) in classes.unwrap_or_default() {
                targets.push((file, class));
                found.extend(place.and_then(|it| readable.now(it)).map(|it| (file, it)));
            }
        }
    }
    Some(found)
}

/// The interface or class that declares the member at a place, with the member's name.
fn owner(project: &Project, (file, at): At) -> Option<(At, String)> {
    let source = project.readable(file)?.source;
    project.with(file, &source, |module, _| {
        let id = super::cursor::node_at(module, at.start)?;
        let AstKind::IdentifierName(name) = module.tree.nodes.kind(id) else {
            return None;
        };
        let mut above = module.tree.nodes.ancestor_kinds(id);
        let owner = above.find_map(|kind| match kind {
            AstKind::TSInterfaceDeclaration(it) => Some(own(it.id.span)),
            AstKind::Class(it) => it.id.as_ref().map(|id| own(id.span)),
            _ => None,
        })?;
        Some(((file, owner), name.name.to_string()))
    })?
}

/// The names of the classes with a type among their bases, and the places to show of them.
fn of_target(
    module: &Facts<'_, '_>,
    target: At,
    member: Option<&str>,
) -> Vec<(Span, Option<Span>)> {
    let is_target = |name: &IdentifierReference<'_>| {
        let symbol = module.symbols.of(name);
        symbol.is_some_and(|symbol| declared(module, symbol) == target)
    };
    let classes = module.tree.nodes.iter().filter_map(|node| {
        let AstKind::Class(class) = node.kind() else {
            return None;
        };
        let extends = class
            .heritage
            .as_ref()
            .is_some_and(|it| match &it.expression {
                Expression::Identifier(name) => is_target(name),
                _ => false,
            });
        let mut implements = class.implements.iter();
        let implements = implements.any(|it| match &it.expression {
            TSTypeName::IdentifierReference(name) => is_target(name),
            _ => false,
        });
        let id = class.id.as_ref()?;
        if !extends && !implements {
            return None;
        }
        let place = match member {
            None => Some(own(id.span)),
            Some(name) => {
                let keys = class
                    .body
                    .body
                    .iter()
                    .filter_map(ClassElement::property_key);
                let mut named = keys.filter(|key| key.static_name().is_some_and(|it| it == name));
                named.next().map(|key| own(key.span()))
            }
        };
        Some((own(id.span), place))
    });
    classes.collect()
}

/// What all modules below the root declare at their top under a name with `query` in it, whatever
/// its case; at most [`SHOWN`].
pub(super) fn symbols(project: &mut Project, query: &str) -> Vec<(FileId, DocumentSymbol)> {
    project.enter_all();
    let query = query.to_lowercase();
    let mut found = Vec::new();
    for (id, _) in project.entries() {
        let Some(readable) = project.readable(id) else {
            continue;
        };
        let source = readable.source;
        if found.len() >= SHOWN || !source.text().to_lowercase().contains(&query) {
            continue;
        }
        let symbols = project.with(id, &source, |module, _| outline::symbols(&source, module));
        let symbols = symbols.unwrap_or_default().into_iter();
        let named = symbols.filter(|it| it.name.to_lowercase().contains(&query));
        found.extend(named.map(|it| (id, it)));
    }
    found.truncate(SHOWN);
    found
}

/// How many symbols an editor is shown; who wants others writes more of the name.
const SHOWN: usize = 500;
