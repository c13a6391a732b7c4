// SPDX-License-Identifier: Apache-2.0
//! A line of the REPL as a script. What it declares at its top level becomes a property of the
//! global object and outlives it, `await` works, and the value of its last expression comes back.
//! Declaring a name again is fine, of whatever kind: a session isn't a program.
//!
//! Works on the generated JavaScript by replacing pieces of text: a declaration's pattern and an
//! assignment's are spelled alike, so `const {a, b} = f();` becomes `({a, b} = f());`.
//!
//! What stays local to its line: a `var` inside a block, as in `for (var i …)`.

use oxc::allocator::Allocator;
use oxc::ast::ast::{
    BindingPattern, Declaration, ExportDefaultDeclarationKind, ImportDeclaration,
    ImportDeclarationSpecifier, ModuleExportName, Program, Statement, VariableDeclaration,
};
use oxc::parser::Parser;
use oxc::span::{GetSpan, SourceType};

use super::{Compiled, Map, Options};
use crate::finding::{Finding, Severity};
use crate::parse;
use crate::source::{Source, Span};

/// Compiles a line (or several) of the REPL to a script whose completion value is a promise. It
/// resolves to `{ value }` where the line ends in an expression, to `undefined` elsewhere.
///
/// # Errors
/// What is wrong with its form, at least one finding.
pub fn compile_repl(source: &Source, options: Options) -> Result<Compiled, Vec<Finding>> {
    super::on_stack(source, || {
        if let Some(compiled) = as_object(source, options) {
            return Ok(compiled);
        }
        let module = super::compile(source, options)?;
        scripted(module)
    })
}

/// Whether `text` stops in the middle: an open bracket, template or comment, an operator without
/// its right side. The REPL then asks for another line.
pub fn is_unfinished(text: &str) -> bool {
    let source = Source::new("<repl>", text);
    let asked = super::on_stack(&source, || {
        let allocator = Allocator::default();
        let parsed = parse::parse(&allocator, &source);
        let end = text.trim_end().len();
        Ok(parsed.findings.iter().any(|finding| {
            let begins = text.get(finding.span.start as usize..).unwrap_or_default();
            let string = begins.starts_with(['"', '\'']);
            if string && finding.message.starts_with("Unterminated") {
                return false;
            }
            let open = finding.message.starts_with("Unterminated");
            // An error at the end is one more token wanted, but where the last token is the error.
            let last = text.trim_end().ends_with(['}', ')', ']']);
            let at_end = match last {
                true => finding.span.start as usize >= end,
                false => finding.span.end as usize >= end,
            };
            finding.code == "syntax" && (open || at_end)
        }))
    });
    asked.unwrap_or(false)
}

/// `{ a: 1 }` is an object to the user who types it, and a block to the grammar.
fn as_object(source: &Source, options: Options) -> Option<Compiled> {
    let text = source.text().trim();
    if !text.starts_with('{') || text.ends_with(';') {
        return None;
    }
    let wrapped = Source::new(source.name(), format!("({}\n)", source.text()));
    let module = super::compile(&wrapped, options).ok()?;
    let mut compiled = scripted(module).ok()?;
    compiled.map = compiled.map.without_prefix(1);
    compiled.source = source.clone();
    Some(compiled)
}

/// The module's code as a script's.
fn scripted(module: Compiled) -> Result<Compiled, Vec<Finding>> {
    let allocator = Allocator::default();
    let kind = SourceType::mjs();
    let parsed = Parser::new(&allocator, &module.code, kind).parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        return Err(parse::from_diagnostics(
            &module.source,
            parsed.diagnostics.iter(),
        ));
    }
    let mut script = Script::new(&module.code);
    script.read(&parsed.program).map_err(|(span, message)| {
        let end = module.source.text().len();
        let start = module.map.at(span.start).unwrap_or_default();
        let end = u32::try_from(end).unwrap_or(u32::MAX).min(start + 1);
        vec![Finding {
            code: "syntax".into(),
            severity: Severity::Error,
            message,
            source: module.source.clone(),
            span: Span::new(start, end.max(start)),
            help: None,
            fixes: Vec::new(),
        }]
    })?;
    let (code, map) = script.write(&module.map);
    Ok(Compiled::new(code, map, module.source))
}

/// A replacement of `start..end` of the code.
struct Edit {
    start: u32,
    end: u32,
    text: String,
}

struct Script<'c> {
    code: &'c str,
    edits: Vec<Edit>,
    /// Names that become global.
    names: Vec<String>,
    /// Functions are there before the first statement.
    first: String,
}

type Refusal = (oxc::span::Span, String);

impl<'c> Script<'c> {
    fn new(code: &'c str) -> Self {
        Self {
            code,
            edits: Vec::new(),
            names: Vec::new(),
            first: String::new(),
        }
    }

    fn read(&mut self, program: &Program<'_>) -> Result<(), Refusal> {
        let last = program.body.len().saturating_sub(1);
        for (index, statement) in program.body.iter().enumerate() {
            self.statement(statement, index == last)?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement<'_>, last: bool) -> Result<(), Refusal> {
        match statement {
            Statement::ExpressionStatement(it) if last => {
                let inner = it.expression.span();
                self.replace(it.span.start, inner.start, "return { value: (");
                self.replace(inner.end, it.span.end, ") };");
            }
            Statement::VariableDeclaration(it) => self.variables(it),
            Statement::FunctionDeclaration(it) => {
                self.named(
                    it.span,
                    it.id.as_ref().map(|id| (id.name.as_str(), id.span)),
                    true,
                );
            }
            Statement::ClassDeclaration(it) => {
                self.named(
                    it.span,
                    it.id.as_ref().map(|id| (id.name.as_str(), id.span)),
                    false,
                );
            }
            Statement::ImportDeclaration(it) => self.import(it),
            Statement::ExportDefaultDeclaration(it) => {
                let start = it.declaration.span().start;
                if let ExportDefaultDeclarationKind::FunctionDeclaration(_)
                | ExportDefaultDeclarationKind::ClassDeclaration(_) = &it.declaration
                {
                    return Err((it.span, "`export default` means nothing in the REPL".into()));
                }
                let text = if last { "return { value: (" } else { "(" };
                self.replace(it.span.start, start, text);
                let end = it.declaration.span().end;
                self.replace(end, it.span.end, if last { ") };" } else { ");" });
            }
            Statement::ExportDeclaration(it) => {
                self.replace(it.span.start, it.declaration.span().start, "");
                self.declaration(&it.declaration);
            }
            Statement::ExportNamedDeclaration(it) => self.replace(it.span.start, it.span.end, ""),
            Statement::ExportFromDeclaration(it) => {
                return Err((it.span, "`export … from` means nothing in the REPL".into()));
            }
            Statement::ExportAllDeclaration(it) => {
                return Err((it.span, "`export *` means nothing in the REPL".into()));
            }
            _ => {}
        }
        Ok(())
    }

    fn declaration(&mut self, declaration: &Declaration<'_>) {
        match declaration {
            Declaration::VariableDeclaration(it) => self.variables(it),
            Declaration::FunctionDeclaration(it) => {
                self.named(
                    it.span,
                    it.id.as_ref().map(|id| (id.name.as_str(), id.span)),
                    true,
                );
            }
            Declaration::ClassDeclaration(it) => {
                self.named(
                    it.span,
                    it.id.as_ref().map(|id| (id.name.as_str(), id.span)),
                    false,
                );
            }
            _ => {}
        }
    }

    /// `let a, {b} = c;` to `(a = void 0, {b} = c);`. A `using` stays: it ends with its line.
    fn variables(&mut self, it: &VariableDeclaration<'_>) {
        if it.kind.is_using() {
            return;
        }
        let Some(first) = it.declarations.first() else {
            return;
        };
        self.replace(it.span.start, first.span.start, "(");
        for declarator in &it.declarations {
            for name in declarator.id.get_binding_identifiers() {
                self.names.push(name.name.to_string());
            }
            let bare = matches!(declarator.id, BindingPattern::BindingIdentifier(_));
            if bare && declarator.init.is_none() && !it.kind.is_var() {
                let end = declarator.span.end;
                self.replace(end, end, " = void 0");
            }
        }
        let end = it
            .declarations
            .last()
            .map_or(it.span.end, |last| last.span.end);
        self.replace(end, it.span.end, ");");
    }

    /// `class A {…}` to `A = class {…};`, `function f() {…}` likewise and before all else.
    fn named(&mut self, whole: oxc::span::Span, id: Option<(&str, oxc::span::Span)>, early: bool) {
        let Some((name, span)) = id else { return };
        self.names.push(name.to_owned());
        let slice = |from: u32, to: u32| self.code.get(from as usize..to as usize);
        if early {
            let head = slice(whole.start, span.start).unwrap_or_default();
            let rest = slice(span.end, whole.end).unwrap_or_default();
            self.first.push_str(&format!("{name} = {head}{rest};\n"));
            self.replace(whole.start, whole.end, "");
        } else {
            self.replace(whole.start, whole.start, &format!("{name} = "));
            self.replace(span.start, span.end, "");
            self.replace(whole.end, whole.end, ";");
        }
    }

    /// `import d, { a as b } from "./x.ts"` to `({ default: d, a: b } = await import("./x.ts"));`
    fn import(&mut self, it: &ImportDeclaration<'_>) {
        let from = it.source.span;
        let from = self.code.get(from.start as usize..from.end as usize);
        let call = format!("await import({})", from.unwrap_or("\"\""));
        let mut parts = Vec::new();
        let mut whole = None;
        for specifier in it.specifiers.iter().flatten() {
            let local = specifier.local().name.to_string();
            match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(it) => {
                    let imported = match &it.imported {
                        ModuleExportName::StringLiteral(name) => {
                            format!("{:?}", name.value.as_str())
                        }
                        name => name.name().to_string(),
                    };
                    parts.push(format!("{imported}: {local}"));
                }
                ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => {
                    parts.push(format!("default: {local}"));
                }
                ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => {
                    whole = Some(local.clone());
                }
            }
            self.names.push(local);
        }
        let text = match whole {
            Some(name) if parts.is_empty() => format!("{name} = {call};"),
            Some(name) => format!("({{ {} }} = {name} = {call});", parts.join(", ")),
            None if parts.is_empty() => format!("{call};"),
            None => format!("({{ {} }} = {call});", parts.join(", ")),
        };
        self.replace(it.span.start, it.span.end, &text);
    }

    fn replace(&mut self, start: u32, end: u32, text: &str) {
        self.edits.push(Edit {
            start,
            end,
            text: text.to_owned(),
        });
    }

    fn write(mut self, map: &Map) -> (String, Map) {
        self.names.sort();
        self.names.dedup();
        let mut head = String::new();
        for name in &self.names {
            head.push_str(&format!("var {name};"));
        }
        head.push_str("(async () => { \"use strict\";");
        head.push_str(&self.first);
        let mut code = head;
        let mut moves = Vec::new();
        moves.push((0, 0, u32::try_from(code.len()).unwrap_or(u32::MAX)));
        let mut at = 0;
        self.edits.sort_by_key(|edit| (edit.start, edit.end));
        for edit in &self.edits {
            code.push_str(self.code.get(at..edit.start as usize).unwrap_or_default());
            code.push_str(&edit.text);
            at = edit.end as usize;
            let come = u32::try_from(edit.text.len()).unwrap_or(u32::MAX);
            moves.push((edit.start, edit.end - edit.start, come));
        }
        code.push_str(self.code.get(at..).unwrap_or_default());
        code.push_str("})()\n");
        (code, map.after_edits(&moves))
    }
}

#[cfg(test)]
mod tests;
