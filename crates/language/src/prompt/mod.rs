// SPDX-License-Identifier: Apache-2.0
//! What the prompt (`aurae` on a terminal) knows of types: the type of an expression, and what may
//! stand at the cursor, after the lines that were typed before. Lines aren't a program: a name that
//! is declared again is simply another from then on. It evaluates nothing, and knows nothing of
//! values; what it can't know is `any`. Called by the command line's prompt.

use std::sync::Arc;

use oxc::allocator::Allocator;
use oxc::ast::ast::{Expression, Statement};
use oxc::span::GetSpan;

use crate::check::{
    Environment, Facts, FileId, Learnt, Report, Seen, Type, infer, learnt, reports,
};
use crate::finding::{Finding, Severity};
use crate::lsp::complete::complete;
use crate::lsp::project::Project;
use crate::lsp::repair::Open;
use crate::root::Root;
use crate::source::{Source, Span};
use crate::{parse, stack};

/// How many members of a type are shown.
const SHOWN: usize = 60;

/// A session's types. Its root is where its imports lead.
pub struct Prompt {
    project: Project,
    lines: usize,
}

/// What may stand at the cursor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    /// Where the text begins that is replaced, in bytes of the line.
    pub start: usize,
    /// Whole texts for its place, the likeliest first.
    pub texts: Vec<String>,
    /// The cursor is within a text, where no name means anything.
    pub quoted: bool,
}

impl Prompt {
    /// A session in which nothing was typed yet.
    pub fn new(root: Root, environment: Environment) -> Self {
        let mut environment = environment;
        environment.learn(Learnt::value("_", Type::Any));
        Self {
            project: Project::new(root, Arc::new(environment)),
            lines: 0,
        }
    }

    /// Remembers what a line declares, and `_`. What its types say against it are warnings, in
    /// which the line is called `name`: it is evaluated all the same.
    ///
    /// # Errors
    /// There is no room for the parser's stack.
    pub fn take(&mut self, name: &str, line: &str) -> std::io::Result<Vec<Finding>> {
        stack::on_big_stack(|| self.take_here(&Source::new(name, line)))
    }

    fn take_here(&mut self, line: &Source) -> Vec<Finding> {
        self.lines += 1;
        let name = format!("<repl:{}>", self.lines);
        let (text, in_brackets) = match wrapped(line.text()) {
            Some(text) if line.text().trim_start().starts_with('{') => (text, true),
            _ => (line.text().to_owned(), false),
        };
        let id = self.enter(&name, text);
        let looked = self.look(id, |module, is_sound| {
            let reports = if is_sound {
                reports(module)
            } else {
                Vec::new()
            };
            (learnt_of_line(module), reports)
        });
        let (learnt, reports) = looked.unwrap_or_default();
        let environment = Arc::make_mut(&mut self.project.world.environment);
        for learnt in learnt {
            environment.learn(learnt);
        }
        let warnings = reports.into_iter().map(|report| {
            let mut finding = report.finding(line);
            if in_brackets {
                finding.span = unwrapped(finding.span);
            }
            finding.severity = Severity::Warning;
            finding.fixes.clear();
            finding
        });
        warnings.collect()
    }

    /// The type of an expression as people read it: of what can be called its signatures, of an
    /// object its members.
    ///
    /// # Errors
    /// What is wrong with the expression, at least one finding.
    pub fn type_of(&mut self, expression: &str) -> Result<String, Vec<Finding>> {
        let expression = expression.trim().trim_end_matches(';').trim_end();
        let source = Source::new("<type>", expression);
        let asked = stack::on_big_stack(|| self.type_here(&source));
        asked.unwrap_or_else(|error| Err(vec![wrong(&source, error.to_string())]))
    }

    fn type_here(&mut self, source: &Source) -> Result<String, Vec<Finding>> {
        if let Some(told) = self.type_named(source.text()) {
            return Ok(told);
        }
        let Some(text) = wrapped(source.text()) else {
            return Err(no_expression(source));
        };
        let id = self.enter("<type>", text);
        let told = self.look(id, |module, _| {
            let expression = last(module);
            let whole = expression.map(GetSpan::span);
            // That it isn't awaited is no fault: it isn't evaluated.
            let idle = |report: &Report| {
                let whole = whole.map(|it| Span::new(it.start, it.end));
                report.seen == Seen::Own && Some(report.at) == whole
            };
            let mut reports = reports(module);
            reports.retain(|report| !idle(report));
            if reports.is_empty() {
                let ty = expression.map(|it| infer(module, it));
                return Ok(shown(module, &ty.unwrap_or_default()));
            }
            let findings = reports.into_iter().map(|report| {
                let mut finding = report.finding(source);
                finding.span = unwrapped(finding.span);
                finding.fixes.clear();
                finding
            });
            Err(findings.collect())
        });
        told.unwrap_or_else(|| Ok(Type::Any.to_string()))
    }

    /// A name that is a type's alone, as `CellData`.
    fn type_named(&self, name: &str) -> Option<String> {
        let table = &self.project.world.environment.table;
        if table.values.contains_key(name) {
            return None;
        }
        let declared = table.types.get(name)?;
        Some(format!("type {name} = {}", declared.body))
    }

    /// What may stand at the byte `at` of a line that is being typed.
    ///
    /// # Errors
    /// There is no room for the parser's stack.
    pub fn complete(&mut self, line: &str, at: usize) -> std::io::Result<Completed> {
        stack::on_big_stack(|| self.complete_here(line, at))
    }

    fn complete_here(&mut self, line: &str, at: usize) -> Completed {
        let before = line.get(..at).unwrap_or(line);
        let start = begun(before);
        let id = self.enter("<prompt>", line.to_owned());
        let quoted = Open::of(before).quote.is_some();
        if quoted {
            self.project.enter_all();
        }
        let offset = u32::try_from(before.len()).unwrap_or(u32::MAX);
        let mut items = complete(&self.project, id, offset);
        let rank = |item: &lsp_types::CompletionItem| {
            let rank = item.sort_text.as_ref();
            rank.unwrap_or(&item.label).clone()
        };
        items.sort_by_key(rank);
        let written = before.get(start..).unwrap_or_default();
        let texts = items.into_iter();
        let texts = texts.map(|item| item.insert_text.unwrap_or(item.label));
        let fitting = |text: &String| text.starts_with(written) && !text.contains('<');
        Completed {
            start,
            texts: texts.filter(fitting).collect(),
            quoted,
        }
    }

    fn enter(&mut self, name: &str, text: String) -> FileId {
        self.project.set(name, Some(text));
        self.project.id(name).unwrap_or_default()
    }

    fn look<R>(&self, id: FileId, look: impl FnOnce(&Facts<'_, '_>, bool) -> R) -> Option<R> {
        let source = self.project.entry(id)?.source.clone();
        self.project.with(id, &source, look)
    }
}

/// An expression in brackets, so that `{ a: 1 }` is one; `None` for what is none.
fn wrapped(text: &str) -> Option<String> {
    let wrapped = format!("({text}\n)");
    let source = Source::new("<type>", wrapped.as_str());
    let allocator = Allocator::default();
    let parsed = parse::parse(&allocator, &source);
    let one = matches!(
        parsed.program.body.as_slice(),
        [Statement::ExpressionStatement(_)]
    );
    (parsed.is_sound() && one).then_some(wrapped)
}

/// A place of the text in brackets in the text without.
fn unwrapped(span: Span) -> Span {
    Span::new(span.start.saturating_sub(1), span.end.saturating_sub(1))
}

/// Why a text is no expression.
fn no_expression(source: &Source) -> Vec<Finding> {
    let allocator = Allocator::default();
    let parsed = parse::parse(&allocator, source);
    match parsed.findings.is_empty() {
        true => vec![wrong(source, "this is no expression".to_owned())],
        false => parsed.findings,
    }
}

fn wrong(source: &Source, message: String) -> Finding {
    let end = u32::try_from(source.text().len()).unwrap_or(u32::MAX);
    Finding {
        code: "syntax".into(),
        severity: Severity::Error,
        message,
        source: source.clone(),
        span: Span::new(0, end),
        help: Some("write `.type` and an expression: `.type runtime.List`".to_owned()),
        fixes: Vec::new(),
    }
}

/// What a line makes known: each name that it declares, and its value.
fn learnt_of_line(module: &Facts<'_, '_>) -> Vec<Learnt> {
    let mut all = learnt(module);
    if let Some(value) = last(module) {
        all.push(Learnt::value("_", infer(module, value)));
    }
    all
}

/// The expression that a module ends with.
fn last<'a>(module: &Facts<'a, '_>) -> Option<&'a Expression<'a>> {
    match module.tree.program.body.last()? {
        Statement::ExpressionStatement(statement) => Some(&statement.expression),
        _ => None,
    }
}

/// A type with one level of members, each on a line of its own.
fn shown(module: &Facts<'_, '_>, ty: &Type) -> String {
    if let Some(signatures) = module.world.signatures(ty) {
        let lines = signatures.iter().map(ToString::to_string);
        return lines.collect::<Vec<_>>().join("\n");
    }
    let (fields, _) = module.world.fields(ty);
    if !module.world.is_spelled_out(ty) || fields.is_empty() {
        return ty.to_string();
    }
    let members = fields.iter().take(SHOWN).flat_map(|field| {
        let mark = if field.optional { "?" } else { "" };
        match module.world.signatures(&field.ty) {
            Some(signatures) => {
                let lines = signatures.iter();
                lines.map(|it| format!("  {}{it};", field.name)).collect()
            }
            None => vec![format!("  {}{mark}: {};", field.name, field.ty)],
        }
    });
    let mut lines: Vec<String> = members.collect();
    if fields.len() > SHOWN {
        lines.push(format!("  … {} more", fields.len() - SHOWN));
    }
    let head = match ty {
        Type::Object(_) => String::new(),
        named => format!("{named} "),
    };
    format!("{head}{{\n{}\n}}", lines.join("\n"))
}

/// Where the word before the cursor begins: behind the quote in a string, else where its letters
/// do.
fn begun(before: &str) -> usize {
    if let Some(quote) = Open::of(before).quote {
        return before.rfind(quote).map_or(before.len(), |at| at + 1);
    }
    let letter = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let letters = before.chars().rev().take_while(letter);
    before.len() - letters.map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests;
