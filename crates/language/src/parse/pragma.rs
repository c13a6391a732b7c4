// SPDX-License-Identifier: Apache-2.0
//! `// aurae: protect` on a line of its own: the workloads that are made (`new Cell(…)`) by what
//! stands below it are protected, as by `protect: true`. One that is above no such thing, or says
//! something else, is a finding: it would protect nothing. Found here, done by `compile`.

use std::collections::BTreeSet;

use oxc::ast::ast::{
    ArrayExpressionElement, Comment, Expression, NewExpression, ObjectPropertyKind, Program,
    Statement,
};
use oxc::ast_visit::{Visit, walk};
use oxc::span::{GetSpan, Span};

use crate::finding::{Finding, Severity};
use crate::prelude;
use crate::source::{self, Source};

const MARK: &str = "aurae:";
const PROTECT: &str = "protect";

/// Where the protected workloads' `new` begin, and what is wrong with such comments.
pub(crate) fn protected(source: &Source, program: &Program<'_>) -> (BTreeSet<u32>, Vec<Finding>) {
    let is_ours = |comment: &&Comment| said(source, comment).is_some();
    let comments: Vec<&Comment> = program.comments.iter().filter(is_ours).collect();
    if comments.is_empty() {
        return Default::default();
    }
    let mut below = Below {
        classes: prelude::workloads().collect(),
        begins: comments.iter().map(|one| one.attached_to).collect(),
        open: None,
        found: BTreeSet::new(),
        useful: BTreeSet::new(),
    };
    below.visit_program(program);
    let mut findings = Vec::new();
    for comment in comments {
        let word = said(source, comment).unwrap_or_default();
        let message = match word {
            PROTECT if below.useful.contains(&comment.attached_to) => continue,
            PROTECT => "`// aurae: protect` stands above nothing that makes a workload".to_owned(),
            other => format!("`// aurae: {other}` is none of this language's comments"),
        };
        findings.push(Finding {
            code: "comment".into(),
            severity: Severity::Error,
            message,
            source: source.clone(),
            span: source::Span::new(comment.span.start, comment.span.end),
            help: Some("put `// aurae: protect` right above a `new Cell({ … })`".into()),
            fixes: Vec::new(),
        });
    }
    (below.found, findings)
}

/// What such a comment says.
fn said<'s>(source: &'s Source, comment: &Comment) -> Option<&'s str> {
    let of = comment.content_span();
    let alone = comment.is_line() && comment.is_leading();
    let text = source.text().get(of.start as usize..of.end as usize)?;
    let text = text.trim_start().strip_prefix(MARK)?;
    alone.then(|| text.trim())
}

/// Looks for the outermost thing that begins below each comment.
struct Below<'s> {
    classes: Vec<&'s str>,
    begins: BTreeSet<u32>,
    /// The comment's token, while what is below it is looked at.
    open: Option<u32>,
    found: BTreeSet<u32>,
    useful: BTreeSet<u32>,
}

impl Below<'_> {
    fn within(&mut self, span: Span, look: impl FnOnce(&mut Self)) {
        let outer = self.open;
        if self.begins.contains(&span.start) && outer != Some(span.start) {
            self.open = Some(span.start);
        }
        look(self);
        self.open = outer;
    }
}

impl<'a> Visit<'a> for Below<'_> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        self.within(it.span(), |below| walk::walk_statement(below, it));
    }

    fn visit_expression(&mut self, it: &Expression<'a>) {
        self.within(it.span(), |below| walk::walk_expression(below, it));
    }

    fn visit_array_expression_element(&mut self, it: &ArrayExpressionElement<'a>) {
        self.within(it.span(), |below| {
            walk::walk_array_expression_element(below, it)
        });
    }

    fn visit_object_property_kind(&mut self, it: &ObjectPropertyKind<'a>) {
        self.within(it.span(), |below| {
            walk::walk_object_property_kind(below, it)
        });
    }

    fn visit_new_expression(&mut self, it: &NewExpression<'a>) {
        let class = match &it.callee {
            Expression::Identifier(name) => name.name.as_str(),
            _ => "",
        };
        if let Some(at) = self.open
            && self.classes.contains(&class)
        {
            self.found.insert(it.span.start);
            self.useful.insert(at);
        }
        walk::walk_new_expression(self, it);
    }
}
