// SPDX-License-Identifier: Apache-2.0
//! What a module declares and exports, as a table for the others. Types come first, before anything
//! is inferred; values are inferred here.

use std::sync::Arc;

use oxc::ast::ast::*;
use oxc::semantic::SymbolId;
use oxc::span::GetSpan;

use super::class::class_declaration;
use super::convert::{Converter, name_in, span};
use super::facts::Facts;
use super::infer::infer;
use super::meant::converter;
use super::symbols::{function_type, symbol_type};
use super::table::{Table, ValueDeclaration, type_declaration};
use super::types::{Field, FileId, Shape, Type};

/// The types that the module declares at its top.
pub(crate) fn declared_types(facts: &Facts<'_, '_>) -> Table {
    let mut table = Table::default();
    let converter = converter(facts);
    for statement in &facts.tree.program.body {
        let declaration = match statement {
            Statement::ExportDeclaration(export) => Some(&export.declaration),
            Statement::ExportDefaultDeclaration(export) => {
                if let ExportDefaultDeclarationKind::ClassDeclaration(class) = &export.declaration {
                    declare_class(facts, &converter, class, &mut table);
                }
                None
            }
            statement => statement.as_declaration(),
        };
        let Some(declaration) = declaration else {
            continue;
        };
        let doc = facts.tree.docs.before(statement.span().start);
        if let Declaration::ClassDeclaration(class) = declaration {
            declare_class(facts, &converter, class, &mut table);
        } else if let Some((name, declared)) = type_declaration(&converter, declaration, doc) {
            // Merged declarations aren't followed.
            let known = table.types.contains_key(&name);
            let declared = match known {
                true => super::table::TypeDeclaration {
                    body: Type::Any,
                    ..declared
                },
                false => declared,
            };
            table.types.insert(name, declared);
        }
    }
    table
}

fn declare_class(
    facts: &Facts<'_, '_>,
    converter: &Converter<'_>,
    class: &Class<'_>,
    table: &mut Table,
) {
    let Some(id) = &class.id else { return };
    let doc = facts.tree.docs.before(class.span.start);
    let mut declared = class_declaration(converter, class, doc);
    if table.types.contains_key(id.name.as_str())
        && let Type::Object(shape) = &mut declared.body
    {
        // An interface of its name adds to it.
        std::sync::Arc::make_mut(shape).open = true;
    }
    table.types.insert(id.name.as_str().into(), declared);
}

/// What other modules see.
pub(crate) fn exports(facts: &Facts<'_, '_>) -> Table {
    let mut table = Table::default();
    for statement in &facts.tree.program.body {
        match statement {
            Statement::ExportDeclaration(export) => {
                export_declaration(facts, &export.declaration, &mut table);
            }
            Statement::ExportNamedDeclaration(export) => {
                for specifier in &export.specifiers {
                    if let ModuleExportName::IdentifierReference(local) = &specifier.local {
                        let symbol = facts.symbols.of(local);
                        let name = specifier.exported.name();
                        export_symbol(facts, symbol, name.as_str(), span(local.span), &mut table);
                    }
                }
            }
            Statement::ExportFromDeclaration(export) => {
                export_from(facts, export, &mut table);
            }
            Statement::ExportAllDeclaration(export) => export_all(facts, export, &mut table),
            Statement::ExportDefaultDeclaration(export) => {
                export_default(facts, export, &mut table);
            }
            _ => {}
        }
    }
    table
}

fn export_declaration(facts: &Facts<'_, '_>, declaration: &Declaration<'_>, table: &mut Table) {
    match declaration {
        Declaration::VariableDeclaration(variables) => {
            for variable in &variables.declarations {
                for name in variable.id.get_binding_identifiers() {
                    export_binding(facts, name, table);
                }
            }
        }
        declaration => {
            if let Some(name) = declaration.id() {
                export_binding(facts, name, table);
            }
        }
    }
}

fn export_binding(facts: &Facts<'_, '_>, name: &BindingIdentifier<'_>, table: &mut Table) {
    export_symbol(
        facts,
        name.symbol_id.get(),
        &name.name,
        span(name.span),
        table,
    );
}

fn export_symbol(
    facts: &Facts<'_, '_>,
    symbol: Option<SymbolId>,
    name: &str,
    at: crate::source::Span,
    table: &mut Table,
) {
    let Some(symbol) = symbol else { return };
    let scoping = facts.symbols.scoping();
    let local = scoping.symbol_name(symbol);
    if let Some((file, Some(imported))) = facts.symbols.imported(symbol) {
        pass_on(facts, file, &imported, name, table);
        return;
    }
    let flags = scoping.symbol_flags(symbol);
    if flags.is_type() || flags.is_class() {
        let declared = Type::Named(name_in(facts.file, local), [].into());
        table.exported_types.insert(name.into(), declared);
    }
    if flags.is_value() {
        let declaration = ValueDeclaration {
            ty: symbol_type(facts, symbol),
            doc: doc_of(facts, symbol),
            at: match facts.symbols.is_top(symbol) {
                true => span(scoping.symbol_span(symbol)),
                false => at,
            },
            api: false,
            file: facts.file,
        };
        table.values.insert(name.into(), declaration);
    }
}

/// Exports again what another module exports.
fn pass_on(facts: &Facts<'_, '_>, file: FileId, imported: &str, name: &str, table: &mut Table) {
    let Some(from) = facts.world.exports(file) else {
        table.open = true;
        return;
    };
    if let Some(value) = from.values.get(imported) {
        table.values.insert(name.into(), value.clone());
    }
    if let Some(ty) = from.exported_types.get(imported) {
        table.exported_types.insert(name.into(), ty.clone());
    }
}

fn export_from(facts: &Facts<'_, '_>, export: &ExportFromDeclaration<'_>, table: &mut Table) {
    let Some(file) = facts.symbols.imports.get(export.source.value.as_str()) else {
        table.open = true;
        return;
    };
    for specifier in &export.specifiers {
        let imported = specifier.local.name();
        let exported = specifier.exported.name();
        pass_on(facts, *file, imported.as_str(), exported.as_str(), table);
    }
}

fn export_all(facts: &Facts<'_, '_>, export: &ExportAllDeclaration<'_>, table: &mut Table) {
    let file = facts.symbols.imports.get(export.source.value.as_str());
    let Some(from) = file.and_then(|file| facts.world.exports(*file)) else {
        table.open = true;
        return;
    };
    if let Some(name) = &export.exported {
        let declaration = ValueDeclaration {
            ty: namespace(from),
            doc: None,
            at: span(name.span()),
            api: false,
            file: facts.file,
        };
        table
            .values
            .insert(name.name().as_str().into(), declaration);
        return;
    }
    for (name, value) in &from.values {
        if name.as_ref() != "default" {
            table
                .values
                .entry(name.clone())
                .or_insert_with(|| value.clone());
        }
    }
    for (name, ty) in &from.exported_types {
        let entry = table.exported_types.entry(name.clone());
        entry.or_insert_with(|| ty.clone());
    }
    table.open |= from.open;
}

fn export_default<'a>(
    facts: &Facts<'a, '_>,
    export: &ExportDefaultDeclaration<'a>,
    table: &mut Table,
) {
    let ty = match &export.declaration {
        ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
            let symbol = function.id.as_ref().and_then(|id| id.symbol_id.get());
            match symbol {
                Some(symbol) => symbol_type(facts, symbol),
                None => function_type(facts, function),
            }
        }
        ExportDefaultDeclarationKind::ClassDeclaration(class) => match &class.id {
            Some(id) => {
                let name = name_in(facts.file, &id.name);
                let instance = Type::Named(name.clone(), [].into());
                table.exported_types.insert("default".into(), instance);
                Type::ClassOf(name)
            }
            None => Type::Any,
        },
        declaration => match declaration.as_expression() {
            Some(expression) => infer(facts, expression).widened(),
            None => Type::Any,
        },
    };
    let declaration = ValueDeclaration {
        ty,
        doc: facts.tree.docs.before(export.span.start),
        at: span(export.span),
        api: false,
        file: facts.file,
    };
    table.values.insert("default".into(), declaration);
}

/// The comment before the statement that declares a symbol.
pub(crate) fn doc_of(facts: &Facts<'_, '_>, symbol: SymbolId) -> Option<Arc<str>> {
    let node = facts.symbols.node(symbol);
    let own = facts.tree.docs.before(node.kind().span().start);
    let ancestors = || facts.tree.nodes.ancestor_kinds(node.id()).take(2);
    own.or_else(|| ancestors().find_map(|kind| facts.tree.docs.before(kind.span().start)))
}

/// The value of `import * as name`.
pub(crate) fn namespace(table: &Table) -> Type {
    let fields = table.values.iter().map(|(name, value)| Field {
        name: name.clone(),
        ty: value.ty.clone(),
        optional: false,
        doc: value.doc.clone(),
        at: value.at,
        file: value.file,
    });
    Shape {
        fields: fields.collect(),
        open: table.open,
        ..Shape::default()
    }
    .into_type()
}
