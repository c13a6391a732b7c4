// SPDX-License-Identifier: Apache-2.0
//! Source text to a syntax tree: the limits' scan, the parser, and what the language refuses by
//! name. Trees live in the caller's arena and are walked on a big stack (`stack`). Used by
//! `compile` and `program`, by the checker and by the editors' server; what a name refers to is
//! [`analyse`]'s.

use oxc::allocator::Allocator;
use oxc::ast::ast::Program;
use oxc::diagnostics::{OxcDiagnostic, Severity as Grade};
use oxc::parser::Parser;
use oxc::semantic::{Semantic, SemanticBuilder};
use oxc::span::SourceType;
use oxc::syntax::module_record::ModuleRecord;

use crate::finding::{Finding, Severity};
use crate::limits;
use crate::source::{Source, Span};
use crate::stack;

pub(crate) mod pragma;
mod refused;

/// A file's tree and what is wrong with its form.
pub struct Parsed<'a> {
    /// What was parsed.
    pub source: &'a Source,
    /// The tree; empty where `findings` say that nothing could be made of the text.
    pub program: Program<'a>,
    /// Imports and exports as they stand in the text.
    pub record: ModuleRecord<'a>,
    /// Passed limits, syntax errors, what the language refuses; in the text's order.
    pub findings: Vec<Finding>,
}

impl Parsed<'_> {
    /// Whether nothing is wrong with the form: the tree is the whole program.
    pub fn is_sound(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.severity != Severity::Error)
    }
}

/// What the parser reads: TypeScript without JSX, always a module.
pub fn source_type() -> SourceType {
    SourceType::ts().with_module(true)
}

/// Parses a file. Must run inside [`stack::on_big_stack`]; elsewhere a deep program would end the
/// process, so that there it is a finding.
pub fn parse<'a>(allocator: &'a Allocator, source: &'a Source) -> Parsed<'a> {
    if !stack::is_big() {
        return refuse(allocator, source, vec![no_stack(source)]);
    }
    let over = limits::scan(source);
    if !over.is_empty() {
        return refuse(allocator, source, over);
    }
    let parsed = Parser::new(allocator, source.text(), source_type()).parse();
    let mut findings = from_diagnostics(source, parsed.diagnostics.iter());
    if findings.is_empty() {
        findings = refused::look(source, &parsed.program);
        findings.extend(pragma::protected(source, &parsed.program).1);
    }
    Parsed {
        source,
        program: parsed.program,
        record: parsed.module_record,
        findings,
    }
}

/// The meaning of the names in a tree, and the errors of form that need it: names declared twice,
/// labels that aren't there, `await` out of place.
pub fn analyse<'a>(parsed: &'a Parsed<'a>) -> (Semantic<'a>, Vec<Finding>) {
    let built = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .with_build_nodes(true)
        .build(&parsed.program);
    let findings = from_diagnostics(parsed.source, built.diagnostics.iter());
    (built.semantic, findings)
}

/// The parser's words as findings.
pub(crate) fn from_diagnostics<'d>(
    source: &Source,
    diagnostics: impl Iterator<Item = &'d OxcDiagnostic>,
) -> Vec<Finding> {
    let mut findings: Vec<_> = diagnostics
        .map(|diagnostic| from_diagnostic(source, diagnostic))
        .collect();
    findings.sort_by_key(|finding| finding.span);
    findings
}

fn from_diagnostic(source: &Source, diagnostic: &OxcDiagnostic) -> Finding {
    let label = diagnostic.labels.first();
    let end = u32::try_from(source.text().len()).unwrap_or(u32::MAX);
    let span = label.map_or(Span::new(0, 0), |label| {
        let span = label.span();
        Span::new(span.start.min(end), span.end.min(end))
    });
    Finding {
        code: "syntax".into(),
        severity: match diagnostic.severity {
            Grade::Error => Severity::Error,
            Grade::Warning | Grade::Advice => Severity::Warning,
        },
        message: diagnostic.message.trim_end_matches('.').to_owned(),
        source: source.clone(),
        span,
        help: diagnostic.help.as_ref().map(ToString::to_string),
        fixes: Vec::new(),
    }
}

fn refuse<'a>(allocator: &'a Allocator, source: &'a Source, findings: Vec<Finding>) -> Parsed<'a> {
    let empty = Parser::new(allocator, "", source_type()).parse();
    Parsed {
        source,
        program: empty.program,
        record: empty.module_record,
        findings,
    }
}

fn no_stack(source: &Source) -> Finding {
    Finding {
        code: "limit".into(),
        severity: Severity::Error,
        message: "there is no room for the parser's stack".into(),
        source: source.clone(),
        span: Span::new(0, 0),
        help: Some("raise the limit on the process's memory (`ulimit -v`)".into()),
        fixes: Vec::new(),
    }
}
