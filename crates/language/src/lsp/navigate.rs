// SPDX-License-Identifier: Apache-2.0
//! Where a name is declared, where it is used in all modules below the root, and what changes
//! where it is called otherwise.

use std::collections::{BTreeSet, HashSet};

use oxc::ast::AstKind;
use oxc::ast::ast::ImportDeclarationSpecifier;
use oxc::semantic::SymbolId;
use oxc::span::GetSpan;

use super::cursor::{Named, declared, named_at};
use super::members::{self, Found, Which};
use super::project::Project;
use crate::check::{Facts, FileId};
use crate::reserved::is_reserved;
use crate::source::{Source, Span};

/// A place in a module.
pub(super) type At = (FileId, Span);

/// The declaration of the name at `offset`; of what the environment declares in one of its texts.
pub(super) fn definition(project: &Project, id: FileId, offset: u32) -> Option<At> {
    let readable = project.readable(id)?;
    let (file, at) = declaration(project, id, &readable.source, readable.then(offset)?)?;
    match file == id {
        true => readable.now(at).map(|at| (file, at)),
        false => Some((file, at)),
    }
}

/// The same in a text of the module.
fn declaration(project: &Project, id: FileId, source: &Source, offset: u32) -> Option<At> {
    project.with(id, source, |module, _| {
        Some(match named_at(module, offset)? {
            Named::Symbol(symbol, _) => declared(module, symbol),
            Named::Member(field, _) => (field.file, field.at),
            Named::Module(specifier, _) => {
                (*module.symbols.imports.get(&specifier)?, Span::default())
            }
            Named::Global(name, _) => {
                let table = &module.world.environment.table;
                let value = table.values.get(name.as_str()).map(|it| (it.file, it.at));
                let declared = || table.types.get(name.as_str()).map(|it| (it.file, it.at));
                value.or_else(declared)?
            }
        })
    })?
}

/// How a name is written where it is used, and so what is written there if it changes to `new`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// `new`.
    Plain,
    /// `{ name }` stands for `name: name`, of which only the value changes: `name: new`.
    Value,
    /// There, only the key: `new: name`.
    Key,
}

/// A use of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) file: FileId,
    pub(super) span: Span,
    pub(super) form: Form,
}

/// Whose name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A variable's, a function's, a type's, …
    Symbol,
    /// A member's that is declared there.
    Member(At),
}

/// All uses of a name, its declaration among them.
#[derive(Debug)]
pub(super) struct Uses {
    pub(super) all: Vec<Use>,
    pub(super) owner: Owner,
    /// Where and why the name can't be changed.
    pub(super) obstacle: Option<(At, &'static str)>,
}

/// All uses of the name at `offset`.
///
/// # Errors
/// It isn't known what the name belongs to: why, for people.
pub(super) fn uses(project: &mut Project, id: FileId, offset: u32) -> Result<Uses, &'static str> {
    project.enter_all();
    const NAMELESS: &str = "this is no name of the program's";
    let readable = project.readable(id).ok_or(NAMELESS)?;
    let (source, offset) = (&readable.source, readable.then(offset).ok_or(NAMELESS)?);
    if let Some(at) = declaration(project, id, source, offset)
        && let Some(found) = of_declaration(project, at)
    {
        return Ok(found);
    }
    let member = project.with(id, source, |module, _| members::at(module, offset));
    let member = member.flatten();
    let (name, places) = match member {
        Some((name, Which::These(places))) => (name, places),
        Some((_, Which::Unknown)) => return Err("what this belongs to isn't known"),
        Some((_, Which::None)) | None => return Err(NAMELESS),
    };
    let [member] = places.as_slice() else {
        return Err("this may be a member of several types");
    };
    let found = members::uses(project, *member, &name);
    Ok(Uses {
        all: found.uses.into_iter().collect(),
        owner: Owner::Member(*member),
        obstacle: found.obstacle,
    })
}

/// The uses of the name that an import gives what it takes, where `offset` is on that name and not
/// on the one that it has in its module.
pub(super) fn of_alias(project: &mut Project, id: FileId, offset: u32) -> Option<Uses> {
    let source = project.entry(id)?.source.clone();
    let at = project.with(id, &source, |module, _| {
        let Named::Symbol(symbol, _) = named_at(module, offset)? else {
            return None;
        };
        let AstKind::ImportSpecifier(it) = module.symbols.declaration(symbol) else {
            return None;
        };
        let theirs = it.imported.span();
        let on_theirs = theirs.start <= offset && offset <= theirs.end;
        let own = it.local.span;
        let is_alias = it.imported.name() != it.local.name && !on_theirs;
        is_alias.then(|| Span::new(own.start, own.end))
    })??;
    of_declaration(project, (id, at))
}

/// The uses of the symbol that is declared there; `None` where it is no symbol's place.
fn of_declaration(project: &Project, (file, at): At) -> Option<Uses> {
    let mut found = Found::default();
    let mut wanted: Vec<(FileId, String)> = Vec::new();
    let readable = project.readable(file)?;
    project.with(file, &readable.source, |module, _| {
        let scoping = module.symbols.scoping();
        let symbol = scoping
            .symbol_ids()
            .find(|symbol| scoping.symbol_span(*symbol).start == at.start)?;
        if let AstKind::FormalParameter(it) = module.symbols.declaration(symbol)
            && it.has_modifier()
        {
            found.obstacle = Some(((file, at), members::PARAMETER));
        }
        of_symbol(module, symbol, &mut found.uses);
        let entry = project.entry(file)?;
        let name = scoping.symbol_name(symbol);
        let exported = entry.outline.exports.iter();
        let exported = exported.filter(|it| it.local.as_deref() == Some(name) && it.name == name);
        wanted.extend(exported.map(|it| (file, it.name.clone())));
        Some(())
    })??;
    let present = found.uses.into_iter().filter_map(|it| {
        let span = readable.now(it.span)?;
        Some(Use { span, ..it })
    });
    found.uses = present.collect();
    let mut seen = HashSet::new();
    while let Some((from, name)) = wanted.pop() {
        if seen.insert((from, name.clone())) {
            in_importers(project, from, &name, &mut found, &mut wanted);
        }
    }
    Some(Uses {
        all: found.uses.into_iter().collect(),
        owner: Owner::Symbol,
        obstacle: found.obstacle,
    })
}

/// The uses in modules that import `name` from `from`; those that export it again are wanted next.
fn in_importers(
    project: &Project,
    from: FileId,
    name: &str,
    found: &mut Found,
    wanted: &mut Vec<(FileId, String)>,
) {
    let importers = project.entries();
    let importers = importers.filter(|(_, entry)| entry.imports().values().any(|it| *it == from));
    for (importer, entry) in importers {
        project.with(importer, &entry.source, |module, _| {
            for import in &entry.outline.imports {
                if entry.imports().get(&import.specifier) != Some(&from) {
                    continue;
                }
                if import.passes_all {
                    wanted.push((importer, name.to_owned()));
                }
                for taken in import.names.iter().filter(|it| it.name == name) {
                    found.uses.insert(Use {
                        file: importer,
                        span: taken.span,
                        form: Form::Plain,
                    });
                    if taken.local == name {
                        wanted.push((importer, name.to_owned()));
                    }
                }
            }
            for symbol in imported_as(module, from, name) {
                of_symbol(module, symbol, &mut found.uses);
            }
            through_namespace(module, from, name, found);
        });
    }
}

/// `all.name` where all of `from` is imported as `all`.
fn through_namespace(module: &Facts<'_, '_>, from: FileId, name: &str, found: &mut Found) {
    let nodes = module.tree.nodes;
    for node in nodes {
        let AstKind::ImportNamespaceSpecifier(it) = node.kind() else {
            continue;
        };
        let Some(symbol) = it.local.symbol_id.get() else {
            continue;
        };
        if !matches!(module.symbols.imported(symbol), Some((file, None)) if file == from) {
            continue;
        }
        for reference in module.symbols.scoping().get_resolved_references(symbol) {
            let id = reference.node_id();
            let (right, text) = match nodes.parent_kind(id) {
                AstKind::StaticMemberExpression(it) => (it.property.span, it.property.name),
                AstKind::TSQualifiedName(it) => (it.right.span, it.right.name),
                _ => {
                    let here = nodes.kind(id).span();
                    let at = (module.file, Span::new(here.start, here.end));
                    found.obstacle.get_or_insert((at, members::WHOLE));
                    continue;
                }
            };
            if text == name {
                found.uses.insert(Use {
                    file: module.file,
                    span: Span::new(right.start, right.end),
                    form: Form::Plain,
                });
            }
        }
    }
}

/// The symbols under which `name` of `from` is known in a module by the same name.
fn imported_as(module: &Facts<'_, '_>, from: FileId, name: &str) -> Vec<SymbolId> {
    let mut symbols = Vec::new();
    for node in module.tree.nodes {
        let AstKind::ImportDeclaration(import) = node.kind() else {
            continue;
        };
        if module.symbols.imports.get(import.source.value.as_str()) != Some(&from) {
            continue;
        }
        for specifier in import.specifiers.iter().flatten() {
            if let ImportDeclarationSpecifier::ImportSpecifier(it) = specifier
                && it.imported.name() == name
                && it.local.name == name
            {
                symbols.extend(it.local.symbol_id.get());
            }
        }
    }
    symbols
}

fn of_symbol(module: &Facts<'_, '_>, symbol: SymbolId, found: &mut BTreeSet<Use>) {
    let scoping = module.symbols.scoping();
    let span = scoping.symbol_span(symbol);
    let mut add = |span: oxc::span::Span, shorthand: bool| {
        found.insert(Use {
            file: module.file,
            span: Span::new(span.start, span.end),
            form: match shorthand {
                true => Form::Value,
                false => Form::Plain,
            },
        });
    };
    let declared_short = module.tree.nodes.iter().any(|node| match node.kind() {
        AstKind::BindingProperty(it) => it.shorthand && it.value.span().start == span.start,
        _ => false,
    });
    add(span, declared_short);
    for reference in scoping.get_resolved_references(symbol) {
        let nodes = module.tree.nodes;
        let node = nodes.get_node(reference.node_id());
        let shorthand = match nodes.parent_kind(node.id()) {
            AstKind::ObjectProperty(it) => it.shorthand,
            _ => false,
        };
        add(node.kind().span(), shorthand);
    }
}

/// Whether a text can be a name.
pub(super) fn is_name(text: &str) -> bool {
    oxc::syntax::identifier::is_identifier_name(text) && !is_reserved(text)
}
