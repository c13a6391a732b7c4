// SPDX-License-Identifier: Apache-2.0
//! What a program tells the checker of itself: comments that tell it off a line, members that it
//! adds to the library's interfaces and to its own functions.

use std::collections::HashSet;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::SymbolId;

use super::facts::Facts;
use super::report::Report;
use super::types::Type;

/// Comments after which the next line is let be, as TypeScript's compiler does.
const TOLD_OFF: [&str; 2] = ["@ts-expect-error", "@ts-ignore"];

/// The interfaces that `declare global` adds to.
fn augmented(program: &Program<'_>) -> HashSet<String> {
    let mut names = HashSet::new();
    for statement in &program.body {
        let Statement::TSGlobalDeclaration(global) = statement else {
            continue;
        };
        for inner in &global.body.body {
            if let Statement::TSInterfaceDeclaration(interface) = inner {
                names.insert(interface.id.name.to_string());
            }
        }
    }
    names
}

/// Whether the program adds members to what has this type.
pub(crate) fn is_augmented(facts: &Facts<'_, '_>, ty: &Type) -> bool {
    let found = facts
        .memo
        .augmented
        .get_or_init(|| augmented(facts.tree.program));
    if found.is_empty() {
        return false;
    }
    let of = |name: &str| found.contains(name) || found.contains("Object");
    match ty {
        Type::Array(_) | Type::Tuple(_) => of("Array"),
        Type::String | Type::StringLiteral(_) | Type::Template => of("String"),
        Type::Number | Type::NumberLiteral(_) => of("Number"),
        Type::Boolean | Type::BooleanLiteral(_) => of("Boolean"),
        Type::BigInt => of("BigInt"),
        Type::Named(name, _) => of(&name.name),
        Type::Union(members) => members.iter().any(|member| is_augmented(facts, member)),
        Type::ClassOf(_) => of("Function"),
        Type::Object(shape) => !shape.calls.is_empty() && of("Function") || of("Object"),
        _ => false,
    }
}

/// Whether the program puts members on its own function: `f.calls = 0`.
pub(crate) fn has_expandos(facts: &Facts<'_, '_>, symbol: SymbolId) -> bool {
    let found = facts.memo.expandos.get_or_init(|| assigned_to(facts));
    let is_function = || match facts.symbols.declaration(symbol) {
        AstKind::Function(_) => true,
        AstKind::VariableDeclarator(variable) => matches!(
            &variable.init,
            Some(Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_))
        ),
        _ => false,
    };
    found.contains(&symbol) && is_function()
}

/// What has members assigned to.
fn assigned_to(facts: &Facts<'_, '_>) -> HashSet<SymbolId> {
    let assigned = facts.tree.nodes.iter().filter_map(|node| {
        let AstKind::AssignmentExpression(it) = node.kind() else {
            return None;
        };
        let AssignmentTarget::StaticMemberExpression(member) = &it.left else {
            return None;
        };
        match &member.object {
            Expression::Identifier(name) => facts.symbols.of(name),
            _ => None,
        }
    });
    assigned.collect()
}

/// Takes out what is told off: whatever is on the line after such a comment.
pub(crate) fn unless_told_off(facts: &Facts<'_, '_>, out: &mut Vec<Report>) {
    let text = facts.tree.program.source_text;
    let comments = facts.tree.program.comments.iter().filter(|comment| {
        let span = comment.content_span();
        let inner = text.get(span.start as usize..span.end as usize);
        // Of a comment of several lines the last counts.
        let inner = inner.and_then(|it| it.lines().last());
        let inner = inner.map(|it| it.trim_start_matches(['/', '*', ' ', '\t']));
        inner.is_some_and(|it| TOLD_OFF.iter().any(|word| it.starts_with(word)))
    });
    let lines: HashSet<usize> = comments
        .map(|comment| next_line(text, comment.span.end as usize))
        .collect();
    if lines.is_empty() {
        return;
    }
    let line_of = |offset: u32| line(text, offset as usize);
    out.retain(|report| {
        !lines.contains(&line_of(report.anchor.start)) && !lines.contains(&line_of(report.at.start))
    });
}

fn line(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before.iter().filter(|byte| **byte == b'\n').count()
}

/// The line that a comment which ends there is about: the next that is neither blank nor a comment.
fn next_line(text: &str, end: usize) -> usize {
    let mut at = line(text, end);
    for line in text.lines().skip(at + 1) {
        at += 1;
        let line = line.trim_start();
        if !line.is_empty() && !line.starts_with("//") {
            break;
        }
    }
    at
}
