// SPDX-License-Identifier: Apache-2.0
//! What a module takes from others and gives to them, and what it declares at its top level: its
//! face, without its tree. Read off the parser's module record.

use oxc::ast::ast::{Declaration, Expression, ImportExpression, Statement};
use oxc::ast_visit::{Visit, walk};
use oxc::syntax::module_record::{
    ExportEntry, ExportExportName, ExportImportName, ImportEntry, ImportImportName, NameSpan,
};

use crate::parse::Parsed;
use crate::source::Span;

/// A module's face.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Every module named by an import, an `export … from` or an `import("literal")`.
    pub imports: Vec<Import>,
    /// Every name that it exports, but what `export *` passes on.
    pub exports: Vec<Export>,
    /// Names of values declared at the top level, imported ones too.
    pub declared: Vec<(String, Span)>,
}

/// One module named by another.
#[derive(Clone, Debug)]
pub struct Import {
    /// As written: `./apps/web.ts`.
    pub specifier: String,
    /// The specifier's place, quotes included.
    pub span: Span,
    /// Only types are taken: it leaves no trace in the code, and the module isn't run for it.
    pub type_only: bool,
    /// An `import("literal")`: read when it is run.
    pub dynamic: bool,
    /// What is taken by name; empty for `import "./x.ts"`, `import * as x` and `export *`.
    pub names: Vec<ImportedName>,
    /// `export * from`: everything but the default is passed on.
    pub passes_all: bool,
    /// The path that it leads to, relative to the root; `None` where it leads nowhere.
    pub target: Option<String>,
}

/// One name taken from another module.
#[derive(Clone, Debug)]
pub struct ImportedName {
    /// As the other module exports it; `default` for the default.
    pub name: String,
    /// As it is called here; the exported name of `export { name } from`.
    pub local: String,
    /// Where `name` stands.
    pub span: Span,
    /// `import type` or `{ type name }`.
    pub type_only: bool,
}

/// One name that a module exports.
#[derive(Clone, Debug)]
pub struct Export {
    /// `default` for the default.
    pub name: String,
    /// What it is called inside, where it is a name at all.
    pub local: Option<String>,
    /// Where the name stands.
    pub span: Span,
    /// A type, or exported as one.
    pub type_only: bool,
}

/// The face of a parsed module; targets aren't resolved yet.
pub fn outline(parsed: &Parsed<'_>) -> Outline {
    let mut outline = Outline::default();
    let record = &parsed.record;
    for (specifier, requests) in &record.requested_modules {
        for request in requests {
            outline.imports.push(Import {
                specifier: specifier.to_string(),
                span: Span::new(request.span.start, request.span.end),
                type_only: request.is_type,
                dynamic: false,
                names: Vec::new(),
                passes_all: false,
                target: None,
            });
        }
    }
    outline.imports.sort_by_key(|import| import.span);
    for entry in &record.import_entries {
        outline.take(entry);
    }
    let own = record.local_export_entries.iter();
    for entry in own.chain(&record.indirect_export_entries) {
        outline.give(entry);
    }
    for entry in &record.star_export_entries {
        if let Some(import) = outline.named(entry.module_request.as_ref()) {
            import.passes_all = true;
        }
    }
    dynamic_imports(parsed, &mut outline);
    for statement in &parsed.program.body {
        outline.declare(statement);
    }
    outline.exports.sort_by_key(|export| export.span);
    outline
}

impl Outline {
    fn named(&mut self, request: Option<&NameSpan<'_>>) -> Option<&mut Import> {
        let at = request?.span.start;
        self.imports.iter_mut().find(|it| it.span.start == at)
    }

    fn take(&mut self, entry: &ImportEntry<'_>) {
        let local = &entry.local_name;
        let (name, span) = match &entry.import_name {
            ImportImportName::Name(name) => (name.name.to_string(), name.span),
            ImportImportName::Default(span) => ("default".to_owned(), *span),
            ImportImportName::NamespaceObject => return,
        };
        let taken = ImportedName {
            name,
            local: local.name.to_string(),
            span: Span::new(span.start, span.end),
            type_only: entry.is_type,
        };
        if let Some(import) = self.named(Some(&entry.module_request)) {
            import.names.push(taken);
        }
    }

    fn give(&mut self, entry: &ExportEntry<'_>) {
        let (name, span) = match &entry.export_name {
            ExportExportName::Name(name) => (name.name.to_string(), name.span),
            ExportExportName::Default(span) => ("default".to_owned(), *span),
            ExportExportName::Null => return,
        };
        let span = Span::new(span.start, span.end);
        if let ExportImportName::Name(taken) = &entry.import_name {
            let taken = ImportedName {
                name: taken.name.to_string(),
                local: name.clone(),
                span: Span::new(taken.span.start, taken.span.end),
                type_only: entry.is_type,
            };
            // `import D from …; export { D }`: it is taken by its own name already.
            let own = &taken.name;
            if let Some(import) = self.named(entry.module_request.as_ref())
                && !import.names.iter().any(|name| name.local == *own)
            {
                import.names.push(taken);
            }
        }
        self.exports.push(Export {
            name,
            local: entry.local_name.name().map(|name| name.to_string()),
            span,
            type_only: entry.is_type,
        });
    }

    fn declare(&mut self, statement: &Statement<'_>) {
        if let Some(declaration) = statement.as_declaration() {
            return self.declare_by(declaration);
        }
        match statement {
            Statement::ExportDeclaration(it) => self.declare_by(&it.declaration),
            Statement::ImportDeclaration(it) if !it.import_kind.is_type() => {
                for specifier in it.specifiers.iter().flatten() {
                    let local = specifier.local();
                    let span = Span::new(local.span.start, local.span.end);
                    self.declared.push((local.name.to_string(), span));
                }
            }
            _ => {}
        }
    }

    fn declare_by(&mut self, declaration: &Declaration<'_>) {
        let types_only = matches!(
            declaration,
            Declaration::TSInterfaceDeclaration(_) | Declaration::TSTypeAliasDeclaration(_)
        );
        if types_only || declaration.declare() {
            return;
        }
        let mut add = |id: &oxc::ast::ast::BindingIdentifier<'_>| {
            let span = Span::new(id.span.start, id.span.end);
            self.declared.push((id.name.to_string(), span));
        };
        match declaration {
            Declaration::VariableDeclaration(it) => {
                for declarator in &it.declarations {
                    declarator
                        .id
                        .get_binding_identifiers()
                        .into_iter()
                        .for_each(&mut add);
                }
            }
            _ => {
                if let Some(id) = declaration.id() {
                    add(id);
                }
            }
        }
    }
}

/// `import("./x.ts")`: those whose specifier is there to read.
fn dynamic_imports(parsed: &Parsed<'_>, outline: &mut Outline) {
    if parsed.record.dynamic_imports.is_empty() {
        return;
    }
    let mut found = Dynamic(Vec::new());
    found.visit_program(&parsed.program);
    outline.imports.append(&mut found.0);
}

struct Dynamic(Vec<Import>);

impl<'a> Visit<'a> for Dynamic {
    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        if let Expression::StringLiteral(specifier) = &it.source {
            self.0.push(Import {
                specifier: specifier.value.to_string(),
                span: Span::new(specifier.span.start, specifier.span.end),
                type_only: false,
                dynamic: true,
                names: Vec::new(),
                passes_all: false,
                target: None,
            });
        }
        walk::walk_import_expression(self, it);
    }
}
