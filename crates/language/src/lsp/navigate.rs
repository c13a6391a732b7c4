// SPDX-License-Identifier: Apache-2.0
//! Where a name is declared, where it is used in all modules below the root, and what changes
//! where it is called otherwise.

use std::collections::{BTreeSet, HashSet};

use oxc::ast::AstKind;
use oxc::ast::ast::ImportDeclarationSpecifier;
use oxc::semantic::SymbolId;
use oxc::span::GetSpan;

use super::cursor::{Named, declared, named_at};
use super::project::Project;
use crate::check::{ENVIRONMENT, FileId, Module};
use crate::source::Span;

/// A place in a module.
pub(super) type At = (FileId, Span);

/// The declaration of the name at `offset`.
pub(super) fn definition(project: &Project, id: FileId, offset: u32) -> Option<At> {
    let source = project.readable(id)?;
    project.with(id, &source, |module, _| {
        let at = match named_at(module, offset)? {
            Named::Symbol(symbol, _) => declared(module, symbol),
            Named::Member(field, _) => (field.file, field.at),
            Named::Module(specifier, _) => (*module.imports.get(&specifier)?, Span::default()),
            Named::Global(..) => return None,
        };
        (at.0 != ENVIRONMENT).then_some(at)
    })?
}

/// A use of a name: where, and what is written there if its name changes to `name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    pub(super) file: FileId,
    pub(super) span: Span,
    /// `{ name }` stands for `name: name`, of which only the value changes.
    pub(super) shorthand: bool,
}

/// All uses of the name at `offset`, its declaration among them.
pub(super) fn uses(project: &mut Project, id: FileId, offset: u32) -> Option<Vec<Use>> {
    project.enter_all();
    let (file, at) = definition(project, id, offset)?;
    let mut found = BTreeSet::new();
    let mut wanted: Vec<(FileId, String)> = Vec::new();
    let source = project.readable(file)?;
    project.with(file, &source, |module, _| {
        let scoping = module.semantic.scoping();
        let symbol = scoping
            .symbol_ids()
            .find(|symbol| scoping.symbol_span(*symbol).start == at.start)?;
        of_symbol(module, symbol, &mut found);
        let entry = project.entry(file)?;
        let name = scoping.symbol_name(symbol);
        let exported = entry.outline.exports.iter();
        let exported = exported.filter(|it| it.local.as_deref() == Some(name) && it.name == name);
        wanted.extend(exported.map(|it| (file, it.name.clone())));
        Some(())
    })??;
    let mut seen = HashSet::new();
    while let Some((from, name)) = wanted.pop() {
        if seen.insert((from, name.clone())) {
            in_importers(project, from, &name, &mut found, &mut wanted);
        }
    }
    Some(found.into_iter().collect())
}

/// The uses in modules that import `name` from `from`; those that export it again are wanted next.
fn in_importers(
    project: &Project,
    from: FileId,
    name: &str,
    found: &mut BTreeSet<Use>,
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
                    found.insert(Use {
                        file: importer,
                        span: taken.span,
                        shorthand: false,
                    });
                    if taken.local == name {
                        wanted.push((importer, name.to_owned()));
                    }
                }
            }
            for symbol in imported_as(module, from, name) {
                of_symbol(module, symbol, found);
            }
        });
    }
}

/// The symbols under which `name` of `from` is known in a module by the same name.
fn imported_as(module: &Module<'_, '_>, from: FileId, name: &str) -> Vec<SymbolId> {
    let mut symbols = Vec::new();
    for node in module.semantic.nodes() {
        let AstKind::ImportDeclaration(import) = node.kind() else {
            continue;
        };
        if module.imports.get(import.source.value.as_str()) != Some(&from) {
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

fn of_symbol(module: &Module<'_, '_>, symbol: SymbolId, found: &mut BTreeSet<Use>) {
    let scoping = module.semantic.scoping();
    let span = scoping.symbol_span(symbol);
    let mut add = |span: oxc::span::Span, shorthand: bool| {
        found.insert(Use {
            file: module.file,
            span: Span::new(span.start, span.end),
            shorthand,
        });
    };
    let declared_short = module
        .semantic
        .nodes()
        .iter()
        .any(|node| match node.kind() {
            AstKind::BindingProperty(it) => it.shorthand && it.value.span().start == span.start,
            _ => false,
        });
    add(span, declared_short);
    for reference in scoping.get_resolved_references(symbol) {
        let nodes = module.semantic.nodes();
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
    const RESERVED: [&str; 40] = [
        "await",
        "break",
        "case",
        "catch",
        "class",
        "const",
        "continue",
        "debugger",
        "default",
        "delete",
        "do",
        "else",
        "enum",
        "export",
        "extends",
        "false",
        "finally",
        "for",
        "function",
        "if",
        "import",
        "in",
        "instanceof",
        "let",
        "new",
        "null",
        "return",
        "static",
        "super",
        "switch",
        "this",
        "throw",
        "true",
        "try",
        "typeof",
        "var",
        "void",
        "while",
        "with",
        "yield",
    ];
    oxc::syntax::identifier::is_identifier_name(text) && !RESERVED.contains(&text)
}
