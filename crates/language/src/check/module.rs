// SPDX-License-Identifier: Apache-2.0
//! One module while it is looked at: its tree, its semantic model, and what has been inferred of
//! its symbols so far. Nothing is inferred before it is asked for, so an editor pays for the
//! expression under the cursor only. Belongs to one thread; what others see is a [`Table`].

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::{Semantic, SymbolId};
use oxc::span::GetSpan;

use super::class::class_declaration;
use super::convert::{Converter, Docs, Names, name_in, span};
use super::table::{Table, ValueDeclaration, type_declaration};
use super::types::{Field, FileId, Name, Shape, Type};
use super::world::World;

/// A module with what is known of it.
pub(crate) struct Module<'a, 'w> {
    pub(crate) file: FileId,
    pub(crate) world: &'w World,
    pub(crate) program: &'a Program<'a>,
    pub(crate) semantic: &'w Semantic<'a>,
    pub(crate) docs: Docs<'a>,
    /// The modules behind the specifiers as they are written.
    pub(crate) imports: &'w HashMap<String, FileId>,
    /// `None` while a symbol's type is being inferred.
    pub(crate) symbols: RefCell<HashMap<SymbolId, Option<Type>>>,
    pub(crate) expressions: RefCell<HashMap<oxc::span::Span, Type>>,
    /// What a comparison, a test of its type or a call in a condition may have narrowed.
    pub(crate) narrowed: Narrowed,
    /// Interfaces of the library that the program adds members to.
    pub(crate) augmented: HashSet<String>,
    /// What has members assigned to, once it is asked for.
    pub(crate) expandos: OnceCell<HashSet<SymbolId>>,
    pub(crate) depth: Cell<u32>,
    /// How many expressions have been held against types.
    pub(crate) work: Cell<usize>,
}

/// How many expressions are held against types, whatever a module's length, and more for each of
/// its bytes; what comes after is let be. Nested literals have as many ways to be members of unions
/// as there are paths through those.
const WORK: usize = 1 << 15;
const WORK_PER_BYTE: usize = 16;

/// A variable and the members behind it: `spec.kind`.
pub(crate) type Path = (SymbolId, String);

/// Places whose type the flow may have made another than the declared one.
#[derive(Default)]
pub(crate) struct Narrowed {
    pub(crate) paths: HashSet<Path>,
    /// Places without a path, as they are written: `this.x`, `xs[0]`.
    pub(crate) places: HashSet<String>,
    /// The last names of those, for destructuring.
    pub(crate) names: HashSet<String>,
    /// Places that were handed to imported functions: narrowed if one of those asserts something,
    /// which is looked up only where it matters.
    pub(crate) handed: HashMap<Path, Vec<SymbolId>>,
}

impl<'a, 'w> Module<'a, 'w> {
    pub(crate) fn new(
        file: FileId,
        world: &'w World,
        program: &'a Program<'a>,
        semantic: &'w Semantic<'a>,
        imports: &'w HashMap<String, FileId>,
    ) -> Self {
        let mut module = Self {
            file,
            world,
            program,
            semantic,
            docs: Docs::new(program),
            imports,
            symbols: RefCell::default(),
            expressions: RefCell::default(),
            narrowed: Narrowed::default(),
            augmented: super::told::augmented(program),
            expandos: OnceCell::new(),
            depth: Cell::new(0),
            work: Cell::new(0),
        };
        module.narrowed = super::narrow::narrowed(&module);
        module
    }

    /// Whether enough has been held against types; one more is.
    pub(crate) fn is_tired(&self) -> bool {
        let work = self.work.get().saturating_add(1);
        self.work.set(work);
        let bytes = self.program.source_text.len();
        work > bytes.saturating_mul(WORK_PER_BYTE).saturating_add(WORK)
    }

    /// The symbol that a name in an expression or a type means, if it isn't a global.
    pub(crate) fn symbol_of(&self, name: &IdentifierReference<'_>) -> Option<SymbolId> {
        let reference = name.reference_id.get()?;
        self.semantic.scoping().get_reference(reference).symbol_id()
    }

    /// Whether the symbol is declared at the top of the module.
    pub(crate) fn is_top(&self, symbol: SymbolId) -> bool {
        let scoping = self.semantic.scoping();
        scoping.symbol_scope_id(symbol) == scoping.root_scope_id()
    }

    /// The kind of node that declares a symbol.
    pub(crate) fn declaration(&self, symbol: SymbolId) -> AstKind<'a> {
        self.semantic.symbol_declaration(symbol).kind()
    }

    /// The module and the name in it that an imported symbol means; `None` for the namespace.
    pub(crate) fn imported(&self, symbol: SymbolId) -> Option<(FileId, Option<String>)> {
        let node = self.semantic.symbol_declaration(symbol);
        let name = match node.kind() {
            AstKind::ImportSpecifier(it) => Some(it.imported.name().to_string()),
            AstKind::ImportDefaultSpecifier(_) => Some("default".to_owned()),
            AstKind::ImportNamespaceSpecifier(_) => None,
            _ => return None,
        };
        match self.semantic.nodes().parent_kind(node.id()) {
            AstKind::ImportDeclaration(import) => {
                let file = self.imports.get(import.source.value.as_str())?;
                Some((*file, name))
            }
            _ => None,
        }
    }

    pub(crate) fn converter(&self) -> Converter<'_> {
        Converter::new(self.file, self, &self.docs)
    }

    /// The types that the module declares at its top.
    pub(crate) fn declared_types(&self) -> Table {
        let mut table = Table::default();
        let converter = self.converter();
        for statement in &self.program.body {
            let declaration = match statement {
                Statement::ExportDeclaration(export) => Some(&export.declaration),
                Statement::ExportDefaultDeclaration(export) => {
                    if let ExportDefaultDeclarationKind::ClassDeclaration(class) =
                        &export.declaration
                    {
                        self.declare_class(&converter, class, &mut table);
                    }
                    None
                }
                statement => statement.as_declaration(),
            };
            let Some(declaration) = declaration else {
                continue;
            };
            let doc = self.docs.before(statement.span().start);
            if let Declaration::ClassDeclaration(class) = declaration {
                self.declare_class(&converter, class, &mut table);
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

    fn declare_class(&self, converter: &Converter<'_>, class: &Class<'_>, table: &mut Table) {
        let Some(id) = &class.id else { return };
        let doc = self.docs.before(class.span.start);
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
    pub(crate) fn exports(&self) -> Table {
        let mut table = Table::default();
        for statement in &self.program.body {
            match statement {
                Statement::ExportDeclaration(export) => {
                    self.export_declaration(&export.declaration, &mut table);
                }
                Statement::ExportNamedDeclaration(export) => {
                    for specifier in &export.specifiers {
                        if let ModuleExportName::IdentifierReference(local) = &specifier.local {
                            let symbol = self.symbol_of(local);
                            let name = specifier.exported.name();
                            self.export(symbol, name.as_str(), span(local.span), &mut table);
                        }
                    }
                }
                Statement::ExportFromDeclaration(export) => {
                    self.export_from(export, &mut table);
                }
                Statement::ExportAllDeclaration(export) => self.export_all(export, &mut table),
                Statement::ExportDefaultDeclaration(export) => {
                    self.export_default(export, &mut table);
                }
                _ => {}
            }
        }
        table
    }

    fn export_declaration(&self, declaration: &Declaration<'_>, table: &mut Table) {
        match declaration {
            Declaration::VariableDeclaration(variables) => {
                for variable in &variables.declarations {
                    for name in variable.id.get_binding_identifiers() {
                        self.export_binding(name, table);
                    }
                }
            }
            declaration => {
                if let Some(name) = declaration.id() {
                    self.export_binding(name, table);
                }
            }
        }
    }

    fn export_binding(&self, name: &BindingIdentifier<'_>, table: &mut Table) {
        self.export(name.symbol_id.get(), &name.name, span(name.span), table);
    }

    fn export(
        &self,
        symbol: Option<SymbolId>,
        name: &str,
        at: crate::source::Span,
        table: &mut Table,
    ) {
        let Some(symbol) = symbol else { return };
        let scoping = self.semantic.scoping();
        let local = scoping.symbol_name(symbol);
        if let Some((file, Some(imported))) = self.imported(symbol) {
            self.pass_on(file, &imported, name, table);
            return;
        }
        let flags = scoping.symbol_flags(symbol);
        if flags.is_type() || flags.is_class() {
            let declared = Type::Named(name_in(self.file, local), [].into());
            table.exported_types.insert(name.into(), declared);
        }
        if flags.is_value() {
            let declaration = ValueDeclaration {
                ty: self.symbol_type(symbol),
                doc: self.doc_of(symbol),
                at: match self.is_top(symbol) {
                    true => span(scoping.symbol_span(symbol)),
                    false => at,
                },
                api: false,
                file: self.file,
            };
            table.values.insert(name.into(), declaration);
        }
    }

    /// Exports again what another module exports.
    fn pass_on(&self, file: FileId, imported: &str, name: &str, table: &mut Table) {
        let Some(from) = self.world.exports(file) else {
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

    fn export_from(&self, export: &ExportFromDeclaration<'_>, table: &mut Table) {
        let Some(file) = self.imports.get(export.source.value.as_str()) else {
            table.open = true;
            return;
        };
        for specifier in &export.specifiers {
            let imported = specifier.local.name();
            let exported = specifier.exported.name();
            self.pass_on(*file, imported.as_str(), exported.as_str(), table);
        }
    }

    fn export_all(&self, export: &ExportAllDeclaration<'_>, table: &mut Table) {
        let file = self.imports.get(export.source.value.as_str());
        let Some(from) = file.and_then(|file| self.world.exports(*file)) else {
            table.open = true;
            return;
        };
        if let Some(name) = &export.exported {
            let declaration = ValueDeclaration {
                ty: namespace(from),
                doc: None,
                at: span(name.span()),
                api: false,
                file: self.file,
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

    fn export_default(&self, export: &ExportDefaultDeclaration<'a>, table: &mut Table) {
        let ty = match &export.declaration {
            ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
                let symbol = function.id.as_ref().and_then(|id| id.symbol_id.get());
                match symbol {
                    Some(symbol) => self.symbol_type(symbol),
                    None => self.function_type(function),
                }
            }
            ExportDefaultDeclarationKind::ClassDeclaration(class) => match &class.id {
                Some(id) => {
                    let name = name_in(self.file, &id.name);
                    let instance = Type::Named(name.clone(), [].into());
                    table.exported_types.insert("default".into(), instance);
                    Type::ClassOf(name)
                }
                None => Type::Any,
            },
            declaration => match declaration.as_expression() {
                Some(expression) => self.infer(expression).widened(),
                None => Type::Any,
            },
        };
        let declaration = ValueDeclaration {
            ty,
            doc: self.docs.before(export.span.start),
            at: span(export.span),
            api: false,
            file: self.file,
        };
        table.values.insert("default".into(), declaration);
    }

    /// The comment before the statement that declares a symbol.
    pub(crate) fn doc_of(&self, symbol: SymbolId) -> Option<Arc<str>> {
        let node = self.semantic.symbol_declaration(symbol);
        let own = self.docs.before(node.kind().span().start);
        let ancestors = || self.semantic.nodes().ancestor_kinds(node.id()).take(2);
        own.or_else(|| ancestors().find_map(|kind| self.docs.before(kind.span().start)))
    }
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

impl Names for Module<'_, '_> {
    fn type_named(&self, name: &IdentifierReference<'_>, arguments: Vec<Type>) -> Option<Type> {
        let Some(symbol) = self.symbol_of(name) else {
            let known = &self.world.environment.table.types;
            return known
                .contains_key(name.name.as_str())
                .then(|| Type::global(&name.name, arguments));
        };
        if let Some((file, imported)) = self.imported(symbol) {
            let exports = self.world.exports(file)?;
            return match exports.exported_types.get(imported?.as_str())? {
                Type::Named(name, _) => Some(Type::Named(name.clone(), arguments.into())),
                _ => None,
            };
        }
        let flags = self.semantic.scoping().symbol_flags(symbol);
        let followed = self.is_top(symbol)
            && (flags.is_interface() || flags.is_type_alias() || flags.is_class());
        followed.then(|| {
            let name = Name {
                file: self.file,
                name: name.name.as_str().into(),
            };
            Type::Named(name, arguments.into())
        })
    }

    fn type_within(
        &self,
        space: &IdentifierReference<'_>,
        name: &str,
        arguments: Vec<Type>,
    ) -> Option<Type> {
        let Some(symbol) = self.symbol_of(space) else {
            let name = format!("{}.{name}", space.name);
            let known = &self.world.environment.table.types;
            return known
                .contains_key(name.as_str())
                .then(|| Type::global(&name, arguments));
        };
        let (file, None) = self.imported(symbol)? else {
            return None;
        };
        match self.world.exports(file)?.exported_types.get(name)? {
            Type::Named(name, _) => Some(Type::Named(name.clone(), arguments.into())),
            _ => None,
        }
    }

    fn value_named(&self, name: &IdentifierReference<'_>) -> Option<Type> {
        match self.symbol_of(name) {
            Some(symbol) => Some(self.symbol_type(symbol)),
            None => Some(Type::ValueOf(name_in(
                super::types::ENVIRONMENT,
                &name.name,
            ))),
        }
    }
}
