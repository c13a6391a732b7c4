// SPDX-License-Identifier: Apache-2.0
//! What a file declares: types and values by name. The environment's table is read from text once
//! ([`Environment`]); a module's is what other modules see of it ([`super::module`]).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use oxc::allocator::Allocator;
use oxc::ast::ast::*;
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType};

use super::class::class_declaration;
use super::convert::{Converter, Docs, Names, callable, name_in, span};
use super::shape::Shapes;
use super::types::{ENVIRONMENT, Field, FileId, Generic, LIBRARY, Type};
use crate::source::Span;

/// A declared type.
#[derive(Clone, Debug)]
pub(crate) struct TypeDeclaration {
    pub(crate) generics: Arc<[Generic]>,
    /// What the name stands for: a shape, or an alias' type.
    pub(crate) body: Type,
    /// The class as a value.
    pub(crate) class: Option<Type>,
    pub(crate) doc: Option<Arc<str>>,
    /// Where its name stands, in `file`.
    pub(crate) at: Span,
    pub(crate) file: FileId,
}

/// A declared value.
#[derive(Clone, Debug)]
pub(crate) struct ValueDeclaration {
    pub(crate) ty: Type,
    pub(crate) doc: Option<Arc<str>>,
    pub(crate) at: Span,
    /// It is one of the API's globals.
    pub(crate) api: bool,
    /// The file that declares it, which isn't the table's for what is exported on.
    pub(crate) file: FileId,
}

/// The declarations of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) types: HashMap<Arc<str>, TypeDeclaration>,
    pub(crate) values: HashMap<Arc<str>, ValueDeclaration>,
    /// Under which names other modules see types: of this file or another.
    pub(crate) exported_types: HashMap<Arc<str>, Type>,
    /// It exports more than could be followed.
    pub(crate) open: bool,
}

/// What every module finds without an import: the ECMAScript library as far as the checker knows
/// it, and the API.
#[derive(Clone, Debug)]
pub struct Environment {
    pub(crate) table: Table,
    /// Types of the ECMAScript library.
    pub(crate) library: HashSet<Arc<str>>,
    /// The API's declarations.
    text: Arc<str>,
    /// Its object types with their bases merged, each when it was first asked for.
    pub(super) shapes: Shapes,
}

/// The ECMAScript library as far as the checker knows it.
const TEXT: &str = include_str!("library.d.ts");

impl Environment {
    /// From the text of `aurae.d.ts`. What it says beyond the checker's model is any value.
    pub fn new(declarations: &str) -> Self {
        let mut table = Table::default();
        read(TEXT, LIBRARY, &mut table);
        table.open_types();
        let library = table.types.keys().cloned().collect();
        read(declarations, ENVIRONMENT, &mut table);
        Self {
            table,
            library,
            text: declarations.into(),
            shapes: Shapes::default(),
        }
    }

    /// The names that the API's text gives, without the ECMAScript library's.
    pub fn globals(&self) -> Vec<&str> {
        let names = self.table.values.iter().filter(|(_, value)| value.api);
        names.map(|(name, _)| name.as_ref()).collect()
    }

    /// The API's declarations as they were given.
    pub(crate) fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The ECMAScript library's, of which the checker doesn't know all.
    pub(crate) fn library_text() -> &'static str {
        TEXT
    }

    /// Whether a global of that name is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.values.contains_key(name)
    }
}

/// Names where the environment is declared: those of the namespace that is being read come first.
#[derive(Default)]
struct Global {
    namespace: RefCell<Option<Namespace>>,
}

struct Namespace {
    name: String,
    types: HashSet<String>,
}

impl Names for Global {
    fn type_named(&self, name: &IdentifierReference<'_>, arguments: Vec<Type>) -> Option<Type> {
        let name = name.name.as_str();
        Some(match &*self.namespace.borrow() {
            Some(space) if space.types.contains(name) => {
                Type::global(&format!("{}.{name}", space.name), arguments)
            }
            _ => Type::global(name, arguments),
        })
    }

    fn type_within(
        &self,
        space: &IdentifierReference<'_>,
        name: &str,
        arguments: Vec<Type>,
    ) -> Option<Type> {
        Some(Type::global(&format!("{}.{name}", space.name), arguments))
    }

    fn value_named(&self, name: &IdentifierReference<'_>) -> Option<Type> {
        Some(Type::ValueOf(name_in(ENVIRONMENT, &name.name)))
    }
}

fn read(text: &str, origin: FileId, table: &mut Table) {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::d_ts()).parse();
    let docs = Docs::new(&parsed.program);
    let global = Global::default();
    let mut converter = Converter::new(ENVIRONMENT, &global, &docs);
    converter.origin = origin;
    for statement in &parsed.program.body {
        match statement {
            Statement::TSNamespaceDeclaration(space) => {
                read_namespace(&global, &converter, space, table);
            }
            statement => declare_statement(&converter, statement, table),
        }
    }
}

/// The types of a namespace, under `namespace.name`; its values aren't followed.
fn read_namespace(
    global: &Global,
    converter: &Converter<'_>,
    space: &TSNamespaceDeclaration<'_>,
    table: &mut Table,
) {
    let TSNamespaceDeclarationBody::TSModuleBlock(block) = &space.body else {
        return;
    };
    let declared = || {
        block.body.iter().filter_map(|statement| match statement {
            Statement::ExportDeclaration(export) => Some((&export.declaration, export.span.start)),
            statement => statement
                .as_declaration()
                .map(|declaration| (declaration, statement.span().start)),
        })
    };
    let names = declared().filter_map(|(declaration, _)| declaration.id());
    let types = names.map(|id| id.name.to_string()).collect();
    let name = space.id.name.to_string();
    global.namespace.replace(Some(Namespace { name, types }));
    for (declaration, start) in declared() {
        let doc = converter.docs.before(start);
        if let Some((name, declared)) = type_declaration(converter, declaration, doc) {
            let name = format!("{}.{name}", space.id.name);
            table.merge(name.into(), declared);
        }
    }
    global.namespace.replace(None);
}

fn declare_statement(converter: &Converter<'_>, statement: &Statement<'_>, table: &mut Table) {
    let doc = converter.docs.before(statement.span().start);
    match statement {
        Statement::ExportDeclaration(export) => {
            declare(converter, &export.declaration, doc, table);
        }
        Statement::TSGlobalDeclaration(global) => {
            for statement in &global.body.body {
                declare_statement(converter, statement, table);
            }
        }
        statement => {
            if let Some(declaration) = statement.as_declaration() {
                declare(converter, declaration, doc, table);
            }
        }
    }
}

fn declare(
    converter: &Converter<'_>,
    declaration: &Declaration<'_>,
    doc: Option<Arc<str>>,
    table: &mut Table,
) {
    match declaration {
        Declaration::VariableDeclaration(variables) => {
            for variable in &variables.declarations {
                let Some(name) = variable.id.get_binding_identifier() else {
                    continue;
                };
                let ty = converter.annotation(variable.type_annotation.as_deref());
                table.value(converter.origin, name, ty, doc.clone());
            }
        }
        Declaration::FunctionDeclaration(function) => {
            declare_function(converter, function, doc, table);
        }
        Declaration::ClassDeclaration(class) => {
            if let Some(name) = &class.id {
                let declared = class_declaration(converter, class, doc.clone());
                let ty = Type::ClassOf(name_in(converter.file, &name.name));
                table.value(converter.origin, name, ty, doc);
                table.types.insert(name.name.as_str().into(), declared);
            }
        }
        Declaration::TSTypeAliasDeclaration(_) | Declaration::TSInterfaceDeclaration(_) => {
            if let Some((name, declared)) = type_declaration(converter, declaration, doc) {
                table.merge(name, declared);
            }
        }
        _ => {}
    }
}

fn declare_function(
    converter: &Converter<'_>,
    function: &Function<'_>,
    doc: Option<Arc<str>>,
    table: &mut Table,
) {
    let Some(name) = &function.id else { return };
    let signature = converter.signature(
        function.type_parameters.as_deref(),
        &function.params,
        function.return_type.as_deref(),
        doc.clone(),
    );
    let known = table.values.get_mut(name.name.as_str());
    if let Some(ValueDeclaration {
        ty: Type::Object(shape),
        ..
    }) = known
    {
        let mut overloaded = shape.as_ref().clone();
        overloaded.calls.push(Arc::new(signature));
        *shape = Arc::new(overloaded);
        return;
    }
    table.value(converter.origin, name, callable(signature), doc);
}

/// An interface or an alias.
pub(crate) fn type_declaration(
    converter: &Converter<'_>,
    declaration: &Declaration<'_>,
    doc: Option<Arc<str>>,
) -> Option<(Arc<str>, TypeDeclaration)> {
    let (id, generics, body) = match declaration {
        Declaration::TSTypeAliasDeclaration(alias) => {
            let generics = alias.type_parameters.as_deref();
            let (generics, body) = converter.with_generics(generics, |generics| {
                (generics, converter.ty(&alias.type_annotation))
            });
            (&alias.id, generics, body)
        }
        Declaration::TSInterfaceDeclaration(interface) => {
            let generics = interface.type_parameters.as_deref();
            let (generics, body) = converter.with_generics(generics, |generics| {
                let extends = interface.extends.iter().map(|heritage| {
                    let arguments = heritage.type_arguments.as_ref();
                    let arguments = arguments
                        .map(|list| list.params.iter().map(|ty| converter.ty(ty)).collect());
                    converter.named(&heritage.type_name, arguments.unwrap_or_default())
                });
                let extends = extends.collect();
                (generics, converter.members(&interface.body.body, extends))
            });
            (&interface.id, generics, body)
        }
        _ => return None,
    };
    let declared = TypeDeclaration {
        generics,
        body,
        class: None,
        doc,
        at: span(id.span),
        file: converter.origin,
    };
    Some((id.name.as_str().into(), declared))
}

impl Table {
    pub(crate) fn value(
        &mut self,
        file: FileId,
        name: &BindingIdentifier<'_>,
        ty: Type,
        doc: Option<Arc<str>>,
    ) {
        let declared = ValueDeclaration {
            ty,
            doc,
            at: span(name.span),
            api: file == ENVIRONMENT,
            file,
        };
        self.values.insert(name.name.as_str().into(), declared);
    }

    /// Says of every type so far that it may have more members than are known, but of those that
    /// the library lists whole.
    fn open_types(&mut self) {
        const WHOLE: [&str; 6] = ["Promise", "Array", "String", "Number", "BigInt", "Boolean"];
        let types = self.types.iter_mut();
        for (_, declared) in types.filter(|(name, _)| !WHOLE.contains(&name.as_ref())) {
            if let Type::Object(shape) = &mut declared.body {
                Arc::make_mut(shape).open = true;
            }
        }
    }

    /// Adds a type; a second interface of a name adds its members to the first.
    fn merge(&mut self, name: Arc<str>, declared: TypeDeclaration) {
        let Some(known) = self.types.get_mut(&name) else {
            self.types.insert(name, declared);
            return;
        };
        if let (Type::Object(first), Type::Object(second)) = (&known.body, &declared.body) {
            let mut both = first.as_ref().clone();
            let new = |field: &&Field| first.field(&field.name).is_none();
            let added: Vec<Field> = second.fields.iter().filter(new).cloned().collect();
            both.fields.extend(added);
            both.extends.extend(second.extends.iter().cloned());
            both.calls.extend(second.calls.iter().cloned());
            known.body = both.into_type();
        }
    }
}
