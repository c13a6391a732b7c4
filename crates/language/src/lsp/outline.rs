// SPDX-License-Identifier: Apache-2.0
//! A module as a list of what it declares, and the meaning of its names for colours.

use lsp_types::{DocumentSymbol, SemanticToken, SemanticTokenType, SymbolKind};
use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::place;
use crate::check::{Facts, Type, infer, is_global, symbol_type};
use crate::source::{Source, Span};

fn range(source: &Source, span: oxc::span::Span) -> lsp_types::Range {
    place::range(source, Span::new(span.start, span.end))
}

/// What a module declares at its top, and the members of classes and interfaces.
pub(super) fn symbols(source: &Source, module: &Facts<'_, '_>) -> Vec<DocumentSymbol> {
    let mut symbols = Vec::new();
    for statement in &module.tree.program.body {
        let declaration = match statement {
            Statement::ExportDeclaration(export) => Some(&export.declaration),
            statement => statement.as_declaration(),
        };
        if let Some(declaration) = declaration {
            declared(source, module, declaration, statement.span(), &mut symbols);
        }
    }
    symbols
}

fn declared(
    source: &Source,
    module: &Facts<'_, '_>,
    declaration: &Declaration<'_>,
    whole: oxc::span::Span,
    symbols: &mut Vec<DocumentSymbol>,
) {
    let mut add = |name: &BindingIdentifier<'_>, kind, children| {
        let at = (whole, name.span);
        symbols.push(symbol(source, &name.name, kind, at, children));
    };
    match declaration {
        Declaration::VariableDeclaration(variables) => {
            for variable in &variables.declarations {
                for name in variable.id.get_binding_identifiers() {
                    let ty = name
                        .symbol_id
                        .get()
                        .map(|symbol| symbol_type(module, symbol));
                    let function = ty.is_some_and(|ty| module.world.signatures(&ty).is_some());
                    let kind = match (function, variables.kind.is_const()) {
                        (true, _) => SymbolKind::FUNCTION,
                        (false, true) => SymbolKind::CONSTANT,
                        (false, false) => SymbolKind::VARIABLE,
                    };
                    add(name, kind, Vec::new());
                }
            }
        }
        Declaration::ClassDeclaration(class) => {
            if let Some(name) = &class.id {
                add(name, SymbolKind::CLASS, class_members(source, class));
            }
        }
        Declaration::TSInterfaceDeclaration(it) => {
            add(&it.id, SymbolKind::INTERFACE, Vec::new());
        }
        Declaration::TSEnumDeclaration(it) => add(&it.id, SymbolKind::ENUM, Vec::new()),
        Declaration::FunctionDeclaration(function) => {
            if let Some(name) = &function.id {
                add(name, SymbolKind::FUNCTION, Vec::new());
            }
        }
        other => {
            if let Some(name) = other.id() {
                add(name, SymbolKind::INTERFACE, Vec::new());
            }
        }
    }
}

fn class_members(source: &Source, class: &Class<'_>) -> Vec<DocumentSymbol> {
    let members = class.body.body.iter().filter_map(|element| {
        let key = element.property_key()?;
        let kind = match element {
            ClassElement::MethodDefinition(method) => match method.kind {
                MethodDefinitionKind::Constructor => SymbolKind::CONSTRUCTOR,
                _ => SymbolKind::METHOD,
            },
            _ => SymbolKind::FIELD,
        };
        let at = (element.span(), key.span());
        Some(symbol(source, &key.static_name()?, kind, at, Vec::new()))
    });
    members.collect()
}

#[allow(deprecated, reason = "the field must be given, and is left empty")]
fn symbol(
    source: &Source,
    name: &str,
    kind: SymbolKind,
    (whole, own): (oxc::span::Span, oxc::span::Span),
    children: Vec<DocumentSymbol>,
) -> DocumentSymbol {
    DocumentSymbol {
        name: name.to_owned(),
        detail: None,
        kind,
        tags: None,
        deprecated: None,
        range: range(source, whole),
        selection_range: range(source, own),
        children: (!children.is_empty()).then_some(children),
    }
}

/// The meanings that names are told apart by; a token's number is its place here.
pub(super) const MEANINGS: [SemanticTokenType; 7] = [
    SemanticTokenType::NAMESPACE,
    SemanticTokenType::CLASS,
    SemanticTokenType::TYPE,
    SemanticTokenType::PARAMETER,
    SemanticTokenType::VARIABLE,
    SemanticTokenType::PROPERTY,
    SemanticTokenType::FUNCTION,
];

/// The names of a module with their meanings, as the protocol packs them.
pub(super) fn tokens(source: &Source, module: &Facts<'_, '_>) -> Vec<SemanticToken> {
    let mut names: Vec<(oxc::span::Span, u32)> = Vec::new();
    for node in module.tree.nodes {
        match node.kind() {
            AstKind::IdentifierReference(name) => {
                let meaning = match module.symbols.of(name) {
                    Some(symbol) => of_symbol(module, symbol),
                    None if is_global(module, name) => of_global(module, &name.name),
                    None => continue,
                };
                names.push((name.span, meaning));
            }
            AstKind::BindingIdentifier(name) => {
                if let Some(symbol) = name.symbol_id.get() {
                    names.push((name.span, of_symbol(module, symbol)));
                }
            }
            AstKind::StaticMemberExpression(member) => {
                let object = infer(module, &member.object).present();
                let ty = module.world.member_type(&object, &member.property.name);
                let function = module.world.signatures(&ty).is_some();
                names.push((member.property.span, if function { 6 } else { 5 }));
            }
            _ => {}
        }
    }
    names.sort_by_key(|(span, _)| span.start);
    names.dedup_by_key(|(span, _)| span.start);
    pack(source, &names)
}

fn of_symbol(module: &Facts<'_, '_>, symbol: oxc::semantic::SymbolId) -> u32 {
    let flags = module.symbols.scoping().symbol_flags(symbol);
    match module.symbols.declaration(symbol) {
        AstKind::FormalParameter(_) | AstKind::FormalParameterRest(_) => 3,
        AstKind::ImportNamespaceSpecifier(_) => 0,
        _ if flags.is_class() => 1,
        _ if flags.is_type() && !flags.is_value() => 2,
        _ => match symbol_type(module, symbol) {
            Type::ClassOf(_) => 1,
            ty if module.world.signatures(&ty).is_some() => 6,
            _ => 4,
        },
    }
}

fn of_global(module: &Facts<'_, '_>, name: &str) -> u32 {
    match module.world.environment.table.values.get(name) {
        Some(value) if matches!(value.ty, Type::ClassOf(_)) => 1,
        Some(value) if module.world.signatures(&value.ty).is_some() => 6,
        Some(value) if value.api => 0,
        _ => 4,
    }
}

/// Each token from the one before it.
fn pack(source: &Source, names: &[(oxc::span::Span, u32)]) -> Vec<SemanticToken> {
    let mut last = lsp_types::Position::default();
    let mut tokens = Vec::with_capacity(names.len());
    for (span, meaning) in names {
        let range = range(source, *span);
        let start = range.start;
        let line = start.line.saturating_sub(last.line);
        let from = if line == 0 { last.character } else { 0 };
        tokens.push(SemanticToken {
            delta_line: line,
            delta_start: start.character.saturating_sub(from),
            length: range.end.character.saturating_sub(start.character),
            token_type: *meaning,
            token_modifiers_bitset: 0,
        });
        last = start;
    }
    tokens
}
