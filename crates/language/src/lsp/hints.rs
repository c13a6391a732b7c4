// SPDX-License-Identifier: Apache-2.0
//! What an editor shows between the words: the names of parameters before literals, and the types
//! of constants that the API's calls give. Called by `more`, where TypeScript's service hasn't
//! answered.

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::span::GetSpan;

use super::cursor::{Named, named_at};
use super::project::Project;
use crate::check::{
    Called, ENVIRONMENT, Facts, FileId, Signature, constructors, signatures_of_call, symbol_type,
};
use crate::source::Span;

/// Longer types are cut.
const SHOWN: usize = 60;

/// A hint and where it is put.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// Before an argument.
    Parameter(u32, String),
    /// After a name.
    Type(u32, String),
}

/// The hints within a part of a module, in the order of the text. A text that doesn't parse has
/// none: hints that come and go with every key are of no use.
pub(super) fn hints(project: &Project, id: FileId, within: Span) -> Vec<Hint> {
    let Some(entry) = project.entry(id).filter(|entry| entry.is_sound()) else {
        return Vec::new();
    };
    let found = project.with(id, &entry.source, |module, _| {
        let mut hints = Vec::new();
        for node in module.tree.nodes {
            let span = node.kind().span();
            if span.end < within.start || within.end < span.start {
                continue;
            }
            match node.kind() {
                AstKind::CallExpression(it) if it.arguments.iter().any(is_literal) => {
                    let signatures = signatures_of_call(module, it).unwrap_or_default();
                    parameters(&signatures, &Called::of_call(it), &mut hints);
                }
                AstKind::NewExpression(it) if it.arguments.iter().any(is_literal) => {
                    let signatures = constructors(module, it).map(|(signatures, _)| signatures);
                    let signatures = signatures.unwrap_or_default();
                    parameters(&signatures, &Called::of_new(it), &mut hints);
                }
                AstKind::VariableDeclaration(it) if it.kind.is_const() => {
                    let types = it.declarations.iter();
                    hints.extend(types.filter_map(|it| constant(module, it)));
                }
                _ => {}
            }
        }
        hints
    });
    let place = |hint: &Hint| match hint {
        Hint::Parameter(at, _) | Hint::Type(at, _) => *at,
    };
    let mut found = found.unwrap_or_default();
    found.retain(|hint| within.start <= place(hint) && place(hint) <= within.end);
    found.sort_by_key(place);
    found
}

/// Whether an argument says nothing of what it is for.
fn is_literal(argument: &Argument<'_>) -> bool {
    match argument
        .as_expression()
        .map(Expression::get_inner_expression)
    {
        Some(Expression::UnaryExpression(it)) => it.argument.is_literal(),
        Some(Expression::TemplateLiteral(it)) => it.expressions.is_empty(),
        Some(other) => other.is_literal(),
        None => false,
    }
}

/// The names before literals: of overloads only where all that take so many arguments agree.
fn parameters(
    signatures: &[std::sync::Arc<Signature>],
    called: &Called<'_, '_>,
    hints: &mut Vec<Hint>,
) {
    let given = called.arguments.len();
    let fitting = |it: &&std::sync::Arc<Signature>| it.rest || given <= it.params.len();
    let fitting: Vec<_> = signatures.iter().filter(fitting).collect();
    let Some((first, others)) = fitting.split_first() else {
        return;
    };
    for (index, argument) in called.arguments.iter().enumerate() {
        if argument.is_spread() {
            return;
        }
        let name = |of: &Signature| {
            // What takes all that is left has one name for many.
            let is_rest = of.rest && index + 1 >= of.params.len();
            let name = of.params.get(index).filter(|_| !is_rest)?.name.to_string();
            (!name.is_empty()).then_some(name)
        };
        if let Some(shown) = name(first).filter(|_| is_literal(argument))
            && others.iter().all(|it| name(it).as_ref() == Some(&shown))
        {
            hints.push(Hint::Parameter(argument.span().start, format!("{shown}:")));
        }
    }
}

/// The type of a constant that a call of the API gives.
fn constant(module: &Facts<'_, '_>, variable: &VariableDeclarator<'_>) -> Option<Hint> {
    let BindingPattern::BindingIdentifier(name) = &variable.id else {
        return None;
    };
    if variable.type_annotation.is_some() {
        return None;
    }
    let call = match variable.init.as_ref()?.get_inner_expression() {
        Expression::AwaitExpression(it) => it.argument.get_inner_expression(),
        other => other,
    };
    let Expression::CallExpression(call) = call else {
        return None;
    };
    let Expression::StaticMemberExpression(callee) = call.callee.get_inner_expression() else {
        return None;
    };
    let Named::Member(method, _) = named_at(module, callee.property.span.start)? else {
        return None;
    };
    if method.file != ENVIRONMENT {
        return None;
    }
    let ty = symbol_type(module, name.symbol_id.get()?);
    if ty.is_any() {
        return None;
    }
    let mut text = ty.to_string();
    if let Some((cut, _)) = text.char_indices().nth(SHOWN) {
        text.truncate(cut);
        text.push('…');
    }
    Some(Hint::Type(name.span.end, format!(": {text}")))
}
