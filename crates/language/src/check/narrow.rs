// SPDX-License-Identifier: Apache-2.0
//! Which places of a module the flow may have narrowed beyond taking members out of a union. Those
//! are compared, tested by `typeof`, `instanceof` or `in`, or handed to a function in a condition;
//! the checker takes them for any value, everywhere in the file. No flow analysis: a place that
//! isn't here has its declared type, or a part of it if that is a union.

use std::collections::HashSet;

use oxc::ast::AstKind;
use oxc::ast::ast::*;
use oxc::semantic::SymbolId;
use oxc::syntax::operator::{BinaryOperator, UnaryOperator};

use super::facts::{Facts, Narrowed, Path};
use super::names::is_global;
use super::symbols::symbol_type;
use super::types::Type;

/// The path of `a.b.c`, of `a?.b`, of `a!`; `None` for other expressions.
pub(crate) fn path(facts: &Facts<'_, '_>, expression: &Expression<'_>) -> Option<Path> {
    let mut names: Vec<&str> = Vec::new();
    let mut expression = expression.get_inner_expression();
    loop {
        match expression {
            Expression::Identifier(name) => {
                names.reverse();
                return Some((facts.symbols.of(name)?, names.join(".")));
            }
            Expression::StaticMemberExpression(member) => {
                names.push(member.property.name.as_str());
                expression = member.object.get_inner_expression();
            }
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::StaticMemberExpression(member) => {
                    names.push(member.property.name.as_str());
                    expression = member.object.get_inner_expression();
                }
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// All such places of a module.
pub(super) fn narrowed<'f>(facts: &'f Facts<'_, '_>) -> &'f Narrowed {
    facts.memo.narrowed.get_or_init(|| find(facts))
}

fn find(facts: &Facts<'_, '_>) -> Narrowed {
    let mut found = Narrowed::default();
    let mut handed: Vec<(Path, SymbolId)> = Vec::new();
    let mut add = |expression: &Expression<'_>| {
        if let Some((symbol, names)) = path(facts, expression) {
            found.names.insert(last_of(&names).to_owned());
            found.paths.insert((symbol, names));
        }
    };
    let mut places = HashSet::new();
    for node in facts.tree.nodes {
        match node.kind() {
            AstKind::BinaryExpression(binary) if narrows(binary) => {
                add(&binary.left);
                add(&binary.right);
                // `this.x` and `xs[0]` have no path: by what they are written as.
                for side in [&binary.left, &binary.right] {
                    places.extend(unnamed(facts, side));
                }
            }
            AstKind::UnaryExpression(unary) if unary.operator == UnaryOperator::Typeof => {
                add(&unary.argument);
            }
            AstKind::SwitchStatement(switch) => add(&switch.discriminant),
            AstKind::CallExpression(call) if in_condition(facts, node.id()) => {
                call.arguments
                    .iter()
                    .filter_map(Argument::as_expression)
                    .for_each(&mut add);
                // `this is T`, which is hardly ever written.
                if let Some(callee) = call.callee.get_member_expr()
                    && facts.tree.program.source_text.contains("this is ")
                {
                    add(callee.object());
                }
            }
            AstKind::CallExpression(call) => {
                let arguments = call.arguments.iter().filter_map(Argument::as_expression);
                match asserts(facts, call) {
                    Asserts::No => {}
                    Asserts::Yes => arguments.for_each(&mut add),
                    Asserts::If(imported) => {
                        let paths = arguments.filter_map(|argument| path(facts, argument));
                        handed.extend(paths.map(|path| (path, imported)));
                    }
                }
            }
            _ => {}
        }
    }
    found.places = places;
    for (path, imported) in handed {
        found.handed.entry(path).or_default().push(imported);
    }
    found
}

/// A place that begins with `this` or goes through an index, as it is written.
fn unnamed(facts: &Facts<'_, '_>, expression: &Expression<'_>) -> Option<String> {
    use oxc::span::GetSpan;
    let inner = expression.get_inner_expression();
    let place = matches!(
        inner,
        Expression::StaticMemberExpression(_) | Expression::ComputedMemberExpression(_)
    );
    if !place || path(facts, inner).is_some() {
        return None;
    }
    facts.tree.written(inner.span()).map(str::to_owned)
}

fn last_of(names: &str) -> &str {
    names.rsplit('.').next().unwrap_or_default()
}

/// Whether the flow may have made a place's type another than the declared one.
pub(crate) fn is_narrowed(facts: &Facts<'_, '_>, path: &Path) -> bool {
    let narrowed = narrowed(facts);
    let handed = || narrowed.handed.get(path).into_iter().flatten();
    narrowed.paths.contains(path) || handed().any(|imported| predicates(facts, *imported))
}

/// Whether that may hold for a place that has no path.
pub(crate) fn is_narrowed_place(facts: &Facts<'_, '_>, expression: &Expression<'_>) -> bool {
    let places = &narrowed(facts).places;
    !places.is_empty() && unnamed(facts, expression).is_some_and(|it| places.contains(&it))
}

/// Whether that may hold for a member of this name.
pub(crate) fn is_narrowed_name(facts: &Facts<'_, '_>, name: &str) -> bool {
    let narrowed = narrowed(facts);
    let handed = narrowed.handed.iter();
    let mut handed = handed.filter(|((_, names), _)| last_of(names) == name);
    narrowed.names.contains(name)
        || handed.any(|(_, to)| to.iter().any(|imported| predicates(facts, *imported)))
}

/// Exports of other modules keep whether they narrow.
fn predicates(facts: &Facts<'_, '_>, imported: SymbolId) -> bool {
    match symbol_type(facts, imported) {
        Type::Object(shape) => shape.calls.iter().any(|call| call.predicate),
        _ => false,
    }
}

fn narrows(binary: &BinaryExpression<'_>) -> bool {
    match binary.operator {
        BinaryOperator::In | BinaryOperator::Instanceof => true,
        BinaryOperator::Equality
        | BinaryOperator::Inequality
        | BinaryOperator::StrictEquality
        | BinaryOperator::StrictInequality => {
            !binary.left.is_null_or_undefined() && !binary.right.is_null_or_undefined()
        }
        _ => false,
    }
}

/// Whether a call's result decides something, so that the call may be a test of its arguments.
fn in_condition(facts: &Facts<'_, '_>, node: oxc::semantic::NodeId) -> bool {
    let mut below = facts.tree.nodes.get_node(node).kind();
    for kind in facts.tree.nodes.ancestor_kinds(node) {
        match kind {
            AstKind::UnaryExpression(_)
            | AstKind::LogicalExpression(_)
            | AstKind::ParenthesizedExpression(_)
            | AstKind::ChainExpression(_) => below = kind,
            AstKind::IfStatement(it) => return same(&it.test, below),
            AstKind::ConditionalExpression(it) => return same(&it.test, below),
            AstKind::WhileStatement(_)
            | AstKind::DoWhileStatement(_)
            | AstKind::ForStatement(_)
            | AstKind::VariableDeclarator(_) => {
                return !matches!(below, AstKind::CallExpression(_))
                    || !matches!(kind, AstKind::VariableDeclarator(_));
            }
            _ => return matches!(below, AstKind::LogicalExpression(_)),
        }
    }
    false
}

fn same(test: &Expression<'_>, below: AstKind<'_>) -> bool {
    use oxc::span::GetSpan;
    test.span() == below.span()
}

/// Whether a function asserts something of its arguments.
enum Asserts {
    No,
    Yes,
    /// If the imported function does.
    If(SymbolId),
}

/// Whether a member is one of a global's, none of which asserts anything.
fn of_globals(facts: &Facts<'_, '_>, member: &StaticMemberExpression<'_>) -> bool {
    let mut object = member.object.get_inner_expression();
    while let Expression::StaticMemberExpression(member) = object {
        object = member.object.get_inner_expression();
    }
    matches!(object, Expression::Identifier(name) if is_global(facts, name))
}

/// Whether the function called is declared with `asserts`.
fn asserts(facts: &Facts<'_, '_>, call: &CallExpression<'_>) -> Asserts {
    // Of a member nothing is known before types are: it may assert.
    let name = match call.callee.get_inner_expression() {
        Expression::Identifier(name) => name,
        Expression::StaticMemberExpression(member) => {
            return match facts.tree.program.source_text.contains("asserts ")
                && !of_globals(facts, member)
            {
                true => Asserts::Yes,
                false => Asserts::No,
            };
        }
        _ => return Asserts::No,
    };
    let Some(symbol) = facts.symbols.of(name) else {
        return Asserts::No;
    };
    if facts.symbols.imported(symbol).is_some() {
        return Asserts::If(symbol);
    }
    let returns = match facts.symbols.declaration(symbol) {
        AstKind::Function(function) => function.return_type.as_deref(),
        AstKind::VariableDeclarator(variable) => match &variable.init {
            Some(Expression::ArrowFunctionExpression(arrow)) if arrow.r#async => {
                return Asserts::No;
            }
            Some(Expression::ArrowFunctionExpression(arrow)) => arrow.return_type.as_deref(),
            _ => return Asserts::Yes,
        },
        _ => return Asserts::Yes,
    };
    match returns.map(|it| &it.type_annotation) {
        Some(TSType::TSTypePredicate(_)) => Asserts::Yes,
        _ => Asserts::No,
    }
}
