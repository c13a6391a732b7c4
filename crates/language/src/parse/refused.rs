// SPDX-License-Identifier: Apache-2.0
//! What TypeScript has and the language refuses, by name: decorators, auto-accessors, the two
//! CommonJS forms, and import phases and attributes; and regular expressions that are none. Each
//! would otherwise fail later and elsewhere, in the engine's words. Called by the parser alone.

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    AccessorProperty, Decorator, ExportAllDeclaration, ExportDeclaration, ExportDefaultDeclaration,
    ExportFromDeclaration, ExportNamedDeclaration, ImportDeclaration, ImportExpression, Program,
    RegExpLiteral, TSExportAssignment, TSImportEqualsDeclaration, TSModuleBlock, TSModuleReference,
    WithClause,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::GetSpan;
use oxc_regular_expression::{LiteralParser, Options};

use crate::finding::{Finding, Severity};
use crate::source::{Source, Span};

/// A regular expression with more groups isn't looked at: its parser recurses into them, and the
/// limits' scan doesn't count them. The engine has its own limit.
const GROUPS: usize = 2000;

/// Everything in the tree that the language refuses.
pub(super) fn look(source: &Source, program: &Program<'_>) -> Vec<Finding> {
    let top = program.body.iter().map(|it| it.span().start).collect();
    let mut refused = Refused {
        source,
        top,
        in_namespace: false,
        findings: Vec::new(),
    };
    refused.visit_program(program);
    refused.findings
}

struct Refused<'s> {
    source: &'s Source,
    /// Where the statements of the module's top level begin, ascending.
    top: Vec<u32>,
    in_namespace: bool,
    findings: Vec<Finding>,
}

impl Refused<'_> {
    fn add(&mut self, code: &'static str, span: oxc::span::Span, message: String, help: &str) {
        self.findings.push(Finding {
            code: code.into(),
            severity: Severity::Error,
            message,
            source: self.source.clone(),
            span: Span::new(span.start, span.end),
            help: Some(help.to_owned()),
            fixes: Vec::new(),
        });
    }

    fn syntax(&mut self, span: oxc::span::Span, what: &str, help: &str) {
        self.add(
            "syntax",
            span,
            format!("{what} is not in the language"),
            help,
        );
    }

    /// Imports and exports stand at the top level, exports in a namespace too.
    fn placed(&mut self, span: oxc::span::Span, what: &str) {
        if !self.in_namespace && self.top.binary_search(&span.start).is_err() {
            self.syntax(span, what, "move it to the module's top level");
        }
    }

    fn attributes(&mut self, clause: Option<&WithClause<'_>>) {
        if let Some(clause) = clause {
            let help = "import a module without attributes; read other files with file.read";
            self.syntax(clause.span, "an import attribute", help);
        }
    }
}

impl<'a> Visit<'a> for Refused<'_> {
    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        let span = decorator.expression.span();
        let text = self.source.text();
        let name = text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default();
        let name = name.split(['(', '\n']).next().unwrap_or_default();
        let message = format!("the decorator @{name} is not in the language");
        let help = "call a function with the class or the value instead";
        self.add("decorator", decorator.span, message, help);
    }

    fn visit_reg_exp_literal(&mut self, literal: &RegExpLiteral<'a>) {
        let pattern = literal.regex.pattern.text.as_str();
        if pattern.matches('(').count() > GROUPS {
            return;
        }
        let flags = literal.regex.flags.to_string();
        let allocator = Allocator::default();
        let places = Options {
            pattern_span_offset: literal.span.start + 1,
            flags_span_offset: literal
                .span
                .end
                .saturating_sub(u32::try_from(flags.len()).unwrap_or(0)),
        };
        let parsed = LiteralParser::new(&allocator, pattern, Some(&flags), places).parse();
        if let Err(diagnostic) = parsed {
            let label = diagnostic.labels.first().map(|label| label.span());
            let span = label.unwrap_or(literal.span);
            let message = diagnostic.message.trim_end_matches('.');
            let message = message
                .strip_prefix("Invalid regular expression: ")
                .unwrap_or(message);
            let message = format!("this is no regular expression: {message}");
            let help = "put a backslash before a character that stands for itself";
            self.add("syntax", span, message, help);
        }
    }

    fn visit_accessor_property(&mut self, accessor: &AccessorProperty<'a>) {
        let help = "write a getter and a setter";
        self.syntax(accessor.span, "an `accessor` field", help);
        walk::walk_accessor_property(self, accessor);
    }

    fn visit_ts_import_equals_declaration(&mut self, import: &TSImportEqualsDeclaration<'a>) {
        if let TSModuleReference::ExternalModuleReference(_) = import.module_reference {
            let help = "write `import name from \"./file.ts\"`";
            self.syntax(import.span, "`import name = require(…)`", help);
        }
    }

    fn visit_ts_export_assignment(&mut self, export: &TSExportAssignment<'a>) {
        self.syntax(export.span, "`export =`", "write `export default`");
    }

    fn visit_import_declaration(&mut self, import: &ImportDeclaration<'a>) {
        self.placed(import.span, "an import within a statement");
        if import.phase.is_some() {
            let help = "write a plain import";
            self.syntax(import.span, "an import phase (`defer`, `source`)", help);
        }
        self.attributes(import.with_clause.as_deref());
    }

    fn visit_ts_module_block(&mut self, block: &TSModuleBlock<'a>) {
        let outer = std::mem::replace(&mut self.in_namespace, true);
        walk::walk_ts_module_block(self, block);
        self.in_namespace = outer;
    }

    fn visit_export_declaration(&mut self, export: &ExportDeclaration<'a>) {
        self.placed(export.span, "an export within a statement");
        walk::walk_export_declaration(self, export);
    }

    fn visit_export_named_declaration(&mut self, export: &ExportNamedDeclaration<'a>) {
        self.placed(export.span, "an export within a statement");
    }

    fn visit_export_default_declaration(&mut self, export: &ExportDefaultDeclaration<'a>) {
        self.placed(export.span, "an export within a statement");
        walk::walk_export_default_declaration(self, export);
    }

    fn visit_export_from_declaration(&mut self, export: &ExportFromDeclaration<'a>) {
        self.placed(export.span, "an export within a statement");
        self.attributes(export.with_clause.as_deref());
    }

    fn visit_export_all_declaration(&mut self, export: &ExportAllDeclaration<'a>) {
        self.placed(export.span, "an export within a statement");
        self.attributes(export.with_clause.as_deref());
    }

    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        if import.phase.is_some() {
            let help = "write a plain import";
            self.syntax(import.span, "an import phase (`defer`, `source`)", help);
        }
        if let Some(options) = &import.options {
            let help = "import a module without attributes; read other files with file.read";
            self.syntax(options.span(), "an import attribute", help);
        }
        walk::walk_import_expression(self, import);
    }
}
