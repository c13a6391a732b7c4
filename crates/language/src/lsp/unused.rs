// SPDX-License-Identifier: Apache-2.0
//! What a module declares or imports and never reads, parameters too: shown faded, as a hint. Where
//! TypeScript's service is there, its own hints are shown instead. What begins with an underscore
//! is let be.

use lsp_types::{Diagnostic, DiagnosticSeverity, DiagnosticTag, NumberOrString};
use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::{NodeId, SymbolId};
use oxc::span::GetSpan;

use super::place;
use super::project::Project;
use crate::check::Facts;
use crate::source::{Source, Span};

/// What is never read in a module; nothing in one that doesn't parse.
pub(super) fn of(project: &Project, path: &str) -> Vec<Diagnostic> {
    let Some(id) = project.id(path) else {
        return Vec::new();
    };
    let Some(entry) = project.entry(id).filter(|entry| entry.is_sound()) else {
        return Vec::new();
    };
    let source = &entry.source;
    let found = project.with(id, source, |module, whole| match whole {
        true => in_module(module, source),
        false => Vec::new(),
    });
    found.unwrap_or_default()
}

fn in_module(module: &Facts<'_, '_>, source: &Source) -> Vec<Diagnostic> {
    let scoping = module.symbols.scoping();
    let mut found = Vec::new();
    for statement in &module.tree.program.body {
        if let Statement::ImportDeclaration(import) = statement {
            imports(module, import, source, &mut found);
        }
    }
    for symbol in scoping.symbol_ids() {
        let name = scoping.symbol_name(symbol);
        if name.starts_with('_') || is_read(module, symbol) || !is_local(module, symbol) {
            continue;
        }
        let message = format!("`{name}` is never read");
        found.push(hint(source, scoping.symbol_span(symbol), message));
    }
    found.sort_by_key(|it| (it.range.start.line, it.range.start.character));
    found
}

/// Of an import all of it where nothing that it takes is read.
fn imports(
    module: &Facts<'_, '_>,
    import: &ImportDeclaration<'_>,
    source: &Source,
    found: &mut Vec<Diagnostic>,
) {
    let specifiers: Vec<_> = import.specifiers.iter().flatten().collect();
    let unread: Vec<_> = specifiers
        .iter()
        .map(|it| it.local())
        .filter(|it| !is_taken(module, it))
        .collect();
    if unread.len() > 1 && unread.len() == specifiers.len() {
        let message = "nothing that is imported here is read".to_owned();
        found.push(hint(source, import.span, message));
        return;
    }
    for local in unread {
        let message = format!("`{}` is never read", local.name);
        found.push(hint(source, local.span, message));
    }
}

/// Whether a name that an import gives is used.
pub(super) fn is_taken(module: &Facts<'_, '_>, local: &BindingIdentifier<'_>) -> bool {
    let symbol = local.symbol_id.get();
    symbol.is_none_or(|symbol| is_read(module, symbol))
}

fn is_read(module: &Facts<'_, '_>, symbol: SymbolId) -> bool {
    let scoping = module.symbols.scoping();
    let mut uses = scoping.get_resolved_references(symbol);
    uses.any(|it| !it.flags().is_write_only())
}

/// Whether a symbol is a variable, a function, a class or a type that nothing outside can see.
fn is_local(module: &Facts<'_, '_>, symbol: SymbolId) -> bool {
    let scoping = module.symbols.scoping();
    // What is declared in several parts adds to what may be elsewhere.
    if !scoping.symbol_redeclarations(symbol).is_empty() {
        return false;
    }
    let nodes = module.tree.nodes;
    let node = module.symbols.node(symbol);
    let declared = match node.kind() {
        AstKind::VariableDeclarator(it) => {
            !is_head_of_loop(module, node.id()) && !lets_be(&it.id, scoping.symbol_span(symbol))
        }
        // With a modifier it is a member of the class, which others may read.
        AstKind::FormalParameter(it) => {
            !it.has_modifier()
                && is_of_body(module, node.id())
                && !lets_be(&it.pattern, scoping.symbol_span(symbol))
        }
        AstKind::FormalParameterRest(_) => is_of_body(module, node.id()),
        AstKind::Function(it) => it.is_function_declaration() && !it.declare,
        AstKind::Class(it) => it.is_declaration() && !it.declare,
        AstKind::TSInterfaceDeclaration(it) => !it.declare,
        AstKind::TSTypeAliasDeclaration(it) => !it.declare,
        AstKind::TSEnumDeclaration(it) => !it.declare,
        _ => false,
    };
    // What a declaration at the top is in: whether that exports, or is of several parts.
    let seen = || {
        nodes.ancestor_kinds(node.id()).any(|kind| match kind {
            AstKind::VariableDeclaration(it) => it.declare,
            AstKind::ExportDeclaration(_) | AstKind::ExportDefaultDeclaration(_) => {
                module.symbols.is_top(symbol)
            }
            AstKind::TSModuleBlock(_) => true,
            _ => false,
        })
    };
    declared && !seen()
}

/// `for (const x of xs)` needs a name, whether it is read or not.
fn is_head_of_loop(module: &Facts<'_, '_>, declarator: NodeId) -> bool {
    let nodes = module.tree.nodes;
    let declaration = nodes.parent_id(declarator);
    matches!(
        nodes.parent_kind(declaration),
        AstKind::ForOfStatement(_) | AstKind::ForInStatement(_)
    )
}

/// Whether a parameter is of a function that does something: a type's, an overload's and an
/// abstract method's only say what is taken.
fn is_of_body(module: &Facts<'_, '_>, parameter: NodeId) -> bool {
    let nodes = module.tree.nodes;
    let mut around = nodes.ancestor_kinds(parameter);
    match around.find(|kind| !matches!(kind, AstKind::FormalParameters(_))) {
        Some(AstKind::Function(it)) => it.body.is_some(),
        Some(AstKind::ArrowFunctionExpression(_)) => true,
        _ => false,
    }
}

/// `const { left, ...rest } = all`: a name that is there so that the rest is without it.
fn lets_be(pattern: &BindingPattern<'_>, name: oxc::span::Span) -> bool {
    match pattern {
        BindingPattern::ObjectPattern(pattern) => {
            let rest = pattern.rest.as_ref();
            rest.is_some_and(|rest| !rest.span().contains_inclusive(name))
        }
        _ => false,
    }
}

fn hint(source: &Source, at: oxc::span::Span, message: String) -> Diagnostic {
    Diagnostic {
        range: place::range(source, Span::new(at.start, at.end)),
        severity: Some(DiagnosticSeverity::HINT),
        code: Some(NumberOrString::String("unused".to_owned())),
        source: Some("aurae".to_owned()),
        message,
        tags: Some(vec![DiagnosticTag::UNNECESSARY]),
        ..Diagnostic::default()
    }
}
